"""What rides in an event's native form beside its text and its calls: media, reasoning, server tools.

Reads the forms of all five formats by their shapes, which do not clash, and never raises: what it does not
recognise counts by the words in it.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from backstory.wire.formats.base import is_unread
from backstory.wire.json_values import write_json


class Extra(NamedTuple):
    """One thing that is not the event's text: what it is, and what is known of it."""

    what: str  # image, audio, video, document, reasoning, server tool
    data: str | None = (
        None  # base64, or what is sealed; None where only an address or an id is known
    )
    text: str = ""  # words in it: of a text document, of reasoning that can be read
    detail: str = ""  # how closely an image is looked at, where the format can say


# The event itself has the text, the calls and the results.
_SPOKEN = frozenset(
    {
        "message",
        "text",
        "input_text",
        "output_text",
        "refusal",
        "tool_use",
        "tool_result",
        "function_call",
    }
    | {"function_call_output", "custom_tool_call", "custom_tool_call_output", "function"}
)
# Gemini and Bedrock go by keys: code that was run, tools of the service, what a search found.
_RUN = frozenset(
    {"executableCode", "codeExecutionResult", "toolCall", "toolResponse", "searchResult"}
)
_OWN = frozenset({"media_type", "data", "url", "text"})  # fields of our own form
_NESTED = ("content", "output", "parts", "toolResult", "functionResponse", "function_response")


def extras(form: Any) -> Iterator[Extra]:
    """Everything in a native form that is not text, a call or a result."""
    if isinstance(form, list):
        for item in form:
            yield from extras(item)
    elif isinstance(form, dict):
        found = _extra(form)
        if found is not None:
            yield found
        if (
            found is None or found.what == "reasoning"
        ):  # which may stand beside the text of a message
            for key in _NESTED:
                yield from extras(form.get(key))


def _extra(part: dict[str, Any]) -> Extra | None:
    return (
        _own(part)
        or _openai(part)
        or _anthropic(part)
        or _gemini(part)
        or _bedrock(part)
        or _server_tool(part)
    )


def _own(part: dict[str, Any]) -> Extra | None:
    match part:
        case {"type": "image" | "document" | "audio" | "video" as what, **rest} if (
            "source" not in rest
        ):
            if not _OWN.isdisjoint(rest):
                return Extra(what, _text(rest.get("data")), _text(rest.get("text")) or "")
    return None


def _openai(part: dict[str, Any]) -> Extra | None:
    match part:
        case {"type": "image_url", "image_url": {"url": str(url)} as image}:
            return Extra("image", _carried(url), detail=str(image.get("detail")))
        case {"type": "image_url", "image_url": str(url)}:
            return Extra("image", _carried(url))
        case {"type": "input_image"}:
            return Extra("image", _carried(part.get("image_url")), detail=str(part.get("detail")))
        case {"type": "file", "file": {} as file}:
            return Extra("document", _carried(file.get("file_data")))
        case {"type": "input_file"}:
            return Extra("document", _carried(part.get("file_data")))
        case {"type": "document_url" | "file_url" as kind}:
            return Extra("document", _carried(part.get(kind)))
        case {"type": "video_url", "video_url": {} as video}:
            return Extra("video", _carried(video.get("url")))
        case {"type": "input_audio", "input_audio": {"data": str(data)}}:
            return Extra("audio", data)
        case {"type": "reasoning"}:
            return Extra(
                "reasoning", _text(part.get("encrypted_content")), _words(part.get("summary"))
            )
        case {"reasoning_content": str(text)} | {"reasoning": str(text)}:
            return Extra("reasoning", None, text)
    return None


def _anthropic(part: dict[str, Any]) -> Extra | None:
    match part:
        case {"type": "image", "source": {} as source}:
            return Extra("image", _text(source.get("data")))
        case {"type": "document", "source": {"type": "text", "data": str(text)}}:
            return Extra("document", None, text)
        case {"type": "document", "source": {"content": content}}:
            return Extra("document", None, _words(content))
        case {"type": "document", "source": {} as source}:
            return Extra("document", _text(source.get("data")))
        case {"type": "thinking"}:
            return Extra("reasoning", _text(part.get("signature")), str(part.get("thinking")))
        case {"type": "redacted_thinking"}:
            return Extra("reasoning", _text(part.get("data")))
    return None


def _gemini(part: dict[str, Any]) -> Extra | None:
    blob = part.get("inlineData", part.get("inline_data"))
    file = part.get("fileData", part.get("file_data"))
    if isinstance(blob, dict) or isinstance(file, dict):
        held: dict[str, Any] = blob if isinstance(blob, dict) else file  # type: ignore[assignment]
        family = str(held.get("mimeType", held.get("mime_type"))).partition("/")[0]
        what = family if family in ("image", "audio", "video") else "document"
        return Extra(what, _text(held.get("data")))
    seal = part.get("thoughtSignature", part.get("thought_signature"))
    if seal is not None or part.get("thought") is True:
        return Extra("reasoning", _text(seal), str(part.get("text")) if part.get("thought") else "")
    return None


def _bedrock(part: dict[str, Any]) -> Extra | None:
    for what in ("image", "document", "video", "audio"):
        match part.get(what):
            case {"source": {"text": str(text)}}:
                return Extra(what, None, text)
            case {"source": {} as source}:
                return Extra(what, _text(source.get("bytes")))
    match part.get("reasoningContent"):
        case {"reasoningText": {} as said}:
            return Extra("reasoning", _text(said.get("signature")), str(said.get("text")))
        case {} as reasoning:
            return Extra("reasoning", _text(reasoning.get("redactedContent")))
    return None


def _server_tool(part: dict[str, Any]) -> Extra | None:
    """What a tool did that the provider ran itself: a typed item that is not any of the others."""
    kind = part.get("type")
    if (isinstance(kind, str) and kind not in _SPOKEN) or not _RUN.isdisjoint(part):
        return Extra("server tool", None, _words(part))
    return None


def _carried(url: Any) -> str | None:
    """The base64 that an address carries itself, or that is given without one."""
    if not isinstance(url, str) or url.startswith(("http:", "https:")):
        return None
    return url.partition(",")[2] if url.startswith("data:") else url


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _words(value: Any) -> str:
    """The words in a value, without what no model reads."""
    return write_json(_readable(value))


def _readable(value: Any) -> Any:
    if isinstance(value, list):
        return [_readable(item) for item in value]
    if isinstance(value, dict):
        return {key: _readable(item) for key, item in value.items() if not is_unread(key)}
    return value
