"""Compares contexts: why an event is or is not in one, how two of them differ, and what a move
would change."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, get_args

from backstory.errors import Invalid, PositionNotFound
from backstory.log.diff import Change, Comparison, compare
from backstory.log.events import LAST_POSITION, Event
from backstory.log.kinds import MESSAGE_KINDS, TARGETED_KINDS
from backstory.log.replay import Explanation, explain
from backstory.storage.lineage import LineageReader, subtract
from backstory.storage.positions import clip, find_owner, find_pieces
from backstory.storage.protocol import EventFilter, Piece, Pieces
from backstory.storage.targets import At, Move, find_target

MoveCommand = Literal["clear", "rewind", "jump", "undo", "redo"]

MESSAGES = EventFilter(kinds=MESSAGE_KINDS)
CHANGES = EventFilter(kinds=MESSAGE_KINDS | {"note", "mark"})
MOVE_COMMANDS: tuple[MoveCommand, ...] = get_args(MoveCommand)


# --- explaining ---


def explain_event(lineage: LineageReader, seq: int, at: At) -> Explanation:
    """Return why the event at position `seq` is or is not in the context at `at`."""
    live = lineage.walk(at)
    [event] = lineage.read_positions([seq])
    if seq > live.at:
        raise PositionNotFound(
            f"position {seq} comes after position {live.at}", remedy=f"pass at={seq} or later"
        )
    [explanation] = explain_events(lineage, live.pieces, [event])
    if explanation.live and event.kind == "tool_result":
        return _explain_result(explanation, lineage.read_context(at).messages)
    return explanation


def _explain_result(explanation: Explanation, context: list[Event]) -> Explanation:
    """Add to the explanation of a live result why a model is not given it, if it is not."""
    from backstory.wire.conversation import conversation_of  # slow to import

    for repair in conversation_of(context).repairs("openai"):
        if repair.rule == "drop" and repair.at == explanation.seq:
            reason = f"{explanation.reason}, but no request has it: {repair.why}"
            return explanation._replace(reason=reason)
    return explanation


def explain_range(
    lineage: LineageReader, after: At, until: At, at: At
) -> list[tuple[Event, Explanation]]:
    """Return the events after `after` and up to `until`, each with the reason why it is or is not
    in the context at `at`. Events after `at` are left out."""
    live = lineage.walk(at)
    pieces = clip(lineage.find_range(after, until), 1, live.at)
    events = lineage.read_pieces(pieces)
    explanations = explain_events(lineage, live.pieces, events)
    return list(zip(events, explanations, strict=True))


def explain_events(
    lineage: LineageReader, live: Pieces, events: Sequence[Event]
) -> list[Explanation]:
    """Explain events of the lineage, none of them after the live pieces."""
    valid_moves = _find_valid_moves(lineage, events)
    next_lows = _find_next_lows(live, events)
    moves = {}
    if next_lows:
        moves = {move.seq: move for move in lineage.read_positions(next_lows.values())}
    found = []
    for event in events:
        left_by = None
        if event.seq in next_lows:
            left_by = moves[next_lows[event.seq]]
        found.append(explain(event, event.seq in valid_moves, left_by))
    return found


def _find_valid_moves(lineage: LineageReader, events: Sequence[Event]) -> set[int]:
    """Return the positions of the valid rewinds and jumps among events of the lineage."""
    moves = [event.seq for event in events if event.kind in TARGETED_KINDS]
    if not moves:
        return set()
    pieces = find_pieces(lineage.read_lineage(), moves)
    rows = lineage.read_outline(pieces)
    return {row.seq for row in rows if row.base is not None}


def _find_next_lows(live: Pieces, events: Sequence[Event]) -> dict[int, int]:
    """Return, for the position of each dead event, that of the move that left it: the first
    position of the next live piece."""
    highs = [piece.high for piece in live]
    next_lows = {}
    for event in events:
        low = live[bisect_left(highs, event.seq)].low
        if event.seq < low:
            next_lows[event.seq] = low
    return next_lows


# --- comparing ---


class ContextSide:
    """One of two contexts that are compared."""

    def __init__(self, lineage: LineageReader, at: At) -> None:
        self._lineage = lineage
        self.pieces = lineage.walk(at).pieces

    def count_messages(self, pieces: Pieces) -> int:
        """Return the number of messages in some pieces."""
        return self._lineage.count_kinds(pieces, MESSAGE_KINDS)

    def read_messages_after(self, shared: Pieces) -> list[Event]:
        """Return the messages after the pieces that both contexts share."""
        last = shared[-1].high if shared else 0
        rest = clip(self.pieces, last + 1, LAST_POSITION)
        return self._lineage.read_matches(rest, MESSAGES)

    def explain_absences(
        self, events: Sequence[Event], other: "ContextSide"
    ) -> dict[int, Explanation]:
        """Return, by their positions, what took events of the other context out of this one. Events
        that never were in this one are left out."""
        if not self.pieces or not events:
            return {}
        owned = clip(self._lineage.read_lineage(), 1, self.pieces[-1].high)
        common = []
        for event in events:
            owner = find_owner(other.pieces, event.seq)
            if owner == find_owner(owned, event.seq):
                common.append(event)
        explanations = explain_events(self._lineage, self.pieces, common)
        return {found.seq: found for found in explanations if not found.live}


def compare_contexts(
    left: ContextSide,
    right: ContextSide,
    *,
    are_related: bool,
    after: Change | None,
    limit: int | None,
) -> Comparison:
    """Compare two contexts. If they are of one session, messages that both have from the beginning
    on are counted, not read, and changes have reasons."""
    shared = _find_shared_pieces(left.pieces, right.pieces) if are_related else []
    left_messages = left.read_messages_after(shared)
    right_messages = right.read_messages_after(shared)
    found = compare(left_messages, right_messages, after=after, limit=limit)
    if not are_related:
        return found
    return found._replace(
        common=found.common + left.count_messages(shared),
        changes=_add_reasons(found.changes, left, right),
    )


def check_change(after: object) -> None:
    """Raise Invalid if `after` is not the last change of a page."""
    if not isinstance(after, Change | None):
        raise Invalid(
            f"after={after!r:.60} is not a change", remedy="pass the last one of the page before"
        )


def _find_shared_pieces(mine: Pieces, theirs: Pieces) -> list[Piece]:
    """Return the live pieces that both have from the beginning on, the last one perhaps cut."""
    shared = []
    for one, other in zip(mine, theirs, strict=False):
        if one.owner != other.owner or one.low != other.low:
            break
        if one.high != other.high:
            shorter = one if one.high < other.high else other
            shared.append(shorter)
            break
        shared.append(one)
    return shared


def _add_reasons(changes: Sequence[Change], left: ContextSide, right: ContextSide) -> list[Change]:
    """Return the changes, with the reasons why one of the contexts lacks a message."""
    removed = []
    added = []
    for change in changes:
        if change.left and not change.right:
            removed.append(change.left)
        elif change.right and not change.left:
            added.append(change.right)
    why_removed = right.explain_absences(removed, left)
    why_added = left.explain_absences(added, right)
    explained = []
    for change in changes:
        why = _find_reason(change, why_removed, why_added)
        explained.append(change._replace(why=why))
    return explained


def _find_reason(
    change: Change, why_removed: Mapping[int, Explanation], why_added: Mapping[int, Explanation]
) -> Explanation | None:
    if change.left and not change.right:
        return why_removed.get(change.left.seq)
    if change.right and not change.left:
        return why_added.get(change.right.seq)
    return None


def read_changes(lineage: LineageReader, move: int) -> tuple[list[Event], list[Event]]:
    """Return what the move at position `move` took out of the context, and what it brought back:
    messages, notes and marks."""
    before = lineage.walk(move - 1).pieces
    after = clip(lineage.walk(move).pieces, 1, move - 1)
    shared = _find_shared_pieces(before, after)
    # Contexts are paths in a tree: after the part that both begin with, they share nothing.
    last = shared[-1].high if shared else 0
    removed = lineage.read_matches(clip(before, last + 1, LAST_POSITION), CHANGES)
    returned = lineage.read_matches(clip(after, last + 1, LAST_POSITION), CHANGES)
    return removed, returned


# --- previewing ---


class Preview(NamedTuple):
    """The effect that a clear, rewind, jump, undo or redo would have."""

    target: int  # the position whose context it would restore; 0: the empty one
    leaves: list[Event]  # the events that would leave the context
    returns: list[Event]  # the events that would return to it


def preview_move(lineage: LineageReader, move: MoveCommand, to: At) -> Preview:
    """Return the events that a move would take out of the context, and those that it would bring
    back."""
    command = _check_command(move)
    reader, agent = lineage.reader, lineage.agent
    walk = reader.walk(agent)
    target = 0  # of a clear
    if command != "clear":
        target = find_target(reader, agent, walk, Move(command, to))
    now = lineage.read_context(walk.head).messages
    then = lineage.read_context(target).messages
    return Preview(
        target,
        leaves=subtract(now, then),
        returns=subtract(then, now),
    )


def _check_command(move: str) -> MoveCommand:
    for command in MOVE_COMMANDS:
        if move == command:
            return command
    known = ", ".join(MOVE_COMMANDS)
    raise Invalid(f"{move!r:.60} is not a move", remedy=f"use one of {known}")
