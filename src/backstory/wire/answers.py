"""Reads what a provider's SDK returned: whose answer it is, what was asked, and facts about the
answer. Pure."""

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from backstory.errors import Invalid
from backstory.log.data_keys import NATIVE, REQUEST, RESPONSE
from backstory.log.events import to_json
from backstory.wire.formats import FORMATS_BY_NAME, get_format
from backstory.wire.formats.base import Format
from backstory.wire.json_values import as_plain
from backstory.wire.loading import Loaded, load_response
from backstory.wire.media import encode_base64
from backstory.wire.turns import AFTER_NOTHING, Accepted


class BuiltAnswer(NamedTuple):
    """The events of an answer."""

    events: list[Loaded]
    # The messages that a compaction by the provider keeps; None: the answer is not a compaction.
    kept: list[Loaded] | None = None


def build_answer(
    response: Any,
    format: str | None,
    *,
    model: str | None,
    request: Mapping[str, Any] | None,
    at: int,
) -> BuiltAnswer:
    """Return the events of an answer. The data of the first describes the request, which was made
    at the position `at`, and the response."""
    answer = as_plain(response)
    source = get_format(find_format_name(answer) if format is None else format)
    whole = assemble_answer(answer, source)
    events = load_response(source, whole, model)
    kept = None
    if source.is_compaction(whole):
        kept, events = _split_kept(events)
    kind, text, data = events[0]
    data = dict(data or {})
    asked: dict[str, Any] = {"format": source.name, "at": at}
    asked_model = model
    if request is not None:
        asked["sha256"] = _check_digest(request)
        # The answer may name a version of the model that the request names by an alias.
        asked_model = model or request.get(source.model_key)
    data[REQUEST] = asked | _describe_cost(whole, source, asked_model or data.get("model"))
    facts = source.read_facts(whole)
    if facts:
        data[RESPONSE] = facts
    if kept is not None:
        data[NATIVE] = _mark_compaction(data[NATIVE], facts)
    events[0] = kind, text, data
    return BuiltAnswer(events, kept)


def _describe_cost(
    response: Mapping[str, Any], source: Format, model: str | None
) -> dict[str, Any]:
    """Return the model that was asked, and the usage exactly as the provider reported it."""
    cost: dict[str, Any] = {}
    if model:
        cost["model"] = model
    usage = source.find_value(response, source.usage_path)
    if isinstance(usage, Mapping) and usage:
        cost["usage"] = dict(usage)
    return cost


def _split_kept(events: list[Loaded]) -> tuple[list[Loaded], list[Loaded]]:
    """Return the messages at the beginning, which a compaction keeps, and the answer after them."""
    count = 0
    while count < len(events) - 1 and events[count][0] in ("user", "system"):
        count += 1
    return events[:count], events[count:]


def _mark_compaction(native: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Mark native content that is the first message of the next request. If the model stopped for
    the compaction, it continues from there."""
    marked = {**native, "after": AFTER_NOTHING}
    if facts.get("stop") == "compaction":
        marked["took"] = [*native.get("took", ()), Accepted.LAST_WORD.value]
    return marked


def assemble_answer(response: Any, source: Format) -> Mapping[str, Any]:
    """Return an answer as an object: a dict, an object of the provider's SDK, or the events of a
    stream."""
    whole = as_plain(response)
    if isinstance(whole, list):
        try:
            whole = source.assemble_stream(whole)
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            problem = f"these are not the events of a stream of the format {source.name}"
            raise Invalid(problem) from error
    if not isinstance(whole, Mapping):
        found = type(response).__name__
        raise Invalid(f"an answer of the format {source.name} is an object, not {found}")
    return whole


def find_format_name(answer: Any) -> str:
    """Return the format of an answer, or of the events of a stream, by its shape."""
    first = answer[0] if isinstance(answer, list) and answer else answer
    if isinstance(first, Mapping):
        for format in FORMATS_BY_NAME.values():
            if format.recognizes(first):
                return format.name
    raise Invalid(
        "cannot tell which provider's answer this is",
        remedy=f"pass format=, one of {', '.join(FORMATS_BY_NAME)}",
    )


def _check_digest(request: Any) -> str:
    if not isinstance(request, Mapping):
        problem = f"{request!r:.60} is not a request"
        raise Invalid(problem, remedy="pass the body that was sent, an object")
    try:
        return request_digest(request)
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"the request is not JSON: {error}"
        raise Invalid(problem, remedy="pass the body that was sent") from error


def request_digest(body: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a request's canonical JSON: keys in order, no blanks, blobs as
    base64."""
    return hashlib.sha256(to_json(_sort_keys(body)).encode(errors="surrogatepass")).hexdigest()


def _sort_keys(value: Any) -> Any:
    match value:
        case Mapping():
            return {str(key): _sort_keys(value[key]) for key in sorted(value, key=str)}
        case list() | tuple():
            return [_sort_keys(item) for item in value]
        case bytes() | bytearray():
            return encode_base64(bytes(value))
    return value
