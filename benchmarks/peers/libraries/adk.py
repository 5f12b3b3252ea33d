"""Google ADK's two session services that keep their sessions in a SQLite file.

A message is an event, and a turn is an invocation: what ADK can rewind to.
"""

import asyncio
import json
import os
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

from google.adk.agents.invocation_context import new_invocation_context_id
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.events import Event
from google.adk.events._rewind_events import _apply_rewinds
from google.adk.sessions import BaseSessionService, DatabaseSessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.schemas.v1 import StorageEvent
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai.types import Content, FunctionCall, FunctionResponse, Part

from benchmarks.peers.conversations import Message, Turn, together
from benchmarks.peers.peer import Peer

APP, USER, AGENT = "app", "user", "agent"
Said = tuple[str, Content]
"""Who said it and what; the event is made when it is appended, for its time is its place in the order."""


class Adk(Peer):
    """What both services do alike, through the interface that they share."""

    def __init__(self, place: str) -> None:
        self.loop = asyncio.Runner()
        self.service = self._open(place)
        self.runner: Any = None
        self.sessions: dict[str, Session] = {}

    def _open(self, place: str) -> BaseSessionService:
        raise NotImplementedError

    def native(self, turn: Turn) -> list[Said]:
        return [native_form(messages) for messages in together(turn)]

    def append(self, session: str, turn: list[Said]) -> None:
        self.loop.run(self._append(session, turn))

    def fill(self, session: str, turns: list[list[Said]]) -> None:
        created = self.loop.run(self._session(session))
        events = [event for turn in turns for event in _events(turn)]
        self._insert(created, events)
        # Its copy of the session has to be read again, as after any other writer.
        del self.sessions[session]

    def stretch(self, session: str, turn: list[Said]) -> None:
        self.fill(session, [turn])

    def _insert(self, session: Session, events: list[Event]) -> None:
        """Write what append_event() would, in one transaction instead of one per event."""
        raise NotImplementedError

    def restore(self, session: str) -> list[Event]:
        return self.loop.run(self._live(session))

    def texts(self, restored: Sequence[Event]) -> list[str]:
        return ["".join(map(_text, event.content.parts)) for event in restored]  # type: ignore[union-attr,arg-type]

    def point(self, session: str, messages: int) -> str:
        """The invocation before which to rewind; the runner that will do it is made now, too."""
        self.runner = self.runner or self._runner()
        events = self.loop.run(self._live(session))
        return events[messages].invocation_id if messages < len(events) else ""

    def rewind(self, session: str, to: str) -> None:
        """Runner.rewind_async() reads all events ever written and adds one that takes some back."""
        before = self.runner.rewind_async(
            user_id=USER, session_id=session, rewind_before_invocation_id=to
        )
        self.loop.run(before)
        self.sessions.pop(session, None)

    def ask(self, session: str, question: str, base_url: str) -> None:
        """Runner.run_async with LiteLlm: leaves out calls without a result and results without a call."""
        self.loop.run(self._ask(session, question, base_url))

    def close(self) -> None:
        self.loop.run(self.service.close())  # type: ignore[attr-defined]
        self.loop.close()

    async def _append(self, name: str, turn: list[Said]) -> None:
        for event in _events(turn):
            await self._keep(name, event)

    async def _keep(self, name: str, event: Event) -> None:
        """Append an event; where another writer was first, read the session again, as the error asks for."""
        while True:
            session = await self._session(name)
            try:
                await self.service.append_event(session, event)
                return
            except StaleSessionError:
                del self.sessions[name]

    async def _session(self, name: str) -> Session:
        """The session without its events, which is all that an append needs; a new one if there is none."""
        if name not in self.sessions:
            found = await self._get(name, GetSessionConfig(num_recent_events=0))
            self.sessions[name] = found or await self._create(name)
        return self.sessions[name]

    async def _get(self, name: str, config: GetSessionConfig | None = None) -> Session | None:
        return await self.service.get_session(
            app_name=APP, user_id=USER, session_id=name, config=config
        )

    async def _create(self, name: str) -> Session:
        try:
            return await self.service.create_session(app_name=APP, user_id=USER, session_id=name)
        except AlreadyExistsError:
            return await self._get(name)  # type: ignore[return-value]

    async def _live(self, name: str) -> list[Event]:
        """What no rewind took back; its own function for that is private, but the only one there is."""
        session = await self._get(name)
        if session is None:
            raise KeyError(name)
        return _apply_rewinds(session.events)

    def _runner(self, **model: Any) -> Any:
        # Not for a restore, so imported here: what a new process costs is measured, too.
        from google.adk.agents import Agent
        from google.adk.runners import Runner

        return Runner(agent=Agent(name=AGENT, **model), app_name=APP, session_service=self.service)

    async def _ask(self, name: str, question: str, base_url: str) -> None:
        # Slow to import, and only this job needs it; it would fetch a list of prices from the network.
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
        from google.adk.models.lite_llm import LiteLlm
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        direct = DefaultAsyncHttpxClient(trust_env=False)
        options: Any = {
            "base_url": base_url,
            "api_key": "none",
            "max_retries": 0,
            "http_client": direct,
        }
        async with AsyncOpenAI(**options) as client:
            model = LiteLlm("openai/any", api_base=base_url, client=client, max_retries=0)
            runner = self._runner(model=model)
            message = Content(role="user", parts=[Part(text=question)])
            async for event in runner.run_async(user_id=USER, session_id=name, new_message=message):
                if event.error_code:
                    raise RuntimeError(event.error_message)
        self.sessions.pop(name, None)


class Sqlite(Adk):
    """SqliteSessionService: each event is a row of JSON; each call opens its own connection.

    It leaves SQLite's own defaults alone: a rollback journal and synchronous = FULL, so every commit waits
    for the disk, and more than once, where a write-ahead log waits once.
    """

    def _open(self, place: str) -> SqliteSessionService:
        self.path = os.path.join(place, "adk.db")
        return SqliteSessionService(self.path)

    def append(self, session: str, turn: list[Said]) -> None:
        """append_event() per message, without a batch: each opens the file, checks, inserts, commits."""
        super().append(session, turn)

    def restore(self, session: str) -> list[Event]:
        """get_session() parses every event ever written, then drops those that were rewound."""
        return super().restore(session)

    def _insert(self, session: Session, events: list[Event]) -> None:
        rows = [
            (*_key(session, event), event.model_dump_json(exclude_none=True)) for event in events
        ]
        connection = sqlite3.connect(self.path)
        with connection:
            connection.executemany(
                "INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                rows,
            )
            connection.execute(
                "UPDATE sessions SET update_time = ? WHERE app_name = ? AND user_id = ? AND id = ?",
                (events[-1].timestamp, APP, USER, session.id),
            )
        connection.close()


class Database(Adk):
    """DatabaseSessionService on sqlite+aiosqlite: SQLAlchemy objects, from a pool of connections.

    It leaves SQLite's own defaults alone: a rollback journal and synchronous = FULL, so every commit waits
    for the disk, and more than once, where a write-ahead log waits once.
    """

    def _open(self, place: str) -> DatabaseSessionService:
        return DatabaseSessionService(f"sqlite+aiosqlite:///{os.path.join(place, 'adk.db')}")

    def append(self, session: str, turn: list[Said]) -> None:
        """append_event() per message, without a batch: each reads three rows, writes two, commits."""
        super().append(session, turn)

    def restore(self, session: str) -> list[Event]:
        """get_session() makes two objects of every event ever written, then drops those that were rewound."""
        return super().restore(session)

    def _insert(self, session: Session, events: list[Event]) -> None:
        self.loop.run(self._insert_objects(session, events))

    async def _insert_objects(self, session: Session, events: list[Event]) -> None:
        # The last one goes the usual way, which also moves the session's time.
        async with self.service.database_session_factory() as connection:  # type: ignore[attr-defined]
            connection.add_all(StorageEvent.from_event(session, event) for event in events[:-1])
            await connection.commit()
        await self.service.append_event(session, events[-1])


def native_form(messages: list[Message]) -> Said:
    """One message, or the calls that the model made at once, with its author."""
    message = messages[0]
    if message.kind == "tool_call":
        return AGENT, Content(role="model", parts=[_call(call) for call in messages])
    if message.kind == "tool_result":
        response = FunctionResponse(
            id=message.call, name=message.tool, response={"result": message.text}
        )
        return AGENT, Content(role="user", parts=[Part(function_response=response)])
    if message.kind == "assistant":
        return AGENT, Content(role="model", parts=[Part(text=message.text)])
    return USER, Content(role="user", parts=[Part(text=message.text)])


def _call(message: Message) -> Part:
    return Part(
        function_call=FunctionCall(
            id=message.call, name=message.tool, args=json.loads(message.text)
        )
    )


def _events(turn: list[Said]) -> Iterable[Event]:
    invocation = new_invocation_context_id()
    for author, content in turn:
        yield Event(author=author, content=content, invocation_id=invocation)


def _key(session: Session, event: Event) -> tuple[Any, ...]:
    return event.id, APP, USER, session.id, event.invocation_id, event.timestamp


def _text(part: Part) -> str:
    if part.function_call:
        return json.dumps(part.function_call.args)
    return str(part.function_response.response["result"] if part.function_response else part.text)  # type: ignore[index]
