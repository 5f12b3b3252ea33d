"""The files of Codex: which thread each one belongs to, where forks and sub-agents begin, and
exports. Pure.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from backstory.log.events import to_json
from backstory.log.times import to_datetime
from backstory.transcripts.codex.items import CALLS, FORMAT, ITEMS, SILENT, Item, get_type
from backstory.transcripts.codex.rollouts import (
    TYPES,
    RolloutReader,
    is_bare_header,
    name_entry,
)
from backstory.transcripts.content import (
    as_object,
    get_text,
    join_text,
    list_objects,
    parse_time,
    pick_texts,
)
from backstory.transcripts.format import (
    ExportedFile,
    ExportedHistory,
    ExportedMessage,
    KnownPlace,
    SourceHead,
    TranscriptFormat,
    TranscriptSource,
    read_provenance,
    write_time,
)
from backstory.transcripts.model import (
    Data,
    Fault,
    ImportReport,
    Origin,
    SourceSession,
    Step,
    Thread,
)

NAME = "codex"
UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SPOKEN = frozenset({"response_item", "compacted"}) | ITEMS
INDEX = Path("session_index.jsonl")  # the names of threads
VERSION = "0.144.2"  # the version whose files are written
DEFAULT_MODEL = "gpt-5"


class RolloutFile:
    """One rollout, and what its first records say about its thread."""

    def __init__(self, source: TranscriptSource) -> None:
        head = list_objects(list(source.peek()))
        headers = [record for record in head if record.get("type") == "session_meta"]
        metas = [as_object(record.get("payload")) for record in headers]
        if not metas:
            metas = list(filter(is_bare_header, head[:1])) or [{}]
        meta = metas[0]
        self.source = source
        self.thread = get_text(meta, "id") or source.stem
        self.id = find_own_id(source.stem, self.thread)
        self.meta = meta
        # The position that a paginated fork continues.
        self.base = as_object(meta.get("history_base"))
        self.spawner = find_spawner(meta)
        self.parent = self._find_parent(metas)
        self.pages: list[tuple[RolloutFile, int | None]] = [(self, None)]
        self.title: str | None = None  # in the index
        self.about = read_about(meta)
        self.built = Thread(self.id, None, self.read_steps, about=self.about)
        self.built.source = source.path
        self.built.tail = source.tail
        self._has_items = any(get_type(record) in SPOKEN for record in head if "type" in record)

    def _find_parent(self, metas: list[Data]) -> str | None:
        """Return the thread that this one was forked from."""
        base = get_text(self.base, "thread_id")
        if base not in (None, self.id):
            return base
        parent = get_text(self.meta, "forked_from_id")
        if parent is None:
            # A copied fork repeats the header of its parent after its own.
            ids = [get_text(meta, "id") for meta in metas]
            parent = next((id for id in ids if id not in (None, self.thread)), None)
        return None if parent == self.id else parent

    def read_steps(self, report: ImportReport) -> Iterator[Step]:
        """Yield the steps of the thread: of the files that it continues, then of its own."""
        source, thread = self.source, self.built
        reader = RolloutReader(self.about, report)
        if source.tail is None:
            reader.is_mirror = self.is_mirror()
        else:
            reader.begin_tail(source.tail)
        records = 0
        for page, end in self.pages if source.tail is None else self.pages[-1:]:
            yield from reader.read(page.id, page.source.lines(report), end)
            records += page.source.records
        if self.title is not None:
            self.about["title"] = self.title
        thread.records = records
        thread.state = reader.get_state()

    def is_mirror(self) -> bool:
        """Return True if the file has only events, and none of the items that they mirror."""
        if self._has_items:
            return False
        return next(self.source.search(b'"response_item"'), None) is None


class RolloutFolder:
    """All rollouts of an import. Those that did not change are opened only if another one needs
    them.
    """

    def __init__(self, sources: Sequence[TranscriptSource]) -> None:
        self.indexes: list[TranscriptSource] = []
        self.changed: list[RolloutFile] = []
        self._unchanged: dict[str, TranscriptSource] = {}
        self._files: dict[str, RolloutFile] = {}
        for source in sources:
            if source.stem == INDEX.stem:
                self.indexes.append(source)
            elif source.is_changed:
                self._add(source)
            else:
                ids = [found[0] for found in UUID.finditer(source.stem)]
                self._unchanged[ids[-1] if ids else source.stem] = source

    def _add(self, source: TranscriptSource) -> None:
        head = source.peek()
        if is_thread_name(head[0] if head else None):
            self.indexes.append(source)
        elif any(isinstance(record, dict) for record in head):
            # Otherwise its first line is still being written.
            file = RolloutFile(source)
            self.changed.append(file)
            self._files[file.id] = file

    def find(self, id: str | None) -> RolloutFile | None:
        """Return the rollout with an id."""
        if id is None:
            return None
        if id not in self._files and id in self._unchanged:
            self._files[id] = RolloutFile(self._unchanged[id])
        return self._files.get(id)

    def read_titles(self, report: ImportReport) -> dict[str, tuple[str, TranscriptSource]]:
        """Return the newest name of each thread in the indexes, and where it is."""
        titles: dict[str, tuple[str, TranscriptSource]] = {}
        times: dict[str, str] = {}
        for source in self.indexes:
            for line in source.lines(report):
                if not is_thread_name(line.value) or not get_text(line.value, "thread_name"):
                    continue
                id, time = line.value["id"], str(line.value.get("updated_at") or "")
                if time >= times.get(id, ""):
                    times[id] = time
                    titles[id] = (line.value["thread_name"], source)
        return titles

    def find_origin(self, file: RolloutFile, report: ImportReport) -> Origin | None:
        """Return where a thread begins. The pages of a paginated fork are added to `file`."""
        if file.base:
            self._add_pages(file, report)
        is_copy = file.parent is not None and not file.base
        if file.spawner is None:
            return None if file.parent is None else Origin(file.parent, copies_content=is_copy)
        call = self._find_spawn_call(file)
        return Origin(
            file.spawner, call=call, is_spawned=True, copies_content=file.parent is not None
        )

    def _add_pages(self, file: RolloutFile, report: ImportReport) -> None:
        """Put the files that a paginated fork continues in front of it."""
        page = file
        seen = {file.id}
        while page.base and page.parent is not None:
            parent = self.find(page.parent)
            end = page.base.get("end_ordinal_exclusive")
            if parent is None or not isinstance(end, int):
                why = f"a fork of {page.parent}, which is not here: taken without it"
                report.notes.append(Fault(file.source.path, None, why))
                return
            if parent.id in seen:
                return
            seen.add(parent.id)
            file.pages.insert(0, (parent, end))
            page = parent

    def _find_spawn_call(self, file: RolloutFile) -> str | None:
        """Return the id of the entry of the call that spawned a thread, which its parent's file
        names.
        """
        parent = self.find(file.spawner)
        if parent is None:
            return None
        for record in parent.source.search(file.id.encode()):
            call_id = find_call_of_agent(as_object(as_object(record).get("payload")), file.id)
            if call_id is None:
                continue
            for other in parent.source.search(call_id.encode()):
                item = as_object(as_object(other).get("payload"))
                if get_type(item) in CALLS and item.get("call_id") == call_id:
                    return name_entry(parent.id, item, parse_time(other.get("timestamp")))
        return None


class CodexFormat(TranscriptFormat):
    """The rollouts of Codex."""

    name = NAME
    places = (
        KnownPlace("CODEX_HOME", "sessions", "~/.codex/sessions"),
        KnownPlace("CODEX_HOME", "archived_sessions", "~/.codex/archived_sessions"),
        KnownPlace("CODEX_HOME", str(INDEX), "~/.codex/session_index.jsonl"),
    )
    reads_tails = True

    def recognize(self, head: SourceHead) -> bool:
        """Return True for records with a payload, for bare items after a header of 2025, and for
        the index with the names of threads."""
        records = [record for record in head.records if isinstance(record, dict)]
        if not records:
            return head.keys >= {"timestamp", "type", "payload"}
        first = records[0]
        if is_thread_name(first):
            return True
        if is_bare_header(first):
            return any("type" in record and get_type(record) in ITEMS for record in records[1:])
        framed = [record for record in records if isinstance(record.get("payload"), dict)]
        is_known = any(get_type(record) in TYPES for record in framed)
        return is_known and len(framed) * 10 >= len(records) * 9

    def group_key(self, path: str) -> str:
        """Return one key for all files: forks and sub-agents refer to other files."""
        return NAME

    def read(
        self, sources: Sequence[TranscriptSource], report: ImportReport
    ) -> Iterator[SourceSession]:
        """Yield the threads of the files that changed, then those of which only the name did."""
        folder = RolloutFolder(sources)
        titles = folder.read_titles(report)
        for file in folder.changed:
            session_report = ImportReport()
            thread = file.built
            if file.source.tail is None:
                thread.origin = folder.find_origin(file, session_report)
                thread.exported = read_provenance(file.meta)
            if file.thread in titles:
                file.title = file.about["title"] = titles[file.thread][0]
            yield SourceSession(NAME, file.id, [thread], file.source.path, session_report)
        read = {file.thread for file in folder.changed}
        for id, (title, source) in titles.items():
            if id not in read:
                thread = Thread(id, None, lambda _: iter(()), about={"title": title})
                yield SourceSession(NAME, id, [thread], source.path, ImportReport())

    def write(self, history: ExportedHistory) -> ExportedFile:
        """Return a rollout: a header, then the items, with a context and an event for each turn."""
        writer = RolloutWriter(history)
        for message in history.list_context(FORMAT):
            writer.write_message(message)
        return writer.finish()


# --- what records say about threads ---


def is_thread_name(record: Any) -> bool:
    """Return True for a record of the index with the names of threads."""
    return (
        isinstance(record, dict) and isinstance(record.get("id"), str) and "thread_name" in record
    )


def find_own_id(stem: str, thread: str) -> str:
    """Return the id of a rollout.

    A thread that was reverted continues in another file, whose name has an id of its own after that
    of the thread.
    """
    own = stem.partition(f"-{thread}_")[2]
    return own if UUID.fullmatch(own) else thread


def find_spawner(meta: Data) -> str | None:
    """Return the thread that called this one as a sub-agent."""
    source = as_object(meta.get("source"))
    if "subagent" not in source:
        return None
    spawn = as_object(as_object(source["subagent"]).get("thread_spawn"))
    parent = get_text(spawn, "parent_thread_id") or get_text(meta, "parent_thread_id")
    return parent or get_text(meta, "forked_from_id")


def find_call_of_agent(payload: Data, agent: str) -> str | None:
    """Return the id of the call that spawned a sub-agent, if a record says so."""
    match payload:
        case {"type": "collab_agent_spawn_end", "new_thread_id": id, "call_id": str(call)}:
            return call if id == agent else None
        case {"type": "sub_agent_activity", "agent_thread_id": id, "event_id": str(call)}:
            return call if id == agent else None
        case {"type": "function_call_output", "call_id": str(call)}:
            return call
    return None


def read_about(meta: Data) -> Data:
    """Return what the header says about a thread."""
    names = {"cwd": "cwd", "version": "cli_version", "agent": "agent_nickname"}
    about = pick_texts(meta, {**names, "agent_type": "agent_role"})
    return {**about, **pick_texts(as_object(meta.get("git")), {"branch": "branch"})}


# --- exports ---


class RolloutWriter:
    """Writes the messages of a context as the records of a rollout."""

    def __init__(self, history: ExportedHistory) -> None:
        self._history = history
        self._positions: dict[int, list[int]] = {}  # of the events in each line
        self._meta: Data = {
            "id": history.session,
            "timestamp": write_time(history.began),
            "cwd": history.cwd,
            "originator": "backstory",
            "cli_version": VERSION,
            "source": "cli",
            "model_provider": "openai",
        }
        self._records: list[Data] = []
        self._write("session_meta", history.began, self._meta)

    def _write(self, type_: str, time: int, payload: Data) -> None:
        record = {"timestamp": write_time(time), "type": type_, "payload": payload}
        self._records.append(record)

    def write_message(self, message: ExportedMessage) -> None:
        """Write the items of a message. Codex shows people the events beside them, not the
        items."""
        items = message.form if isinstance(message.form, list) else [message.form]
        is_prompt = message.role == "user" and not message.data.get("meta")
        if is_prompt:
            self._write_turn(message)
        self._write_items(items, message)
        if is_prompt:
            self._write_event("user_message", message, message.content)
        for item in items:
            if message.role == "model" and get_answer_text(item):
                self._write_event("agent_message", message, get_answer_text(item))

    def _write_items(self, items: list[Item], message: ExportedMessage) -> None:
        positions = list(message.positions)
        for number, item in enumerate(items, 1):
            self._write("response_item", message.time, build_rollout_item(item))
            if item.get("type") in SILENT:
                continue
            # Each item is one event; the last one has the rest.
            end = None if number == len(items) else 1
            self._positions[len(self._records)] = positions[:end]
            positions = positions[1:]

    def _write_event(self, type_: str, message: ExportedMessage, text: str) -> None:
        event: Data = {"type": type_, "message": text}
        if type_ == "user_message":
            event["images"] = []
        self._write("event_msg", message.time, event)

    def _write_turn(self, message: ExportedMessage) -> None:
        context = {
            "cwd": self._history.cwd,
            "approval_policy": "on-request",
            "sandbox_policy": {"type": "read-only"},
            "model": message.data.get("model") or self._history.model or DEFAULT_MODEL,
            "summary": "auto",
        }
        self._write("turn_context", message.time, context)

    def finish(self) -> ExportedFile:
        """Return the file, its path in the folder of Codex, and the line of the index with its
        name.
        """
        history = self._history
        last = self._records[-1]["timestamp"]
        name = {"thread_id": history.session, "thread_name": history.title}
        payload = {"type": "thread_name_updated", **name}
        self._records.append({"timestamp": last, "type": "event_msg", "payload": payload})
        self._meta["backstory"] = history.record_positions(self._positions)
        text = "".join(f"{to_json(record)}\n" for record in self._records)
        began = to_datetime(history.began)
        file_name = f"rollout-{began:%Y-%m-%dT%H-%M-%S}-{history.session}.jsonl"
        place = Path("sessions", f"{began:%Y}", f"{began:%m}", f"{began:%d}", file_name)
        entry = {"id": history.session, "thread_name": history.title, "updated_at": last}
        return ExportedFile(text, place, (INDEX, f"{to_json(entry)}\n"))


def build_rollout_item(item: Item) -> Item:
    """Return an item as it is in rollouts: messages have a type, and their text is in parts."""
    if "role" not in item:
        return item
    content = item.get("content")
    if isinstance(content, str):
        kind = "output_text" if item["role"] == "assistant" else "input_text"
        content = [{"type": kind, "text": content}]
    return {"type": "message", **item, "content": content}


def get_answer_text(item: Item) -> str:
    """Return the text of an answer as people see it; "" for other items."""
    if item.get("role") != "assistant":
        return ""
    content = item.get("content")
    parts = content if isinstance(content, list) else [content]
    return "\n\n".join(filter(None, map(join_text, parts)))
