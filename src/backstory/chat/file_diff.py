"""What a change does to a file, line by line, with line numbers and some lines around it.

Pure. Only a line feed ends a line here; other separators must stay visible.
"""

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from itertools import takewhile
from typing import NamedTuple

AROUND = 3  # unchanged lines that are shown before and after a change
MOST_COMPARED = 20_000  # lines; if there are more, all are shown as replaced
GAP = "⋮"
NO_NEWLINE = "(no newline at the end of the file)"


class Line(NamedTuple):
    """A line to show. `sign` says what becomes of it: + is added, - is removed, a blank stays."""

    text: str
    sign: str = " "


def changed_lines(old: str, new: str) -> list[Line]:
    """The lines that change from one text to another, with their numbers; none if nothing changes."""
    before, after = _lines(old), _lines(new)
    width = len(str(max(len(before), len(after))))
    shown: list[Line] = []
    for group in _groups(before, after):
        if shown:
            shown.append(Line(f"{GAP:>{width}}"))
        for kind, low, high, new_low, new_high in group:
            if kind == "equal":
                shown += _numbered(after, " ", range(new_low, new_high), width)
            else:
                shown += _numbered(before, "-", range(low, high), width)
                shown += _numbered(after, "+", range(new_low, new_high), width)
    return shown


Change = tuple[str, int, int, int, int]  # what happens to which lines of the old and the new text


def _groups(before: list[str], after: list[str]) -> Iterator[list[Change]]:
    """Groups of nearby changes, with the lines around them. The common beginning and end are left out first,
    because comparing is slow and most changes are small."""
    head = _alike(zip(before, after, strict=False))
    most = min(len(before), len(after)) - head
    tail = min(most, _alike(zip(reversed(before), reversed(after), strict=False)))
    start, end = max(0, head - AROUND), max(0, tail - AROUND)
    middle, new_middle = before[start : len(before) - end], after[start : len(after) - end]
    if max(len(middle), len(new_middle)) > MOST_COMPARED:
        yield [("replace", start, start + len(middle), start, start + len(new_middle))]
        return
    for group in SequenceMatcher(None, middle, new_middle).get_grouped_opcodes(AROUND):
        yield [(kind, a + start, b + start, c + start, d + start) for kind, a, b, c, d in group]


def _alike(pairs: Iterable[tuple[str, str]]) -> int:
    """How many pairs are equal, from the first one on."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def new_lines(text: str) -> list[Line]:
    """The lines of a file that does not exist yet."""
    lines = _lines(text)
    return list(_numbered(lines, "+", range(len(lines)), len(str(len(lines)))))


def _lines(text: str) -> list[str]:
    """The lines with their line ends, so that a missing last one is a difference."""
    *whole, rest = text.split("\n")
    return [f"{line}\n" for line in whole] + ([rest] if rest else [])


def _numbered(lines: list[str], sign: str, numbers: range, width: int) -> Iterator[Line]:
    for number in numbers:
        line = lines[number]
        yield Line(f"{number + 1:>{width}} {sign} " + line.removesuffix("\n"), sign)
        if not line.endswith("\n"):
            yield Line(f"{'':>{width}} {sign} {NO_NEWLINE}", sign)
