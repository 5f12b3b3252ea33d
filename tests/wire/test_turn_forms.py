"""Each turn by itself, in a format's own form: what files need in which every message stands alone."""

from backstory import Event
from backstory.transcripts.exporting import write_messages
from backstory.wire import load_answer

THOUGHT = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}


def events(*told):
    return [Event.of(seq, *one) for seq, one in enumerate(told, 1)]


def call(id):
    return "tool_call", None, {"id": id, "name": "glob", "arguments": {"pattern": "*"}}


def test_turns_have_their_roles_and_the_positions_of_their_events():
    told = events(
        ("system", "Be quick."),
        ("user", "go"),
        ("assistant", "I will."),
        call("1"),
        call("2"),
        ("tool_result", "a.py", {"id": "1"}),
        ("system", "And careful."),
        ("user", "then?"),
    )
    found = [*write_messages(told, "openai-responses")]
    assert [(one.role, position) for position, one in found if one.role != "system"] == [
        ("user", 2), ("model", 3), ("result", 6), ("result", 5), ("user", 8),
    ]  # fmt: skip
    assert [position for position, one in found if one.role == "system"] == [1, 7]
    assert [[asked.id for asked in one.calls] for _, one in found if one.calls] == [
        ["1", "2"],
        ["1"],
        ["2"],
    ]


def test_a_result_that_nobody_recorded_says_so():
    told = events(("user", "go"), call("1"), ("user", "then?"))
    _, _, (_, result), _ = write_messages(told, "anthropic")
    assert result.form[0]["content"] == "interrupted: no result was recorded"


def test_what_a_provider_sent_stays_whichever_of_its_models_it_was():
    answered = []
    for model in ("claude-one", "claude-two"):
        response = {"content": [THOUGHT, {"type": "text", "text": model}], "model": model}
        answered += [("user", "go"), *load_answer(response, "anthropic")]
    told = events(*answered)
    own = [one.form for _, one in write_messages(told, "anthropic") if one.role == "model"]
    assert [form[0] for form in own] == [THOUGHT, THOUGHT]
    other = [one.form for _, one in write_messages(told, "openai-responses") if one.role == "model"]
    assert "Hm." not in str(other)
