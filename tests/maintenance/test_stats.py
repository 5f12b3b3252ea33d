"""Statistics that the database counts agree with the contexts."""

from hypothesis import given
from hypothesis.strategies import booleans, data, integers, lists, sampled_from

import backstory


def test_an_empty_store_has_no_events(store):
    found = store.stats()
    assert (found.sessions, found.events, found.live, found.dead) == (0, 0, 0, 0)
    assert (found.tokens, found.agents) == (None, [])
    assert store.stats(tokens=True).tokens == 0


def test_the_numbers_agree_with_the_contexts(store):
    agent = store.start("main", system="é")
    agent.mark("x")
    agent.user("dead")
    agent.rewind("x")
    agent.append("rewind", None, {"target_message_id": 99})  # inert: it never shows
    child = agent.fork("child", at=3)
    child.clear()
    child.user("fresh")
    agent.jump(3)
    agent.append("rewind", None, {"target_message_id": 99})  # inert, among the live
    store.start("other").user("x" * 1000)
    found = store.stats()
    assert (found.sessions, found.events) == (2, 10)
    assert [one.agent.name for one in found.agents] == ["other", "main", "child"]
    for one in found.agents:
        messages = one.agent.context().messages
        own = one.agent.events(after=one.agent.fork_seq)
        assert one.context == len(messages), one.agent
        assert one.live == len([event for event in messages if event.seq > one.agent.fork_seq])
        assert one.events == len(own)
        assert one.bytes == sum(
            len((event.content or "").encode()) + len((event.data_json or "").encode())
            for event in own
        )
    assert found.live + found.dead == found.events
    assert found.live == sum(one.live for one in found.agents)
    assert found.kinds == {"rewind": 3, "user": 3, "clear": 1, "jump": 1, "mark": 1, "system": 1}
    assert found.size > 0


def test_tokens_are_counted_on_request_and_as_the_conversation_counts_them(store):
    agent = store.start("main", system="Be careful.")
    agent.user("Which Python files are here?")
    agent.tool_result(agent.tool_call("glob", {"pattern": "*.py"}), "a.py")
    agent.fork("child").user("And now?")
    store.start("empty")
    assert [one.tokens for one in store.stats().agents] == [None] * 3
    found = store.stats(tokens=True)
    by_name = {one.agent.name: one.tokens for one in found.agents}
    assert by_name == {
        "main": agent.conversation().tokens(),
        "child": store.agent("child").conversation().tokens(),
        "empty": store.agent("empty").conversation().tokens(),
    }
    assert found.tokens == sum(by_name.values())


def test_events_that_a_deleted_agent_left_to_its_forks_are_counted(store):
    agent = store.start("main")
    agent.extend([("user", "x" * 10), ("user", "y" * 10), ("user", "z" * 10)])
    agent.fork("one", at=2)
    rewound = agent.fork("two", at=2)
    rewound.jump(1)
    agent.fork("three", at=1).clear()
    store.delete(agent)
    found = store.stats()
    assert (found.events, found.live, found.dead) == (4, 3, 1)
    assert (found.bytes, found.kinds) == (
        20 + len('{"target_message_id":1}'),
        {"user": 2, "jump": 1, "clear": 1},
    )
    store.delete("one")
    assert (store.stats().events, store.stats().live) == (4, 2)


@given(
    logs=lists(lists(sampled_from("uuumwjcxf"), max_size=12), min_size=1, max_size=6), data=data()
)
def test_live_events_of_any_tree_agree_with_the_contexts(logs, data):
    with backstory.open(":memory:") as store:
        agents = [store.start("0")]
        for number, log in enumerate(logs):
            agent = agents[-1]
            for step in log:
                _take_step(agent, step, data)
            parent = data.draw(sampled_from(agents))
            at = data.draw(integers(0, parent.head))
            agents.append(parent.fork(str(number + 1), at=at))
        if data.draw(booleans()):
            store.delete("0")
        for one in store.stats().agents:
            messages = one.agent.context().messages
            assert one.context == len(messages)
            assert one.live == len([event for event in messages if event.seq > one.agent.fork_seq])


def _take_step(agent, step, data):
    match step:
        case "u":
            agent.user("text")
        case "m":
            agent.mark("x")
        case "c":
            agent.clear()
        case "x":
            agent.append("rewind", None, {"target_message_id": 99})
        case "w" if agent.marks():
            agent.rewind("x")
        case "j" | "f" if agent.head:
            agent.jump(data.draw(integers(0, agent.head)))


def test_the_statistics_of_a_chain_of_forks_take_few_reads(monkeypatch):
    calls = []
    store = backstory.open(":memory:")
    agent = store.start()
    for _ in range(50):
        agent.user("a")
        agent = agent.fork()
    for name in ("list_agents", "count_events", "read_owned", "walk", "read_events"):
        original = getattr(store._backend, name)

        def count(*arguments, name=name, original=original):
            calls.append(name)
            return original(*arguments)

        monkeypatch.setattr(store._backend, name, count)
    found = store.stats()
    assert set(calls) == {"list_agents", "count_events", "read_owned"}
    assert len(calls) <= 4
    assert sorted(one.context for one in found.agents) == [*range(1, 51), 50]


def test_an_event_that_is_appended_meanwhile_does_not_make_others_dead(store, monkeypatch):
    agent = store.start("main")
    backend, count_events = store._backend, store._backend.count_events

    def count_and_append():
        counts = count_events()
        agent.user("new")
        return counts

    monkeypatch.setattr(backend, "count_events", count_and_append)
    assert store.stats().dead == 0


def test_an_agent_that_is_deleted_meanwhile_leaves_no_negative_numbers(store, monkeypatch):
    store.start("main").user("one")
    backend, count_events = store._backend, store._backend.count_events

    def delete_and_count():
        store.delete("main")
        return count_events()

    monkeypatch.setattr(backend, "count_events", delete_and_count)
    assert store.stats().dead == 0
