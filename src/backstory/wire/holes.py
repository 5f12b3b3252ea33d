"""Holes: placeholders in a stored form for values that the event has already. Pure.

In `data["native"]["wire"]` and `data["item"]["form"]`, `{"$backstory": "content"}` stands for the event's
text, `"arguments"` for the arguments of its call, `"arguments_text"` for these as compact JSON (which only
older imports wrote), and, in an item, `"native"` for its native form. They are filled before the form is used, so that a form that repeats a
long text takes no extra space.
"""

from typing import Any

from backstory.log.events import to_json
from backstory.log.messages import read_call

HOLE = "$backstory"
SMALLEST = 40  # characters of JSON below which a hole would save nothing


def holed(
    form: Any,
    *,
    content: str | None = None,
    arguments: Any = None,
    native: Any = None,
) -> Any:
    """A form with holes for what the event says already. A value is left out only if it is the same down to
    its type and the order of its keys, so that `filled` restores the exact form."""
    given = (("content", content), ("arguments", arguments), ("native", native))
    known = []
    worth: set[type] = {dict, list}  # most of a form are texts that nobody has to look into
    for name, value in given:
        if value is not None and _is_worth_it(value):
            known.append((name, type(value), value))
            worth.add(type(value))
    return _holed(form, known, worth) if known and type(form) in worth else form


def _holed(form: Any, known: list[tuple[str, type, Any]], worth: set[type]) -> Any:
    kind = type(form)
    for name, type_, value in known:
        if form is value or (
            kind is type_ and form == value and (kind is str or repr(form) == repr(value))
        ):
            return {HOLE: name}
    if kind is list:
        return [_holed(value, known, worth) if type(value) in worth else value for value in form]
    if kind is not dict:
        return form
    found = form
    for key, value in form.items():
        if type(value) in worth and (there := _holed(value, known, worth)) is not value:
            if found is form:
                found = form.copy()
            found[key] = there
    return found


def _is_worth_it(value: Any) -> bool:
    if isinstance(value, dict):
        for one in value.values():
            if type(one) is str and len(one) >= SMALLEST:
                return True
    return len(value if isinstance(value, str) else repr(value)) >= SMALLEST


def filled(
    form: Any, *, content: str | None = None, arguments: Any = None, native: Any = None
) -> Any:
    """The form with its holes filled."""
    return _filled(form, {"content": content, "arguments": arguments, "native": native})


def _filled(form: Any, known: dict[str, Any]) -> Any:
    match form:
        case {"$backstory": ("content" | "arguments" | "native") as name} if len(form) == 1:
            return known[name]
        case {"$backstory": "arguments_text"} if len(form) == 1:
            return to_json(known["arguments"])
        case dict():
            return {key: _filled(value, known) for key, value in form.items()}
        case list():
            return [_filled(value, known) for value in form]
    return form


def with_filled(data: dict[str, Any], content: str | None) -> dict[str, Any]:
    """The data of an event, with the holes in its native form and item filled."""
    data, arguments, wire = dict(data), read_call(data).arguments, None
    native, item = data.get("native"), data.get("item")
    if isinstance(native, dict) and "wire" in native:
        wire = filled(native["wire"], content=content, arguments=arguments)
        data["native"] = {**native, "wire": wire}
    if isinstance(item, dict) and "form" in item:
        form = filled(item["form"], content=content, arguments=arguments, native=wire)
        data["item"] = {**item, "form": form}
    return data
