"""Opening an SQLite file: what must be there, which version it has, and what its errors mean.

Nothing here reads or writes an event.
"""

import errno
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote

import apsw

try:
    import fcntl
except ImportError:  # Windows has locks of another kind
    fcntl = None  # type: ignore[assignment]

from backstory.core.chain import START, digest_of
from backstory.errors import Busy, CannotOpen, Corrupt, NewerVersion, ReadOnly, StorageError

T = TypeVar("T")

APPLICATION_ID = 0x42535459  # "BSTY": tells our files from other SQLite databases
PAGE_SIZE = 8192
# Pages of the write-ahead log until they go into the file. Overwriting a log is a third quicker than growing
# it, so it stays at 1 MB: that is reached after a hundred turns instead of eight hundred.
CHECKPOINT = 128
PATIENCE = 60.0  # seconds to wait for other writers
SOON, LATER = 0.001, 0.02  # seconds until the next look whether they are done
LONG = 100  # looks after which it is asked whether the file system has locks at all

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
    # Version 2: keys, notes, what is kept beside an agent, and the chain of digests, which `_chain` fills in.
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
)
OWN_EVENTS = """
    SELECT id, kind, content, data, created_at, base FROM events
    WHERE id BETWEEN ? << 32 AND (? << 32) + 4294967295 ORDER BY id"""
CHAINED = 2  # the version from which on events have digests


class Place(NamedTuple):
    """What SQLite opens: a path, or a URI that says more, and the flags."""

    name: str
    flags: int


def identity(path: str) -> tuple[int, int] | None:
    """Which file it is: what is written into a deleted one would be gone with the process."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def connected(path: str, flags: int) -> apsw.Connection:
    """A connection that waits for others and syncs to the disk."""
    db = apsw.Connection(path, flags=flags)
    db.set_busy_handler(_patience(path))
    db.execute(
        "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA foreign_keys = ON; "
        f"PRAGMA wal_autocheckpoint = {CHECKPOINT}"
    )
    # Without statistics a plan does not depend on what is bound: SQLite need not compile a statement again
    # because another agent's number is bound to it, which took longer than the statement itself.
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    # Whatever is freed is overwritten: even a page that is split leaves copies of events behind.
    db.execute("PRAGMA secure_delete = ON").fetchall()
    return db


def emptied_log(db: apsw.Connection) -> bool:
    """Write the write-ahead log into the file and cut it off; whether that could be done."""
    deadline = time.monotonic() + PATIENCE
    while True:
        [(unfinished, _, _)] = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        if not unfinished or time.monotonic() > deadline:
            return not unfinished
        # SQLite waits for readers, but not for another checkpoint, which any commit of others may begin.
        time.sleep(0.005)


def _patience(path: str) -> Callable[[int], bool]:
    """What a connection does while others write: look again, a thousand times a second at first.

    SQLite's own waits grow to a tenth of a second, so that of eight writers one could stand there for
    0.8 seconds while the others went on; and Python hears no Ctrl-C in them.
    """
    deadline = 0.0

    def wait(tried: int) -> bool:
        nonlocal deadline
        now = time.monotonic()
        if tried == 0:
            deadline = now + PATIENCE
        if tried == LONG and refuses_locks(path):
            return False  # it will not change
        time.sleep(SOON if tried < 500 else LATER)
        return now < deadline

    return wait


def prepared(path: str) -> apsw.Connection:
    """A connection to a file that is ours, in WAL mode and of this version."""
    if os.path.isdir(path):
        raise CannotOpen(
            f"{path!r} is a directory", remedy=f"give the path of a file in it, such as {path}/history.db"
        )
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise CannotOpen(
            f"cannot create {path!r}: the directory {folder!r} does not exist", remedy="create it first"
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
    """A new file that only its owner can read; what SQLite puts beside it gets the same permissions."""
    with suppress(OSError):  # it is there already, or SQLite will say what is wrong
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def readable(path: str) -> tuple[apsw.Connection, Place]:
    """A connection that only reads, and what else it can be opened by. Without a write-ahead log, the file
    need not even share its state with others: on a medium that nobody can write, nobody will."""
    if not os.path.isfile(path):
        raise CannotOpen(f"no store at {path!r}", remedy=ANOTHER_PATH)
    log = f"{path}-wal"
    has_log = os.path.exists(log) and os.path.getsize(log) > 0
    shared = Place(path, apsw.SQLITE_OPEN_READONLY)
    alone = Place(f"file:{quote(path)}?immutable=1", apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        return _checked(shared, path), shared
    except (apsw.CantOpenError, apsw.ReadOnlyError) as error:
        if has_log:
            raise ReadOnly(
                f"{path!r} has events in {log!r}, which cannot be read where nothing can be written",
                remedy="copy both files to where they can be written, and open the copy",
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
    """Give the events of an older store their digests. A parent has a smaller number than its children."""
    for no, parent, fork_seq in db.execute("SELECT no, parent, fork_seq FROM agents ORDER BY no").fetchall():
        inherited = db.execute("SELECT digest FROM events WHERE id = (? << 32) + ?", (parent, fork_seq))
        previous = next((found for (found,) in inherited), START)
        links = []
        for id, kind, content, data, created_at, base in db.execute(OWN_EVENTS, (no, no)):
            previous = digest_of(previous, id & 0xFFFFFFFF, kind, created_at, base, None, content, data)
            links.append((previous, id))
        db.executemany("UPDATE events SET digest = ? WHERE id = ?", links)


def _version(db: apsw.Connection, path: str) -> int:
    """The store's version; 0 for an empty file. Raises for what we must not touch."""
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
    """Switching a new file to WAL answers busy at once, without waiting: wait here."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return attempt()
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def refuses_locks(path: str) -> bool:
    """Whether the file system has no locks to give: SQLite says "busy" then, as if someone held one.

    Another file in the same folder is tried. To close the store's own would let go of SQLite's locks on it:
    POSIX takes all locks of a process from a file with the first descriptor that is closed.
    """
    if fcntl is None:
        return False
    try:
        with tempfile.TemporaryFile(dir=os.path.dirname(os.path.abspath(path))) as beside:
            fcntl.lockf(beside, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
    return False


def translation(error: apsw.Error, path: str) -> StorageError | Corrupt:
    """What SQLite said, as an error of ours that says what to do."""
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
                f"cannot open {path!r} ({error})", remedy="check the path and your permissions on it"
            )
        case apsw.ReadOnlyError():
            return ReadOnly(f"{path!r} cannot be written ({error})", remedy=GET_PERMISSION)
        case apsw.CorruptError():
            return Corrupt(
                f"{path!r} is damaged ({error})", remedy="restore a backup, or try sqlite3's .recover"
            )
        case apsw.FullError():
            return StorageError(f"{path!r}: {error}; nothing was written", remedy="free some space")
    return StorageError(f"{path!r}: {error}")
