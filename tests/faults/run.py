"""Runs a script of all operations on a disk with one fault, and checks what is left."""

import copy
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import backstory
from tests.faults.disk import FAULTS, CallKind, Fault, FaultyDisk
from tests.scheduler.audit import list_problems
from tests.scheduler.operations import Ledger, RandomClient, begin_history, build_export
from tests.scheduler.run import MEMORY_DISK, read_sqlite_tables

SCRIPT = """
append, append with a key, extend, compact, fork, append, compact, spawn, append, ensure, extend,
import, search, append, search, erase, expire dead, compact, erase, delete, ensure, append, import,
fork, extend, delete, search, delete below, ensure, append, expire, ensure, append, import
"""
OPERATIONS_IN_ORDER = [name.strip() for name in SCRIPT.split(",")]
SEED = "script"
REMOVED = "the text was removed"  # in the message of an error after a removal


SEVERAL_STEPS = {"expire", "expire dead", "import"}  # an error may come after the first step


class FaultOutcome(NamedTuple):
    """What happened to one run of the script."""

    problems: list[str]
    log: list[str]
    counts: Mapping[CallKind, int]


class ScriptRun:
    """One run of the script on a disk with one fault."""

    def __init__(self, folder: Path, fault: Fault | None) -> None:
        self.problems: list[str] = []
        self.log: list[str] = []
        self._path = folder / "store.db"
        self._folder = folder
        self._disk = FaultyDisk(fault)
        self._is_delay = fault is not None and fault.kind == "delay"
        self._operation: tuple[str, int] | None = None  # under way, with the token before it
        self._ledger = Ledger()
        self._export = build_export(self._ledger)

    def run(self) -> FaultOutcome:
        """Run the script. The program continues after an error, as a user would."""
        stack = ExitStack()
        try:
            store = self._open()
            with self._without_faults():
                begin_history(store, self._ledger)
                client = RandomClient(SEED, store, self._ledger, self._export, ())
                if self._is_delay:
                    reader = stack.enter_context(backstory.open(self._path))
                    self._disk.read_meanwhile = partial(self._read_meanwhile, reader)
            for name in OPERATIONS_IN_ORDER:
                self._perform(client, name)
            with self._without_faults():
                self._check("at the end", store, self._path)
            self._close(store)
            with self._without_faults():
                self._check_images("after the end")
        except Exception as error:
            self.problems.append(f"{type(error).__name__}: {error}")
        finally:
            with self._without_faults():
                stack.close()
            self._disk.close()
        return FaultOutcome(self.problems, self.log, self._disk.counts)

    def _read_meanwhile(self, reader: backstory.Store) -> None:
        """Check what another program sees in the middle of an operation."""
        self.log.append("someone reads")
        with self._without_faults():
            self._check("meanwhile", reader, self._path)

    def _close(self, store: backstory.Store) -> None:
        try:
            store.close()
        except backstory.StorageError as error:
            self.log.append(f"close: {type(error).__name__}: {error}")

    def _open(self) -> backstory.Store:
        """Open the store; if the fault prevents that, open it again."""
        try:
            return backstory.open(self._path)
        except backstory.StorageError as error:
            self.log.append(f"open: {type(error).__name__}: {error}")
            return backstory.open(self._path)

    def _perform(self, client: RandomClient, name: str) -> None:
        last_token = self._ledger.last_token
        try:
            self._operation = (name, last_token)
            client.perform(name)
            self._operation = None
            self.log.append(client.log[-1])
        except backstory.StorageError as error:
            self._operation = None
            self.log.append(f"{name}: {type(error).__name__}: {error}")
            if is_uncertain(name, error):
                self._ledger.note_uncertain(name, last_token)
            with self._without_faults():
                self._check_images(f"after {name!r} has raised {type(error).__name__}")

    @contextmanager
    def _without_faults(self) -> Iterator[None]:
        self._disk.is_passive = True
        yield
        self._disk.is_passive = False

    def _check_images(self, when: str) -> None:
        """Check what a killed program and a power cut leave."""
        images: dict[str, dict[str, bytes | bytearray]] = {
            "killed": dict(self._disk.written),
            "power cut": dict(self._disk.synced),
        }
        for name, files in images.items():
            with tempfile.TemporaryDirectory(dir=self._folder) as folder:
                for path, content in files.items():
                    if Path(path).parent == self._folder:
                        (Path(folder) / Path(path).name).write_bytes(content)
                copied = Path(folder) / self._path.name
                try:
                    with backstory.open(copied) as store:
                        self._check(f"{name} {when}", store, copied)
                except backstory.Error as error:
                    self.problems.append(f"{name} {when}: {type(error).__name__}: {error}")

    def _check(self, when: str, store: backstory.Store, path: Path) -> None:
        ledger = copy.deepcopy(self._ledger)
        if self._operation:
            ledger.note_uncertain(*self._operation)
        for problem in list_problems(store, ledger, partial(read_sqlite_tables, path)):
            self.problems.append(f"{when}: {problem}")


def is_uncertain(operation: str, error: backstory.StorageError) -> bool:
    """Return True if an error says that the operation may have happened, or may have begun."""
    is_unknown = isinstance(error, backstory.ConnectionLost)
    return is_unknown or REMOVED in str(error) or operation in SEVERAL_STEPS


def run_script(fault: Fault | None = None) -> FaultOutcome:
    """Run the script on a new disk with one fault."""
    parent = MEMORY_DISK if MEMORY_DISK.is_dir() else None
    # apsw tells this hook of faults that SQLite ignores.
    silent = mock.patch("sys.unraisablehook")
    with silent, tempfile.TemporaryDirectory(dir=parent) as folder:
        return ScriptRun(Path(folder), fault).run()


def list_faults(call: CallKind) -> list[Fault]:
    """Return all faults that the calls of one kind in the script can have."""
    count = run_script().counts[call]
    return [Fault(call, nth, kind) for nth in range(1, count + 1) for kind in FAULTS[call]]
