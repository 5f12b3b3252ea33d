"""Values and ids that JSON, a database or a provider's format cannot hold, through every adapter."""

import json
import math

import pytest
from agent_framework import Message
from google.adk.events import Event, EventActions
from google.genai.types import Content, FunctionCall, FunctionResponse, Part
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from pydantic_ai.messages import ModelMessagesTypeAdapter as Messages
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from strands.types.session import Session, SessionAgent, SessionMessage

import backstory
from backstory.adapters.adk import BackstorySessionService
from backstory.adapters.agent_framework import BackstoryHistory
from backstory.adapters.claude import BackstorySessionStore
from backstory.adapters.langgraph import BackstorySaver
from backstory.adapters.openai_agents import BackstorySession
from backstory.adapters.pydantic_ai import BackstoryConversations
from backstory.adapters.strands import BackstoryRepository


def nested(levels):
    value = {"d": 1}
    for _ in range(levels):
        value = {"d": value}
    return value


VALUES = {
    "surrogate": "\ud800x",
    "nul": "a\0b",
    "blank": " ",
    "empty": "",
    "long": "x" * 5_000,
    "signs": '/@ #%"\\\u2028',
    "nan": math.nan,
    "infinite": math.inf,
    "huge": 2**70,
    "deep": nested(150),
    "none": None,
    "list": [],
    "object": {},
    "hole": {"$backstory": "content"},
    "tag": {"item": {"of": "claude", "part": True}},
    "erased": {"erased": {"content": "x"}},
    "order": {"z": 1, "a": {"y": True, "b": 2.0}},
}


@pytest.fixture
def store(durable_url, sound):
    store = backstory.open(durable_url)
    yield store
    sound(store)  # and can be sent anywhere
    store.close()


def same(found, wanted):
    """Equality as JSON, with the order of keys; NaN is NaN."""
    assert json.dumps(found) == json.dumps(wanted)


def check_the_agents_sdk(store, run, name, value):
    items = [
        {"role": "user", "content": value},
        {"role": value, "content": [{"type": "input_text", "text": value}]},
        {"type": value, "call_id": value},
        {"type": "function_call", "call_id": value, "name": value, "arguments": value},
        {
            "type": "function_call",
            "call_id": "c",
            "name": "f",
            "arguments": json.dumps({"a": value}),
        },
        {"type": "function_call_output", "call_id": value, "output": value},
        {"type": "shell_call", "call_id": value, "action": {"commands": value}},
        {"type": "reasoning", "id": value, "summary": value, "encrypted_content": value},
    ]
    for number, item in enumerate(items):
        session = BackstorySession(f"{name}-{number}", store)
        run(session.add_items([item]))
        same(run(session.get_items()), [item])
        same(run(session.get_items(1)), [item])
        same(run(session.pop_item()), item)
    session = BackstorySession(name, store)
    run(session.add_items(items))
    same(run(session.get_items()), items)


def check_claude(store, run, name, value):
    sessions = BackstorySessionStore(store)
    key = {"project_key": name, "session_id": "s"}
    call = {"type": "tool_use", "id": value, "name": value, "input": value}
    result = {"type": "tool_result", "tool_use_id": value, "content": value}
    messages = [
        {"role": "user", "content": value},
        {
            "id": value,
            "role": "assistant",
            "model": value,
            "content": [{"type": "text", "text": value}],
        },
        {"id": "m", "role": "assistant", "model": "claude-x", "content": [call]},
        {"role": "user", "content": [result]},
        value,
    ]
    kinds = ("user", "assistant", "assistant", "user", "user")
    lines = [
        {
            "type": kind,
            "uuid": f"u{number}",
            "parentUuid": f"u{number - 1}" if number else None,
            "message": each,
        }
        for number, (kind, each) in enumerate(zip(kinds, messages, strict=True))
    ]
    lines += [
        {"type": value, "uuid": value, "parentUuid": value},
        {"type": "summary", "uuid": "u9", "summary": value},
        {"type": "custom-title", "uuid": "u10", "customTitle": value},
    ]
    for number, line in enumerate(lines):
        alone = {"project_key": name, "session_id": f"{name}-{number}"}
        run(sessions.append(alone, [line]))
        same(run(sessions.load(alone)), [line])
    run(sessions.append(key, lines))
    same(run(sessions.load(key)), lines)
    assert len(run(sessions.list_session_summaries(name))) >= 1


def check_pydantic_ai(store, run, name, value):
    given = value if isinstance(value, str | dict) else {"a": value}
    messages = [
        ModelResponse(parts=[ToolCallPart("f", given, "c"), ToolCallPart("g", {"a": value}, "d")]),
        ModelRequest(parts=[ToolReturnPart("f", value, "c")], metadata={"v": value}),
        ModelResponse(parts=[TextPart(value if isinstance(value, str) else "x")]),
    ]
    history = BackstoryConversations(store).history(name)
    run(history.save(messages))
    again = Messages.validate_python(Messages.dump_python(messages, mode="json"))
    assert repr(run(history.load())) == repr(again)


def check_langgraph(store, run, name, value):
    if value == 2**70:
        return  # LangGraph's own serializer refuses it

    class State(MessagesState):
        extra: object

    said = [
        AIMessage(
            "x", id="1", additional_kwargs={"v": value}, response_metadata={"model_name": value}
        ),
        AIMessage(
            "",
            id="2",
            tool_calls=[{"name": "f", "args": {"a": value}, "id": "c", "type": "tool_call"}],
        ),
        ToolMessage("r", id="3", tool_call_id="c", artifact=value),
        HumanMessage(value if isinstance(value, str) else "x", id="4"),
    ]
    builder = StateGraph(State).add_node("node", lambda state: {"messages": said, "extra": value})
    graph = builder.add_edge(START, "node").compile(BackstorySaver(store))
    config = {"configurable": {"thread_id": name}}
    for _ in range(2):
        graph.invoke({"messages": [HumanMessage("q", id="q")]}, config)
    found = graph.get_state(config).values
    assert repr(found["messages"]) == repr([HumanMessage("q", id="q"), *said])
    assert repr(found["extra"]) == repr(value)


def check_adk(store, run, name, value):
    async def go():
        service = BackstorySessionService(store)
        named = {"app_name": "app", "user_id": name, "session_id": "s"}
        session = await service.create_session(
            **named, state={"k": value, "app:k": value, "user:k": value}
        )
        call = FunctionCall(id="c", name="f", args={"a": value})
        result = FunctionResponse(id="c", name="f", response={"a": value})
        text = value if isinstance(value, str) else "x"
        for number, parts in enumerate(
            ([Part(function_call=call), Part(text=text)], [Part(function_response=result)])
        ):
            content = Content(role="model", parts=parts)
            actions = EventActions(state_delta={"n": [value]})
            id = f"{number}{text}"
            await service.append_event(
                session, Event(id=id, author="a", content=content, actions=actions)
            )
        return session, await service.get_session(**named)

    session, found = run(go())
    same(found.state["k"], value)
    same(found.state["app:k"], value)
    same(found.state["n"], [value])
    wanted = [event.model_dump(mode="json") for event in session.events]  # where NaN is null
    same([event.model_dump(mode="json") for event in found.events], wanted)


def check_agent_framework(store, run, name, value):
    contents = [
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": value},
        {"type": "function_result", "call_id": "c", "result": value},
    ]
    if isinstance(value, str):
        contents += [
            {"type": "text", "text": value},
            {"type": "function_call", "call_id": value, "name": value},
        ]
    messages = [
        Message.from_dict(
            {"role": "assistant", "contents": [each], "additional_properties": {"v": value}}
        )
        for each in contents
    ]
    history = BackstoryHistory(store)
    run(history.save_messages(name, messages))
    same(
        [each.to_dict() for each in run(history.get_messages(name))],
        [each.to_dict() for each in messages],
    )


def check_strands(store, run, name, value):
    repository = BackstoryRepository(store)
    repository.create_session(Session(session_id=name, session_type="AGENT"))
    agent = SessionAgent(agent_id="a", state={"v": value}, conversation_manager_state={})
    repository.create_agent(name, agent)
    same(repository.read_agent(name, "a").state, {"v": value})
    blocks = [
        {"toolUse": {"toolUseId": "t", "name": "f", "input": value}},
        {"toolResult": {"toolUseId": "t", "status": "success", "content": [{"json": value}]}},
        {"text": value if isinstance(value, str) else "x"},
    ]
    messages = [
        SessionMessage.from_message({"role": "user", "content": [block]}, number)
        for number, block in enumerate(blocks)
    ]
    for message in messages:
        repository.create_message(name, "a", message)
    same(
        [each.to_dict() for each in repository.list_messages(name, "a")],
        [each.to_dict() for each in messages],
    )


CHECKS = (
    check_the_agents_sdk,
    check_claude,
    check_pydantic_ai,
    check_langgraph,
    check_adk,
    check_agent_framework,
    check_strands,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
def test_odd_values_come_back_and_are_messages(store, run, check):
    for name, value in VALUES.items():
        check(store, run, name, value)


def test_ids_of_any_text_and_forks_of_forks(store, run):
    for value in VALUES.values():
        if isinstance(value, str):
            check_ids(store, run, value)


def check_ids(store, run, id):
    hello = {"role": "user", "content": "hello"}
    session = BackstorySession(id, store)
    run(session.add_items([hello]))
    assert run(session.fork(f"{id}+").fork(f"{id}++").get_items()) == [hello]

    lines = [
        {
            "type": "user",
            "uuid": "u",
            "parentUuid": None,
            "message": {"role": "user", "content": "hello"},
        }
    ]
    sessions = BackstorySessionStore(store)
    key = {"project_key": id, "session_id": id}
    run(sessions.append(key, lines))
    sessions.fork(key, f"{id}+")
    sessions.fork(key | {"session_id": f"{id}+"}, f"{id}++")
    assert run(sessions.load(key | {"session_id": f"{id}++"})) == lines
    assert {each["session_id"] for each in run(sessions.list_sessions(id))} == {
        id,
        f"{id}+",
        f"{id}++",
    }

    repository = BackstoryRepository(store)
    repository.create_session(Session(session_id=id, session_type="AGENT"))
    repository.create_agent(id, SessionAgent(agent_id="a", state={}, conversation_manager_state={}))
    message = SessionMessage.from_message({"role": "user", "content": [{"text": "hello"}]}, 0)
    repository.create_message(id, "a", message)
    repository.fork(id, "a", f"{id}+")
    repository.fork(f"{id}+", "a", f"{id}++")
    repository.delete_session(id)
    assert repository.read_session(id) is None
    assert len(repository.list_messages(f"{id}++", "a")) == 1

    history = BackstoryHistory(store)
    run(history.save_messages(id, [Message.from_dict({"role": "user", "contents": ["hello"]})]))
    history.fork(id, f"{id}+")
    history.fork(f"{id}+", f"{id}++")
    assert len(run(history.get_messages(f"{id}++"))) == 1


@pytest.mark.parametrize("position", [1, 2, 3])
def test_nothing_of_an_erased_item_is_left_in_its_other_events(store, run, position):
    parts = [
        TextPart("secret one"),
        ToolCallPart("f", {"q": "secret two"}, "c"),
        TextPart("secret three"),
    ]
    history = BackstoryConversations(store).history("mine")
    run(
        history.save(
            [ModelResponse(parts=parts), ModelRequest(parts=[ToolReturnPart("f", "found", "c")])]
        )
    )
    agent = history.agent
    assert [event.seq for event in agent.erase([position], why="secrets")] == [1, 2, 3]
    left = "".join(f"{event.content}{event.data_json}" for event in agent.events())
    assert not any(f"secret {number}" in left for number in ("one", "two", "three"))
    kinds = [[part.part_kind for part in message.parts] for message in run(history.load())]
    assert kinds == [["tool-call"], ["tool-return"]]


def test_a_closed_adapter_reads_nothing_more(store, run):
    lines = [{"type": "user", "uuid": "u", "message": {"role": "user", "content": "hello"}}]
    sessions, key = BackstorySessionStore(store), {"project_key": "p", "session_id": "s"}
    service, ids = (
        BackstorySessionService(store),
        {"app_name": "a", "user_id": "u", "session_id": "s"},
    )
    history, saver = BackstoryHistory(store), BackstorySaver(store)
    conversations, repository = BackstoryConversations(store), BackstoryRepository(store)
    run(sessions.append(key, lines))
    run(service.create_session(**ids))
    run(history.save_messages("s", [Message.from_dict({"role": "user", "contents": ["hello"]})]))
    (
        saver.agent("s"),
        conversations.agent("s"),
        repository.agent("s", "a"),
    )  # are at hand from here on
    for adapter in (sessions, service, history, saver, conversations, repository):
        adapter.close()
    for read in (
        lambda: run(sessions.load(key)),
        lambda: run(service.get_session(**ids)),
        lambda: run(history.get_messages("s")),
        lambda: saver.get_tuple({"configurable": {"thread_id": "s"}}),
        lambda: run(conversations.read_record("s")),
        lambda: repository.read_message("s", "a", 0),
    ):
        with pytest.raises(RuntimeError, match="closed"):
            read()


def test_a_closed_adapter_refuses_even_to_save_nothing(run, tmp_path):
    history, conversations = (
        BackstoryHistory(tmp_path / "a.db"),
        BackstoryConversations(tmp_path / "b.db"),
    )
    notes = conversations.history("mine")
    history.close(), conversations.close()
    for nothing in (lambda: history.save_messages("s", []), lambda: notes.save([])):
        with pytest.raises(RuntimeError, match="closed"):
            run(nothing())
