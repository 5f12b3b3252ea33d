"""Backups: copies of a store as new SQLite files, while others write."""

import os
import tempfile
from typing import IO

from backstory.errors import Busy, CannotOpen
from backstory.maintenance.transfer import export_sessions, import_lines
from backstory.storage import connect
from backstory.storage.protocol import Backend

EXPORT_ATTEMPTS = 10  # while others delete


def write_backup(backend: Backend, path: str) -> None:
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
    with tempfile.TemporaryDirectory(prefix=".backstory-", dir=folder) as temporary:
        unfinished = os.path.join(temporary, "copy.db")
        if not backend.copy_to(unfinished):
            _copy_by_export(backend, unfinished)
        _move_file(unfinished, path)


def _move_file(file: str, path: str) -> None:
    """Move a file to a path where there is none. A link never replaces a file that someone else has
    created in the meantime."""
    try:
        os.link(file, path)
    except FileExistsError as error:
        raise CannotOpen(
            f"{path!r} already exists", remedy="give the path of a new file"
        ) from error
    except OSError:  # a file system without links
        os.rename(file, path)


def _copy_by_export(backend: Backend, path: str) -> None:
    with tempfile.TemporaryFile("w+", encoding="utf-8", dir=os.path.dirname(path)) as lines:
        _export(backend, lines)
        lines.seek(0)
        copy = connect(path)
        try:
            import_lines(copy, lines)
        finally:
            copy.close()


def _export(backend: Backend, lines: IO[str]) -> None:
    """Export the store; again from the beginning, if an agent is deleted meanwhile."""
    for _ in range(EXPORT_ATTEMPTS - 1):
        try:
            export_sessions(backend, lines)
            return
        except Busy:
            lines.seek(0)
            lines.truncate()
    export_sessions(backend, lines)
