"""Sources that are zips and folders."""

import os
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from backstory.transcripts.arrays import elements
from backstory.transcripts.files import BLOWN_UP, ENOUGH, FileSource, Unreadable
from backstory.transcripts.format import Head
from backstory.transcripts.transcript import Fault, Report

MAGIC = b"PK\x03\x04"
CONVERSATIONS = "conversations.json"
BROKEN = (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, NotImplementedError)


class ZipSource(FileSource):
    """A zip. Its members are read as streams; zips within it are not opened."""

    def _members(self) -> dict[str, zipfile.ZipInfo]:
        try:
            with zipfile.ZipFile(self._path) as archive:
                return {info.filename.rsplit("/", 1)[-1]: info for info in archive.infolist()}
        except (zipfile.BadZipFile, OSError, ValueError) as error:
            raise Unreadable(f"not a zip that can be read: {error}") from error

    def _parts(self, name: str) -> list[zipfile.ZipInfo]:
        """The members that contain an array: one, or several with numbers. A large export of ChatGPT has
        conversations-000.json, conversations-001.json and so on."""
        members = self._members()
        if name in members:
            return [members[name]]
        stem, _, suffix = name.rpartition(".")
        numbered = re.compile(rf"{re.escape(stem)}-[0-9]+\.{re.escape(suffix)}")
        return [members[one] for one in sorted(members) if numbered.fullmatch(one)]

    def head(self) -> Head:
        """Its members, and the beginning of the conversations."""
        text = ""
        parts = self._parts(CONVERSATIONS)
        if parts:
            try:
                with zipfile.ZipFile(self._path) as archive, archive.open(parts[0]) as file:
                    text = file.read(64 * 1024).decode("utf-8", "replace")
            except BROKEN as error:
                raise Unreadable(f"not a zip that can be read: {error}") from error
        members = frozenset(self._members()) | ({CONVERSATIONS} if parts else set())
        return Head([], text, frozenset(), {}, members)

    def items(self, name: str, report: Report) -> Iterator[Any]:
        """The elements of the array in a member, or in several numbered members."""
        parts = self._parts(name)
        if not parts:
            raise Unreadable(f"no {name} in it")
        for part in parts:
            yield from self._elements(part, report)

    def _elements(self, info: zipfile.ZipInfo, report: Report) -> Iterator[Any]:
        name = info.filename
        if info.file_size > ENOUGH and info.file_size > info.compress_size * BLOWN_UP:
            raise Unreadable(f"{name} is more than {BLOWN_UP} times its size when it is unpacked")
        try:
            with zipfile.ZipFile(self._path) as archive, archive.open(info) as file:
                yield from elements(file, f"{self.path}/{name}", report)
        except BROKEN as error:
            raise Unreadable(f"{name} cannot be unpacked: {error}") from error


class FolderSource(FileSource):
    """A folder of many small JSON files."""

    def head(self) -> Head:
        """Its folders."""
        names = frozenset(entry.name for entry in os.scandir(self._path))
        return Head([], "", frozenset(), {}, names)

    def files(self, under: str, report: Report) -> Iterator[tuple[str, Any]]:
        """The JSON files below a path, in the order of their names. An id in it may be anything."""
        if "\0" in under or ".." in Path(under).parts:
            return
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
