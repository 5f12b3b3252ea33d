"""Every backend: what can be passed without naming it, and what an old handle of a deleted agent says."""

from datetime import UTC, datetime, timedelta
from enum import Enum

import pytest

import backstory


def test_what_comes_after_the_first_argument_needs_no_name(store):
    agent = store.ensure("one")
    agent.extend([("note", "todo", {"n": 1}), ("user", "hi"), ("note", "todo", {"n": 2})])
    assert [note.seq for note in agent.notes("todo", 2)] == [1]
    assert [note.seq for note in agent.notes("todo", None, False)] == [1, 3]
    assert agent.last_note("todo", 2).seq == 1
    assert [event.seq for event in agent.tail(5, 2)] == [2]
    assert [(one.key, note.seq) for one, note in store.last_notes("todo", "o")] == [("one", 3)]
    assert store.last_notes("todo", "other") == []
    child = agent.fork("child")
    assert {gone.id for gone in store.delete(agent, True).agents} == {agent.id, child.id}


def test_expire_takes_a_prefix_and_whether_it_is_a_dry_run(store):
    store.ensure("old")
    later = datetime.now(UTC) + timedelta(days=1)
    assert [gone.key for gone in store.expire(later, "o", True).agents] == ["old"]
    assert store.keyed("old")
    store.expire(later, "o", False)
    with pytest.raises(backstory.AgentNotFound):
        store.keyed("old")


def test_a_deleted_agent_has_no_position_at_a_time(store):
    agent = store.start("main")
    agent.user("hi")
    store.delete(agent)
    with pytest.raises(backstory.AgentNotFound):
        agent.position(datetime.now(UTC))


@pytest.mark.parametrize(
    ("read", "by"),
    [("messages", "read_said"), ("texts", "texts"), ("outline", "outline"), ("events", "read")],
)
def test_an_agent_that_is_deleted_under_a_read_is_not_found(store, monkeypatch, read, by):
    agent = store.start("main")
    agent.user("hi")
    real = getattr(store._log.backend, by)

    def delete_first(*given):
        monkeypatch.undo()
        store.delete(agent)
        return real(*given)

    monkeypatch.setattr(store._log.backend, by, delete_first)
    with pytest.raises(backstory.AgentNotFound):
        getattr(agent, read)()


def test_backslashes_are_not_taken_for_a_nul(store, agent):
    assert agent.describe(cwd="C:\\u0000")["cwd"] == "C:\\u0000"


@pytest.mark.parametrize("notes", ["todo", None, [1], [""], ["a\0b"], ["\ud800"]])
def test_what_cannot_be_names_of_notes_is_refused(agent, notes):
    agent.note("t")
    for read in (agent.messages, agent.texts):
        with pytest.raises(backstory.Invalid):
            read(notes=notes)


class Word(str, Enum):  # noqa: UP042  the older way, of which str() gives the name
    USER = "user"
    HELLO = "hello there"
    TODO = "todo"


def test_a_member_of_an_enum_is_kept_as_the_text_that_it_is(store, agent):
    agent.append(Word.USER, Word.HELLO)
    agent.append(Word.USER, "with a key", key=Word.TODO)
    agent.extend([(Word.USER, Word.HELLO, None, "first"), (Word.USER, Word.HELLO, None, Word.HELLO)])
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
    assert agent.last_note("todo") == agent.last_note(Word.TODO) == agent.events()[-1]
    assert store.verify() == []
