"""The tools for a folder: what they do, and what they never do."""

import os
import signal
import subprocess
import sys
import threading
from typing import Any, Literal, NamedTuple

import psutil
import pytest

from backstory.runtime.tools import Tool, ToolError, working_tools
from backstory.runtime.tools.tool import check_arguments, schema_of
from tests.processes import PATIENCE, wait_until


class Runner(NamedTuple):
    """Prepares an action of a tool, and runs it at once."""

    tool: Tool

    def run(self, **arguments):
        return self.tool.prepare(arguments).run(lambda text: None)

    @property
    def cancel(self):
        return self.tool.cancel


@pytest.fixture
def tools(folder):
    (folder / "src").mkdir()
    (folder / "src" / "deep.py").write_text("x = 1\ny = x\n")
    return {tool.name: Runner(tool) for tool in working_tools(folder)}


@pytest.fixture
def secret(tmp_path, folder):
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "out").symlink_to(tmp_path)
    return tmp_path / "secret.txt"


def test_what_writes_or_runs_asks_and_what_reads_does_not(tools):
    arguments = {
        "glob": {"pattern": "*"},
        "grep": {"pattern": "x"},
        "read_file": {"path": "a.py"},
        "write_file": {"path": "a.py", "content": ""},
        "edit_file": {"path": "a.py", "old": "print", "new": "x"},
        "bash": {"command": "ls"},
    }
    effects = {name: tools[name].tool.prepare(given).effect for name, given in arguments.items()}
    assert set(tools) == set(arguments)
    assert set(effects.values()) == {"read", "write", "run"}
    assert [name for name, effect in effects.items() if effect == "read"] == [
        "glob",
        "grep",
        "read_file",
    ]


def test_glob_lists_what_matches_at_any_depth_or_in_one_folder(tools):
    assert tools["glob"].run(pattern="*.py") == "a.py\nb.py\nsrc/deep.py"
    assert tools["glob"].run(pattern="**/*.py") == "a.py\nb.py\nsrc/deep.py"
    assert tools["glob"].run(pattern="./*.py") == "a.py\nb.py"
    assert tools["glob"].run(pattern="./*") == "a.py\nb.py\nnotes.md\nsrc/"
    assert tools["glob"].run(pattern="src/*") == "src/deep.py"
    assert tools["glob"].run(pattern="*.nothing") == "no file matches"


def test_what_gitignore_names_is_passed_over_unless_it_is_named(tools, folder):
    (folder / ".git").mkdir()
    (folder / ".gitignore").write_text("build/\n*.log\n")
    (folder / "src" / ".gitignore").write_text("!keep.log\n")
    for name in ("build/x.py", "src/keep.log", "src/drop.log"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x = 1\n")
    assert tools["glob"].run(pattern="*.log") == "src/keep.log"
    assert "build" not in tools["grep"].run(pattern="x = 1")
    assert tools["glob"].run(pattern="build/*") == "build/x.py"


def test_read_file_reads_on(tools):
    assert tools["read_file"].run(path="src/deep.py") == "x = 1\ny = x\n"
    assert (
        tools["read_file"].run(path="src/deep.py", lines=1)
        == "x = 1\n\n[1 more lines: read on with start=2]"
    )
    assert tools["read_file"].run(path="src/deep.py", start=2) == "y = x\n"


def test_grep_names_file_and_line(tools):
    assert tools["grep"].run(pattern=r"x\b") == "src/deep.py:1:x = 1\nsrc/deep.py:2:y = x"
    assert tools["grep"].run(pattern="print", glob="b.*") == "b.py:1:print('b')"
    assert tools["grep"].run(pattern="nowhere at all") == "no match"
    with pytest.raises(ToolError, match="no such file or directory: gone"):
        tools["grep"].run(pattern="x", path="gone")
    with pytest.raises(ToolError, match="is not a valid regular expression"):
        tools["grep"].run(pattern="(")


def test_an_evil_expression_ends_at_its_limit(tools, folder, monkeypatch):
    monkeypatch.setattr("backstory.runtime.tools.workspace.SEARCH_SECONDS", 0.5)
    (folder / "a.txt").write_text("a" * 60 + "!")
    with pytest.raises(ToolError, match="the time limit"):
        tools["grep"].run(pattern="(a+)+$")


@pytest.mark.parametrize(
    "name", ["json.py", "re.py", "pathlib.py", "sitecustomize.py", "backstory.py"]
)
@pytest.mark.parametrize("variable", ["", "."])
def test_nothing_that_lies_in_the_folder_is_run_by_a_search(
    tools, folder, monkeypatch, name, variable
):
    monkeypatch.setenv("PYTHONPATH", variable)
    monkeypatch.chdir(folder)
    (folder / name).write_text("open('ran', 'w')\nx = 1\n")
    assert "src/deep.py:1:x = 1" in tools["grep"].run(pattern="x = 1")
    assert name in tools["glob"].run(pattern="*.py")
    assert not (folder / "ran").exists()


@pytest.mark.parametrize(
    ("glob", "found"),
    [
        ("src/*.py", ["src/deep.py"]),
        ("./src/*.py", ["src/deep.py"]),
        ("src/**/*.py", ["src/deep.py"]),
        ("**/*.py", ["a.py", "b.py", "src/deep.py"]),
        ("*.py", ["a.py", "b.py", "src/deep.py"]),
        ("", ["a.py", "b.py", "notes.md", "src/deep.py"]),
        ("**", ["a.py", "b.py", "notes.md", "src/deep.py"]),
        ("[!a].py", ["b.py"]),
        ("[a-b].p?", ["a.py", "b.py"]),
        ("deep/*.py", []),
        ("a.p", []),
    ],
)
def test_grep_searches_the_files_of_its_glob_folders_included(tools, glob, found):
    lines = tools["grep"].run(pattern="^", glob=glob).splitlines()
    assert sorted({line.partition(":")[0] for line in lines if line != "no match"}) == found


def test_a_glob_is_about_the_folder_that_is_searched_as_well(tools):
    assert tools["grep"].run(pattern="x = 1", path="src", glob="*.py") == "src/deep.py:1:x = 1"
    assert tools["grep"].run(pattern="x = 1", path="src", glob="src/*.py") == "src/deep.py:1:x = 1"
    with pytest.raises(ToolError, match="is not a valid pattern"):
        tools["grep"].run(pattern="x", glob="[z-a]")


def test_a_file_that_is_too_large_to_read_can_be_searched(tools, folder):
    with open(folder / "big.log", "w") as file:
        file.writelines("y" * 999 + "\n" for _ in range(10_100))
        file.write("z" * 1_500_000 + "needle\nlast needle\n")
    with pytest.raises(ToolError, match="too large to read: search it with grep"):
        tools["read_file"].run(path="big.log")
    found = tools["grep"].run(pattern="needle").splitlines()
    assert [line.partition(":z")[0][:30] for line in found] == [
        "big.log:10101",
        "big.log:10102:last needle",
    ]


def test_lines_are_counted_alike_by_grep_and_read_file(tools, folder):
    (folder / "feeds.c").write_bytes("one\x0ctwo\u2028three\r\nfour\n".encode())
    assert tools["grep"].run(pattern="four") == "feeds.c:2:four"
    assert tools["read_file"].run(path="feeds.c", start=2) == "four\n"


def test_a_glob_that_would_take_for_ever_does_not(tools, folder):
    (folder / "/".join("n" * 16)).mkdir(parents=True)
    assert tools["glob"].run(pattern="**/" * 12 + "zzz") == "no file matches"
    assert tools["glob"].run(pattern="**/n/" * 12 + "zzz") == "no file matches"
    assert tools["glob"].cancel is not None


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_file", {"path": "../secret.txt"}),
        ("read_file", {"path": "/etc/hostname"}),
        ("read_file", {"path": "link.txt"}),
        ("read_file", {"path": "out/secret.txt"}),
        ("glob", {"pattern": "../*"}),
        ("glob", {"pattern": "/etc/*"}),
        ("grep", {"pattern": "secret", "path": ".."}),
        ("write_file", {"path": "../new.txt", "content": "x"}),
        ("write_file", {"path": "out/new.txt", "content": "x"}),
        ("edit_file", {"path": "link.txt", "old": "secret", "new": "x"}),
        ("read_file", {"path": "a\0b"}),
    ],
)
def test_nothing_outside_of_the_folder_is_reached(tools, secret, tmp_path, name, arguments):
    with pytest.raises(ToolError):
        tools[name].run(**arguments)
    assert secret.read_text() == "secret"
    assert not (tmp_path / "new.txt").exists()


def test_what_links_lead_out_to_is_not_found_either(tools, secret):
    assert tools["glob"].run(pattern="*.txt") == "no file matches"
    assert tools["glob"].run(pattern="out/*.txt") == "no file matches"
    assert tools["grep"].run(pattern="secret") == "no match"


@pytest.mark.parametrize("path", ["nothing.txt", "src", "blob", "pipe"])
def test_what_is_no_text_file_is_refused(tools, folder, path):
    (folder / "blob").write_bytes(b"\xff\xfe\x00")
    os.mkfifo(folder / "pipe")
    with pytest.raises(ToolError):
        tools["read_file"].run(path=path)


def test_write_and_edit(tools, folder):
    tools["write_file"].run(path="new/one.txt", content="a b a")
    assert (folder / "new" / "one.txt").read_text() == "a b a"
    with pytest.raises(ToolError, match="2 times"):
        tools["edit_file"].run(path="new/one.txt", old="a", new="c")
    tools["edit_file"].run(path="new/one.txt", old="b", new="c")
    tools["edit_file"].run(path="new/one.txt", old="a", new="d", everywhere=True)
    assert (folder / "new" / "one.txt").read_text() == "d c d"
    with pytest.raises(ToolError, match="does not have the old text"):
        tools["edit_file"].run(path="new/one.txt", old="", new="x")
    (folder / "run.sh").write_bytes(b"#!/bin/sh\r\necho\r\n")
    (folder / "run.sh").chmod(0o755)
    tools["edit_file"].run(path="run.sh", old="echo", new="true")
    assert (folder / "run.sh").read_bytes() == b"#!/bin/sh\r\ntrue\r\n"
    assert (folder / "run.sh").stat().st_mode & 0o777 == 0o755


def test_bash_runs_in_the_folder_and_says_how_it_ended(tools):
    assert tools["bash"].run(command="ls *.py; echo err >&2") == "a.py\nb.py\nerr"
    assert tools["bash"].run(command="true") == "(no output)"
    with pytest.raises(ToolError, match=r"oops\n\[exit code 3\]"):
        tools["bash"].run(command="echo oops; exit 3")


def is_gone(pid_file):
    try:
        return psutil.Process(int(pid_file.read_text())).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


LINGERS = "sleep 300 & echo $! > pid.new; mv pid.new pid; "  # a child in the background, and its process id


def test_bash_has_a_time_limit_that_its_children_share(tools, folder):
    with pytest.raises(ToolError, match=r"\[ended after 1 seconds: the time limit\]"):
        tools["bash"].run(command="sleep 300 & sleep 300", seconds=1)
    assert tools["bash"].run(command=f"{LINGERS} echo done") == "done"
    wait_until(lambda: is_gone(folder / "pid"))


def test_bash_takes_at_most_ten_minutes(tools, monkeypatch):
    monkeypatch.setattr("backstory.runtime.tools.workspace.MAX_BASH_SECONDS", 0.2)
    with pytest.raises(ToolError, match=r"ended after 0\.2 seconds"):
        tools["bash"].run(command="sleep 300", seconds=100_000)


def test_a_command_that_is_stopped_says_what_it_had_said(tools, folder):
    def stop():
        wait_until((folder / "pid").exists)
        tools["bash"].cancel()

    threading.Thread(target=stop).start()
    with pytest.raises(ToolError, match=r"^begun\n\[stopped before it was done\]$"):
        tools["bash"].run(command=f"echo begun; {LINGERS} sleep 300")


def test_a_command_that_is_stopped_while_it_starts_is_stopped(tools, folder, monkeypatch):
    def slowly(*arguments, **more):
        work = started(*arguments, **more)
        stopper.start()
        wait_until((folder / "pid").exists)
        return work

    started = subprocess.Popen
    stopper = threading.Thread(target=tools["bash"].cancel)
    monkeypatch.setattr(subprocess, "Popen", slowly)
    with pytest.raises(ToolError, match=r"\[stopped before it was done\]$"):
        tools["bash"].run(command=f"{LINGERS} sleep 300", seconds=30)
    stopper.join()


KILLED = """
import os, sys, threading, time
from backstory.runtime.tools import working_tools
folder, number, command = sys.argv[1:]
tools = {tool.name: tool for tool in working_tools(folder)}
action = tools["bash"].prepare({"command": command})
threading.Thread(target=action.run, args=(print,), daemon=True).start()
while not os.path.exists(f"{folder}/pid"):
    time.sleep(0.01)
os.kill(os.getpid(), int(number))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_command_does_not_outlive_a_process_that_is_killed(folder, number):
    arguments = (str(folder), str(int(number)), f"echo $$ > parent; {LINGERS} wait")
    ran = subprocess.run([sys.executable, "-c", KILLED, *arguments], timeout=PATIENCE)
    assert ran.returncode == -number
    wait_until(lambda: is_gone(folder / "pid") and is_gone(folder / "parent"))


def test_bash_has_an_output_limit(tools):
    with pytest.raises(ToolError, match="the output limit") as caught:
        tools["bash"].run(command="yes")
    assert len(str(caught.value)) < 1_001_000


def test_a_new_file_has_the_mode_that_any_program_would_give_it(tools, folder):
    before = os.umask(0o027)
    try:
        tools["write_file"].run(path="new.txt", content="x")
    finally:
        os.umask(before)
    assert (folder / "new.txt").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        (
            "write_file",
            {"path": "a.py/x", "content": "x"},
            "a.py/x cannot be written: what should be a folder is a file",
        ),
        ("write_file", {"path": "a.py/x/y", "content": "x"}, "what should be a folder is a file"),
        ("write_file", {"path": "src", "content": "x"}, "src is a directory"),
        (
            "write_file",
            {"path": "new", "content": "\ud800"},
            "it contains half of a surrogate pair",
        ),
        ("write_file", {"path": "n" * 300, "content": "x"}, "is not a path: File name too long"),
        ("bash", {"command": "a\0b"}, "it could not be started: "),
        ("bash", {"command": "echo \ud800"}, "it could not be started: "),
        ("grep", {"pattern": "a" * 200_000}, "it could not be started: Argument list too long"),
        ("grep", {"pattern": "(" * 5000}, "is not a valid regular expression"),
        ("read_file", {"path": "n" * 5000}, "is not a path: File name too long"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(tools, folder, name, arguments, words):
    with pytest.raises(ToolError) as caught:
        tools[name].run(**arguments)
    assert words in str(caught.value)
    assert not list(folder.glob(".writing-*"))


def test_a_tool_is_made_from_a_function():
    def weigh(
        thing: str, times: int = 1, exact: bool | None = None, parts: list[str] | None = None
    ) -> str:
        """Weigh a thing."""
        return thing

    tool = Tool.of(weigh)
    assert (tool.name, tool.description) == ("weigh", "Weigh a thing.")
    properties = schema_of(weigh)["properties"]
    assert [one["type"] for one in properties.values()] == ["string", "integer", "boolean", "array"]
    assert tool.parameters["required"] == ["thing"]
    assert check_arguments(tool, {"thing": "x", "exact": None}) == {"thing": "x"}
    with pytest.raises(ToolError):
        check_arguments(tool, {"thing": "x", "times": True})


def test_hints_of_several_kinds_are_told_and_held():
    def sort(
        parts: list[str], by: int | str = 1, how: Literal["up", "down"] = "up", any: Any = None
    ) -> str:
        return ""

    tool = Tool.of(sort)
    assert tool.parameters["properties"] == {
        "parts": {"type": "array", "items": {"type": "string"}},
        "by": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "how": {"enum": ["up", "down"]},
        "any": {},
    }
    assert check_arguments(tool, {"parts": ["a"], "by": "size", "how": "down", "any": [1]})
    with pytest.raises(
        ToolError, match="parts of sort must be an array, each of the type string, not"
    ):
        check_arguments(tool, {"parts": ["a", 5]})
    with pytest.raises(
        ToolError, match=r"by of sort must be of the type integer or of the type string, not 1\.5"
    ):
        check_arguments(tool, {"parts": [], "by": 1.5})
    with pytest.raises(ToolError, match="how of sort must be one of 'up', 'down', not 'left'"):
        check_arguments(tool, {"parts": [], "how": "left"})


def test_glob_passes_over_what_nobody_means_unless_it_is_named(tools, folder):
    for place in (".git", "node_modules"):
        (folder / place).mkdir(exist_ok=True)
        (folder / place / "x.zz").write_text("")
    (folder / "y.zz").write_text("")
    assert tools["glob"].run(pattern="**/*.zz") == "y.zz"
    assert tools["glob"].run(pattern="node_modules/*.zz") == "node_modules/x.zz"
