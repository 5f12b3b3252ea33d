"""A file system for SQLite (a VFS) in which one call fails."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import apsw

VFS_NAME = "faulty disk"
REAL_DISK = apsw.vfs_names()[0]  # the default

CallKind = Literal["write", "sync", "truncate", "lock"]
# "fail" and "full" do nothing and raise an error, "tear" does half of it. "delay" lets someone else
# read the store first; a lock is refused until it is tried again.
FaultKind = Literal["fail", "full", "tear", "delay"]
FAULTS: dict[CallKind, tuple[FaultKind, ...]] = {
    "write": ("fail", "full", "tear", "delay"),
    "sync": ("fail", "delay"),
    "truncate": ("fail", "delay"),
    "lock": ("fail", "delay"),
}
DELAY = 3  # attempts to get a lock that is delayed


class Fault(NamedTuple):
    """The nth call of a kind, and what happens to it."""

    call: CallKind
    nth: int
    kind: FaultKind

    def __str__(self) -> str:
        return f"{self.call} {self.nth} {self.kind}"


class FaultyDisk(apsw.VFS):
    """SQLite's own file system, except that one call has a fault. It is used by all connections
    that are opened until `close`. It remembers what is in the files, and what was in them when they
    were synced last: a power cut loses the rest."""

    def __init__(self, fault: Fault | None = None) -> None:
        self._fault = fault
        self._counts: dict[CallKind, int] = dict.fromkeys(FAULTS, 0)
        self.read_meanwhile: Callable[[], None] = lambda: None  # called before what is delayed
        self.is_passive = False  # True: calls have no faults and are not counted
        self.written: dict[str, bytearray] = {}
        self.synced: dict[str, bytes] = {}
        super().__init__(VFS_NAME, REAL_DISK, makedefault=True)

    def close(self) -> None:
        self.unregister()

    @property
    def counts(self) -> dict[CallKind, int]:
        """How many calls of each kind there were."""
        return dict(self._counts)

    def xOpen(self, name: Any, flags: list[int]) -> "FaultyFile":
        return FaultyFile(self, name, flags)

    def xDelete(self, name: str, sync_folder: bool) -> None:
        super().xDelete(name, sync_folder)
        self.written.pop(name, None)
        self.synced.pop(name, None)

    def count(self, call: CallKind) -> FaultKind | None:
        """Count a call, and return the fault that it has."""
        if self.is_passive:
            return None
        self._counts[call] += 1
        if self._fault is None or self._fault.call != call:
            return None
        late = self._counts[call] - self._fault.nth
        if self._fault.kind != "delay":
            return self._fault.kind if late == 0 else None
        if call == "lock":
            return "delay" if 0 <= late < DELAY else None
        if late == 0:
            self.read_meanwhile()
        return None


class FaultyFile(apsw.VFSFile):
    """A file of the faulty disk."""

    def __init__(self, disk: FaultyDisk, name: Any, flags: list[int]) -> None:
        super().__init__(REAL_DISK, name, flags)
        self._disk = disk
        is_temporary = name is None
        self._path = "" if is_temporary else name.filename() if hasattr(name, "filename") else name
        if self._path:
            disk.written.setdefault(self._path, bytearray())

    def xWrite(self, data: bytes, offset: int) -> None:
        fault = self._disk.count("write") if self._path else None
        if fault == "full":
            raise apsw.FullError("the disk is full")
        if fault == "fail":
            raise apsw.IOError("the write failed")
        if fault == "tear":
            self._write(data[: len(data) // 2], offset)
            raise apsw.IOError("the write was torn")
        self._write(data, offset)

    def _write(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        if self._path:
            content = self._disk.written[self._path]
            content.extend(bytes(max(0, offset - len(content))))
            content[offset : offset + len(data)] = data

    def xTruncate(self, size: int) -> None:
        if self._path and self._disk.count("truncate"):
            raise apsw.IOError("the truncation failed")
        super().xTruncate(size)
        if self._path:
            del self._disk.written[self._path][size:]

    def xSync(self, flags: int) -> None:
        if self._path and self._disk.count("sync"):
            raise apsw.IOError("the sync failed")
        super().xSync(flags)
        if self._path:
            self._disk.synced[self._path] = bytes(self._disk.written[self._path])

    def xLock(self, level: int) -> None:
        fault = self._disk.count("lock")
        if fault == "delay":
            raise apsw.BusyError("someone else has the lock")
        if fault is not None:
            raise apsw.IOError("the lock failed")
        super().xLock(level)
