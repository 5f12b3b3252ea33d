"""Files that a prompt names: what goes along, what does not, and what is offered to complete a path."""

import base64

import pytest

import backstory
from backstory.chat import mentions

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)


@pytest.fixture
def agent():
    with backstory.open(":memory:") as store:
        yield store.start("main", system="s")


def test_the_text_of_a_file_goes_along_and_the_typed_text_is_kept(agent, folder):
    event = mentions.write(agent, mentions.read("What is in @a.py, and who is @someone?", folder))
    assert event.content == (
        "What is in @a.py, and who is @someone?\n\n<file path=\"a.py\">\nprint('a')\n</file>"
    )
    assert mentions.read_typed_text(event) == "What is in @a.py, and who is @someone?"
    assert (event.data or {})["attached"] == ["a.py"]


@pytest.mark.parametrize(
    "text",
    ["mail me@a.py", "@nothing.py", "@", "plain", "@" + "x" * 5000, "@a\0b", "@~nosuchuser/x"],
)
def test_what_names_no_file_stays_as_it_is(folder, text):
    assert mentions.read(text, folder) == (text, [], [], None)


def test_a_name_with_blanks_is_quoted_and_a_file_that_is_named_twice_goes_once(agent, folder):
    (folder / "my notes.md").write_text("hello")
    event = mentions.write(
        agent, mentions.read('Compare @"my notes.md" with @"my notes.md"!', folder)
    )
    assert (event.content or "").count("<file") == 1


def test_only_what_was_typed_names_files(folder):
    assert mentions.read("+ @a.py\n\nIs it right?", folder, typed="Is it right?").data is None


@pytest.mark.parametrize("typed", ["@.env", "@link.txt", "@~/.ssh/id_rsa"])
def test_a_file_that_may_hold_secrets_is_refused(folder, tmp_path, monkeypatch, typed):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_rsa").write_text("secret")
    (folder / ".env").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / ".ssh" / "id_rsa")
    with pytest.raises(backstory.Invalid, match="may hold secrets"):
        mentions.read(f"See {typed}", folder)


def test_the_instructions_of_a_project_may_be_sent(folder):
    (folder / "AGENTS.md").write_text("Be brief.")
    assert "Be brief." in mentions.read("See @AGENTS.md", folder).text


def test_an_image_is_sent_as_an_image(agent, folder):
    (folder / "photo.png").write_bytes(PNG)
    mentions.write(agent, mentions.read("What is this? @photo.png", folder))
    body = agent.conversation().to("openai", model="gpt-4o")
    parts = body["messages"][-1]["content"]
    assert [part["type"] for part in parts] == ["text", "image_url"]


def test_what_cannot_be_sent_is_refused_and_nothing_is_written(agent, folder):
    (folder / "large.txt").write_bytes(b"x" * 300_000)
    (folder / "noise.bin").write_bytes(b"\xff\xfe\x00")
    (folder / "fake.png").write_text("this is no image")
    for name, says in [
        ("large.txt", "too large"),
        ("noise.bin", "is not text"),
        ("fake.png", "not an image"),
    ]:
        with pytest.raises(backstory.Invalid, match=says):
            mentions.write(agent, mentions.read(f"See @{name}", folder))
    with pytest.raises(backstory.Invalid, match="gone is not a file"):
        mentions.read("x", folder, ["gone"])
    assert agent.head == 1


def test_paths_are_completed_and_hidden_ones_only_if_asked_for(folder):
    (folder / ".hidden").write_text("")
    (folder / "src").mkdir()
    (folder / "src" / "deep.py").write_text("")
    assert mentions.complete_path("", folder) == ["a.py", "b.py", "notes.md", "src/"]
    assert mentions.complete_path("src/d", folder) == ["src/deep.py"]
    assert mentions.complete_path(".h", folder) == [".hidden"]
    assert mentions.complete_path("gone/x", folder) == []


def test_a_path_with_blanks_is_completed_in_quotes(folder):
    (folder / "my files").mkdir()
    (folder / "my files" / "a b.md").write_text("x")
    assert mentions.complete_path("my", folder) == ['"my files/']
    assert mentions.complete_path('"my files/', folder) == ['"my files/a b.md"']
