"""Checks an agent and its rows against the rules of the log. `verify` reports all problems, and an
import refuses the first one. Pure."""

import struct
from collections.abc import Iterator
from typing import Literal, NamedTuple

from backstory.log.arguments import has_key, is_derived_from_key
from backstory.log.chain import START, digest_row
from backstory.log.data_keys import ERASED
from backstory.log.events import Event, StoredRow, parse_object
from backstory.log.kinds import KINDS, TARGETED_KINDS
from backstory.log.problems import find_agent_problems, find_event_problems, is_id, is_time
from backstory.log.replay import Fold
from backstory.log.times import LATEST_US, LONGEST_LEAD_US
from backstory.storage.protocol import AgentRecord

RESTORE_STORE = "restore the store from a backup"
RESTORE_EVENTS = "restore the agent's events from a backup"
RESTORE_ROWS = "restore the missing rows from a backup"
CORRECT_ROW = "correct the row, or restore it from a backup"
CORRECT_DATA = "correct the data, or restore the row from a backup"
CORRECT_BASE = "set the base to that, or restore the row from a backup"
CORRECT_TIME = "correct the time: reads as of a time may miss it"
CORRECT_HEAD = "restore the missing events, or set the head"
LEAVE_TIME = "correct the clock that wrote it, and leave the event: its time is not carried forward"
LEAVE_KIND = "correct the kind, or leave it: replay ignores it"
REMOVE_ROW = "remove the row"


Severity = Literal["error", "warning"]


class RowProblem(NamedTuple):
    """One contradiction in the rows of an agent."""

    position: int
    severity: Severity
    problem: str
    remedy: str


def build_error(row: StoredRow, problem: str, remedy: str) -> RowProblem:
    """Return a problem of a row that breaks a rule of the log."""
    return RowProblem(row.seq, "error", problem, remedy)


class AgentChecker:
    """Checks one agent: at first its record, and then its own rows, one after another."""

    def __init__(
        self,
        agent: AgentRecord,
        parent: "AgentChecker | None" = None,  # has checked all rows of the agent's parent
        forked_at: StoredRow | None = None,  # the parent's row at the fork position
        now_us: int | None = None,  # None: nothing is in the future
    ) -> None:
        self.agent = agent
        self.head = agent.fork_seq
        self._parent = parent
        self._keys: dict[str, int] = {}  # of the agent's own events, with their positions
        self._time = agent.created_us
        self._latest = LATEST_US if now_us is None else now_us + LONGEST_LEAD_US
        self._digest: bytes | None = START  # of the event before; None if it is not known
        inherited: Fold | None = None
        if agent.fork_seq and parent is not None:
            inherited = parent._fold
            self._digest = None if forked_at is None else forked_at.digest
        self._fold: Fold = Fold(after=agent.fork_seq, inherits=inherited)
        self.warnings: list[str] = []  # about the times of the record
        # The problems of the record; a caller may add more. If there are any, no base and no digest
        # can be judged.
        self.problems = list(self._find_problems(forked_at))

    # --- the agent's record ---

    def _find_problems(self, forked_at: StoredRow | None) -> Iterator[str]:
        agent = self.agent
        yield from find_agent_problems(
            agent.id, agent.session, agent.parent, agent.created_us, agent.key, agent.about
        )
        if is_id(agent.id):
            yield from self._find_key_problems()
        if agent.parent is None and agent.fork_seq:
            yield (
                f"it has no parent, but inherits up to {agent.fork_seq} in session {agent.session}"
            )
        if self._parent is not None:
            yield from self._find_birth_problems(self._parent, forked_at)

    def _find_key_problems(self) -> Iterator[str]:
        agent = self.agent
        if agent.key is not None and not has_key(agent.id, agent.key):
            yield f"its id is not the one of its key {agent.key!r:.60}"
        if agent.key is None and agent.deleted_us is None and is_derived_from_key(agent.id):
            yield "its id is that of a key, which is missing"

    def _find_birth_problems(
        self, parent: "AgentChecker", forked_at: StoredRow | None
    ) -> Iterator[str]:
        agent = self.agent
        if agent.fork_seq and not parent.owns(agent.fork_seq):
            yield f"it is forked at {agent.fork_seq}, which its parent does not own"
        elif not self._is_birth_possible(parent):
            yield (
                f"its birth is recorded at {agent.born_seq}, where it was neither forked nor "
                "spawned"
            )
        lead = 0 if forked_at is None else forked_at.created_us - agent.created_us
        if lead > LONGEST_LEAD_US:  # the clock was wrong at that event
            self.warnings.append("it was created before the event that it was forked at")
        elif lead > 0:
            yield "its creation is recorded before the event that it was forked at"

    def _is_birth_possible(self, parent: "AgentChecker") -> bool:
        """Return True if the agent began at its fork position or, if it was spawned, at a position
        that its parent has. Of a deleted parent, only the events that others need are left."""
        agent = self.agent
        if agent.deleted_us is not None or agent.born_seq == agent.fork_seq:
            return True
        if not agent.spawned or agent.fork_seq or agent.born_seq < 0:
            return False
        return agent.born_seq <= parent.head or parent.agent.deleted_us is not None

    def owns(self, position: int) -> bool:
        """Return True if a position is that of one of the agent's own rows so far."""
        return position > self.agent.fork_seq and self._fold.knows(position)

    # --- the agent's rows ---

    def check(self, row: StoredRow) -> Iterator[RowProblem]:
        """Yield everything that is wrong with the next row."""
        yield from self._check_values(row)
        yield from self._check_time(row)
        yield from self._check_position(row)
        if row.seq > self.head:
            yield from self._check_key(row)
            yield from self._check_base(row)
            yield from self._check_digest(row)
            self.head = row.seq
            self._digest = row.digest

    def check_head(self) -> Iterator[RowProblem]:
        """Yield a problem if the last row is not at the agent's head."""
        recorded, head = self.agent.head, self.head
        if recorded != head:
            problem = f"its head is recorded as {recorded}, but its newest event is at {head}"
            yield RowProblem(head, "error", problem, CORRECT_HEAD)

    def compute_digest(self, row: StoredRow) -> bytes:
        """Return the digest that the next row should have. b"" if it cannot have one."""
        data_text = _get_data_text(row)
        # Only the data of an erased event contains digests.
        data = parse_object(data_text) if data_text and ERASED in data_text else None
        try:
            return digest_row(self._digest or START, row, data)
        except (AttributeError, TypeError, ValueError, KeyError, OverflowError, struct.error):
            return b""  # a value of a type that backstory never writes

    def _check_values(self, row: StoredRow) -> Iterator[RowProblem]:
        if row.kind not in KINDS:
            problem = f"unknown kind {row.kind!r}: the event is inert"
            yield RowProblem(row.seq, "warning", problem, LEAVE_KIND)
        if row.data_json is not None and parse_object(_get_data_text(row)) is None:
            yield build_error(row, "its data is not a JSON object", CORRECT_DATA)
        problems = find_event_problems(
            row.kind, row.content, row.data_json, row.created_us, row.key
        )
        for problem in problems:
            yield build_error(row, problem, CORRECT_ROW)

    def _check_time(self, row: StoredRow) -> Iterator[RowProblem]:
        """Compare the time with the clock, and with that of the previous event or, of the first
        one, of the agent's creation."""
        early = self._time - row.created_us
        in_range = is_time(row.created_us)
        if in_range and row.created_us > self._latest:
            yield RowProblem(row.seq, "warning", "its time is in the future", LEAVE_TIME)
        if in_range and early > LONGEST_LEAD_US:
            yield from self._blame_clock(row)
        elif early > 0:
            problem = f"its time is {early} microseconds before that of the previous event"
            yield build_error(row, problem, CORRECT_TIME)
            return  # the next event is compared with the previous one, too
        self._time = row.created_us

    def _blame_clock(self, row: StoredRow) -> Iterator[RowProblem]:
        """Find the event, or the creation of the agent, at which the clock was wrong. `row` has
        the true time again, so reads as of a time work."""
        if self.head == self.agent.fork_seq:
            problem = "by their times, its agent was created after it"
            yield RowProblem(row.seq, "warning", problem, LEAVE_TIME)
        elif self._time <= self._latest:  # otherwise it was reported as in the future
            problem = "its time is after that of the next event"
            yield RowProblem(self.head, "warning", problem, LEAVE_TIME)

    def _check_position(self, row: StoredRow) -> Iterator[RowProblem]:
        fork_seq = self.agent.fork_seq
        expected = self.head + 1
        if row.seq <= fork_seq:
            yield build_error(row, f"it is at or below the fork position {fork_seq}", REMOVE_ROW)
        elif row.seq < expected:
            yield build_error(row, f"it comes after position {self.head}", REMOVE_ROW)
        elif row.seq > expected:
            problem = f"positions {expected} to {row.seq - 1} before it are missing"
            yield build_error(row, problem, RESTORE_ROWS)

    def _check_key(self, row: StoredRow) -> Iterator[RowProblem]:
        """Find the same key in the lineage: only the first event would ever be found by it."""
        key = row.key
        if not isinstance(key, str):
            return
        other = self._find_key(key)
        if other is not None:
            problem = f"it has the key {key!r:.60}, which position {other} of its lineage has, too"
            yield build_error(row, problem, RESTORE_STORE)
        self._keys[key] = row.seq

    def _find_key(self, key: str) -> int | None:
        """Return the position in the lineage of the event that has a key."""
        owner: AgentChecker | None = self
        last = self.head
        while owner is not None:
            position = owner._keys.get(key)
            if position is not None and position <= last:
                return position
            last = owner.agent.fork_seq
            owner = owner._parent if last else None
        return None

    def _check_base(self, row: StoredRow) -> Iterator[RowProblem]:
        # A fold keeps its events in memory, so they have no text. Only moves need their data.
        data_json = None
        if row.kind in TARGETED_KINDS:
            data_json = _get_data_text(row)
        event = Event(row.seq, str(row.kind), None, data_json, 0, None)
        decision = self._fold.feed(event)
        if not self.problems and decision.base != row.base:
            problem = f"its base is {row.base}, but the rules make it {decision.base}"
            yield build_error(row, problem, CORRECT_BASE)

    def _check_digest(self, row: StoredRow) -> Iterator[RowProblem]:
        """Check that the row is unchanged, and follows the same event as when it was written."""
        is_known = self._digest is not None and not self.problems
        if is_known and self.compute_digest(row) != row.digest:
            problem = "it does not fit its digest: it was changed, or what was before it was"
            yield build_error(row, problem, RESTORE_EVENTS)


def _get_data_text(row: StoredRow) -> str | None:
    return row.data_json if isinstance(row.data_json, str) else None
