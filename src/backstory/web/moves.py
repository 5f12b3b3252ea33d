"""What the page may change, if it may: forks, moves, marks and names."""

from collections.abc import Callable
from typing import Any

from backstory.agent import Agent
from backstory.errors import Invalid
from backstory.present.shapes import agent_json, event_json

Body = dict[str, Any]
COMMANDS = ("clear", "rewind", "jump", "undo", "redo", "mark")


def fork(agent: Agent, body: Body, by: str | None) -> Any:
    """Start a new agent that continues from a position."""
    made = agent.fork(read_text(body, "name"), at=read_int(body, "at"))
    if by is not None:
        made.describe(by=by)
    return agent_json(made) | {"marks": 0}


def move(agent: Agent, body: Body, by: str | None) -> Any:
    """Append a clear, rewind, jump, undo, redo or mark, if the head is where the person saw it."""
    command = body.get("move")
    if command not in COMMANDS:
        raise Invalid(f"move is not one of {', '.join(COMMANDS)}")
    expected = read_int(body, "expected")
    if expected is None:
        raise Invalid("a move names the head that it expects")
    to = read_int(body, "to")
    if command == "mark":
        return event_json(agent.mark(read_text(body, "label"), expected=expected, by=by))
    if command == "rewind":
        return event_json(agent.rewind(to, expected=expected, by=by))
    if command == "jump":
        if to is None:
            raise Invalid("a jump names a position")
        return event_json(agent.jump(to, expected=expected, by=by))
    moves = {"clear": agent.clear, "undo": agent.undo, "redo": agent.redo}
    return event_json(moves[command](expected=expected, by=by))


def rename(agent: Agent, body: Body, _by: str | None) -> Any:
    """Give an agent another name."""
    name = read_text(body, "name")
    if name is None:
        raise Invalid("a name is a text")
    agent.rename(name)
    return agent_json(agent)


WRITES: dict[str, Callable[[Agent, Body, str | None], Any]] = {
    "/agents/{id}/fork": fork,
    "/agents/{id}/move": move,
    "/agents/{id}/rename": rename,
}


def read_int(body: Body, name: str) -> int | None:
    """Return a whole number of the body, or None."""
    value = body.get(name)
    if value is not None and type(value) is not int:
        raise Invalid(f"{name} is not a whole number")
    return value


def read_text(body: Body, name: str) -> str | None:
    """Return a text of the body, or None."""
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise Invalid(f"{name} is not a text")
    return value or None
