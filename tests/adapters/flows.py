"""Each framework runs its own agent loop on a store, with a scripted model.

`begin` asks about an image and a document, and a tool returns an image; has a call approved; and
leaves a call open, mostly because the tool crashes. It returns the log's agent.
`resume` says "Thanks." in a session that anybody began. It returns what the model was given, and
the log's agent. Claude's program is not here: this writes and reads what it would.
"""

import asyncio
import base64
import json

import pytest
from agent_framework import Agent as FrameworkAgent
from agent_framework import (
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    Content,
    FunctionInvocationLayer,
    Message,
)
from agent_framework import tool as framework_tool
from agents import Agent as OpenaiAgent
from agents import RunConfig, Runner, ToolOutputImage, ToolOutputText, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner as AdkRunner
from google.adk.tools.function_tool import FunctionTool
from google.genai import types
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from pydantic import Field
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import BinaryContent, DeferredToolRequests
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from strands import Agent as StrandsAgent
from strands import tool as strands_tool
from strands.hooks import BeforeToolCallEvent
from strands.models.model import Model as StrandsModel
from strands.session import RepositorySessionManager
from strands.types.exceptions import EventLoopException

from backstory.adapters.adk import BackstorySessionService
from backstory.adapters.agent_framework import BackstoryHistory
from backstory.adapters.claude import BackstorySessionStore
from backstory.adapters.langgraph import BackstorySaver
from backstory.adapters.openai_agents import BackstorySession
from backstory.adapters.pydantic_ai import BackstoryConversations
from backstory.adapters.strands import BackstoryRepository

ASKED, ANSWERED = "What is the weather?", "It is sunny."
REMOVE, REMOVED, GONE = "Delete b.py.", "deleted b.py", "Gone."
THANKS, WELCOME = "Thanks.", "You are welcome."
CALLS = {
    ASKED: ("look", {"q": "Rome"}, "c1"),
    REMOVE: ("delete", {"name": "b.py"}, "c2"),
    "Crash.": ("crash", {}, "c3"),
}
ANSWERS = {"look": ANSWERED, "delete": GONE}
IMAGE = b"\x89PNG\r\n\x1a\n an image"
SHOWN = b"\x89PNG\r\n\x1a\n an image of a tool"
PDF = b"%PDF-1.4 a document"


class Crash(Exception):
    """A tool ends the program."""


def encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


# --- the OpenAI Agents SDK ---


@function_tool
def look(q: str):
    url = f"data:image/png;base64,{encode(SHOWN)}"
    return [ToolOutputText(text="sunny"), ToolOutputImage(image_url=url)]


@function_tool(needs_approval=True)
def delete(name: str):
    return REMOVED


@function_tool(needs_approval=True)
def crash():
    raise Crash


class AgentsSdkFlow:
    """`Runner.run` with a `BackstorySession`."""

    def __init__(self):
        self.agent = OpenaiAgent(name="a", tools=[look, delete, crash])

    async def run(self, session, given, *answers):
        self.agent.model = ScriptedModel([[answer] for answer in answers])
        quiet = RunConfig(tracing_disabled=True)
        return await Runner.run(self.agent, given, session=session, run_config=quiet)

    def call(self, asked):
        name, arguments, id = CALLS[asked]
        return function_call(name, arguments, call_id=id)

    def begin(self, store):
        session = BackstorySession("s", store)
        asyncio.run(self.write(session))
        return session.agent

    async def write(self, session):
        files = [
            {"type": "input_text", "text": ASKED},
            {"type": "input_image", "image_url": f"data:image/png;base64,{encode(IMAGE)}"},
            {
                "type": "input_file",
                "file_data": f"data:application/pdf;base64,{encode(PDF)}",
                "filename": "a.pdf",
            },
        ]
        asked = [{"role": "user", "content": files}]
        await self.run(session, asked, self.call(ASKED), assistant_message(ANSWERED))
        paused = await self.run(session, REMOVE, self.call(REMOVE))
        state = paused.to_state()
        state.approve(state.get_interruptions()[0])
        await self.run(session, state, assistant_message(GONE))
        await self.run(session, "Crash.", self.call("Crash."))  # waits for an approval

    def resume(self, store, agent):
        session = BackstorySession("s", store, key=agent.key)
        asyncio.run(self.run(session, THANKS, assistant_message(WELCOME)))
        return self.agent.model.calls[0].input, agent


# --- pydantic-ai ---


class PydanticFlow:
    """`Agent.run` with the history of a conversation."""

    def __init__(self):
        self.given = []
        self.agent = PydanticAgent(
            FunctionModel(self.answer), output_type=[str, DeferredToolRequests]
        )
        self.agent.tool_plain(self.look)
        self.agent.tool_plain(self.delete, requires_approval=True)
        self.agent.tool_plain(self.crash)

    async def answer(self, messages, info):
        self.given.append(messages)
        last = messages[-1].parts[-1]
        asked = last.content if isinstance(last.content, str) else last.content[0]
        if last.part_kind == "tool-return":
            return ModelResponse(parts=[TextPart(ANSWERS[last.tool_name])])
        if asked not in CALLS:
            return ModelResponse(parts=[TextPart(WELCOME)])
        return ModelResponse(parts=[ToolCallPart(*CALLS[asked])])

    def look(self, q: str):
        return ["sunny", BinaryContent(SHOWN, media_type="image/png")]

    def delete(self, name: str):
        return REMOVED

    def crash(self):
        raise Crash

    def begin(self, store):
        history = BackstoryConversations(store).history("mine")
        asyncio.run(self.write(history))
        return history.agent

    async def write(self, history):
        asked = [
            ASKED,
            BinaryContent(IMAGE, media_type="image/png"),
            BinaryContent(PDF, media_type="application/pdf"),
        ]
        for prompt in (asked, REMOVE):
            result = await self.agent.run(prompt, message_history=await history.load())
            await history.save(result.new_messages())
        approved = result.output.build_results(approve_all=True)
        result = await self.agent.run(
            message_history=await history.load(), deferred_tool_results=approved
        )
        await history.save(result.new_messages())
        async with self.agent.iter("Crash.", message_history=await history.load()) as running:
            with pytest.raises(Crash):
                async for _ in running:
                    pass
            await history.save(running.new_messages())

    def resume(self, store, agent):
        history = BackstoryConversations(store).history(agent.key)
        asyncio.run(self.say_thanks(history))
        return self.given[-1], agent

    async def say_thanks(self, history):
        result = await self.agent.run(THANKS, message_history=await history.load())
        await history.save(result.new_messages())


# --- LangGraph ---


class LanggraphFlow:
    """A graph with a model and its tools, of which one asks."""

    def __init__(self):
        self.given = []

    def build_graph(self, store):
        builder = StateGraph(MessagesState)
        builder.add_node("model", self.answer)
        builder.add_node("tools", self.call_tools)
        builder.add_edge(START, "model")
        builder.add_conditional_edges("model", self.choose_next)
        builder.add_edge("tools", "model")
        return builder.compile(checkpointer=BackstorySaver(store))

    def answer(self, state):
        self.given.append(list(state["messages"]))
        last = state["messages"][-1]
        if isinstance(last, ToolMessage):
            return {"messages": [AIMessage(ANSWERS[last.name])]}
        asked = last.content if isinstance(last.content, str) else last.content[0]["text"]
        if asked not in CALLS:
            return {"messages": [AIMessage(WELCOME)]}
        name, arguments, id = CALLS[asked]
        call = {"name": name, "args": arguments, "id": id}
        return {"messages": [AIMessage("", tool_calls=[call])]}

    def choose_next(self, state):
        return "tools" if state["messages"][-1].tool_calls else "__end__"

    def call_tools(self, state):
        [call] = state["messages"][-1].tool_calls
        if call["name"] == "crash":
            raise Crash
        content = REMOVED
        if call["name"] == "delete":
            assert interrupt("May I?") == "yes"
        else:
            image = {"type": "image", "base64": encode(SHOWN), "mime_type": "image/png"}
            content = [{"type": "text", "text": "sunny"}, image]
        return {"messages": [ToolMessage(content, tool_call_id=call["id"], name=call["name"])]}

    def begin(self, store):
        graph = self.build_graph(store)
        files = [
            {"type": "text", "text": ASKED},
            {"type": "image", "base64": encode(IMAGE), "mime_type": "image/png"},
            {"type": "file", "base64": encode(PDF), "mime_type": "application/pdf"},
        ]
        thread = {"configurable": {"thread_id": "s"}}
        graph.invoke({"messages": [HumanMessage(files)]}, thread)
        graph.invoke({"messages": [HumanMessage(REMOVE)]}, thread)
        graph.invoke(Command(resume="yes"), thread)
        with pytest.raises(Crash):
            graph.invoke({"messages": [HumanMessage("Crash.")]}, thread)
        return BackstorySaver(store).agent("s")

    def resume(self, store, agent):
        new = agent.fork("langgraph", key="langgraph:other/")
        thread = {"configurable": {"thread_id": "other"}}
        self.build_graph(store).invoke({"messages": [HumanMessage(THANKS)]}, thread)
        return self.given[-1], new


# --- ADK ---


class AdkModel(BaseLlm):
    """Answers by what it was asked, and keeps what it was given."""

    model: str = "gemini-x"
    given: list = Field(default_factory=list)

    async def generate_content_async(self, llm_request, stream=False):
        self.given.append(
            [content.model_dump(exclude_none=True) for content in llm_request.contents]
        )
        [*_, last] = llm_request.contents
        [first, *_] = last.parts
        if first.function_response:
            part = types.Part(text=ANSWERS[first.function_response.name])
        elif first.text in CALLS:
            name, arguments, id = CALLS[first.text]
            part = types.Part(function_call=types.FunctionCall(name=name, args=arguments, id=id))
        else:
            part = types.Part(text=WELCOME)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


class AdkFlow:
    """A `Runner` with a `BackstorySessionService`."""

    def __init__(self):
        self.model = AdkModel()

    async def run(self, service, id, *parts):
        agent = LlmAgent(
            name="calc",
            model=self.model,
            tools=[self.look, FunctionTool(self.delete, require_confirmation=True), self.crash],
        )
        runner = AdkRunner(app_name="app", agent=agent, session_service=service)
        message = types.Content(role="user", parts=list(parts))
        events = []
        async for event in runner.run_async(user_id="u", session_id=id, new_message=message):
            events.append(event)
        return events

    def look(self, q: str):
        """Look at the weather."""
        return ["sunny", types.Part.from_bytes(data=SHOWN, mime_type="image/png")]

    def delete(self, name: str):
        """Delete a file."""
        return {"result": REMOVED}

    def crash(self):
        """End the program."""
        raise Crash

    def begin(self, store):
        service = BackstorySessionService(store)
        asyncio.run(self.write(service))
        return service.agent("app", "u", "s")

    async def write(self, service):
        await service.create_session(app_name="app", user_id="u", session_id="s")
        image = types.Part.from_bytes(data=IMAGE, mime_type="image/png")
        pdf = types.Part.from_bytes(data=PDF, mime_type="application/pdf")
        await self.run(service, "s", types.Part(text=ASKED), image, pdf)
        events = await self.run(service, "s", types.Part(text=REMOVE))
        calls = [call for event in events for call in event.get_function_calls()]
        approval = types.FunctionResponse(
            id=calls[-1].id, name=calls[-1].name, response={"confirmed": True}
        )
        await self.run(service, "s", types.Part(function_response=approval))
        with pytest.raises(Crash):
            await self.run(service, "s", types.Part(text="Crash."))

    def resume(self, store, agent):
        new = agent.fork("adk", key="adk:app/u/other")
        service = BackstorySessionService(store, agent_name="calc")
        asyncio.run(self.run(service, "other", types.Part(text=THANKS)))
        return self.model.given[-1], new


# --- Microsoft Agent Framework ---


class FrameworkClient(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """Answers by what it was asked, and keeps what it was given."""

    def __init__(self):
        super().__init__()
        self.given = []

    async def _inner_get_response(self, *, messages, stream, options, **kwargs):
        self.given.append([message.to_dict() for message in messages])
        last = messages[-1].contents[0]
        if last.type == "function_result":
            said = ANSWERS["look" if last.call_id == "c1" else "delete"]
        elif last.text in CALLS:
            name, arguments, id = CALLS[last.text]
            said = Content.from_function_call(id, name, arguments=arguments)
        else:
            said = WELCOME
        return ChatResponse(messages=[Message("assistant", [said])], response_id="r")


class AgentFrameworkFlow:
    """`Agent.run` with a `BackstoryHistory`."""

    def __init__(self):
        self.client = FrameworkClient()

    def build_agent(self, history):
        tools = [
            framework_tool(self.look, name="look", approval_mode="never_require"),
            framework_tool(self.delete, name="delete", approval_mode="always_require"),
            framework_tool(self.crash, name="crash", approval_mode="never_require"),
        ]
        return FrameworkAgent(
            self.client,
            tools=tools,
            context_providers=[history],
            require_per_service_call_history_persistence=True,
        )

    def look(self, q: str):
        """Look at the weather."""
        return [Content.from_text("sunny"), Content.from_data(SHOWN, "image/png")]

    def delete(self, name: str) -> str:
        """Delete a file."""
        return REMOVED

    def crash(self) -> str:
        """End the program."""
        raise asyncio.CancelledError

    def begin(self, store):
        history = BackstoryHistory(store)
        asyncio.run(self.write(history))
        return history.agent("s")

    async def write(self, history):
        agent, session = self.build_agent(history), AgentSession(session_id="s")
        files = [Content.from_data(IMAGE, "image/png"), Content.from_data(PDF, "application/pdf")]
        asked = Message("user", [Content.from_text(ASKED), *files])
        await agent.run(asked, session=session)
        paused = await agent.run(REMOVE, session=session)
        [request] = paused.user_input_requests
        approval = Message("user", [request.to_function_approval_response(True)])
        await agent.run(approval, session=session)
        with pytest.raises(asyncio.CancelledError):
            await agent.run("Crash.", session=session)

    def resume(self, store, agent):
        history = BackstoryHistory(store, key=agent.key)
        session = AgentSession(session_id="s")
        asyncio.run(self.build_agent(history).run(THANKS, session=session))
        return self.client.given[-1], agent


# --- Strands ---


class ScriptedBedrock(StrandsModel):
    """Answers by what it was asked, and keeps what it was given."""

    def __init__(self):
        self.given = []

    def update_config(self, **model_config):
        pass

    def get_config(self):
        return {}

    async def structured_output(self, output_model, prompt, system_prompt=None, **kwargs):
        yield {}

    async def stream(self, messages, tool_specs=None, system_prompt=None, **kwargs):
        self.given.append([dict(each) for each in messages])
        first = messages[-1]["content"][0]
        start, delta, reason = {}, {}, "end_turn"
        if "toolResult" in first:
            delta = {
                "text": ANSWERS["look" if first["toolResult"]["toolUseId"] == "c1" else "delete"]
            }
        elif first["text"] in CALLS:
            name, arguments, id = CALLS[first["text"]]
            start = {"toolUse": {"name": name, "toolUseId": id}}
            delta = {"toolUse": {"input": json.dumps(arguments)}}
            reason = "tool_use"
        else:
            delta = {"text": WELCOME}
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": start}}
        yield {"contentBlockDelta": {"delta": delta}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": reason}}


@strands_tool(name="look")
def look_in_strands(q: str) -> dict:
    """Look at the weather."""
    image = {"image": {"format": "png", "source": {"bytes": SHOWN}}}
    return {"status": "success", "content": [{"text": "sunny"}, image]}


@strands_tool(name="delete", context=True)
def delete_in_strands(name: str, tool_context) -> str:
    """Delete a file."""
    assert tool_context.interrupt("approval", reason="May I?") == "yes"
    return REMOVED


@strands_tool(name="crash")
def crash_in_strands() -> str:
    """Is never called."""
    raise Crash


def crash_before_call(event: BeforeToolCallEvent):
    if event.tool_use["name"] == "crash":
        raise Crash


class StrandsFlow:
    """A Strands agent with a `BackstoryRepository`."""

    def __init__(self):
        self.model = ScriptedBedrock()

    def build_agent(self, store, id):
        manager = RepositorySessionManager(id, session_repository=BackstoryRepository(store))
        return StrandsAgent(
            agent_id="a",
            model=self.model,
            tools=[look_in_strands, delete_in_strands, crash_in_strands],
            session_manager=manager,
            callback_handler=None,
            hooks=[crash_before_call],
        )

    def begin(self, store):
        agent = self.build_agent(store, "s")
        agent(
            [
                {"text": ASKED},
                {"image": {"format": "png", "source": {"bytes": IMAGE}}},
                {"document": {"format": "pdf", "name": "a", "source": {"bytes": PDF}}},
            ]
        )
        paused = agent(REMOVE)
        [asked] = paused.interrupts
        agent([{"interruptResponse": {"interruptId": asked.id, "response": "yes"}}])
        with pytest.raises(EventLoopException):
            agent("Crash.")
        return BackstoryRepository(store).agent("s", "a")

    def resume(self, store, agent):
        new = agent.fork("strands", key="strands:other/a")
        self.build_agent(store, "other")(THANKS)
        return self.model.given[-1], new


# --- Claude ---


def write_claude_block(type, data):
    media_type = {"image": "image/png", "document": "application/pdf"}[type]
    source = {"type": "base64", "media_type": media_type, "data": encode(data)}
    return {"type": type, "source": source}


class ClaudeFlow:
    """The lines that Claude's program writes and reads."""

    def begin(self, store):
        sessions = BackstorySessionStore(store)
        key = {"project_key": "p", "session_id": "s"}
        shown = [{"type": "text", "text": "sunny"}, write_claude_block("image", SHOWN)]
        files = [write_claude_block("image", IMAGE), write_claude_block("document", PDF)]
        said = [
            ("user", [{"type": "text", "text": ASKED}, *files]),
            ("assistant", self.build_call(ASKED)),
            ("user", [{"type": "tool_result", "tool_use_id": "c1", "content": shown}]),
            ("assistant", [{"type": "text", "text": ANSWERED}]),
            ("user", REMOVE),
            ("assistant", self.build_call(REMOVE)),
            ("user", [{"type": "tool_result", "tool_use_id": "c2", "content": REMOVED}]),
            ("assistant", [{"type": "text", "text": GONE}]),
            ("user", "Crash."),
            ("assistant", self.build_call("Crash.")),
        ]
        lines = []
        for number, (role, content) in enumerate(said):
            parent = f"u{number - 1}" if number else None
            lines.append(self.build_line(f"u{number}", parent, role, content))
        asyncio.run(sessions.append(key, lines))
        return sessions.agent(key)

    def build_call(self, asked):
        name, arguments, id = CALLS[asked]
        return [{"type": "tool_use", "id": id, "name": name, "input": arguments}]

    def build_line(self, uuid, parent, role, content):
        message = {"role": role, "content": content}
        if role == "assistant":
            message |= {"id": f"msg-{uuid}", "model": "claude-x"}
        return {
            "type": role,
            "uuid": uuid,
            "parentUuid": parent,
            "sessionId": "s",
            "message": message,
        }

    def resume(self, store, agent):
        new = agent.fork("claude", key="claude:p/other")
        sessions = BackstorySessionStore(store)
        key = {"project_key": "p", "session_id": "other"}
        given = asyncio.run(sessions.load(key))
        thanks = self.build_line("u99", given[-1]["uuid"], "user", THANKS)
        asyncio.run(sessions.append(key, [thanks]))
        return [*given, thanks], new


FLOWS = (
    AgentsSdkFlow,
    ClaudeFlow,
    PydanticFlow,
    LanggraphFlow,
    AdkFlow,
    AgentFrameworkFlow,
    StrandsFlow,
)
