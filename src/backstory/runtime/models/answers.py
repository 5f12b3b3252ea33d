"""A complete answer in a format that the wire reads: text, calls, and what is sent back unchanged."""

from collections.abc import Mapping, Sequence
from typing import Any

from backstory.runtime.models import Response, ToolCall
from backstory.runtime.models.arguments import storable, storable_value
from backstory.wire import load_answer

CALL = frozenset({"id", "name", "arguments"})


def loaded(events: Sequence[Mapping[str, Any]], format: str, model: str, usage: Any) -> Response:
    """The answer in the events of a stream; `usage` is all that the service says about it."""
    drafts = [
        (kind, text, data or {})
        for kind, text, data in load_answer(list(events), format, model=model)
    ]
    text = "".join(text or "" for kind, text, _ in drafts if kind == "assistant")
    ran = {
        data["id"] for kind, _, data in drafts if kind == "tool_result"
    }  # by the service, in this answer
    calls = tuple(
        ToolCall(data["id"], data["name"], storable_value(data["arguments"]))
        for kind, _, data in drafts
        if kind == "tool_call" and data["id"] not in ran
    )
    kept = {key: value for key, value in drafts[0][2].items() if key not in CALL} if drafts else {}
    data = {"model": model} | storable_value(kept)
    return Response(storable(text), calls, data | ({"request": {"usage": usage}} if usage else {}))
