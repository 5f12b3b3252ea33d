"""The rule that makes a framework's items both exact and messages.

An item becomes one or more events. The first one carries it, in `data["item"]`: `{"of": ADAPTER, "form":
ITEM}`; the others have `{"of": ADAPTER, "part": true}`. Where the item is a provider's own form, it is the
event's native content and nothing else. What JSON or a database cannot hold is carried as text. So reading
gives back every item, equal as JSON with the order of its keys, while everything else in backstory sees
ordinary messages.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import orjson

from backstory import Agent, Event, wire

PAGE = 8  # positions beyond what is asked for, read at once from the end of a long history
HOLE = '{"$backstory":"content"}'  # stands for the event's text
OTHER_HOLE = '{"$backstory":"'  # how every hole begins
DEEPEST = 100  # levels that the data of an event may have
SPOKEN = frozenset({"system", "user", "assistant", "tool_call", "tool_result"})

Draft = tuple[Any, ...]  # (kind, content, data) or (kind, content, data, key)
Translate = Callable[[Event], Any]  # an event that the adapter did not write, as an item; None: as nothing


class Carried(NamedTuple):
    """An item, and the event that carries it."""

    event: Event
    item: Any
    id: str | None = None  # the framework's own id of it, where it was given one


def plain(item: Any) -> Any:
    """The item as JSON gives it back; TypeError or ValueError for what is not JSON."""
    return json.loads(json.dumps(item))


def people_text(text: str) -> str:
    """A text as an event can have it: without NUL and lone surrogates."""
    return text.replace("\0", "\ufffd").encode(errors="replace").decode()


def carried(
    adapter: str, item: Any, events: Sequence[Draft], *, provider: str | None = None, id: str | None = None
) -> list[Draft]:
    """The events that say what an item says, with the item in the first of them. With `provider`, the item
    is that provider's own form. `id` is kept beside the item."""
    (kind, content, data, *key), *rest = events
    data = {name: value for name, value in (data or {}).items() if name != "native" or provider is None}
    content = _kept(content)
    first = _carrier(adapter, item, content, data, provider)
    if id is not None:
        first["item"]["id"] = id
    parts = [
        (kind, _kept(content), {**(data or {}), "item": {"of": adapter, "part": True}}, *key)
        for kind, content, data, *key in rest
    ]
    return [(kind, content, first, *key), *parts]


def note(adapter: str, name: str, item: Any, *, id: str | None = None) -> Draft:
    """An item that is not a message."""
    [event] = carried(adapter, item, [("note", name, None)], id=id)
    return event


def _kept(content: str | None) -> str | None:
    return None if content is None else people_text(content)


def _carrier(
    adapter: str, item: Any, content: str | None, data: dict[str, Any], provider: str | None
) -> dict[str, Any]:
    """The data of the event that carries an item, in the first form that gives it back. What the event says
    anyway is a hole in it."""
    exact = json.dumps(item)
    said = {"content": content, "arguments": data.get("arguments")}
    form = wire.holed(item, **said, native=data.get("native", {}).get("wire"))
    forms: list[dict[str, Any]] = [{"item": {"of": adapter, "form": form}}]
    if provider is not None:
        own = {"provider": provider, "wire": [wire.holed(item, **said)]}
        forms.insert(0, {"native": own, "item": {"of": adapter}})
    for each in forms:
        if _gives_back(data | each, content, exact):
            return data | each
    safe = {name: value for name, value in data.items() if _is_kept({name: value})}
    return safe | {"item": {"of": adapter, "text": exact}}


def _gives_back(data: dict[str, Any], content: str | None, exact: str) -> bool:
    text = _text_of(data)
    if text is None:
        return False
    return json.dumps(_form(*_parsed(text, content))) == exact


def _is_kept(data: dict[str, Any]) -> bool:
    return _text_of(data) is not None


def _text_of(data: dict[str, Any]) -> str | None:
    """The text that a store would keep; None where it would refuse."""
    try:
        text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        text.encode()
    except (ValueError, RecursionError):
        return None
    return text if text.count("{") + text.count("[") <= DEEPEST or _depth(data) <= DEEPEST else None


def _depth(value: Any) -> int:
    levels, depth = [value], 0
    while levels:
        inner = [each.values() if isinstance(each, dict) else each for each in levels]
        levels = [found for each in inner for found in each if isinstance(found, dict | list)]
        depth += 1
    return depth


def _parsed(text: str, content: str | None) -> tuple[dict[str, Any], bool]:
    """The data of an event, with its text in the holes for it, and whether there are holes for more. No
    string can contain a hole: its quotes would have backslashes."""
    if "$backstory" not in text:
        return orjson.loads(text), False
    if content is not None:
        text = text.replace(HOLE, orjson.dumps(content).decode())
    return orjson.loads(text), OTHER_HOLE in text


def _form(data: dict[str, Any], has_holes: bool) -> Any:
    """The item that the data of a carrier holds."""
    item = data["item"]
    if "text" in item:
        return json.loads(item["text"])
    form = item["form"] if "form" in item else data["native"]["wire"][0]
    if not has_holes:
        return form
    native = data.get("native", {}).get("wire") if "form" in item else None
    return wire.filled(form, arguments=data.get("arguments"), native=native)


def read_items(adapter: str, events: Iterable[Event], translate: Translate) -> Iterator[Carried]:
    """The items that events carry, in order; other messages are translated."""
    for event in events:
        if event.kind not in SPOKEN and event.kind != "note":
            continue
        raw = event.data_json
        data, has_holes = _parsed(raw, event.content) if raw else ({}, False)
        tag = data.get("item")
        if isinstance(tag, dict) and tag.get("of") == adapter:
            if "part" not in tag:
                yield Carried(event, _form(data, has_holes), tag.get("id"))
        elif event.kind != "note" and (translated := translate(event)) is not None:
            yield Carried(event, translated)


def newest_items(
    adapter: str, agent: Agent, translate: Translate, limit: int | None, *, at: int | None = None
) -> list[Carried]:
    """The newest items of a context, oldest first; None: all. A limited read takes only the log's end."""
    if limit is None:
        return list(read_items(adapter, agent.context(at).messages, translate))
    found: list[Carried] = []
    size = limit + PAGE
    for low, high in reversed(agent.live_ranges(at) if limit > 0 else []):
        while low <= high and len(found) < limit:
            after = max(low - 1, high - size)
            found = [*read_items(adapter, agent.events(after=after, until=high), translate), *found]
            high, size = after, size * 4
    return found[-limit:] if limit > 0 else []
