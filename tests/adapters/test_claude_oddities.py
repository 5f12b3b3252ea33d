"""The session store of the Claude Agent SDK: odd ids and lines, and what writes nothing."""

import pytest

import backstory
from backstory import AgentNotFound
from backstory.adapters.claude import BackstorySessionStore
from tests.adapters.claude_lines import KEY, Transcript, story, text, use


@pytest.fixture
def store(durable_url):
    store = BackstorySessionStore(durable_url)
    yield store
    store.close()


LONG = "a/b@é " * 900


@pytest.mark.parametrize("name", ["project_key", "session_id", "subpath"])
def test_ids_of_any_length_are_listed_as_they_are(store, run, name):
    key = {"project_key": "p", "session_id": "s", "subpath": "x/y"} | {name: LONG}
    main = {part: key[part] for part in ("project_key", "session_id")}
    lines = story().lines
    for each in (main, key):
        run(store.append(each, lines))
    [listed] = run(store.list_sessions(key["project_key"]))
    assert listed["session_id"] == key["session_id"]
    assert [
        each["session_id"] for each in run(store.list_session_summaries(key["project_key"]))
    ] == [key["session_id"]]
    assert run(store.list_subkeys(main)) == [key["subpath"]]
    run(store.delete(main))
    assert (run(store.load(main)), run(store.load(key))) == (None, None)


def test_what_is_no_line_and_a_fork_of_nothing_write_nothing(store, durable_url, run):
    with pytest.raises(TypeError):
        run(store.append(KEY, [story().lines[0], "a text"]))
    with pytest.raises(TypeError):
        run(store.append(KEY, [story().lines[0], {"type": object()}]))
    with pytest.raises(AgentNotFound):
        store.fork(KEY, "other")
    with backstory.open(durable_url) as opened:
        assert opened.agents() == []


def test_a_line_without_anything_comes_back(store, run):
    lines = [{"type": "user", "uuid": "1"}, {}, {"type": "mode"}]
    run(store.append(KEY, lines))
    assert run(store.load(KEY)) == lines


def test_a_session_that_was_just_compacted_is_still_summed_up(store, run):
    lines = story()
    run(store.append(KEY, lines.lines))
    before = run(store.list_session_summaries("proj"))
    boundary = lines.add(
        "system", parent=None, subtype="compact_boundary", content="Conversation compacted"
    )
    run(
        store.append(KEY, [boundary])
    )  # it says nothing new, but the summary is not in the context any more
    [after] = run(store.list_session_summaries("proj"))
    assert after["data"] == before[0]["data"]


def test_a_fork_from_before_its_summary_is_summed_up_from_its_first_line(store, run):
    lines = story().lines
    run(store.append(KEY, lines))
    [before] = run(store.list_session_summaries("proj"))
    store.fork(KEY, "other", up_to=lines[4]["uuid"])
    new = lines[5] | {"sessionId": "other", "uuid": "new"}
    run(store.append(KEY | {"session_id": "other"}, [new]))
    found = {each["session_id"]: each["data"] for each in run(store.list_session_summaries("proj"))}
    assert found["other"]["first_prompt"] == before["data"]["first_prompt"]


def nested(levels):
    value = "leaf"
    for number in range(levels):
        value = [value] if number % 2 else {"k": value}
    return value


@pytest.mark.parametrize("levels", [90, 92, 93, 95, 97, 98, 101, 150, 240])
def test_a_line_that_is_too_deep_for_an_event_is_carried_as_text(store, durable_url, run, levels):
    lines = Transcript()
    lines.says("List the files.")
    lines.answers({"type": "odd", "x": nested(levels)})
    lines.answers(use("toolu_1", within=nested(levels)), id="msg_2")
    answer = lines.answers(text("One moment."), id="msg_3")
    answer["message"]["content"] += [
        use("toolu_2", within=nested(levels)),
        {"type": "odd", "x": nested(levels)},
    ]
    run(store.append(KEY, lines.lines))
    assert run(store.load(KEY)) == lines.lines
    with backstory.open(durable_url) as opened, backstory.open(":memory:") as other:
        [agent] = opened.agents()
        other.start().extend(agent.events())  # checks all of it again
        as_text = [
            "text" in event.data["item"] for event in agent.events() if "item" in (event.data or {})
        ]
    assert any(as_text) == (
        levels + 5 > 97
    )  # a call's input is the fifth level; three are around a line
