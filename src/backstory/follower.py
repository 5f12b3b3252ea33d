"""Following an agent or a store: an iterator over what is committed from now on.

It remembers how far it got, reads what came after, and waits for the store's watch to say that there may be
more.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, Self, TypeVar

from backstory.core.events import Event
from backstory.errors import Busy, ConnectionLost, Invalid, StorageError
from backstory.storage.log import Log
from backstory.storage.positions import check_position, clipped
from backstory.storage.protocols import AgentRecord, Piece, Wanted, Watch

T = TypeVar("T")
PAGE = 1_000  # events read at a time
RETRY = 0.5  # seconds until a server that went away is asked again
REST = 4  # times as long as it took to look at all agents, until it is done again


class Follower(Iterator[T], Generic[T]):
    """Yields what is committed, in order, until it is closed, its store is closed, or nothing came for
    `timeout` seconds. Any thread may close it."""

    def __init__(self, read: Callable[[], list[T]], watch: Watch, timeout: float | None) -> None:
        if timeout is not None and not (isinstance(timeout, int | float) and timeout >= 0):
            watch.close()
            raise Invalid(f"timeout={timeout!r} is not a number of seconds", remedy="pass 0 or more")
        self._read, self._watch, self._timeout = read, watch, timeout
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
            pass  # woken for nothing
        if not found:
            raise StopIteration
        return self.taken()

    def taken(self) -> T:
        """The next event of those that were found."""
        return self._found.popleft()

    def wake(self) -> None:
        """Make a `wait` of another thread return."""
        self._watch.wake()

    def wait(self) -> bool | None:
        """Whether there is something to take, False at the end. None if it was woken before that was
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
        """Whether time ran out; what came in the last moment is not lost."""
        if time.monotonic() < deadline:
            return False
        self._found.extend(self._read_patiently())
        return not self._found

    def _look(self, deadline: float | None) -> None:
        """Read what there is; if that is nothing, wait for more."""
        self._found.extend(self._read_patiently())
        if self._found:
            return
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            self._watch.wait(left)
        except StorageError:
            self._rest(left)

    def _read_patiently(self) -> list[T]:
        """What is new; nothing, while the server is away or once the store is closed."""
        try:
            return self._read()
        except (ConnectionLost, Busy):
            self._rest(None)
            return []
        except StorageError:
            if self._watch.closed:
                return []
            raise

    def _rest(self, left: float | None) -> None:
        """Wait a little before a server that went away is asked again."""
        end = time.monotonic() + (RETRY if left is None else min(RETRY, left))
        while time.monotonic() < end and not self._watch.closed:
            time.sleep(0.02)


class AgentTrail:
    """What an agent's log has behind a position that moves on."""

    def __init__(self, log: Log, agent: AgentRecord, after: int) -> None:
        self._log, self._agent, self._after = log, agent, after

    def read(self) -> list[Event]:
        """The next events, at most a page of them."""
        pieces = clipped(self._log.backend.lineage(self._agent), self._after + 1, self._after + PAGE)
        events = self._log.backend.read(self._agent, pieces) if pieces else []
        self._after += len(events)
        return events


class StoreTrail(Generic[T]):
    """What all agents of a store have behind positions that move on. `handle` makes what is shown of an
    agent."""

    def __init__(self, log: Log, after: Mapping[str, int] | None, handle: Callable[[AgentRecord], T]) -> None:
        self._backend = log.backend
        self._handle = handle
        self._known = dict(self._backend.heads()) if after is None else dict(after)
        self._rest_until = 0.0

    def read(self) -> list[tuple[T, Event]]:
        """The next events of all agents, by time; each agent's in its own order."""
        time.sleep(max(0.0, self._rest_until - time.monotonic()))
        began = time.monotonic()
        heads = self._backend.heads()
        self._rest_until = time.monotonic() + REST * (time.monotonic() - began)
        self._forget_deleted(dict(heads))
        moved = {id: head for id, head in heads if self._known.get(id, 0) < head}
        found: list[tuple[T, Event]] = []
        for id in moved:
            moved[id], events = self._of_agent(id, moved[id])
            found += events
        self._known |= moved  # only now: a read that failed is repeated as a whole
        return sorted(found, key=lambda pair: pair[1].created_us)

    def _forget_deleted(self, heads: Mapping[str, int]) -> None:
        """Begin again with an agent that was deleted and made again under its key: no head goes back."""
        for id in [id for id, known in self._known.items() if known > heads.get(id, 0)]:
            del self._known[id]

    def _of_agent(self, id: str, head: int) -> tuple[int, list[tuple[T, Event]]]:
        """An agent's next events, and up to where they go."""
        for record in self._backend.agents(Wanted(prefix=id)):
            after = max(self._known.get(id, 0), record.fork_seq)
            top = min(head, after + PAGE)
            events = self._backend.read(record, [Piece(record.pk, after + 1, top)])
            agent = self._handle(record)
            return top, [(agent, event) for event in events]
        return head, []  # it was deleted meanwhile


def follow_agent(log: Log, agent: AgentRecord, after: int | None, timeout: float | None) -> Follower[Event]:
    """The events of an agent behind a position; None: behind its head."""
    watch = log.backend.watch()
    try:
        head = log.backend.head(agent)
        check_position(agent, after or 0, head)
    except BaseException:
        watch.close()
        raise
    return Follower(AgentTrail(log, agent, head if after is None else after).read, watch, timeout)


def follow_store(
    log: Log,
    after: Mapping[str, int] | None,
    timeout: float | None,
    handle: Callable[[AgentRecord], T],
) -> Follower[tuple[T, Event]]:
    """The events of all agents, each with the agent that owns it."""
    watch = log.backend.watch()
    try:
        trail = StoreTrail(log, after, handle)
    except BaseException:
        watch.close()
        raise
    return Follower(trail.read, watch, timeout)
