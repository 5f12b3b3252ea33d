"""Google's ADK: `Runner(…, session_service=BackstorySessionService("history.db"))`.

A session is an agent; the state of an app and of a user are agents of their own. A rewind by ADK is
a jump in the log. ADK itself leaves out what it rewound, so `get_session` returns all events,
unless `effective=True`.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final
from uuid import uuid4

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event as AdkEvent
from google.adk.sessions.base_session_service import (
    BaseSessionService,
    GetSessionConfig,
    ListSessionsResponse,
)
from google.adk.sessions.session import Session
from google.adk.sessions.state import State as AdkState
from pydantic_core import to_jsonable_python

from backstory import Agent, Conflict, Error, Event, KeyTaken, RepeatedEvent, wire
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
    KnownHeads,
    Where,
    build_jump,
    build_key,
    build_prefix,
    check_type,
    read_ids,
    undo_own_moves,
)
from backstory.aio import in_thread
from backstory.wire.neutral import AnsweredCall, list_parts
from backstory.wire.turns import BETWEEN, AnswerTurn, MessageTurn, Text

__all__ = ["BackstorySessionService"]

ADAPTER = "adk"
FORMAT: Final = "gemini"
NOTE = f"{ADAPTER}.event"  # an event without content
REWIND = f"{ADAPTER}.rewind"
TIME = f"{ADAPTER}.time"  # the timestamp of the newest event, for listings
STATE = StateNotes(f"{ADAPTER}.state", f"{ADAPTER}.update")
SCOPES = {"app": AdkState.APP_PREFIX, "user": AdkState.USER_PREFIX}
USER_STATE = f"{ADAPTER}_user"  # how the keys of the users' states begin
MARKER = "_storage_update_marker"  # the attribute of a session in which ADK's services keep it
UNKNOWN_AUTHOR = ""  # of a translated answer, until the author in its session is known
STALE = "the session was written to by someone else: get it again"

Form = dict[str, Any]  # an event, or a part of it, as ADK serializes it
Ids = tuple[str, str, str]  # of an app, a user and a session


class BackstorySessionService(BaseSessionService):
    """Sessions of ADK in a backstory store.

    `agent_name` is the name of the agent that runs: ADK takes answers of other authors as quotes.
    Answers of other programs have it as their author; without it, the last author in the session,
    or, if only others wrote to it, the app. `repair=False` leaves calls of other programs open that
    have no result. `uri` is for ADK's service registry: `backstory://PATH`.
    """

    def __init__(
        self,
        where: Where | None = None,
        *,
        uri: str | None = None,
        effective: bool = False,
        agent_name: str | None = None,
        repair: bool = True,
    ) -> None:
        place = where if uri is None else uri.partition("://")[2]
        if place is None:
            raise TypeError("pass a path, a URL or an open store")
        self._store = AdapterStore(place, ADAPTER)
        self._effective = effective
        self._agent_name = agent_name
        self._reader = ItemReader(ADAPTER, [NOTE, REWIND], AdkEventWriter(), repair)
        self._known: KnownHeads[tuple[int, State]] = KnownHeads()  # of sessions, apps and users

    def agent(self, app_name: str, user_id: str, session_id: str) -> Agent:
        """Return the agent of a session. It is created if it does not exist."""
        return self._store.ensure(self._store.build_key(app_name, user_id, _trim(session_id)))

    def fork(
        self, app_name: str, user_id: str, session_id: str, new_session_id: str, at: At = None
    ) -> Agent:
        """Return the agent of a new session that continues a position of another one: one row,
        nothing is copied."""
        key = self._store.build_key(app_name, user_id, _trim(session_id))
        ids = (app_name, user_id, _trim(new_session_id))
        new_key = self._store.build_key(*ids)
        try:
            fork = self._store.read(key, partial(self._store.fork, key=new_key, at=at), None)
        except KeyTaken:
            raise _build_taken_error(ids) from None
        if fork is None:
            raise SessionNotFoundError(f"Session {session_id} not found.")
        return fork

    async def fork_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        new_session_id: str,
        at: At = None,
    ) -> Session:
        """Fork a session and return the new one."""
        await in_thread(partial(self.fork, app_name, user_id, session_id, new_session_id, at))
        found = await self.get_session(
            app_name=app_name, user_id=user_id, session_id=new_session_id
        )
        assert found is not None
        return found

    def close(self) -> None:
        """Release the store."""
        self._store.close()

    # --- the framework's interface ---

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Create a session. Raises AlreadyExistsError if there is one with this id."""
        id = _trim("" if session_id is None else session_id) or str(uuid4())
        if state is not None:
            check_type(state, dict, "the state of a session")
        changes = split_state(state or {})
        return await in_thread(partial(self._create, (app_name, user_id, id), changes))

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Return a session with its events, or with the newest of them; None if it does not
        exist."""
        ids = (app_name, user_id, _trim(session_id))
        if config is not None:
            check_type(config, GetSessionConfig, "the config of a read")

        def read(agent: Agent) -> Session | None:
            return self._read_session(agent, ids, config)

        key = self._store.build_key(*ids)
        return await in_thread(partial(self._store.read, key, read, None))

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """Return the sessions of a user or of all users, without their events. Those written to
        last come last."""
        sessions = await in_thread(partial(self._list_sessions, app_name, user_id))
        sessions.sort(key=lambda session: (session.last_update_time, session.user_id, session.id))
        return ListSessionsResponse(sessions=sessions)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session. Forks of it stay, and so does the state of the app and the user."""
        ids = (app_name, user_id, _trim(session_id))
        await in_thread(partial(self._store.delete_tree, *ids))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state that all sessions of a user share."""
        return await in_thread(partial(self._read_scope, "user", app_name, user_id))

    async def append_event(self, session: Session, event: AdkEvent) -> AdkEvent:
        """Append an event after what `session` has seen. Raises StaleSessionError if there is
        more."""
        check_type(session, Session, "a session")
        check_type(event, AdkEvent, "an event")
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        ids = (session.app_name, session.user_id, session.id)
        write = partial(self._append, session=session, event=event)
        key = self._store.build_key(*ids)
        head = await in_thread(partial(self._store.read, key, write, None))
        if head is None:
            raise SessionNotFoundError(f"Session {session.id} not found.")
        if head == 0:
            return event  # it was appended before
        session.last_update_time = event.timestamp
        setattr(session, MARKER, str(head))
        return self._commit_event_to_session(session, event)

    # --- reading ---

    def _read_session(
        self, agent: Agent, ids: Ids, config: GetSessionConfig | None
    ) -> Session | None:
        head, state = self._read_known(agent)
        if head == 0:  # its first event was not written yet, or never
            return None
        limit = config.num_recent_events if config else None
        forms = [item.value for item in self._read_events(agent, ids[0], limit)]
        if config is not None and config.after_timestamp is not None:
            forms = [form for form in forms if form["timestamp"] >= config.after_timestamp]
        time = forms[-1]["timestamp"] if forms else self._read_time(agent)
        shown = state.current | self._read_shared(ids)
        return _build_session(ids, head, shown, time, forms)

    def _read_events(self, agent: Agent, app: str, limit: int | None = None) -> list[Item]:
        """Return the events for ADK, which leaves out by itself what it rewound."""
        items = self._reader.read_context(agent, limit)
        if not self._effective and any(_read_rewind(item.value) for item in items):
            items = self._read_rewound_items(agent, limit)
        answers = [item for item in items if _lacks_author(item)]
        if answers:
            author = self._choose_author(agent, items) or app
            for item in answers:
                item.value["author"] = author
        return items

    def _choose_author(self, agent: Agent, items: Sequence[Item]) -> str | None:
        """Return the author of answers of others."""
        if self._agent_name:
            return self._agent_name
        return _find_author(items) or _find_author(self._reader.read_context(agent))

    def _read_rewound_items(self, agent: Agent, limit: int | None) -> list[Item]:
        """Return the context as it would be without the jumps of ADK."""
        events = undo_own_moves(ADAPTER, agent, agent.events())
        items = self._reader.read_events(events)
        return items if limit is None else items[max(len(items) - limit, 0) :]

    def _read_time(self, agent: Agent) -> float:
        """Return the timestamp of the last event, or the time when the session was created."""
        for item in self._reader.read_context(agent, 1):
            return float(item.value["timestamp"])
        return agent.created_at.timestamp()

    def _read_scope(self, scope: str, *ids: str) -> dict[str, Any]:
        """Return the state of an app or a user."""
        key = build_key(f"{ADAPTER}_{scope}", *ids)
        nothing: dict[str, Any] = {}
        return self._store.read(key, lambda agent: self._read_known(agent)[1].current, nothing)

    def _read_known(self, agent: Agent, head: int | None = None) -> tuple[int, State]:
        """Return a head of the agent of a session, an app or a user, and the newest state. None:
        the head is read. After an older head, the state is never written: a write expects it."""
        with self._known.hold(agent) as known:
            if head is None:
                head = agent.head
            if known.value is None or known.value[0] != head:
                known.value = (head, STATE.read(agent))
            return known.value

    def _read_shared(self, ids: Ids) -> dict[str, Any]:
        """Return the state of an app and a user as a session shows it."""
        app, user, _ = ids
        app_state = _add_prefix("app", self._read_scope("app", app))
        return app_state | _add_prefix("user", self._read_scope("user", app, user))

    def _list_sessions(self, app: str, user: str | None) -> list[Session]:
        """Return sessions without their events: a few queries for all of them."""
        ids = (app,) if user is None else (app, user)
        prefix = build_prefix(ADAPTER, *ids)
        users = build_prefix(USER_STATE, app) if user is None else build_key(USER_STATE, app, user)
        app_state = _add_prefix("app", self._read_scope("app", app))
        user_states = self._list_states(users)
        states = self._list_states(prefix)
        times = dict(self._store.store.last_notes(TIME, prefix))
        sessions: list[Session] = []
        for agent in self._store.store.agents(prefix=prefix):
            if not agent.listed_head:
                continue
            agent_ids = read_ids(agent)
            if len(agent_ids) != 3:  # another program made this key: it is not one of a session
                continue
            _, its_user, id = agent_ids
            user_state = user_states.get(build_key(USER_STATE, app, its_user), {})
            state = states.get(agent.key, {}) | app_state | _add_prefix("user", user_state)
            time = self._find_time(agent, times.get(agent))
            sessions.append(_build_session((app, its_user, id), agent.listed_head, state, time))
        return sessions

    def _list_states(self, prefix: str) -> dict[str | None, dict[str, Any]]:
        """Return the states of agents by their keys."""
        states = dict(self._store.store.last_notes(STATE.state, prefix))
        updates = dict(self._store.store.last_notes(STATE.update, prefix))
        found: dict[str | None, dict[str, Any]] = {}
        for agent, note in states.items():
            found[agent.key] = STATE.join(note, updates.get(agent)).current
        return found

    def _find_time(self, agent: Agent, note: Event | None) -> float:
        """Return the time of a session. Its note of the time does not count if another program
        wrote since."""
        if note is not None and note.created_at == agent.updated_at:
            return float(read_note(note))
        if agent.listed_head == 1 and agent.created_at == agent.updated_at:
            return agent.created_at.timestamp()  # it has only its first state
        return self._read_time(agent)

    # --- writing ---

    def _create(self, ids: Ids, changes: Mapping[str, dict[str, Any]]) -> Session:
        key = self._store.build_key(*ids)
        # The key tells this creation from another one with the same state.
        first = _add_keys([STATE.build_complete(changes["session"])], str(uuid4()))
        agent = None
        if not changes["app"] and not changes["user"]:
            agent = self._store.start(key, first)
        if agent is None:
            begin = partial(self._begin, first=first, ids=ids, changes=changes)
            agent = self._store.write(key, begin)
        state = changes["session"] | self._read_shared(ids)
        return _build_session(ids, 1, state, agent.created_at.timestamp())

    def _begin(
        self,
        agent: Agent,
        first: list[DraftTuple],
        ids: Ids,
        changes: Mapping[str, dict[str, Any]],
    ) -> Agent:
        """Write the first event of an agent, which makes it a session, and return the agent."""
        try:
            self._write(agent, first, 0, ids, changes)
        except Conflict:
            raise _build_taken_error(ids) from None
        return agent

    def _append(self, agent: Agent, session: Session, event: AdkEvent) -> int:
        """Append an event and return the new head; 0 if the event was appended before."""
        ids = (session.app_name, session.user_id, session.id)
        expected = self._read_seen_head(agent, session)
        changes = split_state(event.actions.state_delta or {})
        batch = self._build_batch(agent, event, expected, changes["session"])
        while True:
            try:
                events = self._write(agent, batch, expected, ids, changes)
            except KeyTaken:
                return 0
            except Conflict:
                if agent.find(_build_event_key(event.id, 0)) is not None:
                    return 0
                expected = _skip_invisible(agent, expected)
                continue
            return 0 if isinstance(events[0], RepeatedEvent) else events[-1].seq

    def _build_batch(
        self, agent: Agent, event: AdkEvent, head: int, changes: Mapping[str, Any]
    ) -> list[DraftTuple]:
        form = event.model_dump(mode="json", by_alias=True, exclude_none=True)
        jump = self._build_jump(agent, form)
        batch = [*jump, *build_drafts(form)]
        if changes:
            _, state = self._read_known(agent, head)
            if jump:  # the notes with the state may be rewound
                batch.append(STATE.build_complete(state.current | dict(changes)))
            else:
                batch.append(STATE.build(state, changes))
        batch.append(build_note(TIME, event.timestamp))
        return _add_keys(batch, event.id)

    def _build_jump(self, agent: Agent, form: Form) -> list[DraftTuple]:
        """Build the jump of a rewind: to before the first event of the invocation."""
        invocation = _read_rewind(form)
        if invocation is None:
            return []
        for item in self._reader.read_context(agent):
            if item.value.get("invocationId") == invocation:
                return [build_jump(ADAPTER, item.first - 1)]
        return []

    def _read_seen_head(self, agent: Agent, session: Session) -> int:
        """Return the head that a session object has seen. One without a marker is judged by its
        last event."""
        marker = getattr(session, MARKER)
        if marker is not None:
            return int(marker)
        head = agent.head
        stored = [item.value["id"] for item in self._reader.read_context(agent, 1)]
        if stored != [event.id for event in session.events[-1:]]:
            raise StaleSessionError(STALE)
        return head

    def _write(
        self,
        agent: Agent,
        batch: list[DraftTuple],
        expected: int,
        ids: Ids,
        changes: Mapping[str, dict[str, Any]],
    ) -> list[Event]:
        """Append to a session, and change the state of its app and its user, all or nothing. Raises
        Conflict if `expected` is not the session's head."""
        if not changes["app"] and not changes["user"]:
            return agent.extend(batch, expected=expected)
        while True:
            batches: list[tuple[Agent, list[DraftTuple], int]] = [(agent, batch, expected)]
            for scope, owner_ids in (("app", ids[:1]), ("user", ids[:2])):
                if changes[scope]:
                    owner = self._store.ensure(build_key(f"{ADAPTER}_{scope}", *owner_ids))
                    head, state = self._read_known(owner)
                    batches.append((owner, [STATE.build(state, changes[scope])], head))
            try:
                return self._store.store.write(batches)[0]
            except Conflict:
                if agent.head != expected:
                    raise
                # somebody else changed the state of the app or the user


def _trim(session_id: str) -> str:
    """Return the id of a session without blanks around it, as ADK has it."""
    check_type(session_id, str, "the id of a session")
    return session_id.strip()


def _build_taken_error(ids: Ids) -> AlreadyExistsError:
    return AlreadyExistsError(f"Session with id {ids[2]} already exists.")


def _build_session(
    ids: Ids, head: int, state: Mapping[str, Any], time: float, forms: Sequence[Form] = ()
) -> Session:
    app, user, id = ids
    events = [AdkEvent.model_validate(form) for form in forms]
    session = Session(
        app_name=app, user_id=user, id=id, state=state, events=events, last_update_time=time
    )
    setattr(session, MARKER, str(head))
    return session


def _lacks_author(item: Item) -> bool:
    return not item.is_own and item.value["author"] == UNKNOWN_AUTHOR


def _find_author(items: Sequence[Item]) -> str | None:
    """Return the last author of an answer that ADK wrote."""
    for item in reversed(items):
        if item.is_own and item.value["author"] != "user":
            return str(item.value["author"])
    return None


def _read_rewind(form: Form) -> str | None:
    """Return the invocation that an event rewinds, with everything after it."""
    return (form.get("actions") or {}).get("rewindBeforeInvocationId")


def _skip_invisible(agent: Agent, seen: int) -> int:
    """Return the head if only marks and notes of others come after `seen`, which `get_session` does
    not show. Raises StaleSessionError."""
    since = agent.events(after=seen)
    for event in since:
        is_own_note = (event.content or "").startswith(f"{ADAPTER}.")
        if event.kind != "mark" and (event.kind != "note" or is_own_note):
            raise StaleSessionError(STALE)
    if not since:
        raise StaleSessionError(STALE)
    return since[-1].seq


def split_state(state: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Split a state into that of the app, of the user and of the session. Temporary values are
    left out."""
    found: dict[str, dict[str, Any]] = {"app": {}, "user": {}, "session": {}}
    for key, value in state.items():
        if key.startswith(AdkState.TEMP_PREFIX):
            continue
        scope, name = "session", key
        for prefixed, prefix in SCOPES.items():
            if key.startswith(prefix):
                scope, name = prefixed, key.removeprefix(prefix)
        found[scope][name] = to_jsonable_python(value, fallback=str)
    return found


def _add_prefix(scope: str, state: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{SCOPES[scope]}{key}": value for key, value in state.items()}


def _add_keys(batch: Sequence[DraftTuple], id: str) -> list[DraftTuple]:
    """Return the batch with a key for each event: an event that is delivered again writes
    nothing."""
    keyed: list[DraftTuple] = []
    for number, draft in enumerate(batch):
        keyed.append((*draft[:3], _build_event_key(id, number)))
    return keyed


def _build_event_key(id: str, number: int) -> str:
    return build_key(ADAPTER, id, str(number))


# --- messages in and out ---


def build_drafts(form: Form) -> list[DraftTuple]:
    """Build the events of an ADK event."""
    events = _load_content(form)
    if not events:
        name = NOTE if _read_rewind(form) is None else REWIND
        events = [("note", name, None)]
    return build_item(ADAPTER, form, events)


def _load_content(form: Form) -> list[KeylessDraft]:
    """Return the events that the wire reads from the content of an event."""
    content = form.get("content") or {}
    if not content.get("parts"):
        return []
    try:
        if content.get("role") != "model":
            return list(wire.load({"contents": [content | {"role": "user"}]}, FORMAT))
        response = {
            "candidates": [{"content": content}],
            "modelVersion": form.get("modelVersion"),
            "usageMetadata": form.get("usageMetadata"),
        }
        return list(wire.load_answer(response, FORMAT))
    except (Error, ValueError):  # Gemini would not accept it
        return []


class AdkEventWriter:
    """Writes messages of others as ADK's. The author of answers is filled in afterwards."""

    def write_message(self, turn: MessageTurn, event: Event) -> Iterator[TurnItem]:
        """Write a user message. ADK's agents have system text of their own."""
        if turn.role == "user":
            parts = [write_block(FORMAT, part) for part in list_parts(turn)]
            yield TurnItem(_build_form(event, "user", "user", parts), event.seq)

    def write_answer(self, turn: AnswerTurn, event: Event) -> Iterator[TurnItem]:
        """Write an answer: its texts and its calls."""
        parts = [write_block(FORMAT, Text(text)) for text in turn.texts]
        for call in turn.calls:
            written = {"id": call.id, "name": call.name, "args": call.arguments}
            parts.append({"functionCall": written})
        yield TurnItem(_build_form(event, UNKNOWN_AUTHOR, "model", parts), event.seq)

    def write_results(self, calls: Sequence[AnsweredCall], event: Event) -> Iterator[TurnItem]:
        """Write the results of calls as one event. Its author is that of the calls."""
        parts = [_write_result(answered) for answered in calls]
        form = _build_form(event, UNKNOWN_AUTHOR, "user", parts)
        yield TurnItem(form | {"id": f"{form['id']}-results"}, event.seq)


def _write_result(answered: AnsweredCall) -> Form:
    call, result = answered
    blocks = [write_block(FORMAT, part, in_result=True) for part in list_parts(result)]
    texts = [block["text"] for block in blocks if "text" in block]
    files = [block for block in blocks if "text" not in block]
    name = "error" if result.is_error else "result"
    response: Form = {"id": call.id, "name": call.name, "response": {name: BETWEEN.join(texts)}}
    if files:
        response["parts"] = files
    return {"functionResponse": response}


def _build_form(event: Event, author: str, role: str, parts: list[Form]) -> Form:
    return {
        "id": f"backstory-{event.seq}",
        "invocationId": "backstory",
        "author": author,
        "timestamp": event.created_us / 1_000_000,
        "content": {"role": role, "parts": parts},
    }
