"""The sessions of OpenAI's Agents SDK: in SQLite, in SQLite with branches, and in PostgreSQL.

Items have the short form in which the SDK's documentation adds them; Runner itself stores longer ones. What
only some jobs need is imported there: what a new process costs is measured, too.
"""

import asyncio
import itertools
import os
from collections.abc import Coroutine, Sequence
from typing import Any

from agents import SessionABC, SQLiteSession

from benchmarks.peers.conversations import Message, Turn
from benchmarks.peers.peer import Peer

Item = Any
"""A TResponseInputItem: a plain dict in the form of the Responses API."""


class _Sessions(Peer):
    """What the SDK's sessions have in common: four asynchronous methods on an object per session."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.sessions: dict[str, Any] = {}
        # A session cannot say how many items it has, but whoever restored them knows: no need to read again.
        self.lengths: dict[str, int] = {}

    def native(self, turn: Turn) -> list[Item]:
        return [item(message) for message in turn]

    def append(self, session: str, turn: list[Item]) -> None:
        self._run(self._session(session).add_items(turn))
        if session in self.lengths:
            self.lengths[session] += len(turn)

    def fill(self, session: str, turns: list[list[Item]]) -> None:
        self._run(self._session(session).add_items(list(itertools.chain(*turns))))

    def restore(self, session: str) -> list[Item]:
        items: list[Item] = self._run(self._session(session).get_items())
        self.lengths[session] = len(items)
        return items

    def request(self, session: str) -> list[Item]:
        """get_items(): items in the format of the Responses API; Runner may still leave some out."""
        return self.restore(session)

    def texts(self, restored: Sequence[Item]) -> list[str]:
        return [item.get("content") or item.get("output") or item["arguments"] for item in restored]

    def rewind(self, session: str, to: int) -> None:
        length = self.lengths[session] if session in self.lengths else len(self.restore(session))
        self._run(_pop(self._session(session), length - to))
        self.lengths[session] = to

    def ask(self, session: str, question: str, base_url: str) -> None:
        self.lengths.pop(session, None)
        self._run(_answer(self._session(session), question, base_url))

    def close(self) -> None:
        for session in self.sessions.values():
            session.close()
        self.runner.close()

    def _session(self, session: str) -> Any:
        if session not in self.sessions:
            self.sessions[session] = self._open(session)
        return self.sessions[session]

    def _open(self, session: str) -> SessionABC:
        raise NotImplementedError

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(work)


class Sqlite(_Sessions):
    """SQLiteSession on a file: WAL and SQLite's default synchronous = FULL, as durable as backstory."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self.path = os.path.join(place, "sdk.db")

    def append(self, session: str, turn: list[Item]) -> None:
        """add_items(): one row of JSON per item and the session's timestamp, in one commit."""
        super().append(session, turn)

    def restore(self, session: str) -> list[Item]:
        """get_items(): one SELECT of the session's rows, one json.loads per row."""
        return super().restore(session)

    def rewind(self, session: str, to: int) -> None:
        """pop_item() for each message, one DELETE and one commit each; they are gone."""
        super().rewind(session, to)

    def ask(self, session: str, question: str, base_url: str) -> None:
        """Runner.run() with the session: drops calls without a result, but not results without a call."""
        super().ask(session, question, base_url)

    def _open(self, session: str) -> SessionABC:
        return SQLiteSession(session, self.path)


class Advanced(Sqlite):
    """AdvancedSQLiteSession on a file, with branches: WAL and synchronous FULL, as in SQLiteSession.

    A branch is durable, but not which one a session is on: every new object begins on `main`. So a fork is
    named `session/branch` here, and opening that name switches to it.
    """

    def __init__(self, place: str) -> None:
        super().__init__(place)
        self.current: dict[str, str] = {}
        self.ends: dict[str, dict[int, int]] = {}

    def append(self, session: str, turn: list[Item]) -> None:
        """add_items(): two rows per item, its JSON and its place; reads all places of the branch first."""
        self.ends.pop(session, None)
        super().append(session, turn)

    def restore(self, session: str) -> list[Item]:
        """get_items(): scans the places of all branches and sessions in the file for those of this branch."""
        name, branch = _address(session)
        items: list[Item] = self._run(super()._session(name).get_items(branch_id=branch))
        self.lengths[session] = len(items)
        return items

    def rewind(self, session: str, to: int) -> None:
        """pop_item() for each message: one commit and one search of the whole session for orphans each.

        A branch from an earlier turn would keep the rest, but the next process would be on `main` again.
        """
        self.ends.pop(session, None)
        super().rewind(session, to)

    def fork(self, session: str, at: int, name: str) -> str:
        """create_branch_from_turn(): copies a row per message, its place in the branch but not its JSON.

        A branch ends before a message of the person, so at the end the last turn is added once more.
        """
        source, _ = _address(session)
        self._run(self._branch(self._session(session), session, at, name))
        # The session object is on the new branch now.
        self.current[source] = name
        return f"{source}/{name}"

    def ask(self, session: str, question: str, base_url: str) -> None:
        """Runner.run() with the session: drops calls without a result, but not results without a call."""
        self.ends.pop(session, None)
        super().ask(session, question, base_url)

    async def _branch(self, source: Any, session: str, at: int, name: str) -> None:
        if session not in self.ends:
            # The SDK counts in turns and our interface in messages: not the SDK's fault, so looked up once.
            self.ends[session] = await _turn_ends(source)
        ends = self.ends[session]
        later = next((turn for turn, end in ends.items() if end > at), None)
        if later is not None:
            await source.create_branch_from_turn(later, name)
            return
        last = max(ends)
        again = await source.get_items(limit=at - ends.get(last - 1, 0))
        await source.create_branch_from_turn(last, name)
        await source.add_items(again)

    def _session(self, session: str) -> Any:
        name, branch = _address(session)
        found = super()._session(name)
        if self.current.setdefault(name, "main") != branch:
            self._run(found.switch_to_branch(branch))
            self.current[name] = branch
        return found

    def _open(self, session: str) -> SessionABC:
        from agents.extensions.memory import AdvancedSQLiteSession

        return AdvancedSQLiteSession(session_id=session, db_path=self.path, create_tables=True)


def item(message: Message) -> Item:
    """A message as add_items() takes it."""
    if message.kind == "tool_call":
        call = {"call_id": message.call, "name": message.tool, "arguments": message.text}
        return {"type": "function_call", **call}
    if message.kind == "tool_result":
        return {"type": "function_call_output", "call_id": message.call, "output": message.text}
    return {"role": message.kind, "content": message.text}


def _address(session: str) -> tuple[str, str]:
    """The session and the branch that a name stands for."""
    name, _, branch = session.partition("/")
    return name, branch or "main"


async def _turn_ends(session: Any) -> dict[int, int]:
    """How many messages there are at the end of each turn of the current branch."""
    turns = await session.get_conversation_by_turns()
    return dict(zip(turns, itertools.accumulate(map(len, turns.values())), strict=True))


async def _pop(session: SessionABC, times: int) -> None:
    for _ in range(times):
        await session.pop_item()


async def _answer(session: SessionABC, question: str, base_url: str) -> None:
    from agents import Agent, OpenAIResponsesModel, RunConfig, Runner
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    web = DefaultAsyncHttpxClient(trust_env=False)
    async with AsyncOpenAI(
        base_url=base_url, api_key="none", http_client=web, max_retries=0
    ) as client:
        agent = Agent(name="peer", model=OpenAIResponsesModel("any", client))
        await Runner.run(
            agent, question, session=session, run_config=RunConfig(tracing_disabled=True)
        )
