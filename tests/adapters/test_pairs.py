"""A session that any framework began continues in any other: each runs its own agent loop."""

import base64

import pytest
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.messages import ModelRequest, UserPromptPart

import backstory
from backstory import wire
from backstory.adapters.pydantic_ai import BackstoryConversations
from tests.adapters.flows import (
    ANSWERED,
    ASKED,
    FLOWS,
    GONE,
    IMAGE,
    PDF,
    REMOVE,
    REMOVED,
    SHOWN,
    THANKS,
    WELCOME,
    AdkFlow,
    AgentFrameworkFlow,
    AgentsSdkFlow,
    ClaudeFlow,
    LanggraphFlow,
    PydanticFlow,
    StrandsFlow,
)

readers = pytest.mark.parametrize("reader", FLOWS, ids=lambda flow: flow.__name__)
writers = pytest.mark.parametrize("writer", FLOWS, ids=lambda flow: flow.__name__)


def has_file(shown, data):
    return base64.b64encode(data).decode() in shown or repr(data)[2:-1] in shown


@readers
@writers
def test_a_session_continues_in_another_framework(sound, writer, reader):
    with backstory.open(":memory:") as store:
        given, agent = reader().resume(store, writer().begin(store))
        shown = repr(given)
        said = (ASKED, "Rome", "sunny", ANSWERED, REMOVE, REMOVED, GONE, THANKS)
        places = [shown.index(words) for words in said]
        assert places == sorted(places)
        assert [data for data in (IMAGE, PDF, SHOWN) if not has_file(shown, data)] == []
        if writer is not reader:
            # Each call has exactly one result. ADK's request of a confirmation names its call, too.
            confirmed = 1 if "'originalFunctionCall'" in shown else 0
            counts = [shown.count(f"'{call}'") for call in ("c1", "c2", "c3")]
            assert counts == [2, 2 + confirmed, 2]
            assert "requires confirmation" not in shown
            assert "interrupted" in shown
        assert agent.messages()[-1].content in (WELCOME, THANKS)
        sound(store)


def test_one_conversation_goes_through_three_frameworks_and_back():
    with backstory.open(":memory:") as store:
        agent = AgentsSdkFlow().begin(store)
        for flow in (PydanticFlow, AgentFrameworkFlow):
            flow().resume(store, agent)
        given, _ = AgentsSdkFlow().resume(store, agent)
        said = [message.content for message in agent.messages() if message.kind == "user"]
        assert said[-3:] == [THANKS] * 3
        assert repr(given).count(WELCOME) == 2


def test_an_agent_that_waits_for_an_answer_continues_after_another_program():
    with backstory.open(":memory:") as store:
        waiting = StrandsFlow()
        waiting.build_agent(store, "s")(REMOVE)
        agent = store.agent(key="strands:s/a")
        with pytest.raises(TypeError, match="must resume from interrupt"):
            waiting.build_agent(store, "s")(THANKS)
        PydanticFlow().resume(store, agent)
        waiting.build_agent(store, "s")(THANKS)
        assert agent.messages(limit=1)[0].content == WELCOME


# --- messages of one turn ---

PICTURE = b"\x89PNG\r\n\x1a\n a picture"
# The question, the answer with its calls, their results (LangChain and OpenAI have one message for
# each), the next answer, "Thanks." OpenAI's calls and Claude's lines are items of their own.
MESSAGES = {
    AgentsSdkFlow: 8,
    ClaudeFlow: 8,
    PydanticFlow: 5,
    LanggraphFlow: 6,
    AdkFlow: 5,
    AgentFrameworkFlow: 5,
    StrandsFlow: 5,
}


def by_someone(store):
    agent = store.ensure("someone")
    agent.user(ASKED, images=[PICTURE])
    agent.assistant("I will look.")
    agent.tool_call("look", {"q": "Rome"}, id="c1")
    agent.tool_call("look", "{broken", id="c2")
    agent.tool_result("c1", "sunny")
    agent.tool_result("c2", "no such place", error=True)
    agent.assistant(ANSWERED)
    return agent


@readers
def test_calls_and_results_of_one_turn_are_one_message_as_providers_want_it(sound, reader):
    with backstory.open(":memory:") as store:
        seen, _ = reader().resume(store, by_someone(store))
        assert len(seen) == MESSAGES[reader]
        shown = repr(seen)
        assert base64.b64encode(PICTURE).decode() in shown or repr(PICTURE)[2:-1] in shown
        places = [
            shown.index(words)
            for words in ("will look", "'c1'", "'c2'", "sunny", "no such place", ANSWERED)
        ]
        assert places == sorted(places)
        sound(store)


@readers
def test_what_was_erased_is_not_shown_as_an_empty_message(sound, reader):
    with backstory.open(":memory:") as store:
        agent = by_someone(store)
        agent.user("A secret.")
        agent.assistant("I see.")
        agent.erase([1, 3, 5, 8], why="secrets")
        seen, _ = reader().resume(store, agent)
        kept = 2 if reader is ClaudeFlow else 0  # other lines hang on these
        joined = 1 if reader is PydanticFlow else 0  # it joins answers without a question between
        assert len(seen) == MESSAGES[reader] + kept - joined
        shown = repr(seen)
        assert [words for words in (ASKED, "Rome", "secret") if words in shown] == []
        assert shown.count("(erased)") == 2 + kept  # the call, and its result
        sound(store)


# A file that only the service has that it was given to.
STORED = {"type": "document", "source": {"type": "file", "file_id": "file_1"}}
LOOK = {"type": "text", "text": ASKED}
NO_DOCUMENT, NO_IMAGE = (
    f"({what} that cannot be shown here)" for what in ("a document", "an image")
)


@pytest.mark.parametrize("said", [[STORED], [LOOK, STORED]], ids=["alone", "beside text"])
@readers
def test_a_file_in_the_store_of_another_service_is_told(sound, reader, said):
    with backstory.open(":memory:") as store:
        agent = store.ensure("someone")
        agent.extend(wire.load({"messages": [{"role": "user", "content": said}]}, "anthropic"))
        seen, _ = reader().resume(store, agent)
        assert ("file_1" if reader is ClaudeFlow else NO_DOCUMENT) in repr(seen[0])
        assert (ASKED in repr(seen[0])) == (LOOK in said)
        sound(store)


@readers
def test_an_image_that_a_tool_gave_is_shown(sound, reader):
    data = base64.b64encode(PICTURE).decode()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    call = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [image]}
    messages = [("user", ASKED), ("assistant", [call]), ("user", [result])]
    body = {"messages": [{"role": role, "content": content} for role, content in messages]}
    with backstory.open(":memory:") as store:
        agent = store.ensure("someone")
        agent.extend(wire.load(body, "anthropic"))
        seen, _ = reader().resume(store, agent)
        shown = repr(seen)
        is_shown = data in shown or repr(PICTURE)[2:-1] in shown
        assert is_shown
        assert NO_IMAGE not in shown
        sound(store)


def test_strands_is_given_arguments_that_are_an_object():
    with backstory.open(":memory:") as store:
        seen, _ = StrandsFlow().resume(store, by_someone(store))
        assert [block["toolUse"]["input"] for block in seen[1]["content"][1:]] == [
            {"q": "Rome"},
            {"_invalid_json": "{broken"},
        ]


@pytest.mark.parametrize("limit", range(1, 6))
def test_a_limit_never_cuts_a_turn(run, limit):
    with backstory.open(":memory:") as store:
        agent = store.ensure("someone")
        for question in "ab":
            agent.user(question)
            for number in range(5):
                agent.tool_call("look", {}, id=f"{question}{number}")
            for number in range(5):
                agent.tool_result(f"{question}{number}", "found")
        history = BackstoryConversations(store).history("someone")
        assert run(history.load(limit)) == run(history.load())[-limit:]


@pytest.mark.parametrize("limit", range(1, 8))
def test_a_limit_never_cuts_answers_that_calls_before_them_make_one_turn(run, limit):
    with backstory.open(":memory:") as store:
        agent = store.ensure("someone")
        agent.user("a")
        agent.tool_call("look", {}, id="c1")
        for text in "bcd":
            agent.assistant(text)
        agent.user("e")
        agent.assistant("f")
        history = BackstoryConversations(store).history("someone")
        whole = run(history.load())
        assert [len(message.parts) for message in whole] == [1, 4, 1, 1, 1]
        assert run(history.load(limit)) == whole[-limit:]


def test_a_conversation_goes_on_behind_a_turn_of_someone_else(run):
    with backstory.open(":memory:") as store:
        conversations = BackstoryConversations(store)
        begun = Conversation(
            conversation_id="c", messages=[ModelRequest(parts=[UserPromptPart("Hello")])]
        )
        run(conversations.save(begun))
        agent = conversations.agent("c")
        agent.tool_call("look", {}, id="c1")
        agent.tool_call("look", {}, id="c2")
        seen = run(conversations.load("c"))
        assert [len(message.parts) for message in seen.messages] == [1, 2, 2]  # interrupted
        agent.tool_call("look", {}, id="c3")  # the turn goes on: what was seen is stale
        seen.messages.append(ModelRequest(parts=[UserPromptPart("Stop")]))
        with pytest.raises(ConversationConflict):
            run(conversations.save(seen))
        seen = run(conversations.load("c"))
        seen.messages.append(ModelRequest(parts=[UserPromptPart("Stop")]))
        run(conversations.save(seen))
        found = run(conversations.load("c"))
        assert [len(message.parts) for message in found.messages] == [1, 3, 3, 1]
