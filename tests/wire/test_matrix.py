"""Each kind of part, from each format that has it to each of the five: it arrives, or a repair names it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from backstory.wire import FORMATS, dump, load
from backstory.wire.json_values import encode_body
from tests.wire.maker import PDF, PIXEL, WAV
from tests.wire.rules import violations

TEXT, FILM, SEAL = "Plain words.", "YSBmaWxtLi4=", "c2VhbGVkIQ=="
PICTURE, PAPER = "https://example.org/a.png", "https://example.org/a.pdf"
BLOB = base64.b64encode(TEXT.encode()).decode()

# How a repair calls what is lost.
WORDS = {
    "image": ["image"],
    "image by URL": ["image"],
    "PDF": ["document left out"],
    "PDF by URL": ["document left out"],
    "text document": ["document left out"],
    "audio": ["audio"],
    "video": ["video"],
    "speaker's name": ["the name 'ann'"],
    "thinking": ["thinking", "reasoning", "thought"],
    "server tool": ["described in words"],
    "image in a result": ["image"],
    "citation": ["citations", "annotations"],
}
# Where it arrives, in the order of FORMATS: + it does, - it is named in a repair. Its own format aside.
#                      chat, responses, anthropic, gemini, bedrock
TABLE = {
    "text": "+ + + + +",
    "image": "+ + + + +",
    "image by URL": "+ + + + -",
    "PDF": "+ + + + +",
    "PDF by URL": "- + + + -",
    "text document": "+ + + + +",
    "audio": "+ - - + +",
    "video": "- - - + +",
    "speaker's name": "+ + + + +",
    "thinking": "- - - - -",
    "server tool": "+ + + + +",
    "call": "+ + + + +",
    "image in a result": "- + + + +",
    "citation": "- - - - -",
}


def said(format: str, *parts: Any) -> dict[str, Any]:
    """A person says it."""
    if format == "gemini":
        return {"contents": [{"role": "user", "parts": [{"text": "Look."}, *parts]}]}
    type = {
        "openai": {"type": "text"},
        "openai-responses": {"type": "input_text"},
        "anthropic": {"type": "text"},
    }
    key = "input" if format == "openai-responses" else "messages"
    return {key: [{"role": "user", "content": [{**type.get(format, {}), "text": "Look."}, *parts]}]}


def answered(format: str, *blocks: Any, result: Any = None) -> dict[str, Any]:
    """The model says it, or a tool comes to it; then the user goes on."""
    if format == "gemini":
        first, last = (
            {"role": "user", "parts": [part]}
            for part in ({"text": "Look."}, result or {"text": "And?"})
        )
        return {"contents": [first, {"role": "model", "parts": [*blocks]}, last]}
    if format == "openai-responses":
        ask, more = ({"role": "user", "content": text} for text in ("Look.", "And?"))
        return {"input": [ask, *blocks, *([] if result is None else [result]), more]}
    texts = {"bedrock": [{"text": "Look."}]}.get(format, "Look.")
    first, last = {"role": "user", "content": texts}, {"role": "user", "content": texts}
    if format == "openai":
        return {"messages": [first, *blocks, *([] if result is None else [result]), last]}
    shown = [] if result is None else [{"role": "user", "content": [result]}]
    answer = {"role": "assistant", "content": [*blocks]}
    return {"messages": [first, answer, *(shown or [last])]}


def chat(**fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "Yes.", **fields}


def converse(kind: str, format: str, data: str, **more: Any) -> dict[str, Any]:
    return {kind: {"format": format, "source": {"bytes": data}, **more}}


def inline(type: str, data: str) -> dict[str, Any]:
    return {"inlineData": {"mimeType": type, "data": data}}


def source(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "source": fields}


DATA_URL = f"data:image/png;base64,{PIXEL}"
SAYS = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Yes."}],
}
YES = {"type": "text", "text": "Yes."}
FUNCTION = {
    "id": "c1",
    "type": "function",
    "function": {"name": "glob", "arguments": '{"p":"*.py"}'},
}
ITEM = {"type": "function_call", "call_id": "c1", "name": "glob", "arguments": '{"p":"*.py"}'}
USE = {"type": "tool_use", "id": "c1", "name": "glob", "input": {"p": "*.py"}}
CALL = {"functionCall": {"name": "glob", "args": {"p": "*.py"}}, "thoughtSignature": SEAL}
TOOL_USE = {"toolUse": {"toolUseId": "c1", "name": "glob", "input": {"p": "*.py"}}}
SEARCH = {
    "type": "server_tool_use",
    "id": "srvtoolu_1",
    "name": "web_search",
    "input": {"query": "sea"},
}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [
        {
            "type": "web_search_result",
            "title": "Tides",
            "url": "https://example.org",
            "encrypted_content": "c2VhbGVk",
        }
    ],
}
PAGE = {"type": "url_citation", "url": PAPER, "title": "paper", "start_index": 0, "end_index": 3}
PLACE = {"type": "char_location", "document_index": 0, "cited_text": "sea", "start_char_index": 0}
RAN = {
    "toolUse": {"toolUseId": "t1", "name": "nova_grounding", "input": {}, "type": "server_tool_use"}
}
CAME = {
    "toolResult": {
        "toolUseId": "t1",
        "content": [{"json": {"tide": "high"}}],
        "status": "success",
        "type": "nova_grounding_result",
    }
}

# By kind and format: a body, and what has to arrive.
SENT: dict[tuple[str, str], tuple[dict[str, Any], str]] = {
    ("text", "openai"): (said("openai", {"type": "text", "text": TEXT}), TEXT),
    ("text", "openai-responses"): (
        said("openai-responses", {"type": "input_text", "text": TEXT}),
        TEXT,
    ),
    ("text", "anthropic"): (said("anthropic", {"type": "text", "text": TEXT}), TEXT),
    ("text", "gemini"): (said("gemini", {"text": TEXT}), TEXT),
    ("text", "bedrock"): (said("bedrock", {"text": TEXT}), TEXT),
    ("image", "openai"): (
        said("openai", {"type": "image_url", "image_url": {"url": DATA_URL}}),
        PIXEL,
    ),
    ("image", "openai-responses"): (
        said("openai-responses", {"type": "input_image", "image_url": DATA_URL}),
        PIXEL,
    ),
    ("image", "anthropic"): (
        said("anthropic", source("image", type="base64", media_type="image/png", data=PIXEL)),
        PIXEL,
    ),
    ("image", "gemini"): (said("gemini", inline("image/png", PIXEL)), PIXEL),
    ("image", "bedrock"): (said("bedrock", converse("image", "png", PIXEL)), PIXEL),
    ("image by URL", "openai"): (
        said("openai", {"type": "image_url", "image_url": {"url": PICTURE}}),
        PICTURE,
    ),
    ("image by URL", "openai-responses"): (
        said("openai-responses", {"type": "input_image", "image_url": PICTURE}),
        PICTURE,
    ),
    ("image by URL", "anthropic"): (
        said("anthropic", source("image", type="url", url=PICTURE)),
        PICTURE,
    ),
    ("image by URL", "gemini"): (
        said("gemini", {"fileData": {"mimeType": "image/png", "fileUri": PICTURE}}),
        PICTURE,
    ),
    ("PDF", "openai"): (
        said(
            "openai", {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PDF}"}}
        ),
        PDF,
    ),
    ("PDF", "openai-responses"): (
        said(
            "openai-responses",
            {"type": "input_file", "file_data": f"data:application/pdf;base64,{PDF}"},
        ),
        PDF,
    ),
    ("PDF", "anthropic"): (
        said(
            "anthropic", source("document", type="base64", media_type="application/pdf", data=PDF)
        ),
        PDF,
    ),
    ("PDF", "gemini"): (said("gemini", inline("application/pdf", PDF)), PDF),
    ("PDF", "bedrock"): (said("bedrock", converse("document", "pdf", PDF, name="document")), PDF),
    ("PDF by URL", "openai-responses"): (
        said("openai-responses", {"type": "input_file", "file_url": PAPER}),
        PAPER,
    ),
    ("PDF by URL", "anthropic"): (
        said("anthropic", source("document", type="url", url=PAPER)),
        PAPER,
    ),
    ("PDF by URL", "gemini"): (
        said("gemini", {"fileData": {"mimeType": "application/pdf", "fileUri": PAPER}}),
        PAPER,
    ),
    ("text document", "openai"): (
        said("openai", {"type": "file", "file": {"file_data": f"data:text/plain;base64,{BLOB}"}}),
        TEXT,
    ),
    ("text document", "anthropic"): (
        said("anthropic", source("document", type="text", media_type="text/plain", data=TEXT)),
        TEXT,
    ),
    ("text document", "gemini"): (said("gemini", inline("text/plain", BLOB)), TEXT),
    ("text document", "bedrock"): (
        said("bedrock", converse("document", "txt", BLOB, name="document")),
        TEXT,
    ),
    ("audio", "openai"): (
        said("openai", {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}}),
        WAV,
    ),
    ("audio", "gemini"): (said("gemini", inline("audio/wav", WAV)), WAV),
    ("audio", "bedrock"): (said("bedrock", converse("audio", "wav", WAV)), WAV),
    ("video", "gemini"): (said("gemini", inline("video/mp4", FILM)), FILM),
    ("video", "bedrock"): (said("bedrock", converse("video", "mp4", FILM)), FILM),
    ("speaker's name", "openai"): (
        {"messages": [{"role": "user", "name": "ann", "content": "Look."}]},
        "ann",
    ),
    ("thinking", "openai"): (answered("openai", chat(reasoning_content=SEAL)), SEAL),
    ("thinking", "openai-responses"): (
        answered(
            "openai-responses",
            {"type": "reasoning", "summary": [], "encrypted_content": SEAL},
            SAYS,
        ),
        SEAL,
    ),
    ("thinking", "anthropic"): (
        answered("anthropic", {"type": "thinking", "thinking": "Hm.", "signature": SEAL}, YES),
        SEAL,
    ),
    ("thinking", "gemini"): (
        answered(
            "gemini", {"text": "Hm.", "thought": True}, {"text": "Yes.", "thoughtSignature": SEAL}
        ),
        SEAL,
    ),
    ("thinking", "bedrock"): (
        answered(
            "bedrock",
            {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": SEAL}}},
            {"text": "Yes."},
        ),
        SEAL,
    ),
    ("server tool", "openai-responses"): (
        answered(
            "openai-responses",
            {
                "type": "web_search_call",
                "status": "completed",
                "action": {"type": "search", "query": "sea"},
            },
            SAYS,
        ),
        "query: sea",
    ),
    ("server tool", "anthropic"): (
        answered("anthropic", SEARCH, FOUND, YES),
        "url: https://example.org",
    ),
    ("server tool", "gemini"): (
        answered(
            "gemini",
            {"executableCode": {"language": "PYTHON", "code": "1+1"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
            {"text": "Yes."},
        ),
        "1+1",
    ),
    ("server tool", "bedrock"): (answered("bedrock", RAN, CAME, {"text": "Yes."}), "tide: high"),
    ("call", "openai"): (
        answered(
            "openai",
            {"role": "assistant", "content": None, "tool_calls": [FUNCTION]},
            result={"role": "tool", "tool_call_id": "c1", "content": TEXT},
        ),
        TEXT,
    ),
    ("call", "openai-responses"): (
        answered(
            "openai-responses",
            ITEM,
            result={"type": "function_call_output", "call_id": "c1", "output": TEXT},
        ),
        TEXT,
    ),
    ("call", "anthropic"): (
        answered(
            "anthropic", USE, result={"type": "tool_result", "tool_use_id": "c1", "content": TEXT}
        ),
        TEXT,
    ),
    ("call", "gemini"): (
        answered(
            "gemini",
            CALL,
            result={"functionResponse": {"name": "glob", "response": {"output": TEXT}}},
        ),
        TEXT,
    ),
    ("call", "bedrock"): (
        answered(
            "bedrock",
            TOOL_USE,
            result={"toolResult": {"toolUseId": "c1", "content": [{"text": TEXT}]}},
        ),
        TEXT,
    ),
    ("citation", "openai"): (
        answered(
            "openai", chat(annotations=[{"type": "url_citation", "url_citation": {"url": PAPER}}])
        ),
        PAPER,
    ),
    ("citation", "openai-responses"): (
        answered(
            "openai-responses",
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "Yes.", "annotations": [PAGE]}],
            },
        ),
        PAPER,
    ),
    ("citation", "anthropic"): (
        answered("anthropic", {**YES, "citations": [PLACE]}),
        "char_location",
    ),
    ("citation", "bedrock"): (
        answered(
            "bedrock",
            {
                "citationsContent": {
                    "content": [{"text": "Yes."}],
                    "citations": [{"title": "paper"}],
                }
            },
        ),
        "paper",
    ),
}


def in_result(format: str) -> dict[str, Any]:
    """A tool that shows an image."""
    if format == "openai-responses":
        shown: dict[str, Any] = {"type": "input_image", "image_url": DATA_URL}
        return answered(
            format,
            ITEM,
            result={"type": "function_call_output", "call_id": "c1", "output": [shown]},
        )
    if format == "anthropic":
        shown = source("image", type="base64", media_type="image/png", data=PIXEL)
        return answered(
            format, USE, result={"type": "tool_result", "tool_use_id": "c1", "content": [shown]}
        )
    if format == "gemini":
        shown = {
            "name": "glob",
            "response": {"output": "Seen."},
            "parts": [inline("image/png", PIXEL)],
        }
        return answered(format, CALL, result={"functionResponse": shown})
    shown = {"toolUseId": "c1", "content": [converse("image", "png", PIXEL)]}
    return answered(format, TOOL_USE, result={"toolResult": shown})


SENT |= {
    ("image in a result", format): (in_result(format), PIXEL)
    for format in FORMATS
    if format != "openai"
}
CASES = [
    pytest.param(kind, source, target, id=f"{kind}, {source} to {target}")
    for kind, source in SENT
    for target in FORMATS
]


@pytest.mark.parametrize(("kind", "source", "target"), CASES)
def test_it_arrives_or_a_repair_names_it(kind, source, target):
    body, wanted = SENT[kind, source]
    dumped, repairs = dump(load(body, source, model="m"), target, model="m", stored=True)
    sent = encode_body(dumped).decode()
    assert violations(dumped, target, strict=False, model="m", stored=True, compatible=True) == []
    if target == source:
        assert (json.loads(sent) | body == json.loads(sent), repairs) == (True, [])
        return
    arrives = TABLE[kind].split()[FORMATS.index(target)] == "+"
    assert (wanted in sent or (wanted == TEXT and BLOB in sent)) == arrives
    told = [repair for repair in repairs if any(name in repair.why for name in WORDS.get(kind, ()))]
    if kind in ("speaker's name", "server tool"):
        assert told != []  # it arrives as words
    else:
        assert (told == []) == arrives


def test_every_kind_has_a_row_and_comes_from_somewhere():
    assert {kind for kind, _ in SENT} == set(TABLE)
