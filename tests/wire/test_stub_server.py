"""The real openai and anthropic clients against the strict stub: good histories pass, naive ones are refused.

Naive is what every framework does first: keep the provider's messages in a list, and cut the list.
"""

import urllib.error
import urllib.request

import anthropic
import openai
import pytest

from tests.wire.accepted import ACCEPTED
from tests.wire.refused import HI, asks, call, output, told
from tests.wire.refused_blocks import result, says, use, user
from tests.wire.stub_server import ANSWER, anthropic_client, openai_client, stub_server

SENT = ("openai", "openai-responses", "anthropic")
GOOD = [(format, name) for format in SENT for name in ACCEPTED[format]]

# One legal history per format: user, two calls, their results, and the user again.
HISTORY = {
    "openai": [HI, asks("a", "b"), told("a"), told("b"), HI],
    "openai-responses": [HI, call("a"), call("b"), output("a"), output("b"), HI],
    "anthropic": [
        HI,
        says(use("a"), use("b")),
        user(result("a"), result("b")),
        says({"type": "text", "text": "x"}),
        HI,
    ],
}
KEY = {"openai": "messages", "openai-responses": "input", "anthropic": "messages"}

# What a rewind, a fork, a crash or a trim leaves of it: the kept positions, and what the service says.
NAIVE = [
    ("openai", "interrupted", [0, 1], "did not have response messages: a, b"),
    (
        "openai",
        "crashed between results, then asked again",
        [0, 1, 2, 4],
        "did not have response messages: b",
    ),
    ("openai", "forked between call and result", [0, 1, 4], "did not have response messages: a, b"),
    ("openai", "trimmed from the front", [2, 3, 4], "must be a response to a preceeding message"),
    ("openai", "replayed twice", [0, 1, 2, 3, 2, 4], "Duplicate value for 'tool_call_id' of 'a'"),
    ("openai-responses", "interrupted", [0, 1, 2], "No tool output found for function call a."),
    (
        "openai-responses",
        "crashed between results",
        [0, 1, 2, 3, 5],
        "No tool output found for function call b.",
    ),
    (
        "openai-responses",
        "trimmed from the front",
        [2, 3, 4, 5],
        "No tool call found for function call output",
    ),
    ("openai-responses", "replayed twice", [0, 1, 2, 3, 4, 1, 5], "Duplicate 'call_id'"),
    ("anthropic", "interrupted", [0, 1], "without `tool_result` blocks immediately after: a, b"),
    (
        "anthropic",
        "forked between call and result",
        [0, 1, 4],
        "without `tool_result` blocks immediately after: a, b",
    ),
    (
        "anthropic",
        "trimmed from the front",
        [2, 3, 4],
        "unexpected `tool_use_id` found in `tool_result` blocks: a",
    ),
    ("anthropic", "rewound to an answer", [0, 1, 2, 3], "must end with a user message"),
]


@pytest.fixture(scope="module")
def server():
    with stub_server() as server:
        yield server


@pytest.fixture(scope="module")
def clients(server):
    with openai_client(server) as of_openai, anthropic_client(server) as of_anthropic:
        yield of_openai, of_anthropic


def send(clients, format, body, **more):
    """One request by the real client of the format."""
    of_openai, of_anthropic = clients
    match format:
        case "openai":
            return of_openai.chat.completions.create(model="any", **body, **more)
        case "openai-responses":
            return of_openai.responses.create(model="any", store=False, **body, **more)
        case _:
            return of_anthropic.messages.create(model="any", max_tokens=9, **body, **more)


def text(format, answer):
    match format:
        case "openai":
            return answer.choices[0].message.content
        case "openai-responses":
            return answer.output_text
        case _:
            return answer.content[0].text


def streamed_text(format, events):
    match format:
        case "openai":
            return "".join(event.choices[0].delta.content or "" for event in events)
        case "openai-responses":
            return "".join(
                event.delta for event in events if event.type == "response.output_text.delta"
            )
        case _:
            return "".join(
                event.delta.text for event in events if event.type == "content_block_delta"
            )


def test_each_format_has_a_legal_history(server, clients):
    for format in SENT:
        assert text(format, send(clients, format, {KEY[format]: HISTORY[format]})) == ANSWER


@pytest.mark.parametrize(("format", "name"), GOOD)
def test_a_good_history_is_answered_and_arrives_unchanged(server, clients, format, name):
    body = ACCEPTED[format][name]
    assert text(format, send(clients, format, body)) == ANSWER
    assert server.last.refused_for == []
    assert {key: server.last.body[key] for key in body} == body


@pytest.mark.parametrize("format", SENT)
def test_an_answer_can_be_streamed(clients, format):
    with send(clients, format, ACCEPTED[format]["parallel calls"], stream=True) as events:
        assert streamed_text(format, events) == ANSWER


@pytest.mark.parametrize(
    ("format", "cut", "kept", "said"), NAIVE, ids=[f"{row[0]}: {row[1]}" for row in NAIVE]
)
def test_a_naively_cut_history_is_refused(server, clients, format, cut, kept, said):
    history = [HISTORY[format][position] for position in kept]
    with pytest.raises((openai.BadRequestError, anthropic.BadRequestError)) as refusal:
        send(clients, format, {KEY[format]: history})
    assert refusal.value.status_code == 400
    assert said in refusal.value.message
    assert server.last.body[KEY[format]] == history


@pytest.mark.parametrize("format", SENT)
def test_the_refusal_has_the_shape_that_the_client_reads(clients, format):
    with pytest.raises((openai.BadRequestError, anthropic.BadRequestError)) as refusal:
        send(clients, format, {KEY[format]: []})
    body = refusal.value.body if format != "anthropic" else refusal.value.body["error"]
    assert body["type"] == "invalid_request_error"
    assert "too short" in body["message"]


def test_what_is_no_json_is_refused_and_other_addresses_are_not_known(server):
    for path, status in (("/v1/messages", 400), ("/v1/elsewhere", 404)):
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with pytest.raises(urllib.error.HTTPError) as refusal:
            opener.open(urllib.request.Request(server.url + path, data=b"{", method="POST"))
        with refusal.value as answer:
            assert answer.code == status
            assert b"error" in answer.read()


def test_servers_stand_side_by_side():
    with stub_server() as one, stub_server() as other:
        assert one.url != other.url
        assert one.exchanges == other.exchanges == []
