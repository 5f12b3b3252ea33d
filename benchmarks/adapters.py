"""`make bench-adapters`: each adapter against what its framework keeps histories in, in one run.

Runs in the environment of the adapters' tests. Both sides are called as the framework calls them, one after
the other by turns; the best time of each counts, on the wall and of the processor.
"""

import argparse
import asyncio
import json
import os
import sqlite3
import tempfile
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.measure import Row, Work, best_on_both_clocks, table

R = TypeVar("R")

WORDS = "the agent reads a file and finds that nothing of it was ever what it seemed in the log "


class Loop:
    """An event loop that is not made anew for each call. No `asyncio.Runner`: behind each call it prints what
    came of it, for a message that nobody sees, and ten thousand events take longer to print than to read."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()

    def __call__(self, work: Coroutine[Any, Any, R]) -> R:
        return self._loop.run_until_complete(work)


def rows(what: str, against: str, ours: Work, floor: Work, limit: float, rounds: int) -> list[Row]:
    """What two pieces of work take, on the wall and of the processor."""
    (wall, wall_floor), (processor, processor_floor) = best_on_both_clocks(ours, floor, rounds)
    return [
        Row(what, against, wall, wall_floor, limit),
        Row(f"{what} (CPU)", against, processor, processor_floor, limit),
    ]


def text(number: int, length: int = 300) -> str:
    """Some text of a length."""
    return (f"{number} " + WORDS * (length // len(WORDS) + 1))[:length]


# --- the OpenAI Agents SDK ---


def turn(number: int) -> list[dict[str, Any]]:
    """Four items: a question, a call, its output, an answer."""
    call = f"call_{number}"
    said = {"type": "output_text", "text": text(number), "annotations": [], "logprobs": []}
    return [
        {"role": "user", "content": text(number)},
        {
            "type": "function_call",
            "call_id": call,
            "name": "look",
            "arguments": '{"q": "weather"}',
            "id": "fc_1",
        },
        {"type": "function_call_output", "call_id": call, "output": text(number)},
        {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [said],
        },
    ]


def openai_agents(folder: str) -> list[Row]:
    """Sessions of the Agents SDK."""
    from agents import SQLiteSession

    from backstory.adapters.openai_agents import BackstorySession

    run = Loop()
    ours = BackstorySession("user-42", os.path.join(folder, "ours.db"))
    theirs = SQLiteSession("user-42", os.path.join(folder, "theirs.db"))
    items = [item for number in range(2_500) for item in turn(number)]
    for session in (ours, theirs):
        run(session.add_items(items))
        assert run(session.get_items()) == items

    def each(call: Callable[[Any], Awaitable[object]]) -> tuple[Work, Work]:
        return lambda: run(call(ours)), lambda: run(call(theirs))  # type: ignore[arg-type]

    name = "SQLiteSession"
    restored = rows("10,000 items restored", name, *each(lambda its: its.get_items()), 0.6, 7)
    limited = rows("limit=20 of 10,000 items", name, *each(lambda its: its.get_items(20)), 1.5, 60)
    appended = rows("a turn appended", name, *each(lambda its: its.add_items(turn(1))), 1.5, 60)
    return [*appended, *restored, *limited]


# --- the Claude Agent SDK ---


def line(number: int, length: int) -> dict[str, Any]:
    """A line of a transcript: by turns a question, an answer, a call and a result."""
    uuid, before = (f"00000000-0000-4000-8000-{each:012}" for each in (number, number - 1))
    shared = {
        "parentUuid": before if number else None,
        "isSidechain": False,
        "userType": "external",
        "cwd": "/home/someone/project",
        "sessionId": "11111111-1111-4111-8111-111111111111",
        "version": "2.0.1",
        "uuid": uuid,
        "timestamp": "2026-11-01T12:00:00.000Z",
    }
    said = text(number, length - 500)
    match number % 4:
        case 0:
            return {**shared, "type": "user", "message": {"role": "user", "content": said}}
        case 1:
            block: dict[str, Any] = {"type": "text", "text": said}
        case 2:
            block = {
                "type": "tool_use",
                "id": f"toolu_{number}",
                "name": "Bash",
                "input": {"command": said},
            }
        case _:
            block = {"type": "tool_result", "tool_use_id": f"toolu_{number - 1}", "content": said}
            return {**shared, "type": "user", "message": {"role": "user", "content": [block]}}
    message = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude-opus-4-1",
        "content": [block],
        "stop_reason": None,
        "usage": {"input_tokens": 10, "output_tokens": 20},
    }
    return {**shared, "type": "assistant", "message": message, "requestId": f"req_{number}"}


def claude(folder: str) -> list[Row]:
    """Transcripts of the Claude Agent SDK."""
    from backstory.adapters.claude import BackstorySessionStore

    run = Loop()
    lines = [line(number, 2_000) for number in range(500)]
    store = BackstorySessionStore(os.path.join(folder, "ours.db"))
    sessions = iter(range(1_000_000))

    def ours() -> None:
        run(store.append({"project_key": "p", "session_id": f"s{next(sessions)}"}, lines))

    def floor() -> None:
        with open(os.path.join(folder, f"{next(sessions)}.jsonl"), "w") as file:
            for each in lines:
                file.write(json.dumps(each) + "\n")
            file.flush()
            os.fsync(file.fileno())

    return rows("500 lines of 2 KB in one append", "a file with fsync", ours, floor, 6, 7)


# --- LangGraph ---


def langgraph(folder: str) -> list[Row]:
    """Threads of LangGraph, one node that answers: a question and an answer each turn."""
    from langchain_core.messages import AIMessage, HumanMessage
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import START, MessagesState, StateGraph

    from backstory.adapters.langgraph import BackstorySaver

    def answer(state: dict[str, Any]) -> dict[str, Any]:
        return {"messages": [AIMessage(text(len(state["messages"]), 520))]}

    def graph(saver: Any) -> Any:
        return (
            StateGraph(MessagesState)
            .add_node("answer", answer)
            .add_edge(START, "answer")
            .compile(saver)
        )

    config: Any = {"configurable": {"thread_id": "t"}}

    def take(graph: Any, turns: int = 1) -> None:
        for number in range(turns):
            graph.invoke({"messages": [HumanMessage(text(number, 520))]}, config)

    saver = BackstorySaver(os.path.join(folder, "ours.db"))
    with SqliteSaver.from_conn_string(os.path.join(folder, "theirs.db")) as their_saver:
        ours, theirs = graph(saver), graph(their_saver)
        take(ours, 200), take(theirs, 200)
        name = "SqliteSaver"
        turns = rows("a turn after 200", name, lambda: take(ours), lambda: take(theirs), 1.0, 15)
        ask: tuple[Work, Work] = (lambda: ours.get_state(config), lambda: theirs.get_state(config))
        states = rows("get_state after 200 turns", name, *ask, 1.3, 15)
        before = len(ours.get_state(config).values["messages"]) // 2
        take(ours, 250 - before)
        saver.close()
    size = _size(os.path.join(folder, "ours.db")) / 1e6
    many = [
        kind(text(number, 520)) for number in range(5_000) for kind in (HumanMessage, AIMessage)
    ]
    saver = BackstorySaver(os.path.join(folder, "ours-long.db"))
    with SqliteSaver.from_conn_string(os.path.join(folder, "theirs-long.db")) as their_saver:
        ours, theirs = graph(saver), graph(their_saver)
        for one in (ours, theirs):
            one.update_state(config, {"messages": many})
        name = "SqliteSaver"
        turns += rows(
            "a turn after 10,000 messages", name, lambda: take(ours), lambda: take(theirs), 1.0, 15
        )
        saver.close()
    return [*turns, *states, Row("disk after 250 turns of 0.26 MB", "1 MB", size, 1, 2, "MB")]


def _size(path: str) -> int:
    return sum(os.path.getsize(path + end) for end in ("", "-wal") if os.path.exists(path + end))


# --- Google ADK ---


def adk(folder: str) -> list[Row]:
    """Sessions of ADK: events of 300 characters."""
    from google.adk.events import Event
    from google.adk.sessions import DatabaseSessionService
    from google.adk.sessions.base_session_service import GetSessionConfig
    from google.genai.types import Content, Part

    from backstory.adapters.adk import BackstorySessionService, build_drafts

    run = Loop()
    ids = {"app_name": "app", "user_id": "user", "session_id": "s"}
    nothing = GetSessionConfig(num_recent_events=0)

    def event(number: int) -> Any:
        author, role = ("user", "user") if number % 2 else ("agent", "model")
        said = Content(role=role, parts=[Part(text=text(number))])
        return Event(author=author, invocation_id=f"i{number // 2}", content=said)

    async def created(service: Any) -> Any:
        await service.create_session(**ids)
        session = await service.get_session(**ids, config=nothing)
        await service.append_event(session, event(0))
        return session

    ours = BackstorySessionService(os.path.join(folder, "ours.db"))
    theirs = DatabaseSessionService(f"sqlite+aiosqlite:///{os.path.join(folder, 'theirs.db')}")
    for service in (ours, theirs):
        run(created(service))
    events = [event(number) for number in range(1, 10_000)]
    _fill_adk(os.path.join(folder, "theirs.db"), events)
    batch: list[Any] = []
    for each in events:
        batch += build_drafts(each.model_dump(mode="json", by_alias=True, exclude_none=True))
    ours.agent(**ids).extend(batch)
    whole = [run(service.get_session(**ids)).events for service in (ours, theirs)]
    assert [len(found) for found in whole] == [10_000, 10_000]
    assert whole[0][1:] == whole[1][1:] == events
    del whole, events  # thirty thousand of them would keep the collector busy while it is measured
    sessions = {
        service: run(service.get_session(**ids, config=nothing)) for service in (ours, theirs)
    }

    def each(call: Callable[[Any], Coroutine[Any, Any, object]]) -> tuple[Work, Work]:
        return lambda: run(call(ours)), lambda: run(call(theirs))

    name = "DatabaseSessionService"
    read = rows(
        "get_session of 10,000 events", name, *each(lambda its: its.get_session(**ids)), 0.3, 4
    )
    append = each(lambda its: its.append_event(sessions[its], event(1)))
    return [*rows("an event appended", name, *append, 0.5, 60), *read]


def _fill_adk(path: str, events: list[Any]) -> None:
    """Write events into the table of ADK's own service, which would take a minute for each thousand."""
    row = "INSERT INTO events SELECT ?, app_name, user_id, session_id, ?, ?, ? FROM events LIMIT 1"
    with sqlite3.connect(path) as db:
        for number, each in enumerate(events):
            time = datetime.fromtimestamp(each.timestamp, UTC).replace(tzinfo=None)
            text = json.dumps(each.model_dump(mode="json", exclude_none=True))
            stamp = f"{time + timedelta(microseconds=number):%Y-%m-%d %H:%M:%S.%f}"
            db.execute(row, (each.id, each.invocation_id, stamp, text))
    db.close()


TABLES = {"openai_agents": openai_agents, "claude": claude, "langgraph": langgraph, "adk": adk}


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.adapters", description=__doc__)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"some of {', '.join(TABLES)}")
    parser.add_argument("--json", metavar="FILE", help="write the numbers to a file")
    arguments = parser.parse_args()
    if unknown := set(arguments.tables) - set(TABLES):
        parser.error(f"no table {', '.join(sorted(unknown))}: use {', '.join(TABLES)}")
    numbers = {}
    for name in arguments.tables or TABLES:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            measured = TABLES[name](folder)
        print(table(name, measured), end="\n\n", flush=True)
        numbers[name] = [row.numbers() for row in measured]
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(numbers, indent=2) + "\n")


if __name__ == "__main__":
    main()
