"""What the tools of Gemini CLI gave back: the words, and the images and documents beside them. Pure."""

from collections.abc import Iterator
from typing import Any

from backstory.transcripts.entries import (
    Data,
    as_text,
    media_block,
    microseconds,
    result_data,
    result_with,
)
from backstory.transcripts.transcript import Entry


def of_call(call: Data, id: str, time: int | None) -> Entry:
    """The result that stands in the record of a call."""
    result = call["result"]
    parts = _own(result if isinstance(result, list) else [result], call.get("id"))
    data = result_data(call.get("id"), id, error=call.get("status") == "error")
    return _entry(f"{id}/result", parts, data, microseconds(call.get("timestamp")) or time)


def _own(parts: list[Any], call: Any) -> list[Any]:
    """The parts of one call's result. A history that was written anew has those of all calls of an answer
    beside each of them."""
    ids = [_id_of(part) for part in parts]
    if call is None or call not in ids or all(id in (None, call) for id in ids):
        return parts
    own, kept = False, []
    for part, id in zip(parts, ids, strict=True):
        own = (
            id == call if id is not None else own
        )  # what has no id belongs to the response before it
        kept += [part] if own else []
    return kept


def _id_of(part: Any) -> Any:
    response = part.get("functionResponse") if isinstance(part, dict) else None
    return response.get("id") if isinstance(response, dict) else None


def of_part(response: Data, id: str, time: int | None) -> Entry:
    """The result that is a part of a message."""
    return _entry(id, [{"functionResponse": response}], result_data(response.get("id"), id), time)


def _entry(id: str, parts: list[Any], data: Data, time: int | None) -> Entry:
    words = "\n".join(text for part in parts if (text := _text(part)))
    media = [block for part in parts for block in _media(part)]
    return Entry(id, "tool_result", *result_with(words, data, media), time)


def _text(part: Any) -> str:
    """The words of a function's response: its output, its error, or all of it."""
    if not isinstance(part, dict):
        return as_text(part)
    response = part.get("functionResponse")
    if not isinstance(response, dict):
        return as_text(part.get("text")) if "text" in part else ""
    said = response.get("response")
    if isinstance(said, dict):
        for key in ("output", "error", "content"):
            if isinstance(said.get(key), str):
                return str(said[key])
    return as_text(said)


def _media(part: Any) -> Iterator[Data | None]:
    """Images and documents: parts beside a response, or (since Gemini 3) within it."""
    match part:
        case {"inlineData": {"mimeType": mime, "data": data}}:
            yield media_block(mime, data)
        case {"functionResponse": {"parts": list(inner)}}:
            for one in inner:
                if isinstance(one, dict) and "functionResponse" not in one:
                    yield from _media(one)
