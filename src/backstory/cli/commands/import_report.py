"""Reports of an import: a table of tools, a line for each thing that a person should know, or
JSON."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from backstory.cli import output
from backstory.present.text import count, one_line, size
from backstory.transcripts.importing import list_files
from backstory.transcripts.model import Fault, ImportedSession, ImportOutcome, ImportReport

# A column of the table and the field of a session that it sums.
SUMS = {
    "agents": "new_agents",
    "events": "new_events",
    "branches": "branches",
    "cuts": "cuts",
    "open": "open_calls",
}
COLUMNS = ("tool", "files", "sessions", "new", "grown", *SUMS, "damaged")
PLACE_COLUMNS = ("tool", "where", "files", "size")
WIDE = 100  # columns of a terminal
MOST_FAULTS = 5  # of one sort that are named
MOST_UNKNOWN = 12  # types of records that are named


def print_places(found: Iterable[tuple[str, Path]]) -> None:
    """Print where transcripts were found, and how much there is."""
    rows = []
    for tool, path in found:
        sizes = [file.stat().st_size for file, _ in list_files(path, ImportReport())]
        rows.append((tool, str(path), f"{len(sizes):,}", size(sum(sizes))))
    _print_table(PLACE_COLUMNS, rows)


def print_session(session: ImportedSession) -> None:
    """Print a session that was imported."""
    if output.wants_json():
        output.print_json(_build_session(session))
        return
    agent = (session.agent or "")[:8]
    title = one_line(session.title or session.id)
    events = count(session.new_events, "new event")
    output.print_line(f"{session.tool}\t{agent}\t{title}\t{events}")


def _build_session(session: ImportedSession) -> dict[str, Any]:
    """Return the JSON of a session."""
    return {
        "tool": session.tool,
        "source": session.source,
        "id": session.id,
        "agent": session.agent,
        "title": session.title,
        "new": session.is_new,
        "new_agents": session.new_agents,
        "new_events": session.new_events,
        "branches": session.branches,
        "cuts": session.cuts,
        "open_calls": session.open_calls,
        "unfinished": session.unfinished,
        **_build_report(session.report),
    }


def _build_report(report: ImportReport) -> dict[str, Any]:
    return {
        "damaged": _build_faults([*report.damaged, *report.torn]),
        "mended": dict(report.mended),
        "unknown": dict(report.unknown),
    }


def _build_faults(faults: Sequence[Fault]) -> list[dict[str, Any]]:
    return [fault._asdict() for fault in faults]


def print_outcome(outcome: ImportOutcome, *, dry_run: bool) -> None:
    """Print the sums of an import, and what a person should know."""
    rows = [_sum_sessions(outcome, tool) for tool in outcome.files]
    whole = outcome.merge_reports()
    if output.wants_json():
        tools = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
        described = _build_outcome(outcome, whole)
        output.print_json({"tools": tools, **described, "dry_run": dry_run})
        return
    if rows and (outcome.has_news or not output.is_terminal()):
        _print_table(COLUMNS, rows)
    print_line = output.print_line if output.is_terminal() else output.report
    for line in (*_list_remarks(outcome, whole), *_list_results(outcome, dry_run)):
        print_line(line)


def _build_outcome(outcome: ImportOutcome, whole: ImportReport) -> dict[str, Any]:
    return {
        **_build_report(whole),
        "unread": _build_faults(whole.unread),
        "doubtful": _build_faults(whole.doubtful),
        "notes": _build_faults(whole.notes),
        "masked": dict(outcome.masked),
    }


def _list_results(outcome: ImportOutcome, dry_run: bool) -> Iterator[str]:
    """Yield the last line, if nothing was written."""
    if not outcome.files:
        yield "no transcripts were found"
    elif not outcome.has_news:
        yield "nothing new"
    elif dry_run:
        yield "nothing was written (--dry-run)"


def _sum_sessions(outcome: ImportOutcome, tool: str) -> list[Any]:
    """Return the row of a tool in the table."""
    own = [session for session in outcome.sessions if session.tool == tool]
    # Several files can belong to one session: what a second one adds to a new one is no growth.
    new = {session.id for session in own if session.is_new}
    grown = {session.id for session in own if session.has_news} - new
    sums = [sum(getattr(session, field) for session in own) for field in SUMS.values()]
    damaged = sum(len(session.report.damaged) for session in own)
    return [tool, outcome.files[tool], len(own), len(new), len(grown), *sums, damaged]


def _format_cell(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else one_line(value)


def _list_remarks(outcome: ImportOutcome, whole: ImportReport) -> Iterator[str]:
    """Yield a line for each thing that a person should know."""
    yield from _list_counts("not understood", whole.unknown, most=MOST_UNKNOWN)
    yield from _list_counts("mended", whole.mended)
    yield from _list_counts("masked", outcome.masked)
    yield from _list_faults("skipped", whole.damaged)
    yield from _list_faults("waiting for its end", whole.torn)
    yield from _list_faults("cannot be read", whole.unread)
    yield from _list_faults("not understood", whole.doubtful)
    yield from _list_faults("note", whole.notes)
    unfinished = [session for session in outcome.sessions if session.unfinished]
    if unfinished:
        tools = ", ".join(sorted({session.tool for session in unfinished}))
        number = count(sum(session.unfinished for session in unfinished), "message")
        yield f"{number} of {tools} may still change: the next import adds what is complete"


def _list_counts(what: str, counts: Counter[str], most: int | None = None) -> Iterator[str]:
    if counts:
        parts = [f"{name} {number:,}" for name, number in counts.most_common(most)]
        yield f"{what}: {', '.join(parts)}"


def _list_faults(what: str, faults: Sequence[Fault]) -> Iterator[str]:
    for fault in faults[:MOST_FAULTS]:
        place = one_line(fault.source)
        if fault.line is not None:
            place += f":{fault.line}"
        yield f"{what}: {place} ({one_line(fault.what)})"
    if len(faults) > MOST_FAULTS:
        yield f"{what}: {len(faults) - MOST_FAULTS:,} more"


def _print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    if not output.is_terminal():
        for row in rows:
            output.print_row(row)
        return
    from rich.text import Text

    right = [column for column in columns if column not in ("tool", "where")]
    table = output.make_table(*columns, right=right)
    # Every column is shown: where the terminal is narrow, what is between them is narrower.
    table.collapse_padding = output.make_console().width < WIDE
    for column in table.columns:
        column.no_wrap = column.header != "where"
    for row in rows:
        table.add_row(*(Text(_format_cell(value)) for value in row))
    output.draw(table)
