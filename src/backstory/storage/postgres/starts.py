"""Keys and names of notes, which may be too long for a btree: that takes 2,700 bytes at most.

So their indexes have only the first 500 characters (`schema`), and a statement compares those as well.
"""

from collections.abc import Sequence
from typing import Any

START = 500  # characters

IS_NAMED = f"""kind = 'note' AND content = %(name)s::text
            AND pg_catalog.left(content, {START}) = pg_catalog.left(%(name)s::text, {START})"""
# All that the unique index has, so that the planner knows that it finds one event at most. Together with
# `agent + 0`, which the primary key does not serve: it would rather read all events of an agent.
IS_KEYED = f"""key = k.key AND pg_catalog.left(key, {START}) = pg_catalog.left(k.key, {START})
            AND pg_catalog.hashtextextended(key, 0) = pg_catalog.hashtextextended(k.key, 0)"""
HAS_KEY = f"key = ANY(%(keys)s::text[]) AND pg_catalog.left(key, {START}) = ANY(%(starts)s::text[])"
HAS_ONE_KEY = f"""{{0}}.key = %(key)s::text
        AND pg_catalog.left({{0}}.key, {START}) = pg_catalog.left(%(key)s::text, {START})"""
# In the order of their bytes. No key has a thousand characters after a prefix.
HAS_PREFIX = f"""pg_catalog.left(a.key, {START}) COLLATE pg_catalog."C"
            >= pg_catalog.left(%(key_prefix)s::text, {START})
        AND pg_catalog.left(a.key, {START}) COLLATE pg_catalog."C"
            < pg_catalog.left(%(key_prefix)s::text, {START}) || pg_catalog.repeat(U&'\\+10FFFF', 1000)
        AND (pg_catalog.length(%(key_prefix)s::text) <= {START}
            OR pg_catalog.starts_with(a.key, %(key_prefix)s::text))"""


def keys_given(keys: Sequence[str]) -> dict[str, Any]:
    """The parameters of HAS_KEY."""
    return {"keys": list(keys), "starts": [key[:START] for key in keys]}
