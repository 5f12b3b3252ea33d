"""aider: a history in Markdown, with a headline for each session.

`####` marks what a person wrote, `>` what the tool wrote, and the rest is the model's. There are no
ids, and no times but those of the headlines.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import ClassVar

from backstory.transcripts.content import parse_time
from backstory.transcripts.format import KnownPlace, SourceHead, TranscriptFormat, TranscriptSource
from backstory.transcripts.model import (
    Entry,
    Fault,
    ImportReport,
    SourceSession,
    Step,
    chain_units,
)

NAME = "aider"
HEADLINE = "# aider chat started at "
USER, TOOL, MODEL = "####", ">", ""


class AiderFormat(TranscriptFormat):
    """aider's histories."""

    name: ClassVar[str] = NAME
    # Each project has its own: that of the folder where the command is run.
    places: ClassVar[tuple[KnownPlace, ...]] = (
        KnownPlace("PWD", ".aider.chat.history.md", "~/.aider.chat.history.md"),
    )

    def recognize(self, head: SourceHead) -> bool:
        """Return True for a headline of aider's."""
        return head.text.startswith(HEADLINE) or f"\n{HEADLINE}" in head.text

    def read(
        self, sources: Sequence[TranscriptSource], report: ImportReport
    ) -> Iterator[SourceSession]:
        """Yield the sessions in which a person or the model wrote something."""
        for source in sources:
            first: str | None = None
            counts: Counter[str] = Counter()
            for headline, lines in split_chats(source, report):
                first = first or headline
                counts[headline] += 1
                # Sessions can begin in the same second, and files on a machine at the same time.
                id = f"{first}/{headline}"
                if counts[headline] > 1:
                    id += f"/{counts[headline]}"
                entries = list(build_entries(id, lines, parse_time(headline)))
                if any(entry.data is None for entry in entries):  # not only the tool wrote
                    yield self.build_session(source, id, partial(read_entries, entries))


def split_chats(source: TranscriptSource, report: ImportReport) -> Iterator[tuple[str, list[str]]]:
    """Yield the time in each headline and the lines below it."""
    headline = ""
    lines: list[str] = []
    for line in [*source.read_text(), HEADLINE]:
        if not line.startswith(HEADLINE):
            lines.append(line)
            continue
        if headline:
            yield headline, lines
        elif any(one.strip() for one in lines):
            text = f"{len(lines)} lines before the first headline: left out"
            report.notes.append(Fault(source.path, 1, text))
        headline = line.removeprefix(HEADLINE).strip()
        lines = []


def read_entries(entries: list[Entry], _report: ImportReport) -> Iterator[Step]:
    """Yield a unit for each text."""
    return chain_units((entry.id, [entry]) for entry in entries)


def build_entries(id: str, lines: list[str], time: int | None) -> Iterator[Entry]:
    """Yield an entry for each run of lines of one author."""
    number = 0
    for author, run in groupby(mark_authors(lines), key=lambda marked: marked[0]):
        texts = [line for _, line in run]
        if author != MODEL:
            texts = [line.removeprefix(author).removeprefix(" ").rstrip() for line in texts]
        text = "\n".join(texts).strip("\n")
        if not text.strip() and author != USER:
            continue
        kind = "assistant" if author == MODEL else "user"
        data = {"meta": "tool"} if author == TOOL else None
        yield Entry(f"{id}:{number}", kind, text, data, time)
        number += 1


def mark_authors(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each line with its author. A blank line belongs to the author of the line before."""
    author = MODEL
    for line in lines:
        if line.startswith(USER):
            author = USER
        elif line.startswith(TOOL):
            author = TOOL
        elif line.strip():
            author = MODEL
        yield author, line
