"""What an intake brings into SQLite is packed: smaller in the file, the same to everyone who reads it."""

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
from backstory.log.events import EncodedRow
from backstory.storage.sqlite.frames import Packer, dictionary, tables, unpacked
from backstory.storage.zstd import zstd

LONG = "The quick brown fox jumps over the lazy dog. " * 20
FIRST = 1 << 32  # the ids of the first agent's events begin here
FRAMES = "SELECT id, packed FROM events WHERE packed IS NOT NULL ORDER BY id"


def take_in(store, *events, key="tool/1"):
    with store.intake() as intake:
        intake.extend(intake.agent(key), events)
    return store.keyed(key)


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
def test_whatever_is_packed_is_unpacked_the_same(content, data, times):
    content, data = (None if text is None else text * times for text in (content, data))
    encoded = (None if text is None else text.encode() for text in (content, data))
    row = EncodedRow(7, "tool_call", *encoded, 1, "key", None, b"digest")
    [(seq, kind, *said, created, key, base, digest, frame, size)] = Packer().packed([row])
    assert (seq, kind, created, key, base, digest) == (7, "tool_call", 1, "key", None, b"digest")
    if frame is None:
        assert said == [content, data]
        assert size is None
    else:
        assert said == [None, None]
        assert unpacked(frame) == (content, data)
        assert size == len((content or "").encode()) + len((data or "").encode())
        assert len(frame) < size


def test_long_messages_of_an_intake_are_packed_and_nothing_else_is(path):
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
    assert frames(other) == {}


def test_what_becomes_no_smaller_is_not_packed(path):
    noise = "".join(chr(0x21 + byte % 94) for byte in hashlib.shake_128(b"noise").digest(120))
    with backstory.open(path) as store:
        take_in(store, ("user", noise))
    assert frames(path) == {}


@pytest.mark.parametrize(
    ("part", "known"),
    [
        (dictionary, "4a06d77919b89fb095a15bc3f0b8596363c8db1662e16f648f28d3ea0b1399ae"),
        (tables, "2d2653f471272091b0c865818567b0caa891df5fed9eb3d4286bb6bc1c951181"),
    ],
)
def test_the_dictionary_never_changes(part, known):
    assert hashlib.sha256(part()).hexdigest() == known


def test_a_frame_from_before_there_were_tables_is_read():
    bare = zstd.ZstdDict(dictionary(), is_raw=True)
    frame = zstd.compress(f'{LONG}\0{{"a":1}}'.encode(), zstd_dict=bare)
    assert unpacked(frame) == (LONG, '{"a":1}')


def test_a_frame_of_another_dictionary_is_damage():
    sample = [f"{number} apples and {number * 7} pears".encode() for number in range(2_000)]
    frame = zstd.compress(LONG.encode(), zstd_dict=zstd.train_dict(sample, 1_000))
    with pytest.raises(backstory.Corrupt):
        unpacked(frame)


def test_a_store_of_packed_events_is_read_by_those_who_may_only_read(path):
    with backstory.open(path) as store:
        take_in(store, ("user", f"apple {LONG}"), ("assistant", LONG))
    with backstory.open(path, read_only=True) as store:
        assert [event.content for event in store.keyed("tool/1").events()] == [
            f"apple {LONG}",
            LONG,
        ]
        assert [hit.event.seq for hit in store.search("apple")] == [1]
        assert store.verify() == []


@pytest.mark.parametrize("removed", ["erase", "delete", "expire"])
def test_no_file_of_the_store_holds_the_frame_of_what_was_removed(path, removed):
    with backstory.open(path) as store:
        for no in range(3):
            noise = hashlib.sha256(b"%d" % no).hexdigest()
            came = [("user", f"{LONG} secret{n}x{no} {noise[n:]}{n}") for n in range(60)]
            take_in(store, *came, key=f"tool/{no}")
        store.search("fox")
        agent, before = store.keyed("tool/1"), frames(path)
        if removed == "erase":
            agent.erase(range(1, 61), why="asked")
        elif removed == "delete":
            store.delete(agent)
        else:
            agent.clear()
            store.expire(agent.event(61).created_at, dead=True, dry_run=False)
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


def test_a_damaged_frame_is_found_where_it_is(path):
    with backstory.open(path) as store:
        take_in(store, *(("user", f"{n} {LONG}") for n in range(5)))
        damage(path, 3)
        whole, *found = store.verify()
        assert "event 3 of agent 'tool_1'" in whole.problem
        assert {(each.position, each.severity) for each in found} == {(3, "error")}


def test_an_export_of_what_is_damaged_is_not_completed_and_says_so(path):
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
        unpacked(packed_frame(LONG)[:cut])


def packed_frame(content):
    row = EncodedRow(1, "user", content.encode(), None, 1, None, None, b"")
    [(*_, frame, _)] = Packer().packed([row])
    return frame


def test_a_frame_that_no_longer_says_that_it_has_a_checksum_is_damaged():
    frame = bytearray(packed_frame(LONG))
    frame[4] &= ~0x04  # the checksum flag of the frame's header
    with pytest.raises(backstory.Corrupt):
        unpacked(bytes(frame))


def test_bytes_behind_a_frame_are_damage():
    with pytest.raises(backstory.Corrupt):
        unpacked(packed_frame(LONG) + b"x")


def test_a_frame_of_many_parts_is_damaged():
    with pytest.raises(backstory.Corrupt):
        unpacked(packed_frame("\0" * 1000))


def test_an_empty_frame_is_damaged_for_the_first_reader_too(path):
    with backstory.open(path) as store:
        take_in(store, ("user", LONG))
    with closing(apsw.Connection(str(path))) as db:
        db.execute("UPDATE events SET packed = x''")
    with backstory.open(path) as store, pytest.raises(backstory.Corrupt):
        store.keyed("tool/1").context()


def test_a_damaged_frame_stops_only_those_who_need_it(path):
    with backstory.open(path) as store:
        agent = take_in(store, *(("user", f"word{n} {LONG}") for n in range(50)))
        other = take_in(store, ("user", LONG), key="tool/2")
        damage(path, 3)
        with pytest.raises(backstory.Corrupt, match="event 3 of agent 'tool_1' is damaged"):
            agent.context()
        assert [event.seq for event in agent.tail(2)] == [49, 50]
        assert agent.context(2).messages[1].content.startswith("word1")
        assert len(agent.outline()) == 50
        assert other.context().messages[0].content == LONG
        assert [hit.event.seq for hit in store.search("word4")] == [5]
        assert store.stats().events == 51
        agent.append("user", "on it goes")
        store.export_to(io.StringIO(), sessions=[other.session])
    with backstory.open(path, read_only=True) as store:
        assert [hit.event.seq for hit in store.search("word4")] == [5]


def test_an_agent_with_a_damaged_frame_can_be_deleted_and_the_index_keeps_none_of_its_words(path):
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


def test_a_text_that_an_older_program_writes_takes_the_frame_away(path):
    with backstory.open(path) as store:
        agent = take_in(store, ("user", f"secret {LONG}"))
        with closing(apsw.Connection(str(path))) as db:
            db.execute("UPDATE events SET content = 'another'")
        assert agent.context().messages[0].content == "another"
        assert frames(path) == {}
        assert [found.position for found in store.verify()] == [1]


def test_verify_notices_that_the_trigger_for_older_programs_is_gone(path):
    with backstory.open(path) as store:
        with closing(apsw.Connection(str(path))) as db:
            db.execute("DROP TRIGGER event_texts")
        [finding] = store.verify()
        assert finding.problem == "the trigger event_texts is missing"


# --- what it costs others ---


def test_zstd_is_imported_only_where_something_is_packed(path):
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
