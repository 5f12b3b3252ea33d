"""Spreads a store on one server over many (docs/scale.md)."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

from backstory.errors import Invalid
from backstory.storage.protocols import Backend


class Distribution(NamedTuple):
    """The result of distributing a store."""

    rows: int  # that were moved; 0 if it was distributed already
    servers: int  # that it is spread over


@runtime_checkable
class Distributable(Protocol):
    """A store that can be spread over several servers."""

    def distribute(self, progress: Callable[[int, int], None]) -> tuple[int, int]:
        """Spread it over the servers of its cluster, and return the number of rows that were moved (0 if that
        was done before) and of servers. Raises Invalid if there is no cluster."""


def distribute(backend: Backend, progress: Callable[[int, int], None] | None) -> Distribution:
    """Spread the store over the servers of its cluster; `progress` is called with (rows moved, all rows)."""
    if not isinstance(backend, Distributable):
        raise Invalid(
            f"{backend.url!r} cannot be distributed",
            remedy="export it, and import it into a PostgreSQL database that has the Citus extension",
        )
    return Distribution(*backend.distribute(progress or (lambda done, total: None)))
