"""What every backend does with events for several agents at once."""

import asyncio

import pytest

import backstory
from backstory import aio
from tests.threads import in_threads


def said(agent):
    return [event.content for event in agent.conversation()]


def test_events_for_several_agents_are_written_together(store):
    one, two = store.start("one"), store.start("two")
    written = store.write(
        [(one, [("user", "a"), ("user", "b")], 0), (two, [("note", "n", {"x": 1})])]
    )
    assert [[event.seq for event in events] for events in written] == [[1, 2], [1]]
    assert (said(one), two.last_notes(["n"])["n"].data) == (["a", "b"], {"x": 1})
    assert store.write([]) == []
    assert store.verify() == []


def test_a_conflict_of_one_leaves_all_as_they_were(store):
    one, two = store.start("one"), store.start("two")
    two.user("someone else's")
    for order in (1, -1):
        batches = [(one, [("user", "a")], 0), (two, [("user", "b")], 0)][::order]
        with pytest.raises(backstory.Conflict):
            store.write(batches)
    assert (one.head, two.head) == (0, 1)


@pytest.mark.parametrize("stale", [0, 1, 2])
@pytest.mark.parametrize("order", [1, -1])
def test_a_conflict_names_the_agent_that_is_not_at_its_expected_head(store, stale, order):
    agents = [store.start(f"agent {n}") for n in range(3)]
    agents[stale].user("someone else's")
    batches = [(agent, [("user", "mine")], 0) for agent in agents]
    with pytest.raises(backstory.Conflict) as caught:
        store.write(batches[::order])
    assert f"agent 'agent {stale}' is at position 1, not at the expected 0" in str(caught.value)
    assert caught.value.head == 1


def test_a_conflict_of_a_batch_that_was_half_written_names_an_agent_that_has_moved(store):
    one, two = store.start("one"), store.start("two")
    batches = [(one, [("user", "a")], 0), (two, [("user", "b")], 0)]
    store.write(batches[:1])
    with pytest.raises(backstory.Conflict, match="agent 'one' is at position 1, not at"):
        store.write(batches)
    assert two.head == 0


def test_a_conflict_does_not_name_an_agent_whose_batch_is_a_repeat(store):
    one, two = store.start("one"), store.start("two")
    one.user("a", expected=0)
    two.user("someone else's")
    with pytest.raises(backstory.Conflict, match="agent 'two' is at position 1, not at") as caught:
        store.write([(one, [("user", "a")], 0), (two, [("user", "b")], 0)])
    assert caught.value.head == 1


def test_what_is_refused_leaves_all_as_they_were(store):
    one, two = store.start("one"), store.start("two")
    two.append("user", "first", key="k")
    gone = store.start("gone")
    store.delete(gone)
    with pytest.raises(backstory.InvalidEvent):
        store.write([(one, [("user", "a")]), (two, [("nonsense", "b")])])
    with pytest.raises(backstory.KeyTaken):
        store.write([(one, [("user", "a")]), (two, [("user", "second", None, "k")])])
    with pytest.raises(backstory.AgentNotFound):
        store.write([(one, [("user", "a")]), (gone, [("user", "b")])])
    with pytest.raises(backstory.Invalid):
        store.write([(one, [("user", "a")]), (one, [("user", "b")])])
    with backstory.open(":memory:") as other, pytest.raises(backstory.Invalid):
        store.write([(one, [("user", "a")]), (other.start("three"), [("user", "b")])])
    assert (one.head, two.head) == (0, 1)


def test_a_repeat_after_the_same_heads_returns_the_existing_events(store):
    one, two = store.start("one"), store.start("two")
    batches = [(one, [("user", "a")], 0), (two, [("user", "b")], 0)]
    assert store.write(batches) == store.write(batches)
    assert (one.head, two.head) == (1, 1)


def test_moves_and_keys_are_judged_as_in_a_single_batch(store):
    one, two = store.start("one"), store.start("two")
    one.user("a")
    one.mark("here")
    one.user("b")
    two.append("user", "c", key="k")
    rewind = ("rewind", None, {"target_message_id": 2})
    store.write(
        [(one, [rewind, ("user", "d")], 3), (two, [("user", "c", None, "k"), ("user", "e")])]
    )
    assert (said(one), said(two)) == (["a", "d"], ["c", "e"])
    assert store.verify() == []


def test_writers_that_name_the_agents_in_another_order_do_not_block_each_other(store):
    one, two = store.start("one"), store.start("two")

    def write(number):
        both = [(one, [("user", str(number))]), (two, [("user", str(number))])]
        for _ in range(10):
            store.write(both[:: 1 if number % 2 else -1])

    in_threads(write, 4)
    assert said(one) == said(two)
    assert one.head == 40


def test_async_callers_write_together_too(durable_url):
    async def main():
        async with await aio.open(durable_url) as store:
            one, two = await store.start("one"), await store.start("two")
            await store.write([(one, [("user", "a")], 0), (two, [("user", "b")])])
            return [event.content for agent in (one, two) for event in await agent.events()]

    assert asyncio.run(main()) == ["a", "b"]
