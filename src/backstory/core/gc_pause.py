"""A rest for the garbage collector while many objects are made that cannot be garbage yet."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Keep the collector from looking through thousands of new events or turns while they are made:
    none of them can be garbage, and the search would cost as much as the work."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
