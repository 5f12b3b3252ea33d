"""The folder of a chat: which session is its latest, what its files say, and what is recorded."""

from pathlib import Path

import pytest

import backstory
from backstory.chat import project
from backstory.chat.session import Chat, first_agent
from tests.runtime.acting import Actor


@pytest.fixture
def store():
    with backstory.open(":memory:") as store:
        yield store


def test_the_latest_session_of_the_folder_goes_on_and_not_the_latest_of_all(store):
    here, there = Path("/here"), Path("/there")
    mine, other = store.start("mine"), store.start("other")
    mine.describe(cwd=str(here))
    other.describe(cwd=str(there))
    idea = mine.fork("idea")
    idea.user("x")
    other.user("y")
    assert first_agent(store, None, here) == idea
    assert first_agent(store, None, there) == other
    assert first_agent(store, None, Path("/elsewhere")).name == "main"


def test_a_session_that_knows_no_folder_belongs_to_all_until_a_chat_goes_on_in_it(store, tmp_path):
    agent = store.start("old", system="s")
    assert project.latest_agent(store, tmp_path) == agent
    Chat(store, agent, Actor(), folder=tmp_path)
    assert project.latest_agent(store, tmp_path) == agent
    assert project.latest_agent(store, tmp_path.parent) is None


def test_what_another_tool_began_is_continued_only_by_name_until_the_chat_wrote_to_it(
    store, tmp_path
):
    agent = store.start("imported", system="s")
    agent.describe(cwd=str(tmp_path), source="claude-code")
    assert project.latest_agent(store, tmp_path) is None
    Chat(store, agent, Actor(), folder=tmp_path)
    assert project.latest_agent(store, tmp_path) == agent


def test_the_folder_of_a_fork_is_its_sessions(store, tmp_path):
    main = store.start("main", system="s")
    chat = Chat(store, main.fork("idea"), Actor(), folder=tmp_path)
    assert chat.root.about["cwd"] == str(tmp_path)
    assert set(chat.root.about["chat"]) == {"host", "version"}
    assert chat.root == main


def test_instructions_are_read_from_the_repository_down_to_the_folder(tmp_path):
    folder = tmp_path / "repo" / "part"
    folder.mkdir(parents=True)
    (tmp_path / "AGENTS.md").write_text("not of this repository")
    (tmp_path / "repo" / ".git").mkdir()
    (tmp_path / "repo" / "CLAUDE.md").write_text("outer")
    (folder / "AGENTS.md").write_text("inner")
    (folder / "CLAUDE.md").write_text("the same for one tool")
    found = project.instructions(folder)
    assert found is not None
    assert [Path(file).name for file in found.files] == ["CLAUDE.md", "AGENTS.md"]
    assert found.text.index("outer") < found.text.index("inner")
    assert "not of this" not in found.text
    assert "for one tool" not in found.text


def test_outside_of_a_repository_only_the_folders_own_instructions_count(tmp_path):
    (tmp_path / "AGENTS.md").write_text("above")
    folder = tmp_path / "plain"
    folder.mkdir()
    assert project.instructions(folder) is None


def test_instructions_of_any_size_and_bytes_are_a_message(tmp_path, store):
    (tmp_path / "AGENTS.md").write_bytes(b"\xff\0" + b"x" * 10_000_000)
    found = project.instructions(tmp_path)
    assert found is not None
    assert len(found.text) < 2 * project.MOST_INSTRUCTIONS
    assert "only the first 64,000 bytes" in found.text
    store.start("main").extend([found.event])


def test_instructions_are_recorded_with_a_new_session_and_a_change_is_noticed(store, tmp_path):
    (tmp_path / "AGENTS.md").write_text("Be brief.")
    agent = store.start("main")
    chat = Chat(store, agent, Actor(), folder=tmp_path)
    assert [event.kind for event in agent.context().messages] == ["system", "system"]
    assert "Be brief." in (agent.context().messages[1].content or "")
    assert not chat.has_new_instructions()

    (tmp_path / "AGENTS.md").write_text("Be long.")
    again = Chat(store, agent, Actor(), folder=tmp_path)
    assert again.has_new_instructions()
    assert agent.head == 3


def test_a_list_of_sessions_has_titles_or_first_prompts(store, tmp_path):
    for title, prompt, folder in (
        ("Garden plan", "x", tmp_path),
        (None, "Which trees?", tmp_path),
        (None, "Else", Path("/else")),
    ):
        agent = store.start("main", system="s")
        agent.user(prompt)
        agent.describe(title=title, cwd=str(folder))
    rows = project.session_rows(store, tmp_path)
    assert [(row.title, row.is_here) for row in rows] == [
        ("Else", False),
        ("Which trees?", True),
        ("Garden plan", True),
    ]


def test_a_session_in_which_nobody_said_anything_is_not_offered(tmp_path):
    with backstory.open(":memory:") as store:
        Chat(store, store.start("empty"), Actor(), folder=tmp_path)
        used = Chat(store, store.start("used"), Actor(), folder=tmp_path)
        used.agent.user("Hello")
        named = store.start("named")
        named.describe(title="For later")
        assert [row.title for row in project.session_rows(store, tmp_path)] == [
            "For later",
            "Hello",
        ]
