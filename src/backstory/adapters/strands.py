"""Strands: `RepositorySessionManager("s1", session_repository=BackstoryRepository("history.db"))`.

A session is an agent, each of its Strands agents one below it, with its state in notes. Messages
are Bedrock's. A redaction hides text and does not erase it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

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

from backstory import Agent, Error, Event, wire
from backstory.adapters.items import (
    Item,
    ItemReader,
    State,
    StateNotes,
    TurnItem,
    build_item,
    build_note,
    read_note,
    write_block,
)
from backstory.adapters.stores import (
    AdapterStore,
    At,
    DraftTuple,
    KeylessDraft,
    Where,
    append_to_head,
    build_jump,
    build_key,
    build_prefix,
    check_type,
)
from backstory.log.items import write_item
from backstory.wire.neutral import AnsweredCall, list_parts
from backstory.wire.turns import AnswerTurn, MessageTurn, Text

__all__ = ["BackstoryRepository"]

ADAPTER = "strands"
NOTE = f"{ADAPTER}.message"  # a message that Bedrock's format cannot express
SESSION = f"{ADAPTER}.session"
MULTI_AGENT = f"{ADAPTER}.multi_agent"
STATE = StateNotes(f"{ADAPTER}.state", f"{ADAPTER}.update")
# The fields of an agent's state that are objects: their values are compared one by one.
INTERNAL = "_internal_state"
WAITING = "interrupt_state"  # in the internal state
OBJECTS = ("state", "conversation_manager_state", INTERNAL)
LONGEST_TITLE = 80

Form = dict[str, Any]
T = TypeVar("T")


class BackstoryRepository(SessionRepository):
    """Sessions of Strands in a backstory store."""

    def __init__(self, where: Where) -> None:
        self._store = AdapterStore(where, ADAPTER)

    def agent(self, session_id: str, agent_id: str) -> Agent:
        """Return the agent with a Strands agent's messages. It is created if it does not exist."""
        session_key = self._store.build_key(session_id)
        return self._store.spawn(session_key, self._store.build_key(session_id, agent_id))

    def fork(self, session_id: str, agent_id: str, new_session_id: str, at: At = None) -> Agent:
        """Return the same Strands agent in a new session, which continues a position: one row, and
        that of the session. Raises SessionException if there is no such agent or if the new session
        exists, and KeyTaken."""
        session = self._check_session(session_id)
        self._check_is_new(new_session_id)
        new_key = self._store.build_key(new_session_id, agent_id)
        fork = self._call(session_id, agent_id, partial(self._store.fork, key=new_key, at=at))
        new = Session(session_id=new_session_id, session_type=session.session_type)
        self._write_session(new)
        return fork

    def delete_session(self, session_id: str) -> None:
        """Delete a session and its agents. Forks of them stay."""
        self._store.delete_tree(session_id)

    def close(self) -> None:
        """Release the store."""
        self._store.close()

    # --- the framework's interface: sessions and agents ---

    def create_session(self, session: Session, **kwargs: Any) -> Session:
        """Create a session. Raises SessionException if it exists."""
        check_type(session, Session, "a session")
        self._check_is_new(session.session_id)
        self._write_session(session)
        return session

    def read_session(self, session_id: str, **kwargs: Any) -> Session | None:
        """Return a session, or None if it does not exist."""
        form = self._read_note(session_id, SESSION)
        if form is not None:
            return Session.from_dict(form)
        agents = self._store.store.agents(prefix=build_prefix(ADAPTER, session_id))
        if any(agent.listed_head for agent in agents):  # another program began it
            return Session(session_id=session_id, session_type=SessionType.AGENT)
        return None

    def create_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Create an agent in a session."""
        check_type(session_agent, SessionAgent, "an agent")
        self._check_session(session_id)
        agent = self.agent(session_id, session_agent.agent_id)
        agent.extend([STATE.build_complete(_flatten(session_agent.to_dict()))])

    def read_agent(self, session_id: str, agent_id: str, **kwargs: Any) -> SessionAgent | None:
        """Return the state of an agent, or None if it does not exist."""
        form = self._read(session_id, agent_id, _read_state_form)
        return SessionAgent.from_dict(form | {"agent_id": agent_id}) if form else None

    def update_agent(self, session_id: str, session_agent: SessionAgent, **kwargs: Any) -> None:
        """Write what changed in the state of an agent."""
        check_type(session_agent, SessionAgent, "an agent")
        update = partial(_update_state, session_agent=session_agent)
        self._call(session_id, session_agent.agent_id, update)

    def create_multi_agent(self, session_id: str, multi_agent: Any, **kwargs: Any) -> None:
        """Write the state of several agents that work together."""
        _check_multi_agent(multi_agent)
        self._check_session(session_id)
        self.update_multi_agent(session_id, multi_agent)

    def read_multi_agent(self, session_id: str, multi_agent_id: str, **kwargs: Any) -> Form | None:
        """Return their state, or None if there is none."""
        form = self._read_note(session_id, build_key(MULTI_AGENT, multi_agent_id))
        return decode_bytes_values(form) if form else None

    def update_multi_agent(self, session_id: str, multi_agent: Any, **kwargs: Any) -> None:
        """Write their state again."""
        _check_multi_agent(multi_agent)
        name = build_key(MULTI_AGENT, multi_agent.id)
        self._write_note(session_id, name, multi_agent.serialize_state())

    # --- the framework's interface: messages ---

    def create_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Append a message."""
        check_type(session_message, SessionMessage, "a message")
        drafts = build_drafts(session_message)
        self._call(session_id, agent_id, lambda agent: agent.extend(drafts))
        title = _find_title(session_message.message_id, drafts)
        if title:
            key = self._store.build_key(session_id)
            self._store.write(key, lambda agent: agent.describe(title=title))

    def read_message(
        self, session_id: str, agent_id: str, message_id: int, **kwargs: Any
    ) -> SessionMessage | None:
        """Return a message of the context, or None if it does not exist."""
        for item in self._read(session_id, agent_id, _read_items) or ():
            if item.value["message_id"] == message_id:
                return SessionMessage.from_dict(item.value)
        return None

    def update_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **kwargs: Any
    ) -> None:
        """Replace a message. The messages after it are written again."""
        check_type(session_message, SessionMessage, "a message")
        replace = partial(_replace_message, message=session_message)
        self._call(session_id, agent_id, replace)

    def list_messages(
        self,
        session_id: str,
        agent_id: str,
        limit: int | None = None,
        offset: int = 0,
        **kwargs: Any,
    ) -> list[SessionMessage]:
        """Return the messages of the context, or a page of them."""
        items = self._call(session_id, agent_id, _read_items)
        end = None if limit is None else offset + limit
        return [SessionMessage.from_dict(item.value) for item in items[offset:end]]

    # --- reading ---

    def _check_is_new(self, session_id: str) -> None:
        if self.read_session(session_id) is not None:
            raise SessionException(f"Session {session_id} already exists")

    def _write_session(self, session: Session) -> None:
        self._write_note(session.session_id, SESSION, session.to_dict())

    def _write_note(self, session_id: str, name: str, value: Any) -> None:
        note = build_note(name, value)
        self._store.write(self._store.build_key(session_id), lambda agent: agent.extend([note]))

    def _check_session(self, session_id: str) -> Session:
        session = self.read_session(session_id)
        if session is None:
            raise SessionException(f"Session {session_id} does not exist")
        return session

    def _read(self, session_id: str, agent_id: str, call: Callable[[Agent], T]) -> T | None:
        """Return `call(agent)`, or None if the agent does not exist."""
        return self._store.read(self._store.build_key(session_id, agent_id), call, None)

    def _call(self, session_id: str, agent_id: str, call: Callable[[Agent], T | None]) -> T:
        """Return `call(agent)`. Raises SessionException if the agent does not exist: then `call`
        returns None, too."""
        found = self._read(session_id, agent_id, call)
        if found is None:
            raise _build_missing_agent_error(session_id, agent_id)
        return found

    def _read_note(self, session_id: str, name: str) -> Any:
        """Return the value of the newest note of a session with this name."""
        read = partial(_read_newest_note, name=name)
        return self._store.read(self._store.build_key(session_id), read, None)


def _read_newest_note(agent: Agent, name: str) -> Any:
    notes = agent.notes(name) or agent.notes(name, live=False)
    return read_note(notes[-1]) if notes else None


def _build_missing_agent_error(session_id: str, agent_id: str) -> SessionException:
    return SessionException(f"Agent {agent_id} in session {session_id} does not exist")


def _check_multi_agent(value: Any) -> None:
    """Raise TypeError for a value without a state. Strands imports these classes only on demand."""
    check_type(getattr(value, "id", None), str, "the id of several agents that work together")
    if not callable(getattr(value, "serialize_state", None)):
        raise TypeError(f"{type(value).__name__} has no serialize_state")


def _read_items(agent: Agent) -> list[Item]:
    """Return the messages of the context. Those of others get the number after the one before."""
    items: list[Item] = []
    for item in READER.read_context(agent):
        if "message_id" not in item.value:
            number = items[-1].value["message_id"] + 1 if items else 0
            item = item._replace(value=item.value | {"message_id": number})
        items.append(item)
    return items


def _read_state_form(agent: Agent) -> Form | None:
    """Return the state of an agent; None if there is no such agent. An agent that waited for an
    answer does not wait any more if another program continued the conversation."""
    form = _build_state_form(agent, STATE.read(agent))
    internal = form.get(INTERNAL, {}) if form else {}
    if (internal.get(WAITING) or {}).get("activated"):
        newest = READER.read_context(agent, 1)
        if newest and not newest[0].is_own:
            del internal[WAITING]
    return form


def _build_state_form(agent: Agent, state: State) -> Form | None:
    """Return a state as Strands has it. If another program began: as Strands' default begins."""
    if state.current:
        return _unflatten(state.current)
    if not agent.messages(limit=1):
        return None
    created = agent.created_at.isoformat()
    manager = SlidingWindowConversationManager().get_state()
    times = {"created_at": created, "updated_at": created}
    return {"state": {}, "conversation_manager_state": manager, **times}


# --- writing ---


def _update_state(agent: Agent, session_agent: SessionAgent) -> State | None:
    """Write what changed in an agent's state. Return what it was, or None if there is no such
    agent."""
    state = STATE.read(agent)
    before = _build_state_form(agent, state)
    if before is None:
        return None
    session_agent.created_at = before["created_at"]
    form = _flatten(session_agent.to_dict())
    draft = _build_change(state, form)
    if draft is not None:
        agent.extend([draft])
    return state


def _build_change(state: State, form: Form) -> DraftTuple | None:
    """Build the note for a new state, or None if only its time is new."""
    current = state.current
    changes: Form = {}
    for name, value in form.items():
        if name not in current or write_item(value) != write_item(current[name]):
            changes[name] = value
    is_smaller = bool(current.keys() - form.keys())
    if not is_smaller and changes.keys() <= {"updated_at"}:
        return None
    if is_smaller:
        return STATE.build_complete(form)
    return STATE.build(state, changes)


def _flatten(form: Form) -> Form:
    """Return the state of an agent with the values of its objects one by one."""
    flat: Form = {}
    for name, value in form.items():
        if name not in OBJECTS:
            flat[name] = value
            continue
        for key, inner in value.items():
            flat[f"{name}/{key}"] = inner
    return flat


def _unflatten(flat: Mapping[str, Any]) -> Form:
    """Return the state that `_flatten` was given."""
    form: Form = {name: {} for name in OBJECTS}
    for name, value in flat.items():
        field, slash, key = name.partition("/")
        if slash:
            form[field][key] = value
        else:
            form[name] = value
    return form


def _replace_message(agent: Agent, message: SessionMessage) -> list[Event]:
    """Jump to before a message, and write its new version and the messages after it."""
    return append_to_head(agent, partial(_build_replacement, agent, message))


def _build_replacement(agent: Agent, message: SessionMessage) -> list[DraftTuple]:
    items = _read_items(agent)
    ids = [item.value["message_id"] for item in items]
    if message.message_id not in ids:
        raise SessionException(f"Message {message.message_id} does not exist")
    old, *later = items[ids.index(message.message_id) :]
    message.created_at = old.value["created_at"]
    batch = [build_jump(ADAPTER, old.first - 1), *build_drafts(message)]
    for item in later:
        batch += build_drafts(SessionMessage.from_dict(item.value))
    state = STATE.read(agent).current
    if state:  # it may have been noted after the message
        batch.append(STATE.build_complete(state))
    return batch


def _find_title(message_id: int, drafts: Sequence[DraftTuple]) -> str:
    """Return the beginning of the text of a session's first message; "" for other messages."""
    kind, content = drafts[0][:2]
    if message_id != 0 or kind != "user" or not content:
        return ""
    return " ".join(content.split())[:LONGEST_TITLE].strip()


# --- messages in and out ---


def build_drafts(message: SessionMessage) -> list[DraftTuple]:
    """Build the events of a message; of a redacted one, those of the new text."""
    form = message.to_dict()
    try:
        # Models are not given what else a message has: tracking_id and metadata.
        whole = message.to_message()
        sent = {"role": whole["role"], "content": whole["content"]}
        events: list[KeylessDraft] = list(wire.load({"messages": [sent]}, "bedrock"))
    except (Error, KeyError, ValueError):
        events = []
    return build_item(ADAPTER, form, events or [("note", NOTE, None)])


class StrandsMessageWriter:
    """Writes messages of others as Strands'."""

    def write_message(self, turn: MessageTurn, event: Event) -> Iterator[TurnItem]:
        """Write a user message. System text is not part of a session."""
        if turn.role == "user":
            blocks = [write_block("bedrock", part) for part in list_parts(turn)]
            yield TurnItem(_build_form("user", blocks, event), event.seq)

    def write_answer(self, turn: AnswerTurn, event: Event) -> Iterator[TurnItem]:
        """Write an answer: its texts and its calls."""
        blocks = [write_block("bedrock", Text(text)) for text in turn.texts]
        for call in turn.calls:
            use = {"toolUseId": call.id, "name": call.name, "input": call.arguments}
            blocks.append({"toolUse": use})
        yield TurnItem(_build_form("assistant", blocks, event), event.seq)

    def write_results(self, calls: Sequence[AnsweredCall], event: Event) -> Iterator[TurnItem]:
        """Write the results of calls as one message."""
        blocks = []
        for call, result in calls:
            content = [write_block("bedrock", part, in_result=True) for part in list_parts(result)]
            status = "error" if result.is_error else "success"
            use = {"toolUseId": call.id, "status": status, "content": content}
            blocks.append({"toolResult": use})
        yield TurnItem(_build_form("user", blocks, event), event.seq)


READER = ItemReader(ADAPTER, [NOTE], StrandsMessageWriter())


def _build_form(role: str, blocks: list[Form], event: Event) -> Form:
    time = event.created_at.isoformat()
    message = {"role": role, "content": encode_bytes_values(blocks)}
    return {"message": message, "created_at": time, "updated_at": time}
