"""Prints an answer as it comes in: finished lines are printed for good, the last few are redrawn.

A Markdown text is a sequence of blocks: paragraphs, lists, tables. Only the last one still grows. How much of
it was printed is remembered as text, because a narrower window breaks its lines elsewhere.
"""

from rich.console import Console
from rich.segment import Segment

from backstory.chat.live_region import Lines
from backstory.chat.markdown import Prose, last_block
from backstory.present.safe_text import visible

MOST_REDRAWN = 6  # lines


class Stream:
    """One answer, as it comes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._printed = ""  # everything that was printed, without blanks
        self._block = 0  # where the last block begins in the text
        self._lines: Lines = []  # of the last block
        self._next = 0  # the first of them that is not printed
        self._cut = 0  # how many of its characters were printed already
        self._rendered = ("", 0)  # the text and the width that the lines are for
        self.text = ""
        self.is_begun = False  # whether a part of it was printed for good

    def settled(self) -> Lines:
        """The lines that will not change any more, to be printed now."""
        first, is_table = last_block(visible(self.text[self._block :]))
        whole = self._whole_blocks(first) if first else []
        self._render()
        until = self._next if is_table else max(self._next, len(self._lines) - MOST_REDRAWN)
        return [*whole, *self._print(until)]

    def _whole_blocks(self, lines: int) -> Lines:
        """Print all blocks except the last, which begins this many lines further down."""
        before = self.text[self._block :].split("\n")[:lines]
        self._render("\n".join(before))
        printed = [*self._print(len(self._lines)), []]
        self._block += sum(len(line) + 1 for line in before)
        self._next = self._cut = 0
        return printed

    def _print(self, until: int) -> Lines:
        lines = self._unprinted()[: until - self._next]
        if lines:
            self._next, self._cut = until, 0
            self._printed += _solid(lines)
            self.is_begun = True
        return lines

    def tail(self) -> Lines:
        """The last lines, which may still change."""
        self._render()
        return self._unprinted()[-MOST_REDRAWN:]

    def rest_of(self, recorded: str) -> Lines:
        """The rest of the recorded answer; all of it, if it differs from what was printed."""
        if recorded.strip() != self.text.strip():
            self.text, self._block = recorded, 0
            self._render()
            if _solid(self._lines).startswith(self._printed):
                self._find_place(len(self._printed))
            else:
                self._next = self._cut = 0
        self._render()
        return self._unprinted()

    def _unprinted(self) -> Lines:
        lines = self._lines[self._next :]
        if lines and self._cut:
            lines[0] = _without(lines[0], self._cut)
        return lines

    def _render(self, text: str | None = None) -> None:
        """Render the last block, or the blocks before it, if the text or the window has changed."""
        text = self.text[self._block :] if text is None else text
        width = self._console.width
        if self._rendered == (text, width):
            return
        printed = len(_solid(self._lines[: self._next])) + self._cut
        # One empty line between two blocks is enough: rich puts another one around tables.
        lines = [_trimmed(line) for line in self._console.render_lines(Prose(text), pad=False)]
        self._lines = [
            line for before, line in zip([[], *lines], lines, strict=False) if before or line
        ]
        if self._rendered[1] not in (0, width):
            self._find_place(printed)
        self._rendered = (text, width)

    def _find_place(self, printed: int) -> None:
        """Where this many characters end, after the lines were broken again."""
        if printed == 0:
            self._next = self._cut = 0
            return
        for index, line in enumerate(self._lines):
            self._next, self._cut = index, printed
            printed -= len(_solid([line]))
            if printed < 0:
                return
        self._next, self._cut = len(self._lines), 0


def _solid(lines: Lines) -> str:
    """The visible characters of lines, wherever these are broken: without blanks, rules and boxes."""
    text = "".join(segment.text for line in lines for segment in line)
    return "".join(char for char in text if not char.isspace() and not "\u2500" <= char <= "\u259f")


def _trimmed(line: list[Segment]) -> list[Segment]:
    """A line without trailing blanks, except coloured ones: a narrower terminal would wrap it."""
    while line and not (line[-1].style and line[-1].style.bgcolor):
        last = line[-1]._replace(text=line[-1].text.rstrip())
        if last.text:
            return [*line[:-1], last]
        line = line[:-1]
    return line


def _without(line: list[Segment], number: int) -> list[Segment]:
    """A line without its first visible characters."""
    for index, segment in enumerate(line):
        for place, char in enumerate(segment.text):
            number -= len(_solid([[Segment(char)]]))
            if number == 0:
                rest = segment._replace(text=segment.text[place + 1 :].lstrip())
                return [rest, *line[index + 1 :]]
    return []
