"""Creates the tables of an SQLite store, or changes those of an older version."""

import os
from collections.abc import Sequence
from typing import Any

import apsw

from backstory.errors import CannotOpen, NewerVersion
from backstory.log.chain import START, digest_row
from backstory.log.erasure import is_erased, replace_erased_digests
from backstory.log.events import StoredRow
from backstory.storage.ids import new_salts
from backstory.storage.sqlite import schema
from backstory.storage.sqlite.frames import CONTENT_OR_NULL, DATA_OR_NULL
from backstory.storage.sqlite.schema import LAST_SEQ, build_event_id, build_event_id_sql

# Keys, notes, details of agents, and the chain of digests, which `add_salts` computes.
TO_VERSION_2 = f"""
    ALTER TABLE agents ADD COLUMN key TEXT;
    ALTER TABLE agents ADD COLUMN about TEXT;
    ALTER TABLE agents ADD COLUMN touched INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE agents ADD COLUMN deleted INTEGER;
    ALTER TABLE events ADD COLUMN key TEXT;
    ALTER TABLE events ADD COLUMN digest BLOB NOT NULL DEFAULT x'';
    {schema.AGENT_INDEXES}
    {schema.EVENT_INDEXES}
    {schema.SOURCES}
    UPDATE agents SET touched = coalesce(
        (SELECT created_at FROM events e WHERE e.id BETWEEN no << 32 AND (no << 32) + 4294967295
         ORDER BY e.id DESC LIMIT 1), created_at) / 1000000;
    """
# Compressed events.
TO_VERSION_3 = f"""
    ALTER TABLE events ADD COLUMN packed BLOB;
    ALTER TABLE events ADD COLUMN size INTEGER;
    {schema.EVENT_TEXTS}
    """
# Numbers that are never given twice. Earlier, a row named '/' kept the last number of a deleted
# agent from being given again. If a damaged store has a child of such a row, the row becomes that
# of a deleted agent, which `verify` reports. `touched` counts minutes instead of seconds. Events
# get salts, so all digests are computed again.
TO_VERSION_4 = f"""
    {schema.NUMBERS}
    DELETE FROM agents WHERE name = '/' AND no NOT IN (
        SELECT parent FROM agents WHERE parent IS NOT NULL);
    UPDATE agents SET name = '/' || id WHERE name = '/';
    UPDATE agents SET touched = touched / 60;
    ALTER TABLE agents ADD COLUMN times_dropped INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE events ADD COLUMN salt BLOB;
    {schema.STAMP}
    {schema.REMOVALS}
    """
MIGRATIONS = (TO_VERSION_2, TO_VERSION_3, TO_VERSION_4)

READ_VERSION = """
    SELECT (SELECT application_id FROM pragma_application_id),
        (SELECT user_version FROM pragma_user_version),
        (SELECT count(*) FROM sqlite_master)"""


def read_version(db: apsw.Connection, path: str) -> int:
    """Return the version of the store, or 0 for an empty file. Raises CannotOpen if the file
    belongs to another program, and NewerVersion."""
    found: list[Any] = db.execute(READ_VERSION).fetchall()
    [(application, version, objects)] = found
    if application != schema.APPLICATION_ID and objects:
        raise CannotOpen(
            f"{path!r} is an SQLite database of another program", remedy=schema.ANOTHER_PATH
        )
    if version > schema.VERSION:
        raise NewerVersion.of(repr(path), version, schema.VERSION)
    return int(version)


def migrate(db: apsw.Connection, path: str) -> None:
    """Switch the file to WAL mode, and create or migrate its tables."""
    version = read_version(db, path)
    if version == 0:
        db.execute(f"PRAGMA page_size = {schema.PAGE_SIZE}")
    db.execute("PRAGMA journal_mode = WAL")
    if version == schema.VERSION:
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
    """Create the tables, if `version` is 0, or run the migrations from `version` on."""
    if version == 0:
        for table in schema.TABLES:
            db.execute(table)
    elif version < schema.VERSION:
        for migration in MIGRATIONS[version - 1 :]:
            db.execute(migration)
        add_salts(db)
    db.execute(f"PRAGMA user_version = {schema.VERSION}")
    db.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")


MIGRATED_AT_ONCE = 10_000  # events
AGENTS_WITH_ORIGINS = "SELECT no, parent, fork_seq FROM agents ORDER BY no"
INHERITED_DIGEST = f"SELECT digest FROM events WHERE id = {build_event_id_sql('?', '?')}"
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
