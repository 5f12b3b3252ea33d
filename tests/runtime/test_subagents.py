"""Sub-agents: a task that is handed on, its place in the log, and its end."""

import threading

import pytest

import backstory
from backstory.runtime.loop import Loop
from backstory.runtime.models import ModelError, Response, TextDelta, ToolCall
from backstory.runtime.subagents import Subagents
from backstory.runtime.tools import Tool
from tests.runtime.acting import Actor, speaks


def look(place: str) -> str:
    """Look somewhere."""
    return f"{place} is empty"


def write(place: str) -> str:
    """Write somewhere."""
    return "written"


TOOLS = [Tool.of(look), Tool.of(write, asks=True)]


def task(id="c1", **arguments):
    return ToolCall(id, "task", {"description": "Find the cause", "prompt": "Look!"} | arguments)


@pytest.fixture
def begin(store):
    def begin(*acts, **options):
        agent = store.start("main", system="s")
        loops = []
        subagents = Subagents(lambda: loops[0], TOOLS, **options)
        loops.append(Loop(agent, Actor(*acts), [*TOOLS, subagents.tool]))
        return loops[0], subagents

    return begin


def results(agent):
    return [event for event in agent.context().messages if event.kind == "tool_result"]


def test_a_task_is_an_agent_below_whose_last_answer_is_the_result(begin, store):
    calls = speaks("", ToolCall("c2", "look", {"place": "here"}))
    loop, _ = begin(speaks("", task()), calls, speaks("It is empty."), speaks("Nothing there."))
    list(loop.ask("Why?"))
    assert [event.content for event in results(loop.agent)] == ["It is empty."]
    child = store.agent("find-the-cause")
    assert child.parent == loop.agent.id
    assert child.about["title"] == "Find the cause"
    kinds = [event.kind for event in child.context().messages]
    assert kinds == ["system", "user", "tool_call", "tool_result", "assistant"]
    assert loop.agent.context().messages[-1].content == "Nothing there."
    assert store.verify() == []


def test_it_cannot_do_what_needs_consent_unless_a_rule_allows_it(begin):
    wants = speaks("", ToolCall("c2", "write", {"place": "here"}))
    loop, _ = begin(speaks("", task()), wants, speaks("No."), speaks("Well."))
    list(loop.ask("Why?"))
    assert "no one to ask" in (loop.model.heard[2][-1]["content"])
    loop, _ = begin(
        speaks("", task()), wants, speaks("Yes."), speaks("Good."), allow=lambda tool, given: True
    )
    list(loop.ask("Why?"))
    assert loop.model.heard[2][-1]["content"] == "written"


def test_what_goes_wrong_below_is_an_error_result_above(begin):
    loop, _ = begin(speaks("", task()), [ModelError("gone")], speaks("Too bad."))
    list(loop.ask("Why?"))
    [result] = results(loop.agent)
    assert result.content == "the sub-agent 'find-the-cause' failed: gone"
    loop, _ = begin(speaks("", task(prompt=" ")), speaks("Too bad."))
    list(loop.ask("Why?"))
    assert "the prompt is empty" in (results(loop.agent)[0].content or "")


def test_two_tasks_of_one_description_have_names_of_their_own(begin, store):
    acts = [speaks(f"Report {number}.") for number in (1, 2)]
    loop, _ = begin(
        speaks("", task("c1")), acts[0], speaks("", task("c2")), acts[1], speaks("Done.")
    )
    list(loop.ask("Why?"))
    names = {agent.name for agent in store.agents()}
    assert {"find-the-cause", "find-the-cause-2"} <= names


def test_a_task_that_is_stopped_keeps_what_was_said(begin, store):
    said, stopped = threading.Event(), threading.Event()

    class Slow(Actor):
        def answer(self, conversation, tools):
            if len(conversation) < 3:
                yield TextDelta("half ")
                said.set()
                assert stopped.wait(60)
                yield TextDelta("an answer")
                yield Response("half an answer")
            yield from super().answer(conversation, tools)

    loop, subagents = begin()
    loop.model = Slow()
    found = []
    thread = threading.Thread(target=lambda: found.append(_error(subagents)))
    thread.start()
    assert said.wait(60)
    subagents.stop()
    stopped.set()
    thread.join()
    assert "was stopped" in found[0]
    last = store.agent("find-the-cause").context().messages[-1]
    assert (last.content, (last.data or {})["interrupted"]) == ("half an answer", True)


def _error(subagents):
    try:
        return subagents.task("Find the cause", "Look!")
    except Exception as error:
        return str(error)


def test_a_store_that_is_closed_is_an_error_result_and_nothing_else(begin):
    loop, subagents = begin()
    with backstory.open(":memory:") as other:
        loop.agent = other.start("gone", system="s")
    assert "closed" in _error(subagents)
