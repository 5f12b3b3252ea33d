"""What a model is given: the canonical messages of a context, and their way to the wire.

A conversation is a value. It keeps its events and parses their data again for each use, so that nobody can
change what others see.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Unpack, overload

from backstory.errors import InvalidEvent
from backstory.log.erasure import ERASED_TEXT, build_stand_in, is_erased
from backstory.log.events import Event
from backstory.log.kinds import KINDS, MESSAGE_KINDS
from backstory.log.messages import Message, to_message
from backstory.log.settings import SETTINGS, Settings, read_settings
from backstory.wire import Dump, Repair
from backstory.wire.formats import get_format
from backstory.wire.holes import HOLE, with_filled
from backstory.wire.json_values import encode_body
from backstory.wire.request import BuiltRequest, RequestBuilder, RequestOptions

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
        """From events or messages that are sent to a model; `conversation_of` leaves out the others.
        `settings`: the model, tools and parameters of requests. `erased`: repairs for what was erased."""
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
        """A message, or a conversation of some of them."""
        if isinstance(index, slice):
            erased = self._list_erased(range(len(self))[index])
            return Conversation(self._sources[index], self.settings, erased)
        return _message(self._sources[index])

    def _list_erased(self, indexes: range) -> Iterable[Repair]:
        """Return the repairs for erased events between the first and the last of some messages. Those at the
        ends of the conversation belong to its first and its last message."""
        if len(indexes) == len(self):
            return self._erased
        if not indexes:
            return ()
        first, last = min(indexes), max(indexes)
        begin = self._sources[first].seq if first > 0 else None
        end = self._sources[last].seq if last < len(self) - 1 else None
        found: list[Repair] = []
        for repair in self._erased:
            position = repair.at or 0
            is_before = begin is not None and position < begin
            is_after = end is not None and position > end
            if not is_before and not is_after:
                found.append(repair)
        return found

    def __iter__(self) -> Iterator[Message]:
        return map(_message, self._sources)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Conversation):
            return NotImplemented
        return len(self) == len(other) and all(map(Message.__eq__, self, other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"<Conversation of {len(self)} messages>"

    def with_settings(self, settings: Settings) -> "Conversation":
        """The same messages with other settings."""
        return Conversation(self._sources, settings, self._erased)

    def dump(self, format: str, **options: Unpack[RequestOptions]) -> Dump:
        """Return the body of a request in a provider's format, and the repairs that it needed.

        Formats: openai, openai-responses, anthropic, gemini, bedrock. Options: see `RequestOptions`.
        `model` is that of the settings, unless another one is given.
        """
        built = self._build(format, None, options)
        return Dump(get_format(format).convert_for_sdk(built.body), built.repairs)

    def to(self, format: str, **options: Unpack[RequestOptions]) -> dict[str, Any]:
        """Return the body of a request, ready for the provider's SDK."""
        return self.dump(format, **options).body

    def request(self, format: str, **options: Unpack[RequestOptions]) -> dict[str, Any]:
        """Return the whole request, with the model, tools and parameters of the settings. `model` replaces
        that of the settings. Gemini takes the model from the address, not from the body."""
        return self.dump_request(format, **options).body

    def dump_request(self, format: str, **options: Unpack[RequestOptions]) -> Dump:
        """Return the whole request, and the repairs that it needed."""
        built = self._build(format, self.settings, options)
        return Dump(get_format(format).convert_for_sdk(built.body), built.repairs)

    def to_bytes(self, format: str, **options: Unpack[RequestOptions]) -> bytes:
        """Return the body of a request as JSON."""
        return encode_body(self._build(format, None, options).body)

    def _build(
        self, format: str, settings: Settings | None, options: RequestOptions
    ) -> BuiltRequest:
        """Build a request and log its repairs."""
        options["model"] = options.get("model") or self.settings.model
        request = RequestBuilder(format, **options)
        for repair in self._erased:
            request.report(*repair)
        built = request.build(self._sources, settings)
        for repair in built.repairs:
            logger.info("repair %s at %s: %s", repair.rule, repair.at, repair.why)
        return built

    def repairs(self, format: str, **options: Unpack[RequestOptions]) -> list[Repair]:
        """Return where a request differs from the log and its settings: which rule, at which event, and
        why."""
        return self.dump_request(format, **options).repairs

    def origins(self, format: str, *, model: str | None = None) -> list[list[int]]:
        """Return the positions of the events of each message in the body."""
        return self._build(format, None, {"model": model}).origins

    def tokens(self, model: str | None = None) -> "Tokens":
        """How many tokens a model reads, including tools: a number that knows whether it is exact. The model
        is that of the settings, unless another one is given."""
        from backstory.wire.tokens import count_tokens

        return count_tokens(self._sources, model or self.settings.model, tools=self.settings.tools)


def conversation_of(events: Iterable[Event]) -> Conversation:
    """The conversation in the events of a context. Marks and moves are skipped, and so are unknown kinds,
    with a log message."""
    events = list(events)
    if any(is_erased(event.data_json) for event in events):
        return _without_erased(events)
    sources: list[Event] = []
    notes: list[dict[str, Any] | None] = []
    for event in events:
        if event.kind in MESSAGE_KINDS:
            sources.append(event)
        elif event.kind not in KINDS:
            logger.warning(
                "position %s: unknown kind %r; the event is skipped", event.seq, event.kind
            )
        elif event.kind == "note" and event.content == SETTINGS:
            notes.append(event.data)
    return Conversation(sources, read_settings(notes))


def _without_erased(events: list[Event]) -> Conversation:
    """The conversation with erased events: calls and results say so, and everything else is left out."""
    plain = conversation_of([event for event in events if not is_erased(event.data_json)])
    sources: list[Event | Message] = []
    repairs = []
    for event in events:
        if event.kind not in MESSAGE_KINDS:
            continue
        said: Event | Message | None = (
            build_stand_in(event) if is_erased(event.data_json) else event
        )
        if said is not event:
            what = "it is left out" if said is None else f"it says {ERASED_TEXT}"
            repairs.append(
                Repair("erased", event.seq, f"the {event.kind} event was erased: {what}")
            )
        if said is not None:
            sources.append(said)
    return Conversation(sources, plain.settings, repairs)


def _message(source: Event | Message) -> Message:
    if isinstance(source, Event) and HOLE in (source.data_json or "") and source.data:
        filled = with_filled(source.data, source.content)
        source = Message(source.kind, source.content, filled, seq=source.seq)
    message = to_message(source)
    if message is None:
        raise InvalidEvent(f"event {source.seq} ({source.kind}) is not given to a model")
    return message
