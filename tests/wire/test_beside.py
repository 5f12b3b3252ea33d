"""What stands beside words, calls and media: its own provider gets it back; elsewhere its loss is told."""

import json
from typing import Any

import pytest

from backstory.wire import FORMATS, dump, load, to_bytes
from tests.wire.accepted import PIXEL

HI = {"role": "user", "content": "Hi."}
PAPER = {"type": "document", "source": {"type": "url", "url": "https://example.org/a.pdf"}}
FOUND: dict[str, Any] = {"type": "search_result", "source": "https://example.org", "title": "t"}
FOUND |= {"content": [{"type": "text", "text": "x"}]}
SHOT = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
RESPONSE = {"functionResponse": {"name": "f", "response": {"output": "x"}}}


def anthropic(block):
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi."}, block]}]}


def used(**fields):
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {}} | fields
    got = {"type": "tool_result", "tool_use_id": "t", "content": "x"}
    more = {"type": "tool_use", "id": "u", "name": "f", "input": {}} | fields
    results = [got, got | {"tool_use_id": "u"}]
    return {
        "messages": [
            {"role": "user", "content": "Hi."},
            {"role": "assistant", "content": [use, more]},
            {"role": "user", "content": results},
        ]
    }


def bedrock(block):
    return {"messages": [{"role": "user", "content": [{"text": "Hi."}, block]}]}


def gemini(*parts):
    return {"contents": [{"role": "user", "parts": [{"text": "Hi."}, *parts]}]}


def responses(*items):
    return {"input": [HI, *items]}


CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "x"}
CALLS = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
TOOL = {"role": "tool", "tool_call_id": "c", "content": "x"}
PDF = {"format": "pdf", "name": "a", "source": {"bytes": "JVBERi0x"}}

# The format, a body, what is told, and where nothing has to be told because the format can say it.
BESIDE = {
    "a document's context": (
        "anthropic",
        anthropic(PAPER | {"context": "A draft."}),
        "context",
        (),
    ),
    "a search result's source": ("anthropic", anthropic(FOUND), "source", ()),
    "a program that calls": (
        "anthropic",
        used(caller={"type": "code_execution_20250825"}),
        "caller",
        (),
    ),
    "a toolset": ("anthropic", used(toolset_name="s"), "toolset_name", ()),
    "Bedrock's context": (
        "bedrock",
        bedrock({"document": PDF | {"context": "A draft."}}),
        "context",
        (),
    ),
    "Bedrock's source": (
        "bedrock",
        bedrock(
            {
                "searchResult": {
                    "source": "https://example.org",
                    "title": "t",
                    "content": [{"text": "x"}],
                }
            }
        ),
        "source",
        (),
    ),
    "a piece of a film": (
        "gemini",
        gemini(SHOT | {"videoMetadata": {"startOffset": "1s"}}),
        "videoMetadata",
        (),
    ),
    "a piece of a film, in the other spelling": (
        "gemini",
        gemini(SHOT | {"video_metadata": {"start_offset": "1s"}}),
        "video_metadata",
        (),
    ),
    "when to speak": (
        "gemini",
        {
            "contents": [
                {"role": "user", "parts": [{"text": "Hi."}]},
                {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
                {
                    "role": "user",
                    "parts": [
                        {
                            "functionResponse": RESPONSE["functionResponse"]
                            | {"scheduling": "SILENT"}
                        }
                    ],
                },
            ]
        },
        "scheduling",
        (),
    ),
    "a namespace": (
        "openai-responses",
        responses(CALL | {"namespace": "n"}, OUTPUT),
        "namespace",
        (),
    ),
    "a phase": (
        "openai-responses",
        responses({"role": "assistant", "content": "Hm.", "phase": "commentary"}, HI),
        "phase",
        (),
    ),
    "a shell that a program called": (
        "openai-responses",
        responses(
            {
                "type": "shell_call",
                "call_id": "c",
                "action": {"commands": ["ls"]},
                "caller": {"type": "program"},
            },
            {"type": "shell_call_output", "call_id": "c", "output": []},
        ),
        "caller",
        (),
    ),
    "a server's own field of a result": (
        "openai",
        {
            "messages": [
                HI,
                {"role": "assistant", "content": None, "tool_calls": CALLS},
                TOOL | {"provider_options": {"a": 1}},
            ]
        },
        "provider_options",
        (),
    ),
    "how closely to look": (
        "openai",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "Hi."},
                        {
                            "type": "image_url",
                            "image_url": {"url": f"data:image/png;base64,{PIXEL}", "detail": "low"},
                        },
                    ],
                }
            ]
        },
        "the detail 'low'",
        ("openai-responses",),
    ),
    "how closely to read": (
        "openai-responses",
        {
            "input": [
                {
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "Hi."},
                        {
                            "type": "input_file",
                            "file_url": "https://example.org/a.pdf",
                            "detail": "low",
                        },
                    ],
                }
            ]
        },
        "the detail 'low' of a document",
        ("openai", "bedrock"),  # which cannot have the document
    ),
    "what a computer was warned of": (
        "openai-responses",
        responses(
            {"type": "computer_call", "call_id": "c", "action": {"type": "click"}},
            {
                "type": "computer_call_output",
                "call_id": "c",
                "acknowledged_safety_checks": [{"id": "s", "message": "Is it yours?"}],
                "output": {
                    "type": "computer_screenshot",
                    "image_url": f"data:image/png;base64,{PIXEL}",
                },
            },
        ),
        "acknowledged_safety_checks",
        (),
    ),
    "how often to look": (
        "openai",
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "video_url",
                            "video_url": {"url": "https://example.org/a.mp4"},
                            "fps": 2,
                        },
                        {"type": "text", "text": "Hi."},
                    ],
                }
            ]
        },
        "fps",
        (),
    ),
    "what is new beside a part": (
        "gemini",
        gemini(SHOT | {"mediaProcessing": "AGENTIC"}),
        "Processing",
        (),
    ),
    "what is new beside a response": (
        "gemini",
        {
            "contents": [
                {"role": "user", "parts": [{"text": "Hi."}]},
                {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
                {"role": "user", "parts": [RESPONSE | {"partMetadata": {"a": 1}}]},
            ]
        },
        "partMetadata",
        (),
    ),
    "a name beside calls": (
        "openai",
        {
            "messages": [
                HI,
                {"role": "assistant", "name": "Ann", "content": None, "tool_calls": CALLS},
                TOOL,
            ]
        },
        "the name 'Ann'",
        (),
    ),
    "a file's name": (
        "anthropic",
        anthropic(
            {
                "type": "document",
                "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0x"},
                "title": "a.pdf",
            }
        ),
        "the name 'a.pdf'",
        ("openai", "openai-responses", "bedrock"),
    ),
    "the name of a file by its address": (
        "anthropic",
        anthropic(PAPER | {"title": "a.pdf"}),
        "the name 'a.pdf'",
        ("openai", "bedrock"),  # which cannot have the file
    ),
    "Vertex's name for a file": (
        "gemini",
        gemini(
            {
                "inlineData": {
                    "mimeType": "application/pdf",
                    "data": "JVBERi0x",
                    "displayName": "a.pdf",
                }
            }
        ),
        "the name 'a.pdf'",
        ("openai", "openai-responses", "anthropic", "bedrock"),
    ),
}


@pytest.mark.parametrize(("format", "body", "what", "said"), BESIDE.values(), ids=BESIDE)
def test_what_stands_beside_comes_back_and_its_loss_elsewhere_is_told(format, body, what, said):
    events = load(body, format, model="m")
    assert dump(events, format, model="m").repairs == []
    home = json.loads(to_bytes(events, format, model="m"))
    assert {key: home[key] for key in body} == body
    for other in FORMATS:
        if other != format:
            told = " ".join(repair.why for repair in dump(events, other).repairs)
            assert (what in told) == (other not in said)


def test_the_name_of_a_model_that_only_calls_goes_to_another_model_that_takes_names():
    _, body, _, _ = BESIDE["a name beside calls"]
    sent, repairs = dump(load(body, "openai", model="m"), "openai", model="other")
    assert sent == body
    assert repairs == []


EMPTY = {
    "anthropic": {
        "messages": [{"role": "user", "content": "Hi."}, {"role": "user", "content": []}]
    },
    "gemini": {
        "contents": [{"role": "user", "parts": [{"text": "Hi."}]}, {"role": "user", "parts": []}]
    },
    "bedrock": {
        "messages": [
            {"role": "user", "content": [{"text": "Hi."}]},
            {"role": "user", "content": []},
        ]
    },
}


@pytest.mark.parametrize("format", EMPTY)
def test_a_message_with_nothing_in_it_is_logged_and_told(format):
    events = load(EMPTY[format], format)
    assert [(kind, text) for kind, text, _ in events] == [("user", "Hi."), ("user", "")]
    assert [(repair.rule, repair.at) for repair in dump(events, format).repairs] == [("blank", 1)]


@pytest.mark.parametrize("content", [None, "", []])
def test_an_empty_result_that_failed_says_so_in_words(content):
    body = used()
    body["messages"][2]["content"][0] |= {"content": content, "is_error": True}
    sent, [repair] = dump(load(body, "anthropic"), "anthropic")
    assert sent["messages"][2]["content"][0]["content"] == "(no output)"
    assert repair.rule == "blank"


def test_a_document_without_its_format_comes_back_and_goes_on_as_what_it_begins_like():
    bare = {key: value for key, value in PDF.items() if key != "format"}
    body = bedrock({"document": bare})
    assert dump(load(body, "bedrock"), "bedrock").repairs == []
    [part] = [
        b
        for b in dump(load(body, "bedrock"), "anthropic").body["messages"][0]["content"]
        if "source" in b
    ]
    assert part["source"]["media_type"] == "application/pdf"
    unknown = bedrock({"document": bare | {"source": {"bytes": "UEsDBBQ="}}})
    assert dump(load(unknown, "bedrock"), "bedrock").repairs == []
    [repair] = dump(load(unknown, "bedrock"), "anthropic").repairs
    assert repair.why == "document left out: anthropic has no such thing here"
