"""new: a session with its first agent."""

import click

from backstory.cli import output as screen
from backstory.cli.input import system_options
from backstory.cli.options import command
from backstory.cli.stores import opened


@command(
    "new", example='backstory new work --system "Be careful."\nbackstory new --key tickets/1234'
)
@click.argument("name", required=False)
@system_options
@click.option(
    "--key",
    metavar="TEXT",
    help="A key to find it by. If an agent has this key already, that one is printed.",
)
def new_command(
    url: str | None, name: str | None, system: str | None, key: str | None, as_json: bool
) -> None:
    """NAME is the name of the agent, and of the session (default: main). The store is created if it does not
    exist. With --key, a session is started only if no agent has the key. Prints the id of the agent."""
    with opened(url, make=True) as store:
        if key is None:
            agent = store.start("main" if name is None else name, system=system)
            said = f"started {agent.name!r} in {store.url}"
        else:
            agent = store.ensure(key, name=name, system=system)
            said = f"the agent with this key is {agent.name!r} in {store.url}"
        screen.answer_agent(agent, said, as_json=as_json)
