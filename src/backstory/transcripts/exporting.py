"""Writes an agent's history as a file that another tool can resume, or that a person can read.

from backstory.transcripts import export_transcript

file = export_transcript(store, store.resolve("main"), "claude-code")
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol
from uuid import UUID, uuid5

from backstory.agent import Agent
from backstory.errors import Invalid
from backstory.log.events import Event, OutlineRow
from backstory.log.kinds import MESSAGE_KINDS, MOVE_KINDS
from backstory.log.times import to_microseconds
from backstory.present import html, markdown
from backstory.references import Reference
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
from backstory.wire.turns import AnswerTurn, Call, Form

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


class WrittenTurn(NamedTuple):
    """One turn, or one result of a turn, in a format's own form."""

    role: str  # system, user, model, result
    position: int | None  # of its first event; None: a repair put it there
    form: Form
    calls: list[Call]  # of an answer; of a result, the call that it belongs to


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
        return finish_messages(build_messages(self._context, wire_format))

    def list_branches(self, wire_format: str) -> Sequence[ExportedMessage]:
        """Return the messages of all branches without system messages; the context comes last."""
        tree = BranchTree(self._agent, self._at, wire_format)
        return finish_messages(tree.list_messages(self._context))

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


def write_turns(events: Sequence[Event], format: str) -> Iterator[WrittenTurn]:
    """Yield each turn of a repaired history in a format's own form, for files in which every
    message is separate."""
    request = RequestContext(get_format(format), pause=True, any_model=True)
    for turn in read_repaired_turns(events, request):
        _, form, _ = next(request.format.write_forms([turn]))
        if not isinstance(turn, AnswerTurn):
            yield WrittenTurn(turn.role, turn.position, form, [])
            continue
        yield WrittenTurn("model", turn.position, form, turn.calls)
        for call, result in zip(turn.calls, turn.results, strict=True):
            alone = turn.replace(calls=[call], results=[result], arrivals=[])
            blocks: list[Any] = []
            for _, form, _ in request.format.write_results(alone):
                blocks += form if isinstance(form, list) else [form]
            position = result.position if result else None
            yield WrittenTurn("result", position, blocks, [call])


def build_messages(events: Sequence[Event], wire_format: str) -> list[ExportedMessage]:
    """Return events as messages of a wire format, repaired, each after the one before."""
    turns = list(write_turns(events, wire_format))
    owned = assign_events(events, turns)
    found: list[ExportedMessage] = []
    for turn, own in zip(turns, owned, strict=True):
        is_repair = turn.role == "result" and bool(found)
        if own or is_repair:
            number = len(found)
            found.append(build_message(turn, own, number - 1 if found else None, number))
    return found


def assign_events(events: Sequence[Event], turns: Sequence[WrittenTurn]) -> list[list[Event]]:
    """Return the events that each turn was made from; none for one that a repair added.

    Results can be between the events of an answer, so the newest turn of the event's role counts.
    """
    owned: list[list[Event]] = [[] for _ in turns]
    starts = {(turn.role, turn.position): number for number, turn in enumerate(turns)}
    newest: dict[str, int] = {}  # the newest turn of each role
    of_call: dict[str, int] = {}  # the turn of each call
    for event in events:
        role = ROLES[event.kind]
        number = starts.get((role, event.seq), newest.get(role))
        if event.kind == "tool_call":
            number = of_call.get(str((event.data or {}).get("id")), number)
        if number is None:
            continue
        newest[role] = number
        owned[number].append(event)
        for call in turns[number].calls if role == "model" else ():
            of_call[str(call.id)] = number
    return owned


def build_message(
    turn: WrittenTurn, events: Sequence[Event], parent: int | None, number: int
) -> ExportedMessage:
    """Return one message. One that a repair added has no events, and gets its time later."""
    speaking = list_speaking(events)
    calls = [event for event in events if event.kind == "tool_call"]
    message = ExportedMessage(
        number=number,
        parent=parent,
        role=turn.role,
        form=turn.form,
        content="\n\n".join(filter(None, (event.content for event in speaking))),
        positions=[event.seq for event in speaking or events],
        calls=turn.calls,
        call_positions={str((event.data or {}).get("id")): event.seq for event in calls},
    )
    if not events:
        return message
    first = events[0]
    return replace(message, data=first.data or {}, time=first.created_us, key=first.key)


def list_speaking(events: Sequence[Event]) -> list[Event]:
    """Return the events that are blocks of a message: a blank text is none."""
    return [event for event in events if event.content or event.kind != "assistant"]


def finish_messages(messages: Sequence[ExportedMessage]) -> list[ExportedMessage]:
    """Return messages with times of their own: some tools know equal messages by them."""
    times: set[int] = set()
    last = 0
    found = []
    for message in messages:
        time = message.time or last
        while time in times:
            time += 1
        times.add(time)
        last = time
        found.append(replace(message, time=time))
    return found


@dataclass
class BranchTree:
    """The messages of all branches of an agent.

    A tool resumes a file at its last record, so the context comes last, and a branch that was
    abandoned after the last message of the context is not in the tree.
    """

    agent: Agent
    at: int
    wire_format: str
    messages: list[ExportedMessage] = field(default_factory=list)

    def list_messages(self, context: Sequence[Event]) -> list[ExportedMessage]:
        """Return the messages in the order of the file."""
        self._rows = {row.seq: row for row in self.agent.outline(until=self.at)}
        self._owners: dict[int, int] = {}  # the message that contains a position
        self._claims: dict[str, int] = {}  # the message that has an answer's or a call's id
        live = self._add(context, None)
        speaking = [number for number in live if self.messages[number].role != "result"]
        if not speaking:
            return []  # a tool would resume at the end of a branch
        leaf = speaking[-1]
        order: dict[int, None] = {}
        for tip in self._list_abandoned():
            branch = self._add_branch(tip)
            if leaf not in branch:
                order.update(dict.fromkeys(branch))
        order.update(dict.fromkeys(live))
        return renumber([self.messages[number] for number in order])

    def _list_abandoned(self) -> list[int]:
        """Return the positions that the next event did not continue, the newest ones."""
        moves = [row.seq for row in self._rows.values() if row.kind in MOVE_KINDS and row.seq > 1]
        return [seq - 1 for seq in moves if seq - 1 != self.at][-BRANCHES:]

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
                own = [one for one in self.messages[shared].positions if one <= at]
                new += reversed(own)
                parent = self.messages[shared].parent
                if parent is None:
                    shared = None
                    break
                shared = parent
                at = max(self.messages[shared].positions, default=at)
        path = [] if shared is None else self._list_path(shared)
        return path + self._add(self.agent.events(sorted(new)), shared)

    def _needs_more(self, shared: int, at: int) -> bool:
        """Return True if the events after a message cannot be converted without it."""
        message = self.messages[shared]
        is_cut = bool(message.positions) and message.positions[-1] > at
        return is_cut or not message.positions or message.role == "result" or bool(message.calls)

    def _list_path(self, number: int) -> list[int]:
        path = [number]
        while (parent := self.messages[path[-1]].parent) is not None:
            path.append(parent)
        return path[::-1]

    def _add(self, events: Sequence[Event], parent: int | None) -> list[int]:
        """Add the messages of events, as far as they are new. Return the numbers of all of them."""
        path: list[int] = []
        for message in build_messages(events, self.wire_format):
            if message.role == "system":
                continue
            known = self._find_equal(message, parent)
            if known is None:
                if not self._claim(message):
                    break  # a tool would take two answers with one id for the same
                known = len(self.messages)
                self.messages.append(replace(message, number=known, parent=parent))
                for position in message.positions:
                    self._owners.setdefault(position, known)
            path.append(known)
            parent = known
        return path

    def _find_equal(self, message: ExportedMessage, parent: int | None) -> int | None:
        """Return the message that has all of the events, or is the same repair."""
        if message.positions:
            number = self._owners.get(message.positions[0])
            if number is None or not set(message.positions) <= set(self.messages[number].positions):
                return None
            return number
        calls = [call.id for call in message.calls]
        for other in self.messages:
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
        if any(name in self._claims for name in names):
            return False
        self._claims.update(dict.fromkeys(names, len(self.messages)))
        return True


def find_previous(row: OutlineRow) -> int:
    """Return the position that an event continues."""
    return row.seq - 1 if row.base is None else row.base


def renumber(messages: Sequence[ExportedMessage]) -> list[ExportedMessage]:
    """Return messages with numbers in their order."""
    numbers = {message.number: number for number, message in enumerate(messages)}
    found = []
    for message in messages:
        parent = None if message.parent is None else numbers[message.parent]
        found.append(replace(message, number=numbers[message.number], parent=parent))
    return found
