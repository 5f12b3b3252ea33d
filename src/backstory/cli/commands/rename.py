"""rename: another name for an agent."""

import click

from backstory.cli import output as screen
from backstory.cli.options import agent_of, command, reference
from backstory.cli.stores import opened


@command("rename", example="backstory rename fork-1a2b3c idea")
@reference(required=True)
@click.argument("name")
def rename_command(url: str | None, ref: str, name: str, as_json: bool) -> None:
    """Names are unique within a session. Prints the id of the agent, which stays the same."""
    with opened(url) as store:
        agent = agent_of(store.resolve(ref), "rename takes an agent, not a position")
        before = agent.name
        agent.rename(name)
        screen.answer_agent(agent, f"renamed {before!r} to {name!r}", as_json=as_json)
