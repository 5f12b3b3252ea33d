"""The library and the command line use nothing that only Unix has: what Windows lacks is taken away here.

A stand-in for a Windows machine, where nobody has run this yet. The chat is not part of the promise.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

LIKE_WINDOWS = """
import os, select, signal, sys

for module in ("fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"):
    sys.modules[module] = None  # an import of it fails
for owner, names in {
    os: "fork register_at_fork killpg getpgid setsid fchmod fchown chown mkfifo",
    signal: "SIGHUP SIGPIPE SIGKILL SIGALRM pthread_sigmask setitimer",
    select: "poll epoll",
}.items():
    for name in names.split():
        if hasattr(owner, name):
            delattr(owner, name)
"""

SMOKE = """
from tests.smoke import main

main()
"""

CHAT = """
from backstory.cli.main import run

sys.exit(run([*sys.argv[1:], "--store", "history.db"]))
"""


@pytest.fixture
def like_windows(tmp_path):
    """Runs code in a process that lacks what Windows lacks."""

    def run(code, *arguments):
        command = [sys.executable, "-c", LIKE_WINDOWS + code, *arguments]
        environment = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    return run


def test_the_library_and_the_command_line_work_without_what_windows_lacks(like_windows):
    ran = like_windows(SMOKE)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("arguments", [("chat",), ("ask", "Who are you?")])
def test_the_chat_says_where_it_runs_instead_of_failing_halfway(like_windows, arguments, tmp_path):
    ran = like_windows(CHAT, *arguments)
    assert ran.returncode == 1
    assert ran.stderr == "backstory: the chat needs Linux, macOS or WSL\n"
    assert not (tmp_path / "history.db").exists()


@pytest.mark.skipif(
    not os.path.isdir("/proc/self/fd"), reason="only Linux lists the open files here"
)
def test_an_export_is_closed_before_it_gets_its_name(tmp_path, monkeypatch):
    from backstory.cli.main import run

    def replace_as_windows_does(source, target):
        open_files = {link.resolve() for link in Path("/proc/self/fd").iterdir() if link.exists()}
        assert Path(source).resolve() not in open_files, "the file is being used by another process"
        replace(source, target)

    replace = os.replace
    monkeypatch.chdir(tmp_path)
    assert run(["new", "main", "--store", "history.db"]) == 0
    monkeypatch.setattr(os, "replace", replace_as_windows_does)
    assert run(["export", "-o", "all.jsonl", "--store", "history.db"]) == 0
    assert os.listdir(tmp_path).count("all.jsonl") == 1
