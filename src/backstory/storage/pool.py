"""The connections of one process to a store, for SQLite and PostgreSQL, and their errors.

A connection is lent as long as its `Loan` exists. The pool refers to a loan weakly, so if Ctrl-C
comes while a connection is handed over, the loan disappears and the connection is free again. No
counter can be wrong.

A call has one deadline, in monotonic time. It waits for a connection until then, and the connection
gets the deadline along, for what it waits for itself.
"""

import math
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar
from weakref import ReferenceType, ref

from backstory.errors import StorageError
from backstory.storage.locks import renew_in_child


class TimedConnection(Protocol):
    """A connection that waits for nothing after its deadline."""

    deadline: float


Conn = TypeVar("Conn", bound=TimedConnection)

LONGEST_IDLE = 600.0  # seconds after which an unused connection is closed
LOST_LOAN = 1.0  # seconds until a waiting thread looks for a loan that Ctrl-C has ended


class PoolTimeout(Exception):
    """All connections were lent for too long."""


class PoolClosed(Exception):
    """The pool was closed."""


def build_closed_error(url: str) -> StorageError:
    """Return the error for a call to a store that was closed."""
    return StorageError(f"the store {url!r} is closed", remedy="open it again")


class ErrorTranslator:
    """A `with` block that raises the errors of a database as ours. It has no state, so one object
    serves many threads. It is not written with contextlib, whose generators would be a tenth of the
    time of an append."""

    def __init__(
        self, errors: tuple[type[Exception], ...], translate: Callable[[Any], Exception]
    ) -> None:
        self._errors = errors
        self._translate = translate

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if isinstance(error, self._errors):
            raise self._translate(error) from error


class PoolSlot(Generic[Conn]):
    """Room for one connection, and the loan that uses it."""

    def __init__(self, connection: Conn | None = None) -> None:
        self.connection = connection  # None: it is opened when the slot is lent
        self.loan: ReferenceType[Loan[Conn]] | None = None
        self.used_at = time.monotonic()

    def is_free(self) -> bool:
        """Return True if no loan uses the slot."""
        return self.loan is None or self.loan() is None


class Loan(Generic[Conn]):
    """Lends a connection for a `with` block. If Ctrl-C comes in between, it ends with the object.
    Entering it raises PoolTimeout or PoolClosed."""

    def __init__(self, pool: "ConnectionPool[Conn]", deadline: float) -> None:
        self.deadline = deadline
        self._pool = pool
        self._slot: PoolSlot[Conn] | None = None

    def __enter__(self) -> Conn:
        self._slot = self._pool.take_slot(self)
        try:
            connection = self._pool.prepare_slot(self._slot, self.deadline)
            connection.deadline = self.deadline
            return connection
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        slot, self._slot = self._slot, None
        if slot is not None:
            self._pool.free_slot(slot)


class PoolWaiter(Generic[Conn]):
    """A loan that waits for a slot. Waiters are served in the order in which they came."""

    def __init__(self, loan: Loan[Conn]) -> None:
        self.loan = ref(loan)
        self.slot: PoolSlot[Conn] | None = None
        # Released when there is a slot. Not an Event: Ctrl-C inside of its Python code could leave
        # its lock taken, and then nobody could set it.
        self.turn = threading.Lock()
        self.turn.acquire()


class ConnectionPool(Generic[Conn]):
    """Lends connections to threads, each to one thread at a time. At most `limit` are open.

    `connect` gets a deadline. `first` is a connection that is open already. A connection that is
    returned while it is not idle is closed, and one that is not alive is not lent. Neither
    `is_idle` nor `is_alive` may ask the server.
    """

    def __init__(
        self,
        connect: Callable[[float], Conn],
        close: Callable[[Conn], object],
        *,
        first: Conn | None = None,
        is_idle: Callable[[Conn], bool] = lambda _: True,
        is_alive: Callable[[Conn], bool] = lambda _: True,
        limit: int | None = None,
    ) -> None:
        self.closed = False
        self._connect = connect
        self._close = close
        self._is_idle = is_idle
        self._is_alive = is_alive
        self._limit = limit
        self._slots: list[PoolSlot[Conn]] = []
        self._slots_of_parents: list[list[PoolSlot[Conn]]] = []
        if first is not None:
            self._slots.append(PoolSlot(first))
        self._renew_lock()
        renew_in_child(self)

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()
        self._waiters: deque[PoolWaiter[Conn]] = deque()

    def borrow(self, deadline: float = math.inf) -> Loan[Conn]:
        """Return a loan that has not begun, for a `with` block."""
        return Loan(self, deadline)

    def take_slot(self, loan: Loan[Conn]) -> PoolSlot[Conn]:
        """Reserve a slot for `loan`. If all are lent, wait for one: nobody overtakes a waiter."""
        with self._lock:
            if self.closed:
                raise PoolClosed("the pool is closed")
            slot = None if self._waiters else self._find_free_slot()
            if slot is not None:
                slot.loan = ref(loan)
                return slot
            waiter = PoolWaiter(loan)
            self._waiters.append(waiter)
            self._serve_waiters()
        try:
            return self._wait_for_slot(waiter, loan.deadline)
        finally:
            with self._lock:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)

    def _wait_for_slot(self, waiter: PoolWaiter[Conn], deadline: float) -> PoolSlot[Conn]:
        while waiter.slot is None:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise PoolTimeout(f"{len(self._slots)} connections are in use")
            waiter.turn.acquire(timeout=min(remaining, LOST_LOAN))
            with self._lock:
                if self.closed:
                    raise PoolClosed("the pool is closed")
                self._serve_waiters()  # Ctrl-C may have ended a loan that served nobody
        return waiter.slot

    def _serve_waiters(self) -> None:
        """Give the free slots to the waiters that came first. The lock is taken."""
        while self._waiters:
            slot = self._find_free_slot()
            if slot is None:
                return
            waiter = self._waiters.popleft()
            if waiter.loan() is not None:
                slot.loan = waiter.loan
                waiter.slot = slot
                waiter.turn.release()

    def _find_free_slot(self) -> PoolSlot[Conn] | None:
        """Return the first free slot, so that connections at the end of the list are used least."""
        for slot in self._slots:
            if slot.is_free():
                return slot
        if self._limit is not None and len(self._slots) >= self._limit:
            return None
        slot = PoolSlot()
        self._slots.append(slot)
        return slot

    def prepare_slot(self, slot: PoolSlot[Conn], deadline: float) -> Conn:
        """Return the connection of a slot that was taken. Open one if there is none that works."""
        connection = slot.connection
        if connection is not None:
            # If Ctrl-C ended the last loan, the connection was not returned, and may not be idle.
            is_usable = self._is_idle(connection) and self._is_alive(connection)
            if is_usable:
                return connection
            self._close_slot(slot)
        slot.connection = self._connect(deadline)
        return slot.connection

    def free_slot(self, slot: PoolSlot[Conn]) -> None:
        """End the loan of a slot. Close its connection if it cannot be used again."""
        if slot not in self._slots:
            return  # the process was forked during the loan
        connection = slot.connection
        if connection is not None and (self.closed or not self._is_idle(connection)):
            self._close_slot(slot)
        slot.used_at = time.monotonic()
        with self._lock:
            slot.loan = None
            if self._waiters:
                self._serve_waiters()
            if len(self._slots) > 1:
                self._close_old_slots(slot.used_at - LONGEST_IDLE)
        if self.closed:
            self._close_slot(slot)  # it was closed just before the loan ended

    def _close_old_slots(self, used_before: float) -> None:
        for slot in self._slots[:]:
            if slot.is_free() and slot.used_at < used_before:
                self._slots.remove(slot)
                self._close_slot(slot)

    def _close_slot(self, slot: PoolSlot[Conn]) -> None:
        connection, slot.connection = slot.connection, None
        if connection is not None:
            self._close(connection)

    def close(self) -> None:
        """Close the idle connections. The others are closed when they are returned."""
        with self._lock:
            self.closed = True
            while self._waiters:
                self._waiters.popleft().turn.release()
        self.close_idle()

    def close_idle(self) -> None:
        """Close the idle connections. Others are opened when they are needed."""
        with self._lock:
            idle = [slot for slot in self._slots if slot.is_free()]
        for slot in idle:
            self._close_slot(slot)

    def renew(self) -> None:
        """In a child process, set the parent's connections aside. Neither database allows using
        them here, or even closing them. Those to SQLite were closed before the fork."""
        self._slots_of_parents.append(self._slots)
        self._slots = []
        self._renew_lock()
