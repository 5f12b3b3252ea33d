"""rewind, clear, jump, undo and redo: what changes the context, and what that would take out of it."""

from collections.abc import Callable
from typing import Any

import click

from backstory.agent import Agent
from backstory.cli import output as screen
from backstory.cli.options import agent_of, command, reference
from backstory.cli.stores import opened
from backstory.comparing import MoveCommand, Preview
from backstory.errors import Invalid
from backstory.log.events import Event
from backstory.present.event_text import gist
from backstory.present.measures import count
from backstory.present.shapes import event_json, preview_json
from backstory.references import Reference

MOST_SHOWN = 10  # events that a dry run lists one by one
LONGEST = 60  # characters of one of them

dry_run = click.option("--dry-run", is_flag=True, help="Show what would change, and write nothing.")


@command("rewind", example='backstory rewind "main@before the cleanup" --dry-run')
@reference(metavar="REF[@MARK]")
@dry_run
def rewind_command(url: str | None, ref: str, dry_run: bool, as_json: bool) -> None:
    """MARK is a label or the position of a mark; by default it is the newest mark. Everything after the mark
    leaves the context; the mark itself stays. Prints the new head."""
    _move("rewind", url, ref, dry_run, as_json, lambda agent, to: agent.rewind(to))


@command("clear", example="backstory clear main --dry-run")
@reference()
@dry_run
def clear_command(url: str | None, ref: str, dry_run: bool, as_json: bool) -> None:
    """Everything leaves the context, system messages included. The log keeps it all. Prints the new head."""
    _move("clear", url, ref, dry_run, as_json, lambda agent, to: agent.clear())


@command("jump", example="backstory jump main@7")
@reference(required=True, metavar="REF@POS")
@dry_run
def jump_command(url: str | None, ref: str, dry_run: bool, as_json: bool) -> None:
    """The context becomes what it was at that position, even if a rewind or clear has left it behind. Prints
    the new head."""
    _move("jump", url, ref, dry_run, as_json, lambda agent, to: agent.jump(to or 0))


@command("undo", example="backstory undo main --dry-run")
@reference()
@dry_run
def undo_command(url: str | None, ref: str, dry_run: bool, as_json: bool) -> None:
    """Each further undo goes one move further back; `backstory redo` takes an undo back. Prints the new
    head."""
    _move("undo", url, ref, dry_run, as_json, lambda agent, to: agent.undo())


@command("redo", example="backstory redo main")
@reference()
@dry_run
def redo_command(url: str | None, ref: str, dry_run: bool, as_json: bool) -> None:
    """Only as long as nothing was written after the undo. Each further redo takes back one more undo.
    Prints the new head."""
    _move("redo", url, ref, dry_run, as_json, lambda agent, to: agent.redo())


def _move(
    move: MoveCommand,
    url: str | None,
    ref: str,
    dry_run: bool,
    as_json: bool,
    go: Callable[[Agent, int | None], Event],
) -> None:
    with opened(url) as store:
        found = store.resolve(ref)
        _check(move, ref, found)
        agent, at, _ = found
        if dry_run:
            _print_preview(agent, agent.preview(move, at), as_json)
            return
        event = go(agent, at)
        if as_json:
            screen.answer_json(event_json(event))
            return
        screen.answer(str(event.seq))
        if screen.talks_to_terminal():
            back = "redo" if move == "undo" else "undo"
            again = f"backstory {back} {ref.partition('@')[0]}".rstrip()
            screen.say(f"{move} written at {event.seq} of {agent.name!r}; `{again}` takes it back")


def _check(move: str, ref: str, found: Reference) -> None:
    if move in ("clear", "undo", "redo"):
        agent_of(found, f"{move} takes an agent, not a position")
    if move == "jump" and found.at is None:
        raise Invalid("jump needs a position", remedy=f"use backstory jump {ref.rstrip('@')}@POS")


def _print_preview(agent: Agent, preview: Preview, as_json: bool) -> None:
    summary = preview_json(preview)
    if as_json:
        screen.answer_json(summary)
        return
    screen.answer(f"{_counted(summary['leaves'])} would leave the context of {agent.name!r}")
    _print_some(preview.leaves)
    if preview.returns:
        screen.answer(f"{_counted(summary['returns'])} would come back")
        _print_some(preview.returns)
    screen.say("nothing was written")


def _counted(summary: dict[str, Any]) -> str:
    return f"{count(summary['events'], 'event')} ({count(summary['tokens'], 'token')})"


def _print_some(events: list[Event]) -> None:
    for event in events[:MOST_SHOWN]:
        text = gist(event)
        cut = text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
        screen.answer(f"  {event.seq} {event.kind} {cut}")
    if len(events) > MOST_SHOWN:
        screen.answer(f"  and {count(len(events) - MOST_SHOWN, 'more event')}")
