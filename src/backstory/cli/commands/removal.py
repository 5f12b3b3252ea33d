"""delete, erase and expire: remove things for good, and ask before that."""

import sys
from collections.abc import Callable
from typing import Any

import click

from backstory.agent import Agent
from backstory.cli import output as screen
from backstory.cli.options import agent_of, command, reference
from backstory.cli.stores import opened
from backstory.cli.times import moment
from backstory.errors import Busy, Invalid, NotFound
from backstory.log.events import ErasedEvent
from backstory.maintenance.removal import Removed
from backstory.present.event_text import gist
from backstory.present.measures import count
from backstory.present.shapes import event_json, removed_json
from backstory.store import Store

MOST_SHOWN = 20  # agents that are listed one by one
LONGEST = 60  # characters of an event that is shown

dry_run = click.option(
    "--dry-run", is_flag=True, help="Show what would be removed, and change nothing."
)
yes = click.option("--yes", is_flag=True, help="Do not ask.")


@command(
    "delete", example="backstory delete main/idea --dry-run\nbackstory delete main --below --yes"
)
@reference(required=True)
@click.option("--below", is_flag=True, help="Also remove its forks and sub-agents, and theirs.")
@dry_run
@yes
def delete_command(
    url: str | None, ref: str, below: bool, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """The agent and its events are removed from the store and cannot be brought back. Forks survive: what
    they inherit stays with them. Asks first on a terminal; elsewhere, it needs --yes."""
    with opened(url) as store:
        agent = agent_of(store.resolve(ref), "delete takes an agent, not a position")
        planned = store.delete(agent, below=below, dry_run=True)
        if not (dry_run or yes):
            _show(planned, "would be removed", screen.say)
            ask("delete")
        removed = planned if dry_run else store.delete(agent, below=below)
    _answer(removed, dry_run=dry_run, as_json=as_json)


@command(
    "erase",
    example='backstory erase main@7 --why "a password"\nbackstory erase main@7 main@9 --why "on request"',
)
@click.argument("refs", nargs=-1, required=True, metavar="REF@POS...")
@click.option("--why", required=True, metavar="TEXT", help="The reason, which is kept.")
@dry_run
@yes
def erase_command(
    url: str | None, refs: tuple[str, ...], why: str, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """The content and the data of these events are removed from the store, and cannot be brought back. All
    copies that a compaction made of them go, too, and so does the event that keeps the native form of the
    same answer. Their positions, kinds and times stay, with the reason. Forks see the same. Prints the
    positions that were erased. Asks first on a terminal; elsewhere, it needs --yes."""
    with opened(url) as store:
        wanted = _positions(store, refs)
        if dry_run or not yes:
            for agent, positions in wanted.items():
                for event in agent.erase(positions, why=why, dry_run=True):
                    if dry_run and as_json:
                        screen.answer_json(_erased_json(event))
                    else:
                        ref = _erased_ref(store, event)
                        screen.say(f"{ref} {event.kind} {gist(event)[:LONGEST]}")
        if dry_run:
            screen.say("nothing was changed")
            return
        if not yes:
            ask("erase")
        for agent, positions in wanted.items():
            for event in agent.erase(positions, why=why):
                if as_json:
                    screen.answer_json(_erased_json(event))
                else:
                    screen.answer(_erased_ref(store, event))


def _erased_json(event: ErasedEvent) -> dict[str, Any]:
    return event_json(event) | {"agent": event.owner_id}


def _erased_ref(store: Store, event: ErasedEvent) -> str:
    """Return a reference to an event that may be a copy in another agent."""
    try:
        name = store.agent(event.owner_id).name
    except NotFound:  # the agent was deleted, and others inherit the event
        name = event.owner_id
    return f"{name}@{event.seq}"


def _positions(store: Store, refs: tuple[str, ...]) -> dict[Agent, list[int]]:
    """The positions to erase, by agent, checked before anything is changed."""
    wanted: dict[Agent, list[int]] = {}
    for ref in refs:
        agent, at, _ = store.resolve(ref)
        if at is None:
            raise Invalid(
                f"{ref!r} does not name a position", remedy=f"use backstory erase {ref}@POS"
            )
        wanted.setdefault(agent, []).append(agent.event(at).seq)
    return wanted


@command(
    "expire",
    example="backstory expire --before 2026-01-01\nbackstory expire --before 2026-01-01 --dead --yes",
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
@dry_run
@yes
def expire_command(
    url: str | None, before: str, prefix: str, dead: bool, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Sessions last written to before TIME (a date or a time, such as 2026-01-01T12:00) are removed from the
    store with all their agents. With --dead, sessions stay; instead, events from before TIME that are no
    longer in any context are erased. What a mark, a label or a fork leads back to is kept. Asks first on a
    terminal; elsewhere, it needs --yes."""
    when = moment(before)
    with opened(url) as store:
        planned = store.expire(when, prefix=prefix, dead=dead)
        if not (dry_run or yes):
            _show(planned, "would be removed", screen.say)
            ask("expire")
        removed = (
            planned if dry_run else store.expire(when, prefix=prefix, dead=dead, dry_run=False)
        )
    _answer(removed, dry_run=dry_run, as_json=as_json)
    if removed.skipped:
        sessions = ", ".join(removed.skipped)
        raise Busy(f"these sessions were in use, and stay: {sessions}", remedy="repeat it later")


def _answer(removed: Removed, *, dry_run: bool, as_json: bool) -> None:
    """Say what was removed, or what would be."""
    if as_json:
        screen.answer_json(removed_json(removed))
    elif dry_run:
        _show(removed, "would be removed", screen.answer)
        screen.say("nothing was changed")
    else:
        _show(removed, "deleted", screen.answer)


def ask(what: str, remedy: str = "repeat it with --yes, or look with --dry-run first") -> None:
    """Go on only if the person says so."""
    if not sys.stdin.isatty():
        raise Invalid(f"{what} cannot be undone", remedy=remedy)
    click.confirm("This cannot be undone. Go on?", abort=True, err=True)


def _show(removed: Removed, said: str, tell: Callable[[str], None]) -> None:
    if removed.erased:
        tell(f"what {count(removed.erased, 'dead event')} say {said}")
        return
    tell(f"{count(len(removed.agents), 'agent')} and {count(removed.events, 'event')} {said}")
    for agent in removed.agents[:MOST_SHOWN]:
        kept = f", {count(agent.kept, 'event')} kept for its forks" if agent.kept else ""
        tell(f"  {agent.name} ({agent.id}): {count(agent.events, 'event')}{kept}")
    if len(removed.agents) > MOST_SHOWN:
        tell(f"  and {count(len(removed.agents) - MOST_SHOWN, 'more agent')}")
