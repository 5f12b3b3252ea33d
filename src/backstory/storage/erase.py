"""Erases what events say: on request, with all copies, or because they are no longer in any context. The rows
stay, with the digests of what they said (`core.erasure`), so positions and digests stay valid.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

from backstory.log.chain import is_erased
from backstory.log.erasure import checked_reason, erased_row
from backstory.log.events import Event, Stored, to_datetime
from backstory.log.kinds import SPOKEN
from backstory.log.labels import LABEL, labels_in
from backstory.storage.copies import Copies, Place
from backstory.storage.log import now
from backstory.storage.positions import distinct_positions
from backstory.storage.protocols import (
    AgentRecord,
    Backend,
    Piece,
    Reader,
    Removal,
    StoredRows,
    Wanted,
    lost,
)

EXPIRED = "expired"  # the reason given for dead events
PAGE = 2_000


class Readable(Reader, StoredRows, Protocol):
    """What is needed to find the dead events of a session."""


def erase(
    backend: Backend,
    agent: AgentRecord,
    positions: Iterable[int],
    why: str,
    *,
    dry_run: bool = False,
) -> list[Event]:
    """Erase what the events at some positions of a lineage say, and all events that hold it, too. Returns
    what is left of them, or with `dry_run` what they say."""
    why = checked_reason(why)
    wanted = distinct_positions(agent, positions, backend.head(agent))
    with backend.removal() as removal:
        agents = {record.id: record for record in removal.held(agent.session)}
        current = agents.get(agent.id)
        if current is None or (current.deleted_us, current.created_us) != (None, agent.created_us):
            raise lost(agent)
        copies = Copies(removal, agents)
        found = {place for position in wanted for place in copies.of(current, position)}
        places = sorted(found, key=lambda place: place[1])
        if dry_run:
            return [_row(removal, agents[owner], position).event for owner, position in places]
        return [_blank(removal, agents, place, why) for place in places]


def _row(rows: StoredRows, owner: AgentRecord, position: int) -> Stored:
    [row] = rows.stored(owner, position - 1, 1)
    return row


def _blank(removal: Removal, agents: dict[str, AgentRecord], place: Place, why: str) -> Event:
    """Erase one event, unless it is erased already."""
    owner = agents[place[0]]
    row = _row(removal, owner, place[1])
    if is_erased(row.data_json):
        return row.event
    content, data = erased_row(row, to_datetime(now()).isoformat(), why)
    removal.blank(owner, row.seq, content, data)
    return row._replace(content=content, data_json=data).event


# --- what is in no context ---


def expire_dead(backend: Backend, before_us: int, *, prefix: str = "", dry_run: bool = True) -> int:
    """Erase the events from before a time that are no longer in any context, and return how many. What a fork
    began with, and what a mark or a label leads back to, counts as a context."""
    agents = backend.agents()
    keys = {agent.session: agent.key or "" for agent in agents if agent.id == agent.session}
    sessions = dict.fromkeys(agent.session for agent in agents)
    wanted = [id for id in sessions if keys.get(id, "").startswith(prefix)]
    return sum(_expire_in(backend, session, before_us, dry_run=dry_run) for session in wanted)


def _expire_in(backend: Backend, session: str, before_us: int, *, dry_run: bool) -> int:
    if dry_run:
        agents = backend.agents(Wanted(session=session, deleted=True))
        return len(_dead(backend, {agent.id: agent for agent in agents}, before_us))
    with backend.removal() as removal:
        held = {agent.id: agent for agent in removal.held(session)}
        dead = _dead(removal, held, before_us)
        for place in dead:
            _blank(removal, held, place, EXPIRED)
        return len(dead)


def _dead(rows: Readable, agents: dict[str, AgentRecord], before_us: int) -> list[Place]:
    """Messages and notes from before a time that are in no context and not erased yet."""
    needed = _needed(rows, agents)
    return [
        (agent.id, row.seq)
        for agent in agents.values()
        for row in _own_rows(rows, agent)
        if row.created_us < before_us
        and row.seq not in needed.get(agent.pk, ())
        and (row.kind in SPOKEN or (row.kind == "note" and row.content != LABEL))
        and not is_erased(row.data_json)
    ]


def _own_rows(rows: StoredRows, agent: AgentRecord) -> Iterator[Stored]:
    after = agent.fork_seq
    while page := rows.stored(agent, after, PAGE):
        yield from page
        after = page[-1].seq


def _needed(rows: Readable, agents: dict[str, AgentRecord]) -> dict[object, set[int]]:
    """The positions, by the agent that owns them, that are in a context that an agent has or can go to."""
    needed: dict[object, set[int]] = {}
    seen: set[tuple[object, int]] = set()
    for agent in agents.values():
        if agent.deleted_us is not None:
            continue
        for owner, position in _places(rows, agent):
            if (owner, position) not in seen:
                seen.add((owner, position))
                for piece in rows.walk(agent, position).pieces:
                    needed.setdefault(piece.owner, set()).update(range(piece.low, piece.high + 1))
    return needed


def _places(rows: Readable, agent: AgentRecord) -> Iterator[tuple[object, int]]:
    """The positions of an agent's lineage whose contexts are needed: its head, where it was forked, and what
    its marks and labels name, dead or alive."""
    lineage: list[Piece] = rows.lineage(agent)
    positions = {agent.head, agent.fork_seq, *(mark.seq for mark in rows.marks(agent, lineage))}
    positions |= set(labels_in(rows.notes(agent, lineage, LABEL)).values())
    for position in sorted(positions):
        owner = next(
            (piece.owner for piece in lineage if piece.low <= position <= piece.high), None
        )
        if owner is not None:
            yield owner, position
