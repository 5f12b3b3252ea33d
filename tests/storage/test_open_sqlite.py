"""Opening a store: what is created, migrated and refused, and with which messages."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import apsw
import pytest

import backstory
from backstory.storage.locks import DEFAULT_TIMEOUT
from backstory.storage.sqlite import backend as sqlite_backend
from backstory.storage.sqlite import file as sqlite_file
from backstory.storage.sqlite import schema
from backstory.storage.sqlite.stamp import empty_wal
from tests.damage import overwrite_events
from tests.threads import in_threads


def test_an_address_picks_the_backend(tmp_path, new_database):
    for url in (
        ":memory:",
        tmp_path / "a.db",
        str(tmp_path / "b.db"),
        f"sqlite:///{tmp_path}/c.db",
        new_database(),
    ):
        with backstory.open(url) as store:
            store.start("main")
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".db") == [
        "a.db",
        "b.db",
        "c.db",
    ]


def test_a_relative_sqlite_address(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    backstory.open("sqlite:///here.db").close()
    backstory.open("there.db").close()
    assert {"here.db", "there.db"} <= {path.name for path in tmp_path.iterdir()}


def test_a_tilde_is_expanded(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    backstory.open("~/history.db").close()
    assert (tmp_path / "history.db").exists()


def test_a_program_that_changes_its_directory_stays_with_its_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with backstory.open("history.db") as store:
        agent = store.start("main")
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        in_threads(lambda nth: agent.user(str(nth)), 4)  # which need new connections
        assert len(agent.events()) == 4


@pytest.mark.parametrize("is_replaced", [False, True])
def test_nothing_is_appended_to_a_file_that_is_gone(tmp_path, is_replaced):
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        agent = store.start("main")
        if is_replaced:
            store.backup(tmp_path / "copy.db")
            (tmp_path / "copy.db").rename(path)
        else:
            path.unlink()
        with pytest.raises(backstory.StorageError, match="was moved or deleted while it was open"):
            agent.user("x")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "mysql://localhost/x",
        "http://example.org",
        "sqlite:x.db",
        "file:x.db?mode=ro",
        None,
        b"x.db",
        3,
    ],
)
def test_an_address_that_is_no_store(url):
    with pytest.raises(
        backstory.CannotOpen, match=r"is not a store: give (the path of a file|its address)"
    ):
        backstory.open(url)


def test_the_missing_driver_explains_itself(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "backstory.storage.postgres.backend", raising=False)
    with pytest.raises(backstory.CannotOpen, match=r"pip install 'backstory\[postgres\]'"):
        backstory.open("postgresql://localhost/x")


# --- SQLite ---


def test_a_file_that_cannot_be_opened_twice_is_reported_in_our_words(tmp_path, monkeypatch):
    def fail(*_):
        raise apsw.CantOpenError("unable to open database file")  # too many open files

    monkeypatch.setattr(sqlite_backend, "StampWriter", fail)
    with pytest.raises(backstory.CannotOpen, match="unable to open"):
        backstory.open(tmp_path / "history.db")


def test_a_directory_is_no_store(tmp_path):
    with pytest.raises(backstory.CannotOpen, match="is a directory: give the path of a file in it"):
        backstory.open(tmp_path)


def test_a_directory_that_is_not_there(tmp_path):
    with pytest.raises(
        backstory.CannotOpen, match=r"the directory .* does not exist: create it first"
    ):
        backstory.open(tmp_path / "missing" / "history.db")


def test_a_file_that_is_no_database_is_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("Dear diary, " * 100)
    with pytest.raises(backstory.CannotOpen, match="is not an SQLite database"):
        backstory.open(path)
    assert path.read_text() == "Dear diary, " * 100
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_the_database_of_another_program_is_left_alone(tmp_path):
    path = tmp_path / "other.db"
    db = apsw.Connection(str(path))
    db.execute("CREATE TABLE theirs (x)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(
        backstory.CannotOpen, match="database of another program: give another path"
    ):
        backstory.open(path)
    assert path.read_bytes() == before


def test_connections_have_the_settings_that_make_commits_durable(tmp_path):
    with backstory.open(tmp_path / "history.db") as store:
        promised = {
            "journal_mode": "wal",
            "synchronous": 2,
            "foreign_keys": 1,
            "page_size": schema.PAGE_SIZE,
            "wal_autocheckpoint": sqlite_file.CHECKPOINT_PAGES,
            "secure_delete": 1,
        }
        for name, value in promised.items():
            assert store._backend._run(f"PRAGMA {name}") == [(value,)]


def test_a_newer_sqlite_store_is_refused_untouched(tmp_path):
    path = tmp_path / "history.db"
    backstory.open(path).close()
    db = apsw.Connection(str(path))
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(backstory.NewerVersion, match=r"has version 99 .* upgrade backstory"):
        backstory.open(path)


def test_a_full_disk_is_an_error_and_nothing_is_half_written(tmp_path):
    with backstory.open(tmp_path / "history.db") as store:
        agent = store.start("main")
        [(pages,)] = store._backend._run("PRAGMA page_count")
        store._backend._run(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(
            backstory.StorageError, match="full; nothing was written: free some space"
        ):
            agent.extend([("user", "x" * 5_000, None)] * 10)
        assert agent.events() == []
        store._backend._run("PRAGMA max_page_count = 1000000")
        agent.user("more")
        assert store.verify() == []


@contextmanager
def somebody_writing(path):
    """Another connection that holds the write lock."""
    db = apsw.Connection(str(path))
    db.execute("BEGIN IMMEDIATE").fetchall()
    try:
        yield
    finally:
        db.close()


def test_a_store_that_stays_locked_is_busy_in_the_end(tmp_path):
    with backstory.open(tmp_path / "history.db", timeout=0.1) as store:
        agent = store.start("main")
        with somebody_writing(tmp_path / "history.db"):
            with pytest.raises(
                backstory.Busy, match=r"someone else has been writing for .* try again"
            ):
                agent.user("held up")
        agent.user("now")
        assert [event.content for event in agent.events()] == ["now"]


def test_ctrl_c_ends_the_wait_for_other_writers_and_nothing_is_written(tmp_path):
    with backstory.open(tmp_path / "history.db") as store:
        agent = store.start("main")
        with somebody_writing(tmp_path / "history.db"):
            ctrl_c = threading.Timer(0.2, signal.raise_signal, (signal.SIGINT,))

            def write():
                ctrl_c.start()
                agent.user("given up")

            began = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                write()
            assert time.monotonic() - began < DEFAULT_TIMEOUT / 2
            ctrl_c.join()
        agent.user("now")
        assert [event.content for event in agent.events()] == ["now"]


def test_a_damaged_file_is_corrupt(tmp_path):
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        store.start("main").extend([("user", "x" * 500, None)] * 200)
    overwrite_events(path)
    with backstory.open(path) as store:
        with pytest.raises(
            backstory.Corrupt, match=r"restore a backup, or try sqlite3's \.recover"
        ):
            store.agent("main").context()


def test_many_threads_can_open_a_new_store_at_once(durable_url):
    """The first one makes it; nobody sees it half made."""

    def work(nth):
        with backstory.open(durable_url) as store:
            store.start(f"agent-{nth}").user("x")

    in_threads(work, 8)
    with backstory.open(durable_url) as store:
        assert len(store.agents()) == 8


@pytest.mark.parametrize("ending", ["-wal", "-shm"])
def test_a_log_that_was_removed_is_noticed_before_a_write_is_acknowledged(tmp_path, ending):
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        agent = store.start("main")
        agent.user("one")
        os.remove(f"{path}{ending}")
        with pytest.raises(backstory.ConnectionLost, match=f"{ending}' was removed or replaced"):
            agent.user("two")
    with backstory.open(path) as store:
        store.start("another").user("works again")
        assert store.verify() == []


def test_a_log_that_was_replaced_is_noticed(tmp_path):
    """The names are there again, but they belong to other files."""
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        agent = store.start("main")
        agent.user("one")
        kept = (tmp_path / "history.db-wal").read_bytes()
        os.remove(f"{path}-wal")
        (tmp_path / "history.db-wal").write_bytes(kept)
        with pytest.raises(backstory.ConnectionLost, match="-wal' was removed or replaced"):
            agent.user("two")


def test_a_store_that_others_open_and_close_is_written_without_error(tmp_path):
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        agent = store.start("main")
        for n in range(5):
            with backstory.open(path) as other:
                other.agent("main").user(f"other {n}")
            agent.user(f"mine {n}")
            store.delete(store.start("gone"))  # which empties the log
        assert agent.head == 10


def test_verify_finds_every_missing_index_and_trigger(tmp_path):
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        store.start("main").user("x")
    db = apsw.Connection(str(path))
    made = db.execute(
        "SELECT type, name FROM sqlite_master WHERE type IN ('index', 'trigger') AND sql != ''"
    )
    gone = made.fetchall()
    for kind, name in gone:
        db.execute(f"DROP {kind} {name}")
    db.close()
    assert {kind for kind, _ in gone} == {"index", "trigger"}
    with backstory.open(path) as store:
        assert {finding.problem for finding in store.verify()} == {
            f"the {kind} {name} is missing" for kind, name in gone
        }


@pytest.mark.parametrize("damage", ["DELETE FROM numbers", "UPDATE numbers SET last_no = 0"])
def test_verify_finds_a_number_that_would_be_given_again(tmp_path, damage):
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        store.start("main")
    db = apsw.Connection(str(path))
    db.execute(damage)
    db.close()
    with backstory.open(path) as store:
        with pytest.raises((backstory.StorageError, backstory.Corrupt)):
            store.ensure("user:1")
        [finding] = store.verify()
    assert finding.problem == "the table numbers does not have the last number of an agent"


HOLDER = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    fcntl.lockf(file, fcntl.LOCK_EX, 1, 121)  # the byte that whoever runs a checkpoint locks
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_a_deletion_waits_for_a_checkpoint_of_another_process(tmp_path, monkeypatch):
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        agent = store.start("main")
        agent.user("secret")
        holder = subprocess.Popen(
            [sys.executable, "-c", HOLDER, f"{path}-shm"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert holder.stdout.readline() == "held\n"
        monkeypatch.setattr(time, "sleep", lambda _: holder.communicate("go on\n"))
        store.delete(agent)
        assert holder.poll() == 0
        assert os.path.getsize(f"{path}-wal") == 0


def test_removed_text_that_others_still_read_remains(tmp_path):
    path = tmp_path / "history.db"
    with backstory.open(path, timeout=0.1) as store:
        agent = store.start("main")
        agent.user("secret")
        reader = apsw.Connection(str(path))
        rows = reader.execute("SELECT content FROM events")
        next(rows)  # its read transaction is open now
        with pytest.raises(backstory.TextRemains, match="in the write-ahead log while others"):
            store.delete(agent)
        assert store.agents() == []
        reader.close()
        store.delete(store.start("other"))
        assert b"secret" not in path.read_bytes()
        assert os.path.getsize(f"{path}-wal") == 0


def test_a_repeated_erasure_reports_that_the_text_remains_until_it_is_gone(tmp_path):
    path = tmp_path / "history.db"
    with backstory.open(path, timeout=0.1) as store:
        agent = store.start("main")
        agent.user("secret")
        reader = apsw.Connection(str(path))
        rows = reader.execute("SELECT content FROM events")
        next(rows)  # its read transaction is open now
        for _ in range(2):
            with pytest.raises(backstory.TextRemains):
                agent.erase([1], why="asked")
        with backstory.open(path, timeout=0.1) as other:  # which has removed nothing itself
            with pytest.raises(backstory.TextRemains):
                other.agent("main").erase([1], why="asked")
        assert b"secret" in (tmp_path / "history.db-wal").read_bytes()
        reader.close()
        agent.erase([1], why="asked")
        assert len(store.removals()) == 1
        assert b"secret" not in path.read_bytes()
        assert os.path.getsize(f"{path}-wal") == 0


def test_an_expiry_beside_a_reader_removes_all_sessions(tmp_path, monkeypatch):
    """The reader is waited for once, not once for each session."""
    path = tmp_path / "history.db"
    later = datetime.now(UTC) + timedelta(days=1)
    with backstory.open(path, timeout=0.01) as store:
        for number in range(3):
            store.start(f"s{number}", system="secret")
        attempts = []
        with monkeypatch.context() as patch:
            patch.setattr(
                sqlite_backend, "empty_wal", lambda db, path: attempts.append(db) or False
            )
            with pytest.raises(backstory.TextRemains):
                store.expire(later, dry_run=False)
            assert store.agents() == []
            assert len(store.removals()) == 3
            attempts.clear()
            with pytest.raises(backstory.TextRemains):
                store.delete(store.start("other"))
            assert len(attempts) == 1
        store.delete(store.start("another"))
        assert os.path.getsize(f"{path}-wal") == 0


def test_a_file_that_is_damaged_after_a_removal_may_contain_the_text(tmp_path, monkeypatch):
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        store.start("main").extend([("user", "x" * 8_000, None)] * 100)
    with backstory.open(path) as store:
        agent = store.agent("main")

        def damage_and_empty(db, path):
            os.truncate(path, 0)  # then SQLite refuses to write the log into it
            return empty_wal(db, path)

        monkeypatch.setattr(sqlite_backend, "empty_wal", damage_and_empty)
        with pytest.raises(backstory.TextRemains, match=r"was removed, but .*is damaged") as raised:
            agent.erase([1], why="asked")
        assert isinstance(raised.value.__cause__, backstory.Corrupt)


def test_a_removal_waits_for_a_reader_that_reads_again(tmp_path, monkeypatch):
    with backstory.open(tmp_path / "history.db") as store:
        agent = store.start("main")
        agent.user("secret")
        attempts = []

        def be_busy_once(db, path):
            attempts.append(path)
            if len(attempts) == 1:
                raise apsw.BusyError
            return empty_wal(db, path)

        monkeypatch.setattr(sqlite_backend, "empty_wal", be_busy_once)
        agent.erase([1], why="asked")
        assert len(attempts) == 2


def test_a_removal_during_another_one_waits_for_readers_too(tmp_path, monkeypatch):
    with backstory.open(tmp_path / "history.db") as store:
        first, second = store.start("first"), store.start("second")
        attempts = iter([False, False, True, True])  # the first, two of the second, the first again
        waiting = [lambda: store.delete(second)]
        monkeypatch.setattr(sqlite_backend, "empty_wal", lambda db, path: next(attempts))
        monkeypatch.setattr(time, "sleep", lambda _: waiting.pop()() if waiting else None)
        store.delete(first)
        assert store.agents() == []


def test_a_store_knows_that_another_file_is_at_its_path(tmp_path):
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        assert not store.is_replaced()
        path.rename(tmp_path / "moved.db")
        assert not store.is_replaced()  # there is none
        path.write_bytes(b"")
        assert store.is_replaced()


def test_a_closed_store_says_so(tmp_path):
    store = backstory.open(tmp_path / "history.db")
    agent = store.start("main")
    store.close()
    for call in (store.agents, store.verify, store.watch, lambda: agent.user("x"), agent.context):
        with pytest.raises(backstory.StorageError, match="is closed: open it again"):
            call()


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="this system has no links")
def test_a_store_is_written_and_restored_through_a_symbolic_link(tmp_path):
    (tmp_path / "data").mkdir()
    path, link = tmp_path / "data" / "real.db", tmp_path / "history.db"
    link.symlink_to(path)
    with backstory.open(path) as store:
        store.start("main").user("one")
        store.backup(tmp_path / "backup.db")
    with backstory.open(link) as store:
        store.agent("main").user("two")
    backstory.restore(tmp_path / "backup.db", link)
    assert link.is_symlink()
    for name in (link, path):
        with backstory.open(name) as store:
            assert store.agent("main").head == 1
