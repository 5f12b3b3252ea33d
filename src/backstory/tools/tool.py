"""One tool: its name, what the model is told of it, and the function that runs.

Arguments come from a model, so they are checked against the tool's own schema before anything
runs; what is wrong with them is said in words that the model can act upon.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object"}


class ToolError(Exception):
    """A tool's own way of saying that it could not do it; the model gets to read it."""


@dataclass(frozen=True)
class Tool:
    """Something that a model may call."""

    name: str
    description: str
    parameters: Mapping[str, Any]  # a JSON schema of an object
    run: Callable[..., str]
    asks: bool = False  # must somebody agree before it runs?
    seconds: float = 60.0  # how long anybody waits for it
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
        """A tool from a function: its name, its docstring, and its parameters by their type hints."""
        description = inspect.getdoc(function) or function.__name__
        parameters = schema_of(function)
        return cls(function.__name__, description, parameters, function, asks, seconds, cancel)


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The JSON schema of a function's parameters; those without a default are required."""
    hints = get_type_hints(function)
    properties = {}
    required = []
    for name, parameter in inspect.signature(function).parameters.items():
        properties[name] = {"type": NAMES.get(_bare(hints.get(name, str)), "string")}
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required}


def _bare(hint: Any) -> Any:
    """list of list[str], str of str | None."""
    origin = getattr(hint, "__origin__", None)
    if origin is not None:
        return origin
    choices = [choice for choice in getattr(hint, "__args__", ()) if choice is not type(None)]
    return _bare(choices[0]) if len(choices) == 1 else hint


def checked(tool: Tool, arguments: Any) -> dict[str, Any]:
    """Arguments that the tool can be run with; raises ToolError that says what to mend."""
    if not isinstance(arguments, dict):
        raise ToolError(f"the arguments of {tool.name} are not a JSON object: {arguments!r:.200}")
    known = tool.parameters.get("properties", {})
    required = tool.parameters.get("required", ())
    given = {name: value for name, value in arguments.items() if value is not None or name in required}
    unknown = sorted(given.keys() - known.keys())
    if unknown and tool.parameters.get("additionalProperties") is not True:
        raise ToolError(f"{tool.name} has no {', '.join(unknown)}: it takes {', '.join(known) or 'nothing'}")
    missing = [name for name in required if name not in given]
    if missing:
        raise ToolError(f"{tool.name} needs {', '.join(missing)}")
    for name, value in given.items():
        _check_type(tool, name, value, known.get(name, {}).get("type"))
    return given


def _check_type(tool: Tool, name: str, value: Any, wanted: Any) -> None:
    allowed = TYPES.get(wanted) if isinstance(wanted, str) else None
    if allowed is None:
        return
    if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
        raise ToolError(f"{name} of {tool.name} must be of the type {wanted}, not {value!r:.100}")
