"""The search index of the PostgreSQL backend: tsvectors, brought up to date by each search.

It is derived from the events and created by the first search. So it costs appends nothing, and its
tables may be dropped at any time. The words come from `backstory.log.terms` and go into the vectors
unchanged: PostgreSQL's own parser and dictionaries differ from server to server, and are not used.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from backstory.log.terms import Phrase, extract_text, split_words
from backstory.storage.ids import find_place
from backstory.storage.postgres import citus, schema
from backstory.storage.postgres.rows import PIECES, write_pieces
from backstory.storage.postgres.server import Connection, Params
from backstory.storage.protocol import CANDIDATES, SearchScope, WordQuery

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
COUNT_WITHOUT_INDEX = """
    SELECT coalesce(pg_catalog.sum(a.head - a.fork_seq), 0)::bigint
    FROM backstory.agents a WHERE a.head > a.fork_seq"""
OF_OWNERS = " AND a.place = %(place)s::bigint AND a.no = ANY(%(nos)s::int[])"
BACKLOGS = f"""
    SELECT a.place, a.no, coalesce(s.upto, a.fork_seq), a.head, a.session::text
    {AGENTS_TO_INDEX}"""
UNINDEXED = """
    SELECT p.nth - 1, e.* FROM ROWS FROM (
        pg_catalog.unnest(%(places)s::bigint[]), pg_catalog.unnest(%(nos)s::int[]),
        pg_catalog.unnest(%(afters)s::int[]), pg_catalog.unnest(%(lasts)s::int[])
    ) WITH ORDINALITY AS p (place, no, after, last, nth)
    CROSS JOIN LATERAL (
        SELECT seq, kind, content, data FROM backstory.events
        WHERE place = p.place AND agent = p.no AND seq > p.after AND seq <= p.last
        ORDER BY seq OFFSET 0) e"""
INSERT = "COPY backstory.search_3 (place, session, agent, seq, long, words) FROM STDIN"
RECORD_INDEXED = """
    INSERT INTO backstory.searched_3 (place, agent, upto) VALUES (%s::bigint, %s, %s)
    ON CONFLICT (place, agent) DO UPDATE SET upto = excluded.upto"""

FORGET_AFTER = """
    DELETE FROM backstory.search_3
    WHERE place = %(place)s::bigint AND agent = %(no)s AND seq > %(keep)s"""
LIMIT_INDEXED = """
    UPDATE backstory.searched_3 SET upto = least(upto, %(keep)s)
    WHERE place = %(place)s::bigint AND agent = %(no)s"""
FORGET_AGENT = """
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


class IndexBacklog(NamedTuple):
    """The events of one agent that are not indexed yet: after a position, up to another."""

    place: int
    no: int
    after: int
    last: int
    session: str


def build_count(scope: SearchScope, *, has_index: bool) -> tuple[str, Params]:
    """Return the statement that counts the events that are not indexed, of all agents or of the
    owners of the pieces of `scope`."""
    sql = COUNT_UNINDEXED if has_index else COUNT_WITHOUT_INDEX
    return limit_to_scope(sql, OF_OWNERS, scope)


def limit_to_scope(sql: str, condition: str, scope: SearchScope) -> tuple[str, Params]:
    """Return a statement with `condition`, and its parameters, if `scope` is not the whole
    store."""
    if scope.session is None:
        return sql, {}
    place = find_place(scope.session)  # of all agents of the session
    return sql + condition, {"place": place, **write_pieces(scope.pieces)}


def index_page(
    db: Connection,
    limit: int,
    scope: SearchScope,
    *,
    is_distributed: bool,
) -> int:
    """Within a transaction: index up to `limit` events, and return how many."""
    db.execute(schema.LOCK_INDEX)
    backlogs = read_backlogs(db, limit, scope)
    if not backlogs:
        return 0
    if is_distributed:
        events = citus.read_unindexed(db, [backlog[:4] for backlog in backlogs])
    else:
        events = read_unindexed(db, backlogs)
    with db.cursor().copy(INSERT) as copy:
        for nth, seq, kind, content, data_json in events:
            backlog = backlogs[nth]
            vector = build_vector(split_words(extract_text(kind, content, data_json)))
            copy.write_row((backlog.place, backlog.session, backlog.no, seq, *vector))
    with db.cursor() as cursor:
        cursor.executemany(RECORD_INDEXED, [(one.place, one.no, one.last) for one in backlogs])
    return sum(backlog.last - backlog.after for backlog in backlogs)


def read_backlogs(db: Connection, limit: int, scope: SearchScope) -> list[IndexBacklog]:
    """Return which events to index next: at most `limit`, of all agents or of the owners of the
    pieces of `scope`."""
    sql, params = limit_to_scope(BACKLOGS, OF_OWNERS, scope)
    backlogs = []
    rest = limit
    for row in db.execute(f"{sql} LIMIT {limit:d}", params).fetchall():
        backlog = IndexBacklog._make(row)
        last = min(backlog.last, backlog.after + rest)
        backlogs.append(backlog._replace(last=last))
        rest -= last - backlog.after
        if rest == 0:
            break
    return backlogs


def read_unindexed(db: Connection, backlogs: Sequence[IndexBacklog]) -> list[tuple[Any, ...]]:
    """Return the events of `backlogs`, each with the index of its backlog."""
    places, nos, afters, lasts, _ = (list(column) for column in zip(*backlogs, strict=True))
    params = {"places": places, "nos": nos, "afters": afters, "lasts": lasts}
    return db.execute(UNINDEXED, params, binary=True).fetchall()


def build_search(query: WordQuery, limit: int) -> tuple[str, Params]:
    """Return the statement that finds the best matches, and perhaps some false ones."""
    filters = ""
    params: Params = {
        "exact": " & ".join(build_phrase(phrase, " <-> ") for phrase in query.words),
        "loose": " & ".join(build_phrase(phrase, " & ") for phrase in query.words),
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
