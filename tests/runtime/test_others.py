"""Someone else writes to the agent while the loop works: what it wrote stays together."""

import pytest

from backstory.log.kinds import MESSAGE_KINDS
from backstory.runtime.loop import EventWritten, Forked, Loop
from backstory.runtime.models import Retrying, TextDelta, ToolCall
from backstory.runtime.tools import Tool
from tests.runtime.acting import Actor, speaks


def said(agent):
    return [
        event.content or "(call)"
        for event in agent.context().messages
        if event.kind in MESSAGE_KINDS
    ][1:]


def test_an_answer_that_comes_after_someone_elses_words_is_written_into_a_fork(agent):
    loop = Loop(agent, Actor(speaks("An answer"), speaks("And more")))
    happened = []
    for update in loop.ask("Hi"):
        if isinstance(update, TextDelta) and update.text == "An":
            agent.user("from elsewhere")
        happened.append(update)
    forked = next(update for update in happened if isinstance(update, Forked))
    assert (forked.before, forked.agent) == (agent, loop.agent)
    assert said(agent) == ["Hi", "from elsewhere"]
    assert said(loop.agent) == ["Hi", "An answer"]
    list(loop.ask("Go on"))
    assert said(loop.agent) == ["Hi", "An answer", "Go on", "And more"]


def test_a_result_that_comes_after_someone_elses_words_follows_its_call_in_a_fork(agent):
    def meddle() -> str:
        """Write as someone else."""
        agent.user("from elsewhere")
        return "done"

    call = ToolCall("c1", "meddle", {})
    loop = Loop(agent, Actor(speaks("", call), speaks("Fine")), [Tool.of(meddle)])
    happened = list(loop.ask("Hi"))
    assert said(agent) == ["Hi", "(call)", "from elsewhere"]
    assert said(loop.agent) == ["Hi", "(call)", "done", "Fine"]
    assert sum(isinstance(update, Forked) for update in happened) == 1
    written = [update.event.seq for update in happened if isinstance(update, EventWritten)]
    assert (
        written
        == [event.seq for event in loop.agent.context().messages if event.kind != "note"][1:]
    )


def test_a_mark_or_a_note_of_someone_else_is_not_in_the_way(agent):
    loop = Loop(agent, Actor(speaks("An answer")))
    for update in loop.ask("Hi"):
        if isinstance(update, TextDelta) and update.text == "An":
            agent.mark("here")
            agent.note("mine")
    assert loop.agent == agent
    assert said(agent)[-1] == "An answer"


def test_the_loops_own_notes_on_failed_attempts_are_not_in_the_way(agent):
    loop = Loop(agent, Actor([Retrying("busy", 0.0), *speaks("An answer")]))
    assert not any(isinstance(update, Forked) for update in loop.ask("Hi"))
    assert loop.agent == agent


def test_someone_elses_rewind_makes_a_fork_too_and_what_was_said_before_a_stop_is_kept_there(agent):
    loop = Loop(agent, Actor([TextDelta("Half an"), KeyboardInterrupt()]))
    updates = loop.ask("Hi")
    while not isinstance(next(updates), TextDelta):
        pass
    agent.jump(1)
    with pytest.raises(KeyboardInterrupt):
        next(updates)
    assert said(agent) == []
    assert said(loop.agent) == ["Hi", "Half an"]
