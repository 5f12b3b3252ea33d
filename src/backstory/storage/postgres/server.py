"""Opening a PostgreSQL database: its address, its version, its tables, and what its errors mean.

Nothing here reads or writes an event.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, LiteralString

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import PoolTimeout

from backstory.errors import (
    Busy,
    CannotOpen,
    ConnectionLost,
    NewerVersion,
    ReadOnly,
    Remedy,
    StorageError,
)
from backstory.storage.address import split_postgres
from backstory.storage.postgres.cluster import distribute, has_citus, is_distributed
from backstory.storage.postgres.schema import VERSION_2

Connection = psycopg.Connection[tuple[Any, ...]]

SCHEMA = "backstory"
OLDEST_SERVER = 14
LOCK_PATIENCE = 60  # seconds to wait for a row that an idle transaction has locked
# Our names are all qualified; the search path keeps a function in another schema from being taken for a
# built-in one. The isolation level does not depend on the database's defaults, because an append has to see
# what the writer before it committed.
SETTINGS = {
    "search_path": "pg_catalog, pg_temp",
    "default_transaction_isolation": "'read committed'",
}
BARE = str.maketrans("", "", "\"' ")  # without quotes and spaces
HAS_SETTINGS = """
    SELECT name, pg_catalog.current_setting(name) FROM pg_catalog.unnest(%s::pg_catalog.text[]) AS s (name)"""
HAS_OPTIONS = "SELECT source = 'client' FROM pg_catalog.pg_settings WHERE name = 'search_path'"
PATIENCE = 30.0  # seconds to wait for the server or for a free connection

# MIGRATIONS[n] takes a store from version n to n + 1. {partition} is empty except in the test that
# shows which statements stay within one partition.
MIGRATIONS: tuple[LiteralString, ...] = (
    """
    CREATE TABLE backstory.agents (
        session uuid NOT NULL,
        no integer NOT NULL,
        id uuid NOT NULL,
        name text NOT NULL,
        parent integer,
        fork_seq integer NOT NULL,
        born_seq integer NOT NULL,
        spawned boolean NOT NULL,
        created_at bigint NOT NULL,
        head integer NOT NULL,
        updated_at bigint NOT NULL,
        PRIMARY KEY (session, no),
        UNIQUE (session, name),
        FOREIGN KEY (session, parent) REFERENCES backstory.agents (session, no)
    );
    CREATE INDEX agents_id ON backstory.agents (id);
    CREATE INDEX agents_name ON backstory.agents (name);
    CREATE TABLE backstory.events (
        session uuid NOT NULL,
        created_at bigint NOT NULL,
        agent integer NOT NULL,
        seq integer NOT NULL,
        base integer,
        kind text NOT NULL,
        content text,
        data text,
        PRIMARY KEY (session, agent, seq)
    );
    CREATE INDEX events_jumps ON backstory.events (session, agent, seq) INCLUDE (base) WHERE base IS NOT NULL;
    CREATE INDEX events_marks ON backstory.events (session, agent, seq) WHERE kind = 'mark';
    """,
    VERSION_2,
)
META = (
    "CREATE TABLE backstory.meta (version integer NOT NULL); INSERT INTO backstory.meta VALUES (0)"
)
ONE_MIGRATES = (
    "SELECT pg_catalog.pg_advisory_xact_lock(4849321)"  # only one process migrates; others wait
)
OWNER = """
    SELECT r.rolname, r.rolsuper OR pg_catalog.pg_has_role(r.oid, 'MEMBER')
        OR r.oid = (SELECT datdba FROM pg_catalog.pg_database
            WHERE datname = pg_catalog.current_database())
    FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner
    WHERE n.nspname = 'backstory'"""
HAS_META = "SELECT pg_catalog.to_regclass('backstory.meta') IS NOT NULL"
CANNOT_WRITE = """
    SELECT pg_catalog.current_setting('transaction_read_only') = 'on'
        OR NOT pg_catalog.has_table_privilege('backstory.events', 'INSERT')"""


class Clash(StorageError):
    """A key that already exists: a taken name or number, or a head that lags behind its events."""

    def is_in(self, index: str) -> bool:
        """Whether it is in an index. On several servers, numbers follow the names of indexes."""
        cause = self.__cause__
        return isinstance(cause, psycopg.Error) and (cause.diag.constraint_name or "").startswith(
            index
        )


def conninfo(url: str, *, read_only: bool = False) -> str:
    """The address with all the settings that our connections need."""
    known = conninfo_to_dict(url)
    options = f"{known.get('options') or ''} {_options(read_only)}".strip()
    known.setdefault("connect_timeout", 10)
    known.setdefault("application_name", "backstory")
    return make_conninfo("", **{**known, "options": options, "client_encoding": "UTF8"})


def _settings(read_only: bool) -> dict[str, str]:
    """The settings that a connection must have, as SQL literals."""
    return SETTINGS | {"default_transaction_read_only": "on"} if read_only else SETTINGS


def _options(read_only: bool) -> str:
    wanted = _settings(read_only) | {"lock_timeout": f"{LOCK_PATIENCE}s"}
    escaped = {name: value.strip("'").replace(" ", "\\ ") for name, value in wanted.items()}
    return " ".join(f"-c {name}={value}" for name, value in escaped.items())


def split_prepare(url: str) -> tuple[str, bool]:
    """An address without `prepare=on` or `prepare=off`, and whether statements may be prepared."""
    place, query = split_postgres(url)
    parts = query[1:].split("&") if query else []
    asked = [part for part in parts if part.startswith("prepare=")]
    if any(part not in ("prepare=on", "prepare=off") for part in asked):
        raise ValueError("prepare must be on or off")
    rest = "&".join(part for part in parts if part not in asked)
    return place + (f"?{rest}" if rest else ""), "prepare=off" not in asked


def is_pooled(db: Connection) -> bool:
    """Whether there is a pooler between us and the server: it makes up its own process ids. Another client's
    prepared statements may then run instead of ours."""
    return db.execute("SELECT pg_catalog.pg_backend_pid()").fetchone() != (db.info.backend_pid,)


def check_connection(db: Connection, url: str, *, read_only: bool = False) -> None:
    """Refuse a connection without the settings we asked for."""
    wanted = _settings(read_only)
    for name, found in db.execute(HAS_SETTINGS, (list(wanted),)).fetchall():
        if found.translate(BARE) != wanted[name].translate(BARE):
            raise CannotOpen(
                f"{url!r}: the settings of the connection were dropped on the way ({name} is {found!r})",
                remedy="connect to the server itself, or have the pooler pass `options` on, or run "
                f"ALTER ROLE … SET {name} = {wanted[name]}",
            )
    has_more = db.info.get_parameters().get("options") != _options(read_only)
    if has_more and db.execute(HAS_OPTIONS).fetchone() != (True,):
        raise CannotOpen(
            f"{url!r}: the options of the address were dropped on the way",
            remedy="connect to the server itself, or have the pooler pass `options` on",
        )


@contextmanager
def transaction(db: Connection, *, on_many_servers: bool) -> Iterator[None]:
    """A transaction that does not wait without limit for others. The workers of a cluster do not know the
    settings of our connection: they are told for as long as it lasts."""
    with db.transaction():
        if on_many_servers:
            db.execute("SET LOCAL citus.propagate_set_commands TO 'local'")
            db.execute(f"SET LOCAL lock_timeout TO '{LOCK_PATIENCE}s'")
        yield


def migrate(db: Connection, url: str, *, read_only: bool = False) -> None:
    """Create the tables, or migrate older ones, in one transaction. If read_only, they must already exist."""
    if db.info.server_version < OLDEST_SERVER * 10_000:
        raise CannotOpen(
            f"the server at {url!r} is PostgreSQL {db.info.server_version // 10_000}",
            remedy=f"upgrade it to {OLDEST_SERVER} or newer",
        )
    if db.info.parameter_status("server_encoding") != "UTF8":
        raise CannotOpen(
            f"the database at {url!r} is not in UTF-8", remedy="create one with ENCODING 'UTF8'"
        )
    version = _version(db, url)
    if version == len(MIGRATIONS):
        return
    if read_only and version is None:
        raise CannotOpen(
            f"no store at {url!r}", remedy="open it without read_only=True to create one"
        )
    if read_only:
        raise ReadOnly(
            f"the store at {url!r} has version {version} of the store format and has to be migrated",
            remedy="open it once without read_only=True",
        )
    if version is not None and is_distributed(db):
        raise CannotOpen(
            f"the store at {url!r} was distributed by an older backstory (store format {version})",
            remedy="export it with that version, and import it into a new database",
        )
    with db.transaction():
        db.execute(ONE_MIGRATES)
        if not _has_schema(db, url):
            db.execute(f"CREATE SCHEMA {SCHEMA}")
        version = _version(db, url)
        if version is None:
            db.execute(META)
        for step in MIGRATIONS[version or 0 :]:
            db.execute(step.replace("{partition}", ""))
        db.execute("UPDATE backstory.meta SET version = %s", (len(MIGRATIONS),))
        if version is None and has_citus(db):
            deque(distribute(db), maxlen=0)


def _has_schema(db: Connection, url: str) -> bool:
    """Whether our schema exists. Refuses one that belongs to another user, whose functions would run with our
    privileges: nothing in the schema may be read before this was asked."""
    for owner, is_trusted in db.execute(OWNER).fetchall():
        if not is_trusted:
            raise CannotOpen(
                f"the schema {SCHEMA!r} at {url!r} belongs to {owner!r}, whose code would run as yours",
                remedy="connect as that user, or use another database",
            )
        return True
    return False


def _version(db: Connection, url: str) -> int | None:
    """The version of the store, or None before it is created."""
    if not _has_schema(db, url) or db.execute(HAS_META).fetchone() != (True,):
        return None
    found = db.execute("SELECT version FROM backstory.meta").fetchall()
    if len(found) != 1:
        raise CannotOpen(
            f"the store at {url!r} is damaged: backstory.meta has {len(found)} rows instead of one",
            remedy="restore it from a backup",
        )
    [(version,)] = found
    if version > len(MIGRATIONS):
        raise NewerVersion.of(f"the store at {url!r}", version, len(MIGRATIONS))
    return int(version)


def _is_lost(sqlstate: str | None) -> bool:
    """Whether the connection is gone: no answer at all, class 08, or the server shutting down."""
    return sqlstate is None or sqlstate.startswith(("08", "57P0"))


def reads_only(url: str) -> ReadOnly:
    """The error for writing to a store that was opened for reading only."""
    return ReadOnly(f"{url!r} is open for reading only", remedy="open it without read_only=True")


def translation(error: Exception, url: str, otherwise: type[StorageError]) -> StorageError:
    """An error from the server or the pool, as one of our errors, with a remedy."""
    said = str(error).strip()
    match error:
        case PoolTimeout():
            return Busy(
                f"{url!r}: no connection within {PATIENCE:.0f} seconds ({said})",
                remedy="check that the server is up, and try again",
            )
        case psycopg.errors.LockNotAvailable():
            return Busy(
                f"{url!r}: someone else has held a lock for {LOCK_PATIENCE} seconds ({said})",
                remedy="try again, or end their transaction",
            )
        case psycopg.errors.UniqueViolation():
            return Clash(f"{url!r}: {said}", remedy=Remedy("{} shows what is wrong", "verify"))
        case psycopg.errors.ReadOnlySqlTransaction():
            return ReadOnly(
                f"{url!r} cannot be written ({said})", remedy="connect to the primary server"
            )
        case psycopg.errors.InsufficientPrivilege():
            return ReadOnly(
                f"{url!r}: {said}", remedy="ask the owner of the database for permission"
            )
    if otherwise is CannotOpen:
        return CannotOpen(
            f"cannot open {url!r} ({said})",
            remedy="check the address, the user and the password, and that the server is up",
        )
    if isinstance(error, psycopg.OperationalError) and _is_lost(error.sqlstate):
        return ConnectionLost(
            f"{url!r}: {said}: what was under way may or may not have been written",
            remedy=Remedy("{} shows whether it was", "events"),
        )
    return otherwise(f"{url!r}: {said}")
