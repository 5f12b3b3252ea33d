"""Writes an agent's history as a file that another tool can resume, or that a person can read.

from backstory.transcripts import export_transcript

file = export_transcript(store, store.resolve("main"), "claude-code")
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID, uuid5

from backstory.agent import Agent
from backstory.errors import Invalid
from backstory.log.events import Event, OutlineRow
from backstory.log.kinds import MESSAGE_KINDS, MOVE_KINDS
from backstory.log.times import to_microseconds
from backstory.present import html, markdown
from backstory.references import Reference
from backstory.transcripts.content import get_call_id
from backstory.transcripts.format import (
    ExportedFile,
    ExportedMessage,
    list_outside_formats,
    load_format,
)
from backstory.transcripts.model import Data, ExportedPositions
from backstory.wire.context import RequestContext
from backstory.wire.formats import get_format
from backstory.wire.request import read_repaired_turns
from backstory.wire.turns import AnswerTurn

OUR_SESSIONS = UUID("3f0e5a52-1f0b-5b7e-8f0a-6b61636b7374")  # the namespace of ids created here
BRANCHES = 500  # at most this many abandoned branches: the newest
TOOLS = ("claude-code", "codex", "pi", "atif")  # built-in formats that write files
PAGES = ("html", "md")
# The role of the message that an event of each kind belongs to.
ROLES = {
    "system": "system",
    "user": "user",
    "assistant": "model",
    "tool_call": "model",
    "tool_result": "result",
}


class SessionAgents(Protocol):
    """Lists the agents of a session, as a store does."""

    def agents(self, *, session: str) -> list[Agent]: ...


def list_targets() -> list[str]:
    """Return the names of what a history can be exported to."""
    return [*TOOLS, *PAGES, *list_outside_formats()]


def export_transcript(store: SessionAgents, found: Reference, target: str) -> ExportedFile:
    """Return the history of an agent at a position as a file for `target`."""
    if target == "html":
        return ExportedFile(html.build_page(found, store.agents(session=found.agent.session)))
    if target == "md":
        return ExportedFile(markdown.build_document(found))
    if target not in list_targets():
        raise Invalid(f"no target {target!r}", remedy=f"use one of {', '.join(list_targets())}")
    return load_format(target).write(AgentHistory(found, target))


class AgentHistory:
    """The history of an agent at a position, for a format that writes files."""

    def __init__(self, found: Reference, tool: str) -> None:
        self._agent: Agent = found.agent
        self._at = found.agent.head if found.at is None else found.at
        self._ids: set[str] = set()
        about = self._agent.about
        self.session = str(uuid5(OUR_SESSIONS, f"{tool} {self._agent.id}@{self._at}"))
        self.cwd = str(about.get("cwd") or os.getcwd())
        self.title = str(about.get("title") or self._agent.name)
        self.agent_name = self._agent.name
        self.model = str(about["model"]) if about.get("model") else None
        self._context = self._list_spoken(self._at)
        self.began = to_microseconds(self._agent.created_at)
        if self._context:
            self.began = self._context[0].created_us

    def _list_spoken(self, at: int) -> list[Event]:
        """Return the messages of the context at a position."""
        messages = self._agent.context(at).messages
        return [event for event in messages if event.kind in MESSAGE_KINDS]

    def list_context(self, wire_format: str) -> Sequence[ExportedMessage]:
        """Return the messages of the exported context, each after the one before."""
        return separate_times(build_messages(self._context, wire_format))

    def list_branches(self, wire_format: str) -> Sequence[ExportedMessage]:
        """Return the messages of all branches without system messages; the context comes last."""
        tree = BranchTree(self._agent, self._at, wire_format)
        return separate_times(tree.list_messages(self._context))

    def get_id(self, message: ExportedMessage, *more: object) -> str:
        """Return a UUID for a message: its own, or one that is the same in every export."""
        id = message.key or ""
        if more or not is_uuid(id):
            number = message.positions[0] if message.positions else f"added {message.number}"
            parts = (self._agent.id, number, *more)
            id = str(uuid5(OUR_SESSIONS, " ".join(map(str, parts))))
        while id in self._ids:
            id = str(uuid5(OUR_SESSIONS, id))
        self._ids.add(id)
        return id

    def record_positions(self, lines: Mapping[int, Sequence[int]]) -> Data:
        """Return the field "backstory" of the first record. `lines`: the positions in each line."""
        digest = self._agent.digest(self._at)
        own = {line: list(positions) for line, positions in lines.items()}
        return ExportedPositions(self._agent.id, self._at, digest, own).encode()


def is_uuid(text: str) -> bool:
    """Return True if a text is a UUID in its usual form."""
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def write_messages(
    events: Sequence[Event], wire_format: str
) -> Iterator[tuple[int | None, ExportedMessage]]:
    """Yield the messages of a repaired history, each with the position of its first event.

    The position is None for a message that a repair added. Every result is a message of its own.
    """
    request = RequestContext(get_format(wire_format), pause=True, any_model=True)
    for turn in read_repaired_turns(events, request):
        _, form, _ = next(request.format.write_forms([turn]))
        if not isinstance(turn, AnswerTurn):
            yield turn.position, ExportedMessage(turn.role, form, [])
            continue
        yield turn.position, ExportedMessage("model", form, turn.calls)
        for call, result in zip(turn.calls, turn.results, strict=True):
            alone = turn.replace(calls=[call], results=[result], arrivals=[])
            blocks: list[Any] = []
            for _, form, _ in request.format.write_results(alone):
                blocks += form if isinstance(form, list) else [form]
            yield result.position if result else None, ExportedMessage("result", blocks, [call])


def build_messages(events: Sequence[Event], wire_format: str) -> list[ExportedMessage]:
    """Return events as messages of a wire format, repaired, each after the one before."""
    written = list(write_messages(events, wire_format))
    owned = assign_events(events, written)
    found: list[ExportedMessage] = []
    for (_, message), own in zip(written, owned, strict=True):
        if own:
            add_events(message, own)
        elif message.role != "result" or not found:
            continue
        message.number = len(found)
        message.parent = message.number - 1 if found else None
        found.append(message)
    return found


def assign_events(
    events: Sequence[Event], written: Sequence[tuple[int | None, ExportedMessage]]
) -> list[list[Event]]:
    """Return the events that each message was made from; none for one that a repair added.

    Results can be between the events of an answer, so the newest message of the event's role
    counts.
    """
    owned: list[list[Event]] = [[] for _ in written]
    starts: dict[tuple[str, int | None], int] = {}
    for number, (position, message) in enumerate(written):
        starts[message.role, position] = number
    newest: dict[str, int] = {}  # the newest message of each role
    of_call: dict[str, int] = {}  # the message of each call
    for event in events:
        role = ROLES[event.kind]
        number = starts.get((role, event.seq), newest.get(role, -1))
        if event.kind == "tool_call":
            number = of_call.get(str(get_call_id(event.data)), number)
        if number < 0:
            continue
        newest[role] = number
        owned[number].append(event)
        if role == "model":
            _, message = written[number]
            of_call.update((str(call.id), number) for call in message.calls)
    return owned


def add_events(message: ExportedMessage, events: Sequence[Event]) -> None:
    """Add what the events say that a message was made from. A blank text is no block of it."""
    first = events[0]
    message.data = first.data or {}
    message.time = first.created_us
    message.key = first.key
    speaking = [event for event in events if event.content or event.kind != "assistant"]
    message.positions = [event.seq for event in speaking or events]
    message.content = "\n\n".join(event.content for event in speaking if event.content)
    for event in events:
        if event.kind == "tool_call":
            message.call_positions[str(get_call_id(event.data))] = event.seq


def separate_times(messages: Sequence[ExportedMessage]) -> Sequence[ExportedMessage]:
    """Give each message a time of its own: some tools know equal messages by them."""
    times: set[int] = set()
    last = 0
    for message in messages:
        message.time = message.time or last
        while message.time in times:
            message.time += 1
        times.add(message.time)
        last = message.time
    return messages


class BranchTree:
    """The messages of all branches of an agent.

    A tool resumes a file at its last record, so the context comes last, and a branch that was
    abandoned after the last message of the context is not in the tree.
    """

    def __init__(self, agent: Agent, at: int, wire_format: str) -> None:
        self._agent = agent
        self._at = at
        self._wire_format = wire_format
        self._messages: list[ExportedMessage] = []
        self._rows = {row.seq: row for row in agent.outline(until=at)}
        self._owners: dict[int, int] = {}  # the message that contains a position
        self._claims: set[str] = set()  # the ids of answers and calls

    def list_messages(self, context: Sequence[Event]) -> list[ExportedMessage]:
        """Return the messages in the order of the file."""
        live = self._add(context, None)
        speaking = [number for number in live if self._messages[number].role != "result"]
        if not speaking:
            return []  # a tool would resume at the end of a branch
        order: dict[int, None] = {}
        for tip in self._list_abandoned():
            branch = self._add_branch(tip)
            if speaking[-1] not in branch:
                order.update(dict.fromkeys(branch))
        order.update(dict.fromkeys(live))
        messages = [self._messages[number] for number in order]
        numbers = {message.number: number for number, message in enumerate(messages)}
        for number, message in enumerate(messages):
            message.number = number
            if message.parent is not None:
                message.parent = numbers[message.parent]
        return messages

    def _list_abandoned(self) -> list[int]:
        """Return the positions that the next event did not continue, the newest ones."""
        moves = [row.seq for row in self._rows.values() if row.kind in MOVE_KINDS and row.seq > 1]
        return [seq - 1 for seq in moves if seq - 1 != self._at][-BRANCHES:]

    def _add_branch(self, tip: int) -> list[int]:
        """Add the messages of a branch. Return the numbers of the messages from the beginning."""
        new: list[int] = []
        at = tip
        while at > 0 and at not in self._owners:
            row = self._rows[at]
            if row.kind in MESSAGE_KINDS:
                new.append(at)
            at = find_previous(row)
        shared = self._owners.get(at)
        if not new:
            return []
        if shared is not None:
            # Results need the answer with their calls, and an answer all of its events.
            while self._needs_more(shared, at):
                own = [one for one in self._messages[shared].positions if one <= at]
                new += reversed(own)
                parent = self._messages[shared].parent
                if parent is None:
                    shared = None
                    break
                shared = parent
                at = max(self._messages[shared].positions, default=at)
        path = [] if shared is None else self._list_path(shared)
        return path + self._add(self._agent.events(sorted(new)), shared)

    def _needs_more(self, shared: int, at: int) -> bool:
        """Return True if the events after a message cannot be converted without it."""
        message = self._messages[shared]
        is_cut = bool(message.positions) and message.positions[-1] > at
        return is_cut or not message.positions or message.role == "result" or bool(message.calls)

    def _list_path(self, number: int) -> list[int]:
        path = [number]
        while (parent := self._messages[path[-1]].parent) is not None:
            path.append(parent)
        return path[::-1]

    def _add(self, events: Sequence[Event], parent: int | None) -> list[int]:
        """Add the messages of events, as far as they are new. Return the numbers of all of them."""
        path: list[int] = []
        for message in build_messages(events, self._wire_format):
            if message.role == "system":
                continue
            known = self._find_equal(message, parent)
            if known is None:
                if not self._claim(message):
                    break  # a tool would take two answers with one id for the same
                known = len(self._messages)
                message.number, message.parent = known, parent
                self._messages.append(message)
                for position in message.positions:
                    self._owners.setdefault(position, known)
            path.append(known)
            parent = known
        return path

    def _find_equal(self, message: ExportedMessage, parent: int | None) -> int | None:
        """Return the message that has all of the events, or is the same repair."""
        if message.positions:
            number = self._owners.get(message.positions[0])
            if number is None or not set(message.positions) <= set(
                self._messages[number].positions
            ):
                return None
            return number
        calls = [call.id for call in message.calls]
        for other in self._messages:
            if other.positions or other.parent != parent:
                continue
            if [call.id for call in other.calls] == calls:
                return other.number
        return None

    def _claim(self, message: ExportedMessage) -> bool:
        """Return True if no other message has the ids in a message."""
        names = [f"{message.role} {call.id}" for call in message.calls]
        if message.role == "model":
            names.append(f"answer {message.data.get('answer') or message.positions[:1]}")
        if not self._claims.isdisjoint(names):
            return False
        self._claims.update(names)
        return True


def find_previous(row: OutlineRow) -> int:
    """Return the position that an event continues."""
    return row.seq - 1 if row.base is None else row.base
