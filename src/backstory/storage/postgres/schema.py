"""Version 2 of the tables, and the functions of our schema that write to them.

An append is one call of a function, sent to the server that holds the session: it gives the events their
positions, time and digests and checks the expected head. What an event means is decided before, in Python.
"""

from typing import LiteralString

# `digest` makes the bytes of backstory.core.chain: a NUL ends the kind and the key, NULL is 32 zero bytes.
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

-- Who follows the store is told that something is about to be committed. A NOTIFY makes commits wait for one
-- another, so nobody pays for it while nobody follows.
CREATE FUNCTION backstory.announce() RETURNS boolean LANGUAGE plpgsql AS $body$
BEGIN
    IF EXISTS (SELECT 1 FROM backstory.followers WHERE until > pg_catalog.clock_timestamp()) THEN
        PERFORM pg_catalog.pg_notify('backstory', '');
        RETURN true;
    END IF;
    RETURN false;
END
$body$;

CREATE FUNCTION backstory.append_one(
    _session uuid, _no int, _born bigint, _expected int, _now bigint,
    _kind text, _content text, _data text, _key text, _base int, OUT before int, OUT at bigint
) LANGUAGE plpgsql AS $body$
DECLARE
    previous bytea;
BEGIN
    SELECT a.head, greatest(a.updated_at, _now), a.digest INTO before, at, previous
    FROM backstory.agents a
    WHERE a.session = _session AND a.no = _no AND a.created_at = _born AND a.deleted IS NULL
    FOR NO KEY UPDATE;
    IF before <> _expected THEN
        before := NULL;
    END IF;
    IF before IS NULL THEN
        RETURN;
    END IF;
    previous := backstory.digest(previous, before + 1, at, _base, _kind, _key, _content, _data);
    UPDATE backstory.agents a
    SET head = before + 1, updated_at = at, touched = at / 1000000, digest = previous
    WHERE a.session = _session AND a.no = _no;
    INSERT INTO backstory.events (session, created_at, agent, seq, base, kind, content, data, key, digest)
    VALUES (_session, at, _no, before + 1, _base, _kind, _content, _data, _key, previous);
    PERFORM backstory.announce();
END
$body$;

CREATE FUNCTION backstory.append_many(
    _session uuid, _no int, _born bigint, _expected int, _now bigint,
    _kind text[], _content text[], _data text[], _key text[], _base int[], OUT before int, OUT at bigint
) LANGUAGE plpgsql AS $body$
DECLARE
    previous bytea;
    digests bytea[];
    count int := pg_catalog.array_length(_kind, 1);
BEGIN
    SELECT a.head, greatest(a.updated_at, _now), a.digest INTO before, at, previous
    FROM backstory.agents a
    WHERE a.session = _session AND a.no = _no AND a.created_at = _born AND a.deleted IS NULL
    FOR NO KEY UPDATE;
    IF before <> _expected THEN
        before := NULL;
    END IF;
    IF before IS NULL THEN
        RETURN;
    END IF;
    FOR i IN 1..count LOOP
        previous := backstory.digest(
            previous, before + i, at, _base[i], _kind[i], _key[i], _content[i], _data[i]);
        digests[i] := previous;
    END LOOP;
    UPDATE backstory.agents a
    SET head = before + count, updated_at = at, touched = at / 1000000, digest = previous
    WHERE a.session = _session AND a.no = _no;
    INSERT INTO backstory.events (session, created_at, agent, seq, base, kind, content, data, key, digest)
    SELECT _session, at, _no, before + n.nth, n.base, n.kind, n.content, n.data, n.key, n.digest
    FROM ROWS FROM (
        pg_catalog.unnest(_kind), pg_catalog.unnest(_content), pg_catalog.unnest(_data),
        pg_catalog.unnest(_key), pg_catalog.unnest(_base), pg_catalog.unnest(digests)
    ) WITH ORDINALITY AS n (kind, content, data, key, base, digest, nth);
    PERFORM backstory.announce();
END
$body$;
"""

VERSION_2: LiteralString = (
    """
    ALTER TABLE backstory.agents ADD COLUMN key text, ADD COLUMN about text,
        ADD COLUMN touched bigint NOT NULL DEFAULT 0, ADD COLUMN deleted bigint, ADD COLUMN digest bytea;
    ALTER TABLE backstory.events ADD COLUMN key text, ADD COLUMN digest bytea;
    CREATE INDEX agents_key ON backstory.agents (key) WHERE key IS NOT NULL;
    -- Where the agents with a key are. Its primary key decides who made one first, on many servers too.
    CREATE TABLE backstory.directory (id uuid PRIMARY KEY, session uuid NOT NULL);
    CREATE TABLE backstory.followers (id uuid PRIMARY KEY, until timestamptz NOT NULL);
    CREATE INDEX agents_touched ON backstory.agents (touched);
    -- A hash: a title may be longer than an entry of a btree.
    CREATE INDEX agents_title ON backstory.agents USING hash ((about::pg_catalog.jsonb ->> 'title'))
        WHERE about IS NOT NULL;
    CREATE UNIQUE INDEX event_keys ON backstory.events (session, agent, key) WHERE key IS NOT NULL;
    CREATE INDEX event_found ON backstory.events (key) WHERE key IS NOT NULL;
    CREATE INDEX event_notes ON backstory.events (session, agent, content, seq) WHERE kind = 'note';
    CREATE TABLE backstory.sources (
        id text NOT NULL, tool text NOT NULL, agent uuid, cursor text, PRIMARY KEY (id, tool));
    UPDATE backstory.agents SET touched = updated_at / 1000000;
    """
    + FUNCTIONS
    + """
    DO $body$
    DECLARE
        one record;
        event record;
        previous bytea;
    BEGIN
        -- A parent has a smaller number in its session than its children.
        FOR one IN SELECT * FROM backstory.agents ORDER BY session, no LOOP
            previous := (SELECT digest FROM backstory.events
                WHERE session = one.session AND agent = one.parent AND seq = one.fork_seq);
            FOR event IN SELECT * FROM backstory.events
                WHERE session = one.session AND agent = one.no ORDER BY seq
            LOOP
                previous := backstory.digest(previous, event.seq, event.created_at, event.base,
                    event.kind, NULL, event.content, event.data);
                UPDATE backstory.events SET digest = previous
                WHERE session = one.session AND agent = one.no AND seq = event.seq;
            END LOOP;
            UPDATE backstory.agents SET digest = previous WHERE session = one.session AND no = one.no;
        END LOOP;
    END
    $body$;
    ALTER TABLE backstory.events ALTER COLUMN digest SET NOT NULL;
    """
)
