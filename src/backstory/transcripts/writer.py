"""Parsed sessions into a store: the one module of the importers that writes.

A session's main thread is a root agent, its sub-agents are born at their calls, a fork goes on from its
parent. Events have the source's ids as keys, so what the store has is never written again: not by a second
import, not by one that goes on where another was killed, and not by two at once.
"""

import re
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import Any, Protocol

from backstory.agent import Agent
from backstory.errors import AgentNotFound, Conflict, NameTaken, NotFound
from backstory.intake import Intake
from backstory.log.events import Event
from backstory.transcripts.checkpoints import ReadWhole
from backstory.transcripts.decode import held
from backstory.transcripts.masks import Mask
from backstory.transcripts.names import key_of, unique_name
from backstory.transcripts.outcome import Imported
from backstory.transcripts.provenance import PROVENANCE, Exported
from backstory.transcripts.thread_writer import CHUNK, Changes, ThreadWriter, moment_of
from backstory.transcripts.transcript import Origin, Session, Thread, Unit

LONGEST_ABOUT = 2_000
ABOUT, LEAF = (
    "about",
    "leaf",
)  # what is remembered of a thread: what was said of it, and where the tool was
FORKED_FROM = "forked_from"  # what is known of a fork that does not continue its origin
ATTEMPTS = 20  # against others that import the same
NUMBER = re.compile(r"-(\d+)$")  # how `unique_name` tells agents apart that are called the same

Place = tuple[str, str | None]  # a session and its thread


class Target(Protocol):
    """Where sessions go: a store."""

    def intake(self, *, dry_run: bool = False) -> Intake:
        """Return an intake."""

    def agents(self, *, session: str) -> list[Agent]:
        """The agents of a session."""

    def agent(self, ref: str | None = None, *, key: str | None = None) -> Agent:
        """Return the agent with an id or with a key."""


@dataclass
class Told:
    """A thread that was written: where its units and calls are."""

    agent: Agent
    tips: dict[str | None, int] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)
    unfinished: int = 0
    is_alone: bool = (
        False  # its agent does not continue what it was copied from, though that is here
    )


class Writer:
    """Writes the sessions of one tool; threads that others came from are remembered meanwhile."""

    def __init__(self, store: Target, changes: Changes, *, renames: bool = True) -> None:
        self._store = store
        self._changes = changes
        # What is only compared is not counted as masked.
        self._compared = Changes(None if changes.mask is None else Mask(), changes.images)
        self._renames = renames
        self._told: dict[Place, Told] = {}

    def is_ready(self, session: Session) -> bool:
        """Whether the threads that a session came from were written."""
        own = {(thread.session, thread.id) for thread in session.threads}
        origins = (
            (t.origin.session, t.origin.thread) for t in session.threads if t.origin is not None
        )
        return all(origin in self._told or origin in own for origin in origins)

    def write(self, session: Session, *, settled: bool, moment: int) -> Imported:
        """Add what is new of a session. `settled`: leave out answers that may still be written; `moment`: the
        time of what has none."""
        done = Imported(session.tool, session.source, session.id, report=session.report)
        if settled and not session.settled:
            done.unfinished += 1
            return done
        waiting = list(session.threads)
        while waiting:
            own = {(thread.session, thread.id) for thread in waiting}
            ready = [thread for thread in waiting if not _waits(thread, own)] or waiting[:1]
            for thread in ready:
                waiting.remove(thread)
                self._write(session, thread, done, settled, moment)
        return done

    def _write(
        self, session: Session, thread: Thread, done: Imported, settled: bool, moment: int
    ) -> None:
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
                    done.agent, done.title = told.agent.id, self._said(thread).get("title")
            return

    def _attempt(
        self, session: Session, thread: Thread, done: Imported, settled: bool, moment: int
    ) -> Told | None:
        steps = iter(thread.steps())
        first = list(islice(steps, CHUNK))
        began = next(
            (e.time for s in first if isinstance(s, Unit) for e in s.entries if e.time), moment
        )
        intake = self._store.intake()
        birth = self._birth(intake, session, thread, began)
        if birth is None:
            done.unfinished += 1
            return None
        agent, is_new = birth
        # What it was copied from may have come since it was born, or may be gone.
        is_alone = thread.alone is not None and _is_copied(thread) and not agent.fork_seq
        if thread.alone is not None and is_alone:
            steps, first = thread.alone(), []
        exported = (
            thread.about.get(PROVENANCE)
            if agent.key != _agent_key(session.tool, *_place(thread))
            else None
        )
        writer = ThreadWriter(
            intake, agent, self._changes, done, min(began, moment) if is_new else 0, thread.read
        )
        if thread.alone is not None and agent.fork_seq:
            own = "first" if agent.head > agent.fork_seq else None
            writer.copies = "marked" if _is_copied(thread) else own
            writer.parent = self._store.agent(agent.parent) if agent.parent is not None else None
        writer.is_trusted = _place(thread) in self._told  # a copy of the file, which may be damaged
        if exported is not None:
            writer.exported = Exported(
                _in_order(agent, exported), exported["lines"], exported["at"]
            )
        if exported is None and not writer.is_trusted:
            known = _known_of(intake, session, thread)
            writer.leaf = known.get(LEAF)
            without = {name: known[name] for name in known if name != LEAF}
            if LEAF in known:
                writer.forget_leaf = partial(
                    intake.remember, session.tool, _native_id(thread), agent=agent, cursor=without
                )
        line = writer.write(chain(first, steps), settled=settled)
        if exported is None:
            if self._renames:
                self._rename(writer, intake, session, thread, agent)
            self._describe(intake, session, thread, agent, None if writer.is_trusted else line.leaf)
        writer.commit()
        if _place(thread) not in self._told:  # a copy of a file has the same ones
            done.open_calls += writer.open_calls
            done.unfinished += line.left_out
        done.is_new = done.is_new or (is_new and thread.id is None)
        done.new_agents += is_new
        return Told(agent, line.ends(), writer.calls, line.left_out, is_alone)

    # --- where an agent is born ---

    def _birth(
        self, intake: Intake, session: Session, thread: Thread, began: int
    ) -> tuple[Agent, bool] | None:
        """The agent of a thread, and whether it is new; None if what it continues is still to come."""
        key = _agent_key(session.tool, thread.session, thread.id)
        there = self._exported(thread) or self._there(key)
        if there is not None:
            return there, False
        if thread.read is not None:
            raise ReadWhole
        birth = self._place(intake, session.tool, thread.origin, began)
        if birth is None:
            return None
        said = self._said(thread)
        wanted = said.get("title") or said.get("agent_type") or session.tool
        parent = birth.get("parent")
        name = self._free_name(wanted, parent.session if parent else None)
        agent = intake.agent(key, name=name, created_at=moment_of(began), **birth)
        intake.remember(session.tool, _native_id(thread), agent=agent)
        if birth.get("inherits"):  # what it inherits can be looked up from then on
            intake.commit()
        return agent, True

    def _exported(self, thread: Thread) -> Agent | None:
        """The agent that a file was exported from, if the store has it as it was then."""
        provenance = thread.about.get(PROVENANCE)
        if provenance is None:
            return None
        try:
            agent = self._store.agent(provenance["agent"])
            return agent if agent.digest(provenance["at"]) == provenance["digest"] else None
        except NotFound:
            return None

    def _there(self, key: str) -> Agent | None:
        try:
            return self._store.agent(key=key)
        except AgentNotFound:
            return None

    def _place(
        self, intake: Intake, tool: str, origin: Origin | None, began: int
    ) -> dict[str, Any] | None:
        """Where in which parent an agent is born: what `intake.agent` is told of it."""
        if origin is None:
            return {}
        parent = self._told.get((origin.session, origin.thread))
        if parent is None and origin.spawned:
            parent = Told(self._orphanage(intake, tool, origin, began))
        if parent is None:
            return {}
        if origin.at is not None and origin.at in parent.tips and not parent.is_alone:
            birth = {"parent": parent.agent, "at": parent.tips[origin.at]}
            return birth | {"spawned": origin.spawned, "inherits": True}
        if origin.at is not None and parent.unfinished and not parent.is_alone:
            return None
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
        agent = intake.agent(key, name=unique_name(tool, set()), created_at=moment_of(began))
        id = origin.session if origin.thread is None else f"{origin.session}/{origin.thread}"
        intake.remember(tool, key_of(id), agent=agent)
        intake.commit()
        return agent

    # --- what is kept beside ---

    def _rename(
        self, writer: ThreadWriter, intake: Intake, session: Session, thread: Thread, agent: Agent
    ) -> None:
        """Call an agent after a title that came later than it. A name that a person gave it stays."""
        said = self._said(thread)
        title, before = said.get("title"), _said_before(intake, session, thread).get("title")
        given = (before,) if before else (said.get("agent_type"), session.tool)
        ours = {unique_name(str(name), set()) for name in given if name}
        number = None if agent.name in ours else NUMBER.search(agent.name)
        bare = agent.name if number is None else agent.name[: number.start()]
        if not title or title == before or bare not in ours:
            return
        writer.commit()
        others = {one.name for one in self._store.agents(session=agent.session)} - {agent.name}
        name = unique_name(str(title), others)
        # We count no further than there are agents: a higher number is a person's.
        if name != agent.name and (number is None or int(number[1]) <= len(others) + 1):
            agent.rename(name)

    def _free_name(self, wanted: Any, session: str | None) -> str:
        """A name that no other agent of a session has."""
        taken = {one.name for one in self._store.agents(session=session)} if session else set()
        return unique_name(str(wanted), taken)

    def _said(self, thread: Thread) -> dict[str, Any]:
        """What a source says of a thread, as it is stored."""
        ours = ("source", PROVENANCE)
        said = thread.about.items()
        return {name: _stored(value, self._compared) for name, value in said if name not in ours}

    def _describe(
        self, intake: Intake, session: Session, thread: Thread, agent: Agent, leaf: str | None
    ) -> None:
        """Title, folder, version and the like: what changed since the source last said it, so that a title
        that a person gave stays. And the unit that the tool is at, for the next import."""
        said, known = self._said(thread), _known_of(intake, session, thread)
        before = known.get(ABOUT) or {}
        changed = [name for name, value in said.items() if before.get(name) != value and value]
        new = {name: _stored(thread.about[name], self._changes) for name in changed}
        link = _missed_origin(thread, agent)
        if link is not None and before.get(FORKED_FROM) != link:
            new[FORKED_FROM] = said[FORKED_FROM] = link
        if not before and "source" not in agent.about:
            origin = {"tool": session.tool, "session": thread.session}
            new["source"] = origin if thread.id is None else origin | {"thread": thread.id}
        now = (
            known
            | ({ABOUT: before | said} if new else {})
            | ({LEAF: leaf} if leaf is not None else {})
        )
        if new:
            intake.describe(agent, **new)
        if now != known:
            intake.remember(session.tool, _native_id(thread), agent=agent, cursor=now)


def _missed_origin(thread: Thread, agent: Agent) -> str | None:
    """The session that a thread is a fork of, if its agent does not continue that: it may come later."""
    origin = thread.origin
    if (
        origin is None
        or origin.spawned
        or agent.parent is not None
        or origin.session == thread.session
    ):
        return None
    return key_of(origin.session)


def _in_order(agent: Agent, exported: dict[str, Any]) -> list[Event]:
    """The events of an exported file as it tells them: those of a tree, or of one context."""
    match exported:
        case {"order": [*runs], "at": int(at)}:
            events = agent.events(until=at)
            return [event for low, high in runs for event in events[low - 1 : high]]
    return list(agent.context(exported["at"]).messages)


def _place(thread: Thread) -> Place:
    return thread.session, thread.id


def _is_copied(thread: Thread) -> bool:
    """Whether the thread that this one was copied from is here."""
    return thread.origin is not None and thread.origin.at is not None


def _waits(thread: Thread, others: set[Place]) -> bool:
    origin = thread.origin
    place = (origin.session, origin.thread) if origin else None
    return place in others and place != (thread.session, thread.id)


def _agent_key(tool: str, session: str, thread: str | None) -> str:
    return key_of(f"{tool}:{session}" if thread is None else f"{tool}:{session}/{thread}")


def _native_id(thread: Thread) -> str:
    return key_of(thread.session if thread.id is None else f"{thread.session}/{thread.id}")


def _known_of(intake: Intake, session: Session, thread: Thread) -> dict[str, Any]:
    """What was remembered of a thread when it was imported last."""
    known = intake.source(session.tool, _native_id(thread))
    return (known and known.cursor) or {}


def _said_before(intake: Intake, session: Session, thread: Thread) -> dict[str, Any]:
    """What the source said when it was imported last."""
    return _known_of(intake, session, thread).get(ABOUT) or {}


def _stored(value: Any, changes: Changes) -> Any:
    value = changes.made(value)
    return held(value)[:LONGEST_ABOUT].strip() if isinstance(value, str) else value
