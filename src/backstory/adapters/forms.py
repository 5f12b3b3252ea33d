"""How an item is kept in the data of an event, and read back. JSON in, JSON out.

Holes stand in a form for what its event says anyway: `{"$backstory": "content"}` for its text, `"arguments"`
for what its call is given, `"native"` for its native content. No string within JSON can be mistaken for a
hole, nor for the names around a form: its quotes would have backslashes.
"""

import json
from typing import Any

import orjson

HOLE = "$backstory"
CONTENT_HOLE, ANY_HOLE = '{"$backstory":"content"}', '"$backstory":'
HOLES = {name: f'{{"{HOLE}":"{name}"}}'.encode() for name in ("content", "arguments", "native")}
SMALLEST = 40  # characters below which a hole saves nothing
NATIVE = (
    '"native":{"provider":"openai-responses","wire":['  # before an item that is OpenAI's own form
)
BEFORE, BEHIND = b":[,", b",]}"  # what a value in JSON may have around it
HOLE_BEGINS = ANY_HOLE.encode()
HERE = {HOLE: "content"}
AT_ONCE = 100  # items that are parsed together
USUAL = (
    "content",
    "text",
    "output",
    "data",
    "message",
    "parts",
    "input",
)  # the way to what an item says

TextAndData = tuple[str | None, str | None]  # an event's content, and the JSON of its data


def holed(
    tag: dict[str, str],
    item: Any,
    exact: bytes,
    content: str | None,
    data: dict[str, Any],
    provider: str | None,
) -> str:
    """The JSON of the data of an event that carries an item, whose JSON is `exact`, with holes for what the
    event says. ValueError where only a search in the item itself finds their places."""
    said = _said(content, data.get("arguments"))
    native = data.get("native") if provider is None else None
    wire = native.get("wire") if isinstance(native, dict) else None
    form = _with_usual_holes(item, exact, said) if wire is None else None
    if form is not None:
        whole = _whole(tag, form, data, provider)
        if whole.count(ANY_HOLE) != len(said):
            raise ValueError
        return whole
    if HOLE_BEGINS in exact:
        raise ValueError
    known = [(name, orjson.dumps(value)) for name, value, _ in said]
    text = _with_holes(exact, known)
    if native is not None and wire is not None:
        kept = _with_holes(orjson.dumps(wire), known)
        text = _with_holes(text, [("native", kept)])
        data = {**data, "native": {**native, "wire": orjson.Fragment(kept)}}
    return _whole(tag, text, data, provider)


def _whole(tag: dict[str, str], form: bytes, data: dict[str, Any], provider: str | None) -> str:
    """The JSON of an event's data, with a form in it."""
    if provider is None:
        return orjson.dumps({**data, "item": with_form(tag, orjson.Fragment(form))}).decode()
    own = {"provider": provider, "wire": [orjson.Fragment(form)]}
    return orjson.dumps({**data, "native": own, "item": tag}).decode()


def _said(content: str | None, arguments: Any) -> list[tuple[str, Any, int]]:
    """What an event says and is worth a hole, and how long it is at least."""
    said: list[tuple[str, Any, int]] = []
    if content is not None and len(content) >= SMALLEST:
        said.append(("content", content, len(content)))
    if arguments is not None and (length := len(orjson.dumps(arguments))) >= SMALLEST:
        said.append(("arguments", arguments, length))
    return said


def _with_usual_holes(item: Any, exact: bytes, said: list[tuple[str, Any, int]]) -> bytes | None:
    """The JSON of an item with holes in the usual places; None if something may be said elsewhere, too."""
    if not said:
        return exact
    try:
        for name, value, _ in said:
            item = _with_usual_hole(item, value, {HOLE: name})
    except LookupError:
        return None
    text = orjson.dumps(item)
    return None if any(length < len(text) for _, _, length in said) else text


def _with_usual_hole(value: Any, said: Any, hole: dict[str, str]) -> Any:
    """A copy of a value with a hole where it says this, if it does so in the usual place; else LookupError.
    An object must be the same one: one that is equal may still be other JSON."""
    if value is said or (type(value) is str and value == said):
        return hole
    if type(value) is list and len(value) == 1:
        return [_with_usual_hole(value[0], said, hole)]
    if type(value) is dict:
        for name in USUAL:
            if name in value:
                return {**value, name: _with_usual_hole(value[name], said, hole)}
    raise LookupError


def with_form(tag: dict[str, str], form: Any) -> dict[str, Any]:
    """What an event's data says about the item that it carries, and the item's form."""
    return {"of": tag["of"], "form": form, **tag}


def _with_holes(text: bytes, known: list[tuple[str, bytes]]) -> bytes:
    for name, said in known:
        if len(said) >= SMALLEST:
            text = _with_hole(text, said, HOLES[name])
    return text


def _with_hole(text: bytes, said: bytes, hole: bytes) -> bytes:
    """JSON with a hole wherever it has this value. It cannot be in a string, where its quotes would have
    backslashes. It may be the end of a longer string, or a name: what is around it shows that. And where its
    first quote ends another string, a comma, a colon or a bracket follows: a value with one there is not
    looked for in this way, nor one without a quote at its beginning."""
    quote = said.find(b'"', 0, 3)
    if quote < 0 or said[quote + 1] in b",:]}":
        raise ValueError
    head, length = (
        said[:SMALLEST],
        len(said),
    )  # a long text is found far more quickly by its beginning
    parts: list[bytes] = []
    done, start = 0, text.find(head)
    while start >= 0:
        end = start + 1
        if text.startswith(said, start) and _is_value(text, start, start + length):
            end = start + length
            parts += (text[done:start], hole)
            done = end
        start = text.find(head, end)
    return b"".join((*parts, text[done:])) if parts else text


def _is_value(text: bytes, start: int, end: int) -> bool:
    """Whether what is around a string or an object in JSON is what values have around them, or nothing."""
    return text[max(start - 1, 0) : start] in BEFORE and text[end : end + 1] in BEHIND


def with_content(text: str, content: str | None) -> str:
    """The text of an event's data, with what the event says where there is a hole for it."""
    if CONTENT_HOLE not in text:
        return text
    return text.replace(CONTENT_HOLE, orjson.dumps(content).decode())


def form_in(data: dict[str, Any], text: str) -> Any:
    """The item that the data of a carrier holds. `text` is what the data was parsed from."""
    item = data["item"]
    if "text" in item:
        return json.loads(item["text"])
    native = data.get("native", {}).get("wire")
    if ANY_HOLE not in text:
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


class Tag:
    """What is around the items of an adapter in the texts of their events."""

    def __init__(self, adapter: str) -> None:
        self.adapter = adapter
        self.begin = f'"item":{{"of":"{adapter}"'
        self.native_end = f"]}},{self.begin}}}}}"
        self.form = f'{self.begin},"form":'
        self.part = f'{self.begin},"part":true}}}}'

    def data_in(self, content: str | None, text: str | None) -> tuple[dict[str, Any], str] | None:
        """The data of an event and the text it was parsed from, if the event is this adapter's."""
        if text is None or self.begin not in text:  # data of others may be large: it is not parsed
            return None
        text = with_content(text, content)
        data = orjson.loads(text)
        item = data.get("item")
        return (data, text) if isinstance(item, dict) and item.get("of") == self.adapter else None


def all_forms(adapter: str, rows: list[TextAndData]) -> list[Any] | None:
    """The items that events carry, by their contents and data; None if an event is not the adapter's own.

    A few at a time, and `rows` is emptied on the way: what is let go early is memory for the next ones.
    """
    tag = Tag(adapter)
    found: list[Any] = []
    rows.reverse()
    while rows:
        some = rows[: -AT_ONCE - 1 : -1]
        del rows[-AT_ONCE:]
        forms = _at_once(tag, some) or _one_by_one(tag, some)
        if forms is None:
            return None
        found += forms
    return found


def _at_once(tag: Tag, rows: list[TextAndData]) -> list[Any]:
    """Items that are cut out of their texts and parsed together, because what is around them would take
    longer to parse than they do; nothing where that does not work. A cut in the wrong place leaves brackets
    that are closed once too often, so it is noticed."""
    end, form, part = tag.native_end, tag.form, tag.part
    native_from, native_to, form_from = len(NATIVE), -len(end), len(form)
    texts: list[str] = []
    contents: list[str | None] = []
    try:
        for content, text in rows:
            if text is None:
                return []
            if text.endswith(end):
                texts.append(text[text.index(NATIVE) + native_from : native_to])
            elif text.endswith(part):
                continue
            else:
                texts.append(text[text.index(form) + form_from : -2])
            contents.append(content)
        whole = f"[{','.join(texts)}]"
        found: list[Any] = orjson.loads(whole)
    except ValueError:
        return []
    if len(found) != len(
        contents
    ):  # a native form of several items, of which only the first is carried
        return []
    holes = whole.count(ANY_HOLE)
    return found if not holes or _filled(found, contents) == holes else []


def _filled(items: list[Any], contents: list[str | None]) -> int:
    """Fill the holes for contents, and return how many there were. Most are in one of three places."""
    holes = 0
    for item, content in zip(items, contents, strict=True):
        if content is None or type(item) is not dict:
            continue
        said = item.get("content")
        if said == HERE:
            item["content"] = content
        elif said is None and item.get("output") == HERE:
            item["output"] = content
        elif (
            type(said) is list
            and len(said) == 1
            and type(said[0]) is dict
            and said[0].get("text") == HERE
        ):
            said[0]["text"] = content
        elif not _put(item, content):
            continue
        holes += 1
    return holes


def _put(item: Any, content: str | None) -> bool:
    """Fill the hole for the content where it usually is, and say whether there was one."""
    place: Any = None
    key: Any = None
    value = item
    while True:
        if type(value) is list and len(value) == 1:
            place, key, value = value, 0, value[0]
        if type(value) is not dict:
            return False
        if HOLE in value:
            break
        for name in USUAL:
            if name in value:
                place, key, value = value, name, value[name]
                break
        else:
            return False
    if place is None or len(value) > 1 or value[HOLE] != "content":
        return False
    place[key] = content
    return True


def _one_by_one(tag: Tag, rows: list[TextAndData]) -> list[Any] | None:
    """The same, each by itself."""
    found: list[Any] = []
    for content, text in rows:
        its = tag.data_in(content, text)
        if its is None:
            return None
        if "part" not in its[0]["item"]:
            found.append(form_in(*its))
    return found
