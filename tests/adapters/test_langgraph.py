"""The checkpoints of LangGraph: its kit, and the same states as with its own saver in memory."""

import operator
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
)
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, interrupt

import backstory
from backstory.adapters.langgraph import BackstorySaver
from tests.adapters import interrupts

ROOT = Path(__file__).parents[2]
THREAD = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


@pytest.mark.parametrize("backend", ["memory", "sqlite", "postgres"])
def test_the_kit_passes_completely(backend, new_url, run):
    @checkpointer_test(name="backstory")
    async def made():
        saver = BackstorySaver(new_url(backend))
        yield saver
        saver.close()

    report = run(validate(made))
    assert report.passed_all(), report.to_dict()
    assert len(report.results) >= 8


# --- the same states as with the saver in memory ---


class State(TypedDict):
    messages: Annotated[list[BaseMessage], add_messages]
    total: Annotated[int, operator.add]
    seen: dict[str, Any]


def graph(saver):
    """Two nodes: one calls a tool or answers, the other is the tool, which may have to ask."""

    def model(state):
        last = state["messages"][-1]
        if isinstance(last, ToolMessage):
            return {
                "messages": [AIMessage(f"it is {last.content}", id=f"a{len(state['messages'])}")]
            }
        calls = [
            {"name": "add", "args": {"n": n}, "id": f"c{len(state['messages'])}-{n}"}
            for n in (1, 2)
        ]
        return {
            "messages": [AIMessage("", tool_calls=calls, id=f"a{len(state['messages'])}")],
            "total": 1,
        }

    def tools(state):
        asked = interrupt("may I?") if "delete" in state["messages"][-2].content else "yes"
        found = [
            ToolMessage(
                f"{asked} {call['args']['n']}", tool_call_id=call["id"], id=f"r-{call['id']}"
            )
            for call in state["messages"][-1].tool_calls
        ]
        return {"messages": found, "seen": {"set": {1, 2}, "bytes": b"\x00"}}

    builder = StateGraph(State)
    builder.add_node("model", model)
    builder.add_node("tools", tools)
    builder.add_edge(START, "model")
    builder.add_conditional_edges(
        "model", lambda state: "tools" if state["messages"][-1].tool_calls else "__end__"
    )
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=saver)


def asked(text, n):
    return {"messages": [HumanMessage(text, id=f"h{n}")]}


def story(saver, reopened):
    found = []
    running = graph(saver)
    config = {"configurable": {"thread_id": 7}}
    found.append(running.invoke(asked("add", 1), config))
    paused = running.invoke(asked("delete", 2), config)
    found += [paused["messages"], [each.value for each in paused["__interrupt__"]]]
    running = graph(reopened(saver))
    found.append(running.invoke(Command(resume="certainly"), config))
    states = list(running.get_state_history(config))
    older = states[len(states) // 2]
    found.append(running.invoke(asked("another way", 3), older.config))
    running.update_state(config, {"messages": [RemoveMessage(id="h1")]})
    running.update_state(config, {"messages": [HumanMessage("replaced", id="h3")]})
    found.append(running.get_state(config).values)
    found.append(running.get_state(states[0].config).values)
    found += [
        (
            state.values,
            state.next,
            state.metadata["source"],
            state.metadata["step"],
            len(state.tasks),
        )
        for state in running.get_state_history(config)
    ]
    return found


def test_the_same_states_as_with_the_saver_in_memory(durable_url, sound):
    def reopened(saver):
        saver.close()
        return BackstorySaver(durable_url)

    theirs = story(InMemorySaver(), lambda saver: saver)
    ours = story(BackstorySaver(durable_url), reopened)
    assert ours == theirs
    with backstory.open(durable_url) as store:
        sound(store)


def test_an_interrupted_run_is_resumed_in_another_process(durable_url):
    for step in ("ask", "resume"):
        command = [sys.executable, "-m", "tests.adapters.interrupts", durable_url, step]
        subprocess.run(command, cwd=ROOT, check=True)
    saver = BackstorySaver(durable_url)
    state = interrupts.graph(saver).get_state(interrupts.CONFIG).values
    assert [message.content for message in state["messages"]] == ["delete b.py", "deleted: yes"]
    saver.close()


def test_the_async_graph_runs_on_it(saver, run):
    async def main():
        running = graph(saver)
        config = {"configurable": {"thread_id": "a"}}
        result = await running.ainvoke(asked("add", 1), config)
        return result, [state async for state in running.aget_state_history(config)]

    result, states = run(main())
    assert len(result["messages"]) == 5
    assert states[0].values == result
