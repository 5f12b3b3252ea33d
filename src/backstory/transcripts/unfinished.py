"""Answers that were imported before they were complete: how much of each an agent has."""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from backstory.agent import Agent
from backstory.log.erasure import is_erased
from backstory.transcripts.names import key_of
from backstory.transcripts.past import Begun, Rest
from backstory.transcripts.transcript import Entry, Unit


class Erased(NamedTuple):
    """What an agent has erased of the entries that were looked at."""

    entries: set[str]  # if only a piece of them
    places: set[int]


def erased_entries(
    agent: Agent,
    units: Iterable[Unit],
    places: Mapping[str, int],
    begun: Mapping[str, Begun],
    is_at_head: Callable[[str], bool],
    rest: Rest,
) -> Erased:
    """What the agent has erased of what new copies repeat, and of units that grew or may have."""
    sought: dict[str, Entry] = {}
    for unit in units:
        has_grown = any(
            entry.id not in places or entry.id in begun or is_at_head(entry.id)
            for entry in unit.entries
        )
        for entry in unit.entries if has_grown else ():
            if places.get(entry.id):
                sought[entry.id] = entry
            if entry.copy_of is not None and places.get(entry.copy_of):
                sought[entry.copy_of] = entry._replace(id=entry.copy_of)
    wanted = {places[id] for id in sought}
    events = agent.events(wanted) if wanted else []
    gone = {event.seq for event in events if is_erased(event.data_json)}
    # Two entries of an exported file may be one event.
    erased = Erased({id for id in sought if places[id] in gone}, gone)
    answers_begun(agent, sought.values(), places, rest, erased)
    return erased


def answers_begun(
    agent: Agent,
    entries: Iterable[Entry],
    places: Mapping[str, int],
    rest: Rest,
    erased: Erased | None = None,
) -> dict[str, Begun]:
    """What the agent has of those answers of which its first event does not have all words. What was erased
    is left out, or it would be taken for the beginning of an answer and come back; `erased` takes
    it."""
    begun: dict[str, Begun] = {}
    sought = {
        places[entry.id]: entry
        for entry in entries
        if entry.kind == "assistant" and entry.content and entry.id in places
    }
    while sought:
        rests: dict[str, Entry] = {}
        for event in agent.events(sought):
            entry = sought[event.seq]
            before = begun.pop(entry.id, None)
            words = (before.words if before else "") + (event.content or "")
            missing = rest(entry.content or "", words)
            is_short = len(words) < len(entry.content or "") if missing is None else bool(missing)
            if is_erased(event.data_json):
                if erased is not None:
                    erased.entries.add(entry.id)
                    erased.places.add(event.seq)
                continue
            if not (before or is_short):
                continue
            begun[entry.id] = Begun(words, (*before.rests, event.seq) if before else ())
            if is_short:
                rests[key_of(f"{entry.id}+{len(words)}")] = entry
        found = agent.events(keys=rests) if rests else []
        sought = {event.seq: rests[event.key or ""] for event in found}
    return begun
