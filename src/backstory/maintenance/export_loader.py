"""Loads an export into a store: every line is checked against the rules of the log before it is written.

What the store already has must be the same in the export; the rest is added.
"""

from array import array
from collections.abc import Iterator
from typing import Any, NamedTuple

from backstory.errors import Conflict, Invalid, InvalidEvent
from backstory.log.chain import START, digest, inner
from backstory.log.events import Event, Stored, parse_object, to_json
from backstory.log.kinds import MOVES
from backstory.log.replay import Fold
from backstory.log.validity import is_time, wrong_agent, wrong_event
from backstory.storage.ids import checked_name, has_key
from backstory.storage.positions import LAST_POSITION
from backstory.storage.protocols import (
    AgentRecord,
    Intake,
    NewAgent,
    Piece,
    SourceRecord,
    tombstone_name,
)

PAGE = 2_000  # events in memory at a time

AGENT_FIELDS = ("id", "session", "name", "parent", "fork_seq", "born_seq", "spawned", "created_us")
SINCE_VERSION_2 = ("key", "about")  # of agents; None in a version 1 export


class Transfer(NamedTuple):
    """What an export wrote, or what an import added to the store."""

    sessions: int
    agents: int
    events: int


class ExportLoader:
    """One import: the agent whose events are being read, and the folds of its session."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._session = ""
        self._here: dict[str, AgentRecord] = {}
        self._folds: dict[str, Fold] = {}
        self._digests: dict[str, list[bytes]] = {}  # of each agent's own events
        self._times: dict[str, array[int]] = {}  # the same
        self._agent: AgentRecord | None = None
        self._time = 0
        self._known: Iterator[Stored] = iter(())
        self._new: list[Stored] = []
        self._taken = Transfer(0, 0, 0)
        self._ended = False
        self.new_sessions: set[str] = set()
        self.new_agents = 0
        self.new_events = 0

    def take(self, value: dict[str, Any]) -> None:
        if self._ended:
            raise Invalid("there is more after the end")
        sessions, agents, events = self._taken
        match value:
            case {"agent": dict(agent)}:
                known = self._session
                self._take_agent(agent)
                self._taken = Transfer(sessions + (self._session != known), agents + 1, events)
            case {"event": dict(event)}:
                self._take_event(event)
                self._taken = Transfer(sessions, agents, events + 1)
            case {"source": [*source]}:
                self._intake.remember([_source(source, None)])
            case {"end": dict(end)}:
                self._take_end(end)
            case _:
                raise Invalid("it is not an object with an agent or an event")

    def _take_end(self, end: dict[str, Any]) -> None:
        if end != self._taken._asdict():
            raise Invalid(
                f"the end counts {end}, but there were {self._taken._asdict()}: lines are missing"
            )
        self._ended = True

    def finish(self) -> None:
        """Write what is waiting, after the last line was read."""
        if not self._ended:
            raise Invalid("nothing was imported: the export is cut off, its last line is missing")
        self.flush()

    def _take_agent(self, fields: dict[str, Any]) -> None:
        self.flush()
        id, session, name, parent, fork_seq, born_seq, spawned, created_us = (
            fields[f] for f in AGENT_FIELDS
        )
        _check_agent(fields)
        if session != self._session:
            self._session, self._folds, self._digests, self._times = session, {}, {}, {}
            self._here = {record.id: record for record in self._intake.held(session)}
            if not self._here:
                self.new_sessions.add(session)
        fold = self._fold(parent, fork_seq)
        self._check_birth(fields)
        self._agent = self._here.get(id)
        if self._agent is None:
            if parent and parent not in self._folds:
                raise Invalid(f"its parent {parent} does not come before it")
            over = self._here[parent].pk if parent else None
            key, about = (fields.get(field) for field in SINCE_VERSION_2)
            deleted_us = fields.get("deleted_us")
            given = checked_name(name) if deleted_us is None else tombstone_name(id)
            new = NewAgent(
                id, session, given, over, fork_seq, born_seq, spawned, key, about, deleted_us
            )
            self._agent = self._here[id] = self._intake.add_agent(new, created_us)._replace(
                parent=parent
            )
            self.new_agents += 1
        else:
            _check_same(self._agent, fields)
        self._intake.remember([_source(source, id) for source in fields.get("sources", ())])
        self._folds[id] = fold
        self._digests[id] = []
        self._times[id] = array("q")
        self._known = _stored(self._intake, self._agent)
        self._time = created_us

    def _check_birth(self, fields: dict[str, Any]) -> None:
        """Refuse an agent that cannot have begun at that position or time."""
        parent, fork_seq, born_seq = fields["parent"], fields["fork_seq"], fields["born_seq"]
        if fields.get("deleted_us") is not None or parent is None or parent not in self._folds:
            return
        is_sub_agent = fields["spawned"] and not fork_seq
        highest = (
            LAST_POSITION if self._here[parent].deleted_us is not None else self._folds[parent].head
        )
        if not (born_seq <= highest if is_sub_agent else born_seq == fork_seq):
            raise Invalid(
                f"the agent was neither forked nor spawned at {born_seq}, where it is said to be born"
            )
        times = self._times[parent]
        first = self._here[parent].fork_seq
        if fork_seq and fields["created_us"] < times[fork_seq - first - 1]:
            raise Invalid("the agent is older than the event that it was forked at")

    def _fold(self, parent: str | None, fork_seq: int) -> Fold:
        if not fork_seq:
            return Fold()
        inherited = self._folds.get(parent or "")
        if inherited is None or not self._here[parent or ""].fork_seq < fork_seq <= inherited.head:
            raise Invalid(
                f"the agent is forked at {fork_seq}, but no parent that has it comes before"
            )
        return Fold(after=fork_seq, inherits=inherited)

    def _take_event(self, event: dict[str, Any]) -> None:
        if self._agent is None:
            raise Invalid("the event comes before its agent")
        row = self._chained(self._agent, _row(event), event.get("digest"))
        self._check_rules(row, self._folds[self._agent.id])
        known = next(self._known, None)
        if known is not None:
            if known != row:
                raise Conflict(
                    f"nothing was imported: agent {self._agent.name!r} ({self._agent.id}) has another "
                    f"event at {row.seq}, so the two histories have diverged",
                    remedy="import into another store",
                    head=self._agent.head,
                )
            return
        self._new.append(row)
        if len(self._new) >= PAGE:
            self.flush()

    def _chained(self, agent: AgentRecord, row: tuple[Any, ...], claimed: Any) -> Stored:
        """The row with its digest, which must be the one in the export."""
        seq, kind, content, data, created_us, key, base = row
        within = inner(content, data, parse_object(data))
        link = digest(self._previous(agent, seq - 1), seq, kind, created_us, base, key, within)
        if claimed is not None and claimed != link.hex():
            raise Invalid(f"position {seq} does not fit its digest: the export was changed")
        self._digests[agent.id].append(link)
        self._times[agent.id].append(created_us)
        return Stored._make((*row, link))

    def _previous(self, agent: AgentRecord, seq: int) -> bytes:
        own = self._digests[agent.id]
        if own:
            return own[-1]
        if not agent.fork_seq or seq != agent.fork_seq:
            return START
        parent = self._here[agent.parent or ""]
        return self._digests[parent.id][seq - parent.fork_seq - 1]

    def _check_rules(self, row: Stored, fold: Fold) -> None:
        seq, kind, _, data, created_us, _, base, _ = row
        if seq != fold.head + 1:
            raise Invalid(
                f"position {seq} comes after {fold.head}: a position is missing or out of order"
            )
        if created_us < self._time:
            raise Invalid(f"the time of position {seq} is before that of the previous event")
        self._time = created_us
        # Without the text, which the fold does not need: an import keeps a link for each event, not its
        # content.
        verdict = fold.feed(Event((seq, kind, None, data if kind in MOVES else None, 0, None)))
        if verdict.base != base:
            raise Invalid(
                f"the base of position {seq} is {base}, but the rules make it {verdict.base}"
            )

    def flush(self) -> None:
        """Write what is waiting."""
        if self._new and self._agent is not None:
            self._check_keys(self._agent, [row.key for row in self._new if row.key is not None])
            self._intake.add_events(self._agent, self._new)
            self.new_events += len(self._new)
            self._new = []

    def _check_keys(self, agent: AgentRecord, keys: list[str]) -> None:
        """Refuse a key that two events of one lineage have: only the first would ever be found by it."""
        known = self._intake.places(agent, self._lineage(agent), keys) if keys else {}
        twice = next(iter(known), None) or _repeated(keys)
        if twice is not None:
            raise Invalid(f"two events of agent {agent.name!r} have the key {twice!r:.60}")

    def _lineage(self, agent: AgentRecord) -> list[Piece]:
        """The lineage of an agent, even of a deleted one, which a backend no longer has."""
        pieces = [Piece(agent.pk, agent.fork_seq + 1, LAST_POSITION)]
        while agent.fork_seq:
            parent = self._here[agent.parent or ""]
            pieces.insert(0, Piece(parent.pk, parent.fork_seq + 1, agent.fork_seq))
            agent = parent
        return pieces


def _repeated(keys: list[str]) -> str | None:
    return None if len(set(keys)) == len(keys) else next(key for key in keys if keys.count(key) > 1)


def _check_same(here: AgentRecord, fields: dict[str, Any]) -> None:
    """Refuse an agent that is a different one here. One that was deleted elsewhere may still exist here."""
    if fields.get("deleted_us") is not None:
        return
    if here.deleted_us is not None:
        raise Invalid(
            f"agent {here.id} was deleted from this store, which still has agents that come from it",
            remedy="import into another store",
        )
    if any(getattr(here, field) != fields[field] for field in AGENT_FIELDS if field != "name"):
        raise Invalid(f"the store has another agent with the id {here.id}")


def _stored(intake: Intake, agent: AgentRecord) -> Iterator[Stored]:
    """The events that an agent had before the import."""
    after = agent.fork_seq
    while after < agent.head and (page := intake.stored(agent, after, PAGE)):
        yield from page
        after = page[-1].seq


def _row(event: dict[str, Any]) -> tuple[Any, ...]:
    """An event's columns and base, checked."""
    seq, kind, content, created_us, base = (
        event[field] for field in ("seq", "kind", "content", "created_us", "base")
    )
    text = event["data_text"] if "data_text" in event else _text_of(event["data"])
    key = event.get("key")
    for problem in wrong_event(kind, content, text, created_us, key):
        raise InvalidEvent(problem)
    if text is not None and parse_object(text) is None:
        raise InvalidEvent("its data is not a JSON object")
    if not (_whole(seq) and _whole(created_us) and (base is None or _whole(base))):
        raise InvalidEvent("seq, created_us and base must be whole numbers")
    return seq, kind, content, text, created_us, key, base


def _text_of(data: Any) -> str | None:
    return None if data is None else to_json(data)


def _check_agent(fields: dict[str, Any]) -> None:
    numbers = (
        fields["fork_seq"],
        fields["born_seq"],
        fields["created_us"],
        fields.get("deleted_us") or 0,
    )
    if not all(map(_whole, numbers)) or not isinstance(fields["spawned"], bool):
        raise Invalid(
            "fork_seq, born_seq and created_us must be whole numbers, and spawned true or false"
        )
    id, session, parent, created_us = (
        fields[name] for name in ("id", "session", "parent", "created_us")
    )
    key, about, deleted_us = (fields.get(name) for name in ("key", "about", "deleted_us"))
    for problem in wrong_agent(id, session, parent, created_us, key, about):
        raise Invalid(problem)
    if key is not None and not has_key(id, key):
        raise Invalid(f"the agent's id is not the one of its key {key!r:.60}")
    if deleted_us is not None and not (is_time(deleted_us) and deleted_us >= created_us):
        raise Invalid("the agent was deleted before it was made")


def _source(fields: Any, agent: str | None) -> SourceRecord:
    match fields:
        case [str(tool), str(id), None | str() as cursor]:
            (tool + id + (cursor or "")).encode()  # a lone surrogate raises
            return SourceRecord(tool, id, agent, cursor)
    raise Invalid("a source is a list of a tool, an id and a cursor, which may be null")


def _whole(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63
