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

HOLE = "$backstory"  # the key of a hole, which stands for what the event says anyway
CONTENT_HOLE, OTHER_HOLE = '{"$backstory":"content"}', '"$backstory":'
DEEPEST = 100  # levels that the data of an event may have
# What is around an item that is OpenAI's own form, in the text of its event's data.
OWN_FORM = ('"native":{"provider":"openai-responses","wire":[', ']},"item":{"of":"%s"}}')
ITEM_NOTES = ("item", "message", "event", "rewind")  # with the adapter's name: notes that carry items
READABLE = frozenset({"system", "user", "assistant", "tool_call", "tool_result", "note"})

Draft = tuple[Any, ...]  # (kind, content, data) or (kind, content, data, key)
Translate = Callable[[Event], Any]  # an event that the adapter did not write, as an item; None: as nothing


class Carried(NamedTuple):
    """An item, and the event that carries it."""

    event: Event
    item: Any
    id: str | None = None  # the framework's own id of it, where it was given one


def plain(item: Any) -> Any:
    """The item as JSON gives it back; TypeError or ValueError for what is not JSON."""
    text = wire.exact_json(item)
    return json.loads(json.dumps(item)) if text is None else orjson.loads(text)


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
    exact = wire.exact_json(item)
    if exact is not None:
        for each in _forms(adapter, item, content, data, provider):
            if _gives_back(data | each, content, exact):
                return data | each
    safe = {name: value for name, value in data.items() if _text_of({name: value}) is not None}
    return safe | {"item": {"of": adapter, "text": json.dumps(item)}}


def _forms(
    adapter: str, item: Any, content: str | None, data: dict[str, Any], provider: str | None
) -> Iterator[dict[str, Any]]:
    said = {"content": content, "arguments": data.get("arguments")}
    if provider is not None:
        own = {"provider": provider, "wire": [wire.holed(item, **said)]}
        yield {"native": own, "item": {"of": adapter}}
    form = wire.holed(item, **said, native=data.get("native", {}).get("wire"))
    yield {"item": {"of": adapter, "form": form}}


def _gives_back(data: dict[str, Any], content: str | None, exact: bytes) -> bool:
    text = _text_of(data)
    if text is None:
        return False
    text = _with_content(text, content)
    return orjson.dumps(_form(orjson.loads(text), text)) == exact


def _text_of(data: dict[str, Any]) -> str | None:
    """The text that a store would keep; None where it would refuse, or where only slower JSON would do."""
    exact = wire.exact_json(data)
    if exact is None:
        return None
    text = exact.decode()
    return text if text.count("{") + text.count("[") <= DEEPEST or _depth(data) <= DEEPEST else None


def _depth(value: Any) -> int:
    levels, depth = [value], 0
    while levels:
        inner = [each.values() if isinstance(each, dict) else each for each in levels]
        levels = [found for each in inner for found in each if isinstance(found, dict | list)]
        depth += 1
    return depth


def _with_content(text: str, content: str | None) -> str:
    """The text of an event's data, with what the event says where there is a hole for it. No string can
    contain a hole: its quotes would have backslashes."""
    if CONTENT_HOLE not in text:
        return text
    return text.replace(CONTENT_HOLE, orjson.dumps(content).decode())


def _form(data: dict[str, Any], text: str) -> Any:
    """The item that the data of a carrier holds. `text` is what the data was parsed from."""
    item = data["item"]
    if "text" in item:
        return json.loads(item["text"])
    native = data.get("native", {}).get("wire")
    if OTHER_HOLE not in text:
        return item["form"] if "form" in item else native[0]
    known = {"arguments": data.get("arguments")}
    native = _fill(native, known)
    return _fill(item["form"], known | {"native": native}) if "form" in item else native[0]


def _fill(form: Any, known: dict[str, Any]) -> Any:
    """A form that was just parsed, with its holes filled in place."""
    if type(form) is dict:
        if len(form) == 1 and isinstance(name := form.get(HOLE), str) and name in known:
            return known[name]
        for key, value in form.items():
            if type(value) is dict or type(value) is list:
                form[key] = _fill(value, known)
    elif type(form) is list:
        for index, value in enumerate(form):
            if type(value) is dict or type(value) is list:
                form[index] = _fill(value, known)
    return form


def read_items(adapter: str, events: Iterable[Event], translate: Translate) -> Iterator[Carried]:
    """The items that events carry, in order; other messages are translated."""
    tagged = f'"item":{{"of":"{adapter}"'  # other notes may be large: they are not parsed
    for event in events:
        if event.kind not in READABLE:
            continue
        text = event.data_json
        if text is not None and tagged in text:
            text = _with_content(text, event.content)
            data = orjson.loads(text)
            tag = data.get("item")
            if isinstance(tag, dict) and tag.get("of") == adapter:
                if "part" not in tag:
                    yield Carried(event, _form(data, text), tag.get("id"))
                continue
        if event.kind != "note" and (translated := translate(event)) is not None:
            yield Carried(event, translated)


def own_items(adapter: str, events: Iterable[Event], translate: Translate) -> list[Any]:
    """The items alone, where they are OpenAI's own forms. They are cut out of the texts of their events: what
    is around them would take longer to parse than they do."""
    begin, end = OWN_FORM[0], OWN_FORM[1] % adapter
    length, rest = len(begin), -len(end)
    found: list[Any] = []
    for event in events:
        text = event.data_json
        if text is not None and text.endswith(end) and (start := text.find(begin)) >= 0:
            text = _with_content(text[start + length : rest], event.content)
            try:
                if OTHER_HOLE not in text:
                    found.append(orjson.loads(text))
                    continue
            except ValueError:  # it was not the form of the event itself
                pass
        found += [each.item for each in read_items(adapter, (event,), translate)]
    return found


def newest_items(
    adapter: str, agent: Agent, translate: Translate, limit: int | None, *, at: int | None = None
) -> list[Carried]:
    """The newest items of a context, oldest first; None: all. A limited read takes only the log's end."""
    if limit is None:
        notes = [f"{adapter}.{what}" for what in ITEM_NOTES]
        return list(read_items(adapter, agent.messages(at, notes=notes), translate))
    asked = limit + 2 if limit > 0 else 0  # notes may lie between
    while True:
        events = agent.tail(asked, at=at, notes=True)
        found = list(read_items(adapter, events, translate))
        if len(found) >= limit or len(events) < asked:
            return found[-limit:] if limit > 0 else []
        asked *= 4  # some events are parts of an item, or no item at all
