"""LangGraph's checkpointers, behind a graph of one node that answers.

A thread is a tree of checkpoints without names: whatever was written last is what the thread is. So every
checkpoint is given two words of metadata, as an application would: whose it is and how many messages there
are by then. Metadata is what the checkpointers can look an older checkpoint up by.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from itertools import accumulate, pairwise, takewhile
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import _messages_delta_reducer
from langgraph.runtime import Runtime
from langgraph.types import Overwrite

from benchmarks.peers.conversations import Message, Turn, together
from benchmarks.peers.peer import Peer

Messages = list[AnyMessage]
Answer = Callable[[Messages], Messages]
Point = tuple[int, RunnableConfig]
"""How many messages there are, and the checkpoint that has them."""

CADENCE = 50
"""Turns between two snapshots of a delta channel: by default 100 updates, and question and answer are two."""


class DeltaState(TypedDict):
    """As DeltaChannel's documentation shows it, with its own frequency of snapshots."""

    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer)]


def answer(state: dict[str, Messages], runtime: Runtime[Answer]) -> dict[str, Messages]:
    """The one node: what the model, or whoever stands for it, says to the messages so far."""
    return {"messages": runtime.context(state["messages"])}


class Saver(Peer):
    """SqliteSaver and the add_messages channel: WAL and synchronous = FULL, as durable as backstory."""

    state: type = MessagesState

    def __init__(self, place: str) -> None:
        self.opened = ExitStack()
        self.saver = self.opened.enter_context(self._open(place))
        builder = StateGraph(self.state)
        builder.add_node("answer", answer)
        builder.add_edge(START, "answer")
        self.graph = builder.compile(checkpointer=self.saver)
        self.counts: dict[str, int] = {}
        # Whose the newest checkpoint of a thread is, and where those are that have been overtaken.
        self.newest: dict[str, str] = {}
        self.heads: dict[str, RunnableConfig] = {}

    def native(self, turn: Turn) -> Messages:
        return [langchain_form(messages) for messages in together(turn)]

    def append(self, session: str, turn: Messages) -> None:
        """One invoke() with durability="exit", the cheapest: reads all messages and writes them all again."""
        # Copies, because the channel writes an id into each message it is given, and replaces by id.
        copies = [message.model_copy() for message in turn]
        asked = len(list(takewhile(lambda message: message.type == "human", copies)))
        self._run(session, copies[:asked], lambda _: copies[asked:], len(copies))

    def fill(self, session: str, turns: list[Messages]) -> None:
        """A few update_state() calls, each a checkpoint that will be asked for; every one holds all messages.

        A life would leave one per turn, which is quadratic: a look-up by metadata is quicker here.
        """
        for start, end in pairwise([0, *marks(turns)]):
            copies = [message.model_copy() for message in flat(turns[start:end])]
            total = self.counts.get(session, 0) + len(copies)
            self._update(session, self._config(session), total, {"messages": copies})

    def restore(self, session: str) -> Messages:
        """get_state(): reads the newest checkpoint, which holds every message."""
        thread = thread_of(session)
        known = thread in self.newest
        state = self.graph.get_state(self._config(session) if known else at(thread))
        if not known and self._note(thread, state.metadata) != session:
            return self.restore(session)
        messages: Messages = state.values["messages"]
        return messages

    def texts(self, restored: Sequence[AnyMessage]) -> list[str]:
        return [str(message.content) for message in restored]

    def request(self, session: str) -> list[Any]:
        """get_state(), then convert_to_openai_messages(), as they are."""
        from langchain_core.messages import convert_to_openai_messages

        return list(convert_to_openai_messages(self.restore(session)))

    def point(self, session: str, messages: int) -> Point:
        for branch in lineage(session):
            wanted = {"session": branch, "messages": messages}
            for found in self.saver.list(at(thread_of(session)), filter=wanted, limit=1):
                return messages, found.config
        raise LookupError(f"{session} has no checkpoint of {messages} messages")

    def rewind(self, session: str, to: Point) -> None:
        """update_state() on the older checkpoint: writes a new one, with every message up to there."""
        messages, config = to
        self._update(session, config, messages, None)

    def fork(self, session: str, at: Point, name: str) -> str:
        """update_state() on that checkpoint: writes a named copy, with all messages up to there.

        Going on from an older checkpoint is a fork by itself; but nothing in the store would say so.
        """
        fork = f"{session}@{name}"
        messages, config = at
        self._update(fork, config, messages, None)
        return fork

    def as_of(self, session: str, point: Point) -> Messages:
        """get_state() of that checkpoint, which holds every message up to there."""
        found: Messages = self.graph.get_state(point[1]).values["messages"]
        return found

    def ask(self, session: str, question: str, base_url: str) -> None:
        """invoke(): the node gives the messages to ChatOpenAI as they are."""
        import httpx
        from langchain_openai import ChatOpenAI

        with httpx.Client(trust_env=False) as http:
            model = ChatOpenAI(
                model="any", base_url=base_url, api_key="none", max_retries=0, http_client=http
            )
            self._run(
                session, [HumanMessage(question)], lambda messages: [model.invoke(messages)], 2
            )

    def close(self) -> None:
        self.opened.close()

    def _open(self, place: str) -> AbstractContextManager[BaseCheckpointSaver[Any]]:
        return SqliteSaver.from_conn_string(os.path.join(place, "checkpoints.sqlite"))

    def _run(self, session: str, asked: Messages, answered: Answer, added: int) -> None:
        """One turn, which "exit" gives one checkpoint; invoke() returns when it is committed."""
        config = self._config(session)
        self._overtake(session)
        config = tagged(config, session, self.counts.get(session, 0) + added)
        state = self.graph.invoke({"messages": asked}, config, context=answered, durability="exit")
        self.counts[session] = len(state["messages"])
        self.heads.pop(session, None)
        self.newest[thread_of(session)] = session

    def _update(self, session: str, config: RunnableConfig, messages: int, values: Any) -> None:
        """A checkpoint that the node did not have to run for: from now on the newest of the thread."""
        self._overtake(session)
        config = tagged(config, session, messages)
        self.heads[session] = self.graph.update_state(config, values, as_node="answer")
        self.counts[session] = messages
        self.newest[thread_of(session)] = session

    def _overtake(self, session: str) -> None:
        """Note where the thread's newest session is, before another one becomes that."""
        last = self._newest(thread_of(session))
        if last and last != session:
            self._head(last)

    def _config(self, session: str) -> RunnableConfig:
        """Where a session goes on: at the newest of its thread, or where it was when another overtook it."""
        thread = thread_of(session)
        return at(thread) if self._newest(thread) in ("", session) else self._head(session)

    def _newest(self, thread: str) -> str:
        if thread not in self.newest:
            newest = self.saver.get_tuple(at(thread))
            return self._note(thread, newest.metadata) if newest else ""
        return self.newest[thread]

    def _note(self, thread: str, metadata: Any) -> str:
        """Whose a thread's newest checkpoint is."""
        session: str = metadata["session"]
        self.newest[thread], self.counts[session] = session, metadata["messages"]
        return session

    def _head(self, session: str) -> RunnableConfig:
        if session not in self.heads:
            found = self._look_up(session)
            self.heads[session], self.counts[session] = found.config, found.metadata["messages"]
        return self.heads[session]

    def _look_up(self, session: str) -> CheckpointTuple:
        """The newest checkpoint of a session."""
        for found in self.saver.list(at(thread_of(session)), filter={"session": session}, limit=1):
            return found
        raise LookupError(f"{session} has no checkpoint")


class DeltaSaver(Saver):
    """SqliteSaver and the beta DeltaChannel: WAL and synchronous = FULL, as durable as backstory."""

    state = DeltaState

    def append(self, session: str, turn: Messages) -> None:
        """One invoke() with durability="exit", three commits: reads all messages, writes the turn's own.

        Every 50th turn it writes all of them, as a snapshot.
        """
        super().append(session, turn)

    def fill(self, session: str, turns: list[Messages]) -> None:
        """Turn by turn after the last snapshot before each checkpoint that will be asked for.

        What lies further back is jumped, as only the look-up by metadata passes there: every turn reads all
        messages, tens of milliseconds at 1,000 of them, so that a life is quadratic.
        """
        done = 0
        for mark in marks(turns):
            snapshot = mark - mark % CADENCE
            if snapshot - done > CADENCE:
                # A turn more, for the jump's own writes are kept with the checkpoint that it starts from.
                self.append(session, turns[done])
                self._jump(session, flat(turns[:snapshot]))
                done = snapshot
            for turn in turns[done:mark]:
                self.append(session, turn)
            done = mark

    def restore(self, session: str) -> Messages:
        """get_state(): reads the last snapshot of all messages and replays the turns after it."""
        return super().restore(session)

    def rewind(self, session: str, to: Point) -> None:
        """update_state() on the older checkpoint: writes a snapshot, with every message up to there."""
        super().rewind(session, to)

    def fork(self, session: str, at: Point, name: str) -> str:
        """update_state() on that checkpoint: writes little at the end, but all messages elsewhere."""
        return super().fork(session, at, name)

    def as_of(self, session: str, point: Point) -> Messages:
        """get_state() of that checkpoint: reads the snapshot before it and replays the turns after that."""
        return super().as_of(session, point)

    def _jump(self, session: str, messages: Messages) -> None:
        """Overwriting is what makes the channel take a snapshot now."""
        copies = [message.model_copy() for message in messages]
        self._update(session, self._config(session), len(copies), {"messages": Overwrite(copies)})


def langchain_form(messages: list[Message]) -> AnyMessage:
    """One message, or the calls that the model made at once, as LangChain has it."""
    message = messages[0]
    if message.kind == "tool_call":
        calls = [
            {"name": call.tool, "args": json.loads(call.text), "id": call.call} for call in messages
        ]
        return AIMessage("", tool_calls=calls)
    if message.kind == "tool_result":
        return ToolMessage(message.text, tool_call_id=message.call, name=message.tool)
    return HumanMessage(message.text) if message.kind == "user" else AIMessage(message.text)


def at(thread: str) -> RunnableConfig:
    """A thread, as it is now."""
    return {"configurable": {"thread_id": thread}}


def tagged(config: RunnableConfig, session: str, messages: int) -> RunnableConfig:
    """What is written from there on can be looked up again."""
    return {**config, "metadata": {"session": session, "messages": messages}}


def thread_of(session: str) -> str:
    """Forks are in the thread of what they were forked from."""
    return session.partition("@")[0]


def lineage(session: str) -> Iterator[str]:
    """A session and what it was forked from, and so on."""
    while session:
        yield session
        session = session.rpartition("@")[0]


def marks(turns: list[Messages]) -> list[int]:
    """After how many turns something will be asked for: 100 messages, half, all but 20 and the end."""
    ends = list(accumulate(map(len, turns)))
    asked = {100, ends[-1] // 2, ends[-1] - 20, ends[-1]}
    return sorted({number for number, end in enumerate(ends, 1) if end in asked} | {len(turns)})


def flat(turns: list[Messages]) -> Messages:
    """The messages of some turns."""
    return [message for turn in turns for message in turn]
