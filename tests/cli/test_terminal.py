"""What a terminal shows: colours, widths, the pager, and nothing that hostile text commands."""

import re
from datetime import datetime

import pytest

import backstory
from tests.cli.conftest import fill

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\u202eevil\u2066\u200b\U000e0041\r\x08 end"


@pytest.fixture
def story(sqlite_shell):
    fill(sqlite_shell)
    return sqlite_shell


def test_colours_only_on_a_terminal_and_not_with_no_color(story):
    assert "\x1b[" not in story("log", "main").out
    assert "\x1b[2m" in story.on_terminal("log", "main").out
    shown = story.on_terminal("log", "main", NO_COLOR="1").out
    assert not any(f"\x1b[{colour}m" in shown for colour in range(30, 38))


@pytest.mark.parametrize("width", [80, 160])
def test_a_line_of_the_log_fits_the_terminal(story, width):
    story("append", "main", "word " * 100)
    lines = story.on_terminal("log", "main", width=width, NO_COLOR="1", TERM="dumb").lines
    assert max(map(len, lines)) <= width
    assert lines[-1].endswith("…")


def test_a_line_of_the_log_has_the_year(story):  # what is imported can be older than a year
    written = story("log", "main", "--json").json[0]["created_at"]
    year = str(datetime.fromisoformat(written).astimezone().year)
    assert f"{year}-" in story.on_terminal("log", "main").lines[0]


def test_a_long_name_is_cut_before_the_numbers(story):
    story("rename", "idea", "long" * 30)
    for command, numbers in (
        ("agents", "… forked at 4  head 5  just now  "),
        ("stats", "context  id"),
    ):
        shown = re.sub(r"\x1b\[[0-9;]*m", "", story.on_terminal(command, width=80).out)
        assert numbers in shown
        assert "longlong" in shown
        assert max(map(len, shown.splitlines())) <= 80
    ids = [agent["id"][:8] for agent in story("agents", "--json").json]
    assert all(id in shown for id in ids)


def test_a_tree_ends_with_the_subject_of_its_session(story):
    for name in ("one", "two"):  # imported sessions without a title share the name of their tool
        story("new", name)
    story("append", "one", "Rename the module")
    story("append", "two", "Look for typos")
    story("describe", "two", "--title", "A long evening of typos")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", story.on_terminal("tree", width=120).out)
    assert re.search("one .*  Rename the module", shown)
    assert re.search("two .*  A long evening of typos", shown)
    assert shown.count("Which Python files are here?") == 1  # a fork does not repeat it


def test_a_diff_in_colour_keeps_its_marks(story):
    story("fork", "main@1", "other")
    story("append", "other", "Which Rust files are here?")
    shown = story.on_terminal("diff", "main@2", "other").out
    assert "[-Python-]" in shown
    assert "{+Rust+}" in shown


def test_a_long_text_is_indented_on_every_line(story):
    story("append", "main", "needle " * 40)
    for command in (["search", "needle"], ["diff", "main@7", "main"]):
        lines = story.on_terminal(*command, NO_COLOR="1" if command[0] == "search" else "").lines
        found = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines if "needle" in line]
        assert len(found) > 1
        assert all(line.startswith("    needle") for line in found), command


def test_the_pager_gets_the_log_and_may_leave_early(story, tmp_path):
    seen = tmp_path / "seen"
    pager = tmp_path / "pager"
    pager.write_text(f"#!/bin/sh\nhead -n 3 > {seen}\n")
    pager.chmod(0o755)
    ran = story.on_terminal("log", "main", PAGER=str(pager))
    assert ran.code == 0
    assert "Traceback" not in ran.out
    assert len(seen.read_text().splitlines()) == 3


def test_text_from_a_log_cannot_drive_the_terminal(story):
    with backstory.open(story.env["BACKSTORY_STORE"]) as store:
        agent = store.agent("main")
        agent.user(HOSTILE)
        agent.mark(HOSTILE)
        agent.tool_call(HOSTILE, {HOSTILE: HOSTILE}, id="x")
        agent.fork("victim").user(HOSTILE + "changed")
    commands = (
        ["agents"],
        ["log", "main"],
        ["log", "main", "--full"],
        ["log", "main", "--json"],
        ["show", "main@8"],
        ["show", "main@10"],
        ["show", "main@8", "--json"],
        ["marks", "main"],
        ["context", "main"],
        ["context", "main", "--json"],
        ["context", "main", "--format", "openai"],
        ["diff", "main", "victim"],
        ["diff", "main", "victim", "--json"],
        ["search", "evil"],
        ["search", "evil", "--json"],
        ["clear", "main", "--dry-run"],
        ["export"],
        ["export", "main", "--format", "markdown"],
        ["rewind", f"main@{HOSTILE}x"],
    )
    bad = set("\x07\x08\x7f\x9b\u202e\u2066\u200b\U000e0041")
    for command in commands:
        code = 1 if command[0] == "rewind" else 0
        ran = story(*command, code=code)
        assert not bad & set(ran.out + ran.err), command
        assert "\x1b" not in ran.out + ran.err, command
        assert "\r" not in ran.out, command
    for command in (
        ["log", "main"],
        ["context", "main"],
        ["search", "evil"],
        ["agents"],
    ):
        shown = story.on_terminal(*command, NO_COLOR="1").out
        assert not bad & set(shown), command
        assert "\x1b]" not in shown, command
        assert "\x1b[2J" not in shown, command
    assert story.on_terminal("show", "main@8", "--content").out.count("\x1b") == 0
    assert story("show", "main@8", "--content").out == HOSTILE  # to a file, exactly


def test_a_terminal_that_lacks_a_character_gets_its_number(story):
    story("append", "main", "日")
    assert "\\u65e5" in story("log", "main", PYTHONIOENCODING="latin-1").out
