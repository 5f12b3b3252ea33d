"""Gemini's calls whose arguments were streamed in pieces (`streamFunctionCallArguments`), put together. Pure.

The first part has the name. Each further one has pieces of the arguments, by the JSON path of their place,
until one does not say that the call goes on.
"""

import re
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any

from backstory.wire.json_values import write_json

CALL = ("functionCall", "function_call")
CONTINUES = ("willContinue", "will_continue")
PIECES = ("partialArgs", "partial_args")
PATH = ("jsonPath", "json_path")
VALUES = ("stringValue", "string_value", "numberValue", "number_value", "boolValue", "bool_value")
# A name behind a dot, an index, or a name in quotes.
_KEY = re.compile(r"""\.([^.\[]+)|\[(\d{1,9})\]|\[(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\]""")
_WHOLE_PATH = re.compile(rf"\$?(?:{_KEY.pattern})+")
MOST_SKIPPED = 1000  # items of a list that no path names: more would be a way to fill the memory


def whole_calls(parts: Iterable[Any], *, is_over: bool) -> list[Any]:
    """The parts of a stream with each call in one part. If the stream is not over, the arguments of a call
    that would go on are not what the model meant, and no tool may run with them."""
    found: list[Any] = []
    open: int | None = None  # where the call is that goes on
    for part in parts:
        name = next(
            (name for name in CALL if isinstance(part, Mapping) and part.get(name) is not None),
            None,
        )
        if name is None:
            found.append(part)
            continue
        call = part[name]
        if open is not None and call.get("name") in (None, "", found[open][name].get("name")):
            begun = found[open]
            beside = {
                key: value for key, value in part.items() if key != name and value is not None
            }
            found[open] = {**begun, **beside, name: _with_pieces(begun[name], call)}
        else:
            open = len(found)
            found.append({**part, name: _with_pieces({}, call)} if _is_partial(call) else part)
        open = open if _either(call, CONTINUES) else None
    if open is not None and not is_over:
        found[open] = _cut(found[open])
    return found


def _cut(part: Mapping[str, Any]) -> dict[str, Any]:
    """A call that was cut off, as one whose arguments are not JSON."""
    [name] = (name for name in CALL if part.get(name) is not None)
    call = part[name]
    return {**part, name: {**call, "args": {"_invalid_json": write_json(call.get("args") or {})}}}


def _is_partial(call: Mapping[str, Any]) -> bool:
    return any(name in call for name in (*CONTINUES, *PIECES))


def _either(value: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((value[name] for name in names if value.get(name) is not None), None)


def _with_pieces(call: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """A call with what a further part says of it."""
    own = {key: value for key, value in more.items() if key not in (*CONTINUES, *PIECES)}
    whole = {**call, **deepcopy(own)}  # what is in the arguments grows, and is not ours
    pieces = _either(more, PIECES) or ()
    if pieces:
        arguments = dict(whole.get("args") or {})
        for piece in pieces:
            _put(arguments, _keys(_either(piece, PATH) or ""), _either(piece, VALUES))
        whole["args"] = arguments
    return whole


def _keys(path: str) -> list[str | int]:
    if not _WHOLE_PATH.fullmatch(path):
        raise ValueError(f"{path!r} is not a place in a call's arguments")
    found = _KEY.findall(path)
    return [
        int(index) if index else name or _plain(single or double)
        for name, index, single, double in found
    ]


def _plain(quoted: str) -> str:
    return re.sub(r"\\(.)", r"\1", quoted)


def _put(inside: Any, keys: list[str | int], value: Any) -> None:
    """Put a value in its place, or add it to the text that is there; what it is in is made on the way."""
    *parents, last = keys
    for key, following in zip(parents, keys[1:], strict=True):
        inside = _at(inside, key, [] if isinstance(following, int) else {})
    before = _at(inside, last, None)
    inside[last] = before + value if isinstance(before, str) and isinstance(value, str) else value


def _at(inside: Any, key: str | int, empty: Any) -> Any:
    if isinstance(key, int):
        if key - len(inside) > MOST_SKIPPED:
            raise LookupError(f"item {key} of a list of {len(inside)}")
        inside.extend([None] * (key + 1 - len(inside)))
    elif key not in inside:
        inside[key] = None
    if inside[key] is None:
        inside[key] = empty
    return inside[key]
