"""A write-ahead log that belongs to another file is noticed, and no other log is refused.

A copy of the file and its log, taken while a store is open, is what a crash leaves behind.
"""

import random
import shutil
from contextlib import closing

import apsw
import pytest

import backstory
from backstory.storage.sqlite.file import CHECKPOINT_PAGES

FOREIGN = "contains changes to another file"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "history.db"


def crash(path, to):
    """Copy a store as a crash would leave it. Return the path of the copy."""
    to.mkdir(exist_ok=True)
    for end in ("", "-wal"):
        shutil.copyfile(f"{path}{end}", to / f"{path.name}{end}")
    return to / path.name


def checkpoint(path, mode="PASSIVE"):
    """Write the log into the file, as Litestream or sqlite3 may do at any time."""
    with closing(apsw.Connection(str(path))) as db:
        db.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()


def write_many(agent):
    """Write so much that SQLite writes the log into the file, more than once."""
    for _ in range(3):
        agent.extend([("user", "x" * 8_000, None)] * CHECKPOINT_PAGES)


def test_a_backup_that_is_copied_over_a_crashed_store_is_refused(path, tmp_path):
    with backstory.open(path) as store:
        agent = store.start("main")
        agent.user("before")
        store.backup(tmp_path / "backup.db")
        agent.user("after")
        crashed = crash(path, tmp_path / "crash")
    shutil.copyfile(tmp_path / "backup.db", crashed)
    log = (crashed.parent / "history.db-wal").read_bytes()
    for read_only in (False, True):
        with pytest.raises(backstory.CannotOpen, match=FOREIGN):
            backstory.open(crashed, read_only=read_only)
    assert crashed.read_bytes() == (tmp_path / "backup.db").read_bytes()
    assert (crashed.parent / "history.db-wal").read_bytes() == log
    (crashed.parent / "history.db-wal").unlink()
    (crashed.parent / "history.db-shm").unlink(missing_ok=True)
    with backstory.open(crashed) as store:
        assert [event.content for event in store.agent("main").events()] == ["before"]


def test_a_plain_copy_of_an_earlier_file_is_refused(path, tmp_path):
    with backstory.open(path) as store:
        store.start("main").user("one")
    shutil.copyfile(path, tmp_path / "copy.db")
    for text in ("two", "three"):
        with backstory.open(path) as store:
            store.agent("main").user(text)
    with backstory.open(path) as store:
        store.agent("main").user("four")
        crashed = crash(path, tmp_path / "crash")
    shutil.copyfile(tmp_path / "copy.db", crashed)
    with pytest.raises(backstory.CannotOpen, match=FOREIGN):
        backstory.open(crashed)


OVERWRITTEN = "was overwritten with another file while it was open; nothing was written"


def overwrite(store, path, copy):
    """Copy an older file over that of an open store. Return the log as it was."""
    assert copy.stat().st_size == path.stat().st_size  # otherwise `check_file` may notice it
    shutil.copyfile(copy, path)
    return path.with_name("history.db-wal").read_bytes()


@pytest.fixture(params=["copy", "backup"])
def older(request, path, tmp_path):
    """Return an older file of a store."""
    copy = tmp_path / "copy.db"
    with backstory.open(path) as store:
        agent = store.start("main")
        write_many(agent)
        if request.param == "backup":
            store.backup(copy)
    if request.param == "copy":
        shutil.copyfile(path, copy)
    with backstory.open(path) as store:
        store.agent("main").user("in the file")
    return copy


@pytest.mark.parametrize("ends", ["append", "close", "delete"])
def test_a_file_that_is_copied_over_an_open_store_gets_nothing_of_the_log(path, older, ends):
    store = backstory.open(path)
    store.start("other")
    store.agent("main").user("in the log")
    log = overwrite(store, path, older)
    assert any("was overwritten" in finding.problem for finding in store.verify())
    if ends == "append":
        for _ in range(2):
            with pytest.raises(backstory.Corrupt, match=OVERWRITTEN):
                store.agent("main").user("never")
    if ends == "delete":
        with pytest.raises(backstory.Corrupt, match=OVERWRITTEN):
            store.delete("other")
    store.close()
    assert path.read_bytes() == older.read_bytes()
    assert path.with_name("history.db-wal").read_bytes() == log
    with pytest.raises(backstory.CannotOpen, match=FOREIGN):
        backstory.open(path)


def test_a_file_that_is_copied_over_an_open_store_with_an_empty_log_is_noticed(path, older):
    with backstory.open(path) as store:
        agent = store.agent("main")
        agent.events()
        assert overwrite(store, path, older) == b""
        with pytest.raises(backstory.Corrupt, match=OVERWRITTEN):
            agent.user("never")
    assert path.read_bytes() == older.read_bytes()
    with backstory.open(path) as store:
        assert "in the file" not in [event.content for event in store.agent("main").events()]
        assert store.verify() == []


def test_a_log_that_another_process_wrote_back_is_no_other_file(path):
    with backstory.open(path) as store, backstory.open(path) as other:
        for mode in ("PASSIVE", "TRUNCATE", "RESTART", "TRUNCATE") * 2:
            store.start().user("one")
            for _ in range(3):
                other.start().user("two")
                checkpoint(path, mode)
        assert store.verify() == []


def test_a_checkpoint_that_was_not_synced_makes_no_store_refused(path, tmp_path):
    with backstory.open(path) as store:
        agent = store.start("main")
        checkpoint(path)
        agent.user("one")
        shutil.copyfile(path, tmp_path / "synced.db")
        with closing(apsw.Connection(str(path))) as reader:
            # As the checkpoint is not complete, the log is not started anew.
            reader.execute("BEGIN; SELECT count(*) FROM events").fetchall()
            for number in range(3):
                checkpoint(path)  # written to the file, which is then read, but not synced
                agent.user(f"more {number}")
            crashed = crash(path, tmp_path / "crash")
    shutil.copyfile(tmp_path / "synced.db", crashed)
    with backstory.open(crashed) as store:
        texts = [event.content for event in store.agent("main").events()]
        assert texts == ["one", "more 0", "more 1", "more 2"]
        assert store.verify() == []


@pytest.mark.parametrize("appends", [20, 150, 200, 300])
def test_a_copy_of_the_closed_store_is_accepted_with_the_log_after_it_only(path, tmp_path, appends):
    with backstory.open(path) as store:
        store.start("main").user("one")
    shutil.copyfile(path, tmp_path / "copy.db")
    with backstory.open(path) as store:
        agent = store.agent("main")
        for _ in range(appends):
            agent.user("x" * 300)
        crashed = crash(path, tmp_path / "crash")
    shutil.copyfile(tmp_path / "copy.db", crashed)
    if appends >= 150:  # the log was started anew since
        with pytest.raises(backstory.CannotOpen, match=FOREIGN):
            backstory.open(crashed)
    else:
        with backstory.open(crashed) as store:
            assert store.agent("main").head == 1 + appends
            assert store.verify() == []


def test_a_stamp_is_found_after_a_vacuum_by_another_program(path, tmp_path):
    with backstory.open(path) as store:
        agent = store.start("main")
        agent.user("one")
        checkpoint(path, "TRUNCATE")
        agent.user("two")
        with closing(apsw.Connection(str(path))) as db:
            db.execute("VACUUM")
        checkpoint(path, "TRUNCATE")
        shutil.copyfile(path, tmp_path / "copy.db")
        for _ in range(2):
            agent.user("more")
            checkpoint(path, "TRUNCATE")
        agent.user("last")
        crashed = crash(path, tmp_path / "crash")
    shutil.copyfile(tmp_path / "copy.db", crashed)
    with pytest.raises(backstory.CannotOpen, match=FOREIGN):
        backstory.open(crashed)


def test_the_first_write_after_a_checkpoint_has_a_stamp(path, tmp_path):
    with backstory.open(path) as store:
        agent = store.start("main")
        checkpoint(path, "TRUNCATE")
        shutil.copyfile(path, tmp_path / "copy.db")
        agent.user("continues the file that was copied")
        checkpoint(path, "TRUNCATE")
        agent.user("continues the next file")
        for number in range(3):
            checkpoint(path, "TRUNCATE")
            agent.user("continues a later file")
            crashed = crash(path, tmp_path / str(number))
            shutil.copyfile(tmp_path / "copy.db", crashed)
            with pytest.raises(backstory.CannotOpen, match=FOREIGN):
                backstory.open(crashed)


def test_the_file_of_another_store_is_refused(path, tmp_path):
    with backstory.open(tmp_path / "other.db") as other:
        other.start("other").user("hello")
    with backstory.open(path) as store:
        store.start("main").user("one")
        crashed = crash(path, tmp_path / "crash")
    shutil.copyfile(tmp_path / "other.db", crashed)
    with pytest.raises(backstory.CannotOpen, match=FOREIGN):
        backstory.open(crashed)


def test_a_log_or_a_file_without_a_stamp_is_accepted(path, tmp_path):
    with backstory.open(path) as store:
        store.start("main").user("one")
        with closing(apsw.Connection(str(path))) as db:
            db.execute("DELETE FROM stamp")
        without_in_log = crash(path, tmp_path / "log")
        checkpoint(path)
        store.agent("main").user("two")
        without_in_file = crash(path, tmp_path / "file")
    for crashed in (without_in_log, without_in_file):
        with backstory.open(crashed) as store:
            assert store.verify() == []


@pytest.mark.parametrize("seed", range(3))
def test_no_crash_makes_a_sound_store_refused(path, tmp_path, seed):
    chance = random.Random(seed)
    stores = [backstory.open(path), backstory.open(path)]
    agents = [stores[0].start("main")]
    agents.append(stores[1].agent("main"))
    readers = []

    def write():
        chance.choice(agents).user("one more")

    def fail():
        with pytest.raises(backstory.Conflict):
            chance.choice(agents).append("user", "never", expected=10**6)

    def start_reader():
        reader = apsw.Connection(str(path))
        reader.execute("BEGIN; SELECT count(*) FROM events").fetchall()
        readers.append(reader)

    def stop_readers():
        while readers:
            readers.pop().close()

    def vacuum():
        stop_readers()
        with closing(apsw.Connection(str(path))) as db:
            db.execute("VACUUM")

    steps = [
        *[write] * 6,
        *[fail, start_reader, stop_readers, vacuum],
        *[lambda: write_many(chance.choice(agents))],
        *[lambda: checkpoint(path), lambda: checkpoint(path, "RESTART")],
    ]
    for number in range(40):
        chance.choice(steps)()
        crashed = crash(path, tmp_path / str(number))
        with backstory.open(crashed) as store:
            assert store.agent("main").head == agents[0].head
        shutil.rmtree(crashed.parent)
    stop_readers()
    for store in stores:
        store.close()
