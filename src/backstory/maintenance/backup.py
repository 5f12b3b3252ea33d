"""Backups: copies of a store as new SQLite files, while others write; and how they are restored."""

import os
from collections.abc import Callable
from typing import IO

from backstory.errors import Busy, CannotOpen, Corrupt, Invalid
from backstory.maintenance.export_format import Transfer
from backstory.maintenance.exporter import export_sessions
from backstory.maintenance.importer import import_lines
from backstory.maintenance.verify import verify_store
from backstory.storage import check_timeout, connect
from backstory.storage.address import Database, parse_address
from backstory.storage.locks import DEFAULT_TIMEOUT
from backstory.storage.protocol import Backend
from backstory.storage.work_folder import make_work_folder, move_file, report_errors, sync_folder

EXPORT_ATTEMPTS = 10  # while others delete
PRIVATE_COPY = "copy.db"  # in a work folder, until it is complete

StorePath = str | os.PathLike[str]


# --- backup ---


def write_backup(backend: Backend, path: str) -> None:
    """Copy a store to a new SQLite file, completely or not at all."""
    if os.path.exists(path):
        raise _build_existence_error(path)
    folder = _find_folder(path)
    with make_work_folder(folder) as work_folder:
        copy = os.path.join(work_folder, PRIVATE_COPY)
        if not backend.copy_to(copy):
            with report_errors(folder):
                _copy_by_export(backend, copy)
        try:
            move_file(copy, path)
        except FileExistsError as error:
            raise _build_existence_error(path) from error
        sync_folder(folder)


def _build_existence_error(path: str) -> CannotOpen:
    return CannotOpen(
        f"{path!r} already exists", remedy="give the path of a new file, or remove it first"
    )


def _find_folder(path: str) -> str:
    """Return the folder of a file that is to be created. Raises CannotOpen if there is none."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise CannotOpen(
            f"cannot create {path!r}: the directory {folder!r} does not exist",
            remedy="create it first",
        )
    return folder


def _copy_by_export(backend: Backend, path: str) -> None:
    import tempfile

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


# --- restore ---


def restore(
    backup: StorePath,
    path: StorePath,
    *,
    timeout: float = DEFAULT_TIMEOUT,
    progress: Callable[[int, int], None] | None = None,
) -> Transfer:
    """Put a backup in the place of the SQLite store at `path`, or where there is none, completely
    or not at all. Return what the restored store contains. The backup is copied and verified
    before: Corrupt is raised if it is damaged. Busy is raised if a program has the store open, or
    if the backup is locked for `timeout` seconds.
    `progress(done, total)` is called with the events that were verified."""
    from backstory.storage.sqlite.replacement import copy_store, mark_as_copy, replace_store

    check_timeout(timeout)
    source = os.path.realpath(_find_file(backup))
    target = os.path.realpath(_find_file(path))
    with make_work_folder(_find_folder(target)) as work_folder:
        copy = os.path.join(work_folder, PRIVATE_COPY)
        copy_store(source, copy, timeout)
        contents = _verify_copy(copy, source, progress)
        mark_as_copy(copy)
        replace_store(copy, target)
    return contents


def _find_file(path: StorePath) -> str:
    """Return the path of an SQLite store. Raises Invalid for the address of another database."""
    address = parse_address(path)
    if address.database is not Database.SQLITE:
        raise Invalid(
            "only the file of an SQLite store can be restored",
            remedy="import an export, or use the tools of the database server",
        )
    return address.location


def _verify_copy(
    copy: str, backup: str, progress: Callable[[int, int], None] | None = None
) -> Transfer:
    """Return what a copy of a backup contains. Raises Corrupt if it is damaged."""
    backend = connect(copy)  # migrates it, if it is of an older version
    try:
        for finding in verify_store(backend, progress=progress):
            if finding.severity == "error":
                raise Corrupt(
                    f"nothing was restored: the backup {backup!r} is damaged ({finding.problem})",
                    remedy="restore another backup",
                )
        agents = backend.list_agents()
    finally:
        backend.close()
    sessions = {agent.session for agent in agents}
    events = sum(agent.head - agent.fork_seq for agent in agents)
    return Transfer(len(sessions), len(agents), events)
