"""The chain of digests, and erased events, which keep their digests."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory import Event
from backstory.log.chain import (
    SALT_WIDTH,
    START,
    WIDTH,
    LogEnd,
    build_rows,
    build_tail,
    combine_digests,
    digest_row,
    digest_tail,
    digest_texts,
    empty_request_digests,
    link,
)
from backstory.log.data_keys import ERASED
from backstory.log.erasure import (
    build_stand_in,
    erase_row,
    find_erasure_problem,
    is_erased,
    replace_erased_digests,
)
from backstory.log.events import Draft, StoredRow, parse_object, to_json

TIME = 1_700_000_000_000_000
SALT = b"8 random"
ROW = StoredRow(3, "user", "Hello", '{"a":1}', TIME, None, None, b"", SALT)


def test_another_program_can_compute_a_digest():
    by_hand = sha256(
        bytes(16)
        + (3).to_bytes(8)
        + TIME.to_bytes(8)
        + b"\xff" * 8
        + b"user\0\0"
        + sha256(SALT + b"Hello").digest()
        + sha256(SALT + b'{"a":1}').digest()
    ).digest()[:16]
    assert digest_row(START, ROW, {"a": 1}) == by_hand


@pytest.mark.parametrize(
    "change",
    [
        {"seq": 4},
        {"kind": "assistant"},
        {"created_us": 1},
        {"base": 0},
        {"base": 2},
        {"key": "k"},
        {"content": "Hello!"},
        {"content": None},
        {"content": ""},
        {"data_json": '{"a": 1}'},
        {"data_json": None},
        {"salt": b"88888888"},
    ],
    ids=str,
)
def test_digest_changes_with_every_column(change):
    assert digest_row(START, ROW._replace(**change), None) != digest_row(START, ROW, None)


def test_digest_changes_with_the_digest_before_it():
    assert digest_row(b"\1" * WIDTH, ROW, None) != digest_row(START, ROW, None)


SHORT_TEXT = st.text("abc", max_size=3)


@given(SHORT_TEXT, SHORT_TEXT, SHORT_TEXT, SHORT_TEXT)
def test_text_cannot_move_from_the_kind_into_the_key(kind, key, other_kind, other_key):
    texts = digest_texts("Hello", None, SALT)
    is_same = build_tail(kind, None, key, texts) == build_tail(other_kind, None, other_key, texts)
    assert is_same == ((kind, key) == (other_kind, other_key))


def test_no_text_and_the_empty_text_have_different_digests():
    nothing = digest_texts(None, None, SALT)
    assert nothing == (bytes(32), bytes(32)) != digest_texts("", "", SALT)


def test_digest_does_not_cover_the_digests_of_requests():
    asked = '{"request":{"sha256":"%s","model":"m"}}'
    row = ROW._replace(data_json=asked % ("a1" * 32))
    emptied = row._replace(data_json=empty_request_digests(row.data_json))
    assert emptied.data_json == asked % ""
    assert digest_row(START, emptied, None) == digest_row(START, row, None)
    other = ROW._replace(data_json=asked % "a1")
    assert empty_request_digests(other.data_json) == other.data_json
    assert digest_row(START, other, None) != digest_row(START, row, None)
    assert empty_request_digests(None) is None


FILE_DIGEST = "a1" * 32
OTHER_DIGESTS = [
    {"id": "c", "name": "chk", "arguments": {"sha256": FILE_DIGEST}},
    {"sha256": FILE_DIGEST},
    {"request": {"options": {"sha256": FILE_DIGEST}}},
    {"request": [{"sha256": FILE_DIGEST}]},
    {"arguments": {"request": {"sha256": FILE_DIGEST}}},
]


@pytest.mark.parametrize("data", OTHER_DIGESTS, ids=str)
def test_digest_covers_every_sha256_outside_of_the_request(data):
    row = ROW._replace(data_json=to_json(data))
    emptied = row._replace(data_json=row.data_json.replace(FILE_DIGEST, ""))
    assert empty_request_digests(row.data_json) == row.data_json
    assert digest_row(START, row, None) != digest_row(START, emptied, None)


NAMES = st.sampled_from(["request", "sha256", "a", '"', "\\", "{"])
VALUES = st.recursive(
    st.sampled_from([FILE_DIGEST, "", None, 1, 1.5, 10**400, "request", '"sha256":"', "}{"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=4),
)


@given(st.dictionaries(NAMES, VALUES, max_size=4), VALUES)
def test_only_the_digest_of_the_request_is_emptied(data, request):
    data["request"] = {"a": request, "sha256": FILE_DIGEST, "b": request}
    data["z"] = request
    text = to_json(data)
    data["request"]["sha256"] = ""
    assert empty_request_digests(text) == to_json(data)


@pytest.mark.parametrize(
    "text", ['{"request":{"sha256":"%s"', '{"a":' * 100_000 + '"sha256":"%s"', ""]
)
def test_text_that_is_no_json_is_left_as_it_is(text):
    text = text.replace("%s", FILE_DIGEST)
    assert empty_request_digests(text) == text


def test_older_events_whose_digest_does_not_cover_a_sha256_stay_valid_and_can_be_erased():
    """An earlier version emptied every `"sha256"` in the data before it computed a digest."""
    data = {"arguments": {"sha256": FILE_DIGEST}, "id": "c", "name": "chk"}
    row = ROW._replace(kind="tool_call", data_json=to_json(data))
    older = row._replace(data_json=row.data_json.replace(FILE_DIGEST, ""))
    previous = b"\1" * WIDTH
    row = row._replace(digest=digest_row(previous, older, None))
    assert digest_row(previous, row, data) == row.digest
    content, data_json = erase_row(row, "now", "asked", previous)
    erased = row._replace(content=content, data_json=data_json, salt=None)
    assert digest_row(previous, erased, erased.event.data) == row.digest


def test_digests_from_before_the_salts_are_replaced_in_erased_events():
    digests = {"content": sha256(b"my pin").hexdigest(), "data": bytes(32).hex()}
    old = to_json({"erased": {"at": "now", "why": "asked", **digests}, "answer": "x"})
    new = parse_object(replace_erased_digests(old, b"random"))
    assert new["answer"] == "x"
    assert new["erased"]["content"] not in (digests["content"], bytes(32).hex())
    assert new["erased"]["data"] == bytes(32).hex()
    assert find_erasure_problem("user", "", new) is None


def test_digest_of_a_store_does_not_depend_on_the_order_of_its_agents():
    heads = [("b", b"2" * 16), ("a", b"1" * 16)]
    assert combine_digests(heads) == combine_digests(heads[::-1]) != combine_digests(heads[:1])


def test_data_that_only_mentions_an_erasure_is_not_erased():
    erased = '{"erased":{"content":"","data":""}}'
    assert is_erased(erased)
    assert not is_erased(f'{{"output":{erased}}}')
    assert not is_erased(None)


@pytest.mark.parametrize(
    ("kind", "data_json", "links"),
    [
        ("user", '{"copy_of":1,"answer":"x","by":"me"}', {"copy_of": 1, "answer": "x"}),
        ("user", None, {}),
        (
            "jump",
            '{"target_message_id":2,"undo":true,"by":"me"}',
            {"target_message_id": 2, "undo": True},
        ),
        ("tool_call", '{"id":"c","name":"f","arguments":{"a":1}}', {"id": "c", "name": "f"}),
        ("tool_result", '{"id":"c","name":"f"}', {"id": "c"}),
    ],
)
def test_erased_row_keeps_its_digest_and_its_links(kind, data_json, links):
    row = ROW._replace(kind=kind, data_json=data_json)
    content, erased_json = erase_row(row, "2026-01-01T00:00:00Z", "a name")
    data = parse_object(erased_json)
    assert content == ""
    assert is_erased(erased_json)
    assert {name: value for name, value in data.items() if name != ERASED} == links
    assert find_erasure_problem(kind, content, data) is None

    erased_row = row._replace(content=content, data_json=erased_json, salt=None)
    assert digest_row(START, erased_row, data) == digest_row(START, row, None)
    assert erase_row(erased_row, "later", "again")[1] != erased_json
    texts = digest_texts(row.content, data_json, SALT)
    assert digest_texts(content, erased_json, None, data) == texts


def test_erased_row_without_content_stays_without_content():
    assert erase_row(ROW._replace(content=None), "now", "a name")[0] is None


DIGEST = "0" * 64
ERASURE = {"at": "2026-01-01T00:00:00Z", "why": "a name", "content": DIGEST, "data": DIGEST}
INCOMPLETE = "its erasure record is incomplete"
NOT_EMPTY = "it still contains text or data, although it is erased"


@pytest.mark.parametrize(
    ("kind", "content", "data", "problem"),
    [
        ("user", "", {ERASED: ERASURE}, None),
        ("user", "", {ERASED: 5}, INCOMPLETE),
        ("user", "", {ERASED: ERASURE | {"more": 1}}, INCOMPLETE),
        (
            "user",
            "",
            {ERASED: ERASURE | {"data": "?"}},
            "it does not have the digests of what was erased",
        ),
        ("user", "Words.", {ERASED: ERASURE}, NOT_EMPTY),
        ("user", "", {ERASED: ERASURE, "id": "c"}, NOT_EMPTY),
        ("tool_call", None, {ERASED: ERASURE, "id": "c"}, None),
        ("tool_call", None, {ERASED: ERASURE, "target_message_id": 1}, NOT_EMPTY),
        ("rewind", None, {ERASED: ERASURE, "target_message_id": 1}, None),
    ],
)
def test_contradiction_of_an_erased_event_is_described(kind, content, data, problem):
    assert find_erasure_problem(kind, content, data) == problem


def test_only_erased_calls_and_results_have_stand_ins():
    data = {ERASED: ERASURE, "id": "c", "name": "f"}
    call = build_stand_in(Event.of(3, "tool_call", None, data))
    assert (call.content, call.data["arguments"], call.seq) == (None, {ERASED: "(erased)"}, 3)
    result = build_stand_in(Event.of(4, "tool_result", "", data))
    assert (result.content, result.data, result.seq) == ("(erased)", {"id": "c"}, 4)
    assert build_stand_in(Event.of(5, "user", "", {ERASED: ERASURE})) is None


# --- the rows that new events become ---

DRAFTS = st.builds(
    Draft,
    st.sampled_from(["user", "assistant"]),
    st.none() | st.text(),
    st.none() | st.text(),
    st.none() | st.text("kx", min_size=1),
    st.none() | st.integers(0, 9),
    st.none() | st.integers(0, 20),
)


@given(st.lists(DRAFTS, max_size=6), st.integers(0, 20), st.integers(0, 20))
def test_rows_continue_the_log_and_each_digest_covers_its_row(drafts, last_us, now_us):
    end = LogEnd(4, last_us, b"d" * WIDTH)
    salts = [bytes([n] * SALT_WIDTH) for n in range(len(drafts))]
    rows, new_end = build_rows(end, drafts, now_us, salts)
    time, digest = end.last_us, end.digest
    for seq, (draft, row) in enumerate(zip(drafts, rows, strict=True), 5):
        time = max(time, now_us if draft.created_us is None else draft.created_us)
        assert row.event == draft.to_event(seq, time)
        assert row.base == draft.base
        assert row.digest == digest_row(digest, row, None)
        assert row.salt == salts[seq - 5]
        assert row.digest == link(digest, seq, time, digest_tail(draft, row.salt))
        digest = row.digest
    assert new_end == LogEnd(4 + len(drafts), time, digest)
