"""The pause of the garbage collector."""

import gc

import pytest

from backstory.core.garbage import pause_gc


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
