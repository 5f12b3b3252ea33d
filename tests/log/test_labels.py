"""Labels: the newest note of a name counts; one without a name takes the names of its position away."""

from backstory import Event
from backstory.log.labels import LABEL, labels_in


def note(seq, data):
    return Event.of(seq, "note", LABEL, data)


def test_the_last_position_that_got_a_name_has_it():
    notes = [
        note(4, {"label": "a", "at": 1}),
        note(5, {"label": "b", "at": 2}),
        note(6, {"label": "a", "at": 3}),
    ]
    assert labels_in(notes) == {"a": 3, "b": 2}


def test_a_note_without_a_name_takes_the_names_of_its_position_away():
    notes = [
        note(4, {"label": "a", "at": 1}),
        note(5, {"label": "b", "at": 2}),
        note(6, {"label": None, "at": 1}),
    ]
    assert labels_in(notes) == {"b": 2}


def test_what_is_not_a_label_is_passed_over():
    assert (
        labels_in(
            [note(4, None), note(5, {"label": 3, "at": 1}), note(6, {"label": "a", "at": "1"})]
        )
        == {}
    )
