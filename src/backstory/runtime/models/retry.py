"""Explains the errors of providers, and repeats requests that may succeed later.

OpenAI's and Anthropic's SDKs have the same names for their errors, and Google's has the HTTP
status, so one table covers all of them without an import. An error inside a stream has the code
that the same error has in a response.
"""

import asyncio
import random
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from itertools import count
from typing import Any, NamedTuple

from backstory.runtime.models import ContextTooLong, ModelError, Retrying, StreamItem, Unavailable

RETRY_SECONDS = 120.0  # after the first failure, a new attempt begins within this time
FIRST_PAUSE = 0.5  # seconds; doubled each time
LONGEST_PAUSE = 30.0
MAX_DETAIL = 300  # characters of a service's message


class Endpoint(NamedTuple):
    """A model at an address, as messages name it."""

    model: str
    where: str  # host and port
    key: str = "the key"  # where its key comes from


class Meaning(NamedTuple):
    """What an error means for a person."""

    is_transient: bool
    why: str
    remedy: str


TOO_LONG = "too long"
UNREACHABLE = "unreachable"
AGAIN = "try again"
OTHER_MODEL = "choose another model"
MEANINGS = {
    TOO_LONG: Meaning(
        False, "the context is too long for {model} ({detail})", "compact or rewind it first"
    ),
    "no credit": Meaning(False, "the account has no credit left ({detail})", OTHER_MODEL),
    "overloaded": Meaning(True, "{where} is overloaded ({detail})", "try again later"),
    "rate": Meaning(True, "{where} limits the rate of requests ({detail})", "wait, then try again"),
    "timeout": Meaning(True, "{where} did not answer in time", f"{AGAIN}, or {OTHER_MODEL}"),
    UNREACHABLE: Meaning(True, "{where} cannot be reached", "check the address and the network"),
    "lost": Meaning(True, "the connection to {where} was lost", AGAIN),
    "key": Meaning(False, "{where} refused the key ({detail})", "it comes from {key}"),
    "forbidden": Meaning(False, "the key may not use {model} ({detail})", OTHER_MODEL),
    "no model": Meaning(False, "{where} has no model {model} ({detail})", OTHER_MODEL),
    "busy": Meaning(True, "{where} is busy with the same request ({detail})", AGAIN),
    "failed": Meaning(True, "{where} failed ({detail})", "try again later"),
    "refused": Meaning(
        False, "{where} refused the request ({detail})", f"change it, or {OTHER_MODEL}"
    ),
    "broken": Meaning(True, "{where} broke off the answer ({detail})", AGAIN),
    "garbled": Meaning(
        False,
        "{where} sent something that is not an answer ({detail})",
        f"{AGAIN}, or {OTHER_MODEL}",
    ),
}
# Codes and types in the description of an error that say more than the HTTP status.
CODES = {
    "context_length_exceeded": TOO_LONG,
    "insufficient_quota": "no credit",
    "overloaded_error": "overloaded",
}
STATUSES = {
    400: "refused", 401: "key", 403: "forbidden", 404: "no model", 408: "timeout", 409: "busy",
    429: "rate", 529: "overloaded",
}  # fmt: skip
# Codes and types of errors inside a stream, which have no status.
STREAM_CODES = {
    "invalid_request_error": "refused",
    "authentication_error": "key",
    "permission_error": "forbidden",
    "not_found_error": "no model",
    "rate_limit_error": "rate",
    "rate_limit_exceeded": "rate",
    "timeout_error": "timeout",
    "api_error": "failed",
    "server_error": "failed",
}
# Classes of exceptions and of their bases. The first that fits counts.
CLASSES = {
    "RateLimitError": "rate",
    "APITimeoutError": "timeout",
    "TimeoutException": "timeout",
    "APIConnectionError": UNREACHABLE,
    "ConnectError": UNREACHABLE,
    "TransportError": "lost",
    "StreamCut": "lost",
    "APIError": "broken",
    "StreamFailed": "broken",
    # Not errors of an SDK, but what it or we raise when a reply is not an answer.
    "Invalid": "garbled",
    "ValueError": "garbled",
    "TypeError": "garbled",
    "LookupError": "garbled",
    "AttributeError": "garbled",
    "RecursionError": "garbled",
}
# Every server words this differently.
TOO_LONG_WORDS = re.compile(
    r"context.?(length|window|size|limit)|prompt is too long|input token count.* exceeds",
    re.IGNORECASE,
)

Attempt = Callable[[], AsyncGenerator[StreamItem, None]]
Sleep = Callable[[float], Awaitable[None]]


async def retry(
    attempt: Attempt,
    endpoint: Endpoint,
    *,
    sleep: Sleep = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncGenerator[StreamItem, None]:
    """Yield the parts of an answer. After a transient error, say so and start over, as long as the
    next attempt begins within RETRY_SECONDS of the first failure."""
    deadline = None
    for number in count(1):
        try:
            async with aclosing(attempt()) as parts:
                async for part in parts:
                    yield part
            return
        except ModelError:
            raise
        except Exception as error:
            failure = explain(error, endpoint)
            failure.attempt = number
            pause = choose_pause(error, number)
            now = clock()
            if deadline is None:
                deadline = now + RETRY_SECONDS
            if not isinstance(failure, Unavailable) or now + pause > deadline:
                raise failure from error
        yield Retrying(failure.message, pause, failure.status, number)
        await sleep(pause)


def explain(error: Exception, endpoint: Endpoint) -> ModelError:
    """Return the ModelError for an SDK's error. Raises `error` itself if it is unknown."""
    kind = find_kind(error)
    if kind is None:
        raise error
    meaning = MEANINGS[kind]
    detail = describe_error(error)
    why = meaning.why.format(**endpoint._asdict(), detail=detail)
    remedy = meaning.remedy.format(**endpoint._asdict())
    if kind == TOO_LONG:
        failure: ModelError = ContextTooLong(why, remedy=remedy)
    elif meaning.is_transient:
        failure = Unavailable(why, remedy=remedy)
    else:
        failure = ModelError(why, remedy=remedy)
    failure.status = find_status(error)
    return failure


def find_kind(error: Exception) -> str | None:
    """Return the key in MEANINGS for an error, or None if it is unknown."""
    codes = list_codes(error)
    for code in codes:
        if code in CODES:
            return CODES[code]
    status = find_status(error)
    if status is None and codes and isinstance(codes[0], int):
        status = codes[0]  # inside a stream, some servers repeat the HTTP status
    kind = find_kind_of_status(status) or find_kind_in_stream(codes) or find_kind_of_class(error)
    if kind == "refused" and TOO_LONG_WORDS.search(f"{codes} {describe_error(error)}"):
        return TOO_LONG
    return kind


def list_codes(error: Exception) -> list[Any]:
    """Return the provider's own code and type of an error."""
    body = find_body(error)
    return [body.get("code"), body.get("type")] if isinstance(body, Mapping) else []


def find_kind_of_status(status: int | None) -> str | None:
    """Return the kind of an error response; None if the response was no error."""
    if status is None or status < 400:
        return None
    if status in STATUSES:
        return STATUSES[status]
    return "failed" if status >= 500 else "refused"


def find_kind_in_stream(codes: list[Any]) -> str | None:
    """Return the kind of an error that has one of these codes."""
    for code in codes:
        if code in STREAM_CODES:
            return STREAM_CODES[code]
    return None


def find_kind_of_class(error: Exception) -> str | None:
    """Return the kind of an error by its class."""
    names = {kind.__name__ for kind in type(error).__mro__}
    for name, kind in CLASSES.items():
        if name in names:
            return kind
    return None


def find_status(error: Exception) -> int | None:
    """Return the HTTP status of an error, if it has one."""
    status = getattr(error, "status_code", getattr(error, "code", None))
    return status if isinstance(status, int) else None


def find_body(error: Exception) -> Any:
    """Return the service's own description of an error, which may be wrapped."""
    body = getattr(error, "body", None) or getattr(error, "details", None)
    if isinstance(body, Mapping):
        return body.get("error", body)
    return body


def describe_error(error: Exception) -> str:
    """Return the service's message on one line; for other errors, their class and text."""
    text = find_body(error)
    if isinstance(text, Mapping):
        text = text.get("message") or text.get("detail")
    if not isinstance(text, str) or not text:
        text = str(error) if hasattr(error, "body") else f"{type(error).__name__}: {error}"
    status = find_status(error)
    if status is not None and status >= 400:
        text = f"HTTP {status}: {text}"
    return " ".join(text.split())[:MAX_DETAIL]


def choose_pause(error: Exception, number: int) -> float:
    """Return a pause that grows with each attempt, or a longer one that the service asks for.
    Jitter keeps clients from trying again at the same time."""
    headers = getattr(getattr(error, "response", None), "headers", {})
    try:
        asked = float(headers.get("retry-after", ""))
    except ValueError:  # a date, or nothing
        asked = 0.0
    pause = min(FIRST_PAUSE * 2.0 ** (number - 1), LONGEST_PAUSE)
    pause *= 1 + random.random() / 4
    return asked if asked > pause else pause  # "nan" is not greater
