"""The command, run as a process: as people and scripts run it."""

import json
import os
import pty
import select
import sys
import sysconfig
from pathlib import Path

import pytest

import backstory
from tests import programs

COMMAND = str(Path(sysconfig.get_path("scripts")) / "backstory")
assert Path(COMMAND).exists(), f"install the package first: {sys.executable} -m pip install -e ."


class Ran:
    """How a run ended."""

    def __init__(self, code, out, err=""):
        self.code, self.out, self.err = code, out, err

    @property
    def lines(self):
        return self.out.splitlines()

    @property
    def json(self):
        return [json.loads(line) for line in self.lines]

    @property
    def rows(self):
        return [line.split("\t") for line in self.lines]


class Shell:
    """Runs the command on one store."""

    def __init__(self, url, home):
        self.env = {
            **{key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "LESS")},
            "PAGER": "cat",
            "BACKSTORY_STORE": url,
            "HOME": str(home),
            "TERM": "xterm-256color",
            "TZ": "UTC",
        }

    def __call__(self, *arguments, stdin=None, code=0, **env):
        cold = any(name.startswith("PYTHON") for name in env)  # Python looks at them when it starts
        env = {**self.env, **env}
        ran = programs.run(*map(str, arguments), given=stdin, cwd=Path.cwd(), env=env, cold=cold)
        assert ran.returncode == code, (arguments, ran.stdout, ran.stderr)
        return Ran(*ran)

    def on_terminal(self, *arguments, width=80, keys=b"", **env):
        """The same with a terminal on all three sides; what it shows comes back as one text."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(
                COMMAND,
                [COMMAND, *arguments],
                {**self.env, "COLUMNS": str(width), "LINES": "50", **env},
            )
        shown = b""
        if keys:
            os.write(terminal, keys)
        while select.select([terminal], [], [], 60)[0]:
            try:
                part = os.read(terminal, 65536)
            except OSError:
                break
            if not part:
                break
            shown += part
        _, status = os.waitpid(pid, 0)
        os.close(terminal)
        return Ran(os.waitstatus_to_exitcode(status), shown.decode().replace("\r\n", "\n"))


@pytest.fixture
def durable_url(new_url):
    """An SQLite file. The tests that write use both databases."""
    return new_url("sqlite")


@pytest.fixture
def shell(durable_url, tmp_path):
    """The command on each durable backend."""
    return Shell(durable_url, tmp_path)


@pytest.fixture
def sqlite_shell(new_url, tmp_path):
    """The command on an SQLite file, for what has nothing to do with the store."""
    return Shell(new_url("sqlite"), tmp_path)


def fill(shell):
    """A conversation with a dead end, a branch and a sub-agent, made by the library: a process for each
    event would take its time."""
    with backstory.open(shell.env["BACKSTORY_STORE"]) as store:
        main = store.start("main", system="Be careful.")
        main.user("Which Python files are here?")
        call = main.tool_call("glob", {"pattern": "*.py"}, id="c1")
        main.tool_result(call, "a.py\nb.py")
        main.mark("two files")
        main.user("Delete b.py.")
        main.rewind()
        main.fork("idea", at=4).user("Rename a.py to main.py.")
        main.spawn("reviewer")


def fill_by_hand(shell):
    """The same, command by command."""
    shell("new", "main", "--system", "Be careful.")
    shell("append", "main", "Which Python files are here?")
    shell(
        "append",
        "main",
        "--jsonl",
        stdin='{"kind":"tool_call","data":{"id":"c1","name":"glob","arguments":{"pattern":"*.py"}}}\n'
        '{"kind":"tool_result","content":"a.py\\nb.py","data":{"id":"c1","name":"glob"}}\n',
    )
    shell("mark", "main", "two files")
    shell("append", "main", "Delete b.py.")
    shell("rewind", "main")
    shell("fork", "main@4", "idea")
    shell("append", "idea", "Rename a.py to main.py.")
    shell("spawn", "main", "reviewer")


@pytest.fixture
def story(shell):
    fill(shell)
    return shell
