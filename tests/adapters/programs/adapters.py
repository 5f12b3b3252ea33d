"""What users of the frameworks write. A line that must be an error has `type: ignore`."""

from agent_framework import Agent as FrameworkAgent
from agent_framework import SupportsChatGetResponse
from agents import Agent, Runner
from agents.memory import Session
from claude_agent_sdk import ClaudeAgentOptions
from google.adk.agents import LlmAgent
from google.adk.runners import Runner as AdkRunner
from langgraph.graph import START, MessagesState, StateGraph
from pydantic_ai.conversation_store import ConversationStore
from strands.session.repository_session_manager import RepositorySessionManager

from backstory.adapters.adk import BackstorySessionService
from backstory.adapters.agent_framework import BackstoryHistory
from backstory.adapters.claude import BackstorySessionStore
from backstory.adapters.langgraph import BackstorySaver
from backstory.adapters.openai_agents import BackstorySession
from backstory.adapters.pydantic_ai import BackstoryConversations
from backstory.adapters.strands import BackstoryRepository


async def run_openai_agents() -> None:
    session: Session = BackstorySession("user-42", "history.db")
    await Runner.run(Agent(name="helper"), "Hello!", session=session)
    await Runner.run(Agent(name="helper"), "Hello!", session=BackstorySession("user-42"))
    await Runner.run(Agent(name="helper"), "Hello!", session="user-42")  # type: ignore[arg-type]


def run_claude() -> ClaudeAgentOptions:
    ClaudeAgentOptions(session_store="history.db")  # type: ignore[arg-type]
    return ClaudeAgentOptions(session_store=BackstorySessionStore("history.db"))


def run_pydantic_ai() -> ConversationStore:
    return BackstoryConversations("history.db")


async def run_langgraph() -> None:
    saver = BackstorySaver("history.db")
    graph = StateGraph(MessagesState).add_edge(START, "answer").compile(checkpointer=saver)
    found = await saver.aget_tuple({"configurable": {"thread_id": "user-42"}})
    if found is not None:
        print(found.checkpoint["id"], graph)
    await saver.aget_tuple("user-42")  # type: ignore[arg-type]


def run_adk(agent: LlmAgent) -> AdkRunner:
    service = BackstorySessionService("history.db", agent_name=agent.name)
    return AdkRunner(app_name="app", agent=agent, session_service=service)


def run_agent_framework(client: SupportsChatGetResponse) -> None:
    FrameworkAgent(client, context_providers=[BackstoryHistory("history.db")])


def run_strands() -> RepositorySessionManager:
    repository = BackstoryRepository("history.db")
    return RepositorySessionManager("user-42", session_repository=repository)
