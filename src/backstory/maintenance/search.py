"""Searches events, dead ones included, with an index, or without one if the store is read-only.

Events that were appended since the last search are indexed first (`indexing`), so the result is
complete, or says how many events it lacks.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from weakref import WeakSet

from backstory.agent import Agent
from backstory.errors import AgentNotFound, Invalid, Remedy
from backstory.log import terms
from backstory.log.arguments import check_limit, check_list, read_title_and_tags
from backstory.log.events import Event, StoredRow
from backstory.log.kinds import KINDS
from backstory.log.terms import FoundEvent, Phrases
from backstory.maintenance.indexing import Progress, update_index
from backstory.storage.agent_trees import AgentTree, list_session, read_own_rows
from backstory.storage.ids import find_agent_by_id
from backstory.storage.protocol import (
    WHOLE_STORE,
    AgentQuery,
    AgentRecord,
    Backend,
    Piece,
    SearchQuery,
    SearchScope,
)

logger = logging.getLogger("backstory")


class Hit(NamedTuple):
    """One event that was found."""

    agent: Agent  # the one asked for; otherwise the owner, or a fork that has it in its context
    event: Event
    live: bool  # in that agent's context now
    score: float  # the higher the better, within one search
    snippet: str
    spans: tuple[tuple[int, int], ...]  # the positions of the matches in the snippet


class Hits(list[Hit]):
    """The result of a search, best first."""

    missing = 0  # events that were not searched, because they are not indexed yet

    def __init__(self, hits: Iterable[Hit] = ()) -> None:
        super().__init__(hits)
        # Agents whose title and tags contain all words; on the first page only.
        self.titled: list[Agent] = []


def search_store(
    backend: Backend,
    text: str,
    *,
    agent: AgentRecord | None = None,
    session: str | None = None,
    kinds: Sequence[str] = (),
    live: bool = False,
    limit: int = 20,
    after: Hit | None = None,
    wait: bool = True,
    progress: Progress | None = None,
) -> Hits:
    """Return the best matches, best first; those after the hit `after`, if it is given. `agent`
    searches what an agent sees, `session` what the agents of a session wrote. Without `wait`, many
    new events are indexed in the background; `progress` waits in any case."""
    most = _check_page(limit, after)
    phrases = terms.parse_phrases(text)
    checked_kinds = _check_kinds(kinds)
    viewers = EventViewers(backend, agent)
    scope = WHOLE_STORE
    if agent is not None:
        pieces = viewers.read_context(agent) if live else backend.read_lineage(agent)
        scope = SearchScope(agent.session, tuple(pieces))
    elif session is not None:
        scope = _find_session_scope(backend, session)
    hits = Hits()
    must_wait = wait or progress is not None
    is_scan = False
    if _can_update_index(backend, must_wait):
        hits.missing = update_index(backend, scope, progress, must_wait)
    else:
        is_scan = _needs_scan(backend, scope)
    query = SearchQuery(phrases, checked_kinds, scope)
    run = SearchRun(backend, query, viewers, live=live, is_scan=is_scan)
    hits.extend(run.find_hits(most, after))
    if after is None and not query.kinds and not live:
        titled = _find_titled(backend, phrases, agent, session)
        hits.titled.extend(titled[:most])
    return hits


def _can_update_index(backend: Backend, must_wait: bool) -> bool:
    """Return True if there is an index to update. A single search of a store that may only be read
    is as fast without one."""
    return not backend.read_only or (backend.can_index_alone and not must_wait)


def _check_page(limit: int, after: Hit | None) -> int:
    most = check_limit(limit, "results")
    if most is None:
        raise Invalid("a search has no end without a limit", remedy="pass 1 or more")
    if not isinstance(after, Hit | None):
        raise Invalid(
            f"after={after!r:.60} is not a hit", remedy="pass the last one of the page before"
        )
    return most


def _check_kinds(kinds: Sequence[str]) -> tuple[str, ...]:
    checked = tuple(check_list(kinds, "kinds", "pass kinds=[…]"))
    for kind in checked:
        if not isinstance(kind, str) or kind not in KINDS:
            known = ", ".join(KINDS)
            raise Invalid(f"unknown kind {kind!r:.60}", remedy=f"use one of {known}")
    return checked


def _find_session_scope(backend: Backend, session: str) -> SearchScope:
    """Return all that the agents of a session wrote, deleted ones included. Raises AgentNotFound if
    all of them were deleted."""
    agents = list_session(backend, session)
    if all(agent.deleted_us is not None for agent in agents):
        remedy = Remedy("{} lists the agents", "agents")
        raise AgentNotFound(f"session {session} was deleted", remedy=remedy)
    return SearchScope(session, _list_own_pieces(agents))


def _list_own_pieces(agents: Iterable[AgentRecord]) -> tuple[Piece, ...]:
    """Return everything that the agents themselves have written."""
    pieces = []
    for agent in agents:
        if agent.fork_seq < agent.head:
            pieces.append(Piece(agent.pk, agent.fork_seq + 1, agent.head))
    return tuple(pieces)


def _find_titled(
    backend: Backend, phrases: Phrases, agent: AgentRecord | None, session: str | None
) -> list[Agent]:
    """Return the agents whose title and tags contain all phrases, last written first."""
    records = backend.list_agents(
        AgentQuery(
            id_prefix=None if agent is None else agent.id,
            session=session if agent is None else agent.session,
            mentions=_find_longest_word(phrases),
            latest_first=True,
            allow_partial=True,
        )
    )
    titled = []
    for record in records:
        title, tags = read_title_and_tags(record.about)
        texts = tags if title is None else (title, *tags)
        if terms.has_phrases(phrases, terms.split_words("\n".join(texts))):
            titled.append(Agent(backend, record))
    return titled


def _find_longest_word(phrases: Phrases) -> str:
    """Return the longest ASCII word, probably the rarest; "" if there is none."""
    longest = ""
    for phrase in phrases:
        for word in phrase.words:
            if word.isascii() and len(word) > len(longest):
                longest = word
    return longest


# --- hits ---


class SearchRun:
    """One search: it asks for more matches until there are enough hits."""

    def __init__(
        self,
        backend: Backend,
        query: SearchQuery,
        viewers: "EventViewers",
        *,
        live: bool,
        is_scan: bool,
    ) -> None:
        self._backend = backend
        self._query = query
        self._viewers = viewers
        self._live = live
        self._is_scan = is_scan  # without the index
        self._hits: dict[tuple[str, int], Hit | None] = {}  # None: seen, and not a hit

    def find_hits(self, limit: int, after: Hit | None) -> list[Hit]:
        """Return the best hits, or those after the last hit of a page."""
        count = limit
        while True:
            found = self._find_matches(count)
            self._add_hits(found)
            hits = [hit for hit in self._hits.values() if hit is not None]
            page = _skip_page(hits, after)
            if len(page) >= limit or len(found) < count:
                return page[:limit]
            count *= 4

    def _find_matches(self, count: int) -> list[FoundEvent]:
        if self._is_scan:
            return _scan_events(self._backend, self._query, count)
        return self._backend.find_matches(self._query, count)

    def _add_hits(self, found: Iterable[FoundEvent]) -> None:
        by_viewer: dict[AgentRecord, dict[int, Match]] = {}
        for event in found:
            key = (event.owner_id, event.seq)
            if key in self._hits:
                continue
            self._hits[key] = None
            match = self._viewers.find_viewer(event)
            if match is None or (self._live and not match.is_live):
                continue
            by_position = by_viewer.setdefault(match.viewer, {})
            by_position[event.seq] = match
        for viewer, by_position in by_viewer.items():
            self._read_hits(viewer, by_position)

    def _read_hits(self, viewer: AgentRecord, by_position: dict[int, "Match"]) -> None:
        """Read the events of matches that one agent sees. Each position of its lineage has one
        owner."""
        pieces = []
        for seq, match in sorted(by_position.items()):
            pieces.append(Piece(match.owner.pk, seq, seq))
        try:
            events = self._backend.read_events(viewer, pieces)
        except AgentNotFound:
            return  # deleted since the matches were found
        for event in events:
            match = by_position[event.seq]
            self._hits[match.owner.id, event.seq] = self._build_hit(match, event)

    def _build_hit(self, match: "Match", event: Event) -> Hit | None:
        """Return the hit, if the event really matches: an index may return too much."""
        phrases = self._query.phrases
        text = terms.extract_text(event.kind, event.content, event.data_json)
        if not terms.has_phrases(phrases, terms.split_words(text)):
            return None
        snippet = terms.build_snippet(phrases, text)
        return Hit(
            agent=Agent(self._backend, match.viewer),
            event=event,
            live=match.is_live,
            score=match.found.score,
            snippet=snippet.text,
            spans=snippet.spans,
        )


def _skip_page(hits: list[Hit], last: Hit | None) -> list[Hit]:
    """Return the hits after the last one of a page."""
    if last is None:
        return hits
    for index, hit in enumerate(hits):
        if hit.agent.id == last.agent.id and hit.event == last.event:
            return hits[index + 1 :]
    return [hit for hit in hits if hit.score < last.score]


class Match(NamedTuple):
    """An event that a search found, and an agent that sees it."""

    found: FoundEvent
    owner: AgentRecord
    viewer: AgentRecord
    is_live: bool  # whether the event is in the viewer's context


class EventViewers:
    """Finds the agents that see an event: only the one that was asked for, or else its owner and
    the forks that inherit it."""

    def __init__(self, backend: Backend, agent: AgentRecord | None) -> None:
        self._backend = backend
        self._agent = agent
        self._owners: dict[str, AgentRecord | None] = {}
        self._contexts: dict[str, list[Piece]] = {}
        self._trees: dict[str, AgentTree] = {}  # of sessions

    def find_viewer(self, found: FoundEvent) -> Match | None:
        """Return an agent that has the event in its context, or else one that sees it. None if all
        of them were deleted since the event was found."""
        owner = self._find_owner(found.owner_id)
        if owner is None:
            return None
        viewers = []
        for viewer in self._list_viewers(owner, found.seq):
            viewers.append(viewer)
            for piece in self.read_context(viewer):
                is_owned = piece.owner == owner.pk
                if is_owned and piece.low <= found.seq <= piece.high:
                    return Match(found, owner, viewer, True)
        return Match(found, owner, viewers[0], False) if viewers else None

    def read_context(self, agent: AgentRecord) -> list[Piece]:
        """Return the live pieces of an agent; none if it was deleted since it was found."""
        if agent.id not in self._contexts:
            try:
                self._contexts[agent.id] = self._backend.walk(agent).pieces
            except AgentNotFound:
                if agent is self._agent:
                    raise
                self._contexts[agent.id] = []
        return self._contexts[agent.id]

    def _find_owner(self, id: str) -> AgentRecord | None:
        if id not in self._owners:
            self._owners[id] = find_agent_by_id(self._backend, id, include_deleted=True)
        return self._owners[id]

    def _list_viewers(self, owner: AgentRecord, seq: int) -> Iterator[AgentRecord]:
        if self._agent is not None:
            yield self._agent
            return
        if owner.deleted_us is None:  # usually the only one that is needed
            yield owner
        if owner.session not in self._trees:
            agents = list_session(self._backend, owner.session)
            self._trees[owner.session] = AgentTree(agents)
        tree = self._trees[owner.session]
        for heir in tree.list_heirs(owner, seq):
            if heir.deleted_us is None and heir.id != owner.id:
                yield heir


# --- search without an index ---

_warned: WeakSet[Any] = WeakSet()  # backends, so each is warned about once


def _needs_scan(backend: Backend, scope: SearchScope) -> bool:
    """Return True if the index lacks events that are searched, and cannot be updated. Logs a
    warning then."""
    if backend.count_unindexed(scope) == 0:
        return False
    if backend not in _warned:
        _warned.add(backend)
        logger.warning(
            "%s is open for reading only, so it is searched without an index, which takes longer",
            backend.url,
        )
    return True


def _scan_events(backend: Backend, query: SearchQuery, limit: int) -> list[FoundEvent]:
    """Return the best matches, as the index would find them."""
    rows = _read_scope(backend, query.scope)
    return terms.rank_rows(query.phrases, rows, query.kinds, limit)


def _read_scope(backend: Backend, scope: SearchScope) -> Iterator[tuple[str, StoredRow]]:
    """Yield the rows that are searched, each with the id of its owner."""
    agents = backend.list_agents(AgentQuery(session=scope.session, include_deleted=True))
    if scope == WHOLE_STORE:
        for agent in agents:
            for row in read_own_rows(backend, agent, agent.fork_seq, agent.head):
                yield agent.id, row
        return
    owners = {agent.pk: agent for agent in agents}  # a number is unique in its session only
    for piece in scope.pieces:
        owner = owners.get(piece.owner)
        if owner is None:
            continue  # deleted since the pieces were read
        for row in read_own_rows(backend, owner, piece.low - 1, piece.high):
            yield owner.id, row
