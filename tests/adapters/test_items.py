"""The rule that items come back exactly, and the keys of agents: no framework is needed for it."""

import json
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

import backstory
from backstory import Event
from backstory.adapters.items import all_items, carried, note, people_text, read_items
from backstory.adapters.keys import agent_key, agent_name, key_prefix, other_name, whole_path
from backstory.adapters.stores import History, ids_of

texts = st.text(
    st.characters(exclude_categories=()), max_size=8
)  # lone surrogates and NUL included
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)


def nested(levels):
    item = {"deep": 1}
    for _ in range(levels):
        item = {"deep": item}
    return item


def holding(batch):
    agent = backstory.open(":memory:").start()
    agent.extend(batch)
    return agent


def stored(batch):
    return holding(batch).context().messages


def read(events, translate=lambda event: None):
    return [each.item for each in read_items("mine", events, translate)]


@given(values, st.sampled_from([None, "openai-responses"]))
def test_any_json_comes_back_equal_to_the_order_of_its_keys(item, provider):
    events = stored(carried("mine", item, [("user", "words", None)], provider=provider))
    assert json.dumps(read(events)) == json.dumps([item])


@pytest.mark.parametrize(
    "item",
    [
        {"b": 1, "a": True},
        {"n": 2**70},
        {"n": float("nan")},
        {"t": "\ud800"},
        {"t": "\0"},
        nested(120),
        [],
        1.0,
    ],
    ids=["order", "large", "nan", "surrogate", "nul", "deep", "list", "float"],
)
def test_what_json_or_a_database_cannot_hold_comes_back_too(item):
    events = stored([note("mine", "mine.item", item)])
    assert json.dumps(read(events)) == json.dumps([item])


def test_an_item_of_several_events_is_one_item():
    batch = carried(
        "mine",
        {"all": 1},
        [("assistant", "words", None), ("tool_call", None, {"id": "1", "name": "f"})],
    )
    assert read(stored(batch)) == [{"all": 1}]


def test_what_others_wrote_is_translated_one_by_one():
    batch = [
        ("user", "theirs", None),
        *carried("other", {"x": 1}, [("assistant", "also theirs", None)]),
        *carried("mine", {"y": 1}, [("user", "mine", None)]),
        ("note", "a note", None),
    ]
    assert read(stored(batch), lambda event: event.content) == ["theirs", "also theirs", {"y": 1}]


def test_the_form_of_a_provider_stands_in_the_event_once():
    [event] = carried(
        "mine", {"role": "user", "content": "a long question"}, [("user", "", None)], provider="p"
    )
    assert event.data_json.count("a long question") == 1
    assert event.data["item"] == {"of": "mine"}


def test_what_the_event_says_anyway_is_stored_once_and_comes_back():
    long = "a long text " * 20
    item = {
        "role": "assistant",
        "content": [{"type": "text", "text": long}],
        "args": {"path": long},
    }
    for provider in (None, "openai-responses"):
        batch = carried("mine", item, [("assistant", long, None)], provider=provider)
        assert json.dumps(batch).count("a long text") == 20
        assert read(stored(batch)) == [item]
    call = {"id": "1", "name": "f", "arguments": {"path": long}}
    assert json.dumps(carried("mine", item, [("tool_call", None, call)])).count("a long text") == 40


def test_a_native_form_that_a_hole_has_made_short_is_not_worth_another_one():
    long = "a long text " * 20
    native = {"native": {"provider": "gemini", "wire": [{"text": long}]}}
    item = {"content": {"parts": [{"text": long}], "role": "model"}}
    batch = carried("mine", item, [("assistant", long, native)])
    assert [event.data_json.count('{"$backstory":"content"}') for event in batch] == [2]
    assert read(stored(batch)) == [item]


def test_what_is_only_equal_to_what_the_event_says_comes_back_as_it_was():
    long = "a long text " * 20
    call = {"id": "1", "name": "f", "arguments": {"n": True, "text": long}}
    item = {"input": {"n": 1, "text": long}}
    assert json.dumps(
        read(stored(carried("mine", item, [("tool_call", None, call)])))
    ) == json.dumps([item])


@pytest.mark.parametrize("begin", ["", ",", ":", "]", "}", "{", '"', '\\"', "\\"])
@pytest.mark.parametrize("provider", [None, "openai-responses"])
def test_a_hole_is_only_where_the_text_is_a_value(begin, provider):
    long = begin + "1,2," * 12
    for item in (
        {"x": [long, {"y": long}], long: 1, "z": "what they said: " + long},
        {"x": f'"{long}', "y": f'{long}"', "z": f'"{long}"', "w": long},
        [
            "a:",
            *[1, 2] * 12,
            ",b",
        ],  # with a comma before it, that text stands between these strings
        [":", long, "{", {"}": long}, f'{{"{long}'],
        long,
    ):
        batch = carried("mine", item, [("assistant", long, None)], provider=provider)
        assert json.dumps(read(stored(batch))) == json.dumps([item])


@given(st.text('",:[]{}\\a', min_size=38, max_size=44), st.text('",:[]{}\\a', max_size=4))
def test_no_text_is_mistaken_for_the_end_of_another(said, other):
    item = {said: other + said, other: [said, other, {other: said}], "x": [other, said + other]}
    call = {"id": "1", "name": "f", "arguments": {said: other}}
    item["given"] = [call["arguments"], json.dumps(call["arguments"], separators=(",", ":"))]
    for kind, content, data in (("user", said, None), ("tool_call", None, call)):
        assert json.dumps(
            read(stored(carried("mine", item, [(kind, content, data)])))
        ) == json.dumps([item])


def test_an_item_that_looks_like_a_hole_comes_back():
    for item in (
        {"$backstory": "content"},
        {"x": {"$backstory": "arguments"}},
        {"x": '{"$backstory":"content"}'},
    ):
        assert read(stored(carried("mine", item, [("user", "a text", None)]))) == [item]


def test_text_for_people_has_nothing_that_a_database_refuses():
    assert people_text("a\0b\ud800c") == "a\ufffdb?c"


def test_a_key_has_each_id_encoded():
    assert agent_key("mine", "a/b", "c d", "é") == "mine:a%2Fb/c%20d/%C3%A9"
    assert agent_key("mine", "a", "b") != agent_key("mine", "a/b")
    assert agent_key("mine", "a", "b").startswith(key_prefix("mine", "a"))
    assert not agent_key("mine", "ab").startswith(key_prefix("mine", "a"))


@pytest.mark.parametrize("id", ["", " ", "x" * 5_000, "a/b@c", "\ud800", "\n", "é" * 300])
def test_every_id_has_a_key_and_a_name_that_can_be_used(id):
    store = backstory.open(":memory:")
    agent = store.ensure(agent_key("mine", id), name=agent_name(id))
    assert store.agent(key=agent_key("mine", id)) == agent


def test_an_id_that_is_not_a_text_is_refused():
    with pytest.raises(TypeError, match="not NoneType"):
        agent_key("x", None)


def test_a_long_id_is_its_hash():
    assert agent_key("mine", "x" * 2_000) == f"mine:{sha256(b'x' * 2_000).hexdigest()}"
    assert agent_key("mine", "a", "x" * 2_000) == f"mine:a/{sha256(b'x' * 2_000).hexdigest()}"
    assert len(agent_key("mine", "y" * 2_000, "x" * 2_000)) <= 1_000


def test_another_name_is_as_long_as_a_name_may_be():
    assert len(other_name("x" * 200, "key")) <= 200


def test_adapters_of_one_place_share_a_store_until_the_last_is_closed(tmp_path):
    one, two = History(tmp_path / "h.db"), History(str(tmp_path / "h.db"))
    store = one.store
    assert two.store is store
    one.close()
    one.close()
    with pytest.raises(RuntimeError, match="closed"):
        one.store  # noqa: B018
    assert two.store.agents() == []
    two.close()
    with pytest.raises(backstory.StorageError, match="closed"):
        store.agents()


def test_a_store_that_was_handed_over_stays_open():
    with backstory.open(":memory:") as store:
        history = History(store)
        history.close()
        assert store.agents() == []


def test_two_stores_in_memory_are_two():
    assert History(":memory:").store is not History(":memory:").store


def test_of_two_that_spawn_an_agent_at_once_both_get_the_same(monkeypatch):
    history = History(":memory:")
    parent = history.ensured("x:parent", "parent")
    first = history.spawned(parent, "x:parent/child", "child")
    monkeypatch.setattr(history, "found", lambda key: None)  # the other one has not been seen
    assert history.spawned(parent, "x:parent/child", "child").id == first.id
    history.close()


def test_a_fork_gets_another_name_where_its_name_is_taken():
    history = History(":memory:")
    agent = history.ensured("mine:a", "a")
    assert history.forked(agent, "mine:a%2Fb", "a/b").name == "a_b"
    assert history.forked(agent, "mine:a_b", "a_b").name == other_name("a_b", "mine:a_b")


@given(st.lists(st.tuples(values, texts), max_size=4))
def test_own_forms_are_cut_out_of_their_texts_as_they_are(items):
    provider = "openai-responses"
    batch = [
        event
        for item, text in items
        for event in carried(
            "mine", {"said": text * 20, "v": item}, [("user", text * 20, None)], provider=provider
        )
    ]
    agent = holding(batch)
    wanted = [{"said": text * 20, "v": item} for item, text in items]
    assert json.dumps(all_items("mine", agent, lambda event: event.content)) == json.dumps(wanted)
    agent.user("someone else's")
    found = all_items("mine", agent, lambda event: event.content)
    assert json.dumps(found) == json.dumps([*wanted, "someone else's"])


@pytest.mark.parametrize("provider", [None, "openai-responses"])
@pytest.mark.parametrize("count", [1, 99, 100, 101, 250])
def test_many_items_are_read_as_they_were_written(provider, count):
    said = "words that are long enough to be left out of the form "
    items = [
        [
            {"role": "user", "content": f"{said}{number}"},
            {"content": [{"type": "text", "text": f"{said}{number}"}, {"type": "x"}], "n": number},
            {"twice": f"{said}{number}", "content": [{"text": f"{said}{number}"}]},
            {f"{said}{number}": f"{said}{number}"},
            {"content": f'{said}"quoted" {said}{number}', "end": f'"{said}{number}'},
        ][number % 5]
        for number in range(count)
    ]
    batch = [
        event
        for number, item in enumerate(items)
        for event in carried("mine", item, [("user", f"{said}{number}", None)], provider=provider)
    ]
    agent = holding(batch)
    assert json.dumps(all_items("mine", agent, lambda event: None)) == json.dumps(items)
    assert json.dumps(read(agent.context().messages)) == json.dumps(items)
    assert "$backstory" in agent.context().messages[0].data_json


def test_a_hole_of_a_framework_is_not_filled():
    item = {"content": {"$backstory": "content"}}
    agent = holding(carried("mine", item, [("user", "words", None)]))
    assert all_items("mine", agent, lambda event: None) == [item]


def test_a_form_inside_of_the_arguments_is_not_taken_for_the_item():
    decoy = {"native": {"provider": "openai-responses", "wire": [{"decoy": True}]}}
    call = {"type": "function_call", "arguments": json.dumps(decoy), "name": "look", "call_id": "c"}
    data = {"id": "c", "name": "look", "arguments": decoy}
    agent = holding(carried("mine", call, [("tool_call", None, data)], provider="openai-responses"))
    assert all_items("mine", agent, lambda event: None) == [call]


def test_how_keys_begin_does_not_depend_on_what_follows():
    for long in ("x" * 399, "x" * 401, "x" * 950, "x" * 5_000):
        for last in ("", "y", "y" * 5_000):
            assert agent_key("mine", long, last).startswith(key_prefix("mine", long))
            assert agent_key("mine", long, long, last).startswith(key_prefix("mine", long, long))
            assert len(agent_key("agent_framework", long, long, last)) <= 1_000


@pytest.mark.parametrize("id", ["", "a/b", "\ud800", "x" * 5_000, "é" * 5_000])
def test_the_ids_of_an_agent_are_known_where_its_key_has_their_hashes(id):
    history = History(":memory:")
    agent = history.told(
        history.ensured(agent_key("mine", "p", id), id), whole_path("mine", "p", id)
    )
    assert ids_of(agent) == ["p", id]
    assert [ids_of(each) for each in history.store.agents(prefix=key_prefix("mine", "p"))] == [
        ["p", id]
    ]


@pytest.mark.parametrize("said", ["words " * 10, "few"])
def test_an_event_whose_native_form_has_several_items_carries_the_first(said):
    [made] = carried(
        "mine",
        {"role": "user", "content": said},
        [("user", said, None)],
        provider="openai-responses",
    )
    data = made.data
    data["native"]["wire"].append({"role": "user", "content": "another"})
    events = [Event.of(0, "user", said, data), *carried("mine", {"x": 1}, [("user", "mine", None)])]
    agent = holding(events)
    expected = [{"role": "user", "content": said}, {"x": 1}]
    assert read(agent.messages()) == expected
    assert all_items("mine", agent, lambda event: None) == expected
