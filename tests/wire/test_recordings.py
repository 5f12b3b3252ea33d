"""Recorded exchanges, where they are at hand: the rules take what was taken, exact counts are exact."""

import pytest

from backstory.errors import Invalid
from backstory.wire import load
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
