"""What every backend does with a call that is repeated, because its answer was lost."""

from contextlib import contextmanager

import pytest

import backstory
from backstory import RepeatedEvent
from tests.threads import in_threads

ANSWER = {
    "choices": [
        {
            "message": {
                "role": "assistant",
                "content": "Let me look.",
                "tool_calls": [
                    {
                        "id": f"call_{n}",
                        "type": "function",
                        "function": {"name": "look", "arguments": "{}"},
                    }
                    for n in range(2)
                ],
            }
        }
    ],
    "model": "some-model",
}
OTHER_ANSWER = {"choices": [{"message": {"role": "assistant", "content": "No."}}], "model": "m"}


def as_list(written):
    return written if isinstance(written, list) else [written]


CALLS = {
    "append": lambda agent, **options: agent.append("user", "hi", **options),
    "extend": lambda agent, key, **options: agent.extend([("user", "hi", None, key)], **options),
    "system": lambda agent, **options: agent.system("Be careful.", **options),
    "user": lambda agent, **options: agent.user("hi", **options),
    "assistant": lambda agent, **options: agent.assistant("Hello.", **options),
    "tool_call": lambda agent, **options: agent.tool_call("look", {"at": 1}, **options),
    "tool_result": lambda agent, **options: agent.tool_result("call_1", "seen", **options),
    "note": lambda agent, **options: agent.note("seen", {"n": 1}, **options),
    "record": lambda agent, **options: agent.record(ANSWER, **options),
    "mark": lambda agent, **options: agent.mark("here", **options),
    "clear": lambda agent, **options: agent.clear(**options),
    "rewind": lambda agent, **options: agent.rewind("start", **options),
    "jump": lambda agent, **options: agent.jump(1, **options),
    "undo": lambda agent, **options: agent.undo(**options),
    "undo a turn": lambda agent, **options: agent.undo(turn=True, **options),
    "redo": lambda agent, **options: agent.redo(**options),
    "compact": lambda agent, **options: agent.compact("In short.", keep=1, **options),
}
LEAD_ELSEWHERE = {"rewind", "jump", "undo", "undo a turn", "redo", "compact"}
MESSAGES = ["append", "extend", "system", "user", "assistant", "tool_call", "tool_result", "note"]


@pytest.fixture
def agent(store):
    """An agent for which every call of CALLS has something to do."""
    agent = store.start("main")
    agent.user("a")
    agent.mark("start")
    agent.user("b")
    agent.jump(2)
    agent.user("c")
    agent.clear()
    agent.undo()
    return agent


@pytest.mark.parametrize("what", CALLS)
def test_a_repeat_with_a_key_returns_what_was_written(agent, what):
    head = agent.head
    written = as_list(CALLS[what](agent, key="k", expected=head))
    assert written[0].key == "k"
    assert not any(isinstance(event, RepeatedEvent) for event in written)
    agent.user("something else")
    repeated = as_list(CALLS[what](agent, key="k", expected=head))
    assert repeated == written
    assert all(isinstance(event, RepeatedEvent) and event.is_live for event in repeated)
    assert agent.events(after=head) == [*written, agent.event(agent.head)]


@pytest.mark.parametrize("what", CALLS)
def test_without_its_key_a_call_after_another_head_is_a_conflict(agent, what):
    with pytest.raises(backstory.Conflict):
        CALLS[what](agent, key="k", expected=agent.head - 1)
    assert agent.find("k") is None


@pytest.mark.parametrize("what", sorted(CALLS.keys() - LEAD_ELSEWHERE))
def test_a_repeat_after_the_expected_head_returns_what_was_written(agent, what):
    head = agent.head
    written = as_list(CALLS[what](agent, key=None, expected=head))
    agent.user("something else")
    assert as_list(CALLS[what](agent, key=None, expected=head)) == written
    assert agent.head == head + len(written) + 1


@pytest.mark.parametrize("what", sorted(LEAD_ELSEWHERE))
def test_a_move_that_is_repeated_without_a_key_is_a_conflict(agent, what):
    """It would lead elsewhere now, and only a key says that it is the same one."""
    head = agent.head
    written = as_list(CALLS[what](agent, expected=head))
    with pytest.raises(backstory.Conflict) as raised:
        CALLS[what](agent, expected=head)
    assert raised.value.head == agent.head == head + len(written)


@pytest.mark.parametrize("what", CALLS)
def test_a_repeat_in_a_fork_returns_what_was_inherited(agent, what):
    written = as_list(CALLS[what](agent, key="k"))
    fork = agent.fork()
    assert as_list(CALLS[what](fork, key="k")) == written
    assert fork.head == agent.head


@pytest.mark.parametrize("what", CALLS)
def test_a_key_of_something_else_is_refused(agent, what):
    agent.append("user", "not that", key="k")
    head = agent.head
    with pytest.raises(backstory.KeyTaken):
        CALLS[what](agent, key="k")
    assert agent.head == head


def test_the_key_of_a_move_belongs_to_its_command(agent):
    agent.undo(key="k")
    for call in (
        lambda: agent.jump(1, key="k"),
        lambda: agent.redo(key="k"),
        lambda: agent.rewind("start", key="k"),
        lambda: agent.clear(key="k"),
        lambda: agent.compact("In short.", key="k"),
    ):
        with pytest.raises(backstory.KeyTaken):
            call()
    agent.clear(key="c")
    with pytest.raises(backstory.KeyTaken):
        agent.compact("In short.", key="c")


def test_the_first_answer_with_a_key_counts(agent):
    written = agent.record(ANSWER, key="turn")
    assert [event.key for event in written] == ["turn", "turn (part 2)", "turn (part 3)"]
    agent.user("more", key="turn (part 5)")
    assert agent.record(OTHER_ANSWER, key="turn") == written


def test_a_large_compaction_is_found_completely(agent):
    agent.extend([("user", f"question {number}") for number in range(200)])
    written = agent.compact("In short.", keep=200, key="k")
    assert len(written) > 200
    assert agent.compact("Something else.", key="k") == written


@pytest.mark.parametrize("what", [*MESSAGES, "record"])
def test_a_repeat_says_that_the_event_is_dead(agent, what):
    written = as_list(CALLS[what](agent, key="k"))
    agent.clear()
    repeated = as_list(CALLS[what](agent, key="k"))
    assert repeated == written
    assert not any(event.is_live for event in repeated)
    assert agent.context().messages == []


def test_a_repeat_by_the_expected_head_says_whether_it_is_live(agent):
    head = agent.head
    agent.user("hi", expected=head)
    assert agent.user("hi", expected=head).is_live
    agent.clear()
    assert not agent.user("hi", expected=head).is_live


@pytest.mark.parametrize("what", [*MESSAGES, "record"])
def test_once_in_the_context(agent, what):
    def call():
        return as_list(CALLS[what](agent, key="k", once="context"))

    first = call()
    assert call() == first
    for number in range(2, 12):
        agent.clear()
        written = call()
        assert written[0].seq == agent.head - len(written) + 1
        assert written[0].key == f"k (again {number})"
        repeated = call()
        assert repeated == written
        assert all(event.is_live for event in repeated)
        assert agent.context().messages == written
    agent.jump(first[-1].seq)
    assert call() == first  # the jump brought it back


def test_once_in_the_context_of_a_fork(agent):
    agent.user("hi", key="k")
    agent.clear()
    fork = agent.fork()
    written = fork.user("hi", key="k", once="context")
    assert written.key == "k (again 2)"
    assert fork.user("hi", key="k", once="context") == written
    assert agent.user("hi", key="k", once="context").seq == agent.head


def test_once_is_a_word(agent):
    with pytest.raises(backstory.Invalid, match="once="):
        agent.user("hi", key="k", once="forever")


def test_a_key_that_is_too_long_for_a_number_is_refused(agent):
    agent.user("hi", key="k" * 1_000, once="context")
    agent.clear()
    with pytest.raises(backstory.Invalid, match="a key is text of 1 to 1,000"):
        agent.user("hi", key="k" * 1_000, once="context")


@pytest.mark.parametrize("what", [*MESSAGES[:1], "system", "record"])
def test_a_copy_that_a_compaction_has_kept_counts_as_live(agent, what):
    written = as_list(CALLS[what](agent, key="k"))
    agent.user("and then?")
    for keep in (5, 40):
        agent.compact("In short.", keep=keep)
        head = agent.head
        for once in ("lineage", "context"):
            repeated = as_list(CALLS[what](agent, key="k", once=once))
            assert repeated == written
            assert all(event.is_live for event in repeated)
        assert agent.head == head


def test_a_message_that_a_compaction_has_not_kept_is_written_again_once(agent):
    agent.user("hi", key="k")
    agent.user("and then?")
    agent.compact("In short.", keep=1)
    assert not agent.user("hi", key="k").is_live
    again = agent.user("hi", key="k", once="context")
    agent.compact("In short.", keep=1)
    assert agent.user("hi", key="k", once="context") == again
    assert [event.content for event in agent.context().messages] == ["In short.", "hi"]


def test_compactions_of_one_key_at_once_are_one(agent):
    agent.extend([("user", "more") for _ in range(20)])
    batches = in_threads(lambda _: agent.compact("In short.", keep=1, key="k"), 4)
    assert batches[0] == batches[1] == batches[2] == batches[3]


def test_events_of_one_key_at_once_are_one_in_the_context(agent):
    agent.user("hi", key="k")
    agent.clear()
    events = in_threads(lambda _: agent.user("hi", key="k", once="context"), 4)
    assert {event.seq for event in events} == {agent.head}
    assert len([event for event in events if isinstance(event, RepeatedEvent)]) == 3
    assert agent.context().messages == [agent.event(agent.head)]


def lose_answers(backend, monkeypatch):
    """Lose the answer to every commit: the caller cannot know that it has happened."""
    begin, append = backend.begin, backend.append

    @contextmanager
    def begin_and_lose(**locks):
        with begin(**locks) as transaction:
            yield transaction
        raise backstory.ConnectionLost("the answer was lost")

    def append_and_lose(*arguments):
        append(*arguments)
        raise backstory.ConnectionLost("the answer was lost")

    monkeypatch.setattr(backend, "begin", begin_and_lose)
    monkeypatch.setattr(backend, "append", append_and_lose)


@pytest.mark.parametrize("what", CALLS)
def test_a_call_whose_answer_was_lost_is_repeated_with_its_key(agent, what, monkeypatch):
    head = agent.head
    with monkeypatch.context() as losing:
        lose_answers(agent._backend, losing)
        with pytest.raises(backstory.ConnectionLost):
            CALLS[what](agent, key="k", expected=head)
    written = agent.events(after=head)
    repeated = as_list(CALLS[what](agent, key="k", expected=head))
    assert repeated == written == agent.events(after=head)
    assert written[0].key == "k"
