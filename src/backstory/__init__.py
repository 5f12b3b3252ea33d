"""An append-only log for LLM conversations.

    import backstory

    store = backstory.open("history.db")     # or "postgresql://…", or ":memory:"
    agent = store.start("main", system="Be careful.")
    agent.user("Hello!")
    agent.mark("greeted")
    agent.rewind("greeted")
    print(agent.context().messages)

`Store` and `Agent` have everything else; `aio` is the same with await. All errors are `Error`s.
"""

# Modules that need a database or asyncio are imported on first use, so that a program does not wait
# for what it does not use.

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
    KeyTaken,
    MarkNotFound,
    NameTaken,
    NewerVersion,
    NotFound,
    PartMissing,
    PositionNotFound,
    ReadOnly,
    Remedy,
    StorageError,
    TextRemains,
)
from backstory.log.events import ErasedEvent, Event, RepeatedEvent, UndoEvent
from backstory.log.replay import Context, Explanation

if TYPE_CHECKING:
    from backstory import aio, wire
    from backstory.agent import Agent
    from backstory.comparing import Preview
    from backstory.intake import Intake, Source
    from backstory.listings import AgentHead, HeadWatch, Session
    from backstory.log.diff import Change, Comparison
    from backstory.log.events import OutlineRow
    from backstory.log.kinds import EventKind
    from backstory.log.messages import Message
    from backstory.log.settings import ToolSettings
    from backstory.maintenance.backup import restore
    from backstory.maintenance.export_format import Transfer
    from backstory.maintenance.removal import Removed
    from backstory.maintenance.search import Hit, Hits
    from backstory.maintenance.stats import Stats
    from backstory.maintenance.verify import Finding
    from backstory.reading import LineagePart, MoveRow, replay
    from backstory.references import Reference
    from backstory.runtime.async_loop import AsyncLoop
    from backstory.runtime.loop import Loop
    from backstory.runtime.tools import Tool
    from backstory.storage.follow import Follower
    from backstory.storage.protocol import RemovalRecord
    from backstory.store import Distribution, Store, open
    from backstory.wire.conversation import Conversation

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "AgentHead",
    "AgentNotFound",
    "Ambiguous",
    "AsyncLoop",
    "Busy",
    "CannotOpen",
    "Change",
    "Comparison",
    "Conflict",
    "ConnectionLost",
    "Context",
    "Conversation",
    "Corrupt",
    "Distribution",
    "ErasedEvent",
    "Error",
    "Event",
    "EventKind",
    "Explanation",
    "Finding",
    "Follower",
    "HeadWatch",
    "Hit",
    "Hits",
    "Intake",
    "Invalid",
    "InvalidEvent",
    "KeyTaken",
    "LineagePart",
    "Loop",
    "MarkNotFound",
    "Message",
    "MoveRow",
    "NameTaken",
    "NewerVersion",
    "NotFound",
    "PartMissing",
    "OutlineRow",
    "PositionNotFound",
    "Preview",
    "ReadOnly",
    "Reference",
    "Remedy",
    "RemovalRecord",
    "Removed",
    "RepeatedEvent",
    "Session",
    "Source",
    "Stats",
    "StorageError",
    "Store",
    "TextRemains",
    "Tool",
    "ToolSettings",
    "Transfer",
    "UndoEvent",
    "aio",
    "open",
    "replay",
    "restore",
    "wire",
]

_MODULES = {
    "Agent": "agent",
    "AgentHead": "listings",
    "AsyncLoop": "runtime.async_loop",
    "Change": "log.diff",
    "Comparison": "log.diff",
    "Conversation": "wire.conversation",
    "Distribution": "store",
    "Message": "log.messages",
    "EventKind": "log.kinds",
    "Finding": "maintenance.verify",
    "Follower": "storage.follow",
    "Hit": "maintenance.search",
    "Hits": "maintenance.search",
    "HeadWatch": "listings",
    "Intake": "intake",
    "LineagePart": "reading",
    "Loop": "runtime.loop",
    "MoveRow": "reading",
    "OutlineRow": "log.events",
    "Preview": "comparing",
    "Reference": "references",
    "Session": "listings",
    "Source": "intake",
    "Stats": "maintenance.stats",
    "Store": "store",
    "Tool": "runtime.tools",
    "ToolSettings": "log.settings",
    "RemovalRecord": "storage.protocol",
    "Removed": "maintenance.removal",
    "Transfer": "maintenance.export_format",
    "aio": "aio",
    "wire": "wire",
    "open": "store",
    "replay": "reading",
    "restore": "maintenance.backup",
}


if not TYPE_CHECKING:  # hidden from type checkers, which would accept any misspelled name

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module 'backstory' has no attribute {name!r}")
        from importlib import import_module

        module = import_module(f"backstory.{_MODULES[name]}")
        return module if name in ("aio", "wire") else getattr(module, name)


def __dir__() -> list[str]:
    return __all__
