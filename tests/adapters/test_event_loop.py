"""Long histories are read, written and built outside of the event loop, or in short slices."""

import asyncio
import gc
import time

import pytest
from agent_framework import Message
from google.adk.events.event import Event
from google.genai import types
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart

from backstory.adapters.adk import BackstorySessionService
from backstory.adapters.agent_framework import BackstoryHistory
from backstory.adapters.claude import BackstorySessionStore
from backstory.adapters.langgraph import BackstorySaver
from backstory.adapters.openai_agents import BackstorySession
from backstory.adapters.pydantic_ai import BackstoryConversations

COUNT = 3_000
TEXTS = [f"{number} " + "words " * 20 for number in range(COUNT)]


def run_openai_agents(url):
    session = BackstorySession("s", url)
    items = [{"role": "user", "content": text} for text in TEXTS]
    return lambda: session.add_items(items), session.get_items


def run_claude(url):
    store = BackstorySessionStore(url)
    key = {"project_key": "p", "session_id": "s"}
    lines = []
    for number, text in enumerate(TEXTS):
        parent = f"u{number - 1}" if number else None
        message = {"role": "user", "content": text}
        line = {"type": "user", "uuid": f"u{number}", "parentUuid": parent, "message": message}
        lines.append(line)
    return lambda: store.append(key, lines), lambda: store.load(key)


def run_pydantic_ai(url):
    history = BackstoryConversations(url).history("mine")
    messages = []
    for question, answer in zip(TEXTS[::2], TEXTS[1::2], strict=True):
        messages.append(ModelRequest(parts=[UserPromptPart(question)]))
        messages.append(ModelResponse(parts=[TextPart(answer)]))
    return lambda: history.save(messages), history.load


def run_langgraph(url):
    saver = BackstorySaver(url)
    thread = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    messages = [HumanMessage(text, id=str(number)) for number, text in enumerate(TEXTS)]
    values = {"channel_values": {"messages": messages}, "channel_versions": {"messages": 1}}
    checkpoint = empty_checkpoint() | values
    save = lambda: saver.aput(thread, checkpoint, {"source": "loop"}, {"messages": 1})  # noqa: E731
    return save, lambda: saver.aget_tuple(thread)


def run_adk(url):
    service = BackstorySessionService(url)
    ids = {"app_name": "app", "user_id": "u", "session_id": "s"}

    async def write():
        session = await service.create_session(**ids)
        for text in TEXTS[:400]:
            content = types.Content(role="user", parts=[types.Part(text=text)])
            await service.append_event(session, Event(author="user", content=content))

    return write, lambda: service.get_session(**ids)


def run_agent_framework(url):
    history = BackstoryHistory(url)
    messages = [Message("user", [text]) for text in TEXTS]
    return lambda: history.save_messages("s", messages), lambda: history.get_messages("s")


RUNS = (
    run_openai_agents,
    run_claude,
    run_pydantic_ai,
    run_langgraph,
    run_adk,
    run_agent_framework,
)


async def measure_longest_block(operation):
    """Return the processor time of the longest step in the event loop, as a part of all that the
    operation took. Processor time does not depend on what else this machine does."""
    longest = 0.0
    before = time.process_time()
    task = asyncio.ensure_future(operation())
    while not task.done():
        start = time.thread_time()
        await asyncio.sleep(0.001)
        longest = max(longest, time.thread_time() - start)
    await task
    return longest / (time.process_time() - before)


@pytest.fixture
def no_collections():
    """Python collects garbage in any thread, which takes long with all frameworks loaded."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collections")
@pytest.mark.parametrize("begin", RUNS, ids=lambda begin: begin.__name__)
def test_the_event_loop_is_never_blocked_for_long(tmp_path, begin):
    for operation in begin(tmp_path / "first.db"):  # some things are built once in a process
        asyncio.run(operation())
    for operation in begin(tmp_path / "history.db"):
        assert asyncio.run(measure_longest_block(operation)) < 0.2
