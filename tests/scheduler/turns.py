"""Clients that take turns: each waits at a gate before every statement.

The gates are in the drivers, so statements of transactions, BEGIN and COMMIT pass them, too. A
client that sleeps, as in SQLite's busy handler, lets the others continue; the time that it would
have slept is added to the clock. A client whose statement waits for a lock of PostgreSQL is noticed
by asking the server.
"""

import os
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Literal
from unittest import mock

import psycopg

from backstory.storage.postgres.server import PostgresConnection
from backstory.storage.sqlite.file import SqliteConnection

ClientState = Literal["ready", "asleep", "locked", "ended"]

FIRST_WAIT = (
    0.002  # seconds for a statement, before the server is asked whether it waits for a lock
)
LONGEST_STEP = 120.0  # seconds; then something is wrong with the scheduler or the database
MOST_STEPS = 20_000  # then the clients wait for each other for ever
OPERATION = "operation: "  # what the gate before an operation is called
LOCKED_BY = "SELECT pg_catalog.pg_blocking_pids(%s) <> '{}'"


class Abandoned(BaseException):
    """Ends the thread of a client whose schedule has failed."""


class Client(threading.Thread):
    """A thread that runs from gate to gate, each time that it is given a turn."""

    def __init__(self, schedule: "Schedule", number: int, work: Callable[[], None]) -> None:
        super().__init__(name=f"client {number}", daemon=True)
        self.schedule = schedule
        self.number = number
        self.state: ClientState = "ready"  # as far as the schedule knows
        self.slept_at = -1  # the step of the schedule at which it fell asleep
        self.server_pid = 0  # the process of PostgreSQL that runs its statement
        self.failure: BaseException | None = None
        self._work = work
        self._next_state: ClientState = "ready"
        self._turn = threading.Lock()
        self._arrival = threading.Lock()
        self._turn.acquire()
        self._arrival.acquire()

    def run(self) -> None:
        try:
            self._work()
        except Abandoned:
            return
        except BaseException as error:
            self.failure = error
        self._next_state = "ended"
        self._arrival.release()

    def pause(self, state: ClientState, what: str) -> None:
        """Wait for the next turn. `what` is the statement that comes next, for the trace."""
        self._next_state = state
        self.slept_at = self.schedule.steps
        self.next = what
        self._arrival.release()
        self._turn.acquire()
        if self.schedule.is_abandoned:
            raise Abandoned

    def take_turn(self) -> None:
        """Let the client continue to its next gate."""
        self._turn.release()

    def has_arrived(self, seconds: float) -> bool:
        """Wait until the client is at a gate again, or has ended."""
        has_arrived = self._arrival.acquire(timeout=seconds)
        if has_arrived:
            self.state = self._next_state
        return has_arrived


class Schedule:
    """Gives turns to clients in the order that a seed decides. `opening` are the numbers of clients
    that begin, one after the other, each with the steps that it takes at most: it also stops when
    its operation ends or waits for someone."""

    def __init__(
        self,
        seed: str,
        watcher: "psycopg.Connection[Any] | None" = None,
        opening: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.steps = 0
        self.trace: list[str] = []
        self.is_abandoned = False
        self._choose = random.Random(f"{seed} turns")
        # Some seeds change the client at almost every statement, others seldom.
        self._stay = self._choose.choice((0.1, 0.4, 0.7, 0.9))
        self._opening = list(opening)
        self._watcher = watcher  # a connection that is asked about locks of PostgreSQL

    def run(self, works: Sequence[Callable[[], None]]) -> None:
        """Run one client for each of `works`, until all have ended."""
        clients = [Client(self, number, work) for number, work in enumerate(works)]
        try:
            for client in clients:
                client.start()
                self._await(client)
            last = clients[0]
            while any(client.state != "ended" for client in clients):
                last = self._take_step(clients, last)
        finally:
            self.is_abandoned = True
            for client in clients:
                if client.state != "ended":
                    client.take_turn()
        for client in clients:
            client.join()
            if client.failure is not None:
                raise client.failure

    def _take_step(self, clients: Sequence[Client], last: Client) -> Client:
        """Let one client take a step, and return it."""
        able = self._find_able(clients)
        if not able:  # a circle of locks, which the server ends
            for client in clients:
                if client.state == "locked" and client.has_arrived(FIRST_WAIT):
                    self.trace.append(f"{client.number} was let go")
            return last
        chosen = self._choose_opening(able) or self._choose_any(able, last)
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise AssertionError("the clients wait for each other for ever")
        self.trace.append(f"{chosen.number} {chosen.next}")
        chosen.take_turn()
        self._await(chosen)
        if self._opening and chosen.next.startswith(OPERATION):
            self._opening.pop(0)
        for client in clients:
            if client.state == "locked":
                self._await(client)  # perhaps this step has released its lock
        return chosen

    def _choose_opening(self, able: Sequence[Client]) -> Client | None:
        """Return the client whose turn it is in the opening, or None if that is over."""
        while self._opening:
            number, steps = self._opening.pop(0)
            found = [client for client in able if client.number == number]
            if found and steps > 0:
                [client] = found
                self._opening.insert(0, (number, steps - 1))
                return client
        return None

    def _choose_any(self, able: Sequence[Client], last: Client) -> Client:
        if last in able and self._choose.random() < self._stay:
            return last
        return self._choose.choice(able)

    def _find_able(self, clients: Sequence[Client]) -> list[Client]:
        """Return the clients that can take a step. One that sleeps can do so after someone else
        did, or if there is nobody else."""
        able = []
        asleep = []
        for client in clients:
            if client.state == "ready":
                able.append(client)
            elif client.state == "asleep":
                asleep.append(client)
                if client.slept_at < self.steps:
                    able.append(client)
        return able or asleep

    def _await(self, client: Client) -> None:
        """Wait until a client is at a gate, has ended, or waits for a lock."""
        deadline = time.perf_counter() + LONGEST_STEP
        while not client.has_arrived(FIRST_WAIT):
            if self._is_locked(client):
                client.state = "locked"
                return
            assert time.perf_counter() < deadline, f"this takes too long: {client.next}"

    def _is_locked(self, client: Client) -> bool:
        if self._watcher is None or not client.server_pid:
            return False
        [(is_locked,)] = self._watcher.execute(LOCKED_BY, (client.server_pid,)).fetchall()
        if is_locked and client.state != "locked":
            self.trace.append(f"{client.number} waits for a lock")
        return bool(is_locked)


def pass_gate(what: str, server_pid: int = 0) -> None:
    """Wait for a turn, if this thread is a client."""
    client = threading.current_thread()
    if isinstance(client, Client):
        client.server_pid = server_pid
        client.pause("ready", " ".join(what.split()))


class VirtualClock:
    """A clock that goes on by a millisecond whenever it is read, and by the time that clients
    sleep. So ids and times are the same in each replay."""

    def __init__(self) -> None:
        self._real_sleep = time.sleep
        self._real_monotonic = time.monotonic
        self._reads = 0
        self._slept = 0.0
        self._start = time.time_ns()

    def sleep(self, seconds: float) -> None:
        """Let others take their turns instead of sleeping, if this thread is a client."""
        client = threading.current_thread()
        if isinstance(client, Client):
            self._slept += seconds
            client.pause("asleep", f"has slept for {seconds} s")
        else:
            self._real_sleep(seconds)

    def monotonic(self) -> float:
        return self._real_monotonic() + self._slept

    def time_ns(self) -> int:
        self._reads += 1
        return self._start + self._reads * 1_000_000


@contextmanager
def install_gates(seed: str) -> Iterator[None]:
    """Put gates into the drivers, and take the clock and random numbers from the seed."""
    clock = VirtualClock()
    numbers = random.Random(f"{seed} ids")
    real_wait = PostgresConnection.wait
    real_execute = SqliteConnection.execute
    real_executemany = SqliteConnection.executemany

    def execute(db: SqliteConnection, statements: str, *args: Any, **kwargs: Any) -> Any:
        pass_gate(statements)
        return real_execute(db, statements, *args, **kwargs)

    def executemany(db: SqliteConnection, statements: str, *args: Any, **kwargs: Any) -> Any:
        pass_gate(statements)
        return real_executemany(db, statements, *args, **kwargs)

    def wait(db: PostgresConnection, answer: Any, *args: Any, **kwargs: Any) -> Any:
        pass_gate(find_statement(answer), db.info.backend_pid)
        return real_wait(db, answer, *args, **kwargs)

    with ExitStack() as stack:
        for target, name, new in (
            (time, "sleep", clock.sleep),
            (time, "monotonic", clock.monotonic),
            (time, "time_ns", clock.time_ns),
            (os, "urandom", numbers.randbytes),
            (SqliteConnection, "execute", execute),
            (SqliteConnection, "executemany", executemany),
            (PostgresConnection, "wait", wait),
        ):
            stack.enter_context(mock.patch.object(target, name, new))
        yield


def find_statement(answer: Any) -> str:
    """Return the statement that a generator of psycopg runs, for the trace."""
    values = answer.gi_frame.f_locals if answer.gi_frame else {}
    statement = values.get("query") or values.get("command") or answer.__name__
    return statement.decode() if isinstance(statement, bytes) else str(statement)
