"""Where native content came from, and what its provider accepted when it did."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from backstory.wire.format import Form

# What one service was seen to take in a request, and others to refuse.
SAME_IDS = "same ids"  # calls with ids that earlier calls had
LAST_WORD = "last word"  # an answer that the model goes on from


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
    took = native.get("took")
    return Native(
        str(native.get("provider")),
        native.get("model"),
        native["wire"],
        native.get("after"),
        tuple(word for word in took if isinstance(word, str)) if isinstance(took, list) else (),
    )
