"""The shapes of an event, its time, and JSON text."""

import copy
import json
import pickle
import subprocess
import sys
from collections import UserString
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backstory import Event, OutlineRow
from backstory.log.events import Draft, StoredRow
from backstory.log.json_text import copy_exactly, encode_exactly, is_same_json


def test_event_has_its_values_data_and_time():
    at = datetime(2026, 11, 15, 12, 0, 0, 123456, tzinfo=UTC)
    event = Event.of(7, "mark", None, {"label": "x"}, at, key="k")
    assert (event.seq, event.kind, event.content, event.key) == (7, "mark", None, "k")
    assert (event.data, event.created_at, event.label) == ({"label": "x"}, at, "x")


def test_event_takes_data_as_json_text():
    assert Event.of(1, "user", "hi", '{"a": 1}').data_json == '{"a": 1}'
    assert Event.of(1, "user", "hi", {"a": 1}).data_json == '{"a":1}'


def test_changing_the_data_of_an_event_changes_nothing():
    event = Event.of(1, "user", "hi", {"native": {}})
    event.data["native"]["x"] = 1
    assert event.data == {"native": {}}


def test_event_survives_copying_and_pickling():
    event = Event.of(1, "user", "hi", {"a": [1]}, datetime(2026, 1, 1, tzinfo=UTC))
    assert pickle.loads(pickle.dumps(event)) == event
    assert copy.deepcopy(event) == event
    assert type(copy.copy(event)) is Event


def test_repr_of_an_event_shows_its_data():
    assert "kind='user', content='hi', data=None" in repr(Event.of(1, "user", "hi"))
    assert repr(Event.of(1, "user", "hi", key="k")).endswith("key='k')")


@pytest.mark.parametrize(
    "data", [None, {}, {"label": 3}, {"label": None}, "{broken", '["label"]', "[" * 100_000]
)
def test_mark_without_a_usable_label_has_none(data):
    assert Event.of(1, "mark", None, data).label is None


def test_only_marks_have_labels():
    assert Event.of(1, "user", "hi", {"label": "x"}).label is None


def test_draft_becomes_an_event_at_a_position():
    draft = Draft("user", "hi", '{"a":1}', "k", base=2)
    assert draft.to_event(3) == Event.of(3, "user", "hi", {"a": 1}, key="k")
    assert draft.to_event(3, 5).created_us == 5


def test_stored_row_contains_the_event():
    row = StoredRow(3, "user", "a", None, 5, "k", 2, b"digest")
    assert row.event == Event(3, "user", "a", None, 5, "k")


def test_outline_row_has_a_time():
    assert OutlineRow(1, "user", 5, 1_000_000, None).created_at == datetime(
        1970, 1, 1, 0, 0, 1, tzinfo=UTC
    )


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=())),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(JSON_VALUES)
@example(float("nan"))
@example("\ud800")
@example((1, 2))
def test_exact_json_is_parsed_as_the_same_value_by_the_standard_library(value):
    exact = copy_exactly(value)
    if exact is None:
        assert encode_exactly(value) is None
    else:
        assert encode_exactly(value) == exact.text
        assert repr(json.loads(exact.text)) == repr(exact.value) == repr(value)


class Word(str):
    pass


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        2**64,
        "\ud800",
        (1, 2),
        {1: 2},
        {"at": datetime(2026, 1, 1, tzinfo=UTC)},
        {"word": Word("a")},
        UserString("a"),
        b"a",
    ],
    ids=repr,
)
def test_values_that_orjson_would_change_have_no_exact_json(value):
    assert encode_exactly({"value": value}) is None


def test_same_json_ignores_the_order_of_keys_but_not_types():
    assert is_same_json({"a": 1, "b": [2]}, {"b": [2], "a": 1})
    assert not is_same_json({"a": 1}, {"a": True})
    assert not is_same_json([1, 2], [2, 1])


INTERRUPTED_IMPORT = """
import sys
from backstory.log.json_text import encode_exactly

moments = int(sys.argv[1])

def interrupt(frame, event, arg):
    global moments
    moments -= event in ("call", "c_return")
    if moments == 0:
        raise KeyboardInterrupt

sys.setprofile(interrupt)
try:
    encode_exactly({"x": 1})
except KeyboardInterrupt:
    print("interrupted")
sys.setprofile(None)
print(encode_exactly({"x": 1}))
"""


@pytest.mark.parametrize("moment", [500, 1000, 2000])
def test_ctrl_c_during_the_import_of_orjson_does_not_crash_the_interpreter(moment):
    command = [sys.executable, "-c", INTERRUPTED_IMPORT, str(moment)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "interrupted\nb'{\"x\":1}'\n")
