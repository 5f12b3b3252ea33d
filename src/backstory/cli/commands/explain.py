"""explain: why an event is or is not in the context."""

import click

from backstory.cli import output as screen
from backstory.cli.options import command, reference
from backstory.cli.stores import opened
from backstory.present.shapes import explanation_json


@command("explain", example="backstory explain main@7\nbackstory explain main@7 --at before")
@reference(metavar="REF[@POS]")
@click.option(
    "--at", "moment", metavar="POS", help="In the context at this position, label or time."
)
def explain_command(url: str | None, ref: str, moment: str | None, as_json: bool) -> None:
    """Without a position, explains the newest event."""
    with opened(url) as store:
        agent, seq, _ = store.resolve(ref)
        at = None if moment is None else store.resolve(f"{agent.id}@{moment}").at
        why = agent.explain(agent.head if seq is None else seq, at=at)
        if as_json:
            screen.answer_json(explanation_json(why))
        else:
            screen.answer(why.reason)
