"""All marks of a session."""

from collections.abc import Mapping

from backstory.agent import Agent
from backstory.log.events import Event
from backstory.storage.log import Log
from backstory.storage.protocols import AgentRecord, Wanted


def session_marks(log: Log, session: str) -> list[tuple[Agent, Event]]:
    """The marks of a session, dead or alive, each with the agent that owns it, or with the first that
    inherits it from a deleted agent. Two statements, however many agents there are."""
    marks = log.backend.session_marks(session)
    records = {one.id: one for one in log.backend.agents(Wanted(session=session, deleted=True))}
    living = {id: Agent(log, one) for id, one in records.items() if one.deleted_us is None}
    heirs = _heirs(records) if any(owner not in living for owner, _ in marks) else {}
    found = []
    for owner, mark in marks:
        inheriting = (heir for heir, last in heirs.get(owner, ()) if mark.seq <= last)
        holder = living.get(owner if owner in living else next(inheriting, ""))
        if holder is not None:
            found.append((holder, mark))
    return found


def _heirs(records: Mapping[str, AgentRecord]) -> dict[str, list[tuple[str, int]]]:
    """Who inherits from each deleted agent, and up to which position."""
    found: dict[str, list[tuple[str, int]]] = {}
    for heir in records.values():
        one, last = heir, heir.fork_seq
        while heir.deleted_us is None and last and one.parent is not None and one.parent in records:
            one = records[one.parent]
            if one.deleted_us is not None:
                found.setdefault(one.id, []).append((heir.id, last))
            last = (
                one.fork_seq if one.fork_seq < last else 0
            )  # a circle in a damaged store ends here
    return found
