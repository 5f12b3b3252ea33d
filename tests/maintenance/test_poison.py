"""Values that no store should contain: imports refuse them, verify finds them, reads survive them."""

import io
import json
import stat
from contextlib import closing

import apsw
import pytest

import backstory
from tests.cli.conftest import Shell
from tests.threads import in_threads

FAR = 2**62


def change_export(*, event=(), agent=(), fork=()):
    """The lines of an export of one session with a fork, with other values."""
    with backstory.open(":memory:") as store:
        root = store.start("main")
        root.user("one")
        root.user("two")
        root.fork("fork", at=1)
        file = io.StringIO()
        store.export_to(file)
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    agents = [line["agent"] for line in lines if "agent" in line]
    agents[0].update(agent)
    agents[1].update(fork)
    for line in lines:
        if "event" in line:
            line["event"].pop("digest")
            line["event"].update(event if line["event"]["seq"] == 2 else {})
    return [json.dumps(line) for line in lines]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"event": {"created_us": FAR}}, "its time is not between 1970 and 9999"),
        ({"event": {"kind": "\x1b[31muser"}}, "its kind is not a word"),
        ({"event": {"kind": "x" * 65}}, "its kind is not a word"),
        ({"event": {"key": ""}}, "its key does not have"),
        ({"event": {"key": "x" * 1_001}}, "its key does not have"),
        ({"event": {"content": None}}, "its content is missing"),
        ({"event": {"kind": "tool_call", "content": None}}, "its data is missing"),
        ({"event": {"kind": "tool_result"}}, "its data is missing"),
        ({"event": {"data": {"erased": True}}}, "its erasure record is incomplete"),
        ({"agent": {"created_us": FAR}}, "its time is not between 1970 and 9999"),
        ({"event": {"data_text": "[" * 100_000}}, "its data is not a JSON object"),
        ({"agent": {"about": "[1]"}}, "its details are not a JSON object"),
        ({"agent": {"about": '{"tags": 5}'}}, "tags must be a list"),
        ({"agent": {"about": '{"title": ["x"]}'}}, "a title must be a non-empty string"),
        ({"agent": {"about": '{"x": "%s"}' % ("y" * 70_000)}}, "may take 65,536 bytes"),
        ({"agent": {"key": "not its own"}}, "id is not the one of its key"),
        ({"agent": {"sources": [["tool", "id"]]}}, "a source is a list of a tool, an id and"),
        ({"agent": {"sources": [["tool\ud800", "id", None]]}}, "surrogates not allowed"),
        ({"agent": {"sources": [["tool", "id\ud800", None]]}}, "surrogates not allowed"),
        ({"agent": {"sources": [["tool", "id", "\ud800"]]}}, "surrogates not allowed"),
        ({"fork": {"deleted_us": -1}}, "time of its deletion is not between 1970 and 9999"),
        ({"fork": {"deleted_us": FAR}}, "time of its deletion is not between 1970 and 9999"),
        ({"fork": {"id": "0" * 36}}, "is not an id"),
        ({"fork": {"id": "0000000000000000-00000000000000000000"}}, "is not an id"),
        ({"fork": {"born_seq": 2}}, "birth is recorded at 2, where it was neither"),
        (
            {"fork": {"spawned": True, "fork_seq": 0, "born_seq": 9}},
            "birth is recorded at 9, where it was neither",
        ),
    ],
)
def test_an_import_refuses_impossible_values_with_their_line(store, change, problem):
    store.import_from(change_export())
    count = len(store.agents())
    with pytest.raises(backstory.Invalid, match=f"nothing was imported: line .*{problem}"):
        store.import_from(change_export(**change))
    assert (len(store.agents()), store.verify()) == (count, [])


def test_an_import_refuses_a_fork_that_is_older_than_its_first_event(store):
    lines = [json.loads(line) for line in change_export()]
    [_, fork] = [line["agent"] for line in lines if "agent" in line]
    [first, _] = [line["event"] for line in lines if "event" in line]
    fork["created_us"] = first["created_us"] - 1
    with pytest.raises(backstory.Invalid, match="recorded before the event that it was forked at"):
        store.import_from([json.dumps(line) for line in lines])


def test_reads_survive_impossible_values_and_verify_finds_them(tmp_path):
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        store.start("main").user("one apple")
        store.agent("main").user("two")
    db = apsw.Connection(str(path))
    db.execute(
        "UPDATE events SET created_at = 4611686018427387904, kind = 'user' || char(27) || '[31m'"
    )
    db.close()
    with backstory.open(path) as store:
        [session] = store.sessions()
        assert session.updated_at.year == 9999
        assert store.agent("main").events()[1].created_at.year == 9999
        assert len(store.search("apple")) == 1
        problems = {finding.problem for finding in store.verify()}
        assert {
            "its time is not between 1970 and 9999",
            "its kind is not a word of small letters",
        } <= problems
    shell = Shell(str(path), tmp_path)
    for command in (["log"], ["sessions"], ["search", "apple"], ["show", "main@1"], ["agents"]):
        assert "\x1b[31m" not in shell(*command).out
        assert "\x1b[31muser" not in shell.on_terminal(*command).out
        assert "user\x1b[31m" not in shell.on_terminal(*command).out


def test_others_write_while_an_import_waits_for_its_lines(store, agent):
    lines = iter(change_export())

    def slow():
        yield next(lines)
        yield next(lines)
        in_threads(
            lambda nth: agent.user("meanwhile"), 1
        )  # while the import waits for its next line
        yield from lines

    assert store.import_from(slow()).agents == 2
    assert agent.head == 1


def test_new_files_are_private_and_old_ones_keep_their_rights(tmp_path):
    path, copy = tmp_path / "history.db", tmp_path / "copy.db"
    with backstory.open(path) as store:
        store.start("main").user("secret")
        store.backup(copy)
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
        assert {"history.db", "history.db-wal", "copy.db"} <= modes.keys()
        assert set(modes.values()) == {0o600}
    path.chmod(0o644)
    with backstory.open(path) as store:
        store.agent("main").user("more")
        assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_backup_of_another_database_is_private_too(new_url, tmp_path):
    with backstory.open(new_url("memory")) as store:
        store.start("main").user("secret")
        store.backup(tmp_path / "copy.db")
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600


def test_an_import_refuses_a_key_that_two_events_of_a_lineage_have(store):
    with backstory.open(":memory:") as other:
        root = other.start("main")
        root.append("user", "one", key="a")
        root.fork("fork").append("user", "two", key="b")
        file = io.StringIO()
        other.export_to(file)
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    for line in lines:
        if "event" in line:
            line["event"].update(digest=None, key="a")
    with pytest.raises(
        backstory.Invalid, match="position 2: it has the key 'a', which position 1 of its lineage"
    ):
        store.import_from(map(json.dumps, lines))
    assert store.agents() == []


@pytest.mark.parametrize("about", ['{"tags": 5, "title": 7}', '{"tags": [5, "x"]}', '"text"'])
def test_a_broken_description_is_found_and_stops_no_listing(tmp_path, about):
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        store.start("main").user("one")
    with closing(apsw.Connection(str(path))) as db:
        db.execute("UPDATE agents SET about = ?", (about,))
    with backstory.open(path) as store:
        [session] = store.sessions()
        assert (session.title, set(session.tags) - {"x"}) == (None, set())
        assert len(store.search("one")) == 1
        assert [finding.severity for finding in store.verify()] == ["error"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            "UPDATE agents SET key = 'yours' WHERE key = 'mine'",
            "its id is not the one of its key 'yours'",
        ),
        ("UPDATE agents SET key = NULL", "its id is that of a key, which is missing"),
        (
            "UPDATE events SET key = 'a'",
            "it has the key 'a', which position 1 of its lineage has, too",
        ),
    ],
)
def test_verify_finds_keys_of_other_agents_and_repeated_keys(tmp_path, change, problem):
    path = tmp_path / "history.db"
    with backstory.open(path) as store:
        root = store.ensure("mine")
        root.append("user", "one", key="a")
        child = root.fork("child")
        child.append("user", "two", key="b")
        before = store.verify()
    with closing(apsw.Connection(str(path))) as db:
        db.execute(change)
    with backstory.open(path) as store:
        problems = {finding.problem for finding in store.verify()}
    assert before == []
    assert problem in problems
