"""Compaction: the events that replace the older part of a context with a summary.

They are one batch: a clear, the system messages and settings again, the summary, and copies of the
newest messages. Nothing is lost, and undoing the clear undoes all of it.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from backstory.errors import Invalid, NotFound
from backstory.log.data_keys import COMPACTED, COPY, SUMMARY, TARGET
from backstory.log.erasure import build_stand_in, is_erased
from backstory.log.events import Event
from backstory.log.kinds import ANSWER_KINDS, MESSAGE_KINDS, MOVE_KINDS
from backstory.log.messages import drop_replaced, read_call, read_result
from backstory.log.settings import SETTINGS, list_usable_fields

NO_AUTHOR: Mapping[str, str] = MappingProxyType({})

NewEvent = tuple[str, str | None, dict[str, Any] | None]  # kind, content and data


class Compaction(NamedTuple):
    """The events that compact a context, and the positions of the events that they copy."""

    events: list[NewEvent]
    copied: list[int]


def build_compaction(
    context: Sequence[Event],
    summary: str,
    *,
    keep: int,
    head: int,
    tokens: int,
    author: Mapping[str, str] = NO_AUTHOR,
) -> Compaction:
    """Return the events that compact a context.

    The last `keep` messages stay as they are, or a few more, so that no call loses its result and
    no answer is split. `tokens` is the size of the complete context. `author` is the part of the
    clear's data that names who did it.
    """
    if not isinstance(summary, str) or not summary.strip():
        raise Invalid("the summary is empty: a compaction needs one")
    if type(keep) is not int or keep < 0:
        raise Invalid(f"keep={keep!r} is not a number of messages", remedy="pass 0 or more")
    repeated, messages = _split_context(context)
    if not messages:
        raise NotFound(
            "there is nothing to compact: the context has no messages",
            remedy="compact when something was said",
        )
    start = find_start(messages, keep)
    description = {"from": messages[0].seq, "to": head, "events": start, "tokens": tokens}
    kept = messages[start:]
    # Also if all messages stay, so that a caller need not count them first.
    summary_event = ("user", summary, {COMPACTED: description})
    batch = _build_batch(head, list(map(_copy, repeated)), summary_event, author)
    batch += map(_copy, kept)
    return Compaction(batch, [event.seq for event in repeated + kept])


def _build_batch(
    head: int, copies: Sequence[NewEvent], summary: NewEvent, author: Mapping[str, str] = NO_AUTHOR
) -> list[NewEvent]:
    """Return the clear of a compaction, the copies before the summary, and the summary."""
    clear_position = head + 1
    summary_position = clear_position + len(copies) + 1
    clear = ("clear", None, {SUMMARY: summary_position, **author})
    return [clear, *copies, summary]


def build_provider_compaction(
    context: Sequence[Event],
    answer: Sequence[NewEvent],
    kept: Sequence[NewEvent],
    *,
    head: int,
    tokens: int,
) -> Compaction:
    """Return the events of an answer in which its provider compacted the context.

    `answer` begins with the summary. `kept` are the messages that the provider repeats before it;
    those that are in the context become copies.
    """
    repeated, messages = _split_context(context)
    originals = _find_originals(kept, messages)
    copies = list(map(_copy, repeated))
    copied = list(repeated)
    for message, original in zip(kept, originals, strict=True):
        if original is None:
            copies.append(message)
        else:
            copies.append(_copy(original))
            copied.append(original)
    first = messages[0].seq if messages else head
    replaced = len(messages) - (len(copied) - len(repeated))
    description = {"from": first, "to": head, "events": replaced, "tokens": tokens}
    kind, text, data = answer[0]
    summary = (kind, text, {**(data or {}), COMPACTED: description})
    batch = _build_batch(head, copies, summary)
    batch += answer[1:]
    return Compaction(batch, [event.seq for event in copied])


def build_expansion(context: Sequence[Event], author: Mapping[str, str]) -> Compaction:
    """Return the events that take back the newest compaction of a context and keep what came after
    it: a jump to before the compaction, and copies of the later messages, notes and marks."""
    summary, target = _find_summary(context)
    later = []
    for event in _replace_erased(context):
        if event.seq <= summary.seq or event.kind in MOVE_KINDS:
            continue
        original = _find_original(event)
        # A copy that the compaction made is in the context again.
        if type(original) is not int or original > target:
            later.append(event)
    batch = [("jump", None, {TARGET: target, **author}), *map(_copy, later)]
    return Compaction(batch, [event.seq for event in later])


def _find_summary(context: Sequence[Event]) -> tuple[Event, int]:
    """Return the newest summary that is not a copy, and the head before it. Raises NotFound."""
    for event in reversed(context):
        data = event.data or {}
        description = data.get(COMPACTED)
        if COPY not in data and isinstance(description, dict):
            target = description.get("to")
            if type(target) is int and 0 < target < event.seq:
                return event, target
    raise NotFound(
        "there is nothing to expand: the context has no compaction",
        remedy="undo() takes back other moves",
    )


def _find_originals(kept: Sequence[NewEvent], messages: Sequence[Event]) -> list[Event | None]:
    """Return the message that each of `kept` repeats, or None if there is none. Of several equal
    messages, it is the newest: providers keep the end of a conversation."""
    by_text: dict[tuple[str, str | None], list[Event]] = {}
    for event in messages:
        by_text.setdefault((event.kind, event.content), []).append(event)
    originals: list[Event | None] = []
    for kind, text, _ in reversed(kept):
        same = by_text.get((kind, text))
        originals.append(same.pop() if same else None)
    return originals[::-1]


def _split_context(context: Sequence[Event]) -> tuple[list[Event], list[Event]]:
    """Return the events that stay in force, system messages and settings, and all other
    messages."""
    events = _replace_erased(context)
    system = [event for event in events if event.kind == "system"]
    messages = [event for event in events if event.kind in MESSAGE_KINDS - {"system"}]
    return drop_replaced(system) + _find_settings(events), messages


def _replace_erased(context: Sequence[Event]) -> list[Event]:
    """Return the events, with stand-ins for erased ones, which cannot be written again."""
    events = []
    for event in context:
        if not is_erased(event.data_json):
            events.append(event)
            continue
        message = build_stand_in(event)
        if message is not None:
            data = dict(message.data or {})
            data[COPY] = _find_original(event)
            events.append(Event.of(event.seq, message.kind, message.content, data))
    return events


def find_start(messages: Sequence[Event], keep: int) -> int:
    """Return the index of the first message to keep: the newest one, at least `keep` from the end,
    that does not split an answer or separate a result from its call."""
    newest = max(0, len(messages) - keep)
    if newest == len(messages):
        return newest
    calls = _find_calls(messages)
    earliest_call = len(messages)  # of the results from `start` on
    for start in range(len(messages) - 1, 0, -1):
        earliest_call = min(earliest_call, calls.get(start, start))
        if start <= newest and start <= earliest_call and _is_beginning(messages, start):
            return start
    return 0


def _find_calls(messages: Sequence[Event]) -> dict[int, int]:
    """Return the index of its call for the index of each result that has one."""
    newest_call: dict[Any, int] = {}
    calls = {}
    for index, event in enumerate(messages):
        if event.kind == "tool_call":
            newest_call[read_call(event.data).id] = index
        elif event.kind == "tool_result":
            id = read_result(event.content, event.data).id
            if id in newest_call:
                calls[index] = newest_call[id]
    return calls


def _is_beginning(messages: Sequence[Event], index: int) -> bool:
    """Return True if a prompt or an answer begins at this index, which is not the first."""
    kind = messages[index].kind
    if kind == "user":
        return True
    return kind in ANSWER_KINDS and messages[index - 1].kind not in ANSWER_KINDS


def _copy(event: Event) -> NewEvent:
    data = event.data or {}
    data[COPY] = _find_original(event)
    return event.kind, event.content, data


def _find_original(event: Event) -> Any:
    """Return the position that a copy of `event` names: that of the first original."""
    data = event.data or {}
    return data.get(COPY, event.seq)


def _find_settings(context: Sequence[Event]) -> list[Event]:
    """Return the settings notes that are in force. Newer fields replace older ones."""
    notes: list[Event] = []
    fields: set[str] = set()
    for event in reversed(context):
        if event.kind != "note" or event.content != SETTINGS:
            continue
        own_fields = list_usable_fields(event.data)
        if not own_fields <= fields:
            notes.append(event)
            fields |= own_fields
    notes.reverse()
    return notes
