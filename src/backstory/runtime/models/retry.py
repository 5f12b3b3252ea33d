"""Retries after a rate limit or a lost connection, with growing pauses.

It also turns the errors of the SDKs into one line that says what to do. OpenAI's and Anthropic's SDKs use the
same names for their errors, and Google's has the status, so one table covers all without importing any of
them.
"""

import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from backstory.runtime.models import ContextTooLong, ModelError, Retrying, StreamItem, Unavailable
from backstory.runtime.models.endpoints import Endpoint

ATTEMPTS = 4
FIRST_PAUSE = 0.5  # seconds; doubled each time
LONGEST_PAUSE = 30.0

GARBLED = (
    "{where} sent something that is not an answer ({detail})",
    "try again, or choose another model",
)

# What an error means, by the service's code or type for it, or by the name of its class or of a base class.
# The first match counts. Then: whether it is transient, what happened, and what to do.
MEANINGS: tuple[tuple[str, bool, str, str], ...] = (
    (
        "too_long",
        False,
        "the context is too long for {model} ({detail})",
        "compact or rewind it first",
    ),
    (
        "insufficient_quota",
        False,
        "the account has no credit left ({detail})",
        "choose another model",
    ),
    ("overloaded_error", True, "{where} is overloaded ({detail})", "try again later"),
    (
        "RateLimitError",
        True,
        "{where} limits the rate of requests ({detail})",
        "wait, then try again",
    ),
    (
        "APITimeoutError",
        True,
        "{where} did not answer in time",
        "try again, or choose another model",
    ),
    ("APIConnectionError", True, "{where} cannot be reached", "check the address and the network"),
    ("TransportError", True, "the connection to {where} was lost", "try again"),
    ("AuthenticationError", False, "{where} refused the key ({detail})", "it comes from {key}"),
    (
        "PermissionDeniedError",
        False,
        "the key may not use {model} ({detail})",
        "choose another model",
    ),
    ("NotFoundError", False, "{where} has no model {model} ({detail})", "choose another model"),
    ("ConflictError", True, "{where} is busy with the same request ({detail})", "try again"),
    ("InternalServerError", True, "{where} failed ({detail})", "try again later"),
    (
        "APIStatusError",
        False,
        "{where} refused the request ({detail})",
        "change it, or choose another model",
    ),
    ("APIError", True, "{where} broke off the answer ({detail})", "try again"),
    # Not errors of an SDK, but what it (or we) raise when a reply is not an answer.
    ("Invalid", False, *GARBLED),
    ("ValueError", False, *GARBLED),
    ("TypeError", False, *GARBLED),
    ("LookupError", False, *GARBLED),
    ("AttributeError", False, *GARBLED),
    ("RecursionError", False, *GARBLED),
)

# Every server words this differently.
TOO_LONG = re.compile(
    r"context.?(length|window|size)|prompt is too long|input token count.* exceeds", re.IGNORECASE
)

# Google's SDK has one class for all refusals, which differ by status.
BY_STATUS = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    429: "RateLimitError",
}


def retried(
    attempt: Callable[[], Iterator[StreamItem]],
    endpoint: Endpoint,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[StreamItem]:
    """The parts of an answer; after a transient error it starts over, and says so."""
    for number in range(1, ATTEMPTS + 1):
        try:
            yield from attempt()
            return
        except ModelError:
            raise
        except Exception as error:
            passing, why, _ = _understood(error, endpoint)
            if not passing or number == ATTEMPTS:
                failed = meaning(error, endpoint)
                failed.status, failed.attempt = _status(error), number
                raise failed from error
            pause = _pause(error, number)
            yield Retrying(why, pause, _status(error), number)
            sleep(pause)


def _status(error: Exception) -> int | None:
    status = getattr(error, "status_code", getattr(error, "code", None))
    return status if isinstance(status, int) else None


def meaning(error: Exception, endpoint: Endpoint) -> ModelError:
    """The ModelError for an SDK's error."""
    passing, why, what_to_do = _understood(error, endpoint)
    if "too_long" in _names(error):
        return ContextTooLong(why, remedy=what_to_do)
    return (Unavailable if passing else ModelError)(why, remedy=what_to_do)


def _understood(error: Exception, endpoint: Endpoint) -> tuple[bool, str, str]:
    """Whether an error is transient, what happened, and what to do; raises it if it is unknown."""
    names = _names(error)
    for known, passing, *words in MEANINGS:
        if known in names:
            why, what_to_do = (
                text.format(**endpoint._asdict(), detail=detail(error)) for text in words
            )
            return passing, why, what_to_do
    raise error


def _names(error: Exception) -> list[str]:
    names = [kind.__name__ for kind in type(error).__mro__]
    said = _said(error)
    if isinstance(said, dict):
        names += [str(said.get("code")), str(said.get("type"))]
    if type(error).__module__.startswith("google."):
        status = _status(error) or 0
        names += [
            BY_STATUS.get(status, ""),
            "InternalServerError" if status >= 500 else "APIStatusError",
        ]
    if "BadRequestError" in names and TOO_LONG.search(f"{names} {detail(error)}"):
        names.append("too_long")
    return names


def _said(error: Exception) -> Any:
    """The service's own description of an error, which may be wrapped."""
    body: Any = getattr(error, "body", None) or getattr(error, "details", None)
    return body.get("error", body) if isinstance(body, dict) else body


def detail(error: Exception) -> str:
    """The service's message on one line; for other errors, their class and text."""
    said = _said(error)
    if isinstance(said, dict):
        said = said.get("message") or said.get("detail")
    name = "" if hasattr(error, "body") else f"{type(error).__name__}: "
    text = said if isinstance(said, str) and said else f"{name}{error}"
    status = _status(error)
    return " ".join(f"{f'HTTP {status}: ' if status else ''}{text}".split())[:300]


def _pause(error: Exception, number: int) -> float:
    """The pause that the service asks for, or else one that grows each time; with jitter, so that not all
    clients retry at once."""
    headers: Mapping[str, str] = getattr(getattr(error, "response", None), "headers", {})
    grown: float = FIRST_PAUSE * 2 ** (number - 1) * (1 + random.random() / 4)
    try:
        told = float(headers.get("retry-after", ""))
    except ValueError:  # a date, or nothing
        told = -1.0
    return min(told if told >= 0 else grown, LONGEST_PAUSE)
