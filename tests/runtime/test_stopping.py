"""The turn loop when it is stopped or fails in the middle: nothing that happened is lost."""

import signal
import threading

import pytest

from backstory.errors import StorageError
from backstory.runtime.loop import EventWritten, Loop, Stopped
from backstory.runtime.models import ModelError, Response, Retrying, TextDelta, ToolCall
from backstory.runtime.models.openai import OpenAIModel
from backstory.runtime.permission import Permission, Refusal
from backstory.runtime.tools import Tool
from tests.processes import wait_until
from tests.runtime.acting import Actor, speaks
from tests.runtime.scripted import Say, scripted
from tests.wire.rules import violations


def said(agent):
    return [
        (event.kind, event.content) for event in agent.context().messages if event.kind != "note"
    ]


def test_a_closed_iterator_keeps_what_was_said_and_marks_it(agent):
    updates = Loop(agent, Actor(speaks("one two three"))).ask("Hi")
    for update in updates:
        if update == TextDelta("two"):
            break
    updates.close()
    kept = agent.context().messages[-1]
    assert (kept.kind, kept.content) == ("assistant", "onetwo")
    assert kept.data == {
        "model": "actor",
        "interrupted": True,
        "why": "stopped before it was complete",
    }


def test_a_model_that_fails_in_the_middle_loses_nothing(agent):
    with pytest.raises(ModelError, match="gone"):
        list(Loop(agent, Actor([TextDelta("half"), ModelError("gone")])).ask("Hi"))
    kept, failure = agent.context().messages[-2:]
    assert (kept.content, kept.data["why"]) == ("half", "gone")
    assert (failure.content, failure.data["text"]) == ("backstory.failure", "gone")


def test_a_new_attempt_replaces_the_one_before_when_it_speaks(agent):
    model = Actor([TextDelta("wrong"), Retrying("lost", 0), *speaks("right")])
    list(Loop(agent, model).ask("Hi"))
    assert said(agent)[-1] == ("assistant", "right")
    with pytest.raises(ModelError):
        list(
            Loop(
                agent,
                Actor(
                    [TextDelta("old"), Retrying("lost", 0), TextDelta("new"), ModelError("gone")]
                ),
            ).ask("Hi")
        )
    assert said(agent)[-1] == ("assistant", "new")


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), ModelError("gone")])
def test_stopped_before_a_new_attempt_speaks_the_one_before_is_kept(agent, stop):
    with pytest.raises(type(stop)):
        list(Loop(agent, Actor([TextDelta("half"), Retrying("lost", 0), stop])).ask("Hi"))
    assert said(agent)[-1] == ("assistant", "half")


@pytest.mark.parametrize("stop", [ZeroDivisionError("oh"), SystemExit(1)])
def test_whatever_breaks_an_answer_off_loses_nothing(agent, stop):
    with pytest.raises(type(stop)):
        list(Loop(agent, Actor([TextDelta("half"), stop])).ask("Hi"))
    assert said(agent)[-1] == ("assistant", "half")


def test_ctrl_c_behind_the_last_word_keeps_the_answer(agent):
    class Slow(Actor):
        def answer(self, conversation, tools):
            try:
                yield Response("all of it")
            finally:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(Loop(agent, Slow()).ask("Hi"))
    assert said(agent)[-1] == ("assistant", "all of it")


def results(agent):
    return {e.data["id"]: e.content for e in agent.context().messages if e.kind == "tool_result"}


def quick() -> str:
    return "quick"


def asking() -> str:
    return "asked"


def test_ctrl_c_at_a_question_runs_nothing_that_comes_after_it(agent):
    asked = []

    def allow(action, call):
        if asked:
            raise KeyboardInterrupt
        if action.effect == "run":
            asked.append(call)
        return Permission()

    calls = [
        ToolCall("c1", "quick", {}),
        ToolCall("c2", "asking", {}),
        ToolCall("c3", "asking", {}),
    ]
    tools = [Tool.of(quick), Tool.of(asking, asks=True)]
    with pytest.raises(KeyboardInterrupt):
        list(Loop(agent, Actor(speaks("", *calls)), tools, allow=allow).ask("Hi"))
    assert results(agent) == {"c1": "quick", "c2": "asked", "c3": "interrupted: it was not run"}


def test_a_refusal_is_in_the_log_before_the_next_question(agent):
    seen = []

    def allow(action, call):
        seen.append(results(agent))
        return Refusal("no")

    calls = [ToolCall("c1", "asking", {}), ToolCall("c2", "asking", {})]
    list(
        Loop(agent, Actor(speaks("", *calls)), [Tool.of(asking, asks=True)], allow=allow).ask("Hi")
    )
    assert seen == [{}, {"c1": "no"}]


def test_stopped_in_the_work_each_call_has_the_result_that_it_deserves(agent):
    cancelled, finished, never = threading.Event(), threading.Event(), threading.Event()
    workers = {}

    def slow() -> str:
        cancelled.wait()
        return "half of it"

    def stuck() -> str:
        never.wait()
        return "never"

    def second() -> str:
        workers["second"] = threading.current_thread()
        finished.wait()
        return "in time"

    calls = [
        ToolCall("c1", "slow", {}),
        ToolCall("c2", "quick", {}),
        ToolCall("c3", "stuck", {}),
        ToolCall("c4", "second", {}),
    ]
    tools = [Tool.of(slow, cancel=cancelled.set), Tool.of(quick), Tool.of(stuck), Tool.of(second)]
    model = Actor(speaks("", *calls), speaks("Back"))
    loop = Loop(agent, model, tools)
    updates = loop.ask("Hi")
    for update in updates:
        if isinstance(update, EventWritten) and update.event.kind == "tool_result":
            break
    finished.set()
    wait_until(lambda: "second" in workers)
    workers["second"].join()
    updates.close()
    never.set()
    assert results(agent) == {
        "c1": "interrupted: it was stopped before it was done, and may have done a part of it\nhalf of it",
        "c2": "quick",
        "c3": "interrupted: it was stopped before it was done, and may have done a part of it",
        "c4": "in time",
    }
    list(loop.ask("Still there?"))
    assert not violations({"messages": model.heard[-1]}, "openai")


def test_closed_when_a_call_is_told_of_every_call_has_a_result(agent):
    calls = [ToolCall("c1", "quick", {}), ToolCall("c2", "quick", {})]
    updates = Loop(agent, Actor(speaks("", *calls)), [Tool.of(quick)]).ask("Hi")
    for update in updates:
        if isinstance(update, EventWritten) and update.event.kind == "tool_call":
            break
    updates.close()
    assert results(agent) == dict.fromkeys(("c1", "c2"), "interrupted: it was not run")


def test_what_a_tool_says_after_it_was_given_up_does_not_count(agent):
    cancelled, said_late = threading.Event(), threading.Event()
    workers = []

    def late() -> str:
        workers.append(threading.current_thread())
        cancelled.wait()
        return "late"

    def cancel():
        cancelled.set()
        workers[0].join()  # it has said it
        said_late.set()

    def later() -> str:
        said_late.wait()
        return "later"

    calls = [ToolCall("c1", "late", {}), ToolCall("c2", "later", {})]
    tools = [Tool.of(late, seconds=0.1, cancel=cancel), Tool.of(later)]
    list(Loop(agent, Actor(speaks("", *calls)), tools).ask("Hi"))
    assert results(agent) == {"c1": "late did not finish within 0.1 seconds", "c2": "later"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_the_middle_of_a_write_waits_for_its_end(agent, monkeypatch, number):
    def strike(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(number, strike)
    calls = (ToolCall("c1", "quick", {}),)
    write = type(agent).extend

    def disturbed(self, events, **more):
        if any(event[0] == "assistant" for event in events):
            signal.raise_signal(number)
        return write(self, events, **more)

    monkeypatch.setattr(type(agent), "extend", disturbed)
    try:
        with pytest.raises(KeyboardInterrupt):
            list(Loop(agent, Actor(speaks("Well", *calls)), [Tool.of(quick)]).ask("Hi"))
        assert signal.getsignal(number) is strike
    finally:
        signal.signal(number, before)
    assert ("assistant", "Well") in said(agent)
    assert results(agent) == {"c1": "interrupted: it was not run"}


def failing_to_write(monkeypatch, agent, *kinds):
    write = type(agent).extend

    def fails(self, events, **more):
        if any(event[0] in kinds for event in events):
            raise StorageError("the disk is full")
        return write(self, events, **more)

    monkeypatch.setattr(type(agent), "extend", fails)


def test_an_answer_that_cannot_be_written_is_carried_by_the_error(agent, monkeypatch):
    failing_to_write(monkeypatch, agent, "assistant")
    with pytest.raises(StorageError, match="full") as caught:
        list(Loop(agent, Actor(speaks("Forty two"))).ask("Hi"))
    assert caught.value.unsaved == "Forty two"


def test_so_is_half_an_answer_and_the_output_of_a_tool(agent, monkeypatch):
    failing_to_write(monkeypatch, agent, "assistant", "tool_result")
    with pytest.raises(StorageError) as caught:
        list(Loop(agent, Actor([TextDelta("half"), ModelError("gone")])).ask("Hi"))
    assert caught.value.unsaved == "half"
    with pytest.raises(StorageError) as caught:
        list(
            Loop(agent, Actor(speaks("", ToolCall("c1", "quick", {}))), [Tool.of(quick)]).ask("Hi")
        )
    assert caught.value.unsaved == "quick"


def test_of_several_results_the_one_that_was_there_first_is_carried(agent, monkeypatch):
    failed = threading.Event()

    def slow() -> str:
        failed.wait()
        return "slow"

    failing_to_write(monkeypatch, agent, "tool_result")
    calls = [ToolCall("c1", "slow", {}), ToolCall("c2", "quick", {})]
    with pytest.raises(StorageError) as caught:
        list(Loop(agent, Actor(speaks("", *calls)), [Tool.of(slow), Tool.of(quick)]).ask("Hi"))
    failed.set()
    assert caught.value.unsaved == "quick"


def test_cancel_ends_a_turn_of_a_silent_server_and_keeps_the_part_that_arrived(agent):
    with scripted(Say("half an answer", held=True)) as server:
        model = OpenAIModel("m", base_url=server.url)
        loop = Loop(agent, model)
        updates = []
        for update in loop.ask("Hi"):
            updates.append(update)
            if update == TextDelta(" answer"):
                threading.Timer(0.1, loop.cancel).start()
        model.close()
    assert updates[-1] == Stopped("stopped before it was complete")
    assert said(agent)[-1] == ("assistant", "half an answer")


def test_cancel_ends_a_tool_and_each_call_has_a_result(agent):
    is_running, is_cancelled = threading.Event(), threading.Event()

    def slow() -> str:
        is_running.set()
        is_cancelled.wait()
        return "half of it"

    def cancel():
        is_running.wait()
        loop.cancel()

    calls = [ToolCall("c1", "slow", {}), ToolCall("c2", "nothing", {})]
    tools = [Tool.of(slow, cancel=is_cancelled.set)]
    loop = Loop(agent, Actor(speaks("", *calls)), tools)
    threading.Thread(target=cancel).start()
    updates = list(loop.ask("Hi"))
    assert updates[-1] == Stopped("stopped before it was complete")
    assert results(agent)["c1"].startswith("interrupted: it was stopped before it was done")
    assert results(agent)["c2"].startswith("no tool")


def test_a_call_that_was_cut_off_is_answered_with_what_to_do(agent):
    cut = Response("", (ToolCall("c1", "quick", '{"text": "a very lo'),), {"cut": True})
    model = Actor([cut], speaks("Smaller."))
    list(Loop(agent, model, [Tool.of(quick)]).ask("Hi"))
    assert results(agent) == {"c1": "not run: your answer was cut off: write smaller parts"}


def test_cancel_between_the_prompt_and_the_answer_ends_the_turn(agent):
    model = Actor(speaks("never said"))
    loop = Loop(agent, model)
    updates = loop.ask("Hi")
    next(updates)
    loop.cancel()
    assert list(updates) == [Stopped("stopped before it was complete")]
    assert model.heard == []
    assert said(agent)[-1] == ("user", "Hi")


@pytest.mark.parametrize("words", ["one two", "one"])  # cancelled before a word, and at the end
def test_cancel_ends_a_compaction_by_a_model_that_cannot_be_stopped(agent, words):
    agent.user("Hi")
    agent.assistant("Hello")
    before = agent.head
    loop = Loop(agent, Actor(speaks(words)))
    updates = loop.compact()
    next(updates)
    loop.cancel()
    assert list(updates) == [Stopped("stopped before it was complete")]
    assert agent.head == before
