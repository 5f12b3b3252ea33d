"""Backups: a copy of a store as a new SQLite file, while others write."""

import os
import tempfile
from typing import IO, Protocol

from backstory.errors import Busy, CannotOpen
from backstory.maintenance.transfer import Exportable, export, import_
from backstory.storage import connect
from backstory.storage.protocols import Agents, Audit, Sources

TRIES = 10  # of an export while others delete


class Copyable(Agents, Audit, Sources, Protocol):
    """What can be backed up."""


def backup(backend: Copyable, path: str) -> None:
    """Copy a store to a new SQLite file, completely or not at all."""
    if os.path.exists(path):
        raise CannotOpen(
            f"{path!r} already exists", remedy="give the path of a new file, or remove it first"
        )
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise CannotOpen(
            f"cannot create {path!r}: the directory {folder!r} does not exist",
            remedy="create it first",
        )
    with tempfile.TemporaryDirectory(prefix=".backstory-", dir=folder) as workshop:
        unfinished = os.path.join(workshop, "copy.db")
        if not backend.copy_to(unfinished):
            _copy_by_export(backend, unfinished)
        _put(unfinished, path)


def _put(file: str, path: str) -> None:
    """Move a finished file to its path. A link never replaces what someone else put there in the meantime."""
    try:
        os.link(file, path)
    except FileExistsError as error:
        raise CannotOpen(
            f"{path!r} already exists", remedy="give the path of a new file"
        ) from error
    except OSError:  # a file system without links
        os.rename(file, path)


def _copy_by_export(backend: Exportable, path: str) -> None:
    with tempfile.TemporaryFile("w+", encoding="utf-8", dir=os.path.dirname(path)) as lines:
        _export(backend, lines)
        lines.seek(0)
        copy = connect(path)
        try:
            import_(copy, lines)
        finally:
            copy.close()


def _export(backend: Exportable, lines: IO[str]) -> None:
    """Export everything; from the beginning, if an agent is deleted meanwhile."""
    for _ in range(TRIES - 1):
        try:
            export(backend, lines)
            return
        except Busy:
            lines.seek(0)
            lines.truncate()
    export(backend, lines)
