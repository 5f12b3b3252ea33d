"""What a wire format is to the rest: a record of what its service accepts, its writers and its readers.

Writers and readers are a pair: whatever `write_…` makes, `read` takes apart again.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from backstory.wire.rows import clean, refused
from backstory.wire.turns import Answer, Asked, Call, Part, Say, Step, Turn, Unit

PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Format(NamedTuple):
    """One provider's request format."""

    name: str
    ids: re.Pattern[str] | None  # what a call's id looks like; None: there are none on the wire
    names: re.Pattern[str]  # what a tool's name looks like
    alternates: bool  # user and model take turns, and the user has the first and the last word
    system_on_top: bool  # leading system text has a place of its own
    system_in_place: bool  # system text may stand between other messages
    calls_come_last: bool  # nothing may follow a call in the model's message
    image_types: frozenset[str]
    image_urls: bool
    result_images: bool  # a tool result may hold images
    result_errors: bool  # a tool result can say that it is an error
    units: Callable[[Mapping[str, Any]], Iterator[Unit]]  # a body's pieces, in the log's order
    read: Callable[[str, Any, str], list[Part]]  # the parts of a unit's own form: role, form, path
    write_say: Callable[[Say], Any]
    write_step: Callable[[Step], Any]
    write_answer: Callable[[Asked, Answer], Any]
    body: Callable[[list[Say], list[Turn]], dict[str, Any]]
    # The body of a history that needs no repair, if that is quickly seen; else None.
    quick: Callable[[Sequence[Any]], dict[str, Any] | None] = lambda messages: None
    # A form that JSON cannot hold (bytes) is kept in the log in another: packed.
    pack: Callable[[Any], Any] = lambda form: form
    unpack: Callable[[Any], Any] = lambda form: form
    # The same form without the ids of things that the service was told not to store.
    unstored: Callable[[Any], Any] = lambda form: form


def arguments_of(raw: Any) -> tuple[dict[str, Any], bool]:
    """A call's arguments as the object that every service accepts, and whether that says just the same."""
    if isinstance(raw, dict):
        return raw, True
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        return {}, True
    if not isinstance(raw, str):
        return {"_value": raw}, False
    try:
        given = json.loads(raw, parse_constant=refused)
    except (ValueError, RecursionError):
        return {"_invalid_json": raw}, False
    value = clean(given)
    return (value, value == given) if isinstance(value, dict) else ({"_value": value}, False)


def call_of(id: str, name: str, arguments: str) -> Call:
    """A call whose arguments are text on the wire. What is no JSON object stays at hand as it came."""
    mended, same = arguments_of(arguments)
    return Call(id, name, mended, None if same and arguments.strip() else arguments)


def forms(turns: Iterable[Turn], format: Format) -> Iterator[tuple[str, Any]]:
    """The user's and the model's forms in their order, each with its role."""
    for turn in turns:
        if isinstance(turn, Say):
            yield "user", format.write_say(turn) if turn.wire is None else turn.wire
            continue
        yield "model", format.write_step(turn) if turn.wire is None else turn.wire
        for call in turn.order or turn.calls:
            answer = call.answer
            if answer is not None:
                yield "user", format.write_answer(call, answer) if answer.wire is None else answer.wire


def merged(turns: Iterable[Turn], format: Format, as_blocks: Callable[[Any], Any]) -> list[tuple[str, Any]]:
    """Rule 9, the first half: neighbours of one role are one message, results first because they
    come first. Returns roles and contents."""
    runs: list[tuple[str, list[Any]]] = []
    for role, form in forms(turns, format):
        if runs and runs[-1][0] == role:
            runs[-1][1].append(form)
        else:
            runs.append((role, [form]))
    return [(role, joined(wires, as_blocks)) for role, wires in runs]


def joined(wires: list[Any], as_blocks: Callable[[Any], Any]) -> Any:
    """The content of one message made of several forms; a single form stays as it is."""
    if len(wires) == 1:
        return wires[0]
    return [block for wire in wires for block in as_blocks(wire)]
