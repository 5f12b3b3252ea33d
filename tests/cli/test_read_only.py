"""The command on a store that the user may only read."""

import os

import psycopg
import pytest

from tests.cli.conftest import Shell, fill

READ = [
    ("sessions",),
    ("agents",),
    ("log", "main"),
    ("context", "main"),
    ("marks", "main"),
    ("notes", "main"),
    ("diff", "main", "idea"),
    ("explain", "main@6"),
    ("search", "files"),
    ("stats",),
    ("verify",),
    ("seal",),
    ("export",),
    ("clear", "main", "--dry-run"),
]
WRITTEN = [
    ("new", "other"),
    ("append", "main", "more"),
    ("mark", "main", "x"),
    ("label", "main@2", "x"),
    ("settings", "main", "--model", "x"),
    ("rewind", "main"),
    ("jump", "main@2"),
    ("undo", "main"),
    ("clear", "main"),
    ("fork", "main", "x"),
    ("spawn", "main", "x"),
    ("rename", "main", "x"),
    ("describe", "main", "--title", "x"),
    ("compact", "main", "In short."),
    ("erase", "main@2", "--why", "asked", "--yes"),
    ("delete", "main", "--yes"),
]


@pytest.fixture
def reader(new_database, tmp_path):
    """The command of a user of PostgreSQL who may only read, and the same of one who may write."""
    url = new_database()
    owner = Shell(url, tmp_path)
    fill(owner)
    name = f"cli_reader_{os.getpid()}"
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"CREATE ROLE {name}")
        db.execute(f"GRANT USAGE ON SCHEMA backstory TO {name}")
        db.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA backstory TO {name}")
        glue = "&" if "?" in url else "?"
        yield Shell(f"{url}{glue}options=-c%20role%3D{name}", tmp_path), owner
        db.execute(f"DROP OWNED BY {name}")
        db.execute(f"DROP ROLE {name}")


def test_everything_can_be_read(reader):
    shell, owner = reader
    for arguments in READ:
        assert shell(*arguments).out == owner(*arguments).out or arguments[0] in (
            "seal",
            "export",
            "stats",
        )


def test_every_write_is_refused_in_one_line(reader):
    shell, owner = reader
    before = owner("log", "main").out, owner("agents").out
    for arguments in WRITTEN:
        ran = shell(*arguments, code=1)
        assert ran.err.startswith("backstory: "), arguments
        assert len(ran.err.splitlines()) == 1, arguments
        assert "permission" in ran.err, arguments
        assert ran.out == "", arguments
    assert (owner("log", "main").out, owner("agents").out) == before
