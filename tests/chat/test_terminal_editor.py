"""The editor of the real program: keys, completion, history, and what is not sent."""

import re

import backstory
from tests.chat.screen import edited, prompts_on
from tests.runtime.scripted import Say, scripted


def test_commands_are_completed_and_lists_shown(start):
    with scripted(Say("Answer 1.")) as server:
        terminal = start(server)
        terminal.send("hello there")
        terminal.answered("Answer 1.")
        terminal.send("/mark before the storm")
        terminal.wait("⚑ before the storm  (at")
        terminal.ready()
        terminal.type("/rew\t")
        terminal.wait("> /rewind")
        terminal.type("bef\t")  # the space is there already
        terminal.wait("> /rewind before the storm")
        terminal.type("\x15")
        for command, shown in [
            ("/marks", "before the storm"),
            ("/log -n 2", "hello there"),
            ("/search hello", "hello there"),
            ("/diff @2", "in common"),
            ("/show @3", "hello there"),
            ("/model", "the model is scripted-1"),
            ("/help", "As in the command line, on this agent: /agents"),
            ("/delete main", "no command /delete"),
            ("/search 'half", "these arguments cannot be split"),
            ("/nonsense", "no command /nonsense"),
            ("/rewind nowhere", "no mark 'nowhere'"),
            ("/switch nobody", "/agents lists the agents"),
        ]:
            terminal.send(command)
            terminal.wait(shown)
        assert terminal.leave() == 0


def test_several_lines_are_one_prompt_and_the_history_comes_from_the_log(start, reopened):
    with scripted(Say("Answer 1."), Say("Answer 2.")) as server:
        terminal = start(server)
        terminal.ready()
        terminal.type("one\x1b\rtwo")
        terminal.wait("two")
        terminal.type("\r")
        terminal.answered("Answer 1.")
        assert server.said()[-1] == ("user", "one\ntwo")
        terminal.leave()
        again = start(server)
        again.ready()
        again.type("\x1b[A")
        again.wait(lambda text: text.count("> one") == 2)
        again.type("\r")
        again.answered("Answer 2.")
        assert server.said()[-1] == ("user", "one\ntwo")


def test_a_refused_command_leaves_the_editor_to_the_next_one(start):
    with scripted() as server:
        terminal = start(server)
        terminal.send("/undo")
        terminal.wait("nothing to undo")
        terminal.send("/stats")
        terminal.wait("events")
        assert server.bodies == []


def test_a_path_is_sent_and_a_refused_command_is_behind_the_arrow_keys(start):
    with scripted(Say("Answer 1."), Say("Answer 2."), Say("Answer 3.")) as server:
        terminal = start(server)
        terminal.send("/usr/bin/python fails, why?")
        terminal.answered("Answer 1.")
        assert server.said()[-1] == ("user", "/usr/bin/python fails, why?")
        terminal.send("/tmp is full")
        terminal.wait("no command /tmp")
        terminal.ready()
        terminal.type("\x1b[A")
        terminal.wait(lambda text: edited(text) == "/tmp is full")
        terminal.type("\x01/\r")  # a second slash at the beginning
        terminal.answered("Answer 2.")
        assert server.said()[-1] == ("user", "/tmp is full")


def test_ctrl_o_keeps_the_draft(start):
    with scripted(Say("Answer 1.")) as server:
        terminal = start(server)
        terminal.ready()
        terminal.type("my draft")
        terminal.wait("my draft")
        terminal.type("\x0f")
        terminal.wait("── results in full ──")
        assert prompts_on(terminal.ready())[-1] == "my draft"


def test_a_narrow_status_line_cuts_the_name_and_keeps_the_numbers(start, address):
    with backstory.open(address) as store:
        store.start("a very long name of an agent that nobody would type", system="s").mark("here")
    with scripted() as server:
        terminal = start(server, columns=60)
        last = terminal.wait(lambda text: text.rstrip().endswith("⚑ here")).rstrip()
        assert re.search(r"^a very.*… · scripted-1 · \d+ tokens · ⚑ here$", last.split("\n")[-1])


def test_what_is_pasted_is_one_prompt_and_the_external_editor_can_change_it(
    start, folder, tmp_path
):
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "from the editor" >> "$1"\n')
    editor.chmod(0o755)
    with scripted(Say("Answer 1.")) as server:
        terminal = start(server, env={"EDITOR": str(editor), "VISUAL": str(editor)})
        terminal.ready()
        terminal.type("\x1b[200~first line\nsecond line\x1b[201~")
        terminal.wait("second line")
        terminal.type("\x18\x05")
        terminal.wait(
            lambda text: edited(text).endswith("from the editor")
        )  # to be looked at first
        terminal.enter()
        terminal.answered("Answer 1.")
        assert server.said()[-1][1].split("\n")[0] == "first line"
        assert "second line" in server.said()[-1][1]
        assert "from the editor" in server.said()[-1][1]


def test_a_file_is_completed_sent_along_and_not_in_the_history(start, folder):
    with scripted(Say("A print.")) as server:
        terminal = start(server)
        terminal.ready()
        terminal.type("What is @a.\t")
        terminal.wait("> What is @a.py")
        terminal.type(" ?")
        terminal.wait("@a.py ?")
        terminal.enter()
        text = terminal.answered("A print.")
        assert "⎘ a.py" in text
        assert "print('a')" not in text
        assert "print('a')" in server.said()[-1][1]
        terminal.type("\x1b[A")
        terminal.wait(lambda text: edited(text) == "What is @a.py ?")
