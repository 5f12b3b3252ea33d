"""What the commands have in common: the store, references, --json, and completion of names."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

import backstory
from backstory.agent import Agent
from backstory.errors import Invalid
from backstory.references import Reference
from backstory.store import Store

F = TypeVar("F", bound=Callable[..., Any])

VARIABLE = "BACKSTORY_STORE"

_lent: ContextVar[Store | None] = ContextVar("lent", default=None)


def command(name: str, *, example: str, json: bool = True) -> Callable[[Callable[..., Any]], click.Command]:
    """Declare a command: it gets --store, --json where it prints, and an example in its help."""

    def declare(function: Callable[..., Any]) -> click.Command:
        body = click.option("--store", metavar="URL", help="The store to use.")(_with_store(function))
        if json:
            body = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")(
                body
            )
        return click.command(name, epilog=examples(example))(body)

    return declare


def examples(lines: str) -> str:
    """The examples at the end of a command's help."""
    return "\b\nExample:\n" + "\n".join(f"  $ {line}" for line in lines.splitlines())


def _with_store(function: Callable[..., Any]) -> Callable[..., Any]:
    """Hand the command's own --store, or the one before the command, to `opened`."""

    @wraps(function)
    def run(*args: Any, store: str | None, **kwargs: Any) -> Any:
        url = click.get_current_context().obj if store is None else store
        if url == "":
            raise click.UsageError("--store is empty: give a path or a URL.")
        return function(*args, url=url, **kwargs)

    return run


@contextmanager
def lending(store: Store) -> Iterator[None]:
    """Commands that are run inside work on this store, which stays open."""
    before = _lent.set(store)
    try:
        yield
    finally:
        _lent.reset(before)


def opened(url: str | None, *, make: bool = False) -> AbstractContextManager[Store]:
    """The store that the person means. Only a command that adds to it makes a new one."""
    lent = _lent.get()
    if lent is not None:
        return nullcontext(lent)
    address = _address(url, make=make)
    path = file_of(address)
    if make and address == default_store(make=False):
        _make_private(address)
    if not make and path is not None and not _holds_something(path):
        raise backstory.CannotOpen(
            f"there is no store at {path!r}: start one with backstory new, or say --store URL (or {VARIABLE})"
        )
    return backstory.open(address)


@contextmanager
def filled(url: str | None) -> Iterator[Store]:
    """A store to import into. If that fails, a file that was made for it is taken away again, unless
    somebody else has written to it meanwhile."""
    path = file_of(_address(url, make=True))
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


def _address(url: str | None, *, make: bool) -> str:
    return url or os.environ.get(VARIABLE) or default_store(make=make)


def file_of(address: str) -> str | None:
    """The path of a store that is a file."""
    path = address.removeprefix("sqlite:///").removeprefix("sqlite://")
    return None if "://" in path or path == ":memory:" else path


def _holds_something(path: str) -> bool:
    """An empty file is no store yet: looking at it must not make it one."""
    return os.path.exists(path) and (not os.path.isfile(path) or os.path.getsize(path) > 0)


def agent_of(found: Reference, why: str) -> Agent:
    """The agent of a reference that must not name a moment."""
    if found.at is not None:
        raise Invalid(f"{why}: leave out the @")
    return found.agent


def default_store(*, make: bool) -> str:
    """The store in the platform's folder for data. What is said there is nobody else's business."""
    from platformdirs import user_data_path

    folder: Path = user_data_path("backstory", appauthor=False)
    if make:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    return str(folder / "history.db")


def _make_private(path: str) -> None:
    """A new file that only its owner can read; what SQLite puts beside it gets the same rights."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names that complete a reference, and the marks behind an @."""
    try:
        before = ctx.parent.params.get("store") if ctx.parent else None
        with opened(ctx.params.get("store") or before) as store:
            name, at_sign, _ = incomplete.partition("@")
            if at_sign:
                agent = store.resolve(name or "@").agent
                found = [f"{name}@{mark.label}" for mark in agent.marks() if mark.label]
            else:
                found = sorted({agent.name for agent in store.agents()})
    except (backstory.Error, OSError):
        return []
    return [CompletionItem(text) for text in found if text.startswith(incomplete)]


def reference(name: str = "ref", *, required: bool = False, metavar: str = "REF") -> Callable[[F], F]:
    """An argument that names an agent, or a moment of one; by default the latest agent."""
    shown = metavar if required else f"[{metavar}]"
    default: dict[str, Any] = {} if required else {"default": "@"}  # for click, None is a default, too
    return click.argument(name, required=required, metavar=shown, shell_complete=_names, **default)
