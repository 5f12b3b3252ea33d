"""Drafts with their texts as bytes: the same events, and the same refusals, as drafts with texts."""

import enum
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backstory.errors import Invalid
from backstory.log.drafts import DEEPEST, EncodedDraft, draft, encoded, encoded_draft
from backstory.log.events import EncodedRow, Stored, decoded_rows
from backstory.log.kinds import KINDS


class Word(enum.StrEnum):
    USER = "user"


def nested(levels):
    value = {}
    for _ in range(levels):
        value = {"within": value}
    return value


TEXTS = st.text(max_size=20) | st.sampled_from(
    ["\ud800", "\0", "\r\n", "“é”", "\U0001f600", Word.USER]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(TEXTS, inside, max_size=3),
    max_leaves=8,
)
DATA = (
    st.none()
    | VALUES
    | st.dictionaries(st.sampled_from(["id", "name", "arguments", "erased", "meta"]), VALUES)
)
CONTENTS = st.none() | TEXTS | st.integers() | st.binary(max_size=3)
KEYS = st.none() | TEXTS | st.just("k" * 1_001) | st.integers()


def outcome(make):
    """What was made, down to the types of its values, or how it was refused."""
    try:
        made = make()
        return made, [type(value) for value in made]
    except Invalid as error:
        return type(error), error.message, error.remedy


@given(
    st.sampled_from(sorted(KINDS)) | st.sampled_from([Word.USER, "unknown", None]),
    CONTENTS,
    DATA,
    KEYS,
)
@example("tool_call", None, {"id": "1", "name": "look", "arguments": {}}, "key")
@example("tool_call", None, None, None)
@example("user", "\ud800", None, None)
@example("user", "a\0b", {"a": 1}, None)
@example("user", "“text”", {"a": "\ud800"}, None)
@example("user", "text", {"a": "\0"}, None)
@example("user", "text", {"a": 2**70}, None)
@example("user", "text", {"a": math.inf}, None)
@example("user", "text", {"a": None}, None)
@example("user", "text", {"erased": {}}, None)
@example("user", "text", {1: 2}, None)
@example("user", "text", nested(DEEPEST), None)
@example("user", "text", nested(DEEPEST + 1), None)
@example("user", "text", {"wide": [{}] * 200}, None)
@example("user", None, None, None)
@example("user", "text", None, "")
@example("mark", None, None, None)
def test_a_draft_of_bytes_is_the_draft_of_the_texts(kind, content, data, key):
    def of_texts():
        return encoded(draft(kind, content, data, key, is_parsed=True))

    assert outcome(lambda: encoded_draft(kind, content, data, key)) == outcome(of_texts)


@pytest.mark.parametrize(
    ("content", "data"), [(None, None), ("“said”", None), (None, '{"a":"é"}'), ("", "{}")]
)
def test_bytes_are_the_same_event_to_those_who_take_texts(content, data):
    texts = (None if text is None else text.encode() for text in (content, data))
    draft = EncodedDraft("user", *texts, "key")
    assert draft.decoded == ("user", content, data, "key")
    row = EncodedRow(3, "user", draft.content, draft.data, 5, "key", None, b"digest")
    assert decoded_rows([row]) == [Stored(3, "user", content, data, 5, "key", None, b"digest")]
