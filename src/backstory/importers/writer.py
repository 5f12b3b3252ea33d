"""Parsed sessions into a store: the one module of the importers that writes.

A session's main thread is a root agent, its sub-agents are born at their calls, a fork goes on from its
parent. Events have the source's ids as keys, so what the store has is never written again: not by a second
import, not by one that goes on where another was killed, and not by two at once.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any, NamedTuple, Protocol

from backstory.agent import Agent
from backstory.core.events import EPOCH, draft, to_datetime
from backstory.core.holes import holed
from backstory.errors import AgentNotFound, Conflict, InvalidEvent, NameTaken, NotFound
from backstory.importers.decode import held
from backstory.importers.linear import Known, Line, LogEvent, ids_in
from backstory.importers.marker import MARKER, Exported
from backstory.importers.masks import Mask
from backstory.importers.names import key_of, unique_name
from backstory.importers.outcome import Imported
from backstory.importers.pictures import without_pictures
from backstory.importers.transcript import Fault, Origin, Session, Step, Thread, Unit
from backstory.intake import Intake, Source

CHUNK = 500  # steps whose entries are looked up at once
BATCH = 2_000  # events in one transaction, and
BATCH_SIZE = 4_000_000  # about so many characters: the lock is held for a moment only
LONGEST_ABOUT = 2_000
RECENT = 64  # events before the head that are looked at: where the head stands, and unfinished answers
ATTEMPTS = 20  # against others that import the same

DAMAGED = "backstory.damaged"  # a note in place of an event that no store can hold

Place = tuple[str, str | None]  # a session and its thread


class Target(Protocol):
    """Where sessions go: a store."""

    def intake(self) -> Intake:
        """A way in."""

    def source(self, tool: str, id: str) -> Source | None:
        """What is known of a source."""

    def agents(self, *, session: str) -> list[Agent]:
        """The agents of a session."""

    def keyed(self, key: str) -> Agent:
        """The agent with a key."""

    def agent(self, ref: str) -> Agent:
        """The agent with an id."""


class Changes(NamedTuple):
    """What is done to events before they are written."""

    mask: Mask | None = None
    images: bool = True


@dataclass
class Told:
    """A thread that was written: where its units and calls are."""

    agent: Agent
    tips: dict[str | None, int] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    unfinished: int = 0


class Writer:
    """Writes the sessions of one tool; threads that others came from are remembered meanwhile."""

    def __init__(self, store: Target, changes: Changes) -> None:
        self._store = store
        self._changes = changes
        self._told: dict[Place, Told] = {}

    def is_ready(self, session: Session) -> bool:
        """Whether the threads that a session came from were written."""
        own = {(thread.session, thread.id) for thread in session.threads}
        origins = ((t.origin.session, t.origin.thread) for t in session.threads if t.origin is not None)
        return all(origin in self._told or origin in own for origin in origins)

    def write(self, session: Session, *, settled: bool, moment: int) -> Imported:
        """Add what is new of a session. `settled`: leave out answers that may still be written; `moment`: the
        time of what has none."""
        done = Imported(session.tool, session.source, session.id, report=session.report)
        waiting = list(session.threads)
        while waiting:
            own = {(thread.session, thread.id) for thread in waiting}
            ready = [thread for thread in waiting if not _waits(thread, own)] or waiting[:1]
            for thread in ready:
                waiting.remove(thread)
                self._write(session, thread, done, settled, moment)
        return done

    def _write(self, session: Session, thread: Thread, done: Imported, settled: bool, moment: int) -> None:
        for attempt in range(ATTEMPTS):
            try:
                told = self._attempt(session, thread, done, settled, moment)
            except (Conflict, NameTaken):  # someone else writes to it: look again at what is there
                if attempt == ATTEMPTS - 1:
                    raise
                continue
            if told is not None:
                self._told[thread.session, thread.id] = told
                if thread.id is None and thread.session == session.id:
                    done.agent, done.title = told.agent.id, thread.about.get("title")
            return

    def _attempt(
        self, session: Session, thread: Thread, done: Imported, settled: bool, moment: int
    ) -> Told | None:
        steps = iter(thread.steps())
        first = list(islice(steps, CHUNK))
        began = next((e.time for s in first if isinstance(s, Unit) for e in s.entries if e.time), moment)
        intake = self._store.intake()
        birth = self._birth(intake, session, thread, began)
        if birth is None:
            done.unfinished += 1
            return None
        agent, is_new = birth
        exported = (
            thread.about.get(MARKER) if agent.key != _agent_key(session.tool, *_place(thread)) else None
        )
        pen = _Pen(intake, agent, self._changes, done, min(began, moment) if is_new else 0)
        if exported is not None:
            pen.exported = Exported(agent.context(exported["at"]).messages, exported["lines"])
        line = pen.write(_chained(first, steps), settled=settled)
        if exported is None:
            self._describe(intake, session, thread, agent)
        pen.commit()
        done.unfinished += line.left_out
        done.is_new = done.is_new or (is_new and thread.id is None)
        done.new_agents += is_new
        return Told(agent, line.tips, pen.calls, line.left_out)

    # --- where an agent is born ---

    def _birth(
        self, intake: Intake, session: Session, thread: Thread, began: int
    ) -> tuple[Agent, bool] | None:
        """The agent of a thread, and whether it is new; None if its call is still to come."""
        key = _agent_key(session.tool, thread.session, thread.id)
        there = self._exported(thread) or self._there(key)
        if there is not None:
            return there, False
        birth = self._place(intake, session.tool, thread.origin, began)
        if birth is None:
            return None
        wanted = str(thread.about.get("title") or thread.about.get("agent_type") or session.tool)
        parent = birth.get("parent")
        taken = {one.name for one in self._store.agents(session=parent.id)} if parent else set()
        name = unique_name(held(wanted), taken)
        agent = intake.agent(key, name=name, created_at=_datetime(began), **birth)
        intake.remember(session.tool, _native_id(thread), agent=agent)
        if birth.get("inherits"):  # what it inherits can be looked up from then on
            intake.commit()
        return agent, True

    def _exported(self, thread: Thread) -> Agent | None:
        """The agent that a file was exported from, if the store has it as it was then."""
        marker = thread.about.get(MARKER)
        if marker is None:
            return None
        try:
            agent = self._store.agent(marker["agent"])
            return agent if agent.digest(marker["at"]) == marker["digest"] else None
        except NotFound:
            return None

    def _there(self, key: str) -> Agent | None:
        try:
            return self._store.keyed(key)
        except AgentNotFound:
            return None

    def _place(self, intake: Intake, tool: str, origin: Origin | None, began: int) -> dict[str, Any] | None:
        """Where in which parent an agent is born: what `intake.agent` is told of it."""
        if origin is None:
            return {}
        parent = self._told.get((origin.session, origin.thread))
        if parent is None and origin.spawned:
            parent = Told(self._orphanage(intake, tool, origin, began))
        if parent is None:
            return {}
        if origin.at is not None and origin.at in parent.tips:
            birth = {"parent": parent.agent, "at": parent.tips[origin.at]}
            return birth | {"spawned": origin.spawned, "inherits": True}
        if not origin.spawned:
            return {}  # nothing is shared, or its place is not known: it stands for itself
        at = parent.calls.get(origin.call or "")
        if at is None and origin.call is not None and parent.unfinished:
            return None
        return {"parent": parent.agent, "spawned": True} | ({} if at is None else {"at": at})

    def _orphanage(self, intake: Intake, tool: str, origin: Origin, began: int) -> Agent:
        """The agent of a thread that is not here: an earlier import's, or a root without events."""
        key = _agent_key(tool, origin.session, origin.thread)
        there = self._there(key)
        if there is not None:
            return there
        agent = intake.agent(key, name=unique_name(tool, set()), created_at=_datetime(began))
        id = origin.session if origin.thread is None else f"{origin.session}/{origin.thread}"
        intake.remember(tool, key_of(id), agent=agent)
        intake.commit()
        return self._store.keyed(key)

    # --- what is kept beside ---

    def _describe(self, intake: Intake, session: Session, thread: Thread, agent: Agent) -> None:
        """Title, folder, version and the like: what changed since the source last said it, so that a title
        that a person gave stays."""
        ours = ("source", MARKER)
        said = {name: _short(value) for name, value in thread.about.items() if name not in ours}
        id = _native_id(thread)
        before = (intake.cursor((session.tool, id)) or {}).get("about") or {}
        new = {name: value for name, value in said.items() if before.get(name) != value and value}
        if not before and "source" not in agent.about:
            origin = {"tool": session.tool, "session": thread.session}
            new["source"] = origin if thread.id is None else origin | {"thread": thread.id}
        if new:
            intake.describe(agent, **new)
            intake.remember(session.tool, id, agent=agent, cursor={"about": before | said})


class _Pen:
    """Writes the steps of one thread behind what its agent has."""

    def __init__(self, intake: Intake, agent: Agent, changes: Changes, done: Imported, floor: int) -> None:
        self._intake = intake
        self._agent = agent
        self._changes = changes
        self._done = done
        self._places: dict[str, int] = {}
        self._entries: dict[str, str] = {}  # the entries of calls, by the calls' ids
        self._answered: set[str] = set()
        self._batch: list[LogEvent] = []
        self._size = 0
        self._written = agent.snapshot.head
        self._has_past = agent.snapshot.head > 0
        self._floor = floor or agent.snapshot.created_us
        self.calls: dict[str, int] = {}
        self.exported: Exported | None = None

    def write(self, steps: Iterator[Step], *, settled: bool) -> Line:
        """Write what is new, in batches, and return the line that it came to. The last batch is handed over,
        and waits for the commit."""
        line = Line(self._known())
        for event in line.events(self._looked_up(steps), settled=settled):
            self._batch.append(event)
            self._size += len(event.content or "") + 200
            if len(self._batch) >= BATCH or self._size >= BATCH_SIZE:
                self._hand_over()
                self.commit()
        self._hand_over()
        places = ((call, line.place(entry)) for call, entry in self._entries.items())
        self.calls = {call: place for call, place in places if place is not None}
        self._done.open_calls += len(self._entries.keys() - self._answered)
        return line

    def _known(self) -> Known:
        """What the agent has: where its head stands, and the newest answers, which may have grown."""
        record = self._agent.snapshot
        if not record.head:
            return Known(self._places)
        recent = self._agent.events(after=max(record.head - RECENT, 0))
        stands_at = record.head
        for event in reversed(recent):
            if event.seq == stands_at and event.kind == "jump":
                stands_at = (event.data or {}).get("target_message_id", 0)
            elif event.seq == stands_at and event.kind == "note":
                stands_at -= 1
        spoken = (event for event in recent if event.kind == "assistant" and event.key)
        begun = {event.key or "": event.content or "" for event in spoken}
        return Known(self._places, record.head, stands_at, record.updated_us, begun)

    def _looked_up(self, steps: Iterator[Step]) -> Iterator[Step]:
        """The steps; before each is told, it is known which of its entries the agent has."""
        while chunk := list(islice(steps, CHUNK)):
            if self._has_past:
                by_key = {key_of(id): id for step in chunk for id in ids_in(step)}
                found = self._intake.places(self._agent, by_key)
                self._places.update((by_key[key], place) for key, place in found.items())
            for step in chunk:
                if isinstance(step, Unit):
                    self._take_calls(step)
                    if self.exported is not None:
                        self._places.update(self.exported.places(step))
                yield step

    def _take_calls(self, unit: Unit) -> None:
        for entry in unit.entries:
            id = (entry.data or {}).get("id") if entry.copy_of is None else None
            if entry.kind == "tool_call" and isinstance(id, str):
                self._entries.setdefault(id, entry.id)
            elif entry.kind == "tool_result" and isinstance(id, str):
                self._answered.add(id)

    def _hand_over(self) -> None:
        if not self._batch:
            return
        rows = [self._row(event) for event in self._batch]
        try:
            self._intake.extend(self._agent, rows, expected=self._written)
        except InvalidEvent:
            self._intake.extend(self._agent, [self._sound(row) for row in rows], expected=self._written)
        self._written += len(rows)

    def commit(self) -> None:
        """Write what was handed over, and count it."""
        self._intake.commit()
        self._done.new_events += len(self._batch)
        self._done.branches += sum(event.kind == "jump" for event in self._batch)
        self._done.cuts += sum(event.kind == "clear" for event in self._batch)
        self._batch, self._size = [], 0

    def _row(self, event: LogEvent) -> tuple[Any, ...]:
        data, content = event.data, event.content
        if event.source_time is not None:
            data = (data or {}) | {"source": {"time": event.source_time}}
        if not self._changes.images and data is not None:
            data = without_pictures(data)
        if self._changes.mask is not None:
            content = None if content is None else self._changes.mask.text(content)
            data = self._changes.mask.value(data)
        key = None if event.id is None else key_of(event.id)
        return event.kind, content, _once(content, data), key, _datetime(event.time or self._floor)

    def _sound(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        """A row that can be stored: where it cannot, a note that says so has its place."""
        kind, content, data, key, time = row
        try:
            draft(kind, content, data, key)
        except InvalidEvent as error:
            self._done.report.damaged.append(Fault(self._done.source, None, error.message))
            return "note", DAMAGED, {"kind": kind, "why": error.message[:500]}, key, time
        return row


def _once(content: str | None, data: dict[str, Any] | None) -> dict[str, Any] | None:
    """The data of an event, its native form without what the event says anyway."""
    native = data.get("native") if data else None
    if data is None or not isinstance(native, dict) or "wire" not in native:
        return data
    wire = holed(native["wire"], content=content, arguments=data.get("arguments"))
    return data | {"native": native | {"wire": wire}}


def _place(thread: Thread) -> Place:
    return thread.session, thread.id


def _waits(thread: Thread, others: set[Place]) -> bool:
    origin = thread.origin
    place = (origin.session, origin.thread) if origin else None
    return place in others and place != (thread.session, thread.id)


def _chained(first: Iterable[Step], rest: Iterator[Step]) -> Iterator[Step]:
    yield from first
    yield from rest


def _agent_key(tool: str, session: str, thread: str | None) -> str:
    return key_of(f"{tool}:{session}" if thread is None else f"{tool}:{session}/{thread}")


def _native_id(thread: Thread) -> str:
    return key_of(thread.session if thread.id is None else f"{thread.session}/{thread.id}")


def _short(value: Any) -> Any:
    return held(value)[:LONGEST_ABOUT].strip() if isinstance(value, str) else value


def _datetime(microseconds: int) -> datetime:
    try:
        return to_datetime(max(microseconds, 0))
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC) if microseconds > 0 else EPOCH
