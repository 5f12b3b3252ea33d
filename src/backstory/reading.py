"""Reads of one agent: its identity, its log and its contexts.

A handle contains the agent's row as it was listed, and asks the store for everything else each
time.
"""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, overload

from backstory.errors import Invalid
from backstory.log.arguments import (
    check_key,
    check_keys,
    check_limit,
    check_list,
    check_note_name,
    check_note_names,
)
from backstory.log.events import Event, OutlineRow, parse_object
from backstory.log.kinds import KINDS, MESSAGE_KINDS
from backstory.log.messages import find_open_calls, find_unanswered
from backstory.log.replay import Context, Explanation, Fold
from backstory.log.times import to_datetime
from backstory.storage.agent_errors import log_inert
from backstory.storage.agent_trees import AgentTree
from backstory.storage.follow import Follower, follow_agent
from backstory.storage.lineage import LineageReader, read_digest
from backstory.storage.positions import find_owner
from backstory.storage.protocol import AgentQuery, AgentRecord, Backend, EventFilter
from backstory.storage.targets import MARKS, At, resolve_position

if TYPE_CHECKING:  # imported where they are used, because most agents are not compared
    from backstory.comparing import MoveCommand, Preview
    from backstory.log.diff import Change, Comparison
    from backstory.wire.conversation import Conversation

IRREGULAR = EventFilter(irregular_only=True)
NOTES = EventFilter(kinds=frozenset({"note"}))


class LineagePart(NamedTuple):
    """A range of positions of a lineage, and the agent that they belong to."""

    agent_id: str
    first: int
    last: int  # less than `first` if the agent has no events of its own yet


class MoveRow(NamedTuple):
    """An event that continues another position than the one before it."""

    seq: int
    base: int
    kind: str


class AgentHandle(Protocol):
    """An agent that a method is given: an `Agent`, or an `AsyncAgent` of `backstory.aio`."""

    @property
    def id(self) -> str:
        """The agent's id."""

    @property
    def session(self) -> str:
        """The id of its session."""

    @property
    def fork_seq(self) -> int:
        """The last position that it inherits."""


class AgentReader:
    """The reads of an agent. Its only subclass, `Agent`, has the writes."""

    def __init__(self, backend: Backend, record: AgentRecord) -> None:
        self._backend = backend
        self._record = record

    @property
    def _lineage(self) -> LineageReader:
        return LineageReader(self._backend, self._record)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} {self.id}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AgentReader):
            return False
        return self._backend is other._backend and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    # --- identity ---

    @property
    def id(self) -> str:
        """The agent's id, a time-ordered UUID."""
        return self._record.id

    @property
    def name(self) -> str:
        """The agent's name, unique in its session."""
        return self._record.name

    @property
    def session(self) -> str:
        """The id of the session, which is the id of its root agent."""
        return self._record.session

    @property
    def parent(self) -> str | None:
        """The id of the agent that owns the position where it began, also after that was deleted:
        for a sub-agent the one that spawned it, for a fork perhaps an ancestor of the one that was
        forked. None for a root."""
        return self._record.parent

    @property
    def fork_seq(self) -> int:
        """The last position that it inherits; 0 if it inherits nothing."""
        return self._record.fork_seq

    @property
    def born_seq(self) -> int:
        """The position in its parent where it began: the fork position, or the parent's head when
        it was spawned."""
        return self._record.born_seq

    @property
    def spawned(self) -> bool:
        """True if it is a sub-agent."""
        return self._record.spawned

    @property
    def key(self) -> str | None:
        """The key that finds the agent: `store.agent(key=…)`."""
        return self._record.key

    @property
    def about(self) -> dict[str, Any]:
        """Its title, tags and other details, as they were when this handle was made."""
        return parse_object(self._record.about) or {}

    @property
    def created_at(self) -> datetime:
        """The time when it was created."""
        return to_datetime(self._record.created_us)

    @property
    def updated_at(self) -> datetime:
        """The time when it was last written to, as it was when this handle was made."""
        return to_datetime(self._record.updated_us)

    @property
    def listed_head(self) -> int:
        """The newest position as it was when this handle was made, such as by a listing."""
        return self._record.head

    @property
    def head(self) -> int:
        """The newest position, read from the store each time."""
        return self._backend.read_head(self._record)

    # --- contexts ---

    def context(self, at: At = None) -> Context:
        """Return what is live: now, or at a position, a mark's label or a time."""
        return self._lineage.read_context(at)

    def conversation(self, at: At = None) -> "Conversation":
        """Return what a model is given: the messages of the context. `.to(format)` makes a
        provider's request from them."""
        from backstory.wire.conversation import conversation_of

        return conversation_of(self.context(at).messages)

    def messages(
        self,
        at: At = None,
        *,
        notes: Iterable[str] = (),
        last: Iterable[str] = (),
        limit: int | None = None,
    ) -> list[Event]:
        """Return the live messages, oldest first, with the notes that have a name in `notes` and
        the newest note of each name in `last`. Other notes are not read. With `limit`, return only
        the newest ones, without reading the others."""
        all_names = check_note_names(notes)
        last_names = check_note_names(last)
        most = check_limit(limit, "messages")
        where = EventFilter(MESSAGE_KINDS | {"note"}, note_names=(*all_names, *last_names))
        live = self._lineage.walk(at)
        if most is None:
            events = self._lineage.read_matches(live.pieces, where)
        else:
            events = self._lineage.read_last_matches(live.pieces, where, most)
        return _keep_newest_notes(events, set(last_names) - set(all_names))

    def open_calls(self, at: At = None) -> list[Event]:
        """Return the live tool calls that have no result yet, oldest first: what a loop runs, or
        answers with an error, before it asks the model again."""
        return find_open_calls(self.messages(at))

    def unanswered(self, at: At = None) -> list[Event]:
        """Return the user messages and results at the end of the context that the model has not
        answered yet. If there are any, a loop that was interrupted asks the model again."""
        return find_unanswered(self.messages(at))

    def marks(self, at: At = None) -> list[Event]:
        """Return the mark stack, oldest first."""
        live = self._lineage.walk(at)
        return self._lineage.read_matches(live.pieces, MARKS)

    def notes(self, name: str | None = None, *, at: At = None, live: bool = True) -> list[Event]:
        """Return the notes, or those with a name, oldest first: of the context, or, if not `live`,
        of the complete lineage."""
        where = NOTES
        if name is not None:
            where = NOTES._replace(note_names=(check_note_name(name),))
        if live:
            pieces = self._lineage.walk(at).pieces
        elif at is None:
            pieces = self._lineage.find_all()
        else:
            pieces = self._lineage.find_range(0, at)
        return self._lineage.read_matches(pieces, where)

    def last_notes(self, names: Iterable[str], at: At = None) -> dict[str, Event]:
        """Return the newest live note of each of these names that has one."""
        wanted = tuple(check_note_names(names))
        live = self._lineage.walk(at)
        if not wanted:
            return {}
        where = NOTES._replace(note_names=wanted, newest_only=len(wanted) == 1)
        found: dict[str, Event] = {}
        for note in self._lineage.read_matches(live.pieces, where):
            if note.content is not None:
                found[note.content] = note  # a later one replaces an earlier one
        return found

    # --- the log ---

    def events(
        self,
        positions: Iterable[int] | None = None,
        *,
        after: At = 0,
        until: At = None,
        kinds: Iterable[str] | None = None,
        keys: Iterable[str] | None = None,
    ) -> list[Event]:
        """Return events of the lineage, dead ones included, in order: all, or those after `after`
        and up to `until`, perhaps only of some `kinds`. Or else those at some `positions`, or with
        some `keys`."""
        is_range = after != 0 or until is not None or kinds is not None
        if [positions is not None, keys is not None, is_range].count(True) > 1:
            raise Invalid(
                "events are read by positions, by keys, or by range and kinds",
                remedy="pass one of these",
            )
        if positions is not None:
            return self._lineage.read_positions(positions)
        if keys is not None:
            return self._lineage.read_keys(check_keys(keys))
        if kinds is None:
            return self._lineage.read_pieces(self._lineage.find_range(after, until))
        where = EventFilter(kinds=check_kinds(kinds))
        return self._lineage.read_matches(self._lineage.find_range(after, until), where)

    def outline(self, after: At = 0, until: At = None) -> list[OutlineRow]:
        """Return the lineage without its texts, or the part after `after` and up to `until`: the
        kind, size, time and base of each event."""
        return self._lineage.read_outline(self._lineage.find_range(after, until))

    def lineage(self) -> list[LineagePart]:
        """Return the parts of the lineage, oldest first, each with the id of the agent that owns
        it. The last part is the agent's own, perhaps an empty one. Positions of a deleted agent
        are named after the oldest living agent that inherits them."""
        tree = self._read_tree()
        (own, head), *inherited = tree.list_owners(tree.check_agent(self._record))
        parts = []
        for owner, last in reversed(inherited):
            parts += _name_owners(tree, owner, last)
        return [*parts, LineagePart(own.id, own.fork_seq + 1, head)]

    def moves(self) -> list[MoveRow]:
        """Return position, base and kind of each event of the lineage that has a base, in order:
        clears, and valid rewinds and jumps."""
        tree = self._read_tree()
        owners = tree.list_owners(tree.check_agent(self._record))
        last_of = {owner.id: last for owner, last in owners}
        moves = []
        for owner_id, row in self._backend.read_owned(self._relatives, IRREGULAR):
            is_in_lineage = row.seq <= last_of.get(owner_id, 0)
            if is_in_lineage and row.base is not None:
                moves.append(MoveRow(row.seq, row.base, row.kind))
        return sorted(moves)

    @property
    def _relatives(self) -> AgentQuery:
        """Agents that include all owners of the lineage."""
        if self.fork_seq == 0:
            return AgentQuery(id_prefix=self.id)
        return AgentQuery(session=self.session, include_deleted=True)

    def _read_tree(self) -> AgentTree:
        return AgentTree(self._backend.list_agents(self._relatives))

    def find(self, key: str) -> Event | None:
        """Return the event of the lineage, dead or alive, that has this key; None if there is
        none."""
        events = self._lineage.read_keys([check_key(key)])
        return events[0] if events else None

    def digest(self, at: At = None) -> str:
        """Return the digest that names the history up to a position (default: the head) exactly,
        in hex."""
        pieces, [position] = self._lineage.locate(at)
        owner_pk = find_owner(pieces, position)
        return read_digest(self._backend, self._record, owner_pk, position).hex()

    def follow(self, after: At = None, *, timeout: float | None = None) -> Follower[Event]:
        """Return an iterator over the events after `after` (default: the head), as anyone commits
        them. It ends when it or the store is closed, or when nothing came for `timeout` seconds."""
        position = resolve_position(self._backend, self._record, after)
        return follow_agent(self._backend, self._record, position, timeout)

    # --- comparing and explaining ---

    @overload
    def explain(self, seq: int, *, at: At = None) -> Explanation: ...

    @overload
    def explain(
        self, *, after: At = 0, until: At = None, at: At = None
    ) -> list[tuple[Event, Explanation]]: ...

    def explain(
        self, seq: int | None = None, *, after: At = 0, until: At = None, at: At = None
    ) -> Explanation | list[tuple[Event, Explanation]]:
        """Return why an event is or is not in the context. Without a position, return the events
        after `after` and up to `until`, each with its explanation."""
        from backstory.comparing import explain_event, explain_range

        if seq is None:
            return explain_range(self._lineage, after, until, at)
        return explain_event(self._lineage, seq, at)

    def diff(
        self,
        other: AgentHandle | None = None,
        *,
        at: At = None,
        other_at: At = None,
        after: "Change | None" = None,
        limit: int | None = None,
    ) -> "Comparison":
        """Compare this context, or the one at `at`, with another agent's, or with this agent's at
        `other_at`. Messages that both share through their fork are not read. For pages: `limit`
        changes after `after`, the last one of the previous page."""
        from backstory.comparing import ContextSide, check_change, compare_contexts

        other_record = self._record if other is None else get_record(self._backend, other)
        check_change(after)
        most = check_limit(limit, "changes")
        return compare_contexts(
            ContextSide(self._lineage, at),
            ContextSide(LineageReader(self._backend, other_record), other_at),
            are_related=self.session == other_record.session,
            after=after,
            limit=most,
        )

    def preview(self, move: "MoveCommand", to: At = None) -> "Preview":
        """Return what "clear", "rewind", "jump", "undo" or "redo" would do now. Writes nothing."""
        from backstory.comparing import preview_move

        return preview_move(self._lineage, move, to)


def _name_owners(tree: AgentTree, owner: AgentRecord, last: int) -> list[LineagePart]:
    """Return the positions that an agent owns, up to `last`, as parts that are named after agents
    that are alive."""
    parts = []
    low = owner.fork_seq + 1
    while low <= last:
        heir = tree.find_heir(owner, low)
        if heir is None:
            break  # only in a damaged store
        high = min(last, tree.find_last_position(heir, owner))
        parts.append(LineagePart(heir.id, low, high))
        low = high + 1
    return parts


def _keep_newest_notes(events: list[Event], names: Collection[str]) -> list[Event]:
    """Leave out the notes of these names, except the newest of each."""
    if not names:
        return events
    found = []
    missing = set(names)
    for event in reversed(events):
        if event.kind == "note" and event.content in names:
            if event.content not in missing:
                continue
            missing.remove(event.content)
        found.append(event)
    found.reverse()
    return found


def check_kinds(kinds: Any) -> frozenset[str]:
    """Return the kinds of events to read. Raises Invalid if they are not a list of strings."""
    found = check_list(kinds, "kinds", "pass kinds=[…]")
    for kind in found:
        if not isinstance(kind, str):
            raise Invalid(f"{kind!r:.60} is not a kind", remedy=f"use one of {', '.join(KINDS)}")
    return frozenset(found)


def replay(events: Iterable[Event], *, agent: str = "replay") -> Context:
    """Return the context at the end of a log that is in no store. Inert events are logged with the
    name `agent`."""
    fold = Fold()
    for event in events:
        decision = fold.feed(event)
        if decision.problem:
            log_inert(agent, event.seq, decision.problem)
    return Context(fold.find_context(fold.head).list_events(), fold.head)


def get_lineage(agent: AgentReader) -> LineageReader:
    """Return what reads the lineage of an agent, for other modules of the library. It is not a
    public property, because those are for users."""
    return agent._lineage


def get_record(backend: Backend, agent: object) -> AgentRecord:
    """Return the row of an agent that belongs to this store. In another store, its number would
    mean another agent. Raises Invalid."""
    handle = getattr(agent, "sync", agent)  # the agent of an AsyncAgent
    if not isinstance(handle, AgentReader):
        raise Invalid(f"{agent!r:.60} is not an agent", remedy="pass what store.agent(…) returns")
    lineage = get_lineage(handle)
    if lineage.reader is not backend:
        raise Invalid(
            f"agent {handle.name!r} belongs to another store",
            remedy="use each agent with the store that it came from",
        )
    return lineage.agent


def replace_record(agent: AgentReader, record: AgentRecord) -> None:
    """Set the row of a handle whose agent was created by an intake."""
    agent._record = record
