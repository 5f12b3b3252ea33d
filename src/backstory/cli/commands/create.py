"""Commands that write events, and those that start, name and describe agents."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import click

from backstory.cli import output
from backstory.cli.input import parse_json_option, read_input, system_options
from backstory.cli.options import command, find_writable, get_agent, key_option, reference
from backstory.cli.stores import find_reference
from backstory.errors import Invalid, InvalidEvent
from backstory.log.arguments import check_own_note_name
from backstory.log.checks import check_not_blank
from backstory.log.kinds import KINDS, NEVER_BLANK, EventKind
from backstory.present.agent_lists import find_free_name
from backstory.store import Store

FIELDS = ("kind", "content", "data", "key")

# --- events ---


@command(
    "append",
    example='backstory append main "Which files are here?"\n'
    "cat answer.txt | backstory append main --kind assistant\n"
    "backstory append main --jsonl < events.jsonl",
)
@reference()
@click.argument("text", required=False)
@click.option(
    "--kind", type=click.Choice(list(KINDS)), default="user", help="The kind (default: user)."
)
@click.option("--data", metavar="JSON", help="The event's data, a JSON object.")
@click.option(
    "--jsonl",
    is_flag=True,
    help='Read events from standard input: {"kind", "content", "data", "key"} per line.',
)
@click.option(
    "--key",
    help="Write the event only if the history has none with this key; otherwise print that one.",
)
@click.option(
    "--expected", type=click.IntRange(0), metavar="HEAD", help="Write only if this is the head."
)
def append_command(
    store: Store,
    ref: str,
    text: str | None,
    kind: EventKind,
    data: str | None,
    jsonl: bool,
    key: str | None,
    expected: int | None,
) -> None:
    """Without TEXT, or with - for it, the text is read from standard input. The text of a mark is
    its label. To append to the latest agent, write @ for REF. With --jsonl, all events are written
    or none. Prints the new head."""
    if jsonl and (text, data, key) != (None, None, None):
        raise click.UsageError(
            "--jsonl reads everything from standard input: leave out TEXT, --data and --key."
        )
    agent = find_writable(store, ref, "append", alone=text is None)
    if jsonl:
        written = agent.extend(list(_read_events()), expected=expected)
    else:
        event = _build_event(kind, _read_text(ref, text, kind), parse_json_option("--data", data))
        written = [agent.append(*event, key=key, expected=expected)]
    output.print_events(agent, written)


def _read_text(ref: str, text: str | None, kind: str) -> str | None:
    """Return the text of the event, from standard input if it is not an argument."""
    needs_text = KINDS[kind].is_message and kind != "tool_call"
    if text is not None and text != "-":
        return text
    if text is None and not needs_text:
        return None
    found = read_input(f"the text for {ref}").removesuffix("\n")  # which the shell added
    if not found and kind not in NEVER_BLANK:
        raise Invalid(
            "standard input is empty", remedy='if the text should be empty, give it as ""'
        )
    return found


def _build_event(
    kind: EventKind, content: str | None, data: Any
) -> tuple[EventKind, str | None, Any]:
    if kind == "mark" and content is not None and data is None:
        content, data = None, {"label": content}
    check_not_blank(kind, content, data)
    if kind == "note":
        check_own_note_name(content)
    return kind, content, data


def _read_events() -> Iterator[tuple[Any, ...]]:
    """Yield the events on standard input."""
    if sys.stdin.isatty():
        output.report("Type one JSON object per line, then press Ctrl-D on an empty line.")
    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
        except ValueError as error:
            raise InvalidEvent(
                f"line {number} is not JSON: {error}; nothing was written"
            ) from error
        if not isinstance(event, dict) or not event.keys() <= set(FIELDS):
            raise InvalidEvent(
                f"line {number} is not an object with kind, content, data and key; "
                "nothing was written"
            )
        yield tuple(event.get(field) for field in FIELDS)


@command(
    "mark",
    example='backstory mark main "before the cleanup"\nbackstory mark @ "before the cleanup"',
)
@reference()
@click.argument("label", required=False)
def mark_command(store: Store, ref: str, label: str | None) -> None:
    """To mark the latest agent with a label, write @ for REF. Prints the new head."""
    agent = find_writable(store, ref, "mark", alone=label is None)
    output.print_events(agent, [agent.mark(label)])


@command(
    "label",
    example='backstory label main@7 "before the cleanup"\nbackstory jump main@"before the cleanup"',
)
@reference(metavar="REF[@POS]", required=True)
@click.argument("name")
def label_command(store: Store, ref: str, name: str) -> None:
    """REF@NAME then means this position (default: the head), wherever the agent is. If a name is
    given twice, the later one counts. Prints the new head."""
    agent, at, _ = find_reference(store, ref)
    output.print_events(agent, [agent.label(name, at=at)])


@command(
    "compact",
    example='backstory compact main "They asked for the Python files: a.py and b.py." --keep 4',
)
@reference(required=True)
@click.argument("summary")
@click.option(
    "--keep",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Keep the last N messages (default: 0).",
)
def compact_command(store: Store, ref: str, summary: str, keep: int) -> None:
    """SUMMARY takes the place of the older messages in the context; system messages and settings
    stay. `backstory undo` takes all of it back. Prints the new head."""
    agent = find_writable(store, ref, "compact", alone=False)
    output.print_events(agent, agent.compact(summary, keep=keep))


# --- agents ---


@command(
    "new",
    example='backstory new work --system "Be careful."\nbackstory new --key tickets/1234',
    store="make",
)
@click.argument("name", required=False)
@system_options
@click.option(
    "--key",
    metavar="TEXT",
    help="A key to find it by. If an agent has this key already, that one is printed.",
)
def new_command(store: Store, name: str | None, system: str | None, key: str | None) -> None:
    """NAME is the name of the agent, and of the session (default: main). If an agent has this name,
    the new one gets a number: main-2. The store is created if it does not exist. With --key, a
    session is started only if no agent has the key. Prints the id of the agent."""
    if key is not None:
        agent = store.ensure(key, name=name, system=system)
        summary = f"the agent with this key is {agent.name!r} in {store.url}"
        output.print_agent(agent, summary)
        return
    wanted = "main" if name is None else name
    agent = store.start(find_free_name(wanted, store.agents()), system=system)
    if agent.name != wanted:
        output.report(f"{wanted!r} exists: the new agent is {agent.name!r}")
    output.print_agent(agent, f"started {agent.name!r} in {store.url}")


@command("fork", example="backstory fork main@7 idea")
@reference(metavar="REF[@POS]")
@click.argument("name", required=False)
@key_option
def fork_command(store: Store, ref: str, name: str | None, key: str | None) -> None:
    """The new agent continues from the position, by default from the head. Nothing is copied, and
    the other agent does not change. Prints the id of the new agent."""
    parent, at, _ = find_reference(store, ref)
    child = parent.fork(name, at=at, key=key)
    summary = f"forked {child.name!r} from {parent.name!r} at {child.fork_seq}"
    output.print_agent(child, summary)


@command("spawn", example="backstory spawn main reviewer")
@reference()
@click.argument("name", required=False)
@key_option
def spawn_command(store: Store, ref: str, name: str | None, key: str | None) -> None:
    """The sub-agent belongs to the session of REF and inherits nothing from it. Prints its id."""
    parent = get_agent(find_reference(store, ref), "spawn takes an agent, not a position")
    child = parent.spawn(name, key=key)
    output.print_agent(child, f"spawned {child.name!r} below {parent.name!r}")


@command("rename", example="backstory rename fork-1a2b3c idea")
@reference(required=True)
@click.argument("name")
def rename_command(store: Store, ref: str, name: str) -> None:
    """Names are unique within a session. Prints the id of the agent, which stays the same."""
    agent = get_agent(find_reference(store, ref), "rename takes an agent, not a position")
    before = agent.name
    agent.rename(name)
    output.print_agent(agent, f"renamed {before!r} to {name!r}")


@command(
    "describe",
    example='backstory describe main --title "Cleaning up" --tag work\n'
    "backstory describe main --no-title",
)
@reference()
@click.option("--title", help="The title.")
@click.option("--no-title", is_flag=True, help="Remove the title.")
@click.option(
    "--tag", "tags", multiple=True, help="A tag (may be repeated); replaces the tags that it had."
)
@click.option("--no-tags", is_flag=True, help="Remove all tags.")
def describe_command(
    store: Store,
    ref: str,
    title: str | None,
    no_title: bool,
    tags: tuple[str, ...],
    no_tags: bool,
) -> None:
    """The title and tags of a session's first agent are those of the session. They are stored
    beside the log, and no model sees them. Prints them as they are now."""
    agent = get_agent(find_reference(store, ref), "describe takes an agent, not a position")
    change: dict[str, object] = {}
    if title is not None:
        change["title"] = title
    if tags:
        change["tags"] = list(tags)
    if no_title:
        change["title"] = None
    if no_tags:
        change["tags"] = None
    about = agent.describe(**change) if change else agent.about
    if output.wants_json():
        output.print_json(about)
        return
    output.print_line(f"title\t{about.get('title') or ''}")
    output.print_line(f"tags\t{', '.join(about.get('tags') or ())}")
