"""Files of SQLite stores that change, or fail, under an open store."""

import os

import apsw
import pytest

import backstory
from backstory.storage.sqlite import file as sqlite_file
from backstory.storage.sqlite.backend import SqliteBackend
from backstory.storage.sqlite.schema import PAGE_SIZE

# --- a sync that fails ---


class FailingFile(apsw.VFSFile):
    """A file that the operating system cannot sync, if its file system says so."""

    def __init__(self, system, name, flags):
        super().__init__("unix", name, flags)
        self._system = system
        self._is_log = bool(flags[0] & apsw.SQLITE_OPEN_WAL)

    def xSync(self, flags):
        if self._system.is_failing and self._is_log:
            raise apsw.IOError("disk I/O error")
        super().xSync(flags)


class FailingSystem(apsw.VFS):
    """A file system whose syncs of write-ahead logs can be made to fail."""

    def __init__(self):
        super().__init__("failing", "unix", makedefault=True)
        self.is_failing = False

    def xOpen(self, name, flags):
        return FailingFile(self, name, flags)


@pytest.fixture
def failing_system():
    system = FailingSystem()
    yield system
    system.unregister()


WRITES = {
    "append": lambda agent: agent.user("unknown"),
    "batch": lambda agent: agent.extend([("user", "a"), ("user", "b")]),
    "rewind": lambda agent: agent.rewind("here"),
    "fork": lambda agent: agent.fork(),
}


@pytest.mark.skipif(os.name == "nt", reason="the file system of the test is that of Unix")
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_after_a_sync_that_failed_the_outcome_is_unknown(tmp_path, failing_system, write):
    with backstory.open(tmp_path / "history.db") as store:
        agent = store.start("main")
        agent.mark("here")
        failing_system.is_failing = True
        with pytest.raises(backstory.ConnectionLost, match="may or may not have been written"):
            write(agent)
        failing_system.is_failing = False
        assert agent.user("now").seq == 2
        assert store.verify() == []


# --- a file that is truncated ---


def fill(agent):
    agent.extend([("user", "x" * 5_000)] * 200)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_file_that_is_truncated_under_an_open_store_takes_no_more_events(tmp_path, share):
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        agent = store.start("main")
        fill(agent)
        agent.user("not truncated yet")
        size = path.stat().st_size
        assert size > 1_000_000  # most pages are in the file, not in the log
        os.truncate(path, int(size * share) // PAGE_SIZE * PAGE_SIZE)
        for _ in range(2):
            with pytest.raises(backstory.Corrupt, match="was truncated while it was open"):
                agent.user("lost")


def test_a_truncation_after_the_last_write_is_noticed(tmp_path):
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        agent = store.start("main")
        agent.extend([("user", "x" * 5_000)] * 2_000)  # so many pages that they are in the file
        size = path.stat().st_size
        assert size > 8_000_000
        os.truncate(path, size // 2 // PAGE_SIZE * PAGE_SIZE)
        with pytest.raises(backstory.Corrupt, match="was truncated while it was open"):
            agent.user("lost")


def test_a_truncation_before_the_first_write_is_noticed(tmp_path):
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        agent_id = store.start("main").id
        fill(store.agent(agent_id))
    with backstory.open(path) as store:
        agent = store.agent(agent_id)
        os.truncate(path, path.stat().st_size // 2 // PAGE_SIZE * PAGE_SIZE)
        with pytest.raises(backstory.Corrupt, match="was truncated while it was open"):
            agent.user("lost")


def test_a_vacuum_by_another_program_is_not_taken_for_a_truncation(tmp_path):
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        agent = store.start("main")
        doomed = store.start("doomed")
        fill(doomed)
        store.delete(doomed)
        agent.user("before")
        size = path.stat().st_size
        db = apsw.Connection(str(path))
        db.execute("VACUUM")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        db.close()
        assert path.stat().st_size < size
        agent.user("after")
        assert [event.content for event in agent.events()] == ["before", "after"]


# --- a reader that cannot write ---


@pytest.fixture
def refuse_shared(monkeypatch):
    """Refuse to open files for reading with locks, as in a folder that cannot be written."""
    open_connection = sqlite_file.open_connection

    def refuse(mode, *others):
        if mode.flags & apsw.SQLITE_OPEN_READONLY and "immutable" not in mode.name:
            raise apsw.CantOpenError("unable to open database file")
        return open_connection(mode, *others)

    monkeypatch.setattr(sqlite_file, "open_connection", refuse)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        fill(store.ensure("k"))
    return path


def write_more(path, text="more"):
    with backstory.open(path) as store:
        store.agent(key="k").user(text)


def test_a_reader_without_locks_sees_what_is_written_afterwards(path, refuse_shared):
    with backstory.open(path, read_only=True) as reader:
        agent = reader.agent(key="k")
        assert agent.head == 200
        for head in (201, 202, 203):
            write_more(path)
            assert agent.head == head
            assert agent.messages(limit=1)[0].content == "more"
        assert reader.verify() == []


def test_a_reader_without_locks_opens_the_file_again_only_after_a_change(
    path, refuse_shared, monkeypatch
):
    opened = []
    open_connection = sqlite_file.open_connection

    def count_and_open(mode, *others):
        db = open_connection(mode, *others)
        opened.append(mode.is_immutable)
        return db

    monkeypatch.setattr(sqlite_file, "open_connection", count_and_open)
    with backstory.open(path, read_only=True) as reader:
        agent = reader.agent(key="k")
        for _ in range(3):
            assert len(agent.context().messages) == 200
        assert opened == [True]
        write_more(path)
        opened.clear()
        for _ in range(3):
            assert agent.head == 201
        assert opened == [True]


def test_a_reader_without_locks_is_refused_while_somebody_writes(path, refuse_shared):
    with backstory.open(path, read_only=True) as reader:
        agent = reader.agent(key="k")
        with backstory.open(path) as store:
            store.agent(key="k").user("more")
            with pytest.raises(backstory.ReadOnly, match=r"-wal.*which can only be read"):
                agent.messages()
        assert agent.head == 201


def test_a_reader_without_locks_reads_again_what_changed_meanwhile(
    path, refuse_shared, monkeypatch
):
    read_from_backend = SqliteBackend._read
    texts = ["first", "second"]

    def write_before_reading(backend, read):
        def write_and_read(db):
            if backend.read_only and texts:
                write_more(path, texts.pop(0))
            return read(db)

        return read_from_backend(backend, write_and_read)

    with backstory.open(path, read_only=True) as reader:
        agent = reader.agent(key="k")
        monkeypatch.setattr(SqliteBackend, "_read", write_before_reading)
        with pytest.raises(backstory.ReadOnly, match="is being written, and cannot be read"):
            agent.messages(limit=1)
        texts.append("third")
        assert agent.messages(limit=1)[0].content == "third"


def test_a_follower_without_locks_sees_what_is_written(path, refuse_shared):
    with backstory.open(path, read_only=True) as reader:
        with reader.agent(key="k").follow(timeout=20) as follower:
            write_more(path)
            assert next(follower).content == "more"


def test_a_reader_that_may_use_locks_now_uses_them(path, monkeypatch):
    with monkeypatch.context() as patched:
        open_connection = sqlite_file.open_connection

        def refuse(mode, *others):
            if "immutable" not in mode.name:
                raise apsw.CantOpenError("unable to open database file")
            return open_connection(mode, *others)

        patched.setattr(sqlite_file, "open_connection", refuse)
        reader = backstory.open(path, read_only=True)
    with reader, backstory.open(path) as store:
        for head in (201, 202):
            store.agent(key="k").user("more")
            assert reader.agent(key="k").head == head
