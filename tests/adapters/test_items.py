"""The items that all adapters share: exact ones, and messages of others. No framework is needed."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import backstory
from backstory.adapters.items import (
    ItemReader,
    StateNotes,
    TurnItem,
    add_usage,
    build_item,
    build_message,
    build_note,
    clean_text,
    read_note,
    write_block,
)
from backstory.wire.neutral import list_parts
from backstory.wire.turns import Media, Text

texts = st.text(st.characters(exclude_categories=()), max_size=8)  # surrogates and NUL included
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=12,
)


class PlainWriter:
    """Writes messages of others as (role, …) tuples."""

    def write_message(self, turn, event):
        yield TurnItem((turn.role, turn.text, len(list_parts(turn))), event.seq)

    def write_answer(self, turn, event):
        names = [call.name for call in turn.calls]
        yield TurnItem(("answer", *turn.texts, *names), event.seq)

    def write_results(self, calls, event):
        yield TurnItem(("results", *(answered.result.text for answered in calls)), event.seq)


@pytest.fixture
def agent():
    return backstory.open(":memory:").start()


def read(agent, limit=None, **options):
    reader = ItemReader("mine", ["mine.item"], PlainWriter(), **options)
    return [item.value for item in reader.read_context(agent, limit)]


# --- items ---


@given(values, texts)
def test_every_item_comes_back_equal_with_the_order_of_its_keys(item, content):
    agent = backstory.open(":memory:").start()
    agent.extend(build_item("mine", item, [("user", content, {"arguments": item})]))
    assert json.dumps(read(agent)) == json.dumps([item])


def test_an_item_of_several_events_is_one_item(agent):
    events = [("assistant", "words", None), ("tool_call", None, {"id": "1", "name": "f"})]
    agent.user("Go.")
    agent.extend(build_item("mine", {"all": 1}, events, id="m1"))
    [question, item] = ItemReader("mine", [], PlainWriter()).read_context(agent)
    assert question.value == ("user", "Go.", 1)
    assert (item.value, item.first, item.last, item.id) == ({"all": 1}, 2, 3, "m1")


@pytest.mark.parametrize("cut", [1, 2])
def test_the_live_part_of_an_item_is_translated(agent, cut):
    events = [
        ("assistant", "words", None),
        ("tool_call", None, {"id": "1", "name": "f"}),
        ("tool_call", None, {"id": "2", "name": "g"}),
    ]
    agent.extend(build_item("mine", {"all": 1}, events))
    agent.jump(cut)
    expected = [("answer", "words", *["f"][: cut - 1])]
    assert read(agent, repair=False) == expected
    agent.undo()
    assert read(agent) == [{"all": 1}]


def test_the_copies_of_a_compaction_are_exact(agent):
    agent.user("old")
    agent.extend(build_item("mine", {"kept": 1}, [("user", "words", None)]))
    agent.compact("a summary", keep=1)
    assert read(agent)[-1] == {"kept": 1}


@pytest.mark.parametrize("position", [1, 2, 3])
def test_erasing_one_event_erases_its_item(agent, position):
    events = [
        ("assistant", "secret one", None),
        ("tool_call", None, {"id": "1", "name": "f", "arguments": {"a": "secret two"}}),
        ("tool_call", None, {"id": "2", "name": "g", "arguments": {"a": "secret three"}}),
    ]
    agent.extend(build_item("mine", {"all": "secret"}, events))
    agent.user("kept")
    assert [event.seq for event in agent.erase([position], why="secrets")] == [1, 2, 3]
    assert "secret " not in "".join(f"{event.content}{event.data_json}" for event in agent.events())
    assert read(agent)[-1] == ("user", "kept", 1)


def test_an_item_inside_of_data_is_not_taken_for_an_item(agent):
    decoy = {"item": {"of": "mine", "json": '{"decoy":1}', "events": 1}}
    agent.tool_call("look", decoy, id="c")
    assert read(agent, repair=False) == [("answer", "look")]


def test_what_a_store_refuses_in_an_event_is_text(agent):
    data = {"id": "\ud800", "name": "", "arguments": {"a": float("nan")}, "other": "\ud800"}
    agent.extend(build_item("mine", {"x": 1}, [("tool_call", None, data)]))
    [event] = agent.messages()
    assert (event.data["id"], event.data["name"]) == ("?", "unknown")
    assert event.data["arguments"] == '{"a":NaN}'
    assert "other" not in event.data


def test_text_has_nothing_that_a_database_refuses():
    assert clean_text("a\0b\ud800c") == "a\ufffdb?c"


# --- messages of others ---


def test_messages_of_others_are_turns_between_the_items(agent):
    agent.extend(build_item("mine", {"n": 1}, [("user", "mine", None)]))
    agent.assistant("I look.")
    agent.tool_call("f", {}, id="c1")
    agent.tool_call("g", {}, id="c2")
    agent.tool_result("c2", "two")
    agent.tool_result("c1", "one")
    agent.extend(build_item("other", {"o": 1}, [("user", "theirs", None)]))
    agent.extend(build_item("mine", {"n": 2}, [("user", "mine", None)]))
    assert read(agent) == [
        {"n": 1},
        ("answer", "I look.", "f", "g"),
        ("results", "one", "two"),
        ("user", "theirs", 1),
        {"n": 2},
    ]


def test_the_newest_result_of_a_call_counts(agent):
    agent.tool_call("f", {}, id="c1")
    agent.tool_result("c1", "requires confirmation", error=True)
    agent.user("yes")
    agent.tool_result("c1", "done")
    assert read(agent) == [("answer", "f"), ("results", "done"), ("user", "yes", 1)]


def test_open_calls_of_others_are_interrupted_unless_nothing_is_repaired(agent):
    agent.tool_call("f", {}, id="c1")
    assert read(agent) == [("answer", "f"), ("results", "interrupted: no result was recorded")]
    assert read(agent, repair=False) == [("answer", "f")]


def test_an_own_open_call_stays_open_until_somebody_else_speaks(agent):
    call = [("tool_call", None, {"id": "c1", "name": "f"})]
    agent.extend(build_item("mine", {"call": 1}, call))
    agent.note("mine.state")
    assert read(agent) == [{"call": 1}]
    agent.user("Never mind.")
    assert read(agent) == [
        {"call": 1},
        ("results", "interrupted: no result was recorded"),
        ("user", "Never mind.", 1),
    ]


def test_an_own_result_answers_a_call_of_another_writer(agent):
    agent.tool_call("f", {}, id="c1")
    agent.extend(build_item("mine", {"r": 1}, [("tool_result", "done", {"id": "c1"})]))
    assert read(agent) == [("answer", "f"), {"r": 1}]


def test_a_result_of_another_writer_follows_the_own_call(agent):
    call = [("tool_call", None, {"id": "c1", "name": "f"})]
    agent.extend(build_item("mine", {"call": 1}, call))
    agent.tool_result("c1", "done")
    assert read(agent) == [{"call": 1}, ("results", "done")]


def test_a_result_of_another_writer_follows_an_own_item_that_ends_with_text(agent):
    call = ("tool_call", None, {"id": "c1", "name": "f"})
    agent.extend(build_item("mine", {"answer": 1}, [call, ("assistant", "I look.", None)]))
    agent.tool_result("c1", "done")
    assert read(agent) == [{"answer": 1}, ("results", "done")]


@given(st.lists(st.sampled_from("uocran"), max_size=12), st.integers(0, 14))
def test_a_limit_gives_the_end_of_all_items(kinds, limit):
    agent = backstory.open(":memory:").start()
    for number, kind in enumerate(kinds):
        if kind == "u":
            agent.user(f"{number}")
        elif kind == "o":
            parts = [("assistant", "own", None), ("user", f"{number}", None)]
            agent.extend(build_item("mine", {"n": number}, parts))
        elif kind == "c":
            agent.tool_call("f", {}, id=f"c{number}")
        elif kind == "r":
            agent.tool_result(f"c{number // 2}", "done")
        elif kind == "a":
            agent.assistant(f"{number}")
        else:
            agent.note("between")
    everything = read(agent)
    assert read(agent, limit=limit) == everything[len(everything) - min(limit, len(everything)) :]


def test_a_store_with_items_of_an_earlier_form_is_read_by_everybody():
    lines = (Path(__file__).parents[1] / "fixtures" / "items-1.jsonl").read_bytes().splitlines()
    store = backstory.open(":memory:")
    store.import_from(lines)
    spoken = [agent for agent in store.agents() if agent.messages()]
    assert len(spoken) == 7
    for agent in spoken:
        adapter = agent.key.partition(":")[0]
        reader = ItemReader(adapter, [], PlainWriter())
        items = [item.value for item in reader.read_context(agent)]
        assert items[0] == ("user", "What is the weather?", 1)
        assert items[1] == ("answer", "look")
        assert "sunny" in items[2][1]
        assert items[3] == ("answer", "It is sunny.")


def test_items_of_an_earlier_form_are_translated(agent):
    data = {"item": {"of": "mine", "form": {"old": 1}}}
    agent.append("user", "words", data)
    assert read(agent) == [("user", "words", 1)]


def test_nothing_is_translated_if_all_items_are_own(agent, monkeypatch):
    agent.extend(build_item("mine", {"n": 1}, [("user", "mine", None)]))
    monkeypatch.setattr("backstory.adapters.items.read_turns", None)
    assert read(agent) == [{"n": 1}]


# --- files ---

PICTURE = Media("image", "image/png", data="QUJD")
PDF = Media("document", "application/pdf", data="QUJD", name="a.pdf")


@pytest.mark.parametrize("kind", ["user", "tool_result"])
def test_files_of_a_message_reach_every_format_that_takes_them(agent, kind):
    parts = [Text("look"), PICTURE, PDF]
    if kind == "tool_result":
        agent.tool_call("f", {}, id="c")
    agent.extend([build_message(kind, parts, {"id": "c"} if kind == "tool_result" else None)])
    assert agent.messages()[-1].content == "look"
    body = repr(agent.conversation().to("anthropic"))
    assert body.count("QUJD") == 2


def test_a_file_without_a_place_is_a_sentence_and_is_reported_once(caplog):
    sound = Media("audio", "audio/x-rare", data="QUJD")
    for _ in range(2):
        assert "cannot be shown" in write_block("anthropic", sound)["text"]
    assert [record.getMessage() for record in caplog.records] == [
        "a framework is given a sentence in place of a file: audio (audio/x-rare)"
    ]
    assert write_block("anthropic", PICTURE)["type"] == "image"


# --- usage, notes and state ---


def test_usage_goes_to_the_first_event():
    events = [("assistant", "a", None), ("tool_call", None, {"id": "1"})]
    [first, second] = add_usage(events, "m", input=5, output=0, cached=None)
    assert first == ("assistant", "a", {"model": "m", "usage": {"input": 5}})
    assert second == events[1]
    assert add_usage(events, None) == [("assistant", "a", {}), second]


@given(values)
def test_a_note_has_any_json(value):
    agent = backstory.open(":memory:").start()
    agent.extend([build_note("mine.note", value)])
    assert json.dumps(read_note(agent.notes("mine.note")[0])) == json.dumps(value)


def test_a_state_is_written_whole_only_now_and_then(agent):
    notes = StateNotes("mine.state", "mine.update")
    expected = {}
    agent.extend([build_note("mine.state", {"values": {"big": "x" * 9_000}})])
    expected["big"] = "x" * 9_000
    for number in range(60):
        changes = {f"k{number}": "y" * 500}
        agent.extend([notes.build(notes.read(agent), changes)])
        expected |= changes
        assert notes.read(agent).current == expected
    complete = agent.notes("mine.state")
    assert 1 < len(complete) < 6


def test_a_state_follows_the_context(agent):
    notes = StateNotes("mine.state", "mine.update")
    agent.extend([build_note("mine.state", {"values": {"a": 1}})])
    agent.mark("here")
    agent.extend([notes.build(notes.read(agent), {"a": 2})])
    agent.rewind("here")
    assert notes.read(agent).current == {"a": 1}
