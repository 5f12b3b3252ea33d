"""What a stored agent or event may be: one set of rules for imports and for `verify`. Appends follow stricter
rules (`core.events`): only known kinds, and data that is read back unchanged. Pure: every function returns
what is wrong, as a sentence, and raises nothing.
"""

import re
from collections.abc import Iterator
from typing import Any

from backstory.log.about import wrong_about
from backstory.log.chain import ERASED
from backstory.log.erasure import wrong_erasure
from backstory.log.events import LATEST, LONGEST_KEY, parse_object
from backstory.log.kinds import NEEDS_CONTENT, SPOKEN

# An unknown kind is kept and has no effect, but it must be a word, so that it cannot control a terminal.
_KIND = re.compile("[a-z][a-z0-9_]{0,63}")
_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def is_kind(value: Any) -> bool:
    """Whether this can be the kind of an event."""
    return isinstance(value, str) and _KIND.fullmatch(value) is not None


def is_id(value: Any) -> bool:
    """Whether this is an id as backstory writes it."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def is_time(value: Any) -> bool:
    """Whether this is a valid time: microseconds from 1970 to the end of 9999."""
    return type(value) is int and 0 <= value <= LATEST


def wrong_event(
    kind: Any, content: Any, data_json: Any, created_us: Any, key: Any
) -> Iterator[str]:
    """What is wrong with the values of an event."""
    if not is_kind(kind):
        yield "its kind is not a word of small letters"
    if content is None and kind in NEEDS_CONTENT:
        yield "the message has no content"
    elif content is None and data_json is None and kind in SPOKEN:
        yield "the tool call has no data"
    if not all(value is None or _is_storable(value) for value in (content, data_json, key)):
        yield "its content, data and key must be text, without a NUL character or half of a surrogate pair"
    if key is not None and not 1 <= len(str(key)) <= LONGEST_KEY:
        yield f"its key does not have 1 to {LONGEST_KEY} characters"
    if not is_time(created_us):
        yield "its time is not between 1970 and 9999"
    said = parse_object(data_json) if isinstance(data_json, str) and ERASED in data_json else None
    wrong = wrong_erasure(str(kind), content, said) if said and ERASED in said else None
    if wrong is not None:
        yield wrong


def wrong_agent(
    id: Any, session: Any, parent: Any, created_us: Any, key: Any, about: Any
) -> Iterator[str]:
    """What is wrong with the values of an agent."""
    for value in (id, session) if parent is None else (id, session, parent):
        if not is_id(value):
            yield f"{value!r:.60} is not an id"
    if (parent is None) != (id == session):
        yield "only the root of a session has the session's id, and only it has no parent"
    if not is_time(created_us):
        yield "its time is not between 1970 and 9999"
    if key is not None and not (_is_storable(key) and 1 <= len(key) <= LONGEST_KEY):
        yield f"its key does not have 1 to {LONGEST_KEY} characters"
    wrong = (
        wrong_about(about)
        if about is None or _is_storable(about)
        else "what is kept beside it is not a text"
    )
    if wrong is not None:
        yield wrong


def _is_storable(value: Any) -> bool:
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
