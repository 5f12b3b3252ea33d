"""delete: what takes agents away for good, and asks before it does."""

import sys
from collections.abc import Callable

import click

from backstory.cli import output as screen
from backstory.cli.options import agent_of, command, reference
from backstory.cli.stores import opened
from backstory.errors import Invalid
from backstory.jobs.deletion import Removed
from backstory.present.measures import count
from backstory.present.shapes import removed_json

MOST_SHOWN = 20  # agents that are listed one by one

dry_run = click.option("--dry-run", is_flag=True, help="Only show what would go; change nothing.")
yes = click.option("--yes", is_flag=True, help="Do not ask.")


@command("delete", example="backstory delete main/idea --dry-run\nbackstory delete main --below --yes")
@reference(required=True)
@click.option("--below", is_flag=True, help="Its forks and sub-agents too, and theirs.")
@dry_run
@yes
def delete_command(url: str | None, ref: str, below: bool, dry_run: bool, yes: bool, as_json: bool) -> None:
    """The agent and its events are removed from the store and cannot be brought back. Forks survive: what
    they inherit stays with them. Asks first on a terminal; elsewhere, it needs --yes."""
    with opened(url) as store:
        agent = agent_of(store.resolve(ref), "delete takes an agent, not a position")
        planned = store.delete(agent, below=below, dry_run=True)
        if not (dry_run or yes):
            _show(planned, "would go", screen.say)
            _ask("delete")
        removed = planned if dry_run else store.delete(agent, below=below)
    if as_json:
        screen.answer_json(removed_json(removed))
    elif dry_run:
        _show(removed, "would go", screen.answer)
        screen.say("nothing was changed")
    else:
        _show(removed, "deleted", screen.answer)


def _ask(what: str) -> None:
    """Go on only if the person says so."""
    if not sys.stdin.isatty():
        raise Invalid(f"{what} cannot be undone", remedy="repeat it with --yes, or look with --dry-run first")
    click.confirm("This cannot be undone. Go on?", abort=True, err=True)


def _show(removed: Removed, said: str, tell: Callable[[str], None]) -> None:
    tell(f"{count(len(removed.agents), 'agent')} and {count(removed.events, 'event')} {said}")
    for agent in removed.agents[:MOST_SHOWN]:
        kept = f", {count(agent.kept, 'event')} kept for its forks" if agent.kept else ""
        tell(f"  {agent.name} ({agent.id}): {count(agent.events, 'event')}{kept}")
    if len(removed.agents) > MOST_SHOWN:
        tell(f"  and {count(len(removed.agents) - MOST_SHOWN, 'more agent')}")
