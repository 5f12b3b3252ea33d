"""Connections to a PostgreSQL server: address, settings, limits, and the meaning of its errors."""

import math
import select
import time
from functools import cached_property
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from backstory.errors import (
    Busy,
    CannotOpen,
    ConnectionLost,
    Invalid,
    ReadOnly,
    Remedy,
    StorageError,
)
from backstory.storage.address import split_postgres
from backstory.storage.locks import DEFAULT_TIMEOUT
from backstory.storage.pool import ErrorTranslator, PoolClosed, PoolTimeout, build_closed_error
from backstory.storage.sql import RowShape

Connection = psycopg.Connection[tuple[Any, ...]]
Cursor = psycopg.Cursor[tuple[Any, ...]]
Params = dict[str, Any]  # the parameters of a statement, by name
T = TypeVar("T")

MOST_CONNECTIONS = 32
LONGEST_CONNECT = 10  # seconds for one attempt to open a connection
# Seconds between the end of a wait for a lock and the deadline of the call. Within this time, the
# server can say that it was only a lock.
LOCK_MARGIN = 5.0
# Seconds until the operating system asks whether a silent server is still there, the seconds
# between two questions, and their number.
KEEPALIVES = {"keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
PREPARE_AFTER = 5  # executions of a statement

# Our names are all qualified; the search path keeps a function in another schema from being taken
# for a built-in one. The isolation level does not depend on the database's defaults, because an
# append has to see what the writer before it committed.
CONNECTION_SETTINGS = {
    "search_path": "pg_catalog, pg_temp",
    "default_transaction_isolation": "'read committed'",
}
QUOTES_AND_SPACES = str.maketrans("", "", "\"' ")
CURRENT_SETTINGS = """
    SELECT name, pg_catalog.current_setting(name)
    FROM pg_catalog.unnest(%s::pg_catalog.text[]) AS s (name)"""
HAS_OPTIONS = "SELECT source = 'client' FROM pg_catalog.pg_settings WHERE name = 'search_path'"
BACKEND_PID = "SELECT pg_catalog.pg_backend_pid()"
CANNOT_WRITE = """
    SELECT pg_catalog.current_setting('transaction_read_only') = 'on'
        OR NOT pg_catalog.has_table_privilege('backstory.events', 'INSERT')"""

# PostgreSQL limits messages, values and rows to 1 GB, and drops a connection that sends more. In
# an array, quotes and backslashes take two bytes.
LARGEST_EVENT = 1_000_000_000  # bytes of content and data
LARGEST_BATCH = 250_000_000
EVENTS_PER_CALL = 5_000  # a larger append is several calls in one transaction


class PostgresConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection of a store. It waits for the server until its deadline, in monotonic time."""

    deadline = math.inf
    timeout = DEFAULT_TIMEOUT  # seconds between the beginning of a call and its deadline

    def wait(self, gen: PQGen[T], *args: Any, **options: Any) -> T:
        """Drive a generator of psycopg. All that psycopg waits for passes through here."""
        return super().wait(self._wait_until_deadline(gen), *args, **options)

    def _wait_until_deadline(self, gen: PQGen[T]) -> PQGen[T]:
        """Pass on what `gen` waits for. If nothing has happened at the deadline, close the
        connection: the answer may still come, and would be taken for that of the next statement."""
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() > self.deadline:
                    break
                wanted = gen.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result
        self.close()
        raise psycopg.OperationalError(f"no answer within {self.timeout:g} seconds")

    def open_cursor(self, shape: RowShape = tuple) -> Cursor:
        """Return a new cursor whose rows are instances of `shape`. psycopg makes them when it reads
        a result."""
        make_row = getattr(shape, "_make", shape)
        return self.cursor(binary=True, row_factory=lambda _: make_row)

    def find_cursor(self, shape: RowShape = tuple) -> Cursor:
        """Return a cursor for a statement of a transaction. All statements with plain rows, and so
        all writes, share one: a new one for each append would be a quarter of the client's work.
        Reads outside of a transaction do not use it, because a cursor keeps its result until the
        next statement."""
        return self._plain_cursor if shape is tuple else self.open_cursor(shape)

    @cached_property
    def _plain_cursor(self) -> Cursor:
        return self.open_cursor()

    @cached_property
    def poller(self) -> "select.poll | None":
        """Asks whether the server has sent something; None on Windows, which has no poll(). There,
        select() takes all file descriptors, but elsewhere none above 1023."""
        if not hasattr(select, "poll"):
            return None
        poller = select.poll()
        poller.register(self.fileno(), select.POLLIN)
        return poller

    def __del__(self, *_: object) -> None:
        """Close silently if the store was never closed. psycopg would warn about that."""


def violates(error: psycopg.Error, index: str) -> bool:
    """Return True if `error` was raised by this index. In a distributed store, the number of the
    shard follows the name of the index, which may be only in the message."""
    name = error.diag.constraint_name or error.diag.message_primary or ""
    return index in name


def build_conninfo(url: str, *, read_only: bool = False, timeout: float = DEFAULT_TIMEOUT) -> str:
    """Return the address with all the settings that our connections need."""
    ours: Params = {
        "application_name": "backstory",
        "tcp_user_timeout": count_milliseconds(timeout),
    }
    parameters = ours | KEEPALIVES | conninfo_to_dict(url)
    options = f"{parameters.get('options') or ''} {build_options(read_only, timeout)}".strip()
    parameters |= {"options": options, "client_encoding": "UTF8"}
    return make_conninfo("", **parameters)


def count_milliseconds(seconds: float) -> int:
    """Return a time in milliseconds, at least one. For PostgreSQL, 0 means no limit."""
    return max(1, round(seconds * 1000))


def limit_locks(timeout: float) -> int:
    """Return how long the server waits for a lock, in milliseconds, if a call may take `timeout`
    seconds."""
    return count_milliseconds(timeout - min(LOCK_MARGIN, timeout / 10))


def list_settings(read_only: bool) -> dict[str, str]:
    """Return the settings that a connection must have, as SQL literals."""
    if read_only:
        return CONNECTION_SETTINGS | {"default_transaction_read_only": "on"}
    return CONNECTION_SETTINGS


def build_options(read_only: bool, timeout: float) -> str:
    """Return our settings as the `options` of a connection. If a client vanishes within a
    transaction, the server ends the transaction while others still wait for its locks."""
    settings = list_settings(read_only) | {
        "lock_timeout": str(limit_locks(timeout)),
        "idle_in_transaction_session_timeout": str(count_milliseconds(timeout / 2)),
    }
    options = []
    for name, value in settings.items():
        escaped = value.strip("'").replace(" ", "\\ ")
        options.append(f"-c {name}={escaped}")
    return " ".join(options)


def split_prepare(url: str) -> tuple[str, bool]:
    """Return an address without `prepare=on` or `prepare=off`, and whether statements may be
    prepared."""
    address, query = split_postgres(url)
    parts = query[1:].split("&") if query else []
    choices = [part for part in parts if part.startswith("prepare=")]
    for choice in choices:
        if choice not in ("prepare=on", "prepare=off"):
            raise ValueError("prepare must be on or off")
    rest = "&".join(part for part in parts if part not in choices)
    if rest:
        address = f"{address}?{rest}"
    return address, "prepare=off" not in choices


def connect(
    conninfo: str, *, prepares: bool, timeout: float, deadline: float
) -> PostgresConnection:
    """Open a connection. Without `prepares`, it never prepares a statement. The time to connect is
    limited to whole seconds, at least two."""
    if "connect_timeout" not in conninfo_to_dict(conninfo):
        remaining = math.ceil(deadline - time.monotonic())
        seconds = max(1, min(LONGEST_CONNECT, remaining))
        conninfo = make_conninfo(conninfo, connect_timeout=seconds)
    threshold = PREPARE_AFTER if prepares else None
    db = PostgresConnection.connect(conninfo, autocommit=True, prepare_threshold=threshold)
    db.timeout = timeout
    db.deadline = deadline
    return db


def is_idle(db: PostgresConnection) -> bool:
    """Return True if the connection is open and not in a transaction."""
    return db.pgconn.transaction_status == TransactionStatus.IDLE


def is_alive(db: PostgresConnection) -> bool:
    """Return True if the server has sent nothing. It sends nothing over an idle connection, unless
    it closes it."""
    if db.poller is None:
        readable, _, _ = select.select([db], [], [], 0)
        return not readable
    return not db.poller.poll(0)


def is_pooler(db: Connection) -> bool:
    """Return True if there is a pooler between us and the server: it makes up its own process ids.
    Another client's prepared statements may then run instead of ours."""
    return db.execute(BACKEND_PID).fetchone() != (db.info.backend_pid,)


def cannot_write(db: Connection) -> bool:
    """Return True if the server, or the rights of the user, allow no writes."""
    return db.execute(CANNOT_WRITE).fetchone() == (True,)


def check_settings(db: PostgresConnection, url: str, *, read_only: bool = False) -> None:
    """Raise CannotOpen if the connection lacks the settings that we asked for."""
    settings = list_settings(read_only)
    for name, value in db.execute(CURRENT_SETTINGS, (list(settings),)).fetchall():
        if value.translate(QUOTES_AND_SPACES) != settings[name].translate(QUOTES_AND_SPACES):
            raise CannotOpen(
                f"{url!r}: the settings of the connection were dropped on the way "
                f"({name} is {value!r})",
                remedy="connect to the server itself, or have the pooler pass `options` on, or run "
                f"ALTER ROLE … SET {name} = {settings[name]}",
            )
    has_more = db.info.get_parameters().get("options") != build_options(read_only, db.timeout)
    if has_more and db.execute(HAS_OPTIONS).fetchone() != (True,):
        raise CannotOpen(
            f"{url!r}: the options of the address were dropped on the way",
            remedy="connect to the server itself, or have the pooler pass `options` on",
        )


def measure_event(content: str | None, data_json: str | None) -> int:
    """Return the size of an event in bytes: an estimate, but exact for large events. Raises
    Invalid if it is too large."""
    size = len(content or "") + len(data_json or "")
    if size * 4 <= LARGEST_EVENT:  # a character takes at most four bytes
        return size
    size = len((content or "").encode()) + len((data_json or "").encode())
    if size > LARGEST_EVENT:
        raise Invalid(
            f"an event of {size:,} bytes is too large for PostgreSQL, which takes at most "
            f"{LARGEST_EVENT:,}",
            remedy="put the content in a file, and its path in the event",
        )
    return size


def is_lost(error: Exception) -> bool:
    """Return True if the connection is gone: no answer at all, class 08, or the server shutting
    down."""
    if not isinstance(error, psycopg.OperationalError):
        return False
    return error.sqlstate is None or error.sqlstate.startswith(("08", "57P0"))


def make_translator(
    url: str,
    *,
    read_only: bool = False,
    timeout: float = DEFAULT_TIMEOUT,
    otherwise: type[StorageError] = StorageError,
) -> ErrorTranslator:
    """Return a `with` block that raises the errors of the server and of the pool as ours. One that
    we have no name for becomes `otherwise`."""

    def translate(error: Exception) -> StorageError:
        translated = translate_error(error, url, timeout, otherwise)
        if read_only and isinstance(translated, ReadOnly):
            return build_read_only_error(url)
        return translated

    return ErrorTranslator((psycopg.Error, PoolTimeout, PoolClosed), translate)


def build_read_only_error(url: str) -> ReadOnly:
    """Return the error for writing to a store that was opened for reading only."""
    return ReadOnly(f"{url!r} is open for reading only", remedy="open it without read_only=True")


def translate_error(
    error: Exception, url: str, timeout: float, otherwise: type[StorageError]
) -> StorageError:
    """Return an error of the server or of the pool as one of our errors, with a remedy."""
    message = str(error).strip()
    match error:
        case PoolClosed():
            return build_closed_error(url)
        case PoolTimeout():
            return Busy(
                f"{url!r}: no connection within {timeout:g} seconds ({message})",
                remedy="check that the server is up, and try again",
            )
        case psycopg.errors.LockNotAvailable():
            return Busy(
                f"{url!r}: someone else has held a lock for {limit_locks(timeout) / 1000:g} "
                f"seconds ({message})",
                remedy="try again, or end their transaction",
            )
        case psycopg.errors.UniqueViolation():
            remedy = Remedy("{} shows what is wrong", "verify")
            return StorageError(f"{url!r}: {message}", remedy=remedy)
        case psycopg.errors.ReadOnlySqlTransaction():
            return ReadOnly(
                f"{url!r} cannot be written ({message})", remedy="connect to the primary server"
            )
        case psycopg.errors.InsufficientPrivilege():
            return ReadOnly(
                f"{url!r}: {message}", remedy="ask the owner of the database for permission"
            )
    if otherwise is CannotOpen:
        return CannotOpen(
            f"cannot open {url!r} ({message})",
            remedy="check the address, the user and the password, and that the server is up",
        )
    if is_lost(error):
        return ConnectionLost(
            f"{url!r}: {message}: what was under way may or may not have been written",
            remedy=Remedy("{} shows whether it was", "events"),
        )
    return otherwise(f"{url!r}: {message}")
