"""Codes that a browser exchanges for the key of this run.

An address ends up in the browser's history and in lists of processes, so it contains a code that
works once, and not the key. The browser keeps the key in its storage for this origin.
"""

import secrets
import time
from collections.abc import Callable

CODE_BYTES = 24


class AccessCodes:
    """Codes that a browser exchanges for the key. Each works once."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._ends: dict[str, float | None] = {}
        # Called after a code without a time limit was used: the person needs another address.
        self.on_redeem: Callable[[], None] | None = None

    def issue(self, seconds: float | None = None) -> str:
        """Return a new code. It works for `seconds`, or until it is used."""
        code = secrets.token_urlsafe(CODE_BYTES)
        self._ends[code] = None if seconds is None else time.monotonic() + seconds
        return code

    def redeem(self, code: str) -> str | None:
        """Return the key, or None if the code is unknown, used or too old."""
        if code not in self._ends:
            return None
        end = self._ends.pop(code)
        if end is not None and time.monotonic() > end:
            return None
        if end is None and self.on_redeem is not None:
            self.on_redeem()
        return self._key
