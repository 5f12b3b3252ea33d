"""The pause of the garbage collector."""

import gc
import os
import threading

import pytest

from backstory.log.gc_pause import PauseCounter, made_in_pauses, pause_gc


@pytest.fixture(autouse=True)
def collector():
    """Whatever a test does, the collector is on again behind it."""
    yield
    gc.enable()


def test_nothing_is_collected_within_the_pause():
    with pause_gc():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_pause_ends_with_an_error_too():
    with pytest.raises(KeyError), pause_gc():
        raise KeyError
    assert gc.isenabled()


def test_who_runs_without_a_collector_still_does():
    gc.disable()
    with pause_gc():
        pass
    assert not gc.isenabled()


def test_the_last_of_several_threads_switches_it_on_again():
    """The second comes when it is off already, and leaves last."""
    first, second = pause_gc(), pause_gc()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_process_that_is_forked_meanwhile_collects():
    entered, done = threading.Event(), threading.Event()

    def paused():
        with pause_gc():
            entered.set()
            done.wait()

    thread = threading.Thread(target=paused)
    thread.start()
    entered.wait()
    child = os.fork()
    if child == 0:
        with pause_gc():
            pass
        os._exit(0 if gc.isenabled() else 1)
    _, status = os.waitpid(child, 0)
    done.set()
    thread.join()
    assert os.waitstatus_to_exitcode(status) == 0
    assert gc.isenabled()


@pytest.mark.parametrize("is_on", [True, False])
def test_behind_a_fork_it_is_as_it_was_before_the_pause(is_on):
    """The same without a fork, because nobody sees what a forked child covers."""
    if not is_on:
        gc.disable()
    pauses = PauseCounter()
    pauses.__enter__()
    pauses.reset_in_child()
    assert gc.isenabled() == is_on
    pauses.__enter__()
    pauses.__exit__()
    assert gc.isenabled() == is_on


def test_items_are_made_in_pauses_and_the_collector_is_on_between_them():
    def items():
        for _ in range(2):
            yield gc.isenabled()

    assert [(while_made, gc.isenabled()) for while_made in made_in_pauses(items())] == [
        (False, True)
    ] * 2
    assert gc.isenabled()
