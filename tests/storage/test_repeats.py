"""When a draft is the event that an earlier call wrote."""

from backstory.log.checks import check_draft
from backstory.log.events import Event, to_json
from backstory.storage.repeats import is_same_event


def test_draft_is_the_same_event_whatever_the_order_of_its_data():
    draft = check_draft("user", "hi", {"a": 1, "b": 2}, "k")
    assert is_same_event(draft, Event.of(1, "user", "hi", {"a": 1, "b": 2}, key="k"))
    assert is_same_event(draft, Event.of(1, "user", "hi", '{"b": 2, "a": 1}', key="k"))
    assert not is_same_event(draft, Event.of(1, "user", "hi", {"a": 1}, key="k"))
    assert not is_same_event(draft, Event.of(1, "user", "ho", {"a": 1, "b": 2}, key="k"))
    assert not is_same_event(draft, Event.of(1, "user", "hi", {"a": 1, "b": 2}))


def test_an_erased_event_may_have_been_any_draft_of_its_kind_and_key():
    erased = Event.of(1, "user", "", to_json({"erased": {"content": "", "data": ""}}), key="k")
    assert is_same_event(check_draft("user", "hi", {"a": 1}, "k"), erased)
    assert not is_same_event(check_draft("assistant", "hi", {"a": 1}, "k"), erased)
    assert not is_same_event(check_draft("user", "hi", {"a": 1}, "other"), erased)
