"""What agents are called: ids that sort by time, and names that people can type."""

import os
import time

from backstory.errors import Invalid

LONGEST_NAME = 200


def new_id() -> str:
    """A time-ordered UUID (version 7). The standard library has one from Python 3.14 on."""
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10))
    value = value & ~(0xF << 76) | 0x7 << 76  # version
    value = value & ~(0x3 << 62) | 0x2 << 62  # variant
    digits = f"{value:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


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
