"""Stores that older versions wrote are opened, migrated and read without loss."""

import json
import shutil
import threading
from contextlib import closing
from pathlib import Path

import apsw
import psycopg
import pytest

import backstory
from backstory.storage.postgres import migrations
from backstory.storage.protocol import AgentQuery
from backstory.storage.sqlite import migrations as sqlite_migrations
from tests.processes import wait_until

FIXTURES = Path(__file__).parents[1] / "fixtures"


def expected(name):
    wanted = json.loads((FIXTURES / f"{name}.json").read_text())
    for agent in wanted.values():
        for _, _, _, data, _ in agent["events"]:
            drop_erased_digests(data)
    return wanted


def drop_erased_digests(data):
    """The data of an event. Of erased ones, without the digests, which the migration replaces."""
    if data and "erased" in data:
        data["erased"] |= {"content": None, "data": None}
    return data


def found(store):
    return {
        agent.id: {
            "name": agent.name,
            "session": agent.session,
            "parent": agent.parent,
            "fork_seq": agent.fork_seq,
            "born_seq": agent.born_seq,
            "spawned": agent.spawned,
            "head": agent.head,
            "events": [
                [e.seq, e.kind, e.content, drop_erased_digests(e.data), e.created_us]
                for e in agent.events()
            ],
            "live": [event.seq for event in agent.context().messages],
        }
        for agent in store.agents()
    }


OLDER_STORES = (
    "store-1.sqlite",
    "store-2.sqlite",
    "store-3.sqlite",
    "store-1.postgres",
    "store-2.postgres",
)


@pytest.fixture
def copy_store(tmp_path, new_database):
    """Return the address of a copy of a store as an older version left it."""

    def copy(name):
        if name.endswith(".sqlite"):
            path = tmp_path / "older.db"
            shutil.copy(FIXTURES / name, path)
            return str(path)
        url = new_database(plain=True)
        with psycopg.connect(url, autocommit=True) as db:
            db.execute((FIXTURES / f"{name}.sql").read_text())
        return url

    return copy


@pytest.fixture(params=OLDER_STORES)
def older_store(request, copy_store):
    """The address of an older store, and what is in it."""
    return copy_store(request.param), expected(request.param)


def test_an_older_store_is_migrated_and_sound(older_store):
    url, wanted = older_store
    with backstory.open(url) as store:
        assert found(store) == wanted
        assert store.verify() == []


def test_an_older_store_can_be_written_to(older_store):
    url, wanted = older_store
    with backstory.open(url) as store:
        for id in wanted:
            store.agent(id).user("And on it goes.")
        assert store.verify() == []
    with backstory.open(url) as again:
        assert {id: agent["head"] for id, agent in found(again).items()} == {
            id: agent["head"] + 1 for id, agent in wanted.items()
        }


FILE_DIGEST = "a1" * 32
ADD_DIGEST = f"""
    SET data = '{{"file":{{"sha256":"{FILE_DIGEST}"}}}}'
    WHERE kind = 'user' AND data IS NULL AND content IS NOT NULL"""


def execute(url, sql):
    if url.endswith(".db"):
        with closing(apsw.Connection(url)) as db:
            db.execute(sql.replace("backstory.", ""))
        return
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(sql)


def test_an_event_of_an_older_store_with_the_digest_of_a_file_is_sound_and_can_be_erased(
    older_store,
):
    url, wanted = older_store
    execute(url, f"UPDATE backstory.events {ADD_DIGEST}")
    erased = 0
    with backstory.open(url) as store:
        assert store.verify() == []
        for agent in map(store.agent, wanted):
            found = [event.seq for event in agent.events() if FILE_DIGEST in str(event.data)]
            erased += len(agent.erase(found, why="asked"))
            assert FILE_DIGEST not in str(agent.events())
        assert store.verify() == []
    assert erased > 0


@pytest.mark.parametrize(("name", "number"), [("store-3.sqlite", 9), ("store-2.postgres", 5)])
def test_the_number_of_a_row_named_slash_is_not_given_again(copy_store, name, number):
    with backstory.open(copy_store(name)) as store:
        new = store.agent("main").spawn("new")
        agents = store._backend.list_agents(AgentQuery(include_deleted=True))
        numbers = {agent.id: agent.pk for agent in agents}
        assert numbers[new.id] == number
        assert "/" not in {agent.name for agent in agents}


def test_a_published_store_can_be_migrated(copy_store):
    """Its table `meta` has no primary key, without which a publication refuses changes."""
    url = copy_store("store-2.postgres")
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE PUBLICATION everything FOR ALL TABLES")
    with backstory.open(url) as store:
        assert found(store) == expected("store-2.postgres")
        store.delete(store.start())


POSTGRES_STORES = ("store-1.postgres", "store-2.postgres")


@pytest.mark.parametrize("name", POSTGRES_STORES)
def test_a_migration_that_fails_changes_nothing(copy_store, monkeypatch, name):
    url = copy_store(name)
    before = describe_schema(url)
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "ADD_SALTS", "SELECT nowhere")
        with pytest.raises(backstory.StorageError, match="nowhere"):
            backstory.open(url)
    assert describe_schema(url) == before
    with backstory.open(url) as store:
        assert found(store) == expected(name)


# Statements that describe the tables in the schema, their indexes and constraints, and the
# functions.
DESCRIPTIONS = (
    """
    SELECT c.relname, a.attnum, a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
        a.attnotnull, l.collname, pg_catalog.pg_get_expr(d.adbin, d.adrelid)
    FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
    LEFT JOIN pg_collation l ON l.oid = a.attcollation
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE c.relnamespace = 'backstory'::regnamespace AND c.relkind = 'r' AND a.attnum > 0
    ORDER BY 1, 2""",
    """
    SELECT c.relname, c.relkind, c.reloptions FROM pg_class c
    WHERE c.relnamespace = 'backstory'::regnamespace AND c.relkind <> 't' ORDER BY 1""",
    "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'backstory' ORDER BY 1",
    # The names of NOT NULL constraints, which new servers have, do not matter.
    """
    SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
    WHERE connamespace = 'backstory'::regnamespace AND contype <> 'n' ORDER BY 1, 2""",
    """
    SELECT proname, pg_get_functiondef(oid) FROM pg_proc
    WHERE pronamespace = 'backstory'::regnamespace ORDER BY 1""",
)


def describe_schema(url):
    """Everything that the schema of a store contains, apart from rows."""
    with psycopg.connect(url) as db:
        return [db.execute(sql).fetchall() for sql in DESCRIPTIONS]


@pytest.mark.parametrize("name", POSTGRES_STORES)
def test_a_migrated_store_has_the_schema_of_a_new_one(copy_store, new_database, name):
    migrated, new = copy_store(name), new_database(plain=True)
    for url in (migrated, new):
        backstory.open(url).close()
    assert describe_schema(migrated) == describe_schema(new)


SQLITE_STORES = ("store-1.sqlite", "store-2.sqlite", "store-3.sqlite")
# Every column, and every index and trigger.
COLUMNS = """
    SELECT t.name, t.strict, t.wr, c.* FROM pragma_table_list t, pragma_table_xinfo(t.name) c
    WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite_%' ORDER BY t.name, c.cid"""
OBJECTS = """
    SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE type <> 'table' ORDER BY 1, 2"""
KEYS = """
    SELECT t.name, k.* FROM pragma_table_list t, pragma_foreign_key_list(t.name) k
    ORDER BY t.name, k."from\""""


def describe_file(path):
    """Everything that the schema of an SQLite store contains, apart from rows."""
    db = apsw.Connection(path)
    try:
        described = [db.execute(sql).fetchall() for sql in (COLUMNS, OBJECTS, KEYS)]
        return described, db.pragma("user_version")
    finally:
        db.close()


@pytest.mark.parametrize("name", SQLITE_STORES)
def test_a_migrated_file_has_the_schema_of_a_new_one(copy_store, tmp_path, name):
    migrated, new = copy_store(name), str(tmp_path / "new.db")
    for path in (migrated, new):
        backstory.open(path).close()
    assert describe_file(migrated) == describe_file(new)


@pytest.mark.parametrize("name", SQLITE_STORES)
def test_a_migration_of_a_file_that_fails_changes_nothing(copy_store, monkeypatch, name):
    path = copy_store(name)
    before = describe_file(path)
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_migrations, "SET_SALT", "UPDATE nowhere SET x = ?")
        with pytest.raises(backstory.StorageError, match="no such table: nowhere"):
            backstory.open(path)
    assert describe_file(path) == before
    with backstory.open(path) as store:
        assert found(store) == expected(name)


# Writes of a program of that version, which are under way when the store is opened.
LATE_WRITES = {
    "store-1.postgres": """
        UPDATE backstory.agents SET head = head + 1 WHERE parent IS NULL;
        INSERT INTO backstory.events (session, agent, seq, kind, content, created_at)
        SELECT session, no, head, 'user', 'late', updated_at
        FROM backstory.agents WHERE parent IS NULL""",
    "store-2.postgres": """
        INSERT INTO backstory.agents (
            place, no, parent, fork_seq, born_seq, created_at, updated_at, touched, head, spawned,
            id, session, name)
        SELECT place, 100, no, 0, 0, created_at, created_at, touched, 0, true,
            overlay(id::text PLACING '00000000-0000-7' FROM 1 FOR 15)::uuid, session, 'late'
        FROM backstory.agents WHERE id = session""",
}
WAITS_FOR_LOCK = """
    SELECT 1 FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock'"""


@pytest.mark.parametrize("name", POSTGRES_STORES)
def test_a_migration_waits_for_writes_under_way(copy_store, name):
    url = copy_store(name)
    opened = threading.Thread(target=lambda: backstory.open(url).close())
    with psycopg.connect(url) as writer, psycopg.connect(url, autocommit=True) as observer:
        writer.execute(LATE_WRITES[name])
        opened.start()
        wait_until(lambda: observer.execute(WAITS_FOR_LOCK).fetchall())
    opened.join()
    with backstory.open(url) as store:
        assert store.verify() == []
        if name == "store-1.postgres":
            roots = [agent for agent in store.agents() if agent.parent is None]
            assert {agent.events()[-1].content for agent in roots} == {"late"}
        else:
            assert "late" in {agent.name for agent in store.agents()}
