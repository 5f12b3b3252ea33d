"""The search index while others remove and index the same events.

`index_events` first reads texts and then writes their words, in one transaction. These tests start
the other one between the two, and go on when it has finished or waits for a lock.
"""

import threading
from contextlib import closing

import apsw
import psycopg
import pytest

import backstory
from backstory.log.terms import parse_phrases
from backstory.reading import get_record
from backstory.storage.postgres.citus import CitusIndexWriter
from backstory.storage.postgres.index import PostgresIndexWriter
from backstory.storage.protocol import WHOLE_STORE, SearchQuery, SearchScope
from backstory.storage.sqlite.index import READ_TEXTS
from backstory.storage.sqlite.transaction import SqliteTransaction
from tests.maintenance.raw import is_sqlite, run_sql
from tests.processes import wait_until

WAITING = """
    SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'advisory'
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"""


class Intruder:
    """Does something in another thread as soon as texts were read, once."""

    def __init__(self, url, monkeypatch):
        self._url = url
        self._work = None
        self._thread = None
        self._result = []
        patch_reads(monkeypatch, self._intrude)

    def do(self, work):
        """Do this after the next texts are read."""
        self._work = work

    def finish(self):
        """Wait for the end, and return the result."""
        assert self._thread is not None, "no texts were read"
        self._thread.join()
        [result] = self._result
        return result

    def _intrude(self):
        if self._work is None:
            return
        work, self._work = self._work, None
        self._thread = threading.Thread(target=lambda: self._result.append(work()))
        self._thread.start()
        wait_until(lambda: not self._thread.is_alive() or has_waiting_writer(self._url))


def patch_reads(monkeypatch, after):
    """Call `after` whenever texts were read to be indexed."""
    run = SqliteTransaction._run

    def run_and_pause(self, sql, *arguments):
        rows = run(self, sql, *arguments)
        if sql == READ_TEXTS:
            after()
        return rows

    monkeypatch.setattr(SqliteTransaction, "_run", run_and_pause)
    for writer in (PostgresIndexWriter, CitusIndexWriter):
        patch_read(monkeypatch, writer, after)


def patch_read(monkeypatch, writer, after):
    read = writer.read_texts

    def read_and_pause(*arguments):
        rows = read(*arguments)
        after()
        return rows

    monkeypatch.setattr(writer, "read_texts", read_and_pause)


def has_waiting_writer(url):
    """Return True if a writer that came now would wait, or one waits already."""
    if not is_sqlite(url):
        with psycopg.connect(url) as db:
            return db.execute(WAITING).fetchone() is not None
    with closing(apsw.Connection(url)) as db:
        try:
            db.execute("BEGIN IMMEDIATE; ROLLBACK")
        except apsw.BusyError:
            return True
        return False


@pytest.fixture
def stores(durable_url):
    """A store that is opened twice, as two processes would."""
    with backstory.open(durable_url) as store, backstory.open(durable_url) as other:
        yield store, other


def find_matches(store, text):
    """Ask the index itself."""
    return store._backend.find_matches(SearchQuery(parse_phrases(text)), 100)


def count_entries(url):
    """Count the events in the index, also those of deleted agents, which no search finds."""
    table = "search_3_docsize" if is_sqlite(url) else "search_3"
    [(count,)] = run_sql(url, f"SELECT count(*) FROM {table}")
    return count


@pytest.mark.parametrize("scope", ["store", "agent"])
@pytest.mark.parametrize("removal", ["erase", "delete"])
def test_text_that_is_removed_while_it_is_indexed_stays_out(
    stores, durable_url, monkeypatch, removal, scope
):
    store, other = stores
    agent = store.start("main")
    agent.extend([("user", "secret plan"), ("user", "harmless")])
    store._backend.count_unindexed()
    searched = WHOLE_STORE
    if scope == "agent":
        record = get_record(store._backend, agent)
        pieces = store._backend.read_lineage(record)
        searched = SearchScope(record.session, tuple(pieces))

    def remove():
        if removal == "erase":
            other.agent("main").erase([1], why="a test")
        else:
            other.delete("main")

    intruder = Intruder(durable_url, monkeypatch)
    intruder.do(remove)
    store._backend.index_events(10, searched)
    intruder.finish()

    remaining = 1 if removal == "erase" else 0
    assert find_matches(store, "secret") == find_matches(store, "plan") == []
    assert len(find_matches(store, "harmless")) == count_entries(durable_url) == remaining
    assert store._backend.count_unindexed() == 0
    assert store.verify() == []


def test_events_that_another_process_indexes_meanwhile_are_indexed_once(
    stores, durable_url, monkeypatch
):
    store, other = stores
    agent = store.start("main")
    agent.extend([("user", "needle"), ("user", "needle")])
    store._backend.count_unindexed()

    intruder = Intruder(durable_url, monkeypatch)
    intruder.do(lambda: other._backend.index_events(10))
    indexed = store._backend.index_events(10)

    assert (indexed, intruder.finish()) == (2, 0)
    assert [found.seq for found in find_matches(store, "needle")] == [2, 1]
    agent.erase([1, 2], why="a test")  # FTS5 would keep the second of two entries
    assert find_matches(store, "needle") == []
    assert store.verify() == []
