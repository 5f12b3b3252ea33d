"""Following an agent or a store: an iterator over what is committed from now on.

It remembers how far it got, reads what came after, and waits for the store's watch to say that there may be
more.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, Protocol, Self, TypeVar

from backstory.errors import Busy, ConnectionLost, Invalid, StorageError
from backstory.log.events import Event
from backstory.storage.log import Log, now
from backstory.storage.positions import check_position, clipped
from backstory.storage.protocols import AgentRecord, Piece, Wanted, Watch

T = TypeVar("T")
PAGE = 1_000  # events read at a time
RETRY = 0.5  # seconds until a server that is down is asked again
REST = 4  # after looking at all agents, wait this many times as long as that took
MARGIN = (
    10_000_000  # microseconds that clocks may differ, or a transaction may take, without a delay
)


class Trail(Protocol[T]):
    """Reads what was committed since the last read."""

    due: float | None  # when it wants to be read again even if nothing happens, in monotonic time

    def read(self, *, last: bool = False) -> list[T]:
        """What is new. The `last` time, nothing is postponed."""


class Follower(Iterator[T], Generic[T]):
    """Yields what is committed, in order, until it is closed, its store is closed, or nothing came for
    `timeout` seconds. Any thread may close it."""

    def __init__(self, trail: Trail[T], watch: Watch, timeout: float | None) -> None:
        if timeout is not None and not (isinstance(timeout, int | float) and timeout >= 0):
            watch.close()
            raise Invalid(
                f"timeout={timeout!r} is not a number of seconds", remedy="pass 0 or more"
            )
        self._trail, self._watch, self._timeout = trail, watch, timeout
        self._found: deque[T] = deque()
        self._turn = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_watch"):
            self._watch.close()

    def close(self) -> None:
        """Stop following, also while another thread waits for the next event."""
        self._watch.close()

    def __next__(self) -> T:
        while (found := self.wait()) is None:
            pass  # a spurious wake-up
        if not found:
            raise StopIteration
        return self.taken()

    def taken(self) -> T:
        """The next event that was found."""
        return self._found.popleft()

    def wake(self) -> None:
        """Make a `wait` of another thread return."""
        self._watch.wake()

    def wait(self) -> bool | None:
        """True if there is something to take, False at the end, None if it was woken before that was
        known."""
        with self._turn:
            deadline = None if self._timeout is None else time.monotonic() + self._timeout
            while not self._found:
                if self._watch.closed or (deadline is not None and self._is_late(deadline)):
                    return False
                if self._watch.woken():
                    return None
                self._look(deadline)
            return not self._watch.closed

    def _is_late(self, deadline: float) -> bool:
        """Whether the time is up, after a last look."""
        if time.monotonic() < deadline:
            return False
        self._found.extend(self._read_patiently(last=True))
        return not self._found

    def _look(self, deadline: float | None) -> None:
        """Read what there is; if that is nothing, wait for more."""
        self._found.extend(self._read_patiently())
        if self._found:
            return
        ends = [end for end in (deadline, self._trail.due) if end is not None]
        left = max(0.0, min(ends) - time.monotonic()) if ends else None
        try:
            self._watch.wait(left)
        except StorageError:
            self._rest(left)

    def _read_patiently(self, *, last: bool = False) -> list[T]:
        """What is new; nothing while the server is down, or after the store was closed."""
        try:
            return self._trail.read(last=last)
        except (ConnectionLost, Busy):
            self._rest(None)
            return []
        except StorageError:
            if self._watch.closed:
                return []
            raise

    def _rest(self, left: float | None) -> None:
        """Wait a little before a server that is down is asked again."""
        end = time.monotonic() + (RETRY if left is None else min(RETRY, left))
        while time.monotonic() < end and not self._watch.closed:
            time.sleep(0.02)


class AgentTrail:
    """Reads the new events of one agent."""

    due: float | None = None

    def __init__(self, log: Log, agent: AgentRecord, after: int) -> None:
        self._log, self._agent, self._after = log, agent, after

    def read(self, *, last: bool = False) -> list[Event]:
        """The next events, at most a page of them."""
        pieces = clipped(
            self._log.backend.lineage(self._agent), self._after + 1, self._after + PAGE
        )
        events = self._log.backend.read(self._agent, pieces) if pieces else []
        self._after += len(events)
        return events


class StoreTrail(Generic[T]):
    """Reads the new events of all agents of a store. `handle` makes what is yielded for an agent. Agents that
    were written to recently are found by their time, however many agents there are. Events with older times,
    such as those of an import, are found when all heads are read, which happens less often."""

    due: float | None = None

    def __init__(
        self, log: Log, after: Mapping[str, int] | None, handle: Callable[[AgentRecord], T]
    ) -> None:
        self._backend = log.backend
        self._handle = handle
        self._looked_us = now()  # when all heads were read
        self._known = dict(self._backend.heads()) if after is None else dict(after)
        self._rest_until = 0.0

    def read(self, *, last: bool = False) -> list[tuple[T, Event]]:
        """The next events of all agents, by time; each agent's in its own order."""
        self.due = None
        if self._rest_until and (found := self._read_latest()):
            return found
        if not last and time.monotonic() < self._rest_until:
            self.due = self._rest_until
            return []
        return self._read_all()

    def _read_latest(self) -> list[tuple[T, Event]]:
        """The new events of agents that were written to since all heads were read."""
        latest = self._backend.agents(Wanted(since_us=self._looked_us - MARGIN))
        self._forget_remade({record.id: record.head for record in latest})
        return self._read_moved({record.id: record for record in latest})

    def _read_all(self) -> list[tuple[T, Event]]:
        began, self._looked_us = time.monotonic(), now()
        heads = dict(self._backend.heads())
        self._rest_until = time.monotonic() + REST * (time.monotonic() - began)
        self._forget_remade({id: heads.get(id, 0) for id in self._known})
        ids = [id for id, head in heads.items() if self._known.get(id, 0) < head]
        records = (record for id in ids for record in self._backend.agents(Wanted(prefix=id)))
        return self._read_moved({record.id: record for record in records})

    def _forget_remade(self, heads: Mapping[str, int]) -> None:
        """Start over with an agent whose head went back: it was deleted and made again under its key."""
        for id, head in heads.items():
            if self._known.get(id, 0) > head:
                del self._known[id]

    def _read_moved(self, records: Mapping[str, AgentRecord]) -> list[tuple[T, Event]]:
        """The next events of these agents, at most a page of each."""
        found: list[tuple[T, Event]] = []
        moved: dict[str, int] = {}
        for id, record in records.items():
            after = max(self._known.get(id, 0), record.fork_seq)
            top = min(record.head, after + PAGE)
            events = (
                self._backend.read(record, [Piece(record.pk, after + 1, top)])
                if after < top
                else []
            )
            found += [(self._handle(record), event) for event in events]
            moved[id] = top
        self._known |= moved  # only now, so that a failed read is repeated completely
        return sorted(found, key=lambda pair: pair[1].created_us)


def follow_agent(
    log: Log, agent: AgentRecord, after: int | None, timeout: float | None
) -> Follower[Event]:
    """The events of an agent after a position; None: after its head."""
    watch = log.backend.watch()
    try:
        head = log.backend.head(agent)
        check_position(agent, after or 0, head)
    except BaseException:
        watch.close()
        raise
    return Follower(AgentTrail(log, agent, head if after is None else after), watch, timeout)


def follow_store(
    log: Log,
    after: Mapping[str, int] | None,
    timeout: float | None,
    handle: Callable[[AgentRecord], T],
) -> Follower[tuple[T, Event]]:
    """The events of all agents, each with the agent that owns it."""
    if not isinstance(after, Mapping | None):
        raise Invalid(
            f"after={after!r:.60} does not say where to begin", remedy="pass {agent id: position}"
        )
    watch = log.backend.watch()
    try:
        trail = StoreTrail(log, after, handle)
    except BaseException:
        watch.close()
        raise
    return Follower(trail, watch, timeout)
