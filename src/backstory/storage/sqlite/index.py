"""The search index of the SQLite backend: an FTS5 table that catches up when it is asked.

It is derived from the events and made when somebody first searches, so appends neither wait for it
nor pay for it, and its tables may be dropped at any time. Words come from `backstory.core.terms`: the
tokenizer here only cuts at the spaces between them.
"""

import json
from collections.abc import Sequence
from typing import Any

import apsw

from backstory.core.chain import is_erased
from backstory.core.terms import Query, searchable, words
from backstory.storage.protocols import CANDIDATES, Found

# The number in the names is the version of `backstory.core.terms`: other words, other tables.
CREATE = """
    DROP TABLE IF EXISTS search_1;
    DROP TABLE IF EXISTS searched_1;
    CREATE VIRTUAL TABLE IF NOT EXISTS search_2 USING fts5 (words, content = '', tokenize = 'ascii');
    INSERT INTO search_2 (search_2, rank) VALUES ('secure-delete', 1);
    CREATE TABLE IF NOT EXISTS searched_2 (agent INTEGER PRIMARY KEY, upto INTEGER NOT NULL) STRICT"""
EXISTS = "SELECT 1 FROM sqlite_master WHERE name = 'searched_2'"

INDEXED = "SELECT a.id, s.upto FROM searched_2 s JOIN agents a ON a.no = s.agent"
UPTO = "SELECT upto FROM searched_2 WHERE agent = ?"
MOVE = "INSERT INTO searched_2 VALUES (?1, ?2) ON CONFLICT (agent) DO UPDATE SET upto = ?2"
INSERT = "INSERT INTO search_2 (rowid, words) VALUES (?, ?)"
# The index keeps no text: what is to be taken out has to be said again, word for word.
TEXTS = """
    SELECT e.id, e.kind, e.content, e.data FROM events e JOIN searched_2 s ON s.agent = e.agent
    WHERE e.id BETWEEN ?1 AND ?2 AND e.id & 4294967295 <= s.upto"""
FORGET = "INSERT INTO search_2 (search_2, rowid, words) VALUES ('delete', ?, ?)"
END_AT = "UPDATE searched_2 SET upto = min(upto, ?2) WHERE agent = ?1"

# Ranking costs as much as there are matches, and a word that is everywhere ranks nothing: of very many
# matches, those of the newest agents are ranked. CROSS JOIN: the index is asked first.
FIND = """
    SELECT a.id, f.id & 4294967295, -f.rank
    FROM (
        SELECT search_2.rowid AS id, bm25(search_2) AS rank FROM search_2 {filters}
        ORDER BY search_2.rowid DESC LIMIT :candidates) f
    CROSS JOIN agents a ON a.no = f.id >> 32
    ORDER BY f.rank, f.id DESC LIMIT :limit"""
EVERYWHERE = "WHERE search_2 MATCH :query"
SOMEWHERE = """
    CROSS JOIN events e ON e.id = search_2.rowid
    WHERE search_2 MATCH :query
        AND (:kinds IS NULL OR e.kind IN (SELECT value FROM json_each(:kinds)))
        AND (:ranges IS NULL OR EXISTS (
            SELECT 1 FROM json_each(:ranges) r
            WHERE e.id BETWEEN json_extract(r.value, '$[0]') AND json_extract(r.value, '$[1]')))"""


def exists(db: apsw.Connection) -> bool:
    """Whether anybody has searched here before."""
    return bool(db.execute(EXISTS).fetchall())


def indexed(db: apsw.Connection) -> dict[str, int]:
    """Up to where each agent's events are in the index."""
    rows: list[Any] = db.execute(INDEXED).fetchall()
    return dict(rows)


def index(
    db: apsw.Connection, no: int, first: int, after: int, texts: Sequence[tuple[int, list[str]]]
) -> int:
    """Within a write transaction: take in the events behind `after`, if that is still the end. An
    agent that was never indexed ends at `first`."""
    found: list[Any] = db.execute(UPTO, (no,)).fetchall()
    upto: int = found[0][0] if found else first
    if upto != after or not texts:
        return upto
    db.executemany(INSERT, ((no << 32 | seq, " ".join(words)) for seq, words in texts))
    db.execute(MOVE, (no, texts[-1][0]))
    return texts[-1][0]


def forget(db: apsw.Connection, no: int, low: int, high: int) -> None:
    """Within a write transaction, before the events go: take an agent's events out of the index."""
    rows: list[Any] = db.execute(TEXTS, ((no << 32) + low, (no << 32) + high)).fetchall()
    # An event that was erased has been taken out before: the index would lose count, and call itself damaged.
    there = [(id, searchable(kind, content, data)) for id, kind, content, data in rows if not is_erased(data)]
    db.executemany(FORGET, [(id, " ".join(words(text))) for id, text in there])


def end_at(db: apsw.Connection, no: int, last: int) -> None:
    """Note that an agent's events behind a position are not in the index."""
    db.execute(END_AT, (no, last))


def find(
    db: apsw.Connection, query: Query, kinds: Sequence[str], ranges: str | None, limit: int
) -> list[Found]:
    """The best matches; `ranges` are those of event ids, as JSON."""
    bindings: dict[str, Any] = {
        "query": match(query),
        "limit": limit,
        "candidates": max(limit, CANDIDATES),
        "kinds": json.dumps(list(kinds)) if kinds else None,
        "ranges": ranges,
    }
    filters = SOMEWHERE if kinds or ranges is not None else EVERYWHERE
    return [Found(*row) for row in db.execute(FIND.format(filters=filters), bindings)]


def match(query: Query) -> str:
    """The query in FTS5's own language; words are letters and digits, so nothing is to be escaped."""
    return " ".join(f'"{" ".join(phrase.words)}"{"*" * phrase.prefix}' for phrase in query)
