"""Each rule of the checkers bites, good bodies pass, garbage is a violation and never an exception."""

import copy
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.wire import refused, refused_blocks
from tests.wire.accepted import ACCEPTED, CASES
from tests.wire.recorded import STILL_REFUSED, TAKEN
from tests.wire.rules import FORMATS, violations

REFUSED = {
    "openai": refused.OPENAI,
    "openai-responses": refused.RESPONSES,
    "gemini": refused.GEMINI,
    "anthropic": refused_blocks.ANTHROPIC,
    "bedrock": refused_blocks.BEDROCK,
}
ROWS = [
    pytest.param(format, body, fragment, id=f"{format}: {name}")
    for format, rows in REFUSED.items()
    for name, body, fragment in rows
]


@pytest.mark.parametrize(("format", "body", "fragment"), ROWS)
def test_the_smallest_bad_body_is_refused_in_the_providers_words(format, body, fragment):
    found = violations(body, format)
    assert any(fragment in text for text in found), found


@pytest.mark.parametrize(("format", "name"), CASES)
def test_a_good_body_is_accepted(format, name):
    assert violations(ACCEPTED[format][name], format, gemini_signatures=True) == []


@pytest.mark.parametrize(
    ("format", "body", "request_"),
    [row[1:] for row in TAKEN],
    ids=[f"{row[1]}: {row[0]}" for row in TAKEN],
)
def test_what_a_service_was_recorded_to_take_is_taken(format, body, request_):
    assert violations(body, format, strict=False, **request_) == []


@pytest.mark.parametrize(
    ("format", "body", "request_", "fragment"),
    [row[1:] for row in STILL_REFUSED],
    ids=[f"{row[1]}: {row[0]}" for row in STILL_REFUSED],
)
def test_what_a_service_refuses_is_refused_by_any_reading(format, body, request_, fragment):
    found = violations(body, format, strict=False, **request_)
    assert any(fragment in text for text in found), found


# By these rows we are stricter with ourselves than the services are; all others they refuse, too.
OUR_OWN = {
    "openai": {"blank text", "blank beside calls", "blank part", "arguments a list"},
    "openai-responses": {
        "input blank",
        "instructions blank",
        "content blank",
        "output blank",
        "output part blank",
    }
    | {"item id", "reasoning twice", "reasoning with its id", "arguments no object"},
    "gemini": {
        "system blank",
        "empty text",
        "blank text",
        "user twice",
        "model first",
        "model last",
    }
    | {"call after a model turn"},
    "anthropic": {
        "id in two steps",
        "empty result",
        "no result blocks",
        "user twice",
        "assistant twice",
    }
    | {"assistant first", "thinking not first", "system blank"},
    "bedrock": {"reasoning not first"},
}


@pytest.mark.parametrize("format", FORMATS)
def test_where_we_are_stricter_than_the_services_is_known(format):
    assert {
        name for name, body, _ in REFUSED[format] if not violations(body, format, strict=False)
    } == OUR_OWN[format]


# The last step is open, in whole and in part; then the same with user text behind it, which ends the step.
OPEN = {
    "openai": (
        refused.chat(refused.HI, refused.asks("a", "b")),
        refused.chat(refused.HI, refused.asks("a", "b"), refused.told("b")),
        refused.chat(refused.HI, refused.asks("a", "b"), refused.told("b"), refused.HI),
    ),
    "openai-responses": (
        refused.responses(refused.HI, refused.call("a"), refused.call("b")),
        refused.responses(refused.HI, refused.call("a"), refused.call("b"), refused.output("b")),
        refused.responses(
            refused.HI, refused.call("a"), refused.call("b"), refused.output("b"), refused.HI
        ),
    ),
    "anthropic": (
        refused_blocks.anthropic(
            refused_blocks.HI, refused_blocks.says(refused_blocks.use("a"), refused_blocks.use("b"))
        ),
        refused_blocks.anthropic(
            refused_blocks.HI,
            refused_blocks.says(refused_blocks.use("a"), refused_blocks.use("b")),
            refused_blocks.user(refused_blocks.result("b")),
        ),
        refused_blocks.anthropic(
            refused_blocks.HI,
            refused_blocks.says(refused_blocks.use("a"), refused_blocks.use("b")),
            refused_blocks.user(refused_blocks.result("b"), refused_blocks.TEXT),
        ),
    ),
    "gemini": (
        refused.gemini(refused.ASK, refused.model(refused.want("a"), refused.want("b"))),
        refused.gemini(
            refused.ASK,
            refused.model(refused.want("a"), refused.want("b")),
            refused.user(refused.got("b")),
        ),
        refused.gemini(
            refused.ASK,
            refused.model(refused.want("a"), refused.want("b")),
            refused.user(refused.got("b"), {"text": "x"}),
        ),
    ),
    "bedrock": (
        refused_blocks.bedrock(
            refused_blocks.ASK,
            refused_blocks.says(refused_blocks.tool_use("a"), refused_blocks.tool_use("b")),
        ),
        refused_blocks.bedrock(
            refused_blocks.ASK,
            refused_blocks.says(refused_blocks.tool_use("a"), refused_blocks.tool_use("b")),
            refused_blocks.user(refused_blocks.tool_result("b")),
        ),
        refused_blocks.bedrock(
            refused_blocks.ASK,
            refused_blocks.says(refused_blocks.tool_use("a"), refused_blocks.tool_use("b")),
            refused_blocks.user(refused_blocks.tool_result("b"), {"text": "x"}),
        ),
    ),
}


@pytest.mark.parametrize("format", FORMATS)
def test_only_the_last_steps_calls_may_be_open_and_only_when_they_are_pending(format):
    whole, part, ended = OPEN[format]
    for body in (whole, part):
        assert violations(body, format, pending=True) == []
        assert violations(body, format)
    assert violations(ended, format, pending=True)


@pytest.mark.parametrize("format", FORMATS)
def test_pending_forgives_nothing_else(format):
    forgiven = [
        name for name, body, _ in REFUSED[format] if not violations(body, format, pending=True)
    ]
    assert set(forgiven) <= {
        "call cut from its result",
        "call cut from its output",
        "call cut from its response",
    } | {"one of two answered"}


def test_an_open_call_of_an_earlier_step_is_not_pending():
    body = refused.responses(
        refused.call("a"), refused.call("b"), refused.output("b"), refused.call("c")
    )
    assert violations(body, "openai-responses", pending=True) == [
        "No tool output found for function call a."
    ]


def test_gemini_wants_a_signature_on_the_first_call_of_each_step_if_asked():
    signed = {**refused.want(), "thoughtSignature": "skip_thought_signature_validator"}
    first, second = (
        refused.gemini(
            refused.ASK, refused.model(*calls), refused.user(refused.got(), refused.got())
        )
        for calls in ((signed, refused.want()), (refused.want(), signed))
    )
    assert violations(first, "gemini", gemini_signatures=True) == []
    assert violations(second, "gemini") == []
    assert "missing a thought_signature" in violations(second, "gemini", gemini_signatures=True)[0]


GARBAGE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.just(b"x"),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=4,
)


def paths(value, path=()):
    """Every place in a body, the body itself first."""
    yield path
    children = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, child in children:
        yield from paths(child, (*path, key))


@given(case=st.sampled_from(CASES), choice=st.randoms(use_true_random=False), garbage=GARBAGE)
def test_garbage_anywhere_never_raises(case, choice, garbage):
    format, name = case
    body = [copy.deepcopy(ACCEPTED[format][name])]
    *parents, last = choice.choice(list(paths(body))[1:])
    place = body
    for key in parents:
        place = place[key]
    place[last] = garbage
    for pending, strict in product((True, False), repeat=2):
        found = violations(body[0], format, pending=pending, strict=strict, compatible=pending)
        assert all(isinstance(text, str) for text in found)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("body", [None, [], "x", 7, b"x"])
def test_what_is_no_object_is_refused(format, body):
    assert violations(body, format)


def test_a_body_nested_without_end_is_refused():
    body = {"messages": [{"role": "user", "content": "x"}]}
    body["self"] = body
    assert "could not parse the JSON body" in violations(body, "openai")[0]


class Counted(str):
    """An id that counts how often it is compared. Each is another object: sets and lists have to look."""

    compared = 0

    def __eq__(self, other):
        Counted.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_many_parallel_calls_are_judged_without_comparing_all_with_all():
    count = 1000

    def ids():
        return (Counted(f"c{number}") for number in range(count))

    body = refused_blocks.anthropic(
        refused_blocks.HI,
        refused_blocks.says(*map(refused_blocks.use, ids())),
        refused_blocks.user(*map(refused_blocks.result, ids())),
    )
    assert violations(body, "anthropic") == []
    assert Counted.compared < 20 * count  # half a million, by a walk for each
