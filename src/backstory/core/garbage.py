"""Python's cyclic garbage collector, held off while many objects are made that cannot form cycles."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pause_gc() -> Iterator[None]:
    """No collections within the block. The collector starts over and over because objects are made, looks at
    all of them and finds nothing: that is up to a third of the time, and more than linear. If several
    threads are here, the first that leaves switches it on again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
