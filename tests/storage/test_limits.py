"""What a file system or a database does not give, said as what it is."""

import io
import shutil
import subprocess
import sys

import psycopg
import pytest

import backstory
from backstory.log.events import Draft
from backstory.storage.postgres import server as postgres_server

NO_LOCKS = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/syscall.h>
#include <unistd.h>
static int refused(int command) {
    return command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK || command == F_OFD_SETLKW;
}
int fcntl64(int file, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    if (refused(command)) { errno = ENOLCK; return -1; }
    return syscall(SYS_fcntl, file, command, argument);
}
int fcntl(int file, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    return fcntl64(file, command, argument);
}
"""
OPEN = "import sys, backstory\ntry: backstory.open(sys.argv[1]).start()\nexcept backstory.Error as e: print(e)"


@pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("cc"),
    reason="needs Linux and a C compiler: NOT TESTED HERE",
)
def test_a_file_system_that_refuses_locks_is_not_blamed_on_other_processes(tmp_path):
    (tmp_path / "nolocks.c").write_text(NO_LOCKS)
    library = tmp_path / "nolocks.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "nolocks.c"], check=True)
    said = subprocess.run(
        [sys.executable, "-c", OPEN, tmp_path / "store.db"],
        env={"LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
        timeout=50,  # and it does not wait for a minute
        check=True,
    ).stdout
    assert "the file system refuses locks" in said
    assert "someone else" not in said


@pytest.fixture
def small_limits(monkeypatch):
    monkeypatch.setattr(postgres_server, "LARGEST_EVENT", 1_000)
    monkeypatch.setattr(postgres_server, "LARGEST_BATCH", 1_500)


def test_an_event_that_postgresql_cannot_take_is_refused_before_it_is_sent(
    empty_database, small_limits
):
    with backstory.open(empty_database()) as store:
        agent = store.start()
        with pytest.raises(backstory.Invalid, match="1,002 bytes is too large for PostgreSQL"):
            agent.user("é" * 501)
        with pytest.raises(backstory.Invalid, match="too large"):
            agent.extend(
                [("user", "small", None), ("tool_result", "x", {"id": "1", "more": "y" * 1_000})]
            )
        assert agent.head == 0
        agent.user("é" * 500)
        assert agent.head == 1


def test_a_batch_that_postgresql_cannot_take_at_once_is_sent_in_portions(
    empty_database, small_limits
):
    with backstory.open(empty_database()) as store:
        agent = store.start()
        texts = [str(n) * 700 for n in range(5)]
        written = agent.extend([("user", text, None) for text in texts])
        assert [event.seq for event in written] == [1, 2, 3, 4, 5]
        assert [event.content for event in agent.events()] == texts
        assert store.verify() == []


def test_what_is_too_large_for_an_array_is_sent_as_it_is(new_database, small_limits, monkeypatch):
    """In an array, quotes and backslashes take two bytes: a large event would become too large."""
    monkeypatch.setattr(postgres_server, "LARGEST_BATCH", 500)
    url, text = new_database(plain=True), '"' * 600
    with backstory.open(url) as store, psycopg.connect(url, autocommit=True) as db:
        for name in ("append_many", "add_events"):  # which take arrays
            db.execute(f"DROP FUNCTION backstory.{name}")
        agent = store.start(system=text)
        agent.extend([("user", text), ("user", text)])
        assert [event.content for event in agent.events()] == [text] * 3


def test_what_is_taken_in_is_measured_too(empty_database, small_limits):
    with backstory.open(empty_database()) as store:
        source = backstory.open(":memory:")
        source.start().user("x" * 1_001)
        exported = io.StringIO()
        source.export_to(exported)
        exported.seek(0)
        with pytest.raises(backstory.Invalid, match="too large"):
            store.import_from(exported)
        assert store.agents() == []


def test_an_event_too_large_for_an_array_is_refused_by_a_distributed_store(
    new_database, small_limits, monkeypatch
):
    """Its rows are written by the function only, which takes arrays."""
    monkeypatch.setattr(postgres_server, "LARGEST_BATCH", 500)
    with backstory.open(new_database(plain=True)) as store:
        agent = store.start()
        store._backend._cluster.is_distributed = True
        with pytest.raises(backstory.Invalid, match="601 bytes is too large for a distributed"):
            agent.user("x" * 601)
        with (
            pytest.raises(backstory.Invalid, match="601 bytes is too large for a distributed"),
            store._backend.begin() as transaction,
        ):
            transaction.append(agent._record, [Draft("user", "x" * 601)])
        agent.user("x" * 499)
        assert [event.content for event in agent.events()] == ["x" * 499]
