"""A session that any framework began goes on in any other: opened by its key, or forked under theirs."""

import base64

import pytest
from agent_framework import Message
from google.adk.events import Event
from google.genai.types import Content, FunctionCall, FunctionResponse, Part
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from strands import Agent
from strands.session import RepositorySessionManager

import backstory
from backstory import wire
from backstory.adapters.adk import BackstorySessionService
from backstory.adapters.agent_framework import BackstoryHistory
from backstory.adapters.claude import BackstorySessionStore
from backstory.adapters.langgraph import BackstorySaver
from backstory.adapters.openai_agents import BackstorySession
from backstory.adapters.pydantic_ai import BackstoryConversations
from backstory.adapters.strands import BackstoryRepository
from tests.adapters.test_strands import Scripted

ASKED, ANSWERED = "What is the weather?", "It is sunny."
CLAUDE = {"project_key": "p", "session_id": "s"}
ADK = {"app_name": "app", "user_id": "u", "session_id": "s"}


# --- a question, a call, its result and an answer, as each framework writes them; returns the agent ---


def by_agents_sdk(store, run):
    session = BackstorySession("s", store)
    said = {"type": "output_text", "text": ANSWERED, "annotations": []}
    items = [
        {"role": "user", "content": ASKED},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"q":"Rome"}'},
        {"type": "function_call_output", "call_id": "c1", "output": "sunny"},
        {
            "type": "message",
            "role": "assistant",
            "content": [said],
            "id": "m",
            "status": "completed",
        },
    ]
    run(session.add_items(items))
    return session.agent


def by_claude(store, run):
    call = {"type": "tool_use", "id": "c1", "name": "look", "input": {"q": "Rome"}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "sunny"}
    lines = [
        ("user", {"content": ASKED}),
        ("assistant", {"id": "a", "model": "claude-x", "content": [call]}),
        ("user", {"content": [result]}),
        (
            "assistant",
            {"id": "b", "model": "claude-x", "content": [{"type": "text", "text": ANSWERED}]},
        ),
    ]
    sessions = BackstorySessionStore(store)
    run(
        sessions.append(
            CLAUDE, [claude_line(n, role, **message) for n, (role, message) in enumerate(lines)]
        )
    )
    return sessions.agent(CLAUDE)


def claude_line(number, role, parent=None, **message):
    parent = parent or (f"u{number - 1}" if number else None)
    about = {"type": role, "uuid": f"u{number}", "parentUuid": parent, "sessionId": "s"}
    return about | {"message": {"role": role, **message}}


def by_pydantic_ai(store, run):
    messages = [
        ModelRequest(parts=[UserPromptPart(ASKED)]),
        ModelResponse(parts=[ToolCallPart("look", {"q": "Rome"}, "c1")]),
        ModelRequest(parts=[ToolReturnPart("look", "sunny", "c1")]),
        ModelResponse(parts=[TextPart(ANSWERED)]),
    ]
    run(BackstoryConversations(store).history("mine").save(messages))
    return store.agent(key="mine")


def by_langgraph(store, run):
    call = {"name": "look", "args": {"q": "Rome"}, "id": "c1", "type": "tool_call"}
    said = [
        AIMessage("", tool_calls=[call]),
        ToolMessage("sunny", tool_call_id="c1"),
        AIMessage(ANSWERED),
    ]
    asked(BackstorySaver(store), ASKED, said)
    return BackstorySaver(store).agent("s")


def asked(saver, question, answer):
    """One turn of a thread; returns what the node was given."""
    given = []

    def node(state):
        given.extend(state["messages"])
        return {"messages": answer}

    graph = StateGraph(MessagesState).add_node("node", node).add_edge(START, "node").compile(saver)
    graph.invoke({"messages": [HumanMessage(question)]}, {"configurable": {"thread_id": "s"}})
    return given


def by_adk(store, run):
    service = BackstorySessionService(store)
    parts = [
        ("user", "user", Part(text=ASKED)),
        (
            "app",
            "model",
            Part(function_call=FunctionCall(id="c1", name="look", args={"q": "Rome"})),
        ),
        (
            "app",
            "user",
            Part(function_response=FunctionResponse(id="c1", name="look", response={"r": "sunny"})),
        ),
        ("app", "model", Part(text=ANSWERED)),
    ]

    async def write():
        session = await service.create_session(**ADK)
        for author, role, part in parts:
            await service.append_event(session, adk_event(author, role, part))

    run(write())
    return service.agent(**ADK)


def adk_event(author, role, part):
    return Event(author=author, invocation_id="i", content=Content(role=role, parts=[part]))


def by_agent_framework(store, run):
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"q":"Rome"}'}
    history = BackstoryHistory(store)
    messages = [
        ("user", {"type": "text", "text": ASKED}),
        ("assistant", call),
        ("tool", {"type": "function_result", "call_id": "c1", "result": "sunny"}),
        ("assistant", {"type": "text", "text": ANSWERED}),
    ]
    given = [Message.from_dict({"role": role, "contents": [content]}) for role, content in messages]
    run(history.save_messages("s", given))
    return history.agent("s")


def by_strands(store, run):
    call = {"toolUseId": "c1", "name": "look", "input": {"q": "Rome"}}
    result = {"toolUseId": "c1", "status": "success", "content": [{"text": "sunny"}]}
    messages = [
        {"role": "user", "content": [{"text": ASKED}]},
        {"role": "assistant", "content": [{"toolUse": call}]},
        {"role": "user", "content": [{"toolResult": result}]},
        {"role": "assistant", "content": [{"text": ANSWERED}]},
    ]
    repository = BackstoryRepository(store)
    manager = RepositorySessionManager("s", session_repository=repository)
    Agent(
        agent_id="a",
        model=Scripted(),
        session_manager=manager,
        messages=messages,
        callback_handler=None,
    )
    return repository.agent("s", "a")


# --- each framework reads what is there and goes on with "Thanks"; returns what it saw, and the agent ---


def in_agents_sdk(store, run, agent):
    session = BackstorySession("s", store, key=agent.key)
    seen = run(session.get_items())
    run(session.add_items([{"role": "user", "content": "Thanks"}]))
    return seen, agent


def in_claude(store, run, agent):
    new = agent.fork("claude", key="claude:p/other")
    sessions, key = BackstorySessionStore(store), CLAUDE | {"session_id": "other"}
    seen = run(sessions.load(key))
    run(sessions.append(key, [claude_line(9, "user", parent=seen[-1]["uuid"], content="Thanks")]))
    return seen, new


def in_pydantic_ai(store, run, agent):
    history = BackstoryConversations(store).history(agent.key)
    seen = run(history.load())
    run(history.save([ModelRequest(parts=[UserPromptPart("Thanks")])]))
    return seen, agent


def in_langgraph(store, run, agent):
    if not agent.key.startswith("langgraph:"):
        agent = agent.fork("langgraph", key="langgraph:s/")
    return asked(BackstorySaver(store), "Thanks", []), agent


def in_adk(store, run, agent):
    new = agent.fork("adk", key="adk:app/u/other")
    service = BackstorySessionService(store)

    async def go_on():
        session = await service.get_session(**ADK | {"session_id": "other"})
        seen = list(session.events)
        await service.append_event(session, adk_event("user", "user", Part(text="Thanks")))
        return seen

    return run(go_on()), new


def in_agent_framework(store, run, agent):
    history = BackstoryHistory(store, key=agent.key)
    seen = [message.to_dict() for message in run(history.get_messages("s"))]
    thanks = Message.from_dict({"role": "user", "contents": [{"type": "text", "text": "Thanks"}]})
    run(history.save_messages("s", [thanks]))
    return seen, agent


def in_strands(store, run, agent):
    new = agent.fork("strands", key="strands:other/a")
    manager = RepositorySessionManager("other", session_repository=BackstoryRepository(store))
    model = Scripted()
    Agent(agent_id="a", model=model, session_manager=manager, callback_handler=None)("Thanks")
    return model.given[0], new


WRITERS = (
    by_agents_sdk,
    by_claude,
    by_pydantic_ai,
    by_langgraph,
    by_adk,
    by_agent_framework,
    by_strands,
)
READERS = (
    in_agents_sdk,
    in_claude,
    in_pydantic_ai,
    in_langgraph,
    in_adk,
    in_agent_framework,
    in_strands,
)


@pytest.mark.parametrize("writer", WRITERS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("reader", READERS, ids=lambda function: function.__name__)
def test_a_session_goes_on_in_another_framework(run, sound, writer, reader):
    with backstory.open(":memory:") as store:
        seen, agent = reader(store, run, writer(store, run))
        for words in (ASKED, "look", "Rome", "sunny", ANSWERED, "c1"):
            assert words in repr(seen)
        spoken = [message.kind for message in agent.conversation()]
        assert spoken[:5] == ["user", "tool_call", "tool_result", "assistant", "user"]
        sound(store)


# --- what was said at once ---

PICTURE = b"\x89PNG\r\n\x1a\n a picture"
# The question, the answer with its calls, their results (LangChain and OpenAI have one message for each), the
# next answer. OpenAI's calls and Claude's lines are items of their own; Strands was asked again.
MESSAGES = {
    in_agents_sdk: 7,
    in_claude: 7,
    in_pydantic_ai: 4,
    in_langgraph: 5 + 1,
    in_adk: 4,
    in_agent_framework: 4,
    in_strands: 4 + 1,
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


@pytest.mark.parametrize("reader", READERS, ids=lambda function: function.__name__)
def test_calls_and_results_of_one_turn_are_one_message_as_providers_want_it(run, sound, reader):
    with backstory.open(":memory:") as store:
        seen, _ = reader(store, run, by_someone(store))
        assert len(seen) == MESSAGES[reader]
        shown = repr(seen)
        assert base64.b64encode(PICTURE).decode() in shown or repr(PICTURE)[2:-1] in shown
        places = [
            shown.index(words)
            for words in ("will look", "'c1'", "'c2'", "sunny", "no such place", ANSWERED)
        ]
        assert places == sorted(places)
        sound(store)


@pytest.mark.parametrize("reader", READERS, ids=lambda function: function.__name__)
def test_what_was_erased_is_not_shown_as_an_empty_message(run, sound, reader):
    with backstory.open(":memory:") as store:
        agent = by_someone(store)
        agent.user("A secret.")
        agent.assistant("I see.")
        agent.erase([1, 3, 5, 8], why="secrets")
        seen, _ = reader(store, run, agent)
        kept = 2 if reader is in_claude else 0  # other lines hang on these
        assert len(seen) == MESSAGES[reader] + kept
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
@pytest.mark.parametrize("reader", READERS, ids=lambda function: function.__name__)
def test_a_file_in_the_store_of_another_service_is_told(run, sound, reader, said):
    with backstory.open(":memory:") as store:
        agent = store.ensure("someone")
        agent.extend(wire.load({"messages": [{"role": "user", "content": said}]}, "anthropic"))
        seen, _ = reader(store, run, agent)
        assert ("file_1" if reader is in_claude else NO_DOCUMENT) in repr(seen[0])
        assert (ASKED in repr(seen[0])) == (LOOK in said)
        sound(store)


@pytest.mark.parametrize("reader", READERS, ids=lambda function: function.__name__)
def test_an_image_that_a_tool_gave_is_shown_or_told(run, sound, reader):
    data = base64.b64encode(PICTURE).decode()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    call = {"type": "tool_use", "id": "c1", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [image]}
    messages = [("user", ASKED), ("assistant", [call]), ("user", [result])]
    body = {"messages": [{"role": role, "content": content} for role, content in messages]}
    with backstory.open(":memory:") as store:
        agent = store.ensure("someone")
        agent.extend(wire.load(body, "anthropic"))
        seen, _ = reader(store, run, agent)
        shown = repr(seen)
        is_shown = data in shown or repr(PICTURE)[2:-1] in shown
        assert is_shown == (reader in (in_agents_sdk, in_claude, in_strands))
        assert is_shown != (NO_IMAGE in shown)
        sound(store)


def test_strands_is_given_arguments_that_are_an_object(run):
    with backstory.open(":memory:") as store:
        seen, _ = in_strands(store, run, by_someone(store))
        assert [block["toolUse"]["input"] for block in seen[1]["content"][1:]] == [
            {"q": "Rome"},
            {"value": "{broken"},
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
        assert [len(message.parts) for message in whole] == [1, 4, 1, 1]
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
        assert [len(message.parts) for message in seen.messages] == [1, 2]
        agent.tool_call("look", {}, id="c3")  # the turn goes on: what was seen is stale
        seen.messages.append(ModelRequest(parts=[UserPromptPart("Stop")]))
        with pytest.raises(ConversationConflict):
            run(conversations.save(seen))
        seen = run(conversations.load("c"))
        seen.messages.append(ModelRequest(parts=[UserPromptPart("Stop")]))
        run(conversations.save(seen))
        found = run(conversations.load("c"))
        assert [len(message.parts) for message in found.messages] == [1, 3, 1]
