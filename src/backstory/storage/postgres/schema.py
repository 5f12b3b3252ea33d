"""Version 2 of the tables, and the functions in our schema that write to them.

An append is one call to a function, which runs on the server that holds the session. The function checks the
expected head, and gives the events their positions, time and digests. Creating an agent with its first events
is also one call. On a single server, an append of one event does not need a function (`append`). What an
event means is decided before, in Python.

The place of a session is the number in the last group of its id, and all ids created in the session end with
that group. All tables are keyed by the place, and can be distributed over many servers by it. Two sessions
may share a place, because agents are numbered within their place.
"""

from typing import LiteralString

# One statement locks the agent's row, gives the event its position, time and digest, and checks whether there
# are followers. The row stays locked until the event is committed.
APPEND_ONE: LiteralString = """
CREATE OR REPLACE FUNCTION backstory.append_one(
    _place bigint, _no int, _born bigint, _expected int, _now bigint,
    _kind text, _content text, _data text, _key text, _base int, OUT before int, OUT at bigint
) LANGUAGE plpgsql AS $body$
DECLARE
    own bytea;
    is_followed boolean;
BEGIN
    UPDATE backstory.agents a
    SET head = a.head + 1, updated_at = greatest(a.updated_at, _now),
        touched = greatest(a.updated_at, _now) / 1000000,
        digest = backstory.digest(a.digest, a.head + 1, greatest(a.updated_at, _now), _base, _kind, _key,
            _content, _data)
    WHERE a.place = _place AND a.no = _no AND a.created_at = _born AND a.deleted IS NULL
        AND (_expected IS NULL OR a.head = _expected)
    RETURNING a.head - 1, a.updated_at, a.digest, {is_followed} INTO before, at, own, is_followed;
    IF before IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO backstory.events (place, created_at, agent, seq, base, kind, content, data, key, digest)
    VALUES (_place, at, _no, before + 1, _base, _kind, _content, _data, _key, own);
    IF is_followed THEN
        PERFORM pg_catalog.pg_notify('backstory', '');
    END IF;
END
$body$;
"""
IS_FOLLOWED: LiteralString = (
    "EXISTS (SELECT 1 FROM backstory.followers WHERE until > pg_catalog.clock_timestamp())"
)

# `digest` hashes the same bytes as backstory.log.chain: a NUL ends the kind and the key, NULL is 32 zero
# bytes.
FUNCTIONS: LiteralString = r"""
CREATE FUNCTION backstory.digest(
    previous bytea, seq bigint, at bigint, base bigint, kind text, key text, content text, data text
) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $body$
    SELECT pg_catalog.substr(pg_catalog.sha256(
        coalesce(previous, '\x00000000000000000000000000000000'::pg_catalog.bytea)
        || pg_catalog.int8send(seq) || pg_catalog.int8send(at) || pg_catalog.int8send(coalesce(base, -1))
        || pg_catalog.convert_to(kind, 'UTF8') || '\x00'::pg_catalog.bytea
        || coalesce(pg_catalog.convert_to(key, 'UTF8'), '') || '\x00'::pg_catalog.bytea
        || coalesce(pg_catalog.sha256(pg_catalog.convert_to(content, 'UTF8')),
            '\x0000000000000000000000000000000000000000000000000000000000000000'::pg_catalog.bytea)
        || coalesce(pg_catalog.sha256(pg_catalog.convert_to(data, 'UTF8')),
            '\x0000000000000000000000000000000000000000000000000000000000000000'::pg_catalog.bytea)
    ), 1, 16)
$body$;

-- Tell the followers of the store that something is about to be committed. A NOTIFY makes commits wait for
-- one another, so it is only sent while there are followers.
CREATE FUNCTION backstory.announce() RETURNS boolean LANGUAGE plpgsql AS $body$
BEGIN
    IF EXISTS (SELECT 1 FROM backstory.followers WHERE until > pg_catalog.clock_timestamp()) THEN
        PERFORM pg_catalog.pg_notify('backstory', '');
        RETURN true;
    END IF;
    RETURN false;
END
$body$;

-- The number in the last group of an id.
CREATE FUNCTION backstory.place_of(id uuid) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $body$
    SELECT ('x' || pg_catalog.right(id::pg_catalog.text, 12))::bit(48)::pg_catalog.int8
$body$;

-- Write events after a position, and return the digest of the last one. The caller holds the agent's lock.
CREATE FUNCTION backstory.add_events(
    _place bigint, _no int, _before int, _at bigint, _previous bytea,
    _kind text[], _content text[], _data text[], _key text[], _base int[]
) RETURNS bytea LANGUAGE plpgsql AS $body$
DECLARE
    previous bytea := _previous;
    digests bytea[];
BEGIN
    FOR i IN 1..pg_catalog.cardinality(_kind) LOOP
        previous := backstory.digest(
            previous, _before + i, _at, _base[i], _kind[i], _key[i], _content[i], _data[i]);
        digests[i] := previous;
    END LOOP;
    INSERT INTO backstory.events (place, created_at, agent, seq, base, kind, content, data, key, digest)
    SELECT _place, _at, _no, _before + n.nth, n.base, n.kind, n.content, n.data, n.key, n.digest
    FROM ROWS FROM (
        pg_catalog.unnest(_kind), pg_catalog.unnest(_content), pg_catalog.unnest(_data),
        pg_catalog.unnest(_key), pg_catalog.unnest(_base), pg_catalog.unnest(digests)
    ) WITH ORDINALITY AS n (kind, content, data, key, base, digest, nth);
    RETURN previous;
END
$body$;

CREATE FUNCTION backstory.append_many(
    _place bigint, _no int, _born bigint, _expected int, _now bigint,
    _kind text[], _content text[], _data text[], _key text[], _base int[], OUT before int, OUT at bigint
) LANGUAGE plpgsql AS $body$
DECLARE
    previous bytea;
BEGIN
    SELECT a.head, greatest(a.updated_at, _now), a.digest INTO before, at, previous
    FROM backstory.agents a
    WHERE a.place = _place AND a.no = _no AND a.created_at = _born AND a.deleted IS NULL
    FOR NO KEY UPDATE;
    IF before <> _expected THEN
        before := NULL;
    END IF;
    IF before IS NULL THEN
        RETURN;
    END IF;
    previous := backstory.add_events(
        _place, _no, before, at, previous, _kind, _content, _data, _key, _base);
    UPDATE backstory.agents a
    SET head = before + pg_catalog.cardinality(_kind), updated_at = at, touched = at / 1000000,
        digest = previous
    WHERE a.place = _place AND a.no = _no;
    PERFORM backstory.announce();
END
$body$;

-- Write an agent and its first events. This also checks the foreign key: what the agent inherits must exist,
-- and a transaction that is deleting it is waited for.
CREATE FUNCTION backstory.create_agent(
    _place bigint, _id uuid, _session uuid, _name text, _parent int, _fork int, _born int, _spawned boolean,
    _now bigint, _key text, _about text, _deleted bigint,
    _kind text[], _content text[], _data text[], _keys text[], _base int[],
    OUT no int, OUT at bigint, OUT parent uuid
) LANGUAGE plpgsql AS $body$
DECLARE
    previous bytea;
BEGIN
    at := _now;
    IF _parent IS NOT NULL THEN
        SELECT a.id INTO parent FROM backstory.agents a
        WHERE a.place = _place AND a.no = _parent FOR KEY SHARE;
        IF parent IS NULL THEN
            RAISE foreign_key_violation;
        END IF;
    END IF;
    IF _fork > 0 THEN
        SELECT greatest(_now, e.created_at), e.digest INTO at, previous FROM backstory.events e
        WHERE e.place = _place AND e.agent = _parent AND e.seq = _fork;
        IF previous IS NULL THEN
            RAISE foreign_key_violation;
        END IF;
    END IF;
    IF _key IS NOT NULL AND backstory.place_of(_id) = _place THEN
        INSERT INTO backstory.directory VALUES (_place, _id, _session);
    END IF;
    SELECT coalesce(pg_catalog.max(a.no), 0) + 1 INTO no FROM backstory.agents a WHERE a.place = _place;
    IF pg_catalog.cardinality(_kind) > 0 THEN
        previous := backstory.add_events(
            _place, no, _fork, at, previous, _kind, _content, _data, _keys, _base);
    END IF;
    INSERT INTO backstory.agents (place, no, id, session, name, parent, fork_seq, born_seq, spawned,
        created_at, head, updated_at, touched, deleted, digest, key, about)
    VALUES (_place, no, _id, _session, _name, _parent, _fork, _born, _spawned, at,
        _fork + pg_catalog.cardinality(_kind), at, at / 1000000, _deleted, previous, _key, _about);
    PERFORM backstory.announce();
END
$body$;
"""

# The rows of a version 1 store are written again, with new keys and a digest for each event.
#
# Texts are compared by their bytes: in the order of a language, "User:1" lies between "user:" and "user:2",
# and an index is damaged when a new version of the system's library changes that order. A btree takes 2,700
# bytes at most, so of keys and of the names of notes, which may be longer, it has the first 500 characters.
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
    ) {partition};
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
    ) {partition};
    -- Where to find the agents that have a key, or whose ids do not contain their place. Its primary key
    -- decides who created an agent first, also on many servers.
    CREATE TABLE backstory.directory (
        place bigint NOT NULL, id uuid NOT NULL, session uuid NOT NULL, PRIMARY KEY (place, id));
    CREATE TABLE backstory.followers (id uuid PRIMARY KEY, until timestamptz NOT NULL);
    CREATE TABLE backstory.sources (
        id text COLLATE pg_catalog."C" NOT NULL, tool text COLLATE pg_catalog."C" NOT NULL, agent uuid,
        cursor text, PRIMARY KEY (id, tool));
    """
    + FUNCTIONS
    + APPEND_ONE.replace("{is_followed}", IS_FOLLOWED)
    + """
    DO $body$
    DECLARE
        one record;
        event record;
        previous bytea;
        here bigint;
    BEGIN
        -- In a session, a parent has a smaller number than its children.
        FOR one IN SELECT * FROM backstory.agents_1 ORDER BY session, no LOOP
            here := backstory.place_of(one.session);
            previous := (SELECT digest FROM backstory.events
                WHERE place = here AND agent = one.parent AND seq = one.fork_seq);
            FOR event IN SELECT * FROM backstory.events_1
                WHERE session = one.session AND agent = one.no ORDER BY seq
            LOOP
                previous := backstory.digest(previous, event.seq, event.created_at, event.base,
                    event.kind, NULL, event.content, event.data);
                INSERT INTO backstory.events (
                    place, created_at, agent, seq, base, kind, content, data, digest)
                VALUES (here, event.created_at, one.no, event.seq, event.base, event.kind, event.content,
                    event.data, previous);
            END LOOP;
            INSERT INTO backstory.agents (place, no, id, session, name, parent, fork_seq, born_seq, spawned,
                created_at, head, updated_at, touched, digest)
            VALUES (here, one.no, one.id, one.session, one.name, one.parent, one.fork_seq, one.born_seq,
                one.spawned, one.created_at, one.head, one.updated_at, one.updated_at / 1000000, previous);
            IF backstory.place_of(one.id) <> here THEN
                INSERT INTO backstory.directory VALUES (backstory.place_of(one.id), one.id, one.session);
            END IF;
        END LOOP;
    END
    $body$;
    DROP TABLE backstory.events_1, backstory.agents_1;
    ALTER TABLE backstory.agents ADD CONSTRAINT agents_pkey PRIMARY KEY (place, no),
        ADD CONSTRAINT agents_session_name_key UNIQUE (session, name, place),
        ADD CONSTRAINT agents_parent_fkey FOREIGN KEY (place, parent) REFERENCES backstory.agents (place, no);
    CREATE UNIQUE INDEX agents_id ON backstory.agents (id, place);
    CREATE INDEX agents_name ON backstory.agents (name);
    -- Of all agents: the planner does not use the statistics of an index that has only some rows.
    CREATE INDEX agents_key ON backstory.agents (pg_catalog.left(key, 500));
    CREATE INDEX agents_touched ON backstory.agents (touched);
    CREATE INDEX agents_birth ON backstory.agents (created_at, id);
    -- A hash index, because a title may be too long for a btree.
    CREATE INDEX agents_title ON backstory.agents USING hash ((about::pg_catalog.jsonb ->> 'title'))
        WHERE about IS NOT NULL;
    CREATE INDEX events_jumps ON backstory.events (place, agent, seq) INCLUDE (base) WHERE base IS NOT NULL;
    CREATE INDEX events_marks ON backstory.events (place, agent, seq) WHERE kind = 'mark';
    CREATE UNIQUE INDEX event_keys ON backstory.events (
        pg_catalog.left(key, 500), place, (agent + 0), pg_catalog.hashtextextended(key, 0))
        WHERE key IS NOT NULL;
    CREATE INDEX event_notes ON backstory.events (place, agent, pg_catalog.left(content, 500), seq)
        WHERE kind = 'note';
    """
)
