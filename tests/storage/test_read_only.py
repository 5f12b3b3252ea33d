"""Stores that can be read and not written: because someone asked for that, or because it is so."""

import asyncio
import io
import json
import os
import tempfile

import apsw
import psycopg
import pytest

import backstory
from backstory.storage.sqlite import file as sqlite_file

NOBODY = 65_534


@pytest.fixture
def filled(durable_url):
    """The address of a store with a conversation, a fork and a dead end."""
    with backstory.open(durable_url) as store:
        agent = store.ensure("k", name="main", system="Be careful.")
        agent.user("apple and pear")
        agent.mark("here")
        agent.user("apple pie")
        agent.rewind()
        agent.fork("fork").user("only pears")
    return durable_url


def read_everything(store):
    """What a store can be asked without writing."""
    agent = store.agent(key="k")
    exported = io.StringIO()
    return (
        [one.name for one in store.agents()],
        [session.events for session in store.sessions()],
        [event.content for event in agent.context().messages],
        sorted((hit.agent.name, hit.event.seq, hit.live) for hit in store.search("apple")),
        [hit.event.seq for hit in store.search("apple", agent="fork", live=True)],
        [hit.event.kind for hit in store.search("here", kinds=["mark"])],
        store.export_to(exported),
        exported.getvalue(),
        store.stats().events,
        store.seal(),
        store.verify(),
        agent.erase([2], why="asked", dry_run=True),
        store.delete(agent, below=True, dry_run=True),
    )


def test_a_read_only_store_answers_all_reads_and_refuses_writes(filled):
    with backstory.open(filled, read_only=True) as store:
        assert store.read_only
        unindexed = read_everything(store)
        agent = store.agent(key="k")
        for write in (
            lambda: agent.user("more"),
            lambda: agent.append("user", "more", key="k"),
            agent.undo,
            agent.fork,
            lambda: agent.rename("another"),
            lambda: agent.describe(title="x"),
            lambda: agent.erase([1], why="asked"),
            lambda: store.delete("fork"),
            lambda: store.start("another"),
            lambda: store.ensure("another"),
            lambda: store.import_from(unindexed[7].splitlines()),
        ):
            with pytest.raises(backstory.ReadOnly, match="open for reading only: "):
                write()
        assert read_everything(store) == unindexed
    with backstory.open(filled) as store:
        assert not store.read_only
        assert read_everything(store) == unindexed
    with backstory.open(filled, read_only=True) as store:
        assert read_everything(store) == unindexed


def test_a_search_without_an_index_is_logged(filled, caplog):
    with backstory.open(filled, read_only=True) as store:
        assert len(store.search("apple")) == 2
    assert "searched without an index" in caplog.text
    caplog.clear()
    with backstory.open(filled) as store:
        store.search("apple")
    with backstory.open(filled, read_only=True) as store:
        assert len(store.search("apple")) == 2
    assert caplog.text == ""


def test_the_index_is_used_if_it_has_all_that_is_searched(filled, caplog):
    with backstory.open(filled) as store:
        store.search("apple")
        store.start("later").user("apple")
    with backstory.open(filled, read_only=True) as store:
        assert len(store.search("apple", session="main")) == 2
        assert len(store.search("apple", agent="main")) == 2
        assert caplog.text == ""
        assert len(store.search("apple", session="later")) == 1
        assert len(store.search("apple")) == 3
    assert "searched without an index" in caplog.text


def test_a_reader_sees_what_others_write(filled):
    with backstory.open(filled) as writer, backstory.open(filled, read_only=True) as reader:
        writer.agent(key="k").user("banana")
        assert reader.agent(key="k").messages(limit=1)[0].content == "banana"
        assert [hit.event.content for hit in reader.search("banana")] == ["banana"]
        with reader.follow(timeout=0) as follower:
            writer.agent(key="k").user("cherry")
            assert [event.content for _, event in follower] == ["cherry"]


def test_async_callers_can_ask_for_it_too(filled):
    async def read():
        async with backstory.aio.open(filled, read_only=True) as store:
            assert store.read_only
            with pytest.raises(backstory.ReadOnly):
                await store.start("another")
            return len(await store.agents())

    assert asyncio.run(read()) == 2


def test_a_store_that_is_not_there_is_not_made(durable_url, tmp_path):
    with pytest.raises(backstory.CannotOpen, match="no store at"):
        backstory.open(durable_url, read_only=True)
    assert list(tmp_path.glob("*.db*")) == []
    with pytest.raises(backstory.CannotOpen, match="begins empty"):
        backstory.open(":memory:", read_only=True)


def test_an_empty_file_and_a_file_of_another_program_are_no_stores(tmp_path):
    (tmp_path / "empty.db").touch()
    with pytest.raises(backstory.CannotOpen, match="is an empty file, not a store"):
        backstory.open(tmp_path / "empty.db", read_only=True)
    (tmp_path / "text.db").write_text("something else entirely " * 100)
    with pytest.raises(backstory.CannotOpen, match="not an SQLite database"):
        backstory.open(tmp_path / "text.db", read_only=True)


def test_a_read_only_older_store_is_refused(tmp_path):
    from tests.storage.test_older_stores import FIXTURES

    path = tmp_path / "old.db"
    path.write_bytes((FIXTURES / "store-1.sqlite").read_bytes())
    with pytest.raises(backstory.ReadOnly, match="has to be migrated"):
        backstory.open(path, read_only=True)
    assert sqlite_file.identify_file(str(path)) is not None


def as_nobody(work):
    """What a function returns that is run by someone without any rights: for root, no file is read-only."""
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setegid(NOBODY)
            os.seteuid(NOBODY)
            said = work()
        except BaseException as error:
            said = repr(error)
        os.write(writes, json.dumps(said).encode())
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as answer:
        said = json.load(answer)
    os.waitpid(child, 0)
    return said


@pytest.mark.skipif(getattr(os, "geteuid", int)() != 0, reason="only root can become someone else")
@pytest.mark.parametrize("is_open", [False, True])
def test_a_file_in_a_folder_that_cannot_be_written_is_opened_for_reading(is_open):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = os.path.join(folder, "history.db")
        store = backstory.open(path)
        store.ensure("k").user("apple")
        if not is_open:
            store.close()
        for name in os.listdir(folder):
            os.chmod(os.path.join(folder, name), 0o644)

        def read():
            with backstory.open(path) as reader:
                agent = reader.agent(key="k")
                with pytest.raises(backstory.ReadOnly) as error:
                    agent.user("more")
                hits = len(reader.search("apple"))
                return [
                    reader.read_only,
                    agent.events([1])[0].content,
                    hits,
                    reader.verify(),
                    str(error.value),
                ]

        said = as_nobody(read)
        store.close()
    assert said[:4] == [True, "apple", 1, []], said
    assert "is open for reading only: get permission to write it" in said[4]


def test_a_log_beside_a_file_that_cannot_be_shared_is_not_passed_over(tmp_path, monkeypatch):
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        store.ensure("k").user("apple")
        open_connection = sqlite_file.open_connection

        def refuse_shared(mode, *others):
            if "immutable" not in mode.name:
                raise apsw.CantOpenError("unable to open database file")
            return open_connection(mode, *others)

        monkeypatch.setattr(sqlite_file, "open_connection", refuse_shared)
        with pytest.raises(backstory.ReadOnly, match="-wal"):
            backstory.open(path, read_only=True)
    with backstory.open(path, read_only=True) as store:  # now the log is empty, and nobody writes
        assert [event.content for event in store.agent(key="k").events()] == ["apple"]
        assert len(store.search("apple")) == 1


def test_a_postgres_user_without_write_permission_reads(new_database):
    url = new_database()
    with backstory.open(url) as store:
        store.ensure("k").user("apple")
    with psycopg.connect(url, autocommit=True) as db:
        name = f"reader_{os.getpid()}"
        db.execute(f"CREATE ROLE {name} LOGIN")  # which the workers of a cluster ask for
        db.execute(f"GRANT USAGE ON SCHEMA backstory TO {name}")
        db.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA backstory TO {name}")
        try:
            glue = "&" if "?" in url else "?"
            with backstory.open(f"{url}{glue}options=-c%20role%3D{name}") as store:
                assert store.read_only
                assert len(store.search("apple")) == 1
                with pytest.raises(backstory.ReadOnly, match="permission"):
                    store.agent(key="k").user("more")
        finally:
            db.execute(f"DROP OWNED BY {name}")
            db.execute(f"DROP ROLE {name}")
