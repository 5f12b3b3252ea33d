"""Commands that change the context: rewind, jump, clear, undo and redo."""

from collections.abc import Callable
from typing import Any

import click

from backstory.agent import Agent
from backstory.cli import output
from backstory.cli.options import command, dry_run_option, get_agent, reference
from backstory.cli.stores import find_reference
from backstory.comparing import MoveCommand, Preview
from backstory.errors import Invalid
from backstory.log.events import Event, UndoEvent
from backstory.present.event_text import gist
from backstory.present.shapes import event_json, preview_json
from backstory.present.text import count
from backstory.references import Reference
from backstory.store import Store

MOST_SHOWN = 10  # events that a dry run lists one by one
LONGEST = 60  # characters of one of them


@command("rewind", example='backstory rewind "main@before the cleanup" --dry-run')
@reference(metavar="REF[@MARK]")
@dry_run_option
def rewind_command(store: Store, ref: str, dry_run: bool) -> None:
    """MARK is a label or the position of a mark; by default it is the newest mark. Everything after
    the mark leaves the context; the mark itself stays. Prints the new head."""
    found = find_reference(store, ref)
    if dry_run:
        _print_preview("rewind", found)
    else:
        _print_move("rewind", ref, found, found.agent.rewind(found.at))


@command("jump", example="backstory jump main@7")
@reference(required=True, metavar="REF@POS")
@dry_run_option
def jump_command(store: Store, ref: str, dry_run: bool) -> None:
    """The context becomes what it was at that position, even if a rewind or clear has left it
    behind. Prints the new head."""
    found = find_reference(store, ref)
    if found.at is None:
        raise Invalid("jump needs a position", remedy=f"use backstory jump {ref.rstrip('@')}@POS")
    if dry_run:
        _print_preview("jump", found)
    else:
        _print_move("jump", ref, found, found.agent.jump(found.at))


@command("clear", example="backstory clear main --dry-run")
@reference()
@dry_run_option
def clear_command(store: Store, ref: str, dry_run: bool) -> None:
    """Everything leaves the context, system messages included. The log keeps it all. Prints the new
    head."""
    _move_agent("clear", store, ref, dry_run, lambda agent: agent.clear())


@command("undo", example="backstory undo main --dry-run\nbackstory undo main --turn")
@reference()
@click.option("--turn", is_flag=True, help="A question with its answer counts as a move, too.")
@dry_run_option
def undo_command(store: Store, ref: str, turn: bool, dry_run: bool) -> None:
    """Each further undo goes one move further back; `backstory redo` takes an undo back. What was
    said after the move leaves the context with it. Prints the new head, and to standard error how
    many events left and came back."""
    if turn and dry_run:
        raise click.UsageError("--dry-run shows moves only: leave out --turn.")
    _move_agent("undo", store, ref, dry_run, lambda agent: agent.undo(turn=turn))


@command("redo", example="backstory redo main")
@reference()
@dry_run_option
def redo_command(store: Store, ref: str, dry_run: bool) -> None:
    """Only as long as nothing was written after the undo. Each further redo takes back one more
    undo. Prints the new head."""
    _move_agent("redo", store, ref, dry_run, lambda agent: agent.redo())


def _move_agent(
    name: MoveCommand,
    store: Store,
    ref: str,
    dry_run: bool,
    move: Callable[[Agent], Event],
) -> None:
    """Move the context of an agent that is named without a position."""
    found = find_reference(store, ref)
    agent = get_agent(found, f"{name} takes an agent, not a position")
    if dry_run:
        _print_preview(name, found)
    else:
        _print_move(name, ref, found, move(agent))


def _print_move(name: MoveCommand, ref: str, found: Reference, event: Event) -> None:
    # Without a key nothing is a repeat, so an undo or a redo always returns an UndoEvent.
    changes = event if isinstance(event, UndoEvent) else None
    if output.wants_json():
        described = event_json(event)
        if changes is not None:
            described["removed"] = [change.seq for change in changes.removed]
            described["returned"] = [change.seq for change in changes.returned]
        output.print_json(described)
        return
    output.print_line(str(event.seq))
    if changes is not None:
        removed = count(len(changes.removed), "event")
        output.report(f"{removed} left the context, {len(changes.returned)} came back")
    if output.is_watched():
        reversal = "redo" if name == "undo" else "undo"
        again = f"backstory {reversal} {ref.partition('@')[0]}".rstrip()
        where = f"{event.seq} of {found.agent.name!r}"
        output.report(f"{name} written at {where}; `{again}` takes it back")


def _print_preview(name: MoveCommand, found: Reference) -> None:
    """Print what a move would change."""
    preview: Preview = found.agent.preview(name, found.at)
    shape = preview_json(preview)
    if output.wants_json():
        output.print_json(shape)
        return
    leaving = _describe_events(shape["leaves"])
    output.print_line(f"{leaving} would leave the context of {found.agent.name!r}")
    _print_some(preview.leaves)
    if preview.returns:
        output.print_line(f"{_describe_events(shape['returns'])} would come back")
        _print_some(preview.returns)
    output.report("nothing was written")


def _describe_events(summary: dict[str, Any]) -> str:
    return f"{count(summary['events'], 'event')} ({count(summary['tokens'], 'token')})"


def _print_some(events: list[Event]) -> None:
    for event in events[:MOST_SHOWN]:
        text = gist(event)
        if len(text) > LONGEST:
            text = text[: LONGEST - 1] + "…"
        output.print_line(f"  {event.seq} {event.kind} {text}")
    if len(events) > MOST_SHOWN:
        output.print_line(f"  and {count(len(events) - MOST_SHOWN, 'more event')}")
