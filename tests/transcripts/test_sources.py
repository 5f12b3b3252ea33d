"""What is between a disk and a parser: whatever lies there is read, or it is said why not."""

import io
import json
import os
import sqlite3
import subprocess
import sys
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

import backstory
from backstory import transcripts
from backstory.errors import Invalid
from backstory.transcripts import ImportReport, importing, sources
from backstory.transcripts.decoding import ESCAPED, REPLACED, escape_value
from tests.transcripts.reading import context, log, one, read, steps_of, write_lines


def line(uuid, parent, content, **more):
    return {
        "type": "user",
        "uuid": uuid,
        "parentUuid": parent,
        "message": {"role": "user", "content": content},
    } | more


def claude(folder, *records, name="s.jsonl"):
    return write_lines(folder / name, records)


# ------------------------------------------------------------------ lines


def test_a_broken_line_is_skipped_with_its_number_and_a_torn_one_waited_for(tmp_path):
    path = tmp_path / "s.jsonl"
    whole = [json.dumps(line(name, None, name)) for name in "ab"]
    path.write_text(f"{whole[0]}\n{{broken\n{whole[1]}\n{whole[1][:30]}")
    _, report = read(path)
    assert [(fault.line, fault.source) for fault in report.damaged] == [(2, path.as_posix())]
    assert [fault.line for fault in report.torn] == [4]


def test_what_no_store_can_hold_is_escaped_and_counted(tmp_path):
    path = tmp_path / "s.jsonl"
    records = [
        line("a", None, "nul \0 in"),
        line("b", "a", "lone \ud800 surrogate"),
        line("c", "b", "fine 🙂"),
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    sessions, report = read(path)
    assert context(log(one(sessions))) == [
        ("user", "nul \\u0000 in"),
        ("user", "lone \\ud800 surrogate"),
        ("user", "fine 🙂"),
    ]
    assert report.mended[ESCAPED] == 1  # U+0000 is escaped when it is written


def test_bytes_that_are_not_utf_8_are_replaced_and_counted(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(json.dumps(line("a", None, "caf?")).encode().replace(b"?", b"\xe9") + b"\n")
    sessions, report = read(path)
    assert context(log(one(sessions))) == [("user", "caf\ufffd")]
    assert report.mended[REPLACED] == 1


def test_a_mark_at_the_start_and_zeros_at_the_end_are_no_damage(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_bytes(
        b"\xef\xbb\xbf" + json.dumps(line("a", None, "go")).encode() + b"\n" + b"\0" * 64
    )
    sessions, report = read(path)
    assert context(log(one(sessions))) == [("user", "go")]
    assert not report.damaged


def test_a_file_that_powershell_redirected_is_read(tmp_path):
    claude(tmp_path, line("u1", None, "schön"))
    path = tmp_path / "s.jsonl"
    path.write_bytes(path.read_text("utf-8").encode("utf-16"))
    assert context(log(one(read(path)[0]))) == [("user", "schön")]


def test_data_that_is_nested_too_deep_is_kept_as_text(tmp_path):
    deep = {"a": 1}
    for _ in range(150):
        deep = {"a": deep}
    use = {"type": "tool_use", "id": "c", "name": "run", "input": deep}
    answer = line("a", None, [use]) | {"type": "assistant"}
    answer["message"] |= {"id": "m", "role": "assistant", "model": "x"}
    [call] = log(one(read(claude(tmp_path, answer))[0]))
    value, depth = call.data["arguments"], 0
    while isinstance(value, dict):
        value, depth = value["a"], depth + 1
    assert depth < 100
    assert json.loads(value)


def test_a_line_that_is_too_long_is_reported_as_damaged(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "LONGEST", 4096)
    long = line("b", "a", "x" * 20_000)
    found, report = read(claude(tmp_path, line("a", None, "one"), long, line("c", "a", "two")))
    assert context(log(one(found))) == [("user", "one"), ("user", "two")]
    assert [fault.line for fault in report.damaged] == [2]


# ------------------------------------------------------------------ arrays


@given(
    st.lists(st.one_of(st.integers(), st.text(), st.lists(st.integers())), max_size=8),
    st.integers(1, 9),
)
def test_an_array_is_read_element_by_element_whatever_the_pieces(values, size):
    class Slow(io.BytesIO):
        def read(self, count=-1):
            return super().read(min(size, count) if count >= 0 else size)

    text = json.dumps(values, indent=1)
    report = ImportReport()
    found = list(sources.read_array(Slow(text.encode()), "x", report))
    assert found == [escape_value(value)[0] for value in values]
    assert not report.damaged


def test_an_array_that_breaks_off_gives_what_it_has(tmp_path):
    report = ImportReport()
    assert list(sources.read_array(io.BytesIO(b'[{"a": 1}, {"a": '), "x", report)) == [{"a": 1}]
    assert len(report.damaged) == 1


# ------------------------------------------------------------------ what there is


def test_a_link_out_of_the_folder_is_not_followed_and_said(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    claude(outside, line("a", None, "secret"))
    claude(inside, line("b", None, "mine"))
    (inside / "file.jsonl").symlink_to(outside / "s.jsonl")
    (inside / "folder").symlink_to(outside)
    (inside / "again.jsonl").symlink_to(inside / "s.jsonl")
    (inside / "loop").symlink_to(inside)
    sessions, report = read(inside)
    assert [session.id for session in sessions] == ["s"]
    assert sorted(fault.source.rsplit("/", 1)[-1] for fault in report.notes) == [
        "file.jsonl",
        "folder",
    ]


def test_what_is_no_transcript_is_said_and_nothing_is_made_of_it(tmp_path):
    (tmp_path / "notes.md").write_text("# Notes")
    (tmp_path / "data.json").write_text('{"a": [1, 2]}')
    (tmp_path / "lines.jsonl").write_text('{"level": "info"}\n{"level": "warn"}\n')
    (tmp_path / "noise.bin").write_bytes(bytes(range(256)) * 20)
    (tmp_path / "empty.jsonl").write_text("")
    sqlite3.connect(tmp_path / "other.db").execute("create table t (x)").connection.close()
    os.mkfifo(tmp_path / "pipe")
    sessions, report = read(tmp_path)
    assert sessions == []
    names = {fault.source.rsplit("/", 1)[-1] for fault in report.notes}
    assert names == {"notes.md", "data.json", "lines.jsonl", "noise.bin", "other.db"}


def test_import_refuses_a_path_that_does_not_exist():
    with backstory.open(":memory:") as store:
        with pytest.raises(backstory.Invalid, match="no file or folder '/nowhere'"):
            store.import_transcripts("/nowhere")
        with pytest.raises(backstory.Invalid, match="no file or folder '/nowhere'"):
            store.import_transcripts([".", "/nowhere"])
        assert store.sessions() == []


def test_a_path_that_is_not_there_or_may_not_be_read_is_said(tmp_path):
    assert read(tmp_path / "nothing")[1].unread[0].what == "it does not exist"
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    path = claude(tmp_path, line("a", None, "x"))
    path.chmod(0)
    assert read(path)[1].unread[0].what == "Permission denied"


LOCK = """
import sqlite3, sys
writer = sqlite3.connect(sys.argv[1], isolation_level=None)
writer.execute("create table sessions (id, parent_session_id)")
writer.execute("begin exclusive")
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_database_that_another_program_locks_is_said_to_be_in_use(tmp_path, monkeypatch):
    monkeypatch.setattr("backstory.transcripts.containers.BUSY_TIMEOUT", 1)
    command = [sys.executable, "-c", LOCK, tmp_path / "crush.db"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"locked\n"
        sessions, report = read(tmp_path / "crush.db")
        other.stdin.close()
    assert sessions == []
    assert report.unread[0].what == "in use by another program"


def test_a_database_is_read_while_another_program_writes_to_it(tmp_path):
    writer = sqlite3.connect(tmp_path / "x.db", isolation_level=None)
    writer.execute("pragma journal_mode = wal")
    writer.execute(
        "create table sessions (id, parent_session_id, title, created_at, summary_message_id)"
    )
    writer.execute("create table messages (id, session_id, role, parts, model, created_at)")
    writer.execute("insert into sessions values ('s1', null, 'T', 1, null)")
    parts = json.dumps([{"type": "text", "data": {"text": "go"}}])
    writer.execute("insert into messages values ('m1', 's1', 'user', ?, 'm', 1)", (parts,))
    writer.execute("begin immediate")
    assert context(log(one(read(tmp_path / "x.db")[0]))) == [("user", "go")]
    writer.close()


def test_a_zip_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr("backstory.transcripts.containers.CHECKED_FROM", 1000)
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "conversations.json", '[{"mapping": {}, "pad": "' + "0" * 1_000_000 + '"}]'
        )
    sessions, report = read(tmp_path / "bomb.zip")
    assert sessions == []
    assert "times its size" in report.unread[0].what


def test_a_compressed_bomb_is_not_unpacked(tmp_path, monkeypatch):
    import gzip

    monkeypatch.setattr(sources, "CHECKED_FROM", 1000)
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress(b"0" * 3_000_000))
    assert "times its size" in read(tmp_path / "x.jsonl.gz")[1].unread[0].what


def test_a_zip_that_is_cut_off_is_said_to_be_unreadable(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("conversations.json", "[]")
    data = (tmp_path / "x.zip").read_bytes()
    (tmp_path / "x.zip").write_bytes(data[: len(data) // 2])
    assert len(read(tmp_path / "x.zip")[1].unread) == 1


def test_a_format_can_be_said_and_one_that_is_none_is_refused(tmp_path):
    path = claude(tmp_path, line("a", None, "go"))
    assert [session.tool for session in transcripts.read(path, format="claude-code")] == [
        "claude-code"
    ]
    with pytest.raises(Invalid, match="no format 'clod'"):
        list(transcripts.read(path, format="clod"))


def test_a_text_does_not_become_a_session_because_its_format_was_said(tmp_path):
    (tmp_path / "note.txt").write_text("hello\n")
    sessions, report = read(tmp_path / "note.txt", format="codex")
    assert (sessions, [fault.what for fault in report.notes]) == (
        [],
        ["not a transcript that is known"],
    )


def test_a_circle_of_parents_is_broken_and_counted(tmp_path):
    claude(tmp_path, line("u1", "u2", "one"), line("u2", "u1", "two"))
    sessions, report = read(tmp_path)
    assert sorted(context(log(one(sessions)))) == [("user", "one"), ("user", "two")]
    assert report.mended["circle of parents"] == 1


def test_the_places_of_the_tools_are_where_variables_and_homes_say(tmp_path):
    (tmp_path / ".claude" / "projects").mkdir(parents=True)
    (tmp_path / "codex" / "sessions").mkdir(parents=True)
    said = {"CODEX_HOME": str(tmp_path / "codex")}
    found = {format.name: path for format, path in importing.list_known_places(said.get, tmp_path)}
    assert found == {
        "claude-code": tmp_path / ".claude" / "projects",
        "codex": tmp_path / "codex" / "sessions",
    }


@given(st.binary(max_size=400))
def test_any_bytes_are_read_by_every_format_without_an_exception(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("any") / "x"
    path.write_bytes(data)
    for name in transcripts.list_formats():
        for session in transcripts.read(path, format=name):
            for thread in session.threads:
                steps_of(thread)
