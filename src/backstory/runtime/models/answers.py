"""A complete answer in a format that the wire reads: text, calls, and what is sent back unchanged."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from backstory.log.data_keys import RESPONSE
from backstory.runtime.models import Response, StreamItem, TextDelta, ThinkingDelta, ToolCall
from backstory.runtime.models.arguments import storable, storable_value
from backstory.wire import load_answer
from backstory.wire.answers import read_facts
from backstory.wire.formats import get_format
from backstory.wire.formats.base import StreamAssembler

CALL = frozenset({"id", "name", "arguments"})


def show_stream(
    events: Iterable[Mapping[str, Any]], stream: StreamAssembler
) -> Iterator[StreamItem]:
    """Assemble the events of a stream. Yield the text and the thinking in them."""
    for event in events:
        for kind, text in stream.add(event):
            yield TextDelta(text) if kind == "text" else ThinkingDelta(text)


def load_response(response: Mapping[str, Any], format: str, model: str, usage: Any) -> Response:
    """Return the answer in a response; `usage` is all that the service says about it."""
    drafts = []
    for kind, text, data in load_answer(response, format, model=model):
        drafts.append((kind, text, data or {}))
    text = "".join(text or "" for kind, text, _ in drafts if kind == "assistant")
    ran = {
        data["id"] for kind, _, data in drafts if kind == "tool_result"
    }  # by the service, in this answer
    calls = tuple(
        ToolCall(data["id"], data["name"], _read_arguments(data["arguments"]))
        for kind, _, data in drafts
        if kind == "tool_call" and data["id"] not in ran
    )
    kept = {key: value for key, value in drafts[0][2].items() if key not in CALL} if drafts else {}
    data = {"model": model} | storable_value(kept)
    if usage:
        data["request"] = {"usage": usage}
    return Response(storable(text), calls, data | describe_response(response, format))


def describe_response(response: Mapping[str, Any], format: str) -> dict[str, Any]:
    """Return the facts about a response as data to store: its id, its stop reason and others."""
    facts = read_facts(response, get_format(format))
    return {RESPONSE: storable_value(facts)} if facts else {}


def _read_arguments(arguments: Any) -> Any:
    """Return the arguments of a call; text that is not JSON, or was cut off, stays text, so that no tool
    runs with it."""
    match arguments:
        case {"_invalid_json": str(text)}:
            return storable(text)
    return storable_value(arguments)
