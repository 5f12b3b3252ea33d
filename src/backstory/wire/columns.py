"""The events of a conversation as columns, for the fast path of requests."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from backstory.log.erasure import is_erased
from backstory.log.events import Event


class Columns(NamedTuple):
    """The parts of many events that a model may be given."""

    seqs: Sequence[int]
    kinds: Sequence[str]
    contents: Sequence[str | None]
    data: Sequence[str | None]

    def events(self) -> list[Event]:
        """Return the events, without their times and keys."""
        return [Event(*values, 0, None) for values in zip(*self, strict=True)]


def columns_of(events: Sequence[Event]) -> Columns:
    """Return the columns of events."""
    if not events:
        return Columns((), (), (), ())
    # Unpacking all events together is several times faster than reading their attributes.
    seqs, kinds, contents, data, _, _ = zip(*events, strict=True)
    return Columns(seqs, kinds, contents, data)


def has_erased(texts: Iterable[str | None]) -> bool:
    """Return True if one of these texts is the data of an erased event."""
    return any(map(is_erased, texts))
