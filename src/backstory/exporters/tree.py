"""An agent's whole log as a tree of messages: the live context, and what rewinds and clears left behind.

The live context comes last, because a tool resumes a file at its last record. For the same reason, a branch
that was abandoned after the last live message is not in the tree.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from backstory.core.events import to_json
from backstory.core.kinds import MOVES
from backstory.exporters.line import Line, Message

BRANCHES = 500  # at most this many abandoned branches: the newest
LEAVING = MOVES | {"clear"}

Key = tuple[Any, ...]


class Told(NamedTuple):
    """A message, in the order of the file."""

    number: int
    parent: int | None  # the number of the message that it continues
    message: Message


class _Step(NamedTuple):
    """A message of one context, and the events that it was made from."""

    key: Key  # what makes it the same message in two contexts
    message: Message
    events: list[int]


def tree(line: Line, mark: dict[str, Any]) -> list[Told]:
    """The messages of all branches. The order of the events in the file is added to the provenance."""
    live = list(_path(line, line.at))
    leaf = live[-1].key if live else None
    numbers: dict[Key, int] = {}
    found: list[Told] = []
    order: list[int] = []
    owners: dict[str, int] = {}  # the id of an answer or call -> its event; live ones come first
    for step in live:
        _claim(step.message, owners)
    for tip in [*_left(line), line.at]:
        parent: int | None = None
        for step in live if tip == line.at else _path(line, tip):
            if tip != line.at and (step.key == leaf or not _claim(step.message, owners)):
                break
            if step.key not in numbers:
                numbers[step.key] = len(found)
                found.append(Told(len(found), parent, step.message))
                order.extend(step.events)
            parent = numbers[step.key]
    mark["order"] = _runs(order)
    return found


def _claim(message: Message, owners: dict[str, int]) -> bool:
    """Claim the ids in a message; return whether no other message has them. A compaction repeats answers, and
    a tool would take two answers with the same id for one."""
    ids = {call.id for call in message.calls}
    answer = message.data.get("answer")
    if message.role == "model" and isinstance(answer, str):
        ids.add(answer)
    names = {f"{message.role} {id}" for id in ids}
    if any(owners.get(name, message.event.seq) != message.event.seq for name in names):
        return False
    owners.update(dict.fromkeys(names, message.event.seq))
    return True


def _left(line: Line) -> list[int]:
    """The positions whose context was abandoned by the next event."""
    rows = line.agent.outline()
    tips = [row.seq - 1 for row in rows if row.kind in LEAVING and 1 < row.seq <= line.at]
    return [tip for tip in tips if tip != line.at][-BRANCHES:]


def _path(line: Line, at: int) -> Iterator[_Step]:
    spoken = [event.seq for event in line.spoken(at)]
    messages = [message for message in line.messages(at) if message.role != "system"]
    places = {seq: place for place, seq in enumerate(spoken)}
    key: Key = ()
    for number, message in enumerate(messages):
        start = places[message.event.seq]
        later = (places[one.event.seq] for one in messages[number + 1 :])
        end = next((place for place in later if place > start), len(spoken))
        is_repair = number > 0 and messages[number - 1].event.seq == message.event.seq
        key = (hash(key), message.role, message.event.seq, is_repair and to_json(message.form))
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
