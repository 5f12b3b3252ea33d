"""Gemini CLI: a JSON document, or JSON lines in which a message is written again until it is complete. Pure.

An equal id replaces. `$rewindTo` takes that message and all behind it away; `$set.messages` is the whole
history anew.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from backstory.transcripts.entries import Data, named
from backstory.transcripts.format import Format, Head, Place, Source
from backstory.transcripts.gemini.kept import Said, repeated, said_in
from backstory.transcripts.gemini.messages import (
    calls_of,
    message_entries,
    responses_in,
    speaks,
    words_of,
)
from backstory.transcripts.transcript import (
    Entry,
    Move,
    Origin,
    Report,
    Session,
    Step,
    Thread,
    Unit,
)
from backstory.transcripts.words import Words

NAME = "gemini"
RUNNING = Words({"scheduled", "validating", "awaiting_approval", "executing"})


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

    __slots__ = (
        "after",
        "copy_of",
        "cut",
        "id",
        "kept",
        "kept_by",
        "line",
        "message",
        "speaks",
        "spot",
        "told",
        "words",
    )

    def __init__(self, id: str, message: str, after: str | None, spot: Spot, line: int) -> None:
        self.id = id
        self.message = message  # the tool's own id
        self.after = after
        self.spot = spot
        self.line = line
        self.copy_of: str | None = None  # the node that this one repeats
        self.cut = False  # a compaction, not a message
        self.kept: list[Node] = []  # the messages that a compaction begins with
        self.kept_by: Node | None = None  # the compaction that this message stands in
        self.words = 0  # equal for messages that say the same
        self.speaks = True  # a history without it would lack something
        self.told: frozenset[str] = (
            frozenset()
        )  # calls whose results stand in an earlier message, too


class File:
    """A session's file: its messages in their order, and the live ones."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.report = Report()
        self.meta: Data = {}
        self.nodes: dict[str, Node] = {}
        self.live: list[Node] = []
        self._by_message: dict[str, Node] = {}  # the live ones
        self._answered: dict[
            str, Node
        ] = {}  # a call -> the message that it and its result stand in
        self.links: dict[str, str] = {}  # a sub-agent's session -> the call
        self._at: str | None = None
        for line, _, record, place in source.lines(self.report) if not self._is_document() else ():
            if isinstance(record, dict):
                self._take(record, place, line)
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
        same = self._by_message.get(id)
        if same is not None:
            same.spot = spot
        else:
            same = Node(self._free(id, line), id, self._at, spot, line)
            self._add(same)
        self._describe(same, message)

    def _describe(self, node: Node, message: Data) -> None:
        """Note what a message is to the others."""
        for call in calls_of(message):
            if isinstance(call.get("agentId"), str) and isinstance(call.get("id"), str):
                self.links[call["agentId"]] = call["id"]
            if call.get("result") and isinstance(call.get("id"), str):
                self._answered[call["id"]] = node
        node.told = frozenset(id for id in responses_in(message) if self._is_answered(id))
        node.speaks = speaks(message)
        node.words = words_of(message)

    def _is_answered(self, call: str) -> bool:
        """Whether a live message has a call with its result."""
        node = self._answered.get(call)
        return node is not None and self._by_message.get(node.message) is node

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
        """The whole history anew: the live messages and maybe more, the first of them, or a compaction."""
        given = [
            named(m.get("id"), f"line {line}.{n}")
            for n, m in enumerate(messages)
            if isinstance(m, dict) and speaks(m)
        ]
        self._drop_announced(messages, given)
        seen = [node.message for node in self.live if node.speaks]
        if (
            messages and given == seen[: len(given)] != seen
        ):  # a prompt was broken off, and taken back
            self._rewind(seen[len(given)])
        elif seen != given[: len(seen)]:
            self._compact(messages, place, line)
            return
        for index, message in enumerate(messages):
            if isinstance(message, dict):
                self._message(message, Spot(place, "$set", index), line)

    def _drop_announced(self, messages: list[Any], given: list[str]) -> None:
        """A history whose messages got new ids is written twice: message by message, as if all was said once
        more, and then as the whole. Only the whole counts."""
        nodes = [node for node in self.live if node.speaks]
        old, new = nodes[: -len(given)], nodes[-len(given) :]
        words = {node.words for node in old}
        equal = sum(node.words in words for node in new)
        if not given or [node.message for node in new] != given or 2 * equal <= len(given):
            return
        ids = {named(message.get("id"), "") for message in messages if isinstance(message, dict)}
        first = self.live.index(new[0])
        while first and self.live[first - 1].message in ids:  # what says nothing here
            first -= 1
        for node in self.live[first:]:
            del self.nodes[node.id]
        self._rewind(self.live[first].message)

    def _compact(self, messages: list[Any], place: Any, line: int) -> None:
        old = self._by_message
        cut = self._cut(line, place)
        for index, message in enumerate(messages):
            if isinstance(message, dict):
                id = named(message.get("id"), f"line {line}.{index}")
                node = Node(f"{id}@{line}", id, self._at, Spot(place, "$set", index), line)
                known = old.get(id)
                node.copy_of = (known.copy_of or known.id) if known is not None else None
                node.kept_by = cut
                cut.kept.append(node)
                self._add(node)
                self._describe(node, message)

    def _cut(self, line: int, place: Any) -> Node:
        node = Node(f"cut {line}", f"cut {line}", self._at, Spot(place), line)
        node.cut = True
        self.nodes[node.id] = node
        self._at = node.id
        self.live = []
        self._by_message = {}
        return node

    # -------------------------------------------------------------- what it says

    def steps(self) -> Iterator[Step]:
        """The messages in the order in which they came, then a move to where the tool is. Of those that say
        nothing here, what continues them continues what they do."""
        spoken: dict[str | None, str | None] = {
            None: None
        }  # a node, and the one whose words are the last there
        told: str | None = None
        nodes = list(self.nodes.values())
        said: dict[str, list[Said]] = {}  # what the nodes say, if a compaction may repeat it
        is_cut = any(node.cut for node in nodes)
        copies: dict[str, str] = {}
        for node in nodes:
            if node.cut:
                copies |= self._copies(node, said)
            unit = self._unit(node, copies, is_last=node is nodes[-1])
            if is_cut:
                said[node.id] = said_in(unit.entries, is_kept=node.kept_by is not None)
            spoken[node.id] = node.id if unit.entries else spoken[node.after]
            if unit.entries:
                yield unit._replace(after=spoken[node.after])
                told = node.id
        if told != spoken[self._at]:
            yield Move(spoken[self._at])

    def _copies(self, cut: Node, said: dict[str, list[Said]]) -> dict[str, str]:
        """What a compaction kept, and what it repeats: what it kept may have got other ids."""
        way: list[list[Said]] = []
        at = self.nodes.get(cut.after or "")
        while at is not None and not at.cut:
            way.append(said[at.id])
            at = self.nodes.get(at.after or "")
        before = [one for node in reversed(way) for one in node]
        kept = (message_entries(self._fetch(node.spot), node.id, node.told) for node in cut.kept)
        return repeated([one for entries in kept for one in said_in(entries)], before)

    def _unit(self, node: Node, copies: dict[str, str], *, is_last: bool) -> Unit:
        if node.cut:
            return Unit(node.id, node.after, (Entry(node.id, "clear"),), node.line)
        message = self._fetch(node.spot)
        entries = list(message_entries(message, node.id, node.told))
        if node.copy_of is not None:
            old = list(message_entries(message, node.copy_of, node.told))
            entries = [e._replace(copy_of=o.id) for e, o in zip(entries, old, strict=True)]
        elif node.kept_by is not None:
            entries = [_kept(entry, copies.get(entry.id)) for entry in entries]
        open_ = any(
            call.get("status") in RUNNING and not call.get("result") for call in calls_of(message)
        )
        return Unit(node.id, node.after, tuple(entries), node.line, settled=not (is_last and open_))

    def _fetch(self, spot: Spot) -> Data:
        record = self.source.fetch(spot.place)
        if spot.key == "messages":
            record = record["messages"][spot.number]
        elif spot.key == "$set":
            record = record["$set"]["messages"][spot.number]
        return record if isinstance(record, dict) else {}


def _kept(entry: Entry, copy_of: str | None) -> Entry:
    """An entry of a compaction: a copy, or the summary."""
    if copy_of is not None or entry.kind != "user" or "meta" in (entry.data or {}):
        return entry._replace(copy_of=copy_of)
    return entry._replace(data=(entry.data or {}) | {"compaction": True})


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
