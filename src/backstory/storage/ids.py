"""Ids of agents, which sort by time, and the ids that keys have.

The id of an agent with a key is derived from the key, so the primary key decides who creates the
agent first. A deleted agent whose row is still needed retains its id. The next agent with its key
is of the next generation, and has another id.
"""

import os
import time
from itertools import count

from backstory.errors import KeyTaken
from backstory.log.checks import LONGEST_NAME, check_key
from backstory.storage.protocol import AgentQuery, AgentRecord, Reader

PLACE_DIGITS = 12  # of an id, at its end
NAMESPACE = "6d2b1f0e-5a0c-5c6e-9a55-0b1a5e7c0de5"  # of the ids that are derived from keys
MOST_GENERATIONS = 100_000  # that are tried before an id and a key are reported as not matching
PLACEHOLDER = "/"  # the name of a row that only keeps a number from being given again


def new_id(session: str = "") -> str:
    """Return a time-ordered UUID (version 7). The standard library has one from Python 3.14 on. In
    a session, its last group is that of the session's id, so the id alone tells on which server its
    agent is."""
    milliseconds = time.time_ns() // 1_000_000
    value = milliseconds << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76  # version
    value = value & ~(0x3 << 62) | 0x2 << 62  # variant
    digits = f"{value:032x}"
    last_group = session[-PLACE_DIGITS:] or digits[20:]
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], last_group))


def find_place(id: str) -> int:
    """Return the place of an agent whose id was made in its session: the number in the id's last
    group."""
    return int(id[-PLACE_DIGITS:], 16)


def shorten_id(id: str) -> str:
    """Return six random digits of an id that other agents of its session do not share."""
    return id[15:18] + id[20:23]


def derive_id(key: str, generation: int = 0) -> str:
    """Return the id of the agent with a key. It is the same everywhere."""
    from uuid import UUID, uuid5  # here, because it is slow to import, and only keys need it

    text = check_key(key)
    if generation:
        text = f"{text}\n{generation}"
    return str(uuid5(UUID(NAMESPACE), text))


def has_key(id: str, key: str) -> bool:
    """Return True if an id belongs to a key, in any generation."""
    return any(id == derive_id(key, generation) for generation in range(MOST_GENERATIONS))


def name_from_key(key: str) -> str:
    """Return a name for the agent with a key: the key, as far as it can be a name."""
    characters = []
    for character in key:
        is_allowed = character not in "/@" and character.isprintable()
        characters.append(character if is_allowed else "_")
    text = "".join(characters).strip()
    return text[:LONGEST_NAME].strip() or "main"


def name_deleted_agent(id: str) -> str:
    """Return the name of a deleted agent whose row stays. No name of an agent contains a slash."""
    return f"/{id}"


def find_keyed_agent(reader: Reader, key: str) -> tuple[str, AgentRecord | None]:
    """Return the id that a key has now, and the agent with it, or None if there is none."""
    for generation in count():
        id = derive_id(key, generation)
        found = reader.list_agents(AgentQuery(id_prefix=id, include_deleted=True))
        if not found:
            return id, None
        if found[0].deleted_us is None:
            return id, found[0]
    raise AssertionError("generations do not end")


def find_free_id(reader: Reader, key: str) -> str:
    """Return the id for a new agent with a key. Raises KeyTaken if an agent has the key."""
    id, agent = find_keyed_agent(reader, key)
    if agent is not None:
        raise KeyTaken.of_agent(key)
    return id
