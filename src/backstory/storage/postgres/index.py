"""The search index of the PostgreSQL backend: tsvectors, brought up to date by each search.

It is derived from the events and created by the first search. So it costs appends nothing, and its
tables may be dropped at any time. The words come from `backstory.log.terms` and go into the vectors
unchanged: PostgreSQL's own parser and dictionaries differ from server to server, and are not used.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from backstory.log.terms import FoundEvent, Phrase, extract_text, split_words
from backstory.storage.ids import parse_place
from backstory.storage.postgres import schema
from backstory.storage.postgres.rows import PIECES, identify, write_pieces
from backstory.storage.postgres.server import Connection, Params
from backstory.storage.protocol import (
    CANDIDATES,
    AgentRecord,
    SearchQuery,
    SearchScope,
)

# PostgreSQL's limits for a tsvector.
MOST_WORD_POSITIONS = 255  # of one word
LAST_WORD_POSITION = 16_383
MOST_VECTOR_BYTES = 900_000  # it must stay below 1 MB
WORTH_ANALYZING = 10_000  # new rows after which an ANALYZE is due

ANALYZE = "ANALYZE backstory.search_3, backstory.searched_3"

AGENTS_TO_INDEX = """
    FROM backstory.agents a LEFT JOIN backstory.searched_3 s ON s.place = a.place AND s.agent = a.no
    WHERE a.head > coalesce(s.upto, a.fork_seq)"""
COUNT_UNINDEXED = f"""
    SELECT coalesce(pg_catalog.sum(a.head - coalesce(s.upto, a.fork_seq)), 0)::bigint
    {AGENTS_TO_INDEX}"""
COUNT_EVENTS = """
    SELECT coalesce(pg_catalog.sum(a.head - a.fork_seq), 0)::bigint
    FROM backstory.agents a WHERE a.head > a.fork_seq"""
OF_OWNERS = " AND a.place = %(place)s::bigint AND a.no = ANY(%(nos)s::int[])"
READ_BACKLOGS = f"""
    SELECT a.place, a.no, coalesce(s.upto, a.fork_seq), a.head, a.session::text
    {AGENTS_TO_INDEX}"""
READ_TEXTS = """
    SELECT p.nth - 1, e.* FROM ROWS FROM (
        pg_catalog.unnest(%(places)s::bigint[]), pg_catalog.unnest(%(nos)s::int[]),
        pg_catalog.unnest(%(afters)s::int[]), pg_catalog.unnest(%(uptos)s::int[])
    ) WITH ORDINALITY AS p (place, no, after, upto, nth)
    CROSS JOIN LATERAL (
        SELECT seq, kind, content, data FROM backstory.events
        WHERE place = p.place AND agent = p.no AND seq > p.after AND seq <= p.upto
        ORDER BY seq OFFSET 0) e"""
INSERT = "COPY backstory.search_3 (place, session, agent, seq, long, words) FROM STDIN"
SET_END = """
    INSERT INTO backstory.searched_3 (place, agent, upto) VALUES (%s::bigint, %s, %s)
    ON CONFLICT (place, agent) DO UPDATE SET upto = excluded.upto"""

FORGET_AFTER = """
    DELETE FROM backstory.search_3
    WHERE place = %(place)s::bigint AND agent = %(no)s AND seq > %(keep)s"""
LOWER_END = """
    UPDATE backstory.searched_3 SET upto = least(upto, %(keep)s)
    WHERE place = %(place)s::bigint AND agent = %(no)s"""
FORGET_END = """
    DELETE FROM backstory.searched_3 WHERE place = %(place)s::bigint AND agent = %(no)s"""
FORGET_EVENT = """
    DELETE FROM backstory.search_3
    WHERE place = %(place)s::bigint AND agent = %(no)s AND seq = %(seq)s"""

# If there are very many matches, only some are ranked: the cost grows with their number, and a word
# that occurs everywhere tells nothing about relevance. Three queries instead of one with OR, so
# that each uses its own index and no row is read twice.
FIND = """
    SELECT a.id::text, f.seq, f.score
    FROM (
        SELECT c.*, coalesce(pg_catalog.ts_rank(c.words, %(loose)s::tsquery, 1), 0) AS score
        FROM (
            (SELECT s.place, s.session, s.agent, s.seq, s.words FROM backstory.search_3 s
                WHERE NOT s.long AND s.words @@ %(exact)s::tsquery {filters}
                LIMIT %(candidates)s)
            UNION ALL
            (SELECT s.place, s.session, s.agent, s.seq, s.words FROM backstory.search_3 s
                WHERE s.long AND s.words @@ %(loose)s::tsquery {filters}
                LIMIT %(candidates)s)
            UNION ALL
            (SELECT s.place, s.session, s.agent, s.seq, s.words FROM backstory.search_3 s
                WHERE s.words IS NULL {filters})) c
        ORDER BY score DESC, c.session DESC, c.agent DESC, c.seq DESC LIMIT %(limit)s) f
    JOIN backstory.agents a ON a.place = f.place AND a.no = f.agent
    ORDER BY f.score DESC, f.session DESC, f.agent DESC, f.seq DESC"""
OF_KINDS = """AND EXISTS (
    SELECT 1 FROM backstory.events e
    WHERE e.place = s.place AND e.agent = s.agent AND e.seq = s.seq AND e.kind = ANY(%(kinds)s))"""
IN_PIECES = f"""AND s.place = %(place)s::bigint AND EXISTS (
    SELECT 1 FROM {PIECES}
    WHERE p.no = s.agent AND s.seq BETWEEN p.low AND p.high)"""


class PostgresBacklog(NamedTuple):
    """The events of one agent that are not indexed yet: those after a position, up to another."""

    place: int
    owner: int  # the agent's number within its place
    after: int
    upto: int
    session: str


class PostgresIndex:
    """The search index, as a backend reads it: `run` runs a statement, and returns its rows as
    instances of a shape."""

    def __init__(self, run: Callable[..., list[Any]]) -> None:
        self._run = run

    def exists(self) -> bool:
        """Return True if the store has been searched before."""
        return bool(self._run(schema.HAS_SEARCH_INDEX) == [(True,)])

    def find_matches(self, query: SearchQuery, limit: int) -> list[FoundEvent]:
        """Return the best matches, and perhaps some false ones."""
        sql, params = build_search(query, limit)
        return self._run(sql, params, FoundEvent)

    def count_unindexed(self, scope: SearchScope) -> int:
        """Return how many events of all agents, or of the owners of the pieces of `scope`, are not
        indexed yet."""
        return self._count(COUNT_UNINDEXED, scope)

    def count_without_index(self, scope: SearchScope) -> int:
        """Return what `count_unindexed` would return if the index were empty. It may not exist."""
        return self._count(COUNT_EVENTS, scope)

    def _count(self, sql: str, scope: SearchScope) -> int:
        sql, params = limit_to_scope(sql, OF_OWNERS, scope)
        [(count,)] = self._run(sql, params)
        return int(count)


class PostgresIndexWriter(PostgresIndex):
    """The search index within a transaction."""

    def __init__(self, run: Callable[..., list[Any]], db: Connection) -> None:
        super().__init__(run)
        self._db = db
        self._is_there: bool | None = None  # None: the index is not locked yet

    # --- adding events ---

    def index_next(self, limit: int, scope: SearchScope) -> int:
        """Index up to `limit` of the events that `count_unindexed` counts. Return how many were
        indexed."""
        self._run(schema.LOCK_INDEX)
        backlogs = self._read_backlogs(limit, scope)
        if not backlogs:
            return 0
        events = self.read_texts(backlogs)
        with self._db.cursor().copy(INSERT) as copy:
            for nth, seq, kind, content, data_json in events:
                backlog = backlogs[nth]
                vector = build_vector(split_words(extract_text(kind, content, data_json)))
                copy.write_row((backlog.place, backlog.session, backlog.owner, seq, *vector))
        ends = [(backlog.place, backlog.owner, backlog.upto) for backlog in backlogs]
        with self._db.cursor() as cursor:
            cursor.executemany(SET_END, ends)
        return sum(backlog.upto - backlog.after for backlog in backlogs)

    def _read_backlogs(self, limit: int, scope: SearchScope) -> list[PostgresBacklog]:
        """Return which events to index next, at most `limit`."""
        sql, params = limit_to_scope(READ_BACKLOGS, OF_OWNERS, scope)
        backlogs = []
        rest = limit
        for backlog in self._run(f"{sql} LIMIT {limit:d}", params, PostgresBacklog):
            upto = min(backlog.upto, backlog.after + rest)
            backlogs.append(backlog._replace(upto=upto))
            rest -= upto - backlog.after
            if rest == 0:
                break
        return backlogs

    def read_texts(self, backlogs: Sequence[PostgresBacklog]) -> list[tuple[Any, ...]]:
        """Return the events of `backlogs`, each with the index of its backlog."""
        places, owners, afters, uptos, _ = (list(column) for column in zip(*backlogs, strict=True))
        params = {"places": places, "nos": owners, "afters": afters, "uptos": uptos}
        return self._db.execute(READ_TEXTS, params, binary=True).fetchall()

    # --- removing events, before they are removed themselves ---

    def forget_event(self, agent: AgentRecord, seq: int) -> None:
        """Remove one event of an agent."""
        if self._lock():
            self._run(FORGET_EVENT, {**identify(agent), "seq": seq})

    def forget_rest(self, agent: AgentRecord, last_kept: int) -> None:
        """Remove the events of an agent after a position."""
        if self._lock():
            params = {**identify(agent), "keep": last_kept}
            self._run(FORGET_AFTER, params)
            self._run(LOWER_END if last_kept else FORGET_END, params)

    def _lock(self) -> bool:
        """Lock the index, so that no removed text returns to it. Return False if there is none."""
        if self._is_there is None:
            self._run(schema.LOCK_INDEX)
            self._is_there = self.exists()
        return self._is_there


def limit_to_scope(sql: str, condition: str, scope: SearchScope) -> tuple[str, Params]:
    """Return a statement with `condition`, and its parameters, if `scope` is not the whole
    store."""
    if scope.session is None:
        return sql, {}
    place = parse_place(scope.session)  # of all agents of the session
    return sql + condition, {"place": place, **write_pieces(scope.pieces)}


def build_search(query: SearchQuery, limit: int) -> tuple[str, Params]:
    """Return the statement that finds the best matches, and perhaps some false ones."""
    filters = ""
    params: Params = {
        "exact": " & ".join(build_phrase(phrase, " <-> ") for phrase in query.phrases),
        "loose": " & ".join(build_phrase(phrase, " & ") for phrase in query.phrases),
        "limit": limit,
        "candidates": max(limit, CANDIDATES),
    }
    if query.kinds:
        filters += OF_KINDS
        params["kinds"] = list(query.kinds)
    filters, of_scope = limit_to_scope(filters, IN_PIECES, query.scope)
    params |= of_scope
    return FIND.format(filters=filters), params


def build_vector(found: Sequence[str]) -> tuple[bool, str | None]:
    """Return whether some positions had to be left out, and the text of the tsvector."""
    positions: dict[str, list[int]] = {}
    for position, word in enumerate(found, 1):
        positions.setdefault(word, []).append(position)
    if sum(len(word.encode()) + 2 for word in positions) > MOST_VECTOR_BYTES:
        return True, None
    without_positions = " ".join(f"'{word}'" for word in positions)
    most = max(map(len, positions.values()), default=0)
    if len(found) > LAST_WORD_POSITION or most > MOST_WORD_POSITIONS:
        return True, without_positions
    parts = [f"'{word}':{','.join(map(str, numbers))}" for word, numbers in positions.items()]
    vector = " ".join(parts)
    if len(vector) > MOST_VECTOR_BYTES:
        return True, without_positions
    return False, vector


def build_phrase(phrase: Phrase, glue: str) -> str:
    """Return a phrase as a tsquery, with `glue` between its words. Words are letters and digits, so
    nothing needs escaping."""
    quoted = [f"'{word}'" for word in phrase.words]
    if phrase.prefix:
        quoted[-1] += ":*"
    return f"({glue.join(quoted)})"
