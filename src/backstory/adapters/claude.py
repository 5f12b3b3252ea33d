"""The Claude Agent SDK: `ClaudeAgentOptions(session_store=BackstorySessionStore("history.db"))`.

A session is an agent, a sub-agent's transcript one below it. Each line of a transcript is kept exactly and is
the messages that an import of it would be. A compaction or a rewind of Claude's own is a move in the log; for
Claude, which finds its way by itself, `load` gives back the lines on both sides of it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from claude_agent_sdk import fold_session_summary

from backstory import Agent, AgentNotFound, Conflict, Event, replay
from backstory.adapters.claude_lines import (
    NewLine,
    Written,
    drafts_of,
    foreign_lines,
    written_lines,
)
from backstory.adapters.items import kept, kept_in, plain
from backstory.adapters.keys import agent_key, key_prefix, whole_path
from backstory.adapters.stores import History, Where, ids_of
from backstory.aio import in_thread

__all__ = ["BackstorySessionStore"]

ADAPTER = "claude"
SUMMARY = "claude.summary"

Key = dict[str, str]
Line = dict[str, Any]
R = TypeVar("R")


class BackstorySessionStore:
    """A session store of the Claude Agent SDK in a backstory store."""

    def __init__(self, where: Where) -> None:
        self._history = History(where)

    def close(self) -> None:
        """Let go of the store."""
        self._history.close()

    def agent(self, key: Key) -> Agent:
        """The agent that holds a transcript, made if it is not there."""
        project, session, *subpath = _ids(key)
        main = self._history.ensured(agent_key(ADAPTER, project, session), session)
        self._history.told(main, whole_path(ADAPTER, project, session))
        if not subpath:
            return main
        below = self._history.spawned(
            main, agent_key(ADAPTER, project, session, *subpath), *subpath
        )
        return self._history.told(below, whole_path(ADAPTER, project, session, *subpath))

    def fork(self, key: Key, new_session_id: str, up_to: str | None = None) -> Agent:
        """A new session that goes on from a session's end, or from the line with a uuid: one row. Raises
        AgentNotFound, KeyTaken, and ValueError for a uuid that no line has."""
        project, session, *_ = _ids(key)
        source = self._history.store.agent(key=agent_key(ADAPTER, project, session))
        at = None if up_to is None else _last_event_of(source, up_to)
        new = self._history.forked(
            source, agent_key(ADAPTER, project, new_session_id), new_session_id, at
        )
        return self._history.told(new, whole_path(ADAPTER, project, new_session_id))

    # --- the SDK's protocol ---

    async def append(self, key: Key, entries: list[Line]) -> None:
        """Write lines behind the others, all or none; a line that is there already is not written again."""
        self._history.store  # noqa: B018  a closed store refuses even an empty list
        if entries:
            if not all(isinstance(line, dict) for line in entries):
                raise TypeError("a line of a transcript is a JSON object")
            lines = [NewLine.of(line) for line in entries]
            await self._in_thread(lambda: _append(self.agent(key), key, lines))

    async def load(self, key: Key) -> list[Line] | None:
        """All lines that were written, as they were; None if there never were any."""
        found = agent_key(ADAPTER, *_ids(key))
        read: Callable[[Agent], list[Line] | None] = partial(_load, session_id=key["session_id"])
        return await self._in_thread(lambda: self._history.read(found, read, None))

    async def list_sessions(self, project_key: str) -> list[dict[str, Any]]:
        """The sessions of a project, with the times of their last writes."""
        prefix = key_prefix(ADAPTER, project_key)
        agents = await self._in_thread(lambda: self._history.store.agents(prefix=prefix))
        return [
            {"session_id": ids_of(agent)[-1], "mtime": _mtime(agent)}
            for agent in agents
            if _is_written(agent) and "/" not in (agent.key or "").removeprefix(prefix)
        ]

    async def list_session_summaries(self, project_key: str) -> list[dict[str, Any]]:
        """The SDK's own summaries of a project's sessions."""
        prefix = key_prefix(ADAPTER, project_key)
        found = await self._in_thread(
            lambda: self._history.store.last_notes(SUMMARY, prefix=prefix)
        )
        return [
            {
                "session_id": ids_of(agent)[-1],
                "mtime": _mtime(agent),
                "data": kept_in(note.data, "summary"),
            }
            for agent, note in found
        ]

    async def delete(self, key: Key) -> None:
        """Erase a transcript; with a session go those of its sub-agents. Forks of it stay."""
        await self._in_thread(lambda: self._delete(key))

    async def list_subkeys(self, key: Key) -> list[str]:
        """The sub-agents' transcripts of a session."""
        agents = await self._in_thread(lambda: self._subagents(key))
        return [ids_of(agent)[-1] for agent in agents if _is_written(agent)]

    def _subagents(self, key: Key) -> list[Agent]:
        return self._history.store.agents(prefix=key_prefix(ADAPTER, *_ids(key)))

    def _delete(self, key: Key) -> None:
        below = [] if "subpath" in key else self._subagents(key)
        main = self._history.found(agent_key(ADAPTER, *_ids(key)))
        for agent in [*below, *([main] if main else [])]:
            try:
                self._history.store.delete(agent.id)
            except AgentNotFound:  # someone else was quicker
                continue

    async def _in_thread(self, call: Callable[[], R]) -> R:
        return await in_thread(call)


def _ids(key: Key) -> list[str]:
    subpath = [key["subpath"]] if "subpath" in key else []
    return [key["project_key"], key["session_id"], *subpath]


def _is_written(agent: Agent) -> bool:
    return agent.listed_head > 0


def _mtime(agent: Agent) -> int:
    return int(agent.updated_at.timestamp() * 1_000)


def _data(event: Event) -> dict[str, Any]:
    return event.data or {}


# --- writing ---


def _append(agent: Agent, key: Key, lines: list[NewLine]) -> None:
    while True:
        written = Written(agent, key["session_id"], is_main="subpath" not in key)
        new = written.new(lines)
        batch = drafts_of(written, new)
        if "subpath" not in key and new:
            is_moved = any(event.kind in ("clear", "jump") for event in batch)
            batch += _summary(written, key, [each.line for each in new], is_moved=is_moved)
        try:
            agent.extend(batch, expected=written.head) if batch else None
            return
        except Conflict:  # someone else wrote in between: look again
            continue


def _summary(written: Written, key: Key, lines: list[Line], *, is_moved: bool) -> list[Event]:
    """The SDK's summary with these lines folded in, if it changed or its note has left the context."""
    note = written.agent.last_notes([SUMMARY]).get(SUMMARY) if written.head else None
    before = kept_in(note.data, "summary") if note else None
    if (
        note is None and written.head
    ):  # a fork from before it, or a person's rewind: all are folded again
        lines = [*(_load(written.agent, session_id=key["session_id"]) or []), *lines]
    previous = note and {"session_id": key["session_id"], "mtime": 0, "data": plain(before)}
    folded: Any = fold_session_summary(previous or None, key, lines)
    is_new = is_moved or folded["data"] != before
    return [Event.of(0, "note", SUMMARY, kept("summary", plain(folded["data"])))] if is_new else []


# --- reading ---


def _load(agent: Agent, *, session_id: str) -> list[Line] | None:
    events = agent.events()
    if not events:
        return None
    by_us = [_as_note(event) if _is_claudes_move(event) else event for event in events]
    shown = replay(by_us, agent=agent.name).messages
    lines = foreign_lines(written_lines(shown), session_id)
    return [_renamed(line, session_id) if seq <= agent.fork_seq else line for seq, line in lines]


def _is_claudes_move(event: Event) -> bool:
    return event.kind in ("clear", "jump") and _data(event).get("by") == ADAPTER


def _as_note(event: Event) -> Event:
    return Event.of(event.seq, "note", "claude.move")


def _renamed(line: Line, session_id: str) -> Line:
    return line | {"sessionId": session_id} if "sessionId" in line else line


def _last_event_of(agent: Agent, uuid: str) -> int:
    """The position of the last event of the line with a uuid."""
    found = [seq for seq, line in Written(agent, "").positions() if line.get("uuid") == uuid]
    if not found:
        raise ValueError(f"no line of {agent.name!r} has the uuid {uuid!r}")
    return found[-1]
