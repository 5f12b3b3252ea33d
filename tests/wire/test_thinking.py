"""The thinking of a model, as people are shown it: read from the native content of an answer."""

import pytest

from backstory.wire.reading import find_thinking

SUMMARY = [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": " Then.\n"}]
THOUGHTS = [
    ("anthropic", [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}], "Hm."),
    ("anthropic", [{"type": "redacted_thinking", "data": "c2ln"}], ""),
    ("openai-responses", [{"type": "reasoning", "summary": SUMMARY}], "First.\n\nThen."),
    ("gemini", [{"thought": True, "text": "Hm."}, {"text": "hi"}], "Hm."),
    ("gemini", [{"text": "hi", "thoughtSignature": "c2ln"}], ""),
    ("bedrock", [{"reasoningContent": {"reasoningText": {"text": "Hm."}}}], "Hm."),
    ("openai", {"role": "assistant", "content": "hi", "reasoning_content": "Hm."}, "Hm."),
    ("openai", {"role": "assistant", "content": "hi", "reasoning": "Hm."}, "Hm."),
    (
        "openai",
        {"role": "assistant", "content": "", "reasoning": "Hm.", "reasoning_content": "Hm."},
        "Hm.",
    ),
    ("openai", {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}]}, "Hm."),
    ("anthropic", [{"type": "text", "text": {"$backstory": "content"}}], ""),
    ("nobody", [{"type": "thinking", "thinking": "Hm."}], ""),
    ("anthropic", "broken", ""),
]


@pytest.mark.parametrize(("format", "form", "text"), THOUGHTS)
def test_thinking_is_read_from_each_providers_form(format, form, text):
    data = {"native": {"provider": format, "wire": form}}
    assert find_thinking(("assistant", "hi", data)) == text


def test_an_event_without_native_content_has_no_thinking():
    assert find_thinking(("assistant", "hi", {"native": {"model": "m"}})) == ""
    assert find_thinking(("note", "hi", None)) == ""
