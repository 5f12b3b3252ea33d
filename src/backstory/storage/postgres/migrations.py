"""Opening a PostgreSQL store: creates its tables, or migrates those of an older version.

A migrated store has the same schema as a new one; a test compares them. A migration first waits for
what programs of the older version are writing.
"""

import math
import time

from backstory.errors import CannotOpen, NewerVersion, ReadOnly
from backstory.log.times import MINUTE_US
from backstory.storage.postgres import citus, schema
from backstory.storage.postgres.server import Connection, PostgresConnection

SCHEMA = "backstory"
OLDEST_SERVER = 14

OWNER = """
    SELECT r.rolname, r.rolsuper OR pg_catalog.pg_has_role(r.oid, 'MEMBER')
        OR r.oid = (SELECT datdba FROM pg_catalog.pg_database
            WHERE datname = pg_catalog.current_database())
    FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner
    WHERE n.nspname = 'backstory'"""
HAS_META = "SELECT pg_catalog.to_regclass('backstory.meta') IS NOT NULL"
READ_VERSION = "SELECT version FROM backstory.meta"


def migrate(db: PostgresConnection, url: str, *, read_only: bool = False) -> None:
    """Create the tables, or migrate older ones, in one transaction. If `read_only`, they must
    already exist."""
    check_server(db, url)
    version = read_version(db, url)
    if version == schema.VERSION:
        return
    if read_only and version is None:
        raise CannotOpen(
            f"no store at {url!r}", remedy="open it without read_only=True to create one"
        )
    if read_only:
        raise ReadOnly(
            f"the store at {url!r} has version {version} of the store format and has to be "
            "migrated",
            remedy="open it once without read_only=True",
        )
    if version is not None and citus.is_distributed(db):
        raise CannotOpen(
            f"the store at {url!r} was distributed by an older backstory (store format {version})",
            remedy="export it with that version, and import it into a new database",
        )
    if version is not None:
        db.deadline = math.inf  # migrating a large store takes its time
    with db.transaction():
        db.execute(schema.LOCK_STORE)
        change_tables(db, url)
    db.deadline = time.monotonic() + db.timeout


def change_tables(db: Connection, url: str) -> None:
    """Within a transaction and its lock: create the tables, or migrate older ones."""
    if not has_schema(db, url):
        db.execute(f"CREATE SCHEMA {SCHEMA}")
    version = read_version(db, url)  # another process may have migrated while we waited
    if version is None:
        schema.create_tables(db)
        citus.distribute_new_store(db)
    elif version == 1:
        db.execute(SET_ROWS_ASIDE)
        schema.create_tables(db)
        db.execute(COPY_ROWS)
        db.execute(ADD_SALTS)
    elif version < schema.VERSION:
        db.execute(CHANGE_VERSION_2)
        db.execute(schema.FUNCTIONS)
        db.execute(ADD_SALTS)


def check_server(db: Connection, url: str) -> None:
    """Raise CannotOpen if the server or the encoding of the database cannot be used."""
    server_version = db.info.server_version // 10_000
    if server_version < OLDEST_SERVER:
        raise CannotOpen(
            f"the server at {url!r} is PostgreSQL {server_version}",
            remedy=f"upgrade it to {OLDEST_SERVER} or newer",
        )
    if db.info.parameter_status("server_encoding") != "UTF8":
        raise CannotOpen(
            f"the database at {url!r} is not in UTF-8", remedy="create one with ENCODING 'UTF8'"
        )


def has_schema(db: Connection, url: str) -> bool:
    """Return True if our schema exists. Raises CannotOpen if it belongs to another user, whose
    functions would run with our privileges: nothing in the schema may be read before this."""
    for owner, is_trusted in db.execute(OWNER).fetchall():
        if not is_trusted:
            raise CannotOpen(
                f"the schema {SCHEMA!r} at {url!r} belongs to {owner!r}, whose code would run as "
                "yours",
                remedy="connect as that user, or use another database",
            )
        return True
    return False


def read_version(db: Connection, url: str) -> int | None:
    """Return the version of the store, or None before it is created."""
    if not has_schema(db, url) or db.execute(HAS_META).fetchone() != (True,):
        return None
    rows = db.execute(READ_VERSION).fetchall()
    if len(rows) != 1:
        raise CannotOpen(
            f"the store at {url!r} is damaged: backstory.meta has {len(rows)} rows instead of one",
            remedy="restore it from a backup",
        )
    [(version,)] = rows
    if version > schema.VERSION:
        raise NewerVersion.of(f"the store at {url!r}", version, schema.VERSION)
    return int(version)


# --- version 1: agents and events were keyed by session; there were no keys and no digests ---

SET_ROWS_ASIDE = """
    LOCK TABLE backstory.agents, backstory.events;
    CREATE TABLE backstory.agents_1 AS TABLE backstory.agents;
    CREATE TABLE backstory.events_1 AS TABLE backstory.events;
    DROP TABLE backstory.events, backstory.agents, backstory.meta;
    """
COPY_ROWS = f"""
    INSERT INTO backstory.places
        SELECT backstory.place_of(session), pg_catalog.max(no) FROM backstory.agents_1 GROUP BY 1;
    INSERT INTO backstory.agents (place, no, id, session, name, parent, fork_seq, born_seq,
            spawned, created_at, head, updated_at, touched)
        SELECT backstory.place_of(session), no, id, session, name, parent, fork_seq, born_seq,
            spawned, created_at, head, updated_at, updated_at / {MINUTE_US}
        FROM backstory.agents_1;
    INSERT INTO backstory.directory
        SELECT backstory.place_of(id), id, session FROM backstory.agents_1
        WHERE backstory.place_of(id) <> backstory.place_of(session);
    INSERT INTO backstory.events (
            place, created_at, agent, seq, base, kind, content, data, digest)
        SELECT backstory.place_of(session), created_at, agent, seq, base, kind, content, data, ''
        FROM backstory.events_1;
    DROP TABLE backstory.events_1, backstory.agents_1;
    """

# --- versions 2 and 3, which are the same on PostgreSQL ---

# A row named '/' kept the last number of a deleted agent from being given again; now `places` has
# that number. `touched` was a second.
CHANGE_VERSION_2 = f"""
    LOCK TABLE backstory.agents, backstory.events;
    DROP FUNCTION IF EXISTS backstory.place_of, backstory.digest, backstory.announce,
        backstory.add_events, backstory.append_many, backstory.create_agent;
    ALTER TABLE backstory.meta ADD CONSTRAINT meta_pkey PRIMARY KEY (version);
    UPDATE backstory.meta SET version = {schema.VERSION};
    {schema.PLACES};
    INSERT INTO backstory.places
        SELECT place, pg_catalog.max(no) FROM backstory.agents GROUP BY place;
    DELETE FROM backstory.agents a WHERE name = '/' AND NOT EXISTS (
        SELECT 1 FROM backstory.agents o WHERE o.place = a.place AND o.parent = a.no);
    UPDATE backstory.agents SET name = '/' || id WHERE name = '/';
    UPDATE backstory.agents SET touched = touched / 60;
    ALTER TABLE backstory.agents ADD COLUMN times_dropped boolean NOT NULL DEFAULT false,
        SET (fillfactor = 80);
    ALTER TABLE backstory.events ADD COLUMN salt bytea;
    {schema.REMOVALS};
    """

# --- all of them ---

# Every event gets a salt, so all digests are computed again. The digests of erased texts had no
# salt: random bytes take their place, except for that of a text that was NULL.
ADD_SALTS = r"""
CREATE FUNCTION backstory.random_salt() RETURNS bytea LANGUAGE sql VOLATILE AS $body$
    -- Of a random uuid, bytes 6 and 8 are not completely random.
    SELECT pg_catalog.substr(u, 1, 6) || pg_catalog.substr(u, 10, 2)
    FROM pg_catalog.uuid_send(pg_catalog.gen_random_uuid()) AS u
$body$;
CREATE FUNCTION backstory.salted_digest(salt bytea, value text) RETURNS bytea
LANGUAGE sql IMMUTABLE AS $body$
    SELECT coalesce(pg_catalog.sha256(salt || pg_catalog.convert_to(value, 'UTF8')),
        pg_catalog.decode(pg_catalog.repeat('00', 32), 'hex'))
$body$;
CREATE FUNCTION backstory.erased_digest(data text, name text) RETURNS bytea
LANGUAGE sql IMMUTABLE AS $body$
    SELECT pg_catalog.decode(data::pg_catalog.json #>> ARRAY['erased', name], 'hex')
$body$;
CREATE FUNCTION backstory.replace_erased_digest(data text, name text) RETURNS text
LANGUAGE sql VOLATILE AS $body$
    SELECT CASE WHEN old ~ '^0*$' THEN data ELSE pg_catalog.replace(data, old,
        pg_catalog.encode(pg_catalog.sha256(backstory.random_salt()), 'hex')) END
    FROM pg_catalog.encode(backstory.erased_digest(data, name), 'hex') AS old
$body$;
DO $body$
DECLARE
    one record;
    event record;
    previous bytea;
    new_salt bytea;
    new_data text;
    texts bytea;
BEGIN
    -- In a place, a parent has a smaller number than its children.
    FOR one IN SELECT place, no, parent, fork_seq FROM backstory.agents ORDER BY place, no LOOP
        previous := (SELECT digest FROM backstory.events
            WHERE place = one.place AND agent = one.parent AND seq = one.fork_seq);
        FOR event IN SELECT seq, kind, content, data, created_at, key, base FROM backstory.events
            WHERE place = one.place AND agent = one.no ORDER BY seq
        LOOP
            new_data := event.data;
            IF pg_catalog.starts_with(event.data, '{"erased":{') THEN
                new_salt := NULL;
                new_data := backstory.replace_erased_digest(new_data, 'content');
                new_data := backstory.replace_erased_digest(new_data, 'data');
                texts := backstory.erased_digest(new_data, 'content')
                    || backstory.erased_digest(new_data, 'data');
            ELSE
                new_salt := backstory.random_salt();
                texts := backstory.salted_digest(new_salt, event.content)
                    || backstory.salted_digest(new_salt, pg_catalog.regexp_replace(
                        event.data, '"sha256":"[0-9a-f]{64}"', '"sha256":""', 'g'));
            END IF;
            previous := backstory.link(previous, event.seq, event.created_at,
                pg_catalog.int8send(coalesce(event.base, -1)::bigint)
                || pg_catalog.convert_to(event.kind, 'UTF8') || '\x00'::bytea
                || pg_catalog.convert_to(coalesce(event.key, ''), 'UTF8') || '\x00'::bytea
                || texts);
            UPDATE backstory.events SET salt = new_salt, data = new_data, digest = previous
            WHERE place = one.place AND agent = one.no AND seq = event.seq;
        END LOOP;
        UPDATE backstory.agents SET digest = previous WHERE place = one.place AND no = one.no;
    END LOOP;
END
$body$;
DROP FUNCTION backstory.random_salt, backstory.salted_digest, backstory.erased_digest,
    backstory.replace_erased_digest;
"""
