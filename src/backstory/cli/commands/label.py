"""label: a name for a position that is there already."""

import click

from backstory.cli import output as screen
from backstory.cli.options import command, reference
from backstory.cli.stores import opened


@command(
    "label",
    example='backstory label main@7 "before the cleanup"\nbackstory jump main@"before the cleanup"',
)
@reference(metavar="REF[@POS]", required=True)
@click.argument("name")
def label_command(url: str | None, ref: str, name: str, as_json: bool) -> None:
    """REF@NAME then means this position (default: the head), wherever the agent is. If a name is given twice,
    the later one counts. Prints the new head."""
    with opened(url) as store:
        agent, at, _ = store.resolve(ref)
        screen.answer_events(agent, [agent.label(name, at=at)], as_json=as_json)
