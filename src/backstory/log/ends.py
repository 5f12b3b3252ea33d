"""The end of a log, and the rows of new events behind it. Pure.

Rows depend on nothing else, so they can be made before anything is locked, and written if the log still ends
there.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from backstory.log.chain import START, digest_of_bytes
from backstory.log.drafts import EncodedDraft
from backstory.log.events import EncodedRow


class End(NamedTuple):
    """Where a log ends: the newest position, its time, and the digest there."""

    head: int
    updated_us: int
    digest: bytes = START


# `tuple.__new__` runs no Python code, `EncodedRow(…)` would.
_encoded_row: Callable[[tuple[Any, ...]], EncodedRow] = partial(tuple.__new__, EncodedRow)


def rows_behind(
    end: End, drafts: Sequence[EncodedDraft], times: Iterable[int], bases: Iterable[int | None]
) -> tuple[list[EncodedRow], End]:
    """The rows of events behind the end of a log, and where it ends then. No time is before another one."""
    head, newest, digest = end
    rows = []
    for seq, (kind, content, data, key), time, base in zip(
        range(head + 1, head + 1 + len(drafts)), drafts, times, bases, strict=True
    ):
        if time > newest:
            newest = time
        digest = digest_of_bytes(digest, seq, kind, newest, base, key, content, data)
        rows.append(_encoded_row((seq, kind, content, data, newest, key, base, digest)))
    return rows, End(head + len(rows), newest, digest)
