"""Splits events into batches that fit into one call to PostgreSQL."""

from backstory.errors import Invalid
from backstory.storage.protocols import BasedDrafts

BATCH = 5_000  # events per call; a larger append is several calls in one transaction
# PostgreSQL limits messages, values and rows to 1 GB, and drops a connection that sends more. In an array,
# quotes and backslashes take two bytes.
LARGEST_EVENT = 1_000_000_000  # bytes of content and data
LARGEST_BATCH = 250_000_000


def batches(events: BasedDrafts) -> list[BasedDrafts]:
    """The events in batches that fit into one call; an event that is too large for an array is alone in its
    batch. Raises Invalid if an event is too large for any call."""
    found: list[BasedDrafts] = []
    start = size = 0
    for place, (draft, _) in enumerate(events):
        bytes = size_of(draft.content, draft.data_json)
        if place > start and (size + bytes > LARGEST_BATCH or place - start == BATCH):
            found.append(events[start:place])
            start, size = place, 0
        size += bytes
    return [*found, events[start:]]


def fit_into_arrays(events: BasedDrafts) -> bool:
    """Whether one call can take the events as arrays."""
    return (
        len(events) <= BATCH
        and sum(size_of(d.content, d.data_json) for d, _ in events) <= LARGEST_BATCH
    )


def size_of(content: str | None, data_json: str | None) -> int:
    """The size of an event in bytes: an estimate, but exact for large events. Raises Invalid if it is too
    large."""
    size = len(content or "") + len(data_json or "")
    if size * 4 <= LARGEST_EVENT:  # a character takes at most four bytes
        return size
    size = sum(len(text.encode()) for text in (content, data_json) if text)
    if size > LARGEST_EVENT:
        raise Invalid(
            f"an event of {size:,} bytes is too large for PostgreSQL, which takes at most {LARGEST_EVENT:,}",
            remedy="put the content in a file, and its path in the event",
        )
    return size
