"""Events in portions that PostgreSQL takes in one call."""

from backstory.errors import Invalid
from backstory.storage.protocols import BasedDrafts

BATCH = 5_000  # events in one call; a larger append is several, in one transaction
# PostgreSQL takes no message, value or row of 1 GB; a client that sends one is cut off. In an array, quotes
# and backslashes take twice as much.
LARGEST_EVENT = 1_000_000_000  # bytes of content and data
LARGEST_BATCH = 250_000_000


def batches(events: BasedDrafts) -> list[BasedDrafts]:
    """The same events in portions that fit into one call. Raises Invalid for one that never will."""
    found: list[BasedDrafts] = []
    start = size = 0
    for place, (draft, _) in enumerate(events):
        bytes = size_of(draft.content, draft.data_json)
        if place > start and (size + bytes > LARGEST_BATCH or place - start == BATCH):
            found.append(events[start:place])
            start, size = place, 0
        size += bytes
    return [*found, events[start:]]


def size_of(content: str | None, data_json: str | None) -> int:
    """About the bytes that an event takes, and exactly where it may matter. Raises Invalid where it is too
    large."""
    texts = [text for text in (content, data_json) if text]
    size = sum(map(len, texts))
    if size * 4 <= LARGEST_EVENT:  # a character is four bytes at most
        return size
    size = sum(len(text.encode()) for text in texts)
    if size > LARGEST_EVENT:
        raise Invalid(
            f"an event of {size:,} bytes is too large for PostgreSQL, which takes {LARGEST_EVENT:,}",
            remedy="keep what is larger in a file, and its path in the event",
        )
    return size
