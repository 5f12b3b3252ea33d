"""Makes ids of agents, which sort by time, and finds the agents that have a key or an id."""

import os
import time

from backstory.errors import KeyTaken
from backstory.log.arguments import LONGEST_NAME, derive_id
from backstory.log.chain import SALT_WIDTH
from backstory.storage.protocol import AgentQuery, AgentRecord, Reader

PLACE_DIGITS = 12  # of an id, at its end


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


def new_salt() -> bytes:
    """Return a random salt for one event."""
    return os.urandom(SALT_WIDTH)


def new_salts(count: int) -> list[bytes]:
    """Return random salts for so many events."""
    random = os.urandom(count * SALT_WIDTH)
    return [random[start : start + SALT_WIDTH] for start in range(0, len(random), SALT_WIDTH)]


def parse_place(id: str) -> int:
    """Return the place of an agent whose id was made in its session: the number in the id's last
    group."""
    return int(id[-PLACE_DIGITS:], 16)


def shorten_id(id: str) -> str:
    """Return six random digits of an id that other agents of its session do not share."""
    return id[15:18] + id[20:23]


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


def find_agent_by_id(
    reader: Reader, id: str, *, include_deleted: bool = False
) -> AgentRecord | None:
    """Return the agent with this id; None if there is none."""
    for agent in reader.list_agents(AgentQuery(id_prefix=id, include_deleted=include_deleted)):
        return agent
    return None


def find_keyed_agent(reader: Reader, key: str) -> tuple[str, AgentRecord | None]:
    """Return the id that a key has now, and the agent with it, or None if there is none."""
    id = derive_id(key)
    first = find_agent_by_id(reader, id, include_deleted=True)
    if first is None or (first.deleted_us is None and first.key in (None, key)):
        return id, first
    # The first generation was deleted, or the id is that of a later generation of another key, such
    # as "a" for "a\n1". Without a place in the query, a cluster asks all servers.
    living = reader.list_agents(AgentQuery(key=key))
    if living:
        return living[0].id, living[0]
    return find_last_generation(reader, key)


def find_last_generation(reader: Reader, key: str) -> tuple[str, AgentRecord | None]:
    """Return the id and the agent of the generation after those that were deleted. Their rows are
    all there, so a few look-ups find the last one: they look twice as far each time, and half as
    far if there is nothing."""
    last = 0  # a generation that was deleted
    step = 1
    while True:
        id = derive_id(key, last + step)
        agent = find_agent_by_id(reader, id, include_deleted=True)
        if agent is not None and agent.deleted_us is None:
            return id, agent  # it was created just now
        if agent is not None:
            last += step
            step *= 2
        elif step > 1:
            step //= 2
        else:
            return id, None


def find_free_id(reader: Reader, key: str) -> str:
    """Return the id for a new agent with a key. Raises KeyTaken if an agent has the key."""
    id, agent = find_keyed_agent(reader, key)
    if agent is not None:
        raise KeyTaken.of_agent(key)
    return id
