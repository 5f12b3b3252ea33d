"""After a pause the garbage collector is as it was."""

import gc

import pytest

from backstory.core.gc_pause import collector_at_rest


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_afterwards_as_it_was_before(on):
    before = gc.isenabled()
    try:
        (gc.enable if on else gc.disable)()
        with collector_at_rest():
            assert not gc.isenabled()
        assert gc.isenabled() is on
    finally:
        (gc.enable if before else gc.disable)()
