"""Where native content came from, and what its provider accepted when it did."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from backstory.wire.format import Form

# What one service was seen to take in a request, and others to refuse.
SAME_IDS = "same ids"  # calls with ids that earlier calls had
LAST_WORD = "last word"  # an answer that the model goes on from
UNPADDED = "unpadded"  # base64 without its padding
FIELDS = "fields"  # fields beside a message's role and content
UNNAMED = "unnamed"  # a result that does not say which call it answers
REFERRED = "referred"  # results of calls that only references to the service's store stand for
REPLACED = "replaced"  # (not the service's doing) what no store can hold is written otherwise
# What of these is told wherever the event goes, by which rule.
TOLD = {
    UNPADDED: ("native", "base64 in it has no padding, or lacks its end: it goes since its service took it"),
    FIELDS: ("native", "what stood beside the role and the content of its message is left out"),
    REPLACED: ("data", "what no store can hold (U+0000, half of a surrogate pair) was replaced in it"),
}


class Native(NamedTuple):
    """The provider's own form of a message, tagged with where it came from."""

    provider: str
    model: str | None
    wire: Form
    after: Any = None  # what it stood behind when the provider accepted it, where that counts
    took: tuple[str, ...] = ()  # what else the provider accepted then: see `loader`


def native_of(data: Mapping[str, Any] | None) -> Native | None:
    """The native content in an event's data; None where there is none to send (usage alone, say)."""
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
    """What has to be told about an event as it was loaded: rules and reasons."""
    native = data.get("native")
    return [TOLD[mark] for mark in _took(native) if mark in TOLD] if isinstance(native, dict) else []


def _took(native: dict[str, Any]) -> tuple[str, ...]:
    took = native.get("took")
    return tuple(word for word in took if isinstance(word, str)) if isinstance(took, list) else ()
