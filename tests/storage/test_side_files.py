"""The files beside an SQLite store: the store notices that they are gone."""

import pytest

from backstory.storage.sqlite.file import SideFiles


@pytest.fixture
def files(tmp_path):
    for end in ("-wal", "-shm"):
        (tmp_path / f"a.db{end}").touch()
    return SideFiles(str(tmp_path / "a.db"))


@pytest.mark.parametrize("end", ["-wal", "-shm"])
@pytest.mark.parametrize("again", [False, True], ids=["removed", "replaced"])
def test_a_file_that_is_gone_is_noticed(tmp_path, files, end, again):
    assert files.find_replaced() is None
    path = tmp_path / f"a.db{end}"
    path.rename(tmp_path / "moved")
    if again:
        path.touch()
    assert files.find_replaced() == files.find_replaced() == str(path)


def test_files_that_sqlite_removed_are_forgotten(tmp_path, files):
    (tmp_path / "a.db-wal").unlink()
    files.forget_missing()
    assert files.find_replaced() is None
    (tmp_path / "a.db-shm").unlink()
    assert files.find_replaced() == str(tmp_path / "a.db-shm")


def test_the_files_of_a_folder_that_is_gone_are_gone(tmp_path, files):
    tmp_path.rename(tmp_path.with_name("elsewhere"))
    assert files.find_replaced() == str(tmp_path / "a.db-wal")
