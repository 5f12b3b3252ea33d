"""Appends to agents: decides bases, finds repeats, and takes a lock if it has to read first.

This module reads the clock. `log.replay` has the rules, and the backend stores the rows.
"""

import time
from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

from backstory.errors import Conflict, Invalid, KeyTaken
from backstory.log.checks import check_draft, is_same_event
from backstory.log.events import Draft, Event, parse_object
from backstory.log.kinds import ALWAYS_SHOWN
from backstory.log.replay import NO_STACKS, Fold, Verdict, log_inert
from backstory.storage.positions import check_expected, find_parts
from backstory.storage.protocol import (
    AgentRecord,
    Backend,
    Drafts,
    Piece,
    Pieces,
    Reader,
    Transaction,
)
from backstory.storage.targets import MARKS, Move, find_target

# The positions of the marks on the stack, at some positions.
MarkStacks = Mapping[int, Container[int]]


class AgentBatch(NamedTuple):
    """The events of one agent in an append to several agents."""

    agent: AgentRecord
    drafts: Drafts
    expected: int | None = None


def append_events(
    backend: Backend, agent: AgentRecord, drafts: Drafts, expected: int | None = None
) -> list[Event]:
    """Append drafts to an agent, all or none, and return their events. With `expected`, append only
    after that head: a repeat returns the existing events, anything else raises Conflict. A draft
    whose key the lineage already has is not written again. Events get the time of the append."""
    check_expected(expected)
    check_distinct_keys(drafts)
    if not drafts:
        check_head(agent, backend.read_head(agent), expected)
        return []
    try:
        if not needs_lock(agent, drafts, expected):
            events = append_without_lock(backend, agent, drafts, expected)
            if events is not None:
                return events
        with backend.begin(agents=[agent]) as transaction:
            return append_with_lock(transaction, agent, drafts, expected, read_clock())
    except Conflict:
        repeated = find_repeated(backend, agent, drafts, expected)
        if repeated is None:
            raise
        return repeated


def append_together(backend: Backend, batches: Sequence[AgentBatch]) -> list[list[Event]]:
    """Append to several agents, all or none. Each batch follows the rules of `append_events`,
    except that either all batches are repeats, or none is."""
    for batch in batches:
        check_distinct_keys(batch.drafts)
    try:
        with backend.begin(agents=[batch.agent for batch in batches]) as transaction:
            now_us = read_clock()  # one time for all, so that no moment has only a part of them
            written = []
            for agent, drafts, expected in batches:
                written.append(append_with_lock(transaction, agent, drafts, expected, now_us))
            return written
    except Conflict:
        found = []
        for agent, drafts, expected in batches:
            repeated = find_repeated(backend, agent, drafts, expected)
            if repeated is None:  # the conflict names an agent that has moved, perhaps another one
                raise
            found.append(repeated)
        return found


def append_move(
    backend: Backend,
    agent: AgentRecord,
    move: Move,
    author: Mapping[str, Any],
    expected: int | None = None,
) -> Event:
    """Append a rewind or jump. Its target is looked up while the agent is locked. `author` is the
    part of the event's data that names who did it."""
    check_expected(expected)
    with backend.begin(agents=[agent]) as transaction:
        walk = transaction.walk(agent)
        check_head(agent, walk.head, expected)
        target = find_target(transaction, agent, walk, move)
        data = {"target_message_id": target, **move.flags, **author}
        draft = check_draft(move.kind, None, data)._replace(base=target)
        [event] = transaction.append(agent, [draft], walk.head, read_clock())
        return event


def needs_lock(agent: AgentRecord, drafts: Drafts, expected: int | None) -> bool:
    """Return True if something has to be read before `drafts` can be written.

    A rewind needs the mark stack. A jump names its base, which is valid if it comes before the
    jump: so the jump's own position must be known, and `expected` gives it. A key has to be looked
    up, unless the agent inherits nothing and `expected` is given: then the unique index decides.
    """
    index_decides_keys = expected is not None and agent.fork_seq == 0
    for draft in drafts:
        if draft.key is not None and not index_decides_keys:
            return True
        if draft.kind == "rewind" or (draft.kind == "jump" and expected is None):
            return True
    return False


def append_without_lock(
    backend: Backend, agent: AgentRecord, drafts: Drafts, expected: int | None
) -> list[Event] | None:
    """Append drafts that need no lock. Return None if events with their keys may exist already:
    then they have to be found. Raises Conflict."""
    # Without `expected`, no draft is a rewind or a jump, so verdicts need no positions.
    head = 0 if expected is None else expected
    verdicts = judge_drafts(drafts, head)
    try:
        events = backend.append(agent, set_bases(drafts, verdicts), expected, read_clock())
    except (Conflict, KeyTaken):
        if all(draft.key is None for draft in drafts):
            raise
        return None
    report_problems(agent, head, verdicts)
    return events


def append_with_lock(
    transaction: Transaction,
    agent: AgentRecord,
    drafts: Drafts,
    expected: int | None,
    now_us: int,
) -> list[Event]:
    """Append drafts while the agent is locked. Drafts whose keys exist are found, not written."""
    if all(draft.key is None for draft in drafts):
        head = transaction.read_head(agent)
        existing: dict[str, Event] = {}
    else:
        lineage = transaction.read_lineage(agent)
        head = lineage[-1].high
        existing = find_by_key(transaction, agent, lineage, drafts)
    new = [draft for draft in drafts if draft.key not in existing]
    if new or not drafts:
        check_head(agent, head, expected)
    written: list[Event] = []
    if new:
        decided = decide_bases(transaction, agent, new, head)
        written = transaction.append(agent, decided, head, now_us)
    return merge_in_order(drafts, existing, written)


def check_head(agent: AgentRecord, head: int, expected: int | None) -> None:
    """Raise Conflict if the head is not the expected one."""
    if expected is not None and expected != head:
        raise Conflict.at(agent.name, expected, head)


def merge_in_order(
    drafts: Drafts, existing: Mapping[str, Event], written: Sequence[Event]
) -> list[Event]:
    """Return the event of each draft: the existing one with its key, or the next one that was
    written."""
    remaining = iter(written)
    events = []
    for draft in drafts:
        if draft.key is not None and draft.key in existing:
            events.append(existing[draft.key])
        else:
            events.append(next(remaining))
    return events


def check_distinct_keys(drafts: Drafts) -> None:
    """Raise Invalid if two drafts have the same key."""
    keys = [draft.key for draft in drafts if draft.key is not None]
    if len(set(keys)) < len(keys):
        raise Invalid("two events of one batch have the same key", remedy="give each its own")


def find_by_key(
    reader: Reader, agent: AgentRecord, lineage: Pieces, drafts: Drafts
) -> dict[str, Event]:
    """Return the events of the lineage that have the keys of `drafts`. Raises KeyTaken if one of
    them differs from its draft."""
    if lineage[-1].high == 0:  # an empty log
        return {}
    by_key = {draft.key: draft for draft in drafts if draft.key is not None}
    found = reader.find_keys(list(by_key), agent, lineage)
    if not found:
        return {}
    existing: dict[str, Event] = {}
    parts = find_parts(lineage, [position.seq for position in found])
    for event in reader.read_events(agent, parts):
        key = event.key or ""
        if not is_same_event(by_key[key], event):
            raise KeyTaken.of_event(key, event.seq)
        existing[key] = event
    return existing


def find_repeated(
    reader: Reader, agent: AgentRecord, drafts: Drafts, expected: int | None
) -> list[Event] | None:
    """Return the events of an append that was written before, or None if it was not."""
    if expected is None or not drafts:  # an empty batch of several is no repeat
        return None
    last = expected + len(drafts)
    if last > reader.read_head(agent):
        return None
    events = reader.read_events(agent, [Piece(agent.pk, expected + 1, last)])
    if len(events) != len(drafts):
        return None
    for draft, event in zip(drafts, events, strict=True):
        if not is_same_event(draft, event):
            return None
    return events


def decide_bases(reader: Reader, agent: AgentRecord, drafts: Drafts, head: int) -> list[Draft]:
    """Return the drafts with the bases that they get after `head`, and report those that will be
    inert."""
    stacks = read_mark_stacks(reader, agent, drafts, head)
    verdicts = judge_drafts(drafts, head, stacks)
    report_problems(agent, head, verdicts)
    return set_bases(drafts, verdicts)


def decide_first_bases(name: str, drafts: Drafts) -> list[Draft]:
    """Return the first events of an agent that will have this name, with their bases, and log those
    that will be inert."""
    check_distinct_keys(drafts)
    verdicts = judge_drafts(drafts, 0)
    for seq, verdict in enumerate(verdicts, 1):
        if verdict.problem:
            log_inert(repr(name), seq, verdict.problem)
    return set_bases(drafts, verdicts)


def judge_drafts(drafts: Drafts, head: int, stacks: MarkStacks = NO_STACKS) -> list[Verdict]:
    """Apply the rules of the log to drafts that will follow `head`. A rewind needs `stacks`: the
    mark stacks at the head and at the targets of moves."""
    kinds = {draft.kind for draft in drafts}
    if kinds <= ALWAYS_SHOWN:  # nearly all appends: each event continues the one before
        return [Verdict(None, True)] * len(drafts)
    fold = Fold(after=head, stacks=stacks)
    verdicts = []
    for seq, draft in enumerate(drafts, head + 1):
        verdicts.append(fold.feed(draft.at(seq)))
    return verdicts


def set_bases(drafts: Drafts, verdicts: Sequence[Verdict]) -> list[Draft]:
    """Return the drafts with the bases of their verdicts."""
    decided = []
    for draft, verdict in zip(drafts, verdicts, strict=True):
        if verdict.base is not None:
            draft = draft._replace(base=verdict.base)
        decided.append(draft)
    return decided


def read_mark_stacks(reader: Reader, agent: AgentRecord, drafts: Drafts, head: int) -> MarkStacks:
    """Return the mark stacks at the head and at the targets of moves, if one of `drafts` is a
    rewind."""
    if all(draft.kind != "rewind" for draft in drafts):
        return {}
    positions = {head}
    for draft in drafts:
        data = parse_object(draft.data_json) or {}
        target = data.get("target_message_id")
        if type(target) is int and 0 <= target < head:
            positions.add(target)
    stacks = {}
    for position in positions:
        marks = reader.read_events(agent, reader.walk(agent, position).pieces, MARKS)
        stacks[position] = frozenset(mark.seq for mark in marks)
    return stacks


def report_problems(agent: AgentRecord, head: int, verdicts: Sequence[Verdict]) -> None:
    """Report the inert events among those that follow `head`."""
    for seq, verdict in enumerate(verdicts, head + 1):
        if verdict.problem:
            report_inert(agent, seq, verdict.problem)


def report_inert(agent: AgentRecord, seq: int, problem: str) -> None:
    """Log an inert event once in this process, however often it is read."""
    # An agent with a key has the same id in every store, but not the same birth.
    event = (agent.id, agent.created_us, seq)
    if event not in _reported:
        _reported.add(event)
        log_inert(f"{agent.name!r} ({agent.id})", seq, problem)


_reported: set[tuple[str, int, int]] = set()


def read_clock() -> int:
    """Return the time in microseconds. Every event gets its time from here."""
    return time.time_ns() // 1000
