"""Histories that travel: export, import and backup, as processes on SQLite and PostgreSQL."""

import json
import os
import threading
from contextlib import closing
from pathlib import Path

import apsw

import backstory
from tests.cli.conftest import Shell


def test_export_and_import_there_and_back(story, new_url, tmp_path):
    text = story("export").out
    other = Shell(new_url("sqlite"), tmp_path)
    third = Shell(new_url("postgres"), tmp_path)
    assert other("import", stdin=text).err == "imported 1 session, 3 agents, 8 events\n"
    assert third("import", "-", "--json", stdin=other("export").out).json == [
        {"sessions": 1, "agents": 3, "events": 8}
    ]
    assert third("export").out == text
    assert third("import", stdin=text).err == "imported 0 sessions, 0 agents, 0 events\n"
    assert third("log", "main").out == story("log", "main").out


def test_a_damaged_session_is_not_exported_and_others_are(tmp_path):
    path, file = tmp_path / "store.db", tmp_path / "all.jsonl"
    with backstory.open(path) as store, store.intake() as intake:
        for name in ("broken", "sound"):
            intake.extend(intake.agent(name, name=name), [("user", f"{name} " * 100)] * 2)
    with closing(apsw.Connection(str(path))) as db:
        db.execute("UPDATE events SET packed = zeroblob(9) WHERE id = (SELECT min(id) FROM events)")
    shell = Shell(str(path), tmp_path)
    for done in (shell("export", code=1), shell("export", "-o", file, code=1)):
        assert done.err == (
            "backstory: the export cannot be completed, because event 1 of agent 'broken' is damaged: "
            "`backstory verify` shows everything that is; restore a backup, or export other sessions\n"
        )
        assert '"end"' not in done.out
    assert not file.exists()
    shell("export", "sound", "-o", file)
    with backstory.open(":memory:") as other, file.open() as lines:
        assert other.import_from(lines) == (1, 1, 2)


def test_export_to_a_file_some_sessions_markdown_and_a_request(story, tmp_path):
    story("new", "other")
    story("export", "idea", "-o", tmp_path / "one.jsonl")
    lines = (tmp_path / "one.jsonl").read_text().splitlines()
    assert len(lines) == 1 + 3 + 8 + 1
    text = story("export", "main", "--format", "markdown").out
    assert "## 2 user" in text
    assert '```\nglob({"pattern":"*.py"})\n```' in text
    request = story("export", "main@3", "--format", "openai")
    assert "messages" in json.loads(request.out)
    assert request.err.startswith("repaired at 3: close: ")
    assert "give one REF" in story("export", "main", "idea", "--format", "markdown", code=2).err


def test_an_export_that_fails_leaves_the_old_file(story, tmp_path):
    (tmp_path / "old").write_text("old")
    story("export", "nobody", "-o", tmp_path / "old", code=1)
    assert (tmp_path / "old").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".backstory")] == []


def test_import_refuses_nonsense(story, tmp_path):
    assert "not an export of backstory" in story("import", stdin="hello", code=2).err
    assert story("import", tmp_path / "missing", code=2).out == ""


def test_a_failed_import_leaves_no_new_store(sqlite_shell, tmp_path):
    path = tmp_path / "fresh.db"
    sqlite_shell(
        "import", "--store", path, stdin='{"format":"backstory-export","version":1}\n', code=2
    )
    assert not list(tmp_path.glob("fresh.db*"))
    sqlite_shell("new", "kept", "--store", path)
    sqlite_shell("import", "--store", path, stdin="hello", code=2)
    assert sqlite_shell("agents", "--store", path).rows[0][1] == "kept/kept"


def test_an_export_to_a_directory_or_nowhere_is_refused_without_litter(story, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    before = sorted(tmp_path.iterdir())
    assert "is a directory" in story("export", "main", "-o", folder, code=2).err
    assert "does not exist" in story("export", "main", "-o", tmp_path / "no" / "x", code=2).err
    assert sorted(tmp_path.iterdir()) == before


def test_an_export_to_a_dash_is_to_standard_output_and_a_device_is_kept(story):
    assert story("export", "-o", "-").out == story("export").out
    story("export", "-o", "/dev/null")
    assert Path("/dev/null").is_char_device()


def test_export_and_backup_print_the_file_as_json(story, tmp_path):
    file, copy = tmp_path / "a.jsonl", tmp_path / "copy.db"
    assert story("export", "-o", file, "--json").json == [
        {"path": str(file), "sessions": 1, "agents": 3, "events": 8}
    ]
    assert "name one with -o" in story("export", "--json", code=2).err
    assert story("backup", copy, "--json").json == [
        {"path": str(copy), "size": copy.stat().st_size}
    ]


def test_an_export_is_imported_from_a_named_pipe(sqlite_shell, tmp_path):
    sqlite_shell("new", "main", "--system", "Be careful.")
    text = sqlite_shell("export").out
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(text,), daemon=True)
    writer.start()
    other = Shell(str(tmp_path / "other.db"), tmp_path)
    assert other("import", pipe).err == "imported 1 session, 1 agent, 1 event\n"
    writer.join()


def test_backup(story, tmp_path):
    story("backup", tmp_path / "copy.db")
    copy = Shell(str(tmp_path / "copy.db"), tmp_path)
    assert copy("export").out == story("export").out
    assert "already exists" in story("backup", tmp_path / "copy.db", code=1).err


def test_restore(sqlite_shell, tmp_path):
    store, copy = tmp_path / "history.db", tmp_path / "copy.db"
    sqlite_shell("new", "main", "--store", store)
    sqlite_shell("append", "main", "old", "--store", store)
    sqlite_shell("backup", copy, "--store", store)
    sqlite_shell("append", "main", "new", "--store", store)
    refused = sqlite_shell("restore", copy, "--store", store, code=2)
    assert refused.err == (
        f"{store} would be replaced by {copy}\n"
        "backstory: replacing a store cannot be undone: repeat it with --yes, or restore --to another "
        "file\n"
    )
    done = sqlite_shell("restore", copy, "--store", store, "--yes")
    assert done.err == f"restored 1 session, 1 agent, 1 event to {store}\n"
    assert "new" not in sqlite_shell("context", "main", "--store", store).out
    elsewhere = tmp_path / "elsewhere.db"
    assert sqlite_shell("restore", copy, "--to", elsewhere, "--json").json == [
        {"path": str(elsewhere), "sessions": 1, "agents": 1, "events": 1}
    ]


def test_restore_refuses_a_store_that_is_open(sqlite_shell, tmp_path):
    store, copy = tmp_path / "history.db", tmp_path / "copy.db"
    with backstory.open(store) as opened:
        opened.start("main")
        opened.backup(copy)
        busy = sqlite_shell("restore", copy, "--to", store, "--yes", code=1)
    assert busy.err == (
        f"backstory: {str(store)!r} is in use: end the programs that have it open, and try again\n"
    )


def test_a_log_of_another_file_is_refused_with_the_command_that_helps(sqlite_shell, tmp_path):
    store, copy = tmp_path / "history.db", tmp_path / "copy.db"
    with backstory.open(store) as opened:
        opened.start("main").user("new")
        opened.backup(copy)
        log = (tmp_path / "history.db-wal").read_bytes()
    store.write_bytes(copy.read_bytes())
    (tmp_path / "history.db-wal").write_bytes(log)
    refused = sqlite_shell("agents", "--store", store, code=1)
    assert f"`backstory restore BACKUP --to {store}` restores a backup" in refused.err


def test_export_for_another_tool_and_install_it(story, tmp_path):
    path = tmp_path / "session.jsonl"
    story("export", "main", "--to", "pi", "-o", path)
    assert json.loads(path.read_text().splitlines()[0])["type"] == "session"
    assert "<!doctype html>" in story("export", "main", "--to", "html").out
    [installed] = story(
        "export", "main", "--to", "codex", "--install", "--json", CODEX_HOME=str(tmp_path)
    ).json
    assert Path(installed["path"]).is_relative_to(tmp_path / "sessions")
    again = story("export", "main", "--to", "codex", "--install", code=2, CODEX_HOME=str(tmp_path))
    assert "already exists" in again.err
    assert "nothing new" in story("import", installed["path"]).err
    assert "--install" in story("export", "main", "--install", code=2).err
    assert "--install" in story("export", "main", "--to", "html", "--install", code=2).err


def test_an_empty_input_is_answered_with_the_way_to_import_this_machine(sqlite_shell, tmp_path):
    path = tmp_path / "none.db"
    assert "--yes" in sqlite_shell("import", "--store", path, stdin="", code=2).err
    assert not path.exists()
