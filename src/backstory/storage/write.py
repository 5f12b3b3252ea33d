"""Appends to agents: decides bases, and takes a lock if it has to read first.

`log.replay` has the rules, `repeats` finds what was written before, and the backend stores the rows
and gives them their times.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, NamedTuple

from backstory.errors import Conflict, KeyTaken, NotFound
from backstory.log.arguments import check_new_key, check_once
from backstory.log.checks import check_draft
from backstory.log.data_keys import TARGET
from backstory.log.events import Draft, Event, parse_object
from backstory.log.kinds import ALWAYS_SHOWN, ANSWER_KINDS
from backstory.log.replay import NO_STACKS, Fold
from backstory.storage.agent_errors import InertEvent, check_head, report_inert_events
from backstory.storage.positions import check_expected
from backstory.storage.protocol import (
    AgentRecord,
    Backend,
    Drafts,
    Reader,
    Transaction,
    Walk,
)
from backstory.storage.repeats import (
    Once,
    check_distinct_keys,
    find_after_head,
    find_batch,
    find_by_key,
    merge_in_order,
    number_drafts,
    renew_key,
    renew_keys,
)
from backstory.storage.targets import MARKS, Move, find_target

# The positions of the marks on the stack, at some positions.
MarkStacks = Mapping[int, Container[int]]


class AgentBatch(NamedTuple):
    """The events of one agent in an append to several agents."""

    agent: AgentRecord
    drafts: Drafts
    expected: int | None = None


class DecidedDrafts(NamedTuple):
    """Drafts with their bases, and those among them that will be inert. Whoever writes the drafts
    reports these after the commit: if the write is rolled back, the log does not have them."""

    drafts: Drafts
    inert: list[InertEvent]


class AppendedEvents(NamedTuple):
    """The events of a transaction that is not committed yet, and the inert ones to be reported."""

    events: list[Event]
    inert: list[InertEvent]


def append_events(
    backend: Backend,
    agent: AgentRecord,
    drafts: Drafts,
    expected: int | None = None,
    once: Once = "lineage",
) -> list[Event]:
    """Append drafts to an agent, all or none, and return their events. With `expected`, append only
    after that head: a repeat returns the existing events, anything else raises Conflict. A draft
    whose key the lineage (or the context) already has is not written again: the RepeatedEvent with
    the key is returned. Events get the time of the append.

    Tried without a lock, then under it; after a Conflict, an earlier call's events are looked for.
    """
    check_expected(expected)
    check_once(once)
    check_distinct_keys(drafts)
    if not drafts:
        check_head(agent, backend.read_head(agent), expected)
        return []
    deadline = backend.compute_deadline()
    decided = decide_without_reading(agent, drafts, expected, once)
    if decided is not None:
        try:
            events = backend.append(agent, decided.drafts, expected, deadline)
        except (Conflict, KeyTaken):
            pass  # decided again under the lock: the events may exist
        else:
            report_inert_events(agent, decided.inert)
            return events
    try:
        with backend.begin(agents=[agent], deadline=deadline) as transaction:
            appended = append_in_transaction(transaction, agent, drafts, expected, once=once)
    except Conflict:
        repeated = find_after_head(backend, agent, drafts, expected, once)
        if repeated is None:
            raise
        return repeated
    report_inert_events(agent, appended.inert)
    return appended.events


def decide_without_reading(
    agent: AgentRecord, drafts: Drafts, expected: int | None, once: Once
) -> DecidedDrafts | None:
    """Return drafts with their bases, or None if something has to be read before.

    Messages and clears need nothing. A rewind needs the mark stack. A jump needs its own position,
    which `expected` gives: its target must come before it. A key has to be looked up, unless the
    agent inherits nothing and `expected` is given: then the unique index decides.
    """
    is_unique_in_agent = agent.fork_seq == 0 and once == "lineage"
    index_decides_keys = expected is not None and is_unique_in_agent
    for draft in drafts:
        if draft.key is not None and not index_decides_keys:
            return None
        if draft.kind == "rewind" or (draft.kind == "jump" and expected is None):
            return None
    return decide_bases(drafts, expected or 0)


def append_together(backend: Backend, batches: Sequence[AgentBatch]) -> list[list[Event]]:
    """Append to several agents, all or none. Each batch follows the rules of `append_events`,
    except that either all batches are repeats, or none is."""
    for batch in batches:
        check_distinct_keys(batch.drafts)
    try:
        with backend.begin(agents=[batch.agent for batch in batches]) as transaction:
            # One time for all, so that no moment has only a part of them.
            now_us = transaction.read_clock()
            written = []
            for agent, drafts, expected in batches:
                written.append(append_in_transaction(transaction, agent, drafts, expected, now_us))
    except Conflict:
        found = []
        for agent, drafts, expected in batches:
            repeated = find_after_head(backend, agent, drafts, expected)
            if repeated is None:
                check_head(agent, backend.read_head(agent), expected)  # names this agent
                raise
            found.append(repeated)
        return found
    for batch, appended in zip(batches, written, strict=True):
        report_inert_events(batch.agent, appended.inert)
    return [appended.events for appended in written]


def append_answer(
    backend: Backend,
    agent: AgentRecord,
    drafts: Drafts,
    key: str,
    expected: int | None = None,
    once: Once = "lineage",
) -> list[Event]:
    """Append the events of one answer, which share a key, all or none. If the lineage (or the
    context) has an answer with the key already, its events are returned, whatever they contain: a
    model that is asked again answers something else."""
    check_expected(expected)
    check_once(once)
    check_new_key(key)
    with backend.begin(agents=[agent]) as transaction:
        lineage = transaction.read_lineage(agent)
        if once == "context":
            key = renew_key(transaction, agent, lineage, key)
        repeated = find_batch(transaction, agent, lineage, key)
        if repeated:
            if repeated[0].kind not in ANSWER_KINDS:
                raise KeyTaken.of_event(key, repeated[0].seq)
            return repeated
        head = lineage[-1].high
        check_head(agent, head, expected)
        decided = decide_next_bases(transaction, agent, number_drafts(drafts, key), head)
        return transaction.append(agent, decided.drafts, expected=head)


def append_move(
    backend: Backend,
    agent: AgentRecord,
    move: Move,
    author: Mapping[str, Any],
    key: str | None = None,
    expected: int | None = None,
) -> Event:
    """Append a rewind or jump. Its target is looked up while the agent is locked. `author` is the
    part of the event's data that names who did it. If the lineage has a move of this command with
    the key, that is returned: its target would be another one by now. So is the event after
    `expected`, if this move would have written it there."""
    check_expected(expected)
    if key is not None:
        check_new_key(key)
    with backend.begin(agents=[agent]) as transaction:
        written = find_written(transaction, agent, key, fits=move.is_written_as)
        if written:
            return written[0]
        walk = transaction.walk(agent)
        if expected is not None and expected < walk.head:
            repeated = find_move_after_head(transaction, agent, move, author, key, expected)
            if repeated is not None:
                return repeated
        check_head(agent, walk.head, expected)
        draft = build_move_draft(transaction, agent, walk, move, author, key)
        [event] = transaction.append(agent, [draft], expected=walk.head)
        return event


def find_written(
    reader: Reader, agent: AgentRecord, key: str | None, fits: Callable[[Event], bool]
) -> list[Event]:
    """Return the events that a call with this key wrote before; none if the lineage does not have
    the key. Raises KeyTaken if the first of them does not fit the call."""
    if key is None:
        return []
    batch = find_batch(reader, agent, reader.read_lineage(agent), key)
    if batch and not fits(batch[0]):
        raise KeyTaken.of_event(key, batch[0].seq)
    return batch


def find_move_after_head(
    reader: Reader,
    agent: AgentRecord,
    move: Move,
    author: Mapping[str, Any],
    key: str | None,
    expected: int,
) -> Event | None:
    """Return the event after the `expected` head if it is what `move` wrote there; None if it is
    something else. The head has moved since: what the move would have done is computed again."""
    walk = reader.walk(agent, expected)
    try:
        draft = build_move_draft(reader, agent, walk, move, author, key)
    except NotFound:
        return None
    events = find_after_head(reader, agent, [draft], expected)
    return events[0] if events else None


def build_move_draft(
    reader: Reader,
    agent: AgentRecord,
    walk: Walk,
    move: Move,
    author: Mapping[str, Any],
    key: str | None,
) -> Draft:
    """Return the event that a move writes after the position of `walk`, with its base. Raises
    NotFound or Invalid if it has no target."""
    target = find_target(reader, agent, walk, move)
    data = {TARGET: target, **move.flags, **author}
    return check_draft(move.kind, None, data, key)._replace(base=target)


def append_in_transaction(
    transaction: Transaction,
    agent: AgentRecord,
    drafts: Drafts,
    expected: int | None,
    now_us: int | None = None,
    once: Once = "lineage",
) -> AppendedEvents:
    """Append drafts while the agent is locked. Drafts whose keys exist are found, not written."""
    existing: dict[str, Event] = {}
    if any(draft.key is not None for draft in drafts):
        lineage = transaction.read_lineage(agent)
        head = lineage[-1].high
        if once == "context":
            drafts = renew_keys(transaction, agent, lineage, drafts)
        existing = find_by_key(transaction, agent, lineage, drafts)
    else:
        head = transaction.read_head(agent)
    new = [draft for draft in drafts if draft.key not in existing]
    if new or not drafts:  # only `append_together` may pass no drafts
        check_head(agent, head, expected)
    if not new:
        return AppendedEvents(merge_in_order(drafts, existing, []), [])
    decided = decide_next_bases(transaction, agent, new, head)
    written = transaction.append(agent, decided.drafts, expected=head, now_us=now_us)
    return AppendedEvents(merge_in_order(drafts, existing, written), decided.inert)


def decide_next_bases(
    reader: Reader, agent: AgentRecord, drafts: Drafts, head: int
) -> DecidedDrafts:
    """Return the next events of an agent with their bases. `head` is its head."""
    stacks = read_mark_stacks(reader, agent, drafts, head)
    return decide_bases(drafts, head, stacks)


def decide_bases(drafts: Drafts, head: int, stacks: MarkStacks = NO_STACKS) -> DecidedDrafts:
    """Apply the rules of the log to drafts that will follow `head`. A rewind needs `stacks`: the
    mark stacks at the head and at the targets of moves."""
    kinds = {draft.kind for draft in drafts}
    if kinds <= ALWAYS_SHOWN:  # nearly all appends: each event continues the one before
        return DecidedDrafts(drafts, [])
    fold = Fold(after=head, stacks=stacks)
    decided = []
    inert = []
    for seq, draft in enumerate(drafts, head + 1):
        decision = fold.feed(draft.to_event(seq))
        decided.append(draft._replace(base=decision.base))
        if decision.problem:
            inert.append(InertEvent(seq, decision.problem))
    return DecidedDrafts(decided, inert)


def read_mark_stacks(reader: Reader, agent: AgentRecord, drafts: Drafts, head: int) -> MarkStacks:
    """Return the mark stacks at the head and at the targets of moves, if one of `drafts` is a
    rewind."""
    if all(draft.kind != "rewind" for draft in drafts):
        return {}
    positions = {head}
    for draft in drafts:
        data = parse_object(draft.data_json) or {}
        target = data.get(TARGET)
        if type(target) is int and 0 <= target < head:
            positions.add(target)
    stacks = {}
    for position in positions:
        marks = reader.read_events(agent, reader.walk(agent, position).pieces, MARKS)
        stacks[position] = frozenset(mark.seq for mark in marks)
    return stacks
