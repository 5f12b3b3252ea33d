"""Finds the other events of a session that hold what an event says: the rest of a framework's item, copies
behind compactions, and events that keep the native form of the same answer.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from backstory.log.chain import is_erased
from backstory.log.compaction import COPY
from backstory.log.events import Stored
from backstory.log.messages import ANSWER, ITEM, NATIVE
from backstory.storage.protocols import AgentRecord, Removal

Place = tuple[str, int]  # the id of the agent that owns an event, and the position

PAGE = 2_000


class Copies:
    """What the agents of one session have of the same things."""

    def __init__(self, removal: Removal, agents: dict[str, AgentRecord]) -> None:
        self._removal = removal
        self._agents = agents
        self._heirs: dict[str, list[AgentRecord]] = {}
        for agent in agents.values():
            if agent.parent is not None and agent.fork_seq:
                self._heirs.setdefault(agent.parent, []).append(agent)
        self._copied: dict[str, tuple[int, dict[Any, list[int]]]] = {}
        self._named: dict[str, dict[str, list[int]]] = {}
        self._answers: dict[tuple[str, str], set[Place]] = {}

    def of(self, agent: AgentRecord, position: int) -> set[Place]:
        """The event at a position of a lineage, and all that hold what it says."""
        owner = self._owner(agent, position)
        same = {
            place for each in self._item(owner, position) for place in self._same((owner.id, each))
        }
        forms = {form for place in same for form in self._forms(place)}
        return same | {place for form in forms for place in self._same(form)}

    def _item(self, owner: AgentRecord, position: int) -> Iterable[int]:
        """The position, and those of the other events of the same item of a framework: its first event holds
        what all of them say."""
        first = last = position
        while first - 1 > owner.fork_seq and _is_part(self._row((owner.id, first))):
            first -= 1
        while (after := self._removal.stored(owner, last, 1)) and _is_part(after[0]):
            last += 1
        return range(first, last + 1)

    # --- copies behind compactions ---

    def _same(self, place: Place) -> Iterator[Place]:
        """The place of an event, of the event that it is a copy of, and of all other copies."""
        owner, position = self._agents[place[0]], place[1]
        original = (self._row(place).event.data or {}).get(COPY)
        if type(original) is int and 0 < original < position:
            owner, position = self._owner(owner, original), original
        yield owner.id, position
        for seer in self._seers(owner, position):
            yield from ((seer.id, copy) for copy in self._copies(seer, position))

    def _copies(self, agent: AgentRecord, original: int) -> list[int]:
        """Where an agent has copies of an event. Its rows are read once for all events, if the first comes
        first."""
        after, found = self._copied.get(agent.id, (agent.head, {}))
        if original < after:
            found = {}
            for row in self._removal.naming(agent, original, f'"{COPY}":'):
                found.setdefault((row.event.data or {}).get(COPY), []).append(row.seq)
            self._copied[agent.id] = original, found
        return found.get(original, [])

    # --- native forms ---

    def _forms(self, place: Place) -> Iterable[Place]:
        """The events that keep a native form in which an event of an answer may be, too. The words of one
        answer may have come in several pieces: they belong together."""
        row = self._row(place)
        data = row.event.data or {}
        if row.kind not in ("assistant", "tool_call"):
            return ()
        answer = data.get(ANSWER)
        if isinstance(answer, str):
            pieces = self._answer(self._agents[place[0]], answer) - {place}
            return {
                piece for piece in pieces if _is_form(self._row(piece), row.kind == "assistant")
            }
        return self._form_before(place, row)

    def _answer(self, agent: AgentRecord, answer: str) -> set[Place]:
        """The events of an answer in the lineage of an agent and in all that inherit it, and their copies."""
        known = self._answers.get((agent.id, answer))
        if known is not None:
            return known
        owner, position = agent, agent.head
        for ancestor, last in self._lineage(agent):
            for first in self._naming(ancestor).get(answer, [])[:1]:
                if first <= last:
                    owner, position = ancestor, first
        named = [
            (seer.id, each)
            for seer in self._seers(owner, position)
            for each in self._naming(seer).get(answer, [])
            if each >= position
        ]
        found = {same for place in named for same in self._same(place)}
        self._answers[agent.id, answer] = found
        return found

    def _naming(self, agent: AgentRecord) -> dict[str, list[int]]:
        """Where an agent's own events name answers, by these names. Its rows are read once for all answers,
        and in pages, because most of an imported log names some."""
        if agent.id not in self._named:
            found = self._named[agent.id] = {}
            after = agent.fork_seq
            while page := self._removal.stored(agent, after, PAGE):
                for row in page:
                    answer = (row.event.data or {}).get(ANSWER) if _may_name(row) else None
                    if isinstance(answer, str):
                        found.setdefault(answer, []).append(row.seq)
                after = page[-1].seq
        return self._named[agent.id]

    def _form_before(self, place: Place, row: Stored) -> Iterable[Place]:
        """The event with the native form of a call, if that event is another one. An answer that has no name
        was written at once: its first event has its form, and its calls follow."""
        owner, position = self._agents[place[0]], place[1]
        while row.kind == "tool_call" and not is_erased(row.data_json):
            if NATIVE in (row.event.data or {}) or position - 1 <= owner.fork_seq:
                break
            position -= 1
            row = self._row((owner.id, position))
        return (
            [(owner.id, position)]
            if NATIVE in (row.event.data or {}) and position < place[1]
            else []
        )

    # --- agents and rows ---

    def _owner(self, agent: AgentRecord, position: int) -> AgentRecord:
        """The agent of a lineage that owns a position."""
        while position <= agent.fork_seq:
            agent = self._agents[agent.parent or ""]
        return agent

    def _lineage(self, agent: AgentRecord) -> Iterator[tuple[AgentRecord, int]]:
        """An agent and those that it inherits from, each with the last position that it has from there."""
        last = agent.head
        yield agent, last
        while agent.fork_seq:
            last = min(last, agent.fork_seq)
            agent = self._agents[agent.parent or ""]
            yield agent, last

    def _seers(self, owner: AgentRecord, position: int) -> Iterator[AgentRecord]:
        """The owner of an event, and all that inherit it."""
        waiting = [owner]
        while waiting:
            seer = waiting.pop()
            yield seer
            waiting += [heir for heir in self._heirs.get(seer.id, []) if heir.fork_seq >= position]

    def _row(self, place: Place) -> Stored:
        [row] = self._removal.stored(self._agents[place[0]], place[1] - 1, 1)
        return row


def _is_part(row: Stored) -> bool:
    """Whether an event is another one of the item that the event before it is part of."""
    item = (row.event.data or {}).get(ITEM)
    return isinstance(item, dict) and "part" in item


def _may_name(row: Stored) -> bool:
    """Whether the data of an event may name an answer; faster than parsing it."""
    return row.data_json is not None and f'"{ANSWER}":' in row.data_json


def _is_form(row: Stored, is_text: bool) -> bool:
    return NATIVE in (row.event.data or {}) or (is_text and row.kind == "assistant")
