"""Imported events are compressed in SQLite: smaller in the file, the same for every reader."""

import hashlib
import io
import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

import backstory
from backstory.log.events import StoredRow
from backstory.storage.sqlite.frames import (
    FrameWriter,
    load_old_dictionary,
    read_frame,
    read_neighbour,
)
from backstory.storage.zstd import zstd

LONG = "The quick brown fox jumps over the lazy dog. " * 20
FIRST = 1 << 32  # the ids of the first agent's events begin here
FRAMES = "SELECT id, packed FROM events WHERE packed IS NOT NULL ORDER BY id"


def take_in(store, *events, key="tool/1"):
    with store.intake() as intake:
        intake.extend(intake.agent(key), events)
    return store.agent(key=key)


def frames(path):
    with closing(apsw.Connection(str(path))) as db:
        return dict(db.execute(FRAMES).fetchall())


def raw(path):
    """All bytes of all files of a store."""
    return b"".join(file.read_bytes() for file in Path(path).parent.glob(f"{Path(path).name}*"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store.db"


def damage(path, seq):
    """Flip a bit of one frame."""
    with closing(apsw.Connection(str(path))) as db:
        frame = bytearray(frames(path)[FIRST + seq])
        frame[len(frame) // 2] ^= 0x10
        db.execute("UPDATE events SET packed = ? WHERE id = ?", (bytes(frame), FIRST + seq))


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=50)


@given(st.none() | TEXTS, st.none() | TEXTS, st.sampled_from([1, 3, 200]))
def test_compressed_texts_are_read_as_they_were(content, data_json, times):
    content = None if content is None else content * times
    data_json = None if data_json is None else data_json * times
    row = StoredRow(7, "tool_call", content, data_json, 1, "key", None, b"digest")
    texts = FrameWriter().compress(row)
    if texts.packed is None:
        assert texts == (content, data_json, None, None)
    else:
        assert texts[:2] == (None, None)
        assert read_frame(texts.packed) == (content, data_json)
        assert texts.size == len((content or "").encode()) + len((data_json or "").encode())
        assert len(texts.packed) < texts.size


def test_only_long_imported_messages_are_compressed(path):
    with backstory.open(path) as store:
        call = {"id": "c", "name": "look", "arguments": {"text": LONG}}
        agent = take_in(
            store,
            ("user", LONG),
            ("user", "short"),
            ("note", LONG, {"text": LONG}),
            ("mark", None, {"label": LONG}),
            ("tool_call", None, call),
        )
        agent.append("user", LONG)
        out = io.StringIO()
        store.export_to(out)
    assert list(frames(path)) == [FIRST + 1, FIRST + 5]
    other = path.with_name("other.db")
    with backstory.open(other) as store:
        store.import_from(io.StringIO(out.getvalue()))
    assert list(frames(other)) == [FIRST + 1, FIRST + 5, FIRST + 6]  # here, all are imported


def test_text_that_becomes_no_smaller_is_not_compressed(path):
    noise = "".join(chr(0x21 + byte % 94) for byte in hashlib.shake_128(b"noise").digest(120))
    with backstory.open(path) as store:
        take_in(store, ("user", noise))
    assert frames(path) == {}


@pytest.mark.parametrize(
    ("name", "known"),
    [
        (
            "dictionary.txt",
            "4a06d77919b89fb095a15bc3f0b8596363c8db1662e16f648f28d3ea0b1399ae",
        ),
        (
            "dictionary.tables",
            "2d2653f471272091b0c865818567b0caa891df5fed9eb3d4286bb6bc1c951181",
        ),
    ],
)
def test_the_old_dictionary_never_changes(name, known):
    assert hashlib.sha256(read_neighbour(name)).hexdigest() == known


@pytest.mark.parametrize("with_tables", [False, True])
def test_a_frame_with_an_old_dictionary_is_read(with_tables):
    dictionary = load_old_dictionary(with_tables=with_tables)
    frame = zstd.compress(f'{LONG}\0{{"a":1}}'.encode(), zstd_dict=dictionary)
    assert read_frame(frame) == (LONG, '{"a":1}')


def test_a_new_frame_needs_no_dictionary():
    assert zstd.decompress(compress(LONG)).decode() == LONG


def test_a_frame_of_another_dictionary_is_damage():
    sample = [f"{number} apples and {number * 7} pears".encode() for number in range(2_000)]
    frame = zstd.compress(LONG.encode(), zstd_dict=zstd.train_dict(sample, 1_000))
    with pytest.raises(backstory.Corrupt):
        read_frame(frame)


def test_compressed_events_are_read_from_a_read_only_store(path):
    with backstory.open(path) as store:
        take_in(store, ("user", f"apple {LONG}"), ("assistant", LONG))
    with backstory.open(path, read_only=True) as store:
        assert [event.content for event in store.agent(key="tool/1").events()] == [
            f"apple {LONG}",
            LONG,
        ]
        assert [hit.event.seq for hit in store.search("apple")] == [1]
        assert store.verify() == []


@pytest.mark.parametrize("removed", ["erase", "delete", "expire"])
def test_no_file_of_the_store_contains_a_removed_frame(path, removed):
    with backstory.open(path) as store:
        for no in range(3):
            noise = hashlib.sha256(b"%d" % no).hexdigest()
            came = [("user", f"{LONG} secret{n}x{no} {noise[n:]}{n}") for n in range(60)]
            take_in(store, *came, key=f"tool/{no}")
        store.search("fox")
        agent, before = store.agent(key="tool/1"), frames(path)
        if removed == "erase":
            agent.erase(range(1, 61), why="asked")
        elif removed == "delete":
            store.delete(agent)
        else:
            agent.clear()
            store.expire(agent.events([61])[0].created_at, dead=True, dry_run=False)
        gone = before.keys() - frames(path).keys()
        assert len(gone) == 60
        left = raw(path)
        # The end of a frame is in one piece, wherever its page is split.
        assert [id for id in gone if before[id][-40:] in left] == []
        assert [id for id in before.keys() - gone if before[id][-40:] not in left] == []
        assert store.search("secret5x1") == []
        assert len(store.search("secret5x2")) == 1
        assert store.verify() == []


# --- damage ---


def test_verify_finds_a_damaged_frame(path):
    with backstory.open(path) as store:
        take_in(store, *(("user", f"{n} {LONG}") for n in range(5)))
        damage(path, 3)
        whole, *found = store.verify()
        assert "event 3 of agent 'tool_1'" in whole.problem
        assert {(each.position, each.severity) for each in found} == {(3, "error")}


def test_an_export_of_damaged_events_ends_with_an_error(path):
    with backstory.open(path) as store:
        take_in(store, *(("user", f"{n} {LONG}") for n in range(5)), ("mark",))
        damage(path, 3)
        damage(path, 5)
        out = io.StringIO()
        said = "cannot be completed, because event 3 of agent 'tool_1' is damaged, and 1 more"
        with pytest.raises(backstory.Corrupt, match=said):
            store.export_to(out)
    assert '{"end":' not in out.getvalue()
    seqs = [
        json.loads(line)["event"]["seq"]
        for line in out.getvalue().splitlines()
        if '"event"' in line
    ]
    assert seqs == [1, 2, 4, 6]
    with backstory.open(":memory:") as other, pytest.raises(backstory.Invalid):
        other.import_from(io.StringIO(out.getvalue()))


@pytest.mark.parametrize("cut", [0, 3, -1])
def test_a_frame_that_is_cut_off_is_damaged(cut):
    with pytest.raises(backstory.Corrupt):
        read_frame(compress(LONG)[:cut])


def compress(content):
    row = StoredRow(1, "user", content, None, 1, None, None, b"")
    return FrameWriter().compress(row).packed


def test_a_frame_whose_header_denies_its_checksum_is_damaged():
    frame = bytearray(compress(LONG))
    frame[4] &= ~0x04  # the checksum flag of the frame's header
    with pytest.raises(backstory.Corrupt):
        read_frame(bytes(frame))


def test_bytes_after_a_frame_are_damage():
    with pytest.raises(backstory.Corrupt):
        read_frame(compress(LONG) + b"x")


def test_a_frame_of_many_parts_is_damaged():
    with pytest.raises(backstory.Corrupt):
        read_frame(compress("\0" * 1000))


def test_an_empty_frame_is_damaged_for_the_first_reader(path):
    with backstory.open(path) as store:
        take_in(store, ("user", LONG))
    with closing(apsw.Connection(str(path))) as db:
        db.execute("UPDATE events SET packed = x''")
    with backstory.open(path) as store, pytest.raises(backstory.Corrupt):
        store.agent(key="tool/1").context()


def test_a_damaged_frame_stops_only_reads_of_its_text(path):
    with backstory.open(path) as store:
        agent = take_in(store, *(("user", f"word{n} {LONG}") for n in range(50)))
        other = take_in(store, ("user", LONG), key="tool/2")
        damage(path, 3)
        with pytest.raises(backstory.Corrupt, match="event 3 of agent 'tool_1' is damaged"):
            agent.context()
        assert [event.seq for event in agent.messages(limit=2)] == [49, 50]
        assert agent.context(2).messages[1].content.startswith("word1")
        assert len(agent.outline()) == 50
        assert other.context().messages[0].content == LONG
        assert [hit.event.seq for hit in store.search("word4")] == [5]
        assert store.stats().events == 51
        agent.append("user", "on it goes")
        store.export_to(io.StringIO(), sessions=[other.session])
    with backstory.open(path, read_only=True) as store:
        assert [hit.event.seq for hit in store.search("word4")] == [5]


def test_deleting_an_agent_with_a_damaged_frame_removes_its_words_from_the_index(path):
    with backstory.open(path) as store:
        agent = take_in(store, ("user", f"secretword {LONG}"))
        other = take_in(store, ("user", f"otherword {LONG}"), key="tool/2")
        assert store.search("secretword")
        damage(path, 1)
        store.delete(agent)
        assert store.search("secretword") == []
        assert [hit.agent for hit in store.search("otherword")] == [other]
        assert store.verify() == []
    assert b"secretword" not in raw(path)


def test_a_text_that_an_older_program_writes_removes_the_frame(path):
    with backstory.open(path) as store:
        agent = take_in(store, ("user", f"secret {LONG}"))
        with closing(apsw.Connection(str(path))) as db:
            db.execute("UPDATE events SET content = 'another'")
        assert agent.context().messages[0].content == "another"
        assert frames(path) == {}
        assert [found.position for found in store.verify()] == [1]


def test_verify_finds_that_the_trigger_for_older_programs_is_missing(path):
    with backstory.open(path) as store:
        with closing(apsw.Connection(str(path))) as db:
            db.execute("DROP TRIGGER event_texts")
        [finding] = store.verify()
        assert finding.problem == "the trigger event_texts is missing"


def test_zstd_is_imported_only_if_something_is_compressed(path):
    code = """
import sys, backstory
with backstory.open(sys.argv[1]) as store:
    store.start("main").user("hello " * 100)
    assert store.verify() == []
print([name for name in sys.modules if "zstd" in name])
"""
    found = subprocess.run(
        [sys.executable, "-c", code, path], check=True, capture_output=True, text=True
    )
    assert found.stdout.strip() == "[]"
