"""compact: a summary instead of the older messages."""

import click

from backstory.cli import output as screen
from backstory.cli.options import agent_to_write_to, command, reference
from backstory.cli.stores import opened


@command(
    "compact",
    example='backstory compact main "They asked for the Python files: a.py and b.py." --keep 4',
)
@reference(required=True)
@click.argument("summary")
@click.option(
    "--keep",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Keep the last N messages (default: 0).",
)
def compact_command(url: str | None, ref: str, summary: str, keep: int, as_json: bool) -> None:
    """SUMMARY takes the place of the older messages in the context; system messages and settings stay.
    `backstory undo` takes all of it back. Prints the new head."""
    with opened(url) as store:
        agent = agent_to_write_to(store, ref, "compact", alone=False)
        screen.answer_events(agent, agent.compact(summary, keep=keep), as_json=as_json)
