"""The PostgreSQL databases of the tests."""

import itertools
import os
from functools import cache
from urllib.parse import urlsplit, urlunsplit

import psycopg

from tests import postgres_server

GIVEN = os.environ.get("BACKSTORY_TEST_POSTGRES")
keeper_port = 0  # where to ask for the server, if none is given: set by conftest.py
emptied: list[str] = []  # databases that can be used again
_numbers = itertools.count(1)


@cache
def server() -> str:
    """The address of the server that the tests use."""
    return GIVEN or postgres_server.address(keeper_port)


def url(name: str) -> str:
    return urlunsplit(urlsplit(server())._replace(path=f"/{name}"))


def create() -> str:
    name = f"backstory_test_{os.getpid()}_{next(_numbers)}"
    with psycopg.connect(server(), autocommit=True) as db:
        db.execute(f"CREATE DATABASE {name} ENCODING 'UTF8' TEMPLATE template0")
    return name


def drop(*names: str) -> None:
    if names:
        with psycopg.connect(server(), autocommit=True) as db:
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
