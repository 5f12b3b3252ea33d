"""The models: how answers are put together, what errors mean, and which model is meant."""

import asyncio
import os
import subprocess
import sys

import pytest

from backstory.log.messages import Message
from backstory.runtime.models import (
    ModelError,
    Response,
    Retrying,
    TextDelta,
    ToolCall,
    Unavailable,
    storable,
)
from backstory.runtime.models.anthropic import AnthropicModel
from backstory.runtime.models.choice import (
    ModelSpec,
    _provider,
    choose,
    find_window,
    from_config,
    replace_model,
)
from backstory.runtime.models.hosted import AnswerReader, StreamCut
from backstory.runtime.models.openai import OpenAIModel
from backstory.runtime.models.retry import Endpoint, retry
from backstory.runtime.tools import working_tools
from backstory.wire import dump
from backstory.wire.conversation import Conversation
from tests.chat.screen import CLEAN
from tests.runtime.scripted import Refuse, Say, scripted
from tests.wire.stub_server import stub_server

HELLO = Conversation([Message("user", "Hello")])
HERE = Endpoint("m", "here")


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch):
    for name in os.environ.keys() - CLEAN.keys():
        monkeypatch.delenv(name)


def read_stream(events, model, format="openai"):
    reader = AnswerReader(format, model)
    items = [item for event in events for item in reader.add(event)]
    return [*items, reader.finish()]


def read_anthropic(events, model):
    return read_stream(events, model, "anthropic")


def chunk(delta, reason=None):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def test_chunks_become_text_and_one_answer():
    pieces = list(
        read_stream([chunk({"content": "Hel"}), chunk({"content": "lo"}), chunk({}, "stop")], "m")
    )
    data = {"model": "m", "response": {"stop": "stop"}}
    assert pieces == [TextDelta("Hel"), TextDelta("lo"), Response("Hello", (), data)]


def test_calls_come_in_parts_by_number_or_whole_without():
    def part(**more):
        return chunk({"tool_calls": [more]})

    numbered = [
        part(index=0, id="a", function={"name": "glob", "arguments": '{"p'}),
        part(index=1, id="b", function={"name": "grep", "arguments": "{}"}),
        part(index=0, function={"arguments": '": 1}'}),
        chunk({}, "tool_calls"),
    ]
    assert list(read_stream(numbered, "m"))[-1].calls == (
        ToolCall("a", "glob", {"p": 1}),
        ToolCall("b", "grep", {}),
    )
    whole = [
        part(id="a", function={"name": "glob", "arguments": "{}"}),
        part(id="b", function={"name": "grep", "arguments": "{}"}),
        chunk({}, "tool_calls"),
    ]
    assert [call.name for call in list(read_stream(whole, "m"))[-1].calls] == ["glob", "grep"]


def test_a_stream_that_just_stops_was_lost():
    with pytest.raises(StreamCut):
        list(read_stream([chunk({"content": "Hel"})], "m"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ("", {}),
        ('{"a": ', '{"a": '),
        ("[1]", "[1]"),
        ('{"a": NaN}', '{"a": NaN}'),
        ('{"a": "\\ud800"}', '{"a": "\\ud800"}'),
    ],
)
def test_arguments_are_an_object_or_the_text_itself(text, value):
    call = {"index": 0, "id": "a", "function": {"name": "glob", "arguments": text}}
    [answer] = read_stream([chunk({"tool_calls": [call]}, "tool_calls")], "m")
    assert answer.calls == (ToolCall("a", "glob", value),)


def test_storable_changes_only_what_cannot_be_stored():
    assert storable("a😀\0\ud83d") == "a😀␀\ufffd"


class RateLimitError(Exception):
    pass


class Clock:
    """Time that passes only in pauses."""

    def __init__(self):
        self.now = 0.0
        self.pauses = []

    async def sleep(self, seconds):
        self.pauses.append(seconds)
        self.now += seconds


def try_again(attempt, clock):
    """Collect the parts of an answer, and the error that ended it."""

    async def collect():
        parts = []
        try:
            async for part in retry(attempt, HERE, sleep=clock.sleep, clock=lambda: clock.now):
                parts.append(part)
        except Exception as error:
            return parts, error
        return parts, None

    return asyncio.run(collect())


def fail_with(error, *parts):
    async def attempt():
        for part in parts:
            yield part
        raise error

    return attempt


def test_an_attempt_is_repeated_for_two_minutes_with_growing_pauses():
    clock = Clock()
    parts, error = try_again(fail_with(RateLimitError(), TextDelta("x")), clock)
    assert isinstance(error, Unavailable)
    assert "limits the rate" in error.message
    assert [type(part) for part in parts[:4]] == [TextDelta, Retrying, TextDelta, Retrying]
    assert 80 < clock.now <= 120
    assert clock.pauses[:6] == sorted(clock.pauses[:6])
    assert error.attempt == len(clock.pauses) + 1


def test_unknown_errors_are_raised_as_they_are():
    _, error = try_again(fail_with(ZeroDivisionError()), Clock())
    assert isinstance(error, ZeroDivisionError)


class Told(RateLimitError):
    def __init__(self, after):
        self.response = type("Response", (), {"headers": {"retry-after": after}})


@pytest.mark.parametrize(
    ("after", "least", "most"),
    [("7", 7, 7), ("100", 100, 100)]
    + [(odd, 0.5, 0.7) for odd in ("0", "-1", "nan", "Wed, 21 Oct 2026 07:28:00 GMT", "")],
)
def test_the_pause_is_as_long_as_the_service_says_if_that_makes_sense(after, least, most):
    clock = Clock()
    answers = [fail_with(Told(after)), fail_with(ModelError("over"))]
    try_again(lambda: answers.pop(0)(), clock)
    assert least <= clock.pauses[0] <= most


@pytest.mark.parametrize("after", ["121", "inf"])
def test_a_pause_beyond_the_budget_ends_the_attempts_at_once(after):
    clock = Clock()
    parts, error = try_again(fail_with(Told(after)), clock)
    assert (parts, clock.pauses) == ([], [])
    assert isinstance(error, Unavailable)


@pytest.mark.parametrize(
    ("reason", "kept"),
    [("end_turn", {}), ("max_tokens", {"cut": True}), ("refusal", {"refused": True})],
)
def test_how_an_answer_of_anthropic_ended_is_kept(reason, kept):
    end = {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 9}}
    *_, answer = read_anthropic([end], "claude-x")
    request = {"request": {"usage": {"output_tokens": 9}}}
    kept = kept | {"response": {"stop": reason}}
    assert answer.data == {"model": "claude-x", "usage": {"input": 0, "output": 9}} | request | kept


@pytest.mark.parametrize(
    ("reason", "kept"),
    [("stop", {}), ("length", {"cut": True}), ("content_filter", {"refused": True})],
)
def test_how_an_answer_of_openai_ended_is_kept_and_what_it_cost(reason, kept):
    chunks = [
        chunk({"content": "x"}),
        chunk({}, reason),
        {"usage": {"prompt_tokens": 7, "completion_tokens": 9}},
    ]
    *_, answer = read_stream(chunks, "m")
    request = {"request": {"usage": {"prompt_tokens": 7, "completion_tokens": 9}}}
    kept = kept | {"response": {"stop": reason}}
    assert answer.data == {"model": "m", "usage": {"input": 7, "output": 9}} | request | kept


def test_thinking_that_no_store_can_hold_is_made_storable():
    block = {"type": "thinking", "thinking": "H\0m", "signature": ""}
    events = [{"type": "content_block_start", "index": 0, "content_block": block}]
    *_, answer = read_anthropic(
        [*events, {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}], "claude-x"
    )
    assert answer.data["native"]["wire"][0]["thinking"] == "H␀m"


def test_thinking_goes_back_beside_a_call_with_broken_arguments():
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    use = {"type": "tool_use", "id": "toolu_1", "name": "glob", "input": {}}
    broken = {"type": "input_json_delta", "partial_json": '{"pattern": '}
    *_, answer = read_anthropic(
        [
            {"type": "content_block_start", "index": 0, "content_block": thinking},
            {"type": "content_block_start", "index": 1, "content_block": use},
            {"type": "content_block_delta", "index": 1, "delta": broken},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        ],
        "claude-x",
    )
    [call] = answer.calls
    assert call.arguments == '{"pattern": '  # which no tool runs with
    data = {"id": call.id, "name": call.name, "arguments": call.arguments, **answer.data}
    events = [("user", "Look.", None), ("tool_call", None, data)]
    body = dump(events, "anthropic", model="claude-x").body
    assert body["messages"][1]["content"][0] == thinking


def test_a_call_of_gemini_that_was_cut_off_does_not_run():
    piece = {"jsonPath": "$.path", "stringValue": "/tm"}
    call = {"name": "delete", "partialArgs": [piece], "willContinue": True}
    parts = [{"functionCall": call}]
    chunk = {"candidates": [{"content": {"parts": parts}, "finishReason": "MAX_TOKENS"}]}
    *_, answer = read_stream([chunk], "gemini-x", "gemini")
    assert [call.arguments for call in answer.calls] == ['{"path":"/tm"}']


def test_the_openai_sdk_streams_and_sends_the_tools(folder):
    with scripted(Say("Hello there.", calls=(("c1", "glob", "{}"),))) as server:
        model = OpenAIModel(base_url=server.url)
        assert model.name == "scripted-1"
        pieces = list(model.answer(HELLO, working_tools(folder)))
        model.close()
    assert "".join(piece.text for piece in pieces[:-1]) == "Hello there."
    assert pieces[-1].calls == (ToolCall("c1", "glob", {}),)
    assert [tool["function"]["name"] for tool in server.last["tools"]][:2] == ["glob", "grep"]


def test_a_server_without_stream_options_is_asked_without():
    with scripted(Refuse(400, "unknown field stream_options"), Say("Fine.")) as server:
        model = OpenAIModel("m", base_url=server.url)
        assert list(model.answer(HELLO, ()))[-1].text == "Fine."
        model.close()
    assert "stream_options" not in server.last


def test_the_anthropic_sdk_streams(folder):
    with stub_server() as server:
        model = AnthropicModel("claude-x", base_url=server.url, key="none")
        pieces = list(model.answer(HELLO, working_tools(folder)))
        model.close()
        assert server.last.refused_for == []
        assert server.last.body["tools"][0]["name"] == "glob"
        marked = [bool(tool.get("cache_control")) for tool in server.last.body["tools"]]
        assert marked == [*([False] * (len(marked) - 1)), True]  # what the prompt cache keeps first
        assert server.last.body["messages"][-1]["content"][-1]["cache_control"]
    assert pieces[-1].text == "ok"


def test_what_came_from_the_prompt_cache_is_in_the_usage():
    read = {"input_tokens": 1, "cache_read_input_tokens": 6, "cache_creation_input_tokens": 2}
    events = [
        {"type": "message_start", "message": {"usage": read}},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 4},
        },
    ]
    *_, answer = read_anthropic(events, "claude-x")
    assert answer.data["usage"] == {"input": 9, "output": 4, "cached": 6, "cache_written": 2}


def test_what_a_server_signed_beside_a_call_is_kept_for_it():
    signed = {"google": {"thought_signature": "c2ln"}}
    call = {
        "index": 0,
        "id": "1",
        "function": {"name": "glob", "arguments": "{}"},
        "extra_content": signed,
    }
    chunks = [{"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}]
    *_, answer = read_stream(chunks, "m")
    assert answer.data["native"]["wire"]["tool_calls"][0]["extra_content"] == signed


def test_thinking_goes_back_to_the_same_model_unchanged():
    def begins(index, **block):
        return {"type": "content_block_start", "index": index, "content_block": block}

    def goes_on(index, **delta):
        return {"type": "content_block_delta", "index": index, "delta": delta}

    events = [
        {"type": "message_start", "message": {"usage": {"input_tokens": 7}}},
        begins(0, type="thinking", thinking="", signature=""),
        goes_on(0, type="thinking_delta", thinking="Hm."),
        goes_on(0, type="signature_delta", signature="c2ln"),
        begins(1, type="text", text=""),
        goes_on(1, type="text_delta", text="Looking."),
        begins(2, type="tool_use", id="t1", name="glob", input={}),
        goes_on(2, type="input_json_delta", partial_json='{"pattern": "*"}'),
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use"},
            "usage": {"output_tokens": 9},
        },
    ]
    *_, answer = read_anthropic(events, "claude-x")
    assert (answer.text, answer.calls) == ("Looking.", (ToolCall("t1", "glob", {"pattern": "*"}),))
    assert answer.data["usage"] == {"input": 7, "output": 9}
    history = Conversation(
        [
            Message("user", "Hello"),
            Message("assistant", answer.text, {"native": answer.data["native"]}),
            Message("tool_call", None, {"id": "t1", "name": "glob", "arguments": {"pattern": "*"}}),
            Message("tool_result", "a", {"id": "t1"}),
        ]
    )
    blocks = history.to("anthropic", model="claude-x")["messages"][1]["content"]
    assert blocks[0] == {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    assert [block["type"] for block in blocks] == ["thinking", "text", "tool_use"]


@pytest.mark.parametrize(
    ("spec", "provider"),
    [
        (ModelSpec(), ("embedded", "")),
        (ModelSpec("embedded"), ("embedded", "")),
        (ModelSpec("gpt-x"), ("openai", "gpt-x")),
        (ModelSpec("openai:claude-x"), ("openai", "claude-x")),
        (ModelSpec("claude-x"), ("anthropic", "claude-x")),
        (ModelSpec("claude-x", "http://here"), ("openai", "claude-x")),
        (ModelSpec("anthropic:x", "http://here"), ("anthropic", "x")),
        (ModelSpec("qwen:7b", "http://here"), ("openai", "qwen:7b")),
        (ModelSpec(None, "http://here"), ("openai", "")),
    ],
)
def test_which_model_is_meant(spec, provider):
    assert _provider(spec) == provider


def test_another_model_keeps_the_address_only_of_its_own_provider():
    before = ModelSpec("qwen", "http://here", "secret", 4000)
    assert replace_model(before, "mistral") == ModelSpec("mistral", "http://here", "secret", None)
    assert replace_model(before, "anthropic:x") == ModelSpec("anthropic:x")
    assert replace_model(before, "claude-x") == ModelSpec("claude-x")
    assert replace_model(before, "embedded") == ModelSpec("embedded")


def test_known_windows():
    assert find_window("openai/gpt-4o-mini") == 128_000
    assert find_window("somebody-7b") is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"model = ", "is not TOML"),
        (b'model = "\xff"', "is not TOML"),
        (b'modle = "x"', "has modle: it takes model, base_url, window, params"),
        (b"model = 5", 'is 5: write model = "…"'),
        (b"base_url = 5", 'is 5: write base_url = "…"'),
        (b"key = 'x'", "keys belong into the environment"),
        (b"window = true", "is True: write window = 200000"),
    ],
)
def test_a_config_file_with_a_mistake_says_which(tmp_path, text, words):
    (tmp_path / "chat.toml").write_bytes(text)
    with pytest.raises(ModelError, match="the config file") as caught:
        from_config(tmp_path / "chat.toml")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("module", "spec"), [("openai", "gpt-x"), ("anthropic", "claude-x"), ("xllamacpp", "embedded")]
)
def test_an_extra_that_is_missing_explains_itself(monkeypatch, module, spec):
    monkeypatch.setitem(sys.modules, module, None)
    extra = "embedded" if module == "xllamacpp" else module
    with pytest.raises(ModelError, match=rf"pip install 'backstory\[{extra}\]'"):
        choose(ModelSpec(spec))


FIRST_REQUEST = """
import sys
import threading
from backstory.log.messages import Message
from backstory.runtime.models.openai import OpenAIModel
from backstory.wire.conversation import Conversation

def note_import(event, arguments):
    if event == "import" and arguments[0].startswith("openai"):
        imported_by_main.append(threading.current_thread() is threading.main_thread())


imported_by_main = []
sys.addaudithook(note_import)
model = OpenAIModel("m", base_url=sys.argv[1])
assert not imported_by_main
list(model.answer(Conversation([Message("user", "Hello")]), ()))
assert imported_by_main
print(any(imported_by_main))
"""


def test_another_thread_imports_the_sdk_so_that_ctrl_c_cannot_break_it():
    with scripted(Say("Hi.")) as server:
        command = [sys.executable, "-c", FIRST_REQUEST, server.url]
        ran = subprocess.run(command, env=CLEAN, capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


def test_reasoning_that_a_server_wants_back_is_kept_and_sent_back():
    from backstory.wire import dump

    deltas = [{"reasoning_content": "Hm, "}, {"reasoning_content": "files."}, {"content": "Done."}]
    chunks = [{"choices": [{"delta": delta}]} for delta in deltas]
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 8},
    }
    chunks += [
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": usage},
    ]
    *_, answer = read_stream(chunks, "deepseek-x")
    assert answer.data["usage"] == {"input": 9, "output": 3, "cached": 8}
    events = [("user", "Look.", None), ("assistant", answer.text, answer.data)]
    body, repairs = dump(events, "openai", model="deepseek-x")
    assert body["messages"][1]["reasoning_content"] == "Hm, files."
    assert repairs == []


def test_reasoning_of_a_server_that_gives_its_calls_no_ids_is_sent_back_too():
    from backstory.wire import dump

    call = {"index": 0, "function": {"name": "glob", "arguments": "{}"}}
    chunks = [
        {"choices": [{"delta": {"reasoning_content": "Hm."}}]},
        {"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]},
    ]
    *_, answer = read_stream(chunks, "m")
    [asked] = answer.calls
    said = {"id": asked.id, "name": asked.name, "arguments": asked.arguments}
    events = [("user", "Look.", None), ("tool_call", None, answer.data | said)]
    body, repairs = dump([*events, ("tool_result", "a.py", {"id": asked.id})], "openai", model="m")
    assert body["messages"][1]["reasoning_content"] == "Hm."
    assert body["messages"][1]["tool_calls"][0]["id"] == asked.id
    assert repairs == []


def test_a_model_that_thinks_in_parts_of_its_content_gets_them_back():
    from backstory.runtime.models import TextDelta, ThinkingDelta
    from backstory.wire import dump

    def thinks(text):
        return [{"type": "thinking", "thinking": [{"type": "text", "text": text}]}]

    nothing = [{"type": "thinking", "thinking": None}]
    contents = [
        thinks("Two "),
        nothing,
        thinks("and two."),
        [{"type": "text", "text": "It is "}],
        "4.",
        "",
    ]
    chunks = [{"choices": [{"delta": {"content": content}}]} for content in contents]
    *items, answer = read_stream(
        [*chunks, {"choices": [{"delta": {}, "finish_reason": "stop"}]}], "m"
    )
    said = [TextDelta("It is "), TextDelta("4.")]
    assert items == [ThinkingDelta("Two "), ThinkingDelta("and two."), *said]
    assert answer.text == "It is 4."
    body, repairs = dump(
        [("user", "2 + 2?", None), ("assistant", answer.text, answer.data)], "openai", model="m"
    )
    assert body["messages"][1]["content"] == [
        *thinks("Two and two."),
        {"type": "text", "text": "It is 4."},
    ]
    assert repairs == []
