"""The real program in a pseudo-terminal, against a server with a script: what the screen shows, what the log
holds and what the server is sent agree."""

import re
import time

import pytest

import backstory

from .scripted import Refuse, Say, scripted

GLOB = ("call_1", "glob", '{"pattern": "*.py"}')


def kinds(agent):
    return [event.kind for event in agent.context().messages]


def wait_for(path):
    end = time.monotonic() + 10
    while not path.exists():
        assert time.monotonic() < end, path
        time.sleep(0.05)


def prompts_on(text):
    return re.findall(r"^> (.+?)\s*$", text, re.MULTILINE)


def test_a_single_glob_call_is_remembered_after_a_restart(start, reopened):
    with scripted(Say(calls=(GLOB,)), Say("Two: a.py and b.py."), Say("Yes, two.")) as server:
        terminal = start(server)
        terminal.send("Which Python files are here?")
        terminal.wait("Two: a.py and b.py.")
        assert terminal.leave() == 0
        assert [event.kind for event in reopened().events()][:2] == ["clear", "system"]
        assert kinds(reopened()) == ["system", "user", "tool_call", "tool_result", "assistant"]
        head = reopened().head

        again = start(server)
        text = again.ready()
        assert "> Which Python files are here?" in text
        assert "restored 5 messages, 0 marks" in text
        assert reopened().head == head
        again.send("Do you remember?")
        again.wait("Yes, two.")
        roles = [role for role, _ in server.said()]
        assert roles == ["system", "user", "assistant", "tool", "assistant", "user"]
        assert server.said()[3] == ("tool", "a.py\nb.py")
        assert server.refused == []


def test_parallel_calls_an_unknown_tool_and_broken_arguments(start, reopened):
    calls = (
        GLOB,
        ("call_2", "read_file", '{"path": "notes.md"}'),
        ("call_3", "fly", "{}"),
        ("call_4", "glob", '{"pattern": '),
    )
    with scripted(Say("Looking.", calls=calls), Say("All done.")) as server:
        terminal = start(server)
        terminal.send("Look around")
        terminal.wait("All done.")
        terminal.ready()
        results = {m["tool_call_id"]: m["content"] for m in server.last["messages"] if m["role"] == "tool"}
        assert results["call_1"] == "a.py\nb.py"
        assert results["call_2"] == "# Notes\n"
        assert "there is no tool 'fly'" in results["call_3"]
        assert "not a JSON object" in results["call_4"]
        assert server.refused == []
        broken = [e.data for e in reopened().context().messages if e.kind == "tool_call"][3]
        assert broken["arguments"] == '{"pattern": '


def test_ctrl_c_stops_an_answer_and_keeps_what_was_said(start, reopened):
    with scripted(Say("one two three four " * 50, pause=0.1), Say("Fine.")) as server:
        terminal = start(server)
        terminal.send("Count")
        terminal.wait("one two three")
        terminal.type("\x03")
        terminal.wait("⚠ interrupted: stopped by the person")
        terminal.wait("stopped; what was said is kept")
        kept = reopened().context().messages[-1]
        assert kept.kind == "assistant"
        assert kept.content.startswith("one two three")
        assert kept.data["interrupted"] is True
        terminal.send("Go on")
        terminal.wait("Fine.")
        assert server.said()[2] == ("assistant", kept.content)
        assert server.refused == []


def test_a_rate_limit_is_waited_for_and_a_dropped_connection_tried_again(start, reopened):
    limited = Refuse(429, "slow down", (("Retry-After", "0.2"),))
    with scripted(limited, Say("half an answer", drop_after=2), Say("The whole answer.")) as server:
        terminal = start(server)
        terminal.send("Hello")
        terminal.wait("the service limits how fast it is asked")
        terminal.wait("The whole answer.")
        terminal.ready()
        assert len(server.bodies) == 3
        assert [e.content for e in reopened().context().messages][1:] == ["Hello", "The whole answer."]
        assert "half an" not in terminal.text


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (Refuse(401, "bad key"), "the key was refused by 127.0.0.1: mend the key (bad key)"),
        (Refuse(404, "gone"), "there is no model scripted-1"),
        (Refuse(400, "too long"), "the request was refused: too long"),
    ],
)
def test_a_refusal_is_one_line_and_the_chat_goes_on(start, reopened, refusal, said):
    with scripted(refusal, Say("Better.")) as server:
        terminal = start(server, columns=120)
        terminal.send("Hello")
        terminal.wait(said)
        terminal.send("Again")
        terminal.wait("Better.")
        assert [e.content for e in reopened().context().messages][1:] == ["Hello", "Again", "Better."]


def test_no_model_reachable_is_one_line_and_what_was_said_is_kept(start, reopened, monkeypatch):
    with scripted() as server:
        pass  # it is gone, nobody listens at its address
    terminal = start(server, columns=120)
    terminal.send("Hello?")
    terminal.wait("✗ nobody answers at 127.0.0.1", 40)
    assert terminal.leave() == 0
    assert kinds(reopened()) == ["system", "user"]


def test_killed_in_mid_answer_it_goes_on_with_everything_that_had_happened(start, reopened):
    with scripted(Say("Hi."), Say("never " * 200, pause=0.1), Say("Here I am.")) as server:
        terminal = start(server)
        terminal.send("First")
        terminal.wait("Hi.")
        terminal.send("Second")
        terminal.wait("never never")
        terminal.kill()
        again = start(server)
        again.wait("restored 4 messages")
        again.send("Third")
        again.wait("Here I am.")
        assert [text for role, text in server.said() if role == "user"] == ["First", "Second", "Third"]
        assert server.refused == []


def test_killed_in_mid_tool_the_call_is_shown_as_interrupted_and_not_run_again(start, folder, reopened):
    command = ("call_1", "bash", '{"command": "echo x >> ran; sleep 30"}')
    with scripted(Say(calls=(command,)), Say("I see.")) as server:
        terminal = start(server, "--yes")
        terminal.send("Run it")
        wait_for(folder / "ran")
        terminal.kill()
        again = start(server, "--yes")
        again.wait("interrupted: no result was recorded")
        again.send("What happened?")
        again.wait("I see.")
        assert (folder / "ran").read_text() == "x\n"
        assert ("tool", "interrupted: no result was recorded") in server.said()
        assert server.refused == []


def test_after_each_command_screen_context_and_request_agree(start, reopened):
    answers = [Say(f"Answer {number}.") for number in range(1, 9)]
    with scripted(*answers) as server:
        terminal = start(server)
        number = 0

        def ask(text):
            nonlocal number
            number += 1
            terminal.send(text)
            terminal.wait(f"Answer {number}.")
            terminal.ready()

        def agree(*prompts, ref="@"):
            text = terminal.ready()
            assert prompts_on(text) == list(prompts)
            messages = reopened(ref).context().messages
            assert [e.content for e in messages if e.kind == "user"] == list(prompts)

        def sent(*prompts):
            assert [text for role, text in server.said() if role == "user"] == list(prompts)
            assert server.refused == []

        ask("one")
        terminal.send("/mark start")
        terminal.wait("⚑ start at")
        ask("two")
        sent("one", "two")
        assert b"\x1b[2J" not in terminal.raw
        terminal.send("/rewind start")
        terminal.wait("rewound")
        assert b"\x1b[2J" in terminal.raw
        agree("one")
        ask("three")
        sent("one", "three")
        terminal.send("/undo")
        terminal.wait("undone")
        agree("one", "two")
        terminal.send('/rewind start --carry "two was wrong"')
        terminal.wait("rewound")
        agree("one", "Note carried across a rewind: two was wrong")
        ask("four")
        sent("one", "Note carried across a rewind: two was wrong", "four")
        terminal.send("/fork idea")
        terminal.wait("in 'idea', a fork")
        ask("five")
        agree("one", "Note carried across a rewind: two was wrong", "four", "five", ref="idea")
        terminal.send("/switch main")
        terminal.wait("restored")
        agree("one", "Note carried across a rewind: two was wrong", "four", ref="main")
        terminal.send("/clear")
        terminal.wait("the context is empty")
        agree(ref="main")
        ask("six")
        sent("six")
        assert server.said()[0][0] == "system"
        terminal.send("/spawn helper")
        terminal.wait("in 'helper', a new agent")
        agree(ref="helper")
        ask("seven")
        sent("seven")
        assert server.said()[0][0] == "system"


def test_back_puts_an_earlier_prompt_into_the_editor_again(start, reopened):
    with scripted(Say("Answer 1."), Say("Answer 2."), Say("Answer 3.")) as server:
        terminal = start(server)
        terminal.send("first")
        terminal.wait("Answer 1.")
        terminal.send("second")
        terminal.wait("Answer 2.")
        terminal.ready()
        terminal.type("\x1b\x1b")
        terminal.wait("which one?")
        terminal.type("1\r")
        terminal.wait("before that prompt")
        terminal.ready()
        assert [e.content for e in reopened().context().messages if e.kind == "user"] == ["first"]
        assert prompts_on(terminal.text) == ["first", "second"]  # the second is what stands in the editor
        terminal.type(" thought\r")
        terminal.wait("Answer 3.")
        assert [text for role, text in server.said() if role == "user"] == ["first", "second thought"]


def test_writing_asks_first_and_always_is_for_this_tool(start, folder):
    def write(name):
        return Say(calls=((f"call_{name}", "write_file", f'{{"path": "{name}", "content": "new"}}'),))

    with scripted(write("one"), Say("No?"), write("two"), write("three"), Say("Done.")) as server:
        terminal = start(server)
        terminal.send("Write one")
        terminal.wait("allow write_file?")
        terminal.type("n\r")
        terminal.wait("No?")
        assert not (folder / "one").exists()
        assert ("tool", "not run: the user said no") in server.said()
        terminal.send("Write two and three")
        terminal.wait(lambda text: text.count("allow write_file?") == 2)
        terminal.type("a\r")
        terminal.wait("Done.")
        assert (folder / "two").read_text() == (folder / "three").read_text() == "new"
        assert terminal.text.count("allow write_file?") == 2


def test_text_from_a_model_or_a_file_cannot_drive_the_terminal(start, folder):
    (folder / "evil.txt").write_text("\x1b]0;owned\x07\x1b[2J")
    call = ("call_1", "read_file", '{"path": "evil.txt"}')
    with scripted(Say("\x1b[31mred\x07", calls=(call,)), Say("Over.")) as server:
        terminal = start(server)
        terminal.send("Read it")
        terminal.wait("Over.")
        terminal.ready()
        assert "␛[31mred␇" in terminal.text
        assert "␛]0;owned␇" in terminal.text
        assert b"\x1b]0;owned" not in terminal.raw


def test_at_sixty_columns_wide_characters_stay_in_their_place(start):
    text = "日本語のテキスト " * 12 + "end"
    with scripted(Say(text)) as server:
        terminal = start(server, columns=60)
        terminal.send("Wide please")
        shown = terminal.wait("end")
        assert shown.replace("\n", "").replace(" ", "").count("日本語") == 12
        assert "main · scripted-1" in terminal.ready()


def test_commands_are_completed_and_lists_shown(start):
    with scripted(Say("Answer 1.")) as server:
        terminal = start(server)
        terminal.send("hello there")
        terminal.wait("Answer 1.")
        terminal.send("/mark before the storm")
        terminal.wait("⚑ before the storm at")
        terminal.ready()
        terminal.type("/rew\t")
        terminal.wait("> /rewind")
        terminal.type(" bef\t")
        terminal.wait("> /rewind before the storm")
        terminal.type("\x15")
        for command, shown in [
            ("/marks", "before the storm"),
            ("/agents", "main"),
            ("/context", "in all about"),
            ("/log 5", "assistant"),
            ("/search hello", "hello there"),
            ("/diff @2", "in common"),
            ("/system", "You are a helpful assistant"),
            ("/model", "the model is scripted-1"),
            ("/help", "Leave; everything is in the log."),
            ("/export out.md", "written to out.md"),
            ("/nonsense", "there is no command /nonsense"),
            ("/rewind nowhere", "no mark 'nowhere'"),
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
        terminal.wait("Answer 1.")
        assert server.said()[-1] == ("user", "one\ntwo")
        terminal.leave()
        again = start(server)
        again.ready()
        again.type("\x1b[A")
        again.wait(lambda text: text.count("> one") == 2)
        again.type("\r")
        again.wait("Answer 2.")
        assert server.said()[-1] == ("user", "one\ntwo")


def test_an_answer_longer_than_the_screen_is_there_once_and_whole(start):
    text = "\n".join(f"- point {number};" for number in range(120))
    with scripted(Say(text, pause=0.005)) as server:
        terminal = start(server)
        terminal.send("A long one")
        terminal.wait("point 119;")
        shown = terminal.ready()
        assert [shown.count(f"point {number};") for number in range(120)] == [1] * 120


def test_a_full_disk_is_one_line_and_the_chat_goes_on(start, folder, reopened):
    (folder / "large.txt").write_text("x" * 80 + "\n")
    with open(folder / "large.txt", "a") as file:
        file.writelines("y" * 80 + "\n" for _ in range(60_000))
    read = ("call_1", "read_file", '{"path": "large.txt", "lines": 60000}')
    with scripted(Say("Hello."), Say(calls=(read,)), Say("I am here.")) as server:
        terminal = start(server, largest_file=2_000_000)
        terminal.send("Hello")
        terminal.wait("Hello.")
        terminal.send("Read it all")
        terminal.wait("✗")
        terminal.send("Still there?")
        terminal.wait("I am here.")
        assert server.refused == []
        assert ("tool", "interrupted: no result was recorded") in server.said()
        assert terminal.leave() == 0
    assert kinds(reopened())[-2:] == ["user", "assistant"]


def test_a_damaged_store_is_one_line_at_the_start(start, address):
    backstory.open(address).close()
    with open(address, "r+b") as file:
        file.write(b"not a database at all")
    with scripted() as server:
        terminal = start(server, columns=140)
        assert terminal.ended() == 1
    assert len(terminal.text.split("backstory:")) == 2


def test_what_is_pasted_is_one_prompt_and_the_external_editor_can_change_it(start, folder, tmp_path):
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho "from the editor" >> "$1"\n')
    editor.chmod(0o755)
    with scripted(Say("Answer 1.")) as server:
        terminal = start(server, env={"EDITOR": str(editor), "VISUAL": str(editor)})
        terminal.ready()
        terminal.type("\x1b[200~first line\nsecond line\x1b[201~")
        terminal.wait("second line")
        terminal.type("\x18\x05")
        terminal.wait("from the editor")
        terminal.type("\r")
        terminal.wait("Answer 1.")
        assert server.said()[-1][1].split("\n")[0] == "first line"
        assert "second line" in server.said()[-1][1]
        assert "from the editor" in server.said()[-1][1]


def test_ctrl_c_stops_a_tool_and_its_call_has_a_result(start, folder, reopened):
    command = ("call_1", "bash", '{"command": "touch began; sleep 30; touch ended"}')
    with scripted(Say(calls=(command,)), Say("As you like.")) as server:
        terminal = start(server, "--yes")
        terminal.send("Run it")
        wait_for(folder / "began")
        terminal.type("\x03")
        terminal.wait("interrupted: it was stopped")
        result = reopened().context().messages[-1]
        assert (result.kind, result.data["error"]) == ("tool_result", True)
        terminal.send("Never mind")
        terminal.wait("As you like.")
        assert server.refused == []
        assert not (folder / "ended").exists()
