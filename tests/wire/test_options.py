"""What the caller knows about a request: `pause`, `system_inside`, `pending`, and the model's name."""

import pytest

import backstory
from backstory.wire import FORMATS, dump, load
from backstory.wire.context import is_same_model
from tests.wire.laws import strings
from tests.wire.rules import violations

ALTERNATING = ("anthropic", "gemini", "bedrock")
BEGUN = [("user", "Write a poem.", None), ("assistant", "Roses are", None)]
BETWEEN = [
    ("user", "Hello.", None),
    ("system", "Be brief.", None),
    ("assistant", "Hi.", None),
    ("user", "?", None),
]


def test_a_misspelled_option_is_named_with_those_that_exist():
    words = "^'modle' is not an option of a request: use one of model, "
    with pytest.raises(backstory.Invalid, match=words):
        dump(BEGUN, "openai", modle="gpt-x")
    with pytest.raises(backstory.Invalid, match=words):
        backstory.Conversation().request("openai", modle="gpt-x")


def last_of(body):
    return body.get("messages", body.get("contents"))[-1]


@pytest.mark.parametrize("format", ALTERNATING)
def test_a_pause_leaves_the_last_word_to_the_model(format):
    body, repairs = dump(BEGUN, format, pause=True)
    assert last_of(body)["role"] in ("assistant", "model")
    assert repairs == []
    body, repairs = dump(BEGUN, format)
    assert last_of(body)["role"] == "user"
    assert [repair.rule for repair in repairs] == ["alternate"]


@pytest.mark.parametrize("format", FORMATS)
def test_a_pause_changes_nothing_where_the_user_spoke_last(format):
    history = [*BEGUN, ("user", "red.", None)]
    assert dump(history, format, pause=True) == dump(history, format)


SPACED = {"type": "text", "text": "Hello \n"}
BLANK = {"type": "text", "text": " "}


@pytest.mark.parametrize("form", [None, "Hello \n", [SPACED], [SPACED, BLANK]])
def test_whitespace_at_the_end_of_a_prefill_is_left_out(form):
    data = {"native": {"provider": "anthropic", "wire": form}} if form else None
    text = "Hello \n" if form != [SPACED, BLANK] else "Hello \n "
    history = [("user", "Greet.", None), ("assistant", text, data)]
    body, repairs = dump(history, "anthropic", pause=True)
    content = body["messages"][-1]["content"]
    assert content in ("Hello", [{"type": "text", "text": "Hello"}])
    assert [repair.rule for repair in repairs] == ["blank"]
    body, _ = dump(history, "bedrock", pause=True)
    assert body["messages"][-1]["content"] == [{"text": "Hello"}]
    body, repairs = dump([*history, ("user", "Go on.", None)], "anthropic", pause=True)
    content = body["messages"][1]["content"]
    assert content in (form, [SPACED])
    assert repairs == []


def test_a_turn_that_the_service_paused_goes_on_as_it_was():
    run = {
        "type": "server_tool_use",
        "id": "srvtoolu_1",
        "name": "web_search",
        "input": {"query": "x"},
    }
    paused = {
        "messages": [
            {"role": "user", "content": "Search."},
            {"role": "assistant", "content": [{"type": "text", "text": "Searching."}, run]},
        ]
    }
    assert dump(load(paused, "anthropic"), "anthropic", pause=True) == (paused, [])


def test_system_text_stays_in_place_where_the_model_takes_it():
    body, repairs = dump(BETWEEN, "anthropic", system_inside=True)
    assert body["messages"][1] == {
        "role": "system",
        "content": [{"type": "text", "text": "Be brief."}],
    }
    assert repairs == []


@pytest.mark.parametrize("format", ALTERNATING)
def test_and_is_marked_user_text_where_it_does_not(format):
    body, repairs = dump(BETWEEN, format, system_inside=format != "anthropic")
    assert "<system>\nBe brief.\n</system>" in strings(body)
    assert [repair.rule for repair in repairs] == ["system"]
    assert violations(body, format) == []


@pytest.mark.parametrize(
    "history",
    [
        [
            ("user", "Hello.", None),
            ("assistant", "Hi.", None),
            ("system", "Be brief.", None),
            ("user", "?", None),
        ],
        [("user", "Hello.", None), ("system", "Be brief.", None), ("user", "?", None)],
        [*[("user", "Hello.", None)], *[("system", "Be brief.", None)] * 2, ("user", "?", None)],
    ],
    ids=["behind the model", "before the user", "two before the user"],
)
def test_system_text_stands_only_behind_the_user_and_before_the_model(history):
    body, repairs = dump(history, "anthropic", system_inside=True)
    assert "system" not in [message["role"] for message in body["messages"]]
    assert {repair.rule for repair in repairs} == {"system"}


def test_system_text_behind_results_may_stand_and_so_may_two_in_a_row():
    history = [
        ("user", "Look.", None),
        ("tool_call", None, {"id": "1", "name": "glob", "arguments": {}}),
        ("tool_result", "3 files", {"id": "1"}),
        ("system", "Be brief.", None),
        ("system", "Be kind.", None),
    ]
    body, repairs = dump(history, "anthropic", system_inside=True)
    assert [message["role"] for message in body["messages"]] == [
        "user",
        "assistant",
        "user",
        "system",
    ]
    assert repairs == []


def test_a_system_message_at_the_end_is_user_text_once_the_user_speaks_behind_it():
    ended = load(
        {"messages": [{"role": "user", "content": "Hi."}, {"role": "system", "content": "Go."}]},
        "anthropic",
    )
    assert [message["role"] for message in dump(ended, "anthropic").body["messages"]] == [
        "user",
        "system",
    ]
    body, repairs = dump([*ended, ("user", "Well?", None)], "anthropic")
    assert [message["role"] for message in body["messages"]] == ["user"]
    assert [repair.rule for repair in repairs] == ["system"]


def test_text_from_the_top_of_a_request_never_becomes_a_message_between_others():
    """Two histories in one log: the second one's system text was on top, nobody knows that it may stand."""
    top = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    history = load(
        {"system": top, "messages": [{"role": "user", "content": "Hello."}]}, "anthropic"
    )
    body, repairs = dump([("user", "Hi.", None), *history], "anthropic")
    assert [message["role"] for message in body["messages"]] == ["user"]
    assert [repair.rule for repair in repairs] == ["system"]


@pytest.mark.parametrize("format", ["anthropic", "bedrock"])
def test_what_no_words_could_say_is_left_out_where_it_may_not_stand(format):
    added = [{"type": "tool_addition", "tool": {"type": "tool_reference", "name": "glob"}}]
    history = [
        *load(
            {
                "messages": [
                    {"role": "user", "content": "Hi."},
                    {"role": "system", "content": added},
                ]
            },
            "anthropic",
        ),
        ("user", "Well?", None),
    ]
    body, repairs = dump(history, format)
    assert "tool_addition" not in strings(body)
    assert {repair.rule for repair in repairs} <= {"system", "native", "blank"}
    assert repairs


def test_a_report_of_marked_system_text_says_what_is_left_out_beside_it():
    added = {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "glob"}}
    text = {"type": "text", "text": "Use it."}
    system = {"role": "system", "content": [text, added]}
    messages = [{"role": "user", "content": "Hi."}, system, {"role": "user", "content": "Well?"}]
    history = load({"messages": messages}, "anthropic", model="m")
    body, [repair] = dump(history, "anthropic", model="another")
    assert "<system>\nUse it.\n</system>" in strings(body)
    assert "tool_addition" not in strings(body)
    assert repair.why.endswith("it is marked user text, and the rest of it is left out")


@pytest.mark.parametrize("format", FORMATS)
def test_a_name_that_is_refused_behind_a_native_answer_is_mended_while_its_call_is_open(format):
    forms = {
        "openai": {"role": "assistant", "content": "Looking.", "reasoning_content": "Hm."},
        "openai-responses": [
            {"type": "reasoning", "summary": [], "encrypted_content": "c2Vh"},
            {"role": "assistant", "content": "Looking."},
        ],
        "anthropic": [
            {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
            {"type": "text", "text": "Looking."},
        ],
        "gemini": [{"text": "Looking.", "thoughtSignature": "c2ln"}],
        "bedrock": [
            {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}},
            {"text": "Looking."},
        ],
    }
    history = [
        ("user", "Look.", None),
        ("assistant", "Looking.", {"native": {"provider": format, "wire": forms[format]}}),
        ("tool_call", None, {"id": "1", "name": "mcp server/glob!", "arguments": {}}),
    ]
    body, repairs = dump(history, format, pending=True)
    assert violations(body, format, pending=True, gemini_signatures=True) == []
    assert "name" in {repair.rule for repair in repairs}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("gpt-5", "gpt-5-2025-08-07"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("gemini-2.0-flash", "gemini-2.0-flash-001"),
        ("models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "anthropic.claude-haiku-4-5-20251001-v1:0"),
        ("claude-3-5-haiku-latest", "claude-3-5-haiku-20241022"),
        ("mistral-large-2411", "mistral-large-latest"),
        ("claude-sonnet-4-0", "claude-sonnet-4-20250514"),
        ("eu.anthropic.claude-haiku-4-5-20251001-v1:0", "claude-haiku-4-5-20251001"),
        (
            "arn:aws:bedrock:us-east-1:1:inference-profile/us.amazon.nova-pro-v1:0",
            "amazon.nova-pro-v1:0",
        ),
        ("projects/p/locations/l/publishers/google/models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("anthropic/claude-haiku-4.5", "anthropic/claude-4.5-haiku-20251001"),
        ("anthropic/claude-haiku-4.5", "claude-haiku-4-5-20251001"),
        ("openrouter/deepseek/deepseek-r1:free", "deepseek/deepseek-r1"),
    ],
)
def test_dated_and_bare_names_are_of_one_model(one, other):
    assert is_same_model(one, other)
    assert is_same_model(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("gpt-5", "gpt-5-mini"),
        ("gpt-5-2025-08-07", "gpt-5-2025-12-11"),
        ("claude-sonnet-4", "claude-sonnet-4-5"),
        ("gpt-3.5", "gpt-5.3"),
        ("phi-4", "phi-4-128"),
        ("llama", "llama-405"),
        ("openai/gpt-5", "gpt-5"),
        ("llama3:instruct", "llama3:text"),
        ("deepseek-v3", "deepseek-v4"),
        ("anthropic.claude-v2", "anthropic.claude-v2:1"),
        ("gpt-5", None),
        (None, "gpt-5"),
    ],
)
def test_others_are_of_two(one, other):
    assert not is_same_model(one, other)


def test_what_a_dated_model_sealed_goes_to_its_bare_name():
    sealed = [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "text", "text": "Yes."},
    ]
    native = {"provider": "anthropic", "model": "claude-x-20260101", "wire": sealed}
    history = [
        ("user", "?", None),
        ("assistant", "Yes.", {"native": native}),
        ("user", "Sure?", None),
    ]
    assert dump(history, "anthropic", model="claude-x").body["messages"][1]["content"] == sealed
    assert dump(history, "anthropic", model="claude-y").body["messages"][1]["content"] == sealed[1:]


# --- what providers answered with 400 in recordings ---


def reasoned(message, **reasoning):
    return [
        ("user", "?", None),
        (
            "assistant",
            "Yes.",
            {
                "native": {
                    "provider": "openai-responses",
                    "wire": [
                        {"type": "reasoning", "id": "rs_1", "summary": [], **reasoning},
                        message,
                    ],
                }
            },
        ),
        ("user", "Sure?", None),
    ]


SPOKEN = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Yes."}],
}


def test_reasoning_with_an_id_before_a_message_without_one_loses_its_id_or_goes():
    body, repairs = dump(
        reasoned(SPOKEN, encrypted_content="c2Vh"), "openai-responses", stored=True
    )
    assert body["input"][1] == {"type": "reasoning", "summary": [], "encrypted_content": "c2Vh"}
    assert repairs == []
    body, repairs = dump(reasoned(SPOKEN), "openai-responses", stored=True)
    assert body["input"][1] == SPOKEN
    assert [repair.why for repair in repairs] == [
        "reasoning that the service would not find is left out"
    ]


def test_reasoning_whose_text_is_in_the_item_stays_as_it_was():
    told = {"content": [{"type": "reasoning_text", "text": "Hm."}]}
    history = reasoned(SPOKEN, **told)
    body, repairs = dump(history, "openai-responses", stored=True)
    assert body["input"][1] == {"type": "reasoning", "id": "rs_1", "summary": [], **told}
    assert repairs == []


def call(id):
    return {"type": "function_call", "call_id": id, "name": "glob", "arguments": "{}"}


def output(id):
    return {"type": "function_call_output", "call_id": id, "output": "3 files"}


def test_a_message_between_two_calls_goes_before_them():
    said = {"role": "assistant", "content": "Looking."}
    outputs = [output("a"), output("b")]
    body = {"input": [{"role": "user", "content": "?"}, call("a"), said, call("b"), *outputs]}
    assert dump(load(body, "openai-responses"), "openai-responses").body["input"][1:] == [
        said,
        call("a"),
        call("b"),
        *outputs,
    ]


def test_but_not_where_there_is_reasoning_whose_place_counts():
    said = {"role": "assistant", "content": "Looking."}
    reasoning = {"type": "reasoning", "summary": [], "encrypted_content": "c2Vh"}
    items = [reasoning, call("a"), said, call("b"), output("a"), output("b")]
    body = {"input": [{"role": "user", "content": "?"}, *items]}
    assert dump(load(body, "openai-responses"), "openai-responses") == (body, [])
