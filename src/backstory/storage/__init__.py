"""The databases, behind one small protocol; `connect` picks one by its address."""

import os

from backstory.errors import CannotOpen
from backstory.storage.protocols import Backend

_SQLITE = "sqlite://"
_LOOKS_LIKE_A_URL = ("sqlite:", "file:", "postgres:", "postgresql:")
_POSTGRES = ("postgresql://", "postgres://")


def connect(url: str | os.PathLike[str]) -> Backend:
    """The backend for an address: a path, ":memory:", "sqlite:///path" or "postgresql://…".

    Drivers are imported here, where they are used, so that `import backstory` stays quick.
    """
    try:
        address = os.fspath(url)
    except TypeError:
        address = ""
    if not isinstance(address, str) or not _is_plain(address):
        raise CannotOpen(f"{address!r} is not a store", remedy="give its address as a string or a path")
    if address.removeprefix(_SQLITE + "/").removeprefix(_SQLITE) == ":memory:":
        from backstory.storage.memory import MemoryBackend

        return MemoryBackend()
    if address.startswith(_POSTGRES):
        try:
            from backstory.storage.postgres.backend import PostgresBackend
        except ImportError as error:
            raise CannotOpen(
                f"PostgreSQL needs a driver that is not installed ({error})",
                remedy="run pip install 'backstory[postgres]'",
            ) from error
        return PostgresBackend(address)
    path = address.removeprefix(_SQLITE + "/").removeprefix(_SQLITE)
    if not path or "://" in path or path.startswith(_LOOKS_LIKE_A_URL):
        raise CannotOpen(
            f"{address or url!r} is not a store",
            remedy="give the path of a file, ':memory:', 'sqlite:///path' or 'postgresql://…'",
        )
    from backstory.storage.sqlite.backend import SqliteBackend

    return SqliteBackend(os.path.expanduser(path))


def _is_plain(address: str) -> bool:
    """Whether the drivers can read it: no NUL, no half of a surrogate pair."""
    return "\0" not in address and address.encode(errors="replace").decode() == address
