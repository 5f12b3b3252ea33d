"""Hidden folders for files that are not finished, such as a backup that is being written.

If the process is killed, its folder stays, with a copy of the store. Whoever writes the next one
there, or opens a store there, removes it. A lock tells a folder that is in use from one that is
abandoned: the system releases it when the process ends.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

try:
    import fcntl
except ImportError:  # Windows has other file locks: there, abandoned folders stay
    fcntl = None  # type: ignore[assignment]

from backstory.errors import CannotOpen

PREFIX = ".backstory-"
LOCK_NAME = "lock"


@contextmanager
def make_work_folder(parent: str) -> Iterator[str]:
    """Create a folder in `parent`, and remove it after the `with` block. Raises CannotOpen."""
    import tempfile  # here, because it takes as long to import as all of this package

    remove_abandoned_folders(parent)
    with report_errors(parent):
        temporary = tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent)
    with temporary as folder:
        with report_errors(parent):
            lock = _lock_folder(folder)
        try:
            yield folder
        finally:
            os.close(lock)


@contextmanager
def report_errors(folder: str) -> Iterator[None]:
    """Raise errors of the operating system as ours, except FileExistsError."""
    try:
        yield
    except FileExistsError:
        raise
    except OSError as error:
        raise CannotOpen(
            f"cannot write in {folder!r} ({error.strerror})",
            remedy="create the directory, get permission to write in it, or free some space",
        ) from error


def _lock_folder(folder: str) -> int:
    """Lock a new folder until the descriptor that is returned is closed. The lock gets its name
    when it is taken: a folder whose lock has no name is left alone."""
    unnamed = os.path.join(folder, "new-lock")
    lock = os.open(unnamed, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    if fcntl is not None:
        with suppress(OSError):  # a file system without locks; then nobody removes the folder
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(unnamed, os.path.join(folder, LOCK_NAME))
    return lock


def remove_abandoned_folders(parent: str) -> None:
    """Remove the folders in `parent` whose processes have ended."""
    if fcntl is None:
        return
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX) and entry.is_dir(follow_symlinks=False):
                _remove_if_abandoned(entry.path)


def _remove_if_abandoned(folder: str) -> None:
    import shutil  # here, because few processes are killed

    with suppress(OSError):
        lock = os.open(os.path.join(folder, LOCK_NAME), os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises OSError if it is in use
            shutil.rmtree(folder)
        finally:
            os.close(lock)


def move_file(file: str, path: str) -> None:
    """Move a file to a path where there is none. Raises FileExistsError."""
    with report_errors(os.path.dirname(path)):
        try:
            os.link(file, path)  # never replaces a file that someone else has created meanwhile
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            os.rename(file, path)


def sync_folder(folder: str) -> None:
    """Write the names of the files in a folder to the disk, so that they survive a power loss."""
    if os.name == "nt":  # Windows cannot open a folder
        return
    with report_errors(folder):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
