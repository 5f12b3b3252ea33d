"""fork: a new agent that continues from a position of another."""

import click

from backstory.cli import output as screen
from backstory.cli.options import command, key_option, reference
from backstory.cli.stores import opened


@command("fork", example="backstory fork main@7 idea")
@reference(metavar="REF[@POS]")
@click.argument("name", required=False)
@key_option
def fork_command(
    url: str | None, ref: str, name: str | None, key: str | None, as_json: bool
) -> None:
    """The new agent continues from the position, by default from the head. Nothing is copied, and the other
    agent does not change. Prints the id of the new agent."""
    with opened(url) as store:
        parent, at, _ = store.resolve(ref)
        child = parent.fork(name, at=at, key=key)
        said = f"forked {child.name!r} from {parent.name!r} at {child.fork_seq}"
        screen.answer_agent(child, said, as_json=as_json)
