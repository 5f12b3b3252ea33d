"""The databases, each one a Backend of the storage protocol. `connect` opens one by its address."""

import os

from backstory.errors import CannotOpen
from backstory.storage.address import Database, parse_address
from backstory.storage.protocol import Backend


def connect(url: str | os.PathLike[str], *, read_only: bool = False) -> Backend:
    """Open the store at an address: a path, ":memory:", "sqlite:///path" or "postgresql://…".

    Drivers are imported here, where they are needed, so that `import backstory` stays fast.
    """
    address = parse_address(url)
    match address.database:
        case Database.MEMORY:
            return open_memory(read_only)
        case Database.SQLITE:
            from backstory.storage.sqlite.backend import SqliteBackend

            return SqliteBackend(address.location, read_only=read_only)
        case Database.POSTGRES:
            return open_postgres(address.location, read_only)


def open_memory(read_only: bool) -> Backend:
    """Return an empty store in memory."""
    from backstory.storage.memory import MemoryBackend

    if read_only:
        raise CannotOpen("a store in memory begins empty: it cannot be opened for reading only")
    return MemoryBackend()


def open_postgres(url: str, read_only: bool) -> Backend:
    """Open a store in PostgreSQL. Raises CannotOpen if its driver is not installed."""
    try:
        from backstory.storage.postgres.backend import PostgresBackend
    except ImportError as error:
        raise CannotOpen(
            f"PostgreSQL needs a driver that is not installed ({error})",
            remedy="run pip install 'backstory[postgres]'",
        ) from error
    return PostgresBackend(url, read_only=read_only)
