"""The search index of the SQLite backend: an FTS5 table, brought up to date by each search.

It is derived from the events and created by the first search. So it costs appends nothing, and its tables may
be dropped at any time. The words come from `backstory.log.terms`; FTS5's tokenizer only splits at the spaces
between them.
"""

import json
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import Any
from weakref import WeakSet

import apsw

from backstory.log.chain import is_erased
from backstory.log.terms import Query, searchable, words
from backstory.storage.backlog import Backlog, Texts, Unindexed
from backstory.storage.protocols import CANDIDATES, Found, Piece
from backstory.storage.sqlite.frames import CONTENT_LEFT, DATA_LEFT
from backstory.storage.sqlite.lineages import HEAD
from backstory.storage.sqlite.rows import ids_of

# The number in the names is the version of `backstory.log.terms`: when the words change, so do the tables.
CREATE = """
    DROP TABLE IF EXISTS search_1;
    DROP TABLE IF EXISTS searched_1;
    DROP TABLE IF EXISTS search_2;
    DROP TABLE IF EXISTS searched_2;
    CREATE VIRTUAL TABLE IF NOT EXISTS search_3 USING fts5 (words, content = '', tokenize = 'ascii');
    INSERT INTO search_3 (search_3, rank) VALUES ('secure-delete', 1);
    CREATE TABLE IF NOT EXISTS searched_3 (agent INTEGER PRIMARY KEY, upto INTEGER NOT NULL) STRICT"""
EXISTS = "SELECT 1 FROM sqlite_master WHERE name = 'searched_3'"

BACKLOG = f"""
    SELECT a.no, '', coalesce(s.upto, a.fork_seq) AS after, {HEAD} AS head
    FROM agents a LEFT JOIN searched_3 s ON s.agent = a.no WHERE {{condition}} AND head > after"""
OF_OWNERS = "a.no IN (SELECT value FROM json_each(?))"
UPTO = f"""
    SELECT a.no, coalesce(s.upto, a.fork_seq)
    FROM agents a LEFT JOIN searched_3 s ON s.agent = a.no WHERE {OF_OWNERS}"""
UNINDEXED = f"""
    SELECT p.key, e.id & 4294967295, e.kind, {CONTENT_LEFT}, {DATA_LEFT}
    FROM json_each(?) p CROSS JOIN events e
    WHERE e.id BETWEEN json_extract(p.value, '$[0]') AND json_extract(p.value, '$[1]')"""
# Those of the events read for indexing that still exist, with the beginning of their data. Erased events are
# not packed.
LEFT = UNINDEXED.replace(f"e.kind, {CONTENT_LEFT}, {DATA_LEFT}", "substr(e.data, 1, 16)")
MOVE = "INSERT INTO searched_3 VALUES (?1, ?2) ON CONFLICT (agent) DO UPDATE SET upto = ?2"
INSERT = "INSERT INTO search_3 (rowid, words) VALUES (?, ?)"
# The index does not store the text: to remove an entry, FTS5 needs the same words again.
TEXTS = f"""
    SELECT e.id, e.kind, {CONTENT_LEFT}, {DATA_LEFT}, e.packed IS NOT NULL
    FROM events e JOIN searched_3 s ON s.agent = e.agent
    WHERE e.id BETWEEN ?1 AND ?2 AND e.id & 4294967295 <= s.upto"""
FORGET = "INSERT INTO search_3 (search_3, rowid, words) VALUES ('delete', ?, ?)"
FORGET_ALL = "INSERT INTO search_3 (search_3) VALUES ('delete-all'); DELETE FROM searched_3"
MERGE = "INSERT INTO search_3 (search_3, rank) VALUES ('merge', ?)"
WORTH_MERGING = 20_000  # events
MERGED_AT_ONCE = 500  # pages
END_AT = "UPDATE searched_3 SET upto = min(upto, ?2) WHERE agent = ?1"

# The cost of ranking grows with the number of matches, and a word that occurs everywhere says nothing about
# relevance. So if there are very many matches, only those of the newest agents are ranked. CROSS JOIN makes
# SQLite query the index first.
FIND = """
    SELECT a.id, f.id & 4294967295, -f.rank
    FROM (
        SELECT search_3.rowid AS id, bm25(search_3) AS rank FROM search_3 {filters}
        ORDER BY search_3.rowid DESC LIMIT :candidates) f
    CROSS JOIN agents a ON a.no = f.id >> 32
    ORDER BY f.rank, f.id DESC LIMIT :limit"""
EVERYWHERE = "WHERE search_3 MATCH :query"
# If there are few ranges, each is looked up in the index, so matches elsewhere cost nothing. `bm25` would
# count a word in the whole store, so the share of matching words ranks instead.
FIND_IN_RANGES = """
    SELECT a.id, f.id & 4294967295, f.share
    FROM (
        SELECT search_3.rowid AS id, share(search_3) AS share FROM json_each(:ranges) r CROSS JOIN search_3
        WHERE search_3 MATCH :query AND search_3.rowid
            BETWEEN json_extract(r.value, '$[0]') AND json_extract(r.value, '$[1]')
            AND (:kinds IS NULL OR EXISTS (
                SELECT 1 FROM events e
                WHERE e.id = search_3.rowid AND e.kind IN (SELECT value FROM json_each(:kinds))))
        ORDER BY search_3.rowid DESC LIMIT :candidates) f
    CROSS JOIN agents a ON a.no = f.id >> 32
    ORDER BY f.share DESC, f.id DESC LIMIT :limit"""
FEW_RANGES = 64
_RANKING: WeakSet[apsw.Connection] = WeakSet()  # the connections that have the function `share`
SOMEWHERE = """
    CROSS JOIN events e ON e.id = search_3.rowid
    WHERE search_3 MATCH :query
        AND (:kinds IS NULL OR e.kind IN (SELECT value FROM json_each(:kinds)))
        AND (:ranges IS NULL OR EXISTS (
            SELECT 1 FROM json_each(:ranges) r
            WHERE e.id BETWEEN json_extract(r.value, '$[0]') AND json_extract(r.value, '$[1]')))"""


def exists(db: apsw.Connection) -> bool:
    """Whether this store has been searched before."""
    return bool(db.execute(EXISTS).fetchall())


def backlog(db: apsw.Connection, owners: Collection[int] | None) -> list[Backlog]:
    """What is not indexed yet, of some agents or of all."""
    sql = BACKLOG.format(condition="true" if owners is None else OF_OWNERS)
    sql = sql if exists(db) else sql.replace("searched_3", "(SELECT NULL AS agent, NULL AS upto)")
    bindings = () if owners is None else (json.dumps(list(owners)),)
    return [Backlog(*row) for row in db.execute(sql, bindings)]


def unindexed(db: apsw.Connection, behind: Sequence[Backlog]) -> list[Unindexed]:
    """The events of some backlogs."""
    rows: list[Any] = db.execute(UNINDEXED, (_ranges(behind),)).fetchall()
    return rows


def index(db: apsw.Connection, texts: Sequence[tuple[Backlog, Texts]]) -> None:
    """Within a write transaction: index the texts that still come next for their agent and still exist."""
    known: list[Any] = db.execute(
        UPTO, (json.dumps([behind.owner for behind, _ in texts]),)
    ).fetchall()
    upto = dict(known)
    next_ones = [
        (behind, found) for behind, found in texts if upto.get(behind.owner) == behind.after
    ]
    left: list[dict[int, str | None]] = [{} for _ in next_ones]
    for place, seq, data in db.execute(LEFT, (_ranges([behind for behind, _ in next_ones]),)):
        left[place][seq] = data
    # One call for all agents: if each has a few events, one for each would take longer than the rest.
    entries = (
        (behind.owner << 32 | seq, " ".join(words))
        for (behind, found), there in zip(next_ones, left, strict=True)
        for seq, words in found
        if seq in there and not is_erased(there[seq])
    )
    db.executemany(INSERT, entries)
    ends = zip(next_ones, left, strict=True)
    db.executemany(MOVE, [(behind.owner, max(there)) for (behind, _), there in ends if there])


def merge(write: Callable[[], AbstractContextManager[apsw.Connection]]) -> None:
    """Merge the segments of the index, in short transactions: a search has to look into each segment."""
    pages = -MERGED_AT_ONCE  # negative: start merging all segments
    while True:
        with write() as db:
            before = db.total_changes()
            db.execute(MERGE, (pages,))
            if db.total_changes() - before < 2:  # FTS5's documented sign that it is done
                return
        pages = MERGED_AT_ONCE


def _ranges(behind: Sequence[Backlog]) -> str:
    """The ranges of event ids in some backlogs, as JSON."""
    return ids_of([Piece(one.owner, one.after + 1, one.upto) for one in behind])


def forget(db: apsw.Connection, no: int, low: int, high: int) -> None:
    """Within a write transaction, before events are removed: remove them from the index."""
    rows: list[Any] = db.execute(TEXTS, ((no << 32) + low, (no << 32) + high)).fetchall()
    if any(is_packed and content is data is None for *_, content, data, is_packed in rows):
        db.execute(FORGET_ALL)  # it is not known which words of a damaged event the index has
        return
    # Erased events are not in the index any more: removing them again would damage it.
    there = [(row[0], searchable(*row[1:4])) for row in rows if not is_erased(row[3])]
    db.executemany(FORGET, [(id, " ".join(words(text))) for id, text in there])


def end_at(db: apsw.Connection, no: int, last: int) -> None:
    """Note that an agent's events after a position are not in the index."""
    db.execute(END_AT, (no, last))


def find(
    db: apsw.Connection,
    query: Query,
    kinds: Sequence[str],
    pieces: Sequence[Piece] | None,
    limit: int,
) -> list[Found]:
    """The best matches, everywhere or in some pieces."""
    bindings: dict[str, Any] = {
        "query": match(query),
        "limit": limit,
        "candidates": max(limit, CANDIDATES),
        "kinds": json.dumps(list(kinds)) if kinds else None,
        "ranges": None if pieces is None else ids_of(pieces),
    }
    sql = FIND.format(filters=SOMEWHERE if kinds or pieces is not None else EVERYWHERE)
    if pieces is not None and len(pieces) <= FEW_RANGES:
        _register(db)
        sql = FIND_IN_RANGES
    return [Found(*row) for row in db.execute(sql, bindings)]


def _register(db: apsw.Connection) -> None:
    """Give a connection the function `share`, once: FTS5 keeps every registration until the connection is
    closed, even of a name that it already has."""
    if db not in _RANKING:
        db.register_fts5_function("share", _share)
        _RANKING.add(db)


def _share(row: apsw.FTS5ExtensionApi, /, *_: Any) -> float:
    """The share of matching words in a text, as in `backstory.log.terms.score`."""
    return row.inst_count / (row.column_size() + 20)


def match(query: Query) -> str:
    """The query in the syntax of FTS5; words are letters and digits, so nothing needs escaping."""
    return " ".join(f'"{" ".join(phrase.words)}"{"*" * phrase.prefix}' for phrase in query)
