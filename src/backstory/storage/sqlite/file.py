"""The file of an SQLite store: opens it, notices that it was replaced, and translates errors.

Nothing here reads or writes an event.
"""

import errno
import os
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any, NamedTuple
from weakref import ref

import apsw

try:
    import fcntl
except ImportError:  # Windows has other file locks
    fcntl = None  # type: ignore[assignment]

from backstory.errors import (
    Busy,
    CannotOpen,
    ConnectionLost,
    Corrupt,
    ReadOnly,
    StorageError,
)
from backstory.storage.locks import LockTimeout
from backstory.storage.pool import ErrorTranslator, PoolClosed, build_closed_error
from backstory.storage.sqlite import migrations, schema
from backstory.storage.sqlite.frames import FrameReader
from backstory.storage.sqlite.stamp import check_wal, has_foreign_wal, measure_wal
from backstory.storage.work_folder import remove_abandoned_folders

# Pages in the write-ahead log before a checkpoint. Overwriting the log is a third faster than
# growing it. So it stays at 1 MB, which is reached after a hundred turns instead of eight hundred.
CHECKPOINT_PAGES = 128
# Bytes that the log keeps after it has grown, such as by a large import.
LARGEST_WAL = 4 * CHECKPOINT_PAGES * schema.PAGE_SIZE
FIRST_PAUSE, LATER_PAUSE = 0.001, 0.02  # seconds between two attempts to get a lock
FIRST_ATTEMPTS = 500  # attempts with the first pause
ATTEMPTS_BEFORE_CHECK = 100  # then check whether the file system supports locks at all

GET_PERMISSION = "get permission to write it, or copy it and open the copy"


class OpenMode(NamedTuple):
    """The arguments with which SQLite opens the file: a path or a URI with options, and flags."""

    name: str
    flags: int
    is_immutable: bool = False  # True: SQLite takes no locks, and does not notice changes


def make_immutable_mode(path: str) -> OpenMode:
    """Return the mode that reads a file without locks, and needs no files beside it."""
    from urllib.parse import quote  # here, because few stores are read-only

    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    return OpenMode(f"file:{quote(path)}?immutable=1", flags, is_immutable=True)


class FileState(NamedTuple):
    """Differs after a write to the store. Only the names of the files are needed for it: closing a
    descriptor of the file would release the locks that SQLite has on it."""

    inode: int
    size: int
    changed_ns: int
    wal_size: int


def read_state(path: str) -> FileState:
    """Return the state of the store at `path`. Raises CannotOpen if it is gone."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise CannotOpen(f"no store at {path!r} ({error.strerror})", remedy="check the path") from (
            error
        )
    return FileState(found.st_ino, found.st_size, found.st_mtime_ns, measure_wal(path))


def is_up_to_date(db: "SqliteConnection", path: str) -> bool:
    """Return False if `db` has no locks, and others wrote to the file since it was opened."""
    return db.file_state is None or db.file_state == read_state(path)


# --- opening ---


class SqliteConnection(apsw.Connection):
    """A connection that waits for the locks of others until its deadline, in monotonic time."""

    deadline = 0.0
    file_state: FileState | None = None  # of an immutable file, just before it was opened


def open_connection(mode: OpenMode, path: str, deadline: float) -> SqliteConnection:
    """Return a connection that waits for other writers and syncs to disk."""
    db = SqliteConnection(mode.name, flags=mode.flags)
    db.deadline = deadline
    db.set_busy_handler(make_busy_handler(db, path))
    db.execute(
        "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA foreign_keys = ON; "
        f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}"
    )
    db.execute(f"PRAGMA journal_size_limit = {LARGEST_WAL}").fetchall()
    # Without statistics, a plan does not depend on the values that are bound. Otherwise SQLite
    # would compile a statement again for another agent's number, which took longer than running it.
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    # Only `StoreFile.close_connection` knows whether the log belongs to the file.
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    # Overwrite freed space: even splitting a page leaves copies of events in the old one.
    db.execute("PRAGMA secure_delete = ON").fetchall()
    FrameReader().register(db)
    db.register_fts5_function("share", compute_share)
    return db


def compute_share(row: apsw.FTS5ExtensionApi, /, *_: Any) -> float:
    """Return the share of matching words in a text, as `backstory.log.terms.score_words` does."""
    return row.inst_count / (row.column_size() + 20)


def make_busy_handler(db: SqliteConnection, path: str) -> Callable[[int], bool]:
    """Return the busy handler of a connection, which tries again a thousand times a second at
    first.

    SQLite's own handler waits up to a tenth of a second at a time, so one of eight writers could
    wait for 0.8 seconds while the others wrote. And Python does not notice Ctrl-C during such a
    wait.
    """
    connection = ref(db)  # otherwise only the garbage collector would close a forgotten connection

    def wait(attempts: int) -> bool:
        waiting = connection()
        if waiting is None or time.monotonic() >= waiting.deadline:
            return False
        if attempts == ATTEMPTS_BEFORE_CHECK and refuses_locks(path):
            return False  # waiting would not help
        time.sleep(FIRST_PAUSE if attempts < FIRST_ATTEMPTS else LATER_PAUSE)
        return True

    return wait


def open_writable(path: str, deadline: float) -> SqliteConnection:
    """Return a connection to a store of this version in WAL mode. Creates or migrates it first, if
    that is needed."""
    if os.path.isdir(path):
        raise CannotOpen(
            f"{path!r} is a directory",
            remedy=f"give the path of a file in it, such as {path}/history.db",
        )
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise CannotOpen(
            f"cannot create {path!r}: the directory {folder!r} does not exist",
            remedy="create it first",
        )
    remove_abandoned_folders(folder)
    create_private_file(path)
    identity = identify_file(path)
    mode = OpenMode(path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
    db = open_connection(mode, path, deadline)
    try:
        if db.readonly("main"):
            raise ReadOnly(f"{path!r} cannot be written", remedy=GET_PERMISSION)
        check_wal(db, path)
        if identify_file(path) != identity:  # from here on, a restore finds the store in use
            raise Busy(f"{path!r} was replaced while it was being opened", remedy="try again")
        migrate_when_free(db, path)
    except BaseException:
        db.close()
        raise
    return db


def migrate_when_free(db: SqliteConnection, path: str) -> None:
    """Create or migrate the tables. Switching a new file to WAL mode fails at once if the file is
    busy, without calling the busy handler, so this waits here."""
    while True:
        try:
            return migrations.migrate(db, path)
        except apsw.BusyError:
            if time.monotonic() > db.deadline:
                raise
            time.sleep(0.01)


def create_private_file(path: str) -> None:
    """Create a file that only its owner can read. SQLite gives its other files the same
    permissions."""
    with suppress(OSError):  # it exists, or SQLite will report the problem
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def open_readable(path: str, deadline: float) -> tuple[SqliteConnection, OpenMode]:
    """Return a read-only connection, and how to open more of them. If nothing can be written and
    there is no write-ahead log, the file is opened as immutable, without locks or shared memory."""
    state = read_state(path)
    shared = OpenMode(path, apsw.SQLITE_OPEN_READONLY)
    try:
        return open_current_version(shared, path, deadline), shared
    except (apsw.CantOpenError, apsw.ReadOnlyError) as error:
        if state.wal_size > 0:
            raise ReadOnly(
                f"{path!r} has events in {path + '-wal'!r}, which can only be read in a directory "
                "that can be written",
                remedy="copy both files to a directory that can be written, and open the copy",
            ) from error
    immutable = make_immutable_mode(path)
    db = open_current_version(immutable, path, deadline)
    db.file_state = state
    return db, immutable


def open_current_version(mode: OpenMode, path: str, deadline: float) -> SqliteConnection:
    """Return a connection to a store of this version. Raises CannotOpen or ReadOnly."""
    db = open_any_version(mode, path, deadline)
    version = migrations.read_version(db, path)
    if version < schema.VERSION:
        db.close()
        raise ReadOnly(
            f"{path!r} has version {version} of the store format and has to be migrated, which "
            "needs writing",
            remedy=GET_PERMISSION,
        )
    return db


def open_any_version(mode: OpenMode, path: str, deadline: float) -> SqliteConnection:
    """Return a connection to a store that exists. Raises CannotOpen."""
    if not os.path.isfile(path):
        raise CannotOpen(f"no store at {path!r}", remedy=schema.ANOTHER_PATH)
    db = open_connection(mode, path, deadline)
    try:
        check_wal(db, path)
        if migrations.read_version(db, path) == 0:
            raise CannotOpen(f"{path!r} is an empty file, not a store", remedy=schema.ANOTHER_PATH)
    except BaseException:
        db.close()
        raise
    return db


# --- replaced files ---


class FileIdentity(NamedTuple):
    """Identifies a file, whatever its name is."""

    device: int
    inode: int


def identify_file(path: str) -> FileIdentity | None:
    """Return the identity of the file at `path`, or None if there is none."""
    found = find_file(path)
    return None if found is None else FileIdentity(found.st_dev, found.st_ino)


def find_file(path: str) -> os.stat_result | None:
    """Return what the file system says about the file at `path`, or None if there is none."""
    try:
        return os.stat(path)
    except OSError:
        return None


class StoreFile:
    """The file of an open store, and those that SQLite has beside it. Notices that one of them was
    removed or replaced: what is written then would be lost."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.identity = identify_file(path)
        self._size = 0
        self.remember_size()
        # The write-ahead log and its index. While a connection is open, SQLite itself neither
        # removes nor replaces them.
        self._side_files: dict[str, FileIdentity] = {}
        self._remember_side_files()

    def is_replaced(self) -> bool:
        """Return True if another file is now at the path."""
        return identify_file(self.path) not in (self.identity, None)

    def add_connection(self, db: apsw.Connection) -> None:
        """Check that a new connection is to this file. Raises StorageError, and closes the
        connection, if another file is at the path. It may be the first one since a fork."""
        if identify_file(self.path) != self.identity:
            db.close()
            raise self._build_loss_error()
        if not self._side_files:
            self._remember_side_files()

    def _remember_side_files(self) -> None:
        for path in (f"{self.path}-wal", f"{self.path}-shm"):
            identity = identify_file(path)
            if identity is not None:
                self._side_files[path] = identity

    def forget_side_files(self) -> None:
        """Forget the files beside the store, because its connections are closed: another process
        may remove them."""
        self._side_files.clear()

    def _build_loss_error(self) -> StorageError:
        return StorageError(
            f"{self.path!r} was moved or deleted while it was open", remedy="open it again"
        )

    def check_file(self) -> None:
        """Raise StorageError if the file is no longer at its path, and Corrupt if it was
        truncated."""
        found = find_file(self.path)
        if found is None or (found.st_dev, found.st_ino) != self.identity:
            raise self._build_loss_error()
        # A VACUUM by another program makes it smaller, too, and leaves it sound.
        if found.st_size < self._size and not is_sound(self.path):
            raise Corrupt(
                f"{self.path!r} was truncated while it was open; nothing was written",
                remedy="restore a backup",
            )
        self._size = found.st_size

    def remember_size(self) -> None:
        """Remember the size of the file. A commit may have made it larger."""
        found = find_file(self.path)
        if found is not None:
            self._size = max(self._size, found.st_size)

    def check_side_files(self) -> None:
        """Raise ConnectionLost if a file beside the store was removed or replaced: no other process
        would see what was just written."""
        for path, identity in list(self._side_files.items()):
            if identify_file(path) != identity:
                raise ConnectionLost(
                    f"{path!r} was removed or replaced while the store was open: what was under "
                    "way may or may not have been written",
                    remedy="open the store again, and check",
                )

    def close_connection(self, db: apsw.Connection) -> None:
        """Close a connection. With the last one, SQLite writes the log into the file, if it belongs
        to it, and removes the files beside the store. Another thread may close another connection
        meanwhile."""
        with suppress(apsw.Error):  # such as in a transaction that Ctrl-C has ended
            if not has_foreign_wal(db, self.path):
                db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        db.close()
        for path in list(self._side_files):
            if identify_file(path) is None:
                self._side_files.pop(path, None)


def is_sound(path: str) -> bool:
    """Return True if the pages of a store are all there. Reads the complete file."""
    try:
        with closing(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)) as db:
            is_empty = db.pragma("page_count") == 0
            return not is_empty and db.pragma("quick_check", 1) == "ok"
    except apsw.Error:
        return False


# --- errors ---


def make_translator(path: str, timeout: float) -> ErrorTranslator:
    """Return a `with` block that raises SQLite's errors as ours."""

    def translate(error: Exception) -> StorageError | Corrupt:
        return translate_error(error, path, timeout)

    return ErrorTranslator((apsw.Error, LockTimeout, PoolClosed), translate)


def translate_error(error: Exception, path: str, timeout: float) -> StorageError | Corrupt:
    """Return an error of SQLite as one of our errors, with a remedy."""
    match error:
        case PoolClosed():
            return build_closed_error(path)
        case apsw.BusyError() | apsw.LockedError() | LockTimeout():
            return build_busy_error(error, path, timeout)
        case apsw.NotADBError():
            return CannotOpen(
                f"{path!r} is not an SQLite database ({error})", remedy=schema.ANOTHER_PATH
            )
        case apsw.CantOpenError():
            return CannotOpen(
                f"cannot open {path!r} ({error})",
                remedy="check the path and your permissions on it",
            )
        case apsw.ReadOnlyError():
            return ReadOnly(f"{path!r} cannot be written ({error})", remedy=GET_PERMISSION)
        case apsw.CorruptError():
            return Corrupt(
                f"{path!r} is damaged ({error})",
                remedy="restore a backup, or try sqlite3's .recover",
            )
        case apsw.FullError():
            return StorageError(f"{path!r}: {error}; nothing was written", remedy="free some space")
    return StorageError(f"{path!r}: {error}")


def build_busy_error(error: Exception, path: str, timeout: float) -> StorageError:
    """Return the error for a lock that was not given."""
    if isinstance(error, apsw.BusyError) and refuses_locks(path):
        return CannotOpen(
            f"{path!r}: the file system refuses locks, so nothing can be written safely",
            remedy="put the store on a local disk, or start the lock service of the network file "
            "system",
        )
    return Busy(
        f"{path!r}: {error}: someone else has been writing for {timeout:g} seconds",
        remedy="try again",
    )


def refuses_locks(path: str) -> bool:
    """Return True if the file system does not support locks. SQLite then reports "busy", as if
    someone had the lock.

    This locks another file in the same folder. Closing the store's own file would release SQLite's
    locks on it, because POSIX drops all of a process's locks on a file when any descriptor of that
    file is closed.
    """
    if fcntl is None:
        return False
    import tempfile  # here, because it takes as long to import as all of this package

    try:
        with tempfile.TemporaryFile(dir=os.path.dirname(os.path.abspath(path))) as neighbour:
            fcntl.lockf(neighbour, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
    return False
