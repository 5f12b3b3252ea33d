"""Commands that remove for good, and ask before that: delete, erase and expire."""

import sys
from collections.abc import Callable
from typing import Any

import click

from backstory.agent import Agent
from backstory.cli import output
from backstory.cli.options import command, dry_run_option, get_agent, reference, yes_option
from backstory.cli.stores import find_reference
from backstory.cli.times import parse_time
from backstory.errors import Busy, Invalid, NotFound
from backstory.log.events import ErasedEvent
from backstory.maintenance.removal import Removed
from backstory.present.event_text import gist
from backstory.present.shapes import event_json, removal_json
from backstory.present.text import count
from backstory.store import Store

MOST_SHOWN = 20  # agents that are listed one by one
LONGEST = 60  # characters of an event that is shown


def confirm(what: str, remedy: str = "repeat it with --yes, or look with --dry-run first") -> None:
    """Continue only if the person agrees. Without a terminal, `what` is refused."""
    if not sys.stdin.isatty():
        raise Invalid(f"{what} cannot be undone", remedy=remedy)
    click.confirm("This cannot be undone. Go on?", abort=True, err=True)


@command(
    "delete", example="backstory delete main/idea --dry-run\nbackstory delete main --below --yes"
)
@reference(required=True)
@click.option("--below", is_flag=True, help="Also remove its forks and sub-agents, and theirs.")
@dry_run_option
@yes_option
def delete_command(store: Store, ref: str, below: bool, dry_run: bool, yes: bool) -> None:
    """The agent and its events are removed from the store and cannot be brought back. Forks
    survive: what they inherit stays with them. Asks first on a terminal; elsewhere, it needs
    --yes."""
    agent = get_agent(find_reference(store, ref), "delete takes an agent, not a position")
    removed = store.delete(agent, below=below, dry_run=True)
    if not dry_run:
        if not yes:
            _print_removed(removed, "would be removed", output.report)
            confirm("delete")
        removed = store.delete(agent, below=below)
    _print_result(removed, dry_run=dry_run)


@command(
    "expire",
    example="backstory expire --before 2026-01-01\n"
    "backstory expire --before 2026-01-01 --dead --yes",
)
@click.option(
    "--before", required=True, metavar="TIME", help="Only sessions last written to before then."
)
@click.option(
    "--prefix", default="", metavar="TEXT", help="Only sessions whose key begins like this."
)
@click.option(
    "--dead", is_flag=True, help="Erase the text of dead events instead of deleting sessions."
)
@dry_run_option
@yes_option
def expire_command(
    store: Store, before: str, prefix: str, dead: bool, dry_run: bool, yes: bool
) -> None:
    """Sessions last written to before TIME (such as 2026-01-01, 2026-01-01T12:00 or 90d) are
    removed from the store with all their agents. With --dead, sessions stay; instead, events from
    before TIME that are no longer in any context are erased. What a mark, a label or a fork leads
    back to is kept. Asks first on a terminal; elsewhere, it needs --yes."""
    when = parse_time(before)
    removed = store.expire(when, prefix=prefix, dead=dead)
    if not dry_run:
        if not yes:
            _print_removed(removed, "would be removed", output.report)
            confirm("expire")
        removed = store.expire(when, prefix=prefix, dead=dead, dry_run=False)
    _print_result(removed, dry_run=dry_run)
    if removed.skipped:
        sessions = ", ".join(removed.skipped)
        raise Busy(f"these sessions were in use, and stay: {sessions}", remedy="repeat it later")


def _print_result(removed: Removed, *, dry_run: bool) -> None:
    if output.wants_json():
        output.print_json(removal_json(removed))
    elif dry_run:
        _print_removed(removed, "would be removed", output.print_line)
        output.report("nothing was changed")
    else:
        _print_removed(removed, "deleted", output.print_line)


def _print_removed(removed: Removed, verb: str, print_line: Callable[[str], None]) -> None:
    if removed.erased:
        print_line(f"what {count(removed.erased, 'dead event')} say {verb}")
        return
    events = count(removed.events, "event")
    print_line(f"{count(len(removed.agents), 'agent')} and {events} {verb}")
    for agent in removed.agents[:MOST_SHOWN]:
        line = f"  {agent.name} ({agent.id}): {count(agent.events, 'event')}"
        if agent.kept:
            line += f", {count(agent.kept, 'event')} kept for its forks"
        print_line(line)
    if len(removed.agents) > MOST_SHOWN:
        print_line(f"  and {count(len(removed.agents) - MOST_SHOWN, 'more agent')}")


@command(
    "erase",
    example='backstory erase main@7 --why "a password"\n'
    'backstory erase main@7 main@9 --why "on request"',
)
@click.argument("refs", nargs=-1, required=True, metavar="REF@POS...")
@click.option("--why", required=True, metavar="TEXT", help="The reason, which is kept.")
@dry_run_option
@yes_option
def erase_command(store: Store, refs: tuple[str, ...], why: str, dry_run: bool, yes: bool) -> None:
    """The content and the data of these events are removed from the store, and cannot be brought
    back. All copies that a compaction made of them go, too, and so does the event that keeps the
    native form of the same answer. Their positions, kinds and times stay, with the reason. Forks
    see the same. Prints the positions that were erased. Asks first on a terminal; elsewhere, it
    needs --yes."""
    wanted = _find_positions(store, refs)
    if dry_run:
        _print_events_to_erase(store, wanted, why, as_json=output.wants_json())
        output.report("nothing was changed")
        return
    if not yes:
        _print_events_to_erase(store, wanted, why, as_json=False)
        confirm("erase")
    for agent, positions in wanted.items():
        for event in agent.erase(positions, why=why):
            if output.wants_json():
                output.print_json(_build_json(event))
            else:
                output.print_line(_name_event(store, event))


def _find_positions(store: Store, refs: tuple[str, ...]) -> dict[Agent, list[int]]:
    """Return the positions to erase, by agent, checked before anything is changed."""
    wanted: dict[Agent, list[int]] = {}
    for ref in refs:
        agent, at, _ = find_reference(store, ref)
        if at is None:
            raise Invalid(
                f"{ref!r} does not name a position", remedy=f"use backstory erase {ref}@POS"
            )
        agent.events([at])  # raises PositionNotFound
        wanted.setdefault(agent, []).append(at)
    return wanted


def _print_events_to_erase(
    store: Store, wanted: dict[Agent, list[int]], why: str, *, as_json: bool
) -> None:
    for agent, positions in wanted.items():
        for event in agent.erase(positions, why=why, dry_run=True):
            if as_json:
                output.print_json(_build_json(event))
            else:
                text = gist(event)[:LONGEST]
                output.report(f"{_name_event(store, event)} {event.kind} {text}")


def _build_json(event: ErasedEvent) -> dict[str, Any]:
    return event_json(event) | {"agent": event.owner_id}


def _name_event(store: Store, event: ErasedEvent) -> str:
    """Return a reference to an event, which may be a copy in another agent."""
    try:
        name = store.agent(event.owner_id).name
    except NotFound:  # the agent was deleted, and others inherit the event
        name = event.owner_id
    return f"{name}@{event.seq}"
