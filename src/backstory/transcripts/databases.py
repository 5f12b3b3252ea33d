"""Sources that are SQLite databases of other programs, which may be writing: opened read-only."""

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from backstory.transcripts.files import FileSource, Unreadable
from backstory.transcripts.format import Head

MAGIC = b"SQLite format 3\x00"
PATIENCE = 5000  # milliseconds to wait for a writer


class DatabaseSource(FileSource):
    """A database."""

    def __init__(self, path: Path, shown: str) -> None:
        super().__init__(path, shown)
        self._connection: Any = None

    def _open_database(self) -> Any:
        if self._connection is None:
            import apsw

            self._connection = self._connect(apsw)
        return self._connection

    def _connect(self, apsw: Any) -> Any:
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        name = self._path.absolute().as_uri()
        error: Exception | None = None
        # If its folder cannot be written, SQLite cannot create the files that reading needs.
        for options in ("mode=ro", "mode=ro&immutable=1"):
            try:
                connection = apsw.Connection(f"{name}?{options}", flags=flags)
                connection.set_busy_timeout(PATIENCE)
                connection.execute("select count(*) from sqlite_master").fetchall()
                return connection
            except apsw.BusyError as busy:
                raise Unreadable("in use by another program") from busy
            except apsw.Error as failure:
                error = error or failure
                if Path(f"{self._path}-wal").exists():
                    break
        raise Unreadable(f"not a database that can be read: {error}")

    def columns(self) -> Mapping[str, set[str]]:
        """Its tables and their columns; not those of virtual tables, whose module need not be here."""
        query = (
            "select m.name, c.name from sqlite_master m, pragma_table_info(m.name) c"
            " where m.type = 'table' and m.sql not like 'create virtual%'"
        )
        found: dict[str, set[str]] = {}
        for table, column in self.rows(query):
            found.setdefault(table, set()).add(column)
        return found

    def head(self) -> Head:
        """Its tables."""
        return Head([], "", frozenset(), self.columns(), frozenset())

    def rows(self, query: str, arguments: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a query. Where a text is not UTF-8, characters are replaced."""
        connection = self._open_database()
        import apsw

        told = 0
        try:
            try:
                for row in connection.execute(query, arguments):
                    told += 1
                    yield row
            except UnicodeDecodeError:
                yield from islice(_replaced(connection, query, arguments), told, None)
        except apsw.BusyError as busy:
            raise Unreadable("in use by another program") from busy
        except apsw.Error as error:
            raise Unreadable(f"cannot be read: {error}") from error


def _replaced(connection: Any, query: str, arguments: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """The rows of a query whose texts are read as bytes."""
    width = len(connection.execute(query, arguments).get_description())
    names = [f"c{number}" for number in range(width)]
    values = ", ".join(
        f"typeof({name}), iif(typeof({name}) = 'text', cast({name} as blob), {name})"
        for name in names
    )
    found = f"with found({', '.join(names)}) as ({query}) select {values} from found"
    for row in connection.execute(found, arguments):
        pairs = zip(row[::2], row[1::2], strict=True)
        yield tuple(
            value.decode("utf-8", "replace") if type_ == "text" else value for type_, value in pairs
        )
