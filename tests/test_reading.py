"""Calls that programs on top of the library are made of: lineage, moves, sizes, newest notes, changed heads."""

import threading

import pytest

import backstory
from backstory.present.history import find_live_ranges


def test_a_lineage_names_the_owner_of_each_part(store):
    main = store.start()
    main.extend([("user", "one"), ("user", "two"), ("user", "three")])
    child = main.fork("child", at=2)
    assert main.lineage() == [(main.id, 1, 3)]
    assert child.lineage() == [(main.id, 1, 2), (child.id, 3, 2)]
    child.user("own")
    assert child.lineage() == [(main.id, 1, 2), (child.id, 3, 3)]


def test_parts_of_a_deleted_agent_belong_to_the_eldest_that_inherits_them(store):
    main = store.start()
    main.extend([("user", str(number)) for number in range(1, 8)])
    elder, younger = main.fork("elder", at=3), main.fork("younger", at=5)
    younger.user("own")
    store.delete(main)
    assert elder.lineage() == [(elder.id, 1, 3), (elder.id, 4, 3)]
    assert younger.lineage() == [(elder.id, 1, 3), (younger.id, 4, 5), (younger.id, 6, 6)]


def test_moves_are_the_events_that_have_a_base(store):
    main = store.start()
    main.user("one")
    main.mark("here")
    main.rewind("here")
    main.append("rewind", None, {"target_message_id": 1})  # inert: no mark
    child = main.fork("child")
    child.clear()
    child.jump(2)
    main.clear()
    assert main.moves() == [(3, 2, "rewind"), (5, 0, "clear")]
    assert child.moves() == [(3, 2, "rewind"), (5, 0, "clear"), (6, 2, "jump")]
    assert child.fork("again", at=5).moves() == child.moves()[:2]


def test_moves_are_enough_to_find_the_live_positions(store):
    main = store.start()
    main.extend([("user", "one"), ("clear",), ("user", "two")])
    main.jump(1)
    main.user("three")
    assert find_live_ranges(main, 5) == [(1, 1), (4, 5)]
    assert find_live_ranges(main, 3) == [(2, 3)]
    assert find_live_ranges(main, 0) == []


def test_events_are_selected_by_position_kind_and_key(store):
    main = store.start()
    main.extend([("user", "one", None, "a"), ("mark",), ("assistant", "two", None, "b")])
    child = main.fork("child")
    child.append("user", "three", key="c")
    assert [event.seq for event in child.events([4, 1])] == [1, 4]
    assert [event.seq for event in child.events(kinds=["user", "mark"], after=1)] == [2, 4]
    assert [event.key for event in child.events(keys=["c", "a", "z"])] == ["a", "c"]
    assert child.events(keys=[]) == child.events(kinds=[]) == child.events([]) == []
    with pytest.raises(backstory.Invalid, match="is not a list of kinds"):
        child.events(kinds="user")
    for both in ({"positions": [1], "until": 2}, {"keys": ["a"], "kinds": ["user"]}):
        with pytest.raises(backstory.Invalid, match="by positions, by keys, or by range"):
            child.events(**both)


def test_the_newest_notes_of_several_names_come_with_the_messages(store):
    main = store.start()
    main.extend([("note", "state", {"n": 1}), ("user", "one"), ("note", "other")])
    main.extend([("note", "state", {"n": 2}), ("note", "item")])
    assert {name: note.seq for name, note in main.last_notes(["state", "item", "no"]).items()} == {
        "state": 4,
        "item": 5,
    }
    assert [event.seq for event in main.messages(notes=["item"], last=["state"])] == [2, 4, 5]
    assert [event.seq for event in main.messages(notes=["state"], limit=2)] == [2, 4]
    assert main.last_notes(["state"], at=3)["state"].seq == 1
    assert main.last_notes([]) == {}


def test_a_session_starts_with_its_events_in_one_step(store):
    begun = store.start(
        "main", system="Be brief.", key="k", events=[("user", "hi", None, "a"), ("clear",)]
    )
    assert [event.kind for event in begun.events()] == ["system", "user", "clear"]
    assert (begun.context().messages, begun.listed_head) == ([], 3)
    with pytest.raises(backstory.KeyTaken):
        store.start(key="k", events=[("user", "again")])
    with pytest.raises(backstory.Invalid, match="same key"):
        store.start(events=[("user", "x", None, "a"), ("user", "y", None, "a")])
    assert len(store.agents()) == 1


def test_an_agent_is_found_by_its_exact_key(store):
    store.ensure("user/42")
    assert store.agent(key="user/42").key == "user/42"
    with pytest.raises(backstory.AgentNotFound, match="no agent has the key 'user/4'"):
        store.agent(key="user/4")
    with pytest.raises(backstory.Invalid):
        store.agent("user/42", key="user/42")


def test_the_newest_notes_of_some_keys(store):
    for key in ("a/1", "a/2", "b/1"):
        store.ensure(key).note("state", {"of": key})
    store.ensure("a/3")
    found = store.last_notes("state", keys=["b/1", "a/3", "a/1", "none"])
    assert [agent.key for agent, _ in found] == ["b/1", "a/1"]
    assert [agent.key for agent, _ in store.last_notes("state", "a/")] == ["a/1", "a/2"]


def test_a_watch_returns_the_agents_that_were_written_to(store):
    main = store.start()
    with store.watch() as watch:
        assert watch.wait(0) == []
        main.user("one")
        assert [(one.agent, one.head, one.is_new) for one in watch.wait(20)] == [(main, 1, False)]
        child = main.fork("child")
        assert [(one.agent, one.head, one.is_new) for one in watch.wait(20)] == [(child, 1, True)]
        thread = threading.Thread(target=lambda: main.user("two"))
        thread.start()
        assert [(one.agent, one.head) for one in watch.wait(20)] == [(main, 2)]
        thread.join()
    assert (watch.closed, watch.wait()) == (True, [])


def test_a_watch_notices_imported_events_with_old_times(store):
    with store.watch() as watch:
        with store.intake() as intake:
            old = backstory.Event.of(0, "user", "long ago")
            intake.extend(intake.agent("tool/1", created_at=old.created_at), [old])
        assert [(one.agent.key, one.head) for one in watch.wait(20)] == [("tool/1", 1)]


def test_a_watch_waits_for_a_server_that_is_restarted(new_url, monkeypatch):
    monkeypatch.setattr("backstory.storage.follow.RETRY", 0)
    with backstory.open(new_url("memory")) as store, store.watch() as watch:
        list_agents = store._backend.list_agents
        failures = [backstory.ConnectionLost("restarting"), backstory.Busy("starting")]

        def list_after_failures(*query):
            if failures:
                raise failures.pop(0)
            return list_agents(*query)

        monkeypatch.setattr(store._backend, "list_agents", list_after_failures)
        agent = store.start()
        assert [one.agent for one in watch.wait(20)] == [agent]
        assert failures == []


def test_a_store_whose_file_was_replaced_reports_it(tmp_path):
    path = tmp_path / "h.db"
    with backstory.open(path) as store:
        store.start()
        store.backup(tmp_path / "copy.db")
        assert not store.is_replaced()
        (tmp_path / "copy.db").rename(path)
        assert store.is_replaced()


def test_a_dry_intake_checks_and_writes_nothing(store):
    with store.intake(dry_run=True) as intake:
        agent = intake.agent("tool/1")
        intake.extend(agent, [("user", "hi")])
        with pytest.raises(backstory.InvalidEvent):
            intake.extend(agent, [("telepathy", "hi")])
        assert intake.commit() == 0
    assert store.agents() == []


def test_no_lower_limit_means_the_beginning(store):
    agent = store.start()
    agent.extend([("user", "one"), ("assistant", "two")])
    assert len(agent.events(after=None)) == 2
    assert len(agent.outline(None)) == 2
    assert len(agent.explain(after=None)) == 2


def test_a_loop_finds_what_it_has_to_do_after_a_restart():
    agent = backstory.open(":memory:").start()
    agent.user("look")
    call = agent.tool_call("glob", {"pattern": "*"})
    assert agent.open_calls() == [call]
    assert agent.unanswered() == []
    result = agent.tool_result(call, "a.py")
    assert agent.open_calls() == []
    assert agent.unanswered() == [result]
    assert agent.unanswered(at=1)[0].content == "look"
    agent.clear()
    assert agent.unanswered() == agent.open_calls() == []
