"""The real program in a pseudo-terminal, against a server with a script: a conversation as it is drawn."""

import io
from types import SimpleNamespace

import pytest
from prompt_toolkit.data_structures import Point, Size
from prompt_toolkit.layout import Window
from prompt_toolkit.layout.screen import Char, Screen

from backstory.chat.screen import ReflowedOutput
from tests.chat.screen import contents, kinds, page_of, wait_for
from tests.runtime.scripted import Refuse, Say, scripted

GLOB = ("call_1", "glob", '{"pattern": "*.py"}')


def test_a_single_glob_call_is_remembered_after_a_restart(start, reopened):
    with scripted(Say(calls=(GLOB,)), Say("Two: a.py and b.py."), Say("Yes, two.")) as server:
        terminal = start(server)
        terminal.send("Which Python files are here?")
        terminal.answered("Two: a.py and b.py.")
        assert terminal.leave() == 0
        assert [event.kind for event in reopened().events()][:2] == ["clear", "system"]
        assert kinds(reopened()) == ["system", "user", "tool_call", "tool_result", "assistant"]
        head = reopened().head

        again = start(server, cold=True)
        text = again.ready()
        assert "> Which Python files are here?" in text
        assert "restored 5 messages, 0 marks" in text
        assert reopened().head == head
        again.send("Do you remember?")
        again.answered("Yes, two.")
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
        terminal.answered("All done.")
        results = {
            m["tool_call_id"]: m["content"] for m in server.last["messages"] if m["role"] == "tool"
        }
        assert results["call_1"] == "a.py\nb.py"
        assert results["call_2"] == "# Notes\n"
        assert "no tool 'fly'" in results["call_3"]
        assert "not a JSON object" in results["call_4"]
        assert server.refused == []
        broken = [e.data for e in reopened().context().messages if e.kind == "tool_call"][3]
        assert broken["arguments"] == '{"pattern": '


def test_ctrl_c_stops_an_answer_and_keeps_what_was_said(start, reopened):
    with scripted(Say("one two three four", held=True), Say("Fine.")) as server:
        terminal = start(server)
        terminal.send("Count")
        terminal.wait("one two three")
        terminal.type("\x03")
        terminal.wait("⚠ interrupted: stopped before it was complete")
        terminal.wait("stopped; what was said is kept")
        kept = reopened().context().messages[-1]
        assert kept.kind == "assistant"
        assert kept.content.startswith("one two three")
        assert kept.data["interrupted"] is True
        terminal.send("Go on")
        terminal.answered("Fine.")
        assert server.said()[2] == ("assistant", kept.content)
        assert server.refused == []


def test_a_rate_limit_is_waited_for_and_a_dropped_connection_tried_again(start, reopened):
    limited = Refuse(429, "slow down", (("Retry-After", "0.2"),))
    with scripted(limited, Say("half an answer", drop_after=2), Say("The whole answer.")) as server:
        terminal = start(server)
        terminal.send("Hello")
        terminal.wait("limits the rate of requests (HTTP 429: slow down); trying")
        terminal.answered("The whole answer.")
        assert len(server.bodies) == 3
        assert contents(reopened())[1:] == ["Hello", "The whole answer."]
        assert "half an" not in terminal.text


def test_text_from_a_model_or_a_file_cannot_drive_the_terminal(start, folder):
    (folder / "evil.txt").write_text("\x1b]0;owned\x07\x1b[2J")
    call = ("call_1", "read_file", '{"path": "evil.txt"}')
    with scripted(Say("\x1b[31mred\x07", calls=(call,)), Say("Over.")) as server:
        terminal = start(server)
        terminal.send("Read it")
        terminal.answered("Over.")
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


def test_an_answer_longer_than_the_screen_is_there_once_and_whole(start):
    text = "\n".join(f"- point {number};" for number in range(120))
    with scripted(Say(text)) as server:
        terminal = start(server)
        terminal.send("A long one")
        terminal.wait("point 119;")
        shown = terminal.ready()
        assert [shown.count(f"point {number};") for number in range(120)] == [1] * 120


@pytest.mark.parametrize("parts", [1, 12, 40])
def test_an_answer_in_a_window_that_becomes_narrower_is_whole_and_after_a_redraw_once(start, parts):
    words = [f"<{number}>" for number in range(400)]
    size = len(words) // parts
    paragraphs = [" ".join(words[at : at + size]) for at in range(0, len(words), size)]
    with scripted(Say("\n\n".join(paragraphs), held=True)) as server:
        terminal = start(server, columns=120)
        terminal.send("Many words")
        terminal.wait("<399>")
        terminal.narrow(60)
        terminal.wait(lambda text: all(len(line) <= 60 for line in text.split("\n")[-40:]))
        server.release()
        shown = terminal.ready().replace("\n", "")
        assert [word for word in words if word not in shown] == []
        terminal.type("\x0f")
        terminal.wait("── results in full")
        page = page_of(terminal.ready()).replace("\n", "")
        assert [word for word in words if page.count(word) != 1] == []


def test_a_row_that_a_narrower_window_has_broken_is_erased_completely():
    columns = 120
    written = io.StringIO()
    output = ReflowedOutput(written, lambda: Size(rows=40, columns=columns))
    drawn, window = Screen(), Window()
    for column in range(100):
        drawn.data_buffer[0][column] = Char("x")
    drawn.set_cursor_position(window, Point(x=0, y=1))
    renderer = SimpleNamespace(last_rendered_screen=drawn)
    layout = SimpleNamespace(current_window=window)
    output.note_render(SimpleNamespace(renderer=renderer, layout=layout))
    columns = 60
    output.cursor_up(1)
    output.cursor_up(1)
    output.flush()
    assert written.getvalue() == "\x1b[2A\x1b[A"


def test_lines_stay_as_they_were_written(start):
    poem = "Roses are red\nViolets are blue\n\n1) one\n2) two"
    with scripted(Say(poem)) as server:
        terminal = start(server)
        terminal.send("A poem")
        lines = [line.strip() for line in terminal.answered("two").split("\n")]
        assert lines[lines.index("Roses are red") + 1] == "Violets are blue"


def test_ctrl_c_stops_a_tool_and_its_call_has_a_result(start, folder, reopened):
    command = ("call_1", "bash", '{"command": "touch began; sleep 30; touch ended"}')
    with scripted(Say(calls=(command,)), Say("As you like.")) as server:
        terminal = start(server)
        terminal.send("Run it")
        terminal.allow()
        wait_for(folder / "began")
        terminal.type("\x03")
        terminal.wait("interrupted: it was stopped")
        result = reopened().context().messages[-1]
        assert (result.kind, result.data["error"]) == ("tool_result", True)
        terminal.send("Never mind")
        terminal.answered("As you like.")
        assert server.refused == []
        assert not (folder / "ended").exists()
