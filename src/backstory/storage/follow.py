"""Follows an agent or a store: an iterator over the events that are committed from now on.

A follower remembers the positions that it has read, reads the events after them, and waits for the
store's watch to report a commit.
"""

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from functools import partial
from typing import Generic, Protocol, Self, TypeVar

from backstory.errors import AgentNotFound, Busy, ConnectionLost, Invalid, StorageError
from backstory.log.events import Event
from backstory.storage.locks import renew_in_child
from backstory.storage.positions import check_position, clip
from backstory.storage.protocol import AgentQuery, AgentRecord, Backend, Piece, StoreWatch

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

FOLLOWED_AT_ONCE = 1_000  # events read at a time
RETRY = 0.5  # seconds until a server that is down is asked again
REST = 4  # after listing all agents, wait this many times as long as that took
# Microseconds that clocks may differ, or that a transaction may take, without a delay.
MARGIN_US = 10_000_000


class ChangeReader(Protocol[T_co]):
    """Reads what was committed since the last read."""

    @property
    def due(self) -> float | None:
        """The monotonic time at which to read again even if nothing is committed."""

    def read(self, *, last: bool = False) -> Sequence[T_co]:
        """Return what is new. If this is the `last` read, nothing is postponed."""


class WaitResult(Enum):
    """Why a wait for changes ended."""

    FOUND = "there is something to take"
    ENDED = "nothing more will come, or not in time"
    WOKEN = "another thread called `wake`"


class Follower(Iterator[T], Generic[T]):
    """Yields what is committed, in order, until it is closed, its store is closed, or nothing came
    for `timeout` seconds. While a server is down, it waits for it. Any thread may close it."""

    def __init__(self, changes: ChangeReader[T], watch: StoreWatch, timeout: float | None) -> None:
        self._watch = watch
        if timeout is not None and not (isinstance(timeout, int | float) and timeout >= 0):
            raise Invalid(
                f"timeout={timeout!r} is not a number of seconds", remedy="pass 0 or more"
            )
        self._changes = changes
        self._timeout = timeout
        self._found: deque[T] = deque()
        self.renew()
        renew_in_child(self)

    def renew(self) -> None:
        """Make a new lock: one thread waits at a time."""
        self._waiting = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_watch"):
            self._watch.close()

    @property
    def closed(self) -> bool:
        """True after `close`, or after the store was closed."""
        return self._watch.closed

    def close(self) -> None:
        """Stop following, also while another thread waits for the next event."""
        self._watch.close()

    def __next__(self) -> T:
        while True:
            result = self.wait()
            if result is WaitResult.FOUND:
                return self.take()
            if result is WaitResult.ENDED:
                raise StopIteration

    def take(self) -> T:
        """Return the next event that was found."""
        return self._found.popleft()

    def take_all(self) -> list[T]:
        """Return everything that was found."""
        found = list(self._found)
        self._found.clear()
        return found

    def wake(self) -> None:
        """Make a `wait` of another thread return."""
        self._watch.wake()

    def wait(self, timeout: float | None = None) -> WaitResult:
        """Wait for the next event, for `timeout` seconds or, if that is None, as long as the
        follower does."""
        if timeout is None:
            timeout = self._timeout
        with self._waiting:
            deadline = None if timeout is None else time.monotonic() + timeout
            while not self._found:
                if self._watch.closed or self._has_timed_out(deadline):
                    return WaitResult.ENDED
                if self._watch.take_wakeup():
                    return WaitResult.WOKEN
                self._read_or_wait(deadline)
            return WaitResult.ENDED if self._watch.closed else WaitResult.FOUND

    def _has_timed_out(self, deadline: float | None) -> bool:
        """Return True if the time is up and a last read finds nothing."""
        if deadline is None or time.monotonic() < deadline:
            return False
        self._found.extend(self._read(last=True))
        return not self._found

    def _read_or_wait(self, deadline: float | None) -> None:
        """Read what is new. If there is nothing, wait for a commit."""
        self._found.extend(self._read())
        if self._found:
            return
        seconds = None
        ends = [end for end in (deadline, self._changes.due) if end is not None]
        if ends:
            seconds = max(0.0, min(ends) - time.monotonic())
        try:
            self._watch.wait(seconds)
        except StorageError:
            self._wait_for_server(seconds)

    def _read(self, *, last: bool = False) -> Sequence[T]:
        """Return what is new: nothing while the server is down, or after the store was closed."""
        try:
            return self._changes.read(last=last)
        except (ConnectionLost, Busy):
            self._wait_for_server(None)
            return []
        except StorageError:
            if self._watch.closed:
                return []
            raise

    def _wait_for_server(self, seconds: float | None) -> None:
        """Wait a little before a server that is down is asked again."""
        pause = RETRY if seconds is None else min(RETRY, seconds)
        end = time.monotonic() + pause
        while time.monotonic() < end and not self._watch.closed:
            time.sleep(0.02)


class HeadTracker:
    """Finds the agents of a store that were written to.

    Agents that were written to recently are found by their time, however many agents there are.
    Events with older times, such as those of an import, are found when all agents are listed, which
    happens less often.
    """

    def __init__(self, backend: Backend, positions: Mapping[str, int] | None = None) -> None:
        self._backend = backend
        self._listed_us = backend.read_clock()  # the time at which all agents were listed
        self._rest_until = 0.0  # the monotonic time until which they are not listed again
        if positions is None:
            positions = {agent.id: agent.head for agent in backend.list_agents()}
        self.positions = dict(positions)  # up to which the caller knows each agent
        self.due: float | None = None  # see ChangeReader

    def list_changed(self, *, last: bool = False) -> list[AgentRecord]:
        """Return the agents whose heads are not the known positions, until the caller changes
        these. If this is the `last` call, nothing is postponed."""
        self.due = None
        if self._rest_until:
            query = AgentQuery(since_us=self._listed_us - MARGIN_US)
            changed = self._select_changed(self._backend.list_agents(query))
            if changed:
                return changed
        if not last and time.monotonic() < self._rest_until:
            self.due = self._rest_until
            return []
        return self._select_changed(self._list_all())

    def _list_all(self) -> list[AgentRecord]:
        start = time.monotonic()
        self._listed_us = self._backend.read_clock()
        agents = self._backend.list_agents()
        end = time.monotonic()
        self._rest_until = end + REST * (end - start)
        ids = {agent.id for agent in agents}
        for id in self.positions.keys() - ids:  # deleted: it may be created again under its key
            del self.positions[id]
        return agents

    def _select_changed(self, agents: Sequence[AgentRecord]) -> list[AgentRecord]:
        return [agent for agent in agents if self.positions.get(agent.id) != agent.head]


class AgentChanges:
    """Reads the new events of one agent."""

    due: float | None = None

    def __init__(self, backend: Backend, agent: AgentRecord, after: int) -> None:
        self._backend = backend
        self._agent = agent
        self._after = after

    def read(self, *, last: bool = False) -> list[Event]:
        """Return the next events, at most a page of them."""
        lineage = self._backend.read_lineage(self._agent)
        pieces = clip(lineage, self._after + 1, self._after + FOLLOWED_AT_ONCE)
        if not pieces:
            return []
        events = self._backend.read_events(self._agent, pieces)
        self._after += len(events)
        return events


class StoreChanges(Generic[T]):
    """Reads the new events of all agents of a store, each with the handle of its agent."""

    def __init__(
        self,
        backend: Backend,
        after: Mapping[str, int] | None,
        make_handle: Callable[[AgentRecord], T],
    ) -> None:
        self._backend = backend
        self._make_handle = make_handle
        self._tracker = HeadTracker(backend, after)

    @property
    def due(self) -> float | None:
        return self._tracker.due

    def read(self, *, last: bool = False) -> list[tuple[T, Event]]:
        """Return the next events of all agents by time, those of each agent in its own order."""
        while True:
            changed = self._tracker.list_changed(last=last)
            found = self._read_new_events(changed)
            if found or not changed:  # an agent that was only created has no events
                return found

    def _read_new_events(self, agents: Sequence[AgentRecord]) -> list[tuple[T, Event]]:
        """Return the next events of these agents, at most a page of each."""
        by_agent: list[list[tuple[T, Event]]] = []
        positions: dict[str, int] = {}
        for agent in agents:
            known = self._tracker.positions.get(agent.id, 0)
            if known > agent.head:  # it was deleted and created again under its key
                known = 0
            after = max(known, agent.fork_seq)
            last = min(agent.head, after + FOLLOWED_AT_ONCE)
            if after < last:
                handle = self._make_handle(agent)
                events = self._read_own_events(agent, after + 1, last)
                by_agent.append([(handle, event) for event in events])
            positions[agent.id] = last
        # Only now, so that a failed read is repeated completely.
        self._tracker.positions.update(positions)
        # Not sorted: the times of one agent may decrease, and its own order counts.
        return list(heapq.merge(*by_agent, key=lambda pair: pair[1].created_us))

    def _read_own_events(self, agent: AgentRecord, low: int, high: int) -> list[Event]:
        try:
            return self._backend.read_events(agent, [Piece(agent.pk, low, high)])
        except AgentNotFound:  # deleted since it was listed
            return []


def begin_following(
    backend: Backend, make_changes: Callable[[], ChangeReader[T]], timeout: float | None = None
) -> Follower[T]:
    """Return a follower of what is committed from now on. `make_changes` is called when the store
    is watched already, so nothing is missed."""
    watch = backend.watch()
    try:
        return Follower(make_changes(), watch, timeout)
    except BaseException:
        watch.close()
        raise


def follow_agent(
    backend: Backend, agent: AgentRecord, after: int | None, timeout: float | None
) -> Follower[Event]:
    """Follow an agent after a position; None: after its head."""

    def make_changes() -> AgentChanges:
        head = backend.read_head(agent)
        position = head if after is None else after
        check_position(agent, position, head)
        return AgentChanges(backend, agent, position)

    return begin_following(backend, make_changes, timeout)


def follow_store(
    backend: Backend,
    after: Mapping[str, int] | None,
    timeout: float | None,
    make_handle: Callable[[AgentRecord], T],
) -> Follower[tuple[T, Event]]:
    """Follow all agents. Each event comes with the handle that `make_handle` returns for the agent
    that owns it."""
    if not isinstance(after, Mapping | None):
        raise Invalid(
            f"after={after!r:.60} does not say where to begin", remedy="pass {agent id: position}"
        )
    return begin_following(backend, partial(StoreChanges, backend, after, make_handle), timeout)
