"""aider: a history in Markdown, one headline a session. Pure.

`####` is what a person wrote, `>` what the tool said, the rest is the model. There are no ids, and no times
but those of the headlines.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from backstory.transcripts.chain import chained
from backstory.transcripts.entries import microseconds
from backstory.transcripts.format import Format, Head, Place, Source
from backstory.transcripts.transcript import Entry, Fault, Report, Session, Step, Thread

NAME = "aider"
HEADLINE = "# aider chat started at "
USER, TOOL = "####", ">"


def fits(head: Head) -> bool:
    """A headline of aider's."""
    return head.text.startswith(HEADLINE) or f"\n{HEADLINE}" in head.text


def entries(lines: Iterable[str], id: str, time: int | None) -> Iterator[Entry]:
    """What was said in one session: runs of lines of one author, blank lines among them."""
    author: str | None = None
    run: list[str] = []
    number = 0
    for line in [*lines, None]:
        who = None if line is None else _author(line, author)
        if who != author and run:
            entry = _entry(author, run, f"{id}:{number}", time)
            if entry is not None:
                yield entry
                number += 1
            run = []
        author = who
        if line is not None:
            run.append(line)


def _author(line: str, before: str | None) -> str:
    if line.startswith(USER):
        return USER
    if line.startswith(TOOL):
        return TOOL
    return "model" if line.strip() or before is None else before


def _entry(author: str | None, run: list[str], id: str, time: int | None) -> Entry | None:
    if author == USER:
        text = "\n".join(line.removeprefix(USER).removeprefix(" ").rstrip() for line in run).strip(
            "\n"
        )
        return Entry(id, "user", text, None, time)
    if author == TOOL:
        text = "\n".join(line.removeprefix(TOOL).removeprefix(" ").rstrip() for line in run).strip(
            "\n"
        )
        return Entry(id, "user", text, {"meta": "tool"}, time) if text.strip() else None
    text = "\n".join(run).strip("\n")
    return Entry(id, "assistant", text, None, time) if text.strip() else None


def sessions(sources: Iterable[Source]) -> Iterator[Session]:
    """The sessions in which something was said."""
    for source in sources:
        report = Report()
        first: str | None = None
        seen: Counter[str] = Counter()
        for headline, lines in _chats(source):
            if headline is None:
                _tell_of_preamble(lines, source, report)
                continue
            first = first or headline
            seen[headline] += 1
            # Two sessions can begin in one second, and two files on one machine at the same time.
            id = f"{first}/{headline}" + (f"/{seen[headline]}" if seen[headline] > 1 else "")
            found = list(entries(lines, id, microseconds(headline)))
            if all("meta" in (entry.data or {}) for entry in found):
                continue

            def steps(found: list[Entry] = found) -> Iterator[Step]:
                return chained((entry.id, [entry]) for entry in found)

            yield Session(NAME, id, [Thread(id, None, steps)], source.path, report)
            report = Report()


def _tell_of_preamble(lines: list[str], source: Source, report: Report) -> None:
    if any(line.strip() for line in lines):
        report.notes.append(
            Fault(source.path, 1, f"{len(lines)} lines before the first headline: left out")
        )


def _chats(source: Source) -> Iterator[tuple[str | None, list[str]]]:
    headline: str | None = None
    lines: list[str] = []
    for line in source.text_lines():
        if line.startswith(HEADLINE):
            yield headline, lines
            headline, lines = line.removeprefix(HEADLINE).strip(), []
        else:
            lines.append(line)
    yield headline, lines


FORMAT = Format(
    name=NAME,
    fits=fits,
    sessions=sessions,
    # Each project has its own: that of the folder where the command is run.
    places=(Place("PWD", ".aider.chat.history.md", "~/.aider.chat.history.md"),),
)
