"""From an AgentQuery to the statement that lists agents on PostgreSQL.

Listing one session, or looking up one id, asks a single place. This module knows nothing about
events.
"""

from typing import NamedTuple

from backstory.log.times import MINUTE_US
from backstory.storage.ids import parse_place
from backstory.storage.postgres.schema import INDEXED_CHARACTERS, build_beginning_sql
from backstory.storage.postgres.server import Params
from backstory.storage.protocol import AgentQuery
from backstory.storage.sql import SqlConditions

# The columns are the fields of an AgentRecord, in the same order.
AGENTS = """
    SELECT a.no, a.id::text, a.session::text, a.name, p.id::text, a.fork_seq, a.born_seq,
        a.spawned, a.created_at, a.head, a.updated_at, a.key, a.about, a.deleted
    FROM backstory.agents a LEFT JOIN backstory.agents p ON p.place = a.place AND p.no = a.parent
    WHERE {conditions}
    ORDER BY {order}"""
# `touched` is `updated_at` in minutes. Only `touched` has an index, so at most one minute is
# sorted, and an append changes no index as long as the minute lasts.
LATEST_FIRST = "a.touched DESC, a.updated_at DESC, a.id DESC"
OLDEST_FIRST = "a.created_at, a.id"

HAS_KEY = f"""a.key = %(key)s::text
        AND {build_beginning_sql("a.key")} = {build_beginning_sql("%(key)s::text")}"""
# In the order of their bytes. No key has a thousand characters after a prefix.
HAS_KEY_PREFIX = f"""{build_beginning_sql("a.key")} COLLATE pg_catalog."C"
            >= {build_beginning_sql("%(key_prefix)s::text")}
        AND {build_beginning_sql("a.key")} COLLATE pg_catalog."C"
            < {build_beginning_sql("%(key_prefix)s::text")}
            || pg_catalog.repeat(U&'\\+10FFFF', 1000)
        AND (pg_catalog.length(%(key_prefix)s::text) <= {INDEXED_CHARACTERS}
            OR pg_catalog.starts_with(a.key, %(key_prefix)s::text))"""
HAS_TITLE = "a.about IS NOT NULL AND a.about::jsonb ->> 'title' = %(title)s::text"
# The server searches pure ASCII only: any other letter may match a letter of the word, with an
# accent.
MENTIONS = """a.about IS NOT NULL AND (pg_catalog.strpos(
            pg_catalog.lower(a.about COLLATE pg_catalog."C"), %(mentions)s::text) > 0
        OR pg_catalog.length(a.about) < pg_catalog.octet_length(a.about))"""
# {place} is the place of the query if that is known: Citus does not infer it for a subquery after
# an OR.
IS_ROOT = """a.parent IS NULL AND (a.deleted IS NULL OR EXISTS (
        SELECT 1 FROM backstory.agents o
        WHERE o.place = {place} AND o.session = a.session AND o.deleted IS NULL))"""

# The conditions on the fields of an AgentQuery, by their names.
AGENT_CONDITIONS = {"session": "a.session = %(session)s::uuid", "key_prefix": HAS_KEY_PREFIX}
LISTING_CONDITIONS = {
    "name": "a.name = %(name)s::text",
    "key": HAS_KEY,
    "title": HAS_TITLE,
    "mentions": MENTIONS,
    "since_us": f"a.touched >= %(since_us)s / {MINUTE_US} AND a.updated_at >= %(since_us)s",
    "until_us": f"a.touched <= %(until_us)s / {MINUTE_US} AND a.updated_at < %(until_us)s",
}


class IdRange(NamedTuple):
    """The first and the last id with a prefix."""

    low: str
    high: str


def build_listing(query: AgentQuery, place: int | None = None) -> tuple[str, Params] | None:
    """Return the statement that lists the agents of `query`, within one place if that is known, and
    its parameters. Return None if no agent can match."""
    if not can_match(query):
        return None
    conditions = build_agent_conditions(query, place)
    conditions.add_known(LISTING_CONDITIONS, query._asdict())
    add_page(conditions, query)
    order = LATEST_FIRST if query.latest_first else OLDEST_FIRST
    sql = AGENTS.format(conditions=conditions.join(), order=order)
    if query.limit is not None:
        # A literal, not a parameter: a generic plan would not expect few rows, so the server would
        # make a new plan each time.
        sql += f" LIMIT {query.limit:d}"
    return sql, conditions.bindings


def can_match(query: AgentQuery) -> bool:
    """Return False if no id can be the session of `query`, or have its prefix."""
    if query.session is not None and not is_uuid(query.session):
        return False
    return not query.id_prefix or find_id_range(query.id_prefix) is not None


def build_agent_conditions(query: AgentQuery, place: int | None = None) -> SqlConditions:
    """Return the conditions on places, ids, sessions, prefixes of keys, and deletion."""
    if query.session is not None:
        place = parse_place(query.session)
    conditions = SqlConditions()
    if place is not None:
        conditions.add("a.place = %(place)s::bigint", place=place)
    ids = find_id_range(query.id_prefix or "")
    if ids is not None:
        conditions.add("a.id BETWEEN %(low)s::uuid AND %(high)s::uuid", low=ids.low, high=ids.high)
    conditions.add_known(AGENT_CONDITIONS, query._asdict())
    if query.sessions is not None:
        conditions.add(
            "a.place = ANY(%(places)s::bigint[]) AND a.session = ANY(%(sessions)s::uuid[])",
            places=[parse_place(session) for session in query.sessions],
            sessions=list(query.sessions),
        )
    if query.roots_only:
        place_sql = "a.place" if place is None else "%(place)s::bigint"
        conditions.add(IS_ROOT.format(place=place_sql))
    elif not query.include_deleted:
        conditions.add("a.deleted IS NULL")
    return conditions


def add_page(conditions: SqlConditions, query: AgentQuery) -> None:
    """Add the condition that agents come after the last one of the previous page."""
    if query.after is None:
        return
    if query.latest_first:
        conditions.add(
            f"""a.touched <= %(after_us)s / {MINUTE_US}
            AND (a.updated_at, a.id) < (%(after_us)s, %(after_id)s::uuid)""",
            after_us=query.after.updated_us,
            after_id=query.after.id,
        )
    else:
        conditions.add(
            "(a.created_at, a.id) > (%(after_us)s, %(after_id)s::uuid)",
            after_us=query.after.created_us,
            after_id=query.after.id,
        )


def is_complete_id(prefix: str) -> bool:
    """Return True if `prefix` is all of an id."""
    ids = find_id_range(prefix)
    return ids is not None and ids.low == ids.high


def find_id_range(prefix: str) -> IdRange | None:
    """Return the first and last id with this prefix, or None if the prefix is empty or no id can
    have it."""
    digits = prefix.replace("-", "")
    low = digits.ljust(32, "0")
    if not prefix or not is_uuid(low) or not insert_dashes(low).startswith(prefix):
        return None
    return IdRange(low, digits.ljust(32, "f"))


def insert_dashes(digits: str) -> str:
    """Return the 32 digits of a UUID as PostgreSQL shows them."""
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def is_uuid(text: str) -> bool:
    """Return True if PostgreSQL accepts this as a UUID."""
    digits = text.replace("-", "")
    return set(digits) <= set("0123456789abcdef") and len(digits) == 32
