"""Appends to agents: decides bases, and takes a lock if it has to read first.

`log.replay` has the rules, `repeats` finds what was written before, and the backend stores the rows
and gives them their times.
"""

from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

from backstory.errors import Conflict, KeyTaken
from backstory.log.checks import check_draft, check_key, check_once
from backstory.log.data_keys import TARGET
from backstory.log.events import Draft, Event, parse_object
from backstory.log.kinds import ALWAYS_SHOWN, ANSWER_KINDS
from backstory.log.replay import NO_STACKS, PLAIN, Fold, Verdict, log_inert
from backstory.storage.agent_errors import check_head
from backstory.storage.inert_events import report_inert
from backstory.storage.positions import check_expected
from backstory.storage.protocol import (
    AgentRecord,
    Backend,
    Drafts,
    Reader,
    Transaction,
)
from backstory.storage.repeats import (
    LivePositions,
    Once,
    check_distinct_keys,
    find_batch,
    find_by_key,
    find_repeated,
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
    the key is returned. Events get the time of the append."""
    check_expected(expected)
    check_once(once)
    check_distinct_keys(drafts)
    if not drafts:
        check_head(agent, backend.read_head(agent), expected)
        return []
    try:
        return append_or_find(backend, agent, drafts, expected, once)
    except Conflict:
        repeated = find_repeated(backend, agent, drafts, expected)
        if repeated is None:
            raise
        return repeated


def append_or_find(
    backend: Backend, agent: AgentRecord, drafts: Drafts, expected: int | None, once: Once
) -> list[Event]:
    """Append the drafts whose keys do not exist yet, without a lock if that is possible, and find
    the events of the others. Raises Conflict."""
    if not must_read_first(agent, drafts, expected, once):
        try:
            return append_directly(backend, agent, drafts, expected)
        except (Conflict, KeyTaken):
            if not have_keys(drafts):
                raise
            # Events with these keys may exist: they are looked up under the lock.
    with backend.begin(agents=[agent]) as transaction:
        return append_in_transaction(transaction, agent, drafts, expected, once=once)


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
            return written
    except Conflict:
        found = []
        for agent, drafts, expected in batches:
            repeated = find_repeated(backend, agent, drafts, expected)
            if repeated is None:  # the conflict names an agent that has moved, perhaps another one
                raise
            found.append(repeated)
        return found


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
    check_key(key)
    with backend.begin(agents=[agent]) as transaction:
        lineage = transaction.read_lineage(agent)
        if once == "context":
            live = LivePositions(transaction, agent)
            key = renew_key(transaction, agent, lineage, live, key)
        repeated = find_batch(transaction, agent, lineage, key)
        if repeated:
            if repeated[0].kind not in ANSWER_KINDS:
                raise KeyTaken.of_event(key, repeated[0].seq)
            return repeated
        head = lineage[-1].high
        check_head(agent, head, expected)
        decided = decide_bases(transaction, agent, number_drafts(drafts, key), head)
        return transaction.append(agent, decided, head)


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
    the key, that is returned: its target would be another one by now."""
    check_expected(expected)
    with backend.begin(agents=[agent]) as transaction:
        if key is not None:
            lineage = transaction.read_lineage(agent)
            repeated = find_batch(transaction, agent, lineage, check_key(key))
            if repeated:
                if not move.is_written_as(repeated[0]):
                    raise KeyTaken.of_event(key, repeated[0].seq)
                return repeated[0]
        walk = transaction.walk(agent)
        check_head(agent, walk.head, expected)
        target = find_target(transaction, agent, walk, move)
        data = {TARGET: target, **move.flags, **author}
        draft = check_draft(move.kind, None, data, key)._replace(base=target)
        [event] = transaction.append(agent, [draft], walk.head)
        return event


def must_read_first(
    agent: AgentRecord, drafts: Drafts, expected: int | None, once: Once = "lineage"
) -> bool:
    """Return True if something has to be read before `drafts` can be written.

    A rewind needs the mark stack. A jump names its base, which is valid if it comes before the
    jump: so the jump's own position must be known, and `expected` gives it. A key has to be looked
    up, unless the agent inherits nothing and `expected` is given: then the unique index decides.
    """
    is_unique_in_agent = agent.fork_seq == 0 and once == "lineage"
    index_decides_keys = expected is not None and is_unique_in_agent
    for draft in drafts:
        if draft.key is not None and not index_decides_keys:
            return True
        if draft.kind == "rewind" or (draft.kind == "jump" and expected is None):
            return True
    return False


def have_keys(drafts: Drafts) -> bool:
    """Return True if at least one draft has a key."""
    return any(draft.key is not None for draft in drafts)


def append_directly(
    backend: Backend, agent: AgentRecord, drafts: Drafts, expected: int | None
) -> list[Event]:
    """Append drafts for which nothing has to be read. Raises Conflict or KeyTaken."""
    # Without `expected`, no draft is a rewind or a jump, so verdicts need no positions.
    head = 0 if expected is None else expected
    verdicts = judge_drafts(drafts, head)
    events = backend.append(agent, set_bases(drafts, verdicts), expected)
    report_problems(agent, head, verdicts)
    return events


def append_in_transaction(
    transaction: Transaction,
    agent: AgentRecord,
    drafts: Drafts,
    expected: int | None,
    now_us: int | None = None,
    once: Once = "lineage",
) -> list[Event]:
    """Append drafts while the agent is locked. Drafts whose keys exist are found, not written."""
    existing: dict[str, Event] = {}
    if have_keys(drafts):
        lineage = transaction.read_lineage(agent)
        head = lineage[-1].high
        if once == "context":
            drafts = renew_keys(transaction, agent, lineage, drafts)
        existing = find_by_key(transaction, agent, lineage, drafts)
    else:
        head = transaction.read_head(agent)
    new = [draft for draft in drafts if draft.key not in existing]
    if new or not drafts:
        check_head(agent, head, expected)
    written: list[Event] = []
    if new:
        decided = decide_bases(transaction, agent, new, head)
        written = transaction.append(agent, decided, head, now_us)
    return merge_in_order(drafts, existing, written)


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
        return [PLAIN] * len(drafts)
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
        target = data.get(TARGET)
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
