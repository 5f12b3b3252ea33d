"""What `verify` checks in a PostgreSQL store besides events: indexes, functions, events without agents."""

from collections.abc import Callable
from typing import Any

from backstory.storage.postgres.index import EXISTS as IS_SEARCHED

INDEXES = """
    SELECT c.relname::text FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
    WHERE c.relnamespace = 'backstory'::regnamespace AND i.indisvalid"""
NEEDED_INDEXES = {
    *(
        "agents_pkey",
        "agents_session_name_key",
        "agents_id",
        "agents_name",
        "agents_key",
        "agents_touched",
    ),
    *("agents_title", "agents_birth"),
    *("events_pkey", "events_jumps", "events_marks", "event_keys", "event_notes"),
    *("directory_pkey", "followers_pkey", "sources_pkey"),
}
# Of a store that was searched: the first search makes them.
SEARCH_INDEXES = {
    "search_3_pkey",
    "search_3_words",
    "search_3_long",
    "search_3_null",
    "searched_3_pkey",
}
FUNCTIONS = """
    SELECT proname::text FROM pg_catalog.pg_proc WHERE pronamespace = 'backstory'::regnamespace"""
NEEDED_FUNCTIONS = {
    *("digest", "announce", "place_of", "add_events", "append_one", "append_many", "create_agent"),
}
# It refuses an agent whose parent does not exist.
FOREIGN_KEY = """
    SELECT 1 FROM pg_catalog.pg_constraint
    WHERE conrelid = 'backstory.agents'::regclass AND conname = 'agents_parent_fkey'"""
STRAYS = """
    SELECT pg_catalog.count(*), pg_catalog.min('agent ' || e.agent || ' at place ' || e.place)
    FROM backstory.events e
    WHERE NOT EXISTS (SELECT 1 FROM backstory.agents a WHERE a.place = e.place AND a.no = e.agent)"""
# Only roots: they are in the place of their session, so that this can be joined on many servers, too.
STRAY_ENTRIES = """
    SELECT d.id::text FROM backstory.directory d
    WHERE d.id = d.session
        AND NOT EXISTS (SELECT 1 FROM backstory.agents a WHERE a.place = d.place AND a.id = d.id)"""


def found_damage(query: Callable[[str], list[Any]]) -> list[str]:
    """What is wrong, one line each."""
    [(strays, where)] = query(STRAYS)
    there = {name for (name,) in query(INDEXES)}
    needed = NEEDED_INDEXES | SEARCH_INDEXES if query(IS_SEARCHED) == [(True,)] else NEEDED_INDEXES
    missing = [f"the index {name} is missing" for name in sorted(needed - there)]
    functions = {name for (name,) in query(FUNCTIONS)}
    missing += [f"the function {name} is missing" for name in sorted(NEEDED_FUNCTIONS - functions)]
    if not query(FOREIGN_KEY):
        missing.append("the foreign key agents_parent_fkey is missing")
    stray = [f"{strays} events belong to agents that do not exist, first {where}"] if strays else []
    stray += [
        f"the directory has the agent {id}, which does not exist" for (id,) in query(STRAY_ENTRIES)
    ]
    return stray + missing
