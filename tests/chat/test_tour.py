"""The guided tour, taken as a visitor would: nothing but Enter, and what it asks for."""

import re

from tests.chat.screen import contents
from tests.runtime.scripted import Say, scripted

NOTHING = {"OLLAMA_HOST": "127.0.0.1:1"}


def take_tour(start, columns=80):
    """Take the tour up to the kill, and return the terminal after the restart."""
    terminal = start(None, columns=columns, env=NOTHING)
    terminal.wait("a guided tour of one minute")
    terminal.type("3" if "3. a guided" in terminal.text else "2")
    terminal.type("\r")
    terminal.send("Which files are here?")
    terminal.answered("step 2 of 5")
    terminal.send("go")
    terminal.wait("$ kill -9 ")
    terminal.wait("why not)")
    terminal.type("yes\r")
    assert terminal.ended() == -9
    again = start(None, columns=columns, env=NOTHING)
    again.wait("continue the guided tour")
    again.type("\r")
    again.ready()
    return again


def test_the_tour_is_killed_and_comes_back_with_the_call_and_its_result(start, reopened):
    terminal = take_tour(start)
    assert re.search(r"● glob \*\n\s+a\.py", terminal.text)
    assert "interrupted: no result was recorded" in terminal.text
    terminal.send("back")
    terminal.answered("step 3 of 5")
    terminal.send("/undo")
    terminal.wait("undone;")
    terminal.send("was that all?")
    terminal.answered("step 4 of 5")
    terminal.send("/fork idea")
    terminal.wait("in 'idea', a fork;")
    terminal.send("forked")
    terminal.answered("step 5 of 5")
    terminal.send("/diff tour")
    terminal.wait("only in idea")
    said = contents(reopened("idea"))
    answers = [text for text in said if text and "step" in text]
    assert answers
    assert all(text.startswith("Scripted tour, step") for text in answers)
    assert "a.py\nb.py\nnotes.md" in said


def test_a_step_is_repeated_until_it_is_done(start):
    terminal = take_tour(start)
    for text in ("back", "and now?"):
        terminal.send(text)
        terminal.answered("step 3 of 5")


def test_another_model_does_not_continue_the_tour(start):
    take_tour(start).leave()
    with scripted(Say("A real answer.")) as server:
        terminal = start(server)
        terminal.send("Hello")
        terminal.answered("A real answer.")
        assert "Scripted tour" not in str(server.last)
