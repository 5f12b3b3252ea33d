"""What the page may change, if it may: forks, moves, marks and names."""

from collections.abc import Callable
from typing import Any

from backstory.agent import Agent
from backstory.errors import Invalid
from backstory.log.events import Event
from backstory.present.shapes import agent_json, event_json

Body = dict[str, Any]
COMMANDS = ("clear", "rewind", "jump", "undo", "redo", "mark")


def fork(agent: Agent, body: Body, by: str | None) -> Any:
    """A new agent that goes on from a position."""
    made = agent.fork(_text(body, "name"), at=_number(body, "at"))
    if by is not None:
        made.describe(by=by)
    return agent_json(made, [])


def move(agent: Agent, body: Body, by: str | None) -> Any:
    """A clear, rewind, jump, undo, redo or mark, if the head is still where the person saw it."""
    name, expected = body.get("move"), _number(body, "expected")
    if name not in COMMANDS:
        raise Invalid(f"move is not one of {', '.join(COMMANDS)}")
    if expected is None:
        raise Invalid("a move names the head that it expects")
    to, label = _number(body, "to"), _text(body, "label")
    if name == "jump" and to is None:
        raise Invalid("a jump names a position")
    moves: dict[str, Callable[[], Event]] = {
        "clear": lambda: agent.clear(expected=expected, by=by),
        "rewind": lambda: agent.rewind(to, expected=expected, by=by),
        "jump": lambda: agent.jump(to or 0, expected=expected, by=by),
        "undo": lambda: agent.undo(expected=expected, by=by),
        "redo": lambda: agent.redo(expected=expected, by=by),
        "mark": lambda: agent.mark(label, expected=expected, by=by),
    }
    return event_json(moves[str(name)]())


def rename(agent: Agent, body: Body, _by: str | None) -> Any:
    """Another name for an agent."""
    name = _text(body, "name")
    if name is None:
        raise Invalid("a name is a text")
    agent.rename(name)
    return agent_json(agent)


WRITES: dict[str, Callable[[Agent, Body, str | None], Any]] = {
    "/agents/{id}/fork": fork,
    "/agents/{id}/move": move,
    "/agents/{id}/rename": rename,
}


def _number(body: Body, name: str) -> int | None:
    value = body.get(name)
    if value is not None and type(value) is not int:
        raise Invalid(f"{name} is not a whole number")
    return value


def _text(body: Body, name: str) -> str | None:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise Invalid(f"{name} is not a text")
    return value or None
