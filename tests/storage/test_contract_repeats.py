"""What every backend does with a call that is repeated, because its answer was lost."""

from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

import backstory
from backstory import Event, RepeatedEvent
from backstory.log.checks import check_draft
from backstory.log.events import to_json
from backstory.storage.repeats import is_same_event
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

COMPACTING_ANSWER = {
    "id": "resp_1",
    "object": "response.compaction",
    "output": [{"type": "compaction", "id": "cmp_1", "encrypted_content": "c2VhbGVk"}],
}


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
ONCE_CALLS = CALLS | {
    "record a compaction": lambda agent, **options: agent.record(COMPACTING_ANSWER, **options)
}
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
    assert agent.events(after=head) == [*written, agent.events([agent.head])[0]]


@pytest.mark.parametrize("what", CALLS)
def test_without_its_key_a_call_after_another_head_is_a_conflict(agent, what):
    with pytest.raises(backstory.Conflict):
        CALLS[what](agent, key="k", expected=agent.head - 1)
    assert agent.find("k") is None


@pytest.mark.parametrize("what", sorted(CALLS.keys() - {"compact"}))
def test_a_repeat_after_the_expected_head_returns_what_was_written(agent, what):
    head = agent.head
    written = as_list(CALLS[what](agent, key=None, expected=head))
    agent.user("something else")
    repeated = as_list(CALLS[what](agent, key=None, expected=head))
    assert repeated == written
    assert all(isinstance(event, RepeatedEvent) and event.is_live for event in repeated)
    assert agent.head == head + len(written) + 1


@pytest.mark.parametrize("once", ["lineage", "context"])
@pytest.mark.parametrize("is_dead", [False, True])
def test_a_repeat_of_a_batch_of_which_some_keys_existed_returns_what_was_written(
    agent, once, is_dead
):
    agent.user("first", key="a")
    if is_dead:
        agent.clear()
    head = agent.head
    batch = [("user", "first", None, "a"), ("user", "new"), ("user", "last", None, "b")]
    written = agent.extend(batch, expected=head, once=once)
    assert len({event.seq for event in written}) == 3
    after = agent.head
    repeated = agent.extend(batch, expected=head, once=once)
    assert repeated == written
    assert all(isinstance(event, RepeatedEvent) for event in repeated)
    batch[1] = ("user", "something else")
    with pytest.raises(backstory.Conflict):
        agent.extend(batch, expected=head, once=once)
    assert agent.head == after


def test_a_repeated_write_to_several_agents_of_which_one_has_a_key_returns_what_was_written(store):
    one, other = store.start("one"), store.start("other")
    one.user("first", key="a")
    batches = [(one, [("user", "first", None, "a"), ("user", "b")], 1), (other, [("user", "c")], 0)]
    written = store.write(batches)
    assert store.write(batches) == written
    assert (one.head, other.head) == (2, 1)


def test_a_compaction_that_is_repeated_without_a_key_is_a_conflict(agent):
    head = agent.head
    written = agent.compact("In short.", keep=1, expected=head)
    with pytest.raises(backstory.Conflict) as raised:
        agent.compact("In short.", keep=1, expected=head)
    assert raised.value.head == agent.head == head + len(written)


MOVES = {
    "rewind": lambda agent, **options: agent.rewind("start", **options),
    "rewind elsewhere": lambda agent, **options: agent.rewind("later", **options),
    "rewind to no mark": lambda agent, **options: agent.rewind("nowhere", **options),
    "jump": lambda agent, **options: agent.jump("start", **options),
    "jump elsewhere": lambda agent, **options: agent.jump(0, **options),
    "jump out of the log": lambda agent, **options: agent.jump(1_000, **options),
    "undo": lambda agent, **options: agent.undo(**options),
    "undo a turn": lambda agent, **options: agent.undo(turn=True, **options),
    "redo": lambda agent, **options: agent.redo(**options),
    "clear": lambda agent, **options: agent.clear(**options),
    "by someone else": lambda agent, **options: agent.rewind("start", by="eve", **options),
    "with a key": lambda agent, **options: agent.rewind("start", key="k", **options),
}


@pytest.mark.parametrize("written", ["rewind", "jump", "undo", "undo a turn"])
def test_another_move_after_the_expected_head_is_a_conflict(store, written):
    agent = store.start("main")
    agent.mark("start")
    agent.jump(0)
    agent.jump(1)
    agent.user("a question")
    agent.mark("later")
    head = agent.head
    MOVES[written](agent, expected=head)
    for other in MOVES.keys() - {written}:
        with pytest.raises(backstory.Conflict):
            MOVES[other](agent, expected=head)
    assert agent.head == head + 1


def test_a_repeated_jump_to_a_time_or_a_label_means_what_it_meant_before(agent):
    head = agent.head
    now = datetime.now(UTC) + timedelta(hours=1)
    to_time = agent.jump(now, expected=head)
    agent.mark("start")
    assert agent.jump(now, expected=head) == to_time
    rewind = agent.rewind("start", expected=agent.head)
    assert rewind.data["target_message_id"] == rewind.seq - 1
    agent.mark("start")
    assert agent.rewind("start", expected=rewind.seq - 1) == rewind


def test_a_move_that_the_agent_inherits_is_no_repeat_of_its_own(agent):
    head = agent.head
    agent.rewind("start", expected=head)
    fork = agent.fork()
    with pytest.raises(backstory.Conflict):
        fork.rewind("start", expected=head)


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
    agent.extend([Event.of(1, "user", "more", key="turn (part 5)")])  # a copy of something
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


def test_an_answer_in_which_the_provider_compacted_is_once_in_the_context(agent):
    def record():
        return agent.record(COMPACTING_ANSWER, key="k", once="context")

    first = record()
    assert record() == first
    for number in (2, 3):
        agent.clear()
        agent.user("more")
        written = record()
        assert written[0].seq == agent.head - len(written) + 1
        assert written[0].key == f"k (again {number})"
        repeated = record()
        assert repeated == written
        assert all(event.is_live for event in repeated)
    agent.jump(first[-1].seq)
    assert record() == first


@pytest.mark.parametrize("what", [*MESSAGES, "record", "record a compaction"])
@pytest.mark.parametrize("key", ["k", None])
def test_once_is_a_word(agent, what, key):
    head = agent.head
    with pytest.raises(backstory.Invalid, match="once="):
        ONCE_CALLS[what](agent, key=key, once="forever")
    assert agent.head == head


@pytest.mark.parametrize("what", ["user", "record", "record a compaction"])
@pytest.mark.parametrize("length", [990, 1_000])
def test_the_longest_keys_are_written_again_once_and_numbered(agent, what, length):
    key = "ж" * length
    keys = set()
    for _ in range(11):
        agent.clear()
        written = as_list(ONCE_CALLS[what](agent, key=key, once="context"))
        assert as_list(ONCE_CALLS[what](agent, key=key, once="context")) == written
        keys.update(event.key for event in written)
    assert len(keys) == 11 * len(written)
    assert all(agent.find(key) for key in keys)
    other = as_list(ONCE_CALLS[what](agent, key=key[1:], once="context"))
    assert keys.isdisjoint(event.key for event in other)


OWN_KEYS = "are the library's own"


@pytest.mark.parametrize("key", ["k (part 2)", "k (again 12)"])
@pytest.mark.parametrize("what", CALLS)
def test_a_key_like_those_that_are_derived_from_others_is_refused(agent, what, key):
    head = agent.head
    with pytest.raises(backstory.Invalid, match=OWN_KEYS):
        CALLS[what](agent, key=key)
    assert agent.head == head


@pytest.mark.parametrize(
    "key", ["(part 2)", "k(part 2)", "k (part 2) ", "k (part two)", "k (again)"]
)
def test_other_keys_with_brackets_are_keys(agent, key):
    assert agent.find(agent.user("hi", key=key).key).content == "hi"


def test_copies_of_events_keep_the_keys_that_were_derived(store, agent):
    answer = agent.record(ANSWER, key="k")
    copies = store.start("other").extend(answer)
    assert [event.key for event in copies] == [event.key for event in answer]


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
    assert agent.context().messages == [agent.events([agent.head])[0]]


def lose_answers(backend, monkeypatch):
    """Lose the answer to every commit: the caller cannot know that it has happened."""
    begin, append = backend.begin, backend.append

    @contextmanager
    def begin_and_lose(**locks):
        with begin(**locks) as transaction:
            yield transaction
        raise backstory.ConnectionLost("the answer was lost")

    def append_and_lose(*arguments, **options):
        append(*arguments, **options)
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


# --- when a draft is the event that an earlier call wrote ---


def test_draft_is_the_same_event_whatever_the_order_of_its_data():
    draft = check_draft("user", "hi", {"a": 1, "b": 2}, "k")
    assert is_same_event(draft, Event.of(1, "user", "hi", {"a": 1, "b": 2}, key="k"))
    assert is_same_event(draft, Event.of(1, "user", "hi", '{"b": 2, "a": 1}', key="k"))
    assert not is_same_event(draft, Event.of(1, "user", "hi", {"a": 1}, key="k"))
    assert not is_same_event(draft, Event.of(1, "user", "ho", {"a": 1, "b": 2}, key="k"))
    assert not is_same_event(draft, Event.of(1, "user", "hi", {"a": 1, "b": 2}))


def test_an_erased_event_may_have_been_any_draft_of_its_kind_and_key():
    erased = Event.of(1, "user", "", to_json({"erased": {"content": "", "data": ""}}), key="k")
    assert is_same_event(check_draft("user", "hi", {"a": 1}, "k"), erased)
    assert not is_same_event(check_draft("assistant", "hi", {"a": 1}, "k"), erased)
    assert not is_same_event(check_draft("user", "hi", {"a": 1}, "other"), erased)
