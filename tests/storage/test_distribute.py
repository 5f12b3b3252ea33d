"""A store that existed before it is distributed over a Citus cluster, the one of BACKSTORY_TEST_CITUS."""

import threading

import psycopg
import pytest

import backstory
from backstory.storage.postgres.watch import WatchState
from tests import databases
from tests.processes import wait_until

pytestmark = pytest.mark.skipif(
    not databases.CITUS, reason="BACKSTORY_TEST_CITUS IS NOT SET: stores are not distributed"
)


@pytest.fixture
def plain():
    """The name and the address of a database that has no extension yet."""
    name = databases.create(plain=True)
    yield name, databases.url(name)
    databases.drop(name)


def test_a_store_that_is_older_than_the_extension_is_distributed_on_request(plain):
    name, url = plain
    with backstory.open(url) as store:
        root = store.start("main", key="root")
        root.user("needle")
        root.mark("here")
        root.user("two")
        root.fork("keyed", key="of a fork").user("three")
        for n in range(20):
            store.start(f"s{n}").user("needle")
        assert len(store.search("needle")) == 20
        with pytest.raises(backstory.Invalid, match="does not have the Citus extension"):
            store.distribute()
        before = store.seal()
    databases.extend(name)
    with backstory.open(url) as store:
        heard = []
        done = store.distribute(lambda done, total: heard.append((done, total)))
        assert done.servers == len(databases.workers())
        assert heard[-1] == (done.rows, done.rows)
        assert store.distribute() == (0, done.servers)
        assert store.verify(seal=before) == []
        assert store.agent(key="of a fork").context().messages[-1].content == "three"
        store.agent(key="root").rewind("here")
        assert len(store.search("needle", limit=30)) == 21
        with psycopg.connect(url) as db:
            assert db.execute("SELECT pg_relation_size('backstory.events')").fetchone() == (0,)
    with backstory.open(url) as again:
        assert len(again.agents()) == 22


class Writers:
    """Threads that write to one agent in every way, each through a store of its own."""

    def __init__(self, url, agent):
        self._url, self._agent = url, agent
        self._ended = threading.Event()
        self.written, self.failed = [], []
        addresses = (url, databases.with_parameter(url, "prepare=off")) * 2
        self._threads = [
            threading.Thread(target=self._write, args=(address,)) for address in addresses
        ]
        for thread in self._threads:
            thread.start()

    def _write(self, address):
        try:
            with backstory.open(address) as store:
                agent = store.agent(self._agent.id)
                while not self._ended.is_set():
                    self.written.append(agent.user("one"))
                    self.written.extend(
                        agent.extend([("user", "two", None), ("user", "three", None)])
                    )
                    self.written.append(agent.jump(1))
        except Exception as error:
            self.failed.append(error)

    def go_on(self):
        """Wait until something more is written by all."""
        enough = len(self.written) + 50
        wait_until(lambda: len(self.written) > enough or self.failed)

    def end(self):
        self._ended.set()
        for thread in self._threads:
            thread.join()


def test_open_processes_continue_after_a_store_is_distributed(plain):
    name, url = plain
    with backstory.open(url) as store, backstory.open(url) as other:
        agent = store.start("main")
        agent.user("needle")
        assert len(other.search("needle")) == 1
        databases.extend(name)
        with agent.follow(timeout=60) as following:
            writers = Writers(url, agent)
            writers.go_on()
            with backstory.open(url) as third:
                assert third.distribute().rows > 0
            writers.go_on()
            writers.end()
            assert writers.failed == []
            heard = [next(following).seq for _ in writers.written]
            assert sorted(heard) == sorted(event.seq for event in writers.written)
            agent.user("haystack")
            assert next(following).content == "haystack"
            assert following._watch._state is WatchState.POLLING
        assert len(other.search("haystack")) == 1
        assert other.stats().size > 100_000
        assert store.verify() == []
