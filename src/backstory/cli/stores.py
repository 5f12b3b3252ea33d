"""Which store a command works on, and which commands may create one."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

import backstory
from backstory.agent import Agent
from backstory.cli.times import parse_time
from backstory.errors import Invalid, MarkNotFound
from backstory.references import Reference
from backstory.storage.address import Database, parse_address
from backstory.store import Store

VARIABLE = "BACKSTORY_STORE"


class LentStore(NamedTuple):
    """The open store of another program, such as the chat, and the agent that it works on."""

    store: Store
    agent: Agent


_lent: ContextVar[LentStore | None] = ContextVar("lent", default=None)


@contextmanager
def lend_store(store: Store, agent: Agent) -> Iterator[None]:
    """Let commands that run inside work on `store`, which stays open. `@` is `agent`."""
    before = _lent.set(LentStore(store, agent))
    try:
        yield
    finally:
        _lent.reset(before)


def is_lent() -> bool:
    """Return True if another program runs this command on its own store."""
    return _lent.get() is not None


def find_reference(store: Store, ref: str) -> Reference:
    """Return the agent and position that `ref` names. Without a name, the agent is the lent one,
    otherwise the one that was written to last. Times have all forms that --since has."""
    lent = _lent.get()
    if lent is not None and ref.startswith("@"):
        ref = f"{lent.agent.id}{ref}"
    try:
        return store.resolve(ref)
    except MarkNotFound as error:
        name, _, moment = ref.partition("@")
        try:
            time = parse_time(moment)
        except Invalid:
            time = None
        if time is None:
            message = f"{error.message}, and that is not a time either"
            raise MarkNotFound(message, remedy=error.remedy) from None
        return store.resolve(f"{name}@{time.isoformat()}")


def open_store(
    url: str | None, *, make: bool = False, read_only: bool = False
) -> AbstractContextManager[Store]:
    """Open the store of the command. With `make`, it is created if it does not exist; with
    `read_only`, nothing can be written to it."""
    lent = _lent.get()
    if lent is not None:
        if url is not None:
            raise Invalid("this command works on the open store", remedy="leave out --store")
        return nullcontext(lent.store)
    address = find_address(url, make=make)
    path = get_path(address)
    if path is None:
        _silence_pool()
    elif not make and not _has_content(path):
        remedy = (
            "`backstory import` adds the histories of this machine, `backstory chat` or `backstory"
            f" new` starts one; --store or {VARIABLE} names another store"
        )
        raise backstory.CannotOpen(f"no store at {path!r}", remedy=remedy)
    return backstory.open(address, read_only=read_only)


def _silence_pool() -> None:
    """Do not warn that Ctrl-C in the middle of a statement closes its connection."""
    import logging

    logging.getLogger("psycopg").setLevel(logging.ERROR)  # the pool's too


def _has_content(path: str) -> bool:
    """Return False for an empty file, too: reading must not turn it into a store."""
    return os.path.exists(path) and (not os.path.isfile(path) or os.path.getsize(path) > 0)


@contextmanager
def open_for_import(url: str | None, *, dry_run: bool = False) -> Iterator[Store]:
    """Open a store to import into. If the import fails, a file that was created for it is removed,
    unless somebody else has written to it in the meantime. For a dry run into a store that does not
    exist, it is an empty one in memory."""
    path = get_path(find_address(url, make=True))
    is_new = path is not None and not os.path.exists(path)
    if dry_run and is_new:
        with backstory.open(":memory:") as store:
            yield store
        return
    is_unused = False
    try:
        with open_store(url, make=True) as store:
            try:
                yield store
            except BaseException:
                is_unused = is_new and not store.agents()
                raise
    finally:
        if is_unused:
            for ending in ("", "-wal", "-shm"):
                Path(f"{path}{ending}").unlink(missing_ok=True)


def find_address(url: str | None, *, make: bool) -> str:
    """Return the address of the command's store. With `make`, the folder of the default store is
    created."""
    return url or os.environ.get(VARIABLE) or _find_default(make=make)


def get_path(address: str) -> str | None:
    """Return the path of a store that is a file."""
    database, location = parse_address(address)
    return location if database is Database.SQLITE else None


def _find_default(*, make: bool) -> str:
    """Return the store in the platform's folder for data. Only the owner can read the folder."""
    from platformdirs import user_data_path

    folder: Path = user_data_path("backstory", appauthor=False)
    if make:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    return str(folder / "history.db")
