"""Sessions as they are listed: one tree of agents, in a few numbers."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from backstory.core.events import parse_object, to_datetime
from backstory.storage.protocols import AgentRecord


class Session(NamedTuple):
    """One tree of agents, as it was when it was listed."""

    id: str
    name: str  # its root's
    agents: int
    events: int
    created_at: datetime
    updated_at: datetime
    title: str | None = None  # what its root's `about` says
    tags: tuple[str, ...] = ()
    key: str | None = None


def sessions_of(records: Iterable[AgentRecord]) -> list[Session]:
    """The sessions that some agents belong to."""
    trees: dict[str, list[AgentRecord]] = {}
    for record in records:
        trees.setdefault(record.session, []).append(record)
    return [_session(id, tree) for id, tree in trees.items()]


def _session(id: str, tree: Sequence[AgentRecord]) -> Session:
    root = next((record for record in tree if record.id == id), None)
    about = (parse_object(root.about) if root else None) or {}
    return Session(
        id=id,
        name=root.name if root else id,
        agents=len(tree),
        events=sum(record.head - record.fork_seq for record in tree),
        created_at=to_datetime(min(record.created_us for record in tree)),
        updated_at=to_datetime(max(record.updated_us for record in tree)),
        title=about.get("title"),
        tags=tuple(about.get("tags", ())),
        key=root.key if root else None,
    )
