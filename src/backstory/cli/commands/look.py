"""Commands that look at one agent: its log, its context, and how contexts differ."""

import json
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import click

from backstory.agent import Agent
from backstory.cli import output
from backstory.cli.input import parse_json_option
from backstory.cli.options import (
    command,
    complete_reference,
    find_writable,
    kinds_option,
    limit_option,
    reference,
)
from backstory.cli.stores import find_reference, is_lent
from backstory.errors import Invalid
from backstory.log.diff import Change, Comparison
from backstory.log.events import Event, to_json
from backstory.log.kinds import KINDS
from backstory.log.replay import Explanation
from backstory.present.event_text import STYLES, body, gist
from backstory.present.history import (
    ExplainedEvent,
    follow_history,
    read_history,
    read_live_history,
)
from backstory.present.shapes import (
    comparison_json,
    event_json,
    explanation_json,
    mark_json,
    tokens_json,
)
from backstory.present.text import clock, count, one_line, stamp, visible
from backstory.references import Reference
from backstory.store import Store
from backstory.wire import FORMATS, FormatName

if TYPE_CHECKING:
    from rich.text import Text

# --- the log ---


@command(
    "log",
    example="backstory log main --live\n"
    "backstory log main --since before --kind user\n"
    "backstory log -f -n 5",
)
@reference(metavar="REF[@POS]")
@click.option("--live", is_flag=True, help="Only events that are in the context.")
@kinds_option
@click.option("--since", metavar="POS", help="Only events after a position, a label or a time.")
@limit_option("Only the last N events", "-n", "--last")
@click.option(
    "-f", "--follow", is_flag=True, help="Continue with what is written from now on, until Ctrl-C."
)
@click.option("--full", is_flag=True, help="All of each text, not only its first line.")
def log_command(
    store: Store,
    ref: str,
    live: bool,
    kinds: tuple[str, ...],
    since: str | None,
    last: int | None,
    follow: bool,
    full: bool,
) -> None:
    """The oldest event comes first. Dead events are dimmed, and say which event left them behind.
    REF@POS shows the log as it was at that position. In a pipe: position, kind, status, time,
    text."""
    agent, at, _ = find_reference(store, ref)
    if follow:
        _check_can_follow(at)
    until = agent.head if at is None else at
    after = _find_start(store, agent, since)
    if last is not None and not kinds and not live:
        after = max(after, until - last)
    read = read_live_history if live else read_history
    events = _select_kinds(read(agent, after, until, at), kinds)
    if last is not None:
        events = iter(deque(events, maxlen=last))
    _print_log(events, full=full, pager=not follow)
    if follow:
        new = _select_kinds(follow_history(agent, until), kinds)
        _print_log(new, full=full, pager=False)


def _find_start(store: Store, agent: Agent, since: str | None) -> int:
    """Return the position that --since names, or 0."""
    if since is None:
        return 0
    return find_reference(store, f"{agent.id}@{since}").at or 0


def _check_can_follow(at: int | None) -> None:
    if is_lent():
        raise Invalid("-f follows until Ctrl-C", remedy="run it in a shell")
    if at is not None:
        raise Invalid(
            "-f follows an agent at its head, not at a position", remedy="leave out the @"
        )


def _select_kinds(
    events: Iterator[ExplainedEvent], kinds: tuple[str, ...]
) -> Iterator[ExplainedEvent]:
    """Return the events of these kinds, or all if there are none."""
    if not kinds:
        return events
    return ((event, why) for event, why in events if event.kind in kinds)


def _print_log(events: Iterator[ExplainedEvent], *, full: bool, pager: bool) -> None:
    def build_row(explained: ExplainedEvent) -> tuple[Any, ...]:
        event, why = explained
        text = gist(event)
        if full and event.content:
            text = event.content
        return event.seq, event.kind, _describe_status(why), stamp(event.created_at), text

    def draw(events: Iterable[ExplainedEvent]) -> None:
        output.draw_lines((_draw_event(event, why, full) for event, why in events), pager=pager)

    output.print_items(events, shape=lambda found: event_json(*found), row=build_row, draw=draw)


def _draw_event(event: Event, why: Explanation, full: bool) -> "Text":
    from rich.text import Text

    line = Text(no_wrap=not full, overflow="fold" if full else "ellipsis")
    line.append(f"{event.seq:>5} ", style="dim")
    line.append(f"{one_line(event.kind):<11} ", style=STYLES.get(event.kind, ""))
    line.append(f"{clock(event.created_at)}  ", style="dim")
    if not why.live:
        line.style = "dim"
        line.append(f"[{_describe_status(why)}] ", style="red")
    return line.append(visible(body(event)) if full else gist(event))


def _describe_status(why: Explanation) -> str:
    """Return the status of an event, with the position of what left it behind."""
    return why.status if why.live or why.by is None else f"{why.status} by {why.by}"


@command("show", example="backstory show main@7\nbackstory show main@7 --content > answer.txt")
@reference(metavar="REF[@POS]")
@click.option(
    "--content", is_flag=True, help="Only the content; into a file or pipe, byte for byte."
)
def show_command(store: Store, ref: str, content: bool) -> None:
    """Without a position, shows the newest event."""
    agent, at, _ = find_reference(store, ref)
    at = agent.head if at is None else at
    why = agent.explain(at)
    [event] = agent.events([at])
    if output.wants_json():
        about = {"agent": agent.id, "reason": why.reason, "live": why.live}
        output.print_json(event_json(event, why) | about)
    elif not content:
        _print_event(agent, event, why)
    elif output.is_terminal():
        output.print_line(event.content or "")
    else:
        # As bytes: click takes escapes out of text.
        click.echo((event.content or "").encode(), nl=False)


def _print_event(agent: Agent, event: Event, why: Explanation) -> None:
    output.print_line(f"{agent.name}@{event.seq}  {event.kind}  {stamp(event.created_at)}")
    output.print_line(f"agent {agent.id}")
    output.print_line(why.reason)
    if event.content is not None:
        output.print_line(f"\n{event.content}")
    if event.data is not None:
        output.print_line(f"\n{json.dumps(event.data, indent=2, ensure_ascii=False)}")
    elif event.data_json is not None:  # it is damaged
        output.print_line(f"\n{event.data_json}")


@command("explain", example="backstory explain main@7\nbackstory explain main@7 --at before")
@reference(metavar="REF[@POS]")
@click.option(
    "--at", "moment", metavar="POS", help="In the context at this position, label or time."
)
def explain_command(store: Store, ref: str, moment: str | None) -> None:
    """Without a position, explains the newest event."""
    agent, seq, _ = find_reference(store, ref)
    at = None if moment is None else find_reference(store, f"{agent.id}@{moment}").at
    why = agent.explain(agent.head if seq is None else seq, at=at)
    if output.wants_json():
        output.print_json(explanation_json(why))
    else:
        output.print_line(why.reason)


@command("marks", example="backstory marks main")
@reference(metavar="REF[@POS]")
@click.option("--all", "dead_too", is_flag=True, help="Include dead marks, which a jump can go to.")
def marks_command(store: Store, ref: str, dead_too: bool) -> None:
    """The oldest mark comes first. In a pipe: position, label, live or dead, time."""
    agent, at, _ = find_reference(store, ref)
    marks = [(mark, True) for mark in agent.marks(at)]
    if dead_too:
        events = read_history(agent, 0, agent.head if at is None else at, at)
        marks = [(event, why.live) for event, why in events if event.kind == "mark"]
    output.print_items(
        marks,
        shape=lambda found: mark_json(found[0], live=found[1]),
        row=lambda found: (
            found[0].seq,
            found[0].label,
            "live" if found[1] else "dead",
            stamp(found[0].created_at),
        ),
        draw=_draw_marks,
    )


def _draw_marks(marks: Iterable[tuple[Event, bool]]) -> None:
    table = output.make_table("at", "label", "set", right=["at"])
    for mark, live in marks:
        label = visible(mark.label or "(no label)", keep="")
        table.add_row(str(mark.seq), label, clock(mark.created_at), style="" if live else "dim")
    output.draw(table if table.rows else "no marks here; `backstory mark` sets one")


@command(
    "notes", example="backstory notes main --name backstory.failure\nbackstory notes main --all"
)
@reference(metavar="REF[@POS]")
@click.option("--name", help="Only notes with this name.")
@click.option("--all", "dead_too", is_flag=True, help="Include dead notes.")
def notes_command(store: Store, ref: str, name: str | None, dead_too: bool) -> None:
    """Notes are part of the log, but no model sees them. In a pipe: position, name, time, data."""

    def build_row(note: Event) -> tuple[Any, ...]:
        data = "" if note.data is None else to_json(note.data)
        return note.seq, note.content, stamp(note.created_at), data

    agent, at, _ = find_reference(store, ref)
    notes = agent.notes(name, at=at, live=not dead_too)
    output.print_items(notes, shape=event_json, row=build_row)


@command(
    "settings",
    example="backstory settings main@12 --json\n"
    "backstory settings main --model large --params '{\"temperature\": 0}'",
)
@reference(metavar="REF[@POS]")
@click.option("--model", metavar="NAME", help="Set the model from here on.")
@click.option("--params", metavar="JSON", help="Set the parameters from here on, a JSON object.")
@click.option("--tools", metavar="JSON", help="Set the tools from here on, a JSON array.")
def settings_command(
    store: Store,
    ref: str,
    model: str | None,
    params: str | None,
    tools: str | None,
) -> None:
    """Requests are made with these. Each option replaces what was set before, and a rewind restores
    it. In a pipe: name, value."""
    change: dict[str, Any] = {}
    if model is not None:
        change["model"] = model
    if params is not None:
        change["params"] = parse_json_option("--params", params)
    if tools is not None:
        change["tools"] = parse_json_option("--tools", tools)
    if change:
        find_writable(store, ref, "settings", alone=False).settings(**change)
    agent, at, _ = find_reference(store, ref)
    settings = agent.conversation(at).settings
    if output.wants_json():
        tool_list, parameters = list(settings.tools), dict(settings.params)
        output.print_json({"model": settings.model, "tools": tool_list, "params": parameters})
        return
    output.print_row(("model", settings.model))
    for tool in settings.tools:
        output.print_row(("tool", tool["name"], one_line(tool.get("description") or "")))
    for name, value in settings.params.items():
        output.print_row(("param", name, to_json(value)))


# --- the context ---


@command(
    "context",
    example="backstory context main@before\nbackstory context main --format anthropic > body.json",
)
@reference(metavar="REF[@POS]")
@click.option(
    "--format", type=click.Choice(FORMATS), help="The request body for a provider, as JSON."
)
@click.option("--tokens", is_flag=True, help="Only the number of tokens.")
@click.option(
    "--model", metavar="NAME", help="The model that will read it, for --format and --tokens."
)
@click.option(
    "--control", is_flag=True, help="Include marks, notes, rewinds and jumps, which no model sees."
)
def context_command(
    store: Store,
    ref: str,
    format: FormatName | None,
    tokens: bool,
    model: str | None,
    control: bool,
) -> None:
    """REF@POS shows the context as it was at that position. With --format, the request body goes to
    standard output, and what had to be repaired to standard error."""
    if control and (format or tokens):
        raise click.UsageError("--control is for reading: leave out --format and --tokens.")
    found = find_reference(store, ref)
    if tokens:
        _print_tokens(found, model)
    elif format:
        output.write_request(sys.stdout, found, format, model)
    else:
        _print_context(_read_context(found, control))


def _print_tokens(found: Reference, model: str | None) -> None:
    tokens = found.agent.conversation(found.at).tokens(model)
    if output.wants_json():
        output.print_json(tokens_json(tokens))
    else:
        output.print_line(str(int(tokens)))
        output.report(tokens.how)


def _read_context(found: Reference, control: bool) -> Iterator[Event]:
    """Yield the messages of the context; with `control`, all of its events."""
    agent, at, _ = found
    for event, _ in read_live_history(agent, 0, agent.head if at is None else at, at):
        if control or KINDS[event.kind].is_message:
            yield event


def _print_context(events: Iterator[Event]) -> None:
    if output.wants_json():
        for event in events:
            output.print_json(event_json(event))
    elif output.is_terminal():
        output.draw_lines(_draw_context(events))
    else:
        for event in events:
            output.print_line(f"[{event.seq} {event.kind}]\n{body(event)}\n")


def _draw_context(events: Iterable[Event]) -> "Iterator[Text]":
    from rich.text import Text

    messages = 0
    for event in events:
        if KINDS[event.kind].is_message:
            messages += 1
            heading = Text(f"{event.kind} ", style=f"bold {STYLES.get(event.kind, '')}")
            yield heading.append(f"{event.seq}", style="not bold dim")
            yield Text(visible(body(event)) + "\n", overflow="fold")
        else:
            yield Text(f"── {event.kind} {event.seq}: {gist(event)}\n", style="dim")
    yield Text(count(messages, "message"), style="dim")


# --- differences ---

SIGNS = {"removed": "-", "added": "+", "changed": "~"}
COLOURS = {"-": "red", "+": "green", "~": "blue"}
WORD_MARKS = {"=": "{}", "-": "[-{}-]", "+": "{{+{}+}}"}
WORD_STYLES = {"=": "", "-": "red strike", "+": "green underline"}


@command("diff", example="backstory diff main idea\nbackstory diff main@7 main")
@reference("left", required=True, metavar="REF[@POS]")
@click.argument("right", required=False, metavar="[REF[@POS]]", shell_complete=complete_reference)
@limit_option("Show at most N changes")
def diff_command(store: Store, left: str, right: str | None, limit: int | None) -> None:
    """Counts the messages that both contexts share, then shows those that only one of them has, and
    word by word what changed within a message. Where the other context once had a message, it says
    what took it out. Without a second REF, the first is compared with the head of its agent."""
    one = find_reference(store, left)
    if right is None:
        other = find_reference(store, "@") if is_lent() else Reference(one.agent, None)
    else:
        other = find_reference(store, right)
    comparison = one.agent.diff(other.agent, at=one.at, other_at=other.at, limit=limit)
    if output.wants_json():
        output.print_json(comparison_json(comparison))
    else:
        _print_comparison(comparison, left, right or other.agent.name)


def _print_comparison(found: Comparison, left: str, right: str) -> None:
    own = f"{found.only_left} only in {left}, {found.only_right} only in {right}"
    output.print_line(f"{count(found.common, 'message')} in common; {own}")
    for change in found.changes:
        if output.has_colours():
            _draw_change(change)
        else:
            _print_change(change)
    if found.more:
        output.report("there are more changes: a larger --limit shows them")


def _get_event(change: Change) -> Event:
    event = change.left or change.right
    assert event is not None
    return event


def _describe_change(change: Change) -> str:
    positions = "→".join(str(event.seq) for event in (change.left, change.right) if event)
    heading = f"{SIGNS[change.op]} {positions} {_get_event(change).kind}"
    if change.why is not None:
        heading += f" ({change.why.status} by {change.why.by})"
    return heading


def _print_change(change: Change) -> None:
    """Print a change in plain text: removed words are in [-…-], new ones in {+…+}."""
    output.print_line(_describe_change(change))
    text = "".join(WORD_MARKS[edit.op].format(edit.text) for edit in change.words)
    for line in (text or body(_get_event(change))).splitlines():
        output.print_line(f"    {line}")


def _draw_change(change: Change) -> None:
    from rich.text import Text

    colour = COLOURS[SIGNS[change.op]]
    text = Text(overflow="fold")
    for op, words in change.words:
        text.append(WORD_MARKS[op].format(visible(words)), style=WORD_STYLES[op])
    if not change.words:
        text.append(visible(body(_get_event(change))), style=colour)
    output.draw_below(Text(_describe_change(change), style=f"bold {colour}"), text)
