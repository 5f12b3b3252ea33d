"""The PostgreSQL databases of the tests."""

import itertools
import os
from collections.abc import Sequence
from functools import cache
from urllib.parse import urlsplit, urlunsplit

import psycopg

from tests import postgres_server

CITUS = os.environ.get(
    "BACKSTORY_TEST_CITUS"
)  # the coordinator of a cluster, for all PostgreSQL tests
GIVEN = CITUS or os.environ.get("BACKSTORY_TEST_POSTGRES")
FEW_SHARDS = (
    4  # a store has several tables, and each shard of each takes its time to make and to drop
)
keeper_port = 0  # where to ask for the server, if none is given: set by conftest.py
emptied: list[str] = []  # databases that can be used again
_numbers = itertools.count(1)


@cache
def server() -> str:
    """The address of the server that the tests use."""
    return GIVEN or postgres_server.address(keeper_port)


@cache
def workers() -> list[tuple[str, int]]:
    """The hosts and ports of the cluster's workers; none where the server is a plain one."""
    if not CITUS:
        return []
    with psycopg.connect(CITUS) as db:
        return db.execute(
            "SELECT nodename, nodeport FROM pg_dist_node WHERE groupid > 0 ORDER BY 2"
        ).fetchall()


def servers() -> list[str]:
    """The addresses of all servers, the one that is asked first."""
    known = urlsplit(server())
    user = f"{known.netloc.rpartition('@')[0]}@" if "@" in known.netloc else ""
    return [server(), *(urlunsplit(known._replace(netloc=f"{user}{h}:{p}")) for h, p in workers())]


def url(name: str, node: str = "") -> str:
    return urlunsplit(urlsplit(node or server())._replace(path=f"/{name}"))


def with_parameter(address: str, parameter: str) -> str:
    """An address that says one thing more, whether it has a `?` already or not."""
    return f"{address}{'&' if '?' in address else '?'}{parameter}"


def create(*, plain: bool = False) -> str:
    """A new database; on a cluster it is one of all nodes, but where a plain one is asked for."""
    name = f"backstory_test_{os.getpid()}_{next(_numbers)}"
    for node in servers():
        with psycopg.connect(node, autocommit=True) as db:
            db.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0")
    if CITUS and not plain:
        extend(name)
    return name


def extend(name: str, *, only: Sequence[tuple[str, int]] | None = None) -> None:
    """Make the database of this name on all nodes one of the cluster, with `only` these workers."""
    for node in reversed(servers()):
        with psycopg.connect(url(name, node), autocommit=True) as db:
            db.execute(
                f"CREATE EXTENSION citus; ALTER DATABASE {name} SET citus.shard_count = {FEW_SHARDS}"
            )
            if node == server():
                db.execute(
                    "SELECT citus_set_coordinator_host(%s, %s)", (db.info.host, db.info.port)
                )
    add_workers(name, workers() if only is None else only)


def add_workers(name: str, added: Sequence[tuple[str, int]]) -> None:
    """Add workers to the cluster of the database of this name."""
    with psycopg.connect(url(name), autocommit=True) as db:
        for host, port in added:
            db.execute("SELECT citus_add_node(%s, %s)", (host, port))


def drop(*names: str) -> None:
    for node in servers() if names else ():
        with psycopg.connect(node, autocommit=True) as db:
            for name in names:
                db.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def take() -> str:
    """An empty database: one that was given back, since a new one takes ten times as long."""
    return emptied.pop() if emptied else create()


def give_back(name: str) -> None:
    with psycopg.connect(url(name), autocommit=True) as db:
        db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        db.execute("DROP SCHEMA IF EXISTS backstory CASCADE")
    emptied.append(name)
