"""Erases the text of events: on request, with all events that contain it, or because no context
needs it.

The rows stay, with the digests of their texts (`log.erasure`), so positions and digests stay valid.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from backstory.log.checks import check_reason
from backstory.log.compaction import COPY
from backstory.log.digests import is_erased
from backstory.log.erasure import erase_row
from backstory.log.events import Event, StoredRow, to_datetime
from backstory.log.kinds import MESSAGE_KINDS
from backstory.log.messages import ANSWER, ITEM, NATIVE
from backstory.log.moves import LABEL, read_labels
from backstory.storage.ownership import AgentTree, find_row, list_session, read_own_rows
from backstory.storage.positions import check_positions
from backstory.storage.protocol import (
    AgentQuery,
    AgentRecord,
    Backend,
    EventFilter,
    Reader,
    Transaction,
)
from backstory.storage.refusals import build_lineage_error
from backstory.storage.write import read_clock

EXPIRED = "expired"  # the reason given for dead events
HAS_LINK = re.compile(rf'"({COPY}|{ANSWER})"')
NAMED_POSITIONS = EventFilter(kinds=frozenset({"mark", "note"}), note_names=(LABEL,))


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
) -> list[Event]:
    """Erase the text of the events at some positions of a lineage, and all events that contain it.
    Return the erased events, or with `dry_run` the events as they are."""
    reason = check_reason(why)
    checked = check_positions(agent, positions, backend.read_head(agent))
    with backend.begin(sessions=[agent.session]) as transaction:
        tree = AgentTree(list_session(transaction, agent.session))
        current = tree.check_agent(agent)
        session = SessionTexts(transaction, tree)
        found: set[OwnedPosition] = set()
        for position in checked:
            found |= session.find_text(current, position)
        erased = []
        for owned in sorted(found, key=lambda owned: owned.seq):
            row = session.read_row(owned)
            if not dry_run:
                row = _erase(transaction, owned.owner, row, reason)
            erased.append(row.event)
        return erased


def _erase(transaction: Transaction, owner: AgentRecord, row: StoredRow, why: str) -> StoredRow:
    """Erase one event, unless it is erased already. Return its new row."""
    if is_erased(row.data_json):
        return row
    now = to_datetime(read_clock()).isoformat()
    content, data_json = erase_row(row, now, why)
    transaction.erase_event(owner, row.seq, content, data_json)
    return row._replace(content=content, data_json=data_json)


class OwnLinks:
    """The links from an agent's own events to others, by what they name."""

    def __init__(self) -> None:
        self.copies: dict[int, list[int]] = {}  # the copies of the event at a position
        self.answers: dict[str, list[int]] = {}  # the events of an answer

    def add(self, row: StoredRow) -> None:
        """Add the links of the next event."""
        if not HAS_LINK.search(row.data_json or ""):  # faster than parsing it
            return
        data = _read_data(row)
        original = data.get(COPY)
        answer = data.get(ANSWER)
        if type(original) is int:
            self.copies.setdefault(original, []).append(row.seq)
        if isinstance(answer, str):
            self.answers.setdefault(answer, []).append(row.seq)


class SessionTexts:
    """Finds the events of a session that contain the same text: the other events of a framework's
    item, copies made by compactions, and events with the native form of the same answer."""

    def __init__(self, reader: Reader, tree: AgentTree) -> None:
        self._reader = reader
        self._tree = tree
        # All rows of an agent are read at most once for its links, and each row that may be erased
        # once: the events of one answer refer to each other.
        self._links: dict[str, OwnLinks] = {}
        self._read: dict[OwnedPosition, StoredRow] = {}

    def find_text(self, agent: AgentRecord, position: int) -> set[OwnedPosition]:
        """Return the event at a position of the agent's lineage, and all events that contain its
        text. Raises Corrupt."""
        owner = self._tree.find_owner(agent, position)
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
            owner = self._tree.find_owner(owner, original)
            position = original
        found = {OwnedPosition(owner, position)}
        for heir in self._tree.list_heirs(owner, position):
            links = self._read_links(heir)
            for copy in links.copies.get(position, []):
                found.add(OwnedPosition(heir, copy))
        return found

    # --- native forms of answers ---

    def _find_native_forms(self, owned: OwnedPosition) -> Iterator[OwnedPosition]:
        """Yield the other events with a native form that may contain the text of an event."""
        kind = self.read_row(owned).kind
        answer = self.read_data(owned).get(ANSWER)
        if kind not in ("assistant", "tool_call"):
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
        for ancestor, last in self._tree.list_owners(agent):
            links = self._read_links(ancestor)
            positions = links.answers.get(answer, [])
            if positions and positions[0] <= last:
                owner = ancestor
                first = positions[0]
        for heir in self._tree.list_heirs(owner, first):
            links = self._read_links(heir)
            for seq in links.answers.get(answer, []):
                if seq >= first:
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

    # --- links ---

    def _read_links(self, agent: AgentRecord) -> OwnLinks:
        if agent.id not in self._links:
            links = OwnLinks()
            for row in read_own_rows(self._reader, agent, agent.fork_seq, agent.head):
                links.add(row)
            self._links[agent.id] = links
        return self._links[agent.id]


def _read_data(row: StoredRow) -> dict[str, Any]:
    return row.event.data or {}


# --- events that are in no context ---


def expire_dead(backend: Backend, before_us: int, *, prefix: str = "", dry_run: bool = True) -> int:
    """Erase the events from before a time that are no longer in any context, in the sessions whose
    root has a key that begins with `prefix`. Return how many. The context that a fork began with,
    and the contexts that marks and labels lead back to, count as contexts."""
    query = AgentQuery(roots_only=True, key_prefix=prefix or None)
    count = 0
    for root in backend.list_agents(query):
        if dry_run:
            count += sum(1 for _ in _find_dead(backend, root.session, before_us))
            continue
        with backend.begin(sessions=[root.session]) as transaction:
            for owner, row in _find_dead(transaction, root.session, before_us):
                _erase(transaction, owner, row, EXPIRED)
                count += 1
    return count


def _find_dead(
    reader: Reader, session: str, before_us: int
) -> Iterator[tuple[AgentRecord, StoredRow]]:
    """Yield the messages and notes from before a time that are in no context and not erased yet,
    with their owners."""
    agents = list_session(reader, session)
    needed = _find_needed(reader, agents)
    for agent in agents:
        own_needed = needed.get(agent.pk, set())
        for row in read_own_rows(reader, agent, agent.fork_seq, agent.head):
            is_old = row.created_us < before_us
            is_dead = row.seq not in own_needed
            if is_old and is_dead and _has_text(row):
                yield agent, row


def _has_text(row: StoredRow) -> bool:
    """Return True if a row is a message or a note that can expire. Labels never do."""
    if is_erased(row.data_json):
        return False
    if row.kind == "note":
        return row.content != LABEL
    return row.kind in MESSAGE_KINDS


def _find_needed(reader: Reader, agents: Sequence[AgentRecord]) -> dict[Any, set[int]]:
    """Return the positions, by their owners' keys, of all contexts that an agent has or can go
    to."""
    needed: dict[Any, set[int]] = {}
    walked: set[tuple[Any, int]] = set()
    for agent in agents:
        if agent.deleted_us is not None:
            continue
        for reachable in _find_reachable(reader, agent):
            if reachable in walked:
                continue
            walked.add(reachable)
            _, position = reachable
            walk = reader.walk(agent, position)
            for piece in walk.pieces:
                positions = needed.setdefault(piece.owner, set())
                positions.update(range(piece.low, piece.high + 1))
    return needed


def _find_reachable(reader: Reader, agent: AgentRecord) -> Iterator[tuple[Any, int]]:
    """Yield the positions of an agent's lineage whose contexts are needed, with their owners' keys:
    its head, its fork position, and those of its marks and labels, dead or alive."""
    lineage = reader.read_lineage(agent)
    positions = {agent.head, agent.fork_seq}
    label_notes = []
    for event in reader.read_events(agent, lineage, NAMED_POSITIONS):
        if event.kind == "mark":
            positions.add(event.seq)
        else:
            label_notes.append(event)
    positions.update(read_labels(label_notes).values())
    for piece in lineage:
        for position in positions:
            if piece.low <= position <= piece.high:
                yield piece.owner, position
