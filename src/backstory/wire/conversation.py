"""The messages that a model is given, and their requests.

A conversation is a value. It keeps its events and parses their data again for each use, so that
nobody can change what others see.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Unpack, overload

from backstory.errors import InvalidEvent
from backstory.log.erasure import ERASED_TEXT, build_stand_in, is_erased
from backstory.log.events import LAST_POSITION, Event
from backstory.log.kinds import KINDS, MESSAGE_KINDS
from backstory.log.messages import Message, to_message
from backstory.log.settings import SETTINGS, Settings, read_settings
from backstory.wire.context import RequestOptions
from backstory.wire.formats import get_format
from backstory.wire.formats.base import FormatName
from backstory.wire.holes import HOLE, fill_data
from backstory.wire.json_values import encode_body
from backstory.wire.request import BuiltRequest, Dump, build_request, create_context
from backstory.wire.turns import Repair

if TYPE_CHECKING:
    from backstory.wire.tokens import Tokens

logger = logging.getLogger("backstory")


NO_SETTINGS = Settings()


class Conversation(Sequence[Message]):
    """An immutable sequence of messages."""

    __slots__ = ("_erased", "_sources", "settings")

    def __init__(
        self,
        messages: Iterable[Event | Message] = (),
        settings: Settings = NO_SETTINGS,
        erased: Iterable[Repair] = (),
    ) -> None:
        """Take events or messages that are sent to a model; `conversation_of` leaves out the
        others. `settings`: the model, tools and parameters of requests. `erased`: repairs for what
        was erased."""
        self._sources = tuple(messages)
        self._erased = tuple(erased)
        self.settings = settings

    def __len__(self) -> int:
        return len(self._sources)

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> "Conversation": ...
    def __getitem__(self, index: int | slice) -> "Message | Conversation":
        """Return a message, or a conversation of some of them."""
        if isinstance(index, slice):
            erased = self._list_erased(range(len(self))[index])
            return Conversation(self._sources[index], self.settings, erased)
        return _message(self._sources[index])

    def _list_erased(self, indexes: range) -> Iterable[Repair]:
        """Return the repairs for erased events between the first and the last of some messages.
        Those at the ends of the conversation belong to its first and its last message."""
        if len(indexes) == len(self):
            return self._erased
        if not indexes:
            return ()
        first, last = min(indexes), max(indexes)
        low, high = 0, LAST_POSITION
        if first > 0:
            low = self._sources[first].seq or 0
        if last < len(self) - 1:
            high = self._sources[last].seq or LAST_POSITION
        return [repair for repair in self._erased if low <= (repair.at or 0) <= high]

    def __iter__(self) -> Iterator[Message]:
        return map(_message, self._sources)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Conversation):
            return NotImplemented
        return list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<Conversation of {len(self)} messages>"

    def with_settings(self, settings: Settings) -> "Conversation":
        """Return the same messages with other settings."""
        return Conversation(self._sources, settings, self._erased)

    def dump(self, format: FormatName, **options: Unpack[RequestOptions]) -> Dump:
        """Return the messages of a request in a provider's format, and the repairs that they
        needed. `dump_request` and `repairs` have those of the settings, too.

        Formats: openai, openai-responses, anthropic, gemini, bedrock. Options: see
        `RequestOptions`. `model` is that of the settings, unless another one is given.
        """
        built = self._build(format, None, options)
        return Dump(get_format(format).convert_for_sdk(built.body), built.repairs)

    def to(self, format: FormatName, **options: Unpack[RequestOptions]) -> dict[str, Any]:
        """Return the body of a request, ready for the provider's SDK."""
        return self.dump(format, **options).body

    def request(self, format: FormatName, **options: Unpack[RequestOptions]) -> dict[str, Any]:
        """Return the whole request, with the model, tools and parameters of the settings. `model`
        replaces that of the settings. Gemini takes the model from the address, not from the
        body."""
        return self.dump_request(format, **options).body

    def dump_request(self, format: FormatName, **options: Unpack[RequestOptions]) -> Dump:
        """Return the whole request, and the repairs that it needed."""
        built = self._build(format, self.settings, options)
        return Dump(get_format(format).convert_for_sdk(built.body), built.repairs)

    def to_bytes(self, format: FormatName, **options: Unpack[RequestOptions]) -> bytes:
        """Return the body of a request as JSON."""
        return encode_body(self._build(format, None, options).body)

    def _build(
        self, format: FormatName, settings: Settings | None, options: RequestOptions
    ) -> BuiltRequest:
        """Build a request and log its repairs."""
        options["model"] = options.get("model") or self.settings.model
        request = create_context(format, options)
        for repair in self._erased:
            request.report(*repair)
        built = build_request(self._sources, request, settings)
        for repair in built.repairs:
            logger.info("repair %s at %s: %s", repair.rule, repair.at, repair.why)
        return built

    def repairs(self, format: FormatName, **options: Unpack[RequestOptions]) -> list[Repair]:
        """Return where a whole request, that of `request`, differs from the log and its settings:
        which rule, at which event, and why."""
        return self.dump_request(format, **options).repairs

    def origins(self, format: FormatName, **options: Unpack[RequestOptions]) -> list[list[int]]:
        """Return the positions of the events of each message in the body that `to` returns for the
        same options."""
        return self._build(format, None, options).list_origins()

    def tokens(self, model: str | None = None) -> "Tokens":
        """Return the number of tokens that a model reads, including tools, and whether it is exact.
        The model is that of the settings, unless another one is given."""
        from backstory.wire.tokens import count_tokens

        return count_tokens(self._sources, model or self.settings.model, tools=self.settings.tools)


def conversation_of(events: Iterable[Event]) -> Conversation:
    """Return the conversation in the events of a context. Erased calls and results say so; other
    erased events are left out. Marks and moves are skipped, and so are unknown kinds, with a log
    message."""
    sources: list[Event | Message] = []
    notes: list[dict[str, Any] | None] = []
    repairs: list[Repair] = []
    for event in events:
        kind, data_json = event.kind, event.data_json
        if data_json is not None and is_erased(data_json):
            _add_stand_in(event, sources, repairs)
        elif kind in MESSAGE_KINDS:
            sources.append(event)
        elif kind not in KINDS:
            logger.warning("position %s: unknown kind %r; the event is skipped", event.seq, kind)
        elif kind == "note" and event.content == SETTINGS:
            notes.append(event.data)
    return Conversation(sources, read_settings(notes), repairs)


def _add_stand_in(event: Event, sources: list[Event | Message], repairs: list[Repair]) -> None:
    """Add the message that a model receives in place of an erased one, if there is one."""
    if event.kind not in MESSAGE_KINDS:
        return
    stand_in = build_stand_in(event)
    what = "it is left out"
    if stand_in is not None:
        sources.append(stand_in)
        what = f"it says {ERASED_TEXT}"
    repairs.append(Repair("erased", event.seq, f"the {event.kind} event was erased: {what}"))


def list_readable(events: Iterable[Event]) -> list[Event | Message]:
    """Return the messages that a model receives for `events`, with stand-ins for erased ones."""
    messages: list[Event | Message] = []
    for event in events:
        if is_erased(event.data_json):
            _add_stand_in(event, messages, [])
        elif event.kind in MESSAGE_KINDS:
            messages.append(event)
    return messages


def _message(source: Event | Message) -> Message:
    if isinstance(source, Event) and HOLE in (source.data_json or "") and source.data:
        filled = fill_data(source.data, source.content)
        source = Message(source.kind, source.content, filled, seq=source.seq)
    message = to_message(source)
    if message is None:
        raise InvalidEvent(f"event {source.seq} ({source.kind}) is not given to a model")
    return message
