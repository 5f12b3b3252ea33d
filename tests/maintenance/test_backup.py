"""Backups and their restore: complete or not at all, and nothing is left behind."""

import errno
import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest

import backstory
from backstory.maintenance import backup as backup_module
from backstory.storage.sqlite import replacement
from backstory.storage.work_folder import make_work_folder
from tests.storage.test_stamp import crash

FIXTURES = Path(__file__).parent.parent / "fixtures"


def read_texts(path):
    with backstory.open(path) as store:
        assert store.verify() == []
        return [event.content for event in store.agent("main").events()]


def list_hidden(folder):
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


@pytest.fixture
def crashed(tmp_path):
    """A store that has crashed, and `backup.db` beside it, which has one event less."""
    path = tmp_path / "open" / "history.db"
    path.parent.mkdir()
    with backstory.open(path) as store:
        agent = store.start("main")
        agent.user("old")
        store.backup(tmp_path / "backup.db")
        agent.user("new")
        crashed = crash(path, tmp_path / "crashed")
    shutil.rmtree(path.parent)
    return crashed


def run(code, *arguments):
    """Run Python in another process."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


# --- restore ---


def test_a_restore_removes_the_log_of_the_former_store(crashed, tmp_path):
    assert backstory.restore(tmp_path / "backup.db", crashed) == (1, 1, 1)
    assert [path.name for path in crashed.parent.iterdir()] == ["history.db"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup.db", "crashed"]
    assert read_texts(crashed) == ["old"]
    with backstory.open(crashed) as store:
        store.agent("main").user("it continues")
    assert read_texts(tmp_path / "backup.db") == ["old"]


def test_a_restore_is_the_way_out_of_a_refused_log(crashed, tmp_path):
    shutil.copyfile(tmp_path / "backup.db", crashed)
    with pytest.raises(backstory.CannotOpen, match=r"restore\('BACKUP', '.*history.db'\)"):
        backstory.open(crashed)
    backstory.restore(tmp_path / "backup.db", crashed)
    assert read_texts(crashed) == ["old"]


def test_a_backup_that_is_copied_over_the_store_restored_from_it_is_refused(crashed, tmp_path):
    backup = tmp_path / "backup.db"
    backstory.restore(backup, crashed)
    with backstory.open(crashed) as store:
        store.agent("main").user("after the restore")
        again = crash(crashed, tmp_path / "again")
    shutil.copyfile(backup, again)
    with pytest.raises(backstory.CannotOpen, match="contains changes to another file"):
        backstory.open(again)


def test_a_restore_writes_no_refused_log_into_the_file(crashed, tmp_path, monkeypatch):
    shutil.copyfile(tmp_path / "backup.db", crashed)
    before = crashed.read_bytes()

    def end(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", end)
    with pytest.raises(KeyboardInterrupt):
        backstory.restore(tmp_path / "backup.db", crashed)
    assert crashed.read_bytes() == before


def test_a_restore_to_a_path_where_nothing_is(crashed, tmp_path):
    target = tmp_path / "new.db"
    (tmp_path / "new.db-wal").write_bytes(crashed.with_name("history.db-wal").read_bytes())
    backstory.restore(tmp_path / "backup.db", target)
    assert read_texts(target) == ["old"]
    assert target.stat().st_mode & 0o777 == 0o600
    assert not (tmp_path / "new.db-wal").exists()


def test_a_restore_replaces_what_is_not_a_store_and_keeps_its_permissions(crashed, tmp_path):
    crashed.write_bytes(b"no database" * 1_000)
    crashed.chmod(0o640)
    backstory.restore(tmp_path / "backup.db", crashed)
    assert read_texts(crashed) == ["old"]
    assert crashed.stat().st_mode & 0o777 == 0o640


def test_a_full_disk_is_reported_in_our_words(crashed, tmp_path, monkeypatch):
    def fail(_):
        raise apsw.FullError("database or disk is full")

    monkeypatch.setattr(replacement, "replace_stamp", fail)
    with pytest.raises(backstory.StorageError, match="disk is full"):
        backstory.restore(tmp_path / "backup.db", tmp_path / "new.db")
    with backstory.open(crashed) as store:
        with pytest.raises(backstory.StorageError, match="disk is full"):
            store.backup(tmp_path / "copy.db")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup.db", "crashed"]


def test_a_full_disk_is_reported_while_a_store_in_memory_is_copied(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(backup_module, "export_sessions", fail)
    with backstory.open(":memory:") as store:
        with pytest.raises(backstory.StorageError, match="No space left"):
            store.backup(tmp_path / "copy.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("call", ["mkdir", "fsync"])
def test_an_error_of_the_system_is_reported_in_our_words(crashed, tmp_path, monkeypatch, call):
    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    with backstory.open(crashed) as store:
        monkeypatch.setattr(os, call, fail)
        with pytest.raises(backstory.StorageError, match=r"cannot write in .*Input/output error"):
            store.backup(tmp_path / "copy.db")
        monkeypatch.undo()
    assert list_hidden(tmp_path) == []


def test_a_restore_waits_for_a_locked_backup_until_its_timeout(crashed, tmp_path):
    backup = tmp_path / "backup.db"
    with closing(apsw.Connection(str(backup))) as db:
        db.execute("PRAGMA locking_mode = EXCLUSIVE").fetchall()
        db.execute("UPDATE numbers SET last_no = last_no")
        with pytest.raises(backstory.Busy, match=r"for 0\.1 seconds"):
            backstory.restore(backup, crashed, timeout=0.1)
    with pytest.raises(backstory.Invalid, match="not a number of seconds"):
        backstory.restore(backup, crashed, timeout=0)
    backstory.restore(backup, crashed, timeout=0.1)
    assert read_texts(crashed) == ["old"]


def test_a_store_in_use_is_not_replaced(crashed, tmp_path):
    with backstory.open(crashed) as store:
        with pytest.raises(backstory.Busy, match="in use: end the programs that have it open"):
            backstory.restore(tmp_path / "backup.db", crashed)
        other = run(
            "import backstory, sys; backstory.restore(*sys.argv[1:])",
            tmp_path / "backup.db",
            crashed,
        )
        assert "backstory.errors.Busy" in other.stderr
        store.agent("main").user("still here")
    assert read_texts(crashed) == ["old", "new", "still here"]
    assert list_hidden(crashed.parent) == []


def test_a_store_that_is_replaced_while_it_is_opened_is_refused(crashed, tmp_path, monkeypatch):
    from backstory.storage.sqlite import file

    def restore_and_open(*arguments):
        monkeypatch.undo()
        db = apsw.Connection(str(crashed))
        backstory.restore(tmp_path / "backup.db", crashed)
        return db

    monkeypatch.setattr(file, "open_connection", restore_and_open)
    with pytest.raises(backstory.Busy, match="was replaced while it was being opened"):
        backstory.open(crashed)
    assert read_texts(crashed) == ["old"]


def test_a_damaged_backup_is_not_restored(crashed, tmp_path):
    with closing(apsw.Connection(str(tmp_path / "backup.db"))) as db:
        db.execute("UPDATE events SET content = 'changed'")
    with pytest.raises(backstory.Corrupt, match=r"nothing was restored: the backup .* is damaged"):
        backstory.restore(tmp_path / "backup.db", crashed)
    assert read_texts(crashed) == ["old", "new"]
    assert list_hidden(crashed.parent) == []


def test_a_backup_of_an_older_format_is_migrated(tmp_path):
    backstory.restore(FIXTURES / "store-1.sqlite", tmp_path / "new.db")
    with backstory.open(tmp_path / "new.db") as store:
        assert store.verify() == []
        assert store.agents()


def test_a_backup_may_have_a_log_and_be_in_use(crashed, tmp_path):
    with backstory.open(tmp_path / "backup.db") as store:
        store.agent("main").user("in the log")
        backstory.restore(tmp_path / "backup.db", crashed)
    assert read_texts(crashed) == ["old", "in the log"]


def test_what_cannot_be_restored_is_refused(crashed, tmp_path):
    (tmp_path / "empty.db").touch()
    for backup, problem in (("missing.db", "no store at"), ("empty.db", "is an empty file")):
        with pytest.raises(backstory.CannotOpen, match=problem):
            backstory.restore(tmp_path / backup, crashed)
    with pytest.raises(backstory.CannotOpen, match="does not exist: create it first"):
        backstory.restore(tmp_path / "backup.db", tmp_path / "missing" / "new.db")
    for pair in ((":memory:", crashed), (tmp_path / "backup.db", "postgresql://host/name")):
        with pytest.raises(backstory.Invalid, match="only the file of an SQLite store"):
            backstory.restore(*pair)
    assert read_texts(crashed) == ["old", "new"]


def test_the_progress_of_a_restore(tmp_path):
    with backstory.open(tmp_path / "history.db") as store:
        store.start("main").extend([("user", "hello", None)] * 2_500)
        store.backup(tmp_path / "backup.db")
    seen = []
    backstory.restore(
        tmp_path / "backup.db", tmp_path / "new.db", progress=lambda *numbers: seen.append(numbers)
    )
    assert seen == [(1_000, 2_500), (2_000, 2_500)]


KILLED_RESTORE = """
import os, signal, sys
import backstory
from backstory.storage.sqlite import replacement

backup, path, last = sys.argv[1], sys.argv[2], int(sys.argv[3])
calls = 0

def interrupt(function):
    def call(*arguments):
        global calls
        calls += 1
        if calls == last:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*arguments)
    return call

for name in ("write_back_wal", "remove_wal", "mark_as_copy", "replace_store", "copy_store"):
    setattr(replacement, name, interrupt(getattr(replacement, name)))
for name in ("unlink", "chmod", "replace", "fsync"):
    setattr(os, name, interrupt(getattr(os, name)))
backstory.restore(backup, path)
print("restored")
"""


def test_a_killed_restore_leaves_the_old_store_or_the_new_one(crashed, tmp_path):
    outcomes = []
    for last in range(1, 30):
        victim = crash(crashed, tmp_path / "victim")
        done = run(KILLED_RESTORE, tmp_path / "backup.db", victim, last)
        outcomes.append(read_texts(victim))
        assert list_hidden(victim.parent) == []  # opening the store has removed the folder
        shutil.rmtree(victim.parent)
        if done.stdout == "restored\n":
            break
    assert done.stdout == "restored\n", done.stderr
    first_new = outcomes.index(["old"])
    assert first_new > 5
    assert outcomes[:first_new] == [["old", "new"]] * first_new
    assert outcomes[first_new:] == [["old"]] * len(outcomes[first_new:])


# --- backups that are killed ---

KILLED_BACKUP = """
import os, signal, sys
import backstory
from backstory.maintenance import backup

backup.move_file = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
backstory.open(sys.argv[1]).backup(sys.argv[2])
"""


def test_the_copy_of_a_killed_backup_is_removed(crashed, tmp_path):
    for remove in (
        lambda: backstory.open(tmp_path / "another.db").close(),
        lambda: backstory.open(crashed).backup(tmp_path / "copy.db"),
    ):
        run(KILLED_BACKUP, crashed, tmp_path / "killed.db")
        [folder] = list_hidden(tmp_path)
        assert (tmp_path / folder / "copy.db").stat().st_size > 0
        remove()
        assert list_hidden(tmp_path) == []
    assert not (tmp_path / "killed.db").exists()


def test_a_backup_that_is_being_written_is_left_alone(crashed, tmp_path):
    with make_work_folder(str(tmp_path)) as folder:
        (Path(folder) / "copy.db").write_text("half")
        backstory.open(tmp_path / "another.db").close()
        with backstory.open(crashed) as store:
            store.backup(tmp_path / "copy.db")
        opened = run("import backstory, sys; backstory.open(sys.argv[1])", tmp_path / "third.db")
        assert opened.returncode == 0, opened.stderr
        assert (Path(folder) / "copy.db").read_text() == "half"
    assert list_hidden(tmp_path) == []


def test_folders_that_are_not_locked_like_ours_are_left_alone(tmp_path):
    (tmp_path / ".backstory-mine").mkdir()
    (tmp_path / ".backstory-mine" / "file").touch()
    (tmp_path / ".backstory-file").touch()
    backstory.open(tmp_path / "another.db").close()
    assert sorted(list_hidden(tmp_path)) == [".backstory-file", ".backstory-mine"]


def test_the_folder_of_a_finished_backup_is_synced(crashed, tmp_path, monkeypatch):
    synced = []
    fsync = os.fsync

    def record(descriptor):
        synced.append((os.fstat(descriptor).st_ino, (tmp_path / "copy.db").exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", record)
    with backstory.open(crashed) as store:
        store.backup(tmp_path / "copy.db")
    assert (tmp_path.stat().st_ino, True) in synced
