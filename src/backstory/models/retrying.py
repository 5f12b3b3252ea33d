"""Trying again: after a rate limit or a dropped connection, with pauses that grow.

It also puts what the SDKs raise into one line that says what to do. Both SDKs name their errors
alike, so one table of names serves both, without importing either.
"""

import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from backstory.models import ModelError, Piece, Retrying, Unavailable

ATTEMPTS = 4
FIRST_PAUSE = 0.5  # seconds; doubled each time
LONGEST_PAUSE = 30.0

# What an SDK's error means, by the name of its class or of one it inherits from: the first that fits.
MEANINGS = (
    ("RateLimitError", True, "the service limits how fast it is asked: wait a little, then ask again"),
    ("APITimeoutError", True, "no answer in time from {where}: ask again, or try another model"),
    ("APIConnectionError", True, "nobody answers at {where}: is the address right, is the network up?"),
    ("TransportError", True, "the connection to {where} was lost: ask again"),
    ("AuthenticationError", False, "the key was refused by {where}: mend the key ({detail})"),
    ("PermissionDeniedError", False, "the key may not use {name}: choose another model ({detail})"),
    ("NotFoundError", False, "there is no model {name} at {where}: choose another with /model ({detail})"),
    ("ConflictError", True, "the service is busy with the same request: ask again"),
    ("InternalServerError", True, "{where} has trouble of its own: ask again later ({detail})"),
    ("APIStatusError", False, "the request was refused: {detail}"),
    ("APIError", True, "the service broke off: {detail}"),
)


def retried(
    attempt: Callable[[], Iterator[Piece]],
    *,
    name: str,
    where: str,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[Piece]:
    """The pieces of an attempt; one that fails in passing is begun again, and says so."""
    for number in range(1, ATTEMPTS + 1):
        try:
            yield from attempt()
            return
        except ModelError:
            raise
        except Exception as error:
            meant = meaning(error, name=name, where=where)
            if not isinstance(meant, Unavailable) or number == ATTEMPTS:
                raise meant from error
            pause = _pause(error, number)
            yield Retrying(str(meant), pause)
            sleep(pause)


def meaning(error: Exception, *, name: str, where: str) -> ModelError:
    """The ModelError that an SDK's error is."""
    names = [kind.__name__ for kind in type(error).__mro__]
    for known, passing, words in MEANINGS:
        if known in names:
            said = words.format(name=name, where=where, detail=detail(error))
            return Unavailable(said) if passing else ModelError(said)
    raise error


def detail(error: Exception) -> str:
    """What the service itself said, on one line."""
    body: Any = getattr(error, "body", None)
    for key in ("error", "message", "detail"):
        if isinstance(body, dict) and key in body:
            body = body[key]
    text = body if isinstance(body, str) else str(error)
    return " ".join(text.split())[:300]


def _pause(error: Exception, number: int) -> float:
    """As long as the service says, else longer each time; never so alike that all come back at once."""
    headers: Mapping[str, str] = getattr(getattr(error, "response", None), "headers", {})
    try:
        told = float(headers.get("retry-after", ""))
        return min(told, LONGEST_PAUSE)
    except ValueError:
        grown: float = FIRST_PAUSE * 2 ** (number - 1) * (1 + random.random() / 4)
        return min(grown, LONGEST_PAUSE)
