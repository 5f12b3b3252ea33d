"""Lists what a store contains beyond single agents: sessions, marks, newest notes, events by key,
and the agents that were written to."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import NamedTuple, Self

from backstory.agent import Agent
from backstory.errors import AgentNotFound
from backstory.log.arguments import check_key, read_title_and_tags
from backstory.log.events import Event, StoredRow
from backstory.log.times import to_datetime
from backstory.references import find_agent
from backstory.storage.agent_trees import (
    AgentTree,
    find_root,
    group_by_session,
    has_key_prefix,
)
from backstory.storage.follow import HeadTracker, WaitResult, begin_following
from backstory.storage.ids import find_agent_by_id, find_keyed_agent
from backstory.storage.protocol import (
    AgentQuery,
    AgentRecord,
    Backend,
    EventFilter,
    Reader,
)
from backstory.storage.targets import MARKS

AGENTS_AT_ONCE = 200  # agents read at a time
MOST_LISTED_BY_ID = 1_000  # up to this many sessions with a prefix are listed by their ids
NEWEST_MOVES = EventFilter(irregular_only=True, newest_only=True)


class Session(NamedTuple):
    """One tree of agents, as it was when it was listed."""

    id: str
    name: str  # its root's
    agents: int
    events: int
    created_at: datetime
    updated_at: datetime
    # From the `about` of its root, or of its oldest agent if the root was deleted.
    title: str | None = None
    tags: tuple[str, ...] = ()
    key: str | None = None


# --- sessions ---


def list_sessions(backend: Backend, query: AgentQuery, after: str | None) -> list[Session]:
    """Return all sessions, or a page of them. `after` is the id of the last session of the previous
    page."""
    if query.latest_first:
        return LatestSessions(backend, query, after).list_page()
    if after is None and query == AgentQuery(allow_partial=True):  # all: one statement
        trees = group_by_session(backend.list_agents(query))
        return [_build_session(tree) for tree in trees.values()]
    return _list_oldest_sessions(backend, query, after)


def _list_oldest_sessions(backend: Backend, query: AgentQuery, after: str | None) -> list[Session]:
    """Return a page of sessions, oldest first: two statements, however many there are."""
    if after is not None:
        last_root = find_agent_by_id(backend, after, include_deleted=True)
        query = query._replace(after=last_root or find_agent(backend, after))
    roots = backend.list_agents(query._replace(roots_only=True))
    if not roots:
        return []
    ids = tuple(root.session for root in roots)
    trees = group_by_session(backend.list_agents(AgentQuery(sessions=ids)))
    return [_build_session(trees[id]) for id in ids if id in trees]


def _build_session(tree: Sequence[AgentRecord]) -> Session:
    root = find_root(tree)
    oldest = root or min(tree, key=lambda record: record.created_us)
    title, tags = read_title_and_tags(oldest.about)
    id = oldest.session
    return Session(
        id=id,
        name=root.name if root else id,
        agents=len(tree),
        events=sum(record.head - record.fork_seq for record in tree),
        created_at=to_datetime(min(record.created_us for record in tree)),
        updated_at=to_datetime(max(record.updated_us for record in tree)),
        title=title,
        tags=tags,
        key=root.key if root else None,
    )


class LatestSessions:
    """Collects sessions from pages of agents, last written first. `after` is the id of the last
    session of the previous page.

    No row has the time of a session. But where agents are read in the order of their times, the
    first agent of a session is its latest, and that is the position of the session. A page of
    sessions takes two statements, and two more each time the agents belong to too few sessions:
    on SQLite, a page of 50 took 1 ms of 1,000 sessions, and 4 ms of 20,000.
    """

    def __init__(self, backend: Reader, query: AgentQuery, after: str | None) -> None:
        self._backend = backend
        self._query = query
        self._last = None if after is None else self._find_latest_agent(after)
        self._seen: set[str] = set()
        self._found: list[Session] = []

    def list_page(self) -> list[Session]:
        """Return the sessions of the page."""
        limit = self._query.limit
        size = AGENTS_AT_ONCE if limit is None else min(AGENTS_AT_ONCE, 2 * limit)
        page = self._query._replace(
            key_prefix=None, sessions=self._find_few_sessions(), after=self._last, limit=size
        )
        while records := self._backend.list_agents(page):
            self._add_sessions(records)
            if limit is not None and len(self._found) >= limit:
                break
            # Pages grow: if only old sessions have the prefix, a few statements find them.
            size *= 2
            page = page._replace(after=records[-1], limit=size)
        return self._found[:limit]

    def _find_latest_agent(self, session: str) -> AgentRecord | None:
        """Return the agent of a session that was written to last."""
        query = AgentQuery(session=session, latest_first=True, limit=1)
        return next(iter(self._backend.list_agents(query)), None)

    def _find_few_sessions(self) -> tuple[str, ...] | None:
        """Return the ids of the sessions whose keys have the prefix, if they are few: only their
        agents are read then. None: all agents are read until enough have the prefix."""
        prefix = self._query.key_prefix
        if prefix is None:
            return None
        query = AgentQuery(
            key_prefix=prefix, roots_only=True, limit=MOST_LISTED_BY_ID + 1, allow_partial=True
        )
        roots = self._backend.list_agents(query)
        if len(roots) > MOST_LISTED_BY_ID:
            return None
        return tuple(root.session for root in roots)

    def _add_sessions(self, records: Iterable[AgentRecord]) -> None:
        """Add the sessions whose latest agents are among these. Each session is looked at once: if
        its first agent here is not its latest, no later one is."""
        first: dict[str, AgentRecord] = {}
        for record in records:
            if record.session not in self._seen:
                first.setdefault(record.session, record)
        if not first:
            return
        self._seen.update(first)
        prefix = self._query.key_prefix or ""
        latest_first = AgentQuery(sessions=tuple(first), latest_first=True)
        trees = group_by_session(self._backend.list_agents(latest_first))
        for id, record in first.items():
            tree = trees.get(id)  # None if the session was deleted in between
            if tree and self._is_latest(record, tree) and has_key_prefix(tree, prefix):
                self._found.append(_build_session(tree))

    def _is_latest(self, first: AgentRecord, tree: Sequence[AgentRecord]) -> bool:
        """Return True if the first agent that was read of a session is its latest."""
        if self._last is None and self._query.until_us is None:
            # No later agent was left out, but another one may have been written to since.
            return True
        return tree[0].id == first.id


# --- events of many agents ---


def find_events(backend: Backend, key: str) -> list[tuple[Agent, Event]]:
    """Return the events with a key, each with the agent that owns it, or with one that inherits it
    from a deleted agent."""
    found: list[tuple[Agent, Event]] = []
    for position in backend.find_keys([check_key(key)]):
        owner = find_agent_by_id(backend, position.owner_id, include_deleted=True)
        if owner is None:
            continue
        candidates = [owner]
        if owner.deleted_us is not None:
            candidates = backend.list_agents(AgentQuery(session=owner.session))
        pair = _find_in_first(backend, candidates, key)
        if pair is not None:
            found.append(pair)
    return found


def _find_in_first(
    backend: Backend, records: Iterable[AgentRecord], key: str
) -> tuple[Agent, Event] | None:
    """Return the first of these agents that has an event with the key, and the event."""
    for record in records:
        agent = Agent(backend, record)
        with suppress(AgentNotFound):  # it was deleted in between
            event = agent.find(key)
            if event is not None:
                return agent, event
    return None


def list_marks(backend: Backend, session: str) -> list[tuple[Agent, Event]]:
    """Return the marks of a session, dead or alive, each with the agent that owns it, or with the
    oldest that inherits it from a deleted agent. Two statements, however many agents there are."""
    query = AgentQuery(session=session, include_deleted=True)
    rows = backend.read_owned(query, MARKS)
    tree = AgentTree(backend.list_agents(query))
    found = []
    for id, row in rows:
        owner = tree.agents.get(id)
        heir = None if owner is None else tree.find_heir(owner, row.seq)
        if heir is not None:
            found.append((Agent(backend, heir), row.event))
    return found


def list_last_notes(backend: Backend, name: str, prefix: str) -> list[tuple[Agent, Event]]:
    """Return the newest live note with a name, for each agent that has one and whose key begins
    with `prefix`. Three statements find nearly all of them. Only agents that moved since, or that
    may inherit the note, are read separately."""
    query = AgentQuery(key_prefix=prefix or None)
    where = EventFilter(kinds=frozenset({"note"}), note_names=(name,), newest_only=True)
    notes = dict(backend.read_owned(query, where))
    moves = dict(backend.read_owned(query, NEWEST_MOVES)) if notes else {}
    found = []
    for record in backend.list_agents(query):
        agent = Agent(backend, record)
        note = _find_last_note(agent, name, notes.get(record.id), moves.get(record.id))
        if note is not None:
            found.append((agent, note))
    return found


def _find_last_note(
    agent: Agent, name: str, own: StoredRow | None, move: StoredRow | None
) -> Event | None:
    """Return the newest live note of an agent. `own` is the newest note that it owns, which is live
    unless a `move` came after it."""
    if own is None and agent.fork_seq == 0:
        return None
    if own is not None and (move is None or move.seq < own.seq):
        return own.event
    try:
        return agent.last_notes([name]).get(name)
    except AgentNotFound:  # it was deleted in between
        return None


def list_last_notes_of(
    backend: Backend, name: str, keys: Iterable[str]
) -> list[tuple[Agent, Event]]:
    """Return the newest live note with a name, for each agent that has one of these keys."""
    found = []
    for key in keys:
        _, record = find_keyed_agent(backend, key)
        if record is None:
            continue
        agent = Agent(backend, record)
        with suppress(AgentNotFound):  # it was deleted in between
            notes = agent.last_notes([name])
            if name in notes:
                found.append((agent, notes[name]))
    return found


# --- changes ---


class AgentHead(NamedTuple):
    """An agent that was written to."""

    agent: Agent
    head: int  # its newest position
    is_new: bool  # True if the watch did not know the agent before


class HeadChanges:
    """Reads which agents of a store were written to."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._tracker = HeadTracker(backend)

    @property
    def due(self) -> float | None:
        return self._tracker.due

    def read(self, *, last: bool = False) -> list[AgentHead]:
        """Return the agents that are new or were written to. The last read of a wait is not the
        last one of the watch, so it may postpone."""
        found = []
        for record in self._tracker.list_changed():
            is_new = record.id not in self._tracker.positions
            self._tracker.positions[record.id] = record.head
            found.append(AgentHead(Agent(self._backend, record), record.head, is_new))
        return found


class HeadWatch:
    """Waits until agents of a store are written to, by any process. `wait` belongs to one thread;
    any thread may close the watch."""

    def __init__(self, backend: Backend) -> None:
        self._follower = begin_following(backend, partial(HeadChanges, backend))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """True after `close`, or after the store was closed."""
        return self._follower.closed

    def close(self) -> None:
        """Stop watching. Ends a wait."""
        self._follower.close()

    def wait(self, timeout: float | None = None) -> list[AgentHead]:
        """Return the agents that are new or were written to since the last call (at first: since
        the watch began), as soon as there are any. Return an empty list after `timeout` seconds, or
        when the watch is closed. A server that is restarted only takes longer."""
        if self._follower.wait(timeout) is WaitResult.FOUND:
            return self._follower.take_all()
        return []
