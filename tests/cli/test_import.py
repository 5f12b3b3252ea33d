"""`backstory import` of other tools' transcripts, as a process."""

import json
import os
import re
import signal
import subprocess

import pytest

from backstory.cli.commands.import_report import COLUMNS
from tests.cli.conftest import COMMAND
from tests.transcripts.conftest import Base
from tests.transcripts.reading import write_lines
from tests.transcripts.test_again import OTHER
from tests.transcripts.test_import import REWOUND, SESSION, settle, user


@pytest.fixture
def transcript(tmp_path):
    return settle(write_lines(tmp_path / "elsewhere" / f"{SESSION}.jsonl", REWOUND))


def test_a_path_is_recognised_imported_and_counted(sqlite_shell, transcript):
    ran = sqlite_shell("import", transcript.parent)
    assert ran.rows == [["claude-code", "1", "1", "1", "0", "1", "7", "1", "0", "0", "0"]]
    again = sqlite_shell("import", transcript.parent)
    assert again.rows == [["claude-code", "1", "0", "0", "0", "0", "0", "0", "0", "0", "0"]]
    assert again.err == "nothing new\n"
    assert "two again" in sqlite_shell("context", SESSION[:8]).out
    assert "sound" in sqlite_shell("verify").err


def test_an_import_leaves_nothing_to_index(sqlite_shell, transcript):
    shown = sqlite_shell.on_terminal("import", "--dry-run", str(transcript.parent)).out
    assert "indexing" not in shown
    assert "indexing" in sqlite_shell.on_terminal("import", str(transcript.parent)).out
    found = sqlite_shell.on_terminal("search", "two").out
    assert "again" in found
    assert "indexing" not in found


def list_shown_rows(shown):
    """The rows of the table on a terminal, by tool, without colours."""
    lines = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown).splitlines()
    rows = [line.split() for line in lines]
    return {row[0]: row[1:] for row in rows if len(row) == len(COLUMNS)}


def test_a_first_import_counts_nothing_as_grown_and_reports_unfinished_messages(
    sqlite_shell, tmp_path
):
    folder = tmp_path / "elsewhere"
    write_lines(folder / "backup" / f"{SESSION}.jsonl", REWOUND[:4])
    write_lines(folder / "live" / f"{SESSION}.jsonl", REWOUND)
    for name in ("abc", "abd"):  # sub-agents of a session that is not there
        side = {"isSidechain": True, "agentId": name, "sessionId": OTHER}
        prompt = user(f"{name} 1", "look", None, 1, **side)
        write_lines(folder / OTHER / "subagents" / f"agent-{name}.jsonl", [prompt])
    goose = Base(folder / "sessions.db")
    goose.table("sessions", "id", "name", "working_dir", "session_type")
    goose.table("messages", "id", "session_id", "role", "content_json", "created_timestamp")
    goose.add("sessions", "s1", "Chat", "/w", "sub_agent")
    goose.add("messages", 1, "s1", "user", json.dumps([{"type": "text", "text": "go"}]), 1)
    goose.read()
    shown = sqlite_shell.on_terminal("import", "--settle", "3600", str(folder)).out
    rows = list_shown_rows(shown)
    files_sessions_new_grown = {tool: row[:4] for tool, row in rows.items() if tool != "tool"}
    assert files_sessions_new_grown == {
        "claude-code": ["4", "3", "2", "0"],
        "goose": ["1", "1", "0", "0"],
    }
    assert "1 message of goose may still change: the next import adds what is complete" in shown


def test_json_has_an_object_for_each_session_and_one_with_the_sums(sqlite_shell, transcript):
    session, sums = sqlite_shell("import", "--json", "--from", "claude-code", transcript).json
    assert (session["tool"], session["id"], session["new_events"], session["branches"]) == (
        "claude-code", SESSION, 7, 1,
    )  # fmt: skip
    assert session["agent"] == sqlite_shell("agents", "--json").json[0]["id"]
    assert sums["tools"][0]["sessions"] == 1


def test_without_a_path_it_looks_where_the_tools_keep_theirs_and_asks(
    sqlite_shell, transcript, tmp_path
):
    write_lines(tmp_path / ".claude" / "projects" / "src" / f"{SESSION}.jsonl", REWOUND)
    env = {"HOME": str(tmp_path)}
    shown = sqlite_shell.on_terminal("import", keys=b"n\n", **env).out
    assert "claude-code" in shown
    assert "Import them?" in shown
    assert sqlite_shell("import", "--dry-run", **env).err.endswith(
        "nothing was written (--dry-run)\n"
    )
    assert "no store at" in sqlite_shell("sessions", code=1).err
    nobody_to_ask = sqlite_shell("import", stdin="", code=2, **env).err
    assert "standard input is empty" in nobody_to_ask
    assert "--yes" in nobody_to_ask
    assert "7" in sqlite_shell("import", "--yes", "--settle", "0", **env).rows[0]


def test_a_dry_run_counts_all_that_an_import_would_and_makes_no_store(
    sqlite_shell, transcript, tmp_path
):
    other = tmp_path / "other.db"
    rehearsed = sqlite_shell("import", "--dry-run", "--store", other, transcript)
    assert not other.exists()
    assert rehearsed.rows == sqlite_shell("import", "--store", other, transcript).rows
    assert "nothing new" in sqlite_shell("import", "--dry-run", "--store", other, transcript).err


def test_on_a_narrow_terminal_every_column_is_shown(sqlite_shell, transcript):
    shown = sqlite_shell.on_terminal("import", transcript, COLUMNS="80").out
    assert "damaged" in shown
    assert "sessions" in shown


def test_an_import_of_nothing_or_of_an_unknown_file_exits_with_1(sqlite_shell, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    sqlite_shell("import", empty, code=1)
    assert (
        "no transcripts were found" in sqlite_shell("import", "--yes", code=1, HOME=str(empty)).err
    )
    note = tmp_path / "note.txt"
    note.write_text("hello")
    assert "not a transcript that is known" in sqlite_shell("import", note, code=1).err
    again = sqlite_shell("import", note, code=1)  # it did not change, so it is not opened
    assert again.err == "no transcripts were found\n"
    assert "no format 'nobody'" in sqlite_shell("import", "--from", "nobody", note, code=2).err
    assert "is not a time" in sqlite_shell("import", "--since", "soon", note, code=2).err


def test_strict_makes_damage_exit_code_1(sqlite_shell, transcript):
    with transcript.open("a") as file:
        file.write('{"broken\n{"type":"user"}\n')
    settle(transcript)
    ran = sqlite_shell("import", "--strict", transcript, code=1)
    assert f"skipped: {transcript}:7" in ran.err
    sqlite_shell("import", transcript)


def test_an_export_and_transcripts_are_not_mixed(sqlite_shell, transcript, tmp_path):
    sqlite_shell("import", transcript)
    sqlite_shell("export", "-o", tmp_path / "all.jsonl")
    assert "together" in sqlite_shell("import", tmp_path / "all.jsonl", transcript, code=2).err
    assert "imported 0 sessions" in sqlite_shell("import", tmp_path / "all.jsonl").err


def test_watch_follows_what_grows_until_ctrl_c(sqlite_shell, transcript):
    process = subprocess.Popen(
        [COMMAND, "import", "--watch", "--settle", "0", str(transcript)],
        env=sqlite_shell.env,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert "7 new events" in process.stdout.readline()
        with transcript.open("a"):
            write_lines(transcript, [*REWOUND, user("u4", "more", "a3", 9)])
        assert "1 new event" in process.stdout.readline()
    finally:
        os.kill(process.pid, signal.SIGINT)
        process.stdout.close()
        assert process.wait(60) == 130
