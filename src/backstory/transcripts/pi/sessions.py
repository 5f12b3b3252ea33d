"""The sessions of pi and omp: JSON lines that are a tree of entries. Pure.

Version 1 has neither ids nor parents: an entry continues the one above it. Up to version 3 each
line is an entry, and the last one is live, or the one that it names. Since version 4 a line says
what it is: an entry, the end of a lane (lanes are lines of conversation in one tree, `main` is the
session's own), a fact, or a record of a run. Since release 0.86 the system prompt and the tools
are a message. omp has title lines before the header, which are rewritten in place.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from backstory.log.settings import SETTINGS, TOOL_FIELDS
from backstory.transcripts.content import (
    as_object,
    choose_name,
    encode_json,
    flatten_deep,
    join_text,
    list_objects,
    make_unique,
    name_record,
    parse_time,
    pick_texts,
    to_text,
)
from backstory.transcripts.format import (
    ExportedFile,
    ExportedHistory,
    KnownPlace,
    SourceHead,
    TranscriptFormat,
    TranscriptSource,
    read_provenance,
)
from backstory.transcripts.model import (
    Data,
    Entry,
    ImportReport,
    Label,
    Origin,
    SourceMove,
    SourceSession,
    Step,
    Thread,
    Unit,
    order_nodes,
)
from backstory.transcripts.pi.messages import build_user_entry, read_message, read_usage
from backstory.transcripts.pi.writer import PiWriter

NAME = "pi"
MAIN = "main"  # the lane of the session itself
# Entries without a message for the model. An entry that continues one of them continues its parent.
SILENT = frozenset(
    {"model_change", "thinking_level_change", "active_tools_change", "custom", "label"}
    | {"session_info", "context_edit", "leaf"}
    # omp
    | {"title", "title_change", "credential_pin", "ttsr_injection", "leaf_change"}
    | {"mode_change", "mcp_tool_selection", "service_tier_change", "workflow_change"}
)
SPEAKING = frozenset(
    {"message", "compaction", "branch_summary", "custom_message", "session_init", "usage"}
)
# Entries that say which entry the line ends with, and the field that names it.
LEAVES = {"leaf": "targetId", "leaf_change": "target"}
# The fields of entries that describe the session.
ABOUT = {
    "session_info": {"title": "name"},
    "title_change": {"title": "title"},
    "model_change": {"model": "modelId"},
}
TOOL_CHANGES = ("toolsAdded", "toolsRemoved", "tools")  # of a system message
# The fields that make a message equal to another one.
LIKENESS = ("role", "content", "toolCallId", "command", "output", "summary", "customType")


class PiFormat(TranscriptFormat):
    """The sessions of pi and omp."""

    name = NAME
    places = (
        KnownPlace("PI_CODING_AGENT_DIR", "sessions", "~/.pi/agent/sessions"),
        KnownPlace(None, "sessions", "~/.omp/agent/sessions"),
    )

    def recognize(self, head: SourceHead) -> bool:
        """Return True if the first record is a header. omp has `title` lines before it."""
        for record in head.records:
            if isinstance(record, dict) and record.get("type") != "title":
                return is_header(record)
        return False

    def read(
        self, sources: Sequence[TranscriptSource], report: ImportReport
    ) -> Iterator[SourceSession]:
        """Yield one session for each file. A fork has the entries of its parent, with their ids."""
        for source in sources:
            header: Data = next(filter(is_header, source.peek()), {})
            id = choose_name(header.get("id"), source.stem)
            parent = find_parent_id(header)
            thread = Thread(id, None, lambda _: iter(()), exported=read_provenance(header))
            if parent is not None and parent != id:
                thread.origin = Origin(parent)
            thread.read_steps = partial(read_steps, source, thread)
            yield SourceSession(NAME, id, [thread], source.path, ImportReport())

    def write(self, history: ExportedHistory) -> ExportedFile:
        """Return a session: a header, then entries with a parent, abandoned branches included."""
        return PiWriter(history).write()


def read_steps(source: TranscriptSource, thread: Thread, report: ImportReport) -> Iterator[Step]:
    """Yield the steps of the thread in a file."""
    reader = PiReader(source, thread.about, report)
    reader.read_index()
    thread.records = source.records
    yield from reader.read_steps()


def is_header(record: Any) -> bool:
    """Return True if a record is the header of a session."""
    if not isinstance(record, dict) or not isinstance(record.get("id"), str):
        return False
    if record.get("kind") == "header":
        return "createdAt" in record
    return record.get("type") == "session" and "timestamp" in record


def find_parent_id(header: Data) -> str | None:
    """Return the session that this one was forked from. Its id is in the name of its file."""
    if isinstance(header.get("parentSessionId"), str):
        return str(header["parentSessionId"])
    for name in ("parentSession", "branchedFrom", "legacyParentSessionPath"):
        path = header.get(name)
        if isinstance(path, str) and path:
            file_name = path.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".jsonl")
            return file_name.rsplit("_", 1)[-1]
    return None


class PiEntry(NamedTuple):
    """An entry in the index of a file."""

    parent: str | None
    before: str | None  # the entry above it in the file
    type: str
    place: Any
    line: int


class PiReader:
    """Reads one file: first the index of its entries, then the steps."""

    def __init__(self, source: TranscriptSource, about: Data, report: ImportReport) -> None:
        self._source = source
        self._about = about
        self._report = report
        self._header: Data = {}
        self._entries: dict[str, PiEntry] = {}
        self._ordinals: list[str | None] = []  # the entries of version 1, the header among them
        self._last: str | None = None  # the entry above the next one in the file
        self._leaf: str | None = None  # the entry that the tool would continue
        self._labels: dict[str, list[Label]] = {}  # the entry after which each label comes
        self._edits: dict[str, str] = {}  # an entry -> the edit that changes it for the model
        self._tools: dict[str, dict[str, Data]] = {}  # the tools after each system message

    # --- the index ---

    def read_index(self) -> None:
        """Read which entries the file has, and what each one continues."""
        for line, record, place in self._source.lines(self._report):
            if isinstance(record, dict):
                self._add_record(record, place, line)
        for id, entry in self._entries.items():
            is_lost = entry.parent is not None and entry.parent not in self._entries
            if is_lost and entry.before is not None:
                self._entries[id] = entry._replace(parent=entry.before)
                self._report.mended["lost parent"] += 1

    def _add_record(self, record: Data, place: Any, line: int) -> None:
        if is_header(record):
            self._header = self._header or record
            self._about.update(pick_texts(record, {"cwd": "cwd", "model": "modelId"}))
            self._ordinals.append(None)
        elif record.get("type") == "title":
            self._about.update(pick_texts(record, {"title": "title"}))
        elif self._header.get("kind") == "header" and record.get("kind") != "entry":
            self._add_mutation(record)
        else:
            self._add_entry(record, place, line)

    def _add_entry(self, record: Data, place: Any, line: int) -> None:
        type_ = to_text(record.get("type"))
        id = self._index_entry(record, type_, place, line)
        self._last = id
        if type_ in LEAVES:
            self._end_at(record.get(LEAVES[type_]))
        elif record.get("lane", MAIN) == MAIN:
            self._leaf = id
        if type_ == "label":
            self._add_label(record, parse_time(record.get("timestamp")))
        if type_ not in SPEAKING and type_ not in SILENT:
            self._report_unknown(type_)
        self._about.update(pick_texts(record, ABOUT.get(type_, {})))

    def _index_entry(self, record: Data, type_: str, place: Any, line: int) -> str:
        """Add an entry to the index. Return its id."""
        id, parent = record.get("id"), record.get("parentId")
        if not isinstance(id, str) or not id:
            session = choose_name(self._header.get("id"), self._source.stem)
            name = name_record(record, parse_time(record.get("timestamp")))
            id = make_unique(f"{session[-12:]}:{name}", self._entries)
            parent = self._last
        if not isinstance(parent, str):
            parent = None
        self._ordinals.append(id)
        if id in self._entries:
            self._report.mended["line written again"] += 1
            if type_ not in SPEAKING:
                return id
            parent, before, *_ = self._entries[id]
        else:
            before = self._last
        self._entries[id] = PiEntry(parent, before, type_, place, line)
        return id

    def _add_mutation(self, record: Data) -> None:
        """Add a line of version 4 that is not an entry."""
        match record.get("kind"), record.get("fact"):
            case "lane", _ if record.get("lane") == MAIN:
                self._end_at(record.get("leafId"))
            case "fact", "name":
                self._about.update(pick_texts(record, {"title": "name"}))
            case "fact", "label":
                self._add_label(record, None)
            case (("lane" | "record" | "fact"), _):
                pass
            case kind, _:
                self._report_unknown(kind)

    def _add_label(self, record: Data, time: int | None) -> None:
        target, name = record.get("targetId"), record.get("label")
        if isinstance(target, str) and self._last is not None:
            name = name if isinstance(name, str) and name else None
            self._labels.setdefault(self._last, []).append(Label(name, target, time))

    def _end_at(self, target: Any) -> None:
        """End the line at an entry, or at the beginning."""
        if target is None or (isinstance(target, str) and target in self._entries):
            self._leaf = target

    def _report_unknown(self, type_: Any) -> None:
        self._report.unknown[f"{type_} ({NAME} {self._header.get('version', 1)})"] += 1

    # --- steps ---

    def read_steps(self) -> Iterator[Step]:
        """Yield the units in the order of the file, and labels where they were given."""
        self._order_entries()
        self._edits = self._find_edits()
        last: str | None = None
        for id, entry in self._entries.items():
            if entry.type in SPEAKING:
                record = self._source.fetch(entry.place)
                entries = [one._replace(line=entry.line) for one in self._read_entry(id, record)]
                yield Unit(id, self._find_unit(entry.parent), tuple(entries))
                last = id
            for label in self._labels.get(id, ()):
                unit = self._find_unit(label.at)
                if unit is not None:
                    yield label._replace(at=unit)
        leaf = self._find_unit(self._leaf)
        if leaf != last:
            yield SourceMove(leaf)

    def _order_entries(self) -> None:
        """Put parents before their children."""
        order = order_nodes({id: entry.parent for id, entry in self._entries.items()})
        for id, parent in order.items():
            entry = self._entries.pop(id)  # parents come first from now on
            if parent != entry.parent and entry.parent in order:
                self._report.mended["circle of parents"] += 1
            self._entries[id] = entry._replace(parent=parent)

    def _find_unit(self, id: str | None) -> str | None:
        """Return the nearest speaking entry at or above an entry."""
        while id is not None and id in self._entries:
            if self._entries[id].type in SPEAKING:
                return id
            id = self._entries[id].parent
        return None

    def _list_way(self, id: str | None) -> list[str]:
        """Return all entries from the beginning to one."""
        way: list[str] = []
        while id is not None and id in self._entries:
            way.append(id)
            id = self._entries[id].parent
        return way[::-1]

    def _find_edits(self) -> dict[str, str]:
        """Return the last edit of each entry on the live line."""
        edits: dict[str, str] = {}
        for id in self._list_way(self._leaf):
            if self._entries[id].type == "context_edit":
                target = self._source.fetch(self._entries[id].place).get("targetId")
                if isinstance(target, str):
                    edits[target] = id
        return edits

    # --- entries ---

    def _read_entry(self, id: str, record: Data) -> Iterator[Entry]:
        """Yield the events of an entry, as the model sees it."""
        if id not in self._edits:
            yield from self._read_events(id, id, record)
            return
        edit = self._edits[id]
        replacement = self._source.fetch(self._entries[edit].place).get("replacement")
        whole = as_object(record.get("message")) or record
        if not isinstance(replacement, dict):
            time = parse_time(record.get("timestamp"))
            yield Entry(
                f"{id}+{edit}", "note", "pi.hidden", {"original": flatten_deep(whole)}, time
            )
            return
        original = {"original": flatten_deep(whole.get("content"))}
        edited = {**whole, "content": replacement.get("content")}
        if "message" in record:
            edited = {**record, "message": edited}
        for entry in self._read_events(id, f"{id}+{edit}", edited):
            yield entry._replace(data={**(entry.data or {}), **original})
            original = {}

    def _read_events(self, id: str, own_id: str, record: Data) -> Iterator[Entry]:
        """Yield the events of an entry. They get `own_id`."""
        time = parse_time(record.get("timestamp"))
        match record.get("type"):
            case "compaction":
                yield Entry(f"{own_id}:clear", "clear", time=time)
                system = as_object(record.get("systemMessage"))
                yield from self._read_system(id, f"{own_id}/system", system, time)
                summary = to_text(record.get("summary"))
                yield Entry(own_id, "user", summary, {"compaction": True}, time)
                yield from self._read_kept(id, record, time)
            case "branch_summary":
                summary = to_text(record.get("summary"))
                yield Entry(own_id, "user", summary, {"meta": "branch summary"}, time)
            case "custom_message":
                yield build_user_entry(own_id, record, time, record.get("customType"))
            case "session_init":
                text = to_text(record.get("systemPrompt"))
                if text:
                    yield Entry(own_id, "system", text, {"meta": "instructions"}, time)
            case "usage":
                data = {"usage": read_usage(record.get("usage"))}
                data |= pick_texts(record, {"model": "model", "kind": "kind"})
                yield Entry(own_id, "note", "pi.usage", data, time)
            case _:
                message = as_object(record.get("message"))
                if message.get("role") == "system":
                    yield from self._read_system(id, own_id, message, time)
                else:
                    yield from read_message(own_id, message, time)

    def _read_system(
        self, id: str, own_id: str, message: Data, time: int | None
    ) -> Iterator[Entry]:
        """Yield the new sections of the system prompt, and the tools after a system message."""
        data: Data = {"meta": "instructions"}
        text = join_text(message.get("content"))
        sections = pick_sections(message.get("sections"))
        if sections:
            data["sections"] = sections
            text = "\n\n".join(sections.values())
        if text.strip():
            yield Entry(own_id, "system", text, data, time)
        if any(isinstance(message.get(name), list) for name in TOOL_CHANGES):
            settings = {"tools": self._change_tools(id, message)}
            yield Entry(f"{own_id}/tools", "note", SETTINGS, settings, time)

    def _change_tools(self, id: str, message: Data) -> list[Data]:
        """Return the tools after a system message."""
        tools = self._find_tools(id)
        for tool in list_objects(message.get("toolsAdded")) + list_objects(message.get("tools")):
            name = to_text(tool.get("name"))
            tools[name] = {field: tool[field] for field in TOOL_FIELDS & tool.keys()}
        for name in as_list(message.get("toolsRemoved")):
            tools.pop(to_text(name), None)
        self._tools[id] = tools
        return [flatten_deep(tool) for name, tool in tools.items() if name.strip()]

    def _find_tools(self, id: str) -> dict[str, Data]:
        """Return the tools before an entry, by name."""
        for above in reversed(self._list_way(id)[:-1]):
            if above in self._tools:
                return dict(self._tools[above])
        return {}

    def _read_kept(self, id: str, record: Data, time: int | None) -> Iterator[Entry]:
        """Yield the entries that a compaction keeps, or the messages that it contains, again."""
        way = self._list_way(self._entries[id].parent)
        if isinstance(record.get("retainedTail"), list):
            yield from self._read_retained(id, list_objects(record["retainedTail"]), way, time)
            return
        first = self._find_first_kept(record)
        if first in way:
            for kept in way[way.index(first) :]:
                yield from self._repeat(kept, id)

    def _find_first_kept(self, record: Data) -> str | None:
        """Return the first entry that a compaction keeps. In version 1 it is an index, which counts
        the header."""
        first, index = record.get("firstKeptEntryId"), record.get("firstKeptEntryIndex")
        if isinstance(first, str):
            return first
        is_first_version = self._header.get("version", 1) == 1
        if is_first_version and isinstance(index, int) and 0 <= index < len(self._ordinals):
            return self._ordinals[index]
        return None

    def _repeat(self, kept: str, id: str) -> Iterator[Entry]:
        """Yield the messages of an entry again, after the compaction `id`."""
        entry = self._entries[kept]
        if entry.type not in SPEAKING or entry.type == "compaction":
            return
        for one in self._read_entry(kept, self._source.fetch(entry.place)):
            if one.kind != "note":
                yield one._replace(id=f"{one.id}@{id}", copy_of=one.id)

    def _read_retained(
        self, id: str, messages: list[Data], way: list[str], time: int | None
    ) -> Iterator[Entry]:
        """Yield the messages that a compaction contains: most are those of entries before it."""
        known: dict[bytes, list[str]] = {}
        for before in way:
            if self._entries[before].type == "message":
                message = self._source.fetch(self._entries[before].place).get("message")
                known.setdefault(encode_likeness(as_object(message)), []).append(before)
        kept: list[Entry] = []
        for number, message in reversed(list(enumerate(messages))):
            same = known.get(encode_likeness(message))
            if same:
                kept[:0] = self._repeat(same.pop(), id)
            else:
                own_time = parse_time(message.get("timestamp")) or time
                kept[:0] = read_message(f"{id}/{number}", message, own_time)
        yield from kept


def encode_likeness(message: Data) -> bytes:
    """Return a text that is equal for messages that are the same."""
    return encode_json([message.get(name) for name in LIKENESS], sorts_keys=True)


def pick_sections(sections: Any) -> dict[str, str]:
    """Return the sections of a system message that have a text. The others are removed by it."""
    found = {}
    for name, text in as_object(sections).items():
        if isinstance(text, str) and text.strip():
            found[name] = text
    return found


def as_list(value: Any) -> list[Any]:
    """Return a list, or an empty one in place of anything else."""
    return value if isinstance(value, list) else []
