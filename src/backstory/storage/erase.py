"""Erases the text of events, with all other events of the session that contain it.

The rows stay, with the digests of their texts (`log.erasure`), so positions and digests stay valid.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from backstory.errors import Corrupt
from backstory.log.checks import check_author, check_reason
from backstory.log.data_keys import ANSWER, COPY, ITEM, NATIVE
from backstory.log.digests import empty_request_digests
from backstory.log.erasure import erase_row, is_erased
from backstory.log.events import ErasedEvent, StoredRow
from backstory.log.kinds import ANSWER_KINDS
from backstory.log.times import to_datetime
from backstory.storage.agent_errors import build_lineage_error
from backstory.storage.agent_trees import AgentTree, find_row, list_session, read_own_rows
from backstory.storage.ids import new_id
from backstory.storage.positions import check_positions, write_positions
from backstory.storage.protocol import (
    AgentRecord,
    Backend,
    Reader,
    RemovalAction,
    RemovalRecord,
    Transaction,
)

HAS_LINK = re.compile(rf'"({COPY}|{ANSWER})"')


class OwnedPosition(NamedTuple):
    """A position, and the agent that owns it."""

    owner: AgentRecord
    seq: int


def erase_events(
    backend: Backend,
    agent: AgentRecord,
    positions: Iterable[int],
    why: str,
    *,
    dry_run: bool = False,
    by: str | None = None,
) -> list[ErasedEvent]:
    """Erase the text of the events at some positions of a lineage, and all events that contain it.
    Return the erased events, or with `dry_run` the events as they are."""
    reason = check_reason(why)
    author = check_author(by)
    checked = check_positions(agent, positions, backend.read_head(agent))
    # Copies, and digests of requests, may be anywhere after an event. So the rows of all its heirs
    # are read before anything is locked, and then only those that were written since.
    links = SessionLinks()
    with suppress(Corrupt):  # while nothing is locked, an agent may be deleted in the middle
        texts = SessionTexts(backend, agent, links)
        links.read_heirs(backend, texts.tree, texts.find_texts(checked))
    with backend.begin(sessions=[agent.session]) as transaction:
        session = SessionTexts(transaction, agent, links)
        found = session.find_texts(checked)
        new = [owned for owned in found if not is_erased(session.read_row(owned).data_json)]
        erased = []
        for owned in sorted(found, key=lambda owned: owned.seq):
            row = session.read_row(owned)
            if not dry_run:
                row = erase_one(transaction, owned.owner, row, reason)
            erased.append(ErasedEvent.build(row.event, owned.owner.id))
        if not dry_run:
            empty_later_requests(transaction, session.tree, found, links)
            record_erasure(transaction, "erase", new, author, reason)
        return erased


def empty_later_requests(
    transaction: Transaction,
    tree: AgentTree,
    erased: Iterable[OwnedPosition],
    links: "SessionLinks",
) -> None:
    """Remove the digests of the requests that may have contained erased events: whoever has the
    rest of such a request could find out by trying what was erased. These are all later ones: what
    a request contained is not stored, and it may have been more than the context."""
    for heir, first in find_first_positions(tree, erased).items():
        for seq in links.read(transaction, heir).requests:
            row = find_row(transaction, heir, seq) if seq > first else None
            data_json = None if row is None else empty_request_digests(row.data_json)
            if data_json is not None:
                transaction.rewrite_data(heir, seq, data_json)


def find_first_positions(
    tree: AgentTree, events: Iterable[OwnedPosition]
) -> dict[AgentRecord, int]:
    """Return the agents that have some of the events, each with the first position of these."""
    first: dict[AgentRecord, int] = {}
    for owner, seq in events:
        for heir in tree.list_heirs(owner, seq):
            first[heir] = min(seq, first.get(heir, seq))
    return first


def erase_one(transaction: Transaction, owner: AgentRecord, row: StoredRow, why: str) -> StoredRow:
    """Erase one event, unless it is erased already. Return its new row."""
    if is_erased(row.data_json):
        return row
    now = to_datetime(transaction.read_clock()).isoformat()
    content, data_json = erase_row(row, now, why)
    transaction.erase_event(owner, row.seq, content, data_json)
    return row._replace(content=content, data_json=data_json)


def record_erasure(
    transaction: Transaction,
    action: RemovalAction,
    erased: Sequence[OwnedPosition],
    author: str | None,
    reason: str | None = None,
) -> None:
    """Record which events were erased, for each agent that owns some of them."""
    if not erased:
        return
    session = erased[0].owner.session
    now_us = transaction.read_clock()
    positions: dict[str, list[int]] = {}  # by the ids of the owners
    for owner, seq in erased:
        positions.setdefault(owner.id, []).append(seq)
    records = []
    for id, own in positions.items():
        record = RemovalRecord(
            id=new_id(session),
            removed_us=now_us,
            action=action,
            session=session,
            agent_id=id,
            positions=write_positions(own),
            events=len(own),
            by=author,
            reason=reason,
        )
        records.append(record)
    transaction.record_removals(records)


class OwnLinks:
    """The links from an agent's own events to others, by what they name, and the events with
    digests of requests. Links never change: an erased event keeps them."""

    def __init__(self, after: int) -> None:
        self.upto = after  # the last position that was read
        self.copies: dict[int, list[int]] = {}  # the copies of the event at a position
        self.answers: dict[str, list[int]] = {}  # the events of an answer
        self.requests: list[int] = []

    def add(self, row: StoredRow) -> None:
        """Add the links of the next event."""
        self.upto = row.seq
        if row.data_json != empty_request_digests(row.data_json):
            self.requests.append(row.seq)
        if not HAS_LINK.search(row.data_json or ""):  # faster than parsing it
            return
        data = _read_data(row)
        original = data.get(COPY)
        answer = data.get(ANSWER)
        if type(original) is int:
            self.copies.setdefault(original, []).append(row.seq)
        if isinstance(answer, str):
            self.answers.setdefault(answer, []).append(row.seq)


class SessionLinks:
    """The links of the agents of a session. All rows of an agent are read at most once for them,
    and the rows that were written since when they are read again."""

    def __init__(self) -> None:
        self._by_agent: dict[Any, OwnLinks] = {}  # by the agents' pks

    def read(self, reader: Reader, agent: AgentRecord) -> OwnLinks:
        """Return the links of an agent, up to its head."""
        links = self._by_agent.setdefault(agent.pk, OwnLinks(agent.fork_seq))
        for row in read_own_rows(reader, agent, links.upto, agent.head):
            links.add(row)
        return links

    def read_heirs(self, reader: Reader, tree: AgentTree, events: Iterable[OwnedPosition]) -> None:
        """Read the links of all agents that have some of the events."""
        for heir in find_first_positions(tree, events):
            self.read(reader, heir)


class SessionTexts:
    """Finds the events of a session that contain the same text: the other events of a framework's
    item, copies made by compactions, and events with the native form of the same answer."""

    def __init__(self, reader: Reader, agent: AgentRecord, links: SessionLinks) -> None:
        self._reader = reader
        self.tree = AgentTree(list_session(reader, agent.session))
        self._agent = self.tree.check_agent(agent)
        self._links = links
        # Each row that may be erased is read once: the events of one answer refer to each other.
        self._read: dict[OwnedPosition, StoredRow] = {}

    def find_texts(self, positions: Iterable[int]) -> set[OwnedPosition]:
        """Return the events at some positions of the agent's lineage, and all events that contain
        their text. Raises Corrupt."""
        found: set[OwnedPosition] = set()
        for position in positions:
            found |= self._find_text(position)
        return found

    def _find_text(self, position: int) -> set[OwnedPosition]:
        owner = self.tree.find_owner(self._agent, position)
        texts: set[OwnedPosition] = set()
        for seq in self._find_item(owner, position):
            texts |= self._find_copies(OwnedPosition(owner, seq))
        found = set(texts)
        for owned in texts:
            for form in self._find_native_forms(owned):
                found |= self._find_copies(form)
        return found

    def read_row(self, owned: OwnedPosition) -> StoredRow:
        """Return the row at a position. Raises Corrupt if there is none."""
        if owned not in self._read:
            row = find_row(self._reader, owned.owner, owned.seq)
            if row is None:
                raise build_lineage_error(owned.owner, owned.seq)
            self._read[owned] = row
        return self._read[owned]

    def read_data(self, owned: OwnedPosition) -> dict[str, Any]:
        """Return the data of the event at a position."""
        return _read_data(self.read_row(owned))

    def _find_item(self, owner: AgentRecord, position: int) -> range:
        """Return the positions of the framework's item that an event is part of. The first event of
        an item contains the text of all of them."""
        first = last = position
        while first > owner.fork_seq + 1 and self._continues_item(owner, first):
            first -= 1
        while last < owner.head and self._continues_item(owner, last + 1):
            last += 1
        return range(first, last + 1)

    def _continues_item(self, owner: AgentRecord, position: int) -> bool:
        """Return True if an event is part of the same framework's item as the event before it."""
        data = self.read_data(OwnedPosition(owner, position))
        item = data.get(ITEM)
        return isinstance(item, dict) and "part" in item

    def _find_copies(self, owned: OwnedPosition) -> set[OwnedPosition]:
        """Return the event, the event that it is a copy of, and all other copies of that."""
        owner, position = owned
        data = self.read_data(owned)
        original = data.get(COPY)
        if type(original) is int and 0 < original < position:
            owner = self.tree.find_owner(owner, original)
            position = original
        found = {OwnedPosition(owner, position)}
        for heir in self.tree.list_heirs(owner, position):
            links = self._read_links(heir)
            for copy in links.copies.get(position, []):
                if copy <= heir.head:
                    found.add(OwnedPosition(heir, copy))
        return found

    # --- native forms of answers ---

    def _find_native_forms(self, owned: OwnedPosition) -> Iterator[OwnedPosition]:
        """Yield the other events with a native form that may contain the text of an event."""
        kind = self.read_row(owned).kind
        answer = self.read_data(owned).get(ANSWER)
        if kind not in ANSWER_KINDS:
            return
        if not isinstance(answer, str):
            yield from self._find_form_before(owned)
            return
        for other in self._find_answer(owned.owner, answer):
            # The text of one answer may have come in several events: they belong together.
            are_texts = kind == self.read_row(other).kind == "assistant"
            has_form = NATIVE in self.read_data(other)
            if other != owned and (are_texts or has_form):
                yield other

    def _find_answer(self, agent: AgentRecord, answer: str) -> Iterator[OwnedPosition]:
        """Yield the events of an answer in the agent's lineage, and in all agents that inherit the
        first of them."""
        owner, first = agent, agent.head
        for ancestor, last in self.tree.list_owners(agent):
            links = self._read_links(ancestor)
            positions = links.answers.get(answer, [])
            if positions and positions[0] <= last:
                owner = ancestor
                first = positions[0]
        for heir in self.tree.list_heirs(owner, first):
            links = self._read_links(heir)
            for seq in links.answers.get(answer, []):
                if first <= seq <= heir.head:
                    yield OwnedPosition(heir, seq)

    def _find_form_before(self, owned: OwnedPosition) -> Iterator[OwnedPosition]:
        """Yield the event with the native form of a call, if that event is another one. An answer
        without an id was written at once: its first event has its native form, and its calls
        follow."""
        form = owned
        while self._is_call_without_form(form):
            if form.seq - 1 == form.owner.fork_seq:
                return
            form = form._replace(seq=form.seq - 1)
        if form != owned and NATIVE in self.read_data(form):
            yield form

    def _is_call_without_form(self, owned: OwnedPosition) -> bool:
        row = self.read_row(owned)
        if row.kind != "tool_call" or is_erased(row.data_json):
            return False
        return NATIVE not in _read_data(row)

    def _read_links(self, agent: AgentRecord) -> OwnLinks:
        return self._links.read(self._reader, agent)


def _read_data(row: StoredRow) -> dict[str, Any]:
    return row.event.data or {}
