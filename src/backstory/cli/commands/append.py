"""new, rename, append, mark, fork and spawn: what adds to a store.

Each prints what the next command needs: the id of a new agent, or the new head.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

import click

from backstory.agent import Agent
from backstory.cli import output as screen
from backstory.cli.options import agent_of, command, opened, reference
from backstory.core.events import KINDS, Event
from backstory.errors import AgentNotFound, Invalid, InvalidEvent
from backstory.present.shapes import agent_json, event_json
from backstory.references import Reference
from backstory.store import Store


@command("new", example='backstory new work --system "Be careful."')
@click.argument("name", default="main")
@click.option("--system", metavar="TEXT", help="The system message to begin with.")
def new_command(url: str | None, name: str, system: str | None, as_json: bool) -> None:
    """Start a session and its root agent; print its id. The store is made if it is not there."""
    with opened(url, make=True) as store:
        agent = store.start(name, system=system)
        _print_agent(agent, f"started {agent.name!r} in {store.url}", as_json)


@command("rename", example="backstory rename fork-1a2b3c idea")
@reference(required=True)
@click.argument("name")
def rename_command(url: str | None, ref: str, name: str, as_json: bool) -> None:
    """Give an agent another name."""
    with opened(url) as store:
        agent = _agent(store.resolve(ref))
        before = agent.name
        agent.rename(name)
        _print_agent(agent, f"{before!r} is now {name!r}", as_json)


@command("fork", example="backstory fork main@7 idea")
@reference(metavar="REF[@POS]")
@click.argument("name", required=False)
def fork_command(url: str | None, ref: str, name: str | None, as_json: bool) -> None:
    """A new agent that goes on from a position (by default the head); print its id. Nothing is
    copied, and the parent is not touched."""
    with opened(url) as store:
        parent, at, _ = store.resolve(ref)
        child = parent.fork(name, at=at)
        _print_agent(child, f"forked {child.name!r} from {parent.name!r} at {child.fork_seq}", as_json)


@command("spawn", example="backstory spawn main reviewer")
@reference()
@click.argument("name", required=False)
def spawn_command(url: str | None, ref: str, name: str | None, as_json: bool) -> None:
    """A new agent below another that inherits nothing; print its id."""
    with opened(url) as store:
        parent = _agent(store.resolve(ref))
        child = parent.spawn(name)
        _print_agent(child, f"spawned {child.name!r} below {parent.name!r}", as_json)


@command("mark", example='backstory mark main "before the cleanup"')
@reference()
@click.argument("label", required=False)
def mark_command(url: str | None, ref: str, label: str | None, as_json: bool) -> None:
    """Set a mark to come back to; print the new head."""
    with opened(url) as store:
        agent = _written_to(store, ref, "mark", alone=label is None)
        _print_events([agent.mark(label)], as_json)


@command(
    "append",
    example='backstory append main "Which files are here?"\n'
    "cat answer.txt | backstory append main --kind assistant\n"
    "backstory append main --jsonl < events.jsonl",
)
@reference()
@click.argument("text", required=False)
@click.option("--kind", type=click.Choice(list(KINDS)), default="user", help="What it is (default: user).")
@click.option("--data", metavar="JSON", help="The event's data, a JSON object.")
@click.option(
    "--jsonl", is_flag=True, help='Read {"kind", "content", "data"} a line: all are written, or none.'
)
@click.option("--expected", type=click.IntRange(0), metavar="HEAD", help="Only if this is still the head.")
def append_command(
    url: str | None,
    ref: str,
    text: str | None,
    kind: str,
    data: str | None,
    jsonl: bool,
    expected: int | None,
    as_json: bool,
) -> None:
    """Write an event, and print the new head. The text is an argument, or standard input (TEXT is
    left out, or -). The text of a mark is its label. To write to the latest agent, call it @."""
    if jsonl and (text is not None or data is not None):
        raise click.UsageError("--jsonl reads everything from standard input: leave out TEXT and --data.")
    with opened(url) as store:
        agent = _written_to(store, ref, "append", alone=text is None)
        if jsonl:
            written = agent.extend(list(_json_lines()), expected=expected)
        else:
            needs_text = KINDS[kind].speaks and kind != "tool_call"
            content = _standard_input(ref) if text == "-" or (text is None and needs_text) else text
            written = [agent.append(*_event(kind, content, _object(data)), expected=expected)]
        _print_events(written, as_json)


def _written_to(store: Store, ref: str, command: str, *, alone: bool) -> Agent:
    """The agent to write to. Who gives one argument only may have meant it for the latest one."""
    try:
        return _agent(store.resolve(ref))
    except AgentNotFound as error:
        if not alone or ref.startswith("@"):
            raise
        hint = f"to use the latest agent write backstory {command} @ {json.dumps(ref, ensure_ascii=False)}"
        raise AgentNotFound(error.message, remedy=hint) from error


def _event(kind: str, content: str | None, data: Any) -> tuple[str, str | None, Any]:
    if kind == "mark" and content is not None and data is None:
        return kind, None, {"label": content}
    return kind, content, data


def _standard_input(ref: str) -> str:
    text = _all_of_standard_input(ref)
    if not text:
        raise Invalid('there is no text: give it as an argument ("" is an empty one) or on standard input')
    return text.removesuffix("\n")  # the shell's, not the writer's


def _all_of_standard_input(ref: str) -> str:
    if sys.stdin.isatty():
        screen.say(f"The text for {ref}; end it with Ctrl-D on a line of its own.")
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError as error:
        raise InvalidEvent(f"standard input is not UTF-8: {error}; nothing was written") from error


def _object(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError as error:
        raise InvalidEvent(f"--data is not JSON: {error}") from error


def _json_lines() -> Iterator[tuple[Any, ...]]:
    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
            unknown = set(event) - {"kind", "content", "data"}
        except (ValueError, TypeError) as error:
            raise InvalidEvent(f"line {number} is not JSON: {error}; nothing was written") from error
        if not isinstance(event, dict) or unknown:
            raise InvalidEvent(
                f"line {number}: give an object with kind, content and data; nothing was written"
            )
        yield event.get("kind"), event.get("content"), event.get("data")


def _agent(found: Reference) -> Agent:
    return agent_of(found, "this writes at the head, not at a position (fork there first)")


def _print_agent(agent: Agent, said: str, as_json: bool) -> None:
    if as_json:
        screen.answer_json(agent_json(agent))
        return
    screen.answer(agent.id)
    if screen.talks_to_terminal():
        screen.say(said)


def _print_events(written: list[Event], as_json: bool) -> None:
    if as_json:
        for event in written:
            screen.answer_json(event_json(event))
    elif written:
        screen.answer(str(written[-1].seq))
