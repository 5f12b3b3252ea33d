"""Consent in the real program: what a person is asked, sees, and answers."""

import json

from tests.chat.screen import wait_for
from tests.runtime.scripted import Say, scripted


def call(name, **arguments):
    return Say(calls=((f"call_{name}", name, json.dumps(arguments)),))


def test_writing_asks_first_and_always_is_for_this_tool(start, folder):
    def write(name):
        return call("write_file", path=name, content="new")

    with scripted(write("one"), Say("No?"), write("two"), write("three"), Say("Done.")) as server:
        terminal = start(server)
        terminal.send("Write one")
        terminal.wait("allow write_file?")
        terminal.type("n\r")
        terminal.answered("No?")
        assert not (folder / "one").exists()
        assert ("tool", "not run: the user said no") in server.said()
        terminal.send("Write two and three")
        terminal.wait(lambda text: text.count("allow write_file?") == 2)
        terminal.type("a\r")
        terminal.answered("Done.")
        assert (folder / "two").read_text() == (folder / "three").read_text() == "new"
        assert terminal.text.count("allow write_file?") == 2


def test_what_was_typed_before_the_question_does_not_answer_it(start, folder):
    slow = Say("thinking", calls=(("c1", "bash", '{"command": "touch ran"}'),), held=True)
    with scripted(slow, Say("Done.")) as server:
        terminal = start(server)
        terminal.ready()
        terminal.type("Go\ry\r")  # in one go: the editor has read the answer, too
        terminal.wait("thinking")
        terminal.type("y\ry\r")
        server.release()
        terminal.wait("allow bash?")
        terminal.wait("$ touch ran")
        assert not (folder / "ran").exists()
        terminal.wait(lambda text: text.rstrip().endswith("a(lways):"))
        assert not (folder / "ran").exists()
        terminal.type("y\r")
        terminal.answered("Done.")
        wait_for(folder / "ran")


def test_a_command_is_shown_whole_with_its_number_of_lines(start, folder):
    command = "\n".join([*(f"echo step {number}" for number in range(30)), "rm -rf important"])
    with scripted(call("bash", command=command), Say("As you like.")) as server:
        terminal = start(server)
        terminal.send("Go")
        text = terminal.wait("allow bash?").rpartition("run, 31 lines:")[2]
        assert [f"$ echo step {number}\n" in text for number in range(30)] == [True] * 30
        assert "$ rm -rf important" in text
        terminal.type("n\r")
        terminal.answered("As you like.")


def test_a_file_is_compared_with_the_old_one_and_a_long_one_shown_whole_if_asked(start, folder):
    (folder / "old.txt").write_text("keep\nold line\n")
    new = "keep\n" + "".join(f"new line {number}\n" for number in range(60))
    with scripted(call("write_file", path="old.txt", content=new), Say("Done.")) as server:
        terminal = start(server)
        terminal.send("Go")
        text = terminal.wait("v(iew all)").rpartition("write old.txt,")[2]
        assert "over the old file of 14 bytes, 715 bytes:" in text
        assert "-old line" in text
        assert "+new line 0\n" in text
        assert "+new line 59" in text
        assert "+new line 30\n" not in text
        assert "left out here: v shows them" in text
        terminal.type("v\r")
        text = terminal.wait(lambda text: text.count("allow write_file?") == 2).rpartition("write old.txt,")[
            2
        ]
        assert [f"+new line {number}\n" in text for number in range(60)] == [True] * 60
        terminal.type("y\r")
        terminal.answered("Done.")
        assert (folder / "old.txt").read_text() == new


def test_a_change_of_line_ends_is_seen(start, folder):
    (folder / "f").write_text("a\nb\n")
    edit = call("edit_file", path="f", old="a\nb", new="a\rb\r", everywhere=True)
    with scripted(edit, Say("Done.")) as server:
        terminal = start(server)
        terminal.send("Go")
        text = terminal.wait("allow edit_file?").rpartition("change f, everywhere=True:")[2]
        assert "-a\n" in text
        assert "+a␍b␍" in text
        terminal.type("n\r")
        terminal.answered("Done.")
