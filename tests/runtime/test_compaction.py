"""Compaction by the model: what it is asked, what stays, and what is written when."""

import pytest

import backstory
from backstory.runtime.compaction import HEADING, LONGEST_RESULT, PROMPT, compacted, kept_messages
from backstory.runtime.models import ContextTooLong, ModelError, TextDelta
from tests.runtime.acting import Actor, speaks


@pytest.fixture
def agent():
    with backstory.open(":memory:") as store:
        agent = store.start("main", system="Be brief.")
        for number in range(4):
            agent.user(f"question {number}")
            agent.assistant(f"answer {number}")
        yield agent


def said(agent):
    return [message.content for message in agent.conversation()]


class Watched(Actor):
    """An actor that remembers what it was asked."""

    def __init__(self, *acts):
        super().__init__(*acts)
        self.asked = []

    def answer(self, conversation, tools):
        self.asked.append([message.content for message in conversation])
        return super().answer(conversation, tools)


def test_the_summary_stands_for_all_but_the_last_turns_and_can_be_undone(agent):
    before = said(agent)
    model = Watched(speaks("The user asks things."))
    told = list(compacted(agent, model, focus="the numbers"))
    assert "".join(one.text for one in told if isinstance(one, TextDelta)) == "Theuserasksthings."
    [asked] = model.asked
    assert asked[:-1] == before
    assert asked[-1].startswith(PROMPT)
    assert "the numbers" in asked[-1]
    kept = ["question 2", "answer 2", "question 3", "answer 3"]
    assert said(agent) == ["Be brief.", f"{HEADING}The user asks things.", *kept]
    agent.undo()
    assert said(agent) == before


def test_fewer_turns_stay_if_they_are_large_but_the_last_if_it_must(agent):
    agent.user("a very long question " * 200)
    events = agent.context().messages
    assert kept_messages(events, Actor(window=None)) == 3
    small = Actor(window=100)
    assert kept_messages(events, small) == 0
    assert kept_messages(events, small, at_least=1) == 1


def test_nothing_is_asked_or_written_if_only_the_last_turn_is_there():
    with backstory.open(":memory:") as store:
        agent = store.start("main", system="s")
        agent.user("the only question")
        model = Watched()
        with pytest.raises(backstory.NotFound, match="nothing to compact before the last turn"):
            list(compacted(agent, model, at_least=1))
        assert (model.asked, agent.head) == ([], 2)


def test_without_a_summary_nothing_is_written(agent):
    head = agent.head
    with pytest.raises(ModelError, match="gave no summary"):
        list(compacted(agent, Actor(speaks(" "))))
    assert agent.head == head


def test_of_what_is_too_long_to_be_summed_up_the_newer_half_is(agent):
    model = Watched([ContextTooLong("too long")], [ContextTooLong("too long")], speaks("Short."))
    list(compacted(agent, model))
    assert [len(asked) for asked in model.asked] == [10, 6, 4]
    assert model.asked[-1][-2] == "answer 3"
    hopeless = Actor(*[[ContextTooLong("too long")]] * 4)
    with pytest.raises(ContextTooLong):
        list(compacted(agent, hopeless))


def test_someone_elses_event_in_between_is_a_conflict_and_nothing_is_lost(agent):
    work = compacted(agent, Actor(speaks("A summary.")))
    next(work)
    agent.user("from elsewhere")
    with pytest.raises(backstory.Conflict):
        list(work)
    assert said(agent)[-1] == "from elsewhere"


def test_long_results_are_shortened_for_the_summary_only(agent):
    call = agent.tool_call("read", {})
    agent.tool_result(call, "x" * 50_000)
    agent.assistant("done")
    model = Watched(speaks("Summary."))
    list(compacted(agent, model))
    assert all(len(text or "") < 2 * LONGEST_RESULT for text in model.asked[0])
    assert any(len(event.content or "") == 50_000 for event in agent.context().messages)
