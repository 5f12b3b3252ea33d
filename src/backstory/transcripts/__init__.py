"""The histories of other tools: reading, importing and exporting their files.

    for session in backstory.transcripts.read("~/.claude/projects"):
        for thread in session.threads:
            for unit in thread.read_units():
                ...

Formats are found by entry points: see docs/formats.md.
"""

from collections.abc import Iterator
from pathlib import Path

from backstory.transcripts.content import (
    AnswerBlock,
    AnswerBuilder,
    build_message_entry,
    build_result_entry,
    name_call,
    name_result,
    parse_time,
)
from backstory.transcripts.exporting import export_transcript
from backstory.transcripts.format import (
    ExportedFile,
    ExportedHistory,
    ExportedMessage,
    KnownPlace,
    SourceHead,
    SourceLine,
    TranscriptFormat,
    TranscriptSource,
    list_formats,
    load_format,
    read_provenance,
    write_time,
)
from backstory.transcripts.importing import FileFinder, FileGroup, group_files
from backstory.transcripts.model import (
    Entry,
    ExportedPositions,
    Fault,
    ImportedSession,
    ImportOutcome,
    ImportReport,
    Label,
    Origin,
    ReadWhole,
    SourceMove,
    SourceSession,
    SourceTail,
    Step,
    Thread,
    Unit,
    Unreadable,
)

__all__ = [
    "AnswerBlock",
    "AnswerBuilder",
    "Entry",
    "ExportedFile",
    "ExportedHistory",
    "ExportedMessage",
    "ExportedPositions",
    "Fault",
    "ImportOutcome",
    "ImportReport",
    "ImportedSession",
    "KnownPlace",
    "Label",
    "Origin",
    "ReadWhole",
    "TranscriptSource",
    "SourceHead",
    "SourceLine",
    "SourceMove",
    "SourceSession",
    "SourceTail",
    "Step",
    "Thread",
    "TranscriptFormat",
    "Unit",
    "build_message_entry",
    "build_result_entry",
    "export_transcript",
    "list_formats",
    "load_format",
    "name_call",
    "name_result",
    "parse_time",
    "read",
    "read_provenance",
    "write_time",
]


def read(
    *paths: str | Path, format: str | None = None, report: ImportReport | None = None
) -> Iterator[SourceSession]:
    """Yield the sessions in some files, folders, databases and zips.

    `format` is the tool that wrote them; by default it is recognized by the content. Problems of a
    session are in its `report`; others are added to the given `report`.
    """
    found = ImportReport() if report is None else report
    files = FileFinder(found, format).find(paths)
    for group in group_files(files):
        yield from read_group(group, found)


def read_group(group: FileGroup, report: ImportReport) -> Iterator[SourceSession]:
    """Yield the sessions of files that are read together."""
    try:
        yield from group.format.read(group.open_sources(report), report)
    except (OSError, Unreadable) as error:
        report.add_unread(group.files[0].shown, error)
