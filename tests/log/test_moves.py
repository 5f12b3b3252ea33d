"""Undo, redo and labels: their targets in the log, and undo by turns on every backend."""

import pytest

import backstory
from backstory.log.events import Event
from backstory.log.moves import (
    LABEL,
    find_redo_target,
    find_turn_target,
    find_undo_target,
    is_prompt,
    read_command,
    read_labels,
    read_target,
)


def jump(seq, to, command=None):
    data = {"target_message_id": to}
    if command is not None:
        data[command] = True
    return Event.of(seq, "jump", None, data)


@pytest.mark.parametrize(
    ("move", "command"),
    [
        (jump(3, 1, "undo"), "undo"),
        (jump(3, 1, "redo"), "redo"),
        (jump(3, 1), None),
        (Event.of(3, "jump"), None),
        (Event.of(3, "jump", None, {"undo": 1}), None),
        (Event.of(3, "rewind", None, {"undo": True}), None),
    ],
)
def test_author_command_is_in_the_data_of_a_jump(move, command):
    assert read_command(move) == command


@pytest.mark.parametrize(
    ("moves", "position"),
    [
        ([], None),
        ([Event.of(1, "clear")], None),
        ([Event.of(5, "clear"), jump(3, 1)], 4),
        ([jump(6, 4, "undo"), Event.of(5, "clear"), jump(3, 1)], 4),
        ([jump(6, 4, "undo"), Event.of(1, "clear")], None),
    ],
)
def test_undo_leads_to_the_position_before_the_newest_move_that_is_not_an_undo(moves, position):
    assert find_undo_target(moves) == position


def test_redo_leads_to_the_position_before_the_undo_and_then_to_the_one_before_it():
    log = {6: jump(6, 4, "undo"), 7: jump(7, 2, "undo"), 8: jump(8, 6, "redo")}
    assert find_redo_target(log[7], log.get) == 6
    assert find_redo_target(log[8], log.get) == 5
    assert find_redo_target(Event.of(9, "user", "x"), log.get) is None
    assert find_redo_target(jump(9, 99, "redo"), log.get) is None
    assert find_redo_target(None, log.get) is None


@pytest.mark.parametrize("target", [8, 9])
def test_redo_that_does_not_lead_back_is_not_followed(target):
    def find_event(seq):
        pytest.fail(f"position {seq} was read")

    assert find_redo_target(jump(8, target, "redo"), find_event) is None


def test_target_of_a_move_is_an_integer():
    assert read_target(jump(3, 2)) == 2
    for odd in (Event.of(3, "rewind"), jump(3, True), jump(3, "2")):
        assert read_target(odd) == 0


def user(seq, **data):
    return Event.of(seq, "user", "?", data or None)


def test_prompt_is_a_user_message_that_a_person_typed():
    assert is_prompt(user(1, by="me"))
    assert not is_prompt(Event.of(1, "assistant", "!"))
    for key in ("copy_of", "compacted", "carried", "meta"):
        assert not is_prompt(user(1, **{key: 1}))


@pytest.mark.parametrize(
    ("pieces", "position"),
    [
        ([], None),
        ([(None, [])], None),
        ([(0, [Event.of(1, "clear"), Event.of(2, "system", "s")])], None),
        ([(0, [Event.of(1, "clear"), user(2), Event.of(3, "assistant", "!"), user(4)])], 3),
        ([(2, [jump(5, 2, "undo")]), (0, [Event.of(1, "clear"), user(2)])], 1),
        ([(2, [jump(5, 2)]), (0, [Event.of(1, "clear"), user(2)])], 4),
        ([(0, [Event.of(7, "clear"), user(8, compacted={}), user(9, copy_of=3)])], 6),
        # A fork's own piece.
        ([(None, [Event.of(9, "mark")]), (0, [Event.of(1, "clear"), user(2)])], 1),
    ],
)
def test_undo_by_turns_leads_to_the_position_before_the_last_prompt_or_move(pieces, position):
    assert find_turn_target(pieces) == position


def note(seq, data):
    return Event.of(seq, "note", LABEL, data)


def test_newest_note_with_a_name_counts():
    notes = [
        note(4, {"label": "a", "at": 1}),
        note(5, {"label": "b", "at": 2}),
        note(6, {"label": "a", "at": 3}),
    ]
    assert read_labels(notes) == {"a": 3, "b": 2}


def test_note_without_a_name_removes_the_names_of_its_position():
    notes = [
        note(4, {"label": "a", "at": 1}),
        note(5, {"label": "b", "at": 2}),
        note(6, {"label": None, "at": 1}),
    ]
    assert read_labels(notes) == {"b": 2}


@pytest.mark.parametrize("position", [0, 1, 4])
def test_label_may_name_any_position_up_to_its_own(position):
    assert read_labels([note(4, {"label": "a", "at": position})]) == {"a": position}


@pytest.mark.parametrize(
    "data",
    [
        None,
        {"at": 1},
        {"label": "b"},
        {"label": 3, "at": 1},
        {"label": "b", "at": "1"},
        {"label": "b", "at": True},
        {"label": "b", "at": -1},
        {"label": "b", "at": 6},
    ],
)
def test_malformed_label_is_ignored(data):
    assert read_labels([note(4, {"label": "a", "at": 1}), note(5, data)]) == {"a": 1}


def list_contents(agent):
    return [message.content for message in agent.conversation()]


def test_undo_by_turns_and_redo_visit_every_state_in_order(agent):
    agent.extend([("clear",), ("system", "s")])
    seen = [list_contents(agent)]

    def turn(text):
        agent.user(text)
        agent.assistant(f"{text}!")
        seen.append(list_contents(agent))

    turn("one")
    turn("two")
    agent.jump(2)
    seen.append(list_contents(agent))
    turn("three")
    agent.compact("what was said")
    seen.append(list_contents(agent))
    turn("four")
    states = [seen.pop()]
    while seen:
        agent.undo(turn=True)
        assert list_contents(agent) == seen[-1]
        states.append(seen.pop())
    with pytest.raises(backstory.NotFound, match="nothing to undo"):
        agent.undo(turn=True)
    states.pop()
    while states:
        agent.redo()
        assert list_contents(agent) == states.pop()
    with pytest.raises(backstory.NotFound, match="nothing to redo"):
        agent.redo()


def test_fork_undoes_a_turn_of_its_parent_and_leaves_the_parent_unchanged(agent):
    agent.extend([("clear",), ("user", "one"), ("assistant", "!")])
    fork = agent.fork("idea")
    fork.mark("here")
    fork.undo(turn=True)
    assert list_contents(fork) == []
    assert list_contents(agent) == ["one", "!"]


def test_move_without_effect_is_not_what_a_fork_undoes(agent):
    agent.extend([("clear",), ("user", "one"), ("assistant", "!")])
    fork = agent.fork("idea")
    fork.append("rewind", None, {"target_message_id": 99})
    fork.undo(turn=True)
    assert list_contents(fork) == []


def test_new_turn_after_an_undo_is_undone_first(agent):
    agent.extend([("clear",), ("user", "one"), ("assistant", "!"), ("user", "two")])
    agent.undo(turn=True)
    agent.user("three")
    for left in (["one", "!"], []):
        agent.undo(turn=True)
        assert list_contents(agent) == left
