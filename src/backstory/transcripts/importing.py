"""An import from beginning to end: which files changed, and their sessions, one after another."""

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TypedDict, Unpack

from backstory.errors import Invalid
from backstory.transcripts.containers import open_source
from backstory.transcripts.format import (
    SourceHead,
    TranscriptFormat,
    list_formats,
    load_format,
    recognize,
)
from backstory.transcripts.masks import ContentFilter, SecretMask
from backstory.transcripts.model import (
    Data,
    Fault,
    ImportedSession,
    ImportOutcome,
    ImportReport,
    ReadWhole,
    SourceSession,
    Step,
    Thread,
    Unreadable,
)
from backstory.transcripts.openai_chat import describe_lookalike
from backstory.transcripts.raw import keep_records
from backstory.transcripts.sources import FileSource, read_safely
from backstory.transcripts.writing import REPEATED, SessionStore, SessionWriter

SETTLE = 30.0  # seconds without a change after which a source counts as complete
TOOL = "file"  # under which the cursors of files are remembered
VERSION = 4  # of these cursors; raised when readers change, so that everything is read again
UNKNOWN_FILE = "not a transcript that is known"
CHANGED = "it changed, and its conversations have no ids: those that grew are new sessions"
DOUBTFUL = 0.1  # of the records of a file may be of an unknown type
# A folder of small files is one source if it contains folders with these names.
STORAGE_FOLDERS = (frozenset({"message", "part"}), frozenset({"message", "session"}))
DATABASE_FILES = ("-wal", "-shm", "-journal")  # how the names of files beside a database end

ImportProgress = Callable[[int, int], object]  # bytes done, and all bytes


@dataclass
class FoundFile:
    """A file, folder or database that may contain transcripts."""

    path: Path
    shown: str
    state: Data  # its size and time, as they were before it was read
    # What is remembered of it, {} if nothing is:
    # - `size`, `time`, `parts`, `version`: its `state`. If they are the same, it did not change.
    # - `format`: the name of its format, or None.
    # - `end`, `digest`, `state`: of a large file whose tail can be read. They are a `ReadEnd`, a
    #   digest of the bytes that must not change, and `Thread.state`.
    # - `settled`: False if it has to be read again although it did not change.
    cursor: Data
    format: TranscriptFormat | None = None
    is_changed: bool = True
    is_quiet: bool = True  # nobody wrote to it recently
    source: FileSource | None = field(default=None, repr=False)

    @property
    def key(self) -> str:
        """The id under which it is remembered."""
        return os.path.abspath(self.path)

    @property
    def size(self) -> int:
        """The number of bytes."""
        return int(self.state["size"])

    @property
    def last_change(self) -> int:
        """The time when it was last written to, in microseconds."""
        return int(self.state["time"]) // 1000

    def open(self) -> FileSource:
        """Return its source."""
        if self.source is None:
            self.source = open_source(self.path, self.shown)
        self.source.is_changed = self.is_changed
        return self.source

    def start_tail(self) -> None:
        """Let only the tail be read, if the same reader read what is before it."""
        reads_tails = self.format is not None and self.format.reads_tails
        if reads_tails and "end" in self.cursor and self.cursor.get("version") == VERSION:
            self.open().continue_at(self.cursor)


@dataclass
class FileGroup:
    """The files of a format that are read together."""

    format: TranscriptFormat
    files: list[FoundFile]

    @property
    def files_to_read(self) -> list[FoundFile]:
        """The files that have to be read."""
        return [file for file in self.files if file.is_changed]

    @property
    def is_busy(self) -> bool:
        """True if somebody wrote to one of the files recently."""
        return any(not file.is_quiet for file in self.files)

    @property
    def last_change(self) -> int:
        """The time when the newest of the files was last written to."""
        return max(file.last_change for file in self.files)

    def open_sources(self, report: ImportReport) -> list[FileSource]:
        """Return the sources of all files that can be opened."""
        sources = []
        for file in self.files:
            try:
                sources.append(file.open())
            except OSError as error:
                report.add_unread(file.shown, error)
        return sources


class ImportOptions(TypedDict, total=False):
    """How an import reads its files.

    `format`: the tool that wrote them; without it, the format is recognized.
    `since`: skip files that were last written before.
    `project`: only sessions of this folder.
    `mask`: hide secrets.
    `images`: keep images.
    `raw`: keep each record as it was read, too.
    `settle`: how many seconds an unfinished answer is waited for.
    `dry`: write nothing.
    """

    format: str | None
    since: datetime | None
    project: str | None
    mask: bool
    images: bool
    raw: bool
    settle: float
    dry: bool


class Importer:
    """One import into a store. It finds the files when it is made; `import_sessions` reads them."""

    def __init__(
        self,
        store: SessionStore,
        paths: Iterable[str | os.PathLike[str]],
        *,
        format: str | None = None,
        since: datetime | None = None,
        project: str | None = None,
        mask: bool = False,
        images: bool = True,
        raw: bool = False,
        settle: float = SETTLE,
        dry: bool = False,
    ) -> None:
        self._store = store
        self._mask = SecretMask() if mask else None
        self._changes = ContentFilter(self._mask, keeps_images=images)
        self._since = None if since is None else since.timestamp()
        self._project = None
        if project is not None:
            self._project = os.path.abspath(os.path.expanduser(project))
        self._is_dry = dry
        self._keeps_raw = raw
        self._intake = store.intake()
        self._writer = SessionWriter(store, self._changes, is_dry=dry)
        self._waiting: list[tuple[FileGroup, SourceSession]] = []
        self._unfinished: set[str] = set()  # paths of files of which more has to come
        self.outcome = ImportOutcome()
        finder = FileFinder(self.outcome.report, format, settle, self._read_cursor)
        self.files = finder.find(paths, self._since)
        for file in self.files:
            if file.format is not None:
                self.outcome.files[file.format.name] += 1
        self._done = 0  # bytes
        self.total = sum(file.size for file in self.files if file.is_changed)

    def import_sessions(self, progress: ImportProgress | None = None) -> Iterator[ImportedSession]:
        """Import what is new, and yield each session when it is written."""
        for group in group_files(self.files):
            yield from self._import_group(group, progress)
            self._end_group(group, progress)
        # Sessions whose origin was not there yet: now it is, or it does not come.
        while self._waiting:
            ready = [one for one in self._waiting if self._writer.has_origins(one[1])]
            for item in ready or self._waiting[:1]:
                self._waiting.remove(item)
                yield from self._write_session(*item)
                self._end_group(item[0], progress)
        self._remember_files(file for file in self.files if file.format is None)
        if self._mask is not None:
            self.outcome.masked.update(self._mask.counts)

    # --- groups ---

    def _import_group(
        self, group: FileGroup, progress: ImportProgress | None
    ) -> Iterator[ImportedSession]:
        self._follow_progress(group, progress)
        changed = group.files_to_read
        if not (self._is_dry or self._keeps_raw):
            for file in changed:
                file.start_tail()
        handled: set[tuple[str, str]] = set()  # ids and sources of sessions
        try:
            yield from self._read_group(group, handled)
        except ReadWhole:
            for file in changed:
                file.open().read_whole()
            yield from self._read_group(group, handled)

    def _end_group(self, group: FileGroup, progress: ImportProgress | None) -> None:
        """Remember the files of a group, and let them go, unless a session of it waits."""
        if any(waiting is group for waiting, _ in self._waiting):
            return
        if self._keeps_raw and not self._is_dry:
            self._keep_raw(group)
        self._remember_files(group.files_to_read)
        for file in group.files_to_read:
            if file.cursor and not group.format.has_ids:
                self.outcome.report.add_note(file.shown, CHANGED)
            self._done += file.size
            file.source = None  # it may have much in memory
        if progress is not None:
            progress(self._done, self.total)

    def _follow_progress(self, group: FileGroup, progress: ImportProgress | None) -> None:
        if progress is None:
            return
        for file in group.files_to_read:
            file.open().report_progress = partial(self._report_progress, progress, file.size)

    def _report_progress(self, progress: ImportProgress, size: int, read: int) -> None:
        progress(self._done + min(read, size), self.total)

    def _read_group(
        self, group: FileGroup, handled: set[tuple[str, str]]
    ) -> Iterator[ImportedSession]:
        """Import the sessions of a group, but not those that were `handled`."""
        report = self.outcome.report
        for session in self._list_sessions(group.format, group.open_sources(report)):
            if (session.id, session.source) in handled or not self._is_wanted(session):
                continue
            # A tail is written at once: only here is its ReadWhole caught.
            if self._writer.has_origins(session) or any(thread.tail for thread in session.threads):
                yield from self._write_session(group, session)
            else:
                self._waiting.append((group, session))
            handled.add((session.id, session.source))

    def _list_sessions(
        self, format: TranscriptFormat, sources: Sequence[FileSource]
    ) -> Iterator[SourceSession]:
        """Yield the changed sessions of a group. If a source cannot be read, try each one alone."""
        changed = {source.path for source in sources if source.is_changed}
        found: set[str] = set()
        try:
            for session in read_safely(format.read(sources, self.outcome.report)):
                if session.source in changed:
                    for thread in session.threads:
                        thread.read_steps = partial(read_steps_safely, thread.read_steps)
                    found.add(session.id)
                    yield session
        except (OSError, Unreadable) as error:
            if len(sources) == 1:
                self._report_unread(sources[0].path, error)
                return
            for source in sources:
                for session in self._list_sessions(format, [source]):
                    if session.id not in found:
                        yield session

    def _write_session(self, group: FileGroup, session: SourceSession) -> Iterator[ImportedSession]:
        try:
            done = self._writer.write(session, is_busy=group.is_busy, modified=group.last_change)
        except (OSError, Unreadable) as error:
            self._report_unread(session.source, error)
            self._unfinished.update(thread.source for thread in session.threads if thread.source)
            return
        if done.unfinished:
            self._unfinished.add(session.source)
        check_understood(session)
        for thread in session.threads:
            if REPEATED not in session.report.mended:  # ids are numbered from the beginning
                self._note_end(group, thread)
        self.outcome.sessions.append(done)
        yield done

    def _note_end(self, group: FileGroup, thread: Thread) -> None:
        """Note where reading of a thread's file can continue."""
        if not group.format.reads_tails:
            return
        for file in group.files_to_read:
            if file.shown == thread.source and file.source is not None:
                file.state |= {**file.source.describe_end(), "state": thread.state}

    def _report_unread(self, path: str, error: Exception) -> None:
        report = self.outcome.report
        if all(fault.source != path for fault in report.unread):
            report.add_unread(path, error)
        self._unfinished.add(path)

    def _is_wanted(self, session: SourceSession) -> bool:
        """Return True if a session is in the folder and the time that the user asks for."""
        if self._project is not None and not self._is_in_project(session):
            return False
        if self._since is None:
            return True
        try:
            return has_entry_since(session, self._since)
        except (OSError, Unreadable) as error:
            self._report_unread(session.source, error)
            return False

    def _is_in_project(self, session: SourceSession) -> bool:
        for thread in session.threads:
            folder = os.path.abspath(str(thread.about.get("cwd") or os.sep))
            if folder == self._project or folder.startswith(f"{self._project}{os.sep}"):
                return True
        return False

    # --- cursors ---

    def _read_cursor(self, path: str) -> Data:
        """Return what is remembered of a file."""
        known = self._intake.source(TOOL, path)
        return {} if known is None or known.cursor is None else known.cursor

    def _remember_files(self, files: Iterable[FoundFile]) -> None:
        """Remember how files were when they were read."""
        if self._is_dry or self._project is not None or self._since is not None:
            return
        for file in files:
            if not file.is_changed:
                continue
            cursor = {**file.state, "format": file.format.name if file.format else None}
            if file.shown in self._unfinished:
                cursor["settled"] = False
            self._intake.remember(TOOL, file.key, cursor=cursor)
        self._intake.commit()

    def _keep_raw(self, group: FileGroup) -> None:
        """Keep the records of files with one session, beside the session."""
        for file in group.files_to_read:
            sessions = [one for one in self.outcome.sessions if one.source == file.shown]
            agent = sessions[0].agent if len(sessions) == 1 else None
            is_kept = agent is not None and keep_records(
                self._intake, self._store.agent(agent), file.open(), self._changes
            )
            if not is_kept:
                why = "--raw keeps the records of files with one session, as JSON or JSON lines"
                self.outcome.report.add_note(file.shown, why)


def import_transcripts(
    store: SessionStore,
    paths: Iterable[str | os.PathLike[str]],
    *,
    progress: ImportProgress | None = None,
    **options: Unpack[ImportOptions],
) -> ImportOutcome:
    """Import what is below some paths. Raises Invalid if one of them does not exist."""
    roots = [Path(path).expanduser() for path in paths]
    for root in roots:
        if not root.exists():
            raise Invalid(f"there is no file or folder {str(root)!r}", remedy="check the path")
    importer = Importer(store, roots, **options)
    for _ in importer.import_sessions(progress):
        pass
    return importer.outcome


def group_files(files: Iterable[FoundFile]) -> list[FileGroup]:
    """Return the groups with a changed file, earlier sessions first."""
    groups: dict[tuple[str, str], FileGroup] = {}
    for file in files:
        if file.format is not None:
            key = (file.format.name, file.format.group_key(file.shown))
            group = groups.setdefault(key, FileGroup(file.format, []))
            group.files.append(file)
    changed = [group for group in groups.values() if group.files_to_read]
    order = list_formats()
    return sorted(changed, key=lambda group: (order.index(group.format.name), sort_key(group)))


def check_understood(session: SourceSession) -> None:
    """Report a session if more than one record in ten is of a type that nobody knows."""
    report = session.report
    unknown = sum(report.unknown.values())
    if unknown > report.records * DOUBTFUL and report.records:
        why = f"{unknown:,} of {report.records:,} records were not understood"
        report.doubtful.append(Fault(session.source, None, why))


def has_entry_since(session: SourceSession, time: float) -> bool:
    """Return True if a session has an entry of this time, in seconds, or a later one."""
    for thread in session.threads:
        for unit in thread.read_units():
            times = [entry.time or 0 for entry in unit.entries]
            if max(times, default=0) >= time * 1e6:
                return True
    return False


def sort_key(group: FileGroup) -> tuple[str, int]:
    """Return the time of a group's earliest record, and the size of its file.

    A session that began as a copy of another one has the same first record, and is longer.
    """
    keys = []
    for file in group.files_to_read:
        time = read_first_time(file)
        if time is not None:
            keys.append((time, file.size))
    return min(keys, default=("", 0))


def read_first_time(file: FoundFile) -> str | None:
    """Return the time of the first record of a file that has one."""
    try:
        records = file.open().peek()[:20] if file.path.is_file() else ()
    except (OSError, Unreadable):
        return None  # it is reported when it is read
    for record in records:
        if isinstance(record, dict) and isinstance(record.get("timestamp"), str):
            return str(record["timestamp"])
    return None


# --- finding files ---


class FileFinder:
    """Finds files below some paths, and recognizes their formats by their content."""

    def __init__(
        self,
        report: ImportReport,
        format: str | None = None,
        settle: float = SETTLE,
        read_cursor: Callable[[str], Data] = lambda path: {},
    ) -> None:
        self._report = report
        self._format = None if format is None else load_format(format)
        self._settle = settle
        self._read_cursor = read_cursor
        self._now = time.time()
        self._companions: tuple[str, ...] = DATABASE_FILES
        for name in list_formats():
            self._companions += load_format(name).companions

    def find(
        self, paths: Iterable[str | os.PathLike[str]], since: float | None = None
    ) -> list[FoundFile]:
        """Return the files below the paths, those that were changed at `since` or later."""
        found: dict[str, FoundFile] = {}
        for given in paths:
            root = Path(given).expanduser()
            if not root.exists():
                self._report.add_unread(root.as_posix(), Unreadable("it does not exist"))
                continue
            for path, shown in list_files(root, self._report):
                file = self._examine(path, shown, since, is_named=path == root)
                if file is not None:
                    found.setdefault(file.key, file)
        return list(found.values())

    def _examine(
        self, path: Path, shown: str, since: float | None, *, is_named: bool
    ) -> FoundFile | None:
        """Return a file with its format. None if it is older, or cannot be read at all."""
        try:
            state = read_state(path)
        except OSError as error:
            self._report.add_unread(shown, error)
            return None
        seconds = state["time"] / 1e9
        if since is not None and seconds < since:
            return None
        file = FoundFile(path, shown, state, self._read_cursor(os.path.abspath(path)))
        file.is_quiet = self._now - seconds >= self._settle
        self._recognize(file, is_named=is_named)
        return file

    def _recognize(self, file: FoundFile, *, is_named: bool) -> None:
        """Find the format of a file. One that did not change is not opened."""
        if self._is_unchanged(file):
            name = file.cursor.get("format")
            file.is_changed = False
            if name in list_formats():
                file.format = load_format(name)
            return
        try:
            head = file.open().read_head()
            file.format = self._choose_format(head, is_named and not file.path.is_dir())
            if file.format is None:
                self._note_unknown(file, describe_lookalike(head) or UNKNOWN_FILE)
        except Exception as error:  # a file may contain anything, and a format may come from others
            self._report.add_unread(file.shown, error)
            file.is_changed = False

    def _note_unknown(self, file: FoundFile, what: str) -> None:
        file.source = None
        if file.size and not file.shown.endswith(self._companions):
            self._report.add_note(file.shown, what)

    def _is_unchanged(self, file: FoundFile) -> bool:
        cursor = file.cursor
        if cursor.get("settled") is False:
            return False
        if self._format is not None and cursor.get("format") != self._format.name:
            return False
        return all(cursor.get(name) == value for name, value in file.state.items())

    def _choose_format(self, head: SourceHead, is_file_named: bool) -> TranscriptFormat | None:
        """Return the format of a file by its content. A named file is what the user says it is."""
        if self._format is None:
            return recognize(head)
        if self._format.recognize(head):
            return self._format
        has_records = bool(head.tables or head.members or "{" in head.text)
        return self._format if is_file_named and has_records else None


def read_state(path: Path) -> Data:
    """Return size and time of a path: of a folder, those of everything in it, and of a database
    those of its log, too."""
    paths = [path, Path(f"{path}-wal")]
    if path.is_dir():
        paths = [Path(place, name) for place, _, names in os.walk(path) for name in names]
    stats = [one.stat() for one in paths if one == path or one.exists()]
    size = sum(one.st_size for one in stats)
    newest = max((one.st_mtime_ns for one in stats), default=0)
    return {"size": size, "time": newest, "parts": len(stats), "version": VERSION}


def read_steps_safely(
    read_steps: Callable[[ImportReport], Iterator[Step]], report: ImportReport
) -> Iterator[Step]:
    """Yield the steps of a thread. Raise Unreadable if its format fails."""
    yield from read_safely(read_steps(report))


def list_files(root: Path, report: ImportReport) -> Iterator[tuple[Path, str]]:
    """Yield the files at or below a path, in order, and folders that are one source."""
    if not root.is_dir():
        if is_regular(root, report):
            yield root, root.as_posix()
        return
    inside = root.resolve()

    def note_error(error: OSError) -> None:
        report.add_unread(str(error.filename), error)

    for place, folders, names in os.walk(root, onerror=note_error):
        if any(storage <= set(folders) for storage in STORAGE_FOLDERS):
            yield Path(place), Path(place).as_posix()
            folders.clear()
            continue
        folders[:] = [
            name for name in sorted(folders) if not is_link(Path(place, name), inside, report)
        ]
        for name in sorted(names):
            path = Path(place, name)
            if not is_link(path, inside, report) and is_regular(path, report):
                yield path, path.as_posix()


def is_link(path: Path, inside: Path, report: ImportReport) -> bool:
    """Return True if a path is a link. One that leads out of the folder is reported."""
    if not path.is_symlink():
        return False
    try:
        is_outside = not path.resolve().is_relative_to(inside)
    except (OSError, RuntimeError):
        is_outside = True
    if is_outside:
        why = "a link out of the folder: not followed"
        report.add_note(path.as_posix(), why)
    return True


def is_regular(path: Path, report: ImportReport) -> bool:
    """Return True if a path is a file with contents."""
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError as error:
        report.add_unread(path.as_posix(), error)
        return False


def list_known_places(
    get_variable: Callable[[str], str | None], home: Path
) -> Iterator[tuple[TranscriptFormat, Path]]:
    """Yield the folders and files where tools keep their transcripts on this machine."""
    for name in list_formats():
        format = load_format(name)
        for place in format.places:
            folder = get_variable(place.variable) if place.variable else None
            path = home / place.otherwise.removeprefix("~/")
            if folder:
                path = Path(folder) / place.below
            if path.exists():
                yield format, path
