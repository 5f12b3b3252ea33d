"""Two contexts side by side: what they share, and what each has of its own, down to the words.

Pure: it compares events that the caller has read.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from backstory.core.events import Event

MOST_MESSAGES = 2_000  # beyond, messages are only compared from both ends
MOST_WORDS = 4_000  # beyond, texts are compared line by line
ALIKE = 0.5  # how much of a message has to be the same for it to count as changed, not replaced

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


def compare(left: Sequence[Event], right: Sequence[Event]) -> Comparison:
    """Compare messages by what they say; when they were said does not matter."""
    start = _same_from_start(left, right)
    end = _same_from_start(left[start:][::-1], right[start:][::-1])
    mine, theirs = left[start : len(left) - end], right[start : len(right) - end]
    changes: list[Change] = []
    common = start + end
    for op, a, b, c, d in _opcodes(mine, theirs):
        if op == "equal":
            common += b - a
        else:
            changes += _paired(mine[a:b], theirs[c:d])
    return Comparison(common, changes)


def _opcodes(mine: Sequence[Event], theirs: Sequence[Event]) -> list[tuple[str, int, int, int, int]]:
    if max(len(mine), len(theirs)) > MOST_MESSAGES:
        return [("replace", 0, len(mine), 0, len(theirs))]
    keys = SequenceMatcher(None, list(map(_key, mine)), list(map(_key, theirs)), autojunk=False)
    return list(keys.get_opcodes())


def _key(event: Event) -> tuple[str, str | None, str | None]:
    return event.kind, event.content, event.data_json


def _same_from_start(left: Sequence[Event], right: Sequence[Event]) -> int:
    same = 0
    for one, other in zip(left, right, strict=False):
        if _key(one) != _key(other):
            break
        same += 1
    return same


def _paired(mine: Sequence[Event], theirs: Sequence[Event]) -> Iterator[Change]:
    """Messages at the same place that are alike are one that changed."""
    for index in range(max(len(mine), len(theirs))):
        left = mine[index] if index < len(mine) else None
        right = theirs[index] if index < len(theirs) else None
        if left and right:
            edits = _edits(_text(left), _text(right))
            if left.kind == right.kind and _likeness(edits) >= ALIKE:
                yield Change(left, right, tuple(edits))
                continue
        if left:
            yield Change(left, None)
        if right:
            yield Change(None, right)


def _text(event: Event) -> str:
    return "\n".join(text for text in (event.content, event.data_json) if text)


def _edits(left: str, right: str) -> list[Edit]:
    a, b = _WORDS.findall(left), _WORDS.findall(right)
    if max(len(a), len(b)) > MOST_WORDS:
        a, b = _LINES.findall(left), _LINES.findall(right)
    found = []
    for op, i, j, k, m in SequenceMatcher(None, a, b, autojunk=len(a) > MOST_WORDS).get_opcodes():
        if op == "equal":
            found.append(Edit("=", "".join(a[i:j])))
            continue
        found += [Edit(sign, "".join(text)) for sign, text in (("-", a[i:j]), ("+", b[k:m])) if text]
    return found


def _likeness(edits: Sequence[Edit]) -> float:
    same = 2 * sum(len(edit.text.split()) for edit in edits if edit.op == "=")
    total = same + sum(len(edit.text.split()) for edit in edits if edit.op != "=")
    return same / total if total else 0.0
