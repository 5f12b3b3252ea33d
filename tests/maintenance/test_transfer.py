"""Export and import: without loss between any two stores, in batches, and nothing twice."""

import errno
import io
import itertools
import json
import re
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import backstory
from backstory.agent import Agent
from backstory.maintenance import backup, importer
from backstory.maintenance.importer import IMPORT_BATCH
from backstory.reading import get_record
from tests.conftest import BACKENDS
from tests.maintenance.raw import run_sql

IDS = [f"{number:08x}-0000-7000-8000-000000000000" for number in range(1, 5)]


def exported(store, **options):
    file = io.StringIO()
    store.export_to(file, **options)
    return file.getvalue()


def lines(text):
    return text.splitlines(keepends=True)


def fill(store):
    agent = store.start("main", system="Be careful.")
    agent.user("Which files? \u202e \x9b \x7f \x1b[31m é 日本")
    agent.tool_call("glob", {"pattern": "*.py", "nul": "a\0b"}, id="c1")
    agent.mark("x")
    agent.append("rewind", None, {"target_message_id": 99})  # inert
    agent.rewind("x")
    child = agent.fork("child", at=3)
    child.extend([("user", f"n{n}", None) for n in range(IMPORT_BATCH + 7)])
    grandchild = child.fork("grandchild", at=5)
    grandchild.clear()
    agent.spawn("sub").user("hello")
    agent.fork("at nothing", at=0)
    store.start("other").user("another session")
    return agent


@pytest.mark.parametrize(("first", "second"), list(itertools.product(BACKENDS, repeat=2)))
def test_exported_imported_and_exported_again_is_the_same(new_url, first, second):
    with backstory.open(new_url(first)) as one, backstory.open(new_url(second)) as other:
        fill(one)
        text = exported(one)
        assert other.import_from(lines(text)) == (2, 6, IMPORT_BATCH + 16)
        assert exported(other) == text
        assert other.verify() == []
        for agent in one.agents():
            there = other.agent(agent.id)
            assert there.context() == agent.context()
            assert there.events() == agent.events()
            record = get_record(one._backend, one.agent(agent.id))
            assert get_record(other._backend, there)._replace(pk=record.pk) == record


def test_events_of_the_store_are_skipped_and_the_rest_is_added(url):
    with backstory.open(":memory:") as one, backstory.open(url) as other:
        agent = fill(one)
        other.import_from(lines(exported(one)))
        assert other.import_from(lines(exported(one))) == (0, 0, 0)
        agent.user("later")
        agent.fork("newer").user("still later")
        assert other.import_from(lines(exported(one))) == (0, 1, 2)
        assert exported(other) == exported(one)
        assert other.verify() == []
        other.agent(agent.id).user("continues here")
        assert other.import_from(lines(exported(one))) == (0, 0, 0)
        assert other.agent(agent.id).head == agent.head + 1


def test_a_name_that_was_changed_here_stays(url):
    with backstory.open(":memory:") as one, backstory.open(url) as other:
        agent = one.start("main")
        other.import_from(lines(exported(one)))
        other.agent("main").rename("mine")
        other.import_from(lines(exported(one)))
        assert other.agent(agent.id).name == "mine"


def test_histories_that_have_diverged_are_refused_and_nothing_is_written(url):
    with backstory.open(":memory:") as one, backstory.open(url) as other:
        agent = one.start("main")
        agent.user("one")
        other.import_from(lines(exported(one)))
        other.agent("main").user("here")
        agent.user("there")
        one.start("second").user("never arrives")
        before = exported(other)
        with pytest.raises(
            backstory.Conflict, match="has another event at 2, so the two histories"
        ) as raised:
            other.import_from(lines(exported(one)))
        assert raised.value.head == 2
        assert exported(other) == before


def test_an_export_of_one_session_contains_all_its_agents(store):
    agent = fill(store)
    text = exported(store, sessions=[agent.session])
    assert '"name":"other"' not in text
    assert '"name":"grandchild"' in text


@pytest.mark.parametrize("backend", BACKENDS)
def test_inherited_events_of_a_deleted_agent_keep_their_keys(new_url, backend):
    with backstory.open(":memory:") as store:
        root = store.start("main")
        root.append("user", "one", key="a")
        fork = root.fork("fork")
        fork.append("user", "two", key="b")
        last = fork.fork("last")
        last.append("user", "three", key="c")
        store.delete(root)
        store.delete(fork)
        text = exported(store)
    with backstory.open(new_url(backend)) as other:
        other.import_from(io.StringIO(text))
        assert exported(other) == text
        assert {key: other.agent("last").find(key).seq for key in "abc"} == {"a": 1, "b": 2, "c": 3}


def test_an_agent_may_be_deleted_before_the_time_at_which_it_was_created(new_url):
    """As when the clock of its machine was ahead."""
    with backstory.open(new_url("memory")) as store:
        with store.intake() as intake:
            agent = intake.agent("early", created_at=datetime.now(UTC) + timedelta(300))
            intake.extend(agent, [("user", "hi")])
        store.agent("early").fork("child").user("there")
        store.delete(store.agent("early"))
        assert {finding.severity for finding in store.verify()} <= {"warning"}
        text = exported(store)
    with backstory.open(new_url("memory")) as store:
        store.import_from(lines(text))
        assert [event.content for event in store.agent("child").events()] == ["hi", "there"]
        assert exported(store) == text


def test_an_export_is_a_snapshot_of_its_beginning(store):
    agent = store.start("main")
    agent.user("before")
    text = exported(store)

    class Slow(io.StringIO):
        def write(self, text):
            agent.user("meanwhile")
            agent.fork()
            return super().write(text)

    file = Slow()
    assert store.export_to(file) == (1, 1, 1)
    assert file.getvalue() == text


class DeletingFile(io.StringIO):
    """Someone deletes an agent as soon as an export writes its first line."""

    def __init__(self, agent, store):
        super().__init__()
        self.delete = [lambda: store.delete(agent)]

    def write(self, text):
        if self.delete:
            self.delete.pop()()
        return super().write(text)


def test_an_export_reports_an_agent_that_is_deleted_meanwhile(store):
    agent = store.start("main", system="Be careful.")
    with pytest.raises(backstory.Busy, match="agent 'main' was deleted while it was exported"):
        store.export_to(DeletingFile(agent, store))


def test_a_backup_starts_again_if_an_agent_is_deleted_meanwhile(store, tmp_path, monkeypatch):
    gone, kept = store.start("gone", system="a"), store.start("kept", system="b")
    gone.fork("child").user("c")
    read_rows, delete = store._backend.read_rows, [lambda: store.delete(gone, below=True)]

    def delete_and_read(*arguments):
        if delete:
            delete.pop()()
        return read_rows(*arguments)

    monkeypatch.setattr(store._backend, "read_rows", delete_and_read)
    store.backup(tmp_path / "copy.db")
    with backstory.open(tmp_path / "copy.db") as copy:
        assert copy.verify() == []
        assert copy.agent(kept.id).head == 1


def test_a_backup_gives_up_if_agents_are_deleted_again_and_again(tmp_path, monkeypatch):
    attempts = []

    def fail(backend, lines):
        attempts.append((lines.tell(), lines.read()))
        lines.write("the first line\n")
        raise backstory.Busy("an agent was deleted")

    monkeypatch.setattr(backup, "export_sessions", fail)
    with backstory.open(":memory:") as store, pytest.raises(backstory.Busy):
        store.backup(tmp_path / "copy.db")
    assert attempts == [(0, "")] * backup.EXPORT_ATTEMPTS
    assert list(tmp_path.iterdir()) == []


def test_an_export_cannot_control_a_terminal(store):
    fill(store)
    text = exported(store)
    assert "é 日本" in text
    for character in "\u202e\x9b\x7f\x1b\0":
        assert character not in text


def without_digests(text):
    """An export as the first version of the format wrote it."""
    return re.sub(r',"(digest|salt)":"[0-9a-f]+"', "", text)


def test_an_export_without_salts_gets_new_ones_and_can_be_imported_again(url):
    with backstory.open(":memory:") as one, backstory.open(url) as other:
        agent = one.start("main")
        agent.user("x")
        agent.user("secret")
        agent.fork("fork").user("y")
        agent.erase([2], why="asked")
        older = without_digests(exported(one)).replace('"version":3', '"version":2')
        assert other.import_from(lines(older)).events == 3
        assert other.verify() == []
        assert other.agent("main").digest() != agent.digest()
        assert other.import_from(lines(older)).events == 0


def test_an_event_that_was_changed_in_the_file_is_refused(url):
    with backstory.open(":memory:") as one, backstory.open(url) as other:
        one.start("main").user("Which files are here?")
        with pytest.raises(backstory.Invalid, match="position 1: it does not fit its digest"):
            other.import_from(lines(exported(one).replace("Which", "What")))
        assert other.agents() == []


def test_data_in_another_spelling_is_imported_unchanged(tmp_path):
    path = str(tmp_path / "one.db")
    with backstory.open(path) as one, backstory.open(":memory:") as other:
        one.start("main").user("x")
        run_sql(path, """UPDATE events SET data = '{ "a" : 1 }'""")
        other.import_from(lines(without_digests(exported(one))))
        assert other.agent("main").events()[0].data_json == '{ "a" : 1 }'
        assert without_digests(exported(other)) == without_digests(exported(one))


def test_an_unknown_kind_is_imported_unchanged(tmp_path):
    path = str(tmp_path / "one.db")
    with backstory.open(path) as one, backstory.open(":memory:") as other:
        one.start("main").user("x")
        run_sql(path, "UPDATE events SET kind = 'poem'")
        other.import_from(lines(without_digests(exported(one))))
        assert other.agent("main").events()[0].kind == "poem"


HEADER = {"format": "backstory-export", "version": 1}
AGENT = {
    "id": IDS[0],
    "session": IDS[0],
    "name": "main",
    "parent": None,
    "fork_seq": 0,
    "born_seq": 0,
    "spawned": False,
    "created_us": 10,
}
EVENT = {"seq": 1, "kind": "user", "content": "x", "data": None, "created_us": 10, "base": None}
CHILD = {**AGENT, "id": IDS[1], "name": "child", "parent": IDS[0]}
REWIND = {**EVENT, "kind": "rewind", "content": None, "data": {"target_message_id": 0}}


def a(**changes):
    return {"agent": {**AGENT, **changes}}


def e(**changes):
    return {"event": {**EVENT, **changes}}


REFUSED = {
    "nothing at all": ([], "not an export of backstory"),
    "another file": ([{"messages": []}], "not an export of backstory"),
    "a newer format": ([{**HEADER, "version": 4}], "upgrade backstory"),
    "an event without an agent": (
        [HEADER, e()],
        "line 2 of the export: the event comes before its agent",
    ),
    "something else": ([HEADER, {"poem": {}}], "line 2 .* not an object with an agent or an event"),
    "two in one": ([HEADER, {**a(), **e()}], "not an object with an agent or an event"),
    "a field is missing": ([HEADER, {"agent": {"id": IDS[0]}}], "line 2 .*'session' is missing"),
    "an id that is not one": ([HEADER, a(id="x", session="x")], "'x' is not an id"),
    "a root of another session": ([HEADER, a(session=IDS[1])], "the root of a session"),
    "an impossible name": ([HEADER, a(name="a/b")], "cannot be a name"),
    "a parent that is not there": (
        [HEADER, a(), a(**{**CHILD, "parent": IDS[2]})],
        "does not come before it",
    ),
    "a fork beyond its parent": ([HEADER, a(), a(**{**CHILD, "fork_seq": 1})], "forked at 1"),
    "a gap": ([HEADER, a(), e(seq=2)], "position 2: positions 1 to 1 before it are missing"),
    "an agent that comes twice": ([HEADER, a(), a()], "comes twice"),
    "the same position twice": ([HEADER, a(), e(), e()], "position 1: it comes after position 1"),
    "time runs backwards": (
        [HEADER, a(), e(created_us=9)],
        "position 1: its time is 1 microseconds before",
    ),
    "a base against the rules": (
        [HEADER, a(), e(base=0)],
        "position 1: its base is 0, but .* None",
    ),
    "a clear without its base": (
        [HEADER, a(), e(kind="clear", content=None)],
        "is None, but the rules make it 0",
    ),
    "a rewind to no mark": (
        [HEADER, a(), {"event": {**REWIND, "base": 0}}],
        "position 1: its base is 0",
    ),
    "a message without content": ([HEADER, a(), e(content=None)], "its content is missing"),
    "content that is no text": ([HEADER, a(), e(content=5)], "its content is not text"),
    "a NUL character": ([HEADER, a(), e(content="a\0b")], "its content contains a NUL"),
    "a lone surrogate": (
        [HEADER, a(), e(content="\ud800")],
        "its content contains a lone surrogate",
    ),
    "data that is no object": ([HEADER, a(), e(data=[1])], "data is not a JSON object"),
    "a key twice": (
        [HEADER, a(), e(key="k"), e(seq=2, key="k")],
        "line 4 .* position 2: it has the key 'k', which position 1 of its lineage has",
    ),
    "no end": ([HEADER, a(), e()], "cut off"),
    "an end that counts more": (
        [HEADER, a(), {"end": {"sessions": 1, "agents": 1, "events": 1}}],
        "line 3 .* lines are missing",
    ),
    "something after the end": (
        [HEADER, {"end": {"sessions": 0, "agents": 0, "events": 0}}, a()],
        "line 3 .* more after the end",
    ),
    "a position that is no number": ([HEADER, a(), e(seq="1")], "whole numbers"),
    "a time that is no number": ([HEADER, a(created_us=1.5)], "whole numbers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_impossible_line_is_refused_with_its_number_and_writes_nothing(url, case):
    values, problem = REFUSED[case]
    with backstory.open(url) as store:
        with pytest.raises(backstory.Invalid, match=problem):
            store.import_from([json.dumps(value) + "\n" for value in values])
        assert store.agents() == []


@pytest.mark.parametrize("line", ["{broken", "[" * 100_000, '{"agent":' * 100_000])
def test_a_broken_line_is_refused_with_its_number(store, line):
    with pytest.raises(backstory.Invalid, match="nothing was imported: line 2 of the export: "):
        store.import_from([json.dumps(HEADER), line])


def test_a_file_that_ends_within_a_line_is_refused_and_writes_nothing(url):
    with backstory.open(":memory:") as one, backstory.open(url) as other:
        fill(one)
        text = exported(one)
        with pytest.raises(backstory.Invalid, match="nothing was imported"):
            other.import_from(lines(text[: len(text) * 2 // 3]))
        assert other.agents() == []


def test_a_file_that_is_cut_at_the_end_of_a_line_is_refused(url):
    with backstory.open(":memory:") as one, backstory.open(url) as other:
        fill(one)
        complete = lines(exported(one))
        for length in (1, 2, 5, len(complete) - 1):
            with pytest.raises(backstory.Invalid, match="cut off"):
                other.import_from(complete[:length])
        assert other.agents() == []


def test_a_name_that_another_agent_has_here_is_refused(url):
    with backstory.open(":memory:") as one, backstory.open(url) as other:
        agent = one.start("main")
        other.import_from(lines(exported(one)))
        agent.fork("idea")
        other.agent("main").fork("idea")
        with pytest.raises(backstory.NameTaken):
            other.import_from(lines(exported(one)))
        assert len(other.agents()) == 2


# --- batches ---


class Killed(BaseException):
    """Stands for a kill between two transactions."""


def run_after_batches(store, monkeypatch, function):
    """Call a function with the number of transactions so far, after each of them."""
    begin = store._backend.begin
    count = itertools.count(1)

    @contextmanager
    def begin_and_call(**locks):
        with begin(**locks) as transaction:
            yield transaction
        function(next(count))

    monkeypatch.setattr(store._backend, "begin", begin_and_call)


def test_an_import_that_is_killed_is_continued_by_the_next(url, monkeypatch):
    with backstory.open(":memory:") as one, backstory.open(url) as other:
        fill(one)
        text = exported(one)

        def kill(number):
            raise Killed

        sizes = [0]
        with monkeypatch.context() as patch:
            run_after_batches(other, patch, kill)
            for _ in range(2):
                with pytest.raises(Killed):
                    other.import_from(lines(text))
                assert other.verify() == []
                sizes.append(other.stats().events)
        assert sizes[0] < sizes[1] < sizes[2]
        assert other.import_from(lines(text)) == (0, 0, 0)
        assert exported(other) == text


def test_lines_that_are_no_text_are_refused(store):
    for lines_ in ([5], [None, 5]):
        with pytest.raises(backstory.Invalid, match="not an export"):
            store.import_from(lines_)


def test_a_full_disk_is_reported_and_nothing_is_imported(store, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with backstory.open(":memory:") as one:
        fill(one)
        text = exported(one)
    monkeypatch.setattr(importer.pickle, "dump", fail)
    with pytest.raises(backstory.StorageError, match="No space left"):
        store.import_from(lines(text))
    assert store.agents() == []


def test_others_write_between_two_batches_of_an_import(url, monkeypatch):
    with backstory.open(":memory:") as one, backstory.open(url) as store:
        one.start("long").extend([("user", "hello", None)] * (3 * IMPORT_BATCH))
        mine = store.start("mine")
        run_after_batches(store, monkeypatch, lambda number: Agent.user(mine, f"{number}"))
        store.import_from(lines(exported(one)))
        assert [event.content for event in mine.events()] == ["1", "2", "3", "4"]


def test_an_agent_that_is_written_to_during_its_import_is_not_mixed_up(url, monkeypatch):
    with backstory.open(":memory:") as one, backstory.open(url) as store:
        one.start("long").extend([("user", "hello", None)] * (2 * IMPORT_BATCH))

        def write(number):
            if number == 1:
                store.agent("long").user("meanwhile")

        run_after_batches(store, monkeypatch, write)
        with pytest.raises(backstory.Conflict, match="'long' was changed while it was imported"):
            store.import_from(lines(exported(one)))
        assert store.verify() == []
        with pytest.raises(backstory.Conflict, match="the two histories have diverged"):
            store.import_from(lines(exported(one)))


def test_an_agent_that_is_deleted_during_its_import_does_not_come_back(url, monkeypatch):
    with backstory.open(":memory:") as one, backstory.open(url) as store:
        one.start("long").extend([("user", "hello", None)] * (2 * IMPORT_BATCH))

        def delete(number):
            if number == 1:
                store.delete("long")

        run_after_batches(store, monkeypatch, delete)
        with pytest.raises(backstory.Conflict, match="was changed while it was imported"):
            store.import_from(lines(exported(one)))
        assert store.agents() == []
        assert store.verify() == []


def test_the_sources_of_an_agent_come_with_its_last_event(url, monkeypatch):
    with backstory.open(":memory:") as one, backstory.open(url) as store:
        with one.intake() as intake:
            agent = intake.agent("key", name="long")
            intake.extend(agent, [("user", "hello")] * (2 * IMPORT_BATCH))
            intake.remember("tool", "file", agent=agent, cursor={"size": 1})
            other = intake.agent("another key")
            intake.remember("tool", "another file", agent=other)
        seen = []
        run_after_batches(
            store, monkeypatch, lambda number: seen.append(store._backend.list_sources())
        )
        store.import_from(lines(exported(one)))
        assert seen[0] == []
        assert seen[-1] == one._backend.list_sources() != []


@pytest.mark.parametrize("error", [backstory.KeyTaken, backstory.NameTaken])
def test_what_the_store_has_already_is_refused_before_the_first_batch(url, error):
    with backstory.open(":memory:") as one, backstory.open(url) as store:
        main = one.start("main")
        store.import_from(lines(exported(one)))
        main.extend([("user", "hello", None)] * (IMPORT_BATCH + 1))
        if error is backstory.NameTaken:
            main.fork("taken")
            store.agent("main").fork("taken")
        else:
            gone = one.ensure("taken")
            gone.spawn("child")  # keeps the row of its parent, and thereby the id
            one.delete(gone)
            one.ensure("taken")
            store.ensure("taken")
        with pytest.raises(error):
            store.import_from(lines(exported(one)))
        assert store.agent(main.id).head == 0


def test_a_page_of_a_store_in_memory_does_not_read_the_rest(monkeypatch):
    from backstory.storage.memory import MemoryAgent

    with backstory.open(":memory:") as store:
        agent = store.start("main")
        agent.extend([("user", "hello", None)] * 10)
        record = get_record(store._backend, agent)
        child = get_record(store._backend, agent.fork("child"))
        select_rows, read = MemoryAgent.select_rows, []

        def count_rows(self, low, high):
            rows = select_rows(self, low, high)
            read.append(len(rows))
            return rows

        monkeypatch.setattr(MemoryAgent, "select_rows", count_rows)
        assert [row.seq for row in store._backend.read_rows(record, 3, 2)] == [4, 5]
        assert [row.seq for row in store._backend.read_rows(record, -1, 3)] == [1, 2, 3]
        assert [row.seq for row in store._backend.read_rows(record, 9, 5)] == [10]
        assert store._backend.read_rows(child, -1, 5) == []
        assert read == [2, 3, 1, 0]


steps = st.lists(
    st.tuples(
        st.sampled_from(["user", "mark", "rewind", "clear", "jump", "undo", "fork", "spawn"]),
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20),
        st.integers(0, 30),
    ),
    max_size=25,
)


@given(steps)
@settings(max_examples=60)
def test_any_history_is_exported_and_imported_without_loss(moves):
    with backstory.open(":memory:") as one, backstory.open(":memory:") as other:
        agents = [one.start("main")]
        for move, text, number in moves:
            agent = agents[number % len(agents)]
            try:
                match move:
                    case "user":
                        agent.append("user", text)  # user() would refuse an empty one
                    case "mark":
                        agent.mark(text)
                    case "jump":
                        agent.jump(min(number, agent.head))
                    case "fork":
                        agents.append(agent.fork(at=min(number, agent.head)))
                    case "spawn":
                        agents.append(agent.spawn())
                    case _:
                        getattr(agent, move)()
            except backstory.NotFound:
                continue
        text = exported(one)
        other.import_from(lines(text))
        assert exported(other) == text
        assert other.verify() == []


# --- backups ---


def test_a_backup_is_a_store_like_any_other(url, tmp_path):
    with backstory.open(url) as store:
        agent = fill(store)
        store.backup(tmp_path / "copy.db")
        agent.user("after the backup")
        with backstory.open(tmp_path / "copy.db") as copy:
            assert copy.verify() == []
            assert copy.agent(agent.id).events() == agent.events()[:-1]
            copy.agent(agent.id).user("it continues")
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_backup_replaces_nothing(store, tmp_path):
    (tmp_path / "copy.db").write_text("mine")
    with pytest.raises(backstory.CannotOpen, match="already exists"):
        store.backup(tmp_path / "copy.db")
    assert (tmp_path / "copy.db").read_text() == "mine"
    with pytest.raises(backstory.CannotOpen, match="does not exist: create it first"):
        store.backup(tmp_path / "missing" / "copy.db")


def test_a_backup_while_others_write_is_of_one_moment(durable_url, tmp_path):
    import threading

    with backstory.open(durable_url) as store:
        agent = store.start("main")
        agent.extend([("user", "x" * 500, None)] * 2_000)
        stop = threading.Event()

        def write():
            while not stop.is_set():
                agent.extend([("user", "one", None), ("user", "two", None)])

        writer = threading.Thread(target=write)
        writer.start()
        for number in range(3):
            store.backup(tmp_path / f"{number}.db")
        stop.set()
        writer.join()
        for number in range(3):
            with backstory.open(tmp_path / f"{number}.db") as copy:
                assert copy.verify() == []
                assert copy.agent("main").head % 2 == 0  # batches are complete
                assert copy.agent("main").head >= 2_000


def test_an_import_stops_if_its_agent_is_deleted_meanwhile(store, monkeypatch):
    with backstory.open(":memory:") as source:
        source.start("main").extend([("user", str(number)) for number in range(3 * IMPORT_BATCH)])
        text = exported(source)
    write = importer._write_batch

    def write_and_delete(backend, batch):
        write(backend, batch)
        for agent in store.agents():
            if agent.name == "main":
                agent.fork("a fork of it")
                store.delete(agent)

    monkeypatch.setattr(importer, "_write_batch", write_and_delete)
    with pytest.raises(backstory.Conflict, match="was changed while it was imported"):
        store.import_from(lines(text))
    assert [agent.name for agent in store.agents()] == ["a fork of it"]
