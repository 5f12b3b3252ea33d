"""Finds what can be read below some paths, and recognises its format by content, never by name."""

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from backstory.transcripts import archives, databases
from backstory.transcripts.archives import FolderSource, ZipSource
from backstory.transcripts.databases import DatabaseSource
from backstory.transcripts.files import FileSource, Unreadable
from backstory.transcripts.format import Format
from backstory.transcripts.formats import FORMATS
from backstory.transcripts.transcript import Fault, Report

# A folder of small files is one source if it contains folders with these names.
STORAGES = (frozenset({"message", "part"}), frozenset({"message", "session"}))
# Files that belong to others: those of a database, and those that a format keeps beside its transcripts.
BESIDE = ("-wal", "-shm", "-journal", *(end for format in FORMATS for end in format.beside))

Found = list[tuple[Format, list[FileSource]]]


def find(paths: Iterable[str | Path], report: Report, format: Format | None = None) -> Found:
    """The sources below the paths, by format. Those of no known format are reported; `format` tries only
    one."""
    found: dict[str, list[FileSource]] = {}
    for given in paths:
        for path, shown in files(Path(given), report):
            fitting, source = recognised(path, shown, report, format, named=path == Path(given))
            if fitting is not None and source is not None:
                found.setdefault(fitting.name, []).append(source)
    return [(one, found[one.name]) for one in FORMATS if one.name in found]


def recognised(
    path: Path, shown: str, report: Report, format: Format | None = None, *, named: bool = False
) -> tuple[Format | None, FileSource | None]:
    """The format of a path, by its content; if there is none, that is reported. `named` means that the user
    gave this path, in which case a `format` overrides the content."""
    source = source_at(path, shown, report)
    if source is None:
        return None, None
    fitting = _fitting(source, FORMATS if format is None else (format,), report)
    if (
        fitting is None
        and format is not None
        and named
        and not path.is_dir()
        and _has_records(source)
    ):
        fitting = format
    if fitting is None and source.size() and not shown.endswith(BESIDE):
        report.notes.append(Fault(shown, None, "not a transcript that is known"))
    return fitting, source


def known_places(
    environment: Callable[[str], str | None], home: Path
) -> Iterator[tuple[Format, Path]]:
    """The folders and files where the tools on this machine keep their transcripts, as far as they exist."""
    for format in FORMATS:
        for place in format.places:
            said = environment(place.variable) if place.variable else None
            path = Path(said) / place.below if said else home / place.otherwise.removeprefix("~/")
            if path.exists():
                yield format, path


def _fitting(source: FileSource, formats: Iterable[Format], report: Report) -> Format | None:
    try:
        head = source.head()
    except (OSError, Unreadable) as error:
        report.unread.append(Fault(source.path, None, _why(error)))
        return None
    return next((format for format in formats if format.fits(head)), None)


def _has_records(source: FileSource) -> bool:
    """Whether there is anything in a source that could be a record, however damaged it is."""
    try:
        head = source.head()
    except (OSError, Unreadable):  # reported where its format is recognised
        return False
    return bool(head.tables or head.members or "{" in head.text)


def source_at(path: Path, shown: str, report: Report) -> FileSource | None:
    """The source at a path: a folder that is one source, a database, a zip, or a file."""
    if path.is_dir():
        return FolderSource(path, shown)
    try:
        with path.open("rb") as file:
            magic = file.read(16)
    except OSError as error:
        report.unread.append(Fault(shown, None, _why(error)))
        return None
    if magic.startswith(databases.MAGIC):
        return DatabaseSource(path, shown)
    if magic.startswith(archives.MAGIC):
        return ZipSource(path, shown)
    return FileSource(path, shown)


def files(root: Path, report: Report) -> Iterator[tuple[Path, str]]:
    """All files at or below a path, in order, and folders that are one source. Links are not followed."""
    if not root.is_dir():
        if _is_regular(root, report):
            yield root, root.as_posix()
        return
    inside = root.resolve()
    for place, folders, names in os.walk(root, onerror=lambda error: _unreadable(error, report)):
        if any(storage <= set(folders) for storage in STORAGES):
            yield Path(place), Path(place).as_posix()
            folders.clear()
            continue
        folders[:] = sorted(
            name for name in folders if not _leads_away(Path(place, name), inside, report)
        )
        for name in sorted(names):
            path = Path(place, name)
            if not _leads_away(path, inside, report) and _is_regular(path, report):
                yield path, path.as_posix()


def _leads_away(path: Path, inside: Path, report: Report) -> bool:
    """Whether a path is a link: out of the folder, which is reported, or to something that is found
    anyway."""
    if not path.is_symlink():
        return False
    try:
        outside = not path.resolve().is_relative_to(inside)
    except (OSError, RuntimeError):
        outside = True
    if outside:
        report.notes.append(Fault(path.as_posix(), None, "a link out of the folder: not followed"))
    return True


def _is_regular(path: Path, report: Report) -> bool:
    try:
        return stat.S_ISREG(path.stat().st_mode)
    except OSError as error:
        report.unread.append(Fault(path.as_posix(), None, _why(error)))
        return False


def _unreadable(error: OSError, report: Report) -> None:
    report.unread.append(Fault(str(error.filename), None, _why(error)))


def _why(error: Exception) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
