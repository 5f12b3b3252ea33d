"""Compaction: the events that replace the older part of a context with a summary.

One batch: a clear, the system messages and settings again, the summary, and copies of the newest messages.
Nothing is lost, and undoing the clear takes back all of it. Pure.
"""

from collections.abc import Sequence
from typing import Any

from backstory.errors import Invalid, NotFound
from backstory.log.chain import is_erased
from backstory.log.erasure import stand_in
from backstory.log.events import Event
from backstory.log.kinds import SPOKEN
from backstory.log.messages import tool_call, tool_result
from backstory.log.replay import SUMMARY
from backstory.log.settings import SETTINGS, usable

COPY = "copy_of"  # the key of `data` that names the position a copy was made from
COMPACTED = "compacted"  # the key of `data` that says what a summary replaces

Written = tuple[str, str | None, dict[str, Any] | None]


def compaction(
    context: Sequence[Event], summary: str, *, keep: int, head: int, tokens: int
) -> list[Written]:
    """The events that compact a context. The last `keep` messages stay as they are, or a few more, so that no
    call loses its result and no answer is split. `tokens` is the size of the whole context."""
    if not isinstance(summary, str) or not summary.strip():
        raise Invalid("the summary is empty: a compaction needs one")
    if type(keep) is not int or keep < 0:
        raise Invalid(f"keep={keep!r} is not a number of messages", remedy="pass 0 or more")
    context = [event for event in map(_presentable, context) if event is not None]
    spoken = [event for event in context if event.kind in SPOKEN and event.kind != "system"]
    if not spoken:
        raise NotFound(
            "there is nothing to compact: the context has no messages",
            remedy="compact when something was said",
        )
    kept = spoken[first_kept(spoken, keep) :]
    # If all are kept, the summary comes before them, so that a caller need not count messages first.
    compacted = {
        "from": spoken[0].seq,
        "to": head,
        "events": len(spoken) - len(kept),
        "tokens": tokens,
    }
    again = [event for event in context if event.kind == "system"] + _settings_in_force(context)
    return [
        ("clear", None, {SUMMARY: head + 1 + len(again) + 1}),
        *map(_copied, again),
        ("user", summary, {COMPACTED: compacted}),
        *map(_copied, kept),
    ]


def _presentable(event: Event) -> Event | None:
    """The event, or a substitute if it was erased: an erased event cannot be written again."""
    if not is_erased(event.data_json):
        return event
    message = stand_in(event)
    if message is None:
        return None
    data = {**(message.data or {}), COPY: (event.data or {}).get(COPY, event.seq)}
    return Event.of(event.seq, message.kind, message.content, data)


def first_kept(spoken: Sequence[Event], keep: int) -> int:
    """Where the kept messages begin: the newest index, at least `keep` from the end, that does not split an
    answer or separate a result from its call."""
    wanted = max(0, len(spoken) - keep)
    if wanted == len(spoken):
        return wanted
    calls: dict[Any, int] = {}
    first_of_result: dict[int, int] = {}
    for place, event in enumerate(spoken):
        if event.kind == "tool_call":
            calls[tool_call(event.data).id] = place
        elif event.kind == "tool_result":
            first_of_result[place] = calls.get(tool_result(event.content, event.data).id, place)
    needed = len(spoken)  # no kept result may have its call before this index
    for start in range(len(spoken) - 1, 0, -1):
        needed = min(needed, first_of_result.get(start, start))
        if start <= min(wanted, needed) and _begins(spoken, start):
            return start
    return 0


def _begins(spoken: Sequence[Event], place: int) -> bool:
    """Whether something new begins here: what a person said, or a model's answer."""
    kind = spoken[place].kind
    if kind == "user" or place == 0:
        return True
    return kind in ("assistant", "tool_call") and spoken[place - 1].kind not in (
        "assistant",
        "tool_call",
    )


def _copied(event: Event) -> Written:
    data = event.data or {}
    return event.kind, event.content, {**data, COPY: data.get(COPY, event.seq)}


def _settings_in_force(context: Sequence[Event]) -> list[Event]:
    """The settings notes that are still in force: newer fields replace older ones."""
    found: list[Event] = []
    said: set[str] = set()
    for event in reversed(context):
        if event.kind == "note" and event.content == SETTINGS:
            fields = usable(event.data)
            if not fields <= said:
                found.append(event)
                said |= fields
    return found[::-1]
