"""Reads the events that one agent owns or inherits: its context, parts of its log, single events.

A read of complete pieces raises Corrupt if an event is missing. A filtered read cannot notice that.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from backstory.errors import Corrupt, Remedy
from backstory.log.chain import START
from backstory.log.events import LAST_POSITION, Event, OutlineRow
from backstory.log.kinds import KINDS
from backstory.log.replay import Context, select_shown
from backstory.storage.agent_errors import InertEvent, check_exists, report_inert_events
from backstory.storage.agent_trees import find_row
from backstory.storage.positions import (
    check_position,
    check_positions,
    clip,
    count_positions,
    find_pieces,
    take_last,
)
from backstory.storage.protocol import AgentRecord, EventFilter, Piece, Pieces, Reader, Walk
from backstory.storage.targets import At, resolve_position

# Positions read beyond the number of events asked for, because others are among them.
TAIL_SLACK = 16


class LineageReader:
    """Reads the events that an agent owns or inherits, dead or alive."""

    def __init__(self, reader: Reader, agent: AgentRecord) -> None:
        self.reader = reader
        self.agent = agent

    # --- positions ---

    def walk(self, at: At) -> Walk:
        """Return the live pieces at a position, a label or a time; None: at the head."""
        position = resolve_position(self.reader, self.agent, at)
        walk = self.reader.walk(self.agent, position)
        check_position(self.agent, walk.at, walk.head)
        return walk

    def read_lineage(self) -> list[Piece]:
        """Return all pieces of the lineage. The last one ends at the head."""
        return self.reader.read_lineage(self.agent)

    def locate(self, *positions: At) -> tuple[list[Piece], list[int]]:
        """Return the lineage, and the positions that numbers, labels, times and None (the head)
        mean. The lineage is read last, so that it contains what a label or time means."""
        resolved = [resolve_position(self.reader, self.agent, at) for at in positions]
        pieces = self.read_lineage()
        head = pieces[-1].high
        found = []
        for position in resolved:
            if position is None:
                position = head
            check_position(self.agent, position, head)
            found.append(position)
        return pieces, found

    def find_position(self, at: At) -> int:
        """Return the position that a number, a label, a time or None (the head) means. Raises
        AgentNotFound if the agent was deleted, which looking up a time would not notice."""
        _, [position] = self.locate(at)
        return position

    def find_range(self, after: At, until: At) -> list[Piece]:
        """Return the pieces of the lineage after a position (None: from the beginning) and up to
        another (None: the head)."""
        pieces, (low, high) = self.locate(0 if after is None else after, until)
        return clip(pieces, low + 1, high)

    def find_all(self) -> list[Piece]:
        """Return pieces with all events of the lineage. The last one may end after the head."""
        if self.agent.fork_seq > 0:
            return self.read_lineage()
        # No statement is needed: all its events are in one piece, wherever that ends.
        return [Piece(self.agent.pk, 1, LAST_POSITION)]

    # --- events ---

    def read_context(self, at: At) -> Context:
        """Return the context at a position, and report the inert events among its positions."""
        live = self.walk(at)
        events = self.read_pieces(live.pieces)
        moves = {piece.low for piece in live.pieces if piece.base is not None}
        messages = select_shown(events, moves)
        if len(messages) < len(events):
            self._report_hidden(subtract(events, messages))
        return Context(messages, live.at)

    def _report_hidden(self, events: Iterable[Event]) -> None:
        """Report the inert events among those that do not show."""
        inert = []
        for event in events:
            if event.kind != "clear":
                problem = "malformed or invalid" if event.kind in KINDS else "unknown kind"
                inert.append(InertEvent(event.seq, f"{problem} {event.kind!r}"))
        report_inert_events(self.agent, inert)

    def read_pieces(self, pieces: Pieces) -> list[Event]:
        """Return all events in some pieces of the lineage. Raises Corrupt if one is missing."""
        if not pieces:
            return []
        events = self.reader.read_events(self.agent, pieces)
        self._check_complete(pieces, events)
        return events

    def read_matches(self, pieces: Pieces, where: EventFilter) -> list[Event]:
        """Return the events in some pieces that match a filter."""
        if not pieces:
            return []
        return self.reader.read_events(self.agent, pieces, where)

    def read_last_matches(self, pieces: Pieces, where: EventFilter, limit: int) -> list[Event]:
        """Return the newest `limit` matches, by reads of bounded size from the end."""
        found: list[Event] = []
        rest = list(pieces)
        size = limit + TAIL_SLACK
        while rest and len(found) < limit:
            last, rest = take_last(rest, size)
            found = self.read_matches(last, where) + found
            size *= 4
        return found[-limit:]

    def read_positions(self, positions: Iterable[int]) -> list[Event]:
        """Return the events at some positions. Raises PositionNotFound."""
        pieces = self.read_lineage()
        wanted = check_positions(self.agent, positions, pieces[-1].high)
        return self.read_pieces(find_pieces(pieces, wanted))

    def read_keys(self, keys: Sequence[str]) -> list[Event]:
        """Return the events that have these keys."""
        pieces = self.find_all()
        found = self.reader.find_keys(keys, self.agent, pieces)
        positions = [position.seq for position in found]
        return self.read_pieces(find_pieces(pieces, positions))

    def read_outline(self, pieces: Pieces) -> list[OutlineRow]:
        """Return the rows of some pieces without their text. Raises Corrupt if one is missing."""
        rows = self.reader.read_outline(self.agent, pieces)
        self._check_complete(pieces, rows)
        return rows

    def count_kinds(self, pieces: Pieces, kinds: frozenset[str]) -> int:
        """Return the number of events of these kinds in some pieces, without reading text."""
        rows = self.reader.read_outline(self.agent, pieces)
        return sum(row.kind in kinds for row in rows)

    def _check_complete(self, pieces: Pieces, found: Sequence[object]) -> None:
        if len(found) == count_positions(pieces):
            return
        check_exists(self.reader, self.agent)
        raise Corrupt(
            f"events are missing from the log of agent {self.agent.name!r} ({self.agent.id})",
            remedy=Remedy("{} shows which", "verify"),
        )


def read_digest(reader: Reader, agent: AgentRecord, owner_pk: Any, position: int) -> bytes:
    """Return the digest at a position of an agent's lineage. `owner_pk` is the `pk` of the agent
    that owns the position. Raises Corrupt if the event is missing."""
    if position == 0:
        return START
    row = find_row(reader, agent._replace(pk=owner_pk), position)
    if row is None:
        check_exists(reader, agent)
        raise Corrupt(
            f"event {position} is missing from the log of agent {agent.name!r} ({agent.id})",
            remedy=Remedy("{} shows what else is wrong", "verify"),
        )
    return row.digest


def subtract(events: Sequence[Event], others: Sequence[Event]) -> list[Event]:
    """Return the events whose positions the others do not have."""
    positions = {event.seq for event in others}
    return [event for event in events if event.seq not in positions]
