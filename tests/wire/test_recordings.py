"""Recorded exchanges, where they are at hand: the rules take what was taken, exact counts are exact, and what
an answer sealed is in the next request."""

import json
from itertools import groupby

import pytest

from backstory.errors import Invalid
from backstory.wire import dump, load, load_answer, to_bytes
from backstory.wire.tokens import count_tokens
from tests.wire.recordings import FOLDER, MISSING, exchanges
from tests.wire.rules import violations

pytestmark = pytest.mark.skipif(not (FOLDER / "index.json").exists(), reason=MISSING)

# Recordings are edited by the projects that keep them: an id here, a prompt there no longer fits.
EDITED = 0.005


@pytest.fixture(scope="module")
def recorded():
    return list(exchanges())


def test_the_rules_take_what_the_services_took(recorded):
    refused = {}
    for exchange in recorded:
        found = violations(
            exchange.body,
            exchange.format,
            strict=False,
            model=exchange.model,
            stored=exchange.stored,
            compatible=exchange.is_compatible,
        )
        if found:
            refused[exchange.id] = found
    assert len(recorded) > 100
    assert len(refused) <= EDITED * len(recorded), refused


def test_counts_that_are_called_exact_are(recorded):
    exact, wrong = 0, {}
    for exchange in recorded:
        if exchange.tokens is None or not exchange.is_bare:
            continue
        try:
            events = load(exchange.body, exchange.format, model=exchange.model)
        except Invalid:
            continue
        counted = count_tokens(events, exchange.model)
        if counted.exact:
            exact += 1
            if counted != exchange.tokens:
                wrong[exchange.id] = (int(counted), exchange.tokens)
    assert exact > 100
    assert len(wrong) <= EDITED * exact, wrong


def answered(exchange):
    """The exchange as events, its answer included; what is asked next."""
    events = load(exchange.body, exchange.format, model=exchange.model)
    answer = load_answer(exchange.answer, exchange.format, model=exchange.model)
    calls = [data["id"] for kind, _, data in answer if kind == "tool_call"]
    results = [("tool_result", "done", {"id": id}) for id in calls]
    return events, answer, results or [("user", "Go on.", None)]


# What goes back to nobody, with or without us: an answer of nothing, and reasoning that was not sealed.
LEFT_OUT = ("blank", "native", "alternate")


def test_every_answer_is_loaded_and_goes_back(recorded):
    mended = {}
    for exchange in (exchange for exchange in recorded if exchange.answer is not None):
        events, answer, more = answered(exchange)
        _, repairs = dump(
            [*events, *answer, *more], exchange.format, model=exchange.model, stored=exchange.stored
        )
        mine = [repair for repair in repairs if repair.at is not None and repair.at >= len(events)]
        assert {repair.rule for repair in mine} <= {*LEFT_OUT}, (exchange.id, mine)
        if mine:
            mended[exchange.id] = mine
    assert len(mended) <= 0.02 * len(recorded), mended


SEALED = frozenset(
    {
        *("signature", "encrypted_content", "thoughtSignature", "thought_signature"),
        *("redactedContent", "reasoning", "reasoning_content"),
    }
)


def seals(value):
    """All that is sealed in a value. Google's two alphabets of base64 say the same."""
    if isinstance(value, list):
        return {seal for item in value for seal in seals(item)}
    if not isinstance(value, dict):
        return set()
    mine = {
        value[key].translate(str.maketrans("-_", "+/")).rstrip("=")
        for key in SEALED & value.keys()
        if isinstance(value[key], str) and value[key]
    }
    return mine | {seal for item in value.values() for seal in seals(item)}


def test_what_an_answer_sealed_is_in_the_next_request(recorded):
    found, lost = 0, {}
    for _, run in groupby(recorded, lambda exchange: (exchange.place, exchange.format)):
        exchanges = list(run)
        for exchange in (exchange for exchange in exchanges if exchange.answer is not None):
            events, answer, more = answered(exchange)
            mine = seals([exchange.answer, *(data for _, _, data in answer)]) - seals(exchange.body)
            sent = to_bytes(
                [*events, *answer, *more],
                exchange.format,
                model=exchange.model,
                stored=exchange.stored,
            )
            for later in exchanges:
                wanted = mine & seals(later.body)
                found += len(wanted)
                if not wanted <= seals(json.loads(sent)):
                    lost[exchange.id, later.id] = wanted
    assert found > 50
    assert lost == {}
