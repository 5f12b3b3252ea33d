"""Gemini CLI: a JSON document, or JSON lines in which a message is written again until it is complete. Pure.

An equal id replaces. `$rewindTo` takes that message and all behind it away; `$set.messages` is the whole
history anew.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from backstory.errors import Invalid
from backstory.importers.answers import Block, parts_of
from backstory.importers.entries import (
    Data,
    Part,
    as_text,
    microseconds,
    named,
    shallow,
    usage_of,
)
from backstory.importers.format import Format, Head, Place, Source
from backstory.importers.formats import gemini_results as results
from backstory.importers.transcript import Entry, Move, Origin, Report, Session, Step, Thread, Unit
from backstory.importers.words import Words
from backstory.wire import load

NAME = "gemini"
USAGE = {"input": "input", "output": "output", "cache_read": "cached"}
UNSEEN = Words({"info", "error", "warning"})  # shown to people only
RUNNING = Words({"scheduled", "validating", "awaiting_approval", "executing"})
# What the tool put into the user's mouth, by how the text begins.
MOUTHED = (
    ("<session_context>", "environment"),
    ("<hook_context>", "hook"),
    ("/", "command"),
    ("?", "command"),
)


def fits(head: Head) -> bool:
    """A session's id beside the hash of its project, or beside its times."""
    first = head.records[0] if head.records else None
    keys = set(first) if isinstance(first, dict) else head.keys
    return keys >= {"sessionId", "projectHash"} or keys >= {"sessionId", "startTime", "lastUpdated"}


class Spot(NamedTuple):
    """Where a message is: a record, or one of the messages in a record."""

    place: Any
    key: str | None = None  # "$set" or "messages"
    number: int = 0


class Node:
    """A message at one place of the history."""

    __slots__ = ("after", "copy_of", "cut", "id", "line", "message", "spot", "unseen")

    def __init__(self, id: str, message: str, after: str | None, spot: Spot, line: int) -> None:
        self.id = id
        self.message = message  # the tool's own id
        self.after = after
        self.spot = spot
        self.line = line
        self.copy_of: str | None = None  # the node that this one repeats
        self.cut = False  # a compaction, not a message
        self.unseen = False  # shown to people only


class File:
    """A session's file: its messages in their order, and the live ones."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.report = Report()
        self.meta: Data = {}
        self.nodes: dict[str, Node] = {}
        self.live: list[Node] = []
        self._by_message: dict[str, Node] = {}  # the live ones
        self.links: dict[str, str] = {}  # a sub-agent's session -> the call
        self._at: str | None = None
        for line in source.lines(self.report) if not self._is_document() else ():
            if isinstance(line.value, dict):
                self._take(line.value, line.place, line.number)
        if self._is_document():
            document = source.document(self.report)
            if isinstance(document, dict):
                self._take(document, document, 1)
        self.id = named(self.meta.get("sessionId"), source.stem)

    def _is_document(self) -> bool:
        head = self.source.peek()
        return not head or (isinstance(head[0], dict) and isinstance(head[0].get("messages"), list))

    def _take(self, record: Data, place: Any, line: int) -> None:
        if isinstance(record.get("$rewindTo"), str):
            self._rewind(record["$rewindTo"])
        elif isinstance(record.get("$set"), dict):
            self.meta |= {key: value for key, value in record["$set"].items() if key != "messages"}
            if isinstance(record["$set"].get("messages"), list):
                self._set(record["$set"]["messages"], place, line)
        elif isinstance(record.get("id"), str) and "type" in record:
            self._message(record, Spot(place), line)
        elif "sessionId" in record:
            self.meta |= {key: value for key, value in record.items() if key != "messages"}
            messages = record.get("messages")
            for index, message in enumerate(messages if isinstance(messages, list) else ()):
                if isinstance(message, dict):
                    self._message(message, Spot(place, "messages", index), line)
        else:
            self.report.unknown[f"{','.join(sorted(record))[:40]} ({NAME})"] += 1

    def _message(self, message: Data, spot: Spot, line: int) -> None:
        id = named(message.get("id"), f"line {line}.{spot.number}")
        for call in _calls(message):
            if isinstance(call.get("agentId"), str) and isinstance(call.get("id"), str):
                self.links[call["agentId"]] = call["id"]
        same = self._by_message.get(id)
        if same is not None:
            same.spot = spot
        else:
            same = Node(self._free(id, line), id, self._at, spot, line)
            self._add(same)
        same.unseen = message.get("type") in UNSEEN

    def _add(self, node: Node) -> None:
        self.nodes[node.id] = node
        self.live.append(node)
        self._by_message[node.message] = node
        self._at = node.id

    def _free(self, id: str, line: int) -> str:
        return id if id not in self.nodes else f"{id}@{line}"

    def _rewind(self, id: str) -> None:
        """Back to before a message. One that nobody knows empties everything."""
        number = next((n for n, node in enumerate(self.live) if node.message == id), 0)
        left = self.live[number:]
        self.live = self.live[:number]
        for node in left:
            self._by_message.pop(node.message, None)
        if left:
            self._at = left[0].after

    def _set(self, messages: list[Any], place: Any, line: int) -> None:
        """The whole history anew: a compaction, unless it begins with the live messages."""
        given = [
            named(m.get("id"), f"line {line}.{n}")
            for n, m in enumerate(messages)
            if isinstance(m, dict) and m.get("type") not in UNSEEN
        ]
        seen = [node.message for node in self.live if not node.unseen]
        if seen != given[: len(seen)]:
            old = self._by_message
            self._cut(line, place)
            for index, message in enumerate(messages):
                if isinstance(message, dict):
                    id = named(message.get("id"), f"line {line}.{index}")
                    node = Node(f"{id}@{line}", id, self._at, Spot(place, "$set", index), line)
                    known = old.get(id)
                    node.copy_of = (known.copy_of or known.id) if known is not None else None
                    self._add(node)
            return
        for index, message in enumerate(messages):
            if isinstance(message, dict):
                self._message(message, Spot(place, "$set", index), line)

    def _cut(self, line: int, place: Any) -> None:
        node = Node(f"cut {line}", f"cut {line}", self._at, Spot(place), line)
        node.cut = True
        self.nodes[node.id] = node
        self._at = node.id
        self.live = []
        self._by_message = {}

    # -------------------------------------------------------------- what it says

    def steps(self) -> Iterator[Step]:
        """The messages in the order in which they came, then a move to where the tool is."""
        told: str | None = None
        nodes = list(self.nodes.values())
        for node in nodes:
            yield self._unit(node, is_last=node is nodes[-1])
            told = node.id
        if told != self._at:
            yield Move(self._at)

    def _unit(self, node: Node, *, is_last: bool) -> Unit:
        if node.cut:
            return Unit(node.id, node.after, (Entry(node.id, "clear"),), node.line)
        message = self._fetch(node.spot)
        entries = list(message_entries(message, node.id))
        if node.copy_of is not None:
            old = list(message_entries(message, node.copy_of))
            entries = [e._replace(copy_of=o.id) for e, o in zip(entries, old, strict=True)]
        elif "@" in node.id and entries and message.get("type") == "user":
            entries[0] = entries[0]._replace(data=(entries[0].data or {}) | {"compaction": True})
        open_ = any(call.get("status") in RUNNING and not call.get("result") for call in _calls(message))
        return Unit(node.id, node.after, tuple(entries), node.line, settled=not (is_last and open_))

    def _fetch(self, spot: Spot) -> Data:
        record = self.source.fetch(spot.place)
        if spot.key == "messages":
            record = record["messages"][spot.number]
        elif spot.key == "$set":
            record = record["$set"]["messages"][spot.number]
        return record if isinstance(record, dict) else {}


def _calls(message: Data) -> list[Data]:
    calls = message.get("toolCalls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _content(message: Data) -> list[Data]:
    """The parts of a message's content."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    tidy = [{"text": part} if isinstance(part, str) else part for part in parts]
    return [part for part in tidy if isinstance(part, dict)]


def message_entries(message: Data, id: str) -> Iterator[Entry]:
    """What a message says: a prompt, or an answer's words, its calls and their results."""
    time = microseconds(message.get("timestamp"))
    match message.get("type"):
        case "user":
            yield from _prompt(message, id, time)
        case "gemini":
            yield from _answer(message, id, time)
        case type_ if type_ not in UNSEEN:
            yield Entry(id, "user", _words(_content(message)), {"meta": as_text(type_) or "tool"}, time)


def _words(parts: list[Data]) -> str:
    return "".join(
        part["text"] for part in parts if isinstance(part.get("text"), str) and not part.get("thought")
    )


def _prompt(message: Data, id: str, time: int | None) -> Iterator[Entry]:
    parts = _content(message)
    said = [part for part in parts if "functionResponse" not in part]
    for number, part in enumerate(parts):
        if part not in said and isinstance(part["functionResponse"], dict):
            yield results.of_part(part["functionResponse"], f"{id}/{number}", time)
    if not said and parts:
        return
    text = _words(said)
    meta = next((what for start, what in MOUTHED if text.lstrip().startswith(start)), None)
    data: Data = {} if meta is None else {"meta": meta}
    if any(set(part) != {"text"} for part in said):
        try:
            [(_, words, native)] = load({"contents": [{"role": "user", "parts": shallow(said)}]}, "gemini")
            text, data = words or "", data | (native or {})
        except (Invalid, ValueError):
            pass
    yield Entry(id, "user", text, data or None, time)


def _answer(message: Data, id: str, time: int | None) -> Iterator[Entry]:
    model = message.get("model") if isinstance(message.get("model"), str) else None
    calls = _calls(message)
    blocks = _blocks(message, calls)
    parts = parts_of("gemini", blocks, model, id)
    extra: Data = {} if model is None else {"model": model}
    usage = usage_of(message.get("tokens"), USAGE)
    extra |= {"usage": usage} if usage else {}
    times = {call.get("id"): microseconds(call.get("timestamp")) for call in calls if _is_id(call.get("id"))}
    for part in parts:
        yield _part(part, id, time, times, extra)
        extra = {}
    for number, call in enumerate(calls):
        if call.get("result"):
            yield results.of_call(call, f"{id}/{named(call.get('id'), str(number))}", time)


def _is_id(value: Any) -> bool:
    return isinstance(value, str)


def _part(part: Part, id: str, time: int | None, times: dict[Any, int | None], extra: Data) -> Entry:
    data = (part.data or {}) | extra | {"answer": id}
    if part.kind != "tool_call":
        return Entry(id, part.kind, part.content, data, time)
    return Entry(f"{id}/{data['id']}", "tool_call", None, data, times.get(data["id"]) or time)


def _blocks(message: Data, calls: list[Data]) -> list[Block]:
    """Thoughts, words and calls. Newer files have all of them in the content, older ones beside it."""
    parts = _content(message)
    blocks = [block for part in parts if (block := _block(part, calls)) is not None]
    if not any(block.kind == "thinking" for block in blocks):
        thoughts = message.get("thoughts")
        blocks[:0] = [
            _thought(t) for t in (thoughts if isinstance(thoughts, list) else ()) if isinstance(t, dict)
        ]
    told = {block.id for block in blocks if block.kind == "call"}
    for number, call in enumerate(calls):
        id = named(call.get("id"), str(number))
        if id not in told:
            blocks.append(Block("call", id=id, name=call.get("name"), arguments=call.get("args")))
    return blocks


def _block(part: Data, calls: list[Data]) -> Block | None:
    seal = part.get("thoughtSignature")
    call = part.get("functionCall")
    if isinstance(call, dict):
        same = next(
            (c for c in calls if c.get("name") == call.get("name") and c.get("args") == call.get("args")), {}
        )
        id = call.get("id") or same.get("id")
        return Block("call", id=id, name=call.get("name"), arguments=call.get("args"), seal=seal)
    if isinstance(part.get("text"), str):
        return Block("thinking" if part.get("thought") is True else "text", part["text"], seal=seal)
    return None


def _thought(thought: Data) -> Block:
    subject, description = as_text(thought.get("subject")), as_text(thought.get("description"))
    return Block("thinking", f"**{subject}** {description}" if subject else description)


def sessions(sources: Iterable[Source]) -> Iterator[Session]:
    """One session a file. Sub-agents stand in a folder with the name of their session."""
    families: dict[str, list[Source]] = {}
    for source in sources:
        families.setdefault(_family(source), []).append(source)
    for parent, family in families.items():
        files = [File(source) for source in family]
        files.sort(key=lambda file: file.meta.get("kind") == "subagent")
        for file in files:
            if file.nodes:
                yield _session(file, parent, files)


def _family(source: Source) -> str:
    head = source.peek()
    first = head[0] if head and isinstance(head[0], dict) else {}
    parts = source.path.split("/")
    if first.get("kind") == "subagent" and len(parts) > 1:
        return parts[-2]
    return named(first.get("sessionId"), source.path)


def _session(file: File, parent: str, files: list[File]) -> Session:
    origin = None
    if file.meta.get("kind") == "subagent":
        call = next((other.links[file.id] for other in files if file.id in other.links), None)
        origin = Origin(parent, call=call, spawned=True)
    folders = file.meta.get("directories")
    cwd = folders[0] if isinstance(folders, list) and folders else file.meta.get("projectHash")
    found = {"title": file.meta.get("summary"), "cwd": cwd}
    about = {key: value for key, value in found.items() if isinstance(value, str) and value}
    thread = Thread(file.id, None, file.steps, origin, about)
    return Session(NAME, file.id, [thread], file.source.path, file.report)


FORMAT = Format(
    name=NAME,
    fits=fits,
    sessions=sessions,
    fetches=True,
    places=(Place(None, "tmp", "~/.gemini/tmp"),),
    ties=lambda source: (_family(source),),
)
