"""The real program with Anthropic's own SDK, against a server with a script: tools, thinking, a restart."""

import pytest

from tests.runtime.anthropic_stream import THINKS, anthropic_events, calls, says
from tests.runtime.event_server import event_server
from tests.wire.rules import violations


@pytest.mark.slow
def test_tools_and_thinking_go_there_and_back_and_survive_a_restart(start, reopened):
    first = anthropic_events(
        THINKS, says("Looking."), calls("t1", '{"pattern": "*.py"}'), ended="tool_use"
    )
    with event_server(
        first, anthropic_events(says("Two of them.")), anthropic_events(says("Still two."))
    ) as server:
        arguments = ("--model", "anthropic:claude-x", "--base-url", server.url)
        terminal = start(None, *arguments)
        terminal.send("Which?")
        terminal.answered("Two of them.")
        assert terminal.leave() == 0
        again = start(None, *arguments)
        assert "● glob *.py" in again.ready()
        again.send("Sure?")
        again.answered("Still two.")
        assert [violations(body, "anthropic") for body in server.bodies] == [[]] * 3
        thought, text, call = server.bodies[-1]["messages"][1]["content"]
        assert (thought["thinking"], thought["signature"]) == ("Hm.", "c2ln")
        assert (text["text"], call["name"], call["input"]) == (
            "Looking.",
            "glob",
            {"pattern": "*.py"},
        )
    assert [event.kind for event in reopened().context().messages if event.kind != "note"] == [
        "system", "user", "assistant", "tool_call", "tool_result", "assistant", "user", "assistant",
    ]  # fmt: skip
