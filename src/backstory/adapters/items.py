"""The items of an adapter: how they are written and read, which all adapters share.

An *item* is one message of a framework. It becomes one or more ordinary events, and the last of
them also carries the item's exact JSON (`log.items`). Reading has one rule: an item comes back
exactly if all its events are live; otherwise its live events are translated, as if somebody else
had written them. *Others* are the other programs that write to the same agent.

The parts, in reading order: writing (`build_item`), reading (`ItemReader`), text and files, and
state beside the messages (`StateNotes`).
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from itertools import groupby
from typing import Any, NamedTuple, Protocol

from backstory import Agent, Event, InvalidEvent
from backstory.adapters.stores import At, DraftTuple, KeylessDraft
from backstory.log.checks import check_data
from backstory.log.items import read_item, read_json, shorten_item, write_item
from backstory.wire.formats import get_format
from backstory.wire.media import (
    OWN,
    as_words,
    describe_lost_media,
    from_url,
    media,
    write_own_block,
)
from backstory.wire.neutral import AnsweredCall, list_answered_calls, read_turns
from backstory.wire.turns import AnswerTurn, Call, Media, MessageTurn, Part, Result, Text, text_of

logger = logging.getLogger("backstory")

# --- writing ---

REQUIRED = {"tool_call": ("id", "name"), "tool_result": ("id",)}


class Item(NamedTuple):
    """A message of the framework: as it was written, or translated from events of others."""

    value: Any
    first: int  # positions of its first and last event
    last: int
    id: str | None = None  # the framework's own id, if it was given one
    is_own: bool = True


def build_item(
    adapter: str,
    value: Any,
    events: Sequence[KeylessDraft],
    *,
    id: str | None = None,
    key: str | None = None,
    text: str | None = None,
) -> list[DraftTuple]:
    """Build the events of an item. The last one gets its exact JSON, `id` and `key`; the others say
    how many follow. `text` is the JSON of `value`, if the caller has it. What a store refuses in
    the events is replaced."""
    *parts, (kind, content, data) = [clean_draft(*event) for event in events]
    if text is None:
        text = write_item(value)
    tag = {"of": adapter, "json": shorten_item(text, content, data), "events": len(events)}
    if id is not None:
        tag["id"] = id
    drafts: list[DraftTuple] = []
    for index, (part_kind, part_content, part_data) in enumerate(parts):
        part_tag = {"of": adapter, "part": len(parts) - index}
        drafts.append((part_kind, part_content, part_data | {"item": part_tag}))
    return [*drafts, (kind, content, data | {"item": tag}, key)]


def build_note(name: str, value: Any, key: str | None = None) -> DraftTuple:
    """Build a note with any JSON in it, as text: a store would refuse NaN, deep nesting and lone
    surrogates."""
    return ("note", name, {"json": write_item(value)}, key)


def read_note(note: Event | None) -> Any:
    """Return the value that `build_note` was given; None if there is no note, or if an older
    version wrote it."""
    text = (note.data or {}).get("json") if note is not None else None
    return read_json(text) if isinstance(text, str) else None


def clean_draft(
    kind: str, content: str | None, data: Mapping[str, Any] | None
) -> tuple[str, str | None, dict[str, Any]]:
    """Return a draft that a store accepts. Values that it refuses become text, or are left out: the
    item has them anyway."""
    cleaned: dict[str, Any] = {}
    for name, value in (data or {}).items():
        if _is_storable(kind, {name: value}):
            cleaned[name] = value
        elif name in ("id", "name", "arguments"):
            words = value if isinstance(value, str) else write_item(value)
            cleaned[name] = clean_text(words)
    for name in REQUIRED.get(kind, ()):
        value = cleaned.get(name)
        if not isinstance(value, str) or not value.strip():
            cleaned[name] = "unknown"
    return kind, None if content is None else clean_text(content), cleaned


def _is_storable(kind: str, data: dict[str, Any]) -> bool:
    try:
        check_data(kind, data)
    except InvalidEvent:
        return False
    return True


def clean_text(text: str) -> str:
    """Return `text` without U+0000 and lone surrogates."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


# --- reading ---


class TurnItem(NamedTuple):
    """A message of the framework that was translated, and the position of its first event."""

    value: Any
    first: int


class MessageWriter(Protocol):
    """Writes the messages of others as messages of one framework. `event` is the first of the
    events that a message comes from."""

    def write_message(self, turn: MessageTurn, event: Event) -> Iterable[TurnItem]:
        """Write a system or user message."""

    def write_answer(self, turn: AnswerTurn, event: Event) -> Iterable[TurnItem]:
        """Write an answer of a model: its texts, which are not empty, and its calls."""

    def write_results(self, calls: Sequence[AnsweredCall], event: Event) -> Iterable[TurnItem]:
        """Write results of the calls of one answer."""


class ItemReader(NamedTuple):
    """Reads the items of one adapter, and the messages of others as items.

    With `repair`, calls that others left open get the result "interrupted".
    """

    adapter: str
    notes: Sequence[str]  # the names of the notes that carry items
    writer: MessageWriter
    repair: bool = True

    def read_context(self, agent: Agent, limit: int | None = None, at: At = None) -> list[Item]:
        """Return the items of the context, or the newest `limit` of them, which reads only the end
        of the log."""
        if limit is None:
            return self.read_events(agent.messages(at, notes=self.notes))
        if limit <= 0:
            return []
        size = limit + 2
        while True:
            events = agent.messages(at, notes=self.notes, limit=size)
            items = self.read_events(events)
            if len(events) < size or len(items) - self._count_cut(items, events) >= limit:
                return items[-limit:]
            size *= 4

    def _count_cut(self, items: Sequence[Item], events: Sequence[Event]) -> int:
        """Return how many of the first items may lack events before `events`: those of an answer
        and of its results, and parts of an own item, up to the first item that is certainly
        complete.

        If `events` begin with the second call of an answer, its result and a question, the items
        are an answer, a result and the question: the first two are cut.
        """
        by_position = {event.seq: event for event in events}
        for index, item in enumerate(items):
            first = by_position[item.first]
            is_part = _has_tag(self.adapter, first)
            if item.is_own or (first.kind in ("user", "system") and not is_part):
                return index
        return len(items)

    def read_events(self, events: Sequence[Event]) -> list[Item]:
        """Return the items in `events`. An item whose events are all there comes back exactly;
        everything else is grouped into turns and translated."""
        own = read_own_items(self.adapter, events)
        owners: dict[int, int] = {}
        for item in own:
            owners.update(dict.fromkeys(range(item.first, item.last + 1), item.last))
        messages = [event for event in events if event.kind != "note" or event.seq in owners]
        if all(event.seq in owners for event in messages):
            return own
        return _Translation(self, messages, owners).add_turns(own)


def read_own_items(adapter: str, events: Sequence[Event]) -> list[Item]:
    """Return the items of this adapter whose events are all there."""
    items: list[Item] = []
    for index, event in enumerate(events):
        data = _read_carrier(adapter, event)
        if data is None:
            continue
        tag = data["item"]
        count = tag["events"]
        if _are_parts(adapter, events[max(index + 1 - count, 0) : index], count - 1):
            first = events[index + 1 - count].seq
            items.append(Item(read_item(event.content, data), first, event.seq, tag.get("id")))
    return items


def _read_carrier(adapter: str, event: Event) -> dict[str, Any] | None:
    """Return the data of an event that carries an item of this adapter."""
    if not _has_tag(adapter, event, ',"json":'):
        return None
    data = event.data or {}
    item = data.get("item")
    if isinstance(item, dict) and item.get("of") == adapter and "json" in item:
        return data
    return None


def _has_tag(adapter: str, event: Event, next_field: str = "") -> bool:
    """Return True if an event seems to belong to an item of this adapter. Its data may be large,
    and are not parsed: `build_item` puts `of` and `json` first, and a store keeps their order."""
    return f'"item":{{"of":"{adapter}"{next_field}' in (event.data_json or "")


def _are_parts(adapter: str, events: Sequence[Event], count: int) -> bool:
    """Return True if `events` are the `count` parts of the item that the next event carries."""
    if len(events) != count:
        return False
    for index, event in enumerate(events):
        tag = (event.data or {}).get("item")
        if tag != {"of": adapter, "part": count - index}:
            return False
    return True


class Placement(NamedTuple):
    """An item with its place. Results have the position at which their answer ends."""

    position: int
    is_result: bool
    item: Item


# An example. Positions 2 and 3 are one own item: an answer that calls `f` and then says something.
#
#     events                      owners    placements
#     1  user "Look."                       (1, False)  the translated question
#     2  tool_call "f" (a part)   3
#     3  assistant "I look."      3         (3, False)  the own item, placed at its end
#     4  user "Well?"                       (4, False)  the translated question
#     5  tool_result of "f"                 (3, True)   the translated result, after its answer
#
# Sorted, they are the items: question, answer, result, question.


class _Translation:
    """Translates the messages of others. `owners` has the position of each event of an own item,
    with the position at which the item ends."""

    def __init__(self, reader: ItemReader, messages: list[Event], owners: dict[int, int]) -> None:
        self._writer = reader.writer
        self._repair = reader.repair
        self._messages = messages
        self._events = {event.seq: event for event in messages}
        self._owners = owners
        self._newest_other = max(self._events.keys() - owners.keys())
        self._placements: list[Placement] = []

    def add_turns(self, own: Sequence[Item]) -> list[Item]:
        """Return the own items and the turns of others in their order."""
        self._placements = [Placement(item.last, False, item) for item in own]
        runs = groupby(self._messages, key=lambda event: self._owners.get(event.seq))
        for turn in read_turns([list(run) for _, run in runs]):
            if isinstance(turn, AnswerTurn):
                self._add_answer(turn)
            else:
                position = turn.position or 0
                if position not in self._owners:
                    written = self._writer.write_message(turn, self._events[position])
                    self._place(position, position, written)
        self._placements.sort(key=lambda placement: placement[:2])
        return [placement.item for placement in self._placements]

    def _add_answer(self, turn: AnswerTurn) -> None:
        """Place an answer of others at its first position, and the results that no own item has at
        `end`: the last position of the answer, or of the own item that it is."""
        position = turn.position or 0
        end = _find_last([turn, *turn.calls])
        end = self._owners.get(end, end)
        is_own = position in self._owners
        if not is_own and (turn.texts or turn.calls):
            written = self._writer.write_answer(turn, self._events[position])
            self._place(position, end, written)
        missing = [each for each in list_answered_calls(turn) if self._is_missing(each, is_own)]
        if missing:
            first = self._events[missing[0].result.position or 0]
            last_result = _find_last([each.result for each in missing])
            written = self._writer.write_results(missing, first)
            self._place(end, max(end, last_result), written, is_result=True)

    def _is_missing(self, answered: AnsweredCall, is_own: bool) -> bool:
        """Return True if no item of this adapter has the result of a call. An own call stays open
        until a message of somebody else follows it."""
        position = answered.result.position or 0
        if not answered.is_interrupted:
            return position not in self._owners
        return self._repair and (not is_own or self._newest_other > position)

    def _place(
        self, position: int, last: int, written: Iterable[TurnItem], *, is_result: bool = False
    ) -> None:
        """Place items at `position`. `last` is the position of the last event that they come
        from."""
        for value, first in written:
            item = Item(value, first, max(first, last), is_own=False)
            self._placements.append(Placement(position, is_result, item))


def _find_last(parts: Iterable[AnswerTurn | Call | Result]) -> int:
    """Return the highest position of `parts`."""
    return max(part.position or 0 for part in parts)


# --- text and files ---


def build_media(uri: str, type: str | None, name: str | None = None) -> Media:
    """Build the media at a URL, or in a data URL."""
    found = from_url(uri, "")
    return media(found.type or type, data=found.data, url=found.url, name=name)


def write_block(format: str, part: Part, *, in_result: bool = False) -> Any:
    """Write text or a file as a block of a provider's format. A file that the format cannot carry
    becomes a sentence."""
    writer = get_format(format)
    if isinstance(part, Media):
        block = writer.write_media(part, in_result)
        if block is not None and not isinstance(block, str):
            return block
        return writer.write_text(block or describe_media(part))
    return writer.write_text(part.text if isinstance(part, Text) else "")


def write_content(parts: Sequence[Part], write: Callable[[Part], Any]) -> str | list[Any]:
    """Write text as a string, and text with files as a list of blocks."""
    if any(isinstance(part, Media) for part in parts):
        return [write(part) for part in parts]
    return text_of(parts)


def write_blocks(format: str, parts: Sequence[Part], *, in_result: bool = False) -> str | list[Any]:
    """Write text as a string, and text with files as blocks of a provider's format."""
    return write_content(parts, partial(write_block, format, in_result=in_result))


def describe_media(part: Media) -> str:
    """Return the text that stands in place of a file: that of a text document, else a sentence,
    which is reported."""
    words = as_words(part)
    if words is not None:
        return words
    _report_lost_media(part.kind, part.type)
    return describe_lost_media([part])


@cache  # sessions are read again and again
def _report_lost_media(kind: str, type_: str | None) -> None:
    """Log that a file is left out: once in a process for each type."""
    logger.warning("a framework is given a sentence in place of a file: %s (%s)", kind, type_)


def build_message(
    kind: str, parts: Sequence[Part], data: Mapping[str, Any] | None = None
) -> KeylessDraft:
    """Build a message or result of texts and files. Files are kept in our own neutral form, which
    every wire format and every adapter reads."""
    whole = dict(data or {})
    if any(isinstance(part, Media) for part in parts):
        blocks = [write_own_block(part) for part in parts if isinstance(part, Text | Media)]
        whole["native"] = {"provider": OWN, "wire": blocks}
    return kind, text_of(parts), whole


def add_usage(
    events: Sequence[KeylessDraft], model: str | None, **tokens: int | None
) -> list[KeylessDraft]:
    """Add the model and its usage to the first event of an answer, as `agent.record` names them:
    `input`, `output` and `cached`."""
    kind, content, data = events[0]
    first = dict(data or {})
    usage = {name: count for name, count in tokens.items() if count}
    if model:
        first["model"] = model
    if usage:
        first["usage"] = usage
    return [(kind, content, first), *events[1:]]


# --- state beside the messages ---

LEAST_CHANGES = 4_000  # characters of JSON that are never worth a complete state


class State(NamedTuple):
    """A state as two notes have it: the newest complete one, and what changed since."""

    values: dict[str, Any]
    changes: dict[str, Any]
    position: int  # of the complete state; 0: there is none

    @property
    def current(self) -> dict[str, Any]:
        """The state with its changes."""
        return self.values | self.changes


class StateNotes(NamedTuple):
    """A dict that changes often, as two notes: `state` has all of it, `update` all that changed
    since. Once the changes are longer than the state, it is written again."""

    state: str
    update: str

    def read(self, agent: Agent) -> State:
        """Return the state in the context; if there is none, the newest of the lineage."""
        notes = agent.last_notes([self.state, self.update])
        if self.state in notes:
            return self.join(notes[self.state], notes.get(self.update))
        states = agent.notes(self.state, live=False)
        if not states:
            return State({}, {}, 0)
        updates = agent.notes(self.update, live=False)
        return self.join(states[-1], updates[-1] if updates else None)

    def join(self, state: Event, update: Event | None) -> State:
        """Return the state in the newest note of each name."""
        complete = read_note(state) or {"values": {}}
        newer = read_note(update)
        changes: dict[str, Any] = {}
        if newer is not None and newer["since"] == state.seq:
            changes = newer["changes"]
        return State(complete["values"], changes, state.seq)

    def build(self, before: State, changes: Mapping[str, Any]) -> DraftTuple:
        """Build the note for `changes`."""
        changed = before.changes | dict(changes)
        size = len(write_item(changed))
        complete_size = len(write_item(before.values))
        if before.position == 0 or size > complete_size + LEAST_CHANGES:
            return self.build_complete(before.values | changed)
        return build_note(self.update, {"changes": changed, "since": before.position})

    def build_complete(self, values: Mapping[str, Any]) -> DraftTuple:
        """Build the note for a complete state."""
        return build_note(self.state, {"values": dict(values)})
