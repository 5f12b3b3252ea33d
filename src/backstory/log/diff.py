"""Compares two contexts: what they share, and where they differ, down to the words.

Pure: it compares events that the caller has read.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice, zip_longest
from typing import NamedTuple

from backstory.errors import Invalid
from backstory.log.events import Event, parse_object, to_json
from backstory.log.messages import BOOKKEEPING
from backstory.log.replay import Explanation

MOST_MESSAGES = 2_000  # beyond this, messages are only compared from both ends
MOST_WORDS = 4_000  # beyond this, texts are compared line by line
ALIKE = 0.5  # the part of a message that must be the same for it to count as changed, not replaced

_BESIDE = BOOKKEEPING | {"native"}
_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_LINES = re.compile(r"[^\n]*\n|[^\n]+")


class Edit(NamedTuple):
    """A piece of text that both have ("="), only the left ("-") or only the right ("+")."""

    op: str
    text: str


class Change(NamedTuple):
    """One message that differs: removed (left only), added (right only) or changed."""

    left: Event | None
    right: Event | None
    words: tuple[Edit, ...] = ()
    why: Explanation | None = None  # what took it out of the other context, if that is known

    @property
    def op(self) -> str:
        """What became of the message, seen from the left."""
        if self.left and self.right:
            return "changed"
        return "removed" if self.left else "added"


class Comparison(NamedTuple):
    """How two contexts differ."""

    common: int  # messages that both have
    changes: list[Change]
    only_left: int = (
        0  # messages that only the left has, changed ones included, on all pages together
    )
    only_right: int = 0
    more: bool = False  # whether other changes follow


Pair = tuple[Event | None, Event | None]


def compare(
    left: Sequence[Event],
    right: Sequence[Event],
    *,
    after: Change | None = None,
    limit: int | None = None,
) -> Comparison:
    """Compare messages by what they say, not by their times. At most `limit` changes after the last one of
    the previous page are returned; only these are compared word by word."""
    start = _same_from_start(left, right)
    end = _same_from_start(left[start:][::-1], right[start:][::-1])
    mine, theirs = left[start : len(left) - end], right[start : len(right) - end]
    blocks = [block for block in _opcodes(mine, theirs) if block[0] != "equal"]
    pairs = [pair for _, a, b, c, d in blocks for pair in zip_longest(mine[a:b], theirs[c:d])]
    only_left = sum(one is not None for one, _ in pairs)
    changes = _changes(pairs if after is None else _behind(pairs, after), after)
    page = list(islice(changes, limit))
    more = next(changes, None) is not None
    return Comparison(
        len(left) - only_left, page, only_left, len(right) - (len(left) - only_left), more
    )


def _behind(pairs: Sequence[Pair], after: Change) -> Sequence[Pair]:
    """The pairs that start with the one that a change came from."""
    side = 0 if after.left else 1
    last = (after.left, after.right)[side]
    for place, pair in enumerate(pairs):
        event = pair[side]
        if event is not None and last is not None and event.seq == last.seq:
            return pairs[place:]
    raise Invalid("the contexts have no such difference", remedy="name positions, or begin again")


def _changes(pairs: Sequence[Pair], after: Change | None) -> Iterator[Change]:
    for place, (left, right) in enumerate(pairs):
        found = _paired(left, right)
        if place == 0 and after is not None:
            found = found[2 if after.left is None else 1 :]
        yield from found


def _opcodes(
    mine: Sequence[Event], theirs: Sequence[Event]
) -> list[tuple[str, int, int, int, int]]:
    if max(len(mine), len(theirs)) > MOST_MESSAGES:
        return [("replace", 0, len(mine), 0, len(theirs))]
    keys = SequenceMatcher(None, list(map(_key, mine)), list(map(_key, theirs)), autojunk=False)
    return list(keys.get_opcodes())


def _key(event: Event) -> tuple[str, str | None, str | None]:
    return event.kind, event.content, _said(event)


def _said(event: Event) -> str | None:
    """What counts in the data. In an answer, nothing does: its usage, request and sealed content differ each
    time, even if the text is the same."""
    if event.data_json is None or event.kind == "assistant":
        return None
    if not any(name in event.data_json for name in _BESIDE):
        return event.data_json
    data = parse_object(event.data_json) or {}
    said = {name: value for name, value in data.items() if name not in _BESIDE}
    return to_json(said) if said else None


def _same_from_start(left: Sequence[Event], right: Sequence[Event]) -> int:
    same = 0
    for one, other in zip(left, right, strict=False):
        if _key(one) != _key(other):
            break
        same += 1
    return same


def _paired(left: Event | None, right: Event | None) -> list[Change]:
    """Pair similar messages at the same place: they count as one that changed."""
    if left and right and left.kind == right.kind:
        edits = _edits(_text(left), _text(right))
        if _likeness(edits) >= ALIKE:
            return [Change(left, right, tuple(edits))]
    removed = [Change(left, None)] if left else []
    return removed + ([Change(None, right)] if right else [])


def _text(event: Event) -> str:
    return "\n".join(text for text in (event.content, _said(event)) if text)


def _edits(left: str, right: str) -> list[Edit]:
    a, b = _WORDS.findall(left), _WORDS.findall(right)
    if max(len(a), len(b)) > MOST_WORDS:
        a, b = _LINES.findall(left), _LINES.findall(right)
    found = []
    for op, i, j, k, m in SequenceMatcher(None, a, b, autojunk=len(a) > MOST_WORDS).get_opcodes():
        if op == "equal":
            found.append(Edit("=", "".join(a[i:j])))
            continue
        found += [
            Edit(sign, "".join(text)) for sign, text in (("-", a[i:j]), ("+", b[k:m])) if text
        ]
    return found


def _likeness(edits: Sequence[Edit]) -> float:
    same = 2 * sum(len(edit.text.split()) for edit in edits if edit.op == "=")
    total = same + sum(len(edit.text.split()) for edit in edits if edit.op != "=")
    return same / total if total else 0.0
