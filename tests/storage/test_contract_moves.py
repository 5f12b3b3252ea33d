"""What every backend does with undo and redo, compaction, settings, and short reads."""

import pytest

import backstory
from backstory.storage import compact

# --- moves ---


def test_undo_goes_back_one_move_at_a_time_and_redo_comes_forward(store, agent):
    agent.user("1")
    agent.mark("x")
    contexts = [live(agent)]
    for step in range(3):
        agent.user(f"after {step}")
        before = live(agent)
        agent.rewind("x") if step % 2 else agent.jump(2)
        contexts.append(before)
    states = [live(agent)]
    for _ in range(3):
        agent.undo()
        states.append(live(agent))
    assert states[1:] == contexts[:0:-1]
    with pytest.raises(backstory.NotFound, match="nothing to undo"):
        agent.undo()
    for wanted in states[2::-1]:
        agent.redo()
        assert live(agent) == wanted
    with pytest.raises(backstory.NotFound, match="nothing to redo"):
        agent.redo()
    agent.undo()
    agent.user("something new")
    with pytest.raises(backstory.NotFound, match="nothing to redo"):
        agent.redo()
    assert store.verify() == []


def live(agent):
    return [event.content for event in agent.context().messages if event.kind == "user"]


def test_the_opening_clear_is_not_something_to_undo(agent):
    agent.extend([("clear",), ("system", "Be careful.")])
    with pytest.raises(backstory.NotFound, match="nothing to undo"):
        agent.undo()
    assert agent.head == 2


def test_moves_take_an_expected_head_and_an_author(agent):
    agent.user("hi")
    moves = (
        lambda **more: agent.mark("x", **more),
        lambda **more: agent.rewind("x", **more),
        lambda **more: agent.jump(1, **more),
        agent.undo,
        agent.redo,
        agent.clear,
    )
    for move in moves:
        with pytest.raises(backstory.Conflict):
            move(expected=99)
        head = agent.head
        assert move(expected=head, by="ada").data["by"] == "ada"
        assert agent.head == head + 1


MOVES = {
    "rewind": (lambda agent: agent.rewind("m"), 2),
    "jump": (lambda agent: agent.jump("m"), 2),
    "jump to a position": (lambda agent: agent.jump(1), 1),
    "undo": (lambda agent: agent.undo(), 4),
    "append": (lambda agent: agent.append("rewind", None, {"target_message_id": 2}), 2),
}


@pytest.mark.parametrize(("move", "target"), MOVES.values(), ids=MOVES)
def test_a_move_sees_events_that_were_written_before_it_got_the_lock(
    store, agent, monkeypatch, move, target
):
    """Decided before, it would have to be repeated, and among many writers again and again."""
    agent.user("a")
    agent.mark("m")
    agent.extend([("user", "b"), ("user", "c")])
    agent.jump(3)
    backend = store._backend
    begin = backend.begin

    def begin_later(**locks):
        monkeypatch.undo()
        agent.user("in between")
        return begin(**locks)

    monkeypatch.setattr(backend, "begin", begin_later)
    event = move(agent)
    assert (event.seq, event.data["target_message_id"]) == (7, target)
    assert agent.context().messages[-1] == event


def test_a_compaction_is_one_batch_that_undo_takes_back(store, agent):
    agent.system("Be careful.")
    agent.settings(model="m-1", tools=[{"name": "glob"}])
    for n in range(3):
        agent.user(f"question {n}")
        agent.assistant(f"answer {n}")
    before = agent.conversation()
    written = agent.compact("Three questions were asked.", keep=1)
    assert [event.kind for event in written] == ["clear", "system", "note", "user", "assistant"]
    assert [message.content for message in agent.conversation()] == [
        "Be careful.",
        "Three questions were asked.",
        "answer 2",
    ]
    assert agent.conversation().settings == before.settings
    assert written[3].data["compacted"]["events"] == 5
    assert agent.explain(3)[1:3] == ("compacted", written[0].seq)
    assert f"the summary is at {written[3].seq}" in agent.explain(3).reason
    agent.undo()
    assert agent.conversation() == before
    assert store.verify() == []


def act_while_compacting(monkeypatch, *acts):
    """Do something while a compaction is computed, once for each act. Return the list of contents
    that were read for it each time."""
    real = compact.build_compaction
    waiting = list(acts)
    contexts = []

    def build_compaction(context, *args, **kwargs):
        contexts.append([event.content for event in context])
        if waiting:
            waiting.pop(0)()
        return real(context, *args, **kwargs)

    monkeypatch.setattr(compact, "build_compaction", build_compaction)
    return contexts


def test_others_write_while_a_compaction_is_computed(store, agent, monkeypatch):
    agent.user("one")
    contexts = act_while_compacting(monkeypatch, lambda: agent.user("two"))
    agent.compact("a summary", keep=1)
    assert contexts == [["one"], ["one", "two"]]
    assert [event.content for event in agent.context().messages] == ["a summary", "two"]
    assert store.verify() == []


def test_a_compaction_of_a_context_that_is_cleared_meanwhile_finds_nothing(agent, monkeypatch):
    agent.user("one")
    act_while_compacting(monkeypatch, agent.clear)
    with pytest.raises(backstory.NotFound, match="nothing to compact"):
        agent.compact("a summary")


def test_a_repeated_compaction_is_found_although_there_is_nothing_to_compact(agent):
    agent.user("one")
    written = agent.compact("a summary", key="k")
    agent.clear()
    assert agent.compact("a summary", key="k") == written


def test_a_repeated_compaction_is_found_although_its_clear_was_erased(agent):
    agent.user("one")
    written = agent.compact("a summary", key="k")
    agent.erase([written[0].seq], why="asked")
    repeated = agent.compact("a summary", key="k")
    assert [event.seq for event in repeated] == [event.seq for event in written]


def test_erased_settings_are_erased_in_a_compaction_too(agent):
    agent.settings(params={"metadata": {"user": "secret"}})
    agent.settings(model="m-1")
    agent.user("hi")
    agent.compact("In short.", by="me")
    agent.erase([1], why="asked")
    settings = agent.conversation().settings
    assert (settings.model, dict(settings.params)) == ("m-1", {})
    assert not any("secret" in (event.data_json or "") for event in agent.events())


def test_settings_follow_the_context(agent):
    assert agent.settings(model="a") is not None
    assert agent.settings(model="a") is None
    agent.user("hi")
    agent.mark("x")
    agent.settings(model="b", params={"temperature": 1})
    assert agent.conversation().settings.model == "b"
    assert agent.conversation().request("openai")["temperature"] == 1
    agent.rewind("x")
    assert agent.conversation().settings.model == "a"
    assert agent.conversation().request("openai")["model"] == "a"


# --- reading less ---


def test_a_limit_of_messages_counts_the_notes_that_are_asked_for(agent):
    agent.user("one")
    agent.note("n", {"at": 2})
    agent.mark("m")
    agent.note("dead")
    agent.rewind("m")
    agent.assistant("two")
    found = [(event.kind, event.content) for event in agent.messages(notes=["n", "dead"], limit=2)]
    assert found == [("note", "n"), ("assistant", "two")]
    assert [event.content for event in agent.messages(limit=2)] == ["one", "two"]
    assert [event.content for event in agent.messages(notes=["n"], limit=9)] == ["one", "n", "two"]


def test_messages_leave_out_marks_and_notes_but_for_those_that_are_named(agent):
    agent.user("one")
    agent.note("state", {"large": True})
    agent.note("item", {"n": 1})
    agent.mark("m")
    agent.user("dead")
    agent.rewind("m")
    agent.assistant("two")
    child = agent.fork(at=3)
    child.user("three")
    assert [event.content for event in agent.messages()] == ["one", "two"]
    assert [event.content for event in agent.messages(notes=["item", "none"])] == [
        "one",
        "item",
        "two",
    ]
    assert [event.content for event in agent.messages(5)] == ["one", "dead"]
    assert [event.content for event in child.messages(notes=["state"])] == ["one", "state", "three"]
    assert agent.messages() == [
        event for event in agent.context().messages if event.kind in ("user", "assistant")
    ]
    agent.clear()
    assert agent.messages(notes=["item"]) == []


def test_the_newest_note_of_several_names_comes_with_the_messages(agent):
    agent.note("state", {"n": 1})
    agent.note("item", {"n": 2})
    agent.user("one")
    agent.note("state", {"n": 3})
    agent.note("item", {"n": 4})
    agent.jump(4)
    found = agent.messages(notes=["item"], last=["state", "other"])
    assert [event.seq for event in found] == [2, 3, 4]
    assert agent.last_notes(["state", "item", "other"]) == {
        "state": agent.events([4])[0],
        "item": agent.events([2])[0],
    }


def test_an_intake_finds_the_positions_of_the_keys_that_the_lineage_has(store, agent):
    agent.append("user", "one", key="a")
    agent.append("user", "two", key="b")
    child = agent.fork(at=1)
    child.append("user", "three", key="c")
    intake = store.intake()
    assert intake.find_positions(child, ["a", "b", "c", "d"]) == {"a": 1, "c": 2}
    assert intake.find_positions(agent, iter(["a", "b"])) == {"a": 1, "b": 2}
    assert intake.find_positions(agent, []) == {}


def test_a_limit_of_messages_gives_the_end_of_the_conversation(agent):
    for n in range(40):
        agent.user(f"u{n}")
        agent.note("n")
    agent.mark("x")
    agent.user("dead")
    agent.rewind("x")
    agent.user("last")
    texts = [message.content for message in agent.conversation()]
    for n in (1, 2, 39, 41, 100):
        assert [event.content for event in agent.messages(limit=n)] == texts[-n:]
    assert [event.content for event in agent.messages(4, limit=2)] == ["u0", "u1"]
    with pytest.raises(backstory.Invalid):
        agent.messages(limit=-1)


def test_positions_are_read_in_order_dead_or_alive(agent):
    agent.extend([("user", str(n)) for n in range(5)])
    fork = agent.fork("f", at=3)
    fork.user("own")
    assert [event.content for event in fork.events([4, 1, 3, 1])] == ["0", "2", "own"]
    with pytest.raises(backstory.PositionNotFound):
        fork.events([5])


def test_a_digest_names_one_history(store, agent):
    agent.user("a")
    fork = agent.fork("f")
    assert agent.digest() == fork.digest() == agent.digest(1)
    agent.user("b")
    fork.user("c")
    assert len({agent.digest(), fork.digest(), agent.digest(1), agent.digest(0)}) == 4


def test_redo_after_a_jump_to_itself_ends(agent):
    agent.append("jump", None, {"target_message_id": 1, "redo": True})
    with pytest.raises(backstory.NotFound, match="nothing to redo"):
        agent.redo()


def test_undo_and_redo_return_their_changes(agent):
    agent.user("one")
    agent.note("n")
    agent.compact("Summary.")
    agent.user("two")
    undo = agent.undo()
    assert [event.content for event in undo.removed] == ["Summary.", "two"]
    assert [event.content for event in undo.returned] == ["one", "n"]
    assert [event.content for event in agent.conversation()] == ["one"]
    redo = agent.redo(key="k")
    assert [event.content for event in redo.removed] == ["one", "n"]
    assert [event.content for event in redo.returned] == ["Summary.", "two"]
    repeated = agent.redo(key="k")
    assert isinstance(repeated, backstory.RepeatedEvent)
    assert (repeated.removed, repeated.returned) == (redo.removed, redo.returned)


def test_undo_of_a_rewind_across_a_fork_returns_its_changes(agent):
    agent.mark("m")
    agent.user("one")
    fork = agent.fork("child")
    fork.user("two")
    fork.rewind("m")
    undo = fork.undo()
    assert [event.content for event in undo.returned] == ["one", "two"]
    assert undo.removed == []


def test_expand_takes_back_a_compaction_and_keeps_the_turns_after_it(agent):
    agent.system("Be careful.")
    agent.extend([("user", "1"), ("assistant", "one"), ("user", "2"), ("assistant", "two")])
    agent.compact("They counted.", keep=2)
    agent.extend([("user", "3"), ("note", "counted"), ("mark", None, {"label": "m"})])
    agent.assistant("three")
    head = agent.head
    batch = agent.expand(by="me")
    assert [event.content for event in agent.conversation()] == [
        *("Be careful.", "1", "one", "2", "two"),
        *("3", "three"),
    ]
    assert [mark.label for mark in agent.marks()] == ["m"]
    assert batch[0].data == {"target_message_id": 5, "by": "me"}
    agent.undo()
    assert [event.content for event in agent.conversation()] == [
        *("Be careful.", "They counted."),
        *("2", "two", "3", "three"),
    ]
    with pytest.raises(backstory.Conflict):
        agent.expand(expected=head)


def test_expand_is_repeated_by_its_key_and_refused_without_a_compaction(agent):
    agent.user("1")
    with pytest.raises(backstory.NotFound, match="nothing to expand"):
        agent.expand()
    agent.compact("One.")
    batch = agent.expand(key="k")
    assert agent.expand(key="k") == batch
    assert [event.content for event in agent.conversation()] == ["1"]
    with pytest.raises(backstory.NotFound, match="nothing to expand"):
        agent.expand()


def test_expand_of_a_compaction_of_a_compaction_brings_back_the_first_summary(agent):
    agent.user("1")
    agent.compact("One.")
    agent.user("2")
    agent.compact("One and two.")
    agent.user("3")
    agent.expand()
    assert [event.content for event in agent.conversation()] == ["One.", "2", "3"]
    agent.expand()
    assert [event.content for event in agent.conversation()] == ["1", "2", "3"]
