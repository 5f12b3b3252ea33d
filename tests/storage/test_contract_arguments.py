"""Every backend: what can be passed without naming it, and what an old handle of a deleted agent says."""

from datetime import UTC, datetime, timedelta
from enum import Enum
from io import StringIO

import pytest

import backstory


def test_arguments_after_the_first_need_no_name(store):
    agent = store.ensure("one")
    agent.extend([("note", "todo", {"n": 1}), ("user", "hi"), ("note", "todo", {"n": 2})])
    assert agent.last_notes(["todo"], 2)["todo"].seq == 1
    assert [event.seq for event in agent.messages(2, limit=5)] == [2]
    assert [(one.key, note.seq) for one, note in store.last_notes("todo", "o")] == [("one", 3)]
    assert store.last_notes("todo", "other") == []
    child = agent.fork("child")
    assert {gone.id for gone in store.delete(agent, True).agents} == {agent.id, child.id}


def test_expire_takes_a_prefix_and_whether_it_is_a_dry_run(store):
    store.ensure("old")
    later = datetime.now(UTC) + timedelta(days=1)
    assert [gone.key for gone in store.expire(later, "o", True).agents] == ["old"]
    assert store.agent(key="old")
    store.expire(later, "o", False)
    with pytest.raises(backstory.AgentNotFound):
        store.agent(key="old")


def test_a_deleted_agent_has_no_position_at_a_time(store):
    agent = store.start("main")
    agent.user("hi")
    store.delete(agent)
    with pytest.raises(backstory.AgentNotFound):
        agent.context(datetime.now(UTC))


@pytest.mark.parametrize(
    ("read", "by"),
    [("messages", "read_events"), ("outline", "read_outline"), ("events", "read_events")],
)
def test_an_agent_that_is_deleted_under_a_read_is_not_found(store, monkeypatch, read, by):
    agent = store.start("main")
    agent.user("hi")
    real = getattr(store._backend, by)

    def delete_first(*args):
        monkeypatch.undo()
        store.delete(agent)
        return real(*args)

    monkeypatch.setattr(store._backend, by, delete_first)
    with pytest.raises(backstory.AgentNotFound):
        getattr(agent, read)()


@pytest.mark.parametrize("data", [5, "text", [1]])
def test_data_that_is_no_dict_is_refused_with_a_new_system_prompt(agent, data):
    with pytest.raises(backstory.InvalidEvent):
        agent.system("Be brief.", replace=True, data=data)


def test_backslashes_are_not_taken_for_a_nul(store, agent):
    assert agent.describe(cwd="C:\\u0000")["cwd"] == "C:\\u0000"


@pytest.mark.parametrize("notes", ["todo", None, [1], [""], ["a\0b"], ["\ud800"]])
def test_invalid_names_of_notes_are_refused(agent, notes):
    agent.note("t")
    with pytest.raises(backstory.Invalid):
        agent.messages(notes=notes)


class Word(str, Enum):  # noqa: UP042  the older way, of which str() gives the name
    USER = "user"
    HELLO = "hello there"
    TODO = "todo"


def test_a_member_of_an_enum_is_stored_as_its_text(store, agent):
    agent.append(Word.USER, Word.HELLO)
    agent.append(Word.USER, "with a key", key=Word.TODO)
    agent.extend(
        [(Word.USER, Word.HELLO, None, "first"), (Word.USER, Word.HELLO, None, Word.HELLO)]
    )
    agent.note(Word.TODO)
    child = agent.fork(Word.HELLO)

    kept = [(event.kind, event.content, event.key) for event in agent.events()]
    assert kept == [
        ("user", "hello there", None),
        ("user", "with a key", "todo"),
        ("user", "hello there", "first"),
        ("user", "hello there", "hello there"),
        ("note", "todo", None),
    ]
    assert {type(value) for row in kept for value in row} == {str, type(None)}
    assert [type(child.name), child.name] == [str, "hello there"]
    assert agent.last_notes([Word.TODO]) == {"todo": agent.events()[-1]}
    assert store.verify() == []


ANSWER = {"choices": [{"message": {"role": "assistant", "content": "hello"}}]}
ODD = [None, True, 5, 1.5, b"x", [], [1], {}, object()]


@pytest.mark.parametrize("limit", [0, -1, True, 1.0, "5"])
def test_what_is_not_a_number_of_things_is_refused(store, agent, limit):
    for listed in (
        store.agents,
        store.sessions,
        agent.diff,
        lambda limit: store.search("x", limit=limit),
    ):
        with pytest.raises(backstory.Invalid, match="is not a number of"):
            listed(limit=limit)


def test_a_limit_beyond_all_numbers_of_the_databases_is_no_limit(store, agent):
    agent.user("hello")
    huge = 2**70
    assert store.agents(limit=huge) == [agent]
    assert len(store.sessions(limit=huge)) == len(store.sessions(order="updated", limit=huge)) == 1
    assert len(store.search("hello", limit=huge)) == 1
    assert len(agent.diff(at=0, limit=huge).changes) == 1


@pytest.mark.parametrize("odd", ODD)
def test_arguments_of_wrong_types_are_refused(store, agent, odd):
    calls = [
        lambda: agent.diff(odd) if odd is not None else agent.diff("x"),
        lambda: agent.diff(after=odd or 0),
        lambda: store.write(odd or 5),
        lambda: store.write([odd]),
        lambda: store.write([(odd, [("user", "x")])]),
        lambda: store.write([(agent, odd or 5)]),
        lambda: store.search(odd or 0),
        lambda: store.search("x", kinds=odd or 5),
        lambda: store.search("x", kinds=[odd]),
        lambda: store.search("x", agent=odd or 5),
        lambda: store.search("x", after=odd or 0),
        lambda: store.resolve(odd),
        lambda: store.export_to(StringIO(), sessions=[odd]),
        lambda: store.intake().source(odd, "x"),
        lambda: store.intake().source("x", odd),
        lambda: agent.events([odd]),
        lambda: store.intake().find_positions(agent, odd or 5),
        lambda: store.intake().find_positions(agent, [odd]),
        lambda: agent.preview(odd),
        lambda: agent.record(ANSWER, request=odd or 5),
        lambda: agent.record(ANSWER, request={"messages": [odd, float("nan")]}),
        lambda: agent.settings(params={"odd": {1, 2}}),
        lambda: agent.settings(params={"odd": float("inf")}),
        lambda: agent.erase([[odd]], why="asked"),
    ]
    for call in calls:
        with pytest.raises(backstory.Error):
            call()
    assert agent.head == 0


def test_positions_that_only_equal_a_number_are_not_positions(agent):
    agent.user("hello")
    with pytest.raises(backstory.Invalid, match="True is not a position"):
        agent.events([1, True])


def test_a_reason_that_no_database_can_hold_erases_nothing(agent):
    agent.user("hello")
    with pytest.raises(backstory.Invalid, match="lone surrogate"):
        agent.erase([1], why="\ud800")
    assert agent.events()[0].content == "hello"


def test_an_agent_of_another_store_is_not_taken_for_one_of_this(store, agent):
    agent.user("hello")
    with backstory.open(":memory:") as other:
        stranger = other.start("stranger")
        stranger.user("hello")
        calls = [
            lambda: store.search("hello", agent=stranger),
            lambda: store.agents(after=stranger),
            lambda: store.delete(stranger),
            lambda: store.write([(stranger, [("user", "x")])]),
            lambda: agent.diff(stranger),
            lambda: store.intake().extend(stranger, [("user", "x")]),
            lambda: store.intake().describe(stranger, title="x"),
            lambda: store.intake().agent("key", parent=stranger),
            lambda: store.intake().remember("tool", "id", agent=stranger),
            lambda: store.intake().find_positions(stranger, ["x"]),
        ]
        for call in calls:
            with pytest.raises(backstory.Invalid, match="belongs to another store"):
                call()


def test_one_and_true_are_not_the_same_json(agent):
    agent.append("user", "hello", {"a": 1}, key="k")
    assert agent.append("user", "hello", {"a": 1}, key="k").seq == 1
    with pytest.raises(backstory.KeyTaken):
        agent.append("user", "hello", {"a": True}, key="k")
    agent.append("user", "again", {"a": [0, 1]}, expected=1)
    with pytest.raises(backstory.Conflict):
        agent.append("user", "again", {"a": [False, 1]}, expected=1)
    agent.settings(params={"seed": 1})
    assert agent.settings(params={"seed": 1}) is None
    assert agent.settings(params={"seed": True}) is not None


@pytest.mark.parametrize("at", [True, -1, 2**70, 3, 1.0, "1"])
def test_a_label_for_what_is_not_a_position_names_nothing(agent, at):
    """Such a note can only come from elsewhere, or from `append`."""
    agent.extend([("user", "hello"), ("note", "backstory.label", {"label": "here", "at": at})])
    with pytest.raises(backstory.MarkNotFound):
        agent.jump("here")


def test_spawned_may_be_any_true_value(store, agent):
    assert [agent.fork(spawned=odd).spawned for odd in (2**70, "yes", None, 0)] == [
        True,
        True,
        False,
        False,
    ]
    assert store.verify() == []


def test_a_session_is_found_by_its_id_after_its_root_was_deleted(store):
    root = store.start("root")
    root.mark("here")
    child = root.fork("child")
    store.delete(root)
    assert [(owner, mark.label) for owner, mark in store.marks(root.id)] == [(child, "here")]
    file = StringIO()
    assert store.export_to(file, sessions=[root.id.upper()]).agents == 2


def test_an_export_of_a_session_that_is_not_there_is_refused(store, agent):
    file = StringIO()
    with pytest.raises(backstory.AgentNotFound):
        store.export_to(file, sessions=["nobody"])
    assert file.getvalue() == ""


def test_settings_that_are_not_json_are_refused_by_their_names(agent):
    with pytest.raises(
        backstory.Invalid, match="the params of these settings cannot be written as JSON"
    ):
        agent.settings(params={"temperature": float("nan")})
    with pytest.raises(
        backstory.Invalid, match="the tools of these settings cannot be written as JSON"
    ):
        agent.settings(tools=[{"name": "t", "parameters": {"x": object()}}])
    assert agent.head == 0
