"""Verifies a store: reads every row, and recomputes every base and digest.

It only reports. What is wrong was not written by backstory, so only a person can say which side is right.
"""

import json
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

from backstory.errors import AgentNotFound, Corrupt
from backstory.log.chain import ERASED, START, digest, inner
from backstory.log.events import Event, Stored, parse_object
from backstory.log.kinds import KINDS
from backstory.log.replay import Fold
from backstory.log.validity import is_id, wrong_agent, wrong_event
from backstory.maintenance.seals import broken_seals
from backstory.storage.ids import has_key
from backstory.storage.positions import clipped
from backstory.storage.protocols import AgentRecord, Agents, Audit, Reader, Wanted

PAGE = 10_000  # rows read at a time
FROM_BACKUP = "restore the store from a backup"


class Verifiable(Agents, Reader, Audit, Protocol):
    """What can be verified."""


class Finding(NamedTuple):
    """One thing that is wrong, where, how bad, and what to do about it."""

    agent: str | None  # the agent's id; None for the whole store
    position: int | None
    severity: str  # "error": contexts may be wrong; "warning": replay handles it
    problem: str
    remedy: str


def verify(backend: Verifiable, seal: Mapping[str, Any] | None = None) -> list[Finding]:
    """Everything that is wrong with a store. With a seal, also what is missing or changed according to it.
    Others may delete rows while this reads, so a finding counts only if it is found twice."""
    found = _look(backend, seal)
    again = set(_look(backend, seal)) if found else set()
    return [finding for finding in found if finding in again]


def _look(backend: Verifiable, seal: Mapping[str, Any] | None) -> list[Finding]:
    found = []
    if seal is not None:
        problems = broken_seals(backend, seal)
        found += [Finding(id, at, "error", problem, FROM_BACKUP) for id, at, problem in problems]
    try:
        for finding in _findings(backend):
            found.append(finding)
    except Corrupt as error:  # too damaged to continue
        found.append(Finding(None, None, "error", error.message, FROM_BACKUP))
    return found


def _findings(backend: Verifiable) -> Iterator[Finding]:
    yield from (Finding(None, None, "error", problem, FROM_BACKUP) for problem in backend.damage())
    agents = {agent.id: agent for agent in backend.agents(Wanted(deleted=True))}
    parents = {agent.parent for agent in agents.values()}
    for session in _sessions(agents):
        # Folds have all events. So they are kept for one session at a time, and only if a child needs them.
        folds: dict[str, Fold] = {}
        for agent in parents_first(session):
            broken = list(_ancestry(backend, agent, agents, folds))
            yield from broken
            fold = yield from _events(backend, agent, agents, folds, rooted=not broken)
            if not broken and agent.id in parents:
                folds[agent.id] = fold


def _sessions(agents: dict[str, AgentRecord]) -> Iterable[dict[str, AgentRecord]]:
    """The agents of each session."""
    sessions: dict[str, dict[str, AgentRecord]] = {}
    for agent in agents.values():
        sessions.setdefault(agent.session, {})[agent.id] = agent
    return sessions.values()


def parents_first(agents: dict[str, AgentRecord]) -> list[AgentRecord]:
    """The agents, each after the one it inherits from; those in a cycle come last, in any order."""
    ordered: dict[str, AgentRecord] = {}
    for agent in agents.values():
        line: dict[str, AgentRecord] = {}
        here: AgentRecord | None = agent
        while here is not None and here.id not in ordered and here.id not in line:
            line[here.id] = here
            here = agents.get(here.parent or "")
        ordered.update(reversed(line.items()))
    return list(ordered.values())


def _ancestry(
    backend: Verifiable, agent: AgentRecord, agents: dict[str, AgentRecord], folds: dict[str, Fold]
) -> Iterator[Finding]:
    def wrong(problem: str) -> Finding:
        remedy = "restore the agent's row from a backup; its own events are still in the log"
        return Finding(agent.id, None, "error", problem, remedy)

    parent = agents.get(agent.parent or "")
    root = agent.session if agent.parent else agent.id  # whether it is one is checked below
    for problem in wrong_agent(
        agent.id, root, agent.parent, agent.created_us, agent.key, agent.about
    ):
        yield wrong(problem)
    if agent.key is not None and is_id(agent.id) and not has_key(agent.id, agent.key):
        yield wrong(f"its id is not the one of its key {agent.key!r:.60}")
    if agent.parent is None:
        if agent.fork_seq or agent.id != agent.session:
            yield wrong(
                f"it has no parent, but inherits up to {agent.fork_seq} in session {agent.session}"
            )
    elif parent is None:
        yield wrong(f"its parent {agent.parent} is missing")
    elif parent.session != agent.session:
        yield wrong(f"its parent is of another session, {parent.session}")
    elif parent.id not in folds:
        yield wrong("its ancestry runs in a circle, or contains a broken agent")
    elif agent.fork_seq and not (
        parent.fork_seq < agent.fork_seq and folds[parent.id].knows(agent.fork_seq)
    ):
        yield wrong(f"it is forked at {agent.fork_seq}, which its parent does not own")
    elif not _is_born_right(agent, parent):
        yield wrong(
            f"its birth is recorded at {agent.born_seq}, where it was neither forked nor spawned"
        )
    elif agent.fork_seq and agent.created_us < _written_at(backend, parent, agent.fork_seq):
        yield wrong("its creation is recorded before the event that it was forked at")


def _is_born_right(agent: AgentRecord, parent: AgentRecord) -> bool:
    """Whether it began where it was forked or, if it was spawned, at a position that its parent has. Of a
    deleted parent, only what others need is left."""
    if agent.deleted_us is not None or agent.born_seq == agent.fork_seq:
        return True
    is_sub_agent = agent.spawned and not agent.fork_seq and agent.born_seq >= 0
    return is_sub_agent and (agent.born_seq <= parent.head or parent.deleted_us is not None)


def _written_at(backend: Verifiable, agent: AgentRecord, seq: int) -> int:
    return max((row.created_us for row in backend.stored(agent, seq - 1, 1)), default=0)


def _inherited(
    backend: Verifiable, agent: AgentRecord, agents: dict[str, AgentRecord], rooted: bool
) -> bytes | None:
    """The digest that an agent's first event follows; None if it cannot be known."""
    if not rooted:
        return None
    if not agent.fork_seq:
        return START
    rows = backend.stored(agents[agent.parent or ""], agent.fork_seq - 1, 1)
    return rows[0].digest if rows else None


def _events(
    backend: Verifiable,
    agent: AgentRecord,
    agents: dict[str, AgentRecord],
    folds: dict[str, Fold],
    rooted: bool,
) -> Generator[Finding, None, Fold]:
    """Check an agent's own events, and return its fold for its children."""
    if rooted and agent.fork_seq and agent.parent:
        fold = Fold(after=agent.fork_seq, inherits=folds[agent.parent])
    else:
        fold = Fold(after=agent.fork_seq)
    head, time, link = agent.fork_seq, agent.created_us, _inherited(backend, agent, agents, rooted)
    keys: dict[str, int] = {}
    for row in _rows(backend, agent):
        checked = _Row(agent, *row)
        if rooted and agent.fork_seq and isinstance(row.key, str):
            keys[row.key] = row.seq
        yield from checked.wrong_values(time)
        yield from checked.wrong_place(head)
        if checked.seq > head:
            # Without the text, which is not needed here, because a fold keeps the events that it is given.
            event = Event((checked.seq, str(checked.kind), None, checked.text_data, 0, None))
            verdict = fold.feed(event)
            if rooted and verdict.base != checked.base:
                yield checked.finding(
                    f"its base is {checked.base}, but the rules make it {verdict.base}",
                    "set the base to that, or restore the row from a backup",
                )
            yield from checked.wrong_digest(link)
            head, link = checked.seq, checked.digest
        time = max(time, checked.created_us)
    if head != agent.head:
        problem = f"its head is recorded as {agent.head}, but its newest event is at {head}"
        yield Finding(
            agent.id, head, "error", problem, "restore the missing events, or set the head"
        )
    if rooted:
        yield from _inherited_keys(backend, agent, keys)
    return fold


def _inherited_keys(
    backend: Verifiable, agent: AgentRecord, keys: dict[str, int]
) -> Iterator[Finding]:
    """Own events with keys that inherited ones have. The databases themselves see to the others."""
    if not keys or agent.deleted_us is not None:
        return
    with suppress(AgentNotFound):  # it was deleted meanwhile
        inherited = clipped(backend.lineage(agent), 1, agent.fork_seq)
        for key, place in backend.places(agent, inherited, list(keys)).items():
            problem = f"it has the key {key!r:.60}, which position {place} of its lineage has, too"
            yield Finding(agent.id, keys[key], "error", problem, FROM_BACKUP)


def _rows(backend: Verifiable, agent: AgentRecord) -> Iterator[Stored]:
    """An agent's rows, up to the head that it had when it was listed, because others may still write. If the
    head has not moved, rows after it belong to no append, and are included."""
    after = -1
    while rows := backend.stored(agent, after, PAGE):
        for row in rows:
            if (
                agent.head < row.seq
                and agent.deleted_us is None
                and _is_written(backend, agent, row.seq)
            ):
                return
            yield row
        after = rows[-1].seq


def _is_written(backend: Verifiable, agent: AgentRecord, seq: int) -> bool:
    """Whether a row that came after the agent was listed is one of its events. If the agent has been deleted
    since, nobody needs to know."""
    try:
        return seq <= backend.head(agent)
    except AgentNotFound:
        return True


class _Row:
    """One stored row that is being checked."""

    def __init__(
        self,
        agent: AgentRecord,
        seq: int,
        kind: Any,
        content: Any,
        data: Any,
        created_us: int,
        key: Any,
        base: Any,
        digest: Any,
    ) -> None:
        self.agent = agent
        self.seq = seq
        self.kind = kind
        self.content = content
        self.data = data
        self.created_us = created_us
        self.key = key
        self.base = base
        self.digest = digest
        self.text_data = data if isinstance(data, str) else None

    def finding(self, problem: str, remedy: str, severity: str = "error") -> Finding:
        return Finding(self.agent.id, self.seq, severity, problem, remedy)

    def wrong_values(self, not_before: int) -> Iterator[Finding]:
        if self.kind not in KINDS:
            problem = f"unknown kind {self.kind!r}: the event is inert"
            yield self.finding(
                problem, "correct the kind, or leave it: replay ignores it", "warning"
            )
        if self.data is not None and not _is_json_object(self.data):
            yield self.finding(
                "its data is not a JSON object",
                "correct the data, or restore the row from a backup",
            )
        for problem in wrong_event(self.kind, self.content, self.data, self.created_us, self.key):
            yield self.finding(problem, "correct the row, or restore it from a backup")
        if self.created_us < not_before:
            problem = f"its time is {not_before - self.created_us} microseconds before that of the previous event"
            yield self.finding(problem, "correct the time: reads as of a time may miss it")

    def wrong_digest(self, previous: bytes | None) -> Iterator[Finding]:
        """Whether the row is unchanged, and follows the same event as when it was written."""
        if previous is None:
            return
        try:
            # Only the data of an erased event has its digests.
            erased = parse_object(self.text_data) if ERASED in (self.text_data or "") else None
            within = inner(self.content, self.data, erased)
            link = digest(
                previous, self.seq, self.kind, self.created_us, self.base, self.key, within
            )
        except (AttributeError, TypeError, ValueError, KeyError, OverflowError):
            link = b""  # a value of a type that backstory never writes
        if link != self.digest:
            problem = "it does not fit its digest: it was changed, or what was before it was"
            yield self.finding(problem, "restore the agent's events from a backup")

    def wrong_place(self, head: int) -> Iterator[Finding]:
        restore = "restore the missing rows from a backup"
        if self.seq <= self.agent.fork_seq:
            yield self.finding(
                f"it is at or below the fork position {self.agent.fork_seq}", "remove the row"
            )
        elif self.seq != head + 1:
            yield self.finding(
                f"positions {head + 1} to {self.seq - 1} before it are missing", restore
            )


def _is_json_object(text: Any) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (TypeError, ValueError, RecursionError):
        return False
