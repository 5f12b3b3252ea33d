"""Ids of agents, which sort by time, and names that people can type."""

import os
import time

from backstory.errors import Invalid
from backstory.log.events import checked_key, plain

LONGEST_NAME = 200
PLACE_DIGITS = 12  # of an id, at its end
KEYS = (
    "6d2b1f0e-5a0c-5c6e-9a55-0b1a5e7c0de5"  # the namespace that ids of keyed agents are derived in
)
MOST_GENERATIONS = 100_000  # that are tried before an id and a key are said not to match


def new_id(session: str = "") -> str:
    """A time-ordered UUID (version 7). The standard library has one from Python 3.14 on. In a session, its
    last group is that of the session's id, so the id alone says on which server its agent is."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76  # version
    value = value & ~(0x3 << 62) | 0x2 << 62  # variant
    digits = f"{value:032x}"
    last = session[-PLACE_DIGITS:] or digits[20:]
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], last))


def place_of(id: str) -> int:
    """Where an agent with this id is, if the id was made in its session: the number in its last group."""
    return int(id[-PLACE_DIGITS:], 16)


def own_digits(id: str) -> str:
    """Six random digits of an id that other agents of its session do not share."""
    return id[15:18] + id[20:23]


def keyed_id(key: str, generation: int = 0) -> str:
    """The id of the agent with a key. It is the same everywhere, so the primary key decides who creates the
    agent. After a deletion that left forks, the next agent is of the next generation."""
    from uuid import UUID, uuid5  # here, because it is slow to import, and only keys need it

    return str(
        uuid5(
            UUID(KEYS), checked_key(key) if not generation else f"{checked_key(key)}\n{generation}"
        )
    )


def has_key(id: str, key: str) -> bool:
    """Whether an id belongs to a key, in any generation."""
    return any(id == keyed_id(key, generation) for generation in range(MOST_GENERATIONS))


def name_of(key: str) -> str:
    """A name for the agent with a key: the key as far as it can be one."""
    text = "".join("_" if char in "/@" or not char.isprintable() else char for char in key).strip()
    return text[:LONGEST_NAME].strip() or "main"


def checked_name(name: object) -> str:
    """A name that can be used in a reference like session/name@position; raises Invalid."""
    if not isinstance(name, str):
        raise Invalid(f"an agent's name must be a string, not {type(name).__name__}")
    shown = name if len(name) <= 40 else f"{name[:40]}…"
    if not name.strip() or name != name.strip() or len(name) > LONGEST_NAME:
        raise Invalid(
            f"{shown!r} cannot be a name",
            remedy=f"use 1 to {LONGEST_NAME} characters, without spaces around them",
        )
    if not name.isprintable() or "/" in name or "@" in name:
        raise Invalid(
            f"{shown!r} cannot be a name", remedy="leave out '/', '@' and control characters"
        )
    return plain(name)
