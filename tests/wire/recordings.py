"""Recorded exchanges with providers, where they are at hand: requests, who was asked, what the answer cost.

They lie beside the project, in `../shared/corpus/wire` or where BACKSTORY_RECORDINGS says, and are no part of
it: one JSON file for each request, its answer beside it (JSON, or the raw stream), and `index.json`.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

BESIDE = Path(__file__).parents[3] / "shared" / "corpus" / "wire"
FOLDER = Path(os.environ.get("BACKSTORY_RECORDINGS") or BESIDE)
MISSING = f"no recordings in {FOLDER.name}: they lie beside the project, or where BACKSTORY_RECORDINGS says"

# Hosts of OpenAI's own models; the others only speak its language.
OPENAI = re.compile(r"api\.openai\.com|openai\.azure\.com|bedrock-mantle|REDACTED")
LISTS = {"openai-responses": "input", "gemini": "contents"}


class Exchange(NamedTuple):
    """One request that was answered with 200."""

    id: str
    place: tuple[str, str]  # repository and path: exchanges of one recording follow one another
    format: str
    model: str | None
    is_compatible: bool  # another server than OpenAI's that speaks its language
    body: dict[str, Any]
    tokens: int | None  # what the answer says the request was
    answer: Any  # the answer, or a list with the events of its stream; None where there is none

    @property
    def stored(self) -> bool:
        """Whether OpenAI Responses keeps the items: it does, unless it is told not to."""
        return self.body.get("store") is not False

    @property
    def messages(self) -> list[Any]:
        """The history without the system text on top."""
        found = self.body.get(LISTS.get(self.format, "messages"))
        return found if isinstance(found, list) else [{"role": "user", "content": found}]

    @property
    def is_bare(self) -> bool:
        """Whether the request is its history and nothing else that costs tokens: no tools, no schemas."""
        if self.is_compatible and "reasoning" in self.body:
            return False
        config, text = self.body.get("generationConfig") or {}, self.body.get("text") or {}
        plain = text.get("format", {}).get("type", "text") == "text"
        return plain and not (COSTLY & self.body.keys() or COSTLY & config.keys())


COSTLY = frozenset(
    {
        "tools",
        "toolConfig",
        "functions",
        "response_format",
        "web_search_options",
        "previous_response_id",
        "prompt",
        "prediction",
    }
    | {
        "conversation",
        "thinking",
        "cachedContent",
        "output_config",
        "outputConfig",
        "output_format",
        "reasoning",
    }
    | {"responseSchema", "responseJsonSchema", "response_schema", "additionalModelRequestFields"}
)


def exchanges() -> Iterator[Exchange]:
    """All of them, in the order of the index."""
    for entry in json.loads((FOLDER / "index.json").read_bytes()):
        format = entry["format"]
        yield Exchange(
            entry["id"],
            (entry["repo"], entry["path"]),
            format,
            entry.get("model"),
            format.startswith("openai") and not OPENAI.search(entry["url"]),
            json.loads((FOLDER / entry["file"]).read_bytes()),
            tokens_of(format, entry.get("answer")),
            answer_of(entry.get("answer")),
        )


def answer_of(answer: str | None) -> Any:
    """What came back."""
    if answer is None:
        return None
    values = [
        inner for value in _values((FOLDER / answer).read_bytes()) for inner in _unwrapped(value)
    ]
    return values[0] if answer.endswith(".json") and values else values


def _unwrapped(value: Any) -> list[Any]:
    """Bedrock's frames around another service's events have these as base64 in them."""
    if isinstance(value, dict) and isinstance(value.get("bytes"), str):
        return [json.loads(base64.b64decode(value["bytes"]))]
    return [value]


def tokens_of(format: str, answer: str | None) -> int | None:
    """The tokens of the request, cached ones included, by the usage in its answer."""
    if answer is None:
        return None
    found = [usage for usage in _usages((FOLDER / answer).read_bytes()) if _input(format, usage)]
    # Anthropic says it first, and again, with what its own tools read, at the end.
    return _input(format, found[0] if format == "anthropic" else found[-1]) if found else None


INPUT = {
    "openai": ("prompt_tokens",),
    "openai-responses": ("input_tokens",),
    "anthropic": ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
    "gemini": ("promptTokenCount",),
    "bedrock": ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"),
}


def _input(format: str, usage: dict[str, Any]) -> int:
    return sum(usage.get(key) or 0 for key in INPUT[format])


def _usages(raw: bytes) -> Iterator[dict[str, Any]]:
    for value in _values(raw):
        yield from _nested(value)


def _values(raw: bytes) -> Iterator[Any]:
    """What an answer says: one JSON text, server-sent events, or Amazon's frames with JSON in them."""
    try:
        yield json.loads(raw)
        return
    except ValueError:
        pass
    if not raw.startswith((b"\0\0", b"data:", b"event:", b":")):
        try:
            raw = base64.b64decode(raw, validate=True)
        except binascii.Error:
            return
    for text in (
        _frames(raw) if raw.startswith(b"\0\0") else re.findall(rb"^data: ?(.*)$", raw, re.M)
    ):
        try:
            yield json.loads(text)
        except ValueError:
            continue


def _frames(raw: bytes) -> Iterator[bytes]:
    """Amazon's event stream: each frame has its length, that of its headers, and a checksum at both ends."""
    at = 0
    while at + 16 <= len(raw):
        length, headers = struct.unpack(">II", raw[at : at + 8])
        yield raw[at + 12 + headers : at + length - 4]
        at += max(length, 16)


def _nested(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        for item in value:
            yield from _nested(item)
    elif isinstance(value, dict):
        if isinstance(value.get("bytes"), str):  # Bedrock's frames around another service's events
            yield from _nested(json.loads(base64.b64decode(value["bytes"])))
        for key, item in value.items():
            if key in ("usage", "usageMetadata") and isinstance(item, dict):
                yield item
            else:
                yield from _nested(item)
