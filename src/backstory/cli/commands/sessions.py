"""sessions: one line for each tree of agents."""

from typing import Any

from backstory.cli import output as screen
from backstory.cli.options import command
from backstory.cli.stores import opened
from backstory.present.measures import age, count
from backstory.present.names import short_ids
from backstory.present.safe_text import one_line
from backstory.present.shapes import session_json
from backstory.sessions import Session


@command("sessions", example="backstory sessions")
def sessions_command(url: str | None, as_json: bool) -> None:
    """For each session: its name, how many agents and events it has, and when it was last written to. In a
    pipe: id, name, agents, events, created, last written."""
    with opened(url) as store:
        ids = short_ids(agent.id for agent in store.agents())
        found = sorted(store.sessions(), key=lambda session: (session.updated_at, session.id))
    columns = ("id", "name", "agents", "events", "created_at", "updated_at")
    rows = map(session_json, found)
    screen.rows(rows, columns, as_json=as_json, drawn=lambda _: _table(found, ids))


def _table(sessions: list[Session], ids: dict[str, str]) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, title=count(len(sessions), "session"), title_justify="left")
    for heading in ("name", "agents", "events", "last written", "id"):
        table.add_column(heading, justify="right" if heading in ("agents", "events") else "left")
    for one in sessions:
        numbers = (f"{one.agents:,}", f"{one.events:,}")
        table.add_row(one_line(one.name), *numbers, age(one.updated_at), ids[one.id])
    return table
