"""How an import answers: a table of tools, a line for each thing that a person should know, or JSON."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from backstory.cli import output as screen
from backstory.present.measures import count, size
from backstory.present.safe_text import one_line
from backstory.transcripts.finder import files
from backstory.transcripts.outcome import Imported, Outcome
from backstory.transcripts.transcript import Fault, Report

SUMS = {
    "agents": "new_agents",
    "events": "new_events",
    "branches": "branches",
    "cuts": "cuts",
    "open": "open_calls",
}
COLUMNS = ("tool", "files", "sessions", "new", "grown", *SUMS, "damaged")
WIDE = 100  # columns of a terminal
MOST = 5  # faults of one sort that are named


def answer_places(found: Iterable[tuple[str, Path]]) -> None:
    """Where transcripts were found, and how much there is."""
    rows = []
    for tool, path in found:
        sizes = [one.stat().st_size for one, _ in files(path, Report())]
        rows.append((tool, str(path), f"{len(sizes):,}", size(sum(sizes))))
    _table(("tool", "where", "files", "size"), rows)


def answer_session(session: Imported, *, as_json: bool) -> None:
    """One session that is in."""
    if as_json:
        screen.answer_json(session_json(session))
        return
    agent = (session.agent or "")[:8]
    title = one_line(session.title or session.id)
    screen.answer(f"{session.tool}\t{agent}\t{title}\t{count(session.new_events, 'new event')}")


def session_json(session: Imported) -> dict[str, Any]:
    """A session as an object."""
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
        **_report_json(session.report),
    }


def _report_json(report: Report) -> dict[str, Any]:
    return {
        "damaged": [fault._asdict() for fault in (*report.damaged, *report.torn)],
        "mended": dict(report.mended),
        "unknown": dict(report.unknown),
    }


def answer_outcome(outcome: Outcome, *, as_json: bool, dry: bool) -> None:
    """The sums, and what a person should know."""
    rows = [_sums(outcome, tool) for tool in outcome.files]
    whole = outcome.everything()
    if as_json:
        sums = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
        unread = [fault._asdict() for fault in whole.unread]
        notes = [fault._asdict() for fault in whole.notes]
        more = {"unread": unread, "notes": notes, "masked": dict(outcome.masked), "dry_run": dry}
        screen.answer_json({"tools": sums, **_report_json(whole), **more})
        return
    if rows and (outcome.has_news or not screen.on_terminal()):
        _table(COLUMNS, [[_number(value) for value in row] for row in rows])
    say = screen.answer if screen.on_terminal() else screen.say
    for line in _remarks(outcome, whole):
        say(line)
    if not rows:
        say("no transcripts were found")
    elif not outcome.has_news:
        say("nothing new")
    elif dry:
        say("nothing was written (--dry-run)")


def _sums(outcome: Outcome, tool: str) -> list[Any]:
    own = [session for session in outcome.sessions if session.tool == tool]
    new = sum(session.is_new for session in own)
    grown = sum(session.has_news and not session.is_new for session in own)
    damaged = sum(len(session.report.damaged) for session in own)
    counted = [sum(getattr(session, name) for session in own) for name in SUMS.values()]
    return [tool, outcome.files[tool], len(own), new, grown, *counted, damaged]


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and screen.on_terminal() else str(value)


def _remarks(outcome: Outcome, whole: Report) -> Iterable[str]:
    if whole.unknown:
        yield "not understood: " + ", ".join(
            f"{what} {n:,}" for what, n in whole.unknown.most_common(12)
        )
    if whole.mended:
        yield "mended: " + ", ".join(f"{what} {n:,}" for what, n in whole.mended.most_common())
    if outcome.masked:
        yield "masked: " + ", ".join(f"{what} {n:,}" for what, n in outcome.masked.most_common())
    yield from _faults(whole.damaged, "skipped")
    yield from _faults(whole.torn, "waiting for its end")
    yield from _faults(whole.unread, "cannot be read")
    yield from _faults(whole.notes, "note")
    unfinished = sum(session.unfinished for session in outcome.sessions)
    if unfinished:
        is_one = unfinished == 1
        yield f"{count(unfinished, 'answer')} {'is' if is_one else 'are'} still being written"


def _faults(faults: Sequence[Fault], what: str) -> Iterable[str]:
    for fault in faults[:MOST]:
        line = "" if fault.line is None else f":{fault.line}"
        yield f"{what}: {one_line(fault.source)}{line} ({one_line(fault.what)})"
    if len(faults) > MOST:
        yield f"{what}: {len(faults) - MOST:,} more"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not screen.on_terminal():
        for row in rows:
            screen.plain_row(row)
        return
    from rich.table import Table
    from rich.text import Text

    # Every column is shown: where the terminal is narrow, what is between them is narrower.
    table = Table(box=None, pad_edge=False, collapse_padding=screen.console().width < WIDE)
    for column in columns:
        is_text = column in ("tool", "where")
        table.add_column(column, justify="left" if is_text else "right", no_wrap=column != "where")
    for row in rows:
        table.add_row(*(Text(one_line(value)) for value in row))
    screen.draw(table)
