"""The databases, behind small protocols; `connect` picks one by its address."""

import os

from backstory.errors import CannotOpen
from backstory.storage.address import Database, parse_address
from backstory.storage.protocols import Backend


def connect(url: str | os.PathLike[str]) -> Backend:
    """The backend for an address: a path, ":memory:", "sqlite:///path" or "postgresql://…".

    Drivers are imported here, where they are used, so that `import backstory` stays quick.
    """
    address = parse_address(url)
    match address.database:
        case Database.MEMORY:
            from backstory.storage.memory.backend import MemoryBackend

            return MemoryBackend()
        case Database.SQLITE:
            from backstory.storage.sqlite.backend import SqliteBackend

            return SqliteBackend(address.place)
        case Database.POSTGRES:
            try:
                from backstory.storage.postgres.backend import PostgresBackend
            except ImportError as error:
                raise CannotOpen(
                    f"PostgreSQL needs a driver that is not installed ({error})",
                    remedy="run pip install 'backstory[postgres]'",
                ) from error
            return PostgresBackend(address.place)
