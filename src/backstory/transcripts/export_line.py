"""What the exporters for tools share: the messages of a context, repaired, with ids and times."""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple
from uuid import UUID, uuid5

from backstory.agent import Agent
from backstory.log.events import Event, to_json
from backstory.log.kinds import MESSAGE_KINDS
from backstory.references import Reference
from backstory.transcripts.provenance import provenance
from backstory.wire.request import WrittenTurn, write_turns

OUR_SESSIONS = UUID("3f0e5a52-1f0b-5b7e-8f0a-6b61636b7374")  # the namespace of the ids created here


class Message(NamedTuple):
    """A message, an answer or a result in the target's format."""

    role: str
    form: Any
    event: Event  # the first of the events that it was made from
    calls: list[Any]

    @property
    def data(self) -> dict[str, Any]:
        """The data of its first event."""
        return self.event.data or {}


class Line:
    """A context of an agent in a provider's format."""

    def __init__(self, found: Reference, format: str, tool: str) -> None:
        self.agent: Agent = found.agent
        self.at = found.agent.head if found.at is None else found.at
        self._format = format
        self._ids: set[str] = set()
        self.session = str(uuid5(OUR_SESSIONS, f"{tool} {self.agent.id}@{self.at}"))

    def spoken(self, at: int | None = None) -> list[Event]:
        """The spoken events of the context, or of the context at another position."""
        found = self.agent.context(self.at if at is None else at).messages
        return [event for event in found if event.kind in MESSAGE_KINDS]

    def messages(self, at: int | None = None) -> Iterator[Message]:
        """The messages, each with its event; a message that a repair added has the event of the one
        before."""
        spoken = self.spoken(at)
        events = {event.seq: event for event in spoken}
        last = spoken[0] if spoken else None
        for written in write_turns(spoken, self._format):
            last = events.get(written.position or 0, last)
            if last is not None and (written.position is not None or written.role == "result"):
                yield _message(written, last)

    def id_of(self, message: Message, *more: object) -> str:
        """A UUID for a message: the one from its source, or one that is the same in every export. It is
        unique within a file."""
        key = message.event.key or ""
        id = key
        if more or not _is_uuid(key):
            id = str(
                uuid5(OUR_SESSIONS, " ".join(map(str, (self.agent.id, message.event.seq, *more))))
            )
        while id in self._ids:
            id = str(uuid5(OUR_SESSIONS, id))
        self._ids.add(id)
        return id

    def provenance(self) -> dict[str, Any]:
        """Which agent was exported, and at which position."""
        return provenance(self.agent.id, self.at, self.agent.digest(self.at))

    @property
    def cwd(self) -> str:
        """The folder that the conversation was about."""
        return str(self.agent.about.get("cwd") or os.getcwd())

    @property
    def title(self) -> str:
        """The title of the conversation."""
        return str(self.agent.about.get("title") or self.agent.name)

    @property
    def began(self) -> datetime:
        """When it began."""
        return next((event.created_at for event in self.spoken()), self.agent.created_at)


def _message(written: WrittenTurn, event: Event) -> Message:
    return Message(written.role, written.form, event, written.calls)


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def stamp(moment: datetime) -> str:
    """A time as the tools write it: milliseconds in UTC."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def json_lines(records: list[dict[str, Any]], mark: dict[str, Any]) -> str:
    """Records as lines; their number is added to the provenance among them."""
    mark["lines"] = len(records)
    return "".join(f"{to_json(record)}\n" for record in records)


def text_of(form: Any) -> str:
    """The text of a message in Anthropic's format."""
    if isinstance(form, str):
        return form
    blocks = [block for block in form if isinstance(block, dict)]
    return "\n\n".join(str(block["text"]) for block in blocks if block.get("type") == "text")
