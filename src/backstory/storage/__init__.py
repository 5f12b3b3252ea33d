"""The databases, behind small protocols; `connect` picks one by its address."""

import os

from backstory.errors import CannotOpen
from backstory.storage.address import Database, parse_address
from backstory.storage.protocols import Backend


def connect(url: str | os.PathLike[str], *, read_only: bool = False) -> Backend:
    """The backend for an address: a path, ":memory:", "sqlite:///path" or "postgresql://…".

    Drivers are imported here, where they are needed, so that `import backstory` stays fast.
    """
    address = parse_address(url)
    match address.database:
        case Database.MEMORY:
            from backstory.storage.memory.backend import MemoryBackend

            if read_only:
                raise CannotOpen(
                    "a store in memory begins empty: it cannot be opened for reading only"
                )

            return MemoryBackend()
        case Database.SQLITE:
            from backstory.storage.sqlite.backend import SqliteBackend

            return SqliteBackend(address.place, read_only=read_only)
        case Database.POSTGRES:
            try:
                from backstory.storage.postgres.backend import PostgresBackend
            except ImportError as error:
                raise CannotOpen(
                    f"PostgreSQL needs a driver that is not installed ({error})",
                    remedy="run pip install 'backstory[postgres]'",
                ) from error
            return PostgresBackend(address.place, read_only=read_only)
