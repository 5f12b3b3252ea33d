"""Turns in no provider's format, by the rules of a request."""

import backstory
from backstory import Event
from backstory.wire.neutral import list_answered_calls, list_parts, read_turns
from backstory.wire.turns import AnswerTurn, Media, MessageTurn, Text

NATIVE = {
    "provider": "anthropic",
    "model": "m",
    "wire": [
        {"type": "text", "text": "look"},
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"},
        },
    ],
}
CALL = {"id": "c1", "name": "look", "arguments": {"q": "Rome"}}


def test_files_of_a_provider_are_media():
    [turn] = read_turns([[Event.of(1, "user", "look", {"native": NATIVE})]])
    assert isinstance(turn, MessageTurn)
    assert list_parts(turn) == [Text("look"), Media("image", "image/png", data="QUJD")]


def test_a_text_alone_is_one_part_and_no_text_is_none():
    turns = read_turns([[Event.of(1, "system", "Be brief."), Event.of(2, "user", " ")]])
    assert [list_parts(turn) for turn in turns] == [[Text("Be brief.")]]


def test_results_in_later_runs_are_bound_to_their_calls():
    runs = [
        [Event.of(1, "assistant", "I look."), Event.of(2, "tool_call", None, CALL)],
        [Event.of(3, "user", "meanwhile")],
        [Event.of(4, "tool_result", "sunny", {"id": "c1"})],
    ]
    answer, message = read_turns(runs)
    assert isinstance(answer, AnswerTurn)
    assert isinstance(message, MessageTurn)
    [answered] = list_answered_calls(answer)
    assert (answered.call.name, answered.result.text) == ("look", "sunny")
    assert not answered.is_interrupted
    assert list_parts(answered.result) == [Text("sunny")]


def test_an_answer_ends_with_its_run_and_an_open_call_is_interrupted():
    runs = [
        [Event.of(1, "assistant", "I look.")],
        [Event.of(2, "tool_call", None, CALL)],
    ]
    first, second = read_turns(runs)
    assert (first.texts, first.calls) == (["I look."], [])
    [answered] = list_answered_calls(second)
    assert answered.is_interrupted


def test_an_id_that_comes_twice_is_renamed():
    events = [
        Event.of(1, "tool_call", None, CALL),
        Event.of(2, "tool_result", "one", {"id": "c1"}),
        Event.of(3, "tool_call", None, CALL),
        Event.of(4, "tool_result", "two", {"id": "c1"}),
    ]
    first, second = read_turns([events])
    assert first.calls[0].id == "c1"
    assert second.calls[0].id != "c1"


def test_erased_calls_and_results_say_so():
    agent = backstory.open(":memory:").start()
    agent.user("a secret")
    agent.tool_call("look", {"q": "secret"}, id="c1")
    agent.tool_result("c1", "secret")
    agent.note("between")
    agent.erase([1, 2, 3], why="secrets")
    [answer] = read_turns([agent.context().messages])
    [(call, result)] = list_answered_calls(answer)
    assert call.arguments == {"erased": "(erased)"}
    assert result.text == "(erased)"
