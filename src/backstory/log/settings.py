"""Settings: what a request has besides its messages, namely the model, tools and parameters. They are notes
in the log, so a rewind restores the earlier ones and a fork inherits them. Pure.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from backstory.errors import Invalid
from backstory.log.json_text import is_same_json

SETTINGS = "backstory.settings"  # the name of their notes
FIELDS = ("model", "tools", "params")

TOOL_FIELDS = frozenset({"name", "description", "parameters", "native"})


class Settings(NamedTuple):
    """What a request has besides its messages; None or empty if it was not set."""

    model: str | None = None
    tools: tuple[dict[str, Any], ...] = ()
    params: Mapping[str, Any] = {}

    def changed(self, **wanted: Any) -> dict[str, Any]:
        """The settings that are not in force yet, checked: the data of a new note."""
        for name in wanted:
            if name not in FIELDS:
                raise Invalid(
                    f"{name!r} is not a setting", remedy=f"use one of {', '.join(FIELDS)}"
                )
        checked = {name: _CHECKS[name](value) for name, value in wanted.items()}
        for name, value in checked.items():
            _check_json(name, value)
        return {
            name: value
            for name, value in checked.items()
            if not is_same_json(value, self._stored(name))
        }

    def _stored(self, name: str) -> Any:
        value = getattr(self, name)
        return list(value) if name == "tools" else value


def _check_json(name: str, value: Any) -> None:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(
            f"the {name} of these settings cannot be written as JSON: {error}",
            remedy="use strings, finite numbers, true, false, null, lists and objects",
        ) from error


def settings_of(notes: Iterable[Mapping[str, Any] | None]) -> Settings:
    """The settings that result from the data of settings notes, oldest first: each field replaces the
    previous one. Invalid fields are skipped, because the log may come from elsewhere."""
    found = Settings()
    for data in notes:
        for name in FIELDS:
            if data and name in data:
                found = _replaced(found, name, data[name])
    return found


def usable(data: Mapping[str, Any] | None) -> set[str]:
    """The fields that the data of a settings note set."""
    given = data or {}
    return {name for name in FIELDS if name in given and _is_usable(name, given[name])}


def _is_usable(name: str, value: Any) -> bool:
    try:
        _CHECKS[name](value)
    except Invalid:
        return False
    return True


def _replaced(settings: Settings, name: str, value: Any) -> Settings:
    if not _is_usable(name, value):
        return settings
    checked = _CHECKS[name](value)
    fields: dict[str, Any] = {name: tuple(checked) if name == "tools" else checked}
    return settings._replace(**fields)


def _checked_model(model: Any) -> str | None:
    if model is not None and (not isinstance(model, str) or not model.strip()):
        raise Invalid(f"a model's name must be a non-empty string, not {model!r}")
    return model


def _checked_params(params: Any) -> dict[str, Any]:
    if not isinstance(params, Mapping) or not all(isinstance(name, str) for name in params):
        raise Invalid(f"params must be an object of names and values, not {params!r:.60}")
    return dict(params)


def _checked_tools(tools: Any) -> list[dict[str, Any]]:
    if isinstance(tools, str | Mapping) or not isinstance(tools, Sequence):
        raise Invalid(f"tools must be a list of tools, not {tools!r:.60}")
    checked = [_checked_tool(tool) for tool in tools]
    names = [tool["name"] for tool in checked]
    for name in names:
        if names.count(name) > 1:
            raise Invalid(f"two tools are named {name!r}", remedy="give each a different name")
    return checked


def _checked_tool(tool: Any) -> dict[str, Any]:
    if not isinstance(tool, Mapping):
        raise Invalid(
            f"a tool must be an object with name, description and parameters, not {tool!r:.60}"
        )
    unknown = set(tool) - TOOL_FIELDS
    if unknown:
        raise Invalid(
            f"a tool has no {sorted(map(str, unknown))[0]!r}",
            remedy=f"use {', '.join(sorted(TOOL_FIELDS))}",
        )
    name = tool.get("name")
    if not isinstance(name, str) or not name.strip():
        raise Invalid(f"a tool needs a name, a non-empty string, not {name!r}")
    for field, type_, what in (
        ("description", str, "a string"),
        ("parameters", Mapping, "a JSON Schema object"),
        ("native", Mapping, "an object with its format and its wire form"),
    ):
        if field in tool and not isinstance(tool[field], type_):
            raise Invalid(f"the {field} of the tool {name!r} is {what}, not {tool[field]!r:.60}")
    return dict(tool)


_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "model": _checked_model,
    "tools": _checked_tools,
    "params": _checked_params,
}
