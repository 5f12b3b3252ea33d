"""agents: every agent, drawn as the tree that forks and spawns make."""

from typing import Any

import click

from backstory.agent import Agent
from backstory.cli import output as screen
from backstory.cli.options import agent_of, command
from backstory.cli.stores import opened
from backstory.present.event_text import mark_label
from backstory.present.measures import stamp
from backstory.present.names import short_ids
from backstory.present.shapes import agent_json
from backstory.store import Store


@command("agents", example="backstory agents\nbackstory tree --session main")
@click.option("--session", metavar="REF", help="Only the session of this agent.")
def agents_command(url: str | None, session: str | None, as_json: bool) -> None:
    """For each agent: its name, where it was forked or spawned, its head, when it was last written to, the
    beginning of its id, and its marks; for the first agent of a session, also the title or first prompt. In a
    pipe, one agent per line: id, session/name, parent, where it was forked or spawned, head, last written,
    marks."""
    with opened(url) as store:
        found = store.agents(session=_session(store, session) if session else None)
        if as_json:
            for agent in found:
                screen.answer_json(agent_json(agent, agent.marks()))
        elif screen.on_terminal():
            _draw(found, short_ids(agent.id for agent in store.agents()))
        else:
            names = {agent.id: agent.name for agent in store.agents()}
            for agent in found:
                screen.plain_row(_plain(agent, names))


def _session(store: Store, ref: str) -> str:
    return agent_of(store.resolve(ref), "--session takes an agent, not a position").session


def _draw(agents: list[Agent], ids: dict[str, str]) -> None:
    from backstory.present.trees import trees

    if not agents:
        screen.draw("no agents yet; `backstory new` starts one")
    for tree in trees(agents, ids, width=screen.console().width):
        screen.draw(tree)


def _plain(agent: Agent, names: dict[str, str]) -> list[Any]:
    return [
        agent.id,
        f"{names.get(agent.session, agent.session)}/{agent.name}",
        names.get(agent.parent or "", ""),
        agent.born_seq if agent.parent else "",
        agent.listed_head,
        stamp(agent.updated_at),
        ", ".join(mark_label(mark) for mark in agent.marks()),
    ]
