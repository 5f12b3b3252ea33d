"""Settings: the parts of a request beside its messages, namely the model, tools and parameters.

They are notes in the log, so a rewind restores the earlier ones and a fork inherits them.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Required, TypedDict, Unpack

from backstory.errors import Invalid
from backstory.log.json_text import is_same_json

SETTINGS = "backstory.settings"  # the name of the notes
TOOL_FIELDS = frozenset({"name", "description", "parameters", "native"})


class ToolSettings(TypedDict, total=False):
    """A tool that a model may call."""

    name: Required[str]
    description: str
    parameters: Mapping[str, Any]  # a JSON Schema of an object
    native: Mapping[str, Any]  # a provider's own tool: its `format`, and its form as `wire`


class SettingsChange(TypedDict, total=False):
    """New values of settings. None or an empty value removes one."""

    model: str | None
    tools: Sequence[ToolSettings]
    params: Mapping[str, Any]


class Settings(NamedTuple):
    """The model, tools and parameters of a request; None or empty if they were not set."""

    model: str | None = None
    tools: tuple[dict[str, Any], ...] = ()
    params: Mapping[str, Any] = {}

    def find_changes(self, **wanted: Unpack[SettingsChange]) -> dict[str, Any]:
        """Return the settings of `wanted` that are not in force yet: the data of a new note."""
        for name in wanted:
            if name not in CHECKS:
                raise Invalid(
                    f"{name!r} is not a setting", remedy=f"use one of {', '.join(CHECKS)}"
                )
        changes = {}
        for name, value in wanted.items():
            new = CHECKS[name](value)
            _check_json(name, new)
            old = list(self.tools) if name == "tools" else getattr(self, name)
            if not is_same_json(new, old):
                changes[name] = new
        return changes


def read_settings(notes: Iterable[Mapping[str, Any] | None]) -> Settings:
    """Return the settings that result from the data of settings notes, oldest first.

    Each field replaces the previous one. Invalid fields are skipped, because the log may come from
    elsewhere.
    """
    fields: dict[str, Any] = {}
    for data in notes:
        if data is None:
            continue
        for name in list_usable_fields(data):
            fields[name] = CHECKS[name](data[name])
    if "tools" in fields:
        fields["tools"] = tuple(fields["tools"])
    return Settings(**fields)


def list_usable_fields(data: Mapping[str, Any] | None) -> set[str]:
    """Return the names of the settings that the data of a settings note set."""
    if data is None:
        return set()
    return {name for name, check in CHECKS.items() if name in data and _passes(check, data[name])}


def _passes(check: Callable[[Any], Any], value: Any) -> bool:
    try:
        check(value)
    except Invalid:
        return False
    return True


def _check_json(name: str, value: Any) -> None:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(
            f"the {name} of these settings cannot be written as JSON: {error}",
            remedy="use strings, finite numbers, true, false, null, lists and objects",
        ) from error


def _check_model(model: Any) -> str | None:
    if model is None:
        return None
    if not isinstance(model, str) or not model.strip():
        raise Invalid(f"a model's name must be a non-empty string, not {model!r}")
    return model


def _check_params(params: Any) -> dict[str, Any]:
    if not isinstance(params, Mapping) or not all(isinstance(name, str) for name in params):
        raise Invalid(f"params must be an object of names and values, not {params!r:.60}")
    return dict(params)


def _check_tools(tools: Any) -> list[dict[str, Any]]:
    if isinstance(tools, str | Mapping) or not isinstance(tools, Sequence):
        raise Invalid(f"tools must be a list of tools, not {tools!r:.60}")
    copies = []
    names = set()
    for tool in tools:
        copy = _check_tool(tool)
        name = copy["name"]
        if name in names:
            raise Invalid(f"two tools are named {name!r}", remedy="give each a different name")
        names.add(name)
        copies.append(copy)
    return copies


def _check_tool(tool: Any) -> dict[str, Any]:
    if not isinstance(tool, Mapping):
        raise Invalid(
            f"a tool must be an object with name, description and parameters, not {tool!r:.60}"
        )
    unknown = sorted(str(field) for field in tool if field not in TOOL_FIELDS)
    if unknown:
        raise Invalid(
            f"a tool does not take {unknown[0]!r}",
            remedy=f"use {', '.join(sorted(TOOL_FIELDS))}",
        )
    name = tool.get("name")
    if not isinstance(name, str) or not name.strip():
        raise Invalid(f"a tool needs a name, a non-empty string, not {name!r}")
    _check_tool_part(tool, "description", str, "a string")
    _check_tool_part(tool, "parameters", Mapping, "a JSON Schema object")
    _check_tool_part(tool, "native", Mapping, "an object with its format and its wire form")
    return dict(tool)


def _check_tool_part(tool: Mapping[str, Any], field: str, type_: type, what: str) -> None:
    if field in tool and not isinstance(tool[field], type_):
        raise Invalid(
            f"the {field} of the tool {tool['name']!r} is {what}, not {tool[field]!r:.60}"
        )


# The check of each setting. It returns a copy of the value, or raises Invalid.
CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "model": _check_model,
    "tools": _check_tools,
    "params": _check_params,
}
