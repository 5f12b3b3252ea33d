"""An agent of one's own, and the way to a provider."""

from typing import Any, assert_type

from backstory import Agent, Loop, Tool, wire
from backstory.runtime.models import Model


def greet(name: str) -> str:
    """Greet someone."""
    return f"Hello, {name}!"


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def request(agent: Agent) -> dict[str, Any]:
    dumped = wire.dump(agent.context().messages, "anthropic")
    assert_type(dumped.body, dict[str, Any])
    assert_type([repair.rule for repair in dumped.repairs], list[str])
    return dumped.body


def tools() -> list[Tool]:
    return [
        Tool.of(greet),
        Tool.of(add),  # type: ignore[arg-type]
    ]


def agent_of_ones_own(agent: Agent, model: Model) -> Loop:
    return Loop(agent, model, tools())
