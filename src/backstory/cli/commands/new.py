"""new: a session with its first agent."""

import click

from backstory.cli import output as screen
from backstory.cli.input import system_options
from backstory.cli.options import command
from backstory.cli.stores import opened


@command("new", example='backstory new work --system "Be careful."')
@click.argument("name", default="main")
@system_options
def new_command(url: str | None, name: str, system: str | None, as_json: bool) -> None:
    """NAME is the name of the agent, and of the session (default: main). The store is created if it does not
    exist. Prints the id of the agent."""
    with opened(url, make=True) as store:
        agent = store.start(name, system=system)
        screen.answer_agent(agent, f"started {agent.name!r} in {store.url}", as_json=as_json)
