"""What agents are called: ids that sort by time, and names that people can type."""

import os
import time
from uuid import UUID, uuid5

from backstory.core.events import checked_key
from backstory.errors import Invalid

LONGEST_NAME = 200
KEYS = UUID("6d2b1f0e-5a0c-5c6e-9a55-0b1a5e7c0de5")  # the namespace that ids of keyed agents are derived in


def new_id() -> str:
    """A time-ordered UUID (version 7). The standard library has one from Python 3.14 on."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76  # version
    value = value & ~(0x3 << 62) | 0x2 << 62  # variant
    digits = f"{value:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def keyed_id(key: str, generation: int = 0) -> str:
    """The id of the agent with a key: the same wherever it is asked for, so that the primary key decides who
    made it first. After a deletion that left forks behind, the next agent is of the next generation."""
    return str(uuid5(KEYS, checked_key(key) if not generation else f"{checked_key(key)}\n{generation}"))


def name_of(key: str) -> str:
    """A name for the agent with a key: the key as far as it can be one."""
    text = "".join("_" if char in "/@" or not char.isprintable() else char for char in key).strip()
    return text[:LONGEST_NAME].strip() or "main"


def checked_name(name: object) -> str:
    """A name that can stand in a reference like session/name@position; raises Invalid."""
    if not isinstance(name, str):
        raise Invalid(f"an agent's name must be a string, not {type(name).__name__}")
    shown = name if len(name) <= 40 else f"{name[:40]}…"
    if not name.strip() or name != name.strip() or len(name) > LONGEST_NAME:
        raise Invalid(
            f"{shown!r} cannot be a name",
            remedy=f"use 1 to {LONGEST_NAME} characters, without spaces around them",
        )
    if not name.isprintable() or "/" in name or "@" in name:
        raise Invalid(f"{shown!r} cannot be a name", remedy="leave out '/', '@' and control characters")
    return name
