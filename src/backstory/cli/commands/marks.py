"""marks: where a rewind can go back to."""

from typing import Any

import click

from backstory.agent import Agent
from backstory.cli import output as screen
from backstory.cli.options import command, reference
from backstory.cli.stores import opened
from backstory.log.events import Event
from backstory.present.history import told
from backstory.present.measures import clock, stamp
from backstory.present.safe_text import visible
from backstory.present.shapes import mark_json


@command("marks", example="backstory marks main")
@reference(metavar="REF[@POS]")
@click.option("--all", "dead_too", is_flag=True, help="Include dead marks, which a jump can go to.")
def marks_command(url: str | None, ref: str, dead_too: bool, as_json: bool) -> None:
    """The oldest mark comes first. In a pipe: position, label, live or dead, time."""
    with opened(url) as store:
        agent, at, _ = store.resolve(ref)
        found = _all_marks(agent, at) if dead_too else [(mark, True) for mark in agent.marks(at)]
        if as_json:
            for mark, live in found:
                screen.answer_json(mark_json(mark, live=live))
        elif screen.on_terminal():
            screen.draw(_table(found) if found else "no marks here; `backstory mark` sets one")
        else:
            for mark, live in found:
                screen.plain_row(
                    (mark.seq, mark.label, "live" if live else "dead", stamp(mark.created_at))
                )


def _all_marks(agent: Agent, at: int | None) -> list[tuple[Event, bool]]:
    everything = told(agent, 0, agent.head if at is None else at, at)
    return [(event, why.live) for event, why in everything if event.kind == "mark"]


def _table(found: list[tuple[Event, bool]]) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("at", justify="right")
    for heading in ("label", "set"):
        table.add_column(heading)
    for mark, live in found:
        label = visible(mark.label or "(no label)", keep="")
        table.add_row(str(mark.seq), label, clock(mark.created_at), style="" if live else "dim")
    return table
