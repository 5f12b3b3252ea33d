"""Compares two contexts: the messages that both have, and those that differ, down to the words."""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import islice, zip_longest
from typing import Literal, NamedTuple

from backstory.errors import Invalid
from backstory.log.data_keys import NATIVE
from backstory.log.events import Event, parse_object, to_json
from backstory.log.messages import BOOKKEEPING
from backstory.log.replay import Explanation

MOST_MESSAGES = 2_000  # beyond this, messages are only compared from both ends
MOST_WORDS = 4_000  # beyond this, texts are compared line by line
LEAST_LIKENESS = 0.5  # the part that must be equal for a message to be changed, not replaced

IGNORED_KEYS = BOOKKEEPING | {NATIVE}
WORDS = re.compile(r"\s+|\w+|[^\w\s]")
LINES = re.compile(r"[^\n]*\n|[^\n]+")


class Edit(NamedTuple):
    """A piece of text that both have ("="), only the left ("-") or only the right ("+")."""

    op: Literal["=", "-", "+"]
    text: str


class Change(NamedTuple):
    """One message that differs: removed (left only), added (right only) or changed."""

    left: Event | None
    right: Event | None
    words: tuple[Edit, ...] = ()
    why: Explanation | None = None  # what took it out of the other context, if that is known

    @property
    def op(self) -> str:
        """The change of the message, seen from the left."""
        if self.left is None:
            return "added"
        return "removed" if self.right is None else "changed"


class Comparison(NamedTuple):
    """The differences of two contexts."""

    common: int  # messages that both have
    changes: list[Change]
    only_left: int = 0  # messages that only the left has, changed ones included, on all pages
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
    """Compare messages by their content, not by their times.

    Returns at most `limit` changes after the last one of the previous page. Only these are compared
    word by word.
    """
    pairs = _pair_differences(left, right)
    only_left = sum(1 for one, _ in pairs if one is not None)
    common = len(left) - only_left
    changes = _iterate_changes(pairs, after)
    page = list(islice(changes, limit))
    has_more = next(changes, None) is not None
    only_right = len(right) - common
    return Comparison(common, page, only_left, only_right, has_more)


def _pair_differences(left: Sequence[Event], right: Sequence[Event]) -> list[Pair]:
    """Return the messages that differ. Those at the same index of a difference are a pair."""
    start = _count_equal(left, right)
    left = left[start:]
    right = right[start:]
    end = _count_equal(left[::-1], right[::-1])
    left = left[: len(left) - end]
    right = right[: len(right) - end]
    if max(len(left), len(right)) > MOST_MESSAGES:
        return list(zip_longest(left, right))
    left_keys = [_build_key(event) for event in left]
    right_keys = [_build_key(event) for event in right]
    matcher = SequenceMatcher(None, left_keys, right_keys, autojunk=False)
    pairs: list[Pair] = []
    for op, left_start, left_end, right_start, right_end in matcher.get_opcodes():
        if op == "equal":
            continue
        left_part = left[left_start:left_end]
        right_part = right[right_start:right_end]
        pairs.extend(zip_longest(left_part, right_part))
    return pairs


def _count_equal(left: Sequence[Event], right: Sequence[Event]) -> int:
    """Return how many messages at the start are equal."""
    count = 0
    for one, other in zip(left, right, strict=False):
        if _build_key(one) != _build_key(other):
            break
        count += 1
    return count


def _build_key(event: Event) -> tuple[str, str | None, str | None]:
    """Return the part of a message that is compared."""
    data = _select_data(event)
    return event.kind, event.content, data


def _select_data(event: Event) -> str | None:
    """Return the part of the data that is compared. In an answer, there is none: its usage, request
    and sealed content differ each time, even if the text is the same."""
    if event.data_json is None or event.kind == "assistant":
        return None
    if not any(name in event.data_json for name in IGNORED_KEYS):
        return event.data_json
    data = parse_object(event.data_json) or {}
    selected = {name: value for name, value in data.items() if name not in IGNORED_KEYS}
    return to_json(selected) if selected else None


def _iterate_changes(pairs: Sequence[Pair], after: Change | None) -> Iterator[Change]:
    """Yield the changes of `pairs`, or those that follow the change `after`."""
    first = 0 if after is None else _find_pair(pairs, after)
    for index in range(first, len(pairs)):
        changes = _compare_pair(*pairs[index])
        if after is not None and index == first:
            changes = changes[2 if after.left is None else 1 :]
        yield from changes


def _find_pair(pairs: Sequence[Pair], change: Change) -> int:
    """Return the index of the pair that a change came from."""
    side = 1 if change.left is None else 0
    wanted = change.left or change.right
    for index, pair in enumerate(pairs):
        event = pair[side]
        if event is not None and wanted is not None and event.seq == wanted.seq:
            return index
    raise Invalid("the contexts have no such difference", remedy="name positions, or begin again")


def _compare_pair(left: Event | None, right: Event | None) -> list[Change]:
    """Return one change for two similar messages, otherwise one for each message."""
    if left is not None and right is not None and left.kind == right.kind:
        edits = _compare_texts(_build_text(left), _build_text(right))
        if _measure_likeness(edits) >= LEAST_LIKENESS:
            return [Change(left, right, tuple(edits))]
    changes = []
    if left is not None:
        changes.append(Change(left, None))
    if right is not None:
        changes.append(Change(None, right))
    return changes


def _build_text(event: Event) -> str:
    texts = (event.content, _select_data(event))
    return "\n".join(text for text in texts if text)


def _compare_texts(left: str, right: str) -> list[Edit]:
    left_words = WORDS.findall(left)
    right_words = WORDS.findall(right)
    if max(len(left_words), len(right_words)) > MOST_WORDS:
        left_words = LINES.findall(left)
        right_words = LINES.findall(right)
    is_long = len(left_words) > MOST_WORDS
    matcher = SequenceMatcher(None, left_words, right_words, autojunk=is_long)
    edits = []
    for op, left_start, left_end, right_start, right_end in matcher.get_opcodes():
        left_part = "".join(left_words[left_start:left_end])
        right_part = "".join(right_words[right_start:right_end])
        if op == "equal":
            edits.append(Edit("=", left_part))
            continue
        if left_part:
            edits.append(Edit("-", left_part))
        if right_part:
            edits.append(Edit("+", right_part))
    return edits


def _measure_likeness(edits: Sequence[Edit]) -> float:
    """Return the part of the words of both texts that is in both: 0 to 1."""
    equal = total = 0
    for edit in edits:
        count = len(edit.text.split())
        if edit.op == "=":
            equal += 2 * count
            total += 2 * count
        else:
            total += count
    return equal / total if total else 0.0
