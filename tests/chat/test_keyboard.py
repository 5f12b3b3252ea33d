"""Keys as people know them from other tools: Esc stops, Ctrl-C twice leaves, ! runs a command."""

import io
import os
import pty
import signal
import sys
import termios
import threading
from contextvars import copy_context

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.output.plain_text import PlainTextOutput
from rich.console import Console

import backstory
from backstory.chat import keyboard
from backstory.chat.answer_view import AnswerView
from backstory.chat.editor import Editor
from backstory.chat.shell import OUTPUT
from tests.chat.screen import contents, edited, page_of, prompts_on
from tests.chat.test_mentions import PNG
from tests.processes import wait_until
from tests.runtime.scripted import Say, scripted


def test_escape_stops_an_answer_and_what_was_typed_meanwhile_is_in_the_editor(start, reopened):
    with scripted(Say("This is the beginning", held=True), Say("Fine.")) as server:
        terminal = start(server)
        terminal.send("Tell me")
        terminal.wait("beginning")
        terminal.type("netd\x1b[D\x1b[Dx\x1b[C\x1b[3~")  # arrows begin with an escape, too
        terminal.type("\x1b")
        terminal.wait("interrupted: stopped by the person")
        terminal.wait(lambda text: edited(text) == "next")
        assert contents(reopened())[-1] == "This is the beginning"
        terminal.enter()
        terminal.answered("Fine.")
        assert terminal.leave() == 0


class Waiting(keyboard.Keyboard):
    """Says when it waits for what may follow an escape."""

    def __init__(self):
        super().__init__()
        self.waits = threading.Event()

    def _ready(self, seconds=None):
        if seconds is not None:
            self.waits.set()
        return super()._ready(seconds)


def test_an_escape_as_the_answer_ends_stops_nothing_and_the_terminal_is_as_it_was(monkeypatch):
    interrupts = []
    monkeypatch.setattr(keyboard, "_interrupt", lambda: interrupts.append(1))
    monkeypatch.setattr(keyboard, "REST_WITHIN", 60)
    handed = []
    monkeypatch.setattr(keyboard, "hand_over", handed.append)
    master, slave = pty.openpty()
    with open(slave) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        before = termios.tcgetattr(slave)
        keys = Waiting()
        keys.start()
        os.write(master, b"next\x1b")
        assert keys.waits.wait(60)
        keys.stop()
        assert (interrupts, handed) == ([], ["next"])
        assert termios.tcgetattr(slave) == before
    os.close(master)


@pytest.fixture
def edited_while():
    """Edits on a pseudo-terminal, while a function runs with the editor, its keyboard and its terminal."""
    keys, slave = pty.openpty()
    output = io.StringIO()

    def edited_while(beside):
        with (
            open(slave) as terminal,
            create_app_session(Vt100Input(terminal), PlainTextOutput(output)),
        ):
            editor = Editor([], lambda _: [], lambda _: [], lambda: "status")

            def when_open():
                wait_until(lambda: "status" in output.getvalue())
                beside(editor, keys, slave)

            threading.Thread(target=copy_context().run, args=(when_open,)).start()
            return editor.read()

    yield edited_while
    os.close(keys)


def test_what_is_typed_while_something_is_drawn_above_the_editor_is_not_echoed(edited_while):
    echoes = []

    def beside(editor, keys, terminal):
        def draw():
            echoes.append(termios.tcgetattr(terminal)[3] & termios.ECHO)
            os.write(keys, b"typed\r")

        editor.run_above(draw)

    assert edited_while(beside) == "typed"
    assert echoes == [0]


def test_nothing_is_drawn_over_the_external_editor(edited_while, tmp_path, monkeypatch):
    program = tmp_path / "editor"
    program.write_text(
        f"#!/bin/sh\ncd {tmp_path}; touch opened; until [ -e go ]; do sleep 0.02; done; touch closed\n"
    )
    program.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(program))
    closed = []

    def beside(editor, keys, _):
        def draw():
            closed.append((tmp_path / "closed").exists())
            os.write(keys, b"\r")

        os.write(keys, b"draft\x18\x05")
        wait_until((tmp_path / "opened").exists)
        editor.run_above(draw)
        threading.Event().wait(0.1)  # in which a wrong editor would draw
        (tmp_path / "go").touch()

    assert edited_while(beside) == "draft"
    assert closed == [True]


def test_ctrl_c_while_the_keyboard_is_handed_back_comes_after_it(monkeypatch):
    console = Console(file=io.StringIO())
    view = AnswerView(console, backstory.open(":memory:").start("main"), after=0)
    stopped = []

    def stop():
        signal.raise_signal(signal.SIGINT)
        stopped.append("keyboard")

    monkeypatch.setattr(view._keyboard, "stop", stop)
    monkeypatch.setattr(view._region, "stop", lambda: stopped.append("region"))
    with pytest.raises(KeyboardInterrupt):
        view.pause()
    assert stopped == ["keyboard", "region"]


def test_a_second_ctrl_c_in_an_empty_editor_leaves(start):
    with scripted() as server:
        terminal = start(server)
        terminal.ready()
        terminal.type("half a thought")
        terminal.wait(lambda text: edited(text) == "half a thought")
        terminal.type("\x03")
        terminal.wait(lambda text: terminal.is_open() and edited(text) == "")
        terminal.ready()
        terminal.type("\x03")
        terminal.wait("press Ctrl-C again to leave")
        terminal.ready()
        terminal.type("\x03")
        assert terminal.ended() == 0


def test_an_exclamation_mark_runs_a_command_that_the_model_reads_with_the_next_prompt(
    start, reopened
):
    with scripted(Say("Two files."), Say("None.")) as server:
        terminal = start(server)
        terminal.send("!ls *.py; for n in 1 2 3; do echo line $n; done; exit 4")
        shown = terminal.answered("more lines: Ctrl-O or /show")
        assert "    a.py\n    b.py\n    line 1\n" in shown
        assert "this got no answer" not in shown
        terminal.send("How many?")
        terminal.answered("Two files.")
        ran = next(text for role, text in server.said() if "I ran this command" in text)
        assert ran.startswith("I ran this command:\n\n$ ls *.py; for")
        assert ran.endswith("line 3\n[exit code 4]")
        assert server.refused == []
        [event] = [event for event in reopened().context().messages if OUTPUT in (event.data or {})]
        assert event.data["typed"].startswith("!ls *.py")
        terminal.send("/undo")
        terminal.wait("undone")
        terminal.send("/undo")
        terminal.wait(lambda text: "I ran" not in text and prompts_on(page_of(text)) == [])
        terminal.send("Which files?")
        terminal.answered("None.")
        assert [text for role, text in server.said() if role == "user"] == ["Which files?"]


def test_a_command_that_is_stopped_is_not_recorded(start, reopened):
    with scripted() as server:
        terminal = start(server)
        terminal.send("!sleep 600")
        terminal.wait("running sleep 600, ")
        terminal.type("\x1b")
        terminal.wait("stopped; nothing was recorded")
        terminal.ready()
        terminal.send("!")
        terminal.wait("✗ which command? !COMMAND runs one")
        assert contents(reopened())[1:] == []
        assert terminal.leave() == 0


def test_a_pasted_image_goes_along_and_a_path_with_blanks_is_completed(start, folder):
    (folder / "my photo.png").write_bytes(PNG)
    with scripted(Say("A dot."), Say("Two.")) as server:
        terminal = start(server)
        terminal.ready()
        terminal.type("What is \x1b[200~'my photo.png'\x1b[201~on it?")
        terminal.wait('What is @"my photo.png" on it?')
        terminal.enter()
        terminal.answered("A dot.")
        assert [part["type"] for part in server.last["messages"][-1]["content"]] == [
            "text",
            "image_url",
        ]
        terminal.type("And @my\t")
        terminal.wait('> And @"my photo.png"')
        terminal.enter()
        terminal.answered("Two.")
        assert terminal.leave() == 0


def test_a_new_session_can_be_started_and_the_names_of_other_tools_are_known(start, reopened):
    with scripted(Say("Hi."), Say("Hello.")) as server:
        terminal = start(server)
        terminal.send("One")
        terminal.answered("Hi.")
        terminal.send("/new")
        terminal.wait("a new session, 'main-2'; /switch main goes back")
        terminal.send("Two")
        terminal.answered("Hello.")
        assert [text for role, text in server.said() if role == "user"] == ["Two"]
        assert reopened("main-2").about["cwd"] == reopened("main").about["cwd"]
        terminal.send("/exit")
        assert terminal.ended() == 0
