"""The laws of the wire over logs full of native content: what providers made, cut and mixed anyhow."""

from __future__ import annotations

import base64
import copy
import json
import re
from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from backstory import Event
from backstory.log.messages import TEXT_KINDS
from backstory.wire import FORMATS, dump, load
from backstory.wire.conversation import conversation_of
from backstory.wire.tokens import count_tokens
from tests.wire.histories import histories
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
from tests.wire.logs import GARBAGE_VALUES, MODELS, NATIVE_LISTS, context_of
from tests.wire.maker import History
from tests.wire.rules import violations

MARK = re.compile(r"«[^»]*»|#\d+#")
OPUS = "claude-opus-5"  # takes system messages between others
KEYS = ("messages", "input", "instructions", "system", "contents", "systemInstruction")


@laws
@given(histories())
def test_the_laws_hold_for_what_a_provider_made(history):
    hold(OF_A_PROVIDERS_HISTORY, history)


@laws
@given(NATIVE_LISTS, st.sampled_from(MODELS))
def test_the_laws_hold_for_any_log_with_native_content(operations, model):
    hold(OF_MIXED_LOGS, Log(context_of(operations), model))


@laws
@given(NATIVE_LISTS, st.sampled_from(MODELS), st.randoms(use_true_random=False), GARBAGE_VALUES)
def test_the_laws_hold_for_broken_native_forms(operations, model, choice, garbage):
    events = context_of(operations)
    a_broken_native_form_does_not_reach_a_provider(
        [broken(event, choice, garbage) for event in events], model
    )
    foreign = {"type": garbage, "": garbage}
    a_form_of_a_foreign_type_never_raises(
        [broken(event, choice, foreign) for event in events], model
    )


# --- of a provider's history ---


def the_history_that_is_drawn_is_legal(history: History) -> None:
    assert violations(history.body, history.format, strict=False, stored=history.stored) == []


def what_a_provider_made_comes_back_to_it_as_it_was(history: History) -> None:
    events = load(history.body, history.format, model=history.model)
    body, repairs = dump(events, history.format, model=history.model, stored=history.stored)
    assert repairs == []
    assert said(body) == said(history.body)


def what_a_provider_made_goes_to_all_others(history: History) -> None:
    events = load(history.body, history.format, model=history.model)
    marks = [mark for event in events for mark in MARK.findall(event[1] or "")]
    for format in FORMATS:
        body, _ = dump(events, format)
        assert violations(body, format, strict=False) == []
        told = "\n".join(strings(body))
        assert [mark for mark in marks if mark not in told] == []


OF_A_PROVIDERS_HISTORY = [
    the_history_that_is_drawn_is_legal,
    what_a_provider_made_comes_back_to_it_as_it_was,
    what_a_provider_made_goes_to_all_others,
]


# --- of any log with native content ---


def every_dump_is_accepted(log: Log) -> None:
    for format in FORMATS:
        assert violations(log.dump(format).body, format, strict=False, model=log.model) == []
        stored = log.dump(format, stored=True).body
        assert violations(stored, format, strict=False, stored=True, model=log.model) == []


def a_dump_before_the_open_calls_run_is_accepted_but_for_them(log: Log) -> None:
    for format in FORMATS:
        body = log.dump(format, pending=True).body
        assert violations(body, format, strict=False, pending=True, model=log.model) == []


def no_text_is_lost_and_none_comes_twice(log: Log) -> None:
    for format in FORMATS:
        for event in log.events:
            if event.kind in TEXT_KINDS:
                for mark in MARK.findall(event.content or ""):
                    assert log.said[format].count(mark) == 1


def system_messages_inside_stand_where_the_model_takes_them(log: Log) -> None:
    body, _ = dump(log.events, "anthropic", model=OPUS, system_inside=True)
    assert violations(body, "anthropic", strict=False, model=OPUS) == []


OF_MIXED_LOGS = [
    every_dump_is_accepted,
    a_dump_before_the_open_calls_run_is_accepted_but_for_them,
    no_text_is_lost_and_none_comes_twice,
    system_messages_inside_stand_where_the_model_takes_them,
    loading_a_dump_and_dumping_it_again_changes_nothing,
    dumping_twice_gives_the_same_bytes,
]


@laws
@given(NATIVE_LISTS, NATIVE_LISTS, st.sampled_from(MODELS))
def test_appending_extends_the_earlier_dump(operations, more, model):
    later = [*operations, ("user", "and now"), *(op for op in more if op[0] in GROWING)]
    before, after = context_of(operations), context_of(later)
    for format in FORMATS:
        early, repairs = dump(before, format, model=model)
        if any(repair.rule == "close" or repair.at is None for repair in repairs):
            continue  # an open call, whose result may still come; or nothing said yet
        kept = without_last_words(pieces(early, format), repairs)
        assert pieces(dump(after, format, model=model).body, format)[: len(kept)] == kept


GROWING = {"user", "assistant", "system", "call", "native", "history"}


# --- of broken forms ---


def a_broken_native_form_does_not_reach_a_provider(events: list[Event], model: str | None) -> None:
    for format in FORMATS:
        body, _ = dump(events, format, model=model)
        assert violations(body, format, strict=False, model=model) == []


def a_form_of_a_foreign_type_never_raises(events: list[Event], model: str | None) -> None:
    count_tokens(events, model)
    for format in FORMATS:
        dump(events, format, model=model)
        conversation_of(events).to_bytes(format, model=model)


def broken(event: Event, choice: Any, garbage: Any) -> Event:
    """The event with something else at one place of its native form, or with a piece of a text missing.

    Types stay: whether an unknown one is broken or only newer than we are, nobody can tell.
    """
    data = copy.deepcopy(event.data)
    native = data.get("native") if data else None
    if not isinstance(native, dict) or choice.random() < 0.5:
        return event
    *parents, last = choice.choice(
        [path for path in paths(native) if path[-1] not in ("type", "provider")]
    )
    inside: Any = native
    for key in parents:
        inside = inside[key]
    value = inside[last]
    inside[last] = (
        value[: len(value) // 2] if isinstance(value, str) and choice.random() < 0.5 else garbage
    )
    return Event.of(event.seq, event.kind, event.content, json.dumps(data))


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a value but the value itself."""
    children = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for key, child in children:
        yield (*path, key)
        yield from paths(child, (*path, key))


def said(body: dict[str, Any]) -> str:
    """The history in a body, blobs as base64; the order of keys says nothing."""
    return json.dumps(
        {key: body[key] for key in KEYS if key in body},
        ensure_ascii=False,
        sort_keys=True,
        default=lambda blob: base64.b64encode(blob).decode(),
    )
