"""Holes: placeholders in a stored form for values that the event has already. Pure.

Only older versions wrote them.

In `data["native"]["wire"]` and `data["item"]["form"]`, `{"$backstory": "content"}` means the
event's text, `"arguments"` for the arguments of its call, `"arguments_text"` for these as compact
JSON, and, in an item, `"native"` for its native form. They are filled before the form is used.
"""

from typing import Any

from backstory.log.events import to_json
from backstory.log.messages import read_call

HOLE = "$backstory"


def fill_holes(form: Any, values: dict[str, Any]) -> Any:
    """Return a form with the values by the names of its holes."""
    match form:
        case {"$backstory": ("content" | "arguments" | "native") as name} if len(form) == 1:
            return values[name]
        case {"$backstory": "arguments_text"} if len(form) == 1:
            return to_json(values["arguments"])
        case dict():
            return {key: fill_holes(value, values) for key, value in form.items()}
        case list():
            return [fill_holes(value, values) for value in form]
    return form


def fill_data(data: dict[str, Any], content: str | None) -> dict[str, Any]:
    """Return the data of an event with the holes in its native form and its item filled."""
    filled = dict(data)
    values = {"content": content, "arguments": read_call(data).arguments, "native": None}
    native, item = data.get("native"), data.get("item")
    if isinstance(native, dict) and "wire" in native:
        form = fill_holes(native["wire"], values)
        filled["native"] = {**native, "wire": form}
        values["native"] = form
    if isinstance(item, dict) and "form" in item:
        filled["item"] = {**item, "form": fill_holes(item["form"], values)}
    return filled
