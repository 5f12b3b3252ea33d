"""Search over all sessions, dead events included: catch up with the log, ask the index, show why.

Complete whenever it is asked: what was appended since the last search is indexed first, in small
transactions of the search's own, so that an append never waits for more than one of them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from backstory.agent import Agent
from backstory.core.events import Event
from backstory.core.kinds import KINDS
from backstory.core.terms import Query, matches, query, searchable, snippet, words
from backstory.errors import Invalid
from backstory.jobs.scan import has_to_scan, scan
from backstory.storage.log import Log
from backstory.storage.protocols import AgentRecord, Agents, Found, Index, Piece, StoredRows, Wanted

PAGE = 2_000  # events indexed in one transaction

Progress = Callable[[int, int], None]  # how many events are indexed now, and how many will be


class Indexable(Agents, StoredRows, Index, Protocol):
    """What can be indexed: agents, their rows, and an index."""


class Hit(NamedTuple):
    """One event that was found."""

    agent: Agent  # the one that was asked for; else the owner, or a fork in whose context it still is
    event: Event
    live: bool  # in that agent's context now
    score: float  # the higher the better, within one search
    snippet: str
    spans: tuple[tuple[int, int], ...]  # where in the snippet the matches are


def search(
    log: Log,
    text: str,
    *,
    agent: Agent | None = None,
    kinds: Sequence[str] = (),
    live: bool = False,
    limit: int = 20,
    progress: Progress | None = None,
) -> list[Hit]:
    """The best matches, best first."""
    for kind in kinds:
        if kind not in KINDS:
            raise Invalid(f"unknown kind {kind!r}", remedy=f"use one of {', '.join(KINDS)}")
    asked = query(text)
    if not log.backend.read_only:
        catch_up(log.backend, progress)
    asking = _Asking(log, asked, agent, kinds, live)
    return asking.hits(limit)


def catch_up(backend: Indexable, progress: Progress | None = None) -> None:
    """Index what was appended since the last time."""
    upto = backend.indexed()
    behind = [
        (agent, upto.get(agent.id, agent.fork_seq))
        for agent in backend.agents(Wanted(deleted=True))
        if agent.head > upto.get(agent.id, agent.fork_seq)
    ]
    total = sum(agent.head - after for agent, after in behind)
    done = 0
    for agent, after in behind:
        for count in _index_pages(backend, agent, after):
            done += count
            if progress:
                progress(done, total)


def _index_pages(backend: Indexable, agent: AgentRecord, after: int) -> Iterator[int]:
    """Index one agent's events page by page; yields how many each time."""
    while after < agent.head:
        rows = backend.stored(agent, after, PAGE)
        if not rows:
            return  # a damaged log ends early: that is for verify to say
        texts = [(row.seq, words(searchable(row.kind, row.content, row.data_json))) for row in rows]
        reached = backend.index(agent, after, texts)
        yield reached - after
        after = reached


class _Asking:
    """One search under way: it asks for more until enough of what comes is wanted."""

    def __init__(self, log: Log, asked: Query, agent: Agent | None, kinds: Sequence[str], live: bool) -> None:
        self._log = log
        self._asked = asked
        self._agent = agent
        self._kinds = kinds
        self._live = live
        self._scans = has_to_scan(log.backend)
        records = log.backend.agents(Wanted(deleted=True))
        self._agents = {record.id: Agent(log, record) for record in records}
        self._walks: dict[str, list[Piece]] = {}
        self._forks: dict[str, list[Agent]] = {}
        for one in self._agents.values():
            if one.parent and one.fork_seq:
                self._forks.setdefault(one.parent, []).append(one)

    def hits(self, limit: int) -> list[Hit]:
        wanted: dict[tuple[str, int], Hit | None] = {}
        ask_for = limit
        while True:
            found = self._found(ask_for)
            new = [one for one in found if (one.agent, one.seq) not in wanted]
            texts = self._read(one for one in new if self._is_wanted(one))
            for one in new:
                wanted[one.agent, one.seq] = self._hit(one, texts.get((one.agent, one.seq)))
            hits = [hit for hit in wanted.values() if hit]
            if len(hits) >= limit or len(found) < ask_for:
                return hits[:limit]
            ask_for *= 4

    def _found(self, limit: int) -> list[Found]:
        pieces, session = None, ""
        if self._agent:
            session = self._agent.session
            pieces = self._log.backend.lineage(self._agent.snapshot)
            pieces = self._live_pieces(self._agent) if self._live else pieces
        if self._scans:
            return scan(self._log.backend, self._asked, kinds=self._kinds, pieces=pieces, limit=limit)
        return self._log.backend.find(
            self._asked, kinds=self._kinds, pieces=pieces, session=session, limit=limit
        )

    def _live_pieces(self, agent: Agent) -> list[Piece]:
        if agent.id not in self._walks:
            self._walks[agent.id] = self._log.walk(agent.snapshot).pieces
        return self._walks[agent.id]

    def _read(self, wanted: Iterable[Found]) -> dict[tuple[str, int], Event]:
        """The events of what was found, with one query for each agent that owns some."""
        places: dict[str, list[int]] = {}
        for one in wanted:
            places.setdefault(one.agent, []).append(one.seq)
        events: dict[tuple[str, int], Event] = {}
        for id, positions in places.items():
            owner = self._agents[id].snapshot
            pieces = [Piece(owner.pk, seq, seq) for seq in sorted(positions)]
            events.update(((id, event.seq), event) for event in self._log.backend.read(owner, pieces))
        return events

    def _is_wanted(self, found: Found) -> bool:
        return not self._live or self._keeper(found) is not None

    def _keeper(self, found: Found) -> Agent | None:
        """An agent that has it in its context: the one asked for, or the owner, or a fork that
        inherited it and did not leave it behind."""
        owner = self._agents[found.agent]
        seers = [self._agent] if self._agent else self._seers(owner, found.seq)
        return next((seer for seer in seers if self._is_live(seer, owner, found.seq)), None)

    def _seers(self, owner: Agent, seq: int) -> Iterator[Agent]:
        waiting = [owner]
        while waiting:
            seer = waiting.pop(0)
            if seer.snapshot.deleted_us is None:
                yield seer
            waiting += [fork for fork in self._forks.get(seer.id, ()) if fork.fork_seq >= seq]

    def _is_live(self, seer: Agent, owner: Agent, seq: int) -> bool:
        return any(
            piece.owner == owner.snapshot.pk and piece.low <= seq <= piece.high
            for piece in self._live_pieces(seer)
        )

    def _hit(self, found: Found, event: Event | None) -> Hit | None:
        """What was found, if it really is what was asked for: an index may promise too much."""
        if event is None:
            return None
        text = searchable(event.kind, event.content, event.data_json)
        if not matches(self._asked, words(text)):
            return None
        keeper = self._keeper(found)
        seer = keeper or self._agent or next(self._seers(self._agents[found.agent], found.seq), None)
        if seer is None:
            return None  # deleted since it was found
        return Hit(seer, event, keeper is not None, found.score, *snippet(self._asked, text))
