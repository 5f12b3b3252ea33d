"""Problems of values that were not checked as new ones: those of a damaged store or of an export.

`find_…_problems` functions describe each problem and raise nothing.
"""

import re
from collections.abc import Iterator
from typing import Any

from backstory.errors import Invalid
from backstory.log.arguments import LONGEST_KEY, change_about, find_text_problem
from backstory.log.data_keys import ERASED
from backstory.log.erasure import find_erasure_problem
from backstory.log.events import parse_object
from backstory.log.kinds import NEEDS_CONTENT, TOOL_KINDS
from backstory.log.times import LATEST_US

# An unknown kind is stored and has no effect, but it must be a word: it cannot control a terminal.
KIND_PATTERN = re.compile("[a-z][a-z0-9_]{0,63}")
ID_PATTERN = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_kind(value: Any) -> bool:
    """Return True if `value` can be the kind of a stored event. It may be an unknown kind."""
    return isinstance(value, str) and KIND_PATTERN.fullmatch(value) is not None


def is_id(value: Any) -> bool:
    """Return True if `value` is an id as backstory writes it."""
    return isinstance(value, str) and ID_PATTERN.fullmatch(value) is not None


def is_time(value: Any) -> bool:
    """Return True if `value` is a time: microseconds from 1970 to the end of 9999."""
    return type(value) is int and 0 <= value <= LATEST_US


def is_storable(value: Any) -> bool:
    """Return True if `value` is text that every store can contain."""
    return isinstance(value, str) and find_text_problem(value) is None


def find_event_problems(
    kind: Any, content: Any, data_json: Any, created_us: Any, key: Any
) -> Iterator[str]:
    """Describe each problem of a stored event or of one that an export contains.

    A new event follows stricter rules: see `checks.check_draft`.
    """
    if not is_kind(kind):
        yield "its kind is not a word of small letters"
    else:
        yield from _find_missing_parts(kind, content, data_json)
    for name, text in (("content", content), ("data", data_json), ("key", key)):
        if text is not None:
            yield from _find_text_problems(name, text)
    if key is not None and not 1 <= len(str(key)) <= LONGEST_KEY:
        yield f"its key does not have 1 to {LONGEST_KEY} characters"
    if not is_time(created_us):
        yield "its time is not between 1970 and 9999"
    if isinstance(data_json, str) and ERASED in data_json:
        yield from _find_erasure_problems(kind, content, data_json)


def _find_text_problems(name: str, text: Any) -> Iterator[str]:
    if not isinstance(text, str):
        yield f"its {name} is not text"
        return
    problem = find_text_problem(text)
    if problem is not None:
        yield f"its {name} {problem.message}"


def _find_missing_parts(kind: str, content: Any, data_json: Any) -> Iterator[str]:
    if kind in NEEDS_CONTENT and content is None:
        yield "its content is missing"
    if kind in TOOL_KINDS and data_json is None:
        yield "its data is missing"


def _find_erasure_problems(kind: Any, content: Any, data_json: str) -> Iterator[str]:
    data = parse_object(data_json)
    if data is None or ERASED not in data:
        return
    problem = find_erasure_problem(str(kind), content, data)
    if problem is not None:
        yield problem


def find_agent_problems(
    id: Any, session: Any, parent: Any, created_us: Any, key: Any, about: Any
) -> Iterator[str]:
    """Describe each problem of a stored agent or of one that an export contains."""
    ids = (id, session) if parent is None else (id, session, parent)
    for value in ids:
        if not is_id(value):
            yield f"{value!r:.60} is not an id"
    if (parent is None) != (id == session):
        yield "only the root of a session has the session's id, and only it has no parent"
    if not is_time(created_us):
        yield "its time is not between 1970 and 9999"
    if key is not None and not (is_storable(key) and 1 <= len(key) <= LONGEST_KEY):
        yield f"its key does not have 1 to {LONGEST_KEY} characters"
    if about is not None:
        yield from _find_about_problems(about)


def _find_about_problems(about: Any) -> Iterator[str]:
    if not is_storable(about):
        yield "its details are not text"
        return
    details = parse_object(about)
    if details is None:
        yield "its details are not a JSON object"
        return
    try:
        change_about(None, details)
    except Invalid as error:
        yield error.message
