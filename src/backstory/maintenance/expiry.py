"""Deletes sessions that nobody has written to for a long time, and erases events that no context
needs any more. One session after another is locked."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from backstory.errors import AgentNotFound, Busy, TextRemains
from backstory.log.arguments import check_author
from backstory.log.checks import check_draft
from backstory.log.erasure import is_erased
from backstory.log.events import StoredRow
from backstory.log.kinds import MESSAGE_KINDS
from backstory.log.moves import LABEL, read_labels
from backstory.log.times import LONGEST_LEAD_US, to_datetime
from backstory.maintenance.removal import NOTHING_REMOVED, RemovalPlan, Removed, RemovedAgent
from backstory.storage.agent_trees import (
    AgentTree,
    group_by_session,
    has_key_prefix,
    list_session,
    read_own_rows,
)
from backstory.storage.erase import (
    OwnedPosition,
    SessionLinks,
    empty_later_requests,
    erase_one,
    record_erasure,
)
from backstory.storage.protocol import (
    AgentQuery,
    AgentRecord,
    Backend,
    EventFilter,
    Piece,
    Reader,
)
from backstory.storage.write import append_events

EXPIRED = "expired"  # the reason given for dead events
CLOCK = "backstory.clock"  # the name of the notes in agents whose last time is in the future
MOST_BUSY = 3  # sessions in a row that may be in use
FEW = 10  # sessions in the future that say nothing about the present clock
TIMES_AT_ONCE = 10_000  # events whose times are read at once
NAMED_POSITIONS = EventFilter(kinds=frozenset({"mark", "note"}), note_names=(LABEL,))


def expire_sessions(
    backend: Backend,
    before_us: int,
    *,
    prefix: str = "",
    dry_run: bool = True,
    by: str | None = None,
) -> Removed:
    """Delete the sessions last written to before a time whose root has a key that begins with
    `prefix`. A session that is written to in the meantime stays.

    Nobody knows when a session was written whose last time is in the future. So a note is written
    to it, which has the true time, and it expires like the others from then on."""
    author = check_author(by)
    now_us = backend.read_clock()
    idle = []
    others = []
    for id, agents in group_by_session(backend.list_agents()).items():
        if not has_key_prefix(agents, prefix):
            continue
        if _seem_idle(agents, before_us):
            idle.append(id)
        else:
            others.append(agents)
    if not dry_run:
        _correct_times(backend, others, now_us)

    def expire(session: str) -> Removed:
        if dry_run:
            plan = _plan_expiry(backend, session)
            return plan.report() if _are_idle(backend, plan, before_us, now_us) else NOTHING_REMOVED
        with backend.begin(sessions=[session]) as transaction:
            plan = _plan_expiry(transaction, session)
            if not _are_idle(transaction, plan, before_us, now_us):
                return NOTHING_REMOVED
            plan.carry_out(transaction, "expire", author)
            return plan.report()

    return _remove_from_sessions(idle, expire)


def _seem_idle(agents: Iterable[AgentRecord], before_us: int) -> bool:
    """Return True if the last times of some agents are before a time."""
    return all(agent.updated_us < before_us for agent in agents)


def _are_idle(reader: Reader, plan: RemovalPlan, before_us: int, now_us: int) -> bool:
    """Return True if no event of the agents that a plan deletes is from after a time. The last one
    may be dated earlier than others: the clock may have been late. Times in the future do not
    count, unless the time that was asked for is in the future, too: then the present clock may be
    late."""
    agents = plan.list_deleted()
    if not _seem_idle(agents, before_us):
        return False
    latest_us = now_us + LONGEST_LEAD_US
    for agent in agents:
        for time_us in _read_times(reader, agent):
            is_believable = time_us <= latest_us or before_us > latest_us
            if time_us >= before_us and is_believable:
                return False
    return True


def _read_times(reader: Reader, agent: AgentRecord) -> Iterator[int]:
    """Yield the times of an agent's creation and of its own events."""
    yield agent.created_us
    for low in range(agent.fork_seq + 1, agent.head + 1, TIMES_AT_ONCE):
        piece = Piece(agent.pk, low, min(low + TIMES_AT_ONCE - 1, agent.head))
        for row in reader.read_outline(agent, [piece]):
            yield row.created_us


def _correct_times(
    backend: Backend, sessions: Sequence[Sequence[AgentRecord]], now_us: int
) -> None:
    """Write a note to each agent whose last time is in the future, unless most sessions have such
    an agent: then it is the present clock that is wrong."""
    wrong = []
    for agents in sessions:
        ahead = [agent for agent in agents if agent.updated_us > now_us + LONGEST_LEAD_US]
        if ahead:
            wrong.append(ahead)
    if len(wrong) > FEW and len(wrong) > len(sessions) / 2:
        return
    note = check_draft("note", CLOCK)
    for agents in wrong:
        for agent in agents:
            try:
                append_events(backend, agent, [note])
            except AgentNotFound:
                continue
            except Busy:  # the next expiry corrects the rest: each one may cost the timeout
                return


def _remove_from_sessions(sessions: Iterable[str], remove: Callable[[str], Removed]) -> Removed:
    """Call `remove` for each session, and return the sum of its results. A session that is in use
    is skipped. After several of these in a row, so are the others: each costs the timeout of the
    store, and then it is probably the store that is locked. Raises TextRemains at the end."""
    agents: list[RemovedAgent] = []
    skipped: list[str] = []
    events = erased = busy_in_a_row = 0
    remains: TextRemains | None = None
    for session in sessions:
        if busy_in_a_row == MOST_BUSY:
            skipped.append(session)
            continue
        try:
            removed = remove(session)
        except Busy:
            skipped.append(session)
            busy_in_a_row += 1
            continue
        except TextRemains as error:
            remains = error
            continue
        except AgentNotFound:  # it was deleted meanwhile
            continue
        busy_in_a_row = 0
        agents.extend(removed.agents)
        events += removed.events
        erased += removed.erased
    if remains is not None:
        raise remains
    return Removed(tuple(agents), events, erased, tuple(skipped))


def _plan_expiry(reader: Reader, session: str) -> RemovalPlan:
    agents = list_session(reader, session)
    living = {agent.id for agent in agents if agent.deleted_us is None}
    return RemovalPlan(agents, living)


# --- events that are in no context ---


def expire_dead(
    backend: Backend,
    before_us: int,
    *,
    prefix: str = "",
    dry_run: bool = True,
    by: str | None = None,
) -> Removed:
    """Erase the events from before a time that are no longer in any context, in the sessions whose
    root has a key that begins with `prefix`. The context that a fork began with, and the contexts
    that marks and labels lead back to, count as contexts."""
    author = check_author(by)

    def expire(session: str) -> Removed:
        if dry_run:
            return Removed((), 0, len(_find_dead(backend, session, before_us)))
        with backend.begin(sessions=[session]) as transaction:
            dead = _find_dead(transaction, session, before_us)
            if not dead:
                return NOTHING_REMOVED
            time = to_datetime(transaction.read_clock()).isoformat()
            tree = AgentTree(list_session(transaction, session))
            for owner, row in dead:
                erase_one(transaction, tree, owner, row, time, EXPIRED)
            erased = [OwnedPosition(owner, row.seq) for owner, row in dead]
            empty_later_requests(transaction, tree, erased, SessionLinks())
            record_erasure(transaction, "expire", erased, author)
            return Removed((), 0, len(erased))

    roots = backend.list_agents(AgentQuery(roots_only=True, key_prefix=prefix or None))
    return _remove_from_sessions([root.session for root in roots], expire)


def _find_dead(reader: Reader, session: str, before_us: int) -> list[tuple[AgentRecord, StoredRow]]:
    """Return the messages and notes from before a time that are in no context and not erased yet,
    with their owners."""
    agents = list_session(reader, session)
    needed = _find_needed(reader, agents)
    latest_us = reader.read_clock() + LONGEST_LEAD_US
    found = []
    for agent in agents:
        own_needed = needed.get(agent.pk, set())
        ahead: list[tuple[AgentRecord, StoredRow]] = []  # dead, and dated in the future
        newest_us = 0  # a row that is dated before the one above it was written by a late clock
        for row in read_own_rows(reader, agent, agent.fork_seq, agent.head):
            if row.created_us <= latest_us:
                newest_us = max(newest_us, row.created_us)
            is_old = max(newest_us, row.created_us) < before_us
            if is_old:  # so are rows before it, if their own times cannot be believed
                found += ahead
                ahead = []
            if row.seq in own_needed or not _has_text(row):
                continue
            if is_old:
                found.append((agent, row))
            elif row.created_us > latest_us:
                ahead.append((agent, row))
    return found


def _has_text(row: StoredRow) -> bool:
    """Return True if a row is a message or a note that can expire. Labels never do."""
    if is_erased(row.data_json):
        return False
    if row.kind == "note":
        return row.content != LABEL
    return row.kind in MESSAGE_KINDS


def _find_needed(reader: Reader, agents: Sequence[AgentRecord]) -> dict[Any, set[int]]:
    """Return the positions, by their owners' pks, of all contexts that an agent has or can go
    to."""
    needed: dict[Any, set[int]] = {}
    walked: set[tuple[Any, int]] = set()
    for agent in agents:
        if agent.deleted_us is not None:
            continue
        for reachable in _find_reachable(reader, agent):
            if reachable in walked:
                continue
            walked.add(reachable)
            _, position = reachable
            walk = reader.walk(agent, position)
            for piece in walk.pieces:
                positions = needed.setdefault(piece.owner, set())
                positions.update(range(piece.low, piece.high + 1))
    return needed


def _find_reachable(reader: Reader, agent: AgentRecord) -> Iterator[tuple[Any, int]]:
    """Yield the positions of an agent's lineage whose contexts are needed, with their owners' pks:
    its head, its fork position, and those of its marks and labels, dead or alive."""
    lineage = reader.read_lineage(agent)
    positions = {agent.head, agent.fork_seq}
    label_notes = []
    for event in reader.read_events(agent, lineage, NAMED_POSITIONS):
        if event.kind == "mark":
            positions.add(event.seq)
        else:
            label_notes.append(event)
    positions.update(read_labels(label_notes).values())
    for piece in lineage:
        for position in positions:
            if piece.low <= position <= piece.high:
                yield piece.owner, position
