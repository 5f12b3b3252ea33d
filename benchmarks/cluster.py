"""What a store on many servers costs: `python -m benchmarks.cluster URL`, with a coordinator of Citus.

Every figure is the quickest of many calls and a ratio to a bare one-row INSERT through the same coordinator,
in the same run. The store is made in the database of the address, which must not have one.
"""

import sys
import time
from collections.abc import Callable

import psycopg

import backstory

CALLS = 250
BARE = "INSERT INTO backstory_bare VALUES (%s, %s, %s)"


def best(call: Callable[[], object], calls: int = CALLS) -> float:
    """Milliseconds for one call: the quickest of many, which other work on the machine disturbed least."""
    times = []
    for _ in range(calls):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return min(times) * 1000


def bare(url: str) -> float:
    """The same for a row in a distributed table, without any store."""
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("CREATE TABLE backstory_bare (place bigint, seq bigint, content text)")
        try:
            db.execute("SELECT create_distributed_table('backstory_bare', 'place')")
            return best(
                lambda: db.execute(BARE, (7, time.time_ns(), "a sentence of the usual length"))
            )
        finally:
            db.execute("DROP TABLE backstory_bare")


def figures(store: backstory.Store) -> dict[str, float]:
    """Milliseconds of what a conversation does."""
    agent = store.start("main")
    agent.extend([("user", "a sentence of the usual length", None)] * 100)
    fork = agent.fork("fork")
    agent.mark("here")
    batch: list[tuple[str, str | None, None]] = [
        ("user", "a sentence of the usual length", None)
    ] * 100
    return {
        "append": best(lambda: agent.user("a sentence of the usual length")),
        "append of 100 events": best(lambda: fork.extend(batch), 30),
        "start": best(lambda: store.start("other"), 60),
        "fork": best(lambda: agent.fork(at=1), 60),
        "fork with a key": best(lambda: agent.fork(at=1, key=f"key {time.time_ns()}"), 60),
        "rewind": best(lambda: agent.rewind("here"), 60),
        "an event with a key": best(
            lambda: agent.append("user", "x", key=f"key {time.time_ns()}"), 60
        ),
        "find an agent by its id": best(lambda: store.agent(fork.id)),
        "find an agent by its name": best(lambda: store.agent("fork"), 60),
        "context of 100 events": best(lambda: agent.context(at=100), 60),
    }


def main(url: str) -> None:
    """Print the table."""
    unit = bare(url)
    with backstory.open(url) as store:
        found = figures(store)
    print(f"{'bare INSERT':28} {unit:7.2f} ms   1.0")
    for name, milliseconds in found.items():
        print(f"{name:28} {milliseconds:7.2f} ms {milliseconds / unit:5.1f}")


if __name__ == "__main__":
    main(sys.argv[1])
