"""Erased events: their text is gone, the events stay.

An erased event keeps its position, kind, time, base, key and digest. Its data begins with `erased`:
when, why and the digests of the original texts, so that the chain of digests stays valid. Otherwise
only the values that connect it to other events are left, such as the id of a call or the target of
a jump.
"""

import re
from typing import Any

from backstory.log.chain import NO_TEXT, START, digest_text, find_texts
from backstory.log.data_keys import ANSWER, COPY, ERASED, REDO, TARGET, UNDO
from backstory.log.events import Event, StoredRow, parse_object, to_json
from backstory.log.kinds import TARGETED_KINDS, TOOL_KINDS
from backstory.log.messages import Message, read_call, read_result

ERASED_TEXT = "(erased)"  # the text that a model reads in place of an erased call or result

# No other data begins like this: a new event may not use the key.
ERASED_BEGINNING = f'{{"{ERASED}":{{'
ERASURE_FIELDS = {"at", "why", "content", "data"}
LINKS = (COPY, ANSWER)  # keys of data that name other events
TARGET_LINKS = (TARGET, UNDO, REDO)
TOOL_LINKS = ("id", "name")
TEXT_DIGEST = re.compile("[0-9a-f]{64}")


def is_erased(data_json: str | None) -> bool:
    """Return True if the data of an event say that it was erased."""
    return data_json is not None and data_json.startswith(ERASED_BEGINNING)


def erase_row(
    row: StoredRow, time: str, why: str, previous: bytes = START
) -> tuple[str | None, str]:
    """Return the content and the data of a row after its erasure. `time` is when that is. If
    `is_ambiguous`, the digest `previous` to that of the row decides what the row was."""
    data = row.event.data or {}
    content_digest, data_digest = find_texts(previous, row, data)
    erasure = {"at": time, "why": why, "content": content_digest.hex(), "data": data_digest.hex()}
    content = None if row.content is None else ""
    links = _find_links(row, data)
    return content, to_json({ERASED: erasure, **links})


def replace_erased_digests(data_json: str, random: bytes) -> str:
    """Return the data of an event that was erased when its digests had no salt, with others in
    their place, so that nobody can find out by trying what the text was."""
    data = parse_object(data_json) or {}
    for name in ("content", "data"):
        if data[ERASED][name] != NO_TEXT.hex():
            data[ERASED][name] = digest_text(name, random).hex()
    return to_json(data)


def _find_links(row: StoredRow, data: dict[str, Any]) -> dict[str, Any]:
    """Return the part of an event's data that connects it to other events."""
    names = LINKS + TARGET_LINKS if row.kind in TARGETED_KINDS else LINKS
    links = {name: data[name] for name in names if name in data}
    if row.kind == "tool_call":
        call = read_call(data)
        links["id"] = call.id
        links["name"] = call.name
    elif row.kind == "tool_result":
        links["id"] = read_result(row.content, data).id
    return links


def find_erasure_problem(kind: str, content: object, data: dict[str, Any]) -> str | None:
    """Describe what is wrong with an event whose data contains `erased`, or return None."""
    erasure = data[ERASED]
    if not isinstance(erasure, dict) or set(erasure) != ERASURE_FIELDS:
        return "its erasure record is incomplete"
    for name in ("content", "data"):
        if not TEXT_DIGEST.fullmatch(str(erasure[name])):
            return "it does not have the digests of what was erased"
    links = set(LINKS)
    if kind in TARGETED_KINDS:
        links.update(TARGET_LINKS)
    elif kind in TOOL_KINDS:
        links.update(TOOL_LINKS)
    if content or not links.issuperset(data.keys() - {ERASED}):
        return "it still contains text or data, although it is erased"
    return None


def build_stand_in(event: Event) -> Message | None:
    """Return the message that a model receives instead of an erased event.

    Calls and results stay, so that neither loses the other. Everything else is left out.
    """
    data = event.data or {}
    if event.kind == "tool_call":
        arguments = {ERASED: ERASED_TEXT}
        call = {"id": data.get("id"), "name": data.get("name"), "arguments": arguments}
        return Message("tool_call", None, call, seq=event.seq)
    if event.kind == "tool_result":
        return Message("tool_result", ERASED_TEXT, {"id": data.get("id")}, seq=event.seq)
    return None
