"""Killed at random moments: what the screen showed as answered is in the log afterwards."""

import random
import re

import pytest

from tests.chat.screen import contents
from tests.runtime.scripted import Say, scripted

TIMES = 20
GLOB = ("c", "glob", '{"pattern": "*.py"}')


def test_after_a_kill_the_screen_and_the_next_request_are_as_they_would_have_been(start):
    """The seeds: scrollback and context are restored, a glob call and its result in both."""
    turn = (Say(calls=(GLOB,)), Say("Two files."))
    with scripted(*turn, Say("Never killed."), Say("Back again.")) as server:
        terminal = start(server)
        terminal.send("Which Python files are here?")
        before = terminal.answered("Two files.")
        terminal.send("And now?")
        terminal.answered("Never killed.")
        terminal.send("/undo")
        terminal.wait("undone;")
        terminal.ready()
        terminal.kill()
        again = start(server)
        after = again.ready()
        drawn = before[before.index("> Which") : before.index("Two files.")]
        assert drawn in after
        again.send("And now?")
        again.answered("Back again.")
        unbroken, restored = server.bodies[-2:]
        assert restored == unbroken


@pytest.mark.slow
def test_what_the_screen_showed_as_answered_is_there_after_twenty_kills(start, reopened):
    chance = random.Random(18)
    answered = 0
    with scripted() as server:
        for number in range(TIMES):
            words = " ".join(["word"] * 30)
            answer = Say(words, held=True) if number % 3 == 1 else Say(f"{words} end-{number}.")
            server.script[:] = [Say(f"look {number}", calls=(GLOB,)), answer]
            terminal = start(server)
            terminal.send(f"question {number}")
            begun, wanted = len(terminal.raw), chance.randrange(3_000)
            if number % 3 == 0:  # late, on a machine of any speed; the held ones are early
                terminal.answered(f"end-{number}.")
            terminal.wait_for_bytes(begun + wanted)
            terminal.kill()
            answered += is_kept(terminal.text, contents(reopened("main")), number)
            assert server.refused == []
    assert 0 < answered < TIMES  # the moments were early and late


def is_kept(text, said, number):
    """The log has what the screen has of a turn; returns whether that was the answer, too."""
    page = text.rpartition(f"> question {number}\n")[2]
    assert f"question {number}" in said
    if "a.py" in page:  # the result of the call
        assert "a.py\nb.py" in said[said.index(f"question {number}") :]
    is_answered = bool(re.search(rf"end-{number}\.\s+\d+\.\d s", page))
    if is_answered:  # the line with the time is below it
        assert said[-1].endswith(f"end-{number}.")
    return is_answered
