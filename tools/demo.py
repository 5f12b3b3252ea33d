"""Writes a store to look at: branches, rewinds, sub-agents, a compaction and failed tools, over two days.
What is said in it is in `story.toml`.

python -m tools.demo demo.db
"""

import random
import sys
import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import backstory
from backstory import Agent, Event, Store

Turn = dict[str, Any]

STORY = tomllib.loads(Path(__file__).with_name("story.toml").read_text("utf-8"))
MODEL = "gpt-4o"
TOOLS = ("grep", "read_file", "edit_file", "run")
# Seconds before an event of a kind: people think longer than models, and tests take a while.
WAITS = {"user": (40, 420), "assistant": (4, 25), "tool_call": (2, 9), "tool_result": (1, 30)}
MORNINGS = (3, 6)  # turns that begin another day's work
NIGHT = timedelta(hours=14)
MARKS = {2: "empty input works", 5: "parser done"}  # after turns


def write(url: str) -> None:
    """Fill a store that is not there yet: first without a clock, then with the times that it would take."""
    with backstory.open(":memory:") as draft, backstory.open(url) as store:
        _tell(draft)
        _copy(draft, store, _times(draft, random.Random(7)))


def _tell(store: Store) -> None:
    notes = store.start("release notes", system="You write release notes.")
    for turn in STORY["second"]:
        _turn(notes, turn)
    main = store.start("main", system=STORY["system"])
    main.describe(
        title="Parser fails on empty input", tags=["demo"], cwd="~/projects/config", model=MODEL
    )
    tools = [
        {"name": name, "description": f"Runs {name}.", "parameters": {"type": "object"}}
        for name in TOOLS
    ]
    main.settings(model=MODEL, tools=tools)
    for place, turn in enumerate(STORY["main"]):
        _turn(main, turn)
        for dead_end in _after(place, "dead_ends"):
            main.mark("before the dead end")
            _turn(main, dead_end)
            main.rewind()
        _branch(main, _after(place, "branches"))
        if place in MARKS:
            main.mark(MARKS[place])
    main.compact(STORY["summary"], keep=4)
    _turn(main, STORY["last"][0])


def _after(place: int, what: str) -> list[Turn]:
    return [turn for turn in STORY[what] if turn["after"] == place]


def _turn(agent: Agent, turn: Turn) -> None:
    agent.user(turn["asked"])
    for one in turn.get("calls", ()):
        call = agent.tool_call(one["name"], one["arguments"])
        agent.tool_result(call, one["output"], error=one.get("failed", False))
    read = 900 + sum(len(event.content or "") for event in agent.messages())
    wrote = len(turn["said"])
    usage = {"input": read, "output": wrote, "cost": round(read * 2.5e-6 + wrote * 1e-5, 6)}
    agent.assistant(turn["said"], data={"model": MODEL, "usage": usage})


def _branch(main: Agent, turns: list[Turn]) -> None:
    if not turns:
        return
    idea = main.fork(turns[0]["name"])
    for turn in turns:
        _turn(idea, turn)
    for review in STORY["reviews"]:
        if review["name"] == idea.name:
            reviewer = idea.spawn(f"reviewer of {idea.name}")
            reviewer.system(STORY["reviewer"])
            _turn(reviewer, review)


def _times(store: Store, dice: random.Random) -> dict[tuple[str, int], datetime]:
    """When each event was written, by its agent and position; the last one a few minutes ago."""
    written = [
        (event.created_at, agent.id, event) for agent in store.agents() for event in _own(agent)
    ]
    mornings = {STORY["main"][place]["asked"] for place in MORNINGS}
    spent, found = timedelta(), {}
    for _, id, event in sorted(written, key=lambda one: one[0]):
        spent += timedelta(seconds=dice.uniform(*WAITS.get(event.kind, (0, 1))))
        if event.kind == "user" and event.content in mornings:
            spent += NIGHT
        found[id, event.seq] = spent
    start = datetime.now(UTC) - timedelta(minutes=4) - spent
    return {place: start + after for place, after in found.items()}


def _own(agent: Agent) -> list[Event]:
    return list(agent.events(after=agent.fork_seq))


def _said(event: Event) -> tuple[Any, ...]:
    return event.kind, event.content, event.data, event.key


def _copy(draft: Store, store: Store, times: dict[tuple[str, int], datetime]) -> None:
    """The same agents and events, with other times."""
    made: dict[str, Agent] = {}
    with store.intake() as intake:
        for agent in sorted(draft.agents(), key=lambda one: (one.created_at, one.id)):
            own, birth = _own(agent), {}
            if agent.parent:
                birth = {
                    "parent": made[agent.parent],
                    "at": agent.born_seq,
                    "spawned": agent.spawned,
                }
            first = times[agent.id, own[0].seq]
            new = intake.agent(f"demo {agent.id}", name=agent.name, created_at=first, **birth)
            made[agent.id] = new
            intake.extend(new, [(*_said(event), times[agent.id, event.seq]) for event in own])
            if agent.about:
                intake.describe(new, **agent.about)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.unlink(missing_ok=True)
    write(str(path))
    print(path)
