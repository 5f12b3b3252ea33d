"""The files beside an SQLite store: that they are gone is noticed, however seldom they are looked at."""

import os
import time

import pytest

from backstory.storage.sqlite import beside

SECOND = 1_000_000_000


@pytest.fixture
def asked(monkeypatch):
    """The files that were looked at."""
    paths = []
    monkeypatch.setattr(beside, "identity", lambda path: paths.append(path) or _inode(path))
    return paths


def _inode(path):
    return os.stat(path).st_ino if os.path.exists(path) else None


@pytest.fixture
def files(tmp_path, asked):
    for end in ("-wal", "-shm"):
        (tmp_path / f"a.db{end}").touch()
    found = beside.FilesBeside(str(tmp_path / "a.db"))
    asked.clear()
    return found


def changed(folder, ago_ns, part_ns):
    """Set when something in a folder was last changed."""
    moment = (time.time_ns() - ago_ns) // SECOND * SECOND + part_ns
    os.utime(folder, ns=(moment, moment))


def test_files_in_a_quiet_folder_are_looked_at_once(tmp_path, files, asked):
    changed(tmp_path, 10 * SECOND, 5)
    assert [files.replaced() for _ in range(3)] == [None] * 3
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("ago", "part"), [(10 * SECOND, 0), (-10 * SECOND, 5)], ids=["coarse", "now"]
)
def test_a_folder_whose_time_may_stay_the_same_is_not_relied_on(tmp_path, files, asked, ago, part):
    changed(tmp_path, ago, part)
    assert [files.replaced() for _ in range(3)] == [None] * 3
    assert len(asked) == 6


@pytest.mark.parametrize("end", ["-wal", "-shm"])
@pytest.mark.parametrize("again", [False, True], ids=["removed", "replaced"])
def test_a_file_that_is_gone_is_noticed_behind_a_quiet_time(tmp_path, files, end, again):
    changed(tmp_path, 10 * SECOND, 5)
    assert files.replaced() is None
    path = tmp_path / f"a.db{end}"
    path.rename(tmp_path / "moved")
    if again:
        path.touch()
    assert files.replaced() == files.replaced() == str(path)


def test_what_is_forgotten_may_be_gone(tmp_path, files):
    files.forget()
    (tmp_path / "a.db-wal").unlink()
    assert files.replaced() is None


def test_a_folder_that_is_gone_takes_its_files_with_it(tmp_path, files):
    tmp_path.rename(tmp_path.with_name("elsewhere"))
    assert files.replaced() == str(tmp_path / "a.db-wal")
