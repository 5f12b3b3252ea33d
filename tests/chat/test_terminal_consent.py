"""Consent in the real program: what a person is asked, sees, and answers."""

import json

from tests.chat.screen import wait_for
from tests.runtime.scripted import Say, scripted


def call(name, **arguments):
    return Say(calls=((f"call_{name}", name, json.dumps(arguments)),))


def test_writing_asks_first_and_session_is_for_this_tool(start, folder):
    def write(name):
        return call("write_file", path=name, content="new")

    with scripted(write("one"), Say("No?"), write("two"), write("three"), Say("Done.")) as server:
        terminal = start(server)
        terminal.send("Write one")
        terminal.wait("Allow write_file?")
        terminal.type("n")
        terminal.answered("No?")
        assert not (folder / "one").exists()
        assert ("tool", "not run: the user said no") in server.said()
        terminal.send("Write two and three")
        terminal.wait(lambda text: text.count("Allow write_file?") == 2)
        terminal.type("s")
        terminal.answered("Done.")
        assert (folder / "two").read_text() == (folder / "three").read_text() == "new"
        assert terminal.text.count("Allow write_file?") == 2


def test_what_was_typed_before_the_question_does_not_answer_it(start, folder):
    slow = Say("thinking", calls=(("c1", "bash", '{"command": "touch ran"}'),), held=True)
    with scripted(slow, Say("Done.")) as server:
        terminal = start(server)
        terminal.ready()
        terminal.type("Go\ry\r")  # in one go: the editor has read the answer, too
        terminal.wait("thinking")
        terminal.type("y\ry\r")
        server.release()
        terminal.wait("Allow bash?")
        assert not (folder / "ran").exists()
        terminal.wait(lambda text: text.rstrip().endswith("[e]xplain"))
        assert not (folder / "ran").exists()
        terminal.type("y")
        terminal.answered("Done.")
        wait_for(folder / "ran")


def asked(terminal, name):
    """What is on the screen of a question, from the call on."""
    text = terminal.wait(lambda text: text.rstrip().endswith(("[e]xplain", "[v]iew all")))
    return [line.strip() for line in text.rpartition(f"● {name}")[2].strip().split("\n")]


def test_a_command_is_shown_once_and_answered_with_one_key(start, folder):
    with scripted(call("bash", command="touch ran"), Say("Done.")) as server:
        terminal = start(server)
        terminal.send("Go")
        assert asked(terminal, "bash") == [
            "touch ran",
            "Allow bash? [y]es, [a]lways touch, this [s]ession, [n]o, [e]xplain",
        ]
        terminal.type("y")
        assert "Allow bash? yes" in terminal.answered("Done.")
    assert (folder / "ran").exists()


def test_a_key_that_is_no_answer_is_refused_with_words(start, folder):
    with scripted(call("bash", command="touch ran"), Say("Done.")) as server:
        terminal = start(server)
        terminal.send("Go")
        asked(terminal, "bash")
        terminal.type("x")
        terminal.wait("'x' is not an answer: press y, a, s, n or e")
        terminal.type("\r")
        terminal.wait(lambda text: "'x'" not in text and "press y, a, s, n or e" in text)
        terminal.type("\x1b")  # Escape is no
        assert "Allow bash? no" in terminal.answered("Done.")
    assert not (folder / "ran").exists()


def test_a_command_of_many_lines_is_shown_whole_with_their_number(start, folder):
    command = "\n".join([*(f"echo step {number}" for number in range(30)), "rm -rf important"])
    with scripted(call("bash", command=command), Say("As you like.")) as server:
        terminal = start(server)
        terminal.send("Go")
        lines = asked(terminal, "bash")
        assert lines[:2] == ["echo step 0 … (31 lines)", "31 lines:"]
        assert lines[2:32] == [f"$ echo step {number}" for number in range(30)]
        assert lines[32] == "$ rm -rf important"
        terminal.type("n")
        terminal.answered("As you like.")


def test_of_several_calls_each_question_shows_its_own(start, folder):
    calls = tuple((f"c{n}", "bash", json.dumps({"command": f"touch {n}"})) for n in (1, 2))
    with scripted(Say(calls=calls), Say("Done.")) as server:
        terminal = start(server)
        terminal.send("Go")
        assert asked(terminal, "bash")[1] == "$ touch 1"
        terminal.type("n")
        terminal.wait("$ touch 2")
        asked(terminal, "bash")
        terminal.type("y")
        terminal.answered("Done.")
    assert not (folder / "1").exists()
    assert (folder / "2").exists()


def test_a_change_is_shown_with_its_line_numbers_and_the_lines_around_it(start, folder):
    (folder / "f.txt").write_text("".join(f"line {number}\n" for number in range(1, 41)))
    with scripted(
        call("edit_file", path="f.txt", old="line 30", new="line thirty"), Say("Done.")
    ) as server:
        terminal = start(server)
        terminal.send("Go")
        assert asked(terminal, "edit_file") == [
            "f.txt",
            "change f.txt:",
            *(f"{number}   line {number}" for number in (27, 28, 29)),
            "30 - line 30",
            "30 + line thirty",
            *(f"{number}   line {number}" for number in (31, 32, 33)),
            "Allow edit_file? [y]es, [a]lways f.txt, this [s]ession, [n]o, [e]xplain",
        ]
        terminal.type("y")
        terminal.answered("Done.")


def test_a_new_file_is_shown_with_as_many_lines_as_it_will_have(start, folder):
    with scripted(call("write_file", path="new.txt", content="one\ntwo\n"), Say("Done.")) as server:
        terminal = start(server)
        terminal.send("Go")
        lines = asked(terminal, "write_file")
        assert lines[:-1] == ["new.txt", "create new.txt (8 bytes):", "1 + one", "2 + two"]
        terminal.type("y")
        terminal.answered("Done.")


def test_a_file_is_compared_with_the_old_one_and_a_long_one_shown_whole_if_asked(start, folder):
    (folder / "old.txt").write_text("keep\nold line\n")
    new = "keep\n" + "".join(f"new line {number}\n" for number in range(60))
    with scripted(call("write_file", path="old.txt", content=new), Say("Done.")) as server:
        terminal = start(server)
        terminal.send("Go")
        lines = asked(terminal, "write_file")
        assert lines[1:5] == [
            "overwrite old.txt (14 bytes, then 715 bytes):", "1   keep", "2 - old line", "2 + new line 0",
        ]  # fmt: skip
        assert "61 + new line 59" in lines
        assert "32 + new line 30" not in lines
        assert "… 39 lines not shown" in lines
        terminal.type("v")
        terminal.wait(lambda text: text.rstrip().endswith("[e]xplain"))
        lines = [
            line.strip()
            for line in terminal.text.split("Allow write_file? view all")[1].split("\n")
        ]
        assert all(f"{number + 2} + new line {number}" in lines for number in range(60))
        terminal.type("y")
        terminal.answered("Done.")
        assert (folder / "old.txt").read_text() == new


def test_a_change_of_line_ends_is_seen(start, folder):
    (folder / "f").write_text("a\nb\n")
    edit = call("edit_file", path="f", old="a\nb", new="a\rb\r", everywhere=True)
    with scripted(edit, Say("Done.")) as server:
        terminal = start(server)
        terminal.send("Go")
        assert asked(terminal, "edit_file")[1:-1] == ["change f:", "1 - a", "2 - b", "1 + a␍b␍"]
        terminal.type("n")
        terminal.answered("Done.")


def test_always_is_for_what_is_like_it_and_what_allowed_a_call_is_recorded(start, folder, reopened):
    answers = (
        call("bash", command="touch one"),
        call("bash", command="touch two"),
        call("bash", command="touch three; ls"),
        Say("Done."),
    )
    with scripted(*answers) as server:
        terminal = start(server)
        terminal.send("Go")
        asked(terminal, "bash")
        terminal.type("a")
        terminal.wait("touch three; ls")
        text = terminal.wait(lambda text: text.rstrip().endswith("[e]xplain"))
        assert "[a]lways" not in text.rstrip().rpartition("\n")[2]
        terminal.type("e")
        terminal.wait("Why not?")
        terminal.type("too much at once\r")
        terminal.answered("Done.")
    assert (folder / "two").exists()
    results = [event for event in reopened().context().messages if event.kind == "tool_result"]
    assert [(event.data or {}).get("allowed_by") for event in results] == [
        "person, and from now on: bash: touch",
        "rule: bash: touch",
        None,
    ]
    assert results[-1].content == "not run: the user said no: too much at once"


def test_rules_of_the_person_and_of_the_project_decide_and_broken_files_are_not_used(
    start, folder, tmp_path
):
    (tmp_path / "config" / "backstory").mkdir(parents=True)
    person = tmp_path / "config" / "backstory" / "chat.toml"
    person.write_text('[consent]\nallow = ["bash: touch"]\n')
    (folder / ".backstory.toml").write_text(
        '[consent]\nallow = ["bash: ls"]\ndeny = ["bash: touch evil"]\n'
    )
    answers = (call("bash", command="touch good"), call("bash", command="touch evil"), Say("Done."))
    with scripted(*answers, Say("Hi.")) as server:
        terminal = start(server, columns=120)
        assert "would allow bash: ls: that is not used" in terminal.ready().replace("\n", " ")
        terminal.send("Go")
        terminal.answered("Done.")
        assert ("tool", "not run: the rule 'bash: touch evil' denies it") in server.said()
        terminal.leave()
        person.write_text("[consent\n")
        (folder / ".backstory.toml").write_text("[consent]\ndeny = 3\n")
        again = start(server, columns=120)
        shown = again.ready().replace("\n", " ")
        assert shown.count("is not TOML") == 1
        assert "deny of [consent] is not a list" in shown
    assert (folder / "good").exists()
    assert not (folder / "evil").exists()
