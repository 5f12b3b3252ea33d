"""Events of ADK that are built instead of validated: nobody can tell which."""

import pytest

pytest.importorskip("google.adk")

from google.adk.events import Event
from google.adk.events.event_actions import EventActions
from google.genai.types import (
    Blob,
    Content,
    FinishReason,
    FunctionCall,
    FunctionResponse,
    GroundingMetadata,
    Part,
    Transcription,
)

from backstory.adapters import adk_models
from backstory.adapters.adk_models import adk_events

PARTS = {
    "text": [Part(text="words")],
    "several": [Part(text="words"), Part(text="more", thought=True, thought_signature=b"\x00s")],
    "call": [
        Part(function_call=FunctionCall(id="c", name="f", args={"a": [1, 2.0, None, {"b": True}]}))
    ],
    "result": [
        Part(function_response=FunctionResponse(id="c", name="f", response={"result": "words"}))
    ],
    "bytes": [Part(inline_data=Blob(data=b"\xff\x00", mime_type="image/png"))],
    "nothing": [],
}
OTHERS = {
    "plain": {},
    "state": {"actions": EventActions(state_delta={"a": {"b": 1}}, artifact_delta={"file": 3})},
    "reason": {"finish_reason": FinishReason.STOP, "turn_complete": True},
    "tools": {"long_running_tool_ids": {"c"}},
    "grounding": {"grounding_metadata": GroundingMetadata(web_search_queries=["q"])},
    "speech": {"input_transcription": Transcription(text="words", finished=True)},
    "more": {"custom_metadata": {"a": 1.0}, "branch": "a.b", "error_code": "x"},
}


def event(parts, other, number):
    content = Content(role="model", parts=parts)
    return Event(
        author="agent", invocation_id=f"i{number}", id=f"e{number}", content=content, **other
    )


def forms_of(events):
    return [each.model_dump(mode="json", exclude_none=True) for each in events]


@pytest.fixture(autouse=True)
def shapes(monkeypatch):
    found = {}
    monkeypatch.setattr(adk_models, "_templates", found)
    return found


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("parts", PARTS)
def test_events_of_every_shape_are_what_validating_gives(parts, other):
    events = [event(PARTS[parts], OTHERS[other], number) for number in range(3)]
    made = adk_events(forms_of(events))
    assert made == [Event.model_validate(form) for form in forms_of(events)] == events
    assert list(map(repr, made)) == list(map(repr, events))
    assert forms_of(made) == forms_of(events)


def test_plain_events_are_built_and_what_json_changes_is_validated(shapes):
    adk_events(
        forms_of(
            [event(PARTS["text"], OTHERS["plain"], 1), event(PARTS["bytes"], OTHERS["plain"], 2)]
        )
    )
    assert [template is not None for template in shapes.values()] == [True, False]


def test_events_that_were_built_share_nothing():
    first, second, third = adk_events(
        forms_of([event(PARTS["text"], OTHERS["state"], n) for n in range(3)])
    )
    second.actions.state_delta["new"] = 1
    second.content.parts.append(Part(text="more"))
    second.branch = "b"
    assert first.actions.state_delta == third.actions.state_delta == {"a": {"b": 1}}
    assert len(first.content.parts) == len(third.content.parts) == 1
    [later] = adk_events(forms_of([event(PARTS["text"], OTHERS["state"], 4)]))
    assert (later.branch, later.actions.state_delta) == (None, {"a": {"b": 1}})


def models_in(template):
    yield template._model
    for inner in template._inner.values():
        for each in inner if isinstance(inner, list) else [inner]:
            yield from models_in(each)


def test_what_an_event_says_is_not_kept_for_the_next_one(shapes):
    adk_events(forms_of([event([Part(text="secret words")], OTHERS["state"], 1)]))
    kept = [model for template in shapes.values() for model in models_in(template)]
    assert len(kept) > 2
    assert "secret" not in repr(kept)


def test_a_number_of_another_type_is_another_shape():
    whole, broken = (event(PARTS["text"], {"timestamp": time}, 1) for time in (2.0, 2.5))
    forms = forms_of([broken, whole])
    forms[1]["timestamp"] = 2  # as JavaScript writes it
    assert [type(each.timestamp) for each in adk_events(forms)] == [float, float]


def test_what_is_no_event_is_refused_behind_others_of_its_shape():
    good, bad = forms_of([event(PARTS["text"], OTHERS["plain"], number) for number in (1, 2)])
    bad["content"] = "words"
    with pytest.raises(ValueError, match="content"):
        adk_events([good, bad])
