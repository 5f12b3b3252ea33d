"""The databases, behind one small protocol; `connect` picks one by its address."""

import os

from backstory.backends.base import Backend
from backstory.errors import CannotOpen

_SQLITE = "sqlite://"
_POSTGRES = ("postgresql://", "postgres://")


def connect(url: str | os.PathLike[str]) -> Backend:
    """The backend for an address: a path, ":memory:", "sqlite:///path" or "postgresql://…".

    Drivers are imported here, where they are used, so that `import backstory` stays quick.
    """
    address = os.fspath(url)
    if address == ":memory:":
        from backstory.backends.memory import MemoryBackend

        return MemoryBackend()
    if address.startswith(_POSTGRES):
        try:
            from backstory.backends.postgres import PostgresBackend
        except ImportError as error:
            raise CannotOpen(
                f"PostgreSQL needs a driver that is not installed ({error}): "
                "run pip install 'backstory[postgres]'"
            ) from error
        return PostgresBackend(address)
    path = address.removeprefix(_SQLITE + "/").removeprefix(_SQLITE)
    if "://" in path or not path:
        raise CannotOpen(
            f"{address!r} is no store: give the path of a file, ':memory:', "
            "'sqlite:///path' or 'postgresql://…'"
        )
    from backstory.backends.sqlite import SqliteBackend

    return SqliteBackend(path)
