"""log, show, marks, explain and context: what happened, and what the model sees.

Long histories are read a page at a time, so that the first line is there at once.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from backstory.agent import Agent
from backstory.cli import output as screen
from backstory.cli.options import command, opened, reference
from backstory.core.events import KINDS, Event
from backstory.core.replay import Explanation
from backstory.core.terms import harmless
from backstory.present.event_text import STYLES, body, gist
from backstory.present.measures import clock, count, stamp
from backstory.present.safe_text import visible
from backstory.present.shapes import event_json
from backstory.references import Reference
from backstory.wire import FORMATS

if TYPE_CHECKING:
    from rich.text import Text

PAGE = 1_000  # events read at a time

Told = tuple[Event, Explanation]


def told(agent: Agent, after: int, until: int, at: int | None = None) -> Iterator[Told]:
    """The events behind a position up to another, with why they are live or dead, page by page."""
    while after < until:
        yield from agent.explained(after=after, until=min(after + PAGE, until), at=at)
        after += PAGE


def told_live(agent: Agent, after: int, until: int, at: int | None = None) -> Iterator[Told]:
    """The same for those that are live; what is dead is not even read."""
    for low, high in agent.live_ranges(at):
        for one in told(agent, max(low - 1, after), min(high, until), at):
            if one[1].live:
                yield one


@command("log", example="backstory log main --live\nbackstory log main --since before --kind user")
@reference(metavar="REF[@POS]")
@click.option("--live", is_flag=True, help="Only what is in the context.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(list(KINDS)), help="Only events of a kind.")
@click.option("--since", metavar="POS", help="Only behind a position, a mark's label or a time.")
@click.option("-n", "--last", type=click.IntRange(1), metavar="N", help="Only the last N events.")
@click.option("--full", is_flag=True, help="All of the text, not the first line.")
@click.option("--pager/--no-pager", default=True, help="On a terminal: page through it (default).")
def log_command(
    url: str | None,
    ref: str,
    live: bool,
    kinds: tuple[str, ...],
    since: str | None,
    last: int | None,
    full: bool,
    pager: bool,
    as_json: bool,
) -> None:
    """All events of an agent, oldest first. Dead ones are dimmed, with the event that left them
    behind. REF@POS is the log as it was at that position."""
    with opened(url) as store:
        agent, at, _ = store.resolve(ref)
        until = agent.head if at is None else at
        after = 0 if since is None else store.resolve(f"{agent.id}@{since}").at or 0
        if last is not None and not kinds and not live:
            after, last = max(after, until - last), None
        found = (told_live if live else told)(agent, after, until, at)
        found = (one for one in found if not kinds or one[0].kind in kinds)
        if last is not None:
            from collections import deque

            found = iter(deque(found, maxlen=last))
        _print_log(found, full=full, pager=pager, as_json=as_json)


def _print_log(found: Iterable[Told], *, full: bool, pager: bool, as_json: bool) -> None:
    if as_json:
        for event, why in found:
            screen.answer_json(event_json(event, why))
    elif screen.on_terminal():
        screen.paged((_log_line(event, why, full) for event, why in found), pager=pager)
    else:
        for event, why in found:
            text = (event.content or gist(event)) if full else gist(event)
            screen.plain_row((event.seq, event.kind, _why(why) or "live", stamp(event.created_at), text))


def _log_line(event: Event, why: Explanation, full: bool) -> "Text":
    from rich.text import Text

    dead = not why.live
    line = Text(no_wrap=not full, overflow="fold" if full else "ellipsis", style="dim" if dead else "")
    line.append(f"{event.seq:>5} ", style="dim")
    line.append(f"{event.kind:<11} ", style=STYLES.get(event.kind, ""))
    line.append(f"{clock(event.created_at)[5:]}  ", style="dim")
    if dead:
        line.append(f"[{_why(why)}] ", style="red")
    return line.append(visible(body(event)) if full else gist(event))


def _why(why: Explanation) -> str:
    """Why an event is dead, in a word or two; nothing for a live one."""
    if why.live:
        return ""
    return f"{why.status} by {why.by}" if why.by is not None else why.status


@command("show", example="backstory show main@7")
@reference(metavar="REF@POS")
@click.option("--content", is_flag=True, help="Only the content, exactly as it is, if that goes to a file.")
def show_command(url: str | None, ref: str, content: bool, as_json: bool) -> None:
    """One event with everything in it (by default the newest)."""
    with opened(url) as store:
        agent, at, _ = store.resolve(ref)
        at = agent.head if at is None else at
        why = agent.explain(at)
        event = agent.event(at)
        if as_json:
            about = {"agent": agent.id, "reason": why.reason, "live": why.live}
            screen.answer_json(event_json(event, why) | about)
        elif content:
            _print_content(event.content or "")
        else:
            _print_event(agent, event, why)


def _print_content(text: str) -> None:
    if screen.on_terminal():
        screen.answer(text)
    else:
        click.echo(text.encode(), nl=False)  # as bytes: click takes escapes out of text


def _print_event(agent: Agent, event: Event, why: Explanation) -> None:
    screen.answer(f"{agent.name}@{event.seq}  {event.kind}  {stamp(event.created_at)}")
    screen.answer(f"agent {agent.id}")
    screen.answer(why.reason)
    if event.content is not None:
        screen.answer(f"\n{event.content}")
    if event.data_json is not None:
        shown = (
            event.data_json if event.data is None else json.dumps(event.data, indent=2, ensure_ascii=False)
        )
        screen.answer(f"\n{shown}")


@command("marks", example="backstory marks main")
@reference(metavar="REF[@POS]")
@click.option("--all", "dead_too", is_flag=True, help="Dead marks, too: a jump can go there.")
def marks_command(url: str | None, ref: str, dead_too: bool, as_json: bool) -> None:
    """The mark stack, oldest first: where a rewind can go back to."""
    with opened(url) as store:
        agent, at, _ = store.resolve(ref)
        if dead_too:
            everything = told(agent, 0, agent.head if at is None else at, at)
            found = [(event, why.live) for event, why in everything if event.kind == "mark"]
        else:
            found = [(mark, True) for mark in agent.marks(at)]
        rows = [
            {"seq": mark.seq, "label": mark.label, "live": live, "created_at": stamp(mark.created_at)}
            for mark, live in found
        ]
        if as_json or screen.on_terminal():
            screen.rows(rows, (), as_json=as_json, drawn=_marks_table)
            return
        for row in rows:
            status = "live" if row["live"] else "dead"
            screen.plain_row((row["seq"], row["label"], status, row["created_at"]))


def _marks_table(rows: list[Any]) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("at", justify="right")
    for heading in ("label", "set"):
        table.add_column(heading)
    for row in rows:
        label = visible(row["label"] or "(no label)", keep="")
        when = clock(datetime.fromisoformat(row["created_at"]))
        table.add_row(str(row["seq"]), label, when, style="" if row["live"] else "dim")
    return table


@command("explain", example="backstory explain main@7")
@reference(metavar="REF@POS")
@click.option("--at", "moment", metavar="POS", help="In the context at this position, label or time.")
def explain_command(url: str | None, ref: str, moment: str | None, as_json: bool) -> None:
    """Why an event is or is not in the context."""
    with opened(url) as store:
        agent, seq, _ = store.resolve(ref)
        at = None if moment is None else store.resolve(f"{agent.id}@{moment}").at
        why = agent.explain(agent.head if seq is None else seq, at=at)
        if as_json:
            screen.answer_json({**why._asdict(), "live": why.live})
        else:
            screen.answer(why.reason)


@command(
    "context", example="backstory context main@before\nbackstory context main --format anthropic > body.json"
)
@reference(metavar="REF[@POS]")
@click.option("--format", type=click.Choice(FORMATS), help="The request body of a provider, as JSON.")
@click.option("--model", help="Who will read it: its own reasoning goes back to it, tokens are its.")
@click.option("--tokens", is_flag=True, help="How many tokens it is; nothing else is printed.")
@click.option("--pager/--no-pager", default=True, help="On a terminal: page through it (default).")
def context_command(
    url: str | None,
    ref: str,
    format: str | None,
    model: str | None,
    tokens: bool,
    pager: bool,
    as_json: bool,
) -> None:
    """What the model sees, now or at a position. With --format the request body goes to standard
    output, and what had to be repaired to standard error."""
    with opened(url) as store:
        found = store.resolve(ref)
        if tokens:
            _print_tokens(found, model, as_json)
        elif format:
            _print_request(found, format, model)
        else:
            _print_context(found, pager, as_json)


def _print_tokens(found: Reference, model: str | None, as_json: bool) -> None:
    tokens = found.agent.conversation(found.at).tokens(model)
    if as_json:
        screen.answer_json({"tokens": int(tokens), "exact": tokens.exact, "how": tokens.how})
    else:
        screen.answer(str(int(tokens)))
        screen.say(tokens.how)


def _print_request(found: Reference, format: str, model: str | None) -> None:
    conversation = found.agent.conversation(found.at)
    click.echo(harmless(conversation.to_bytes(format, model=model).decode()))
    for repair in conversation.repairs(format, model=model):
        where = "" if repair.at is None else f" at {repair.at}"
        screen.say(f"repaired{where}: {repair.rule}: {repair.why}")


def _print_context(found: Reference, pager: bool, as_json: bool) -> None:
    agent, at, _ = found
    events = (event for event, _ in told_live(agent, 0, agent.head if at is None else at, at))
    if as_json:
        for event in events:
            screen.answer_json(event_json(event))
    elif screen.on_terminal():
        screen.paged(_message_lines(events), pager=pager)
    else:
        for event in events:
            if KINDS[event.kind].speaks:
                screen.answer(f"[{event.seq} {event.kind}]\n{body(event)}\n")


def _message_lines(events: Iterable[Event]) -> "Iterator[Text]":
    from rich.text import Text

    shown = 0
    for event in events:
        style = STYLES.get(event.kind, "")
        if KINDS[event.kind].speaks:
            shown += 1
            yield Text(f"{event.kind} ", style=f"bold {style}").append(f"{event.seq}", style="not bold dim")
            yield Text(visible(body(event)) + "\n", overflow="fold")
        else:
            yield Text(f"── {event.kind} {event.seq}: {gist(event)}\n", style="dim")
    yield Text(count(shown, "message"), style="dim")
