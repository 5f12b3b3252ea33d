"""Finds events that a repeated call wrote before, by their keys or after the expected head.

A key is unique in a lineage. So the events of a batch that shares a key have numbers, and so has an
event that is written again because the one with its key is no longer in the context.
"""

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Literal

from backstory.errors import Invalid, KeyTaken
from backstory.log.arguments import LONGEST_KEY
from backstory.log.data_keys import COMPACTED, COPY, SUMMARY
from backstory.log.erasure import is_erased
from backstory.log.events import Draft, Event, RepeatedEvent, parse_object
from backstory.log.json_text import is_same_json
from backstory.storage.positions import clip, contains, find_pieces
from backstory.storage.protocol import AgentRecord, Drafts, Piece, Pieces, Reader

# Where an event with a key is written only once. In the context: it is written again if it is no
# longer in the context.
Once = Literal["lineage", "context"]


def check_distinct_keys(drafts: Drafts) -> None:
    """Raise Invalid if two drafts have the same key."""
    keys = [draft.key for draft in drafts if draft.key is not None]
    if len(set(keys)) < len(keys):
        raise Invalid("two events of one batch have the same key", remedy="give each its own")


def find_by_key(
    reader: Reader, agent: AgentRecord, lineage: Pieces, drafts: Drafts
) -> dict[str, Event]:
    """Return the events of the lineage that have the keys of `drafts`. Raises KeyTaken if one of
    them differs from its draft."""
    by_key = {draft.key: draft for draft in drafts if draft.key is not None}
    if not by_key or not lineage or lineage[-1].high == 0:  # an empty log
        return {}
    found = reader.find_keys(list(by_key), agent, lineage)
    if not found:
        return {}
    existing: dict[str, Event] = {}
    pieces = find_pieces(lineage, [position.seq for position in found])
    events = reader.read_events(agent, pieces)
    for event in flag_repeats(reader, agent, events):
        key = event.key or ""
        if not is_same_event(by_key[key], event):
            raise KeyTaken.of_event(key, event.seq)
        existing[key] = event
    return existing


def find_after_head(
    reader: Reader,
    agent: AgentRecord,
    drafts: Drafts,
    expected: int | None,
    once: Once = "lineage",
) -> list[Event] | None:
    """Return the events of an append that was written before after the `expected` head, or None if
    it was not. What had the key of a draft by then was not written again."""
    if expected is None or not drafts:  # an empty batch of several is no repeat
        return None
    lineage = reader.read_lineage(agent)
    if once == "context":
        drafts = renew_keys(reader, agent, lineage, drafts)
    existing = find_by_key(reader, agent, clip(lineage, 1, expected), drafts)
    new = [draft for draft in drafts if draft.key not in existing]
    last = expected + len(new)
    if last > lineage[-1].high:
        return None
    written = reader.read_events(agent, [Piece(agent.pk, expected + 1, last)]) if new else []
    if len(written) != len(new):
        return None
    for draft, event in zip(new, written, strict=True):
        if not is_same_event(draft, event):
            return None
    return merge_in_order(drafts, existing, flag_repeats(reader, agent, written))


def merge_in_order(
    drafts: Drafts, existing: Mapping[str, Event], written: Sequence[Event]
) -> list[Event]:
    """Return the event of each draft: the existing one with its key, or the next one that was
    written."""
    remaining = iter(written)
    events = []
    for draft in drafts:
        if draft.key is not None and draft.key in existing:
            events.append(existing[draft.key])
        else:
            events.append(next(remaining))
    return events


def find_batch(reader: Reader, agent: AgentRecord, lineage: Pieces, key: str) -> list[Event]:
    """Return the events that were written together and share a key; none if the lineage does not
    have the key."""
    found = reader.find_keys([key], agent, lineage)
    if not found:
        return []
    batch = []
    events = read_onwards(reader, agent, lineage, found[0].seq)
    for number, event in enumerate(events, 1):
        if event.key != number_key(key, number):
            break
        batch.append(event)
    return flag_repeats(reader, agent, batch)


def read_onwards(
    reader: Reader, agent: AgentRecord, pieces: Pieces, position: int
) -> Iterator[Event]:
    """Yield the events from a position on, up to the end of its piece at least. They are read in
    pages that grow, because callers need few in most cases."""
    size = 16
    while True:
        events = reader.read_events(agent, clip(pieces, position, position + size - 1))
        yield from events
        if len(events) < size:
            return
        position += size
        size *= 8


def flag_repeats(reader: Reader, agent: AgentRecord, events: Sequence[Event]) -> list[Event]:
    """Return events that were found as RepeatedEvents, which know whether they are live."""
    live = LivePositions(reader, agent)
    repeats: list[Event] = []
    for event in events:
        repeats.append(RepeatedEvent.build(event, live.has(event.seq)))
    return repeats


class LivePositions:
    """The positions of the events that are in the context of an agent, themselves or as copies that
    a compaction made of them."""

    def __init__(self, reader: Reader, agent: AgentRecord) -> None:
        self._reader = reader
        self._agent = agent
        self._pieces = reader.walk(agent).pieces
        self._copied: set[int] | None = None  # read if it is needed

    def has(self, position: int) -> bool:
        """Return True if the event at a position is in the context."""
        if contains(self._pieces, position):
            return True
        if self._copied is None:
            self._copied = set(self._read_copied())
        return position in self._copied

    def _read_copied(self) -> Iterator[int]:
        """Yield the positions of the events that a compaction has copied. The context begins with
        its clear, and the copies and the summary follow."""
        if not self._pieces or self._pieces[0].base is None:  # it does not begin with a clear
            return
        start = self._pieces[0].low
        for event in read_onwards(self._reader, self._agent, self._pieces, start):
            data = event.data or {}
            original = data.get(COPY)
            if type(original) is int:
                yield original
            elif SUMMARY not in data and COMPACTED not in data:
                return


def number_drafts(drafts: Drafts, key: str | None) -> list[Draft]:
    """Return the drafts of a batch with the keys that they get if `key` is that of the batch."""
    if key is None:
        return list(drafts)
    numbered = []
    for number, draft in enumerate(drafts, 1):
        numbered.append(draft._replace(key=number_key(key, number)))
    return numbered


def number_key(key: str, number: int) -> str:
    """Return the key of an event of a batch. The first one has the key of the batch itself."""
    return key if number == 1 else derive_key(key, f" (part {number})")


def renew_keys(reader: Reader, agent: AgentRecord, lineage: Pieces, drafts: Drafts) -> list[Draft]:
    """Return the drafts with keys that no event outside of the context has."""
    live = LivePositions(reader, agent)
    renewed = []
    for draft in drafts:
        if draft.key is not None:
            key = renew_key(reader, agent, lineage, draft.key, live)
            draft = draft._replace(key=key)
        renewed.append(draft)
    return renewed


def renew_key(
    reader: Reader,
    agent: AgentRecord,
    lineage: Pieces,
    key: str,
    live: LivePositions | None = None,
) -> str:
    """Return the key of an event in the context that was written for `key`, or, if there is none,
    the key for the next one. Keys are unique in a lineage, so each event after the first gets a
    number."""
    if live is None:
        live = LivePositions(reader, agent)
    size = 8
    while True:
        keys = [repeat_key(key, number) for number in range(1, size + 1)]
        found = reader.find_keys(keys, agent, lineage)
        if len(found) < size:
            break
        size *= 8
    for position in found:
        if live.has(position.seq):
            return position.key
    return repeat_key(key, len(found) + 1)


def repeat_key(key: str, number: int) -> str:
    """Return the key of an event that is written for the nth time. The first has the key itself."""
    return key if number == 1 else derive_key(key, f" (again {number})")


def derive_key(key: str, end: str) -> str:
    """Return a key that no caller can give to an event, because of its `end`. The digest of a very
    long key replaces a part of it."""
    if len(key) + len(end) > LONGEST_KEY:
        key = f"{key[: LONGEST_KEY // 2]} {sha256(key.encode()).hexdigest()}"
    return key + end


def is_same_event(draft: Draft, event: Event) -> bool:
    """Return True if `draft` has the kind, key, content and data of `event`.

    The order of keys in the data does not matter. Of an erased event, nobody can know the text.
    """
    if (draft.kind, draft.key) != (event.kind, event.key):
        return False
    if is_erased(event.data_json):
        return True
    if draft.content != event.content:
        return False
    if draft.data_json == event.data_json:
        return True
    return is_same_json(parse_object(draft.data_json), event.data)
