"""Searches all sessions, dead events included: brings the index up to date, asks it, and makes snippets.

What was appended since the last search is indexed first if it is little, otherwise in the background; then
the result says how many events it lacks.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from backstory.agent import Agent
from backstory.arguments import checked_limit, own_agent
from backstory.errors import AgentNotFound, Invalid
from backstory.log.about import told
from backstory.log.events import Event
from backstory.log.kinds import KINDS
from backstory.log.terms import Query, matches, query, searchable, snippet, words
from backstory.maintenance.indexer import Progress, catch_up, catch_up_soon, size
from backstory.maintenance.scan import has_to_scan, scan
from backstory.storage.log import Log
from backstory.storage.protocols import AgentRecord, Found, Piece, Wanted

AT_ONCE = (
    2_000  # events that a search indexes before it answers; more are indexed in the background
)


class Hit(NamedTuple):
    """One event that was found."""

    agent: Agent  # the one that was asked for; otherwise the owner, or a fork that still has it in its context
    event: Event
    live: bool  # in that agent's context now
    score: float  # the higher the better, within one search
    snippet: str
    spans: tuple[tuple[int, int], ...]  # where in the snippet the matches are


class Hits(list[Hit]):
    """What a search found, best first."""

    behind = 0  # how many events could not be searched yet: the index is still catching up

    def __init__(self, found: Iterable[Hit] = (), titled: Iterable[Agent] = ()) -> None:
        super().__init__(found)
        self.titled = list(
            titled
        )  # agents whose title and tags contain all words; on the first page only


def search(
    log: Log,
    text: str,
    *,
    agent: Agent | None = None,
    session: str | None = None,
    kinds: Sequence[str] = (),
    live: bool = False,
    limit: int = 20,
    after: Hit | None = None,
    wait: bool = False,
    progress: Progress | None = None,
) -> Hits:
    """The best matches, best first; those after `after`, if it is given."""
    if agent is not None:
        own_agent(log, agent)
    most = checked_limit(limit, "results")
    if most is None:
        raise Invalid("a search has no end without a limit", remedy="pass 1 or more")
    _check_kinds(kinds)
    if not isinstance(after, Hit | None):
        raise Invalid(
            f"after={after!r:.60} is not a hit", remedy="pass the last one of the page before"
        )
    asked = query(text)
    asking = _Asking(log, asked, agent, session, kinds, live)
    behind = (
        0 if log.backend.read_only else asking.catch_up(progress, wait=wait or progress is not None)
    )
    wants_titles = after is None and not kinds and not live
    hits = Hits(asking.hits(most, after), asking.titled(most) if wants_titles else ())
    hits.behind = behind
    return hits


def _check_kinds(kinds: Sequence[str]) -> None:
    if isinstance(kinds, str) or not isinstance(kinds, Iterable):
        raise Invalid(f"kinds={kinds!r:.60} is not a list of kinds", remedy="pass kinds=[…]")
    for kind in kinds:
        if not isinstance(kind, str) or kind not in KINDS:
            raise Invalid(f"unknown kind {kind!r:.60}", remedy=f"use one of {', '.join(KINDS)}")


class _Asking:
    """One search: it asks the index for more until there are enough hits."""

    def __init__(
        self,
        log: Log,
        asked: Query,
        agent: Agent | None,
        session: str | None,
        kinds: Sequence[str],
        live: bool,
    ) -> None:
        self._log = log
        self._session = agent.session if agent else session or ""
        self._asked = asked
        self._agent = agent
        self._kinds = kinds
        self._live = live
        self._scans = has_to_scan(log.backend)
        self._records: dict[str, AgentRecord] = {}
        self._walks: dict[str, list[Piece]] = {}
        self._forks: dict[
            str, dict[str, list[Agent]]
        ] = {}  # of each session that something was found in
        self._pieces = self._within()

    def _within(self) -> list[Piece] | None:
        """Where to look; None: everywhere."""
        if self._agent:
            pieces = self._log.backend.lineage(self._agent.snapshot)
            return self._live_pieces(self._agent) if self._live else pieces
        if self._session:
            tree = self._log.backend.agents(Wanted(session=self._session, deleted=True))
            return [Piece(one.pk, one.fork_seq + 1, one.head) for one in tree]
        return None

    def catch_up(self, progress: Progress | None, *, wait: bool) -> int:
        """Bring the part of the index that is searched up to date, or start that in the background. Returns
        how many events it lacks."""
        backend, where = self._log.backend, (self._session, self._pieces)
        count = size(backend.backlog(*where))
        if wait or count <= AT_ONCE:
            catch_up(backend, *where, progress)
            return 0
        catch_up_soon(backend)
        return count

    def hits(self, limit: int, last: Hit | None) -> list[Hit]:
        wanted: dict[tuple[str, int], Hit | None] = {}
        ask_for = limit
        while True:
            found = self._found(ask_for)
            new = [one for one in found if (one.agent, one.seq) not in wanted]
            texts = self._read(one for one in new if self._is_wanted(one))
            for one in new:
                wanted[one.agent, one.seq] = self._hit(one, texts.get((one.agent, one.seq)))
            hits = _behind([hit for hit in wanted.values() if hit], last)
            if len(hits) >= limit or len(found) < ask_for:
                return hits[:limit]
            ask_for *= 4

    def titled(self, limit: int) -> list[Agent]:
        """The agents whose title and tags contain all words, last written first."""
        wanted = Wanted(telling=_rarest(self._asked), latest_first=True, partial=True)
        wanted = wanted._replace(
            session=self._session or None, prefix=self._agent.id if self._agent else None
        )
        told_all = (
            record
            for record in self._log.backend.agents(wanted)
            if matches(self._asked, words(told(record.about)))
        )
        return [Agent(self._log, record) for record in islice(told_all, limit)]

    def _found(self, limit: int) -> list[Found]:
        if self._scans:
            return scan(
                self._log.backend, self._asked, kinds=self._kinds, pieces=self._pieces, limit=limit
            )
        return self._log.backend.find(
            self._asked, kinds=self._kinds, pieces=self._pieces, session=self._session, limit=limit
        )

    def _record(self, id: str) -> AgentRecord | None:
        """The agent that owns a match; None if it was deleted since."""
        if id not in self._records:
            found = self._log.backend.agents(Wanted(prefix=id, deleted=True))
            self._records.update((record.id, record) for record in found)
        return self._records.get(id)

    def _forks_of(self, agent: Agent) -> list[Agent]:
        """The forks of an agent, from one listing of its session."""
        if agent.session not in self._forks:
            forks = self._forks.setdefault(agent.session, {})
            for record in self._log.backend.agents(Wanted(session=agent.session, deleted=True)):
                self._records[record.id] = record
                if record.parent and record.fork_seq:
                    forks.setdefault(record.parent, []).append(Agent(self._log, record))
        return self._forks[agent.session].get(agent.id, [])

    def _live_pieces(self, agent: Agent) -> list[Piece]:
        if agent.id not in self._walks:
            self._walks[agent.id] = self._walked(agent)
        return self._walks[agent.id]

    def _walked(self, agent: Agent) -> list[Piece]:
        try:
            return self._log.walk(agent.snapshot).pieces
        except AgentNotFound:
            if agent is self._agent:
                raise
            return []  # deleted since it was found

    def _read(self, wanted: Iterable[Found]) -> dict[tuple[str, int], Event]:
        """The events of the matches, with one query for each agent that owns some."""
        places: dict[str, set[int]] = {}
        for one in wanted:
            places.setdefault(one.agent, set()).add(one.seq)
        events: dict[tuple[str, int], Event] = {}
        for id, positions in places.items():
            owner = self._record(id)
            if owner is None:
                continue
            pieces = [Piece(owner.pk, seq, seq) for seq in sorted(positions)]
            events.update(
                ((id, event.seq), event) for event in self._log.backend.read(owner, pieces)
            )
        return events

    def _is_wanted(self, found: Found) -> bool:
        return not self._live or self._keeper(found) is not None

    def _keeper(self, found: Found) -> Agent | None:
        """An agent that has it in its context: the one asked for, the owner, or a fork that inherited it and
        still has it."""
        record = self._record(found.agent)
        if record is None:
            return None
        owner = Agent(self._log, record)
        seers = [self._agent] if self._agent else self._seers(owner, found.seq)
        return next((seer for seer in seers if self._is_live(seer, owner, found.seq)), None)

    def _seers(self, owner: Agent, seq: int) -> Iterator[Agent]:
        waiting = [owner]
        while waiting:
            seer = waiting.pop(0)
            if seer.snapshot.deleted_us is None:
                yield seer
            waiting += [fork for fork in self._forks_of(seer) if fork.fork_seq >= seq]

    def _is_live(self, seer: Agent, owner: Agent, seq: int) -> bool:
        return any(
            piece.owner == owner.snapshot.pk and piece.low <= seq <= piece.high
            for piece in self._live_pieces(seer)
        )

    def _hit(self, found: Found, event: Event | None) -> Hit | None:
        """The hit, if the event really matches: an index may return too much."""
        if event is None:
            return None
        text = searchable(event.kind, event.content, event.data_json)
        if not matches(self._asked, words(text)):
            return None
        keeper, owner = self._keeper(found), Agent(self._log, self._records[found.agent])
        seer = keeper or self._agent or next(self._seers(owner, found.seq), None)
        if seer is None:
            return None  # deleted since it was found
        return Hit(seer, event, keeper is not None, found.score, *snippet(self._asked, text))


def _rarest(asked: Query) -> str:
    """The longest ASCII word in a query; "" if it has none."""
    plain = (word for phrase in asked for word in phrase.words if word.isascii())
    return max(plain, key=len, default="")


def _behind(hits: list[Hit], last: Hit | None) -> list[Hit]:
    """The hits after the last one of a page."""
    if last is None:
        return hits
    for place, hit in enumerate(hits):
        if (hit.agent.id, hit.event) == (last.agent.id, last.event):
            return hits[place + 1 :]
    return [hit for hit in hits if hit.score < last.score]
