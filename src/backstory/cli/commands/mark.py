"""mark: a place to return to."""

import click

from backstory.cli import output as screen
from backstory.cli.options import agent_to_write_to, command, reference
from backstory.cli.stores import opened


@command(
    "mark",
    example='backstory mark main "before the cleanup"\nbackstory mark @ "before the cleanup"',
)
@reference()
@click.argument("label", required=False)
def mark_command(url: str | None, ref: str, label: str | None, as_json: bool) -> None:
    """To mark the latest agent with a label, write @ for REF. Prints the new head."""
    with opened(url) as store:
        agent = agent_to_write_to(store, ref, "mark", alone=label is None)
        screen.answer_events(agent, [agent.mark(label)], as_json=as_json)
