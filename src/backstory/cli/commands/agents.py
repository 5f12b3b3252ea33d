"""agents and sessions: what there is, drawn as the tree it is."""

from typing import Any

import click

from backstory.agent import Agent
from backstory.cli import output as screen
from backstory.cli.options import agent_of, command, opened
from backstory.core.events import to_datetime
from backstory.present.event_text import mark_label
from backstory.present.measures import age, count, stamp
from backstory.present.names import short_ids
from backstory.present.safe_text import one_line
from backstory.present.shapes import agent_json

NO_MOMENT = "a session is the same at every position"


@command("agents", example="backstory agents")
@click.option("--session", metavar="REF", help="Only the session of this agent.")
def agents_command(url: str | None, session: str | None, as_json: bool) -> None:
    """The tree of every session: names, ids, where agents were forked, heads, ages and marks."""
    with opened(url) as store:
        only = agent_of(store.resolve(session), NO_MOMENT).session if session else None
        found = store.agents(session=only)
        if as_json:
            for agent in found:
                screen.answer_json(agent_json(agent, agent.marks()))
        elif screen.on_terminal():
            from backstory.present.trees import trees

            ids = short_ids(agent.id for agent in store.agents())
            for tree in trees(found, ids, width=screen.console().width):
                screen.draw(tree)
        else:
            names = {agent.id: agent.name for agent in store.agents()}
            for agent in found:
                screen.plain_row(_plain(agent, names))


def _plain(agent: Agent, names: dict[str, str]) -> list[Any]:
    """id, session/name, parent, where it was born, head, last written, marks."""
    return [
        agent.id,
        f"{names.get(agent.session, agent.session)}/{agent.name}",
        names.get(agent.parent or "", ""),
        agent.born_seq if agent.parent else "",
        agent.record.head,
        stamp(to_datetime(agent.record.updated_us)),
        ", ".join(mark_label(mark) for mark in agent.marks()),
    ]


@command("sessions", example="backstory sessions")
def sessions_command(url: str | None, as_json: bool) -> None:
    """The sessions: how many agents and events they have, and when they were last written to."""
    with opened(url) as store:
        ids = short_ids(agent.id for agent in store.agents())
        rows = [
            {
                "id": session.id,
                "name": session.name,
                "agents": session.agents,
                "events": session.events,
                "created_at": stamp(session.created_at),
                "updated_at": stamp(session.updated_at),
                "age": age(session.updated_at),
            }
            for session in sorted(store.sessions(), key=lambda session: (session.updated_at, session.id))
        ]
    if as_json:
        for row in rows:
            screen.answer_json({key: value for key, value in row.items() if key != "age"})
        return
    columns = ("id", "name", "agents", "events", "created_at", "updated_at")
    screen.rows(rows, columns, as_json=False, drawn=lambda rows: _sessions_table(rows, ids))


def _sessions_table(rows: list[Any], ids: dict[str, str]) -> Any:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, title=count(len(rows), "session"), title_justify="left")
    for heading in ("name", "agents", "events", "last written", "id"):
        table.add_column(heading, justify="right" if heading in ("agents", "events") else "left")
    for row in rows:
        table.add_row(
            one_line(row["name"]), f"{row['agents']:,}", f"{row['events']:,}", row["age"], ids[row["id"]]
        )
    return table
