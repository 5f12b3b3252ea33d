"""Opening a store on a PostgreSQL server: addresses, rights, versions, and connections that are lost."""

import os
import resource
import socket
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import psycopg
import pytest

import backstory
from backstory.storage.ids import parse_place
from backstory.storage.postgres import schema
from backstory.storage.postgres.writer import PostgresWriter
from tests import databases
from tests.processes import wait_until
from tests.threads import in_threads

HOLD = "SELECT 1 FROM backstory.agents WHERE place = %s FOR UPDATE"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def database_of(url):
    return urlsplit(url).path.removeprefix("/")


def test_no_server_at_the_address():
    with pytest.raises(
        backstory.CannotOpen,
        match=r"(?s)refused.*check the address, the user and the password, and that the server is up",
    ):
        backstory.open(f"postgresql://someone:secret@127.0.0.1:{free_port()}/x?connect_timeout=3")


def test_a_password_is_never_repeated():
    with pytest.raises(backstory.CannotOpen) as error:
        backstory.open(f"postgresql://someone:secret@127.0.0.1:{free_port()}/x")
    assert "secret" not in str(error.value)


def test_the_address_of_a_store_is_shown_without_its_passwords(new_database):
    url = new_database()
    with backstory.open(databases.with_parameter(url, "sslpassword=s3cret")) as store:
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
            backstory.CannotOpen, match="this is not a PostgreSQL address: write postgresql://"
        ) as error:
            backstory.open(url)
        assert "s3cret" not in str(error.value)


@pytest.fixture
def role():
    """A role of the server's, which belongs to one test alone."""
    name = f"backstory_guest_{os.getpid()}"
    with psycopg.connect(databases.server(), autocommit=True) as db:
        db.execute(f"CREATE ROLE {name}")
        yield name
        db.execute(f"DROP ROLE {name}")


def as_role(url, role):
    place = urlsplit(url)
    return place._replace(netloc=f"{role}@{place.netloc.rpartition('@')[2]}").geturl()


def test_a_wrong_password(role, new_database):
    """Whatever the server's rules for local connections are, a user who may not log in is told."""
    with pytest.raises(
        backstory.CannotOpen, match=rf"(?s){role}.*check .* the user and the password"
    ):
        backstory.open(as_role(new_database(), f"{role}:wrong"))


def test_a_role_that_owns_the_schema_needs_no_more_rights(role, new_database):
    url = new_database()
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"ALTER ROLE {role} LOGIN; CREATE SCHEMA backstory AUTHORIZATION {role}")
        db.execute(f"REVOKE CREATE ON DATABASE {database_of(url)} FROM PUBLIC")
    with backstory.open(as_role(url, role)) as store:
        assert store.start("main").user("x").seq == 1


def test_a_server_whose_default_isolation_is_strict_makes_no_difference(new_database):
    url = new_database(plain=True)  # docs/scale.md: the workers of a cluster must not be
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(
            f"ALTER DATABASE {database_of(url)} SET default_transaction_isolation = 'serializable'"
        )
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
            asleep = "FROM pg_stat_activity WHERE datname = %s AND wait_event = 'PgSleep'"
            with psycopg.connect(databases.server(), autocommit=True) as db:
                end = (f"SELECT pg_terminate_backend(pid) {asleep}", (database_of(url),))
                wait_until(lambda: db.execute(*end).rowcount == 1)

        with psycopg.connect(url, autocommit=True) as db:
            db.execute(
                "CREATE SEQUENCE tries"
            )  # counts, even in transactions that were rolled back
        slow_at_first = (
            "SELECT pg_sleep(CASE nextval('public.tries') WHEN 1 THEN 3600 ELSE 0 END) IS NULL, "
            "currval('public.tries')"
        )
        with ThreadPoolExecutor(1) as pool:
            lost = pool.submit(lose)
            assert store._backend._run(slow_at_first) == [(False, 2)]
            lost.result()


def test_a_statement_that_took_too_long_was_not_written(new_database):
    url = new_database()
    backstory.open(url).close()  # on a cluster, creating the tables takes longer
    with backstory.open(
        databases.with_parameter(url, "options=-c%20statement_timeout%3D300")
    ) as store:
        agent = store.start("main")
        with psycopg.connect(url) as db:
            db.execute(HOLD, (parse_place(agent.session),))
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


WITHOUT_PRIMARY_KEY = """
    SELECT c.relname FROM pg_class c
    WHERE c.relnamespace = 'backstory'::regnamespace AND c.relkind = 'r' AND NOT EXISTS (
        SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)"""


def test_a_publication_of_all_tables_does_not_stop_a_store(new_database):
    url = new_database(plain=True)
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE PUBLICATION everything FOR ALL TABLES")
    with backstory.open(url) as store:
        store.start("main").user("needle")
        assert len(store.search("needle")) == 1
        store.delete(store.start())
    with psycopg.connect(url) as db:
        assert db.execute(WITHOUT_PRIMARY_KEY).fetchall() == []


TABLES_WITHOUT_PRIMARY_KEY = """
    SELECT c.relname FROM pg_class c
    WHERE c.relnamespace = 'backstory'::regnamespace AND c.relkind IN ('r', 'p') AND NOT EXISTS (
        SELECT 1 FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary)"""


def test_every_table_has_a_primary_key(new_database):
    url = new_database(plain=True)
    with backstory.open(url) as store, psycopg.connect(url) as db:
        store.start().user("hello")
        store.search("hello")  # creates the search index
        assert db.execute(TABLES_WITHOUT_PRIMARY_KEY).fetchall() == []


def test_a_database_in_another_encoding_is_refused(new_database):
    url = new_database()
    name = database_of(url)
    with psycopg.connect(databases.server(), autocommit=True) as db:
        db.execute(f"DROP DATABASE {name} WITH (FORCE)")  # Citus may still have a process there
        db.execute(f"CREATE DATABASE {name} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(
        backstory.CannotOpen, match="is not in UTF-8: create one with ENCODING 'UTF8'"
    ):
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
        with pytest.raises(
            backstory.StorageError, match=r'relation "backstory\.events" does not exist'
        ):
            agent.context()


def test_a_store_outlives_its_connections(new_database):
    """A server that was restarted closes idle connections: the next call takes a new one."""
    url = new_database()
    with backstory.open(url) as store:
        agent = store.start("main")
        agent.user("before")
        with psycopg.connect(databases.server(), autocommit=True) as db:
            here = "FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'"
            name = (database_of(url),)
            assert db.execute(f"SELECT pg_terminate_backend(pid) {here}", name).rowcount > 0
            wait_until(lambda: not db.execute(f"SELECT pid {here}", name).fetchall())
        agent.user("after")
        assert [event.content for event in agent.events()] == ["before", "after"]


@pytest.fixture
def shared(new_database):
    """A database of three users: an address for one of them, a superuser's connection, and the names of the
    other two. Both may create schemas."""
    url = new_database()
    user, stranger, owner = (f"{name}_{os.getpid()}" for name in ("user", "stranger", "owner"))
    with psycopg.connect(url, autocommit=True) as db:
        for name in (user, stranger, owner):
            db.execute(
                f"CREATE ROLE {name} LOGIN; GRANT CREATE ON DATABASE {db.info.dbname} TO {name}"
            )
        yield databases.with_parameter(url, f"options=-c%20role%3D{user}"), db, stranger, owner
        db.execute(f"RESET ROLE; ALTER DATABASE {db.info.dbname} OWNER TO {db.info.user}")
        for name in (user, stranger, owner):
            db.execute(f"DROP OWNED BY {name} CASCADE; DROP ROLE {name}")


TRAP = """
    SET ROLE {stranger};
    CREATE SCHEMA backstory;
    GRANT ALL ON SCHEMA backstory TO PUBLIC;
    CREATE TABLE backstory.trapped (who text);
    CREATE FUNCTION backstory.trap() RETURNS int LANGUAGE plpgsql SECURITY INVOKER AS $$
        BEGIN INSERT INTO backstory.trapped VALUES (current_user); RETURN 2; END $$;
    CREATE VIEW backstory.meta AS SELECT backstory.trap() AS version;
    GRANT ALL ON ALL TABLES IN SCHEMA backstory TO PUBLIC;
    RESET ROLE"""
TRAPPED = "SELECT who FROM backstory.trapped"


def test_a_schema_of_someone_else_is_not_trusted(shared):
    url, db, stranger, _ = shared
    db.execute(TRAP.format(stranger=stranger))
    for read_only in (False, True):
        with pytest.raises(backstory.CannotOpen, match=f"belongs to '{stranger}'"):
            backstory.open(url, read_only=read_only)
    assert db.execute(TRAPPED).fetchall() == []


def test_a_schema_that_someone_else_makes_in_the_meantime_is_not_trusted(shared):
    url, db, stranger, _ = shared
    with psycopg.connect(db.info.dsn) as migrating, ThreadPoolExecutor(1) as pool:
        migrating.execute(schema.LOCK_STORE)
        opened = pool.submit(backstory.open, url)
        wait_until(lambda: db.execute("SELECT 1 FROM pg_locks WHERE NOT granted").fetchall())
        db.execute(TRAP.format(stranger=stranger))
        migrating.rollback()
        with pytest.raises(backstory.CannotOpen, match=f"belongs to '{stranger}'"):
            opened.result()
    assert db.execute(TRAPPED).fetchall() == []


@pytest.mark.parametrize("trusted", ["superuser", "owner of the database"])
def test_a_schema_of_someone_who_can_do_anything_is_trusted(shared, trusted):
    url, db, _, owner = shared
    db.execute(f"ALTER DATABASE {db.info.dbname} OWNER TO {owner}")
    if trusted == "owner of the database":
        db.execute(f"SET ROLE {owner}")
    db.execute("CREATE SCHEMA backstory; GRANT ALL ON SCHEMA backstory TO PUBLIC")
    with backstory.open(url) as store:
        assert store.start("main").user("x").seq == 1


@pytest.mark.parametrize(
    "change", ["DELETE FROM backstory.meta", "INSERT INTO backstory.meta VALUES (2)"]
)
def test_a_version_table_with_no_row_or_two_is_reported(empty_database, change):
    url = empty_database()
    backstory.open(url).close()
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(change)
    with pytest.raises(backstory.CannotOpen, match="rows instead of one"):
        backstory.open(url)


WAITING_CALLS = {
    "an append": lambda store, agent: agent.user("waits"),
    "a batch": lambda store, agent: agent.extend(
        [("user", "waits", None), ("user", "waits", None)]
    ),
    "a fork": lambda store, agent: agent.fork(),
    "a move": lambda store, agent: agent.jump(1),
    "a name": lambda store, agent: agent.rename("other"),
    "a title": lambda store, agent: agent.describe(title="other"),
    "an erasure": lambda store, agent: agent.erase([1], why="asked"),
    "a deletion": lambda store, agent: store.delete(agent),
}


@pytest.mark.parametrize("call", WAITING_CALLS.values(), ids=WAITING_CALLS)
def test_an_idle_transaction_blocks_nobody_for_ever(empty_database, call):
    url = empty_database()
    with backstory.open(url, timeout=2) as store, psycopg.connect(url) as idle:
        agent = store.start("main")
        agent.user("there")
        idle.execute(HOLD, (parse_place(agent.session),))
        with pytest.raises(backstory.Busy, match="has held a lock"):
            call(store, agent)
        idle.rollback()
        assert agent.user("goes on").seq == 2


@pytest.mark.parametrize(("timeout", "limit"), [(1, "900ms"), (10, "9s"), (60, "55s")])
def test_a_lock_is_waited_for_nearly_as_long_as_a_call_may_take(empty_database, timeout, limit):
    with backstory.open(empty_database(), timeout=timeout) as store:
        assert store._backend._run("SHOW lock_timeout") == [(limit,)]


INDEXES = """
    SELECT c.relname, i.indrelid::regclass::text, o.oid IS NOT NULL
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
    LEFT JOIN pg_constraint o ON o.conindid = i.indexrelid AND o.contype IN ('p', 'u')
    WHERE c.relnamespace = 'backstory'::regnamespace"""


def drop_indexes(url):
    """Drop all indexes of a store, and return their names."""
    with psycopg.connect(url, autocommit=True) as db:
        found = db.execute(INDEXES).fetchall()
        for name, table, is_constraint in found:
            if is_constraint:
                db.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name} CASCADE")
            else:
                db.execute(f"DROP INDEX backstory.{name}")
    return [name for name, _, _ in found]


@pytest.mark.parametrize("is_searched", [False, True])
def test_every_index_that_is_gone_is_found(empty_database, is_searched):
    url = empty_database()
    with backstory.open(url) as store:
        store.start("main").user("needle")
        if is_searched:
            store.search("needle")
        assert store.verify() == []
        gone = drop_indexes(url)
        assert [finding.problem for finding in store.verify()] == [
            *(f"the index {name} is missing" for name in sorted(gone)),
            "the foreign key agents_parent_fkey is missing",  # it needs the primary key
        ]


def test_an_index_that_could_not_be_made_is_missing(new_database):
    """As CREATE INDEX CONCURRENTLY leaves it if it fails: it is there, and the server does not use it."""
    url = new_database(plain=True)
    with backstory.open(url) as store, psycopg.connect(url, autocommit=True) as db:
        name = "'backstory.agents_name'::regclass"
        db.execute(f"UPDATE pg_index SET indisvalid = false WHERE indexrelid = {name}")
        assert [finding.problem for finding in store.verify()] == [
            "the index agents_name is missing"
        ]


@pytest.mark.parametrize("damage", ["DELETE FROM {}", "UPDATE {} SET last_no = 0"])
def test_verify_finds_a_number_that_would_be_given_again(new_database, damage):
    url = new_database(plain=True)
    with backstory.open(url) as store, psycopg.connect(url, autocommit=True) as db:
        place = parse_place(store.start("main").id)
        db.execute(damage.format("backstory.places"))
        [finding] = store.verify()
    assert finding.problem == f"1 agents have numbers that were not given, first place {place}"


def test_a_key_of_an_agent_that_is_gone_is_found_and_is_not_tried_for_ever(
    empty_database, monkeypatch
):
    tries = []
    insert = PostgresWriter.insert_agent

    def insert_and_count(*args):
        tries.append(args)
        return insert(*args)

    monkeypatch.setattr(PostgresWriter, "insert_agent", insert_and_count)
    url = empty_database()
    with backstory.open(url) as store, psycopg.connect(url, autocommit=True) as db:
        gone = store.ensure("k")
        db.execute("DELETE FROM backstory.agents")
        with pytest.raises(backstory.StorageError) as caught:
            store.ensure("k")
        assert type(caught.value) is backstory.StorageError
        assert "cannot create the agent 'k'" in str(caught.value)
        assert "verify() shows what it is" in str(caught.value)
        assert "_pkey" not in str(caught.value)
        assert len(tries) == 1 + 100  # the first one was there
        [finding] = store.verify()
        assert finding.problem == f"the directory has the agent {gone.id}, which does not exist"
