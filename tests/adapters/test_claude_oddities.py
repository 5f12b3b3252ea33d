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
def test_a_line_that_is_too_deep_for_an_event_comes_back(store, durable_url, run, levels):
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


def say(number, parent):
    lines = Transcript()
    return lines.says(f"Message {number}.", parent=parent)


def test_the_first_append_of_a_process_is_four_statements(store, durable_url, run, statements):
    lines = story()
    for number in range(100):
        lines.says(f"Message {number}.")
    run(store.append(KEY, lines.lines))
    other = BackstorySessionStore(durable_url)
    asked = []
    for number in range(3):
        line = say(number, lines.last)
        lines.last = line["uuid"]
        statements.clear()
        run(other.append(KEY, [line]))
        asked.append(len(statements))
    assert asked == [4, 1, 1]
    other.close()


def test_a_line_of_an_earlier_process_is_not_written_again(store, durable_url, run):
    lines = story()
    for number in range(100):
        lines.says(f"Message {number}.")
    run(store.append(KEY, lines.lines))
    again = BackstorySessionStore(durable_url)
    with_uuid = [line for line in lines.lines if "uuid" in line]
    for part in (with_uuid[-1:], with_uuid[:3], with_uuid):
        run(again.append(KEY, part))
    assert run(again.load(KEY)) == lines.lines
    again.close()


def test_appends_of_two_stores_in_turn_are_all_there(store, durable_url, run, sound, opened):
    other = BackstorySessionStore(durable_url)
    lines = story()
    run(store.append(KEY, lines.lines))
    for number in range(4):
        line = say(number, lines.last)
        lines.lines.append(line)
        lines.last = line["uuid"]
        run((store, other)[number % 2].append(KEY, [line]))
    assert run(store.load(KEY)) == lines.lines
    assert [event.kind for event in opened.agents()[0].events()].count("jump") == 0
    other.close()
    sound(opened)


def test_a_session_that_was_deleted_elsewhere_begins_again(store, durable_url, run):
    lines = story().lines
    other = BackstorySessionStore(durable_url)
    sub = KEY | {"subpath": "subagents/a"}
    for key in (KEY, sub):
        run(store.append(key, lines))
    run(other.delete(KEY))
    other.close()
    for key in (sub, KEY):
        assert run(store.load(key)) is None
        run(store.append(key, lines[:2]))
        assert run(store.load(key)) == lines[:2]


def test_a_call_that_another_program_left_open_was_interrupted(store, durable_url, run):
    lines = story()
    run(store.append(KEY, lines.lines))
    agent = store.agent(KEY)
    call = agent.tool_call("Bash", {"command": "ls"}, id="c1")
    agent.user("And now?")
    found = run(store.load(KEY))[len(lines.lines) :]
    assert [line["type"] for line in found] == ["assistant", "user", "user"]
    [result] = found[1]["message"]["content"]
    assert (result["tool_use_id"], "interrupted" in str(result["content"])) == ("c1", True)
    chain = [lines.last, *(line["uuid"] for line in found)]
    assert [line["parentUuid"] for line in found] == chain[:-1]
    assert len({line["uuid"] for line in found}) == 3
    unrepaired = BackstorySessionStore(durable_url, repair=False)
    assert len(run(unrepaired.load(KEY))) == len(lines.lines) + 2
    unrepaired.close()
    agent.tool_result(call, "a.py")


def test_an_open_call_of_claude_stays_open_until_somebody_else_writes(store, run):
    lines = Transcript()
    lines.says("List the files.")
    lines.answers(use("toolu_1", command="ls"))
    run(store.append(KEY, lines.lines))
    assert run(store.load(KEY)) == lines.lines
    store.agent(KEY).user("Stop.")
    *own, result, said = run(store.load(KEY))
    assert own == lines.lines
    assert result["message"]["content"][0]["tool_use_id"] == "toolu_1"
    assert said["parentUuid"] == result["uuid"]


def test_files_of_others_are_blocks_of_a_line(store, run):
    pdf = b"%PDF-1.4 a document"
    store.agent(KEY).user("Read this.", files=[pdf])
    [line] = run(store.load(KEY))
    kinds = [block["type"] for block in line["message"]["content"]]
    assert sorted(kinds) == ["document", "text"]
