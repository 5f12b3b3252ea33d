"""Sources that contain many transcripts: zips, folders, and SQLite databases of other programs."""

import os
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from backstory.transcripts.format import SourceHead
from backstory.transcripts.model import ImportReport, Unreadable
from backstory.transcripts.sources import (
    CHECKED_FROM,
    HEAD,
    MOST_UNPACKED,
    FileSource,
    read_array,
)

ZIP = b"PK\x03\x04"
SQLITE = b"SQLite format 3\x00"
CONVERSATIONS = "conversations.json"
ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, NotImplementedError)
BUSY_TIMEOUT = 5000  # milliseconds to wait for a writer


def open_source(path: Path, shown: str) -> FileSource:
    """Return the source at a path: a folder that is one source, a database, a zip, or a file."""
    if path.is_dir():
        return FolderSource(path, shown)
    with path.open("rb") as file:
        magic = file.read(len(SQLITE))
    if magic.startswith(SQLITE):
        return DatabaseSource(path, shown)
    if magic.startswith(ZIP):
        return ZipSource(path, shown)
    return FileSource(path, shown)


class ZipSource(FileSource):
    """A zip. Its members are read as streams; zips within it are not opened."""

    def _list_members(self) -> dict[str, zipfile.ZipInfo]:
        try:
            with zipfile.ZipFile(self._path) as archive:
                infos = archive.infolist()
        except (zipfile.BadZipFile, OSError, ValueError) as error:
            raise Unreadable(f"not a zip that can be read: {error}") from error
        return {info.filename.rsplit("/", 1)[-1]: info for info in infos}

    def _list_parts(self, name: str) -> list[zipfile.ZipInfo]:
        """Return the members that contain an array: one, or several with numbers.

        A large export of ChatGPT has conversations-000.json, conversations-001.json and so on.
        """
        members = self._list_members()
        if name in members:
            return [members[name]]
        stem, _, suffix = name.rpartition(".")
        numbered = re.compile(rf"{re.escape(stem)}-[0-9]+\.{re.escape(suffix)}")
        return [members[one] for one in sorted(members) if numbered.fullmatch(one)]

    def read_head(self) -> SourceHead:
        """Return the members, and the beginning of the conversations."""
        parts = self._list_parts(CONVERSATIONS)
        members = frozenset(self._list_members())
        if not parts:
            return SourceHead(members=members)
        try:
            with zipfile.ZipFile(self._path) as archive, archive.open(parts[0]) as file:
                text = file.read(HEAD).decode("utf-8", "replace")
        except ZIP_ERRORS as error:
            raise Unreadable(f"not a zip that can be read: {error}") from error
        return SourceHead(text=text, members=members | {CONVERSATIONS})

    def read_items(self, member: str, report: ImportReport) -> Iterator[Any]:
        """Yield the elements of the array in a member, or in several numbered members."""
        parts = self._list_parts(member)
        if not parts:
            raise Unreadable(f"no {member} in it")
        for part in parts:
            yield from self._read_elements(part, report)

    def _read_elements(self, info: zipfile.ZipInfo, report: ImportReport) -> Iterator[Any]:
        name = info.filename
        is_large = info.file_size > CHECKED_FROM
        if is_large and info.file_size > info.compress_size * MOST_UNPACKED:
            raise Unreadable(f"{name} is more than {MOST_UNPACKED} times its size when unpacked")
        try:
            with zipfile.ZipFile(self._path) as archive, archive.open(info) as file:
                yield from read_array(file, f"{self.path}/{name}", report)
        except ZIP_ERRORS as error:
            raise Unreadable(f"{name} cannot be unpacked: {error}") from error


class FolderSource(FileSource):
    """A folder of many small JSON files."""

    def read_head(self) -> SourceHead:
        """Return the names in the folder."""
        return SourceHead(members=frozenset(entry.name for entry in os.scandir(self._path)))

    def read_files(self, under: str, report: ImportReport) -> Iterator[tuple[str, Any]]:
        """Yield path and value of each JSON file below a path, ordered by name."""
        if "\0" in under or ".." in Path(under).parts:
            return  # `under` contains an id, which may be anything
        for place, folders, names in os.walk(self._path / under):
            folders.sort()
            for name in sorted(names):
                path = Path(place, name)
                shown = path.relative_to(self._path).as_posix()
                if not name.endswith(".json") or path.is_symlink():
                    continue
                try:
                    yield shown, FileSource(path, f"{self.path}/{shown}").read_document(report)
                except (OSError, Unreadable) as error:
                    report.add_unread(f"{self.path}/{shown}", error)


class DatabaseSource(FileSource):
    """An SQLite database, to which its program may be writing: it is opened read-only."""

    def __init__(self, path: Path, shown: str) -> None:
        super().__init__(path, shown)
        self._connection: Any = None
        self._columns: dict[str, set[str]] = {}

    def _connect(self) -> Any:
        """Return the connection."""
        if self._connection is not None:
            return self._connection
        import apsw  # here, because few imports need it

        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        name = self._path.absolute().as_uri()
        first_error: Exception | None = None
        # If its folder cannot be written, SQLite cannot create the files that reading needs.
        for options in ("mode=ro", "mode=ro&immutable=1"):
            try:
                connection = apsw.Connection(f"{name}?{options}", flags=flags)
                connection.set_busy_timeout(BUSY_TIMEOUT)
                connection.execute("select count(*) from sqlite_master").fetchall()
            except apsw.BusyError as error:
                raise Unreadable("in use by another program") from error
            except apsw.Error as error:
                first_error = first_error or error
                if Path(f"{self._path}-wal").exists():
                    break
            else:
                self._connection = connection
                return connection
        raise Unreadable(f"not a database that can be read: {first_error}")

    def list_columns(self) -> Mapping[str, set[str]]:
        """Return the tables and their columns, without virtual tables, whose module may be
        missing."""
        query = (
            "select m.name, c.name from sqlite_master m, pragma_table_info(m.name) c"
            " where m.type = 'table' and m.sql not like 'create virtual%'"
        )
        if not self._columns:
            for table, column in self.read_rows(query):
                self._columns.setdefault(table, set()).add(column)
        return self._columns

    def read_head(self) -> SourceHead:
        """Return the tables."""
        return SourceHead(tables=self.list_columns())

    def read_rows(self, query: str, arguments: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query. Where a text is not UTF-8, characters are replaced."""
        connection = self._connect()
        import apsw

        count = 0
        try:
            try:
                for row in connection.execute(query, arguments):
                    count += 1
                    yield row
            except UnicodeDecodeError:
                yield from islice(read_replaced(connection, query, arguments), count, None)
        except apsw.BusyError as error:
            raise Unreadable("in use by another program") from error
        except apsw.Error as error:
            raise Unreadable(f"cannot be read: {error}") from error


def read_replaced(
    connection: Any, query: str, arguments: tuple[Any, ...]
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a query whose texts are read as bytes."""
    width = len(connection.execute(query, arguments).get_description())
    names = [f"c{number}" for number in range(width)]
    values = []
    for name in names:
        values += [f"typeof({name})", f"iif(typeof({name}) = 'text', cast({name} as blob), {name})"]
    found = f"with found({', '.join(names)}) as ({query}) select {', '.join(values)} from found"
    for row in connection.execute(found, arguments):
        yield tuple(decode_cell(row[n], row[n + 1]) for n in range(0, len(row), 2))


def decode_cell(kind: str, value: Any) -> Any:
    """Return the value of a cell whose texts were read as bytes."""
    return value.decode("utf-8", "replace") if kind == "text" else value
