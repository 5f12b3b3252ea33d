"""backstory: the history that an LLM agent can trust.

The public names, nothing else. What needs a database or asyncio is imported when it is first
used: a program that imports backstory should not wait for what it does not use.
"""

from typing import TYPE_CHECKING, Any

from backstory.errors import (
    AgentNotFound,
    Ambiguous,
    Busy,
    CannotOpen,
    Conflict,
    ConnectionLost,
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

if TYPE_CHECKING:
    from backstory import aio
    from backstory.agent import Agent
    from backstory.store import Session, Store, open
    from backstory.verify import Finding

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AgentNotFound",
    "Ambiguous",
    "Busy",
    "CannotOpen",
    "Conflict",
    "ConnectionLost",
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

_WHERE = {
    "Agent": "agent",
    "Finding": "verify",
    "Session": "store",
    "Store": "store",
    "aio": "aio",
    "open": "store",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'backstory' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(f"backstory.{_WHERE[name]}")
    return module if name == "aio" else getattr(module, name)
