"""Erased events, labels and outlines, as values: what contradicts itself is said, what is odd is nothing."""

import pytest

from backstory import Event, Invalid
from backstory.log.chain import ERASED
from backstory.log.compaction import _presentable
from backstory.log.drafts import author
from backstory.log.erasure import wrong_erasure
from backstory.log.events import to_json
from backstory.log.labels import labels_in
from backstory.log.outline import OutlineRow, outline_rows

DIGEST = "0" * 64
ERASURE = {"at": "2026-01-01T00:00:00Z", "why": "a name", "content": DIGEST, "data": DIGEST}


@pytest.mark.parametrize(
    ("content", "data", "why"),
    [
        ("", {ERASED: ERASURE}, None),
        ("", {ERASED: 5}, "what it says about its erasure is not complete"),
        ("", {ERASED: ERASURE | {"more": 1}}, "what it says about its erasure is not complete"),
        ("", {ERASED: ERASURE | {"data": "?"}}, "it does not have the digests of what was erased"),
        ("Words.", {ERASED: ERASURE}, "it says something, although it is erased"),
        ("", {ERASED: ERASURE, "said": "Words."}, "it says something, although it is erased"),
    ],
)
def test_what_contradicts_an_erasure_is_said(content, data, why):
    assert wrong_erasure("user", content, data) == why


def test_an_erased_message_has_nothing_that_a_compaction_could_copy():
    assert _presentable(Event.of(3, "user", "", to_json({ERASED: ERASURE}))) is None
    call = _presentable(
        Event.of(3, "tool_call", None, to_json({ERASED: ERASURE, "id": "1", "name": "f"}))
    )
    assert call is not None
    assert (call.data or {})["copy_of"] == 3


def test_a_label_that_names_nothing_is_nothing():
    notes = [
        Event.of(1, "note", "backstory.label", to_json({"label": "here", "at": 1})),
        Event.of(2, "note", "backstory.label", to_json({"label": 5})),
    ]
    assert labels_in(notes) == {"here": 1}


def test_the_rows_of_a_database_become_an_outline():
    assert outline_rows([(1, "user", 5, 0, None)]) == [OutlineRow(1, "user", 5, 0, None)]


def test_an_author_has_a_name():
    with pytest.raises(Invalid, match="by=5 is not a name"):
        author(5)  # type: ignore[arg-type]
