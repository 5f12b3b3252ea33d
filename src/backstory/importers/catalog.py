"""What there is to import below some paths, and which of it changed since it was read last.

A file that did not change is not opened: its size and time, its format and what it is tied to are remembered
with the store. What is tied to a file that changed is read with it.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backstory.importers.files import FileSource, Unreadable
from backstory.importers.finder import files, recognised, source_at
from backstory.importers.format import Format
from backstory.importers.formats import FORMATS
from backstory.importers.transcript import Fault, Report

TOOL = "file"  # under which the cursors of files are kept
VERSION = 1  # of what is known of a file: after a change of the parsers everything is looked at again

Cursor = dict[str, Any]


@dataclass
class Candidate:
    """A file, folder or database that may hold transcripts."""

    path: Path
    shown: str
    state: Cursor  # its size and time, as they were before it was read
    format: Format | None
    ties: frozenset[str]
    changed: bool
    quiet: bool  # nobody wrote to it lately
    source: FileSource | None = field(default=None, repr=False)

    @property
    def key(self) -> str:
        """What it is remembered by."""
        return os.path.abspath(self.path)

    @property
    def size(self) -> int:
        """Its bytes."""
        return int(self.state["size"])

    def cursor(self, *, settled: bool) -> Cursor:
        """What is to be remembered of it, now that it was read."""
        name = self.format.name if self.format else None
        known = {**self.state, "format": name, "ties": sorted(self.ties)}
        return known if settled else known | {"settled": False}

    def opened(self, report: Report) -> FileSource | None:
        """Its source; None if it cannot be read."""
        if self.source is None:
            self.source = source_at(self.path, self.shown, report)
        return self.source


def catalog(
    paths: Iterable[Path],
    report: Report,
    *,
    remembered: Callable[[str], Cursor | None],
    now: float,
    settle: float,
    format: Format | None = None,
    since: float | None = None,
) -> list[Candidate]:
    """All candidates below the paths. `remembered`: what the store knows of a path; `since`: leave out what
    was last written to before."""
    found: dict[str, Candidate] = {}
    for given in paths:
        if not given.exists():
            report.unread.append(Fault(given.as_posix(), None, "it does not exist"))
        for path, shown in files(given, report) if given.exists() else ():
            state = _state(path, report)
            if state is None or (since is not None and state["time"] / 1e9 < since):
                continue
            candidate = _candidate(path, shown, state, report, remembered, format, named=path == given)
            candidate.quiet = now - state["time"] / 1e9 >= settle
            found.setdefault(candidate.key, candidate)
    return list(found.values())


def _candidate(
    path: Path,
    shown: str,
    state: Cursor,
    report: Report,
    remembered: Callable[[str], Cursor | None],
    format: Format | None,
    *,
    named: bool,
) -> Candidate:
    before = remembered(os.path.abspath(path))
    if before is not None and all(before.get(name) == value for name, value in state.items()):
        known = next((one for one in FORMATS if one.name == before.get("format")), None)
        if format is None or known is format:
            ties = frozenset(before.get("ties") or ())
            return Candidate(path, shown, state, known, ties, before.get("settled") is False, quiet=True)
    fitting, source = recognised(path, shown, report, format, named=named)
    ties = frozenset()
    if fitting is not None and source is not None:
        try:
            ties = frozenset(fitting.ties(source))
        except (OSError, Unreadable) as error:
            report.unread.append(Fault(shown, None, str(error)))
            fitting = None
    return Candidate(path, shown, state, fitting, ties, changed=source is not None, quiet=True, source=source)


def _state(path: Path, report: Report) -> Cursor | None:
    """The bytes of a path and when it was last written to; of a folder, those of everything in it, and of a
    database those of its log too."""
    try:
        if not path.is_dir():
            beside = [one for one in (path, Path(f"{path}-wal")) if one is path or one.exists()]
            stats = [one.stat() for one in beside]
        else:
            stats = [
                os.stat(os.path.join(place, name)) for place, _, names in os.walk(path) for name in names
            ]
    except OSError as error:
        report.unread.append(Fault(path.as_posix(), None, error.strerror or str(error)))
        return None
    size = sum(stat.st_size for stat in stats)
    time = max((stat.st_mtime_ns for stat in stats), default=0)
    return {"size": size, "time": time, "parts": len(stats), "version": VERSION}


def to_read(candidates: Iterable[Candidate]) -> dict[str, list[Candidate]]:
    """By format: what changed, and what is tied to it."""
    chosen: dict[str, list[Candidate]] = {}
    for format in FORMATS:
        own = [one for one in candidates if one.format is format]
        wanted = [one for one in own if one.changed]
        rest = [one for one in own if not one.changed]
        tied = {tie for one in wanted for tie in one.ties}
        while more := [one for one in rest if one.ties & tied or (wanted and not one.ties)]:
            wanted += more
            rest = [one for one in rest if one not in more]
            tied |= {tie for one in more for tie in one.ties}
        if wanted:
            order = {id(one): place for place, one in enumerate(own)}
            chosen[format.name] = sorted(wanted, key=lambda one: order[id(one)])
    return chosen
