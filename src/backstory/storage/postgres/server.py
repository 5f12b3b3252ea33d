"""Opening a PostgreSQL database: its address, its version, its tables, and what its errors mean.

Nothing here reads or writes an event.
"""

import select
from typing import Any, LiteralString

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool, PoolTimeout

from backstory.errors import Busy, CannotOpen, ConnectionLost, NewerVersion, ReadOnly, Remedy, StorageError
from backstory.storage.postgres.schema import VERSION_2

Connection = psycopg.Connection[tuple[Any, ...]]

SCHEMA = "backstory"
OLDEST_SERVER = 14
PATIENCE = 30.0  # seconds to wait for the server or for a free connection

# MIGRATIONS[n] takes a store from version n to n + 1. {partition} is empty but in the test that
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
    ) {partition};
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
    ) {partition};
    CREATE INDEX events_jumps ON backstory.events (session, agent, seq) INCLUDE (base) WHERE base IS NOT NULL;
    CREATE INDEX events_marks ON backstory.events (session, agent, seq) WHERE kind = 'mark';
    """,
    VERSION_2,
)
META = "CREATE TABLE backstory.meta (version integer NOT NULL); INSERT INTO backstory.meta VALUES (0)"
DISTRIBUTE = """
    SELECT create_reference_table('backstory.meta');
    SELECT create_reference_table('backstory.followers');
    SELECT create_distributed_table('backstory.directory', 'id');
    SELECT create_distributed_table('backstory.sources', 'id');
    SELECT create_distributed_table('backstory.agents', 'session');
    SELECT create_distributed_table('backstory.events', 'session', colocate_with => 'backstory.agents')"""
ONE_MIGRATES = "SELECT pg_advisory_xact_lock(4849321)"  # and the others wait
CANNOT_WRITE = """
    SELECT pg_catalog.current_setting('transaction_read_only') = 'on'
        OR NOT pg_catalog.has_table_privilege('backstory.events', 'INSERT')"""
HAS_CITUS = "SELECT 1 FROM pg_extension WHERE extname = 'citus'"


class Clash(StorageError):
    """A key that is there already: a taken name or number, or a head that lags behind its events."""


def conninfo(url: str, *, read_only: bool = False) -> str:
    """The address with all that a connection of ours needs."""
    known = conninfo_to_dict(url)
    # All names of ours are qualified. The search path keeps a function that somebody left in another schema
    # from being taken for a built-in one. Whatever the database's defaults are: an append needs to see what
    # the writer before it left.
    ours = "-c search_path=pg_catalog,pg_temp -c default_transaction_isolation=read\\ committed"
    ours += " -c default_transaction_read_only=on" if read_only else ""
    options = f"{known.get('options') or ''} {ours}".strip()
    known.setdefault("connect_timeout", 10)
    known.setdefault("application_name", "backstory")
    return make_conninfo("", **{**known, "options": options})


def migrate(db: Connection, url: str, *, read_only: bool = False) -> None:
    """Make the tables, or bring older ones up to date, in one transaction. For reading only, they have to be
    there already."""
    if db.info.server_version < OLDEST_SERVER * 10_000:
        raise CannotOpen(
            f"the server at {url!r} is PostgreSQL {db.info.server_version // 10_000}",
            remedy=f"upgrade it to {OLDEST_SERVER} or newer",
        )
    if db.info.parameter_status("server_encoding") != "UTF8":
        raise CannotOpen(f"the database at {url!r} is not in UTF-8", remedy="create one with ENCODING 'UTF8'")
    version = _version(db, url)
    if version == len(MIGRATIONS):
        return
    if read_only and version is None:
        raise CannotOpen(f"there is no store at {url!r}", remedy="open it without read_only=True to make one")
    if read_only:
        raise ReadOnly(
            f"the store at {url!r} has version {version} of the store format and has to be migrated",
            remedy="open it once without read_only=True",
        )
    with db.transaction():
        db.execute(ONE_MIGRATES)
        if db.execute("SELECT to_regnamespace(%s)", (SCHEMA,)).fetchall() == [(None,)]:
            db.execute(f"CREATE SCHEMA {SCHEMA}")
        version = _version(db, url)
        if version is None:
            db.execute(META)
        for step in MIGRATIONS[version or 0 :]:
            db.execute(step.replace("{partition}", ""))
        db.execute("UPDATE backstory.meta SET version = %s", (len(MIGRATIONS),))
        if version is None and db.execute(HAS_CITUS).fetchone():
            for statement in DISTRIBUTE.split(";"):
                db.execute(statement)


def _version(db: Connection, url: str) -> int | None:
    """The store's version; None where there is no store yet."""
    if db.execute("SELECT to_regclass('backstory.meta')").fetchall() == [(None,)]:
        return None
    [(version,)] = db.execute("SELECT version FROM backstory.meta").fetchall()
    if version > len(MIGRATIONS):
        raise NewerVersion(
            f"the store at {url!r} has version {version} of the store format, and this backstory knows "
            f"up to {len(MIGRATIONS)}",
            remedy="upgrade backstory",
        )
    return int(version)


def check_if_silent(db: Connection) -> None:
    """An idle connection has nothing to say: if there is something to read, the server has most
    likely closed it, and only then is it worth a round trip to find out."""
    if hasattr(select, "poll"):  # select() itself knows no file numbers above 1023
        poll = select.poll()
        poll.register(db.fileno(), select.POLLIN)
        readable = bool(poll.poll(0))
    else:
        readable = bool(select.select([db.fileno()], [], [], 0)[0])
    if readable:
        ConnectionPool.check_connection(db)


def _is_lost(sqlstate: str | None) -> bool:
    """Whether the connection is gone: no answer at all, class 08, or the server shutting down."""
    return sqlstate is None or sqlstate.startswith(("08", "57P0"))


def translation(error: Exception, url: str, otherwise: type[StorageError]) -> StorageError:
    """What the server or the pool said, as an error of ours that says what to do."""
    said = str(error).strip()
    match error:
        case PoolTimeout():
            return Busy(
                f"{url!r}: no connection within {PATIENCE:.0f} seconds ({said})",
                remedy="check that the server is up, and try again",
            )
        case psycopg.errors.UniqueViolation():
            return Clash(f"{url!r}: {said}", remedy=Remedy("{} shows what is wrong", "verify"))
        case psycopg.errors.ReadOnlySqlTransaction():
            return ReadOnly(f"{url!r} cannot be written ({said})", remedy="connect to the primary server")
        case psycopg.errors.InsufficientPrivilege():
            return ReadOnly(f"{url!r}: {said}", remedy="ask the owner of the database for permission")
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
