"""backstory: the history that an LLM agent can trust."""

from typing import TYPE_CHECKING, Any

from backstory.agent import Agent
from backstory.errors import (
    AgentNotFound,
    Ambiguous,
    Busy,
    CannotOpen,
    Conflict,
    Corrupt,
    Error,
    Invalid,
    InvalidEvent,
    MarkNotFound,
    NameTaken,
    NewerVersion,
    NotFound,
    PositionNotFound,
    ReadOnly,
    StorageError,
)
from backstory.events import Event
from backstory.replay import Context, Explanation, replay
from backstory.store import Session, Store, open
from backstory.verify import Finding

if TYPE_CHECKING:
    from backstory import aio

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AgentNotFound",
    "Ambiguous",
    "Busy",
    "CannotOpen",
    "Conflict",
    "Context",
    "Corrupt",
    "Error",
    "Event",
    "Explanation",
    "Finding",
    "Invalid",
    "InvalidEvent",
    "MarkNotFound",
    "NameTaken",
    "NewerVersion",
    "NotFound",
    "PositionNotFound",
    "ReadOnly",
    "Session",
    "StorageError",
    "Store",
    "aio",
    "open",
    "replay",
]


def __getattr__(name: str) -> Any:
    """`backstory.aio` is imported when it is first used: asyncio is not cheap to import."""
    if name == "aio":
        import importlib

        return importlib.import_module("backstory.aio")
    raise AttributeError(f"module 'backstory' has no attribute {name!r}")
