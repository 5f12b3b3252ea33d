"""One tool: its name, its description for the model, and the function that runs.

Arguments come from a model, so they are checked against the tool's schema before anything runs. The errors
tell the model what to correct.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
NAMES = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
}


class ToolError(Exception):
    """A tool raises this if it fails; the model reads the message."""


@dataclass(frozen=True)
class Tool:
    """Something that a model may call."""

    name: str
    description: str
    parameters: Mapping[str, Any]  # a JSON schema of an object
    run: Callable[..., str]
    asks: bool = False  # does it need consent before it runs?
    seconds: float = 60.0  # how long to wait for it
    cancel: Callable[[], None] | None = None  # stops what is running, from another thread

    @classmethod
    def of(
        cls,
        function: Callable[..., str],
        *,
        asks: bool = False,
        seconds: float = 60.0,
        cancel: Callable[[], None] | None = None,
    ) -> "Tool":
        """A tool from a function: its name, its docstring, and its parameters with their type hints."""
        description = inspect.getdoc(function) or function.__name__
        parameters = schema_of(function)
        return cls(function.__name__, description, parameters, function, asks, seconds, cancel)


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The JSON schema of a function's parameters; those without a default are required."""
    hints = get_type_hints(function)
    properties = {}
    required = []
    for name, parameter in inspect.signature(function).parameters.items():
        properties[name] = _schema(hints.get(name, str))
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}


def _schema(hint: Any) -> dict[str, Any]:
    """The schema for a type hint. `str | None` is a string that may be left out."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        choices = [_schema(choice) for choice in arguments if choice is not NoneType]
        return choices[0] if len(choices) == 1 else {"anyOf": choices}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is list and arguments:
        return {"type": "array", "items": _schema(arguments[0])}
    if hint is Any:
        return {}
    return {"type": NAMES.get(origin or hint, "string")}


def checked(tool: Tool, arguments: Any) -> dict[str, Any]:
    """The arguments, checked against the schema; raises ToolError, which says what to correct."""
    if not isinstance(arguments, dict):
        raise ToolError(f"the arguments of {tool.name} are not a JSON object: {arguments!r:.200}")
    known = tool.parameters.get("properties", {})
    required = tool.parameters.get("required", ())
    given = {
        name: value for name, value in arguments.items() if value is not None or name in required
    }
    unknown = sorted(given.keys() - known.keys())
    if unknown and tool.parameters.get("additionalProperties") is not True:
        raise ToolError(
            f"{tool.name} has no {', '.join(unknown)}: it takes {', '.join(known) or 'nothing'}"
        )
    missing = [name for name in required if name not in given]
    if missing:
        raise ToolError(f"{tool.name} needs {', '.join(missing)}")
    for name, value in given.items():
        schema = known.get(name, {})
        if not _fits(value, schema):
            raise ToolError(f"{name} of {tool.name} must be {_wanted(schema)}, not {value!r:.100}")
    return given


def _fits(value: Any, schema: Any) -> bool:
    """Whether a value has the schema's type; other constraints are left to the tool."""
    if not isinstance(schema, Mapping):  # True is a schema too
        return True
    if "enum" in schema:
        return value in schema["enum"]
    if "anyOf" in schema:
        return any(_fits(value, choice) for choice in schema["anyOf"])
    wanted = schema.get("type")
    allowed = TYPES.get(wanted) if isinstance(wanted, str) else None
    if allowed is None:
        return True
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        return False
    return not isinstance(value, list) or all(_fits(one, schema.get("items", {})) for one in value)


def _wanted(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return f"one of {', '.join(map(repr, schema['enum']))}"
    if "anyOf" in schema:
        return " or ".join(_wanted(choice) for choice in schema["anyOf"])
    if isinstance(schema.get("items"), Mapping):
        return f"an array, each {_wanted(schema['items'])}"
    return f"of the type {schema.get('type', 'any')}"
