"""The ten rules of repair, one after the other, each on the smallest history that breaks it."""

import json
import re
from typing import Any

import pytest

from backstory import Event
from backstory.log.messages import Message
from backstory.wire import FORMATS, FormatName, Repair, dump
from backstory.wire.repair import CONTINUE, INTERRUPTED, NO_OUTPUT, RESUMED
from tests.wire.rules import violations

ALTERNATING = ("anthropic", "gemini", "bedrock")


def u(text: str = "u") -> tuple[Any, ...]:
    return "user", text, None


def a(text: str = "a") -> tuple[Any, ...]:
    return "assistant", text, None


def s(text: str = "s") -> tuple[Any, ...]:
    return "system", text, None


def t(id: Any = "1", arguments: Any = None, name: Any = "f") -> tuple[Any, ...]:
    return (
        "tool_call",
        None,
        {"id": id, "name": name, "arguments": {} if arguments is None else arguments},
    )


def r(id: Any = "1", text: str = "out", **data: Any) -> tuple[Any, ...]:
    return "tool_result", text, {"id": id} | data


def story(events: list[Any], **options: Any) -> list[Any]:
    """The Chat Completions messages in short: role, text, and what calls and results are called."""
    told = []
    for message in dump(events, "openai", **options).body["messages"]:
        ids = [call["id"] for call in message.get("tool_calls", ())]
        id = message.get("tool_call_id")
        told.append((message["role"], message["content"], *ids, *([id] if id else [])))
    return told


def rules(
    events: list[Any], format: FormatName = "openai", **options: Any
) -> list[tuple[str, int | None]]:
    """Which rules were applied, and where."""
    return [(repair.rule, repair.at) for repair in dump(events, format, **options).repairs]


class TestBinding:
    def test_a_result_answers_the_oldest_open_call_with_its_id(self):
        told = story([u(), t("1"), t("1"), r("1", "first"), r("1", "second")])
        again = told[1][3]
        assert told[2:] == [("tool", "first", "1"), ("tool", "second", again)]

    def test_a_late_result_still_binds(self):
        events = [u(), t("1"), u("meanwhile"), r("1", "late")]
        assert story(events) == [
            ("user", "u"),
            ("assistant", None, "1"),
            ("tool", "late", "1"),
            ("user", "meanwhile"),
        ]
        assert rules(events) == [("group", 3)]

    def test_an_id_that_is_used_again_closes_the_older_call(self):
        events = [u(), t("1"), u("again"), t("1"), r("1", "second")]
        told = story(events)
        assert told[1:3] == [("assistant", None, "1"), ("tool", INTERRUPTED, "1")]
        assert told[-1][1] == "second"
        assert [rule for rule, _ in rules(events)] == ["bind", "close", "id"]

    def test_calls_and_results_without_ids_find_each_other(self):
        told = story([u(), t(None), r(None, "x"), t(7), r(7, "y"), t(True), r(["?"], "z")])
        assert [text for role, text, *_ in told if role == "tool"] == ["x", "y", "z"]


class TestDropping:
    def test_a_result_that_answers_nothing_is_dropped_and_told(self):
        assert story([u(), r("9")]) == [("user", "u")]
        assert rules([u(), r("9")]) == [("drop", 1)]

    def test_the_newest_result_of_a_call_counts_and_the_interim_one_is_reported(self):
        events = [u(), t(), r("1", "waits for approval"), a("done?"), u("yes"), r("1", "approved")]
        assert [text for role, text, *_ in story(events) if role == "tool"] == ["approved"]
        [repair] = dump(events, "openai").repairs
        assert repair == Repair("drop", 2, "a newer result of the call '1' counts")

    def test_a_third_result_counts_as_the_second_did(self):
        events = [u(), t(), r("1", "x"), r("1", "y"), r("1", "z")]
        assert [text for role, text, *_ in story(events) if role == "tool"] == ["z"]
        assert rules(events) == [("drop", 2), ("drop", 3)]

    def test_a_newer_result_goes_to_the_call_that_used_the_id_last(self):
        events = [u(), t(), r("1", "x"), t(), r("1", "y"), r("1", "z")]
        assert [text for role, text, *_ in story(events) if role == "tool"] == ["x", "z"]

    def test_a_second_result_without_an_id_is_dropped_and_told(self):
        events = [u(), t(None), r(None, "x"), r(None, "y")]
        assert [text for role, text, *_ in story(events) if role == "tool"] == ["x"]


class TestSteps:
    def test_text_behind_a_call_goes_before_the_calls(self):
        events = [u(), a("before"), t(), a("after"), r()]
        assert story(events)[1] == ("assistant", "before\n\nafter", "1")
        assert rules(events) == [("order", 3)]

    def test_calls_of_one_answer_are_one_message_and_results_follow_in_their_order(self):
        events = [u(), t("1"), t("2"), r("2", "two"), r("1", "one")]
        assert story(events)[1:] == [
            ("assistant", None, "1", "2"),
            ("tool", "one", "1"),
            ("tool", "two", "2"),
        ]
        assert rules(events) == [("group", 1)]

    def test_nothing_moves_if_only_the_second_call_has_a_result(self):
        events = [u(), t("1"), t("2"), r("2", "two")]
        assert rules(events) == [("close", 1)]
        for format in FORMATS:
            assert dump(events, format, pending=True, strict=True).repairs == []

    def test_a_call_behind_a_result_is_a_new_answer(self):
        told = story([u(), t("1"), r("1"), t("2"), r("2")])
        assert [message[0] for message in told] == [
            "user",
            "assistant",
            "tool",
            "assistant",
            "tool",
        ]

    def test_events_that_name_one_answer_are_one_message_though_results_lie_between(self):
        def named(event, answer):
            kind, text, data = event
            return kind, text, (data or {}) | {"answer": answer}

        events = [
            u(),
            named(a("look"), "m"),
            named(t("1"), "m"),
            r("1"),
            named(t("2"), "m"),
            r("2"),
            u("x"),
        ]
        assert story(events)[1:-1] == [
            ("assistant", "look", "1", "2"),
            ("tool", "out", "1"),
            ("tool", "out", "2"),
        ]
        apart = [u(), named(a("one"), "m"), named(t("1"), "n"), r("1")]
        assert [message[0] for message in story(apart)] == [
            "user",
            "assistant",
            "assistant",
            "tool",
        ]
        later = [u(), named(t("1"), "m"), r("1"), u("x"), named(t("2"), "m"), r("2")]
        assert [message[0] for message in story(later)][3:] == ["user", "assistant", "tool"]

    def test_results_of_two_steps_go_to_their_own(self):
        events = [u(), t("1"), u("x"), t("2"), r("2", "two"), r("1", "one")]
        assert story(events) == [
            ("user", "u"),
            ("assistant", None, "1"),
            ("tool", "one", "1"),
            ("user", "x"),
            ("assistant", None, "2"),
            ("tool", "two", "2"),
        ]


class TestClosing:
    @pytest.mark.parametrize("format", FORMATS)
    def test_an_open_call_gets_a_fixed_true_error(self, format):
        body, repairs = dump([u(), t(), u("go on")], format)
        assert INTERRUPTED in str(body)
        assert [(repair.rule, repair.at) for repair in repairs] == [("close", 1)]
        assert violations(body, format) == []

    @pytest.mark.parametrize("format", FORMATS)
    def test_the_last_step_may_stay_open_for_a_caller_who_runs_it(self, format):
        body, repairs = dump([u(), t("1"), t("2"), r("1")], format, pending=True)
        assert INTERRUPTED not in str(body)
        assert repairs == []
        assert violations(body, format, pending=True) == []
        assert violations(body, format) != []

    def test_only_the_last_step_and_only_if_nothing_follows_it(self):
        assert story([u(), t(), u("x"), t("2")], pending=True)[2] == ("tool", INTERRUPTED, "1")
        assert story([u(), t(), u("x")], pending=True)[2] == ("tool", INTERRUPTED, "1")


class TestIds:
    def test_legal_and_unique_ids_stay(self):
        assert story([u(), t("functions.f:0"), r("functions.f:0")])[1][2] == "functions.f:0"

    @pytest.mark.parametrize(
        ("format", "id"),
        [
            ("openai", "x" * 41),
            ("openai", ""),
            ("openai", " "),
            ("openai-responses", "x" * 65),
            ("anthropic", "a.b"),
            ("anthropic", "ü"),
            ("anthropic", "x" * 65),
            ("bedrock", "a b"),
            ("bedrock", "x" * 65),
        ],
    )
    def test_an_illegal_id_becomes_a_hash_in_call_and_result(self, format, id):
        body, repairs = dump([u(), t(id), r(id)], format)
        assert ("id", 1) in [(repair.rule, repair.at) for repair in repairs]
        assert len(set(re.findall("call_[0-9a-f]{24}", str(body)))) == 1
        assert id.strip() == "" or id not in str(body)
        assert violations(body, format) == []

    def test_two_ids_never_become_one(self):
        body, _ = dump(
            [u(), t("a.b"), t("a_b"), t("a:b"), r("a.b"), r("a_b"), r("a:b")], "anthropic"
        )
        uses = [block["id"] for block in body["messages"][1]["content"]]
        assert len(set(uses)) == 3
        assert uses[1] == "a_b"

    def test_an_id_that_looks_like_a_hash_is_not_taken_twice(self):
        [_, (_, _, hashed), *_] = story([u(), t("x" * 41), r("x" * 41)])
        told = story([u(), t(hashed), r(hashed), t("x" * 41), r("x" * 41)])
        assert told[1][2] == hashed
        assert told[3][2] != hashed

    def test_gemini_needs_none(self):
        body, repairs = dump([u(), t("ü b"), r("ü b")], "gemini")
        assert "ü b" not in str(body)
        assert repairs == []

    @pytest.mark.parametrize("format", FORMATS)
    @pytest.mark.parametrize("name", ["", None, 5, "mcp.server/tool", "9", "ü", "n" * 200])
    def test_a_tool_name_is_made_legal(self, format, name):
        body, _ = dump([u(), t(name=name), r()], format)
        assert violations(body, format) == []

    def test_two_tool_names_never_become_one(self):
        body, repairs = dump(
            [u(), t("1", name="a.b"), t("2", name="a/b"), r("1"), r("2")], "openai"
        )
        names = {call["function"]["name"] for call in body["messages"][1]["tool_calls"]}
        assert len(names) == 2
        assert all(name.startswith("a_b_") for name in names)
        assert [repair.rule for repair in repairs] == ["name", "name"]


class TestArguments:
    @pytest.mark.parametrize(
        ("stored", "sent"),
        [
            ({"p": 1}, {"p": 1}),
            ('{"p": 1}', {"p": 1}),
            ("", {}),
            (" ", {}),
            ("{broken", {"_invalid_json": "{broken"}),
            ("NaN", {"_invalid_json": "NaN"}),
            ("[1]", {"_value": [1]}),
            ("7", {"_value": 7}),
            ([1], {"_value": [1]}),
            (7, {"_value": 7}),
            (False, {"_value": False}),
        ],
    )
    def test_they_are_an_object_whatever_was_stored(self, stored, sent):
        body, repairs = dump([u(), t("1", stored), r()], "anthropic")
        assert body["messages"][1]["content"][0]["input"] == sent
        assert [repair.rule for repair in repairs] == ["arguments"] * bool(
            {"_value", "_invalid_json"} & set(sent)
        )

    def test_arguments_that_only_look_mended_are_left_alone(self):
        assert rules([u(), t("1", {"_value": 1}), r()]) == []

    def test_missing_arguments_are_none(self):
        events = [u(), ("tool_call", None, {"id": "1", "name": "f"}), r()]
        assert dump(events, "anthropic").body["messages"][1]["content"][0]["input"] == {}


class TestBlanks:
    @pytest.mark.parametrize("blank", ["", " ", "\n\t "])
    @pytest.mark.parametrize("kind", ["user", "assistant", "system"])
    def test_blank_text_is_dropped_before_it_could_part_anything(self, kind, blank):
        events = [u(), t("1"), (kind, blank, None), t("2"), r("1"), r("2")]
        assert story(events)[1] == ("assistant", None, "1", "2")
        assert rules(events) == [("blank", 2)]

    def test_a_blank_output_says_so(self):
        assert story([u(), t(), r("1", " ")])[2] == ("tool", NO_OUTPUT, "1")
        assert rules([u(), t(), r("1", "")]) == [("blank", 2)]


class TestAlternation:
    @pytest.mark.parametrize("format", ALTERNATING)
    def test_neighbours_of_one_role_are_merged_results_first(self, format):
        body, repairs = dump([u("1"), u("2"), t(), r(), u("3")], format)
        messages = body.get("messages") or body["contents"]
        assert [message["role"] for message in messages][0::2] == ["user", "user"]
        assert len(messages) == 3
        assert repairs == []

    @pytest.mark.parametrize("format", ALTERNATING)
    def test_two_answers_are_never_glued_together(self, format):
        body, repairs = dump([u(), a("1"), a("2"), u()], format)
        assert CONTINUE in str(body)
        assert [(repair.rule, repair.at) for repair in repairs] == [("alternate", 2)]

    @pytest.mark.parametrize("format", ALTERNATING)
    def test_the_user_begins_and_has_the_last_word(self, format):
        body, repairs = dump([a(), u(), a()], format)
        assert str(body).index(RESUMED) < str(body).index(CONTINUE)
        assert [repair.at for repair in repairs] == [0, 2]
        assert violations(body, format) == []

    @pytest.mark.parametrize("format", ["openai", "openai-responses"])
    def test_where_roles_are_free_nothing_is_added(self, format):
        body, repairs = dump([a("1"), a("2")], format)
        assert len(body.get("messages") or body["input"]) == 2
        assert repairs == []

    @pytest.mark.parametrize("format", FORMATS)
    def test_nothing_said_is_a_user_who_resumes(self, format):
        for events in ([], [u(" ")], [r("9")]):
            body, repairs = dump(events, format)
            assert RESUMED in str(body)
            assert repairs[-1].rule == "alternate"
            assert violations(body, format) == []


class TestSystem:
    def test_leading_system_text_goes_on_top(self):
        events = [s("1"), s("2"), u()]
        assert dump(events, "anthropic").body["system"] == [
            {"type": "text", "text": "1"},
            {"type": "text", "text": "2"},
        ]
        assert dump(events, "gemini").body["systemInstruction"] == {
            "parts": [{"text": "1"}, {"text": "2"}]
        }
        assert dump(events, "bedrock").body["system"] == [{"text": "1"}, {"text": "2"}]
        assert dump(events, "openai-responses").body["instructions"] == "1\n\n2"
        assert story(events) == [("system", "1"), ("system", "2"), ("user", "u")]

    @pytest.mark.parametrize("format", ALTERNATING)
    def test_later_system_text_is_marked_user_text(self, format):
        body, repairs = dump([u(), s("careful"), a(), u()], format)
        assert "<system>\\ncareful\\n</system>" in str(body)
        assert [(repair.rule, repair.at) for repair in repairs] == [("system", 1)]

    @pytest.mark.parametrize("format", ["openai", "openai-responses"])
    def test_or_stays_where_that_is_legal(self, format):
        body, repairs = dump([u(), s("careful"), a()], format)
        assert (body.get("messages") or body["input"])[1] == {
            "role": "system",
            "content": "careful",
        }
        assert repairs == []


class TestOddLogs:
    """On the way out nothing raises, and what is left is legal."""

    ODD = (
        Message("thought", "hm"),
        Message("user", 5),  # type: ignore[arg-type]
        Message("user", None),
        Message("user", "half \ud800 of it"),
        Message("assistant", "x", [1]),  # type: ignore[arg-type]
        Message("tool_call", None, "text"),  # type: ignore[arg-type]
        Message(
            "tool_call",
            None,
            {"id": {}, "name": [], "arguments": {"x": float("nan"), "y": object()}},
        ),
        Message("tool_call", None, {"id": "1", "name": "f", "arguments": {1: {2: (3,)}}}),
        Message("tool_result", None, None),
        Message(
            "tool_result",
            "out",
            {"id": "1", "native": {"provider": "openai", "wire": {"role": "tool"}}},
        ),
        Message(
            "user", "hi", {"native": {"provider": "anthropic", "wire": [{"type": "tool_use"}]}}
        ),
        Event.of(1, "tool_call", None, '{"id": "x", "name": "f", "arguments": {"n": NaN}}'),
        Event.of(2, "tool_call", None, "{broken"),
        Event.of(3, "tool_result", "out", '"text"'),
        Event.of(
            4, "assistant", "hi", '{"native": {"provider": "openai", "wire": {"\\ud800": 1}}}'
        ),
        Event.of(5, "mark", None, '{"label": "x"}'),
        ("user",),
        (),
        (5, "x"),
    )

    @pytest.mark.parametrize("format", FORMATS)
    @pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
    def test_one_odd_message(self, format, odd):
        body, _ = dump([u(), odd, u("go on")], format)
        assert violations(body, format) == []

    @pytest.mark.parametrize("format", FORMATS)
    def test_all_of_them(self, format):
        body, _ = dump(self.ODD, format)
        assert violations(body, format) == []

    def test_an_unknown_kind_is_told_with_its_position(self):
        [repair] = dump([Message("thought", "hm", seq=7), u()], "openai").repairs
        assert (repair.rule, repair.at) == ("kind", 7)
        assert "'thought'" in repair.why

    def test_what_steers_the_log_is_skipped_without_a_word(self):
        assert rules([u(), ("mark", None, {"label": "x"}), ("clear", None, None)]) == []

    def test_repairs_name_the_event_by_its_position(self):
        events = [
            Event.of(10, "user", "hi"),
            Event.of(12, "tool_call", None, {"id": "1", "name": "f"}),
        ]
        assert rules(events) == [("close", 12)]

    @pytest.mark.parametrize("format", FORMATS)
    @pytest.mark.parametrize(
        ("arguments", "rule"),
        [
            ('{"a": 1e999}', "data"),
            ('{"a": -Infinity}', "data"),
            ('"{\\"a\\": 1e999}"', "arguments"),
            ('"{\\"a\\": ' + "[" * 300 + "]" * 300 + '}"', "arguments"),
        ],
    )
    def test_what_json_cannot_carry_is_replaced_and_told(self, format, arguments, rule):
        data = '{"id":"1","name":"f","arguments":' + arguments + "}"
        events = [Event.of(1, "user", "u"), Event.of(2, "tool_call", None, data)]
        body, repairs = dump([*events, Event.of(3, "tool_result", "out", {"id": "1"})], format)
        assert [(repair.rule, repair.at) for repair in repairs] == [(rule, 2)]
        assert violations(body, format) == []
        json.dumps(body, allow_nan=False)


class TestErrors:
    @pytest.mark.parametrize("format", FORMATS)
    def test_a_flag_that_the_format_cannot_carry_is_told(self, format):
        events = [u(), t(), r("1", "no such file", error=True)]
        expected = [] if format in ALTERNATING else [("error", 2)]
        assert rules(events, format) == expected
        assert rules([Event.of(n, *event) for n, event in enumerate(events)], format) == expected
