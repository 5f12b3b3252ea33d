"""The chain: a digest changes with everything it covers, and with nothing else."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backstory.log.chain import (
    START,
    WIDTH,
    digest,
    digest_of,
    digest_of_bytes,
    ending,
    has_erased,
    inner,
    overall,
)

EVENT = {
    "previous": START,
    "seq": 3,
    "kind": "user",
    "created_us": 1_700_000_000_000_000,
    "base": None,
    "key": None,
    "within": inner("Hello", '{"a":1}'),
}


def test_a_digest_is_half_a_sha256_of_a_form_that_another_program_can_rebuild():
    by_hand = sha256(
        bytes(16)
        + (3).to_bytes(8)
        + (1_700_000_000_000_000).to_bytes(8)
        + b"\xff" * 8
        + b"user\0\0"
        + sha256(b"Hello").digest()
        + sha256(b'{"a":1}').digest()
    ).digest()[:16]
    assert digest(**EVENT) == by_hand


@pytest.mark.parametrize(
    "change",
    [
        {"previous": b"\1" * 16},
        {"seq": 4},
        {"kind": "assistant"},
        {"created_us": 1},
        {"base": 0},
        {"base": 2},
        {"key": "k"},
        {"within": inner("Hello!", '{"a":1}')},
        {"within": inner("Hello", '{"a": 1}')},
        {"within": inner("Hello", None)},
        {"within": inner(None, '{"a":1}')},
        {"within": inner("", '{"a":1}')},
    ],
    ids=str,
)
def test_whatever_changes_changes_the_digest(change):
    assert digest(**EVENT | change) != digest(**EVENT)


@given(
    st.text("abc", max_size=3),
    st.text("abc", max_size=3),
    st.text("abc", max_size=3),
    st.text("abc"),
)
def test_text_cannot_move_from_the_kind_into_the_key(kind, key, other_kind, other_key):
    same = digest(**EVENT | {"kind": kind, "key": key}) == digest(
        **EVENT | {"kind": other_kind, "key": other_key}
    )
    assert same == ((kind, key) == (other_kind, other_key))


@given(
    st.none() | st.text(),
    st.none() | st.text(),
    st.none() | st.integers(0, 9),
    st.none() | st.text("kx"),
)
def test_all_ways_to_a_digest_give_the_same(content, data, base, key):
    place = (START, 3, "user", 1_700_000_000_000_000, base, key)
    texts = (None if text is None else text.encode() for text in (content, data))
    assert digest_of(*place, content, data) == digest(*place, inner(content, data))
    assert digest_of_bytes(*place, *texts) == digest_of(*place, content, data)


@given(
    st.none() | st.text(),
    st.none() | st.text(),
    st.none() | st.integers(0, 9),
    st.none() | st.text("kx"),
)
def test_a_server_that_adds_position_and_time_to_an_ending_has_the_digest(content, data, base, key):
    texts = [None if text is None else text.encode() for text in (content, data)]
    hashed = START + (3).to_bytes(8) + (1_700_000).to_bytes(8) + ending("user", base, key, *texts)
    whole = digest_of(START, 3, "user", 1_700_000, base, key, content, data)
    assert sha256(hashed).digest()[:WIDTH] == whole


def test_an_erased_event_keeps_its_place_in_the_chain():
    whole = inner("secret", '{"id":"call_1"}')
    kept = {"erased": {"content": whole[0].hex(), "data": whole[1].hex(), "why": "asked for"}}
    assert inner(None, "whatever the row holds now", kept) == whole


def test_what_only_speaks_of_erasure_is_not_erased():
    kept = '{"erased":{"content":"","data":""}}'
    assert has_erased(['{"id":"1"}', kept])
    assert not has_erased(['{"id":"1"}', f'{{"output":{kept}}}'])


def test_nothing_is_not_the_empty_text():
    assert inner(None, None) == (bytes(32), bytes(32)) != inner("", "")


def test_the_digest_over_a_store_does_not_depend_on_the_order_of_its_agents():
    heads = [("b", b"2" * 16), ("a", b"1" * 16)]
    assert overall(heads) == overall(heads[::-1]) != overall(heads[:1])
