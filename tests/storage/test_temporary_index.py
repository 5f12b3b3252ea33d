"""The index of a store that may only be read: it lives as long as the store is open."""

from contextlib import closing

import pytest

import backstory
from backstory.storage import connect
from backstory.storage.sqlite.index import SqliteIndex
from tests.processes import wait_until


def test_a_read_only_store_is_searched_with_an_index_of_its_own(tmp_path, monkeypatch):
    path = tmp_path / "history.db"
    with backstory.open(path) as writer:
        main = writer.start("main")
        main.extend([("user", f"needle {n}") for n in range(5_000)])
        main.mark("the end")
        files = sorted(one.name for one in tmp_path.iterdir())
        with backstory.open(path, read_only=True) as reader:
            first = reader.search("4999", wait=False)
            assert first.missing == 5_001  # counted before the background thread starts
            wait_until(lambda: not reader.search("4999", wait=False).missing)
            monkeypatch.setattr("backstory.maintenance.search._scan_events", None)
            [hit] = reader.search("4999", wait=False)
            assert (hit.event.seq, hit.live) == (5_000, True)
            main.user("a word that came later")
            [later] = reader.search("later", wait=False)
            assert later.event.seq == 5_002
            [mine] = reader.search("needle 7", agent=main.id, kinds=["user"], wait=False)
            assert mine.event.content == "needle 7"
            assert sorted(one.name for one in tmp_path.iterdir()) == files


def test_the_index_of_the_store_is_used_when_it_is_complete(tmp_path):
    path = tmp_path / "history.db"
    with backstory.open(path) as writer:
        writer.start("main").extend([("user", f"needle {n}") for n in range(5_000)])
        writer.search("needle")
    with backstory.open(path, read_only=True) as reader:
        hits = reader.search("4999", wait=False)
    assert (len(hits), hits.missing) == (1, 0)


def test_a_batch_that_fails_is_not_indexed_in_part(tmp_path, monkeypatch):
    path = str(tmp_path / "history.db")
    with backstory.open(path) as writer:
        writer.start("main").user("needle")
    add = SqliteIndex._add_backlog

    def add_and_fail(index, backlog):
        add(index, backlog)
        raise RuntimeError

    with closing(connect(path, read_only=True)) as backend:
        monkeypatch.setattr(SqliteIndex, "_add_backlog", add_and_fail)
        with pytest.raises(RuntimeError):
            backend.index_events(10)
        assert backend.count_unindexed() == 1
