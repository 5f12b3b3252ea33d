"""The pool of connections: who gets which, and what is closed when."""

import os
import threading
import time
from contextlib import suppress

import pytest

from backstory.storage import pool as pool_module
from backstory.storage.pool import ConnectionPool, PoolClosed, PoolTimeout
from tests.processes import wait_until


class Connection:
    """A connection to nothing."""

    def __init__(self):
        self.closed = False
        self.is_idle = True
        self.is_broken = False

    def close(self):
        assert not self.closed
        self.closed = True


def new_pool(connect=Connection, **options):
    return ConnectionPool(
        lambda deadline: connect(),
        Connection.close,
        is_idle=lambda one: one.is_idle,
        is_alive=lambda one: not one.is_broken,
        **options,
    )


def borrow_once(pool, seconds=60.0):
    with pool.borrow(time.monotonic() + seconds) as connection:
        return connection


def test_a_connection_is_used_again():
    pool = new_pool()
    assert borrow_once(pool) is borrow_once(pool)


def test_two_blocks_at_once_have_different_connections():
    pool = new_pool()
    with pool.borrow() as first, pool.borrow() as second:
        assert first is not second
    assert borrow_once(pool) is first


def test_a_connection_that_is_returned_in_a_transaction_is_closed():
    pool = new_pool()
    with pool.borrow() as first:
        first.is_idle = False
    assert first.closed
    assert borrow_once(pool) is not first


def test_a_connection_that_broke_while_it_was_idle_is_replaced():
    pool = new_pool(limit=1)
    first = borrow_once(pool)
    first.is_broken = True
    assert borrow_once(pool) is not first
    assert first.closed


def test_a_block_that_raises_returns_its_connection():
    pool = new_pool(limit=1)
    with suppress(ValueError), pool.borrow() as first:
        raise ValueError
    assert borrow_once(pool) is first


def test_when_all_are_lent_the_wait_ends_with_the_deadline():
    pool = new_pool(limit=1)
    with pool.borrow(), pytest.raises(PoolTimeout, match="1 connections are in use"):
        borrow_once(pool, 0.01)


def test_a_connection_gets_the_deadline_of_the_call_that_borrows_it():
    pool = new_pool()
    for deadline in (5.0, 7.0):
        with pool.borrow(deadline) as connection:
            assert connection.deadline == deadline


def test_who_waits_gets_the_connection_that_is_returned():
    pool = new_pool(limit=1)
    found = []
    waiting = threading.Thread(target=lambda: found.append(borrow_once(pool)))
    with pool.borrow() as first:
        waiting.start()
        wait_until(lambda: pool._waiters)
        assert not found
    waiting.join(10)
    assert found == [first]


def test_a_failed_connect_leaves_room_for_the_next():
    attempts = iter([OSError("no server"), Connection()])

    def connect():
        attempt = next(attempts)
        if isinstance(attempt, OSError):
            raise attempt
        return attempt

    pool = new_pool(connect, limit=1)
    with pytest.raises(OSError, match="no server"):
        borrow_once(pool)
    assert borrow_once(pool)


@pytest.mark.parametrize("step", ["take_slot", "prepare_slot", "free_slot"])
@pytest.mark.parametrize("is_done", [True, False], ids=["after", "before"])
def test_ctrl_c_while_a_connection_is_handed_over_does_not_lose_it(monkeypatch, step, is_done):
    pool = new_pool(limit=1)
    first = borrow_once(pool)
    original = getattr(pool, step)

    def interrupted(*given):
        if is_done:
            original(*given)
        raise KeyboardInterrupt

    with suppress(KeyboardInterrupt), monkeypatch.context() as patched:
        patched.setattr(pool, step, interrupted)
        borrow_once(pool)
    assert borrow_once(pool) is first


def test_who_waits_notices_a_loan_that_ctrl_c_ended(monkeypatch):
    monkeypatch.setattr(pool_module, "LOST_LOAN", 0.01)
    pool = new_pool(limit=1)
    lost = pool.borrow()
    lost.__enter__()
    waiting = threading.Thread(target=borrow_once, args=(pool,))
    waiting.start()
    wait_until(lambda: pool._waiters)
    del lost
    waiting.join(10)
    assert not waiting.is_alive()


def test_close_closes_idle_connections_now_and_the_others_when_they_are_returned():
    pool = new_pool()
    with pool.borrow() as lent:
        idle = borrow_once(pool)
        pool.close()
        assert (idle.closed, lent.closed) == (True, False)
    assert lent.closed
    with pytest.raises(PoolClosed):
        borrow_once(pool)


def test_a_connection_that_was_not_used_for_long_is_closed(monkeypatch):
    pool = new_pool()
    with pool.borrow() as first, pool.borrow() as second:
        pass
    assert not second.closed
    monkeypatch.setattr(pool_module, "LONGEST_IDLE", -1.0)
    assert borrow_once(pool) is first
    assert second.closed


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_process_leaves_its_parents_connections_alone():
    pool = new_pool()
    idle = []
    with pool.borrow() as lent:
        idle.append(borrow_once(pool))
        child = os.fork()
        if not child:
            other = borrow_once(pool)
            pool.close()
            is_right = other not in (lent, idle[0]) and not lent.closed and not idle[0].closed
            os._exit(0 if is_right else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert borrow_once(pool) is lent


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_loan_that_ends_in_a_child_process_closes_nothing():
    pool = new_pool()
    is_child = False
    with pool.borrow() as lent:
        lent.is_idle = False
        child = os.fork()
        is_child = not child
    if is_child:
        os._exit(int(lent.closed))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert lent.closed


def test_nobody_overtakes_a_thread_that_waits():
    pool = new_pool(limit=1)
    order = []

    def wait_for_a_connection():
        with pool.borrow():
            order.append("waiter")

    with pool.borrow():
        waiter = threading.Thread(target=wait_for_a_connection)
        waiter.start()
        wait_until(lambda: pool._waiters)
    with pool.borrow():  # the thread that returned the connection asks for it again at once
        order.append("first")
    waiter.join()
    assert order == ["waiter", "first"]


def test_a_loan_that_is_given_back_twice_frees_one_slot():
    pool = new_pool(limit=1)
    loan = pool.borrow()
    with loan:
        pass
    with pool.borrow():
        loan.__exit__()
        with pytest.raises(PoolTimeout):
            borrow_once(pool, 0.0)
