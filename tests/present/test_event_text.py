"""What an event says on one line, where it has no words."""

import pytest

from backstory import Event
from backstory.present.event_text import body, gist


def wire(form):
    return {"native": {"provider": "p", "wire": form}}


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (wire([{"type": "reasoning", "summary": []}]), "(reasoning)"),
        (
            wire([{"type": "web_search_call"}, {"type": "reasoning"}]),
            "(web_search_call) (reasoning)",
        ),
        (wire({"role": "assistant", "content": [{"type": "thinking"}]}), "(thinking)"),
        (wire({"role": "model", "parts": [{"text": "hm", "thought": True}]}), "(thought)"),
        (wire([{"reasoningContent": {}}]), "(reasoningContent)"),
        (
            wire([{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]),
            "(input_image)",
        ),
        (
            wire([{"type": "message", "role": "assistant", "content": [{"type": "refusal"}]}]),
            "(refusal)",
        ),
        ({"item": {"of": "x", "form": {"type": "compaction"}}}, "(compaction)"),
        ({"item": {"of": "x", "form": "text"}}, ""),
        (wire([3, {}]), ""),
        ({"native": 3}, ""),
        ({"usage": {}}, ""),
        (None, ""),
    ],
)
def test_an_event_without_words_is_named_by_its_parts(data, shown):
    event = Event.of(1, "assistant", "", data)
    assert (gist(event), body(event)) == (shown, shown)


@pytest.mark.parametrize(
    ("more", "shown"),
    [({}, "to 3"), ({"undo": True}, "to 3 (undo)"), ({"redo": True}, "to 3 (redo)")],
)
def test_a_jump_names_the_undo_or_redo_that_wrote_it(more, shown):
    assert gist(Event.of(9, "jump", None, {"target_message_id": 3, **more})) == shown


def test_words_win():
    assert gist(Event.of(1, "assistant", "hello", wire([{"type": "text"}]))) == "hello"
