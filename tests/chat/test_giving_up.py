"""A Ctrl-C while a prompt is written: what the person is told is what the log has."""

import io

import pytest
from rich.console import Console

import backstory
from backstory.chat.consent import Consent
from backstory.chat.session import Chat
from backstory.chat.shutdown import Shutdown
from backstory.chat.terminal import Terminal
from backstory.errors import StorageError
from backstory.runtime.tools import working_tools
from tests.runtime.acting import Actor


@pytest.fixture
def terminal():
    console = Console(file=io.StringIO())
    store = backstory.open(":memory:")
    chat = Chat(store, store.start("main"), Actor())
    consent = Consent(console, input, input, yes=False)
    return Terminal(
        chat,
        console,
        consent,
        choose=Actor,
        run_command=lambda store, words: None,
        leaving=Shutdown(),
    )


def test_before_it_is_written_the_text_is_in_the_editor_again(terminal, monkeypatch):
    def held_up(text, **seen):
        raise KeyboardInterrupt

    monkeypatch.setattr(terminal.chat, "say", held_up)
    with pytest.raises(KeyboardInterrupt):
        terminal._send("Hello")
    assert terminal.typed == "Hello"
    assert terminal._hint.startswith("nothing was sent")


def test_just_after_it_was_written_nobody_says_that_it_was_not(terminal, monkeypatch):
    say = terminal.chat.say

    def written(text, **seen):
        say(text, **seen)
        raise KeyboardInterrupt

    monkeypatch.setattr(terminal.chat, "say", written)
    with pytest.raises(KeyboardInterrupt):
        terminal._send("Hello")
    assert terminal.typed == ""
    assert terminal._hint == "stopped; /retry asks again"
    assert "Hello" in terminal.output.console.file.getvalue()
    terminal.context.catch_up()
    assert "someone else" not in terminal.output.console.file.getvalue()


@pytest.fixture
def with_shell(terminal, tmp_path):
    terminal.chat.loop.tools = working_tools(tmp_path)
    return terminal


def test_what_a_command_said_is_to_be_read_if_the_store_does_not_take_it(with_shell, monkeypatch):
    def full(*_, **__):
        raise StorageError("the disk is full")

    monkeypatch.setattr(type(with_shell.chat.agent), "user", full)
    with pytest.raises(StorageError):
        with_shell._run_shell("!echo precious")
    shown = with_shell.output.console.file.getvalue()
    assert "precious" in shown
    assert "this could not be recorded" in shown


def test_a_stop_just_after_a_command_was_written_does_not_say_that_it_was_not(
    with_shell, monkeypatch
):
    user = type(with_shell.chat.agent).user

    def written(*arguments, **options):
        user(*arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(type(with_shell.chat.agent), "user", written)
    with pytest.raises(KeyboardInterrupt):
        with_shell._run_shell("!echo precious")
    assert with_shell._hint == ""
    assert "precious" in with_shell.output.console.file.getvalue()
