"""Compaction by the model: what it is asked, what stays, and what is written when."""

import pytest

import backstory
from backstory.runtime.compaction import (
    HEADING,
    MAX_RESULT,
    PROMPT,
    REQUEST_HEADING,
    compact_context,
)
from backstory.runtime.loop import Compacted, Loop
from backstory.runtime.models import ContextTooLong, ModelError, Response, TextDelta, ToolCall
from backstory.runtime.tools import Tool
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
    told = list(compact_context(agent, model, focus="the numbers"))
    assert "".join(one.text for one in told if isinstance(one, TextDelta)) == "Theuserasksthings."
    [asked] = model.asked
    assert asked[:-1] == before
    assert asked[-1].startswith(PROMPT)
    assert "the numbers" in asked[-1]
    kept = ["question 2", "answer 2", "question 3", "answer 3"]
    assert said(agent) == ["Be brief.", f"{HEADING}The user asks things.", *kept]
    agent.undo()
    assert said(agent) == before


def test_only_messages_that_fit_into_a_third_of_the_window_stay(agent):
    agent.assistant("a very long answer " * 200)
    list(compact_context(agent, Actor(speaks("A summary."), window=1000)))
    assert said(agent) == ["Be brief.", f"{HEADING}A summary."]


def test_nothing_is_asked_or_written_if_only_the_last_turn_is_there():
    with backstory.open(":memory:") as store:
        agent = store.start("main", system="s")
        agent.user("the only question")
        model = Watched()
        with pytest.raises(backstory.NotFound, match="nothing to compact before the last turn"):
            list(compact_context(agent, model))
        assert (model.asked, agent.head) == ([], 2)


def test_without_a_summary_nothing_is_written(agent):
    head = agent.head
    with pytest.raises(ModelError, match="gave no summary"):
        list(compact_context(agent, Actor(speaks(" "))))
    assert agent.head == head


def test_of_what_is_too_long_to_be_summed_up_the_newer_half_is(agent):
    model = Watched([ContextTooLong("too long")], [ContextTooLong("too long")], speaks("Short."))
    list(compact_context(agent, model))
    assert [len(asked) for asked in model.asked] == [10, 6, 4]
    assert model.asked[-1][-2] == "answer 3"
    hopeless = Actor(*[[ContextTooLong("too long")]] * 4)
    with pytest.raises(ContextTooLong):
        list(compact_context(agent, hopeless))


def test_someone_elses_event_in_between_is_a_conflict_and_nothing_is_lost(agent):
    work = compact_context(agent, Actor(speaks("A summary.")))
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
    list(compact_context(agent, model))
    assert all(len(text or "") < 2 * MAX_RESULT for text in model.asked[0])
    assert any(len(event.content or "") == 50_000 for event in agent.context().messages)


def look(number: int) -> str:
    """Look at something."""
    return f"found {number}: " + "something " * 100


class Tireless(Actor):
    """Calls a tool in each answer, and remembers the size of its requests."""

    def __init__(self, steps, window):
        super().__init__(window=window)
        self.steps = steps
        self.sizes = []

    def answer(self, conversation, tools):
        messages = list(conversation)
        if (messages[-1].content or "").startswith(PROMPT[:40]):
            yield Response("It was looked at many things.", (), {"model": "actor"})
            return
        self.sizes.append(int(conversation.tokens("actor")))
        self.heard.append(" ".join(message.content or "" for message in messages))
        number = len(self.sizes)
        if number > self.steps:
            yield Response("Done.")
        else:
            yield Response("", (ToolCall(f"c{number}", "look", {"number": number}),))


def test_a_long_turn_is_compacted_while_it_runs_and_keeps_the_request_word_for_word():
    request = "Look at sixty things, and mind the  double blanks."
    with backstory.open(":memory:") as store:
        agent = store.start("main", system="Be brief.")
        model = Tireless(60, window=3000)
        updates = list(Loop(agent, model, [Tool.of(look)]).ask(request))
    compactions = [update for update in updates if isinstance(update, Compacted)]
    assert len(compactions) > 2
    assert all(update.after < update.before for update in compactions)
    assert max(model.sizes) < 3000
    assert len(model.sizes) == 61
    assert all(request in heard for heard in model.heard)
    assert REQUEST_HEADING in model.heard[-1]
    assert updates[-1].event.content == "Done."


def test_a_context_that_is_too_long_is_compacted_once_and_asked_again(agent):
    agent.user("question 4")
    model = Actor([ContextTooLong("too long")], speaks("A summary."), speaks("Answer."))
    updates = list(Loop(agent, model).resume())
    assert type(updates[0]) is Compacted
    assert said(agent)[-1] == "Answer."
    hopeless = Actor([ContextTooLong("no")], speaks("A summary."), [ContextTooLong("no")])
    with pytest.raises(ContextTooLong):
        list(Loop(agent, hopeless).ask("And now?"))


def test_without_compaction_a_context_that_is_too_long_is_an_error(agent):
    with pytest.raises(ContextTooLong):
        list(Loop(agent, Actor([ContextTooLong("no")]), compact_at=None).ask("And now?"))


def test_a_compaction_reports_its_time_and_its_usage(agent):
    *_, update = compact_context(agent, Actor(speaks("A summary.")))
    assert isinstance(update, Compacted)
    assert update.seconds >= 0
    assert update.data == {"model": "actor"}
    assert update.position == agent.head
