"""Compacts the context of an agent: computes its replacement without a lock, and writes it if the
context is still the same.

`log.compaction` decides which events replace the context.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from backstory.errors import NotFound
from backstory.log.arguments import check_new_key, check_once
from backstory.log.checks import check_drafts
from backstory.log.compaction import (
    Compaction,
    NewEvent,
    build_compaction,
    build_expansion,
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
from backstory.storage.repeats import Once, number_drafts, renew_key
from backstory.storage.write import decide_next_bases, find_written


class CompactionRequest(NamedTuple):
    """A summary that replaces the context, except the last `keep` messages.
    `author` is the part of the clear's data that names who did it."""

    summary: str
    keep: int
    author: Mapping[str, str]
    key: str | None = None

    def build(self, context: Context) -> Compaction:
        """Return the compaction of a context."""
        return build_compaction(
            context.messages,
            self.summary,
            keep=self.keep,
            head=context.at,
            tokens=count_tokens(context),
            author=self.author,
        )


class RecordedCompaction(NamedTuple):
    """An answer in which its provider compacted the context, and the messages that it kept."""

    answer: Sequence[NewEvent]
    kept: Sequence[NewEvent]
    key: str | None = None

    def build(self, context: Context) -> Compaction:
        """Return the compaction of a context."""
        tokens = count_tokens(context)
        return build_provider_compaction(
            context.messages, self.answer, self.kept, head=context.at, tokens=tokens
        )


class ExpansionRequest(NamedTuple):
    """The messages from before a compaction instead of its summary. `author` is the part of the
    jump's data that names who did it."""

    author: Mapping[str, str]
    key: str | None = None

    def build(self, context: Context) -> Compaction:
        """Return the expansion of a context."""
        return build_expansion(context.messages, self.author)


AnyCompaction = CompactionRequest | RecordedCompaction | ExpansionRequest


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
    once: Once = "lineage",
) -> list[Event]:
    """Replace the older part of the context with a summary, or a summary with what it replaced.

    If the lineage (or the context) has a compaction with the key, its events are returned. Reading
    a long context and counting its tokens takes seconds, so that happens without a lock, and again
    while the agent is locked only if others have written to it meanwhile.
    """
    check_expected(expected)
    check_once(once)
    if request.key is not None:
        check_new_key(request.key)
    computed = compute_ahead(backend, agent, request, once)
    with backend.begin(agents=[agent]) as transaction:
        if computed is not None and not is_current(transaction, agent, computed):
            computed = None
        return write_compaction(transaction, agent, request, expected, once, computed)


def write_compaction(
    transaction: Transaction,
    agent: AgentRecord,
    request: AnyCompaction,
    expected: int | None,
    once: Once,
    computed: ComputedCompaction | None = None,
) -> list[Event]:
    """Write a compaction while the agent is locked, unless the lineage has it. It is computed now
    if it was not computed before. Raises Conflict."""
    request = renew_request(transaction, agent, request, once)
    repeated = find_repeated(transaction, agent, request)
    if repeated:
        return repeated
    check_head(agent, transaction.read_head(agent), expected)
    if computed is None:
        computed = compute_compaction(transaction, agent, request)
    decided = decide_next_bases(transaction, agent, computed.drafts, computed.head)
    return transaction.append(agent, decided.drafts, expected=computed.head)


def compute_ahead(
    reader: Reader, agent: AgentRecord, request: AnyCompaction, once: Once
) -> ComputedCompaction | None:
    """Return the compaction of the context as it is now. None if there is nothing to compact, or if
    the lineage has the key: both are decided while the agent is locked."""
    request = renew_request(reader, agent, request, once)
    if find_repeated(reader, agent, request):
        return None
    with suppress(NotFound):
        return compute_compaction(reader, agent, request)
    return None


def compute_compaction(
    reader: Reader, agent: AgentRecord, request: AnyCompaction
) -> ComputedCompaction:
    """Return the compaction of the context as it is now. Raises NotFound if there is nothing to
    compact."""
    context = LineageReader(reader, agent).read_context(None)
    compaction = request.build(context)
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


def renew_request(
    reader: Reader, agent: AgentRecord, request: AnyCompaction, once: Once
) -> AnyCompaction:
    """Return the request with the key that its compaction has or gets, as `renew_key` does."""
    if request.key is None or once == "lineage":
        return request
    key = renew_key(reader, agent, reader.read_lineage(agent), request.key)
    return request._replace(key=key)


def count_tokens(context: Context) -> int:
    """Return the number of tokens of a context."""
    from backstory.wire.conversation import conversation_of  # slow to import

    return int(conversation_of(context.messages).tokens())


def find_repeated(reader: Reader, agent: AgentRecord, request: AnyCompaction) -> list[Event]:
    """Return the events that a request with this key wrote before. Raises KeyTaken."""
    is_expansion = isinstance(request, ExpansionRequest)
    fits = begins_expansion if is_expansion else begins_compaction
    return find_written(reader, agent, request.key, fits)


def begins_expansion(event: Event) -> bool:
    """Return True if an event can be the jump of an expansion."""
    return event.kind == "jump"


def begins_compaction(event: Event) -> bool:
    """Return True if an event is the clear of a compaction. Of an erased clear, nobody can know."""
    if event.kind != "clear":
        return False
    return is_erased(event.data_json) or SUMMARY in (event.data or {})
