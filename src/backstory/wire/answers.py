"""What a provider's SDK returned, as events to write: whose format it is, and what was asked. Pure."""

import hashlib
from collections.abc import Mapping
from typing import Any

from backstory.errors import Invalid
from backstory.log.events import to_json
from backstory.wire import FORMATS, load_answer
from backstory.wire.json_values import as_plain
from backstory.wire.loading import Loaded
from backstory.wire.media import encode_base64

# Fields of answers and stream events that only this format has.
BY_KEY = {
    "choices": "openai",
    "candidates": "gemini",
    "messageStart": "bedrock",
    "contentBlockStart": "bedrock",
    "contentBlockDelta": "bedrock",
}
ANTHROPIC_TYPES = frozenset({"message", "message_start"})


def answer_batch(
    response: Any,
    format: str | None,
    *,
    model: str | None,
    request: Mapping[str, Any] | None,
    at: int,
) -> list[Loaded]:
    """The events of an answer; the data of the first describes the request. `at` is the position at which the
    request was made."""
    whole = as_plain(response)
    name = _format_of(whole) if format is None else format
    (kind, text, data), *rest = load_answer(whole, name, model=model)
    data = dict(data or {})
    asked: dict[str, Any] = {"format": name, "at": at}
    if request is not None:
        asked["sha256"] = _checked_digest(request)
    if (model or data.get("model")) is not None:
        asked["model"] = model or data["model"]
    usage = _usage(whole)
    if usage is not None:
        asked["usage"] = usage
    return [(kind, text, data | {"request": asked}), *rest]


def _checked_digest(request: Any) -> str:
    if not isinstance(request, Mapping):
        raise Invalid(
            f"{request!r:.60} is not a request", remedy="pass the body that was sent, an object"
        )
    try:
        return request_digest(request)
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(
            f"the request is not JSON: {error}", remedy="pass the body that was sent"
        ) from error


def request_digest(body: Mapping[str, Any]) -> str:
    """The SHA-256 of a request's canonical JSON: keys in order, no blanks, blobs as base64."""
    return hashlib.sha256(to_json(_canonical(body)).encode(errors="surrogatepass")).hexdigest()


def _canonical(value: Any) -> Any:
    match value:
        case Mapping():
            return {str(key): _canonical(value[key]) for key in sorted(value, key=str)}
        case list() | tuple():
            return [_canonical(item) for item in value]
        case bytes() | bytearray():
            return encode_base64(bytes(value))
    return value


def _format_of(whole: Any) -> str:
    """The format of an answer, by its shape."""
    first = whole[0] if isinstance(whole, list) and whole else whole
    if isinstance(first, Mapping):
        for key, format in BY_KEY.items():
            if key in first:
                return format
        kind = first.get("type")
        if kind in ANTHROPIC_TYPES:
            return "anthropic"
        output = first.get("output")
        if isinstance(output, Mapping) and "message" in output:
            return "bedrock"
        if isinstance(output, list) or (isinstance(kind, str) and kind.startswith("response.")):
            return "openai-responses"
    raise Invalid(
        "cannot tell which provider's answer this is",
        remedy=f"pass format=, one of {', '.join(FORMATS)}",
    )


def _usage(whole: Any) -> Any:
    """The usage exactly as the provider reported it."""
    parts = whole if isinstance(whole, list) else [whole]
    found: dict[str, Any] = {}
    for part in parts:
        for place in (part, *(part.get(name) for name in ("message", "response", "metadata"))):
            for name in ("usage", "usageMetadata", "usage_metadata"):
                usage = place.get(name) if isinstance(place, Mapping) else None
                found |= usage if isinstance(usage, Mapping) else {}
    return found or None
