"""One tool: its name, its description for the model, and the function that prepares an action.

Arguments come from a model, so they are checked against the tool's schema first. Then the tool
prepares an action, which knows what it will do before it does it. The errors tell the model what to
correct.
"""

import inspect
import json
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

Emit = Callable[[str], None]  # takes a piece of the output of an action that is still running


class ToolError(Exception):
    """A tool raises this if it fails; the model reads the message."""


@dataclass(frozen=True)
class Action:
    """One prepared call. `run` does exactly what `target` and `preview` show."""

    tool: str
    effect: Literal["read", "write", "run"]
    target: str  # the resolved path, or the exact command
    run: Callable[[Emit], str]
    preview: str = ""  # the complete change as a diff, or what else is to be known
    is_sensitive: bool = False  # ask even if it only reads; `--yes` does not cover it


@dataclass(frozen=True)
class Tool:
    """Something that a model may call."""

    name: str
    description: str
    parameters: Mapping[str, Any]  # a JSON schema of an object
    prepare: Callable[[dict[str, Any]], Action]  # raises ToolError
    seconds: float = 60.0  # how long to wait for its action
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
        """Make a tool from a function. Its name, docstring and type hints describe it to the
        model. Without `asks`, you declare that the function only reads: it runs without a question
        and beside other calls."""
        name = function.__name__

        def prepare(arguments: dict[str, Any]) -> Action:
            effect: Literal["read", "run"] = "run" if asks else "read"
            target = json.dumps(arguments, ensure_ascii=False)
            return Action(name, effect, target, lambda emit: function(**arguments))

        description = inspect.getdoc(function) or name
        return cls(name, description, schema_of(function), prepare, seconds, cancel)

    @classmethod
    def from_preparation(
        cls,
        function: Callable[..., Action],
        *,
        seconds: float = 60.0,
        cancel: Callable[[], None] | None = None,
    ) -> "Tool":
        """Make a tool from a function that prepares an action."""
        name = function.__name__
        description = inspect.getdoc(function) or name
        schema = schema_of(function)
        return cls(name, description, schema, lambda given: function(**given), seconds, cancel)


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the JSON schema of a function's parameters; those without a default are required."""
    hints = get_type_hints(function)
    properties = {}
    required = []
    for name, parameter in inspect.signature(function).parameters.items():
        properties[name] = _schema(hints.get(name, str))
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}


def _schema(hint: Any) -> dict[str, Any]:
    """Return the schema for a type hint. `str | None` is a string that may be left out."""
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


def check_arguments(tool: Tool, arguments: Any) -> dict[str, Any]:
    """Return the arguments if they fit the schema. Raises ToolError, which says what to correct."""
    if not isinstance(arguments, dict):
        raise ToolError(f"the arguments of {tool.name} are not a JSON object: {arguments!r:.200}")
    required = tool.parameters.get("required", ())
    given = {}
    for name, value in arguments.items():
        if value is not None or name in required:
            given[name] = value
    check_names(tool, given)
    known = tool.parameters.get("properties", {})
    for name, value in given.items():
        schema = known.get(name, {})
        if not _fits(value, schema):
            wanted = _describe_schema(schema)
            raise ToolError(f"{name} of {tool.name} must be {wanted}, not {value!r:.100}")
    return given


def check_names(tool: Tool, given: Mapping[str, Any]) -> None:
    """Raise ToolError if an argument is unknown or missing."""
    known = tool.parameters.get("properties", {})
    unknown = sorted(given.keys() - known.keys())
    if unknown and tool.parameters.get("additionalProperties") is not True:
        takes = ", ".join(known) or "nothing"
        raise ToolError(f"{tool.name} has no {', '.join(unknown)}: it takes {takes}")
    missing = [name for name in tool.parameters.get("required", ()) if name not in given]
    if missing:
        raise ToolError(f"{tool.name} needs {', '.join(missing)}")


def _fits(value: Any, schema: Any) -> bool:
    """Return True if a value has the schema's type; other constraints are left to the tool."""
    if not isinstance(schema, Mapping):  # True is a schema too
        return True
    if "enum" in schema:
        return value in schema["enum"]
    if "anyOf" in schema:
        return any(_fits(value, choice) for choice in schema["anyOf"])
    if not _has_type(value, schema.get("type")):
        return False
    return not isinstance(value, list) or all(_fits(one, schema.get("items", {})) for one in value)


def _has_type(value: Any, wanted: Any) -> bool:
    """Return True if a value has the type that a schema names, or if it names none that is
    known."""
    allowed = TYPES.get(wanted) if isinstance(wanted, str) else None
    if allowed is None:
        return True
    if isinstance(value, bool):
        return bool in allowed
    return isinstance(value, allowed)


def _describe_schema(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return f"one of {', '.join(map(repr, schema['enum']))}"
    if "anyOf" in schema:
        return " or ".join(_describe_schema(choice) for choice in schema["anyOf"])
    if isinstance(schema.get("items"), Mapping):
        return f"an array, each {_describe_schema(schema['items'])}"
    return f"of the type {schema.get('type', 'any')}"
