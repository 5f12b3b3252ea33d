"""sessions: one line for each tree of agents."""

from collections.abc import Iterator
from datetime import datetime
from itertools import islice
from typing import Any

import click

from backstory.cli import output as screen
from backstory.cli.options import command
from backstory.cli.stores import opened
from backstory.cli.times import moment
from backstory.listings import Session
from backstory.present.measures import age, count
from backstory.present.names import short_ids
from backstory.present.safe_text import one_line
from backstory.present.shapes import session_json
from backstory.present.titles import first_prompt
from backstory.store import Store

PAGE = 100  # sessions read at a time
LIMIT = 100  # sessions shown, unless more are asked for
LONGEST = 60  # characters of a title in a table


@command(
    "sessions",
    example="backstory sessions\nbackstory sessions --since 2026-10-01 --tag work --limit 5",
)
@click.option("--since", metavar="TIME", help="Only sessions that were written to since then.")
@click.option("--tag", help="Only sessions with this tag.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=LIMIT,
    metavar="N",
    help=f"At most N, the latest (default: {LIMIT}).",
)
def sessions_command(
    url: str | None, since: str | None, tag: str | None, limit: int, as_json: bool
) -> None:
    """For each session: its name, its title or first prompt, how many agents and events it has, and when it
    was last written to. In a pipe: id, name, agents, events, created, last written, title or first prompt."""
    with opened(url) as store:
        wanted = _wanted(store, None if since is None else moment(since), tag)
        found = list(islice(wanted, limit))[::-1]
        ids = short_ids(session.id for session in found)
        rows = [session_json(session) | {"prompt": _prompt(store, session)} for session in found]
    for row in rows:
        row["about"] = row["title"] or row["prompt"] or ""
    columns = ("id", "name", "agents", "events", "created_at", "updated_at", "about")
    shown = [{key: row[key] for key in row if key != "about" or not as_json} for row in rows]
    screen.rows(shown, columns, as_json=as_json, drawn=lambda _: _table(found, shown, ids))


def _wanted(store: Store, since: datetime | None, tag: str | None) -> Iterator[Session]:
    """The sessions, latest first, page by page."""
    last: Session | None = None
    while page := store.sessions(order="updated", since=since, limit=PAGE, after=last):
        yield from (session for session in page if tag is None or tag in session.tags)
        last = page[-1]


def _prompt(store: Store, session: Session) -> str | None:
    """What a person said first, on one line."""
    return one_line(first_prompt(store.agent(session.id))) or None


def _table(sessions: list[Session], rows: list[dict[str, Any]], ids: dict[str, str]) -> Any:
    from rich.table import Table

    table = Table(
        box=None, pad_edge=False, title=count(len(sessions), "session"), title_justify="left"
    )
    for heading in ("name", "about", "agents", "events", "last written", "id"):
        table.add_column(
            heading,
            justify="right" if heading in ("agents", "events") else "left",
            no_wrap=heading == "about",
            overflow="ellipsis",
        )
    for one, row in zip(sessions, rows, strict=True):
        numbers = (f"{one.agents:,}", f"{one.events:,}")
        about = one_line(row["about"])[:LONGEST]
        table.add_row(one_line(one.name), about, *numbers, age(one.updated_at), ids[one.id])
    return table
