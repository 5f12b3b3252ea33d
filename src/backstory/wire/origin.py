"""Where native content came from, and what its provider accepted when it did."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from backstory.wire.formats.base import Form

# What one service accepted in a request, and others refuse.
SAME_IDS = "same ids"  # calls with the ids of earlier calls
LAST_WORD = "last word"  # a last answer that the model continues
UNPADDED = "unpadded"  # base64 without its padding
FIELDS = "fields"  # fields beside a message's role and content
UNNAMED = "unnamed"  # calls without ids, or a result that does not say which call it answers
REFERRED = "referred"  # results of calls that are only references to the service's store
REPLACED = "replaced"  # (not by the service) what no store can hold was replaced
# Which of these are reported for every format, and by which rule.
TOLD = {
    UNPADDED: (
        "native",
        "base64 in it has no padding, or lacks its end: it goes since its service took it",
    ),
    FIELDS: ("native", "what stood beside the role and the content of its message is left out"),
    REPLACED: (
        "data",
        "what no store can hold (U+0000, half of a surrogate pair) was replaced in it",
    ),
}


class Native(NamedTuple):
    """The provider's own form of a message, tagged with where it came from."""

    provider: str
    model: str | None
    wire: Form
    after: Any = None  # what it came after when the provider accepted it, if that matters
    took: tuple[str, ...] = ()  # what else the provider accepted then: see `loading`


def native_of(data: Mapping[str, Any] | None) -> Native | None:
    """The native content in an event's data; None if there is none to send (only usage, for example)."""
    native = data.get("native") if data else None
    if not isinstance(native, dict) or native.get("wire") is None:
        return None
    return Native(
        str(native.get("provider")),
        native.get("model"),
        native["wire"],
        native.get("after"),
        _took(native),
    )


def told_of(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What has to be reported about an event from a loaded request: rules and reasons."""
    native = data.get("native")
    return (
        [TOLD[mark] for mark in _took(native) if mark in TOLD] if isinstance(native, dict) else []
    )


def _took(native: dict[str, Any]) -> tuple[str, ...]:
    took = native.get("took")
    return tuple(word for word in took if isinstance(word, str)) if isinstance(took, list) else ()
