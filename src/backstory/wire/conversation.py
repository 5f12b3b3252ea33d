"""What a model is given: the canonical messages of a context, and their way to the wire.

A conversation is a value. It keeps its events and parses their data again for each use, so that nobody can
change what others see.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from backstory.errors import InvalidEvent
from backstory.log.erasure import ERASED_TEXT, build_stand_in, is_erased
from backstory.log.events import Event
from backstory.log.kinds import KINDS, MESSAGE_KINDS
from backstory.log.messages import Message, to_message
from backstory.log.settings import SETTINGS, Settings, read_settings
from backstory.wire import Dump, Repair, dump, origins, to_bytes
from backstory.wire.cache import marked_tools
from backstory.wire.columns import Columns, columns_of, has_erased
from backstory.wire.holes import HOLE, with_filled
from backstory.wire.rows import Gathered

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
        self._sources = messages if isinstance(messages, Gathered) else tuple(messages)
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
            return Conversation(self._sources[index], self.settings, self._erased)
        return _message(self._sources[index])

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
        return Conversation(self._sources, settings)

    def dump(self, format: str, **options: Any) -> Dump:
        """The request's body in a provider's format, and the repairs that it needed.

        Formats: openai, openai-responses, anthropic, gemini, bedrock. Options: see `wire.dump`.
        """
        body, repairs = dump(self._sources, format, **options)
        return Dump(body, [*self._erased, *repairs])

    def to(self, format: str, **options: Any) -> dict[str, Any]:
        """The request's body, ready for the provider's SDK."""
        return self.dump(format, **options).body

    def request(self, format: str, *, model: str | None = None, **options: Any) -> dict[str, Any]:
        """The whole request, with the model, tools and parameters of the settings. `model` replaces that of
        the settings. Gemini takes the model from the address, not from the body."""
        return self.dump_request(format, model=model, **options).body

    def dump_request(self, format: str, *, model: str | None = None, **options: Any) -> Dump:
        """The whole request, and the repairs that it needed."""
        from backstory.wire.request import request_body

        model = model or self.settings.model
        body, repairs = self.dump(format, model=model, **options)
        whole, more = request_body(body, self.settings, format, model)
        if options.get("cache") is not None:
            whole = marked_tools(whole, format, model)
        return Dump(whole, [*repairs, *more])

    def to_bytes(self, format: str, **options: Any) -> bytes:
        """The request's body as JSON."""
        return to_bytes(self._sources, format, **options)

    def repairs(self, format: str, **options: Any) -> list[Repair]:
        """Where the body differs from the log: which rule, at which event, and why."""
        return self.dump(format, **options).repairs

    def origins(self, format: str, *, model: str | None = None) -> list[list[int]]:
        """For each message of the body, the positions of its events."""
        return origins(self._sources, format, model=model or self.settings.model)

    def tokens(self, model: str | None = None) -> "Tokens":
        """How many tokens a model reads, including tools: a number that knows whether it is exact. The model
        is that of the settings, unless another one is given."""
        from backstory.wire.tokens import count_tokens

        return count_tokens(self._sources, model or self.settings.model, tools=self.settings.tools)


def conversation_of(events: Iterable[Event]) -> Conversation:
    """The conversation in the events of a context. Marks and moves are skipped, and so are unknown kinds,
    with a log message."""
    events = events if isinstance(events, list) else list(events)
    return conversation_in(columns_of(events))


def conversation_in(columns: Columns) -> Conversation:
    """The same of events as columns."""
    if has_erased(columns.data):
        return _without_erased(columns.events())
    if MESSAGE_KINDS.issuperset(columns.kinds):
        return Conversation(Gathered(columns))
    events = columns.events()
    for event in events:
        if event.kind not in KINDS:
            logger.warning(
                "position %s: unknown kind %r; the event is skipped", event.seq, event.kind
            )
    notes = (event.data for event in events if event.kind == "note" and event.content == SETTINGS)
    return Conversation(
        (event for event in events if event.kind in MESSAGE_KINDS), read_settings(notes)
    )


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
