"""What every backend does with undo and redo, compaction, settings, and short reads."""

from contextlib import contextmanager

import pytest

import backstory

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


def test_moves_take_the_head_that_was_seen_and_who_did_it(agent):
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


class Counted:
    """A backend whose calls are counted, inside of an exclusive block too."""

    def __init__(self, backend, calls):
        self._backend, self._calls = backend, calls

    def __getattr__(self, name):
        method = getattr(self._backend, name)

        @contextmanager
        def exclusive(agent):
            with method(agent) as rows:
                yield Counted(rows, self._calls)

        def counted(*args, **kwargs):
            self._calls.append(name)
            return method(*args, **kwargs)

        return exclusive if name == "exclusive" else counted if callable(method) else method


def test_a_move_takes_three_calls_however_long_the_history(store, agent):
    agent.extend([("user", str(n)) for n in range(50)])
    agent.mark("x")
    agent.user("dead")
    calls = []
    agent._log.backend = Counted(agent._log.backend, calls)
    for move in (lambda: agent.rewind("x"), lambda: agent.jump(3), agent.undo):
        calls.clear()
        move()
        assert len(calls) <= 3, calls
    calls.clear()
    agent.context(7)
    assert calls == ["walk", "read"]


MOVES = {
    "rewind": (lambda agent: agent.rewind("m"), 2),
    "jump": (lambda agent: agent.jump("m"), 2),
    "jump to a position": (lambda agent: agent.jump(1), 1),
    "undo": (lambda agent: agent.undo(), 4),
    "append": (lambda agent: agent.append("rewind", None, {"target_message_id": 2}), 2),
}


@pytest.mark.parametrize(("move", "target"), MOVES.values(), ids=MOVES)
def test_a_move_is_decided_after_what_was_written_before_it_had_the_lock(
    store, agent, monkeypatch, move, target
):
    """Decided before, it would have to be repeated, and among many writers again and again."""
    agent.user("a")
    agent.mark("m")
    agent.extend([("user", "b"), ("user", "c")])
    agent.jump(3)
    backend = store._log.backend
    exclusive = backend.exclusive

    @contextmanager
    def overtaken(*agents):
        agent.user("in between")
        with exclusive(*agents) as rows:
            yield rows

    monkeypatch.setattr(backend, "exclusive", overtaken)
    event = move(agent)
    assert (event.seq, event.data["target_message_id"]) == (7, target)
    assert agent.live_ranges()[-1][1] == 7


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


def test_tail_with_notes_counts_the_notes_in_the_context(agent):
    agent.user("one")
    agent.note("n", {"at": 2})
    agent.mark("m")
    agent.note("dead")
    agent.rewind("m")
    agent.assistant("two")
    told = [(event.kind, event.content) for event in agent.tail(2, notes=True)]
    assert told == [("note", "n"), ("assistant", "two")]
    assert [event.content for event in agent.tail(2)] == ["one", "two"]
    assert [event.content for event in agent.tail(9, notes=True)] == ["one", "n", "two"]


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
    for its, at, notes in (
        (agent, None, ["item", "none"]),
        (agent, 5, []),
        (child, None, ["state"]),
    ):
        messages = its.messages(at, notes=notes)
        assert its.texts(at, notes=notes) == [
            (event.content, event.data_json) for event in messages
        ]
    agent.clear()
    assert agent.messages(notes=["item"]) == []
    assert agent.texts(notes=["item"]) == []


def test_places_are_those_of_the_keys_that_the_lineage_has(agent):
    agent.append("user", "one", key="a")
    agent.append("user", "two", key="b")
    child = agent.fork(at=1)
    child.append("user", "three", key="c")
    assert child.places(["a", "b", "c", "d"]) == {"a": 1, "c": 2}
    assert agent.places(iter(["a", "b"])) == {"a": 1, "b": 2}
    assert agent.places([]) == {}


def test_tail_is_the_end_of_the_conversation(agent):
    for n in range(40):
        agent.user(f"u{n}")
        agent.note("n")
    agent.mark("x")
    agent.user("dead")
    agent.rewind("x")
    agent.user("last")
    whole = [message.content for message in agent.conversation()]
    for n in (0, 1, 2, 39, 41, 100):
        assert [event.content for event in agent.tail(n)] == whole[
            len(whole) - n if n <= len(whole) else 0 :
        ]
    assert [event.content for event in agent.tail(2, at=4)] == ["u0", "u1"]
    with pytest.raises(backstory.Invalid):
        agent.tail(-1)


def test_positions_are_read_in_order_dead_or_alive(agent):
    agent.extend([("user", str(n)) for n in range(5)])
    fork = agent.fork("f", at=3)
    fork.user("own")
    assert [event.content for event in fork.read([4, 1, 3, 1])] == ["0", "2", "own"]
    with pytest.raises(backstory.PositionNotFound):
        fork.read([5])


def test_a_digest_names_one_history(store, agent):
    agent.user("a")
    fork = agent.fork("f")
    assert agent.digest() == fork.digest() == agent.digest(1)
    agent.user("b")
    fork.user("c")
    assert len({agent.digest(), fork.digest(), agent.digest(1), agent.digest(0)}) == 4
