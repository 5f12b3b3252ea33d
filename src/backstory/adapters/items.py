"""The rule that makes a framework's items both exact and messages.

An item becomes one or more events. The first one carries it, in `data["item"]`: `{"of": ADAPTER, "form":
ITEM}`; the others have `{"of": ADAPTER, "part": true}`. Where the item is a provider's own form, it is the
event's native content and nothing else. What JSON or a database cannot hold is carried as text. So reading
gives back every item, equal as JSON with the order of its keys, while everything else in backstory sees
ordinary messages.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import orjson

from backstory import Agent, Event
from backstory.adapters.forms import Tag, all_forms, form_in, holed, with_content, with_form
from backstory.adapters.turns import ANSWER, is_same_turn, left_of
from backstory.log.json_text import encode_exactly
from backstory.wire import holes

DEEPEST = 100  # levels that the data of an event may have
AROUND = 3  # of them are around an item
ITEM_NOTES = (
    "item",
    "message",
    "event",
    "rewind",
)  # with the adapter's name: notes that carry items
NAMED = {"tool_call": ("id", "name"), "tool_result": ("id",)}  # what these cannot be without
READABLE = frozenset({"system", "user", "assistant", "tool_call", "tool_result", "note"})

Draft = tuple[Any, ...]  # (kind, content, data) or (kind, content, data, key)
Batch = list[Draft | Event]  # what is written at once
Translate = Callable[
    [Event], Any
]  # an event that the adapter did not write, as an item; None: as nothing
Join = Callable[[Any, Any], Any]  # two such items of one turn as one; None: they stay apart


class Carried(NamedTuple):
    """An item, and the event that carries it."""

    event: Event
    item: Any
    id: str | None = None  # the framework's own id of it, where it was given one
    end: int | None = None  # of what others wrote, the position of the last event


def plain(item: Any) -> Any:
    """A copy of the item as JSON gives it back; TypeError or ValueError for what is not JSON."""
    text = encode_exactly(item)
    return json.loads(json.dumps(item)) if text is None else orjson.loads(text)


def people_text(text: str) -> str:
    """A text as an event can have it: without NUL and lone surrogates."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


def carried(
    adapter: str,
    item: Any,
    events: Sequence[Draft],
    *,
    provider: str | None = None,
    id: str | None = None,
    exact: bytes | None = None,
    is_parsed: bool = False,
    key: str | None = None,
) -> list[Event]:
    """The events that say what an item says, with the item in the first of them. With `provider`, the item
    is that provider's own form. `id` is kept beside the item. `exact` is its exact JSON, where that is known
    already. `is_parsed`: the events' data is what a JSON parser gave, and no deeper than the item. `key` is
    that of the first event; the others have numbers behind it."""
    (kind, content, data), *rest = events
    data = data or {}
    if provider is not None and "native" in data:
        data = {name: value for name, value in data.items() if name != "native"}
    if exact is None:
        exact = encode_exactly(item)
    if exact is not None and _is_too_deep(exact, item):
        exact = None  # no data has room for it: it is carried as text
    storable = named if is_parsed and exact is not None else _storable
    content, data = _kept(content), storable(kind, data)
    tag = {"of": adapter} if id is None else {"of": adapter, "id": id}
    text = _carrier(tag, item, content, data, provider, exact)
    made = [Event.of(0, kind, content, text, key=key)]
    part = {"item": {"of": adapter, "part": True}}
    for number, (kind, content, data) in enumerate(rest, 1):
        data, own = storable(kind, data or {}) | part, None if key is None else f"{key}:{number}"
        made.append(Event.of(0, kind, _kept(content), orjson.dumps(data).decode(), key=own))
    return made


def note(
    adapter: str, name: str, item: Any, *, id: str | None = None, key: str | None = None
) -> Event:
    """An item that is not a message."""
    [event] = carried(adapter, item, [("note", name, None)], id=id, key=key)
    return event


def with_key(event: Event, key: str) -> Event:
    """The event with a key."""
    return Event.of(event.seq, event.kind, event.content, event.data_json, key=key)


def _kept(content: str | None) -> str | None:
    return None if content is None else people_text(content)


def _storable(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    """Data that a store takes: calls and results have ids and names, and what is not JSON is text, or left
    out. The item that the event carries has all of it anyway."""
    if data and _text_of(data) is None:
        data = {
            name: value if _text_of({name: value}) is not None else people_text(_words(value))
            for name, value in data.items()
            if name in ("id", "name", "arguments") or _text_of({name: value}) is not None
        }
    return named(kind, data)


def named(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    """Data of calls and results with ids and names."""
    for name in NAMED.get(kind, ()) if data else ():
        if not isinstance(value := data.get(name), str) or not value.strip():
            data = data | {name: "unknown"}
    return data


def _words(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _carrier(
    tag: dict[str, str],
    item: Any,
    content: str | None,
    data: dict[str, Any],
    provider: str | None,
    exact: bytes | None,
) -> str:
    """The JSON of the data of an event that carries an item, in the first form that gives it back. What the
    event says anyway is a hole in it. `exact` is the item's JSON, or None if it can
    only be carried as text."""
    if exact is None:
        return _as_text(tag, item, data)
    try:
        return holed(tag, item, exact, content, data, provider)
    except ValueError:  # only a search finds the places of the holes
        return _proven(tag, item, content, data, provider, exact)


def _proven(
    tag: dict[str, str],
    item: Any,
    content: str | None,
    data: dict[str, Any],
    provider: str | None,
    exact: bytes,
) -> str:
    """The same, where only reading it again shows that it works."""
    for each in _forms(tag, item, content, data, provider):
        text = _text_of(data | each)
        if text is not None and _gives_back(text, content, exact):
            return text
    return _as_text(tag, item, data)


def _as_text(tag: dict[str, str], item: Any, data: dict[str, Any]) -> str:
    return orjson.dumps(
        data | {"item": {"of": tag["of"], "text": json.dumps(item), **tag}}
    ).decode()


def kept(name: str, value: Any) -> dict[str, Any]:
    """Any JSON as the data of a note, under a name: as it is, or as a text where a store would refuse it."""
    data = {name: value}
    return {"text": json.dumps(value)} if _text_of(data) is None else data


def kept_in(data: dict[str, Any] | None, name: str) -> Any:
    """What `kept` was given."""
    if data is None:
        return None
    return json.loads(data["text"]) if "text" in data else data[name]


def _forms(
    tag: dict[str, str], item: Any, content: str | None, data: dict[str, Any], provider: str | None
) -> Iterator[dict[str, Any]]:
    said = {"content": content, "arguments": data.get("arguments")}
    if provider is not None:
        own = {"provider": provider, "wire": [holes.holed(item, **said)]}
        yield {"native": own, "item": tag}
    form = holes.holed(item, **said, native=data.get("native", {}).get("wire"))
    yield {"item": with_form(tag, form)}


def _gives_back(text: str, content: str | None, exact: bytes) -> bool:
    text = with_content(text, content)
    return orjson.dumps(form_in(orjson.loads(text), text)) == exact


def _text_of(data: dict[str, Any]) -> str | None:
    """The text that a store would keep; None where it would refuse, or where only slower JSON would do."""
    exact = encode_exactly(data)
    return None if exact is None or _is_too_deep(exact, data) else exact.decode()


def is_flat(exact: bytes) -> bool:
    """Whether there are so few objects and lists in JSON that it cannot be too deep for an event."""
    return exact.count(b"{") + exact.count(b"[") <= DEEPEST - AROUND


def _is_too_deep(exact: bytes, value: Any) -> bool:
    """Whether the data of an event could not have a value in it, whose JSON this is."""
    return not is_flat(exact) and _depth(value) > DEEPEST - AROUND


def _depth(value: Any) -> int:
    levels, depth = [value], 0
    while levels:
        inner = [each.values() if isinstance(each, dict) else each for each in levels]
        levels = [found for each in inner for found in each if isinstance(found, dict | list)]
        depth += 1
    return depth


def read_items(
    adapter: str, events: Iterable[Event], translate: Translate, join: Join | None = None
) -> Iterator[Carried]:
    """The items that events carry, in order; other messages are translated. With `join`, those of one turn
    are one item."""
    found = _one_by_one(adapter, events, translate)
    return found if join is None else _joined(found, join)


def _joined(found: Iterable[Carried], join: Join) -> Iterator[Carried]:
    turn: list[Event] = []
    last: Carried | None = None
    for each in found:
        both = None
        if last and last.end and each.end and is_same_turn(turn, each.event):
            both = join(last.item, each.item)
        if last and both is not None:
            turn.append(each.event)
            last = last._replace(item=both, end=each.end)
            continue
        if last:
            yield last
        turn, last = [each.event], each
    if last:
        yield last


def _one_by_one(adapter: str, events: Iterable[Event], translate: Translate) -> Iterator[Carried]:
    tag = Tag(adapter)
    for event in events:
        if event.kind not in READABLE:
            continue
        its = tag.data_in(event.content, event.data_json)
        if its is not None:
            if "part" not in (carrier := its[0]["item"]):
                yield Carried(event, form_in(*its), carrier.get("id"))
        elif event.kind != "note" and (translated := _translated(event, translate)) is not None:
            yield Carried(event, translated, end=event.seq)


def _translated(event: Event, translate: Translate) -> Any:
    left = left_of(event)
    return None if left is None else translate(left)


def all_items(
    adapter: str,
    agent: Agent,
    translate: Translate,
    *,
    at: int | None = None,
    join: Join | None = None,
) -> list[Any]:
    """All items of a context, without the events that carry them."""
    notes = list_item_notes(adapter)
    events = agent.messages(at, notes=notes)
    found = all_forms(adapter, [(event.content, event.data_json) for event in events])
    if found is not None:
        return found
    # Someone else wrote, too.
    return [each.item for each in read_items(adapter, events, translate, join)]


def last_items(adapter: str, agent: Agent, translate: Translate, limit: int) -> list[Any]:
    """The newest items of a context, oldest first, without the events that carry them."""
    if limit <= 0:
        return []
    asked = limit + 2  # notes may lie between
    events = agent.messages(notes=list_item_notes(adapter), limit=asked)
    found = all_forms(adapter, [(event.content, event.data_json) for event in events])
    if found is not None and (len(found) >= limit or len(events) < asked):
        return found[-limit:]
    return [each.item for each in newest_items(adapter, agent, translate, limit)]


def list_item_notes(adapter: str) -> list[str]:
    """Return the names of the notes that carry items."""
    return [f"{adapter}.{what}" for what in ITEM_NOTES]


def newest_items(
    adapter: str,
    agent: Agent,
    translate: Translate,
    limit: int | None,
    *,
    at: int | None = None,
    join: Join | None = None,
) -> list[Carried]:
    """The newest items of a context, oldest first; None: all. A limited read takes only the log's end."""
    if limit is None:
        return list(
            read_items(adapter, agent.messages(at, notes=list_item_notes(adapter)), translate, join)
        )
    if limit <= 0:
        return []
    asked = limit + 2  # notes may lie between
    while True:
        events = agent.messages(at, notes=list_item_notes(adapter), limit=asked)
        found = list(read_items(adapter, events, translate, join))
        whole = len(found) if join is None else len(found) - _perhaps_cut(found)
        if whole >= limit or len(events) < asked:
            return found[-limit:]
        asked *= 4  # some events are parts of an item, or no item at all


def _perhaps_cut(found: list[Carried]) -> int:
    """How many of the first items may belong to a turn that began before them: one that others wrote, or
    several answers in a row, because calls before them decide which of them are one turn."""
    answers = takewhile(lambda each: each.end is not None and each.event.kind in ANSWER, found)
    return len(list(answers)) or int(bool(found) and found[0].end is not None)
