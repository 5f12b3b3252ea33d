"""spawn: a sub-agent that inherits nothing."""

import click

from backstory.cli import output as screen
from backstory.cli.options import agent_of, command, key_option, reference
from backstory.cli.stores import opened


@command("spawn", example="backstory spawn main reviewer")
@reference()
@click.argument("name", required=False)
@key_option
def spawn_command(
    url: str | None, ref: str, name: str | None, key: str | None, as_json: bool
) -> None:
    """The sub-agent belongs to the session of REF and inherits nothing from it. Prints its id."""
    with opened(url) as store:
        parent = agent_of(store.resolve(ref), "spawn takes an agent, not a position")
        child = parent.spawn(name, key=key)
        screen.answer_agent(child, f"spawned {child.name!r} below {parent.name!r}", as_json=as_json)
