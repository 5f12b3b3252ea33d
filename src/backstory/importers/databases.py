"""Sources that are SQLite databases of other programs, which may be writing: opened read-only."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from backstory.importers.files import FileSource, Unreadable
from backstory.importers.format import Head

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
        """Its tables and their columns."""
        query = (
            "select m.name, c.name from sqlite_master m, pragma_table_info(m.name) c where m.type = 'table'"
        )
        found: dict[str, set[str]] = {}
        for table, column in self.rows(query):
            found.setdefault(table, set()).add(column)
        return found

    def head(self) -> Head:
        """Its tables."""
        return Head([], "", frozenset(), self.columns(), frozenset())

    def rows(self, query: str, arguments: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a query."""
        connection = self._open_database()
        import apsw

        try:
            yield from connection.execute(query, arguments)
        except apsw.BusyError as busy:
            raise Unreadable("in use by another program") from busy
        except (apsw.Error, UnicodeDecodeError) as error:
            raise Unreadable(f"cannot be read: {error}") from error
