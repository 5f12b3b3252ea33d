"""One table of cases for each format, in `cases/`, read both ways: events to body, and body to events."""

import json
from pathlib import Path

import pytest

from backstory.wire import FORMATS, dump, load, to_bytes
from backstory.wire.json_values import encode_body
from tests.wire.accepted import ACCEPTED
from tests.wire.rules import violations
from tests.wire.sdk_types import check

CASES = [
    pytest.param(format, case["events"], case["body"], id=f"{format}: {case['case']}")
    for format in FORMATS
    for case in json.loads((Path(__file__).parent / "cases" / f"{format}.json").read_text())
]
# Forms that providers accepted in recordings, however odd: they go back as they were.
RETURNS = [
    pytest.param(format, case, id=f"{format}: {case['case']}")
    for format in FORMATS
    for case in json.loads(
        (Path(__file__).parent / "cases" / f"{format}-accepted.json").read_text()
    )
]
BODIES = [
    pytest.param(format, body, id=f"{format}: {name}")
    for format, bodies in ACCEPTED.items()
    for name, body in bodies.items()
]


@pytest.mark.parametrize(("format", "events", "body"), CASES)
def test_events_become_the_body(format, events, body):
    dumped, repairs = dump([tuple(event) for event in events], format)
    assert json.loads(encode_body(dumped)) == body
    assert repairs == []
    assert violations(dumped, format) == []
    if "reasoning_content" not in json.dumps(
        body
    ):  # which other servers have, and OpenAI's types do not
        check(dumped, format)


@pytest.mark.parametrize(("format", "events", "body"), CASES)
def test_the_body_becomes_the_events(format, events, body):
    assert [list(event) for event in load(body, format)] == events


@pytest.mark.parametrize(("format", "case"), RETURNS)
def test_what_a_provider_accepted_goes_back_as_it_was(format, case):
    events, stored = [tuple(event) for event in case["events"]], case.get("stored", False)
    dumped = json.loads(to_bytes(events, format, stored=stored))
    assert dumped == with_stubs(case["body"], dumped)
    assert dump(events, format, stored=stored).repairs == []


@pytest.mark.parametrize(("format", "case"), RETURNS)
def test_and_is_loaded_as_the_events_that_say_so(format, case):
    assert [list(event) for event in load(case["body"], format)] == case["events"]


@pytest.mark.parametrize(("format", "case"), RETURNS)
@pytest.mark.parametrize("other", FORMATS)
def test_what_one_provider_accepted_every_other_accepts_in_its_own_form(format, case, other):
    if other != format:
        dumped, _ = dump([tuple(event) for event in case["events"]], other)
        assert violations(dumped, other, gemini_signatures=True) == []
        check(dumped, other)


def with_stubs(body, dumped):
    """The body, with the tools that Bedrock wants to see."""
    return body | {"toolConfig": dumped["toolConfig"]} if "toolConfig" in dumped else body


@pytest.mark.parametrize(("format", "body"), BODIES)
def test_a_body_that_the_service_accepts_comes_back_as_it_was(format, body):
    dumped, repairs = dump(load(body, format), format)
    assert json.loads(encode_body(dumped)) == json.loads(encode_body(body))
    assert repairs == []


@pytest.mark.parametrize(("format", "body"), BODIES)
@pytest.mark.parametrize("other", FORMATS)
def test_every_other_service_accepts_it_too(format, body, other):
    events = load(body, format)
    dumped, _ = dump(events, other)
    assert violations(dumped, other, gemini_signatures=format != "gemini") == []
    check(dumped, other)
