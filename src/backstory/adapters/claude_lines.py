"""The lines of a Claude transcript and the events they become."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple
from uuid import UUID, uuid5

import orjson

from backstory import Agent, Event
from backstory.adapters.forms import HERE, HOLE, HOLE_BEGINS, SMALLEST
from backstory.adapters.items import (
    Carried,
    Draft,
    carried,
    is_flat,
    named,
    note,
    people_text,
    read_items,
)
from backstory.adapters.turns import ERASED, answered, is_erased, said
from backstory.log.json_text import copy_exactly
from backstory.transcripts import Entry, claude_entries, claude_kept, claude_parents, claude_units

ADAPTER = "claude"
WINDOW = 16  # lines that are looked at to see that a line continues the newest one
LINE_NOTE = "claude.line"  # the name of a note that carries a line which says nothing
PAGE = 64  # events at the end of a transcript that tell what a line usually continues
SAYS = {
    "text": "text",
    "tool_use": "input",
    "tool_result": "content",
}  # what a block says, by its type
GIVEN = {HOLE: "arguments"}
LINE_KEY = re.compile(rf"{ADAPTER}:(.*):[0-9a-f]{{16}}", re.DOTALL)  # of a line's first event
FOREIGN = UUID(
    "0f1f6f0e-52b3-5d5c-8e07-3f0d3e0a5a11"
)  # the namespace of lines for what others wrote

SPOKEN = ("user", "assistant", "tool_call", "tool_result")

Line = dict[str, Any]


class NewLine(NamedTuple):
    """A line to be written: the key of its event, None for a line without a uuid, and its exact JSON,
    if there is any. A line that was changed is another one."""

    key: str | None
    line: Line
    exact: bytes | None

    @classmethod
    def of(cls, line: Line) -> "NewLine":
        """A copy of a line with its key; TypeError or ValueError for what is not JSON."""
        uuid = line.get("uuid")
        exact, line = copy_exactly(line) or (None, json.loads(json.dumps(line)))
        if not isinstance(uuid, str):
            return cls(None, line, exact)
        digest = sha256(exact or json.dumps(line).encode()).hexdigest()
        return cls(f"{ADAPTER}:{people_text(uuid[:100])}:{digest[:16]}", line, exact)


class Written:
    """What an agent holds of a transcript, read as far as it is needed."""

    def __init__(self, agent: Agent, session_id: str, *, is_main: bool = True) -> None:
        self.agent = agent
        self._session_id = session_id
        self.head = agent.head
        self._is_main = is_main

    def new(self, lines: Sequence[NewLine]) -> list[NewLine]:
        """The lines without those that are there already."""
        unique = {line.key or number: line for number, line in enumerate(lines)}
        keys = [key for key in unique if isinstance(key, str)]
        events = self.agent.events(keys=keys) if keys and self.head else []
        known = {event.key for event in events}
        return [line for key, line in unique.items() if key not in known]

    def entries(self, line: Line) -> list[Entry]:
        """What a line says in this transcript. Older versions wrote those of sub-agents into the main one."""
        return [] if self._is_main and line.get("isSidechain") is True else claude_entries(line)

    @cached_property
    def newest(self) -> list[Line]:
        """The last live lines."""
        if not self.head:
            return []
        events = self.agent.messages(notes=[LINE_NOTE], limit=PAGE)
        return [line for _, line in lines_in(events)]

    @cached_property
    def spoken(self) -> Line | None:
        """The last live line that says something."""
        return next((line for line in reversed(self.newest) if self.entries(line)), None)

    @cached_property
    def everything(self) -> list[tuple[Event, Line]]:
        """All lines of the lineage, and the events that carry them."""
        return lines_in(self.agent.events())

    @cached_property
    def others(self) -> dict[Any, int]:
        """The positions of what others wrote, by the uuids that its lines are given."""
        events = self.agent.events() if self.head else []
        said = (event for event in events if event.kind in SPOKEN and not _tag(event))
        return {_foreign_uuid(event, self._session_id): event.seq for event in said}

    def lines(self) -> list[Line]:
        """All lines of the lineage that are part of this transcript's own tree."""
        return [
            line
            for _, line in self.everything
            if not (self._is_main and line.get("isSidechain") is True)
        ]

    def positions(self) -> Iterator[tuple[int, Line]]:
        """All lines, each with the position of its last event."""
        parts = {event.seq for event in self.agent.events() if "part" in _tag(event)}
        for event, line in self.everything:
            last = event.seq
            while last + 1 in parts:
                last += 1
            yield last, line


def lines_in(events: Iterable[Event]) -> list[tuple[Event, Line]]:
    """The lines that events carry."""
    return [(each.event, each.item) for each in read_items(ADAPTER, events, lambda event: None)]


def _tag(event: Event) -> dict[str, Any]:
    tag = (event.data or {}).get("item")
    return tag if isinstance(tag, dict) and tag.get("of") == ADAPTER else {}


# --- writing ---


def drafts_of(written: Written, lines: Sequence[NewLine]) -> list[Event]:
    """The events that new lines become, with the moves that lead to what they continue."""
    batch: list[Event] = []
    told: list[
        tuple[int, Line]
    ] = []  # the lines so far, each with the position that its last event gets
    spoken: Line | None = None  # the last of them that says something
    said = [_said(new, written.entries(new.line)) for new in lines]
    for new, events in zip(lines, said, strict=True):
        line = new.line
        kind = events[0].kind
        is_said = kind != "note" or any(event.kind != "note" for event in events)
        if is_said and kind not in ("clear", "tool_result"):
            batch += _move(written, told, line, spoken or written.spoken)
        if line.get("isCompactSummary") is True:
            copies = _copies(written, [*(earlier for _, earlier in told), line])
            events = _said(new, written.entries(line), copies)
        batch += events
        told.append((written.head + len(batch), line))
        spoken = line if is_said else spoken
    return batch


def _said(new: NewLine, entries: Sequence[Entry], copies: Sequence[Draft] = ()) -> list[Event]:
    """The events of a line, with its key."""
    if len(entries) == 1 and not copies and (plain := _plain(new, entries[0])) is not None:
        return [plain]
    events: list[Draft] = [(entry.kind, _words(entry), entry.data) for entry in entries]
    events += copies
    if events and events[0][0] != "clear":
        exact, is_parsed = new.exact, new.exact is not None and not copies
        return carried(ADAPTER, new.line, events, exact=exact, is_parsed=is_parsed, key=new.key)
    if not events:
        return [note(ADAPTER, LINE_NOTE, new.line, key=new.key)]
    second = None if new.key is None else f"{new.key}:1"
    return [_move_event("clear", key=new.key), note(ADAPTER, LINE_NOTE, new.line, key=second)]


def _plain(new: NewLine, entry: Entry) -> Event | None:
    """The event of a line that says one thing, once, in the usual place: `carried` would make it just so.
    None for all others."""
    _, kind, content, data, _, _ = entry
    exact, data = new.exact, data or {}
    if exact is None or "native" in data or (b"$" in exact and HOLE_BEGINS in exact):
        return None
    arguments = data.get("arguments")
    if content and arguments is None and people_text(content) == content:
        said, length, form = content, len(content), _with_hole(new.line, content, HERE)
    elif content is None and arguments is not None:
        said, length, form = (
            arguments,
            len(orjson.dumps(arguments)),
            _with_hole(new.line, arguments, GIVEN),
        )
    else:
        return None
    if form is None or length < SMALLEST or named(kind, data) is not data:
        return None
    text = orjson.dumps({**data, "item": {"of": ADAPTER, "form": form}})
    if length < len(text) and text.count(orjson.dumps(said)[:SMALLEST]) > (content is None):
        return None  # it is said elsewhere, too
    return Event.of(0, kind, content, text.decode(), key=new.key) if is_flat(text) else None


def _with_hole(line: Line, said: Any, hole: dict[str, str]) -> Line | None:
    """A line with a hole for what it says, if that is its content or in the only block of it."""
    message = line.get("message")
    if type(message) is not dict:
        return None
    within = message.get("content")
    if type(within) is str:
        return {**line, "message": {**message, "content": hole}} if within == said else None
    if type(within) is not list or len(within) != 1 or type(within[0]) is not dict:
        return None
    block = within[0]
    name = SAYS.get(str(block.get("type")), "")
    value = block.get(name)
    # An object must be the same one: one that is equal may still be other JSON.
    if value is said or (type(value) is str and value == said):
        return {**line, "message": {**message, "content": [{**block, name: hole}]}}
    return None


def _words(entry: Entry) -> str | None:
    """An entry's text. Blank text of an answer counts among its other lines: the answer is only sent as it
    was if all of its words are there."""
    native = (entry.data or {}).get("native") if entry.content == "" else None
    match native and native.get("wire"):
        case [{"type": "text", "text": str(text)}]:
            return text
    return entry.content


def _move(
    written: Written, told: Sequence[tuple[int, Line]], line: Line, spoken: Line | None
) -> list[Event]:
    """The jump or clear before a line that does not continue the newest one that says something. Nearly all
    lines do, or continue its unit; for the others the whole tree is asked."""
    last = spoken.get("uuid") if spoken else None
    if not isinstance(last, str) or line.get("parentUuid") == last:
        return []
    recent = [earlier for _, earlier in told]
    window = [*written.newest, *recent] if len(recent) < WINDOW else recent
    units = claude_units([*window[-WINDOW:], line])
    current = units.get(last, last)
    if current in (units.get(str(line.get(key))) for key in ("uuid", "parentUuid")):
        return []
    if (place := written.others.get(line.get("parentUuid"))) is not None:
        is_last = [event.seq for event in written.agent.messages(limit=1)] == [place]
        is_said = any(written.entries(earlier) for earlier in recent)
        return [] if is_last and not is_said else [_move_event("jump", target_message_id=place)]
    keys = claude_parents([*written.lines(), *recent, line])
    if last in keys or any(units.get(key) == current for key in keys):
        return []
    if not keys:
        return [_move_event("clear")]
    places = [*written.positions(), *told]
    targets = [seq for seq, earlier in places if earlier.get("uuid") in keys]
    return [_move_event("jump", target_message_id=max(targets))] if targets else []


def _move_event(kind: str, *, key: str | None = None, **data: int) -> Event:
    return Event.of(0, kind, None, {**data, "by": ADAPTER}, key=key)


def _copies(written: Written, told: Sequence[Line]) -> list[Draft]:
    """What a compaction kept, said again behind its summary."""
    kept = claude_kept([*written.lines(), *told])
    places = {(event.kind, event.content): event.seq for event, _ in written.everything}
    return [
        (
            entry.kind,
            entry.content,
            (entry.data or {}) | _copy_of(places.get((entry.kind, entry.content))),
        )
        for entry in kept
    ]


def _copy_of(seq: int | None) -> dict[str, Any]:
    return {} if seq is None else {"copy_of": seq}


# --- reading ---


def written_lines(events: Iterable[Event]) -> Iterator[Carried]:
    """The lines that events carry; for an event of someone else's, the event itself."""
    return read_items(ADAPTER, map(_shown, events), lambda event: event)


def _shown(event: Event) -> Event:
    """The event; of an erased one, that there was a line: others hang on it."""
    if event.kind not in ("user", "assistant") or not is_erased(event):
        return event
    return Event.of(event.seq, event.kind, ERASED, None, event.created_at, key=event.key)


def foreign_lines(found: Iterable[Carried], session_id: str) -> list[tuple[int, Line]]:
    """The lines with their positions. What others wrote is a line too, behind the one before it."""
    lines: list[tuple[int, Line]] = []
    last: str | None = None
    answer: str | None = None
    for event, item, *_ in found:
        if isinstance(item, Event):
            uuid = _erased_uuid(event) or _foreign_uuid(event, session_id)
            is_answer = event.kind in ("assistant", "tool_call")
            answer = (answer or f"msg_{uuid}") if is_answer else None
            said = _foreign_line(item, answer)
            if not said:
                continue
            item = {
                "parentUuid": last,
                "isSidechain": False,
                "sessionId": session_id,
                "uuid": uuid,
                "timestamp": event.created_at.isoformat().replace("+00:00", "Z"),
                **said,
            }
        lines.append((event.seq, item))
        last = item.get("uuid") or last
    return lines


def _erased_uuid(event: Event) -> str | None:
    """The uuid of the line that an event was before it was erased."""
    found = LINE_KEY.fullmatch(event.key or "")
    return found[1] if found else None


def _foreign_uuid(event: Event, session_id: str) -> str:
    return str(uuid5(FOREIGN, f"{session_id}/{event.seq}/{event.created_us}"))


def _foreign_line(event: Event, answer: str | None) -> Line:
    data = event.data or {}
    match event.kind:
        case "user":
            content = said(event, "anthropic") or event.content
            return {"type": "user", "message": {"role": "user", "content": content}}
        case "assistant" if event.content:
            return _answer({"type": "text", "text": event.content}, answer)
        case "tool_call":
            given = data.get("arguments")
            block = {"type": "tool_use", "id": data.get("id"), "name": data.get("name")}
            return _answer(
                block | {"input": given if isinstance(given, dict) else {"value": given}}, answer
            )
        case "tool_result":
            block = {"type": "tool_result", "tool_use_id": data.get("id")}
            block["content"] = answered(event, "anthropic")
            block |= {"is_error": True} if data.get("error") else {}
            return {"type": "user", "message": {"role": "user", "content": [block]}}
    return {}


def _answer(block: dict[str, Any], id: str | None) -> Line:
    message = {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": "unknown",
        "content": [block],
    }
    return {"type": "assistant", "message": message}
