"""Strands: `RepositorySessionManager("s1", session_repository=BackstoryRepository("history.db"))`.

A session is an agent, each of its Strands agents one below it, with its state as a note. Messages are
Bedrock's. A redaction hides what was said and does not erase it.
"""

from typing import Any

from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.session.session_repository import SessionRepository
from strands.types.exceptions import SessionException
from strands.types.session import (
    Session,
    SessionAgent,
    SessionMessage,
    SessionType,
    decode_bytes_values,
    encode_bytes_values,
)

from backstory import Agent, AgentNotFound, Conflict, Error, Event, wire
from backstory.adapters.arguments import check
from backstory.adapters.items import Batch, carried, kept, kept_in, newest_items, note, plain
from backstory.adapters.keys import agent_key, key_prefix
from backstory.adapters.stores import History, Where
from backstory.adapters.turns import answered, said

__all__ = ["BackstoryRepository"]

ADAPTER = "strands"
SESSION, STATE, MANY = "strands.session", "strands.agent", "strands.multi_agent"

Form = dict[str, Any]
Messages = list[tuple[Event, Form]]  # each with the event that carries it


class BackstoryRepository(SessionRepository):
    """Sessions of Strands in a backstory store."""

    def __init__(self, where: Where) -> None:
        self._history = History(where)

    def close(self) -> None:
        """Let go of the store."""
        self._history.close()

    def agent(self, session_id: str, agent_id: str) -> Agent:
        """The agent that holds a Strands agent's messages, made if it is not there."""
        session = self._history.ensured(agent_key(ADAPTER, session_id), session_id)
        return self._history.spawned(session, agent_key(ADAPTER, session_id, agent_id), agent_id)

    def fork(self, session_id: str, agent_id: str, new_session_id: str, at: Any = None) -> Agent:
        """The same Strands agent in a new session, going on from a position: one row, and the session's."""
        source = self._existing(session_id, agent_id)
        self.create_session(Session(session_id=new_session_id, session_type=self._type(session_id)))
        return self._history.forked(
            source, agent_key(ADAPTER, new_session_id, agent_id), agent_id, at
        )

    def _type(self, session_id: str) -> Any:
        session = self.read_session(session_id)
        if session is None:
            raise SessionException(f"Session {session_id} does not exist")
        return session.session_type

    def delete_session(self, session_id: str) -> None:
        """Erase a session and its agents. Forks of them stay."""
        below = self._history.store.agents(prefix=key_prefix(ADAPTER, session_id))
        main = self._history.found(agent_key(ADAPTER, session_id))
        for agent in [*below, *([main] if main else [])]:
            try:
                self._history.store.delete(agent.id)
            except AgentNotFound:  # someone else was quicker
                continue

    # --- sessions and agents ---

    def create_session(self, session: Session, **kwargs: Any) -> Session:
        """A new session; SessionException if it is there already."""
        check(session, Session, "a session")
        if self.read_session(session.session_id) is not None:
            raise SessionException(f"Session {session.session_id} already exists")
        agent = self._history.ensured(agent_key(ADAPTER, session.session_id), session.session_id)
        agent.note(SESSION, kept("session", plain(session.to_dict())))
        return session

    def read_session(self, session_id: str, **kwargs: Any) -> Session | None:
        """A session; None if it is not there."""
        form = self._noted(agent_key(ADAPTER, session_id), SESSION, "session")
        if form:
            return Session.from_dict(form)
        agents = self._history.store.agents(prefix=key_prefix(ADAPTER, session_id))
        begun_elsewhere = any(agent.listed_head for agent in agents)
        return (
            Session(session_id=session_id, session_type=SessionType.AGENT)
            if begun_elsewhere
            else None
        )

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """A new agent in a session."""
        check(session_agent, SessionAgent, "an agent")
        self._type(session_id)
        agent = self.agent(session_id, session_agent.agent_id)
        agent.note(STATE, kept("agent", plain(session_agent.to_dict())))

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:
        """The state of an agent; None if it is not there."""
        key = agent_key(ADAPTER, session_id, agent_id)
        form = self._noted(key, STATE, "agent") or self._history.read(key, _begun_elsewhere, None)
        return SessionAgent.from_dict(form | {"agent_id": agent_id}) if form else None

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Write the state of an agent, if anything but its time changed."""
        check(session_agent, SessionAgent, "an agent")
        before = self.read_agent(session_id, session_agent.agent_id)
        if before is None:
            raise SessionException(
                f"Agent {session_agent.agent_id} in session {session_id} does not exist"
            )
        session_agent.created_at = before.created_at
        form = plain(session_agent.to_dict())
        if form | {"updated_at": ""} != plain(before.to_dict()) | {"updated_at": ""}:
            self.agent(session_id, session_agent.agent_id).note(STATE, kept("agent", form))

    def create_multi_agent(self, session_id: str, multi_agent: Any, **kwargs: Any) -> None:
        """Write the state of several agents that work together."""
        _check_multi_agent(multi_agent)
        self._type(session_id)
        self.update_multi_agent(session_id, multi_agent)

    def read_multi_agent(self, session_id: str, multi_agent_id: str, **kwargs: Any) -> Form | None:
        """Their state; None if it is not there."""
        found = self._noted(
            agent_key(ADAPTER, session_id), agent_key(MANY, multi_agent_id), "state"
        )
        return decode_bytes_values(found) if found else None

    def update_multi_agent(self, session_id: str, multi_agent: Any, **kwargs: Any) -> None:
        """Write their state again."""
        _check_multi_agent(multi_agent)
        agent = self._history.ensured(agent_key(ADAPTER, session_id), session_id)
        agent.note(
            agent_key(MANY, multi_agent.id), kept("state", plain(multi_agent.serialize_state()))
        )

    def _noted(self, key: str, name: str, field: str) -> Form | None:
        """What the newest note of a name says, in the context or, after a clear, at all."""

        def read(agent: Agent) -> Form | None:
            note = agent.last_notes([name]).get(name)
            if note is None:
                note = next(reversed(agent.notes(name, live=False)), None)
            return kept_in(note.data, field) if note else None

        return self._history.read(key, read, None)

    # --- messages ---

    def create_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Write a message behind the others."""
        check(session_message, SessionMessage, "a message")
        self._existing(session_id, agent_id).extend(drafts(session_message))

    def read_message(
        self, session_id: str, agent_id: str, message_id: int, **kwargs: Any
    ) -> SessionMessage | None:
        """A message of the context; None if it is not there."""
        nothing: Messages = []
        found = self._history.read(agent_key(ADAPTER, session_id, agent_id), _messages, nothing)
        return next((_message(form) for _, form in found if form["message_id"] == message_id), None)

    def update_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Let another version of a message stand in its place: what came behind it is said again."""
        check(session_message, SessionMessage, "a message")
        agent = self._existing(session_id, agent_id)
        while True:
            head, found = agent.head, _messages(agent)
            ids = [form["message_id"] for _, form in found]
            if session_message.message_id not in ids:
                raise SessionException(f"Message {session_message.message_id} does not exist")
            place = ids.index(session_message.message_id)
            session_message.created_at = found[place][1]["created_at"]
            jump = {"target_message_id": found[place][0].seq - 1, "by": ADAPTER}
            again = [session_message, *(_message(form) for _, form in found[place + 1 :])]
            batch: Batch = [
                ("jump", None, jump),
                *(event for each in again for event in drafts(each)),
            ]
            # A state that was noted after the message counts from here on, too.
            state = agent.last_notes([STATE]).get(STATE)
            batch += [("note", STATE, state.data)] if state else []
            try:
                agent.extend(batch, expected=head)
                return
            except Conflict:  # someone else wrote in between: look again
                continue

    def list_messages(
        self,
        session_id: str,
        agent_id: str,
        limit: int | None = None,
        offset: int = 0,
        **kwargs: Any,
    ) -> list[SessionMessage]:
        """The messages of the context, or a page of them."""
        found = [_message(form) for _, form in _messages(self._existing(session_id, agent_id))]
        return found[offset:] if limit is None else found[offset : offset + limit]

    def _existing(self, session_id: str, agent_id: str) -> Agent:
        agent = self._history.found(agent_key(ADAPTER, session_id, agent_id))
        if agent is None:
            raise SessionException(f"Agent {agent_id} in session {session_id} does not exist")
        return agent


def _check_multi_agent(value: Any) -> None:
    """TypeError for what has no state of its own to write. Strands imports these classes only on demand."""
    check(getattr(value, "id", None), str, "the id of several agents that work together")
    if not callable(getattr(value, "serialize_state", None)):
        raise TypeError(f"{type(value).__name__} has no serialize_state")


def _begun_elsewhere(agent: Agent) -> Form | None:
    """The state of an agent whose conversation something else began, as Strands' default would begin."""
    if not agent.messages(limit=1):
        return None
    manager = SlidingWindowConversationManager().get_state()
    begun = agent.created_at.isoformat()
    return {
        "state": {},
        "conversation_manager_state": manager,
        "created_at": begun,
        "updated_at": begun,
    }


def _message(form: Form) -> SessionMessage:
    return SessionMessage.from_dict(form)


def _messages(agent: Agent) -> Messages:
    """The messages of the context; what others wrote is numbered behind the one before it."""
    found: Messages = []
    for event, form, *_ in newest_items(ADAPTER, agent, message_of, None, join=joined):
        number = found[-1][1]["message_id"] + 1 if found else 0
        found.append((event, form if "message_id" in form else form | {"message_id": number}))
    return found


def drafts(message: SessionMessage) -> list[Event]:
    """The events of a message; of a redacted one, the new text."""
    form = plain(message.to_dict())
    try:
        # What else a message has (tracking_id, metadata) Strands keeps for itself: models are not given it.
        whole = message.to_message()
        sent = {"role": whole["role"], "content": whole["content"]}
        events = list(wire.load({"messages": [sent]}, "bedrock"))
    except (Error, KeyError, ValueError):
        events = []
    return carried(ADAPTER, form, events) if events else [note(ADAPTER, "strands.message", form)]


def message_of(event: Event) -> Form | None:
    """A message that something else wrote, as Strands'."""
    data = event.data or {}
    blocks: list[Form]
    match event.kind:
        case "user":
            role, blocks = "user", said(event, "bedrock") or [{"text": event.content}]
        case "assistant" if event.content:
            role, blocks = "assistant", [{"text": event.content}]
        case "tool_call":
            given = data.get("arguments")
            use = {"toolUseId": data.get("id"), "name": data.get("name")}
            use["input"] = given if isinstance(given, dict) else {"value": given}
            role, blocks = "assistant", [{"toolUse": use}]
        case "tool_result":
            status = "error" if data.get("error") else "success"
            found = answered(event, "bedrock")
            content = found if isinstance(found, list) else [{"text": found}]
            result = {"toolUseId": data.get("id"), "status": status, "content": content}
            role, blocks = "user", [{"toolResult": result}]
        case _:
            return None
    time = event.created_at.isoformat()
    message = {"role": role, "content": encode_bytes_values(blocks)}
    return {"message": message, "created_at": time, "updated_at": time}


def joined(one: Form, other: Form) -> Form:
    """Two messages of one turn as one."""
    message = one["message"]
    return one | {
        "message": message | {"content": [*message["content"], *other["message"]["content"]]}
    }
