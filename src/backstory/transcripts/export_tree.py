"""An agent's whole log as a tree of messages: the live context, and what rewinds and clears left behind.

The live context comes last, because a tool resumes a file at its last record. For the same reason, a branch
that was abandoned after the last live message is not in the tree.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from backstory.log.kinds import MOVE_KINDS
from backstory.transcripts.export_line import Line, Message, text_of

BRANCHES = 500  # at most this many abandoned branches: the newest

Key = tuple[Any, ...]


class Told(NamedTuple):
    """A message, in the order of the file."""

    number: int
    parent: int | None  # the number of the message that it continues
    message: Message


class _Step(NamedTuple):
    """A message of one context, and the events that it was made from; none if a repair added it."""

    key: Key  # what makes it the same message in two contexts
    message: Message
    events: list[int]

    def is_in(self, other: "_Step") -> bool:
        """Whether the same message of another context says all that this one does: an answer may have grown
        behind a branch, and a result may have come."""
        if self.message.role == "result":
            return not self.events or self.message.event.seq == other.message.event.seq
        mine, theirs = self.message, other.message
        calls = {call.id for call in theirs.calls}
        return {call.id for call in mine.calls} <= calls and text_of(theirs.form).startswith(
            text_of(mine.form)
        )


def tree(line: Line, mark: dict[str, Any]) -> list[Told]:
    """The messages of all branches. The order of the events in the file is added to the provenance."""
    live = list(_path(line, line.at))
    # Its results belong to the last message, wherever they stand.
    leaf = next((step.key for step in reversed(live) if step.message.role != "result"), None)
    steps = {step.key: step for step in live}  # live ones come first, and stay as they are
    fixed = frozenset(steps)
    owners: dict[str, Key] = {}  # the id of an answer or call -> the message that has it
    for step in live:
        _claim(step, owners)
    numbers: dict[Key, int] = {}
    parents: list[tuple[Key, int | None]] = []
    for tip in [*_left(line), line.at]:
        parent: int | None = None
        for step in live if tip == line.at else _path(line, tip):
            if tip != line.at and (step.key == leaf or not _fits(step, steps, fixed, owners)):
                break
            if step.key not in numbers:
                numbers[step.key] = len(parents)
                parents.append((step.key, parent))
            parent = numbers[step.key]
    mark["order"] = _runs([seq for key, _ in parents for seq in steps[key].events])
    return [
        Told(number, parent, steps[key].message) for number, (key, parent) in enumerate(parents)
    ]


def _fits(
    step: _Step, steps: dict[Key, _Step], fixed: frozenset[Key], owners: dict[str, Key]
) -> bool:
    """Take in a message of an abandoned branch; return whether it can be told beside the others."""
    other = steps.get(step.key)
    if other is not None and step.is_in(other):
        return True
    if other is not None and (step.key in fixed or not other.is_in(step)):
        return False
    if not _claim(step, owners):
        return False
    steps[step.key] = step
    return True


def _claim(step: _Step, owners: dict[str, Key]) -> bool:
    """Claim the ids in a message; return whether no other message has them. A compaction repeats answers, and
    a tool would take two answers with the same id for one."""
    message = step.message
    names = {f"{message.role} {call.id}" for call in message.calls}
    if message.role == "model":
        names.add(f"answer {message.data.get('answer') or message.event.seq}")
    if any(owners.get(name, step.key) != step.key for name in names):
        return False
    owners.update(dict.fromkeys(names, step.key))
    return True


def _left(line: Line) -> list[int]:
    """The positions whose context was abandoned by the next event."""
    rows = line.agent.outline()
    tips = [row.seq - 1 for row in rows if row.kind in MOVE_KINDS and 1 < row.seq <= line.at]
    return [tip for tip in tips if tip != line.at][-BRANCHES:]


def _path(line: Line, at: int) -> Iterator[_Step]:
    spoken = [event.seq for event in line.spoken(at)]
    messages = [message for message in line.messages(at) if message.role != "system"]
    places = {seq: place for place, seq in enumerate(spoken)}
    above: Key = ()  # the message before, results left out
    for number, message in enumerate(messages):
        start = places[message.event.seq]
        later = (places[one.event.seq] for one in messages[number + 1 :])
        end = next((place for place in later if place > start), len(spoken))
        is_repair = number > 0 and messages[number - 1].event.seq == message.event.seq
        if message.role == "result":
            key: Key = (hash(above), *(call.id for call in message.calls))
        else:
            key = above = (hash(above), message.role, message.event.seq)
        yield _Step(key, message, [] if is_repair else spoken[start:end])


def _runs(order: list[int]) -> list[list[int]]:
    """Positions as ranges of [first, last]."""
    runs: list[list[int]] = []
    for seq in order:
        if runs and seq == runs[-1][1] + 1:
            runs[-1][1] = seq
        else:
            runs.append([seq, seq])
    return runs
