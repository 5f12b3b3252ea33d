"""The peers: their names, their files, and what has to be installed for them.

The libraries themselves are imported only in the environment of their peer.
"""

import importlib
from typing import NamedTuple

from benchmarks.peers.peer import Peer

SDK = ("openai-agents",)
LANGGRAPH = (
    "langgraph",
    "langgraph-checkpoint-sqlite",
    "langchain-openai",
)
ADK = ("google-adk[db]", "aiosqlite", "litellm")


class Entry(NamedTuple):
    """A peer as the table knows it."""

    title: str
    """The head of its column."""
    where: str
    """module:class in `libraries/`."""
    needs: tuple[str, ...] = ()
    """What to install, the package whose version counts first. Nothing: the project's own environment."""

    def load(self) -> type[Peer]:
        """The class; its packages must be installed."""
        module, _, name = self.where.partition(":")
        found: type[Peer] = getattr(
            importlib.import_module(f"benchmarks.peers.libraries.{module}"), name
        )
        return found


def package(needs: tuple[str, ...]) -> str:
    """The package whose version counts."""
    return needs[0].partition("[")[0]


PEERS = {
    "backstory": Entry("backstory", "ours:Backstory"),
    "sdk": Entry("Agents SDK SQLiteSession", "agents_sdk:Sqlite", SDK),
    "sdk-advanced": Entry("Agents SDK AdvancedSQLiteSession", "agents_sdk:Advanced", SDK),
    "langgraph": Entry("LangGraph SqliteSaver", "langgraph:Saver", LANGGRAPH),
    "langgraph-delta": Entry("LangGraph, delta channel", "langgraph:DeltaSaver", LANGGRAPH),
    "adk-sqlite": Entry("ADK SqliteSessionService", "adk:Sqlite", ADK),
    "adk-database": Entry("ADK DatabaseSessionService", "adk:Database", ADK),
    "llm": Entry("llm LogStore", "llm_log:LogStore", ("llm",)),
    "pydantic-ai": Entry(
        "pydantic-ai (in memory)", "pydantic_ai:InMemory", ("pydantic-ai-slim[openai]",)
    ),
    "json-lines": Entry("JSON lines", "json_lines:JsonLines"),
    "bare": Entry("bare SQLite", "floor:BareTable"),
}
