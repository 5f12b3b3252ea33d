"""Each operation of an adapter takes a few statements, on both databases.

On PostgreSQL, a statement is a round trip. SQLite has none; there it takes three statements more to
create an agent.
"""

import asyncio

import pytest
from agent_framework import Message
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelRequest, UserPromptPart
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from backstory.adapters.adk import BackstorySessionService
from backstory.adapters.agent_framework import BackstoryHistory
from backstory.adapters.claude import BackstorySessionStore
from backstory.adapters.langgraph import BackstorySaver
from backstory.adapters.openai_agents import BackstorySession
from backstory.adapters.pydantic_ai import BackstoryConversations
from backstory.adapters.strands import BackstoryRepository

WARM_UP = 3  # rounds before the statements are counted


def run_openai_agents(url):
    session = BackstorySession("s", url)
    items = [{"role": "user", "content": "Hello"}]
    return session, {
        "add": lambda: session.add_items(items),
        "get": session.get_items,
        "pop": session.pop_item,
    }


def run_claude(url):
    store = BackstorySessionStore(url)
    key = {"project_key": "p", "session_id": "s"}
    uuids = [None]

    async def append():
        uuids.append(f"u{len(uuids)}")
        await repeat()

    async def repeat():
        message = {"role": "user", "content": uuids[-1]}
        line = {"type": "user", "uuid": uuids[-1], "parentUuid": uuids[-2], "message": message}
        await store.append(key, [line])

    return store, {"append": append, "repeat": repeat, "load": lambda: store.load(key)}


def run_pydantic_ai(url):
    store = BackstoryConversations(url)

    async def load_and_save():
        conversation = await store.load("c") or Conversation(conversation_id="c")
        conversation.messages.append(ModelRequest(parts=[UserPromptPart("Hello")]))
        await store.save(conversation)

    return store, {"load and save": load_and_save}


def run_langgraph(url):
    saver = BackstorySaver(url)
    thread, other = ({"configurable": {"thread_id": id}} for id in "ab")
    builder = StateGraph(MessagesState)
    builder.add_node("answer", lambda state: {"messages": [AIMessage("Hello!")]})
    graph = builder.add_edge(START, "answer").compile(checkpointer=saver)

    async def run_turn():
        graph.invoke({"messages": [HumanMessage("Hello")]}, thread)

    async def get_state():
        graph.get_state(thread)

    def ask(state):
        return {"messages": [AIMessage(interrupt("May I?"))]}

    builder = StateGraph(MessagesState).add_node("ask", ask).add_edge(START, "ask")
    asking = builder.compile(checkpointer=saver)

    async def interrupt_turn():
        asking.invoke({"messages": [HumanMessage("Hello")]}, other)

    async def get_interrupted_state():
        assert asking.get_state(other).interrupts

    return saver, {
        "turn": run_turn,
        "get_state": get_state,
        "interrupt": interrupt_turn,
        "get_interrupted_state": get_interrupted_state,
    }


def run_adk(url):
    service = BackstorySessionService(url)
    sessions = []

    async def create():
        id = f"s{len(sessions)}"
        # The first session gives the app and the user their states.
        state = {"n": 1} if sessions else {"app:a": 1, "user:u": 2}
        session = await service.create_session(
            app_name="app", user_id="u", session_id=id, state=state
        )
        sessions.append(session)

    async def append():
        content = types.Content(role="user", parts=[types.Part(text="Hello")])
        actions = EventActions(state_delta={"n": len(sessions[0].events)})
        await service.append_event(
            sessions[0], Event(author="user", content=content, actions=actions)
        )

    async def get():
        await service.get_session(app_name="app", user_id="u", session_id="s0")

    return service, {"create": create, "append": append, "get": get}


def run_agent_framework(url):
    history = BackstoryHistory(url)
    return history, {
        "save": lambda: history.save_messages("s", [Message("user", ["Hello"])]),
        "get": lambda: history.get_messages("s"),
    }


def run_strands(url):
    repository = BackstoryRepository(url)
    repository.create_session(Session(session_id="s", session_type=SessionType.AGENT))
    agent = SessionAgent(agent_id="a", state={"n": 0}, conversation_manager_state={})
    repository.create_agent("s", agent)
    numbers = []

    async def create_message():
        numbers.append(len(numbers) + 1)
        message = {"role": "user", "content": [{"text": "Hello"}]}
        repository.create_message("s", "a", SessionMessage(message, numbers[-1]))

    async def update_agent():
        agent.state = {"n": len(numbers)}
        repository.update_agent("s", agent)

    async def list_messages():
        repository.list_messages("s", "a")

    return repository, {
        "create_message": create_message,
        "update_agent": update_agent,
        "list_messages": list_messages,
    }


MOST = [
    (run_openai_agents, {"add": 1, "get": 2, "pop": 4}),
    (run_claude, {"append": 1, "repeat": 0, "load": 2}),
    (run_pydantic_ai, {"load and save": 6}),
    # If a checkpoint has no pending writes, one statement checks that its thread still exists.
    (run_langgraph, {"turn": 12, "get_state": 4, "get_interrupted_state": 3}),
    (run_adk, {"create": 4, "append": 3, "get": 8}),
    (run_agent_framework, {"save": 4, "get": 2}),
    (run_strands, {"create_message": 2, "update_agent": 3, "list_messages": 2}),
]


@pytest.mark.parametrize(("begin", "most"), MOST, ids=[begin.__name__ for begin, _ in MOST])
def test_an_operation_takes_few_statements(durable_url, statements, begin, most):
    adapter, operations = begin(durable_url)
    counts = {}
    with asyncio.Runner() as runner:
        for _ in range(WARM_UP + 1):
            for name, operation in operations.items():
                statements.clear()
                runner.run(operation())
                counts[name] = len(statements)
    adapter.close()
    if durable_url.endswith(".db") and "create" in counts:
        counts["create"] -= 3
    too_many = {name: counts[name] for name, limit in most.items() if counts[name] > limit}
    assert too_many == {}
