"""Runs an operation over a connection that goes silent, and checks what is left."""

import io
import socket
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import backstory
from tests.databases import with_parameter
from tests.processes import wait_until
from tests.scheduler.audit import list_problems
from tests.scheduler.operations import (
    OPERATIONS,
    Ledger,
    RandomClient,
    begin_history,
    build_export,
)
from tests.scheduler.run import PostgresDatabase
from tests.silent_proxy import SilentProxy

TIMEOUT = 0.5  # seconds that a call may take
LONGEST = 30.0  # seconds after which a call has hung, even on a busy machine
NAME = "partition"  # of the connections that go through the proxy
NEVER = 0
MOST_SEEDS = 20
SESSIONS = "SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity WHERE application_name = %s"


class CountingProxy(SilentProxy):
    """A proxy that counts the messages since `go_silent_at`, and does not pass the nth one on."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._nth = NEVER
        self.count = 0

    def go_silent_at(self, nth: int) -> None:
        """Pass `nth` - 1 more messages on, in both directions together. NEVER: pass all on."""
        self._nth = nth
        self.count = 0

    def _handle(self, one: socket.socket) -> None:
        self.count += 1
        if self._nth != NEVER and self.count >= self._nth:
            self._talks.clear()
        else:
            super()._handle(one)


class PartitionOutcome(NamedTuple):
    """What happened to one operation."""

    problems: list[str]
    log: list[str]
    messages: int  # that the operation needed, or until the silence


# More calls than the scheduler has: moves, details and reads.
OTHER_CALLS: dict[str, Callable[[RandomClient, backstory.Agent], Any]] = {
    "mark": lambda client, agent: agent.mark("here"),
    "jump": lambda client, agent: agent.jump(1),
    "clear": lambda client, agent: agent.clear(),
    "describe": lambda client, agent: agent.describe(title="x"),
    "rename": lambda client, agent: agent.rename("x"),
    "context": lambda client, agent: agent.context(),
    "events": lambda client, agent: agent.events(),
    "find": lambda client, agent: agent.find("key"),
    "agents": lambda client, agent: client.store.agents(),
    "sessions": lambda client, agent: client.store.sessions(),
    "export": lambda client, agent: client.store.export_to(io.StringIO()),
    "verify": lambda client, agent: client.store.verify(),
    "stats": lambda client, agent: client.store.stats(),
    "seal": lambda client, agent: client.store.seal(),
}
CALLS = {**OPERATIONS, **OTHER_CALLS}


class Call(NamedTuple):
    """An operation, and a seed that chooses its agent and arguments so that it succeeds."""

    operation: str
    seed: int
    messages: int  # that it needs


def list_calls(database: PostgresDatabase, operations: Iterable[str]) -> list[Call]:
    """Return a call for each operation."""
    calls = []
    for operation in operations:
        for seed in range(MOST_SEEDS):
            outcome = run_partition(database, operation, seed, NEVER)
            if not any(": " in line for line in outcome.log):  # no error
                calls.append(Call(operation, seed, outcome.messages))
                break
    return calls


def run_partition(
    database: PostgresDatabase, operation: str, seed: int, nth: int
) -> PartitionOutcome:
    """Run an operation during which the network goes silent at the nth message, and check the store
    through another connection."""
    ledger = Ledger()
    problems: list[str] = []
    log: list[str] = []
    with database.open_stores(1) as [direct]:
        export = build_export(ledger)
        begin_history(direct, ledger)
        with CountingProxy(database.url) as proxy:
            address = with_parameter(proxy.url, f"application_name={NAME}")
            store = backstory.open(address, timeout=TIMEOUT)
            client = RandomClient(f"{operation} {seed}", store, ledger, export, ())
            proxy.go_silent_at(nth)
            start = time.monotonic()
            last_token = ledger.last_token
            try:
                client.call(operation, CALLS[operation])
            except (backstory.ConnectionLost, backstory.Busy) as error:
                log.append(f"{type(error).__name__}: {error}")
                if isinstance(error, backstory.ConnectionLost):
                    ledger.note_uncertain(operation, last_token)
            except Exception as error:
                problems.append(f"{type(error).__name__}: {error}")
            if time.monotonic() - start > LONGEST:
                problems.append(f"it took {time.monotonic() - start:.0f} seconds")
            messages = proxy.count
            store.close()
        wait_until(lambda: count_sessions(database) == 0)  # the server has noticed
        problems += list_problems(direct, ledger, database.read_tables)
    return PartitionOutcome(problems, client.log + log, messages)


def count_sessions(database: PostgresDatabase) -> int:
    """Return how many connections through the proxy the server still has."""
    rows: list[tuple[Any, ...]] = database.watcher.execute(SESSIONS, (NAME,)).fetchall()
    return int(rows[0][0])
