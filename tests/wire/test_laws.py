"""The laws of the wire, over random logs: whatever happened to a log, this holds."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.log.events import Event
from backstory.log.kinds import TEXT_KINDS
from backstory.log.messages import Message
from backstory.wire import FORMATS, dump, load, to_bytes
from tests.wire.laws import (
    Log,
    dumping_twice_gives_the_same_bytes,
    hold,
    laws,
    loading_a_dump_and_dumping_it_again_changes_nothing,
    pieces,
    strings,
    without_last_words,
)
from tests.wire.logs import (
    DAMAGE,
    MODELS,
    OPERATION_LISTS,
    context_of,
    legal_histories,
    native_forms,
)
from tests.wire.rules import violations
from tests.wire.sdk_types import check

FLAGGED = (
    "anthropic",
    "gemini",
    "bedrock",
)  # the formats where a result can say that it is an error
History = list[tuple[str, str | None, dict[str, Any] | None]]


@laws
@given(OPERATION_LISTS, DAMAGE, st.sampled_from(MODELS))
def test_the_laws_hold_for_any_log(operations, damage, model):
    hold(OF_ANY_LOG, Log(context_of(operations, damage), model))


@pytest.mark.parametrize("first", range(len(native_forms("words", 1))))
def test_the_laws_hold_for_any_two_native_forms_in_a_row(first):
    for second in range(len(native_forms("words", 1))):
        hold(OF_ANY_LOG, Log(context_of([("native", first, None), ("native", second, None)]), None))


@laws
@given(legal_histories())
def test_the_laws_hold_for_legal_histories(history):
    hold(OF_LEGAL_HISTORIES, history)


# --- of any log ---


def every_dump_is_accepted_and_fits_the_sdk(log: Log) -> None:
    for format in FORMATS:
        body = log.dump(format).body
        assert violations(body, format, model=log.model) == []
        check(signed(body), format)


def signed(value: Any) -> Any:
    """The same with a signature in all thinking, as Anthropic's SDK wants it: other servers sign nothing."""
    if isinstance(value, dict):
        more = {"signature": ""} if value.get("type") == "thinking" else {}
        return more | {key: signed(item) for key, item in value.items()}
    return [signed(item) for item in value] if isinstance(value, list) else value


def a_dump_before_the_open_calls_run_is_accepted_but_for_them(log: Log) -> None:
    for format in FORMATS:
        body = log.dump(format, pending=True).body
        assert violations(body, format, pending=True, model=log.model) == []


def no_text_is_lost_and_none_comes_twice(log: Log) -> None:
    for format in FORMATS:
        for event in log.events:
            if event.kind in TEXT_KINDS and event.content and event.content.strip():
                assert log.said[format].count(event.content) == 1


def system_text_is_never_taken_for_the_users(log: Log) -> None:
    for format in ("anthropic", "gemini", "bedrock"):
        body = log.dump(format).body
        on_top = "\n".join(strings([body.get("system"), body.get("systemInstruction")]))
        for event in log.events:
            if event.kind == "system" and event.content and event.content.strip():
                marked = f"<system>\n{event.content}\n</system>"
                assert event.content in on_top or marked in log.said[format]


OF_ANY_LOG = [
    every_dump_is_accepted_and_fits_the_sdk,
    a_dump_before_the_open_calls_run_is_accepted_but_for_them,
    no_text_is_lost_and_none_comes_twice,
    system_text_is_never_taken_for_the_users,
    loading_a_dump_and_dumping_it_again_changes_nothing,
    dumping_twice_gives_the_same_bytes,
]


# --- of legal histories ---


def the_dump_of_a_legal_history_repairs_nothing(history: History) -> None:
    failed = [
        ("error", index) for index, (_, _, data) in enumerate(history) if data and data.get("error")
    ]
    for format in FORMATS:
        body, repairs = dump(history, format)
        told = [(repair.rule, repair.at) for repair in repairs]
        assert told == (
            [] if format in FLAGGED else failed
        )  # a flag that the format has no place for
        assert violations(body, format, gemini_signatures=True) == []


def loading_the_dump_of_a_legal_history_says_the_same(history: History) -> None:
    for format in FORMATS:
        loaded = load(dump(history, format).body, format)
        assert said(loaded, errors=format in FLAGGED) == said(history, errors=format in FLAGGED)


def events_and_messages_of_a_legal_history_give_the_same_request(history: History) -> None:
    events = [Event.of(seq, *event) for seq, event in enumerate(history, 1)]
    messages = [Message(event.kind, event.content, event.data, seq=event.seq) for event in events]
    for format in FORMATS:
        assert dump(events, format) == dump(messages, format)
        assert to_bytes(events, format) == to_bytes(messages, format)


OF_LEGAL_HISTORIES = [
    the_dump_of_a_legal_history_repairs_nothing,
    loading_the_dump_of_a_legal_history_says_the_same,
    events_and_messages_of_a_legal_history_give_the_same_request,
]


# --- of logs that grow ---


@laws
@given(OPERATION_LISTS, OPERATION_LISTS)
def test_appending_extends_the_earlier_dump(operations, more):
    later = [*operations, ("user", "and now"), *(op for op in more if op[0] in GROWING)]
    before, after = context_of(operations), context_of(later)
    for format in FORMATS:
        early, repairs = dump(before, format)
        if any(repair.rule == "close" or repair.at is None for repair in repairs):
            continue  # an open call, whose result may still come; or nothing said yet
        kept = without_last_words(pieces(early, format), repairs)
        assert pieces(dump(after, format).body, format)[: len(kept)] == kept


GROWING = {"user", "assistant", "system", "call", "native"}


def said(events: list[Any], *, errors: bool) -> list[Any]:
    """What events say: texts joined where one speaker has several, calls and results without ids, and
    whether these are errors where the format can say it."""
    told: list[list[Any]] = []
    ids: dict[Any, int] = {}
    for kind, content, data in events:
        if kind == "tool_call":
            ids[data["id"]] = len(ids)
            told.append([kind, data["name"], json.dumps(data["arguments"])])
        elif kind == "tool_result":
            told.append([kind, ids[data["id"]], content, errors and data.get("error", False)])
        elif told and told[-1][0] == kind and kind != "assistant":
            told[-1][1] += "\n\n" + content
        else:
            told.append([kind, content])
    return told
