"""Finds what can be imported below some paths, and what has changed since it was last read.

A file that did not change is not opened: the store remembers its size and time, its format and the files that
it is tied to. Files that are tied to a changed file are read with it.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from backstory.transcripts.checkpoints import Checkpoint, Reach, Tail
from backstory.transcripts.files import FileSource, Unreadable
from backstory.transcripts.finder import files, recognised, source_at
from backstory.transcripts.format import Format
from backstory.transcripts.formats import FORMATS
from backstory.transcripts.transcript import Fault, Report

TOOL = "file"  # under which the cursors of files are kept
VERSION = (
    1  # of what is remembered; raised when the parsers change, so that everything is read again
)

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
    quiet: bool  # it was not written to recently
    source: FileSource | None = field(default=None, repr=False)
    mark: Cursor | None = (
        None  # where to continue reading: it has grown, and is unchanged up to there
    )

    @property
    def key(self) -> str:
        """The key under which it is remembered."""
        return os.path.abspath(self.path)

    @property
    def size(self) -> int:
        """Its bytes."""
        return int(self.state["size"])

    @property
    def moment(self) -> int:
        """When it was last written to, in microseconds."""
        return int(self.state["time"]) // 1000

    @property
    def left(self) -> int:
        """How many bytes are left to read."""
        return self.size - (self.mark["offset"] if self.mark else 0)

    def cursor(self, *, settled: bool, checkpoint: Checkpoint | None = None) -> Cursor:
        """What to remember now that it was read."""
        name = self.format.name if self.format else None
        known = {**self.state, "format": name, "ties": sorted(self.ties)}
        mark = None if checkpoint is None or self.source is None else _mark(self.source, checkpoint)
        known |= {} if mark is None else {"mark": mark}
        return known if settled else known | {"settled": False}

    def tail(self) -> Tail:
        """What is known where reading continues; its source starts there."""
        assert self.mark is not None
        assert self.source is not None
        mark = self.mark
        self.source.start_at(Reach(mark["offset"], mark["before"]))
        return Tail(mark["session"], mark["thread"], mark["lines"], mark["state"])

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
    """All candidates below the paths. `remembered` is what the store knows about a path; `since` leaves out
    what was last written to before."""
    found: dict[str, Candidate] = {}
    for given in paths:
        if not given.exists():
            report.unread.append(Fault(given.as_posix(), None, "it does not exist"))
        for path, shown in files(given, report) if given.exists() else ():
            state = _state(path, report)
            if state is None or (since is not None and state["time"] / 1e9 < since):
                continue
            candidate = _candidate(
                path, shown, state, report, remembered, format, named=path == given
            )
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
        if (format is None or known is format) and before.get("settled") is not False:
            ties = frozenset(before.get("ties") or ())
            return Candidate(path, shown, state, known, ties, changed=False, quiet=True)
    fitting, source = recognised(path, shown, report, format, named=named)
    ties = frozenset()
    mark = (before or {}).get("mark")
    if before is not None and source is not None and _goes_on(fitting, source, before, mark):
        ties = frozenset(before.get("ties") or ())
        return Candidate(
            path, shown, state, fitting, ties, True, quiet=True, source=source, mark=mark
        )
    if fitting is not None and source is not None:
        try:
            ties = frozenset(fitting.ties(source))
        except (OSError, Unreadable) as error:
            report.unread.append(Fault(shown, None, str(error)))
            fitting = None
    return Candidate(
        path, shown, state, fitting, ties, changed=source is not None, quiet=True, source=source
    )


def _goes_on(
    format: Format | None, source: FileSource, before: Cursor, mark: Cursor | None
) -> bool:
    """Whether a file is unchanged up to where it was read."""
    if mark is None or format is None or format.name != before.get("format"):
        return False
    return bool(source.digest(mark["offset"], mark["end"]) == mark["digest"])


def _mark(source: FileSource, checkpoint: Checkpoint) -> Cursor | None:
    """What to remember about a checkpoint; None if reading cannot continue there."""
    offset = source.offset_of(checkpoint.place)
    end, lines = checkpoint.reach
    digest = None if offset is None or offset >= end else source.digest(offset, end)
    if digest is None:
        return None
    known = {
        "offset": offset,
        "before": checkpoint.lines,
        "end": end,
        "lines": lines,
        "digest": digest,
    }
    return known | {
        "session": checkpoint.session,
        "thread": checkpoint.thread,
        "state": checkpoint.state,
    }


def _state(path: Path, report: Report) -> Cursor | None:
    """The bytes of a path and when it was last written to; of a folder, those of everything in it, and of a
    database those of its log too."""
    try:
        if not path.is_dir():
            beside = [one for one in (path, Path(f"{path}-wal")) if one is path or one.exists()]
            stats = [one.stat() for one in beside]
        else:
            stats = [
                os.stat(os.path.join(place, name))
                for place, _, names in os.walk(path)
                for name in names
            ]
    except OSError as error:
        report.unread.append(Fault(path.as_posix(), None, error.strerror or str(error)))
        return None
    size = sum(stat.st_size for stat in stats)
    time = max((stat.st_mtime_ns for stat in stats), default=0)
    return {"size": size, "time": time, "parts": len(stats), "version": VERSION}


def to_read(candidates: Iterable[Candidate]) -> dict[str, list[Candidate]]:
    """By format: what changed, and what is tied to it, except files that continue at a checkpoint."""
    chosen: dict[str, list[Candidate]] = {}
    for format in FORMATS:
        own = [one for one in candidates if one.format is format]
        wanted = [one for one in own if one.changed and one.mark is None]
        rest = [one for one in own if not one.changed or one.mark is not None]
        tied = {tie for one in wanted for tie in one.ties}
        while more := [one for one in rest if one.ties & tied or (wanted and not one.ties)]:
            wanted += more
            rest = [one for one in rest if one not in more]
            tied |= {tie for one in more for tie in one.ties}
        if wanted:
            order = {id(one): place for place, one in enumerate(own)}
            chosen[format.name] = sorted(wanted, key=lambda one: order[id(one)])
    return chosen
