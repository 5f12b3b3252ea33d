"""A process that uses an adapter while another one does the same.

    python -m tests.adapters.writers ADAPTER URL NAME

Each does fifty operations on the same session; the tests look at what is there afterwards.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

OPERATIONS = 50


async def openai_agents(url: str, name: str) -> None:
    from backstory.adapters.openai_agents import BackstorySession

    session = BackstorySession("shared", url)
    for n in range(OPERATIONS):
        batch = [{"role": "user", "content": f"{name} {n} {part}"} for part in ("a", "b")]
        await session.add_items(batch)
        if n % 10 == 9:
            await session.pop_item()
    session.close()


async def claude(url: str, name: str) -> None:
    from uuid import uuid4

    from backstory.adapters.claude import BackstorySessionStore

    store = BackstorySessionStore(url)
    parent = None
    for n in range(OPERATIONS):
        batch = []
        for part in ("a", "b"):
            message = {"role": "user", "content": f"{name} {n} {part}"}
            batch.append(
                {"type": "user", "uuid": str(uuid4()), "parentUuid": parent, "message": message}
            )
            parent = batch[-1]["uuid"]
        await store.append({"project_key": "p", "session_id": "shared"}, batch)
    store.close()


async def pydantic_ai(url: str, name: str) -> None:
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.conversation_store import ConversationConflict
    from pydantic_ai.messages import ModelRequest, UserPromptPart

    from backstory.adapters.pydantic_ai import BackstoryConversations

    store = BackstoryConversations(url)
    for n in range(OPERATIONS):
        while True:
            conversation = await store.load("shared") or Conversation(conversation_id="shared")
            conversation.messages.append(ModelRequest(parts=[UserPromptPart(f"{name} {n}")]))
            try:
                await store.save(conversation)
                break
            except ConversationConflict:
                continue
    store.close()


async def langgraph(url: str, name: str) -> None:
    from langgraph.checkpoint.base import empty_checkpoint

    from backstory.adapters.langgraph import BackstorySaver

    saver = BackstorySaver(url)
    for n in range(OPERATIONS):
        id = f"{name}-{n:03}"
        parent = {"checkpoint_id": f"{name}-{n - 1:03}"} if n else {}
        config = {"configurable": {"thread_id": "shared", "checkpoint_ns": ""} | parent}
        checkpoint = empty_checkpoint() | {"id": id, "channel_values": {"n": f"{name} {n}"}}
        written = await saver.aput(config, checkpoint, {"source": "loop", "step": n}, {"n": n})
        await saver.aput_writes(written, [("w", n)], "task")
    saver.close()


async def adk(url: str, name: str) -> None:
    from google.adk.errors import StaleSessionError
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.events.event import Event
    from google.adk.events.event_actions import EventActions
    from google.genai import types

    from backstory.adapters.adk import BackstorySessionService

    service = BackstorySessionService(url)
    ids: dict[str, Any] = {"app_name": "app", "user_id": "me", "session_id": "shared"}
    with suppress(AlreadyExistsError):
        await service.create_session(**ids)
    for n in range(OPERATIONS):
        content = types.Content(role="user", parts=[types.Part(text=f"{name} {n}")])
        event = Event(
            author="user", content=content, actions=EventActions(state_delta={f"user:{name}": n})
        )
        while True:
            session = await service.get_session(**ids)
            try:
                await service.append_event(session, event)
                break
            except StaleSessionError:
                continue
    service.close()


async def agent_framework(url: str, name: str) -> None:
    from agent_framework import Message

    from backstory.adapters.agent_framework import BackstoryHistory

    history = BackstoryHistory(url)
    for n in range(OPERATIONS):
        await history.save_messages("shared", [Message("user", [f"{name} {n}"])])
    history.close()


async def strands(url: str, name: str) -> None:
    from strands.types.session import SessionMessage

    from backstory.adapters.strands import BackstoryRepository

    repository = BackstoryRepository(url)
    for n in range(OPERATIONS):
        message = {"role": "user", "content": [{"text": f"{name} {n}"}]}
        repository.create_message("s", "a", SessionMessage(message=message, message_id=n))
    repository.close()


WRITERS: dict[str, Callable[[str, str], Awaitable[None]]] = {
    "openai_agents": openai_agents,
    "claude": claude,
    "pydantic_ai": pydantic_ai,
    "langgraph": langgraph,
    "adk": adk,
    "agent_framework": agent_framework,
    "strands": strands,
}

if __name__ == "__main__":
    adapter, url, name = sys.argv[1:]
    asyncio.run(WRITERS[adapter](url, name))  # type: ignore[arg-type]
