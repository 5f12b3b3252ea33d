"""Damages a store by SQL. `verify` has to find all of it."""

from contextlib import closing, contextmanager

import apsw
import psycopg

import backstory

# One column of one event.
CHANGES = {
    "content": "content = coalesce(content, '') || 'x'",
    "data": "data = '{\"changed\":true}'",
    "time": "created_at = created_at + 1",
    "base": "base = CASE WHEN base IS NULL THEN 0 END",
    "kind": "kind = CASE kind WHEN 'user' THEN 'assistant' ELSE 'user' END",
    "key": "key = coalesce(key, '') || 'x'",
}
ROOT_OF_EVENTS = """
    SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name = 'events'"""


def overwrite_events(path):
    """Overwrite the first page of the events in an SQLite file that nobody has open."""
    with closing(apsw.Connection(str(path))) as db:
        [(page, size)] = db.execute(ROOT_OF_EVENTS).fetchall()
    data = bytearray(path.read_bytes())
    data[(page - 1) * size : page * size] = b"\xff" * size
    path.write_bytes(data)


COLUMNS = "kind, content, data, created_at, key, base, digest"
EVENTS = (*CHANGES, "digest", "removed", "added", "exchanged")
AGENTS = ("agent removed", "fork moved")


def statements(damage, *, events, agents, where, zeros, place):
    """The SQL for one kind of damage, to the event or agent that `where` names."""
    event, agent = where
    if damage in CHANGES:
        return [f"UPDATE {events} SET {CHANGES[damage]} WHERE {event('seq')}"]
    match damage:
        case "digest":
            return [f"UPDATE {events} SET digest = {zeros} WHERE {event('seq')}"]
        case "removed":
            return [f"DELETE FROM {events} WHERE {event('seq')}"]
        case "added":
            behind = place.replace("seq", "seq + 1")
            other_key = COLUMNS.replace(
                "key", "key || 'x'"
            )  # a key is there only once, by an index
            row = f"SELECT {behind}, {other_key} FROM {events} WHERE {event('head')}"
            return [f"INSERT INTO {events} ({place}, {COLUMNS}) {row}"]
        case "exchanged":
            columns = "kind, content, data, digest"
            other = f"(SELECT {columns} FROM {events} WHERE {event('other')})"
            return [
                f"CREATE TEMP TABLE saved AS SELECT {columns} FROM {events} WHERE {event('seq')}",
                f"UPDATE {events} SET ({columns}) = {other} WHERE {event('seq')}",
                f"UPDATE {events} SET ({columns}) = (SELECT {columns} FROM saved) WHERE {event('other')}",
                "DROP TABLE saved",
            ]
        case "agent removed":
            return [f"DELETE FROM {agents} WHERE {agent}"]
        case "fork moved":
            return [f"UPDATE {agents} SET fork_seq = fork_seq - 1 WHERE {agent}"]


@contextmanager
def damaged_sqlite(store, path, damage, **names):
    """A copy of a store with some damage."""
    store.backup(path)

    def event(name):
        return f"id = ((SELECT no FROM agents WHERE id = '{names['agent']}') << 32) + {names[name]}"

    where = (event, f"id = '{names['agent']}'")
    with closing(apsw.Connection(str(path))) as db:
        for sql in statements(
            damage, events="events", agents="agents", where=where, zeros="zeroblob(16)", place="id"
        ):
            db.execute(sql.replace("SELECT id,", "SELECT id + 1,"))
    with backstory.open(path) as copy:
        yield copy


@contextmanager
def damaged_postgres(store, url, damage, **names):
    """The store with some damage, which is mended afterwards."""

    def event(name):
        owner = f"(SELECT place, no FROM backstory.agents WHERE id = '{names['agent']}')"
        return f"(place, agent) = {owner} AND seq = {names[name]}"

    where = (event, f"id = '{names['agent']}'")
    tables = {"events": "backstory.events", "agents": "backstory.agents"}
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("SET session_replication_role = replica")  # foreign keys look away
        for table in tables.values():
            db.execute(f"CREATE TEMP TABLE saved_{table[10:]} AS TABLE {table}")
        for sql in statements(
            damage, where=where, zeros=f"'\\x{'00' * 16}'", place="place, agent, seq", **tables
        ):
            db.execute(sql)
        try:
            yield store
        finally:
            for table in tables.values():
                db.execute(f"DELETE FROM {table}")
                db.execute(f"INSERT INTO {table} SELECT * FROM saved_{table[10:]}")
