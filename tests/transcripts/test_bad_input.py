"""Bad input: said in the report, nothing lost, nothing half, and the store is sound."""

import json
import os
import sqlite3
import subprocess
import sys
import zipfile
from datetime import UTC, datetime
from random import Random

import apsw
import pytest

import backstory
from backstory.transcripts.claude_code.tree import ClaudeTree
from tests.transcripts.reading import read, write_lines
from tests.transcripts.stories import Story
from tests.transcripts.test_import import REWOUND, SESSION, answer, main, said, settle, text, user
from tests.transcripts.writers import TOOLS


def test_nul_and_lone_surrogates_come_in_as_escapes(store, tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    odd = "nul \\u0000 half \\ud800 end"
    prompt = json.dumps(user("u1", "WORDS", None, 1)).replace("WORDS", odd)
    call = [{"type": "tool_use", "id": "toolu_1", "name": "run", "input": {"text": "WORDS"}}]
    called = json.dumps(answer("a1", call, "u1", 2)).replace("WORDS", odd)
    title = json.dumps({"type": "custom-title", "customTitle": "WORDS"}).replace("WORDS", odd)
    path.write_text(f"{prompt}\n{called}\n{title}\n")
    outcome = store.import_transcripts(path, settle=0)
    assert said(main(store)) == ["nul \\u0000 half \\ud800 end"]
    assert outcome.merge_reports().mended
    assert store.agent(main(store).about["title"]) == main(store)
    main(store).conversation().to("anthropic")
    assert store.verify() == []


def test_an_id_like_a_derived_key_is_imported(store, tmp_path):
    records = [user("u1 (part 2)", "one", None, 1), user("u2", "two", "u1 (part 2)", 2)]
    path = write_lines(tmp_path / f"{SESSION}.jsonl", records)
    assert not store.import_transcripts(path, settle=0).merge_reports().damaged
    assert said(main(store)) == ["one", "two"]
    assert not store.import_transcripts(path, settle=0).has_news


def test_parents_in_a_circle_and_parents_that_are_missing_lose_nothing(store, tmp_path):
    records = [
        user("u1", "one", "u3", 1),
        user("u2", "two", "u1", 2),
        user("u3", "three", "u2", 3),
        user("u4", "four", "nobody", 4),
    ]
    outcome = store.import_transcripts(
        write_lines(tmp_path / f"{SESSION}.jsonl", records), settle=0
    )
    prompts = [event.content for event in main(store).events() if event.kind == "user"]
    assert sorted(prompts) == ["four", "one", "three", "two"]
    assert outcome.merge_reports().mended
    assert store.verify() == []


def test_steps_with_one_id_all_come_in_and_a_second_import_adds_nothing(store, tmp_path):
    steps = [
        {"step_id": 1, "source": "user", "message": words} for words in ("one", "two", "three")
    ]
    document = {"schema_version": "ATIF-v1.4", "session_id": "s1", "steps": steps}
    path = tmp_path / "trajectory.json"
    for more in ({}, {"notes": "touched"}):
        path.write_text(json.dumps(document | {"agent": {"name": "agent", "version": "1"}} | more))
        outcome = store.import_transcripts(path, settle=0)
        [agent] = store.agents()
        assert said(agent) == ["one", "two", "three"]
        assert outcome.merge_reports().mended


def test_an_id_that_is_too_long_for_a_key_or_cannot_be_one_is_known_by_its_digest(store, tmp_path):
    records = [user("u" * 2_000, "one", None, 1), user("tab\tand\nline", "two", "u" * 2_000, 2)]
    path = write_lines(tmp_path / f"{SESSION}.jsonl", records)
    store.import_transcripts(path, settle=0)
    assert said(main(store)) == ["one", "two"]
    os.utime(path)
    assert not store.import_transcripts(path, settle=0).has_news


def test_data_that_is_nested_too_deeply_comes_in_as_text(store, tmp_path):
    deep = {}
    for _ in range(300):
        deep = {"a": deep}
    call = [{"type": "tool_use", "id": "toolu_1", "name": "run", "input": deep}]
    records = [
        user("u1", "go", None, 1),
        answer("a1", call, "u1", 2),
        answer("a2", text("done"), "a1", 3),
    ]
    store.import_transcripts(write_lines(tmp_path / f"{SESSION}.jsonl", records), settle=0)
    assert said(main(store)) == ["go", "done"]
    assert [event.kind for event in main(store).events()].count("tool_call") == 1
    assert store.verify() == []


@pytest.mark.parametrize("number", ["1e400", "NaN", "-Infinity"])
def test_a_number_that_no_store_can_hold_comes_in_as_its_text(store, tmp_path, number):
    call = [
        {
            "type": "tool_use",
            "id": "toolu_1",
            "name": "run",
            "input": {"size": "NUMBER", "none": None},
        }
    ]
    records = [
        user("u1", "go", None, 1),
        answer("a1", call, "u1", 2),
        answer("a2", text("done"), "a1", 3),
    ]
    path = write_lines(tmp_path / f"{SESSION}.jsonl", records)
    path.write_text(path.read_text().replace('"NUMBER"', number))
    store.import_transcripts(path, settle=0)
    [called] = [event for event in main(store).events() if event.kind == "tool_call"]
    assert called.data["arguments"] == {"size": number, "none": None}


def test_times_out_of_range_and_of_no_kind_are_held(store, tmp_path):
    records = [*REWOUND[:1], *(dict(record) for record in REWOUND[1:4])]
    moments = ("9999-12-31T23:59:59.999Z", "0001-01-01T00:00:00Z", 17)
    for record, time in zip(records[1:], moments, strict=True):
        record["timestamp"] = time
    store.import_transcripts(write_lines(tmp_path / f"{SESSION}.jsonl", records), settle=0)
    times = [event.created_us for event in main(store).events()]
    assert times == sorted(times)
    assert said(main(store)) == ["one", "first", "two", "second"]
    problems = {finding.problem for finding in store.verify()}
    assert problems == {"its time is in the future"}


def test_a_zip_bomb_a_broken_zip_and_a_broken_database_are_reported(store, tmp_path):
    with (
        zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("conversations.json", "w") as member,
    ):
        member.write(b'[{"mapping": {}, "current_node": "x", "id": "1", "title": "')
        for _ in range(300):
            member.write(b"0" * 1_000_000)
    (tmp_path / "torn.zip").write_bytes((tmp_path / "bomb.zip").read_bytes()[:1000])
    (tmp_path / "torn.db").write_bytes(b"SQLite format 3\x00" + b"x" * 5000)
    write_lines(tmp_path / f"{SESSION}.jsonl", REWOUND)
    outcome = store.import_transcripts(tmp_path, settle=0)
    whole = outcome.merge_reports()
    assert len(whole.unread) + len(whole.notes) >= 3
    assert said(main(store))[0] == "one"


def test_a_link_out_of_the_folder_is_not_followed_and_that_is_said(store, tmp_path):
    write_lines(tmp_path / "outside" / "secret.jsonl", REWOUND)
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "link.jsonl").symlink_to(tmp_path / "outside" / "secret.jsonl")
    outcome = store.import_transcripts(tmp_path / "inside", settle=0)
    assert store.agents() == []
    assert "not followed" in outcome.report.notes[0].what


def test_a_database_in_use_is_read_as_it_is(store, tmp_path, monkeypatch):
    monkeypatch.setattr("backstory.transcripts.containers.BUSY_TIMEOUT", 100)
    path = tmp_path / "crush.db"
    writer = apsw.Connection(str(path))
    writer.execute("create table other (id text)")
    writer.execute("begin exclusive")
    outcome = store.import_transcripts(path)
    whole = outcome.merge_reports()
    assert whole.unread or whole.notes
    writer.execute("rollback")
    writer.close()


@pytest.mark.skipif(
    os.name == "nt" or os.geteuid() == 0, reason="there is nothing that root may not read"
)
def test_a_folder_without_rights_is_reported(store, tmp_path):
    closed = tmp_path / "closed"
    write_lines(closed / f"{SESSION}.jsonl", REWOUND)
    closed.chmod(0)
    try:
        assert store.import_transcripts(tmp_path).report.unread
    finally:
        closed.chmod(0o700)


@pytest.mark.skipif(
    not os.path.exists("/proc/self/status"), reason="needs a process that knows its memory"
)
def test_a_line_of_200_megabytes_takes_little_memory(tmp_path):
    path = tmp_path / f"{SESSION}.jsonl"
    before, after = json.dumps(user("u1", "WORDS", None, 1)).split("WORDS")
    with path.open("w") as file:
        file.write(before)
        for _ in range(200):
            file.write("x" * 1_000_000)
        file.write(after + "\n" + json.dumps(user("u2", "two", "u1", 2)) + "\n")
    settle(path)
    code = (
        "import backstory, re, sys\n"
        "with backstory.open(':memory:') as store:\n"
        "    outcome = store.import_transcripts(sys.argv[1])\n"
        "    contents = [e.content for e in store.agents()[0].events()]\n"
        "    print(len(contents), contents[-1], outcome.merge_reports().damaged[0].what.split(':')[0])\n"
        "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    told, peak = ran.stdout.splitlines()
    assert told.startswith("1 two a line of more than 64 MB")
    assert int(peak) < 400_000


def test_a_source_that_cannot_be_read_keeps_no_other_out(store, tmp_path):
    folder = tmp_path / "crush"
    folder.mkdir()
    for name, column in (("broken", "other"), ("sound", "created_at")):
        with sqlite3.connect(folder / f"{name}.db") as connection:
            connection.execute(f"create table sessions (id, parent_session_id, title, {column})")
            connection.execute(
                "create table messages (id, session_id, role, parts, model, created_at)"
            )
            connection.execute("insert into sessions values (?, null, 'T', 1)", (name,))
            parts = json.dumps([{"type": "text", "data": {"text": "hi"}}])
            connection.execute(
                "insert into messages values ('m', ?, 'user', ?, 'x', 1)", (name, parts)
            )
        connection.close()
    outcome = store.import_transcripts([folder], settle=0)
    assert [session.id for session in outcome.sessions] == ["sound"]
    assert [fault.source.rsplit("/", 1)[-1] for fault in outcome.merge_reports().unread] == [
        "broken.db"
    ]


# What a broken record may have where a word is expected.
ODD = [[], ["message"], {}, {"a": 1}, None, True, 1, "", "\ud800"]


@pytest.mark.parametrize("tool", TOOLS)
def test_a_record_whose_type_is_no_word_does_not_stop_an_import(tmp_path, tool):
    for number, odd in enumerate(ODD):
        name, lines = TOOLS[tool].write(Story(Random(number), **TOOLS[tool].options))
        broken = [line | {"type": odd} for line in lines] + [
            line | {"payload": line["payload"] | {"type": odd}}
            for line in lines
            if "payload" in line
        ]
        with backstory.open(":memory:") as store:
            path = write_lines(tmp_path / name, [*lines, *broken])
            store.import_transcripts(path, settle=0)
            store.import_transcripts(path, format=TOOLS[tool].format, settle=0)
            assert store.agents()
            assert store.verify() == []


def test_a_zip_whose_member_is_broken_is_reported(tmp_path):
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("user.json", "{}")
        archive.writestr("conversations.json", "[]")
    whole = path.read_bytes()
    second = whole.index(b"PK\x03\x04", 4)  # the header of the member, not that of the zip
    path.write_bytes(whole[:second] + b"PK\x00\x00" + whole[second + 4 :])
    _, report = read(path)
    assert [fault.source for fault in report.unread] == [path.as_posix()]


def test_a_session_whose_id_has_a_nul_comes_in(store, tmp_path):
    about = {"id": "ses\0one", "title": "T", "directory": "/w", "parentID": {"no": "id"}}
    message = {
        "info": {"id": "m1", "role": "user"},
        "parts": [{"id": "p1", "type": "text", "text": "go"}],
    }
    (tmp_path / "export.json").write_text(json.dumps({"info": about, "messages": [message]}))
    store.import_transcripts(tmp_path, settle=0)
    [agent] = store.agents()
    assert (said(agent), agent.about["source"]["session"]) == (["go"], "ses\\u0000one")


@pytest.mark.parametrize(
    ("format", "table"), [("goose", "messages"), ("opencode", "message"), ("crush", "messages")]
)
def test_a_database_without_its_other_tables_is_reported(store, tmp_path, format, table):
    base = sqlite3.connect(tmp_path / "half.db")
    base.execute(f"create table {table} (id, session_id, content_json, parts, data)")
    base.close()
    outcome = store.import_transcripts(tmp_path / "half.db", format=format, settle=0)
    assert ["no such table" in fault.what for fault in outcome.merge_reports().unread] == [True]


def test_a_text_of_a_database_that_is_not_utf_8_costs_only_its_characters(store, tmp_path):
    base = sqlite3.connect(tmp_path / "crush.db")
    base.execute("create table sessions (id, parent_session_id, title, created_at)")
    base.execute("create table messages (id, session_id, role, parts, model, created_at)")
    base.execute("insert into sessions values ('s1', null, cast(x'4142ff' as text), 1)")
    for number, words in enumerate(("one", "two", "three"), 1):
        parts = json.dumps([{"type": "text", "data": {"text": words}}]).encode()
        broken = parts.replace(b"two", b"t\xffo")
        query = "insert into messages values (?, 's1', 'user', cast(? as text), 'm', ?)"
        base.execute(query, (f"m{number}", broken, 1775293200 + number))
    base.commit()
    base.close()
    assert not store.import_transcripts(tmp_path, settle=0).merge_reports().unread
    [agent] = store.agents()
    assert (agent.about["title"], said(agent)) == ("AB\ufffd", ["one", "t\ufffdo", "three"])


def test_a_virtual_table_whose_module_is_not_here_keeps_nothing_out(store, tmp_path):
    base = sqlite3.connect(tmp_path / "crush.db")
    base.execute("create table sessions (id, parent_session_id, title, created_at)")
    base.execute("create table messages (id, session_id, role, parts, model, created_at)")
    base.execute("insert into sessions values ('s1', null, 'Chat', 1)")
    parts = json.dumps([{"type": "text", "data": {"text": "go"}}])
    base.execute("insert into messages values ('m1', 's1', 'user', ?, 'm', 1)", (parts,))
    base.execute("create virtual table other using fts5(words)")
    base.execute("pragma writable_schema = on")
    base.execute(
        "update sqlite_master set sql = replace(sql, 'fts5', 'nobody_has_it') where name = 'other'"
    )
    base.commit()
    base.close()
    store.import_transcripts(tmp_path, settle=0)
    [agent] = store.agents()
    assert said(agent) == ["go"]


@pytest.mark.parametrize("id", ["ses\0one", "../../elsewhere"])
def test_the_id_of_a_session_leads_nowhere_out_of_its_folder(store, tmp_path, id):
    storage = tmp_path / "a" / "storage"
    for place, value in (
        ("session/p/s", {"id": id, "title": "T"}),
        ("message/s1/m1", {"id": "m1", "role": "user"}),
        ("../elsewhere/m2", {"id": "m2", "role": "user"}),
        ("part/m2/p1", {"id": "p1", "type": "text", "text": "not yours"}),
    ):
        path = storage / f"{place}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(value))
    store.import_transcripts(storage, settle=0)
    assert not store.search("yours")


UNEXPECTED = {
    "uuid.jsonl": [user("u1", "one", None, 1) | {"uuid": ["x"]}],
    "parent.jsonl": [user("u1", "one", ["x"], 1)],
    "block.jsonl": [
        *(user(f"u{n}", "w" * 9_000, f"u{n - 1}" if n > 1 else None, n) for n in range(1, 12)),
        answer("a1", [{"type": ["x"]}], "u11", 12),
    ],
    "content.json": [{"role": "user", "content": [{"type": ["x"]}]}],
    "deep.json": '{"x":NaN,"q":' + "[" * 700 + "]" * 700 + "}",
}


@pytest.mark.parametrize("name", UNEXPECTED)
def test_a_file_with_unexpected_values_does_not_stop_the_others(store, tmp_path, name):
    content = UNEXPECTED[name]
    if isinstance(content, str):
        (tmp_path / name).write_text(content)
    elif name.endswith("l"):
        write_lines(tmp_path / name, content)
    else:
        (tmp_path / name).write_text(json.dumps(content))
    write_lines(tmp_path / f"{SESSION}.jsonl", [user("u1", "good", None, 1)])
    outcome = store.import_transcripts(tmp_path, settle=0)
    assert any(session.new_events for session in outcome.sessions)
    assert "good" in [event.content for agent in store.agents() for event in agent.messages()]
    report = outcome.merge_reports()
    reported = [fault.source for fault in (*report.unread, *report.notes, *report.damaged)]
    is_readable = name in ("block.jsonl", "parent.jsonl", "uuid.jsonl")  # but for one value
    assert any(name in source for source in reported) != is_readable
    assert store.verify() == []


def test_a_damaged_file_with_no_message_that_can_be_read_is_reported(store, tmp_path):
    chat = {
        "sessionId": "s1",
        "projectHash": "abc",
        "messages": [{"type": "user", "content": "go"}],
    }
    (tmp_path / "session-1.json").write_text(json.dumps(chat, indent=2)[:-40])
    outcome = store.import_transcripts(tmp_path, settle=0)
    assert not outcome.has_news
    assert outcome.merge_reports().damaged


def test_a_format_of_others_that_fails_is_reported(store, tmp_path, monkeypatch):
    def fail(*_):
        raise KeyError("a field")
        yield

    monkeypatch.setattr("backstory.transcripts.claude_code.ClaudeCodeFormat.read", fail)
    path = write_lines(tmp_path / f"{SESSION}.jsonl", [user("u1", "good", None, 1)])
    outcome = store.import_transcripts(path, settle=0)
    [unread] = outcome.merge_reports().unread
    assert "KeyError" in unread.what


def test_a_thread_that_fails_keeps_no_other_out_if_a_time_is_asked_for(
    store, tmp_path, monkeypatch
):
    read_steps = ClaudeTree.read_steps

    def fail_once(tree):
        monkeypatch.setattr(ClaudeTree, "read_steps", read_steps)
        raise KeyError("a field")
        yield

    monkeypatch.setattr(ClaudeTree, "read_steps", fail_once)
    for name in ("one", "two"):
        write_lines(tmp_path / name / f"{name}.jsonl", [user(name, name, None, 1)])
    outcome = store.import_transcripts(tmp_path, settle=0, since=datetime(2026, 2, 1, tzinfo=UTC))
    [unread] = outcome.merge_reports().unread
    assert "KeyError" in unread.what
    assert len(outcome.sessions) == 1
