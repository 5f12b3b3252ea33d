"""Compacts the context of an agent: computes its replacement without a lock, and writes it if the
context is still the same.

`log.compaction` decides which events replace the context.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from backstory.errors import KeyTaken, NotFound
from backstory.log.checks import check_drafts, check_key
from backstory.log.compaction import (
    Compaction,
    NewEvent,
    build_compaction,
    build_provider_compaction,
)
from backstory.log.data_keys import SUMMARY
from backstory.log.erasure import is_erased
from backstory.log.events import Event
from backstory.log.replay import Context
from backstory.storage.agent_errors import check_head
from backstory.storage.lineage import LineageReader
from backstory.storage.positions import check_expected
from backstory.storage.protocol import AgentRecord, Backend, Drafts, Reader, Transaction
from backstory.storage.repeats import find_batch, number_drafts
from backstory.storage.write import decide_bases

ATTEMPTS_WITHOUT_LOCK = 2  # while others write to the agent


class CompactionRequest(NamedTuple):
    """What a caller asks for: a summary instead of the context, except the last `keep` messages.
    `author` is the part of the clear's data that names who did it."""

    summary: str
    keep: int
    author: Mapping[str, str]
    key: str | None = None

    def build(self, context: Context, tokens: int) -> Compaction:
        """Return the compaction of a context that has this many tokens."""
        return build_compaction(
            context.messages,
            self.summary,
            keep=self.keep,
            head=context.at,
            tokens=tokens,
            author=self.author,
        )


class RecordedCompaction(NamedTuple):
    """An answer in which its provider compacted the context, and the messages that it kept."""

    answer: Sequence[NewEvent]
    kept: Sequence[NewEvent]
    key: str | None = None

    def build(self, context: Context, tokens: int) -> Compaction:
        """Return the compaction of a context that has this many tokens."""
        return build_provider_compaction(
            context.messages, self.answer, self.kept, head=context.at, tokens=tokens
        )


AnyCompaction = CompactionRequest | RecordedCompaction


class ComputedCompaction(NamedTuple):
    """The events that replace the context at a head, and the events that they copy."""

    head: int
    drafts: Drafts
    copied: list[Event]


def compact_context(
    backend: Backend,
    agent: AgentRecord,
    request: AnyCompaction,
    expected: int | None = None,
) -> list[Event]:
    """Replace the older part of the context with a summary. If the lineage has a compaction with
    the key, its events are returned. Reading a long context and counting its tokens takes seconds,
    so the agent is locked meanwhile only if others have written to it again and again."""
    check_expected(expected)
    for _ in range(ATTEMPTS_WITHOUT_LOCK):
        computed = compute_ahead(backend, agent, request)
        with backend.begin(agents=[agent]) as transaction:
            if computed is None or is_current(transaction, agent, computed):
                return write_compaction(transaction, agent, request, expected, computed)
    with backend.begin(agents=[agent]) as transaction:
        return write_compaction(transaction, agent, request, expected)


def write_compaction(
    transaction: Transaction,
    agent: AgentRecord,
    request: AnyCompaction,
    expected: int | None,
    computed: ComputedCompaction | None = None,
) -> list[Event]:
    """Write a compaction while the agent is locked, unless the lineage has it. It is computed now
    if it was not computed before. Raises Conflict."""
    repeated = find_compaction(transaction, agent, request.key)
    if repeated:
        return repeated
    check_head(agent, transaction.read_head(agent), expected)
    if computed is None:
        computed = compute_compaction(transaction, agent, request)
    decided = decide_bases(transaction, agent, computed.drafts, computed.head)
    return transaction.append(agent, decided, computed.head)


def compute_ahead(
    reader: Reader, agent: AgentRecord, request: AnyCompaction
) -> ComputedCompaction | None:
    """Return the compaction of the context as it is now. None if there is nothing to compact, or if
    the lineage has the key: both are decided while the agent is locked."""
    if find_compaction(reader, agent, request.key):
        return None
    with suppress(NotFound):
        return compute_compaction(reader, agent, request)
    return None


def compute_compaction(
    reader: Reader, agent: AgentRecord, request: AnyCompaction
) -> ComputedCompaction:
    """Return the compaction of the context as it is now. Raises NotFound if there is nothing to
    compact."""
    from backstory.wire.conversation import conversation_of  # slow to import

    context = LineageReader(reader, agent).read_context(None)
    tokens = int(conversation_of(context.messages).tokens())
    compaction = request.build(context, tokens)
    drafts = number_drafts(check_drafts(compaction.events), request.key)
    positions = set(compaction.copied)
    copied = [event for event in context.messages if event.seq in positions]
    return ComputedCompaction(context.at, drafts, copied)


def is_current(reader: Reader, agent: AgentRecord, computed: ComputedCompaction) -> bool:
    """Return True if the head is the same, and no event was erased that is copied."""
    if reader.read_head(agent) != computed.head:
        return False
    if not computed.copied:
        return True
    positions = [event.seq for event in computed.copied]
    return LineageReader(reader, agent).read_positions(positions) == computed.copied


def find_compaction(reader: Reader, agent: AgentRecord, key: str | None) -> list[Event]:
    """Return the events of the compaction with a key; none if the lineage does not have the key.
    Raises KeyTaken if something else has it."""
    if key is None:
        return []
    repeated = find_batch(reader, agent, reader.read_lineage(agent), check_key(key))
    if repeated and not begins_compaction(repeated[0]):
        raise KeyTaken.of_event(key, repeated[0].seq)
    return repeated


def begins_compaction(event: Event) -> bool:
    """Return True if an event is the clear of a compaction. Of an erased clear, nobody can know."""
    if event.kind != "clear":
        return False
    return is_erased(event.data_json) or SUMMARY in (event.data or {})
