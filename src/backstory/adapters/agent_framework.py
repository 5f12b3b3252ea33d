"""Microsoft Agent Framework: `Agent(client, context_providers=[BackstoryHistory("history.db")])`.

A session is an agent, a message its events. The exact form of a message is what the framework's own
`to_dict` gives.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from agent_framework import HistoryProvider, Message

from backstory import Agent, Event
from backstory.adapters.items import (
    ItemReader,
    TurnItem,
    build_item,
    build_media,
    build_message,
    describe_media,
)
from backstory.adapters.stores import (
    AdapterStore,
    At,
    DraftTuple,
    KeylessDraft,
    Where,
    append_to_head,
    check_type,
    copy_in_slices,
    make_key,
)
from backstory.aio import in_thread
from backstory.log.items import read_json, write_item
from backstory.wire.media import data_url
from backstory.wire.neutral import AnsweredCall, list_parts
from backstory.wire.turns import AnswerTurn, Media, MessageTurn, Part, Text, text_of

__all__ = ["BackstoryHistory"]

ADAPTER = "agent_framework"
NOTE = f"{ADAPTER}.message"  # a message without text, calls and results
DEFAULT = "default"  # the session without a name, as in the framework's file provider

Form = dict[str, Any]  # a message, or a content of it, as `to_dict` gives it


class BackstoryHistory(HistoryProvider):
    """A history provider in a backstory store.

    `skip_excluded` leaves out messages that a compaction has marked. `repair=False` leaves calls of
    other programs open that have no result. `key` opens the agent with this key for every session,
    whichever program began it. The other options are those of the framework's base class.
    """

    def __init__(
        self,
        where: Where,
        *,
        source_id: str = "backstory",
        skip_excluded: bool = False,
        repair: bool = True,
        key: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(source_id, **options)
        self.skip_excluded = skip_excluded
        self._key = key
        self._reader = ItemReader(ADAPTER, [NOTE], FrameworkMessageWriter(), repair)
        self._store = AdapterStore(where, ADAPTER)

    def agent(self, session_id: str | None = None) -> Agent:
        """Return the agent of a session. It is created if it does not exist."""
        return self._store.ensure(self._build_key(session_id))

    def fork(self, session_id: str | None, new_id: str, at: At = None) -> Agent:
        """Return the agent of a new session that continues a position of another one: one row,
        nothing is copied. Raises AgentNotFound and KeyTaken."""
        source = self._store.store.agent(key=self._build_key(session_id))
        return self._store.fork(source, self._store.build_key(new_id), at)

    def close(self) -> None:
        """Release the store."""
        self._store.close()

    # --- the framework's interface ---

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Return the messages in the context of a session."""
        nothing: list[Message] = []
        key = self._build_key(session_id)
        return await in_thread(partial(self._store.read, key, self._read_messages, nothing))

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Append messages. Of a transcript that is given again, only what is new is appended."""
        self._store.check_open()
        if messages:
            texts = await copy_in_slices(_dump_message, messages)
            write = partial(self._append_messages, texts=texts)
            key = self._build_key(session_id)
            await in_thread(partial(self._store.write, key, write))

    # --- reading ---

    def _build_key(self, session_id: str | None) -> str:
        return self._key or self._store.build_key(session_id or DEFAULT)

    def _read_messages(self, agent: Agent) -> list[Message]:
        messages = [Message.from_dict(item.value) for item in self._reader.read_context(agent)]
        if not self.skip_excluded:
            return messages
        return [message for message in messages if not _is_excluded(message)]

    # --- writing ---

    def _append_messages(self, agent: Agent, texts: Sequence[str]) -> None:
        forms = [read_json(text) for text in texts]
        append_to_head(agent, partial(self._build_new, agent, forms))

    def _build_new(self, agent: Agent, forms: list[Form]) -> list[DraftTuple]:
        newest = self._reader.read_context(agent, len(forms) + 1)
        count = _count_stored([item.value for item in newest], forms)
        drafts: list[DraftTuple] = []
        for form in forms[count:]:
            drafts += build_drafts(form)
        if drafts:  # another process may ask the same after the same head: both questions count
            drafts[0] = (*drafts[0][:3], make_key(ADAPTER))
        return drafts


def _is_excluded(message: Message) -> bool:
    return bool(message.additional_properties.get("_excluded"))


def _dump_message(message: Message) -> str:
    """Return the JSON of a message."""
    check_type(message, Message, "a message")
    return write_item(message.to_dict())


def _count_stored(stored: list[Form], forms: list[Form]) -> int:
    """Return how many of the messages are stored already, by the framework's rule: all up to the
    complete history, which may have others before it, or as many as the newest stored ones. A
    question without an id may be repeated. `stored` has one message more than `forms` if there are
    that many."""
    known = [_identify(form) for form in stored]
    given = [_identify(form) for form in forms]
    if len(known) > 1:
        for end in range(len(known), len(given) + 1):
            if given[end - len(known) : end] == known:
                return end
    for count in range(min(len(known), len(given)), 0, -1):
        if known[-count:] == given[:count]:
            return 0 if count == 1 and _is_question(forms[0]) else count
    return 0


def _identify(form: Form) -> tuple[Any, ...]:
    """Return the values that two forms of one message share: its id, otherwise its role and
    contents. Other properties may change."""
    if form.get("message_id") is None:
        return form.get("role"), form.get("contents")
    return (form["message_id"],)


def _is_question(form: Form) -> bool:
    return form.get("role") == "user" and not form.get("message_id")


# --- messages in and out ---


def build_drafts(form: Form) -> list[DraftTuple]:
    """Build the events of a message."""
    events = _build_events(form.get("role"), form.get("contents") or [])
    return build_item(ADAPTER, form, events or [("note", NOTE, None)])


def _build_events(role: Any, contents: Sequence[Form]) -> list[KeylessDraft]:
    parts = list(_read_parts(contents))
    events: list[KeylessDraft] = []
    for content in contents:
        if content.get("type") == "function_call":
            events.append(_build_call(content))
        elif content.get("type") == "function_result":
            events.append(_build_result(content))
    if role == "assistant":
        text = "".join(part.text for part in parts if isinstance(part, Text))
        if text or not events:
            events.insert(0, ("assistant", text, None))
    elif parts and role in ("user", "system"):
        events.insert(0, build_message(role, parts))
    return events


def _read_parts(contents: Iterable[Any]) -> Iterator[Part]:
    """Yield the text and files in contents."""
    for content in contents:
        match content:
            case {"type": "text", "text": str(text)} if text:
                yield Text(text)
            case {"type": "data" | "uri", "uri": str(uri)}:
                yield build_media(uri, content.get("media_type"), content.get("name"))


def _build_call(part: Form) -> KeylessDraft:
    arguments = part.get("arguments")
    data = {"id": part.get("call_id"), "name": part.get("name")}
    return ("tool_call", None, data | {"arguments": {} if arguments is None else arguments})


def _build_result(part: Form) -> KeylessDraft:
    data: Form = {"id": part.get("call_id")}
    if part.get("exception"):
        data["error"] = True
    parts = list(_read_parts(part.get("items") or ()))
    if any(isinstance(each, Media) for each in parts):
        return build_message("tool_result", parts, data)
    result = part.get("result")
    if not result and part.get("exception"):
        result = part["exception"]
    text = result if isinstance(result, str) else write_item(result)
    return ("tool_result", "" if result is None else text, data)


class FrameworkMessageWriter:
    """Writes messages of others as the framework's."""

    def write_message(self, turn: MessageTurn, event: Event) -> Iterator[TurnItem]:
        """Write a system or user message."""
        contents = [_write_part(part) for part in list_parts(turn)]
        yield TurnItem(_build_form(turn.role, contents), event.seq)

    def write_answer(self, turn: AnswerTurn, event: Event) -> Iterator[TurnItem]:
        """Write an answer: its texts and its calls."""
        contents = [_write_part(Text(text)) for text in turn.texts]
        for call in turn.calls:
            names = {"call_id": call.id, "name": call.name}
            arguments = call.text or call.arguments
            contents.append({"type": "function_call", **names, "arguments": arguments})
        yield TurnItem(_build_form("assistant", contents), event.seq)

    def write_results(self, calls: Sequence[AnsweredCall], event: Event) -> Iterator[TurnItem]:
        """Write the results of calls as one message."""
        contents = []
        for call, result in calls:
            parts = list_parts(result)
            content: Form = {"type": "function_result", "call_id": call.id}
            content["result"] = text_of(parts)
            if any(isinstance(part, Media) for part in parts):
                content["items"] = [_write_part(part) for part in parts]
            if result.is_error:
                content["exception"] = result.text
            contents.append(content)
        yield TurnItem(_build_form("tool", contents), event.seq)


def _write_part(part: Part) -> Form:
    if not isinstance(part, Media):
        return {"type": "text", "text": text_of([part])}
    type_ = part.type or f"{part.kind}/*"
    if part.data is not None:
        return {"type": "data", "uri": data_url(part), "media_type": type_}
    if part.url is not None:
        return {"type": "uri", "uri": part.url, "media_type": type_}
    return {"type": "text", "text": describe_media(part)}


def _build_form(role: str, contents: list[Form]) -> Form:
    return {"type": "message", "role": role, "contents": contents, "additional_properties": {}}
