"""One backend for these tests, and a database of another program, for a test to fill."""

import sqlite3

import pytest

from tests.transcripts.formats_reading import read_sessions


class Base:
    """A database that a test fills."""

    def __init__(self, path):
        self.path = path
        self._connection = sqlite3.connect(path)

    def table(self, name, *columns):
        self._connection.execute(f"create table {name} ({', '.join(columns)})")

    def add(self, table, *values):
        marks = ", ".join("?" * len(values))
        self._connection.execute(f"insert into {table} values ({marks})", values)

    def read(self):
        self._connection.commit()
        return read_sessions(self.path)


@pytest.fixture
def other(tmp_path):
    base = Base(tmp_path / "other.db")
    yield base
    base._connection.close()


@pytest.fixture
def url(new_url):
    """An SQLite file. Files of tests that need locks use all backends."""
    return new_url("sqlite")
