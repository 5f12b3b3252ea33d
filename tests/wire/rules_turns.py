"""The sequence rules of the services whose roles alternate. Pure; knows turns, no provider's fields.

Anthropic, Bedrock and Gemini agree on the roles; Anthropic and Bedrock on the pairing of calls and results
too. They differ in their words, so each brings its own table of error texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

CALL, RESULT, OTHER = "call", "result", "other"


@dataclass(frozen=True)
class Block:
    """One content block: a call, a result, or anything else."""

    kind: str
    id: str | None = None


@dataclass(frozen=True)
class Turn:
    """One message; role is whatever stood there."""

    role: Any
    blocks: tuple[Block, ...]

    def ids(self, kind: str) -> list[str]:
        """The ids of its calls or of its results, in order."""
        return [block.id for block in self.blocks if block.kind == kind and block.id is not None]

    def has(self, kind: str) -> bool:
        """Whether it carries a block of the kind."""
        return any(block.kind == kind for block in self.blocks)

    def opens_with_results_only(self) -> bool:
        """Whether no result stands behind another block."""
        kinds = [block.kind for block in self.blocks]
        return RESULT not in kinds[kinds.count(RESULT) :]

    def is_only_results(self) -> bool:
        """Whether it says nothing but results."""
        return bool(self.blocks) and all(block.kind == RESULT for block in self.blocks)


def merged(turns: list[Turn]) -> list[Turn]:
    """The turns as a service sees them that combines neighbours of one role."""
    found: list[Turn] = []
    for turn in turns:
        if found and found[-1].role == turn.role:
            found[-1] = Turn(turn.role, found[-1].blocks + turn.blocks)
        else:
            found.append(turn)
    return found


def role_violations(turns: list[Turn], texts: Mapping[str, str], *, pending: bool) -> Iterator[str]:
    """The first turn is the user's, roles alternate, and the last turn is the user's (or the open calls)."""
    if not turns:
        return
    if turns[0].role != "user":
        yield texts["first"]
    for index in range(1, len(turns)):
        if turns[index].role == turns[index - 1].role:
            yield texts["alternate"].format(index=index, role=turns[index].role)
    if turns[-1].role != "user" and not (pending and turns[-1].has(CALL)):
        yield texts["last"]


def pairing_violations(
    turns: list[Turn], texts: Mapping[str, str], *, pending: bool, strict: bool
) -> Iterator[str]:
    """Every call is answered once, at the head of the very next turn; every result answers such a call.

    Ids are unique in the whole request by a strict reading, and in their turn by any.
    """
    made: set[str] = set()
    before = Turn(None, ())
    for index, turn in enumerate(turns):
        made = made if strict else set()
        may_be_open = pending and index == len(turns) - 1
        yield from _answers(
            before, turn, index, texts, may_be_open=may_be_open and turn.is_only_results()
        )
        yield from _calls(turn, index, texts, made)
        before = turn
    if not pending:
        yield from _missing(before.ids(CALL), len(turns), texts)


def _answers(
    before: Turn, turn: Turn, index: int, texts: Mapping[str, str], *, may_be_open: bool
) -> Iterator[str]:
    asked = dict.fromkeys(before.ids(CALL))
    answered: set[str] = set()
    for position, block in enumerate(turn.blocks):
        if block.kind != RESULT:
            continue
        if block.id not in asked:
            yield texts["orphan"].format(index=index, position=position, id=block.id)
        elif block.id in answered:
            yield texts["twice"].format(index=index, position=position, id=block.id)
        else:
            answered.add(block.id)
    if not turn.opens_with_results_only():
        yield texts["late"].format(
            index=index, before=index - 1, count=len(asked), ids=", ".join(asked)
        )
    if not may_be_open:
        yield from _missing([id for id in asked if id not in answered], index, texts)


def _calls(turn: Turn, index: int, texts: Mapping[str, str], made: set[str]) -> Iterator[str]:
    open: list[str] = []
    for position, block in enumerate(turn.blocks):
        if block.kind == CALL and block.id is not None:
            if block.id in made:
                yield texts["reused"].format(index=index, position=position, id=block.id)
            made.add(block.id)
            open.append(block.id)
        elif block.kind != CALL and open:
            yield texts["missing"].format(index=index + 1, before=index, ids=", ".join(open))


def _missing(ids: list[str], index: int, texts: Mapping[str, str]) -> Iterator[str]:
    if ids:
        yield texts["missing"].format(index=index, before=index - 1, ids=", ".join(ids))
