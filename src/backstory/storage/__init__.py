"""The databases, each one a Backend of the storage protocol. `connect` opens one by its address."""

import os

from backstory.errors import CannotOpen, Invalid
from backstory.storage.address import Database, parse_address
from backstory.storage.locks import DEFAULT_TIMEOUT
from backstory.storage.protocol import Backend

LONGEST_TIMEOUT = 1_000_000.0  # seconds; PostgreSQL counts milliseconds in 31 bits


def connect(
    url: str | os.PathLike[str], *, read_only: bool = False, timeout: float = DEFAULT_TIMEOUT
) -> Backend:
    """Open the store at an address: a path, ":memory:", "sqlite:///path" or "postgresql://…". No
    call of its backend waits longer than `timeout` seconds.

    Drivers are imported here, where they are needed, so that `import backstory` stays fast.
    """
    check_timeout(timeout)
    address = parse_address(url)
    match address.database:
        case Database.MEMORY:
            return open_memory(read_only=read_only, timeout=timeout)
        case Database.SQLITE:
            from backstory.storage.sqlite.backend import SqliteBackend

            return SqliteBackend(address.location, read_only=read_only, timeout=timeout)
        case Database.POSTGRES:
            return open_postgres(address.location, read_only=read_only, timeout=timeout)


def check_timeout(timeout: float) -> None:
    """Raise Invalid if `timeout` is not a number of seconds."""
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not is_number or not 0 < timeout <= LONGEST_TIMEOUT:
        raise Invalid(
            f"timeout={timeout!r:.60} is not a number of seconds",
            remedy=f"pass a number above 0, and at most {LONGEST_TIMEOUT:,.0f}",
        )


def open_memory(*, read_only: bool, timeout: float) -> Backend:
    """Return an empty store in memory."""
    from backstory.storage.memory import MemoryBackend

    if read_only:
        raise CannotOpen("a store in memory begins empty: it cannot be opened for reading only")
    return MemoryBackend(timeout=timeout)


def open_postgres(url: str, *, read_only: bool, timeout: float) -> Backend:
    """Open a store in PostgreSQL. Raises CannotOpen if its driver is not installed."""
    try:
        from backstory.storage.postgres.backend import PostgresBackend
    except ImportError as error:
        raise CannotOpen(
            f"PostgreSQL needs a driver that is not installed ({error})",
            remedy="run pip install 'backstory[postgres]'",
        ) from error
    return PostgresBackend(url, read_only=read_only, timeout=timeout)
