"""Opening an SQLite file: its settings, its version and its migrations, and what its errors mean.

Nothing here reads or writes an event.
"""

import errno
import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

import apsw

try:
    import fcntl
except ImportError:  # Windows has other file locks
    fcntl = None  # type: ignore[assignment]

from backstory.errors import Busy, CannotOpen, Corrupt, NewerVersion, ReadOnly, StorageError
from backstory.log.chain import START, digest_of
from backstory.storage.sqlite.frames import Unpacker

T = TypeVar("T")

APPLICATION_ID = 0x42535459  # "BSTY": tells our files from other SQLite databases
PAGE_SIZE = 8192
# Pages in the write-ahead log before a checkpoint. Overwriting the log is a third faster than growing it. So
# it stays at 1 MB, which is reached after a hundred turns instead of eight hundred.
CHECKPOINT = 128
PATIENCE = 60.0  # seconds to wait for other writers
SOON, LATER = 0.001, 0.02  # seconds between two attempts, at first and later
LONG = 100  # attempts after which to check whether the file system supports locks at all

GET_PERMISSION = "get permission to write it, or copy it and open the copy"
ANOTHER_PATH = "give another path"

# MIGRATIONS[n] takes a store from version n to n + 1.
MIGRATIONS = (
    """
    CREATE TABLE agents (
        no INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        session INTEGER NOT NULL REFERENCES agents (no),
        name TEXT NOT NULL,
        parent INTEGER REFERENCES agents (no),
        fork_seq INTEGER NOT NULL,
        born_seq INTEGER NOT NULL,
        spawned INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        UNIQUE (session, name)
    ) STRICT;
    CREATE INDEX agents_name ON agents (name);
    CREATE TABLE events (
        id INTEGER PRIMARY KEY,
        agent INTEGER NOT NULL AS (id >> 32) REFERENCES agents (no),
        seq INTEGER NOT NULL AS (id & 4294967295),
        kind TEXT NOT NULL,
        content TEXT,
        data TEXT,
        created_at INTEGER NOT NULL,
        base INTEGER
    ) STRICT;
    CREATE INDEX jumps ON events (id, base) WHERE base IS NOT NULL;
    CREATE INDEX marks ON events (id) WHERE kind = 'mark';
    """,
    # Version 2: keys, notes, descriptions of agents, and the chain of digests, which `_chain` fills in.
    """
    ALTER TABLE agents ADD COLUMN key TEXT;
    ALTER TABLE agents ADD COLUMN about TEXT;
    ALTER TABLE agents ADD COLUMN touched INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE agents ADD COLUMN deleted INTEGER;
    ALTER TABLE events ADD COLUMN key TEXT;
    ALTER TABLE events ADD COLUMN digest BLOB NOT NULL DEFAULT x'';
    CREATE UNIQUE INDEX agents_key ON agents (key) WHERE key IS NOT NULL;
    CREATE INDEX agents_touched ON agents (touched);
    CREATE INDEX agents_title ON agents (about ->> '$.title') WHERE about IS NOT NULL;
    CREATE UNIQUE INDEX event_keys ON events (key, agent) WHERE key IS NOT NULL;
    CREATE INDEX notes ON events (content, id) WHERE kind = 'note';
    CREATE TABLE sources (
        tool TEXT NOT NULL, id TEXT NOT NULL, agent TEXT, cursor TEXT, PRIMARY KEY (id, tool)
    ) STRICT, WITHOUT ROWID;
    UPDATE agents SET touched = coalesce(
        (SELECT created_at FROM events e WHERE e.id BETWEEN no << 32 AND (no << 32) + 4294967295
         ORDER BY e.id DESC LIMIT 1), created_at) / 1000000;
    """,
    # Version 3: packed events. A program of version 2 that still has the store open knows nothing of frames:
    # what it writes into an event, such as that it was erased, takes the frame away.
    """
    ALTER TABLE events ADD COLUMN packed BLOB;
    ALTER TABLE events ADD COLUMN size INTEGER;
    CREATE TRIGGER event_texts AFTER UPDATE OF content, data ON events
    WHEN new.packed IS NOT NULL AND (new.content IS NOT NULL OR new.data IS NOT NULL)
    BEGIN UPDATE events SET packed = NULL, size = NULL WHERE id = new.id; END;
    """,
)
OWN_EVENTS = """
    SELECT id, kind, content, data, created_at, base FROM events
    WHERE id BETWEEN ? << 32 AND (? << 32) + 4294967295 ORDER BY id"""
CHAINED = 2  # the first version in which events have digests


class Place(NamedTuple):
    """What SQLite opens: a path or a URI with options, and the flags."""

    name: str
    flags: int


def identity(path: str) -> tuple[int, int] | None:
    """Identifies a file, to notice that it was deleted: what is written to it then would be lost."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def connected(path: str, flags: int) -> apsw.Connection:
    """A connection that waits for other writers and syncs to disk."""
    db = apsw.Connection(path, flags=flags)
    db.set_busy_handler(_patience(path))
    db.execute(
        "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA foreign_keys = ON; "
        f"PRAGMA wal_autocheckpoint = {CHECKPOINT}"
    )
    # Without statistics, a plan does not depend on the values that are bound. Otherwise SQLite would compile
    # a statement again for another agent's number, which took longer than running it.
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    # Overwrite freed space: even splitting a page leaves copies of events behind.
    db.execute("PRAGMA secure_delete = ON").fetchall()
    Unpacker().register(db)
    return db


def emptied_log(db: apsw.Connection) -> bool:
    """Write the write-ahead log into the file and truncate it; return whether that was possible."""
    deadline = time.monotonic() + PATIENCE
    while True:
        [(unfinished, _, _)] = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if not unfinished or time.monotonic() > deadline:
            return not unfinished
        # SQLite waits for readers, but not for another checkpoint, which any other commit may start.
        time.sleep(0.005)


def _patience(path: str) -> Callable[[int], bool]:
    """A busy handler, which tries again a thousand times a second at first.

    SQLite's own handler waits up to a tenth of a second at a time, so one of eight writers could be kept
    waiting for 0.8 seconds while the others went on. And Python does not notice Ctrl-C during such a wait.
    """
    deadline = 0.0

    def wait(tried: int) -> bool:
        nonlocal deadline
        now = time.monotonic()
        if tried == 0:
            deadline = now + PATIENCE
        if tried == LONG and refuses_locks(path):
            return False  # waiting would not help
        time.sleep(SOON if tried < 500 else LATER)
        return now < deadline

    return wait


def prepared(path: str) -> apsw.Connection:
    """A connection to a store of this version in WAL mode; creates or migrates it if needed."""
    if os.path.isdir(path):
        raise CannotOpen(
            f"{path!r} is a directory",
            remedy=f"give the path of a file in it, such as {path}/history.db",
        )
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise CannotOpen(
            f"cannot create {path!r}: the directory {folder!r} does not exist",
            remedy="create it first",
        )
    make_private(path)
    db = connected(path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
    try:
        if db.readonly("main"):
            raise ReadOnly(f"{path!r} cannot be written", remedy=GET_PERMISSION)
        _patiently(lambda: _migrate(db, path))
    except BaseException:
        db.close()
        raise
    return db


def make_private(path: str) -> None:
    """Create a file that only its owner can read; SQLite gives its other files the same permissions."""
    with suppress(OSError):  # it exists, or SQLite will report the problem
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def readable(path: str) -> tuple[apsw.Connection, Place]:
    """A read-only connection, and how to open more of them. If nothing can be written and there is no
    write-ahead log, the file is opened as immutable, without locks or shared memory."""
    from urllib.parse import quote  # here, because few stores are read-only

    if not os.path.isfile(path):
        raise CannotOpen(f"no store at {path!r}", remedy=ANOTHER_PATH)
    log = f"{path}-wal"
    has_log = os.path.exists(log) and os.path.getsize(log) > 0
    shared = Place(path, apsw.SQLITE_OPEN_READONLY)
    alone = Place(
        f"file:{quote(path)}?immutable=1", apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    )
    try:
        return _checked(shared, path), shared
    except (apsw.CantOpenError, apsw.ReadOnlyError) as error:
        if has_log:
            raise ReadOnly(
                f"{path!r} has events in {log!r}, which can only be read in a directory that can be written",
                remedy="copy both files to a directory that can be written, and open the copy",
            ) from error
        return _checked(alone, path), alone


def _checked(place: Place, path: str) -> apsw.Connection:
    """A connection to a store of this version."""
    db = connected(*place)
    try:
        version = _version(db, path)
        if not version:
            raise CannotOpen(f"{path!r} is an empty file, not a store", remedy=ANOTHER_PATH)
        if version < len(MIGRATIONS):
            raise ReadOnly(
                f"{path!r} has version {version} of the store format and has to be migrated, which needs "
                "writing",
                remedy=GET_PERMISSION,
            )
    except BaseException:
        db.close()
        raise
    return db


def _migrate(db: apsw.Connection, path: str) -> None:
    version = _version(db, path)
    if version == 0:
        db.execute(f"PRAGMA page_size = {PAGE_SIZE}")
    db.execute("PRAGMA journal_mode = WAL")
    if version == len(MIGRATIONS):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        version = _version(db, path)
        for step in MIGRATIONS[version:]:
            db.execute(step)
        if 0 < version < CHAINED:
            _chain(db)
        db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _chain(db: apsw.Connection) -> None:
    """Add digests to the events of an older store. A parent has a smaller number than its children."""
    for no, parent, fork_seq in db.execute(
        "SELECT no, parent, fork_seq FROM agents ORDER BY no"
    ).fetchall():
        inherited = db.execute(
            "SELECT digest FROM events WHERE id = (? << 32) + ?", (parent, fork_seq)
        )
        previous = next((found for (found,) in inherited), START)
        links = []
        for id, kind, content, data, created_at, base in db.execute(OWN_EVENTS, (no, no)):
            previous = digest_of(
                previous, id & 0xFFFFFFFF, kind, created_at, base, None, content, data
            )
            links.append((previous, id))
        db.executemany("UPDATE events SET digest = ? WHERE id = ?", links)


def _version(db: apsw.Connection, path: str) -> int:
    """The version of the store, or 0 for an empty file. Raises if the file belongs to another program."""
    found: list[Any] = db.execute(
        "SELECT (SELECT application_id FROM pragma_application_id), "
        "(SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_master)"
    ).fetchall()
    [(owner, version, tables)] = found
    if owner != APPLICATION_ID and tables:
        raise CannotOpen(f"{path!r} is an SQLite database of another program", remedy=ANOTHER_PATH)
    if version > len(MIGRATIONS):
        raise NewerVersion.of(repr(path), version, len(MIGRATIONS))
    return int(version)


def _patiently(attempt: Callable[[], T]) -> T:
    """Switching a new file to WAL fails at once if it is busy, without the busy handler: wait here."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return attempt()
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def refuses_locks(path: str) -> bool:
    """Whether the file system does not support locks: SQLite then reports "busy", as if someone held one.

    This locks another file in the same folder. Closing the store's own file would release SQLite's locks on
    it, because POSIX drops all of a process's locks on a file when any descriptor of that file is closed.
    """
    if fcntl is None:
        return False
    import tempfile  # here, because it takes as long to import as all of this package

    try:
        with tempfile.TemporaryFile(dir=os.path.dirname(os.path.abspath(path))) as beside:
            fcntl.lockf(beside, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
    return False


class Translated:
    """Around a block: errors of SQLite's leave it as ours. It has no state, so one serves many threads."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: Any
    ) -> None:
        if isinstance(error, apsw.Error):
            raise translation(error, self._path) from error


def translation(error: apsw.Error, path: str) -> StorageError | Corrupt:
    """An error from SQLite, as one of our errors, with a remedy."""
    match error:
        case apsw.BusyError() if refuses_locks(path):
            return CannotOpen(
                f"{path!r}: the file system refuses locks, so nothing can be written safely",
                remedy="put the store on a local disk, or start the lock service of the network file system",
            )
        case apsw.BusyError() | apsw.LockedError():
            return Busy(
                f"{path!r}: {error}: someone else has been writing for {PATIENCE:.0f} seconds",
                remedy="try again",
            )
        case apsw.NotADBError():
            return CannotOpen(f"{path!r} is not an SQLite database ({error})", remedy=ANOTHER_PATH)
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
