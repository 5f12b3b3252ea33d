"""pi and omp: JSON lines that are a tree of entries, the last of which is live. Pure.

Version 1 has neither ids nor parents: the ordinal is the id, the entry above the parent. omp has a title
line, which is rewritten in place, before the header; of several, the last counts.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from backstory.importers.checkpoints import Checkpoint, ReadWhole, Tail, last_checkpoint
from backstory.importers.entries import (
    Data,
    as_text,
    microseconds,
    named,
)
from backstory.importers.forest import Forest, Node
from backstory.importers.format import Format, Head, Place, Source
from backstory.importers.formats.pi_messages import message_entries, said, texts_of
from backstory.importers.provenance import PROVENANCE, provenance_in
from backstory.importers.transcript import Entry, Label, Move, Origin, Report, Session, Step, Thread, Unit
from backstory.importers.words import Words

NAME = "pi"
# Entries that say nothing to the model. What hangs on them hangs on what they hang on.
SILENT = Words(
    {"model_change", "thinking_level_change", "custom", "label", "session_info"}
    | {"title", "title_change", "credential_pin", "ttsr_injection"}  # omp
)
SPEAKING = Words({"message", "compaction", "branch_summary", "custom_message", "session_init"})


def fits(head: Head) -> bool:
    """A `session` line first, or behind `title` lines, of which a file may have several."""
    records = (record for record in head.records if isinstance(record, dict))
    first = next((record for record in records if record.get("type") != "title"), {})
    return _is_header(first)


def _is_header(record: dict[str, Any]) -> bool:
    return record.get("type") == "session" and isinstance(record.get("id"), str) and "timestamp" in record


class File:
    """A session's file, indexed."""

    def __init__(self, source: Source, tail: Tail | None = None) -> None:
        self.source = source
        self.report = Report()
        self.header: Data = tail.state["header"] if tail else {}
        self.about: Data = dict(tail.state["about"]) if tail else {}
        self.places: dict[str, tuple[Any, int]] = {}  # a speaking entry -> where it is, its line
        self.parents: dict[str, str | None] = {}  # every entry's
        self.labels: dict[str, list[tuple[str, Any, int | None]]] = {}  # behind which entry which label comes
        self.last: str | None = None
        # The ids by index, the header among them; those before a checkpoint are not known.
        self.order: list[str | None] = [None] * tail.state["order"] if tail else []
        self._read = tail.read if tail else 0  # lines that were told before
        self.is_tail = tail is not None
        self._hanging: dict[str, str] = {}  # entries whose parent was not known yet -> what stands above them
        for line in source.lines(self.report):
            if isinstance(line.value, dict):
                self._take(line.value, line.place, line.number)
        self.reach = source.reach
        self.id = named(self.header.get("id"), source.stem)

    def _take(self, record: Data, place: Any, line: int) -> None:
        type_ = record.get("type")
        if type_ == "session":
            self.header = self.header or record
            self.about |= texts_of(record, {"cwd": "cwd", "model": "modelId"}) | provenance_in(record)
            self.order.append(None)
            return
        if type_ == "title":
            self.about |= texts_of(record, {"title": "title"})
            return
        id = record.get("id")
        if not isinstance(id, str) or not id:
            id, parent = (
                f"{str(self.header.get('id') or self.source.stem)[-12:]}:{len(self.order)}",
                self.last,
            )
        else:
            parent = record.get("parentId") if isinstance(record.get("parentId"), str) else None
        if self.is_tail and not self.parents:
            parent = None  # what the first entry of a tail continues is not in it
        self.order.append(id)
        if id in self.parents:
            self.report.mended["line written again"] += 1
        if (
            parent is not None
            and parent not in self.parents
            and self.last is not None
            and id not in self.parents
        ):
            self._hanging[id] = self.last
        if self.is_tail and line > self._read and not self._is_told(record, parent):
            raise ReadWhole
        self.parents.setdefault(id, parent)
        if type_ in SPEAKING:
            self.places[id] = (place, line)
        elif type_ not in SILENT:
            self.report.unknown[f"{type_} ({NAME} {self.header.get('version', 1)})"] += 1
        self._learn(record, id)
        self.last = id

    def _is_told(self, record: Data, parent: str | None) -> bool:
        """Whether what a new entry of a tail refers to is in the tail."""
        target = record.get("targetId", parent)
        return parent in self.parents and isinstance(target, str) and target in self.parents

    def _learn(self, record: Data, id: str) -> None:
        match record.get("type"):
            case "session_info":
                self.about |= texts_of(record, {"title": "name"})
            case "title_change":
                self.about |= texts_of(record, {"title": "title"})
            case "model_change":
                self.about |= texts_of(record, {"model": "modelId"})
            case "label" if isinstance(record.get("targetId"), str):
                found = (record["targetId"], record.get("label"), microseconds(record.get("timestamp")))
                self.labels.setdefault(id, []).append(found)

    def mend(self) -> None:
        """A parent that is not in the file: the entry above is the parent."""
        for id, above in self._hanging.items():
            if self.parents[id] not in self.parents:
                self.parents[id] = above
                self.report.mended["lost parent"] += 1

    def unit_of(self, id: str | None) -> str | None:
        """The nearest speaking entry at or above an entry."""
        seen = set()
        while id is not None and id not in self.places:
            if id in seen:
                return None
            seen.add(id)
            id = self.parents.get(id)
        return id

    def way_to(self, id: str | None) -> list[str]:
        """All entries from the beginning to one."""
        way: dict[str, None] = {}
        while id is not None and id in self.parents and id not in way:
            way[id] = None
            id = self.parents[id]
        return list(way)[::-1]

    def first_kept(self, record: Data) -> str | None:
        """The first entry that a compaction keeps. An index counts the header; from there nothing is kept."""
        id, index = record.get("firstKeptEntryId"), record.get("firstKeptEntryIndex")
        if isinstance(id, str):
            return id
        if isinstance(index, int) and 0 <= index < len(self.order) and self.header.get("version", 1) == 1:
            return self.order[index]
        return None


class Tree:
    """The units of a file: each speaking entry is one."""

    def __init__(self, file: File, copied: frozenset[str] = frozenset()) -> None:
        self.file = file
        self.copied = copied  # entries that the parent session has too
        order = {id: number for number, id in enumerate(file.parents)}
        nodes = [Node(id, file.unit_of(file.parents[id]), order[id], order[id]) for id in file.places]
        self.forest = Forest(nodes)
        self.leaf = file.unit_of(file.last)
        file.report.mended.update({"circle of parents": self.forest.mended} if self.forest.mended else {})
        self._order = order

    def steps(self) -> Iterator[Step]:
        """The units in the order of the file, labels where they were given, then a move to the live one."""
        labels = {self._order[id]: found for id, found in self.file.labels.items() if id in self._order}
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

    def _labels(self, labels: dict[int, list[tuple[str, Any, int | None]]], before: float) -> Iterator[Step]:
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
                yield Entry(id, "user", as_text(record.get("summary")), {"meta": "branch summary"}, time)
            case "custom_message":
                yield said(
                    id, record.get("content"), {"meta": as_text(record.get("customType")) or "tool"}, time
                )
            case "session_init":
                text = as_text(record.get("systemPrompt"))
                if text:
                    yield Entry(id, "system", text, {"meta": "instructions"}, time)
            case _:
                message = record.get("message")
                yield from message_entries(id, message if isinstance(message, dict) else {}, time)

    def _kept(self, id: str, record: Data) -> Iterator[Entry]:
        """What a compaction keeps: the entries from the first kept one on, again."""
        way = self.file.way_to(self.file.parents.get(id))
        first = self.file.first_kept(record)
        if first not in way:
            if self.file.is_tail:
                raise ReadWhole
            return
        for kept in way[way.index(first) :]:
            if kept not in self.file.places:
                continue
            old = self.file.source.fetch(self.file.places[kept][0])
            if old.get("type") == "compaction":
                continue
            for entry in self._entries(kept, old):
                yield entry._replace(id=f"{entry.id}@{id}", copy_of=entry.id)


def checkpoint(file: File, tree: Tree) -> Checkpoint | None:
    """The last entry behind which the file refers to nothing before it, but for what that entry continues."""
    ids = list(file.parents)
    numbers = {id: number for number, id in enumerate(ids)}
    if tree.leaf is None or PROVENANCE in file.about or len(ids) != len([id for id in file.order if id]):
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
    header = next((r for r in source.peek()[:2] if isinstance(r, dict) and _is_header(r)), {})
    yield named(header.get("id"), source.stem)
    above = _parent_id(header)
    if above is not None:
        yield above


def _families(sources: Iterable[Source]) -> list[list[Source]]:
    """Files that were forked from each other, parents first."""
    found: dict[str, Source] = {}
    parents: dict[str, str | None] = {}
    for source in sources:
        header = next((r for r in source.peek()[:2] if isinstance(r, dict) and _is_header(r)), {})
        id = named(header.get("id"), source.stem)
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
    path = header.get("parentSession") or header.get("branchedFrom")
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
    thread = Thread(file.id, None, tree.steps, origin, dict(file.about), partial(checkpoint, file, tree))
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
