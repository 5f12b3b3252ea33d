"""Google's ADK: `Runner(…, session_service=BackstorySessionService("history.db"))`.

A session is an agent; the state of an app and of a user are agents of their own. A rewind of ADK's is a jump
in the log. ADK itself leaves out what was rewound, so `get_session` gives it all events, unless
`effective=True`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any
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
from google.adk.sessions.state import State
from pydantic_core import to_jsonable_python

from backstory import Agent, AgentNotFound, Conflict, Event, KeyTaken, replay
from backstory.adapters.adk_events import (
    ADAPTER,
    REWIND,
    Form,
    Translation,
    drafts,
    event_key,
    joined,
    rewound,
)
from backstory.adapters.adk_models import adk_events
from backstory.adapters.arguments import check
from backstory.adapters.items import (
    Batch,
    Carried,
    Draft,
    all_items,
    kept,
    kept_in,
    newest_items,
    read_items,
)
from backstory.adapters.keys import agent_key, key_prefix, whole_path
from backstory.adapters.stores import History, Where, ids_of
from backstory.aio import in_thread

__all__ = ["BackstorySessionService"]

SESSION, STATE, UPDATE = "adk.session", "adk.state", "adk.update"
SCOPES = {"app": State.APP_PREFIX, "user": State.USER_PREFIX}

Change = tuple[Agent, Batch, int]  # what is written behind which head of an agent
USER_STATE = f"{ADAPTER}_user"  # how the keys of the users' state begin
MISSING = -1  # no head
STALE = "the session was written to by someone else: get it again"


class BackstorySessionService(BaseSessionService):
    """Sessions of ADK in a backstory store. `uri` is for ADK's service registry: `backstory://PATH`."""

    def __init__(
        self, where: Where | None = None, *, uri: str | None = None, effective: bool = False
    ) -> None:
        place = where if uri is None else uri.partition("://")[2]
        if place is None:
            raise TypeError("pass a path, a URL or an open store")
        self._history = History(place)
        self._effective = effective

    def close(self) -> None:
        """Let go of the store."""
        self._history.close()

    def agent(self, app_name: str, user_id: str, session_id: str) -> Agent:
        """The agent that holds a session, made if it is not there."""
        ids = (app_name, user_id, _trimmed(session_id))
        return self._history.told(
            self._history.ensured(agent_key(ADAPTER, *ids), session_id), whole_path(ADAPTER, *ids)
        )

    def fork(
        self, app_name: str, user_id: str, session_id: str, new_session_id: str, at: Any = None
    ) -> Agent:
        """A new session that goes on from a position of another one: one row."""
        source = self._history.found(agent_key(ADAPTER, app_name, user_id, _trimmed(session_id)))
        if source is None:
            raise SessionNotFoundError(f"Session {session_id} not found.")
        ids = (app_name, user_id, _trimmed(new_session_id))
        try:
            new = self._history.forked(source, agent_key(ADAPTER, *ids), ids[-1], at)
        except KeyTaken:
            raise AlreadyExistsError(f"Session with id {ids[-1]} already exists.") from None
        return self._history.told(new, whole_path(ADAPTER, *ids))

    async def fork_session(
        self, *, app_name: str, user_id: str, session_id: str, new_session_id: str, at: Any = None
    ) -> Session:
        """`fork`, to be awaited, which gives back the session."""
        await in_thread(partial(self.fork, app_name, user_id, session_id, new_session_id, at))
        found = await self.get_session(
            app_name=app_name, user_id=user_id, session_id=new_session_id
        )
        assert found is not None
        return found

    # --- the framework's interface ---

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """A new session; AlreadyExistsError if there is one with this id."""
        id = _trimmed("" if session_id is None else session_id) or str(uuid4())
        check({} if state is None else state, dict, "the state of a session")
        deltas = _deltas(state or {})

        def create() -> None:
            agent = self.agent(app_name, user_id, id)
            # The key makes it this creation and no other: two of the same are not one that was repeated.
            began: Draft = (
                "note",
                SESSION,
                kept("state", deltas["session"]),
                f"{SESSION}:{uuid4()}",
            )
            try:
                self._write_all(agent, [began], 0, (app_name, user_id), deltas)
            except Conflict:  # only the first event of an agent makes it a session
                raise AlreadyExistsError(f"Session with id {id} already exists.") from None

        await in_thread(create)
        found = await self.get_session(app_name=app_name, user_id=user_id, session_id=id)
        assert found is not None
        return found

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """A session with its events, or with the newest of them; None if it is not there."""
        ids = (app_name, user_id, _trimmed(session_id))
        if config is not None:
            check(config, GetSessionConfig, "the config of a read")
        read: Callable[[Agent], Session | None] = partial(self._session, ids, config=config)
        return await in_thread(partial(self._history.read, agent_key(ADAPTER, *ids), read, None))

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """The sessions of a user or of all, those written to last at the end, without their events."""
        found = await in_thread(partial(self._listed, app_name, user_id))
        found.sort(key=lambda each: (each.last_update_time, each.user_id, each.id))
        return ListSessionsResponse(sessions=found)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Erase a session. Forks of it stay, and so does the state of the app and the user."""

        def delete() -> None:
            agent = self._history.found(agent_key(ADAPTER, app_name, user_id, _trimmed(session_id)))
            try:
                self._history.store.delete(agent.id) if agent else None
            except AgentNotFound:  # someone else was quicker
                return

        await in_thread(delete)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """The state that all sessions of a user share."""
        return await in_thread(partial(self._scope, "user", app_name, user_id))

    async def append_event(self, session: Session, event: AdkEvent) -> AdkEvent:
        """Write an event behind what the session object has seen; StaleSessionError if there is more."""
        check(session, Session, "a session")
        check(event, AdkEvent, "an event")
        if event.partial:
            return event
        self._apply_temp_state(session, event)
        event = self._trim_temp_delta_state(event)
        head = await in_thread(partial(self._append, session, event))
        if head is None:
            return event  # it was there already
        session.last_update_time = event.timestamp
        session._storage_update_marker = str(head)
        return self._commit_event_to_session(session, event)

    # --- reading ---

    def _session(
        self, ids: tuple[str, str, str], agent: Agent, *, config: GetSessionConfig | None
    ) -> Session | None:
        app, user, id = ids
        head = agent.head
        if not head:  # its first event was not written yet, or never
            return None
        forms = self._forms(agent, app, config)
        last = forms[-1]["timestamp"] if forms else self._last_time(agent, app)
        session = Session(
            app_name=app,
            user_id=user,
            id=id,
            state=self._state(agent) | self._shared(app, user),
            events=adk_events(forms),
            last_update_time=last,
        )
        session._storage_update_marker = str(head)
        return session

    def _last_time(self, agent: Agent, app: str) -> float:
        """The timestamp of the last event, or when the session was created."""
        for last in newest_items(ADAPTER, agent, Translation(app), 1, join=joined):
            return float(last.item["timestamp"])
        return agent.created_at.timestamp()

    def _listed(self, app: str, user: str | None) -> list[Session]:
        """Sessions without their events: a few queries for all of them."""
        store = self._history.store
        prefix = key_prefix(ADAPTER, app) if user is None else key_prefix(ADAPTER, app, user)
        sessions, states, updates = (
            {agent.id: note for agent, note in store.last_notes(name, prefix=prefix)}
            for name in (SESSION, STATE, UPDATE)
        )
        shared = self._all_shared(app, user)
        found = []
        for agent in store.agents(prefix=prefix):
            if not agent.listed_head:
                continue
            _, its_user, id = ids_of(agent)
            session = sessions.get(agent.id)
            state = _kept_state(states.get(agent.id) or session)
            last = updates.get(agent.id) or session
            if last is not None and last.created_at == agent.updated_at:
                time = (last.data or {}).get("time", agent.created_at.timestamp())
            else:  # someone else has written since, or moved
                time = self._last_time(agent, app)
            state |= shared["app"] | shared.get(agent_key(USER_STATE, app, its_user), {})
            found.append(
                Session(app_name=app, user_id=its_user, id=id, state=state, last_update_time=time)
            )
            found[-1]._storage_update_marker = str(agent.listed_head)
        return found

    def _all_shared(self, app: str, user: str | None) -> dict[str, dict[str, Any]]:
        """The state of the app as "app", and those of its users by the keys of their agents."""
        prefix = key_prefix(USER_STATE, app) if user is None else agent_key(USER_STATE, app, user)
        users = self._history.store.last_notes(STATE, prefix=prefix)
        found = {agent.key or "": _shown("user", _kept_state(note)) for agent, note in users}
        return found | {"app": _shown("app", self._scope("app", app))}

    def _forms(self, agent: Agent, app: str, config: GetSessionConfig | None) -> list[Form]:
        recent = config.num_recent_events if config else None
        found = self._recent(agent, app, recent)
        after = config.after_timestamp if config else None
        if after is None:
            return found
        late = next(
            (n for n, form in enumerate(reversed(found)) if form["timestamp"] < after), len(found)
        )
        return found[len(found) - late :]

    def _recent(self, agent: Agent, app: str, limit: int | None) -> list[Form]:
        if limit is None and self._is_effective(agent):
            return all_items(ADAPTER, agent, Translation(app), join=joined)
        return [each.item for each in self._items(agent, app, limit)]

    def _is_effective(self, agent: Agent) -> bool:
        """Whether ADK is to see the context itself: it asked for that, or has rewound nothing."""
        return self._effective or not agent.notes(REWIND, live=False)

    def _items(self, agent: Agent, app: str, limit: int | None) -> list[Carried]:
        """The events for ADK, which leaves out by itself what it has rewound."""
        if self._is_effective(agent):
            return newest_items(ADAPTER, agent, Translation(app), limit, join=joined)
        events = [_as_note(event) if _is_adks_jump(event) else event for event in agent.events()]
        shown = replay(events, agent=agent.name).messages
        found = list(read_items(ADAPTER, shown, Translation(app), joined))
        return found if limit is None else found[-limit:] if limit else []

    def _state(self, agent: Agent) -> dict[str, Any]:
        notes = agent.last_notes([STATE, SESSION])
        return _kept_state(notes.get(STATE) or notes.get(SESSION))

    def _scope(self, scope: str, *ids: str) -> dict[str, Any]:
        return self._history.read(agent_key(f"{ADAPTER}_{scope}", *ids), self._state, {})

    def _shared(self, app: str, user: str) -> dict[str, Any]:
        """The state of the app and of the user, as a session shows them."""
        return _shown("app", self._scope("app", app)) | _shown(
            "user", self._scope("user", app, user)
        )

    # --- writing ---

    def _append(self, session: Session, event: AdkEvent) -> int | None:
        """Write an event, and return the head behind it; None if it is there already."""
        key = agent_key(ADAPTER, session.app_name, session.user_id, session.id)
        write: Callable[[Agent], int | None] = partial(self._write, session=session, event=event)
        missing: int | None = MISSING
        head = self._history.read(key, write, missing)
        if head == MISSING:
            raise SessionNotFoundError(f"Session {session.id} not found.")
        return head

    def _write(self, agent: Agent, *, session: Session, event: AdkEvent) -> int | None:
        form = event.model_dump(mode="json", exclude_none=True)
        if agent.find(event_key(event.id)) is not None:
            return None
        expected = self._expected(agent, session)
        deltas = _deltas(event.actions.state_delta or {})
        batch: Batch = [*self._move(agent, session.app_name, form), *drafts(form, _content(event))]
        if deltas["session"]:
            batch.append(("note", STATE, kept("state", self._state(agent) | deltas["session"])))
        batch.append(("note", UPDATE, {"time": event.timestamp}))
        try:
            return self._write_all(
                agent, batch, expected, (session.app_name, session.user_id), deltas
            )
        except Conflict:
            raise StaleSessionError(STALE) from None

    def _expected(self, agent: Agent, session: Session) -> int:
        """The position that a session object has seen; one without a marker is judged by its last event."""
        if session._storage_update_marker is not None:
            return _beside(agent, int(session._storage_update_marker))
        head = agent.head
        last = self._items(agent, session.app_name, 1)
        if [each.item["id"] for each in last] != [event.id for event in session.events[-1:]]:
            raise StaleSessionError(STALE)
        return head

    def _move(self, agent: Agent, app: str, form: Form) -> list[Draft]:
        """The jump that a rewind of ADK's is: to before the first event of an invocation."""
        invocation = rewound(form)
        found = (
            newest_items(ADAPTER, agent, Translation(app), None, join=joined) if invocation else ()
        )
        for each in found:
            if each.item.get("invocation_id") == invocation:
                return [("jump", None, {"target_message_id": each.event.seq - 1, "by": ADAPTER})]
        return []

    def _write_all(
        self,
        agent: Agent,
        batch: Batch,
        expected: int,
        ids: tuple[str, str],
        deltas: dict[str, dict[str, Any]],
    ) -> int:
        """Write to a session, and change the state of its app and its user, all or nothing. Returns the head;
        raises Conflict if the session's was not the expected one."""
        scopes = {"app": ids[:1], "user": ids}
        while True:
            changes = [
                self._change(scope, scopes[scope], deltas[scope])
                for scope in scopes
                if deltas[scope]
            ]
            try:
                return self._history.store.write([(agent, batch, expected), *changes])[0][-1].seq
            except Conflict:
                if agent.head != expected:
                    raise
                continue  # someone else changed the state of the app or the user: look again

    def _change(self, scope: str, ids: tuple[str, ...], delta: dict[str, Any]) -> Change:
        """What changes the state of an app or a user, behind what is there."""
        agent = self._history.ensured(agent_key(f"{ADAPTER}_{scope}", *ids), ids[-1])
        head = agent.head
        return agent, [("note", STATE, kept("state", self._state(agent) | delta))], head


def _trimmed(session_id: str) -> str:
    """The id of a session without blanks around it, as ADK has it."""
    check(session_id, str, "the id of a session")
    return session_id.strip()


def _beside(agent: Agent, seen: int) -> int:
    """The position behind what was written beside a session object, if it has seen all that it would show:
    a mark or someone's note does not make it stale."""
    since = agent.events(after=seen)
    is_beside = all(event.kind == "mark" or _is_foreign_note(event) for event in since)
    return since[-1].seq if since and is_beside else seen


def _is_foreign_note(event: Event) -> bool:
    return event.kind == "note" and not (event.content or "").startswith(f"{ADAPTER}.")


def _deltas(state: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """State by whose it is: the app's, the user's, the session's. What is temporary is nobody's."""
    deltas: dict[str, dict[str, Any]] = {"app": {}, "user": {}, "session": {}}
    for key, value in state.items():
        if key.startswith(State.TEMP_PREFIX):
            continue
        scope = next(
            (scope for scope, prefix in SCOPES.items() if key.startswith(prefix)), "session"
        )
        name = key.removeprefix(SCOPES.get(scope, ""))
        deltas[scope][name] = to_jsonable_python(value, fallback=str)
    return deltas


def _kept_state(note: Event | None) -> dict[str, Any]:
    return dict(kept_in(note.data, "state")) if note else {}


def _shown(scope: str, state: dict[str, Any]) -> dict[str, Any]:
    """Shared state as a session shows it."""
    return {f"{SCOPES[scope]}{key}": value for key, value in state.items()}


def _content(event: AdkEvent) -> Form | None:
    """What an event says, as Gemini's API has it."""
    if event.content is None:
        return None
    return event.content.model_dump(mode="json", exclude_none=True, by_alias=True)  # type: ignore[no-any-return]


def _is_adks_jump(event: Event) -> bool:
    return event.kind == "jump" and (event.data or {}).get("by") == ADAPTER


def _as_note(event: Event) -> Event:
    return Event.of(event.seq, "note", "adk.move")
