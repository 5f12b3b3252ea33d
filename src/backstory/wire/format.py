"""What a wire format consists of: what its service accepts, its writers and its readers.

Writers and readers are inverse: `read` takes apart whatever the writers make. A *form* is a message, result
or answer as the provider has it; a *block* is a part of it.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from backstory.wire.rows import clean, refused
from backstory.wire.turns import Call, Media, Part, Unit

PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
Form = Any
Block = Any


class Answered(NamedTuple):
    """The parts of a provider's answer: its form, and what else is worth keeping."""

    form: Form
    model: str | None
    usage: dict[str, int] | None


def usage_of(read: Any, wrote: Any, cached: Any = 0, cache_written: Any = 0) -> dict[str, int]:
    """Tokens as they are kept: all that was read and written, and of it what came from the cache or was put
    there, where something did. What is not a number counts as nothing."""
    found = {"input": read, "output": wrote, "cached": cached, "cache_written": cache_written}
    numbers = {name: count if type(count) is int else 0 for name, count in found.items()}
    return {name: count for name, count in numbers.items() if count or name in ("input", "output")}


def usage_with_details(usage: Any, read: str, wrote: str) -> dict[str, int] | None:
    """Tokens as they are kept, of a usage that has what came from the cache in an object of details."""
    if not isinstance(usage, dict):
        return None
    details = usage.get(f"{read}_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else 0
    return usage_of(usage.get(read), usage.get(wrote), cached)


def concatenated(forms: list[Form]) -> Form | None:
    """Lists of blocks as one list; None for several forms that are not lists."""
    if not all(isinstance(form, list) for form in forms):
        return forms[0] if len(forms) == 1 else None
    return forms[0] if len(forms) == 1 else [block for form in forms for block in form]


class Format(NamedTuple):
    """One provider's request format."""

    name: str
    ids: re.Pattern[str] | None  # what the id of a call looks like; None if the format has no ids
    names: re.Pattern[str]  # what the name of a tool looks like
    # Reading: a body's pieces in the log's order; the parts of a form (role, form, path); an answer, and
    # a stream's events as one.
    units: Callable[[Mapping[str, Any]], Iterator[Unit]]
    read: Callable[[str, Form, str], list[Part]]
    answered: Callable[[Mapping[str, Any]], Answered]
    assembled: Callable[[list[Mapping[str, Any]]], Mapping[str, Any]]
    # Writing: what was said (role, text or blocks, speaker), a block of words, a block of media (also: is
    # it in a result? words where it goes as words, None where it cannot go), a call (id, name, arguments,
    # arguments as text), an answer (texts, calls, speaker), a result (id, name, text or blocks, error, kind).
    said: Callable[[str, str | list[Block], str | None], Form]
    words: Callable[[str], Block]
    media: Callable[[Media, bool], Block | str | None]
    call: Callable[[str, str, dict[str, Any], str | None], Block]
    step: Callable[[Sequence[str], list[Block], str | None], Form]
    result: Callable[[str, str, str | list[Block], bool, str], Form]
    # The body: system forms on top, the roles and forms of the others in order, names of the tools called.
    body: Callable[[list[Form], list[str], list[Form], Iterable[str]], dict[str, Any]]
    # What the service accepts; the defaults are what most do.
    alternates: bool = (
        True  # user and model take turns, and the user has the first and the last word
    )
    system_on_top: bool = True  # leading system text has its own field
    system_in_place: bool = False  # system text may stand between other messages
    result_errors: bool = True  # a tool result can say that it is an error
    empty_results: bool = True  # every model takes a result without content, unless it is an error
    # The pieces of an answer, where it is not always one step: a service may run tools in the middle of it.
    answer_units: Callable[[Form], Iterable[Unit]] | None = None
    top: Callable[[str], Form] | None = (
        None  # system text on top, where that is not what `said` makes
    )
    names_people: bool = False  # a message can name its speaker
    names_file: Callable[[Media], bool] = lambda found: (
        True
    )  # whether this document can have a name
    has_detail: bool = False  # an image can have a level of detail
    media_behind_results: bool = False  # what a result shows goes behind the results of its step
    # Joins the forms of the events of one answer; None if they cannot be joined.
    joined: Callable[[list[Form]], Form | None] = concatenated
    # Whether a block is thinking that must be the first of an answer.
    thinks: Callable[[Block], bool] = lambda block: False
    # A form without what the service refused in a recording, and a report of each change (form, stored?).
    mended: Callable[[Form, bool], tuple[Form, list[str]]] = lambda form, stored: (form, [])
    # Whether a recording says that the service refuses a form of these parts (role, parts).
    refuses: Callable[[str, list[Part]], bool] = lambda role, parts: False
    # Whether a model takes its thinking back without a signature.
    takes_unsigned: Callable[[str | None], bool] = lambda model: False
    # The form of a result for the same call with another id.
    renamed: Callable[[Form, str], Form] = lambda form, key: form
    # The kinds of calls for which `result` can write an output.
    kinds: frozenset[str] = frozenset({""})
    # A body made of forms that we did not make, without what the service refuses in a whole request.
    finished: Callable[[dict[str, Any]], tuple[dict[str, Any], list[str]]] = lambda body: (body, [])
    # A form that JSON cannot hold (bytes) is kept in the log in another: packed.
    pack: Callable[[Form], Form] = lambda form: form
    unpack: Callable[[Form], Form] = lambda form: form


class Arguments(NamedTuple):
    """The arguments of a call, as every service accepts them."""

    value: dict[str, Any]
    text: str | None  # the original text, if it was text with this meaning
    same: bool  # is nothing lost or changed?


def arguments_of(raw: Any) -> Arguments:
    """The arguments of a call as an object, and the text that they were given as."""
    if isinstance(raw, dict):
        return Arguments(raw, None, True)
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        return Arguments({}, None, True)
    if not isinstance(raw, str):
        return Arguments({"_value": raw}, None, False)
    try:
        given = json.loads(raw, parse_constant=refused)
    except (ValueError, RecursionError):
        return Arguments({"_invalid_json": raw}, None, False)
    value = clean(given)
    if not isinstance(value, dict):
        return Arguments({"_value": value}, None, False)
    return Arguments(value, raw if value == given else None, value == given)


def is_json(text: str | None) -> bool:
    """Whether a text is JSON that every service can read."""
    match arguments_of(text):
        case Arguments({"_value": value}, same=False):
            return bool(value == json.loads(text or ""))
    return False


def call_of(id: str | None, name: str, arguments: str, kind: str = "") -> Call:
    """A call whose arguments are text on the wire."""
    value, _, same = arguments_of(arguments)
    return Call(id, name, value, arguments, same, kind)


def merged(
    roles: list[str], forms: list[Form], as_blocks: Callable[[Form], list[Block]]
) -> Iterator[tuple[str, Form]]:
    """Rule 9, the first half: neighbours of one role are one message, results first because they
    come first. A single form stays as it is."""
    run: list[Form] = []
    last = ""
    for role, form in zip(roles, forms, strict=True):
        if role != last and run:
            yield (
                last,
                run[0] if len(run) == 1 else [block for one in run for block in as_blocks(one)],
            )
            run = []
        run.append(form)
        last = role
    if run:
        yield last, run[0] if len(run) == 1 else [block for one in run for block in as_blocks(one)]
