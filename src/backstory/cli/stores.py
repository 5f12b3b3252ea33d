"""Which store a command works on, and which commands may create one."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path

import backstory
from backstory.storage.address import Database, parse_address
from backstory.store import Store

VARIABLE = "BACKSTORY_STORE"

_lent: ContextVar[Store | None] = ContextVar("lent", default=None)


@contextmanager
def lending(store: Store) -> Iterator[None]:
    """Commands that are run inside work on this store, which stays open."""
    before = _lent.set(store)
    try:
        yield
    finally:
        _lent.reset(before)


def opened(
    url: str | None, *, make: bool = False, read_only: bool = False
) -> AbstractContextManager[Store]:
    """The store of the command. With `make`, it is created if it does not exist; with `read_only`, nothing
    can be written to it."""
    lent = _lent.get()
    if lent is not None:
        return nullcontext(lent)
    address = address_of(url, make=make)
    path = file_of(address)
    if not make and path is not None and not _holds_something(path):
        raise backstory.CannotOpen(
            f"no store at {path!r}",
            remedy=f"create one with `backstory new`, or name another with --store or {VARIABLE}",
        )
    if path is None:
        _quiet_pool()
    return backstory.open(address, read_only=read_only)


def _quiet_pool() -> None:
    """Ctrl-C in the middle of a statement closes its connection. Do not warn about that."""
    import logging

    logging.getLogger("psycopg").setLevel(logging.ERROR)  # the pool's too


@contextmanager
def filled(url: str | None) -> Iterator[Store]:
    """A store to import into. If the import fails, a file that was created for it is removed again, unless
    someone else has written to it in the meantime."""
    path = file_of(address_of(url, make=True))
    made = path is not None and not os.path.exists(path)
    unused = False
    try:
        with opened(url, make=True) as store:
            try:
                yield store
            except BaseException:
                unused = made and not store.agents()
                raise
    finally:
        if unused:
            for ending in ("", "-wal", "-shm"):
                Path(f"{path}{ending}").unlink(missing_ok=True)


def rehearsed(url: str | None) -> AbstractContextManager[Store]:
    """A store for reading only; if there is none yet, an empty one in memory."""
    path = file_of(address_of(url, make=True))
    missing = path is not None and not os.path.exists(path) and _lent.get() is None
    return backstory.open(":memory:") if missing else opened(url, make=True)


def file_of(address: str) -> str | None:
    """The path of a store that is a file."""
    database, location = parse_address(address)
    return location if database is Database.SQLITE else None


def default_store(*, make: bool) -> str:
    """The store in the platform's folder for data; the folder is readable by its owner only."""
    from platformdirs import user_data_path

    folder: Path = user_data_path("backstory", appauthor=False)
    if make:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    return str(folder / "history.db")


def address_of(url: str | None, *, make: bool) -> str:
    """The address of the command's store. With `make`, the folder of the default store is created."""
    return url or os.environ.get(VARIABLE) or default_store(make=make)


def _holds_something(path: str) -> bool:
    """Refuse an empty file: it is not a store, and reading must not turn it into one."""
    return os.path.exists(path) and (not os.path.isfile(path) or os.path.getsize(path) > 0)
