"""The models' servers: what they may send and refuse, where they are, and the keys that go there."""

import json
import os
import threading

import pytest

from backstory.log.messages import Message
from backstory.runtime.models import ModelError, Response, Retrying, TextDelta, Unavailable, retry
from backstory.runtime.models.anthropic import AnthropicModel
from backstory.runtime.models.choice import ModelSpec, choose
from backstory.runtime.models.openai import OpenAIModel
from backstory.wire.conversation import Conversation
from tests.chat.screen import CLEAN
from tests.runtime.scripted import Refuse, Say, Send, scripted

HELLO = Conversation([Message("user", "Hello")])


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch):
    for name in os.environ.keys() - CLEAN.keys():
        monkeypatch.delenv(name)


def said(delta, reason=None):
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


# --- a server that sends what is no answer ---


def sse(value, event=None):
    return (
        f"event: {event}\n" if event else ""
    ).encode() + f"data: {json.dumps(value)}\n\n".encode()


HALF = sse(said({"content": "half an answer"}))
GARBLED_OPENAI = {
    "no JSON": b'data: {"id": broken\n\n',
    "a text": sse("hello"),
    "a list": sse([1, 2]),
    "choices that are an object": sse({"choices": {"a": 1}}),
    "choices that are texts": sse({"choices": ["x"]}),
    "content that is a number": sse(said({"content": 5})),
    "arguments that are an object": sse(
        said(
            {
                "tool_calls": [
                    {"index": 0, "id": "c", "function": {"name": "glob", "arguments": {"a": 1}}}
                ]
            }
        )
    ),
    "no UTF-8": b'data: {"choices": [{"delta": {"content": "\xff\xfe"}}]}\n\n',
    "very deep": b"data: " + b"[" * 100_000 + b"\n\n",
}


def broken_off(model):
    """What was said, and the one line on why it ended."""
    pieces = []
    with pytest.raises(ModelError) as caught:
        pieces.extend(model.answer(HELLO, ()))
    model.close()
    assert {type(piece) for piece in pieces} <= {TextDelta}
    return "".join(piece.text for piece in pieces), str(caught.value)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("payload", GARBLED_OPENAI.values(), ids=GARBLED_OPENAI.keys())
def test_what_is_no_answer_of_openai_is_one_line_and_what_was_said_stays(payload):
    with scripted(Send(HALF + payload)) as server:
        text, why = broken_off(OpenAIModel("m", base_url=server.url))
    assert text.startswith("half an answer")
    assert "sent something that is not an answer" in why
    assert "try again, or choose another model" in why
    assert "\n" not in why


@pytest.mark.parametrize("usage", ['"much"', '{"prompt_tokens": NaN}'])
def test_an_answer_with_a_strange_usage_is_an_answer(usage):
    end = sse(said({}, "stop")).replace(b"}\n", b', "usage": %s}\n' % usage.encode())
    with scripted(Send(HALF + end)) as server:
        model = OpenAIModel("m", base_url=server.url)
        *_, answer = model.answer(HELLO, ())
        model.close()
    assert answer.text == "half an answer"
    assert "much" not in str(answer.data)


def test_the_line_shows_what_was_sent():
    with scripted(Send(sse([1, 2]))) as server:
        assert (
            "not an answer (ValueError: [1, 2])"
            in broken_off(OpenAIModel("m", base_url=server.url))[1]
        )


@pytest.mark.parametrize("type", ["text/html", "application/json"])
def test_a_page_is_no_answer(type):
    with scripted(Send(b"<html>Log in, please</html>", type)) as server:
        assert (
            f"not an answer (ValueError: {type} instead of text/event-stream)"
            in broken_off(OpenAIModel("m", base_url=server.url))[1]
        )


def event(type, **more):
    return sse({"type": type, **more}, type)


BEGIN = event(
    "message_start",
    message={
        "id": "m",
        "type": "message",
        "role": "assistant",
        "content": [],
        "usage": {"input_tokens": 7},
    },
)
TEXT = event("content_block_start", index=0, content_block={"type": "text", "text": ""})
HALF_A_TEXT = TEXT + event(
    "content_block_delta", index=0, delta={"type": "text_delta", "text": "half"}
)


def end(reason):
    return event("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": 9})


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "payload",
    [
        b"event: content_block_delta\ndata: {broken\n\n",
        event("content_block_delta", index=5, delta={"type": "text_delta", "text": "x"})
        + end("end_turn"),
        event("content_block_delta", index=0, delta={"type": "text_delta", "text": 5})
        + end("end_turn"),
        event("content_block_start", index=1, content_block={"type": "tool_use"}) + end("tool_use"),
        b"event: message_delta\ndata: [1]\n\n",
        b'event: message_delta\ndata: "\xff"\n\n',
    ],
)
def test_what_is_no_answer_of_anthropic_is_one_line_too(payload):
    with scripted(Send(BEGIN + HALF_A_TEXT + payload)) as server:
        text, why = broken_off(AnthropicModel("claude-x", base_url=server.url.removesuffix("/v1")))
    assert text == "half"
    assert "sent something that is not an answer" in why


def test_a_service_that_is_overloaded_in_the_middle_is_asked_again(monkeypatch):
    monkeypatch.setattr("backstory.runtime.models.retry.FIRST_PAUSE", 0.01)
    overloaded = event("error", error={"type": "overloaded_error", "message": "Overloaded"})
    with scripted(
        Send(BEGIN + HALF_A_TEXT + overloaded), Send(BEGIN + HALF_A_TEXT + end("end_turn"))
    ) as server:
        model = AnthropicModel("claude-x", base_url=server.url.removesuffix("/v1"))
        pieces = list(model.answer(HELLO, ()))
        model.close()
    assert [type(piece) for piece in pieces] == [TextDelta, Retrying, TextDelta, Response]
    assert "is overloaded" in pieces[1].why


# --- what is refused, and by whom ---


@pytest.mark.parametrize(
    ("act", "line"),
    [
        (
            Refuse(401, "bad key"),
            "{} refused the key (HTTP 401: bad key): it comes from OPENAI_API_KEY",
        ),
        (
            Refuse(400, "too many tokens", code="context_length_exceeded"),
            "the context is too long for m (HTTP 400: too many tokens): compact or rewind it first",
        ),
        (
            Refuse(400, "context length is 9"),
            "the context is too long for m (HTTP 400: context length is 9): compact or rewind it first",
        ),
        (
            Refuse(400, "no such field"),
            "{} refused the request (HTTP 400: no such field): change it, or choose another model",
        ),
        (
            Refuse(429, "pay first", code="insufficient_quota"),
            "the account has no credit left (HTTP 429: pay first): choose another model",
        ),
    ],
)
def test_a_refusal_says_what_to_do(monkeypatch, act, line):
    monkeypatch.setenv("OPENAI_API_KEY", "of the environment")
    with scripted(act) as server:
        model = OpenAIModel("m", base_url=server.url)
        assert broken_off(model)[1] == line.format(model.where)
    assert model.where in server.url
    assert ":" in model.where


def test_a_rate_limit_does_not_tell_to_wait_while_it_waits_itself(monkeypatch):
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(retry, "RETRY_SECONDS", 0.05)
    with scripted(*[Refuse(429, "slow")] * 9) as server:
        model = OpenAIModel("m", base_url=server.url)
        heard = []
        message = r"limits the rate of requests \(HTTP 429: slow\): wait, then try again"
        with pytest.raises(Unavailable, match=message):
            heard.extend(model.answer(HELLO, ()))
        model.close()
    why = f"{model.where} limits the rate of requests (HTTP 429: slow)"
    assert {piece.why for piece in heard} == {why}


def cut_in_the_middle(server, model):
    """Return the parts of an answer whose connection was lost, and why it was."""
    parts = []
    with pytest.raises(Unavailable) as caught:
        parts.extend(model.answer(HELLO, ()))
    model.close()
    return parts, str(caught.value)


def test_a_cut_stream_is_a_lost_connection_and_is_repeated(monkeypatch):
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(retry, "RETRY_SECONDS", 0.02)
    with scripted(*[Say("one two three", drop_after=2)] * 5) as server:
        model = OpenAIModel("m", base_url=server.url)
        parts, why = cut_in_the_middle(server, model)
    assert why == f"the connection to {model.where} was lost: try again"
    assert [type(part) for part in parts[:3]] == [TextDelta, TextDelta, Retrying]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("rate_limit_exceeded", "limits the rate of requests"),
        ("server_error", "failed (The server had an error)"),
        (502, "failed (The server had an error)"),
        ("odd", "broke off the answer"),
    ],
)
def test_an_error_inside_a_stream_is_repeated_like_an_error_response(monkeypatch, code, words):
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.01)
    error = sse({"error": {"message": "The server had an error", "code": code}})
    with scripted(Send(HALF + error), Say("Fine.")) as server:
        model = OpenAIModel("m", base_url=server.url)
        parts = list(model.answer(HELLO, ()))
        model.close()
    assert [type(part) for part in parts[:2]] == [TextDelta, Retrying]
    assert words in parts[1].why
    assert parts[-1].text == "Fine."


@pytest.mark.parametrize("script", [Say("Hel lo", held=True), Say("", held=True)])
def test_another_thread_closes_the_connection_at_once(script):
    with scripted(script) as server:
        model = OpenAIModel("m", base_url=server.url)
        answer = model.answer(HELLO, ())
        threading.Timer(0.2, answer.close).start()
        parts = list(answer)  # without `close`, this would wait for the server
        model.close()
    assert {type(part) for part in parts} <= {TextDelta}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "OPENAI_API_KEY, which is not set"),
        ("mine", "the argument `key`"),
        ("of the environment", "it comes from BACKSTORY_API_KEY"),
    ],
)
def test_a_key_that_is_refused_is_named_by_where_it_comes_from(given, words, monkeypatch):
    monkeypatch.setenv("BACKSTORY_API_KEY", "of the environment")
    with scripted(Refuse(401, "no")) as server:
        assert words in broken_off(OpenAIModel("m", base_url=server.url, key=given))[1]


@pytest.mark.parametrize("spec", ["openai:x", "anthropic:x"])
@pytest.mark.parametrize(
    "address",
    ["nonsense", "localhost:1", "ftp://x", "http://", "http://x:port", "//x", "http://x:99999"],
)
def test_an_address_that_is_none_is_refused_at_once(address, spec):
    with pytest.raises(ModelError, match="is not a complete address: write it as in"):
        choose(ModelSpec(spec, address))


def test_nobody_at_an_address_is_told_with_its_port(monkeypatch):
    monkeypatch.setattr(retry, "RETRY_SECONDS", 0.0)
    model = OpenAIModel("m", base_url="http://127.0.0.1:9/v1")
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1:9 cannot be reached: check the address"):
        list(model.answer(HELLO, ()))
    model.close()


@pytest.mark.parametrize(
    ("given", "variable", "sent"),
    [
        ("mine", "environment's", "mine"),
        (None, "environment's", "environment's"),
        (None, "", "none"),
    ],
)
def test_a_key_of_the_environment_goes_to_the_address_that_a_person_names(
    monkeypatch, given, variable, sent
):
    monkeypatch.setenv("OPENAI_API_KEY", variable)
    with scripted(Say("Fine.")) as server:
        model = OpenAIModel("m", base_url=server.url, key=given)
        list(model.answer(HELLO, ()))
        model.close()
    assert server.keys == [f"Bearer {sent}"]
