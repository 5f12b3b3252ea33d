"""The search index of an SQLite store: an FTS5 table, brought up to date by each search.

It is derived from the events and created by the first search. From then on, a trigger remembers
which agents have new events, so that a search of the whole store does not read the heads of all. It
costs an append less than can be measured, and `extend` 6 %. Its tables may be dropped at any time,
after the trigger. The words come from `backstory.log.terms`; FTS5's tokenizer only
splits at the spaces between them.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any, NamedTuple

import apsw

from backstory.log.erasure import is_erased
from backstory.log.terms import FoundEvent, Phrases, extract_text, split_words
from backstory.storage.pool import ErrorTranslator
from backstory.storage.protocol import (
    CANDIDATES,
    WHOLE_STORE,
    SearchQuery,
    SearchScope,
)
from backstory.storage.sql import RowShape, make_records
from backstory.storage.sqlite.file import OpenMode, compute_share
from backstory.storage.sqlite.frames import CONTENT_OR_NULL, DATA_OR_NULL, FrameReader
from backstory.storage.sqlite.rows import IN_RANGE, build_ranges_json
from backstory.storage.sqlite.schema import (
    HEAD,
    LAST_SEQ,
    build_agent_sql,
    build_event_id,
    build_seq_sql,
)

# The number in the names is the version of `backstory.log.terms`: when the words change, so do the
# tables.
CREATE_TABLES = """
    CREATE VIRTUAL TABLE search_3
        USING fts5 (words, content = '', tokenize = 'ascii');
    INSERT INTO search_3 (search_3, rank) VALUES ('secure-delete', 1);
    CREATE TABLE searched_3 (agent INTEGER PRIMARY KEY, upto INTEGER NOT NULL) STRICT;"""
CREATE = f"""
    DROP TABLE IF EXISTS search_1;
    DROP TABLE IF EXISTS searched_1;
    DROP TABLE IF EXISTS search_2;
    DROP TABLE IF EXISTS searched_2;
    DROP TRIGGER IF EXISTS remember_unsearched_3;
    DROP TABLE IF EXISTS search_3;
    DROP TABLE IF EXISTS searched_3;
    DROP TABLE IF EXISTS unsearched_3;
    {CREATE_TABLES}
    CREATE TABLE unsearched_3 (agent INTEGER PRIMARY KEY) STRICT;
    INSERT INTO unsearched_3 SELECT no FROM agents;
    CREATE TRIGGER remember_unsearched_3 AFTER INSERT ON events
    BEGIN INSERT OR IGNORE INTO unsearched_3 VALUES (new.agent); END"""

FEW_RANGES = 64


class SqliteBacklog(NamedTuple):
    """The events of one agent that are not indexed yet: those after a position, up to another."""

    owner: int
    after: int
    upto: int


HAS_INDEX = """
    SELECT count(*) = 4 FROM sqlite_master
    WHERE name IN ('search_3', 'searched_3', 'unsearched_3', 'remember_unsearched_3')"""
READ_BACKLOGS = f"""
    SELECT a.no, coalesce(s.upto, a.fork_seq) AS after, {HEAD} AS head
    FROM {{owners}} o CROSS JOIN agents a ON a.no = o.agent
    LEFT JOIN {{searched}} s ON s.agent = a.no
    WHERE head > after"""
EVERY_OWNER = "(SELECT no AS agent FROM agents)"
OWNERS_OF_SCOPE = "(SELECT value AS agent FROM json_each(?))"
NOTHING_SEARCHED = "(SELECT NULL AS agent, NULL AS upto)"
READ_TEXTS = f"""
    SELECT e.id, e.kind, {CONTENT_OR_NULL}, {DATA_OR_NULL} FROM events e
    WHERE e.id BETWEEN ? AND ? ORDER BY e.id"""
INSERT_WORDS = "INSERT INTO search_3 (rowid, words) VALUES (?, ?)"
SET_END = """
    INSERT INTO searched_3 VALUES (?1, ?2) ON CONFLICT (agent) DO UPDATE SET upto = ?2"""
FORGET_OWNERS = "DELETE FROM unsearched_3"
LOWER_END = "UPDATE searched_3 SET upto = min(upto, ?2) WHERE agent = ?1"

# The index does not store the text: to remove an entry, FTS5 needs the same words again.
READ_INDEXED_TEXTS = f"""
    SELECT e.id, e.kind, {CONTENT_OR_NULL}, {DATA_OR_NULL}, e.packed IS NOT NULL
    FROM events e JOIN searched_3 s ON s.agent = e.agent
    WHERE e.id BETWEEN ?1 AND ?2 AND e.seq <= s.upto"""
FORGET = "INSERT INTO search_3 (search_3, rowid, words) VALUES ('delete', ?, ?)"
FORGET_ALL = """
    INSERT INTO search_3 (search_3) VALUES ('delete-all');
    DELETE FROM searched_3;
    INSERT OR IGNORE INTO unsearched_3 SELECT no FROM agents"""

# The cost of ranking grows with the number of matches, and a word that occurs everywhere says
# nothing about relevance. So if there are very many matches, only those of the newest agents are
# ranked. CROSS JOIN makes SQLite query the index first.
FIND = f"""
    SELECT a.id, {build_seq_sql("f.id")}, -f.rank
    FROM (
        SELECT search_3.rowid AS id, bm25(search_3) AS rank FROM search_3 {{filters}}
        ORDER BY search_3.rowid DESC LIMIT :candidates) f
    CROSS JOIN agents a ON a.no = {build_agent_sql("f.id")}
    ORDER BY f.rank, f.id DESC LIMIT :limit"""
EVERYWHERE = "WHERE search_3 MATCH :query"
FILTERED = f"""
    CROSS JOIN events e ON e.id = search_3.rowid
    WHERE search_3 MATCH :query
        AND (:kinds IS NULL OR e.kind IN (SELECT value FROM json_each(:kinds)))
        AND (:ranges IS NULL OR EXISTS (
            SELECT 1 FROM json_each(:ranges) r WHERE {IN_RANGE}))"""
# If there are few ranges, each is looked up in the index, so matches elsewhere cost nothing.
# `bm25` would count a word in the complete store, so the share of matching words ranks instead.
FIND_IN_RANGES = f"""
    SELECT a.id, {build_seq_sql("f.id")}, f.share
    FROM (
        SELECT search_3.rowid AS id, share(search_3) AS share
        FROM json_each(:ranges) r CROSS JOIN search_3
        WHERE search_3 MATCH :query
            AND search_3.rowid BETWEEN CAST(r.key AS INTEGER) AND r.value
            AND (:kinds IS NULL OR EXISTS (
                SELECT 1 FROM events e WHERE e.id = search_3.rowid
                AND e.kind IN (SELECT value FROM json_each(:kinds))))
        ORDER BY search_3.rowid DESC LIMIT :candidates) f
    CROSS JOIN agents a ON a.no = {build_agent_sql("f.id")}
    ORDER BY f.share DESC, f.id DESC LIMIT :limit"""


class SqliteIndex:
    """The search index, as a backend or a transaction sees it: `run` runs a statement, and returns
    its rows as instances of a shape."""

    UNSEARCHED = "unsearched_3"  # the agents that may have new events

    def __init__(self, run: Callable[..., list[Any]]) -> None:
        self._run = run

    def exists(self) -> bool:
        """Return True if the store has been searched before."""
        return bool(self._run(HAS_INDEX) == [(1,)])

    def create(self) -> None:
        """Create the tables of the index, unless another process has just done that."""
        if not self.exists():
            self._run(CREATE)

    def find_matches(self, query: SearchQuery, limit: int) -> list[FoundEvent]:
        """Return the best matches."""
        scope = query.scope
        is_limited = scope != WHOLE_STORE
        bindings = {
            "query": write_match(query.phrases),
            "limit": limit,
            "candidates": max(limit, CANDIDATES),
            "kinds": json.dumps(query.kinds) if query.kinds else None,
            "ranges": build_ranges_json(scope.pieces) if is_limited else None,
        }
        if is_limited and len(scope.pieces) <= FEW_RANGES:
            sql = FIND_IN_RANGES
        elif is_limited or query.kinds:
            sql = FIND.format(filters=FILTERED)
        else:
            sql = FIND.format(filters=EVERYWHERE)
        return self._run(sql, bindings, FoundEvent)

    # --- adding events ---

    def count_unindexed(self, scope: SearchScope) -> int:
        """Return how many events of all agents, or of the owners of the pieces of `scope`, are not
        indexed yet."""
        backlogs = self._read_backlogs(scope)
        return sum(backlog.upto - backlog.after for backlog in backlogs)

    def _read_backlogs(self, scope: SearchScope) -> list[SqliteBacklog]:
        searched, owners = NOTHING_SEARCHED, EVERY_OWNER
        if self.exists():
            searched, owners = "searched_3", self.UNSEARCHED
        if scope == WHOLE_STORE:
            sql = READ_BACKLOGS.format(searched=searched, owners=owners)
            return self._run(sql, (), SqliteBacklog)
        of_scope = list({piece.owner for piece in scope.pieces})
        sql = READ_BACKLOGS.format(searched=searched, owners=OWNERS_OF_SCOPE)
        return self._run(sql, (json.dumps(of_scope),), SqliteBacklog)

    def index_next(self, limit: int, scope: SearchScope) -> int:
        """Index up to `limit` of the events that `count_unindexed` counts. Return how many were
        indexed. Creates the index if there is none."""
        self.create()
        total = 0
        rest = limit  # positions, of which a damaged log lacks some
        for backlog in self._read_backlogs(scope):
            if rest == 0:
                break
            upto = min(backlog.upto, backlog.after + rest)
            rest -= upto - backlog.after
            total += self._add_backlog(backlog._replace(upto=upto))
        if scope == WHOLE_STORE and rest > 0:
            self._forget_owners()
        return total

    def _forget_owners(self) -> None:
        """Forget the agents that had new events, because all are indexed."""
        self._run(FORGET_OWNERS)

    def _add_backlog(self, backlog: SqliteBacklog) -> int:
        """Index the events of one agent. Return how many there are: fewer than expected in a
        damaged store."""
        first = build_event_id(backlog.owner, backlog.after + 1)
        last = build_event_id(backlog.owner, backlog.upto)
        rows = self._run(READ_TEXTS, (first, last))
        for id, kind, content, data_json in rows:
            if not is_erased(data_json):
                self._run(INSERT_WORDS, (id, join_words(kind, content, data_json)))
        if rows:
            last_id = rows[-1][0]
            last_indexed = last_id - build_event_id(backlog.owner, 0)
            self._run(SET_END, (backlog.owner, last_indexed))
        return len(rows)

    # --- removing events, before they are removed themselves ---

    def forget_event(self, owner: int, seq: int) -> None:
        """Remove one event of an agent."""
        if self.exists():
            self._forget_range(build_event_id(owner, seq), build_event_id(owner, seq))

    def forget_rest(self, owner: int, last_kept: int) -> None:
        """Remove the events of an agent after a position."""
        if self.exists():
            first = build_event_id(owner, last_kept + 1)
            self._forget_range(first, build_event_id(owner, LAST_SEQ))
            self._run(LOWER_END, (owner, last_kept))

    def _forget_range(self, first: int, last: int) -> None:
        rows = self._run(READ_INDEXED_TEXTS, (first, last))
        for _, _, content, data_json, is_packed in rows:
            if is_packed and content is None and data_json is None:
                # Nobody knows which words of a damaged event the index contains.
                self._run(FORGET_ALL)
                return
        for id, kind, content, data_json, _ in rows:
            # Erased events are not in the index any more: removing them again would damage it.
            if not is_erased(data_json):
                self._run(FORGET, (id, join_words(kind, content, data_json)))


# --- stores that may only be read ---

TEMPORARY_FLAGS = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI


class TemporaryIndex(SqliteIndex):
    """The search index of one process, for a store that may only be read. SQLite deletes its
    database when it is closed, so words that are erased later do not stay on a disk. It exists from
    the start, and no trigger tells it which agents have new events."""

    UNSEARCHED = EVERY_OWNER

    def __init__(self, mode: OpenMode, translator: ErrorTranslator) -> None:
        super().__init__(self._run_here)
        self._translator = translator
        self._lock = RLock()
        with translator:
            self._db = open_database(mode)

    def exists(self) -> bool:
        return True

    def _forget_owners(self) -> None:
        pass

    def index_next(self, *arguments: Any) -> int:
        """Index more events, as `SqliteIndex` does, in one transaction."""
        with self._borrow() as db, db:
            count = super().index_next(*arguments)
        return count  # noqa: RET504 - mypy: a `with` may end an error

    def close(self) -> None:
        """Delete the index."""
        with self._lock:
            self._db.close()

    def _run_here(self, sql: str, bindings: Any = None, shape: RowShape = tuple) -> list[Any]:
        with self._borrow() as db:
            return make_records(shape, db.execute(sql, bindings))

    @contextmanager
    def _borrow(self) -> Iterator[apsw.Connection]:
        with self._translator, self._lock:
            yield self._db


def open_database(mode: OpenMode) -> apsw.Connection:
    """Open an empty index, with the store attached for reading.

    Names of tables are looked up in the temporary database first and then in the store, so the
    statements are those of the store's own index.
    """
    from urllib.parse import quote  # here, because few stores are read-only

    db = apsw.Connection("", flags=TEMPORARY_FLAGS)
    name = mode.name if mode.is_immutable else f"file:{quote(mode.name)}?mode=ro"
    db.execute("ATTACH ? AS store", (name,))
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    FrameReader().register(db)
    db.register_fts5_function("share", compute_share)
    db.execute(CREATE_TABLES)
    return db


# --- words ---


def write_match(phrases: Phrases) -> str:
    """Return the phrases in the syntax of FTS5. Words are letters and digits, so nothing needs
    escaping."""
    parts = []
    for phrase in phrases:
        star = "*" if phrase.prefix else ""
        parts.append(f'"{" ".join(phrase.words)}"{star}')
    return " ".join(parts)


def join_words(kind: str, content: str | None, data_json: str | None) -> str:
    """Return the words of an event as the index stores them."""
    return " ".join(split_words(extract_text(kind, content, data_json)))
