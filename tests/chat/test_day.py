"""A scripted day in the real program: sixty turns, two compactions inside turns, restarts, two terminals."""

import json

import pytest

import backstory
from tests.chat.screen import BUSY, STATUS, prompts_on
from tests.runtime.scripted import Say, scripted

TURNS = 60
RESTARTS = (15, 45)  # by a kill, and by leaving
COMPACTED = (20, 40)  # turns that read too much
SECOND = 30  # the turn that another terminal asks
BIG = "a line of a large file\n" * 200
TEXTS = (
    "A short answer.",
    "# A title\n\nA paragraph " + "of many words " * 30 + "\n\n- one\n- two",
    "| name | use |\n| --- | --- |\n| report.py | " + "sums up " * 12 + "|",
    "```python\ndef total(rows):\n    return sum(rows)\n```",
    "日本語のテキスト " * 10,
)


def call(number, name, **arguments):
    return ((f"call_{number}", name, json.dumps(arguments)),)


def answers(number):
    """Return what the server says in one turn."""
    end = Say(f"{TEXTS[number % len(TEXTS)]}\n\nend-{number}.")
    if number in COMPACTED:
        reads = [
            Say(calls=call(f"{number}_{part}", "read_file", path="big.txt")) for part in (1, 2)
        ]
        return [*reads, end]
    if number % 7 == 3:
        return [Say("Looking.", calls=call(number, "glob", pattern="*.py")), end]
    return [end]


class Script(list):
    """The answers of a turn. A request for a summary, whenever it comes, gets one."""

    def __init__(self, server):
        super().__init__()
        self._server = server

    def pop(self, index=0):
        asked = self._server.last["messages"][-1]["content"]
        is_summary = "Summarize this conversation" in asked
        return Say("A summary.") if is_summary else super().pop(index)


class Day:
    """One person, who restarts the chat now and then."""

    def __init__(self, start, server, columns):
        self._start = start
        self._server = server
        self._columns = columns
        self.terminal = self.open()

    def open(self):
        terminal = self._start(self._server, "--window", "6000", columns=self._columns)
        terminal.ready()
        return terminal

    def ask(self, number, terminal):
        self._server.script[:] = answers(number)
        terminal.send(f"question {number}")
        text = terminal.answered(f"end-{number}.")
        assert f"question {number}" in prompts_on(text)
        check_screen(terminal, self._columns)


def check_screen(terminal, columns):
    """No line is too long, no answer is drawn twice, and there is one status line."""
    lines = terminal.text.rstrip().split("\n")
    assert all(len(line) <= columns for line in lines)
    shown = [line for line in lines if STATUS.search(line) or BUSY in line]
    assert len(shown) == 1
    page = lines[-terminal.screen.lines :]
    ends = [line.strip() for line in page if line.strip().startswith("end-")]
    assert len(ends) == len(set(ends))


@pytest.mark.slow
@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_day_of_sixty_turns(start, folder, address, columns):
    (folder / "big.txt").write_text(BIG)
    with scripted() as server:
        server.script = Script(server)
        day = Day(start, server, columns)
        for number in range(TURNS):
            if number == RESTARTS[0]:
                day.terminal.kill()
                day.terminal = day.open()
            elif number == RESTARTS[1]:
                assert day.terminal.leave() == 0
                day.terminal = day.open()
            elif number == SECOND:
                other = day.open()
                day.ask(number, other)
                day.terminal.wait(f"end-{number}.")
                assert other.leave() == 0
                continue
            day.ask(number, day.terminal)
        assert day.terminal.leave() == 0
        assert server.refused == []
    with backstory.open(address) as store:
        agent = store.resolve("@").agent
        asked = [
            event.content
            for event in agent.events()
            if event.kind == "user" and "compacted" not in (event.data or {})
        ]
        for number in range(TURNS):
            assert f"question {number}" in asked
        summaries = [event for event in agent.events() if "compacted" in (event.data or {})]
        assert len(summaries) >= len(COMPACTED)
        assert not store.verify()
