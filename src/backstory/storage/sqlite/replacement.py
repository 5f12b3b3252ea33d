"""Puts a file in the place of a store that nobody uses."""

import os
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

import apsw

from backstory.errors import Busy, Error
from backstory.storage.locks import DEFAULT_TIMEOUT, opening_gate
from backstory.storage.sqlite.file import (
    OpenMode,
    create_private_file,
    make_immutable_mode,
    make_translator,
    open_any_version,
)
from backstory.storage.sqlite.stamp import empty_wal, remove_wal, replace_stamp
from backstory.storage.work_folder import move_file, sync_folder


def copy_store(path: str, copy: str, timeout: float) -> None:
    """Copy the store at `path`, which may have any version, with its log to a new file. Raises Busy
    if it is locked for `timeout` seconds."""
    if os.path.exists(f"{path}-wal"):
        mode = OpenMode(path, apsw.SQLITE_OPEN_READONLY)
    else:  # Nobody has it open. With locks, SQLite would leave an empty log beside it.
        mode = make_immutable_mode(path)
    deadline = time.monotonic() + timeout
    with opening_gate, make_translator(path, timeout):
        with closing(open_any_version(mode, path, deadline)) as db:
            copy_pages(db, copy)


def copy_pages(db: apsw.Connection, copy: str) -> None:
    """Copy all pages to a new file in one read transaction, so that writers are not blocked."""
    create_private_file(copy)
    with closing(apsw.Connection(copy)) as new, new.backup("main", db, "main") as backup:
        backup.step(-1)


def mark_as_copy(path: str) -> None:
    """Give a copy of a store a stamp of its own: it is refused beside a log of the original."""
    with make_translator(path, DEFAULT_TIMEOUT), closing(apsw.Connection(path)) as db:
        replace_stamp(db)


def replace_store(file: str, path: str) -> None:
    """Move `file` to `path`, and remove the log of the store that was there. Raises Busy if that
    store is in use. If the process is killed, the old store is there, or the new one."""
    with opening_gate, make_translator(path, DEFAULT_TIMEOUT):
        if os.path.exists(path):
            write_back_wal(path)
            with lock_file(path):
                remove_wal(path)
                os.chmod(file, os.stat(path).st_mode)
                os.replace(file, path)
        else:
            remove_wal(path)
            move_file(file, path)
    sync_folder(os.path.dirname(path))


def write_back_wal(path: str) -> None:
    """Write the log of a store into its file, so that a kill after the log is removed leaves a
    complete store. Does nothing if the store is damaged, in use, or the log belongs to another
    file."""
    with suppress(Error, apsw.Error), closing(apsw.Connection(path)) as db:
        db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        empty_wal(db, path)


@contextmanager
def lock_file(path: str) -> Iterator[None]:
    """Lock a store exclusively, whatever is in its file. Every open connection to a store has a
    shared lock, so this raises Busy if there is one."""
    flags = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE
    file = apsw.VFSFile("", path, [flags, 0])
    try:
        file.xLock(apsw.SQLITE_LOCK_SHARED)
        file.xLock(apsw.SQLITE_LOCK_EXCLUSIVE)
        yield
    except apsw.BusyError as error:
        raise Busy(
            f"{path!r} is in use", remedy="end the programs that have it open, and try again"
        ) from error
    finally:
        file.xUnlock(apsw.SQLITE_LOCK_NONE)
        file.xClose()
