"""What must be true after each schedule, whatever the clients did."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import backstory
from tests.scheduler.operations import Birth, Ledger, find_birth, find_tokens


def list_problems(
    store: backstory.Store, ledger: Ledger, read_tables: Callable[[], Iterable[Any]]
) -> list[str]:
    """Return what is wrong with a store, given what was acknowledged. `read_tables` returns the
    rows of all tables."""
    problems = [f"verify: {finding}" for finding in store.verify()]
    if problems:
        return problems  # reading such a store may raise anything
    audit = Audit(store, ledger)
    problems += audit.check_agents()
    problems += audit.check_events()
    stored = set()
    for row in read_tables():
        stored.update(find_tokens(repr(row)))
    for token in sorted(stored - audit.visible):
        problems.append(f"{token} is stored, but no agent has it")
    for token in sorted((ledger.erased - ledger.imported_tokens) & stored):
        problems.append(f"{token} was erased, but is stored")
    return problems


class Audit:
    """Compares the living agents with a ledger."""

    def __init__(self, store: backstory.Store, ledger: Ledger) -> None:
        self._ledger = ledger
        self._logs: dict[Birth, list[backstory.Event]] = {}
        self.visible: set[str] = set()  # the tokens in the logs of all living agents
        for agent in store.agents():
            events = agent.events()
            self._logs[find_birth(agent)] = events
            for event in events:
                self.visible.update(find_tokens(event.content))

    def check_agents(self) -> Iterator[str]:
        """Yield agents that are there and should not be, and the other way round."""
        ledger = self._ledger
        for birth in self._logs:
            if birth not in ledger.parents and not self._may_have({"fork", "spawn", "ensure"}):
                yield f"{birth} was never returned to a client"
            if birth in ledger.deleted and birth not in ledger.imported:
                yield f"{birth} was deleted, but is there"
            for ancestor in ledger.list_ancestors(birth):
                if ancestor in ledger.deleted_below and ancestor not in ledger.imported:
                    yield f"{birth} is below {ancestor}, which was deleted with all below"
        for birth in ledger.parents:
            if birth not in self._logs and not self._was_removed(birth):
                yield f"{birth} is gone, but nobody has deleted it"

    def _may_have(self, operations: set[str]) -> bool:
        """Return True if one of these operations may have happened without an answer."""
        return bool(operations & self._ledger.uncertain_operations)

    def _was_removed(self, birth: Birth) -> bool:
        ledger = self._ledger
        if self._may_have({"delete", "delete below", "expire", "import"}):
            return True
        ancestors = ledger.list_ancestors(birth)
        is_below = any(ancestor in ledger.deleted_below for ancestor in ancestors)
        return is_below or birth in ledger.deleted or birth.id in ledger.expired

    def check_events(self) -> Iterator[str]:
        """Yield acknowledged events that are missing, and events in the wrong log."""
        for token, position in self._ledger.written.items():
            log = self._logs.get(position.owner)
            if position.owner in self._ledger.imported and self._was_removed(position.owner):
                continue  # it was deleted and imported again
            if log is not None and not self._is_there(log, token, position.seq):
                yield f"{token} at {position} was acknowledged, but is not there"
        for birth, log in self._logs.items():
            if birth not in self._ledger.parents:
                continue  # without an answer, nobody knows what it should contain
            ancestors = self._ledger.list_ancestors(birth)
            for event in log:
                yield from self._check_place(birth, ancestors, event)

    def _is_there(self, log: list[backstory.Event], token: str, seq: int) -> bool:
        events = [event for event in log if event.seq == seq]
        if not events:
            return False
        if "erased" in (events[0].data or {}):
            if self._may_have({"erase", "expire dead"}):
                return True
            return token in self._ledger.erased or self._ledger.has_expired_events
        return token in find_tokens(events[0].content)

    def _check_place(
        self, birth: Birth, ancestors: list[Birth], event: backstory.Event
    ) -> Iterator[str]:
        original = (event.data or {}).get("copy_of")
        for token in find_tokens(event.content):
            written = self._ledger.written.get(token)
            seq = event.seq if original is None else original
            if token in self._ledger.uncertain_tokens:
                continue
            if written is None:
                yield f"{token} is in the log of {birth}, but its write failed"
            elif written.seq != seq or written.owner not in ancestors:
                yield f"{token} is in the log of {birth} at {seq}, but was written to {written}"
