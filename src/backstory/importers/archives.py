"""Sources that are zips and folders."""

import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from backstory.importers.arrays import elements
from backstory.importers.files import BLOWN_UP, ENOUGH, FileSource, Unreadable
from backstory.importers.format import Head
from backstory.importers.transcript import Fault, Report

MAGIC = b"PK\x03\x04"


class ZipSource(FileSource):
    """A zip. Its members are read as streams; zips within it are not opened."""

    def _members(self) -> dict[str, zipfile.ZipInfo]:
        try:
            with zipfile.ZipFile(self._path) as archive:
                return {info.filename.rsplit("/", 1)[-1]: info for info in archive.infolist()}
        except (zipfile.BadZipFile, OSError, ValueError) as error:
            raise Unreadable(f"not a zip that can be read: {error}") from error

    def head(self) -> Head:
        """Its members, and the beginning of the conversations."""
        members = self._members()
        text = ""
        if "conversations.json" in members:
            with zipfile.ZipFile(self._path) as archive, archive.open(members["conversations.json"]) as file:
                text = file.read(64 * 1024).decode("utf-8", "replace")
        return Head([], text, frozenset(), {}, frozenset(members))

    def items(self, name: str, report: Report) -> Iterator[Any]:
        """The elements of the array that a member is."""
        info = self._members().get(name)
        if info is None:
            raise Unreadable(f"no {name} in it")
        if info.file_size > ENOUGH and info.file_size > info.compress_size * BLOWN_UP:
            raise Unreadable(f"{name} is more than {BLOWN_UP} times its size when it is unpacked")
        try:
            with zipfile.ZipFile(self._path) as archive, archive.open(info) as file:
                yield from elements(file, f"{self.path}/{name}", report)
        except (zipfile.BadZipFile, OSError, EOFError, RuntimeError, NotImplementedError) as error:
            raise Unreadable(f"{name} cannot be unpacked: {error}") from error


class FolderSource(FileSource):
    """A folder of many small JSON files."""

    def head(self) -> Head:
        """Its folders."""
        names = frozenset(entry.name for entry in os.scandir(self._path))
        return Head([], "", frozenset(), {}, names)

    def files(self, under: str, report: Report) -> Iterator[tuple[str, Any]]:
        """The JSON files below a path, in the order of their names."""
        for place, folders, names in os.walk(self._path / under):
            folders.sort()
            for name in sorted(names):
                path = Path(place, name)
                shown = path.relative_to(self._path).as_posix()
                if not name.endswith(".json") or path.is_symlink():
                    continue
                try:
                    yield shown, FileSource(path, f"{self.path}/{shown}").document(report)
                except (OSError, Unreadable) as error:
                    report.unread.append(Fault(f"{self.path}/{shown}", None, str(error)))
