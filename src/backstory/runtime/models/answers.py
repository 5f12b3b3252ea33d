"""A whole answer in a format that the wire reads: its text, its calls, and what goes back unchanged."""

from collections.abc import Mapping, Sequence
from typing import Any

from backstory.runtime.models import Response, ToolCall
from backstory.runtime.models.arguments import storable, storable_value
from backstory.wire import load_answer

CALL = frozenset({"id", "name", "arguments"})


def loaded(events: Sequence[Mapping[str, Any]], format: str, model: str, usage: Any) -> Response:
    """The answer that a stream's events come to; `usage`: all that the service says of it."""
    drafts = [(text, dict(data or {})) for _, text, data in load_answer(list(events), format, model=model)]
    text = "".join(text or "" for text, data in drafts if "arguments" not in data)
    calls = tuple(
        ToolCall(data["id"], data["name"], storable_value(data["arguments"]))
        for _, data in drafts
        if "arguments" in data
    )
    kept = {key: value for key, value in drafts[0][1].items() if key not in CALL} if drafts else {}
    data = {"model": model} | storable_value(kept)
    return Response(storable(text), calls, data | ({"request": {"usage": usage}} if usage else {}))
