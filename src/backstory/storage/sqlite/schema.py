"""The tables of an SQLite store as they are now, the ids of events, and the checks of `verify`."""

from collections.abc import Iterator

import apsw

from backstory.storage.sqlite.frames import DAMAGED_FRAMES

APPLICATION_ID = 0x42535459  # "BSTY": tells our files from other SQLite databases
PAGE_SIZE = 8192
ANOTHER_PATH = "give another path"

# The id of an event combines the number of its agent and its position, so the events of one agent
# are stored together. The columns `agent` and `seq` of an event are computed from its id.
LAST_SEQ = 2**32 - 1


def build_event_id(agent: int, seq: int) -> int:
    """Return the id of the event at a position that an agent owns."""
    return (agent << 32) + seq


def build_event_id_sql(agent: str, seq: str) -> str:
    """Return the SQL expression for the id of an event."""
    return f"(({agent} << 32) + {seq})"


def build_seq_sql(id: str) -> str:
    """Return the SQL expression for the position of the event with an id."""
    return f"({id} & {LAST_SEQ})"


def build_agent_sql(id: str) -> str:
    """Return the SQL expression for the number of the agent that owns the event with an id."""
    return f"({id} >> 32)"


# The events `e` that the agent `a` owns.
FIRST_ID = build_event_id_sql("a.no", "0")
LAST_ID = build_event_id_sql("a.no", f"{LAST_SEQ}")
IS_OWN = f"e.id BETWEEN {FIRST_ID} AND {LAST_ID}"
# The newest position of the agent `a`: without own events, that of its fork.
HEAD = f"""max(a.fork_seq, coalesce(
    (SELECT {build_seq_sql("max(e.id)")} FROM events e WHERE {IS_OWN}), 0))"""

VERSION = 4

AGENTS = """
    CREATE TABLE agents (
        no INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        session INTEGER NOT NULL REFERENCES agents (no), -- of a root, its own number
        name TEXT NOT NULL,
        parent INTEGER REFERENCES agents (no),
        fork_seq INTEGER NOT NULL,
        born_seq INTEGER NOT NULL,
        spawned INTEGER NOT NULL,
        created_at INTEGER NOT NULL,
        key TEXT,
        about TEXT,
        touched INTEGER NOT NULL DEFAULT 0, -- the minute of the last event
        deleted INTEGER,
        times_dropped INTEGER NOT NULL DEFAULT 0, -- 1 if an event is older than the one before
        UNIQUE (session, name)
    ) STRICT;
    CREATE INDEX agents_name ON agents (name);
    """
AGENT_INDEXES = """
    CREATE UNIQUE INDEX agents_key ON agents (key) WHERE key IS NOT NULL;
    CREATE INDEX agents_touched ON agents (touched);
    CREATE INDEX agents_title ON agents (about ->> '$.title') WHERE about IS NOT NULL;
    """

# The last number that was given to an agent: none is given twice.
NUMBERS = """
    CREATE TABLE numbers (last_no INTEGER NOT NULL) STRICT;
    INSERT INTO numbers SELECT coalesce(max(no), 0) FROM agents;
    """

EVENTS = """
    CREATE TABLE events (
        id INTEGER PRIMARY KEY,
        agent INTEGER NOT NULL AS (id >> 32) REFERENCES agents (no),
        seq INTEGER NOT NULL AS (id & 4294967295),
        kind TEXT NOT NULL,
        content TEXT,
        data TEXT,
        created_at INTEGER NOT NULL,
        base INTEGER,
        key TEXT,
        digest BLOB NOT NULL DEFAULT x'',
        packed BLOB, -- content and data, if they are compressed (`frames`)
        size INTEGER, -- the bytes of both before they were compressed
        salt BLOB
    ) STRICT;
    CREATE INDEX jumps ON events (id, base) WHERE base IS NOT NULL;
    CREATE INDEX marks ON events (id) WHERE kind = 'mark';
    """
EVENT_INDEXES = """
    CREATE UNIQUE INDEX event_keys ON events (key, agent) WHERE key IS NOT NULL;
    CREATE INDEX notes ON events (content, id) WHERE kind = 'note';
    """
# A program of version 2 that still has the store open knows nothing of frames: if it writes text
# into an event, such as that the event was erased, this removes the frame.
EVENT_TEXTS = """
    CREATE TRIGGER event_texts AFTER UPDATE OF content, data ON events
    WHEN new.packed IS NOT NULL AND (new.content IS NOT NULL OR new.data IS NOT NULL)
    BEGIN UPDATE events SET packed = NULL, size = NULL WHERE id = new.id; END;
    """

SOURCES = """
    CREATE TABLE sources (
        tool TEXT NOT NULL, id TEXT NOT NULL, agent TEXT, cursor TEXT, PRIMARY KEY (id, tool)
    ) STRICT, WITHOUT ROWID;
    """
REMOVALS = """
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
    """
# Shows to which file a write-ahead log belongs (`stamp`).
STAMP = "CREATE TABLE stamp (own BLOB NOT NULL, previous BLOB) STRICT;"

TABLES = (
    AGENTS,
    AGENT_INDEXES,
    NUMBERS,
    EVENTS,
    EVENT_INDEXES,
    EVENT_TEXTS,
    SOURCES,
    REMOVALS,
    STAMP,
)

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
# The partial indexes, with their tables and conditions. SQLite's check notices entries that such an
# index lacks, and none that it has too many.
PARTIAL_INDEXES = {
    "agents_key": ("agents", "key IS NOT NULL"),
    "agents_title": ("agents", "about IS NOT NULL"),
    "event_keys": ("events", "key IS NOT NULL"),
    "jumps": ("events", "base IS NOT NULL"),
    "marks": ("events", "kind = 'mark'"),
    "notes": ("events", "kind = 'note'"),
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
    problems.extend(find_wrong_objects(db))
    [(count, number)] = db.execute(EVENTS_WITHOUT_AGENTS).fetchall()
    if count:
        problems.append(f"{count} events belong to agents that do not exist, first number {number}")
    if db.execute(ARE_NUMBERS_RIGHT).fetchall() != [(1,)]:
        problems.append("the table numbers does not have the last number of an agent")
    for name, id, seq in db.execute(DAMAGED_FRAMES):
        problems.append(f"event {seq} of agent {name!r} ({id}) is packed, and the frame is damaged")
    return problems


def find_wrong_objects(db: apsw.Connection) -> Iterator[str]:
    """Yield what is wrong with the indexes and triggers, besides what SQLite's own check finds."""
    existing = {name for (name,) in db.execute(OBJECTS)}
    for name, type in NEEDED_OBJECTS.items():
        if name not in existing:
            yield f"the {type} {name} is missing"
        elif name in PARTIAL_INDEXES and has_surplus_entries(db, name):
            yield f"the index {name} has entries of events or agents that do not exist"


def has_surplus_entries(db: apsw.Connection, index: str) -> bool:
    """Return True if a partial index has more entries than its table has rows for it."""
    table, condition = PARTIAL_INDEXES[index]
    query = f"""
        SELECT (SELECT count(*) FROM {table} INDEXED BY {index} WHERE {condition})
            > (SELECT count(*) FROM {table} NOT INDEXED WHERE {condition})"""
    [(has_surplus,)] = db.execute(query).fetchall()
    return bool(has_surplus)
