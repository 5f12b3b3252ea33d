"""Erasing events: what they said goes, the events stay.

An erased event keeps its position, kind, time, base, key and digest. Its data begins with `erased`: when,
why and the digests of what was there, so that the chain of digests stays valid. Otherwise only what connects
it to other events is left, such as the id of a call or the target of a jump. Pure.
"""

import re
from typing import Any

from backstory.errors import Invalid
from backstory.log.chain import ERASED, inner
from backstory.log.events import Event, Stored, check_text, plain, to_json
from backstory.log.kinds import MOVES, TOOL_KINDS
from backstory.log.messages import Message, tool_call, tool_result

SAYS = "(erased)"  # what a model reads in place of an erased call or result
LONGEST_REASON = 1_000  # characters

_FIELDS = {"at", "why", "content", "data"}
_LINKS = ("copy_of", "answer")  # which other events an event belongs to
_OF_MOVES = ("target_message_id", "undo", "redo")
_DIGEST = re.compile("[0-9a-f]{64}")


def checked_reason(why: object) -> str:
    """The reason for an erasure, which must not be blank; raises Invalid."""
    if not isinstance(why, str) or not why.strip() or len(why) > LONGEST_REASON:
        raise Invalid(
            "an erasure needs a reason", remedy=f"say why, in 1 to {LONGEST_REASON:,} characters"
        )
    check_text(why, "the reason of this erasure")
    return plain(why)


def erased_row(row: Stored, at: str, why: str) -> tuple[str | None, str]:
    """The content and the data of a row after it is erased."""
    data = row.event.data or {}
    said, beside = inner(row.content, row.data_json, data)
    erased = {"at": at, "why": why, "content": said.hex(), "data": beside.hex()}
    return None if row.content is None else "", to_json({ERASED: erased, **_kept(row, data)})


def _kept(row: Stored, data: dict[str, Any]) -> dict[str, Any]:
    kept = {name: data[name] for name in _LINKS if name in data}
    if row.kind in MOVES:
        kept |= {name: data[name] for name in _OF_MOVES if name in data}
    if row.kind == "tool_call":
        call = tool_call(data)
        kept |= {"id": call.id, "name": call.name}
    elif row.kind == "tool_result":
        kept |= {"id": tool_result(row.content, data).id}
    return kept


def wrong_erasure(kind: str, content: object, data: dict[str, Any]) -> str | None:
    """What is wrong with an event whose data says that it is erased; None if nothing is."""
    erased = data[ERASED]
    if not isinstance(erased, dict) or set(erased) != _FIELDS:
        return "what it says about its erasure is not complete"
    if not all(_DIGEST.fullmatch(str(erased[name])) for name in ("content", "data")):
        return "it does not have the digests of what was erased"
    allowed = {ERASED, *_LINKS}
    allowed |= set(_OF_MOVES) if kind in MOVES else {"id", "name"} if kind in TOOL_KINDS else set()
    if content or not set(data) <= allowed:
        return "it says something, although it is erased"
    return None


def stand_in(event: Event) -> Message | None:
    """What a model is given instead of an erased event: calls and results stay, so that neither loses the
    other; everything else is left out."""
    data = event.data or {}
    if event.kind == "tool_call":
        call = {"id": data.get("id"), "name": data.get("name"), "arguments": {ERASED: SAYS}}
        return Message("tool_call", None, call, seq=event.seq)
    if event.kind == "tool_result":
        return Message("tool_result", SAYS, {"id": data.get("id")}, seq=event.seq)
    return None
