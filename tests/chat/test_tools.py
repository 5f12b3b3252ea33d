"""The tools for a folder: what they do, and what they never do."""

import os
import time

import pytest

from backstory.tools import Tool, ToolError, working_tools
from backstory.tools.tool import checked, schema_of


@pytest.fixture
def tools(folder):
    (folder / "src").mkdir()
    (folder / "src" / "deep.py").write_text("x = 1\ny = x\n")
    return {tool.name: tool for tool in working_tools(folder)}


@pytest.fixture
def secret(tmp_path, folder):
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "out").symlink_to(tmp_path)
    return tmp_path / "secret.txt"


def test_what_writes_or_runs_asks_and_what_reads_does_not(tools):
    assert {name for name, tool in tools.items() if tool.asks} == {"write_file", "edit_file", "bash"}


def test_glob_lists_what_matches(tools):
    assert tools["glob"].run(pattern="*.py") == "a.py\nb.py"
    assert tools["glob"].run(pattern="**/*.py") == "a.py\nb.py\nsrc/deep.py"
    assert tools["glob"].run(pattern="*.nothing") == "no file matches"


def test_list_dir_and_read_file(tools):
    assert tools["list_dir"].run() == "a.py\nb.py\nnotes.md\nsrc/"
    assert tools["read_file"].run(path="src/deep.py") == "x = 1\ny = x\n"
    assert (
        tools["read_file"].run(path="src/deep.py", lines=1) == "x = 1\n\n[1 more lines: read on with start=2]"
    )
    assert tools["read_file"].run(path="src/deep.py", start=2) == "y = x\n"


def test_grep_names_file_and_line(tools):
    assert tools["grep"].run(pattern=r"x\b") == "src/deep.py:1:x = 1\nsrc/deep.py:2:y = x"
    assert tools["grep"].run(pattern="print", glob="b.*") == "b.py:1:print('b')"
    assert tools["grep"].run(pattern="nowhere at all") == "no match"
    with pytest.raises(ToolError, match="is no regular expression"):
        tools["grep"].run(pattern="(")


def test_an_evil_expression_ends_at_its_limit(tools, folder, monkeypatch):
    monkeypatch.setattr("backstory.tools.working.GREP_SECONDS", 0.5)
    (folder / "a.txt").write_text("a" * 60 + "!")
    begun = time.monotonic()
    with pytest.raises(ToolError, match="the time limit"):
        tools["grep"].run(pattern="(a+)+$")
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_file", {"path": "../secret.txt"}),
        ("read_file", {"path": "/etc/hostname"}),
        ("read_file", {"path": "link.txt"}),
        ("read_file", {"path": "out/secret.txt"}),
        ("list_dir", {"path": ".."}),
        ("list_dir", {"path": "out"}),
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


def test_bash_has_a_time_limit_that_its_children_share(tools):
    begun = time.monotonic()
    with pytest.raises(ToolError, match=r"begun\n\[ended after 1 seconds: the time limit\]"):
        tools["bash"].run(command="echo begun; sleep 30 & sleep 30", seconds=1)
    assert tools["bash"].run(command="sleep 30 & echo done") == "done"
    assert time.monotonic() - begun < 8


def test_bash_has_an_output_limit(tools):
    with pytest.raises(ToolError, match="the output limit") as caught:
        tools["bash"].run(command="yes")
    assert len(str(caught.value)) < 1_001_000


def test_a_tool_is_made_from_a_function():
    def weigh(thing: str, times: int = 1, exact: bool | None = None, parts: list[str] | None = None) -> str:
        """Weigh a thing."""
        return thing

    tool = Tool.of(weigh)
    assert (tool.name, tool.description) == ("weigh", "Weigh a thing.")
    properties = schema_of(weigh)["properties"]
    assert [one["type"] for one in properties.values()] == ["string", "integer", "boolean", "array"]
    assert tool.parameters["required"] == ["thing"]
    assert checked(tool, {"thing": "x", "exact": None}) == {"thing": "x"}
    with pytest.raises(ToolError):
        checked(tool, {"thing": "x", "times": True})
