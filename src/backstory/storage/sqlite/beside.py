"""The files that SQLite keeps beside a store while it is open: whether they are still the same.

It is asked behind each commit, so it must cost little. Since Linux 6.13, asking for the times of a file makes
the next write to it slower, by a sixth of what an append takes. So the folder is asked instead, as long as
nothing in it was created, renamed or removed.
"""

import os
import time

from backstory.storage.sqlite.file import identity

SECOND = 1_000_000_000  # nanoseconds
QUIET = (
    SECOND // 10
)  # after this, another change has another time, where times have parts of a second


class FilesBeside:
    """The write-ahead log and its index. While a connection is open, SQLite itself neither removes nor
    replaces them."""

    def __init__(self, path: str) -> None:
        self._folder = os.path.dirname(path)
        self._known = {beside: identity(beside) for beside in (f"{path}-wal", f"{path}-shm")}
        self._time: int | None = (
            None  # the folder's, when the files were the same and it had been quiet
        )

    def forget(self) -> None:
        """They may be gone from now on."""
        self._known = {}

    def replaced(self) -> str | None:
        """The path of one that was removed or replaced since the store was opened."""
        changed = _changed_ns(
            self._folder
        )  # before the files are: what changes after it is seen next time
        if changed is not None and changed == self._time:
            return None
        for path, known in self._known.items():
            if known is not None and identity(path) != known:
                return path
        self._time = changed if changed is not None and _is_fine(changed) else None
        return None


def _is_fine(changed: int) -> bool:
    """Whether a change from now on has a later time. Some file systems have only whole seconds."""
    return changed % SECOND != 0 and time.time_ns() - changed > QUIET


def _changed_ns(folder: str) -> int | None:
    """When something in a folder was last created, renamed or removed."""
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return None
