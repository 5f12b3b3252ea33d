"""Compacts the context of an agent: reads it and writes its replacement under one lock.

`log.compaction` decides which events replace the context.
"""

from collections.abc import Mapping

from backstory.errors import KeyTaken
from backstory.log.checks import check_drafts, check_key
from backstory.log.compaction import build_compaction
from backstory.log.data_keys import SUMMARY
from backstory.log.events import Event
from backstory.storage.lineage import LineageReader
from backstory.storage.positions import check_expected
from backstory.storage.protocol import AgentRecord, Backend, Reader
from backstory.storage.repeats import find_batch, number_drafts
from backstory.storage.write import check_head, decide_bases


def compact_context(
    backend: Backend,
    agent: AgentRecord,
    summary: str,
    keep: int,
    author: Mapping[str, str],
    key: str | None = None,
    expected: int | None = None,
) -> list[Event]:
    """Replace the older part of the context with a summary, except the last `keep` messages. If the
    lineage has a compaction with the key, its events are returned."""
    from backstory.wire.conversation import conversation_of  # slow to import

    check_expected(expected)
    with backend.begin(agents=[agent]) as transaction:
        repeated = find_compaction(transaction, agent, key)
        if repeated:
            return repeated
        # Read under the lock, so that nothing is copied that is being erased.
        context = LineageReader(transaction, agent).read_context(None)
        check_head(agent, context.at, expected)
        batch = build_compaction(
            context.messages,
            summary,
            keep=keep,
            head=context.at,
            tokens=int(conversation_of(context.messages).tokens()),
            author=author,
        )
        drafts = number_drafts(check_drafts(batch), key)
        decided = decide_bases(transaction, agent, drafts, context.at)
        return transaction.append(agent, decided, context.at)


def find_compaction(reader: Reader, agent: AgentRecord, key: str | None) -> list[Event]:
    """Return the events of the compaction with a key; none if the lineage does not have the key.
    Raises KeyTaken if something else has it."""
    if key is None:
        return []
    repeated = find_batch(reader, agent, reader.read_lineage(agent), check_key(key))
    if repeated and SUMMARY not in (repeated[0].data or {}):
        raise KeyTaken.of_event(key, repeated[0].seq)
    return repeated
