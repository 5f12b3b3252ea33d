"""The rules of the log, written as plainly as possible: every context is a list of its own.

Quadratic and independent of `backstory.log.replay`, which is tested against it.
"""

MESSAGES = {"system", "user", "assistant", "tool_call", "tool_result"}


def contexts(events):
    """context(n) for every position n of a lineage, as lists of events."""
    found = {0: []}
    for event in events:
        n = event.seq
        before = found[n - 1]
        target = (event.data or {}).get("target_message_id")
        is_position = isinstance(target, int) and not isinstance(target, bool)
        if event.kind in MESSAGES or event.kind in ("mark", "note"):
            found[n] = [*before, event]
        elif event.kind == "clear":
            found[n] = []
        elif _is_valid_move(event, before, target if is_position else -1):
            found[n] = [*found[target], event]
        else:
            found[n] = before
    return found


def moves(events):
    """The clears, rewinds and jumps that led to context(n), oldest first, for every position n."""
    found = {0: []}
    befores = contexts(events)
    for event in events:
        n, target = event.seq, (event.data or {}).get("target_message_id")
        if event.kind == "clear":
            found[n] = [event]
        elif event.kind in ("rewind", "jump") and event in befores[n]:
            found[n] = [*found[target], event]
        else:
            found[n] = found[n - 1]
    return found


def _is_valid_move(event, before, target):
    if event.kind == "rewind":
        return any(e.seq == target and e.kind == "mark" for e in before)
    return event.kind == "jump" and 0 <= target < event.seq


def positions(events):
    return [event.seq for event in events]


def is_erased(event):
    return "erased" in (event.data or {})


def spoken(context):
    return [event for event in context if event.kind in ("user", "assistant", "system")]


def said(context):
    """Return the messages of a context that a model would be given, without erased ones."""
    return [(event.kind, event.content) for event in spoken(context) if not is_erased(event)]
