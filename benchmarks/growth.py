"""What may not grow with the store: one question to a small store and to a large one, in one run."""

import os
import statistics
import time
from collections.abc import Callable

import backstory
from benchmarks import appenders
from benchmarks.engine import batch, chain_of_forks
from benchmarks.floors import BarePostgres
from benchmarks.measure import Row, by_turns
from benchmarks.places import new_database, postgres_server
from benchmarks.population import COMMON, populate
from benchmarks.sizes import Sizes

FEW = 100  # agents of the small store


class Growth:
    """One backend: makes stores that are used by several rows once."""

    def __init__(self, new_address: Callable[[], str], sizes: Sizes) -> None:
        self._new_address = new_address
        self._sizes = sizes

    def table(self) -> list[Row]:
        """Every row."""
        return [*self.populated(), *self.deep(), self.pieces(), chain_of_forks(self._opened())]

    def populated(self) -> list[Row]:
        """Few agents against many."""
        small, large = self._populated(FEW, 2), self._populated(self._sizes.agents, 2)
        dense = self._populated(FEW, 2 * self._sizes.agents // FEW)
        over = f"at {self._sizes.agents:,} agents"
        small.search("anything", wait=True)
        rows = [
            self._both(
                "an agent that is not there", over, large, small, lambda s: lambda: _absent(s), 3.0
            ),
            self._both(
                "the latest agent (@)", over, large, small, lambda s: lambda: s.resolve("@"), 1.5
            ),
            self._first_search(large, dense),
        ]
        for word, kind in ((COMMON, "common"), ("only7x1", "rare")):
            what = f"search for a {kind} word in one agent"
            rows.append(
                self._both(what, over, large, small, lambda s, word=word: _within(s, word), 1.5)
            )
        stats = (_timed(large.stats), _timed(dense.stats))
        rows.append(Row(f"stats() {over}", f"as many events of {FEW} agents", *stats, None))
        for store in (small, large, dense):
            store.close()
        return rows

    def _both(
        self,
        what: str,
        over: str,
        large: backstory.Store,
        small: backstory.Store,
        ask: Callable[[backstory.Store], Callable[[], object]],
        limit: float,
    ) -> Row:
        ours, floor = by_turns(ask(large), ask(small), 30)
        return Row(f"{what}, {over}", f"at {FEW}", ours, floor, limit)

    def _first_search(self, large: backstory.Store, dense: backstory.Store) -> Row:
        def ask(store: backstory.Store) -> float:
            return _timed(lambda: store.search(COMMON, wait=True))

        what = f"first search of {2 * self._sizes.agents:,} events, {self._sizes.agents:,} agents"
        return Row(what, f"{FEW} agents", ask(large), ask(dense), 1.5)

    def deep(self) -> list[Row]:
        """stats() of chains of forks: twice as deep may take twice as long."""
        half, whole = self._chain(self._sizes.depth // 2), self._chain(self._sizes.depth)
        ours, floor = by_turns(whole.stats, half.stats, 3)
        what = f"stats() of a chain of {self._sizes.depth:,} forks"
        return [Row(what, "half as deep", ours, floor, 2.2)]

    def pieces(self) -> Row:
        """A context in many live pieces against one of the same events."""
        store, count = self._opened(), self._sizes.moves
        flat, pieced = store.start("flat"), store.start("pieced")
        flat.extend(batch(3 * count))
        for _ in range(count):
            pieced.extend(batch(3))
            pieced.jump(pieced.head - 1)
        ours, floor = by_turns(pieced.context, flat.context, 30)
        return Row(f"context() of {count:,} live pieces", "of one piece", ours, floor, 2.0)

    def _chain(self, depth: int) -> backstory.Store:
        store = self._opened()
        agent = store.start()
        for _ in range(depth):
            agent.user("a")
            agent = agent.fork()
        return store

    def _populated(self, agents: int, events: int) -> backstory.Store:
        address = self._new_address()
        populate(address, agents, events)
        return backstory.open(address)

    def _opened(self) -> backstory.Store:
        return backstory.open(self._new_address())


def together(new_address: Callable[[], str], sizes: Sizes) -> list[Row]:
    """PostgreSQL: many processes at once."""
    ours, bare = new_address(), new_address()
    backstory.open(ours).close()
    BarePostgres(bare)
    rows = []
    for count in (8, 32):
        best = [0.0, 0.0]
        for _ in range(3):
            for place, (what, address) in enumerate((("ours", ours), ("bare", bare))):
                best[place] = max(best[place], appenders.rate(what, address, count, sizes.seconds))
        mine, floor = (1000 / rate for rate in best)
        rows.append(Row(f"an append, {count} processes at once", "bare psycopg", mine, floor, 1.6))
    return [*rows, jumps(new_address(), sizes)]


def jumps(address: str, sizes: Sizes) -> Row:
    """The slowest of many jumps while four processes append to the same agent."""
    agent = backstory.open(address).start()
    agent.extend(batch(10))

    def times() -> list[float]:
        return sorted(_timed(lambda: agent.jump(5)) for _ in range(sizes.moves))

    alone = times()
    with appenders.started("ours", address, 4, 3_600, agent.id):
        crowded = times()
    what = f"the slowest of {sizes.moves:,} jumps, four appenders"
    return Row(what, "the median alone", crowded[-1], statistics.median(alone), 20.0)


def _absent(store: backstory.Store) -> None:
    try:
        store.agent("nobody is called this")
    except backstory.NotFound:
        return
    raise AssertionError("there is such an agent")


def _within(store: backstory.Store, word: str) -> Callable[[], object]:
    agent = store.agent("agent 7")
    return lambda: store.search(word, agent=agent, wait=True)


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1000


def sqlite_growth(folder: str, sizes: Sizes) -> list[Row]:
    """On SQLite."""
    paths = iter(range(1_000_000))
    return Growth(lambda: os.path.join(folder, f"growth-{next(paths)}.db"), sizes).table()


def postgres_growth(folder: str, sizes: Sizes) -> list[Row]:
    """On PostgreSQL."""
    server = postgres_server(folder)
    return Growth(lambda: new_database(server), sizes).table()


def together_table(folder: str, sizes: Sizes) -> list[Row]:
    """Many processes at once, on PostgreSQL."""
    server = postgres_server(folder)
    return together(lambda: new_database(server), sizes)
