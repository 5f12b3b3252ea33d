"""rewind, clear, jump and undo: what changes the context, and what that would take out of it."""

from collections.abc import Callable
from typing import Any

import click

from backstory.agent import Agent, Preview
from backstory.cli import output as screen
from backstory.cli.options import command, opened, reference
from backstory.core.events import Event
from backstory.errors import Invalid
from backstory.present.event_text import gist
from backstory.present.measures import count
from backstory.present.shapes import event_json
from backstory.wire.conversation import conversation_of

MOST_SHOWN = 10  # events that a dry run lists by themselves

dry_run = click.option("--dry-run", is_flag=True, help="Only say what would leave the context.")


@command("rewind", example='backstory rewind "main@before the cleanup" --dry-run')
@reference(metavar="REF[@MARK]")
@dry_run
def rewind_command(url: str | None, ref: str, dry_run: bool, as_json: bool) -> None:
    """Go back to a mark: REF@LABEL, REF@POSITION of a mark, or the newest. The mark stays."""
    _move("rewind", url, ref, dry_run, as_json, lambda agent, to: agent.rewind(to))


@command("clear", example="backstory clear main --dry-run")
@reference()
@dry_run
def clear_command(url: str | None, ref: str, dry_run: bool, as_json: bool) -> None:
    """Empty the context; the log keeps everything."""
    _move("clear", url, ref, dry_run, as_json, lambda agent, to: agent.clear())


@command("jump", example="backstory jump main@7")
@reference(required=True, metavar="REF@POS")
@dry_run
def jump_command(url: str | None, ref: str, dry_run: bool, as_json: bool) -> None:
    """Go to the context of any earlier position, dead or alive."""
    _move("jump", url, ref, dry_run, as_json, lambda agent, to: agent.jump(to or 0))


@command("undo", example="backstory undo main")
@reference()
@dry_run
def undo_command(url: str | None, ref: str, dry_run: bool, as_json: bool) -> None:
    """Take back the last clear, rewind or jump; once more, and it is done again."""
    _move("undo", url, ref, dry_run, as_json, lambda agent, to: agent.undo())


GOES_SOMEWHERE = {"rewind", "jump"}


def _move(
    move: str,
    url: str | None,
    ref: str,
    dry_run: bool,
    as_json: bool,
    go: Callable[[Agent, int | None], Event],
) -> None:
    with opened(url) as store:
        agent, at, _ = store.resolve(ref)
        if at is not None and move not in GOES_SOMEWHERE:
            raise Invalid(f"{move} takes an agent, not a position: leave out the @")
        if at is None and move == "jump":
            raise Invalid(f"where to? Give a position: jump {ref.rstrip('@')}@POS")
        if dry_run:
            _print_preview(agent, agent.preview(move, at), as_json)
            return
        event = go(agent, at)
        if as_json:
            screen.answer_json(event_json(event))
            return
        screen.answer(str(event.seq))
        if screen.talks_to_terminal():
            screen.say(f"{agent.name!r} is at {event.seq}: {event.kind} {gist(event)}; undo takes it back")


def _print_preview(agent: Agent, preview: Preview, as_json: bool) -> None:
    leaves, returns = (_summary(events) for events in (preview.leaves, preview.returns))
    if as_json:
        screen.answer_json({"target": preview.target, "leaves": leaves, "returns": returns})
        return
    for what, summary, events in (
        ("would leave the context", leaves, preview.leaves),
        ("would come back", returns, preview.returns),
    ):
        if events or what.startswith("would leave"):
            about = f"{count(summary['events'], 'event')}, {count(summary['tokens'], 'token')}"
            screen.answer(f"{about} {what} of {agent.name!r}" if "leave" in what else f"{about} {what}")
            _print_some(events)
    screen.say("nothing was written")


def _print_some(events: list[Event]) -> None:
    for event in events[:MOST_SHOWN]:
        screen.answer(f"  {event.seq} {event.kind} {_cut(gist(event))}")
    if len(events) > MOST_SHOWN:
        screen.answer(f"  and {count(len(events) - MOST_SHOWN, 'more event')}")


def _cut(text: str, longest: int = 60) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _summary(events: list[Event]) -> dict[str, Any]:
    spoken = conversation_of(events)
    return {
        "events": len(events),
        "tokens": int(spoken.tokens()) if len(spoken) else 0,
        "positions": [event.seq for event in events],
    }
