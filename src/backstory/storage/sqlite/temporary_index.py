"""A search index of our own for a store that may only be read, in a temporary database.

SQLite deletes the database when it is closed, so words that are erased later do not stay on a disk.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock
from typing import Any

import apsw

from backstory.storage.pool import ErrorTranslator
from backstory.storage.sql import RowShape, make_records
from backstory.storage.sqlite.file import OpenMode, compute_share
from backstory.storage.sqlite.frames import FrameReader
from backstory.storage.sqlite.index import CREATE_TABLES, SqliteIndex

FLAGS = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE | apsw.SQLITE_OPEN_URI


class TemporaryIndex(SqliteIndex):
    """The search index of a store that may only be read, for one process."""

    def __init__(self, mode: OpenMode, translator: ErrorTranslator) -> None:
        super().__init__(self._run_here, is_temporary=True)
        self._translator = translator
        self._lock = RLock()
        with translator:
            self._db = open_database(mode)

    def index_next(self, *arguments: Any) -> int:
        """Index more events, as `SqliteIndex` does, in one transaction."""
        with self._borrow() as db, db:
            count = super().index_next(*arguments)
        return count  # noqa: RET504 - mypy: a `with` may end an error

    def close(self) -> None:
        """Delete the index."""
        with self._lock:
            self._db.close()

    def _run_here(self, sql: str, bindings: Any = None, shape: RowShape = tuple) -> list[Any]:
        with self._borrow() as db:
            return make_records(shape, db.execute(sql, bindings))

    @contextmanager
    def _borrow(self) -> Iterator[apsw.Connection]:
        with self._translator, self._lock:
            yield self._db


def open_database(mode: OpenMode) -> apsw.Connection:
    """Open an empty index, with the store attached for reading.

    Names of tables are looked up in the temporary database first and then in the store, so the
    statements are those of the store's own index.
    """
    from urllib.parse import quote  # here, because few stores are read-only

    db = apsw.Connection("", flags=FLAGS)
    name = mode.name if mode.is_immutable else f"file:{quote(mode.name)}?mode=ro"
    db.execute("ATTACH ? AS store", (name,))
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    FrameReader().register(db)
    db.register_fts5_function("share", compute_share)
    db.execute(CREATE_TABLES)
    return db
