"""An import from beginning to end: what is there, what changed, read and written session by session."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from backstory.transcripts import openai_chat
from backstory.transcripts.catalog import TOOL, Candidate, catalog, to_read
from backstory.transcripts.checkpoints import Checkpoint, Reach, ReadWhole
from backstory.transcripts.escapes import holdable
from backstory.transcripts.files import FileSource, Unreadable
from backstory.transcripts.format import Format
from backstory.transcripts.formats import FORMATS
from backstory.transcripts.masks import Mask
from backstory.transcripts.meter import Meter, Progress
from backstory.transcripts.outcome import Imported, Outcome
from backstory.transcripts.raw import keep_raw
from backstory.transcripts.rehearsal import Rehearsal
from backstory.transcripts.siblings import as_siblings
from backstory.transcripts.thread_writer import Changes
from backstory.transcripts.transcript import Fault, Session
from backstory.transcripts.writer import Target, Writer

SETTLE = 30.0  # seconds without a change after which an answer counts as whole

Finished = Callable[[Imported], object]


class Written(NamedTuple):
    """What is needed of a session when the others are written, too. The session itself may be large."""

    id: str
    source: str
    ties: frozenset[str]
    checkpoints: list[Checkpoint]

    @classmethod
    def of(cls, session: Session) -> "Written":
        """Of a session whose threads were told."""
        found = (thread.checkpoint() for thread in session.threads)
        return cls(
            session.id, session.source, session.ties, [mark for mark in found if mark is not None]
        )


class Run:
    """One import into a store. What is found is looked up when it is made; `sessions` reads and writes."""

    def __init__(
        self,
        store: Target,
        paths: Iterable[str | os.PathLike[str]],
        *,
        format: Format | None = None,
        since: datetime | None = None,
        project: str | None = None,
        mask: bool = False,
        images: bool = True,
        raw: bool = False,
        settle: float = SETTLE,
        dry: bool = False,
        siblings: bool = False,
    ) -> None:
        self._store: Target = Rehearsal(store) if dry else store
        self._mask = Mask() if mask else None
        self._changes = Changes(self._mask, images)
        self._project = None if project is None else os.path.abspath(os.path.expanduser(project))
        self._since = None if since is None else since.timestamp()
        self._dry = dry
        self._raw = raw
        self._siblings = siblings
        self._intake = store.intake()
        self.outcome = Outcome()
        self.candidates = catalog(
            (Path(path).expanduser() for path in paths),
            self.outcome.report,
            remembered=self._read_cursor,
            now=time.time(),
            settle=settle,
            format=format,
            since=self._since,
        )
        self.outcome.files.update(
            one.format.name for one in self.candidates if one.format is not None
        )
        if (
            dry or raw
        ):  # what would be new counts from the beginning, and so do the records that are kept
            for one in self.candidates:
                one.mark = None
        self.total = sum(one.left for one in self.candidates if one.changed)

    def sessions(self, progress: Progress | None = None) -> Iterator[Imported]:
        """Import, and give each session when it is in."""
        for session in self._tails():
            self.outcome.sessions.append(session)
            yield session
        read = to_read(self.candidates)
        self.total = sum(one.size for chosen in read.values() for one in chosen)
        meter = Meter(progress, self.total)
        for format in FORMATS:
            chosen = read.get(format.name, [])
            for session in self._format(format, chosen, meter):
                meter.finish(session.source)
                self.outcome.sessions.append(session)
                yield session
            for one in chosen:
                meter.finish(one.shown)
        if not self._dry:
            self._remember(
                [one for one in self.candidates if one.format is None and one.changed], set(), {}
            )
        if self._mask is not None:
            self.outcome.masked.update(self._mask.found)

    def _tails(self) -> Iterator[Imported]:
        """What is read on from a checkpoint. What cannot be told so loses it, and is read whole."""
        whole = {
            tie
            for chosen in to_read(self.candidates).values()
            for one in chosen
            for tie in one.ties
        }
        for one in self.candidates:
            if (
                one.mark is None
                or one.format is None
                or one.format.resume is None
                or whole & one.ties
            ):
                one.mark = None
            else:
                yield from self._tail(one, one.format)

    def _tail(self, one: Candidate, format: Format) -> Iterator[Imported]:
        assert one.source is not None
        assert format.resume is not None
        try:
            session = holdable(format.resume(one.source, one.tail()))
            if self._is_wanted(session):
                writer = Writer(self._store, self._changes, renames=not self._dry)
                done = writer.write(session, settled=not one.quiet, moment=one.moment)
                self._finish(
                    format,
                    [(one, one.source)],
                    {one.shown} if done.unfinished else set(),
                    [Written.of(session)],
                )
                yield done
        except (ReadWhole, OSError, Unreadable):
            one.source.start_at(Reach(0, 0))
            one.mark = None

    def _format(self, format: Format, chosen: list[Candidate], meter: Meter) -> Iterator[Imported]:
        report = self.outcome.report
        opened = [(one, source) for one in chosen if (source := one.opened(report)) is not None]
        for one, source in opened:
            source.heard = meter.begin(one.shown, one.size, passes=2 if format.fetches else 1)
        writer = Writer(self._store, self._changes, renames=not self._dry)
        busy = {tie for one in chosen if not one.quiet for tie in one.ties}
        unsettled: set[str] = set()  # the paths of sources of which more has to come
        waiting: list[Session] = []
        told: list[Written] = []
        by_path = {one.shown: one for one, _ in opened}

        def write(session: Session) -> Iterator[Imported]:
            if not self._is_wanted(session):
                return
            one = by_path.get(session.source)
            settled = bool(busy & one.ties) if one is not None else bool(busy)
            if any(thread.read is not None for thread in session.threads):
                self._rename(writer, session)
                return
            done = writer.write(
                session, settled=settled, moment=one.moment if one is not None else 0
            )
            if done.unfinished:
                unsettled.add(session.source)
            told.append(Written.of(session))
            yield done

        unread: set[str] = set()
        for session in self._parsed(format, [source for _, source in opened], unread):
            if writer.is_ready(session):
                yield from self._guarded(write, session, unread)
            else:
                waiting.append(session)
        while waiting:
            ready = [one for one in waiting if writer.is_ready(one)] or waiting[:1]
            for session in ready:
                waiting.remove(session)
                yield from self._guarded(write, session, unread)
        self._finish(format, [(o, s) for o, s in opened if s.path not in unread], unsettled, told)

    def _parsed(
        self, format: Format, sources: list[FileSource], unread: set[str]
    ) -> Iterator[Session]:
        """The sessions in some sources. If one of them cannot be read, each is tried by itself."""
        told: set[str] = set()
        try:
            found = format.sessions(sources)
            if self._siblings and format.name == openai_chat.NAME:
                found = as_siblings(found)
            for session in map(holdable, found):
                told.add(session.id)
                yield session
        except (OSError, Unreadable) as error:
            if len(sources) == 1:
                self._cannot_read(sources[0].path, error, unread)
                return
            for source in sources:
                for session in self._parsed(format, [source], unread):
                    if session.id not in told:
                        told.add(session.id)
                        yield session

    def _guarded(
        self, write: Callable[[Session], Iterator[Imported]], session: Session, unread: set[str]
    ) -> Iterator[Imported]:
        """Write a session; what cannot be read of it keeps none of the others out."""
        try:
            yield from write(session)
        except (OSError, Unreadable) as error:
            self._cannot_read(session.source, error, unread)

    def _cannot_read(self, path: str, error: Exception, unread: set[str]) -> None:
        if path not in unread:
            unread.add(path)
            self.outcome.report.unread.append(Fault(path, None, str(error)))

    def _rename(self, writer: Writer, session: Session) -> None:
        """Take over what a source says of a session that is not in it, if the store has the session."""
        if not self._dry:
            with suppress(ReadWhole):
                writer.write(session, settled=False, moment=0)

    def _finish(
        self,
        format: Format,
        opened: list[tuple[Candidate, FileSource]],
        unsettled: set[str],
        told: list[Written],
    ) -> None:
        """Keep what is kept of sources beside their sessions: their records, and how far they were read."""
        if self._dry:
            return
        if self._raw:
            for one, source in opened:
                self._keep_raw(
                    format.name, one, source, [s.id for s in told if s.source == source.path]
                )
        if self._project is None and self._since is None:
            marks = {mark.path: mark for session in told for mark in session.checkpoints}
            ties = {session.source: session.ties for session in told if session.ties}
            for one, source in opened:
                one.ties |= ties.get(source.path, frozenset())
            self._remember([one for one, _ in opened], unsettled, marks)

    def _read_cursor(self, path: str) -> dict[str, Any] | None:
        """Return how far a file was read by an earlier import."""
        known = self._intake.source(TOOL, path)
        return None if known is None else known.cursor

    def _keep_raw(self, tool: str, one: Candidate, source: FileSource, sessions: list[str]) -> None:
        """Keep a file's records beside the session that it belongs to."""
        ids = [*sorted(one.ties), *(sessions if len(sessions) == 1 else ())]
        known = (self._intake.source(tool, id) for id in ids)
        agent = next(
            (found.agent_id for found in known if found is not None and found.agent_id), None
        )
        if agent is None or not keep_raw(
            self._intake, self._store.agent(agent), source, self._changes
        ):
            why = "--raw keeps the records of files that hold one session, as JSON or JSON lines"
            self.outcome.report.notes.append(Fault(one.shown, None, why))

    def _is_wanted(self, session: Session) -> bool:
        if self._project is not None:
            folders = [str(thread.about.get("cwd") or "") for thread in session.threads]
            inside = (os.path.abspath(folder) for folder in folders if folder)
            if not any(
                one == self._project or one.startswith(self._project + os.sep) for one in inside
            ):
                return False
        if self._since is None:
            return True
        moment = self._since * 1e6
        times = (
            e.time for t in session.threads for unit in t.units() for e in unit.entries if e.time
        )
        return any(one >= moment for one in times)

    def _remember(
        self, read: Iterable[Candidate], unsettled: set[str], marks: Mapping[str, Checkpoint]
    ) -> None:
        """Keep how the files were when they were read."""
        for one in read:
            cursor = one.cursor(settled=one.shown not in unsettled, checkpoint=marks.get(one.shown))
            self._intake.remember(TOOL, one.key, cursor=cursor)
        self._intake.commit()


def import_transcripts(
    store: Target,
    paths: Iterable[str | os.PathLike[str]],
    *,
    progress: Progress | None = None,
    **options: object,
) -> Outcome:
    """Import what is below some paths; see `Run`."""
    run = Run(store, paths, **options)  # type: ignore[arg-type]
    for _ in run.sessions(progress):
        pass
    return run.outcome
