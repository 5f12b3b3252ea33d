"""The files beside an SQLite store: the store notices that they are gone."""

import re

import apsw
import pytest

from backstory import ConnectionLost
from backstory.storage.sqlite import file as sqlite_file
from backstory.storage.sqlite.file import StoreFile


@pytest.fixture
def file(tmp_path):
    for end in ("", "-wal", "-shm"):
        (tmp_path / f"a.db{end}").touch()
    return StoreFile(str(tmp_path / "a.db"))


def check_is_noticed(file, path):
    with pytest.raises(ConnectionLost, match=re.escape(str(path))):
        file.check_side_files()


@pytest.mark.parametrize("end", ["-wal", "-shm"])
@pytest.mark.parametrize("again", [False, True], ids=["removed", "replaced"])
def test_a_file_that_is_gone_is_noticed(tmp_path, file, end, again):
    file.check_side_files()
    path = tmp_path / f"a.db{end}"
    path.rename(tmp_path / "moved")
    if again:
        path.touch()
    check_is_noticed(file, path)
    check_is_noticed(file, path)


def test_files_that_sqlite_removed_are_forgotten(tmp_path, file):
    (tmp_path / "a.db-wal").unlink()
    file.close_connection(apsw.Connection(":memory:"))
    file.check_side_files()
    (tmp_path / "a.db-shm").unlink()
    check_is_noticed(file, tmp_path / "a.db-shm")


def test_two_threads_may_close_the_last_connections_at_once(tmp_path, file, monkeypatch):
    for end in ("-wal", "-shm"):
        (tmp_path / f"a.db{end}").unlink()
    look = sqlite_file.identify_file

    def close_another_connection(path):
        """Do what the other thread does while this one looks for a file."""
        monkeypatch.setattr(sqlite_file, "identify_file", look)
        file.close_connection(apsw.Connection(":memory:"))
        return look(path)

    monkeypatch.setattr(sqlite_file, "identify_file", close_another_connection)
    file.close_connection(apsw.Connection(":memory:"))
    file.check_side_files()


def test_the_files_of_a_folder_that_is_gone_are_gone(tmp_path, file):
    tmp_path.rename(tmp_path.with_name("elsewhere"))
    check_is_noticed(file, tmp_path / "a.db-wal")
