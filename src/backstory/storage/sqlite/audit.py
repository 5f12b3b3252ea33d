"""What `verify` checks in an SQLite file besides events: pages, indexes, frames, events without agents."""

from contextlib import closing

import apsw

from backstory.storage.sqlite.file import Place, connected
from backstory.storage.sqlite.frames import DAMAGED

OBJECTS = "SELECT name FROM sqlite_master WHERE type IN ('index', 'trigger')"
NEEDED = {
    **dict.fromkeys(("agents_name", "agents_key", "agents_touched", "agents_title"), "index"),
    **dict.fromkeys(("jumps", "marks", "notes", "event_keys"), "index"),
    "event_texts": "trigger",
}
STRAYS = "SELECT count(*), min(agent) FROM events WHERE agent NOT IN (SELECT no FROM agents)"


def found_damage(db: apsw.Connection, place: Place) -> list[str]:
    """What is wrong with the file, in words."""
    found = _broken_pages(place)
    [(strays, agent)] = db.execute(STRAYS)
    there = {name for (name,) in db.execute(OBJECTS)}
    found += [f"the {NEEDED[name]} {name} is missing" for name in sorted(NEEDED.keys() - there)]
    if strays:
        found.append(f"{strays} events belong to agents that do not exist, first number {agent}")
    for name, id, seq in db.execute(DAMAGED):
        found.append(f"event {seq} of agent {name!r} ({id}) is packed, and the frame is damaged")
    return found


def _broken_pages(place: Place) -> list[str]:
    """What SQLite's own check finds. FTS5 caches the structure of an index in the connection, and the
    check does not notice that another process has changed it since. So it needs a new connection."""
    with closing(connected(*place)) as new:
        return [text for (text,) in new.execute("PRAGMA integrity_check") if text != "ok"]
