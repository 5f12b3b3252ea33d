"""The tables of a PostgreSQL store and the functions in the database, as they are now.

Older stores get them by `migrations`, and `verify` checks them.

A batch is one call of a function, which runs on the server that has the session. The function
checks the expected head, and gives the events their positions, time and digests. Creating an agent
with its first events is also one call. What an event means is decided before, in Python.

The place of a session is the number in the last group of its id, and all ids created in the session
end with that group. Agents, events and the directory are keyed by the place, and can be distributed
by it. Two sessions may share a place, because agents are numbered within their place.
"""

from collections.abc import Callable
from typing import Any

from backstory.log.chain import START, WIDTH
from backstory.log.times import LONGEST_LEAD_US, MINUTE_US
from backstory.storage.ids import PLACE_DIGITS
from backstory.storage.postgres.server import Connection

VERSION = 4

# A btree takes 2,700 bytes at most, and keys and the names of notes may be longer. So indexes have
# only so many of their first characters, and a statement compares those as well.
INDEXED_CHARACTERS = 500


def build_beginning_sql(text: str) -> str:
    """Return the SQL expression for the part of a text that an index has."""
    return f"pg_catalog.left({text}, {INDEXED_CHARACTERS})"


# Every table has a primary key: without one, rows that change are refused by a publication of all
# tables, and a cluster cannot move them.
#
# Texts are compared by their bytes: in the order of a language, "User:1" lies between "user:" and
# "user:2", and an index is damaged when a new version of the system's library changes that order.

META = "CREATE TABLE backstory.meta (version integer PRIMARY KEY)"
SET_VERSION = "INSERT INTO backstory.meta VALUES (%s)"

# The last number that was given in each place: no agent gets the number of a deleted one.
PLACES = "CREATE TABLE backstory.places (place bigint PRIMARY KEY, last_no integer NOT NULL)"

# An append writes the agent's row again. If there is room for it on the same page, and no indexed
# column changes, no index is written (HOT). So pages are filled to 80 %, and of the last write only
# the minute is indexed.
AGENTS = f"""
    CREATE TABLE backstory.agents (
        place bigint NOT NULL,
        no integer NOT NULL,
        parent integer,
        fork_seq integer NOT NULL,
        born_seq integer NOT NULL,
        created_at bigint NOT NULL,
        updated_at bigint NOT NULL,
        touched bigint NOT NULL, -- the minute of updated_at
        head integer NOT NULL,
        spawned boolean NOT NULL,
        id uuid NOT NULL,
        session uuid NOT NULL,
        deleted bigint,
        digest bytea, -- of the event at the head
        name text COLLATE pg_catalog."C" NOT NULL,
        key text COLLATE pg_catalog."C",
        about text,
        times_dropped boolean NOT NULL DEFAULT false,
        CONSTRAINT agents_pkey PRIMARY KEY (place, no),
        CONSTRAINT agents_session_name_key UNIQUE (session, name, place),
        CONSTRAINT agents_parent_fkey
            FOREIGN KEY (place, parent) REFERENCES backstory.agents (place, no)
    ) WITH (fillfactor = 80);
    CREATE UNIQUE INDEX agents_id ON backstory.agents (id, place);
    CREATE INDEX agents_name ON backstory.agents (name);
    -- Of all agents: the planner does not use the statistics of an index that has only some rows.
    CREATE INDEX agents_key ON backstory.agents ({build_beginning_sql("key")});
    CREATE INDEX agents_touched ON backstory.agents (touched);
    CREATE INDEX agents_birth ON backstory.agents (created_at, id);
    -- A hash index, because a title may be too long for a btree.
    CREATE INDEX agents_title ON backstory.agents USING hash ((about::pg_catalog.jsonb ->> 'title'))
        WHERE about IS NOT NULL"""

EVENTS = f"""
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
        salt bytea, -- NULL for erased events
        CONSTRAINT events_pkey PRIMARY KEY (place, agent, seq)
    );
    CREATE INDEX events_jumps ON backstory.events (place, agent, seq) INCLUDE (base)
        WHERE base IS NOT NULL;
    CREATE INDEX events_marks ON backstory.events (place, agent, seq) WHERE kind = 'mark';
    CREATE UNIQUE INDEX event_keys ON backstory.events (
        {build_beginning_sql("key")}, place, (agent + 0), pg_catalog.hashtextextended(key, 0))
        WHERE key IS NOT NULL;
    CREATE INDEX event_notes ON backstory.events (
        place, agent, {build_beginning_sql("content")}, seq) WHERE kind = 'note'"""

# The sessions of the agents that have a key, or whose ids do not contain their place. Its primary
# key decides who created an agent first, also in a distributed store.
DIRECTORY = """
    CREATE TABLE backstory.directory (
        place bigint NOT NULL, id uuid NOT NULL, session uuid NOT NULL, PRIMARY KEY (place, id))"""

# The watches that want to be notified (see `watch`).
FOLLOWERS = "CREATE TABLE backstory.followers (id uuid PRIMARY KEY, until timestamptz NOT NULL)"

SOURCES = """
    CREATE TABLE backstory.sources (
        id text COLLATE pg_catalog."C" NOT NULL,
        tool text COLLATE pg_catalog."C" NOT NULL,
        agent uuid,
        cursor text,
        PRIMARY KEY (id, tool))"""

REMOVALS = """
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
        PRIMARY KEY (place, id))"""

TABLES = (META, PLACES, AGENTS, EVENTS, DIRECTORY, FOLLOWERS, SOURCES, REMOVALS)

FUNCTIONS = rf"""
-- The number in the last group of an id.
CREATE FUNCTION backstory.place_of(id uuid) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $body$
    SELECT ('x' || pg_catalog.right(id::pg_catalog.text, {PLACE_DIGITS}))
        ::bit({4 * PLACE_DIGITS})::pg_catalog.int8
$body$;

-- The function of this name in `backstory.log.chain`.
CREATE FUNCTION backstory.link(previous bytea, seq bigint, at bigint, tail bytea) RETURNS bytea
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $body$
    SELECT pg_catalog.substr(pg_catalog.sha256(
        coalesce(previous, '\x{START.hex()}'::bytea)
        || pg_catalog.int8send(seq) || pg_catalog.int8send(at) || tail), 1, {WIDTH})
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

-- The function of this name in `backstory.log.times`.
CREATE FUNCTION backstory.next_time(_previous bigint, _wanted bigint, _clock bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $body$
    SELECT CASE WHEN _previous > _clock + {LONGEST_LEAD_US} AND _wanted <= _clock THEN _wanted
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

-- Append events. `before` is the head before them. It is NULL if nothing was written, because the
-- agent was deleted or its head is not `_expected`.
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
        AND (_expected IS NULL OR a.head = _expected)
    FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    at := backstory.next_time(previous_at, at, at);
    previous := backstory.add_events(
        _place, _no, before, at, previous, _kind, _content, _data, _key, _base, _salt, _tail);
    UPDATE backstory.agents a
    SET head = before + pg_catalog.cardinality(_kind), updated_at = at, touched = at / {MINUTE_US},
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
        _fork_seq + pg_catalog.cardinality(_kind), at, at / {MINUTE_US}, _deleted, previous, _key,
        _about);
    PERFORM backstory.announce();
END
$body$;
"""

# The search index: two tables that the first search creates, and that may be dropped at any time.
# The number in the names is the version of `backstory.log.terms`: when the words change, so do the
# tables. If an event does not fit into a vector, `long` is true and positions are missing, so
# phrases have to be checked in the event itself. If not even its words fit, the vector is null.
SEARCH_TABLES = """
    DROP TABLE IF EXISTS backstory.search_1, backstory.searched_1, backstory.search_2,
        backstory.searched_2;
    CREATE TABLE IF NOT EXISTS backstory.search_3 (
        place bigint NOT NULL,
        session uuid NOT NULL,
        agent integer NOT NULL,
        seq integer NOT NULL,
        long boolean NOT NULL,
        words tsvector,
        PRIMARY KEY (place, agent, seq));
    CREATE INDEX IF NOT EXISTS search_3_words ON backstory.search_3 USING gin (words)
        WHERE NOT long;
    CREATE INDEX IF NOT EXISTS search_3_long ON backstory.search_3 USING gin (words) WHERE long;
    CREATE INDEX IF NOT EXISTS search_3_null ON backstory.search_3 (place) WHERE words IS NULL;
    CREATE TABLE IF NOT EXISTS backstory.searched_3 (
        place bigint NOT NULL,
        agent integer NOT NULL,
        upto integer NOT NULL,
        PRIMARY KEY (place, agent))"""

# The numbers of these two locks are arbitrary. Only one process migrates the store, creates the
# index or distributes the store; others wait. Indexing and removing exclude each other: removed
# text must not return to the index, and neither should wait for the other's rows.
LOCK_STORE = "SELECT pg_catalog.pg_advisory_xact_lock(4849321)"
LOCK_INDEX = "SELECT pg_catalog.pg_advisory_xact_lock(4849322)"


def create_tables(db: Connection) -> None:
    """Within a transaction: create the tables and functions of a new store."""
    for table in TABLES:
        db.execute(table)
    db.execute(FUNCTIONS)
    db.execute(SET_VERSION, (VERSION,))


# --- checks ---

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
