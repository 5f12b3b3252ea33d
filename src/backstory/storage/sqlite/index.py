"""The search index of an SQLite store: an FTS5 table, brought up to date by each search.

It is derived from the events and created by the first search. So it costs appends nothing, and its
tables may be dropped at any time. The words come from `backstory.log.terms`; FTS5's tokenizer only
splits at the spaces between them.
"""

import json
from typing import NamedTuple

from backstory.log.digests import is_erased
from backstory.log.terms import Query, extract_text, split_words
from backstory.storage.protocol import CANDIDATES, AgentRecord, FoundEvent, Pieces, WordQuery
from backstory.storage.sqlite.frames import CONTENT_OR_NULL, DATA_OR_NULL
from backstory.storage.sqlite.listing import HEAD
from backstory.storage.sqlite.rows import IN_RANGE, SqliteReader, write_ranges
from backstory.storage.sqlite.schema import LAST_SEQ, build_event_id, write_agent, write_seq

# The number in the names is the version of `backstory.log.terms`: when the words change, so do the
# tables.
CREATE = """
    DROP TABLE IF EXISTS search_1;
    DROP TABLE IF EXISTS searched_1;
    DROP TABLE IF EXISTS search_2;
    DROP TABLE IF EXISTS searched_2;
    CREATE VIRTUAL TABLE IF NOT EXISTS search_3
        USING fts5 (words, content = '', tokenize = 'ascii');
    INSERT INTO search_3 (search_3, rank) VALUES ('secure-delete', 1);
    CREATE TABLE IF NOT EXISTS searched_3 (
        agent INTEGER PRIMARY KEY, upto INTEGER NOT NULL) STRICT"""

WORTH_MERGING = 20_000  # events that are indexed before segments are merged
MERGE_PAGES = 500  # pages that are merged in one transaction
FEW_RANGES = 64


class Backlog(NamedTuple):
    """The events of one agent that are not indexed yet: those after a position, up to another."""

    owner: int
    after: int
    upto: int


class SqliteIndexReader(SqliteReader):
    """Reads the search index."""

    def has_index(self) -> bool:
        """Return True if the store has been searched before."""
        return bool(self._run("SELECT 1 FROM sqlite_master WHERE name = 'searched_3'"))

    READ_BACKLOGS = f"""
        SELECT a.no, coalesce(s.upto, a.fork_seq) AS after, {HEAD} AS head
        FROM agents a LEFT JOIN {{searched}} s ON s.agent = a.no
        WHERE {{owners}} AND head > after"""

    def read_backlogs(self, agent: AgentRecord | None, pieces: Pieces) -> list[Backlog]:
        """Return what is not indexed yet, of the owners of `pieces`, or of all agents if `agent` is
        None."""
        searched = "searched_3" if self.has_index() else "(SELECT NULL AS agent, NULL AS upto)"
        if agent is None:
            sql = self.READ_BACKLOGS.format(searched=searched, owners="true")
            return self._run(sql, (), Backlog)
        in_owners = "a.no IN (SELECT value FROM json_each(?))"
        owners = list({piece.owner for piece in pieces})
        sql = self.READ_BACKLOGS.format(searched=searched, owners=in_owners)
        return self._run(sql, (json.dumps(owners),), Backlog)

    # The cost of ranking grows with the number of matches, and a word that occurs everywhere says
    # nothing about relevance. So if there are very many matches, only those of the newest agents
    # are ranked. CROSS JOIN makes SQLite query the index first.
    FIND = f"""
        SELECT a.id, {write_seq("f.id")}, -f.rank
        FROM (
            SELECT search_3.rowid AS id, bm25(search_3) AS rank FROM search_3 {{filters}}
            ORDER BY search_3.rowid DESC LIMIT :candidates) f
        CROSS JOIN agents a ON a.no = {write_agent("f.id")}
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
        SELECT a.id, {write_seq("f.id")}, f.share
        FROM (
            SELECT search_3.rowid AS id, share(search_3) AS share
            FROM json_each(:ranges) r CROSS JOIN search_3
            WHERE search_3 MATCH :query
                AND search_3.rowid BETWEEN CAST(r.key AS INTEGER) AND r.value
                AND (:kinds IS NULL OR EXISTS (
                    SELECT 1 FROM events e WHERE e.id = search_3.rowid
                    AND e.kind IN (SELECT value FROM json_each(:kinds))))
            ORDER BY search_3.rowid DESC LIMIT :candidates) f
        CROSS JOIN agents a ON a.no = {write_agent("f.id")}
        ORDER BY f.share DESC, f.id DESC LIMIT :limit"""

    def find_words(self, query: WordQuery, limit: int) -> list[FoundEvent]:
        bindings = {
            "query": write_match(query.words),
            "limit": limit,
            "candidates": max(limit, CANDIDATES),
            "kinds": json.dumps(query.kinds) if query.kinds else None,
            "ranges": None if query.agent is None else write_ranges(query.pieces),
        }
        if query.agent is not None and len(query.pieces) <= FEW_RANGES:
            sql = self.FIND_IN_RANGES
        elif query.agent is not None or query.kinds:
            sql = self.FIND.format(filters=self.FILTERED)
        else:
            sql = self.FIND.format(filters=self.EVERYWHERE)
        return self._run(sql, bindings, FoundEvent)


def write_match(query: Query) -> str:
    """Return the query in the syntax of FTS5. Words are letters and digits, so nothing needs
    escaping."""
    phrases = []
    for phrase in query:
        star = "*" if phrase.prefix else ""
        phrases.append(f'"{" ".join(phrase.words)}"{star}')
    return " ".join(phrases)


class SqliteIndexWriter(SqliteIndexReader):
    """Writes the search index, within a transaction."""

    def create_index(self) -> None:
        """Create the tables of the index."""
        self._run(CREATE)

    def index_events(self, limit: int, agent: AgentRecord | None, pieces: Pieces) -> int:
        """Index up to `limit` events. Return how many were indexed."""
        if not self.has_index():
            self.create_index()
        total = 0
        for backlog in self.read_backlogs(agent, pieces):
            if total == limit:
                break
            upto = min(backlog.upto, backlog.after + limit - total)
            total += self._index_backlog(backlog._replace(upto=upto))
        return total

    READ_TEXTS = f"""
        SELECT e.id, e.kind, {CONTENT_OR_NULL}, {DATA_OR_NULL} FROM events e
        WHERE e.id BETWEEN ? AND ? ORDER BY e.id"""
    INSERT_WORDS = "INSERT INTO search_3 (rowid, words) VALUES (?, ?)"
    SET_END = """
        INSERT INTO searched_3 VALUES (?1, ?2) ON CONFLICT (agent) DO UPDATE SET upto = ?2"""

    def _index_backlog(self, backlog: Backlog) -> int:
        """Index the events of one agent. Return how many there are: fewer than expected in a
        damaged store."""
        first = build_event_id(backlog.owner, backlog.after + 1)
        last = build_event_id(backlog.owner, backlog.upto)
        rows = self._run(self.READ_TEXTS, (first, last))
        for id, kind, content, data_json in rows:
            if not is_erased(data_json):
                self._run(self.INSERT_WORDS, (id, join_words(kind, content, data_json)))
        if rows:
            last_id = rows[-1][0]
            last_indexed = last_id - build_event_id(backlog.owner, 0)
            self._run(self.SET_END, (backlog.owner, last_indexed))
        return len(rows)

    MERGE = "INSERT INTO search_3 (search_3, rank) VALUES ('merge', ?)"
    COUNT_CHANGES = "SELECT total_changes()"

    def merge_segments(self, *, is_first: bool) -> bool:
        """Merge some segments of the index: a search has to look into each segment. Return False if
        nothing is left to merge."""
        [(before,)] = self._run(self.COUNT_CHANGES)
        # A negative number begins to merge all segments.
        self._run(self.MERGE, (-MERGE_PAGES if is_first else MERGE_PAGES,))
        [(after,)] = self._run(self.COUNT_CHANGES)
        return bool(after - before >= 2)  # FTS5's documented sign that it did something

    # The index does not store the text: to remove an entry, FTS5 needs the same words again.
    READ_INDEXED_TEXTS = f"""
        SELECT e.id, e.kind, {CONTENT_OR_NULL}, {DATA_OR_NULL}, e.packed IS NOT NULL
        FROM events e JOIN searched_3 s ON s.agent = e.agent
        WHERE e.id BETWEEN ?1 AND ?2 AND e.seq <= s.upto"""
    FORGET = "INSERT INTO search_3 (search_3, rowid, words) VALUES ('delete', ?, ?)"
    FORGET_ALL = """
        INSERT INTO search_3 (search_3) VALUES ('delete-all');
        DELETE FROM searched_3"""

    def forget_words(self, no: int, low: int, high: int) -> None:
        """Remove the agent's events between two positions from the index. Call this before they are
        removed themselves."""
        if not self.has_index():
            return
        first, last = build_event_id(no, low), build_event_id(no, high)
        rows = self._run(self.READ_INDEXED_TEXTS, (first, last))
        for _, _, content, data_json, is_packed in rows:
            if is_packed and content is None and data_json is None:
                # Nobody knows which words of a damaged event the index contains.
                self._run(self.FORGET_ALL)
                return
        for id, kind, content, data_json, _ in rows:
            # Erased events are not in the index any more: removing them again would damage it.
            if not is_erased(data_json):
                self._run(self.FORGET, (id, join_words(kind, content, data_json)))

    LOWER_END = "UPDATE searched_3 SET upto = min(upto, ?2) WHERE agent = ?1"

    def forget_rest(self, no: int, last: int) -> None:
        """Remove the agent's events after a position from the index."""
        self.forget_words(no, last + 1, LAST_SEQ)
        if self.has_index():
            self._run(self.LOWER_END, (no, last))


def join_words(kind: str, content: str | None, data_json: str | None) -> str:
    """Return the words of an event as the index stores them."""
    return " ".join(split_words(extract_text(kind, content, data_json)))
