"""The keyboard: the editor is open all the time, also while the model works."""

import json

from tests.chat.screen import contents, edited, prompts_on, wait_for
from tests.chat.test_mentions import PNG
from tests.runtime.scripted import Say, scripted


def test_what_is_typed_during_an_answer_is_visible_and_sent_afterwards(start):
    with scripted(Say("A slow answer", held=True), Say("The next one.")) as server:
        terminal = start(server)
        terminal.send("Tell me")
        terminal.wait("slow answer")
        terminal.type("next question")
        terminal.wait(lambda text: edited(text) == "next question")
        terminal.type("\r")
        terminal.wait("1 prompt waiting")
        terminal.wait("next: next question")
        terminal.type("and a draft")
        server.release()
        terminal.answered("The next one.")
        assert prompts_on(terminal.text)[-3:] == ["Tell me", "next question", "and a draft"]
        assert edited(terminal.text) == "and a draft"
        users = [text for role, text in server.said() if role == "user"]
        assert users == ["Tell me", "next question"]


def test_ctrl_c_stops_the_answer_and_brings_back_what_waits(start, reopened):
    with scripted(Say("The beginning", held=True), Say("Fine.")) as server:
        terminal = start(server)
        terminal.send("Tell me")
        terminal.wait("beginning")
        terminal.type("next\r")
        terminal.wait("1 prompt waiting")
        terminal.type("\x03")
        terminal.wait("stopped; what was said is kept")
        terminal.wait(lambda text: edited(text) == "next")
        assert contents(reopened())[-1] == "The beginning"
        terminal.enter()
        terminal.answered("Fine.")
        assert terminal.leave() == 0


def test_ctrl_c_clears_the_line_and_ctrl_d_leaves(start):
    with scripted() as server:
        terminal = start(server)
        terminal.ready()
        terminal.type("half a thought")
        terminal.wait(lambda text: edited(text) == "half a thought")
        terminal.type("\x03")
        terminal.wait(lambda text: edited(text) == "")
        terminal.type("\x03")
        assert terminal.leave() == 0


def test_ctrl_d_during_an_answer_keeps_it_and_leaves(start, reopened):
    with scripted(Say("one two three", held=True)) as server:
        terminal = start(server)
        terminal.send("Count")
        terminal.wait("one two three")
        terminal.type("\x04")
        assert terminal.ended() == 0
    assert reopened().context().messages[-1].data["interrupted"] is True


def test_a_long_paste_is_one_line_in_the_editor_and_sent_whole(start):
    pasted = "\n".join(f"line {number}" for number in range(200))
    with scripted(Say("Long.")) as server:
        terminal = start(server)
        terminal.ready()
        terminal.type(f"See \x1b[200~{pasted}\x1b[201~!")
        terminal.wait(lambda text: edited(text) == "See [pasted text 1: 200 lines]!")
        terminal.enter()
        terminal.answered("Long.")
        assert server.said()[-1] == ("user", f"See {pasted}!")


def test_the_output_of_a_command_appears_while_it_runs(start, folder):
    command = "echo the first line; until [ -e go ]; do sleep 0.05; done; echo the last line"
    call = ("c1", "bash", json.dumps({"command": command}))
    with scripted(Say(calls=(call,)), Say("Done.")) as server:
        terminal = start(server)
        terminal.send("Run it")
        terminal.wait("why not)")
        terminal.type("y\r")
        terminal.wait(lambda text: "    the first line" in text and "    the last line" not in text)
        (folder / "go").touch()
        terminal.answered("Done.")
        assert "    the last line" in terminal.text


def test_nothing_is_drawn_over_the_external_editor(start, folder, tmp_path, reopened):
    program = tmp_path / "editor"
    program.write_text(
        f"#!/bin/sh\ncd {tmp_path}; touch opened; until [ -e go ]; do sleep 0.02; done\n"
    )
    program.chmod(0o700)
    with scripted() as server:
        terminal = start(server, env={"VISUAL": str(program)})
        terminal.ready()
        terminal.type("draft\x18\x05")
        wait_for(tmp_path / "opened")
        before = terminal.text
        reopened().user("from elsewhere")
        terminal.type("\x1b")
        assert "from elsewhere" not in before
        (tmp_path / "go").touch()
        terminal.wait("from elsewhere")
        terminal.wait(lambda text: edited(text) == "draft")


def test_the_bell_rings_when_a_question_waits(start):
    call = ("c1", "bash", '{"command": "true"}')
    with scripted(Say(calls=(call,)), Say("As you like.")) as server:
        terminal = start(server)
        terminal.send("Run it")
        terminal.wait("why not)")
        assert b"\a" in terminal.raw


def test_a_path_with_blanks_is_completed_and_an_image_goes_along(start, folder):
    (folder / "my photo.png").write_bytes(PNG)
    with scripted(Say("A dot.")) as server:
        terminal = start(server)
        terminal.ready()
        terminal.type("See @my\t")
        terminal.wait('> See @"my photo.png"')
        terminal.enter()
        terminal.answered("A dot.")
        assert [part["type"] for part in server.last["messages"][-1]["content"]] == [
            "text",
            "image_url",
        ]
        assert terminal.leave() == 0


def test_a_new_session_can_be_started(start, reopened):
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
        terminal.send("/quit")
        assert terminal.ended() == 0
