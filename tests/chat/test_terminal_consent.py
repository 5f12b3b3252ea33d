"""Consent in the real program: what a person is asked, sees, and answers."""

import json
import time

import pytest

from backstory.chat.screen import QUIET_SECONDS
from tests.chat.screen import edited
from tests.runtime.scripted import Say, scripted


def call(name, **arguments):
    return Say(calls=((f"call_{name}", name, json.dumps(arguments)),))


def wait_for_question(terminal):
    """Wait until an answer is read, and return the lines from the call on."""
    text = terminal.wait(lambda text: edited(text).endswith("why not)"))
    return [line.strip() for line in text.rpartition("● ")[2].strip().split("\n")]


def answer(terminal, text):
    wait_for_question(terminal)
    terminal.type(f"{text}\r")


def test_typing_ahead_answers_no_question(start, folder):
    """S1: the a of "at" was read as "always", and the command ran."""
    slow = Say("thinking", calls=(("c1", "bash", '{"command": "touch ran"}'),), held=True)
    with scripted(slow, Say("No, then.")) as server:
        terminal = start(server)
        terminal.send("Go")
        terminal.wait("thinking")
        pauses = []
        before = time.monotonic()
        for key in "look at this again: yes":
            terminal.type(key)
            pauses.append(time.monotonic() - before)
            before = time.monotonic()
            time.sleep(1 / 12)  # the speed of a person
            if key == "t":
                server.release()
        if max(pauses) > QUIET_SECONDS / 2:
            pytest.skip("on this machine, nobody can type as fast as a person")
        wait_for_question(terminal)
        assert not (folder / "ran").exists()
        terminal.type("\r")
        terminal.answered("No, then.")
        assert not (folder / "ran").exists()
        terminal.wait(lambda text: edited(text) == "look at this again: yes")
        assert ("tool", "not run: the user said no") in server.said()


@pytest.mark.parametrize("typed", ["a", "x", "yes please", "too dangerous"])
def test_any_other_text_is_a_no_that_the_model_reads(start, folder, typed):
    with scripted(call("bash", command="touch ran"), Say("As you like.")) as server:
        terminal = start(server)
        terminal.send("Go")
        answer(terminal, typed)
        terminal.answered("As you like.")
        assert ("tool", f"not run: the user said no: {typed}") in server.said()
    assert not (folder / "ran").exists()


def test_a_command_is_shown_and_allowed_once_or_for_this_session(start, folder, reopened):
    touch = call("bash", command="echo x >> ran")
    other = call("bash", command="echo x >> other")
    with scripted(touch, touch, touch, other, Say("Done.")) as server:
        terminal = start(server)
        terminal.send("Go")
        assert "$ echo x >> ran" in wait_for_question(terminal)
        answer(terminal, "y")
        terminal.wait(lambda text: text.count("$ echo x >> ran") == 2)
        answer(terminal, "session")
        terminal.wait("$ echo x >> other")
        answer(terminal, "no")
        terminal.answered("Done.")
    assert (folder / "ran").read_text() == "x\nx\nx\n"
    assert not (folder / "other").exists()
    results = [event for event in reopened().context().messages if event.kind == "tool_result"]
    assert [(event.data or {}).get("allowed_by") for event in results] == [
        "person",
        "person, for this session",
        "person, for this session",
        None,
    ]


def test_a_file_is_not_allowed_for_the_session(start, folder):
    with scripted(call("write_file", path="one", content="new"), Say("No?")) as server:
        terminal = start(server)
        terminal.send("Write one")
        answer(terminal, "session")
        terminal.answered("No?")
    assert not (folder / "one").exists()


def test_a_change_is_shown_completely(start, folder):
    (folder / "f.txt").write_text("".join(f"line {number}\n" for number in range(1, 41)))
    new = "".join(f"new line {number}\n" for number in range(1, 81))
    with scripted(call("write_file", path="f.txt", content=new), Say("Done.")) as server:
        terminal = start(server)
        terminal.send("Go")
        lines = wait_for_question(terminal)
        assert str(folder / "f.txt") in "".join(lines)
        for number in range(1, 81):
            assert f"+new line {number}" in lines
        answer(terminal, "yes")
        terminal.answered("Done.")
    assert (folder / "f.txt").read_text() == new


def test_line_ends_and_escapes_are_visible_in_a_question(start, folder):
    (folder / "f").write_text("a\nb\n")
    edit = call("edit_file", path="f", old="a\nb", new="a\r\x1b[2Jb", everywhere=True)
    with scripted(edit, Say("Done.")) as server:
        terminal = start(server)
        terminal.send("Go")
        assert "+a␍␛[2Jb" in wait_for_question(terminal)
        answer(terminal, "n")
        terminal.answered("Done.")


def test_a_command_of_many_lines_is_shown_whole_with_their_number(start):
    command = "\n".join([*(f"echo step {number}" for number in range(30)), "rm -rf important"])
    with scripted(call("bash", command=command), Say("As you like.")) as server:
        terminal = start(server)
        terminal.send("Go")
        lines = wait_for_question(terminal)
        assert "31 lines, which run with your rights:" in lines
        for line in command.split("\n"):
            assert f"$ {line}" in lines
        answer(terminal, "n")
        terminal.answered("As you like.")


def test_of_several_calls_each_question_shows_its_own(start, folder):
    calls = tuple((f"c{n}", "bash", json.dumps({"command": f"touch {n}"})) for n in (1, 2))
    with scripted(Say(calls=calls), Say("Done.")) as server:
        terminal = start(server)
        terminal.send("Go")
        terminal.wait("$ touch 1")
        answer(terminal, "n")
        terminal.wait("$ touch 2")
        answer(terminal, "y")
        terminal.answered("Done.")
    assert not (folder / "1").exists()
    assert (folder / "2").exists()
