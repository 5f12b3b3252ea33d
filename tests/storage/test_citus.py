"""A real Citus cluster: what goes where, and what the death of a server means.

It takes the cluster of BACKSTORY_TEST_CITUS, whose workers must run on this machine: they are killed and
started again here. The contract of a PostgreSQL store is tested on the cluster by all other tests of the run.
"""

import io
import itertools
import re
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from urllib.parse import urlsplit

import psutil
import psycopg
import pytest

import backstory
from backstory.log.events import Draft
from backstory.storage.ids import parse_place
from backstory.storage.postgres.rows import PostgresReader
from backstory.storage.protocol import AgentQuery
from tests import databases
from tests.processes import wait_until

pytestmark = pytest.mark.skipif(
    not databases.CITUS,
    reason="BACKSTORY_TEST_CITUS IS NOT SET: stores on many servers are not tested",
)


class Worker:
    """A worker on this machine that can be killed and started again."""

    def __init__(self, host, port):
        self.host, self.port = host, port
        [self.url] = [
            url for url in databases.servers() if url.split("@")[-1].startswith(f"{host}:{port}")
        ]

    def kill(self):
        with psycopg.connect(self.url) as db:
            [(pid_file,)] = db.execute("SELECT pg_read_file('postmaster.pid')").fetchall()
        server = psutil.Process(int(pid_file.split()[0]))
        self._command, self._user = server.cmdline(), server.uids().real
        family = [server, *server.children(recursive=True)]
        for process in family:
            with suppress(
                psutil.NoSuchProcess
            ):  # a backend ends with its connection, or with the server
                process.kill()
        psutil.wait_procs(family)

    def start(self):
        in_background = ["sh", "-c", '"$@" > /dev/null 2>&1 &', "sh", *self._command]
        subprocess.run(in_background, user=self._user, cwd="/", start_new_session=True, check=True)
        wait_until(self._answers)

    def _answers(self):
        try:
            psycopg.connect(self.url, connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True


@contextmanager
def killed(worker):
    worker.kill()
    try:
        yield
    finally:
        worker.start()


@pytest.fixture
def url(new_database):
    return new_database()


@pytest.fixture
def store(url):
    with backstory.open(url) as store:
        yield store


@pytest.fixture
def sent(store, monkeypatch):
    """What the coordinator sends to the workers for a call: (port, command) each."""
    backend = store._backend
    noticed = []

    def note(notice):
        if found := re.match(r"issuing (.*)", notice.message_primary, re.DOTALL):
            port = int(re.search(r":(\d+) ", notice.message_detail).group(1))
            noticed.append((port, found.group(1)))

    def of(call):
        noticed.clear()
        call()
        return list(noticed)

    with backend._pool.borrow() as db:
        db.add_notice_handler(note)
        db.execute("SET citus.log_remote_commands = on; SET client_min_messages = notice")
        monkeypatch.setattr(backend._pool, "borrow", lambda _: nullcontext(db))
        yield of


def port_of(store, agent):
    """The port of the worker that has an agent's session."""
    sql = """
        SELECT nodeport FROM citus_shards
        WHERE shardid = get_shard_id_for_distribution_column('backstory.agents', %s)"""
    with psycopg.connect(store._backend._conninfo) as db:
        return db.execute(sql, (parse_place(agent.session),)).fetchone()[0]


def one_on_each(store):
    """An agent on each worker, by the worker's port."""
    found = {}
    while len(found) < len(databases.workers()):
        agent = store.start("main")
        agent.user("one")
        agent.mark("here")
        agent.user("two")
        found.setdefault(port_of(store, agent), agent)
    return found


# --- what is sent where ---


def test_an_append_a_batch_a_start_and_a_fork_are_one_call_each(store, sent):
    agent = store.start("main")
    for call, function in (
        (lambda: store.start("other"), "create_agent"),
        (lambda: store.start("greeted", system="Be brief."), "create_agent"),
        (lambda: store.ensure("a key"), "create_agent"),
        (lambda: agent.user("one"), "append_many"),
        (lambda: agent.append("user", "two", expected=1), "append_many"),
        (lambda: agent.extend([("user", "three", None), ("user", "four", None)]), "append_many"),
        (agent.fork, "create_agent"),
        (agent.spawn, "create_agent"),
    ):
        commands = [command for _, command in sent(call)]
        calls = [command for command in commands if f"backstory.{function}(" in command]
        assert len(calls) == 1, commands
        others = [command for command in commands if command not in calls]
        assert all(command.startswith(("WITH RECURSIVE", "SELECT")) for command in others)


def test_an_append_is_still_one_call_when_its_statement_is_prepared(store, sent):
    agent = store.start("main")
    for _ in range(12):
        assert len(sent(lambda: agent.user("again"))) == 1


def test_what_is_judged_before_it_is_written_stays_on_one_server_without_a_two_phase_commit(
    store, sent
):
    agent = store.start("main")
    agent.user("one")
    agent.mark("here")
    for call in (
        lambda: agent.rewind("here"),
        lambda: agent.jump(1),
        agent.undo,
        lambda: agent.append("user", "keyed", key="k"),
        lambda: agent.compact("All of it."),
        lambda: agent.describe(title="t"),
        lambda: agent.erase([1], why="asked"),
    ):
        commands = sent(call)
        assert len({port for port, _ in commands}) == 1, commands
        assert [command for _, command in commands if "PREPARE TRANSACTION" in command] == []


def test_an_agent_is_found_by_id_by_key_and_by_session_and_name_on_one_server(store, sent):
    root = store.start("main", key="root")
    child = root.fork("child")
    keyed = root.fork("keyed", key="of a fork")
    for call in (
        lambda: store.agent(root.id),
        lambda: store.agent(child.id),
        lambda: store.agent(key="root"),
        lambda: store.ensure("root"),
        lambda: store.agent(f"{root.session}/child"),
        lambda: store.agents(session=root.session),
        child.context,
    ):
        commands = sent(call)
        assert len({port for port, _ in commands}) == 1, commands
    assert (
        len(sent(lambda: store.agent(key="of a fork"))) == 3
    )  # its place, the directory there, and its session's
    assert store.agent(key="of a fork") == keyed


# --- what a server's death means ---


@pytest.mark.parametrize("which", [0, 1])
def test_a_dead_worker_stops_nothing_on_the_others(url, which):
    worker = Worker(*databases.workers()[which])
    with backstory.open(url) as store:
        agents = one_on_each(store)
        dead = agents.pop(worker.port)
        keyed = (store.ensure(f"backstory.agents {n}") for n in itertools.count())
        like_sql = next(agent for agent in keyed if port_of(store, agent) != worker.port)
        with killed(worker):
            for agent in agents.values():
                head = agent.head
                agent.user("on")
                agent.extend([("user", "and", None), ("user", "on", None)])
                agent.append("user", "keyed", key="k")
                agent.rewind("here")
                fork = agent.fork()
                assert fork.context().messages[0].content == "one"
                with backstory.open(url) as again:
                    assert again.agent(agent.id).head == head + 5
                    assert again.agent(fork.id).name == fork.name
                    assert again.agent(f"{agent.session}/{fork.name}") == again.agent(fork.id)
            with pytest.raises(backstory.StorageError):
                dead.user("nobody hears this")
            with pytest.warns(backstory.PartMissing, match=str(worker.port)):
                listed = store.agents()
            assert {agent.id for agent in agents.values()} <= {agent.id for agent in listed}
            assert dead not in listed
            with pytest.warns(backstory.PartMissing, match=str(worker.port)):
                [latest] = store.sessions(order="updated", limit=1)
            assert latest.id in {agent.session for agent in agents.values()}
            with pytest.warns(backstory.PartMissing):
                assert [s.id for s in store.sessions(prefix="backstory.agents ")] == [like_sql.id]
            with pytest.raises(backstory.StorageError):
                store.verify()  # what must be complete is not made of what is left
        dead.user("back again")
        assert dead.head == 4
        assert store.verify() == []


def test_with_a_dead_worker_lists_are_partial_and_searches_fail(url):
    worker = Worker(*databases.workers()[0])
    with backstory.open(url) as store:
        left, dead = [], []
        while len(left) < 6 or not dead:
            agent = store.start("main")
            (dead if port_of(store, agent) == worker.port else left).append(agent)
        for agent in reversed(left):
            agent.user("one")
        gone, *left = left
        child = gone.fork("child")
        child.user("two")
        store.delete(gone)
        latest = [child.session, *(agent.session for agent in left)]
        with killed(worker):
            with pytest.warns(backstory.PartMissing):
                assert store.agents() == [*left, child]
            with pytest.warns(backstory.PartMissing):
                assert store.agents(limit=3) == left[:3]
            with pytest.warns(backstory.PartMissing):
                page = store.sessions(order="updated", limit=2)
            with pytest.warns(backstory.PartMissing):
                rest = store.sessions(order="updated", after=page[-1].id)
            assert [session.id for session in (*page, *rest)] == latest
            for complete in (store.stats, store.verify, lambda: store.export_to(io.StringIO())):
                with pytest.raises(backstory.ConnectionLost):
                    complete()


def test_a_list_is_complete_if_the_worker_is_back_before_the_servers_are_asked_one_by_one(
    store, monkeypatch
):
    agents = {agent.id for agent in one_on_each(store).values()}
    backend = store._backend

    def lose_connection(*_):
        raise backstory.ConnectionLost("a worker was away")

    monkeypatch.setattr(PostgresReader, "list_agents", lose_connection)
    # A warning would be an error here.
    listed = backend.list_agents(AgentQuery(allow_partial=True))
    assert {record.id for record in listed} >= agents


def write_until_it_fails(agent, acknowledged, going):
    with suppress(backstory.StorageError):
        head = agent.head
        while True:
            [event] = agent.extend([("user", f"event {head + 1}", None)], expected=head)
            acknowledged.append(event)
            head = event.seq
            going.set()


def test_after_a_kill_everything_acknowledged_is_readable_and_a_repeat_is_no_conflict(url):
    worker = Worker(*databases.workers()[0])
    with backstory.open(url) as store:
        agent = one_on_each(store)[worker.port]
        for _ in range(3):
            acknowledged, going = [], threading.Event()
            writer = threading.Thread(
                target=write_until_it_fails, args=(agent, acknowledged, going)
            )
            writer.start()
            assert going.wait(60)
            with killed(worker):
                writer.join()
            with backstory.open(url) as again:
                there = {event.seq: event.content for event in again.agent(agent.id).events()}
            assert all(there[event.seq] == event.content for event in acknowledged)
            expected = acknowledged[-1].seq
            [repeated] = agent.extend([("user", f"event {expected + 1}", None)], expected=expected)
            assert repeated.seq == expected + 1
        assert store.verify() == []


# --- more servers ---


PART = "SELECT get_shard_id_for_distribution_column('backstory.agents', %s)"
MOVE_PART = "SELECT citus_move_shard_placement(%s, %s, %s, %s, %s, 'block_writes')"


def move_part(db, agent):
    """Move the part of a store that has an agent to another worker."""
    [(part,)] = db.execute(PART, (parse_place(agent.session),)).fetchall()
    [port] = db.execute("SELECT nodeport FROM citus_shards WHERE shardid = %s", (part,)).fetchone()
    [here] = [worker for worker in databases.workers() if worker[1] == port]
    [there, *_] = [worker for worker in databases.workers() if worker != here]
    db.execute(MOVE_PART, (part, *here, *there))


@pytest.mark.parametrize("locked", ["agent", "session"])
def test_a_part_of_a_store_is_moved_before_or_after_a_transaction_not_within(store, url, locked):
    agent = store.start("main")
    record = agent._record
    locks = {"agents": [record]} if locked == "agent" else {"sessions": [agent.session]}
    with psycopg.connect(url, autocommit=True) as db:
        db.execute("SET lock_timeout = '100ms'")  # it would wait until the transaction ends
        with store._backend.begin(**locks) as transaction:
            with pytest.raises(psycopg.errors.LockNotAvailable):
                move_part(db, agent)
            transaction.append(record, [Draft("user", "one")], 0, 1)
        db.execute("RESET lock_timeout")
        before = port_of(store, agent)
        move_part(db, agent)
    assert port_of(store, agent) != before
    assert agent.append("user", "two", key="k").seq == 2


WAITING = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


def test_an_append_waits_for_a_part_that_is_moved_before_it_locks_the_agent(store, url):
    """Otherwise it has locked the agent on the old worker, and writes to the new one."""
    agent = store.start("main")
    place = parse_place(agent.session)
    with psycopg.connect(url) as db:
        [(part,)] = db.execute(PART, (place,)).fetchall()
    [node] = [node for node in databases.servers() if urlsplit(node).port == port_of(store, agent)]
    worker = databases.url(urlsplit(url).path.removeprefix("/"), node)
    with (
        ThreadPoolExecutor(1) as pool,
        psycopg.connect(worker) as mover,
        psycopg.connect(worker) as other,
    ):
        mover.execute("SELECT lock_shard_metadata(7, ARRAY[%s::bigint])", (part,))
        appended = pool.submit(agent.user, "one")
        wait_until(lambda: mover.execute(WAITING).fetchall() or appended.done())
        agents = f"backstory.agents_{part}"
        other.execute(f"SELECT 1 FROM {agents} WHERE place = %s FOR UPDATE NOWAIT", (place,))
        other.rollback()
        mover.rollback()
        assert appended.result().seq == 1


PORTS = """
    SELECT DISTINCT nodeport FROM citus_shards WHERE table_name = 'backstory.events'::regclass"""


def test_a_new_worker_takes_over_parts_of_a_store_that_is_written_to(new_database):
    """The command that docs/scale.md names. It moves each part while others write."""
    url = new_database(plain=True)
    name = urlsplit(url).path.removeprefix("/")
    first, *others = databases.workers()
    databases.extend(name, only=[first])
    with backstory.open(url) as store, psycopg.connect(url, autocommit=True) as db:
        agents = [store.start("main") for _ in range(4 * databases.FEW_SHARDS)]
        for agent in agents:
            agent.user("needle")
            agent.mark("here")
        assert len(store.search("needle", limit=100)) == len(agents)
        databases.add_workers(name, others)
        db.execute("SELECT citus_rebalance_start()")
        with ThreadPoolExecutor(1) as pool:
            moving = pool.submit(db.execute, "SELECT citus_rebalance_wait()")
            for agent in itertools.cycle(agents):
                agent.user("meanwhile")
                agent.rewind("here")
                agent.fork(key=f"fork {agent.id} {agent.head}")
                if moving.done():
                    break
        moving.result()
        ports = {port for (port,) in db.execute(PORTS).fetchall()}
        assert ports == {port for _, port in databases.workers()}
        assert store.verify() == []
        assert len(store.search("needle", limit=100)) == len(agents)
        assert store.start("main", key="later").user("on").seq == 1


# --- jobs ---


def test_searches_that_begin_at_the_same_time_make_one_index(url):
    with backstory.open(url) as store:
        store.start("main").user("needle")
    failed = []

    def search():
        try:
            with backstory.open(url) as own:
                assert len(own.search("needle")) == 1
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=search) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_the_size_of_a_store_is_that_of_all_its_servers(store):
    before = store.stats().size
    for agent in one_on_each(store).values():
        agent.extend([("user", f"{n}{time.time_ns()}" * 500, None) for n in range(200)])
    assert store.stats().size > before + 200 * 100 * len(databases.workers())


def test_another_process_is_followed_by_polling(store, url):
    agent = store.start("main")
    with backstory.open(url) as other, store.follow(timeout=30) as following:
        other.agent(agent.id).user("heard")
        assert next(event.content for _, event in following) == "heard"


def test_a_taken_name_is_refused_on_an_intake(store):
    root = store.start("main", key="root")
    root.user("x")
    root.fork("taken")

    def take_in():
        with store.intake() as intake:
            intake.agent("another", name="taken", parent=root, at=1)
            intake.commit()

    with pytest.raises(backstory.NameTaken):
        take_in()
