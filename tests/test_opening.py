"""Opening a store: what is made, what is migrated, what is refused, and with which words."""

import os
import resource
import socket
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import apsw
import psycopg
import pytest

import backstory
from backstory.backends import postgres_server as opening_postgres
from backstory.backends import sqlite_file
from tests.conftest import postgres_server
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


def test_home_is_where_the_shell_says(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    backstory.open("~/history.db").close()
    assert (tmp_path / "history.db").exists()


def test_a_program_that_changes_its_directory_stays_with_its_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with backstory.open("history.db") as store:
        agent = store.start("main")
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir(tmp_path / "elsewhere")
        [db] = store._backend._free
        store._backend._free.clear()  # the next call has to connect anew
        agent.user("x")
        assert len(agent.events()) == 1
        db.close()


def test_a_file_that_is_gone_takes_no_more_events(tmp_path):
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        agent = store.start("main")
        path.unlink()
        with pytest.raises(backstory.StorageError, match="was moved or deleted while it was open"):
            agent.user("x")


@pytest.mark.parametrize(
    "url",
    ["", "mysql://localhost/x", "http://example.org", "sqlite:x.db", "file:x.db?mode=ro", None, b"x.db", 3],
)
def test_an_address_that_is_no_store(url):
    with pytest.raises(backstory.CannotOpen, match=r"is no store: give (the path of a file|its address)"):
        backstory.open(url)


def test_the_missing_driver_explains_itself(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.delitem(sys.modules, "backstory.backends.postgres", raising=False)
    with pytest.raises(backstory.CannotOpen, match=r"pip install 'backstory\[postgres\]'"):
        backstory.open("postgresql://localhost/x")


# --- SQLite ---


def test_a_directory_is_no_store(tmp_path):
    with pytest.raises(backstory.CannotOpen, match="is a directory: give the path of a file in it"):
        backstory.open(tmp_path)


def test_a_directory_that_is_not_there(tmp_path):
    with pytest.raises(backstory.CannotOpen, match=r"the directory .* does not exist; create it first"):
        backstory.open(tmp_path / "missing" / "history.db")


def test_a_file_that_is_no_database_is_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("Dear diary, " * 100)
    with pytest.raises(backstory.CannotOpen, match="is no SQLite database"):
        backstory.open(path)
    assert path.read_text() == "Dear diary, " * 100
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_the_database_of_another_program_is_left_alone(tmp_path):
    path = tmp_path / "other.db"
    db = apsw.Connection(str(path))
    db.execute("CREATE TABLE theirs (x)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(backstory.CannotOpen, match="database of another program: give another path"):
        backstory.open(path)
    assert path.read_bytes() == before


def test_a_read_only_file(tmp_path, monkeypatch):
    path = tmp_path / "history.db"
    backstory.open(path).close()
    connection = apsw.Connection

    def read_only(path, **_):  # root may write everything, so ask SQLite for a read-only connection
        return connection(path, flags=apsw.SQLITE_OPEN_READONLY)

    monkeypatch.setattr(apsw, "Connection", read_only)
    with pytest.raises(backstory.ReadOnly, match="cannot be written: give yourself the right to write it"):
        backstory.open(path)


def test_the_pragmas_that_keep_the_promise(tmp_path):
    with backstory.open(tmp_path / "history.db") as store:
        [db] = store._backend._free
        pragmas = {
            name: db.pragma(name) for name in ("journal_mode", "synchronous", "foreign_keys", "page_size")
        }
    assert pragmas == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "page_size": sqlite_file.PAGE_SIZE,
    }


def test_a_newer_sqlite_store_is_refused_untouched(tmp_path):
    path = tmp_path / "history.db"
    backstory.open(path).close()
    db = apsw.Connection(str(path))
    db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(backstory.NewerVersion, match=r"has version 99 .* upgrade backstory"):
        backstory.open(path)


def test_an_older_sqlite_store_is_migrated(tmp_path, monkeypatch):
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        store.start("main").user("kept")
    monkeypatch.setattr(
        sqlite_file, "MIGRATIONS", (*sqlite_file.MIGRATIONS, "CREATE TABLE added (x); CREATE TABLE more (x)")
    )
    with backstory.open(path) as store:
        assert store.agent("main").events()[0].content == "kept"
        [db] = store._backend._free
        assert db.pragma("user_version") == 2
        assert db.execute("SELECT count(*) FROM more").fetchall() == [(0,)]


def test_a_sqlite_migration_that_fails_changes_nothing(tmp_path, monkeypatch):
    path = tmp_path / "history.db"
    backstory.open(path).close()
    broken = "CREATE TABLE added (x); INSERT INTO nowhere VALUES (1)"
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_file, "MIGRATIONS", (*sqlite_file.MIGRATIONS, broken))
        with pytest.raises(backstory.StorageError, match="no such table: nowhere"):
            backstory.open(path)
    with backstory.open(path) as store:
        [db] = store._backend._free
        assert db.execute("SELECT name FROM sqlite_master WHERE name = 'added'").fetchall() == []


def test_a_full_disk_is_said_and_nothing_is_half_written(tmp_path):
    with backstory.open(tmp_path / "history.db") as store:
        agent = store.start("main")
        [db] = store._backend._free
        db.execute(f"PRAGMA max_page_count = {db.pragma('page_count') + 2}")
        with pytest.raises(
            backstory.StorageError, match="full: free some space; nothing of this was written"
        ):
            agent.extend([("user", "x" * 5_000, None)] * 10)
        assert agent.events() == []
        db.execute("PRAGMA max_page_count = 1000000")
        agent.user("goes on")
        assert store.verify() == []


def test_a_damaged_file_is_said(tmp_path):
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        store.start("main").extend([("user", "x" * 500, None)] * 200)
    data = bytearray(path.read_bytes())
    data[sqlite_file.PAGE_SIZE * 5 : sqlite_file.PAGE_SIZE * 9] = b"\xff" * sqlite_file.PAGE_SIZE * 4
    path.write_bytes(data)
    with backstory.open(path) as store:
        with pytest.raises(backstory.Corrupt, match=r"restore a backup, or try sqlite3's \.recover"):
            store.agent("main").context()


# --- PostgreSQL ---


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def database_of(url):
    return urlsplit(url).path.removeprefix("/")


def test_no_server_at_the_address():
    with pytest.raises(
        backstory.CannotOpen,
        match=r"(?s)refused.*check the address, that the server is up, and user and password",
    ):
        backstory.open(f"postgresql://someone:secret@127.0.0.1:{free_port()}/x?connect_timeout=3")


def test_a_password_is_never_repeated():
    with pytest.raises(backstory.CannotOpen) as error:
        backstory.open(f"postgresql://someone:secret@127.0.0.1:{free_port()}/x")
    assert "secret" not in str(error.value)


def test_the_address_of_a_store_is_shown_without_its_passwords(new_database):
    url = new_database()
    with backstory.open(url + "&sslpassword=s3cret") as store:
        assert "s3cret" not in store.url
        assert store.url.startswith("postgresql://")


def test_a_database_that_is_not_there(new_database):
    url = new_database().replace("backstory_test", "nowhere")
    with pytest.raises(backstory.CannotOpen, match="does not exist"):
        backstory.open(url)


def test_an_address_that_libpq_cannot_read():
    for url in (
        "postgresql://localhost:port/x?nonsense=1",
        "postgresql://bob:s3cret%zz@h/x",
        "postgresql://[h/x",
    ):
        with pytest.raises(
            backstory.CannotOpen, match="this is no PostgreSQL address: write postgresql://"
        ) as error:
            backstory.open(url)
        assert "s3cret" not in str(error.value)


def test_a_wrong_password(new_database):
    """Whatever the server's rules for local connections are, a user who may not log in is told."""
    url = new_database()
    with psycopg.connect(postgres_server(), autocommit=True) as db:
        db.execute("CREATE ROLE backstory_guest NOLOGIN PASSWORD 'right'")
        try:
            with pytest.raises(
                backstory.CannotOpen, match=r"(?s)backstory_guest.*check .* user and password"
            ):
                backstory.open(
                    url.replace("postgres:@", "backstory_guest:wrong@").replace("user=postgres", "")
                )
        finally:
            db.execute("DROP ROLE backstory_guest")


def test_a_role_that_owns_the_schema_needs_no_more_rights(new_database):
    url = new_database()
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("DROP ROLE IF EXISTS backstory_owner")
        db.execute("CREATE ROLE backstory_owner LOGIN; CREATE SCHEMA backstory AUTHORIZATION backstory_owner")
        db.execute(f"REVOKE CREATE ON DATABASE {database_of(url)} FROM PUBLIC")
    owned = urlsplit(url)._replace(netloc="backstory_owner@").geturl()
    with backstory.open(owned) as store:
        store.start("main").user("x")


def test_a_server_whose_default_isolation_is_strict_makes_no_difference(new_database):
    url = new_database()
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"ALTER DATABASE {database_of(url)} SET default_transaction_isolation = 'serializable'")
    with backstory.open(url) as store:
        agent = store.start("main")
        in_threads(lambda nth: [agent.user(f"{nth}-{n}") for n in range(20)], 4)
        assert agent.head == 80


def test_a_store_works_with_file_numbers_above_a_thousand(new_database):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    try:
        with backstory.open(new_database()) as store:
            assert store.start("main").user("x").seq == 1
    finally:
        for number in opened:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_read_that_loses_its_connection_is_repeated(new_database):
    url = new_database()
    with backstory.open(url) as store:
        agent = store.start("main")
        agent.user("x")

        def lose():
            with psycopg.connect(postgres_server(), autocommit=True) as db:
                active = "FROM pg_stat_activity WHERE datname = %s AND state = 'active'"
                ended = db.execute(f"SELECT pg_terminate_backend(pid) {active}", (database_of(url),))
                assert ended.rowcount == 1

        slow_at_first = (
            "SELECT pg_sleep(CASE WHEN clock_timestamp() < %(until)s THEN 5 ELSE 0 END) IS NULL, 1"
        )
        killer = threading.Timer(0.3, lose)
        killer.start()
        until = datetime.now(UTC) + timedelta(seconds=0.2)
        assert store._backend._query(slow_at_first, {"until": until}) == [(False, 1)]
        killer.join()


def test_a_statement_that_took_too_long_was_not_written(new_database):
    url = new_database()
    with backstory.open(url + "&options=-c%20statement_timeout%3D300") as store:
        agent = store.start("main")
        with psycopg.connect(url) as db:
            db.execute("SELECT * FROM backstory.agents FOR UPDATE")
            with pytest.raises(backstory.StorageError, match="statement timeout") as error:
                agent.user("x")
        assert type(error.value) is backstory.StorageError
        assert agent.events() == []


def test_a_newer_postgres_store_is_refused(new_database):
    url = new_database()
    backstory.open(url).close()
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("UPDATE backstory.meta SET version = 99")
    with pytest.raises(backstory.NewerVersion, match=r"has version 99 .* upgrade backstory"):
        backstory.open(url)


def test_an_older_postgres_store_is_migrated_in_a_transaction(new_database, monkeypatch):
    url = new_database()
    with backstory.open(url) as store:
        store.start("main").user("kept")
    first = opening_postgres.MIGRATIONS
    with monkeypatch.context() as patch:
        patch.setattr(opening_postgres, "MIGRATIONS", (*first, "CREATE TABLE added (x int); SELECT nowhere"))
        with pytest.raises(backstory.StorageError, match="nowhere"):
            backstory.open(url)
    monkeypatch.setattr(opening_postgres, "MIGRATIONS", (*first, "CREATE TABLE added (x int)"))
    with backstory.open(url) as store:
        assert store.agent("main").events()[0].content == "kept"
    with psycopg.connect(url) as db:
        assert db.execute("SELECT version FROM backstory.meta").fetchall() == [(2,)]


def test_a_database_in_another_encoding_is_refused(new_database):
    url = new_database()
    name = database_of(url)
    with psycopg.connect(postgres_server(), autocommit=True) as db:
        db.execute(f"DROP DATABASE {name}")
        db.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(backstory.CannotOpen, match="is not in UTF-8: create one with ENCODING 'UTF8'"):
        backstory.open(url)


def test_a_database_that_may_only_be_read(new_database):
    url = new_database()
    with backstory.open(url) as store:
        store.start("main")
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"ALTER DATABASE {database_of(url)} SET default_transaction_read_only = on")
    with backstory.open(url) as store:
        with pytest.raises(backstory.ReadOnly, match="cannot be written"):
            store.agent("main").user("x")
        assert store.agent("main").context().messages == []


def test_the_databases_own_message_reaches_the_caller(new_database):
    url = new_database()
    with backstory.open(url) as store:
        agent = store.start("main")
        with psycopg.connect(url, autocommit=True) as db:
            db.execute("ALTER TABLE backstory.events RENAME TO gone")
        with pytest.raises(backstory.StorageError, match='relation "events" does not exist'):
            agent.context()


def test_a_store_outlives_its_connections(new_database):
    """A server that was restarted closes idle connections: the next call takes a new one."""
    url = new_database()
    with backstory.open(url) as store:
        agent = store.start("main")
        agent.user("before")
        with psycopg.connect(postgres_server(), autocommit=True) as db:
            here = "FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'"
            name = (database_of(url),)
            assert db.execute(f"SELECT pg_terminate_backend(pid) {here}", name).rowcount > 0
            while db.execute(f"SELECT pid {here}", name).fetchall():
                time.sleep(0.01)
        agent.user("after")
        assert [event.content for event in agent.events()] == ["before", "after"]


def test_many_may_open_a_new_store_at_once(durable_url):
    """The first one makes it; nobody sees it half made."""

    def work(nth):
        with backstory.open(durable_url) as store:
            store.start(f"agent-{nth}").user("x")

    in_threads(work, 8)
    with backstory.open(durable_url) as store:
        assert len(store.agents()) == 8
