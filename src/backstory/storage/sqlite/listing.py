"""From an AgentQuery to the statement that lists agents."""

import json
from collections.abc import Iterable
from typing import Any

from backstory.log.times import MINUTE_US
from backstory.storage.protocol import AgentQuery
from backstory.storage.sql import SqlConditions
from backstory.storage.sqlite.schema import HEAD, IS_OWN

UPDATED = f"""coalesce(
    (SELECT e.created_at FROM events e WHERE {IS_OWN} ORDER BY e.id DESC LIMIT 1), a.created_at)"""
# The columns are the fields of an AgentRecord, in the same order.
AGENTS = f"""
    SELECT a.no, a.id, s.id, a.name, p.id, a.fork_seq, a.born_seq, a.spawned, a.created_at, {HEAD},
        {UPDATED} AS updated, a.key, a.about, a.deleted
    FROM agents a {{index}}
    LEFT JOIN agents s ON s.no = a.session LEFT JOIN agents p ON p.no = a.parent
    WHERE {{conditions}}
    ORDER BY {{order}} {{limit}}"""

# Greater than all keys with the prefix: no key has a thousand characters after it.
AFTER_PREFIX = ":key_prefix || printf('%.1000c', char(1114111))"
KEY_PREFIX = f"a.key >= :key_prefix AND a.key < {AFTER_PREFIX}"
# A unary plus keeps SQLite from using the index of keys.
KEY_PREFIX_WITHOUT_INDEX = f"+a.key >= :key_prefix AND +a.key < {AFTER_PREFIX}"
IS_ROOT_IN_USE = """
    a.parent IS NULL AND (a.deleted IS NULL OR EXISTS (
        SELECT 1 FROM agents o WHERE o.session = a.no AND o.deleted IS NULL))"""
IN_SESSIONS = """
    a.session IN (SELECT no FROM agents WHERE id IN (SELECT value FROM json_each(:sessions)))"""
HAS_TITLE = "a.about IS NOT NULL AND a.about ->> '$.title' = :title"
# SQLite folds the case of ASCII only. Any other letter may match a letter of the word, with an
# accent.
MENTIONS = """
    a.about IS NOT NULL
    AND (instr(lower(a.about), :mentions) OR length(a.about) < octet_length(a.about))"""
# The conditions on the fields of an AgentQuery, by their names.
AGENT_CONDITIONS = {
    "id_prefix": "a.id BETWEEN :id_prefix AND :id_prefix || '~'",
    "session": "a.session = (SELECT no FROM agents WHERE id = :session)",
    "key_prefix": KEY_PREFIX,
}
LISTING_CONDITIONS = {
    "name": "a.name = :name",
    "key": "a.key = :key",
    "title": HAS_TITLE,
    "mentions": MENTIONS,
    "since_us": f"a.touched >= :since_us / {MINUTE_US} AND updated >= :since_us",
    "until_us": f"a.touched <= :until_us / {MINUTE_US} AND updated < :until_us",
}
COMMON = 1_000  # agents with the same key prefix; from there on, a page is read in order instead
COUNT_PREFIX = f"""
    SELECT count(*) FROM (SELECT 1 FROM agents a INDEXED BY agents_key
        WHERE {KEY_PREFIX} LIMIT :limit)"""


def add_choice(conditions: SqlConditions, column: str, name: str, values: Iterable[str]) -> None:
    """Add the condition that a column has one of `values`, which are bound as `name`0, `name`1 and
    so on. SQLite treats a list of one value like `=`, and can then use the order of an index."""
    bindings = {f"{name}{number}": value for number, value in enumerate(values)}
    names = ", ".join(f":{bound}" for bound in bindings)
    conditions.add(f"{column} IN ({names})", **bindings)


def build_listing(
    query: AgentQuery, *, is_prefix_common: bool = False
) -> tuple[str, dict[str, Any]]:
    """Return the statement that lists the agents of `query`, and its bindings. If very many agents
    have its key prefix, they are read in order, because most of them match."""
    conditions = build_agent_conditions(query, use_key_index=not is_prefix_common)
    conditions.add_known(LISTING_CONDITIONS, query._asdict())
    add_page(conditions, query)
    # For a page of the latest agents, the planner does not see that it need not read all agents.
    is_page = query.latest_first and query.limit is not None
    use_times = is_page and not selects_few(query, is_prefix_common=is_prefix_common)
    sql = AGENTS.format(
        index="INDEXED BY agents_touched" if use_times else "",
        conditions=conditions.join(),
        # `touched` is `updated` in minutes. Only `touched` has an index, so at most one minute is
        # sorted.
        order="a.touched DESC, updated DESC, a.no DESC" if query.latest_first else "a.no",
        limit="" if query.limit is None else f"LIMIT {query.limit:d}",
    )
    return sql, conditions.bindings


def build_agent_conditions(query: AgentQuery, *, use_key_index: bool = True) -> SqlConditions:
    """Return the conditions on ids, sessions, prefixes of keys, and deletion."""
    conditions = SqlConditions()
    known = AGENT_CONDITIONS
    if not use_key_index:
        known = known | {"key_prefix": KEY_PREFIX_WITHOUT_INDEX}
    conditions.add_known(known, query._asdict())
    if query.sessions is not None:
        conditions.add(IN_SESSIONS, sessions=json.dumps(query.sessions))
    if query.roots_only:
        conditions.add(IS_ROOT_IN_USE)
    elif not query.include_deleted:
        conditions.add("a.deleted IS NULL")
    return conditions


def selects_few(query: AgentQuery, *, is_prefix_common: bool) -> bool:
    """Return True if `query` has a condition that usually matches few agents."""
    if query.key_prefix is not None and not is_prefix_common:
        return True
    selective = (
        query.id_prefix,
        query.session,
        query.sessions,
        query.name,
        query.key,
        query.title,
    )
    return any(value is not None for value in selective)


def add_page(conditions: SqlConditions, query: AgentQuery) -> None:
    """Add the condition that agents come after the last one of the previous page."""
    if query.after is None:
        return
    if query.latest_first:
        conditions.add(
            f"a.touched <= :after_us / {MINUTE_US} AND (updated, a.no) < (:after_us, :after_no)",
            after_us=query.after.updated_us,
            after_no=query.after.pk,
        )
    else:
        conditions.add("a.no > :after_no", after_no=query.after.pk)
