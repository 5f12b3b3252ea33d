"""What every backend does with what happened elsewhere: times, batches, sources, labels, sub-agents."""

import io
from datetime import UTC, datetime, timedelta

import pytest

import backstory
from backstory import Event
from backstory.log.events import Draft
from tests.threads import in_threads

T0 = datetime(2024, 5, 1, 9, tzinfo=UTC)


def said(seconds, kind, content=None, data=None, key=None):
    return Event.of(0, kind, content, data, T0 + timedelta(seconds=seconds), key=key)


def seconds(agent):
    return [(event.created_at - T0).total_seconds() for event in agent.events()]


def test_events_keep_their_own_times_and_never_run_backwards(store):
    with store.intake() as intake:
        agent = intake.agent("tool/1", created_at=T0)
        intake.extend(
            agent, [said(5, "user", "a"), said(3, "assistant", "b"), said(9, "user", "c")]
        )
    found = store.agent(key="tool/1")
    assert found.created_at == T0
    assert seconds(found) == [5, 5, 9]
    assert store.verify() == []


# Around the size from which on a backend packs what comes in, and where content and data meet.
LONG = "x" * 98
SAYINGS = [
    ("user", "", None),
    ("user", LONG, None),
    ("user", LONG + "x", None),
    ("user", LONG + "xx", None),
    ("user", "", {"more": LONG}),
    ("user", LONG, {}),
    ("assistant", "Zoë, 日本 🙂 " * 40, {"native": {"text": "\\u0000 \x00 \x7f ﷽" * 40}}),
    ("assistant", "\x01\x1f\u2028" * 60, None),
    ("tool_call", None, {"id": "c1", "name": "look", "arguments": {"path": LONG * 3}}),
    ("tool_call", "", {"id": "c2", "name": "look", "arguments": LONG * 3}),
    ("tool_call", LONG * 3, {"id": "c3", "name": "look", "arguments": None}),
    ("tool_result", LONG * 1_000, {"id": "c1"}),
    ("note", "backstory.test", {"much": LONG * 3}),
    ("system", "".join(map(chr, range(0x20, 0x400))), None),
]


def test_whatever_comes_in_is_read_as_it_was(store):
    with store.intake() as intake:
        intake.extend(intake.agent("tool/1", created_at=T0), SAYINGS)
    agent, live = store.agent(key="tool/1"), store.start("live")
    live.extend(SAYINGS)
    assert [(event.kind, event.content, event.data) for event in agent.events()] == SAYINGS
    assert [event.data_json for event in agent.events()] == [
        event.data_json for event in live.events()
    ]
    assert [row.size for row in agent.outline()] == [row.size for row in live.outline()]
    assert len({one.bytes for one in store.stats().agents}) == 1
    assert store.verify() == []


def test_what_came_in_is_found_forked_compacted_exported_and_erased_like_anything_else(
    store, new_url
):
    with store.intake() as intake:
        came = [("user", f"word{n} " + LONG, {"n": f"fact{n} {LONG}"}) for n in range(8)]
        intake.extend(intake.agent("tool/1", created_at=T0), came)
    agent = store.agent(key="tool/1")
    assert [hit.event.seq for hit in store.search("word3")] == [4]
    fork = agent.fork("fork", at=6)
    fork.compact("a summary", keep=2)
    assert [event.content[:5] for event in fork.context().messages] == ["a sum", "word4", "word5"]
    assert [event.content[:5] for event in agent.messages(limit=2)] == ["word6", "word7"]
    agent.erase([4, 6], why="asked")
    assert store.search("word3") == store.search("word5") == []
    assert [event.content[:5] for event in fork.context().messages] == ["a sum", "word4", ""]
    assert store.verify() == []
    out = io.StringIO()
    store.export_to(out)
    assert "word3" not in out.getvalue()
    assert "fact4" in out.getvalue()
    with backstory.open(new_url("sqlite")) as other:
        other.import_from(io.StringIO(out.getvalue()))
        assert other.agent(key="tool/1").events() == agent.events()
        assert other.verify() == []


def test_a_batch_is_added_after_the_head_and_keeps_its_times(store):
    with store.intake() as intake:
        agent = intake.agent("tool/1", created_at=T0)
        intake.extend(agent, [said(5, "user", "a")])
    with store.intake() as intake:
        intake.extend(intake.agent("tool/1"), [said(1, "user", "b"), ("user", "now")])
    found = store.agent(key="tool/1")
    assert [event.content for event in found.events()] == ["a", "b", "now"]
    assert seconds(found)[:2] == [5, 5]
    assert found.events()[-1].created_at > T0 + timedelta(days=1)
    assert store.verify() == []


def test_nothing_is_written_before_the_commit_and_nothing_is_locked(store):
    other = store.start("other")
    with store.intake() as intake:
        agent = intake.agent("tool/1")
        intake.extend(agent, [("user", "a")])
        assert [found.name for found in store.agents()] == ["other"]
        other.user("meanwhile")
        assert intake.commit() == 1
        assert [event.content for event in agent.events()] == ["a"]
        assert intake.commit() == 0


def test_events_come_after_what_was_written_in_the_meantime(store):
    intake = store.intake()
    agent = intake.agent("tool/1", created_at=T0)
    intake.extend(agent, [("user", "a", None, "a")])
    intake.commit()
    store.agent(key="tool/1").user("meanwhile")
    intake.extend(agent, [("user", "b", None, "b")])
    intake.extend(agent, [("user", "c", None, "c")])
    intake.commit()
    assert [event.content for event in agent.events()] == ["a", "meanwhile", "b", "c"]
    assert store.verify() == []


def test_what_was_not_committed_when_the_block_raises_is_dropped(store):
    def take_in():
        with store.intake() as intake:
            agent = intake.agent("tool/1")
            intake.extend(agent, [("user", "a")])
            intake.commit()
            intake.extend(agent, [("user", "b")])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        take_in()
    assert [event.content for event in store.agent(key="tool/1").events()] == ["a"]


def test_a_commit_is_written_completely_or_not_at_all(store):
    intake = store.intake()
    first, second = intake.agent("tool/1"), intake.agent("tool/2")
    intake.extend(first, [("user", "a")])
    intake.extend(second, [("user", "b")], expected=7)
    intake.remember("tool", "1", agent=first)
    with pytest.raises(backstory.Conflict):
        intake.commit()
    assert store.agents() == []
    assert store.intake().source("tool", "1") is None


def test_what_comes_in_is_checked_as_in_an_append(store):
    with store.intake() as intake:
        agent = intake.agent("tool/1")
        with pytest.raises(backstory.InvalidEvent, match="event 1 of the batch"):
            intake.extend(agent, [("user", "a"), ("user", "\0")])
        intake.extend(agent, [("jump", None, {"target_message_id": 99})])
    [event] = store.agent(key="tool/1").events()
    assert event.kind == "jump"
    assert store.agent(key="tool/1").explain(1).status == "inert"


def test_jumps_and_clears_get_their_bases(store):
    with store.intake() as intake:
        agent = intake.agent("tool/1")
        intake.extend(
            agent, [("user", "a"), ("user", "b"), ("jump", None, {"target_message_id": 1})]
        )
        intake.extend(agent, [("user", "c"), ("mark", None, {"label": "m"})])
        intake.extend(
            agent, [("user", "d"), ("rewind", None, {"target_message_id": 5}), ("user", "e")]
        )
    found = store.agent(key="tool/1")
    spoken = [event.content for event in found.context().messages if event.kind == "user"]
    assert spoken == ["a", "c", "e"]
    assert store.verify() == []


def test_events_whose_keys_the_lineage_has_are_skipped(store):
    with store.intake() as intake:
        agent = intake.agent("tool/1")
        intake.extend(agent, [("user", "a", None, "1"), ("user", "b", None, "2")])
    with store.intake() as intake:
        again = intake.agent("tool/1")
        assert intake.find_keys(["1", "2", "3"]) == {"1", "2"}
        assert intake.find_positions(again, ["2", "3"]) == {"2": 2}
        intake.extend(again, [("user", "better", None, "2"), ("user", "c", None, "3")])
    assert [event.content for event in store.agent(key="tool/1").events()] == ["a", "b", "c"]


def test_an_intake_forks_and_spawns_at_a_position(store):
    with store.intake() as intake:
        root = intake.agent("tool/1", created_at=T0)
        intake.extend(root, [said(1, "user", "a", key="a"), said(2, "user", "b", key="b")])
        fork = intake.agent("tool/2", name="fork", parent=root, at=1, created_at=T0)
        sub = intake.agent("tool/3", name="sub", parent=root, at=2, spawned=True, created_at=T0)
        heir = intake.agent("tool/4", name="heir", parent=fork, at=1, spawned=True, inherits=True)
        intake.extend(fork, [said(0, "user", "c")])
        assert intake.commit() == 3
        assert intake.find_positions(fork, ["a", "b"]) == {"a": 1}
    assert [(a.parent, a.fork_seq, a.born_seq, a.spawned) for a in (fork, sub, heir)] == [
        (root.id, 1, 1, False),
        (root.id, 0, 2, True),
        (root.id, 1, 1, True),
    ]
    assert seconds(fork) == [1, 1]
    assert [event.content for event in heir.context().messages] == ["a"]
    assert store.verify() == []


def test_a_birth_where_the_parent_has_no_position_is_refused(store):
    intake = store.intake()
    root = intake.agent("tool/1")
    intake.agent("tool/2", name="two", parent=root, at=5)
    with pytest.raises(backstory.PositionNotFound):
        intake.commit()
    with pytest.raises(backstory.Invalid, match="with a parent"):
        intake.agent("tool/3", at=2)
    with pytest.raises(backstory.Invalid, match="no time zone"):
        intake.agent("tool/3", created_at=datetime(2024, 1, 1))


def test_an_agent_can_be_forked_as_a_sub_agent_that_inherits(store, agent):
    agent.user("a")
    heir = agent.fork("heir", spawned=True)
    assert (heir.spawned, heir.fork_seq, heir.born_seq) == (True, 1, 1)
    assert store.verify() == []
    file = io.StringIO()
    store.export_to(file)
    with backstory.open(":memory:") as other:
        other.import_from(file.getvalue().splitlines())
        assert other.agent("heir").spawned


def test_threads_that_take_in_the_same_write_it_once(store):
    def take_in(_):
        for _ in range(20):
            try:
                with store.intake() as intake:
                    agent = intake.agent("tool/1")
                    intake.extend(agent, [("user", str(n), None, str(n)) for n in range(10)])
                return
            except backstory.Conflict:
                continue

    in_threads(take_in, 3)
    found = store.agent(key="tool/1").events()
    assert [event.content for event in found] == [str(n) for n in range(10)]
    assert store.verify() == []


def test_a_source_is_remembered_with_its_agent_and_how_far_it_was_read(store):
    assert store.intake().source("codex", "019f") is None
    with store.intake() as intake:
        agent = intake.agent("codex/019f")
        intake.remember("codex", "019f", agent=agent)
        intake.remember("file", "/a/b", cursor={"size": 3})
    assert store.intake().source("codex", "019f") == ("codex", "019f", agent.id, None)
    with store.intake() as intake:
        assert intake.source("file", "/a/b").cursor == {"size": 3}
        assert intake.source("file", "/a") is None
        intake.remember("codex", "019f", cursor={"line": 7})
    assert store.intake().source("codex", "019f") == ("codex", "019f", agent.id, {"line": 7})


def test_an_agent_is_found_by_the_id_that_its_tool_gave_it_and_by_its_title(store):
    with store.intake() as intake:
        agent = intake.agent("codex/019f5cfd-aaaa", name="codex")
        intake.remember("codex", "019f5cfd-aaaa", agent=agent)
        intake.describe(agent, title="Mend the parser")
        other = intake.agent("pi/0abc", name="pi")
        intake.remember("pi", "0abc", agent=other)
    for ref in ("019f5cfd-aaaa", "019f5c", "Mend the parser"):
        assert store.agent(ref) == agent
    assert store.resolve("0abc@0") == (other, 0, None)
    with pytest.raises(backstory.AgentNotFound):
        store.agent("019f5d")


def test_an_export_carries_the_sources(store, url):
    with store.intake() as intake:
        agent = intake.agent("codex/019f")
        intake.remember("codex", "019f", agent=agent, cursor={"line": 7})
        intake.remember("file", "/a/b", cursor={"size": 3})
    whole, part = io.StringIO(), io.StringIO()
    store.export_to(whole)
    store.export_to(part, sessions=[agent.session])
    with backstory.open(":memory:") as other:
        other.import_from(part.getvalue().splitlines())
        assert other.intake().source("codex", "019f") == store.intake().source("codex", "019f")
        assert other.intake().source("file", "/a/b") is None
        other.import_from(whole.getvalue().splitlines())
        assert other.intake().source("file", "/a/b") == ("file", "/a/b", None, {"size": 3})
        again = io.StringIO()
        other.export_to(again)
    assert again.getvalue() == whole.getvalue()


# --- labels ---


def test_a_label_names_an_earlier_position_wherever_the_agent_is_by_then(store, agent):
    for text in "abc":
        agent.user(text)
    agent.label("first", at=1)
    agent.jump(2)
    assert agent.context("first").at == 1
    assert store.resolve("main@first") == (agent, 1, "first")
    agent.jump("first")
    assert [event.content for event in agent.context().messages if event.kind == "user"] == ["a"]


def test_the_last_position_that_got_a_name_has_it_and_a_mark_comes_first(store, agent):
    agent.user("a")
    agent.label("here")
    agent.user("b")
    agent.label("here")
    assert agent.context("here").at == 3
    agent.append("note", "backstory.label", {"label": None, "at": 3})
    with pytest.raises(backstory.MarkNotFound):
        agent.jump("here")
    mark = agent.mark("here")
    assert agent.context("here").at == mark.seq


@pytest.mark.parametrize("name", ["", " ", 3, None])
def test_what_is_not_a_label_is_refused(agent, name):
    with pytest.raises(backstory.Invalid, match="is not a label"):
        agent.label(name)


def test_a_label_for_a_position_that_is_not_there_is_refused(agent):
    with pytest.raises(backstory.PositionNotFound):
        agent.label("here", at=9)


def test_a_key_that_comes_twice_in_a_batch_comes_in_once(store):
    with store.intake() as intake:
        agent = intake.agent("tool/1", "named")
        intake.extend(agent, [("user", "a", None, "k"), ("user", "b", None, "k"), ("user", "c")])
    assert [event.content for event in store.agent("named").events()] == ["a", "c"]
    assert store.verify() == []


def test_what_cannot_be_taken_in_is_refused_when_it_is_handed_over(store, agent):
    with store.intake() as intake:
        calls = [
            lambda: intake.agent("k", parent="main"),
            lambda: intake.agent("k", parent=agent, at="0"),
            lambda: intake.agent("k", parent=agent, at=True),
            lambda: intake.extend("main", [("user", "x")]),
            lambda: intake.extend(agent, None),
            lambda: intake.extend(agent, [("user", "x", None, None, T0, 6)]),
            lambda: intake.extend(agent, [Draft("bogus", "a\0b")]),
            lambda: intake.describe("main", title="x"),
            lambda: intake.remember("tool", 5),
            lambda: intake.remember("tool", "\ud800"),
            lambda: intake.remember("tool", "a\0b"),
            lambda: intake.remember("tool", "id", cursor=[1]),
            lambda: intake.remember("tool", "id", cursor={"a": float("nan")}),
            lambda: intake.remember("tool", "id", cursor={"a": "\ud800"}),
            lambda: intake.find_keys("abc"),
            lambda: intake.find_keys([5]),
            lambda: intake.find_keys(["a\0b"]),
            lambda: intake.find_positions(agent, "abc"),
            lambda: intake.source("ab", 1),
            lambda: intake.source(1, "ab"),
        ]
        for call in calls:
            with pytest.raises(backstory.Invalid):
                call()
    assert (agent.head, len(store.agents()), store.intake().source("tool", "id")) == (0, 1, None)
