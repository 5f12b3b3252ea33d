"""Codex: rollouts, JSON lines of response items, one file a thread. Pure.

`response_item` is the conversation; `event_msg` mirrors it and is passed over, but for rollbacks and names.
The file of a fork begins with a copy of its parent's items, without ids and under the time of the fork; a
paginated one points at its parent instead.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from backstory.transcripts.chain import reported
from backstory.transcripts.checkpoints import Checkpoint, Tail
from backstory.transcripts.codex.items import CALLS
from backstory.transcripts.codex.reader import (
    BARE,
    NAME,
    TYPES,
    Parent,
    Past,
    Reader,
    about_of,
    is_bare_start,
)
from backstory.transcripts.entries import Data
from backstory.transcripts.format import Format, Head, Place, Source, SourceLine
from backstory.transcripts.provenance import PROVENANCE
from backstory.transcripts.transcript import Fault, Origin, Report, Session, Step, Thread, Unit
from backstory.transcripts.words import Words


def fits(head: Head) -> bool:
    """A record with a payload, or (2025) a first line with an id and a time and bare items behind it."""
    first = head.records[0] if head.records else None
    if head.keys >= {"timestamp", "type", "payload"} or (
        isinstance(first, dict) and _is_name(first)
    ):
        return True
    if isinstance(first, dict) and is_bare_start(first):
        return any(
            isinstance(record, dict) and record.get("type") in BARE for record in head.records[1:]
        )
    return any(
        isinstance(record, dict)
        and record.get("type") in TYPES
        and isinstance(record.get("payload"), dict)
        for record in head.records
    )


def _is_name(record: dict[str, Any]) -> bool:
    return isinstance(record.get("id"), str) and "thread_name" in record


def sessions(sources: Iterable[Source]) -> Iterator[Session]:
    """The threads in the files, parents before what was forked or spawned from them."""
    names: dict[str, tuple[str, str]] = {}
    paths: list[str] = []  # where the names stand
    threads: dict[str, _File] = {}
    for source in sources:
        head = [record for record in source.peek() if isinstance(record, dict)]
        if head and _is_name(head[0]):
            _read_names(source, names)
            paths.append(source.path)
            continue
        if not head:  # its first line is still being written: whose thread it is, that will say
            continue
        file = _File(source, head)
        other = threads.get(file.id)
        if other is None or other.source.size() < source.size():
            threads[file.id] = file
    family = _Family(threads, {id: name for id, (_, name) in names.items()})
    for id in threads:
        yield from family.tell(id)
    for id in names.keys() - {
        file.thread for file in threads.values()
    }:  # the name may have changed since its thread was read
        named = Thread(id, None, lambda: iter(()), None, {"title": names[id][1]}, read=0)
        yield Session(NAME, id, [named], paths[0], Report())


def ties(source: Source) -> Iterator[str]:
    """The thread and those that it came from. What has the names of threads is tied to none."""
    head = [record for record in source.peek() if isinstance(record, dict)]
    if head and not _is_name(head[0]):
        file = _File(source, head)
        yield from (id for id in (file.id, file.forked_from, file.spawned_from) if id is not None)


def _read_names(source: Source, names: dict[str, tuple[str, str]]) -> None:
    """The names of threads; of several the newest."""
    for _, _, record, _ in source.lines(Report()):
        if isinstance(record, dict) and _is_name(record) and isinstance(record["thread_name"], str):
            when = str(record.get("updated_at") or "")
            if when >= names.get(record["id"], ("", ""))[0]:
                names[record["id"]] = (when, record["thread_name"])


UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ITEMS = Words(BARE | {"response_item", "compacted"})


class _File:
    """A rollout, and what its first records say of where it came from."""

    def __init__(self, source: Source, head: list[dict[str, Any]]) -> None:
        self.source = source
        metas = [
            r["payload"]
            for r in head
            if r.get("type") == "session_meta" and isinstance(r.get("payload"), dict)
        ]
        meta = metas[0] if metas else (head[0] if head and is_bare_start(head[0]) else {})
        self.thread = _text(meta.get("id")) or source.stem
        self.id = _rollout(source.stem, self.thread)
        self.base = meta.get("history_base") if isinstance(meta.get("history_base"), dict) else None
        # A rollout goes on from a rollout; the thread that it was forked from may have several.
        before = _text(self.base.get("thread_id")) if self.base else None
        self.forked_from = (
            before if before not in (None, self.id) else _text(meta.get("forked_from_id"))
        )
        others = [
            id for other in metas[1:] if (id := _text(other.get("id"))) not in (None, self.thread)
        ]
        if self.forked_from is None and others:
            self.forked_from = others[0]
        self.spawned_from = _spawner(meta)
        self.meta = meta
        self.report = Report()
        self.only_copies = False  # all that it says was said before it was forked
        self._has_items = any(r.get("type") in ITEMS for r in head)

    def is_mirror(self) -> bool:
        """Whether the file has events only, and none of the items that they mirror."""
        return not self._has_items and next(self.source.having(b'"response_item"'), None) is None


def _rollout(stem: str, thread: str) -> str:
    """The id of a rollout: its thread's. A thread that was reverted goes on in another file, which has the
    thread's id, and one of its own behind it in its name."""
    own = stem.partition(f"-{thread}_")[2]
    return own if UUID.fullmatch(own) else thread


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _spawner(meta: Data) -> str | None:
    """The thread that called this one as a sub-agent."""
    source = meta.get("source")
    if not isinstance(source, dict) or "subagent" not in source:
        return None
    kind = source["subagent"]
    spawn = kind.get("thread_spawn") if isinstance(kind, dict) else None
    parent = spawn.get("parent_thread_id") if isinstance(spawn, dict) else None
    return _text(parent) or _text(meta.get("parent_thread_id")) or _text(meta.get("forked_from_id"))


class _Family:
    """Threads that were forked or spawned from each other."""

    def __init__(self, files: dict[str, _File], names: dict[str, str]) -> None:
        self._files = files
        self._names = names
        self._told: set[str] = set()

    def tell(self, id: str) -> Iterator[Session]:
        """The session of a thread, behind those that it came from."""
        waiting = [id]
        while waiting:
            file = self._files[waiting[-1]]
            above = [one for one in (file.forked_from, file.spawned_from) if one in self._files]
            above = [
                one
                for one in above
                if one is not None and one not in self._told and one not in waiting
            ]
            if above:
                waiting.extend(above)
                continue
            waiting.pop()
            if file.id not in self._told:
                self._told.add(file.id)
                yield self._session(file)

    def _session(self, file: _File) -> Session:
        named = {"title": self._names[file.thread]} if file.thread in self._names else {}
        about = about_of(file.meta) | named
        parent = self._parent(file)
        origin = self._origin(file, parent)
        if file.base is None and origin is not None and origin.spawned and origin.at is None:
            parent = None
        marks: list[Checkpoint] = []

        def read(met: Report, parent: Parent | None = parent) -> Iterator[Step]:
            reader = Reader(file.id, about, parent)
            reader.is_mirror = file.is_mirror()
            if file.base is not None and parent is None:
                reader.beyond = f"{file.forked_from}@{file.base.get('end_ordinal_exclusive')}"
            yield from reader.read(file.source.lines(met))
            marks[:] = _checkpoints(file.source, reader)
            about.update(named)
            reader.tell(met)

        steps = reported(file.report, read)
        is_copy = file.forked_from is not None and file.base is None
        alone = reported(file.report, lambda met: read(met, None)) if is_copy else None
        if file.base is not None:
            alone = reported(file.report, lambda met: chain(self._inherited(file), read(met)))
        thread = Thread(
            file.id, None, steps, origin, about, lambda: next(iter(marks), None), alone=alone
        )
        # Until a copy says something of its own, its rest may still come: where it ends is not known.
        settled = not (is_copy and file.only_copies)
        return Session(NAME, file.id, [thread], file.source.path, file.report, settled=settled)

    def _parent(self, file: _File, seen: tuple[str, ...] = ()) -> Parent | None:
        """What a file inherits, if its parent is here."""
        other = self._files.get(file.forked_from or "")
        if other is None or other.id == file.id or other.id in seen:
            if file.forked_from is not None:
                why = f"a fork of {file.forked_from}, which is not here: taken as a whole"
                file.report.notes.append(Fault(file.source.path, None, why))
            return None
        reader = Reader(other.id, {}, self._parent(other, (*seen, file.id)), has_children=True)
        end = file.base.get("end_ordinal_exclusive") if file.base else None
        for _ in reader.read(other.source.lines(Report()), end if isinstance(end, int) else None):
            pass
        if (
            file.base is not None
        ):  # of a parent that is still being copied here, the rest comes later
            return Parent(reader.history, []) if reader.is_complete or end is None else None
        return Parent(reader.history[:1] if _is_instructions(reader.history) else [], reader.trail)

    def _inherited(self, file: _File, seen: tuple[str, ...] = ()) -> Iterator[Step]:
        """What a fork points at, as if it had said that itself: it may have come before its parent."""
        other = self._files.get(file.forked_from or "")
        if file.base is None or other is None or other.id == file.id or other.id in seen:
            return
        seen = (*seen, file.id)
        yield from self._inherited(other, seen)
        reader = Reader(other.id, {}, self._parent(other, seen))
        end = file.base.get("end_ordinal_exclusive")
        for step in reader.read(
            other.source.lines(Report()), end if isinstance(end, int) else None
        ):
            yield step._replace(inherited=False, settled=True) if isinstance(step, Unit) else step

    def _origin(self, file: _File, parent: Parent | None) -> Origin | None:
        session = file.spawned_from or file.forked_from
        if session is None or session == file.id:
            return None
        at = None
        call = self._call(file) if file.spawned_from else None
        if parent is not None:
            reader = Reader(file.id, {}, parent)
            for _ in reader.read(file.source.lines(Report())):
                if not reader.inherits:
                    break
            at = (
                reader.fork_at
                if not reader.inherits
                else reader.history[-1].unit
                if reader.history
                else None
            )
            file.only_copies = reader.inherits
            if file.spawned_from and file.base is None and not _is_at_call(reader, call):
                at = None
        return Origin(session, None, call, at, spawned=file.spawned_from is not None)

    def _call(self, file: _File) -> str | None:
        """The call that spawned a thread, as its parent's file tells."""
        other = self._files.get(file.spawned_from or "")
        for record in other.source.having(file.id.encode()) if other is not None else ():
            payload = record.get("payload") if isinstance(record, dict) else None
            if not isinstance(payload, dict):
                continue
            match payload:
                case {
                    "type": "collab_agent_spawn_end",
                    "new_thread_id": file.id,
                    "call_id": str(call),
                }:
                    return call
                case {
                    "type": "sub_agent_activity",
                    "agent_thread_id": file.id,
                    "event_id": str(call),
                }:
                    return call
                case {"type": "function_call_output", "call_id": str(call)}:
                    return call
        return None


def _is_at_call(reader: Reader, call: str | None) -> bool:
    """Whether the copy that a sub-agent begins with is whole, and goes as far as its call. Those of newer
    releases have no calls. Where it is not so, the sub-agent is at its call with all that it has."""
    names = {f"{type_} {call}".encode()[:200] for type_ in CALLS}
    has_call = call is None or any(place.likeness in names for place in reader.history)
    return has_call and not reader.inherits


def _checkpoints(source: Source, reader: Reader) -> list[Checkpoint]:
    """Where a file that was read to its end can be read on: at one place or none."""
    point = reader.point()
    if point is None or PROVENANCE in reader.about:
        return []
    return [
        Checkpoint(
            source.path, point.place, point.lines, source.reach, reader.thread, None, point.state
        )
    ]


def resume(source: Source, tail: Tail) -> Session:
    """The thread of a rollout from a checkpoint on."""
    report = Report()
    about: dict[str, Any] = {}
    marks: list[Checkpoint] = []

    def read(met: Report) -> Iterator[Step]:
        about.update(tail.state["about"])
        reader = Reader.resumed(tail, about)
        yield from reader.read(_newly_named(source.lines(met), tail.read, about))
        marks[:] = _checkpoints(source, reader)
        reader.tell(met)

    thread = Thread(
        tail.session,
        None,
        reported(report, read),
        None,
        about,
        lambda: next(iter(marks), None),
        tail.read,
    )
    return Session(NAME, tail.session, [thread], source.path, report)


def _newly_named(
    lines: Iterable[SourceLine], read: int, about: dict[str, Any]
) -> Iterator[SourceLine]:
    """The lines; the thread's name in those that were read before is forgotten: the index may know better."""
    is_new = False
    for line in lines:
        if line[0] > read and not is_new:
            is_new = True
            about.pop("title", None)
        yield line
    if not is_new:
        about.pop("title", None)


def _is_instructions(history: list[Past]) -> bool:
    return bool(history) and history[0].unit.endswith(":instructions")


FORMAT = Format(
    name=NAME,
    fits=fits,
    sessions=sessions,
    ties=ties,
    resume=resume,
    places=(
        Place("CODEX_HOME", "sessions", "~/.codex/sessions"),
        Place("CODEX_HOME", "archived_sessions", "~/.codex/archived_sessions"),
        Place("CODEX_HOME", "session_index.jsonl", "~/.codex/session_index.jsonl"),
    ),
)
