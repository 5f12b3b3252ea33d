"""Importers: the transcripts of other tools as sessions, without a store.

    for session in backstory.transcripts.read("~/.claude/projects"):
        for thread in session.threads:
            for event in events(thread.steps()): …

Parsers (`formats/`) are pure; `finder` and `files` read.
"""

from collections.abc import Iterator
from pathlib import Path

from backstory.errors import Invalid
from backstory.transcripts.claude_code.lines import (
    claude_entries,
    claude_kept,
    claude_parents,
    claude_units,
)
from backstory.transcripts.escapes import holdable
from backstory.transcripts.files import Unreadable
from backstory.transcripts.finder import find
from backstory.transcripts.format import Format
from backstory.transcripts.formats import FORMATS
from backstory.transcripts.growth import events
from backstory.transcripts.linear import LogEvent
from backstory.transcripts.outcome import Imported, Outcome
from backstory.transcripts.past import Known
from backstory.transcripts.transcript import (
    Entry,
    Fault,
    Label,
    Move,
    Origin,
    Report,
    Session,
    Step,
    Thread,
    Unit,
)

__all__ = [
    "FORMATS",
    "Entry",
    "Fault",
    "Imported",
    "Known",
    "Label",
    "LogEvent",
    "Move",
    "Origin",
    "Outcome",
    "Report",
    "Session",
    "Step",
    "Thread",
    "Unit",
    "claude_entries",
    "claude_kept",
    "claude_parents",
    "claude_units",
    "events",
    "format_named",
    "read",
]


def read(
    *paths: str | Path, format: str | None = None, report: Report | None = None
) -> Iterator[Session]:
    """The sessions in some files, folders, databases and zips, one after another.

    `format` is the tool that they are from; by default it is recognised by content. What could not be read or
    understood is in the `report` of each session; problems outside of sessions are added to the given
    `report`.
    """
    found = Report() if report is None else report
    chosen = None if format is None else format_named(format)
    for each, sources in find((Path(path).expanduser() for path in paths), found, chosen):
        try:
            for session in each.sessions(sources):
                yield holdable(session)
        except (OSError, Unreadable) as error:
            found.unread.append(Fault(each.name, None, str(error)))


def format_named(name: str) -> Format:
    """The format of that name."""
    for format in FORMATS:
        if format.name == name:
            return format
    raise Invalid(f"no format {name!r}: use one of {', '.join(format.name for format in FORMATS)}")
