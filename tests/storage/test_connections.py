"""The connections to a PostgreSQL server: which are kept at hand, and which go back to the pool."""

import threading
from contextlib import suppress

import pytest
from psycopg_pool.pool import WaitingClient

import backstory
from backstory.storage.postgres import connections
from backstory.storage.postgres.connections import Connections
from tests.processes import wait_until


@pytest.fixture
def pool(empty_database, monkeypatch):
    """A pool of one connection."""
    monkeypatch.setattr(connections, "MOST_CONNECTIONS", 1)
    with Connections(empty_database(), prepares=True, patience=20) as pool:
        yield pool


def process(pool):
    with pool.connection() as db:
        return db.info.backend_pid


def test_a_connection_is_used_again_without_the_pool(pool):
    first = process(pool)
    asked = pool.get_stats()["requests_num"]
    assert process(pool) == first
    assert pool.get_stats()["requests_num"] == asked


@pytest.mark.parametrize("statement", ["SELECT 1", "BEGIN"])
def test_ctrl_c_while_a_connection_is_given_back_does_not_lose_it(pool, monkeypatch, statement):
    pool.timeout = 5

    def interrupted(_):
        raise KeyboardInterrupt

    with suppress(KeyboardInterrupt), monkeypatch.context() as patched, pool.connection() as db:
        patched.setattr(pool, "give_back", interrupted)
        db.execute(statement)
    del db
    assert process(pool)


def test_ctrl_c_while_a_connection_is_taken_does_not_lose_it(pool, monkeypatch):
    pool.timeout = 5
    first = process(pool)
    original = pool._one_at_hand

    def interrupted():
        taken = original()
        assert taken
        raise KeyboardInterrupt

    with suppress(KeyboardInterrupt), monkeypatch.context() as patched:
        patched.setattr(pool, "_one_at_hand", interrupted)
        process(pool)
    assert process(pool) == first


def test_ctrl_c_while_the_pool_hands_a_connection_over_does_not_lose_it(pool, monkeypatch):
    pool.timeout = 5
    first = process(pool)
    pool._put_one_back()
    wait = WaitingClient.wait

    def interrupted(waiting, timeout):
        wait(waiting, timeout)
        raise KeyboardInterrupt

    def give_back(lent):
        wait_until(lambda: pool.get_stats()["requests_waiting"])
        pool.putconn(lent.pop())

    thread = threading.Thread(target=give_back, args=([pool.getconn()],))
    thread.start()
    with suppress(KeyboardInterrupt), monkeypatch.context() as patched:
        patched.setattr(WaitingClient, "wait", interrupted)
        process(pool)
    thread.join()
    assert process(pool) == first


def test_ctrl_c_before_a_connection_is_known_to_be_lent_does_not_lose_it(pool, monkeypatch):
    pool.timeout = 5
    first = process(pool)
    pool._put_one_back()

    def interrupted(_):
        raise KeyboardInterrupt

    with suppress(KeyboardInterrupt), monkeypatch.context() as patched:
        patched.setattr(connections, "ref", interrupted)
        process(pool)
    assert process(pool) == first


def test_who_waits_gets_the_connection_that_is_given_back(pool):
    found = []
    waiting = threading.Thread(target=lambda: found.append(process(pool)))
    with pool.connection() as db:
        waiting.start()
        wait_until(lambda: pool.get_stats().get("requests_waiting") == 1)
        first = db.info.backend_pid
    waiting.join(10)
    assert found == [first]


def test_who_begins_to_wait_while_one_is_given_back_gets_it(pool, monkeypatch):
    """A connection is put at hand after somebody has looked there, and before they are seen to wait."""
    with pool.connection() as db:
        first = db
    kept = pool._at_hand.pop()
    original, looks = pool._one_at_hand, []

    def given_back_after_the_first_look():
        found = original()
        looks.append(found)
        if len(looks) == 1:
            pool.give_back(kept)
        return found

    monkeypatch.setattr(pool, "_one_at_hand", given_back_after_the_first_look)
    with pool.connection() as db:
        assert db is first
    assert len(looks) == 2


def test_a_transaction_that_was_left_open_is_ended(pool):
    with pool.connection() as db:
        db.execute("BEGIN")
        db.execute("CREATE TABLE public.unfinished (x int)")
    with pool.connection() as db:
        assert db.execute("SELECT to_regclass('public.unfinished')").fetchall() == [(None,)]


def test_a_connection_that_the_server_closed_is_replaced(pool):
    first = process(pool)
    with pool.connection() as db, pytest.raises(Exception, match="terminat"):
        db.execute(f"SELECT pg_terminate_backend({first})")
    assert process(pool) != first


def test_what_is_at_hand_is_closed_with_the_pool(pool):
    with pool.connection() as db:
        pass
    assert not db.closed
    pool.close()
    assert db.closed


def test_what_is_in_use_is_closed_when_it_is_given_back(pool):
    with pool.connection() as db:
        pool.close()
        assert not db.closed
    assert db.closed


def test_a_move_does_not_rely_on_a_statement_that_the_driver_has_removed(new_url):
    """psycopg removes all prepared statements of a connection after a DROP, an ALTER or a ROLLBACK on it. A
    transaction has no second try."""
    with backstory.open(new_url("postgres")) as store:
        agent = store.start("main")
        agent.user("hi")
        for sql in ("ALTER TABLE pg_temp.more ADD COLUMN m int", "DROP TABLE pg_temp.more"):
            with store._backend._connection() as db:
                db.execute("CREATE TEMP TABLE IF NOT EXISTS more (n int)")
                db.execute("SELECT 1", prepare=True)
                db.execute(sql)
                db.execute("SELECT 2")
            agent.jump(0)
            agent.user("again")
            assert agent.append("user", sql, key=sql).key == sql
        assert store.verify() == []
