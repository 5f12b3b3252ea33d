"""Decides which event each event of a batch continues, before it is written."""

from collections.abc import Sequence

from backstory.log.drafts import Draft
from backstory.log.events import parse_object
from backstory.log.gc_pause import pause_gc
from backstory.log.kinds import ALWAYS_SHOWN, FRESH_STARTS, MOVES
from backstory.log.replay import Fold, judge
from backstory.storage.protocols import AgentRecord, BasedDrafts, Reader


def with_bases(drafts: Sequence[Draft]) -> BasedDrafts:
    """The drafts with their bases, if none of them is a rewind or jump."""
    if (
        len(drafts) == 1
    ):  # most appends: without a list comprehension and a pause that would do nothing
        return [(drafts[0], 0 if drafts[0].kind in FRESH_STARTS else None)]
    with pause_gc(len(drafts)):
        return [(draft, 0 if draft.kind in FRESH_STARTS else None) for draft in drafts]


def judged(
    rows: Reader,
    agent: AgentRecord,
    drafts: Sequence[Draft],
    head: int,
    inert: list[tuple[int, str]],
) -> BasedDrafts:
    """The drafts with the bases that they get after this head; what that needs is read first."""
    kinds = {draft.kind for draft in drafts}
    if kinds.isdisjoint(MOVES):
        return with_bases(drafts)
    if "rewind" not in kinds:
        return [(draft, _base(seq, draft, inert)) for seq, draft in enumerate(drafts, head + 1)]
    fold = Fold(
        after=head,
        stacks=_mark_stacks(rows, agent, drafts, head),
        report=lambda seq, problem: inert.append((seq, problem)),
    )
    placed = enumerate(drafts, head + 1)
    return [(draft, fold.feed(draft.at(seq)).base) for seq, draft in placed]


def _base(seq: int, draft: Draft, inert: list[tuple[int, str]]) -> int | None:
    """The base of an event that is not a rewind: what it depends on is in the event alone."""
    if draft.kind in ALWAYS_SHOWN:
        return None
    verdict = judge(
        seq, draft.kind, draft.data_json, lambda target: target >= 0, lambda target: False
    )
    if verdict.problem:
        inert.append((seq, verdict.problem))
    return verdict.base


def _mark_stacks(
    rows: Reader, agent: AgentRecord, drafts: Sequence[Draft], head: int
) -> dict[int, frozenset[int]]:
    """The mark stacks that may be needed for some drafts: at the head, and at the targets of moves among
    them."""
    targets = ((parse_object(draft.data_json) or {}).get("target_message_id") for draft in drafts)
    places = {head, *(place for place in targets if type(place) is int and 0 <= place < head)}
    return {
        place: frozenset(mark.seq for mark in rows.marks(agent, rows.walk(agent, place).pieces))
        for place in places
    }
