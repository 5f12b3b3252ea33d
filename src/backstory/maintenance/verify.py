"""Verifies a store: reads every row, and computes every base and digest again.

It only reports. A wrong row was not written by backstory, so only a person can decide which side is
right.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from backstory.agent import Agent
from backstory.errors import AgentNotFound, Corrupt, Invalid
from backstory.log.data_keys import COPY, ERASED, REQUEST
from backstory.log.events import LAST_POSITION, Event, StoredRow
from backstory.maintenance.checker import LEAVE_TIME, RESTORE_STORE, AgentChecker, Severity
from backstory.maintenance.seals import find_broken_seals
from backstory.storage.agent_trees import (
    find_row,
    group_by_session,
    read_own_rows,
    sort_parents_first,
)
from backstory.storage.protocol import AgentQuery, AgentRecord, Backend

REPORT_ROWS = 1_000  # between two reports of the progress

RESTORE_AGENT = "restore the agent's row from a backup; its own events are still in the log"


class Finding(NamedTuple):
    """One contradiction: its position, how bad it is, and what to do about it."""

    agent_id: str | None  # None for the whole store
    position: int | None
    severity: Severity  # "error": contexts may be wrong; "warning": replay handles it
    problem: str
    remedy: str


def verify_store(
    backend: Backend,
    seal: Mapping[str, Any] | None = None,
    *,
    requests: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> list[Finding]:
    """Return everything that is wrong with a store. With a seal, also what is missing or changed
    according to it; with `requests`, also the answers whose requests cannot be rebuilt. Others may
    delete rows during the reads, so a finding counts only if it is found twice.
    `progress(done, total)` is called with the events that were checked."""
    findings = _check_store(backend, seal, progress)
    if findings:
        again = set(_check_store(backend, seal, progress))
        findings = [finding for finding in findings if finding in again]
    if requests:
        findings.extend(_check_requests(backend))
    return findings


def _check_store(
    backend: Backend,
    seal: Mapping[str, Any] | None,
    progress: Callable[[int, int], None] | None,
) -> list[Finding]:
    findings = []
    if seal is not None:
        for id, position, problem in find_broken_seals(backend, seal):
            findings.append(Finding(id, position, "error", problem, RESTORE_STORE))
    try:
        for finding in StoreCheck(backend, progress).find():
            findings.append(finding)
    except Corrupt as error:  # too damaged to continue
        findings.append(Finding(None, None, "error", error.message, RESTORE_STORE))
    return findings


class StoreCheck:
    """One pass over all rows of a store."""

    def __init__(
        self, backend: Backend, progress: Callable[[int, int], None] | None = None
    ) -> None:
        self._backend = backend
        self._progress = progress
        self._checked_rows = 0
        self._all_rows = 0
        self._now_us = backend.read_clock()
        self._agents: dict[str, AgentRecord] = {}
        self._parents: set[str | None] = set()
        # A checker has all events of an agent in memory. So checkers exist for one session at a
        # time, and only of sound agents that have children.
        self._checkers: dict[str, AgentChecker] = {}

    def find(self) -> Iterator[Finding]:
        """Yield everything that is wrong."""
        for problem in self._backend.check_tables():
            yield Finding(None, None, "error", problem, RESTORE_STORE)
        agents = self._backend.list_agents(AgentQuery(include_deleted=True))
        for agent in agents:
            self._agents[agent.id] = agent
            self._parents.add(agent.parent)
            self._all_rows += agent.head - agent.fork_seq
        for session in group_by_session(agents).values():
            self._checkers = {}
            for agent in sort_parents_first(session):
                yield from self._check_agent(agent)

    def _check_agent(self, agent: AgentRecord) -> Iterator[Finding]:
        checker = self._start_checker(agent)
        for problem in checker.problems:
            yield Finding(agent.id, None, "error", problem, RESTORE_AGENT)
        for problem in checker.warnings:
            yield Finding(agent.id, None, "warning", problem, LEAVE_TIME)
        for row in self._read_rows(agent):
            for wrong in checker.check(row):
                yield Finding(agent.id, *wrong)
            self._count_row()
        for wrong in checker.check_head():
            yield Finding(agent.id, *wrong)
        if not checker.problems and agent.id in self._parents:
            self._checkers[agent.id] = checker

    def _count_row(self) -> None:
        self._checked_rows += 1
        if self._progress is not None and self._checked_rows % REPORT_ROWS == 0:
            self._progress(min(self._checked_rows, self._all_rows), self._all_rows)

    def _start_checker(self, agent: AgentRecord) -> AgentChecker:
        if agent.parent is None:
            return AgentChecker(agent, now_us=self._now_us)
        parent = self._checkers.get(agent.parent)
        if parent is None:
            checker = AgentChecker(agent)
            checker.problems.append(self._explain_missing_parent(agent.parent, agent.session))
            return checker
        forked_at = find_row(self._backend, parent.agent, agent.fork_seq)
        return AgentChecker(agent, parent, forked_at, self._now_us)

    def _explain_missing_parent(self, id: str, session: str) -> str:
        parent = self._agents.get(id)
        if parent is None:
            return f"its parent {id} is missing"
        if parent.session != session:
            return f"its parent is of another session, {parent.session}"
        return "its ancestry runs in a circle, or contains a broken agent"

    def _read_rows(self, agent: AgentRecord) -> Iterator[StoredRow]:
        """Yield an agent's rows up to the head that it had when it was listed, because others may
        still write. If the head has not moved, rows after it belong to no append, and are
        included."""
        for row in read_own_rows(self._backend, agent, -1, LAST_POSITION):
            is_late = row.seq > agent.head and agent.deleted_us is None
            if is_late and self._was_appended(agent, row.seq):
                return
            yield row

    def _was_appended(self, agent: AgentRecord, seq: int) -> bool:
        try:
            return seq <= self._backend.read_head(agent)
        except AgentNotFound:
            return True  # it was deleted in the meantime, so its rows do not matter


# --- requests ---

ERASED_REQUEST = "its request cannot be checked: text that it may have contained was erased"
NOTHING_TO_DO = "nothing: the erasure has removed its digest"
COMPARE_REQUEST = (
    "compare the request with what the provider logged; the answer may belong to another request"
)


def _check_requests(backend: Backend) -> Iterator[Finding]:
    """Yield every answer whose request, rebuilt from the log, does not have the digest in the
    answer."""
    for record in backend.list_agents():
        agent = Agent(backend, record)
        for row in read_own_rows(backend, record, record.fork_seq, record.head):
            if '"sha256"' not in (row.data_json or ""):  # faster than parsing it
                continue
            if _has_erased_request(row.event):
                yield Finding(record.id, row.seq, "warning", ERASED_REQUEST, NOTHING_TO_DO)
            else:
                problem = _find_request_problem(agent, row.event)
                if problem is not None:
                    yield Finding(record.id, row.seq, "error", problem, COMPARE_REQUEST)


def _has_erased_request(answer: Event) -> bool:
    """Return True if an erasure removed the digest of an answer's request."""
    request = (answer.data or {}).get(REQUEST)
    return isinstance(request, dict) and request.get("sha256") == ""


def _find_request_problem(agent: Agent, answer: Event) -> str | None:
    """Return the problem with an answer's request. None if there is none, or if no digest was
    recorded."""
    data = answer.data or {}
    request = data.get(REQUEST)
    if COPY in data or not isinstance(request, dict):
        return None
    if not isinstance(request.get("sha256"), str):
        return None
    at = request.get("at", answer.seq - 1)
    if type(at) is not int or not 0 <= at < answer.seq:
        return f"its request names the position {at!r}, which is not before it"
    try:
        is_same = _is_same_request(agent, at, request)
    except AgentNotFound:
        return None  # it was deleted in the meantime
    except (TypeError, Invalid, Corrupt) as error:
        return f"its request cannot be built again: {error}"
    if is_same:
        return None
    return f"the request built from position {at} is not the one that led to this answer"


def _is_same_request(agent: Agent, at: int, request: dict[str, Any]) -> bool:
    """Return True if the request built from a position has the recorded digest, or if it cannot be
    known, because events were erased."""
    from backstory.wire.answers import request_digest  # the formats are slow to import
    from backstory.wire.conversation import conversation_of

    messages = agent.context(at).messages
    for event in messages:
        if ERASED in (event.data or {}):
            return True
    options = request.get("options")
    if not isinstance(options, dict):
        options = {}
    format = request.get("format", "")
    body = conversation_of(messages).request(format, model=request.get("model"), **options)
    return bool(request_digest(body) == request["sha256"])
