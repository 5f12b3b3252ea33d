"""agents and sessions: what there is, drawn as the tree it is."""

from typing import TYPE_CHECKING, Any

import click

from backstory.agent import Agent
from backstory.cli import output as screen
from backstory.cli.options import agent_of, command, opened
from backstory.core.events import Event, to_datetime
from backstory.present.safe_text import one_line
from backstory.present.text import age, agent_json, count, short_ids, stamp

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

MOST_MARKS = 5  # on one line of the tree
INDENT = 4  # columns of each level of the tree
SHORTEST_NAME = 8  # what is left of a name at least

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
            ids = short_ids(agent.id for agent in store.agents())
            for tree in trees(found, ids):
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
        ", ".join(_label(mark) for mark in agent.marks()),
    ]


def trees(agents: list[Agent], ids: dict[str, str], *, here: str = "") -> "list[Tree]":
    """The sessions as trees; the agent with the id `here` is pointed at."""
    from rich.tree import Tree

    roots: list[Tree] = []
    nodes: dict[str, Tree] = {}
    room: dict[str | None, int] = {None: screen.console().width + INDENT}
    waiting = sorted(agents, key=lambda agent: agent.parent is not None)
    while waiting:
        left = []
        for agent in waiting:
            room[agent.id] = room.get(agent.parent, 0) - INDENT
            line = _line(agent, ids[agent.id], room[agent.id], is_here=agent.id == here)
            if agent.parent is None:
                nodes[agent.id] = Tree(line, guide_style="dim")
                roots.append(nodes[agent.id])
            elif agent.parent in nodes:
                nodes[agent.id] = nodes[agent.parent].add(line)
            else:
                left.append(agent)
        if len(left) == len(waiting):  # the ancestry is damaged: show them anyhow
            return roots + [Tree(_line(agent, ids[agent.id], room[None] - INDENT)) for agent in left]
        waiting = left
    return roots


def _line(agent: Agent, id: str, room: int, *, is_here: bool = False) -> "Text":
    """An agent in so many columns: the name is cut first, then the marks, and the numbers stay."""
    from rich.text import Text

    facts = _facts(agent, id)
    if is_here:
        facts = Text(" ◂ here", style="bold").append_text(facts)
    name = Text(one_line(agent.name), style="bold")
    name.truncate(max(SHORTEST_NAME, room - facts.cell_len), overflow="ellipsis")
    text = Text(overflow="ellipsis", no_wrap=True).append_text(name).append_text(facts)
    marks = agent.marks()
    if marks:
        more = f" and {len(marks) - MOST_MARKS} more" if len(marks) > MOST_MARKS else ""
        text.append("  ⚑ " + ", ".join(_label(mark) for mark in marks[-MOST_MARKS:]) + more, style="magenta")
    return text


def _facts(agent: Agent, id: str) -> "Text":
    from rich.text import Text

    text = Text()
    if agent.parent:
        text.append(f" {'spawned' if agent.spawned else 'forked'} at {agent.born_seq}", style="cyan")
    text.append(f"  head {agent.record.head}")
    text.append(f"  {age(to_datetime(agent.record.updated_us))}", style="dim")
    return text.append(f"  {id}", style="dim")


def _label(mark: Event) -> str:
    return f"{one_line(mark.label)}@{mark.seq}" if mark.label else f"@{mark.seq}"


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
