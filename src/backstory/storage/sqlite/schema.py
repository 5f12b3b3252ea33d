"""The tables of an SQLite store: versions, migrations, and the checks of `verify`."""

import os
from collections.abc import Sequence
from typing import Any

import apsw

from backstory.errors import CannotOpen, NewerVersion
from backstory.log.digests import START, digest_row, is_erased
from backstory.log.erasure import replace_erased_digests
from backstory.log.events import StoredRow
from backstory.storage.ids import new_salts
from backstory.storage.sqlite.frames import CONTENT_OR_NULL, DAMAGED_FRAMES, DATA_OR_NULL

APPLICATION_ID = 0x42535459  # "BSTY": tells our files from other SQLite databases
PAGE_SIZE = 8192
ANOTHER_PATH = "give another path"

# The id of an event combines the number of its agent and its position, so the events of one agent
# are stored together. The columns `agent` and `seq` of an event are computed from its id.
LAST_SEQ = 2**32 - 1


def build_event_id(agent: int, seq: int) -> int:
    """Return the id of the event at a position that an agent owns."""
    return (agent << 32) + seq


def write_event_id(agent: str, seq: str) -> str:
    """Return the SQL expression for the id of an event."""
    return f"(({agent} << 32) + {seq})"


def write_seq(id: str) -> str:
    """Return the SQL expression for the position of the event with an id."""
    return f"({id} & {LAST_SEQ})"


def write_agent(id: str) -> str:
    """Return the SQL expression for the number of the agent that owns the event with an id."""
    return f"({id} >> 32)"


# The events `e` that the agent `a` owns.
FIRST_ID = write_event_id("a.no", "0")
LAST_ID = write_event_id("a.no", f"{LAST_SEQ}")
IS_OWN = f"e.id BETWEEN {FIRST_ID} AND {LAST_ID}"

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
    # Version 2: keys, notes, details of agents, and the chain of digests, which `add_salts`
    # computes.
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
    # Version 3: compressed events. A program of version 2 that still has the store open knows
    # nothing of frames: if it writes text into an event, such as that the event was erased, the
    # trigger removes the frame.
    """
    ALTER TABLE events ADD COLUMN packed BLOB;
    ALTER TABLE events ADD COLUMN size INTEGER;
    CREATE TRIGGER event_texts AFTER UPDATE OF content, data ON events
    WHEN new.packed IS NOT NULL AND (new.content IS NOT NULL OR new.data IS NOT NULL)
    BEGIN UPDATE events SET packed = NULL, size = NULL WHERE id = new.id; END;
    """,
    # Version 4: numbers that are never given twice. Earlier, a row named '/' kept the last number
    # of a deleted agent from being given again. If a damaged store has a child of such a row, the
    # row becomes that of a deleted agent, which `verify` reports. `touched` counts minutes instead
    # of seconds. Events get salts, so all digests are computed again.
    """
    CREATE TABLE numbers (last_no INTEGER NOT NULL) STRICT;
    INSERT INTO numbers SELECT coalesce(max(no), 0) FROM agents;
    DELETE FROM agents WHERE name = '/' AND no NOT IN (
        SELECT parent FROM agents WHERE parent IS NOT NULL);
    UPDATE agents SET name = '/' || id WHERE name = '/';
    UPDATE agents SET touched = touched / 60;
    ALTER TABLE agents ADD COLUMN times_dropped INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE events ADD COLUMN salt BLOB;
    CREATE TABLE stamp (own BLOB NOT NULL, previous BLOB) STRICT;
    CREATE TABLE removals (
        id TEXT PRIMARY KEY,
        removed_at INTEGER NOT NULL,
        action TEXT NOT NULL,
        session TEXT NOT NULL,
        agent TEXT NOT NULL,
        positions TEXT,
        events INTEGER NOT NULL,
        author TEXT,
        reason TEXT
    ) STRICT, WITHOUT ROWID;
    """,
)
FIRST_VERSION_WITH_SALTS = 4

VERSION = """
    SELECT (SELECT application_id FROM pragma_application_id),
        (SELECT user_version FROM pragma_user_version),
        (SELECT count(*) FROM sqlite_master)"""


def read_version(db: apsw.Connection, path: str) -> int:
    """Return the version of the store, or 0 for an empty file. Raises CannotOpen if the file
    belongs to another program, and NewerVersion."""
    found: list[Any] = db.execute(VERSION).fetchall()
    [(application, version, objects)] = found
    if application != APPLICATION_ID and objects:
        raise CannotOpen(f"{path!r} is an SQLite database of another program", remedy=ANOTHER_PATH)
    if version > len(MIGRATIONS):
        raise NewerVersion.of(repr(path), version, len(MIGRATIONS))
    return int(version)


def migrate(db: apsw.Connection, path: str) -> None:
    """Switch the file to WAL mode, and create or migrate its tables."""
    version = read_version(db, path)
    if version == 0:
        db.execute(f"PRAGMA page_size = {PAGE_SIZE}")
    db.execute("PRAGMA journal_mode = WAL")
    if version == len(MIGRATIONS):
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        change_tables(db, read_version(db, path))  # another process may have migrated it since
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def change_tables(db: apsw.Connection, version: int) -> None:
    """Run the migrations from `version` on."""
    for migration in MIGRATIONS[version:]:
        db.execute(migration)
    if 0 < version < FIRST_VERSION_WITH_SALTS:
        add_salts(db)
    db.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    db.execute(f"PRAGMA application_id = {APPLICATION_ID}")


MIGRATED_AT_ONCE = 10_000  # events
AGENTS_WITH_ORIGINS = "SELECT no, parent, fork_seq FROM agents ORDER BY no"
INHERITED_DIGEST = f"SELECT digest FROM events WHERE id = {write_event_id('?', '?')}"
EVENTS_WITHOUT_SALTS = f"""
    SELECT e.seq, e.kind, {CONTENT_OR_NULL}, {DATA_OR_NULL}, e.created_at, e.key, e.base, e.digest,
        NULL
    FROM events e WHERE e.id BETWEEN ? AND ? ORDER BY e.id LIMIT {MIGRATED_AT_ONCE}"""
SET_SALT = "UPDATE events SET digest = ?, salt = ? WHERE id = ?"
SET_DATA = "UPDATE events SET data = ? WHERE id = ?"


def add_salts(db: apsw.Connection) -> None:
    """Add salts to the events of an older store, and compute the digests with them. A parent has a
    smaller number than its children, so its digests are there before theirs."""
    agents: list[Any] = db.execute(AGENTS_WITH_ORIGINS).fetchall()
    for no, parent, fork_seq in agents:
        digest = START
        for (inherited,) in db.execute(INHERITED_DIGEST, (parent, fork_seq)):
            digest = inherited
        first, last = build_event_id(no, 0), build_event_id(no, LAST_SEQ)
        while True:
            rows = [StoredRow._make(row) for row in db.execute(EVENTS_WITHOUT_SALTS, (first, last))]
            if not rows:
                break
            digest = salt_rows(db, no, rows, digest)
            first = build_event_id(no, rows[-1].seq + 1)


def salt_rows(db: apsw.Connection, no: int, rows: Sequence[StoredRow], digest: bytes) -> bytes:
    """Add salts to some rows of one agent, which follow `digest`. Return the last digest."""
    salted = []
    for row, salt in zip(rows, new_salts(len(rows)), strict=True):
        id = build_event_id(no, row.seq)
        if is_erased(row.data_json):
            data_json = replace_erased_digests(row.data_json or "", os.urandom(32))
            db.execute(SET_DATA, (data_json, id))
            row = row._replace(data_json=data_json)
        else:
            row = row._replace(salt=salt)
        digest = digest_row(digest, row, row.event.data)
        salted.append((digest, row.salt, id))
    db.executemany(SET_SALT, salted)
    return digest


# The indexes and triggers that a store must have, and their types.
NEEDED_OBJECTS = {
    "agents_key": "index",
    "agents_name": "index",
    "agents_title": "index",
    "agents_touched": "index",
    "event_keys": "index",
    "event_texts": "trigger",
    "jumps": "index",
    "marks": "index",
    "notes": "index",
}
OBJECTS = "SELECT name FROM sqlite_master WHERE type IN ('index', 'trigger')"
EVENTS_WITHOUT_AGENTS = """
    SELECT count(*), min(agent) FROM events WHERE agent NOT IN (SELECT no FROM agents)"""
ARE_NUMBERS_RIGHT = """
    SELECT count(*) = 1 AND max(last_no) >= (SELECT coalesce(max(no), 0) FROM agents)
    FROM numbers"""


def check_tables(db: apsw.Connection) -> list[str]:
    """Return what is wrong with pages, indexes, frames and references. `db` must be a new
    connection: FTS5 caches the structure of an index in its connection, and SQLite's check does
    not notice that another process has changed the index since."""
    problems = []
    for (text,) in db.execute("PRAGMA integrity_check"):
        if text != "ok":
            problems.append(text)
    existing = {name for (name,) in db.execute(OBJECTS)}
    for name, type in NEEDED_OBJECTS.items():
        if name not in existing:
            problems.append(f"the {type} {name} is missing")
    [(count, number)] = db.execute(EVENTS_WITHOUT_AGENTS).fetchall()
    if count:
        problems.append(f"{count} events belong to agents that do not exist, first number {number}")
    if db.execute(ARE_NUMBERS_RIGHT).fetchall() != [(1,)]:
        problems.append("the table numbers does not have the last number of an agent")
    for name, id, seq in db.execute(DAMAGED_FRAMES):
        problems.append(f"event {seq} of agent {name!r} ({id}) is packed, and the frame is damaged")
    return problems
