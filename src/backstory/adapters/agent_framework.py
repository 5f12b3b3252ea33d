"""Microsoft Agent Framework: `Agent(client, context_providers=[BackstoryHistory("history.db")])`.

A session is an agent, a message its events. A message carries what the framework's own `to_dict` gives.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from agent_framework import HistoryProvider, Message

from backstory import Agent, Conflict, Error, Event, wire
from backstory.adapters.arguments import check
from backstory.adapters.items import Carried, Draft, carried, newest_items, note, plain
from backstory.adapters.keys import agent_key
from backstory.adapters.stores import History, Where
from backstory.adapters.turns import answered, files
from backstory.aio import in_thread

__all__ = ["BackstoryHistory"]

ADAPTER = "agent_framework"
DEFAULT = "default"  # the session where none is named, as in the framework's file provider

Form = dict[str, Any]


class BackstoryHistory(HistoryProvider):
    """A history provider in a backstory store. The other options are those of the framework's base class;
    `skip_excluded` leaves out messages that a compaction has marked; `key` opens the agent with this key,
    whoever began it, for every session."""

    def __init__(
        self,
        where: Where,
        *,
        source_id: str = "backstory",
        skip_excluded: bool = False,
        key: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(source_id, **options)
        self.skip_excluded = skip_excluded
        self._key = key
        self._history = History(where)

    def close(self) -> None:
        """Let go of the store."""
        self._history.close()

    def agent(self, session_id: str | None = None) -> Agent:
        """The agent that holds a session, made if it is not there."""
        return self._history.ensured(self._key_of(session_id), session_id or DEFAULT)

    def fork(self, session_id: str | None, new_id: str, at: Any = None) -> Agent:
        """A new session that goes on from a position of another one: one row. Raises AgentNotFound and
        KeyTaken."""
        source = self._history.store.agent(key=self._key_of(session_id))
        return self._history.forked(source, agent_key(ADAPTER, new_id), new_id, at)

    def _key_of(self, session_id: str | None) -> str:
        return self._key or agent_key(ADAPTER, session_id or DEFAULT)

    # --- the framework's interface ---

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """The messages in the context of a session."""
        nothing: list[Carried] = []
        read: Callable[[Agent], list[Carried]] = lambda agent: _newest(agent, None)  # noqa: E731
        found = await in_thread(
            partial(self._history.read, self._key_of(session_id), read, nothing)
        )
        messages = [Message.from_dict(each.item) for each in found]
        if self.skip_excluded:
            return [each for each in messages if not each.additional_properties.get("_excluded")]
        return messages

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Write messages behind the others. Of a transcript that is handed in again, only what is new."""
        self._history.store  # noqa: B018  a closed store refuses even an empty list
        if messages:
            for message in messages:
                check(message, Message, "a message")
            forms = [plain(message.to_dict()) for message in messages]
            write: Callable[[Agent], None] = partial(_save, forms=forms)
            id = session_id or DEFAULT
            await in_thread(partial(self._history.write, self._key_of(session_id), id, write))


def _save(agent: Agent, *, forms: list[Form]) -> None:
    while True:
        head = agent.head
        before = [each.item for each in _newest(agent, len(forms) + 1)]
        batch = [event for form in forms[_overlap(before, forms) :] for event in drafts(form)]
        try:
            agent.extend(batch, expected=head) if batch else None
            return
        except Conflict:  # someone else wrote in between: look again
            continue


def _overlap(before: list[Form], forms: list[Form]) -> int:
    """How many of the messages are there already, by the framework's rule: all up to the whole history, which
    may have others before it, or as many as the newest that are there. A question without an id may be
    repeated. `before` is one message longer than the others if there are that many."""
    known, given = [_identity(form) for form in before], [_identity(form) for form in forms]
    for end in range(len(known), len(given) + 1) if len(known) > 1 else ():
        if given[end - len(known) : end] == known:
            return end
    for count in range(min(len(known), len(given)), 0, -1):
        if known[-count:] == given[:count]:
            is_question = (
                count == 1 and forms[0].get("role") == "user" and not forms[0].get("message_id")
            )
            return 0 if is_question else count
    return 0


def _identity(form: Form) -> tuple[Any, ...]:
    """What makes two messages the same: the id, else who said what. Other properties may change."""
    id = form.get("message_id")
    return (form.get("role"), form.get("contents")) if id is None else (id,)


def _newest(agent: Agent, limit: int | None) -> list[Carried]:
    return newest_items(ADAPTER, agent, message_of, limit, join=joined)


# --- messages and events ---


def drafts(form: Form) -> list[Event]:
    """The events of a message."""
    contents = [part for part in form.get("contents", ()) if isinstance(part, dict)]
    events = _events(str(form.get("role")), contents)
    return (
        carried(ADAPTER, form, events)
        if events
        else [note(ADAPTER, "agent_framework.message", form)]
    )


def _events(role: str, contents: list[Form]) -> list[Draft]:
    text = "".join(part.get("text") or "" for part in _of("text", contents))
    calls: list[Draft] = [
        ("tool_call", None, _call(part)) for part in _of("function_call", contents)
    ]
    results: list[Draft] = [_result(part) for part in _of("function_result", contents)]
    match role:
        case "assistant" if text or not (calls or results):
            return [("assistant", text, None), *calls, *results]
        case "user" if text or any(part.get("uri") for part in contents):
            return [_said(text, contents), *results]
        case "system" if text:
            return [("system", text, None)]
    return [*calls, *results]


def _of(type: str, contents: list[Form]) -> list[Form]:
    return [part for part in contents if part.get("type") == type]


def _call(part: Form) -> Form:
    given = part.get("arguments")
    named = {"id": part.get("call_id") or "unknown", "name": part.get("name") or "unknown"}
    return named | {"arguments": {} if given is None else given}


def _result(part: Form) -> Draft:
    found = part.get("result")
    failed = {"error": True} if part.get("exception") else {}
    text = (
        found
        if isinstance(found, str)
        else str(part.get("exception") or ("" if found is None else found))
    )
    return ("tool_result", text, {"id": part.get("call_id") or "unknown"} | failed)


def _said(text: str, contents: list[Form]) -> Draft:
    """What a person said. Images are kept in a form that every provider's format can be made of."""
    blocks = [block for part in contents if (block := _block(part)) is not None]
    if any(block["type"] != "text" for block in blocks):
        try:
            [event] = wire.load({"messages": [{"role": "user", "content": blocks}]}, "openai")
            return event
        except (Error, ValueError):
            pass
    return ("user", text, None)


def _block(part: Form) -> Form | None:
    match part:
        case {"type": "text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "uri" | "data", "uri": str(uri), "media_type": str(kind)} if kind.startswith(
            "image/"
        ):
            return {"type": "image_url", "image_url": {"url": uri}}
    return None


def message_of(event: Event) -> Form | None:
    """A message that something else wrote, as the framework's."""
    data = event.data or {}
    match event.kind:
        case "assistant" if not event.content:
            return None
        case "user":
            return _form("user", *map(_content, files(event) or [(None, event.content or "")]))
        case "system" | "assistant":
            return _form(event.kind, _content((None, event.content or "")))
        case "tool_call":
            call = {
                "call_id": data.get("id"),
                "name": data.get("name"),
                "arguments": data.get("arguments"),
            }
            return _form("assistant", {"type": "function_call", **call})
    told = answered(event)
    failed = {"exception": told} if data.get("error") else {}
    result = {"call_id": data.get("id"), "result": told, **failed}
    return _form("tool", {"type": "function_result", **result})


def joined(one: Form, other: Form) -> Form:
    """Two messages of one turn as one."""
    return one | {"contents": [*one["contents"], *other["contents"]]}


def _content(piece: tuple[str | None, str]) -> Form:
    type, text = piece
    if type is None:
        return {"type": "text", "text": text}
    return {"type": "data" if text.startswith("data:") else "uri", "uri": text, "media_type": type}


def _form(role: str, *contents: Form) -> Form:
    return {
        "type": "message",
        "role": role,
        "contents": list(contents),
        "additional_properties": {},
    }
