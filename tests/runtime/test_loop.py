"""The turn loop: what it writes, when, and what becomes of what goes wrong."""

import threading

import pytest

import backstory
from backstory.runtime.loop import EventWritten, Loop, OutputDelta, Stopped, shorten_result
from backstory.runtime.models import Response, TextDelta, ToolCall
from backstory.runtime.permission import Permission, Refusal
from backstory.runtime.tools import Action, Tool, ToolError
from backstory.runtime.workers import MAX_UNREAD
from tests.processes import PATIENCE
from tests.runtime.acting import Actor, speaks
from tests.wire.rules import violations


def said(agent):
    return [(event.kind, event.content) for event in agent.context().messages]


def echo(text: str) -> str:
    """Say it again."""
    return text


ECHO = Tool.of(echo)


def test_an_answer_without_calls_is_the_end(agent):
    happened = list(Loop(agent, Actor(speaks("Hello you"))).ask("Hi"))
    assert [one.text for one in happened if isinstance(one, TextDelta)] == ["Hello", "you"]
    assert said(agent) == [("system", "Be careful."), ("user", "Hi"), ("assistant", "Hello you")]
    assert agent.context().messages[-1].data == {"model": "actor"}


def written(updates):
    return [update.event for update in updates if isinstance(update, EventWritten)]


def test_a_prompt_with_a_key_is_asked_once(agent):
    call = speaks("Well", ToolCall("c1", "echo", {"text": "x"}))
    first = written(Loop(agent, Actor(call, speaks("Done")), [ECHO]).ask("Hi", key="k"))
    again = written(Loop(agent, Actor(), [ECHO]).ask("Hi", key="k"))
    assert again == first == agent.events(after=1)
    agent.user("And then?")
    assert written(Loop(agent, Actor(), [ECHO]).ask("Hi", key="k")) == first


def test_a_prompt_that_was_not_answered_is_answered_by_the_repeat(agent):
    agent.user("Hi", key="k")
    answer = written(Loop(agent, Actor(speaks("Hello you"))).ask("Hi", key="k"))
    assert [event.content for event in answer] == ["Hi", "Hello you"]
    assert agent.head == 3


def test_a_repeat_with_another_model_writes_nothing(agent):
    models = [Actor(speaks("Hello you")), Actor()]
    for name, model in zip(("one", "other"), models, strict=True):
        model.name, model.format, model.params = name, "openai", {}
    first = written(Loop(agent, models[0]).ask("Hi", key="k"))
    head = agent.head
    assert written(Loop(agent, models[1]).ask("Hi", key="k")) == first
    assert agent.head == head


def test_a_prompt_that_is_no_longer_in_the_context_is_not_asked(agent):
    agent.user("Hi", key="k")
    agent.clear()
    *_, last = Loop(agent, Actor()).ask("Hi", key="k")
    assert isinstance(last, Stopped)
    assert agent.head == 3


def test_a_prompt_that_a_compaction_has_kept_is_answered_by_the_repeat(agent):
    agent.user("Hi", key="k")
    agent.compact("In short.", keep=1)
    answer = written(Loop(agent, Actor(speaks("Hello you"))).ask("Hi", key="k"))
    assert [event.content for event in answer] == ["Hi", "Hello you"]
    again = written(Loop(agent, Actor()).ask("Hi", key="k"))
    assert again == answer


@pytest.mark.parametrize("expected", [0, 5])
def test_a_prompt_after_another_head_is_a_conflict(agent, expected):
    with pytest.raises(backstory.Conflict):
        next(Loop(agent, Actor()).ask("Hi", expected=expected))


def test_a_repeat_after_the_expected_head_is_recognized_with_its_settings(agent):
    model = Actor(speaks("Hello you"))
    model.format, model.params = "openai", {}
    first = written(Loop(agent, model).ask("Hi", expected=1))
    assert [event.kind for event in agent.events()] == ["system", "note", "user", "assistant"]
    model = Actor()
    model.format, model.params = "openai", {}
    assert written(Loop(agent, model).ask("Hi", expected=1)) == first


def test_each_event_is_in_the_log_when_it_is_told(agent):
    model = Actor(speaks("Well", ToolCall("c1", "echo", {"text": "x"})), speaks("Done"))
    for update in Loop(agent, model, [ECHO]).ask("Hi"):
        if isinstance(update, EventWritten):
            assert agent.events([update.event.seq])[0] == update.event
    assert [kind for kind, _ in said(agent)] == [
        "system", "user", "assistant", "tool_call", "tool_result", "assistant",
    ]  # fmt: skip
    assert not violations({"messages": model.heard[-1]}, "openai")


def test_what_is_kept_of_an_answer_without_words_rides_on_its_first_call(agent):
    native = {"provider": "anthropic", "model": "actor", "wire": []}
    answer = Response(
        "",
        (ToolCall("c1", "echo", {"text": "x"}), ToolCall("c2", "echo", {"text": "y"})),
        {"native": native},
    )
    list(Loop(agent, Actor([answer], speaks("Done")), [ECHO]).ask("Hi"))
    calls = [event.data for event in agent.context().messages if event.kind == "tool_call"]
    assert calls[0]["native"] == native
    assert "native" not in calls[1]


def test_calls_of_one_answer_run_side_by_side(agent):
    together = threading.Barrier(3)

    def meet() -> str:
        together.wait(PATIENCE)
        return "met"

    calls = [ToolCall(f"c{n}", "meet", {}) for n in range(3)]
    list(Loop(agent, Actor(speaks("", *calls), speaks("Done")), [Tool.of(meet)]).ask("Hi"))
    assert [text for kind, text in said(agent) if kind == "tool_result"] == ["met"] * 3


def test_two_calls_with_one_id_keep_their_own_results(agent):
    finished = threading.Event()

    def finish(place: str) -> str:
        if place == "first":
            finished.wait()
        return f"the {place} call"

    calls = [
        ToolCall("c", "finish", {"place": "first"}),
        ToolCall("c", "finish", {"place": "second"}),
    ]
    model = Actor(speaks("", *calls), speaks("Done"))
    for update in Loop(agent, model, [Tool.of(finish)]).ask("Hi"):
        if isinstance(update, EventWritten) and update.event.kind == "tool_result":
            finished.set()  # the second call has its result
    *_, asked, first, second = model.heard[-1]
    assert [first["content"], second["content"]] == ["the first call", "the second call"]
    assert [call["id"] for call in asked["tool_calls"]] == [
        first["tool_call_id"],
        second["tool_call_id"],
    ]


def failing() -> str:
    raise ZeroDivisionError("by nothing")


def complaining() -> str:
    raise ToolError("there is no such thing")


@pytest.mark.parametrize(
    ("call", "output"),
    [
        (ToolCall("c", "fly", {}), "no tool 'fly': the tools are echo, failing, complaining"),
        (
            ToolCall("c", "echo", '{"text": '),
            "the arguments of echo are not a JSON object: '{\"text\": '",
        ),
        (ToolCall("c", "echo", {}), "echo needs text"),
        (ToolCall("c", "echo", {"text": 5}), "text of echo must be of the type string, not 5"),
        (ToolCall("c", "echo", {"text": "x", "loud": True}), "echo has no loud: it takes text"),
        (ToolCall("c", "failing", {}), "failing failed: ZeroDivisionError: by nothing"),
        (ToolCall("c", "complaining", {}), "there is no such thing"),
    ],
)
def test_what_a_tool_cannot_do_is_a_result_that_the_model_reads(agent, call, output):
    model = Actor(speaks("", call), speaks("I see"))
    list(Loop(agent, model, [ECHO, Tool.of(failing), Tool.of(complaining)]).ask("Hi"))
    result = next(event for event in agent.context().messages if event.kind == "tool_result")
    assert (result.content, result.data["error"]) == (output, True)
    assert said(agent)[-1] == ("assistant", "I see")
    assert not violations({"messages": model.heard[-1]}, "openai")


def test_a_tool_that_hangs_is_given_up_and_cancelled(agent):
    released = threading.Event()

    def hang() -> str:
        released.wait()
        return "late"

    tool = Tool.of(hang, seconds=0.1, cancel=released.set)
    list(Loop(agent, Actor(speaks("", ToolCall("c", "hang", {})), speaks("Oh")), [tool]).ask("Hi"))
    assert ("tool_result", "hang did not finish within 0.1 seconds") in said(agent)
    assert released.is_set()


def emitting(name, run, **options):
    """A tool without arguments whose function `run` gets `emit`."""
    schema = {"type": "object", "properties": {}}
    return Tool(name, name, schema, lambda given: Action(name, "read", name, run), **options)


def call_in_turn(*names):
    """A model that calls tools, one in each answer."""
    return Actor(*(speaks("", ToolCall(f"c{n}", name, {})) for n, name in enumerate(names)))


def test_what_a_call_left_running_may_print_during_the_next_call(agent):
    left_running = []

    def leave(emit):
        left_running.append(emit)
        return "left"

    def print_late(emit):
        left_running[0]("late")
        emit("own")
        return "done"

    tools = [emitting("leave", leave), emitting("print_late", print_late)]
    updates = list(Loop(agent, call_in_turn("leave", "print_late"), tools).ask("Hi"))
    assert [update.text for update in updates if isinstance(update, OutputDelta)] == ["own"]
    assert ("tool_result", "done") in said(agent)


def test_a_tool_that_prints_all_the_time_is_given_up(agent):
    cancelled = threading.Event()

    def print_on(emit):
        for _ in range(3_000_000):
            if cancelled.is_set():
                break
            emit("x")
        return "printed"

    tool = emitting("print_on", print_on, seconds=0.1, cancel=cancelled.set)
    list(Loop(agent, call_in_turn("print_on"), [tool]).ask("Hi"))
    assert ("tool_result", "print_on did not finish within 0.1 seconds") in said(agent)


def test_of_much_output_that_nobody_read_the_end_is_kept(agent):
    may_go_on, has_printed = threading.Event(), threading.Event()

    def print_much(emit):
        emit("begin")
        may_go_on.wait()
        for _ in range(3):
            emit("x" * MAX_UNREAD)
        emit("end")
        has_printed.set()
        return "done"

    texts = []
    model = call_in_turn("print_much")
    for update in Loop(agent, model, [emitting("print_much", print_much)]).ask("Hi"):
        if isinstance(update, OutputDelta):
            texts.append(update.text)
            may_go_on.set()
            has_printed.wait()
    assert texts == ["begin", "x" * (MAX_UNREAD - 3) + "end"]


def test_a_long_result_is_short_for_the_model_and_whole_in_the_log(agent):
    long = "".join(f"line {n}\n" for n in range(1000))
    model = Actor(speaks("", ToolCall("c", "echo", {"text": long})), speaks("Long"))
    list(Loop(agent, model, [ECHO], max_result=300).ask("Hi"))
    read = model.heard[-1][-1]["content"]
    assert len(read) < 500
    assert read.startswith("line 0\n")
    assert read.endswith("line 999\n")
    assert "characters left out here" in read
    result = next(event for event in agent.context().messages if event.kind == "tool_result")
    assert (result.content, result.data["whole"]) == (read, long)


def test_shortened_leaves_alone_what_fits():
    assert shorten_result("x" * 10, 10) == "x" * 10


def test_output_that_no_store_can_hold_is_made_storable(agent):
    def odd() -> str:
        return "a\0b\ud800c"

    list(
        Loop(
            agent, Actor(speaks("", ToolCall("c", "odd", {})), speaks("Done")), [Tool.of(odd)]
        ).ask("Hi\0")
    )
    assert ("user", "Hi␀") in said(agent)
    assert ("tool_result", "a␀b�c") in said(agent)


# --- consent ---


@pytest.mark.parametrize(
    ("allow", "output"),
    [
        (None, "not run: it needs consent, and there was no one to ask"),
        (lambda action, call: Refusal("not today"), "not today"),
        (lambda action, call: Permission(), "x"),
    ],
)
def test_a_tool_that_asks_runs_only_if_it_is_allowed(agent, allow, output):
    model = Actor(speaks("", ToolCall("c", "echo", {"text": "x"})), speaks("Done"))
    list(Loop(agent, model, [Tool.of(echo, asks=True)], allow=allow).ask("Hi"))
    assert ("tool_result", output) in said(agent)


def test_calls_that_an_earlier_process_left_open_are_not_run_again(agent):
    ran = []
    agent.user("Run it")
    agent.tool_call("echo", {"text": "x"}, id="c1")
    model = Actor(speaks("I see"))
    list(
        Loop(agent, model, [Tool.of(lambda text: ran.append(text) or "", asks=False)]).ask(
            "What now?"
        )
    )
    assert ran == []
    assert model.heard[0][3]["content"] == "interrupted: no result was recorded"
    assert not violations({"messages": model.heard[0]}, "openai")


def test_a_model_that_never_stops_calling_is_stopped(agent):
    acts = [speaks("", ToolCall(f"c{n}", "echo", {"text": "x"})) for n in range(9)]
    happened = list(Loop(agent, Actor(*acts), [ECHO], max_steps=3).ask("Hi"))
    assert happened[-1] == Stopped(
        "stopped after 3 steps: continue it with resume(), or /retry in the chat"
    )
    assert len([kind for kind, _ in said(agent) if kind == "tool_result"]) == 3


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Response(" "), "the model said nothing: ask again, or choose another model"),
        (
            Response("I", data={"refused": True}),
            "the model refused to answer: ask in another way, or choose another model",
        ),
    ],
)
def test_an_answer_that_is_none_is_told_at_the_end(agent, answer, why):
    assert list(Loop(agent, Actor([answer])).ask("Hi"))[-1] == Stopped(why)
