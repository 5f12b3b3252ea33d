"""The stores that all adapters share, and the keys of agents. No framework is needed."""

import gc
from hashlib import sha256

import pytest

import backstory
from backstory.adapters.stores import (
    AdapterStore,
    KnownHeads,
    append_to_head,
    build_key,
    build_name,
    build_other_name,
    build_prefix,
    read_ids,
)


@pytest.fixture
def agent():
    return backstory.open(":memory:").start()


# --- keys and names ---


def test_a_key_has_each_id_encoded():
    assert build_key("mine", "a/b", "c d", "é") == "mine:a%2Fb/c%20d/%C3%A9"
    assert build_key("mine", "a", "b") != build_key("mine", "a/b")
    assert build_key("mine", "a", "b").startswith(build_prefix("mine", "a"))
    assert not build_key("mine", "ab").startswith(build_prefix("mine", "a"))


@pytest.mark.parametrize("id", ["", " ", "x" * 5_000, "a/b@c", "\ud800", "\n", "é" * 300])
def test_every_id_has_a_key_and_a_name_that_can_be_used(id):
    store = backstory.open(":memory:")
    agent = store.ensure(build_key("mine", id), name=build_name(build_key("mine", id)))
    assert store.agent(key=build_key("mine", id)) == agent


def test_an_id_that_is_not_a_text_is_refused():
    with pytest.raises(TypeError, match="not NoneType"):
        build_key("x", None)


def test_a_long_id_is_its_hash():
    assert build_key("mine", "x" * 2_000) == f"mine:{sha256(b'x' * 2_000).hexdigest()}"
    assert build_key("mine", "a", "x" * 2_000) == f"mine:a/{sha256(b'x' * 2_000).hexdigest()}"


@pytest.mark.parametrize("long", ["x" * 399, "x" * 401, "x" * 950, "x" * 5_000])
def test_the_beginning_of_keys_does_not_depend_on_what_follows(long):
    for last in ("", "y", "y" * 5_000):
        assert build_key("mine", long, last).startswith(build_prefix("mine", long))
        assert build_key("mine", long, long, last).startswith(build_prefix("mine", long, long))
        assert len(build_key("agent_framework", long, long, last)) <= 1_000


@pytest.mark.parametrize("id", ["", "a/b", "\ud800", "x" * 5_000, "é" * 5_000])
def test_the_ids_of_an_agent_are_known_if_its_key_has_their_hashes(id):
    adapter = AdapterStore(":memory:", "mine")
    assert read_ids(adapter.ensure(adapter.build_key("p", id))) == ["p", id]
    [listed] = adapter.store.agents(prefix=build_prefix("mine", "p"))
    assert read_ids(listed) == ["p", id]


def test_another_name_is_as_long_as_a_name_may_be():
    assert len(build_other_name("x" * 200, "key")) <= 200


# --- stores ---


def test_adapters_of_one_place_share_a_store_until_the_last_is_closed(tmp_path):
    one, two = AdapterStore(tmp_path / "h.db", "mine"), AdapterStore(str(tmp_path / "h.db"), "mine")
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


def test_the_last_reference_to_an_adapter_closes_its_store():
    adapter = AdapterStore(":memory:", "mine")
    store = adapter.store
    del adapter
    gc.collect()
    with pytest.raises(backstory.StorageError, match="closed"):
        store.agents()


def test_a_store_that_was_passed_in_stays_open():
    with backstory.open(":memory:") as store:
        AdapterStore(store, "mine").close()
        assert store.agents() == []


def test_a_shared_store_is_closed_with_its_last_user(tmp_path):
    for place in (":memory:", tmp_path / "h.db"):
        first = AdapterStore(place, "mine")
        second = first.share()
        store = first.store
        first.close()
        assert second.store.agents() == []
        second.close()
        with pytest.raises(backstory.StorageError, match="closed"):
            store.agents()
        with pytest.raises(RuntimeError, match="closed"):
            first.share()


def test_sharing_a_store_that_was_passed_in_leaves_it_open():
    with backstory.open(":memory:") as store:
        first = AdapterStore(store, "mine")
        second = first.share()
        first.close()
        second.close()
        assert store.agents() == []


def test_two_stores_in_memory_are_two():
    one, two = AdapterStore(":memory:", "mine"), AdapterStore(":memory:", "mine")
    assert one.store is not two.store


def test_a_closed_adapter_refuses_agents_that_it_knows():
    adapter = AdapterStore(":memory:", "mine")
    adapter.ensure("mine:a")
    adapter.close()
    for call in (adapter.find, lambda key: adapter.ensure(key)):
        with pytest.raises(RuntimeError, match="closed"):
            call("mine:a")


def test_an_agent_that_the_adapter_deleted_is_not_found_again():
    adapter = AdapterStore(":memory:", "mine")
    first = adapter.ensure("mine:a")
    adapter.delete([first])
    assert adapter.find("mine:a") is None
    assert adapter.ensure("mine:a").user("again").seq == 1


def test_an_agent_that_was_deleted_is_looked_up_again():
    adapter = AdapterStore(":memory:", "mine")
    adapter.write("mine:a", lambda agent: agent.user("one"))
    adapter.store.delete(adapter.store.agent(key="mine:a").id)
    assert adapter.read("mine:a", lambda agent: agent.head, None) is None
    adapter.write("mine:a", lambda agent: agent.user("two"))
    assert adapter.read("mine:a", lambda agent: agent.head, None) == 1


def test_of_two_that_spawn_an_agent_at_once_both_get_the_same(monkeypatch):
    adapter = AdapterStore(":memory:", "mine")
    first = adapter.spawn("x:parent", "x:parent/child")
    monkeypatch.setattr(adapter, "find", lambda key: None)  # the other one has not been seen
    assert adapter.spawn("x:parent", "x:parent/child").id == first.id


def test_a_fork_gets_another_name_if_its_name_is_taken():
    adapter = AdapterStore(":memory:", "mine")
    agent = adapter.ensure("mine:a")
    assert adapter.fork(agent, "mine:a%2Fb").name == "a_b"
    assert adapter.fork(agent, "mine:a_b").name == build_other_name("a_b", "mine:a_b")


# --- appending ---


def test_a_batch_is_built_again_if_somebody_else_appended(agent):
    heads = []

    def build():
        heads.append(agent.head)
        if len(heads) == 1:
            agent.user("somebody else's")
        return [("user", f"after {heads[-1]}", None)]

    append_to_head(agent, build)
    assert heads == [0, 1]
    assert [event.content for event in agent.messages()] == ["somebody else's", "after 1"]


def test_what_is_known_of_an_agent_stays_with_it(agent):
    known = KnownHeads()
    with known.hold(agent) as head:
        assert head.value is None
        head.value = 7
    with known.hold(agent) as head:
        assert head.value == 7
