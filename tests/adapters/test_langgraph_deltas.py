"""LangGraph's `DeltaChannel`: state that is made of the writes on the way to a checkpoint."""

from typing import Annotated, Any, TypedDict

import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

THREAD: Any = {"configurable": {"thread_id": "t"}}


def added(state, writes):
    return [*(state or []), *(each for write in writes for each in write)]


class State(TypedDict):
    steps: Annotated[list, DeltaChannel(added, list, snapshot_frequency=4)]
    never: Annotated[list, DeltaChannel(added, list, snapshot_frequency=1_000)]
    count: int


def graph(saver):
    def step(state):
        number = len(state["steps"])
        return {"steps": [f"step {number}"], "never": [number], "count": number}

    return StateGraph(State).add_node("step", step).add_edge(START, "step").compile(saver)


def run(saver, turns):
    running = graph(saver)
    for number in range(turns):
        running.invoke({"steps": [f"asked {number}"]}, THREAD)
    return running


def states(running):
    return [state.values for state in running.get_state_history(THREAD)]


@pytest.mark.parametrize("turns", [1, 3, 9])
def test_the_same_states_as_with_the_saver_in_memory(saver, turns):
    ours, theirs = run(saver, turns), run(InMemorySaver(), turns)
    assert ours.get_state(THREAD).values == theirs.get_state(THREAD).values
    assert states(ours) == states(theirs)


def test_the_history_of_a_channel_is_the_one_of_the_saver_in_memory(saver):
    theirs = InMemorySaver()
    run(saver, 5), run(theirs, 5)
    channels = ["steps", "never", "count", "unknown"]

    def history(saver):
        found = saver.get_delta_channel_history(config=THREAD, channels=channels)
        return {
            channel: ([value for _, _, value in each["writes"]], each.get("seed"))
            for channel, each in found.items()
        }

    assert history(saver) == history(theirs)
    assert saver.get_delta_channel_history(config=THREAD, channels=[]) == {}
    nobody: Any = {"configurable": {"thread_id": "nobody"}}
    assert saver.get_delta_channel_history(config=nobody, channels=["x"]) == {"x": {"writes": []}}


@pytest.mark.parametrize("turns", [3, 9])
def test_pruning_leaves_the_newest_state_whole(saver, turns):
    running = run(saver, turns)
    before = running.get_state(THREAD).values
    saver.prune(["t"])
    assert running.get_state(THREAD).values == before
    assert len(states(running)) == 1
    running.invoke({"steps": ["again"]}, THREAD)
    assert running.get_state(THREAD).values["steps"][: len(before["steps"])] == before["steps"]


def test_a_copy_has_the_state_and_survives_its_source(saver):
    running = run(saver, 5)
    before = running.get_state(THREAD).values
    saver.copy_thread("t", "u")
    saver.delete_thread("t")
    assert graph(saver).get_state({"configurable": {"thread_id": "u"}}).values == before


def test_a_branch_from_an_older_checkpoint_has_only_what_is_on_its_way(saver):
    theirs = InMemorySaver()
    found = []
    for each in (saver, theirs):
        running = run(each, 4)
        older = list(running.get_state_history(THREAD))[6].config
        running.invoke({"steps": ["elsewhere"]}, older)
        found.append((running.get_state(THREAD).values, states(running)))
    assert found[0] == found[1]
