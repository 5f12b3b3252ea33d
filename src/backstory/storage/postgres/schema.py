"""The tables of a PostgreSQL store, the functions that write to them, migrations, and checks.

A batch is one call of a function, which runs on the server that has the session. The function
checks the expected head, and gives the events their positions, time and digests. Creating an agent
with its first events is also one call. What an event means is decided before, in Python.

The place of a session is the number in the last group of its id, and all ids created in the session
end with that group. Agents, events and the directory are keyed by the place, and can be distributed
by it. Two sessions may share a place, because agents are numbered within their place.
"""

import math
from collections.abc import Callable
from typing import Any, LiteralString

from backstory.errors import CannotOpen, NewerVersion, ReadOnly
from backstory.storage.postgres import citus
from backstory.storage.postgres.server import Connection, PostgresConnection

SCHEMA = "backstory"
OLDEST_SERVER = 14

VERSION_1: LiteralString = """
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
    CREATE INDEX events_jumps ON backstory.events (session, agent, seq) INCLUDE (base)
        WHERE base IS NOT NULL;
    CREATE INDEX events_marks ON backstory.events (session, agent, seq) WHERE kind = 'mark';
    """

PURE_FUNCTIONS: LiteralString = r"""
-- The number in the last group of an id.
CREATE FUNCTION backstory.place_of(id uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $body$
    SELECT ('x' || pg_catalog.right(id::pg_catalog.text, 12))::bit(48)::pg_catalog.int8
$body$;
"""

# The rows of a version 1 store are written again, with new keys. Version 4 computes the digests.
#
# Texts are compared by their bytes: in the order of a language, "User:1" lies between "user:" and
# "user:2", and an index is damaged when a new version of the system's library changes that order. A
# btree takes 2,700 bytes at most, so of keys and of the names of notes, which may be longer, it has
# the first 500 characters.
VERSION_2: LiteralString = (
    """
    ALTER TABLE backstory.agents RENAME TO agents_1;
    ALTER TABLE backstory.events RENAME TO events_1;
    ALTER INDEX backstory.events_pkey RENAME TO events_1_pkey;
    CREATE TABLE backstory.agents (
        place bigint NOT NULL,
        no integer NOT NULL,
        parent integer,
        fork_seq integer NOT NULL,
        born_seq integer NOT NULL,
        created_at bigint NOT NULL,
        updated_at bigint NOT NULL,
        touched bigint NOT NULL,
        head integer NOT NULL,
        spawned boolean NOT NULL,
        id uuid NOT NULL,
        session uuid NOT NULL,
        deleted bigint,
        digest bytea,
        name text COLLATE pg_catalog."C" NOT NULL,
        key text COLLATE pg_catalog."C",
        about text
    );
    CREATE TABLE backstory.events (
        place bigint NOT NULL,
        created_at bigint NOT NULL,
        agent integer NOT NULL,
        seq integer NOT NULL,
        base integer,
        kind text COLLATE pg_catalog."C" NOT NULL,
        content text COLLATE pg_catalog."C",
        data text,
        key text COLLATE pg_catalog."C",
        digest bytea NOT NULL,
        CONSTRAINT events_pkey PRIMARY KEY (place, agent, seq)
    );
    -- The sessions of the agents that have a key, or whose ids do not contain their place. Its
    -- primary key decides who created an agent first, also in a distributed store.
    CREATE TABLE backstory.directory (
        place bigint NOT NULL, id uuid NOT NULL, session uuid NOT NULL, PRIMARY KEY (place, id));
    CREATE TABLE backstory.followers (id uuid PRIMARY KEY, until timestamptz NOT NULL);
    CREATE TABLE backstory.sources (
        id text COLLATE pg_catalog."C" NOT NULL, tool text COLLATE pg_catalog."C" NOT NULL,
        agent uuid, cursor text, PRIMARY KEY (id, tool));
    """
    + PURE_FUNCTIONS
    + """
    DO $body$
    DECLARE
        one record;
        here bigint;
    BEGIN
        -- In a session, a parent has a smaller number than its children.
        FOR one IN SELECT * FROM backstory.agents_1 ORDER BY session, no LOOP
            here := backstory.place_of(one.session);
            INSERT INTO backstory.events (
                place, created_at, agent, seq, base, kind, content, data, digest)
            SELECT here, created_at, one.no, seq, base, kind, content, data, ''
            FROM backstory.events_1 WHERE session = one.session AND agent = one.no;
            INSERT INTO backstory.agents (place, no, id, session, name, parent, fork_seq, born_seq,
                spawned, created_at, head, updated_at, touched, digest)
            VALUES (here, one.no, one.id, one.session, one.name, one.parent, one.fork_seq,
                one.born_seq, one.spawned, one.created_at, one.head, one.updated_at,
                one.updated_at / 1000000, NULL);
            IF backstory.place_of(one.id) <> here THEN
                INSERT INTO backstory.directory
                VALUES (backstory.place_of(one.id), one.id, one.session);
            END IF;
        END LOOP;
    END
    $body$;
    DROP TABLE backstory.events_1, backstory.agents_1;
    ALTER TABLE backstory.agents ADD CONSTRAINT agents_pkey PRIMARY KEY (place, no),
        ADD CONSTRAINT agents_session_name_key UNIQUE (session, name, place),
        ADD CONSTRAINT agents_parent_fkey
            FOREIGN KEY (place, parent) REFERENCES backstory.agents (place, no);
    CREATE UNIQUE INDEX agents_id ON backstory.agents (id, place);
    CREATE INDEX agents_name ON backstory.agents (name);
    -- Of all agents: the planner does not use the statistics of an index that has only some rows.
    CREATE INDEX agents_key ON backstory.agents (pg_catalog.left(key, 500));
    CREATE INDEX agents_touched ON backstory.agents (touched);
    CREATE INDEX agents_birth ON backstory.agents (created_at, id);
    -- A hash index, because a title may be too long for a btree.
    CREATE INDEX agents_title ON backstory.agents USING hash ((about::pg_catalog.jsonb ->> 'title'))
        WHERE about IS NOT NULL;
    CREATE INDEX events_jumps ON backstory.events (place, agent, seq) INCLUDE (base)
        WHERE base IS NOT NULL;
    CREATE INDEX events_marks ON backstory.events (place, agent, seq) WHERE kind = 'mark';
    CREATE UNIQUE INDEX event_keys ON backstory.events (
        pg_catalog.left(key, 500), place, (agent + 0), pg_catalog.hashtextextended(key, 0))
        WHERE key IS NOT NULL;
    CREATE INDEX event_notes ON backstory.events (place, agent, pg_catalog.left(content, 500), seq)
        WHERE kind = 'note';
    """
)

WRITING_FUNCTIONS: LiteralString = r"""
-- As in `backstory.log.digests`.
CREATE FUNCTION backstory.link(previous bytea, seq bigint, at bigint, tail bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $body$
    SELECT pg_catalog.substr(pg_catalog.sha256(
        coalesce(previous, '\x00000000000000000000000000000000'::bytea)
        || pg_catalog.int8send(seq) || pg_catalog.int8send(at) || tail), 1, 16)
$body$;

-- Called before the first lock in a place. It does nothing on one server; a distributed store has
-- another version.
CREATE FUNCTION backstory.hold_part(_place bigint) RETURNS void LANGUAGE sql AS '';

-- Notify the followers of the store that something is about to be committed. A NOTIFY makes commits
-- wait for one another, so it is only sent while there are followers.
CREATE FUNCTION backstory.announce() RETURNS boolean LANGUAGE plpgsql AS $body$
BEGIN
    IF EXISTS (SELECT 1 FROM backstory.followers WHERE until > pg_catalog.clock_timestamp()) THEN
        PERFORM pg_catalog.pg_notify('backstory', '');
        RETURN true;
    END IF;
    RETURN false;
END
$body$;

-- The server's time in microseconds, the same throughout a statement.
-- A float is exact to less than a microsecond, and an append computes with it much faster than with
-- the numeric value of `extract`.
CREATE FUNCTION backstory.read_clock() RETURNS bigint LANGUAGE sql STABLE AS $body$
    SELECT (1e6::float8 * pg_catalog.date_part('epoch', pg_catalog.statement_timestamp()))::bigint
$body$;

-- The function of this name in `backstory.log.digests`.
CREATE FUNCTION backstory.next_time(_previous bigint, _wanted bigint, _clock bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $body$
    SELECT CASE WHEN _previous > _clock + 60000000 AND _wanted <= _clock THEN _wanted
        ELSE greatest(_previous, _wanted) END
$body$;

-- Write events after a position, and return the digest of the last one. The caller has locked the
-- agent.
CREATE FUNCTION backstory.add_events(
    _place bigint, _no int, _before int, _at bigint, _previous bytea, _kind text[],
    _content text[], _data text[], _key text[], _base int[], _salt bytea[], _tail bytea[]
) RETURNS bytea LANGUAGE plpgsql AS $body$
DECLARE
    previous bytea := _previous;
    digests bytea[];
BEGIN
    FOR i IN 1..pg_catalog.cardinality(_kind) LOOP
        previous := backstory.link(previous, _before + i, _at, _tail[i]);
        digests[i] := previous;
    END LOOP;
    INSERT INTO backstory.events (
        place, created_at, agent, seq, base, kind, content, data, key, digest, salt)
    SELECT _place, _at, _no, _before + n.nth, n.base, n.kind, n.content, n.data, n.key, n.digest,
        n.salt
    FROM ROWS FROM (
        pg_catalog.unnest(_kind), pg_catalog.unnest(_content), pg_catalog.unnest(_data),
        pg_catalog.unnest(_key), pg_catalog.unnest(_base), pg_catalog.unnest(digests),
        pg_catalog.unnest(_salt)
    ) WITH ORDINALITY AS n (kind, content, data, key, base, digest, salt, nth);
    RETURN previous;
END
$body$;

CREATE FUNCTION backstory.append_many(
    _place bigint, _no int, _expected int, _now bigint, _kind text[],
    _content text[], _data text[], _key text[], _base int[], _salt bytea[], _tail bytea[],
    OUT before int, OUT at bigint
) LANGUAGE plpgsql AS $body$
DECLARE
    previous bytea;
    previous_at bigint;
BEGIN
    at := coalesce(_now, backstory.read_clock());
    PERFORM backstory.hold_part(_place);
    SELECT a.head, a.updated_at, a.digest INTO before, previous_at, previous
    FROM backstory.agents a
    WHERE a.place = _place AND a.no = _no AND a.deleted IS NULL
    FOR NO KEY UPDATE;
    IF before <> _expected THEN
        before := NULL;
    END IF;
    IF before IS NULL THEN
        RETURN;
    END IF;
    at := backstory.next_time(previous_at, at, at);
    previous := backstory.add_events(
        _place, _no, before, at, previous, _kind, _content, _data, _key, _base, _salt, _tail);
    UPDATE backstory.agents a
    SET head = before + pg_catalog.cardinality(_kind), updated_at = at, touched = at / 60000000,
        digest = previous, times_dropped = a.times_dropped OR at < previous_at
    WHERE a.place = _place AND a.no = _no;
    PERFORM backstory.announce();
END
$body$;

-- Write an agent and its first events. The row of its place is locked first, so a removal in its
-- session is waited for. Then what the agent comes from and inherits must exist.
CREATE FUNCTION backstory.create_agent(
    _place bigint, _id uuid, _session uuid, _name text,
    _parent int, _origin int, _fork_seq int, _born_seq int, _spawned boolean, _now bigint,
    _key text, _about text, _deleted bigint,
    _kind text[], _content text[], _data text[], _keys text[], _base int[], _salt bytea[],
    _tail bytea[], OUT no int, OUT at bigint, OUT parent uuid
) LANGUAGE plpgsql AS $body$
DECLARE
    previous bytea;
BEGIN
    at := coalesce(_now, backstory.read_clock());
    PERFORM backstory.hold_part(_place);
    INSERT INTO backstory.places AS p VALUES (_place, 1)
    ON CONFLICT (place) DO UPDATE SET last_no = p.last_no + 1
    RETURNING last_no INTO no;
    IF _origin IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM backstory.agents a
        WHERE a.place = _place AND a.no = _origin AND a.session = _session AND a.deleted IS NULL)
    THEN
        RAISE foreign_key_violation;
    END IF;
    IF _parent IS NOT NULL THEN
        SELECT a.id INTO parent FROM backstory.agents a WHERE a.place = _place AND a.no = _parent;
        IF parent IS NULL THEN
            RAISE foreign_key_violation;
        END IF;
    END IF;
    IF _fork_seq > 0 THEN
        SELECT backstory.next_time(e.created_at, at, backstory.read_clock()), e.digest
        INTO at, previous FROM backstory.events e
        WHERE e.place = _place AND e.agent = _parent AND e.seq = _fork_seq;
        IF previous IS NULL THEN
            RAISE foreign_key_violation;
        END IF;
    END IF;
    IF _key IS NOT NULL AND backstory.place_of(_id) = _place THEN
        INSERT INTO backstory.directory VALUES (_place, _id, _session);
    END IF;
    IF pg_catalog.cardinality(_kind) > 0 THEN
        previous := backstory.add_events(
            _place, no, _fork_seq, at, previous, _kind, _content, _data, _keys, _base, _salt,
            _tail);
    END IF;
    INSERT INTO backstory.agents (place, no, id, session, name, parent, fork_seq, born_seq, spawned,
        created_at, head, updated_at, touched, deleted, digest, key, about)
    VALUES (_place, no, _id, _session, _name, _parent, _fork_seq, _born_seq, _spawned, at,
        _fork_seq + pg_catalog.cardinality(_kind), at, at / 60000000, _deleted, previous, _key,
        _about);
    PERFORM backstory.announce();
END
$body$;
"""

# Every event gets a salt, so all digests are computed again. The digests of erased texts had no
# salt: random bytes take their place, except for that of a text that was NULL.
ADD_SALTS: LiteralString = r"""
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

# Numbers are never given twice: `places` has the last one of each place. Earlier, a row named '/'
# kept the last number of a deleted agent from being given again. `touched` counts minutes instead
# of seconds. Every table gets a primary key: without one, rows that change are refused by a
# publication of all tables, and a cluster cannot move them. (Version 3 changed SQLite only.)
VERSION_4: LiteralString = (
    """
    DROP FUNCTION IF EXISTS backstory.digest, backstory.announce, backstory.add_events,
        backstory.append_many, backstory.create_agent;
    ALTER TABLE backstory.meta ADD CONSTRAINT meta_pkey PRIMARY KEY (version);
    CREATE TABLE backstory.places (place bigint PRIMARY KEY, last_no integer NOT NULL);
    INSERT INTO backstory.places
        SELECT place, pg_catalog.max(no) FROM backstory.agents GROUP BY place;
    DELETE FROM backstory.agents a WHERE name = '/' AND NOT EXISTS (
        SELECT 1 FROM backstory.agents o WHERE o.place = a.place AND o.parent = a.no);
    UPDATE backstory.agents SET name = '/' || id WHERE name = '/';
    UPDATE backstory.agents SET touched = touched / 60;
    ALTER TABLE backstory.agents ADD COLUMN times_dropped boolean NOT NULL DEFAULT false;
    ALTER TABLE backstory.events ADD COLUMN salt bytea;
    CREATE TABLE backstory.removals (
        place bigint NOT NULL,
        id uuid NOT NULL,
        removed_at bigint NOT NULL,
        action text NOT NULL,
        session uuid NOT NULL,
        agent uuid NOT NULL,
        positions text,
        events integer NOT NULL,
        author text,
        reason text,
        PRIMARY KEY (place, id)
    );
    """
    + WRITING_FUNCTIONS
    + ADD_SALTS
)

# From each version to the next.
MIGRATIONS: tuple[LiteralString, ...] = (VERSION_1, VERSION_2, "", VERSION_4)
# An append writes the agent's row again. If there is room for it on the same page, and no indexed
# column changes, no index is written (HOT). A table that is partitioned, as in a test, has no such
# setting.
LEAVE_ROOM = "ALTER TABLE backstory.agents SET (fillfactor = 80)"
META = """
    CREATE TABLE backstory.meta (version integer NOT NULL);
    INSERT INTO backstory.meta VALUES (0)"""
# Only one process migrates, creates the index or distributes the store; others wait.
LOCK_STORE = "SELECT pg_catalog.pg_advisory_xact_lock(4849321)"
OWNER = """
    SELECT r.rolname, r.rolsuper OR pg_catalog.pg_has_role(r.oid, 'MEMBER')
        OR r.oid = (SELECT datdba FROM pg_catalog.pg_database
            WHERE datname = pg_catalog.current_database())
    FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_roles r ON r.oid = n.nspowner
    WHERE n.nspname = 'backstory'"""
HAS_META = "SELECT pg_catalog.to_regclass('backstory.meta') IS NOT NULL"
READ_VERSION = "SELECT version FROM backstory.meta"
SET_VERSION = "UPDATE backstory.meta SET version = %s"

VALID_INDEXES = """
    SELECT c.relname::text
    FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
    WHERE c.relnamespace = 'backstory'::regnamespace AND i.indisvalid"""
INDEXES = """
    agents_pkey agents_session_name_key agents_id agents_name agents_key agents_touched
    agents_title agents_birth events_pkey events_jumps events_marks event_keys event_notes
    directory_pkey followers_pkey sources_pkey meta_pkey places_pkey removals_pkey"""
# Indexes of a store that was searched: the first search creates them.
SEARCH_INDEXES = "search_3_pkey search_3_words search_3_long search_3_null searched_3_pkey"
# Not to_regclass, which may not see yet what another process has just created.
HAS_SEARCH_INDEX = """
    SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_class
        WHERE relname = 'searched_3' AND relnamespace = 'backstory'::regnamespace)"""
EXISTING_FUNCTIONS = """
    SELECT proname::text FROM pg_catalog.pg_proc
    WHERE pronamespace = 'backstory'::regnamespace"""
FUNCTION_NAMES = """
    link announce place_of hold_part read_clock next_time add_events append_many create_agent"""
# It refuses an agent whose parent does not exist.
FOREIGN_KEY = """
    SELECT 1 FROM pg_catalog.pg_constraint
    WHERE conrelid = 'backstory.agents'::regclass AND conname = 'agents_parent_fkey'"""
STRAY_EVENTS = """
    SELECT pg_catalog.count(*), pg_catalog.min('agent ' || e.agent || ' at place ' || e.place)
    FROM backstory.events e
    WHERE NOT EXISTS (
        SELECT 1 FROM backstory.agents a WHERE a.place = e.place AND a.no = e.agent)"""
WRONG_PLACES = """
    SELECT pg_catalog.count(*), pg_catalog.min(a.place)
    FROM backstory.agents a LEFT JOIN backstory.places p ON p.place = a.place
    WHERE p.last_no IS NULL OR p.last_no < a.no"""
# Only roots: they are in the place of their session, so Citus can join these tables.
STRAY_ENTRIES = """
    SELECT d.id::text FROM backstory.directory d
    WHERE d.id = d.session AND NOT EXISTS (
        SELECT 1 FROM backstory.agents a WHERE a.place = d.place AND a.id = d.id)"""


def migrate(db: PostgresConnection, url: str, *, read_only: bool = False) -> None:
    """Create the tables, or migrate older ones, in one transaction. If `read_only`, they must
    already exist."""
    check_server(db, url)
    version = read_version(db, url)
    if version == len(MIGRATIONS):
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
    db.deadline = math.inf  # migrating a large store takes its time
    with db.transaction():
        db.execute(LOCK_STORE)
        run_migrations(db, url)


def run_migrations(db: Connection, url: str) -> None:
    """Within a transaction and its lock: bring the tables to the newest version."""
    if not has_schema(db, url):
        db.execute(f"CREATE SCHEMA {SCHEMA}")
    version = read_version(db, url)  # another process may have migrated while we waited
    if version is None:
        db.execute(META)
    for step in MIGRATIONS[version or 0 :]:
        db.execute(step)
    db.execute(LEAVE_ROOM)
    db.execute(SET_VERSION, (len(MIGRATIONS),))
    if version is None:
        citus.distribute_new_store(db)


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
    if version > len(MIGRATIONS):
        raise NewerVersion.of(f"the store at {url!r}", version, len(MIGRATIONS))
    return int(version)


def check_tables(run: Callable[[str], list[tuple[Any, ...]]]) -> list[str]:
    """Return what is wrong with the tables, one line each. `run` runs a statement."""
    problems = []
    [(strays, first)] = run(STRAY_EVENTS)
    if strays:
        problems.append(f"{strays} events belong to agents that do not exist, first {first}")
    [(agents, place)] = run(WRONG_PLACES)
    if agents:
        problems.append(f"{agents} agents have numbers that were not given, first place {place}")
    for (id,) in run(STRAY_ENTRIES):
        problems.append(f"the directory has the agent {id}, which does not exist")
    indexes = INDEXES.split()
    if run(HAS_SEARCH_INDEX) == [(True,)]:
        indexes += SEARCH_INDEXES.split()
    for name in list_missing(indexes, run(VALID_INDEXES)):
        problems.append(f"the index {name} is missing")
    for name in list_missing(FUNCTION_NAMES.split(), run(EXISTING_FUNCTIONS)):
        problems.append(f"the function {name} is missing")
    if not run(FOREIGN_KEY):
        problems.append("the foreign key agents_parent_fkey is missing")
    return problems


def list_missing(names: list[str], rows: list[tuple[Any, ...]]) -> list[str]:
    """Return those of `names` that are not in `rows`, in order."""
    existing = {name for (name,) in rows}
    return sorted(set(names) - existing)
