"""The search index of the PostgreSQL backend: tsvectors, brought up to date by each search.

It is derived from the events and created by the first search. So it costs appends nothing, and its tables may
be dropped at any time. The words come from `backstory.log.terms` and go into the vectors unchanged:
PostgreSQL's own parser and dictionaries differ from server to server, and are not used.
"""

from collections.abc import Sequence
from typing import Any, LiteralString

import psycopg

from backstory.log.chain import is_erased
from backstory.log.terms import Phrase, Query
from backstory.storage.backlog import Backlog, Texts, Unindexed
from backstory.storage.ids import place_of
from backstory.storage.protocols import CANDIDATES, Found, Piece

Connection = psycopg.Connection[tuple[Any, ...]]

MOST_POSITIONS = 255  # positions of one word in a vector
LAST_POSITION = 16_383
MOST_BYTES = 900_000  # a vector must stay below 1 MB
WORTH_ANALYZING = 10_000  # new rows after which an ANALYZE is due

# The number in the names is the version of `backstory.log.terms`: when the words change, so do the tables.
# If a text does not fit into a vector, `long` says that positions are missing, so phrases have to be checked
# in the text itself. If not even its words fit, the vector is null.
CREATE: LiteralString = """
    DROP TABLE IF EXISTS backstory.search_1, backstory.searched_1, backstory.search_2, backstory.searched_2;
    CREATE TABLE IF NOT EXISTS backstory.search_3 (
        place bigint NOT NULL,
        session uuid NOT NULL,
        agent integer NOT NULL,
        seq integer NOT NULL,
        long boolean NOT NULL,
        words tsvector,
        PRIMARY KEY (place, agent, seq));
    CREATE INDEX IF NOT EXISTS search_3_words ON backstory.search_3 USING gin (words) WHERE NOT long;
    CREATE INDEX IF NOT EXISTS search_3_long ON backstory.search_3 USING gin (words) WHERE long;
    CREATE INDEX IF NOT EXISTS search_3_null ON backstory.search_3 (place) WHERE words IS NULL;
    CREATE TABLE IF NOT EXISTS backstory.searched_3 (
        place bigint NOT NULL,
        agent integer NOT NULL,
        upto integer NOT NULL,
        PRIMARY KEY (place, agent))"""
# Not to_regclass, which may not see yet what another process has just created.
EXISTS = """
    SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_class
        WHERE relname = 'searched_3' AND relnamespace = 'backstory'::regnamespace)"""

BACKLOG = """
    SELECT a.no, a.session::text, coalesce(s.upto, a.fork_seq), a.head
    FROM backstory.agents a LEFT JOIN backstory.searched_3 s ON s.place = a.place AND s.agent = a.no
    WHERE a.head > coalesce(s.upto, a.fork_seq)"""
BACKLOG_WITHOUT_INDEX = """
    SELECT no, session::text, fork_seq, head FROM backstory.agents a WHERE head > fork_seq"""
OF_OWNERS = " AND a.place = %(place)s::bigint AND a.no = ANY(%(nos)s::int[])"
BACKLOGS = """ROWS FROM (
        pg_catalog.unnest(%(places)s::bigint[]), pg_catalog.unnest(%(nos)s::int[]),
        pg_catalog.unnest(%(afters)s::int[]), pg_catalog.unnest(%(uptos)s::int[])
    ) WITH ORDINALITY AS p (place, no, after, upto, nth)"""
UNINDEXED = f"""
    SELECT p.nth - 1, e.* FROM {BACKLOGS}
    CROSS JOIN LATERAL (
        SELECT seq, kind, content, data FROM backstory.events
        WHERE place = p.place AND agent = p.no AND seq > p.after AND seq <= p.upto
        ORDER BY seq OFFSET 0) e"""
# Indexing and removing exclude each other: removed text must not come back into the index, and neither should
# wait for the other's rows.
ALONE = "SELECT pg_catalog.pg_advisory_xact_lock(4849322)"
# Those of the events read for indexing that still exist, with the beginning of their data.
LEFT = UNINDEXED.replace("kind, content, data", "pg_catalog.substr(data, 1, 16)")
START = f"""
    INSERT INTO backstory.searched_3 (place, agent, upto)
    SELECT p.place, p.no, p.after FROM {BACKLOGS}
    WHERE EXISTS (
        SELECT 1 FROM backstory.agents a
        WHERE a.place = p.place AND a.no = p.no AND a.fork_seq = p.after)
    ON CONFLICT DO NOTHING"""
MOVE = f"""
    WITH p AS (SELECT * FROM {BACKLOGS})
    UPDATE backstory.searched_3 s SET upto = p.upto FROM p
    WHERE s.place = p.place AND s.agent = p.no AND s.upto = p.after
    RETURNING p.nth - 1"""
# The same for one agent, if the agents are on many servers: each statement goes to one server.
UNINDEXED_ONE: LiteralString = """
    SELECT seq, kind, content, data FROM backstory.events
    WHERE place = %(place)s::bigint AND agent = %(no)s AND seq > %(after)s AND seq <= %(upto)s ORDER BY seq"""
LEFT_ONE: LiteralString = """
    SELECT seq, pg_catalog.substr(data, 1, 16) FROM backstory.events
    WHERE place = %(place)s::bigint AND agent = %(no)s AND seq > %(after)s AND seq <= %(upto)s"""
IS_NEW_ONE: LiteralString = """
    SELECT no FROM backstory.agents
    WHERE place = %(place)s::bigint AND no = %(no)s AND fork_seq = %(after)s"""
START_ONE: LiteralString = """
    INSERT INTO backstory.searched_3 (place, agent, upto) VALUES (%(place)s::bigint, %(no)s, %(after)s)
    ON CONFLICT DO NOTHING RETURNING agent"""
MOVE_ONE: LiteralString = """
    UPDATE backstory.searched_3 SET upto = %(upto)s
    WHERE place = %(place)s::bigint AND agent = %(no)s AND upto = %(after)s RETURNING agent"""
FORGET = """
    DELETE FROM backstory.search_3
    WHERE place = %(place)s::bigint AND agent = %(no)s AND seq > %(last)s"""
FORGET_ONE = """
    DELETE FROM backstory.search_3
    WHERE place = %(place)s::bigint AND agent = %(no)s AND seq = %(seq)s"""
END_AT = """
    UPDATE backstory.searched_3 SET upto = least(upto, %(last)s)
    WHERE place = %(place)s::bigint AND agent = %(no)s"""
INSERT = "COPY backstory.search_3 (place, session, agent, seq, long, words) FROM STDIN"

# If there are very many matches, only some are ranked: the cost grows with their number, and a word that
# occurs everywhere says nothing about relevance. Three queries instead of one with OR, so that each uses its
# own index and no row is read twice.
FIND = """
    SELECT a.id::text, f.seq, f.score
    FROM (
        SELECT c.*, coalesce(pg_catalog.ts_rank(c.words, %(loose)s::tsquery, 1), 0) AS score
        FROM (
            (SELECT s.place, s.session, s.agent, s.seq, s.words FROM backstory.search_3 s
                WHERE NOT s.long AND s.words @@ %(exact)s::tsquery {filters} LIMIT %(candidates)s)
            UNION ALL
            (SELECT s.place, s.session, s.agent, s.seq, s.words FROM backstory.search_3 s
                WHERE s.long AND s.words @@ %(loose)s::tsquery {filters} LIMIT %(candidates)s)
            UNION ALL
            (SELECT s.place, s.session, s.agent, s.seq, s.words FROM backstory.search_3 s
                WHERE s.words IS NULL {filters})) c
        ORDER BY score DESC, c.session DESC, c.agent DESC, c.seq DESC LIMIT %(limit)s) f
    JOIN backstory.agents a ON a.place = f.place AND a.no = f.agent
    ORDER BY f.score DESC, f.session DESC, f.agent DESC, f.seq DESC"""
OF_KINDS = """AND EXISTS (
    SELECT 1 FROM backstory.events e
    WHERE e.place = s.place AND e.agent = s.agent AND e.seq = s.seq AND e.kind = ANY(%(kinds)s))"""
IN_PIECES = """AND s.place = %(place)s::bigint AND EXISTS (
    SELECT 1 FROM ROWS FROM (
        pg_catalog.unnest(%(nos)s::int[]), pg_catalog.unnest(%(lows)s::int[]),
        pg_catalog.unnest(%(highs)s::int[])) AS p (no, low, high)
    WHERE p.no = s.agent AND s.seq BETWEEN p.low AND p.high)"""


def backlog_of(
    session: str, pieces: Sequence[Piece] | None, *, exists: bool
) -> tuple[str, dict[str, Any]]:
    """The statement for what is not indexed yet, of some agents or of all."""
    sql = BACKLOG if exists else BACKLOG_WITHOUT_INDEX
    if pieces is None:
        return sql, {}
    return sql + OF_OWNERS, {"place": place_of(session), "nos": [piece.owner for piece in pieces]}


def backlogs(behind: Sequence[Backlog]) -> dict[str, Any]:
    """The parameters that identify backlogs in a statement."""
    owners, sessions, afters, uptos = (list(column) for column in zip(*behind, strict=True))
    return {
        "places": list(map(place_of, sessions)),
        "nos": owners,
        "afters": afters,
        "uptos": uptos,
    }


def unindexed_one_by_one(db: Connection, backlog: Sequence[Backlog]) -> list[Unindexed]:
    """What UNINDEXED finds, if the events are on many servers."""
    return _one_by_one(db, UNINDEXED_ONE, backlog)


def _one_by_one(db: Connection, sql: LiteralString, backlog: Sequence[Backlog]) -> list[Any]:
    """The rows that a statement finds for each backlog, each row preceded by the number of the backlog."""
    return [
        (nth, *row)
        for nth, (no, session, after, upto) in enumerate(backlog)
        for row in db.execute(
            sql, {"place": place_of(session), "no": no, "after": after, "upto": upto}
        ).fetchall()
    ]


def index(
    db: Connection, texts: Sequence[tuple[Backlog, Texts]], *, one_by_one: bool = False
) -> None:
    """Within a transaction: index the texts that still come next for their agent and still exist. Use
    `one_by_one` if the agents are on many servers."""
    db.execute(ALONE)
    left: list[dict[int, str | None]] = [{} for _ in texts]
    asked = [behind for behind, _ in texts]
    found_left = (
        _one_by_one(db, LEFT_ONE, asked)
        if one_by_one
        else db.execute(LEFT, backlogs(asked)).fetchall()
    )
    for nth, seq, data in found_left:
        left[nth][seq] = data
    there = []
    for (behind, found), rows in zip(texts, left, strict=True):
        if rows:
            kept = [
                (seq, words) for seq, words in found if seq in rows and not is_erased(rows[seq])
            ]
            there.append((behind._replace(upto=max(rows)), kept))
    if there:
        moved = _moved(db, [behind for behind, _ in there], one_by_one=one_by_one)
        _insert(db, [there[nth] for nth in moved])


def _moved(db: Connection, behind: Sequence[Backlog], *, one_by_one: bool) -> list[int]:
    """Note that these are indexed; return the numbers of those that were not indexed before."""
    if one_by_one:
        new = [behind[nth] for nth, _ in _one_by_one(db, IS_NEW_ONE, behind)]
        _one_by_one(db, START_ONE, new)
        return [nth for nth, _ in _one_by_one(db, MOVE_ONE, behind)]
    db.execute(START, backlogs(behind))
    return [nth for (nth,) in db.execute(MOVE, backlogs(behind)).fetchall()]


def _insert(db: Connection, texts: Sequence[tuple[Backlog, Texts]]) -> None:
    with db.cursor().copy(INSERT) as rows:
        for behind, found in texts:
            named = (place_of(behind.session), behind.session, behind.owner)
            for seq, words in found:
                rows.write_row((*named, seq, *vector(words)))


def forget(db: Connection, there: dict[str, Any]) -> None:
    """Within a transaction: remove an agent's events after a position from the index."""
    db.execute(FORGET, there)
    db.execute(END_AT, there)


def find(
    db: Connection,
    query: Query,
    kinds: Sequence[str],
    pieces: Sequence[Piece] | None,
    session: str,
    limit: int,
) -> list[Found]:
    """The best matches, and perhaps some false ones."""
    filters: LiteralString = (OF_KINDS if kinds else "") + (IN_PIECES if pieces is not None else "")
    bindings = {
        "exact": " & ".join(map(side_by_side, query)),
        "loose": " & ".join(map(together, query)),
        "kinds": list(kinds),
        "place": place_of(session) if session else None,
        "nos": [piece.owner for piece in pieces or ()],
        "lows": [piece.low for piece in pieces or ()],
        "highs": [piece.high for piece in pieces or ()],
        "limit": limit,
        "candidates": max(limit, CANDIDATES),
    }
    return [Found(*row) for row in db.execute(FIND.format(filters=filters), bindings).fetchall()]


def vector(words: Sequence[str]) -> tuple[bool, str | None]:
    """Whether some positions had to be left out, and the text of the tsvector."""
    positions: dict[str, list[int]] = {}
    for position, word in enumerate(words, 1):
        positions.setdefault(word, []).append(position)
    if sum(len(word.encode()) + 2 for word in positions) > MOST_BYTES:
        return True, None
    if len(words) > LAST_POSITION or any(
        len(found) > MOST_POSITIONS for found in positions.values()
    ):
        return True, " ".join(f"'{word}'" for word in positions)
    text = " ".join(f"'{word}':{','.join(map(str, found))}" for word, found in positions.items())
    return (
        (True, " ".join(f"'{word}'" for word in positions))
        if len(text) > MOST_BYTES
        else (False, text)
    )


def side_by_side(phrase: Phrase) -> str:
    """A phrase as a tsquery; words are letters and digits, so nothing needs escaping."""
    return _joined(phrase, " <-> ")


def together(phrase: Phrase) -> str:
    """The words of a phrase as a tsquery, in any order."""
    return _joined(phrase, " & ")


def _joined(phrase: Phrase, glue: str) -> str:
    words = [f"'{word}'" for word in phrase.words]
    words[-1] += ":*" if phrase.prefix else ""
    return f"({glue.join(words)})"
