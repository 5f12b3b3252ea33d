"""pi and omp: JSON lines that are a tree of entries, the last of which is live, or the one they name. Pure.

Version 1 has neither ids nor parents: the ordinal is the id, the entry above the parent. omp has a title
line, which is rewritten in place, before the header; of several, the last counts.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from backstory.transcripts.checkpoints import Checkpoint, ReadWhole, Tail, last_checkpoint
from backstory.transcripts.entries import Data, as_text, json_of, microseconds, named
from backstory.transcripts.forest import Forest, Node
from backstory.transcripts.format import Format, Head, Place, Source
from backstory.transcripts.pi.file import NAME, File, is_header
from backstory.transcripts.pi.messages import message_entries, said
from backstory.transcripts.provenance import PROVENANCE
from backstory.transcripts.transcript import Entry, Label, Move, Origin, Session, Step, Thread, Unit

# What makes a message the same as another.
LIKENESS = ("role", "content", "toolCallId", "command", "output", "summary", "customType")


def fits(head: Head) -> bool:
    """A `session` line first, or behind `title` lines, of which a file may have several."""
    records = (record for record in head.records if isinstance(record, dict))
    first = next((record for record in records if record.get("type") != "title"), {})
    return is_header(first)


class Tree:
    """The units of a file: each speaking entry is one."""

    def __init__(self, file: File, copied: frozenset[str] = frozenset()) -> None:
        self.file = file
        self.copied = copied  # entries that the parent session has too
        order = {id: number for number, id in enumerate(file.parents)}
        nodes = [
            Node(id, file.unit_of(file.parents[id]), order[id], order[id]) for id in file.places
        ]
        self.forest = Forest(nodes)
        self.leaf = file.unit_of(file.leaf)
        file.report.mended.update(
            {"circle of parents": self.forest.mended} if self.forest.mended else {}
        )
        self._order = order

    def steps(self) -> Iterator[Step]:
        """The units in the order of the file, labels where they were given, then a move to the live one."""
        labels = {
            self._order[id]: found for id, found in self.file.labels.items() if id in self._order
        }
        told: str | None = None
        for node in self.forest.ordered():
            yield from self._labels(labels, node.first)
            place, line = self.file.places[node.id]
            record = self.file.source.fetch(place)
            entries = tuple(self._entries(node.id, record))
            yield Unit(node.id, node.parent, entries, line, node.id in self.copied)
            told = node.id
        yield from self._labels(labels, float("inf"))
        if told != self.leaf:
            yield Move(self.leaf)

    def _labels(
        self, labels: dict[int, list[tuple[str, Any, int | None]]], before: float
    ) -> Iterator[Step]:
        for at in [at for at in labels if at < before]:
            for target, name, time in labels.pop(at):
                unit = self.file.unit_of(target)
                if unit is not None and target in self.file.parents:
                    yield Label(name if isinstance(name, str) and name else None, unit, time)

    def _entries(self, id: str, record: Data) -> Iterator[Entry]:
        time = microseconds(record.get("timestamp"))
        match record.get("type"):
            case "compaction":
                yield Entry(f"{id}:clear", "clear", None, None, time)
                yield Entry(id, "user", as_text(record.get("summary")), {"compaction": True}, time)
                yield from self._kept(id, record)
            case "branch_summary":
                yield Entry(
                    id, "user", as_text(record.get("summary")), {"meta": "branch summary"}, time
                )
            case "custom_message":
                yield said(
                    id,
                    record.get("content"),
                    {"meta": as_text(record.get("customType")) or "tool"},
                    time,
                )
            case "session_init":
                text = as_text(record.get("systemPrompt"))
                if text:
                    yield Entry(id, "system", text, {"meta": "instructions"}, time)
            case _:
                message = record.get("message")
                yield from message_entries(id, message if isinstance(message, dict) else {}, time)

    def _kept(self, id: str, record: Data) -> Iterator[Entry]:
        """What a compaction keeps: the entries from the first kept one on, again, or the messages in it."""
        way = self.file.way_to(self.file.parents.get(id))
        if isinstance(record.get("retainedTail"), list):
            yield from self._retained(id, record, way)
            return
        first = self.file.first_kept(record)
        if first not in way:
            if self.file.is_tail:
                raise ReadWhole
            return
        for kept in way[way.index(first) :]:
            yield from self._again(kept, id)

    def _again(self, kept: str, id: str) -> Iterator[Entry]:
        """An entry once more, behind a compaction."""
        old = self._fetch(kept)
        for entry in (
            self._entries(kept, old) if old.get("type", "compaction") != "compaction" else ()
        ):
            yield entry._replace(id=f"{entry.id}@{id}", copy_of=entry.id)

    def _fetch(self, id: str) -> Data:
        """The record of an entry; empty if it says nothing."""
        return self.file.source.fetch(self.file.places[id][0]) if id in self.file.places else {}

    def _retained(self, id: str, record: Data, way: list[str]) -> Iterator[Entry]:
        """The messages that a compaction holds: most are those of entries before it."""
        held = [message for message in record["retainedTail"] if isinstance(message, dict)]
        wanted: dict[bytes, list[int]] = {}
        for number, message in enumerate(held):
            wanted.setdefault(_likeness(message), []).append(number)
        equal: dict[int, str] = {}
        for kept in reversed(way):
            old = self._fetch(kept).get("message") if wanted else None
            like = _likeness(old) if isinstance(old, dict) else b""
            if like in wanted:
                equal[wanted[like].pop()] = kept
                wanted = {one: numbers for one, numbers in wanted.items() if numbers}
        for number, message in enumerate(held):
            if number in equal:
                yield from self._again(equal[number], id)
            elif self.file.is_tail:
                raise ReadWhole
            else:
                time = microseconds(message.get("timestamp")) or microseconds(
                    record.get("timestamp")
                )
                yield from message_entries(f"{id}/{number}", message, time)


def _likeness(message: Data) -> bytes:
    return json_of([message.get(name) for name in LIKENESS], is_sorted=True)


def checkpoint(file: File, tree: Tree) -> Checkpoint | None:
    """The last entry behind which the file refers to nothing before it, but for what that entry continues."""
    ids = list(file.parents)
    numbers = {id: number for number, id in enumerate(ids)}
    if (
        tree.leaf is None
        or PROVENANCE in file.about
        or len(ids) != len([id for id in file.order if id])
    ):
        return None
    above = [numbers.get(file.parents[id] or "", -1) for id in ids]
    least = [min(number, one) for number, one in enumerate(above)]
    most = [max(number, one) for number, one in enumerate(above)]
    leaf = numbers[tree.leaf]
    fitting = [id in file.places and number <= leaf for number, id in enumerate(ids)]
    number = last_checkpoint(least.__getitem__, most, fitting.__getitem__, is_tail=file.is_tail)
    if number is None:
        return None
    place, line = file.places[ids[number]]
    order = file.order.index(ids[number])
    state = {"header": file.header, "about": file.about, "order": order}
    return Checkpoint(file.source.path, place, line - 1, file.reach, file.id, None, state)


def resume(source: Source, tail: Tail) -> Session:
    """The session of a file from a checkpoint on."""
    file = File(source, tail)
    file.mend()
    tree = Tree(file)
    mark = partial(checkpoint, file, tree)
    thread = Thread(file.id, None, tree.steps, None, dict(file.about), mark, tail.read)
    return Session(NAME, file.id, [thread], file.source.path, file.report)


def sessions(sources: Iterable[Source]) -> Iterator[Session]:
    """One session a file; forks behind their parents."""
    for family in _families(sources):
        files = {}
        for source in family:
            file = File(source)
            file.mend()
            files[file.id] = file
        for file in files.values():
            session = _session(file, files)
            if session.threads:
                yield session


def ties(source: Source) -> Iterator[str]:
    """The session, and the one that it was forked from."""
    header = next((r for r in source.peek()[:2] if isinstance(r, dict) and is_header(r)), {})
    yield named(header.get("id"), source.stem)
    above = _parent_id(header)
    if above is not None:
        yield above


def _families(sources: Iterable[Source]) -> list[list[Source]]:
    """Files that were forked from each other, parents first. Of copies of a file, the longest counts."""
    found: dict[str, Source] = {}
    parents: dict[str, str | None] = {}
    for source in sources:
        header = next((r for r in source.peek()[:2] if isinstance(r, dict) and is_header(r)), {})
        id = named(header.get("id"), source.stem)
        if id not in found or found[id].size() < source.size():
            found[id], parents[id] = source, _parent_id(header)
    families: dict[str, list[Source]] = {}
    for id in found:
        way = [id]
        while (above := parents.get(way[-1])) in found and above is not None and above not in way:
            way.append(above)
        family = families.setdefault(way[-1], [])
        family.extend(found[one] for one in reversed(way) if found[one] not in family)
    return list(families.values())


def _parent_id(header: Data) -> str | None:
    """The session that a file was forked from: the id stands in the name of its file."""
    if isinstance(header.get("parentSessionId"), str):
        return str(header["parentSessionId"])
    path = (
        header.get("parentSession")
        or header.get("branchedFrom")
        or header.get("legacyParentSessionPath")
    )
    if not isinstance(path, str) or not path:
        return None
    name = path.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".jsonl")
    return name.rsplit("_", 1)[-1]


def _session(file: File, files: dict[str, File]) -> Session:
    above = _parent_id(file.header)
    parent = files.get(above or "")
    copied = frozenset(id for id in file.places if parent is not None and id in parent.places)
    tree = Tree(file, copied)
    origin = None
    if above is not None and above != file.id:
        origin = Origin(above, at=_fork_at(tree) if copied else None)
    thread = Thread(
        file.id, None, tree.steps, origin, dict(file.about), partial(checkpoint, file, tree)
    )
    return Session(NAME, file.id, [thread] if file.places else [], file.source.path, file.report)


def _fork_at(tree: Tree) -> str | None:
    """What the first entry of its own continues; the last copied one if it has none."""
    last = None
    for node in tree.forest.ordered():
        if node.id not in tree.copied:
            return node.parent or last
        last = node.id
    return last


FORMAT = Format(
    name=NAME,
    fits=fits,
    sessions=sessions,
    fetches=True,
    ties=ties,
    resume=resume,
    places=(
        Place("PI_CODING_AGENT_DIR", "sessions", "~/.pi/agent/sessions"),
        Place(None, "sessions", "~/.omp/agent/sessions"),
    ),
)
