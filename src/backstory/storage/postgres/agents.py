"""The list of agents of a PostgreSQL store, as statements.

Listing one session, or looking up one id, queries a single place. This module knows nothing about events.
"""

from typing import Any

from backstory.storage.ids import place_of
from backstory.storage.postgres.starts import HAS_ONE_KEY, HAS_PREFIX
from backstory.storage.protocols import Wanted

SECOND = 1_000_000  # microseconds

AGENTS = """
    SELECT a.no, a.id::text, a.session::text, a.name, p.id::text, a.fork_seq, a.born_seq, a.spawned,
        a.created_at, a.head, a.updated_at, a.key, a.about, a.deleted
    FROM backstory.agents a LEFT JOIN backstory.agents p ON p.place = a.place AND p.no = a.parent
    WHERE {conditions}
    ORDER BY {order}"""
CONDITIONS = {
    "low": "a.id >= %(low)s::uuid",
    "high": "a.id <= %(high)s::uuid",
    "place": "a.place = %(place)s::bigint",
    "session": "a.session = %(session)s::uuid",
    "sessions": "a.place = ANY(%(places)s::bigint[]) AND a.session = ANY(%(sessions)s::uuid[])",
    "name": "a.name = %(name)s::text",
    "key": HAS_ONE_KEY.format("a"),
    "key_prefix": HAS_PREFIX,
    "title": "a.about IS NOT NULL AND a.about::jsonb ->> 'title' = %(title)s::text",
    # The server searches pure ASCII only: any other letter may match a letter of the word, with an accent.
    "telling": """a.about IS NOT NULL AND (pg_catalog.strpos(
            pg_catalog.lower(a.about COLLATE pg_catalog."C"), %(telling)s::text) > 0
        OR pg_catalog.length(a.about) < pg_catalog.octet_length(a.about))""",
    "roots": """a.parent IS NULL AND a.name <> '/' AND (a.deleted IS NULL OR EXISTS (
        SELECT 1 FROM backstory.agents o
        WHERE o.place = a.place AND o.session = a.session AND o.deleted IS NULL))""",
    "deleted": "a.name <> '/'",
    "since_us": f"a.touched >= %(since_us)s / {SECOND} AND a.updated_at >= %(since_us)s",
    "until_us": f"a.touched <= %(until_us)s / {SECOND} AND a.updated_at < %(until_us)s",
}
# `touched` is `updated_at` in seconds. Only `touched` has an index, so at most one second is sorted.
LATEST_FIRST = "a.touched DESC, a.updated_at DESC, a.id DESC"
AFTER_LATEST = f"""a.touched <= %(after_us)s / {SECOND}
    AND (a.updated_at, a.id) < (%(after_us)s, %(after_id)s::uuid)"""
BIRTH = "a.created_at, a.id"
AFTER_BIRTH = "(a.created_at, a.id) > (%(after_born)s, %(after_id)s::uuid)"


def listing(wanted: Wanted, place: int | None = None) -> tuple[str, dict[str, Any]] | None:
    """The statement for a listing, limited to one place if that is known, or None if no id can match. It has
    only the conditions that apply, because `… IS NULL OR …` misleads the planner."""
    low, high = id_range(wanted.prefix or "")
    if (wanted.prefix and low is None) or not is_uuid(wanted.session):
        return None
    if wanted.session is not None:
        place = place_of(wanted.session)
    asked = {**wanted._asdict(), "low": low, "high": high, "place": place}
    given = {
        name: asked[name]
        for name in CONDITIONS
        if asked[name] is not None and asked[name] is not False
    }
    conditions = [CONDITIONS[name] for name in given]
    if place is not None:  # Citus does not infer it for a subquery behind an OR
        conditions = [
            one.replace("o.place = a.place", "o.place = %(place)s::bigint") for one in conditions
        ]
    if wanted.sessions is not None:
        given |= {
            "places": [place_of(id) for id in wanted.sessions],
            "sessions": list(wanted.sessions),
        }
    if not wanted.deleted and not wanted.roots:
        conditions.append("a.deleted IS NULL")
    if wanted.after is not None:
        conditions.append(AFTER_LATEST if wanted.latest_first else AFTER_BIRTH)
        last = wanted.after
        given |= {"after_us": last.updated_us, "after_born": last.created_us, "after_id": last.id}
    sql = AGENTS.format(
        conditions=" AND ".join(conditions), order=LATEST_FIRST if wanted.latest_first else BIRTH
    )
    # A literal, not a parameter: a generic plan would not expect few rows, so the server
    # would make a new plan each time.
    return (sql if wanted.limit is None else f"{sql} LIMIT {wanted.limit:d}"), given


def whole_id(prefix: str | None) -> str | None:
    """The prefix itself, if it is a complete id."""
    low, high = id_range(prefix or "")
    return prefix if low is not None and low == high else None


def id_range(prefix: str) -> tuple[str | None, str | None]:
    """The first and last id with this prefix; None if no id can have it."""
    digits = prefix.replace("-", "")
    low = digits.ljust(32, "0")
    if not prefix or not is_uuid(low) or not _dashed(low).startswith(prefix):
        return None, None
    return low, digits.ljust(32, "f")


def _dashed(digits: str) -> str:
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def is_uuid(text: str | None) -> bool:
    """Whether PostgreSQL accepts this as a uuid (None stands for no uuid, and is accepted)."""
    digits = "0" if text is None else text.replace("-", "")
    return set(digits) <= set("0123456789abcdef") and len(digits) in (1, 32)
