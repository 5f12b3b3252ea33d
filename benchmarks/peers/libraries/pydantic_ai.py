"""pydantic-ai's ConversationStore, in memory: the only one it ships."""

import asyncio
from collections.abc import Sequence
from typing import Any

from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import InMemoryConversationStore
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    repair_messages,
)

from benchmarks.peers.conversations import Message, Turn, together
from benchmarks.peers.peer import Peer


class InMemory(Peer):
    """Linked entries in a dict, deep-copied when written and when read.

    Not durable: its documentation says "for tests and examples", and nothing reaches the disk.
    """

    persists = False

    def __init__(self, place: str) -> None:
        self.loop = asyncio.Runner()
        self.store = InMemoryConversationStore()

    def native(self, turn: Turn) -> list[ModelMessage]:
        return [native_form(messages) for messages in together(turn)]

    def append(self, session: str, turn: list[ModelMessage]) -> None:
        """load(limit=0) and save(): deep-copies the record and the new messages only; nothing is durable."""
        self.loop.run(self._append(session, turn))

    def fill(self, session: str, turns: list[list[ModelMessage]]) -> None:
        self.append(session, [message for turn in turns for message in turn])

    def restore(self, session: str) -> list[ModelMessage]:
        """load(): follows the parent links back from the head, one deep copy per message."""
        return self.loop.run(self._load(session)).messages

    def texts(self, restored: Sequence[ModelMessage]) -> list[str]:
        return ["".join(_text(part) for part in message.parts) for message in restored]

    def point(self, session: str, messages: int) -> tuple[int, str]:
        entries = self.loop.run(self.store.load_entries(session))
        return messages, entries[messages - 1].id

    def rewind(self, session: str, to: tuple[int, str]) -> None:
        """branch(at=…): deep-copies the whole history, then moves the head; the rest stays as a branch."""
        self.loop.run(self._rewind(session, to[0]))

    def fork(self, session: str, at: tuple[int, str], name: str) -> str:
        """fork(at=…): deep-copies the whole history, then stores one record; the entries stay shared."""
        self.loop.run(self.store.fork(session, at=at[0], new_conversation_id=name))
        return name

    def as_of(self, session: str, point: tuple[int, str]) -> list[ModelMessage]:
        """read_history() of an entry: follows the parent links back from there, one deep copy per message."""
        return [entry.message for entry in self.loop.run(self.store.read_history(point[1]))]

    def ask(self, session: str, question: str, base_url: str) -> None:
        """Agent.run with the loaded history, after repair_messages(), as its error message asks for."""
        self.loop.run(self._ask(session, question, base_url))

    def close(self) -> None:
        # The store lives as long as its object, and may be asked again.
        self.loop.close()
        self.loop = asyncio.Runner()

    async def _append(self, session: str, turn: list[ModelMessage]) -> None:
        # An empty window is enough to save on top of a history, and spares the copy of it.
        conversation = await self.store.load(session, limit=0) or Conversation(
            conversation_id=session
        )
        conversation.messages.extend(turn)
        await self.store.save(conversation)

    async def _load(self, session: str, limit: int | None = None) -> Conversation:
        conversation = await self.store.load(session, limit=limit)
        if conversation is None:
            raise KeyError(session)
        return conversation

    async def _rewind(self, session: str, to: int) -> None:
        revision = (await self._load(session, limit=0)).revision
        await self.store.branch(session, at=to, expected_revision=revision)

    async def _ask(self, session: str, question: str, base_url: str) -> None:
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient
        from pydantic_ai import Agent
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        history = repair_messages((await self._load(session)).messages)
        direct = DefaultAsyncHttpxClient(trust_env=False)
        options: Any = {
            "base_url": base_url,
            "api_key": "none",
            "max_retries": 0,
            "http_client": direct,
        }
        async with AsyncOpenAI(**options) as client:
            model = OpenAIChatModel("any", provider=OpenAIProvider(openai_client=client))
            await Agent(model).run(question, message_history=history)


def native_form(messages: list[Message]) -> ModelMessage:
    """One message, or the calls that the model made at once, as pydantic-ai keeps them."""
    message = messages[0]
    if message.kind == "tool_call":
        return ModelResponse([ToolCallPart(call.tool, call.text, call.call) for call in messages])
    if message.kind == "tool_result":
        return ModelRequest([ToolReturnPart(message.tool, message.text, message.call)])
    if message.kind == "assistant":
        return ModelResponse([TextPart(message.text)])
    return ModelRequest([UserPromptPart(message.text)])


def _text(part: Any) -> str:
    return str(part.args if isinstance(part, ToolCallPart) else part.content)
