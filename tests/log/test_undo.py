"""Where an undo and a redo go."""

import pytest

from backstory.log.events import Event
from backstory.log.undo import redo_target, target, turn_target, undo_target


def jump(seq, to, word=None):
    return Event.of(seq, "jump", None, {"target_message_id": to} | ({word: True} if word else {}))


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
def test_an_undo_goes_before_the_newest_move_that_is_not_an_undo(moves, position):
    assert undo_target(moves) == position


def test_a_redo_goes_before_the_undo_that_led_here_and_then_to_the_one_before_it():
    log = {6: jump(6, 4, "undo"), 7: jump(7, 2, "undo"), 8: jump(8, 6, "redo")}
    assert redo_target(log[7], log.get) == 6
    assert redo_target(log[8], log.get) == 5
    assert redo_target(Event.of(9, "user", "x"), log.get) is None
    assert redo_target(jump(9, 99, "redo"), log.get) is None
    assert redo_target(None, log.get) is None


def test_a_move_without_a_whole_number_goes_nowhere():
    assert target(jump(3, 2)) == 2
    assert target(Event.of(3, "rewind")) == target(jump(3, True)) == target(jump(3, "2")) == 0


def said(seq, **data):
    return Event.of(seq, "user", "?", data or None)


@pytest.mark.parametrize(
    ("pieces", "position"),
    [
        ([], None),
        ([[Event.of(1, "clear"), Event.of(2, "system", "s")]], None),
        ([[Event.of(1, "clear"), said(2), Event.of(3, "assistant", "!"), said(4)]], 3),
        ([[jump(5, 2, "undo")], [Event.of(1, "clear"), said(2)]], 1),
        ([[jump(5, 2)], [Event.of(1, "clear"), said(2)]], 4),
        ([[Event.of(7, "clear"), said(8, compacted={}), said(9, copy_of=3)]], 6),
        ([[Event.of(9, "mark")], [Event.of(1, "clear"), said(2)]], 1),  # a fork's own piece
    ],
)
def test_an_undo_by_turns_goes_before_the_last_question_or_move(pieces, position):
    assert turn_target(pieces) == position
