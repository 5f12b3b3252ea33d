"""Appending one event: the statement that matters most, with as little work as possible on both sides.

On one server it is a plain statement, which takes two thirds of the time of a function. It is prepared once
on each connection and run through libpq, because psycopg's own execute costs the client more than the rest of
an append. On many servers, and through a pooler, it is a function in our schema.

A client that waits for the server after each append shares the processor's caches with it, and finds little
left of its own: each Python function on the way takes about 1 µs then, three times as long as in a loop. So
the way is short here, at the price of a few longer functions.
"""

import math
import select
import time
from contextlib import suppress
from typing import Any, LiteralString

import psycopg
from psycopg.pq import ExecStatus, Format
from psycopg.pq.abc import PGconn, PGresult

from backstory.log.chain import ending
from backstory.log.drafts import Draft
from backstory.log.events import Event
from backstory.storage.ids import place_of
from backstory.storage.postgres.batches import size_of
from backstory.storage.postgres.schema import IS_FOLLOWED
from backstory.storage.postgres.watch import NOTIFY, SETTLED
from backstory.storage.protocols import AgentRecord

Connection = psycopg.Connection[tuple[Any, ...]]
Placed = tuple[int, int]  # the head before, and the time written

# The agent's row is the lock: writers wait for it, and each sees the head that the previous one left. But it
# is not fair: a writer that waits for one version of the row can be overtaken by one that finds the next
# version, again and again. So appends share a second lock, which the server gives in turn, and a rewind takes
# it alone (`rows.HOLD_NEXT`): it waits for the appends under way, and later ones wait for it.
TURN: LiteralString = """
    pg_catalog.pg_advisory_xact_lock{shared}({place}::bigint # ({no}::bigint << 48)) IS NOT NULL"""
# The server hashes only what the client cannot know in advance: `$11` is the `ending` of core.chain.
APPEND: LiteralString = (
    """
    WITH moved AS (
        UPDATE backstory.agents a
        SET head = a.head + 1, updated_at = greatest(a.updated_at, $5::bigint),
            touched = greatest(a.updated_at, $5::bigint) / 1000000,
            digest = pg_catalog.substr(pg_catalog.sha256(
                coalesce(a.digest, '\\x00000000000000000000000000000000'::bytea)
                || pg_catalog.int8send(a.head + 1::bigint)
                || pg_catalog.int8send(greatest(a.updated_at, $5::bigint)) || $11::bytea), 1, 16)
        WHERE a.place = $1::bigint AND a.no = $2::int AND a.created_at = $3::bigint AND a.deleted IS NULL
            AND """
    + TURN.format(shared="_shared", place="$1", no="$2")
    + """ AND ($4::int IS NULL OR a.head = $4::int)
        RETURNING a.head, a.updated_at, a.digest)
    INSERT INTO backstory.events (place, created_at, agent, seq, base, kind, content, data, key, digest)
    SELECT $1::bigint, m.updated_at, $2::int, m.head, $10::int, $6::text, $7::text, $8::text, $9::text,
        m.digest
    FROM moved m
    RETURNING seq, created_at"""
)
# Looking for followers takes a tenth of the server's time. So after a look that found none, a connection
# appends without looking for a moment. A new follower does not rely on notifications until that is over.
LOOK: LiteralString = (
    f", CASE WHEN {IS_FOLLOWED} THEN pg_catalog.pg_notify('backstory', '') IS NULL END"
)
LOOK_EVERY = 0.25  # seconds, much less than `watch.SETTLED`
FUNCTION: LiteralString = """
    SELECT before, at FROM backstory.append_one(%s::bigint, %s, %s, %s, %s, %s, %s, %s, %s, %s)"""

FORMATS = (*[Format.TEXT] * 10, Format.BINARY)
STATEMENTS = {
    b"backstory_append": APPEND.encode(),
    b"backstory_append_look": (APPEND + LOOK).encode(),
}
WITHOUT_LOOK, WITH_LOOK = STATEMENTS
ARE_PREPARED = "SELECT name FROM pg_catalog.pg_prepared_statements WHERE name ^@ 'backstory_append'"
PATIENCE = 5.0  # seconds to wait for the result of a cancelled statement

CAN_POLL = hasattr(select, "poll")


class AppendConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that the statements can be prepared on."""

    poll: "select.poll | None" = None  # for its socket, once the statements are prepared
    looked_at = -math.inf  # when it looked for followers and found none, in monotonic time

    def forget(self) -> None:
        """Prepare again on next use: after a failure, psycopg may have removed all prepared statements."""
        self.poll = None


def call_append(db: Connection, values: tuple[Any, ...]) -> Placed | None:
    """Append through the function; None if the agent is gone, or if its head is not the expected one."""
    [(before, at)] = db.execute(FUNCTION, values, binary=True).fetchall()
    return None if before is None else (before, at)


def append_directly(
    db: AppendConnection,
    agent: AgentRecord,
    draft: Draft,
    base: int | None,
    expected: int | None,
    now: int,
) -> Event | None:
    """Append through the plain statement, and return the event; None as in `call_append`."""
    kind, content, data_json, key = draft
    size_of(content, data_json)
    said = None if content is None else content.encode()
    data = None if data_json is None else data_json.encode()
    given = [
        b"%d" % place_of(agent.session),
        b"%d" % agent.pk,
        b"%d" % agent.created_us,
        None if expected is None else b"%d" % expected,
        b"%d" % now,
        kind.encode(),
        said,
        data,
        None if key is None else key.encode(),
        None if base is None else b"%d" % base,
        ending(kind, base, key, said, data),
    ]
    try:
        found = _run(db, given)
    except psycopg.errors.InvalidSqlStatementName:  # it was deallocated, so nothing was written
        db.forget()
        found = _run(db, given)
    if not found.ntuples:
        return None
    return draft.at(int(found.get_value(0, 0) or 0), int(found.get_value(0, 1) or 0))


def _run(db: AppendConnection, given: list[bytes | None]) -> PGresult:
    poll = db.poll or _prepared(db)
    began = time.monotonic()
    looks = began - db.looked_at > LOOK_EVERY
    db.pgconn.send_query_prepared(WITH_LOOK if looks else WITHOUT_LOOK, given, FORMATS)
    found = _answer(db, poll)
    if looks:
        is_followed = not found.ntuples or found.get_value(0, 2) is not None
        db.looked_at = -math.inf if is_followed else began
    elif (
        time.monotonic() - db.looked_at > SETTLED
    ):  # behind a lock, say: a new follower may not wait for it
        with suppress(psycopg.Error):  # the event is committed
            db.execute(NOTIFY)
    return found


def _prepared(db: AppendConnection) -> "select.poll":
    poll = select.poll()
    poll.register(db.pgconn.socket, select.POLLIN)
    prepared = {name.encode() for (name,) in db.execute(ARE_PREPARED).fetchall()}
    for name in STATEMENTS.keys() - prepared:
        db.pgconn.send_prepare(name, STATEMENTS[name])
        _answer(db, poll)
    db.poll = poll
    return poll


def _answer(db: Connection, poll: "select.poll") -> PGresult:
    """The server's result for the statement that was sent."""
    try:
        result = _received(db.pgconn, poll)
    except psycopg.Error:
        raise
    except BaseException:  # Ctrl-C: leave the connection usable
        with suppress(psycopg.Error):
            db.cancel_safe(timeout=PATIENCE)
            _received(db.pgconn, poll, PATIENCE)
        raise
    if result.status != ExecStatus.TUPLES_OK and result.status != ExecStatus.COMMAND_OK:
        raise psycopg.errors.error_from_result(result)
    return result


def _received(pgconn: PGconn, poll: "select.poll", seconds: float | None = None) -> PGresult:
    """The first result; waits at most this many seconds for each part of it."""
    if pgconn.flush():
        _flush(pgconn)
    first: PGresult | None = None
    while True:
        while pgconn.is_busy():
            if not poll.poll(seconds and seconds * 1000):
                raise psycopg.OperationalError("no answer")
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None:
            if first is None:
                raise psycopg.OperationalError("no answer")
            return first
        first = first or result


def _flush(pgconn: PGconn) -> None:
    """Send what did not fit into the socket's buffer."""
    poll = select.poll()
    poll.register(pgconn.socket, select.POLLIN | select.POLLOUT)
    while pgconn.flush():
        if any(event & ~select.POLLOUT for _, event in poll.poll()):
            pgconn.consume_input()
