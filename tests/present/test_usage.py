"""What answers took, under the names of each provider."""

from decimal import Decimal

import pytest

from backstory.present.usage import AnswerUsage, read_usage

ANTHROPIC = {
    "input_tokens": 10,
    "cache_read_input_tokens": 100,
    "cache_creation_input_tokens": 1000,
    "output_tokens": 5,
}
OPENAI = {
    "prompt_tokens": 30,
    "completion_tokens": 4,
    "prompt_tokens_details": {"cached_tokens": 20},
}
RESPONSES = {"input_tokens": 30, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 20}}
GEMINI = {
    "promptTokenCount": 30,
    "cachedContentTokenCount": 20,
    "candidatesTokenCount": 4,
    "thoughtsTokenCount": 6,
}
OWN = {"input": 30, "cached": 20, "cache_written": 7, "output": 4}


@pytest.mark.parametrize(
    ("usage", "read", "cached", "cache_written", "wrote"),
    [
        (ANTHROPIC, 1110, 100, 1000, 5),
        (OPENAI, 30, 20, 0, 4),
        (RESPONSES, 30, 20, 0, 4),
        (GEMINI, 30, 20, 0, 10),
        (OWN, 30, 20, 7, 4),
    ],
)
def test_each_provider_is_read(usage, read, cached, cache_written, wrote):
    found = read_usage({"model": "unknown", "usage": usage})
    assert found == AnswerUsage("unknown", 1, read, cached, cache_written, wrote)


def test_cache_writes_are_part_of_the_price(monkeypatch):
    def price(model, read, wrote, cached, cache_written):
        return Decimal(cache_written) / 1000

    monkeypatch.setattr("backstory.present.usage.price", price)
    found = read_usage({"model": "m", "usage": ANTHROPIC})
    assert (found.cost, found.is_estimate) == (1.0, True)


def test_a_usage_is_described_in_words():
    usage = AnswerUsage("m", 1, read=1200, cached=300, cache_written=80, wrote=30, cost=0.25)
    assert usage.describe() == (
        "1,200 tokens in (300 cached, 80 written to the cache), 30 out · $0.2500"
    )
    assert AnswerUsage("m").describe() == ""
    assert AnswerUsage("m", cost=2.5, is_estimate=True).describe() == "≈ $2.50"


def test_usages_of_two_models_have_no_model_together():
    total = AnswerUsage("a", read=1) + AnswerUsage("b", read=2, is_estimate=True)
    assert total == AnswerUsage(None, 2, read=3, is_estimate=True)
