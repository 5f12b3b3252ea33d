"""stats: how much there is."""

from typing import Any

import click

from backstory.cli import output as screen
from backstory.cli.options import command
from backstory.cli.stores import opened
from backstory.maintenance.stats import AgentStats, Stats
from backstory.present.measures import count, size
from backstory.present.names import short_ids
from backstory.present.safe_text import one_line
from backstory.present.shapes import stats_json


@command("stats", example="backstory stats -n 3 --tokens")
@click.option(
    "--tokens", is_flag=True, help="Also count the tokens of all contexts, which takes longer."
)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(0),
    metavar="N",
    default=10,
    help="Show the N largest agents (default: 10).",
)
def stats_command(url: str | None, tokens: bool, limit: int, as_json: bool) -> None:
    """Live events are in the context of the agent that wrote them; dead events are not. In a pipe, one number
    per line. Tokens are counted as `backstory context --tokens` counts them."""
    with opened(url) as store:
        found = store.stats(tokens=tokens)
    if as_json:
        screen.answer_json(stats_json(found, largest=limit))
    elif screen.on_terminal():
        _draw(found, limit)
    else:
        for name, value in stats_json(found, largest=0).items():
            if isinstance(value, int):
                screen.plain_row((name, value))


def _draw(found: Stats, limit: int) -> None:
    screen.answer(
        f"{count(found.events, 'event')}: {found.live:,} live, {found.dead:,} dead; "
        f"{count(len(found.agents), 'agent')} in {count(found.sessions, 'session')}"
    )
    contexts = "" if found.tokens is None else f"; {count(found.tokens, 'token')} in all contexts"
    screen.answer(f"{size(found.bytes)} of content, {size(found.size)} on disk{contexts}")
    screen.answer(", ".join(f"{number:,} {one_line(kind)}" for kind, number in found.kinds.items()))
    if found.agents[:limit]:
        ids = short_ids(one.agent.id for one in found.agents)
        screen.draw("", _table(found.agents[:limit], ids))


def _table(agents: list[AgentStats], ids: dict[str, str]) -> Any:
    from rich.table import Table
    from rich.text import Text

    has_tokens = any(one.tokens is not None for one in agents)
    table = Table(box=None, pad_edge=False)
    table.add_column("largest agents")  # the only one that may shrink
    for heading in ("events", "live", "size", "context", *(["tokens"] if has_tokens else []), "id"):
        table.add_column(heading, justify="left" if heading == "id" else "right", no_wrap=True)
    for one in agents:
        numbers = [f"{one.events:,}", f"{one.live:,}", size(one.bytes), f"{one.context:,}"]
        numbers += [f"{one.tokens:,}"] if has_tokens else []
        name = Text(one_line(one.agent.name), no_wrap=True, overflow="ellipsis")
        table.add_row(name, *numbers, ids[one.agent.id])
    return table
