"""Erases the text of events, with all other events of the session that contain it.

The rows stay, with the digests of their texts (`log.erasure`), so positions and digests stay valid.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from backstory.errors import Corrupt
from backstory.log.arguments import check_author, check_reason
from backstory.log.chain import START, empty_request_digests, is_ambiguous
from backstory.log.data_keys import ANSWER, COPY, NATIVE
from backstory.log.erasure import erase_row, is_erased
from backstory.log.events import ErasedEvent, StoredRow
from backstory.log.items import ItemPart, read_item_part
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
    if dry_run:
        with suppress(Corrupt):  # an agent may be deleted in the middle: then read once more
            return find_erased_events(backend, agent, checked)
        return find_erased_events(backend, agent, checked)
    # The events are looked for twice, so that the session is locked only for what was written in
    # between. Copies, and digests of requests, may be anywhere after an event. So the rows of all
    # its heirs are read before anything is locked, and then only those that were written since.
    links = SessionLinks()
    with suppress(Corrupt):  # while nothing is locked, an agent may be deleted in the middle
        finder = TextFinder(backend, agent, links)
        links.read_heirs(backend, finder.tree, finder.find(checked))
    with backend.begin(sessions=[agent.session]) as transaction:
        finder = TextFinder(transaction, agent, links)
        rows = finder.read_rows(checked)
        unerased = [position for position, row in rows.items() if not is_erased(row.data_json)]
        time = to_datetime(transaction.read_clock()).isoformat()
        for position in unerased:
            rows[position] = erase_one(
                transaction, finder.tree, position.owner, rows[position], time, reason
            )
        empty_later_requests(transaction, finder.tree, rows, links)
        record_erasure(transaction, "erase", unerased, author, reason)
    return build_erased_events(rows)


def find_erased_events(
    reader: Reader, agent: AgentRecord, positions: Sequence[int]
) -> list[ErasedEvent]:
    """Return the events that an erasure of some positions would erase, as they are. Raises
    Corrupt."""
    rows = TextFinder(reader, agent, SessionLinks()).read_rows(positions)
    return build_erased_events(rows)


def build_erased_events(rows: Mapping[OwnedPosition, StoredRow]) -> list[ErasedEvent]:
    """Return the events of some rows, with the ids of their owners."""
    return [ErasedEvent.build(row.event, owner.id) for (owner, _), row in rows.items()]


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


def erase_one(
    transaction: Transaction,
    tree: AgentTree,
    owner: AgentRecord,
    row: StoredRow,
    time: str,
    why: str,
) -> StoredRow:
    """Erase one event that is not erased yet. Return its new row."""
    previous = START
    if is_ambiguous(row) and row.seq > 1:
        previous = read_row(transaction, tree.find_owner(owner, row.seq - 1), row.seq - 1).digest
    content, data_json = erase_row(row, time, why, previous)
    transaction.erase_event(owner, row.seq, content, data_json)
    return row._replace(content=content, data_json=data_json)


def read_row(reader: Reader, owner: AgentRecord, seq: int) -> StoredRow:
    """Return the row at a position that `owner` owns. Raises Corrupt if there is none."""
    row = find_row(reader, owner, seq)
    if row is None:
        raise build_lineage_error(owner, seq)
    return row


def record_erasure(
    transaction: Transaction,
    action: RemovalAction,
    erased: Sequence[OwnedPosition],
    author: str | None,
    reason: str | None = None,
) -> None:
    """Record which events were erased, for each agent that owns some of them."""
    now_us = transaction.read_clock()
    positions: dict[AgentRecord, list[int]] = {}
    for owner, seq in erased:
        positions.setdefault(owner, []).append(seq)
    records = []
    for owner, own in positions.items():
        record = build_removal(owner, now_us, action, len(own), author)
        records.append(record._replace(positions=write_positions(own), reason=reason))
    transaction.record_removals(records)


def build_removal(
    agent: AgentRecord, now_us: int, action: RemovalAction, events: int, author: str | None
) -> RemovalRecord:
    """Return the record of a removal of so many events that an agent owned."""
    return RemovalRecord(
        id=new_id(agent.session),
        removed_us=now_us,
        action=action,
        session=agent.session,
        agent_id=agent.id,
        positions=None,
        events=events,
        by=author,
        reason=None,
    )


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


class TextFinder:
    """Finds all events of a session that contain the text of some events, in three steps:

    1. the original, and the other events of the same framework's item (`_find_item`),
    2. the copies of each of these that compactions made (`_find_copies`),
    3. other events of the same answers (`_find_answer_texts`), and their copies.

    In this log, with the data of each event in short,

        1  user       Which files?
        2  assistant  I look     {"answer": "a", "native": …}
        3  tool_call  glob       {"answer": "a"}
        4  assistant  Found it   {"answer": "a"}
        5  assistant  Two files  {"native": …}
        6  tool_call  read
        7  tool_call  read

    2 to 4 are one answer that was written in several steps. Its native form, in 2, contains the
    text of 3 and 4, so erasing 3 or 4 erases 2, too; and 2 and 4 may share text. 5 to 7 are an
    answer without an id, which was written at once: erasing 6 or 7 erases the form in 5.
    """

    def __init__(self, reader: Reader, agent: AgentRecord, links: SessionLinks) -> None:
        self._reader = reader
        self.tree = AgentTree(list_session(reader, agent.session))
        self._agent = self.tree.check_agent(agent)
        self._links = links
        # Each row that may be erased is read once: the events of one answer refer to each other.
        self._rows: dict[OwnedPosition, StoredRow] = {}

    def find(self, seqs: Iterable[int]) -> set[OwnedPosition]:
        """Return the events at some positions of the agent's lineage, and all events that contain
        their text. Raises Corrupt."""
        found: set[OwnedPosition] = set()
        for seq in seqs:
            position = OwnedPosition(self.tree.find_owner(self._agent, seq), seq)
            # The events before a copy may be of something else than the item.
            for part in self._find_item(self._find_original(position)):
                found |= self._find_copies(part)
        for position in list(found):
            for other in self._find_answer_texts(position):
                found |= self._find_copies(other)
        return found

    def read_rows(self, seqs: Iterable[int]) -> dict[OwnedPosition, StoredRow]:
        """Return the rows that `find` finds, by position. Raises Corrupt."""
        found = sorted(self.find(seqs), key=lambda position: (position.seq, position.owner.id))
        return {position: self.read_row(position) for position in found}

    def read_row(self, position: OwnedPosition) -> StoredRow:
        """Return the row at a position. Raises Corrupt if there is none."""
        if position not in self._rows:
            self._rows[position] = read_row(self._reader, position.owner, position.seq)
        return self._rows[position]

    def _read_data(self, position: OwnedPosition) -> dict[str, Any]:
        return _read_data(self.read_row(position))

    def _read_links(self, agent: AgentRecord) -> OwnLinks:
        return self._links.read(self._reader, agent)

    # --- 1. items ---

    def _find_item(self, position: OwnedPosition) -> Iterator[OwnedPosition]:
        """Yield the events of the framework's item that an event is part of. The last event of an
        item contains the text of all of them."""
        for seq in self._find_item_range(position):
            yield OwnedPosition(position.owner, seq)

    def _find_item_range(self, position: OwnedPosition) -> range:
        owner, last = position
        rest = self._read_part(position).rest
        if last + rest <= owner.head:
            last += rest
        total = self._read_part(OwnedPosition(owner, last)).total
        if total is None:
            return range(position.seq, position.seq + 1)
        first = max(last + 1 - total, owner.fork_seq + 1)
        return range(first, last + 1)

    def _read_part(self, position: OwnedPosition) -> ItemPart:
        return read_item_part(self._read_data(position))

    # --- 2. copies ---

    def _find_copies(self, position: OwnedPosition) -> set[OwnedPosition]:
        """Return the event, the event that it is a copy of, and all other copies of that."""
        original = self._find_original(position)
        found = {original}
        for heir in self.tree.list_heirs(*original):
            for seq in self._read_links(heir).copies.get(original.seq, []):
                if seq <= heir.head:
                    found.add(OwnedPosition(heir, seq))
        return found

    def _find_original(self, position: OwnedPosition) -> OwnedPosition:
        """Return the event that an event is a copy of, or the event itself."""
        seq = self._read_data(position).get(COPY)
        if type(seq) is not int or not 0 < seq < position.seq:
            return position
        return OwnedPosition(self.tree.find_owner(position.owner, seq), seq)

    # --- 3. answers ---

    def _find_answer_texts(self, position: OwnedPosition) -> Iterator[OwnedPosition]:
        """Yield the other events of the same answer that may contain the text of an event."""
        row = self.read_row(position)
        if row.kind not in ANSWER_KINDS:
            return
        answer = _read_data(row).get(ANSWER)
        if not isinstance(answer, str):
            yield from self._find_form_before(position)
            return
        for other in self._find_answer(position.owner, answer):
            if other != position and _may_share_text(row, self.read_row(other)):
                yield other

    def _find_answer(self, agent: AgentRecord, answer: str) -> Iterator[OwnedPosition]:
        """Yield the events of an answer in the agent's lineage, and in all agents that inherit the
        first of them."""
        first = self._find_answer_start(agent, answer)
        if first is None:
            return
        for heir in self.tree.list_heirs(*first):
            for seq in self._read_links(heir).answers.get(answer, []):
                if first.seq <= seq <= heir.head:
                    yield OwnedPosition(heir, seq)

    def _find_answer_start(self, agent: AgentRecord, answer: str) -> OwnedPosition | None:
        """Return the first event of an answer in the agent's lineage."""
        first = None
        for owner, last in self.tree.list_owners(agent):
            seqs = self._read_links(owner).answers.get(answer, [])
            if seqs and seqs[0] <= last:
                first = OwnedPosition(owner, seqs[0])  # before those of the owners so far
        return first

    def _find_form_before(self, position: OwnedPosition) -> Iterator[OwnedPosition]:
        """Yield the event with the native form of a call, if that event is another one. An answer
        without an id was written at once: its first event has its native form, and its calls
        follow."""
        form = position
        while _is_call_without_form(self.read_row(form)):
            if form.seq - 1 == form.owner.fork_seq:
                return
            form = form._replace(seq=form.seq - 1)
        if form != position and NATIVE in self._read_data(form):
            yield form


def _may_share_text(row: StoredRow, other: StoredRow) -> bool:
    """Return True if two events of one answer may contain the same text: the other one has a native
    form, or the answer's text came in several events."""
    if row.kind == other.kind == "assistant":
        return True
    return NATIVE in _read_data(other)


def _is_call_without_form(row: StoredRow) -> bool:
    if row.kind != "tool_call" or is_erased(row.data_json):
        return False
    return NATIVE not in _read_data(row)


def _read_data(row: StoredRow) -> dict[str, Any]:
    return row.event.data or {}
