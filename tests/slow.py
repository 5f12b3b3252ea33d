"""How often a slow test repeats: enough to find most defects by default, more with BACKSTORY_SLOW=1."""

import os

SLOW = os.environ.get("BACKSTORY_SLOW", "") not in ("", "0")


def more(usual: int, *, slow: int) -> int:
    return slow if SLOW else usual
