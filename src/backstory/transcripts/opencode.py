"""opencode: a folder of small files, a database, or the output of its export.

A session with a parent is a sub-agent. `revert` hides messages; the next prompt deletes them there,
and the log keeps them.
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from backstory.transcripts.content import (
    AnswerBlock,
    AnswerBuilder,
    CallBinder,
    as_object,
    build_media_block,
    build_message_entry,
    build_result_entry,
    find_wire_format,
    is_one_of,
    list_objects,
    name_call,
    parse_time,
    pick_counts,
    pick_texts,
    to_text,
)
from backstory.transcripts.decoding import decode_column
from backstory.transcripts.format import (
    KnownPlace,
    SourceHead,
    TranscriptFormat,
    TranscriptSource,
    read_table,
)
from backstory.transcripts.model import (
    Data,
    Entry,
    ImportReport,
    Origin,
    SourceMove,
    SourceSession,
    Step,
    Unit,
    build_compaction,
)

NAME = "opencode"
FINISHED = frozenset({"completed", "error"})
ANSWER_PARTS = frozenset({"text", "reasoning", "tool"})
PROMPT_PARTS = frozenset({"text", "file", "agent", "subtask"})
OTHER_PARTS = frozenset({"compaction", "step-start", "step-finish", "snapshot", "patch", "retry"})
KNOWN_PARTS = ANSWER_PARTS | PROMPT_PARTS | OTHER_PARTS
# The table of the second server.
NEW_TABLE = "session_message"
REPEATED = "message of both servers, taken once"
USAGE = {
    "input": "input",
    "output": "output",
    "cache_read": "read",
    "cache_write": "write",
    "cost": "cost",
}
ABOUT = {"title": "title", "cwd": "directory", "version": "version"}


class OpencodeMessage(NamedTuple):
    """A message with its parts, in the order of their ids."""

    id: str
    info: Data
    parts: list[Data]
    is_new: bool = False  # it is from the table of the second server

    @property
    def time(self) -> int | None:
        """When it was created."""
        return parse_time(as_object(self.info.get("time")).get("created"))

    @property
    def is_answer(self) -> bool:
        """True if the model wrote it."""
        return self.info.get("role") == "assistant"

    def is_summary(self) -> bool:
        """Return True if this is the finished summary of a compaction."""
        if not self.is_answer or self.info.get("summary") is not True or self.info.get("error"):
            return False
        return bool(self.info.get("finish")) or self._has_ended()

    def is_complete(self) -> bool:
        """Return True if opencode will not change this message any more."""
        if not self.is_answer:
            return self.info.get("running") is not True
        if not self._has_ended() and not self.info.get("error"):
            return False
        return all(map(has_result, list_tools(self.parts)))

    def _has_ended(self) -> bool:
        return isinstance(as_object(self.info.get("time")).get("completed"), int | float)


class OpencodeFormat(TranscriptFormat):
    """opencode's sessions."""

    name = NAME
    places = (KnownPlace("XDG_DATA_HOME", "opencode", "~/.local/share/opencode"),)

    def recognize(self, head: SourceHead) -> bool:
        """Return True for its folders, its tables, or an `info` of a session beside `messages`."""
        if "message" in head.members and head.members & {"part", "session"}:
            return True
        if {"session", "message", "part"} <= set(head.tables) or {"info", "messages"} <= head.keys:
            return True
        if "info" in head.keys and '"ses_' in head.text[:2000]:
            return True
        document = as_object(head.records[0] if head.records else None)
        return "id" in as_object(document.get("info")) and "messages" in document

    def group_key(self, path: str) -> str:
        """Return the folder: it contains the exports of a session and of its sub-agents."""
        return path.rpartition("/")[0]

    def read(
        self, sources: Sequence[TranscriptSource], report: ImportReport
    ) -> Iterator[SourceSession]:
        """Yield all sessions."""
        stores = [open_store(source, report) for source in sources]
        calls: dict[str, dict[str, str]] = {}  # those of each parent that spawned sub-agents
        for store in stores:
            for id, info in store.list_sessions():
                origin = None
                parent = pick_texts(info, {"parent": "parentID"}).get("parent")
                if parent:
                    if parent not in calls:
                        calls[parent] = find_spawn_calls(parent, stores)
                    origin = Origin(parent, call=calls[parent].get(id), is_spawned=True)
                read_steps = SessionReader(store, id, info).read_steps
                about = pick_texts(info, ABOUT)
                yield self.build_session(store.source, id, read_steps, about, origin)


# --- where sessions are stored ---


class OpencodeExport:
    """A source of sessions: this class reads the output of the export."""

    def __init__(self, source: TranscriptSource, report: ImportReport) -> None:
        self.source = source
        self.report = report

    def list_sessions(self) -> Iterator[tuple[str, Data]]:
        """Yield the id and the `info` of each session."""
        info = as_object(as_object(self.source.read_document(self.report)).get("info"))
        if info:
            yield to_text(info.get("id")) or self.source.stem, info

    def read_messages(self, session: str, report: ImportReport) -> list[OpencodeMessage]:
        """Return the messages of a session in their order."""
        found = [build_message(*one) for one in self._list_messages(session, report)]
        # The ids of an imported session need not ascend.
        return sorted(found, key=lambda message: (message.time or 0, message.id))

    def _list_messages(
        self, session: str, report: ImportReport
    ) -> Iterator[tuple[str, Data, Sequence[Any]]]:
        """Yield the id, the `info` and the parts of each message."""
        document = as_object(self.source.read_document(ImportReport()))
        for message in list_objects(document.get("messages")):
            info = as_object(message.get("info"))
            if info:
                yield to_text(info.get("id")), info, list_objects(message.get("parts"))


class OpencodeFolder(OpencodeExport):
    """Sessions, messages and parts in folders of these names."""

    def list_sessions(self) -> Iterator[tuple[str, Data]]:
        """Yield the id and the `info` of each session."""
        for folder in ("session", "info"):  # before 0.4, sessions were in `info`
            yield from self._read_objects(folder, self.report)

    def _list_messages(
        self, session: str, report: ImportReport
    ) -> Iterator[tuple[str, Data, Sequence[Any]]]:
        for id, info in self._read_objects(f"message/{session}", report):
            parts: list[Any] = []
            for folder in (f"part/{id}", f"part/{session}/{id}"):
                parts.extend(part for _, part in self.source.read_files(folder, report))
            yield id, info, parts

    def _read_objects(self, folder: str, report: ImportReport) -> Iterator[tuple[str, Data]]:
        """Yield id and value of each object below a folder."""
        for path, value in self.source.read_files(folder, report):
            if isinstance(value, dict):
                stem = path.rpartition("/")[2].removesuffix(".json")
                yield to_text(value.get("id")) or stem, value


class OpencodeDatabase(OpencodeExport):
    """opencode.db."""

    def list_sessions(self) -> Iterator[tuple[str, Data]]:
        """Yield the id and the `info` of each session."""
        columns = ("id", "parent_id", "directory", "title", "version", "revert")
        for info in list(read_table(self.source, "session", columns, "order by id")):
            info["parentID"] = info.pop("parent_id")
            if info["revert"]:
                info["revert"] = self._decode(info["revert"], self.report)
            yield to_text(info["id"]), info

    def read_messages(self, session: str, report: ImportReport) -> list[OpencodeMessage]:
        """Return the messages of both servers in their order."""
        found = super().read_messages(session, report)
        return found + self._read_new_messages(session, found, report)

    def _list_messages(
        self, session: str, report: ImportReport
    ) -> Iterator[tuple[str, Data, Sequence[Any]]]:
        where = "where session_id = ?"
        parts: dict[str, list[Data]] = {}
        for row in read_table(self.source, "part", ("id", "message_id", "data"), where, session):
            part = {**self._decode(row["data"], report), "id": row["id"]}
            parts.setdefault(row["message_id"], []).append(part)
        for row in read_table(self.source, "message", ("id", "data"), where, session):
            info = self._decode(row["data"], report)
            if info:
                yield row["id"], info, parts.get(row["id"], ())

    def _read_new_messages(
        self, session: str, older: list[OpencodeMessage], report: ImportReport
    ) -> list[OpencodeMessage]:
        """Return the messages of the second server that are newer than those of the first.

        Releases until June 2026 could write every message for both.
        """
        found: list[OpencodeMessage] = []
        newest = max([message.time or 0 for message in older], default=-1)
        if "seq" not in self.source.list_columns().get(NEW_TABLE, ()):
            return found
        rest = "where session_id = ? order by seq"
        for row in read_table(self.source, NEW_TABLE, ("id", "type", "data"), rest, session):
            data = self._decode(row["data"], report)
            message = read_row(to_text(row["id"]), to_text(row["type"]), data, report)
            if message is None:
                continue
            if (message.time or 0) > newest:
                found.append(message)
            else:
                report.mended[REPEATED] += 1
        return found

    def _decode(self, text: Any, report: ImportReport) -> Data:
        return as_object(decode_column(text, self.source.path, report))


def open_store(source: TranscriptSource, report: ImportReport) -> OpencodeExport:
    """Return the reader of a source."""
    if "message" in source.list_columns():
        return OpencodeDatabase(source, report)
    if source.is_folder:
        return OpencodeFolder(source, report)
    return OpencodeExport(source, report)


def build_message(id: str, info: Data, parts: Sequence[Any]) -> OpencodeMessage:
    """Return a message; each of its parts has an id."""
    found = sorted(list_objects(list(parts)), key=lambda part: to_text(part.get("id")))
    named = [{**part, "id": part.get("id") or f"{id}:{n}"} for n, part in enumerate(found)]
    return OpencodeMessage(id, info, named)


def find_spawn_calls(parent: str, stores: Sequence[OpencodeExport]) -> dict[str, str]:
    """Return the entry of the call of each sub-agent: its metadata names the session."""
    found: dict[str, str] = {}
    for store in stores:
        for message in store.read_messages(parent, ImportReport()):
            for part in list_tools(message.parts):
                metadata = as_object(get_state(part).get("metadata"))
                child = metadata.get("sessionId") or metadata.get("sessionID")
                found.setdefault(to_text(child), name_call(to_text(part.get("callID"))))
    return found


# --- parts ---


def list_tools(parts: Sequence[Data]) -> list[Data]:
    """Return the parts that are calls."""
    return [part for part in parts if part.get("type") == "tool"]


def get_state(part: Data) -> Data:
    """Return the state of a call."""
    return as_object(part.get("state"))


def has_result(part: Data) -> bool:
    """Return True if a call came to a result."""
    return is_one_of(get_state(part).get("status"), FINISHED)


def is_synthetic(part: Data) -> bool:
    """Return True if the tool wrote a part of a prompt."""
    return part.get("synthetic") is True


def join_parts(parts: Sequence[Data]) -> str:
    """Return the text of parts."""
    return "".join(to_text(part.get("text")) for part in parts if part.get("type") == "text")


# --- the steps of a session ---


class SessionReader:
    """Makes the steps of one session."""

    def __init__(self, store: OpencodeExport, id: str, info: Data) -> None:
        self._store = store
        self._id = id
        self._revert = as_object(info.get("revert"))
        self._calls = CallBinder()
        self._entries: dict[str, list[Entry]] = {}  # of each message so far, without clears

    def read_steps(self, report: ImportReport) -> Iterator[Step]:
        """Yield a unit for each message, and the move that hides reverted ones."""
        self._calls, self._entries = CallBinder(), {}
        messages = self._store.read_messages(self._id, report)
        hidden = self._find_hidden(messages)
        move: SourceMove | None = None
        last: str | None = None
        for number, message in enumerate(messages):
            report.count_parts(message.parts, KNOWN_PARTS, NAME)
            is_complete = message.is_complete() or number < len(messages) - 1
            pieces = [message]
            if number == hidden:
                pieces = self._split(message)
                move = SourceMove(last if len(pieces) == 1 else message.id)
            for index, piece in enumerate(pieces):
                id = f"{message.id}/reverted" if index else message.id
                yield Unit(id, last, tuple(self._build_entries(piece, messages)), is_complete)
                last = id
        if move is not None:
            yield move

    def _find_hidden(self, messages: list[OpencodeMessage]) -> int | None:
        """Return the index of the first message that `revert` hides."""
        for number, message in enumerate(messages):
            if message.id == self._revert.get("messageID"):
                return number + 1 if message.is_new else number
        return None

    def _split(self, message: OpencodeMessage) -> list[OpencodeMessage]:
        """Split the first hidden message before the part where `revert` begins, if it names one."""
        first = to_text(self._revert.get("partID"))
        visible = [part for part in message.parts if to_text(part.get("id")) < first]
        if not visible:
            return [message]
        rest = message.parts[len(visible) :]
        return [message._replace(parts=visible), message._replace(parts=rest)]

    def _build_entries(
        self, message: OpencodeMessage, messages: list[OpencodeMessage]
    ) -> list[Entry]:
        if message.is_summary():
            kept = self._list_kept(message, messages)
            entries = build_compaction(message.id, join_parts(message.parts), message.time, kept)
            self._entries[message.id] = entries[1:2]
            return entries
        if message.is_answer:
            entries = [self._calls.bind(entry) for entry in build_answers(message)]
        elif message.info.get("role") == "system":
            text = join_parts(message.parts)
            entries = [Entry(message.id, "system", text, None, message.time)]
        else:
            entries = list(build_prompts(message))
        if not message.is_complete():
            entries = [mark_open(entry, message) for entry in entries]
        self._entries.setdefault(message.id, []).extend(entries)
        return entries

    def _list_kept(
        self, summary: OpencodeMessage, messages: list[OpencodeMessage]
    ) -> Iterator[Entry]:
        """Yield the entries that a compaction keeps: those from `tail_start_id` to the message that
        asked for it."""
        ids = [message.id for message in messages]
        request = summary.info.get("parentID")
        if request not in ids:
            return
        end = ids.index(request)
        starts = [part.get("tail_start_id") for part in messages[end].parts]
        first = next((id for id in starts if id in ids), request)
        for id in ids[ids.index(first) : end]:
            yield from self._entries[id]


def mark_open(entry: Entry, message: OpencodeMessage) -> Entry:
    """Return an entry that opencode may still change under another id: its final form is another
    entry."""
    for part in message.parts:
        if part.get("id") == entry.id and "end" not in as_object(part.get("time")):
            return entry._replace(id=f"{entry.id}+{len(entry.content or '')}")
        is_call = entry.id == name_call(to_text(part.get("callID")))
        if is_call and get_state(part).get("status") == "pending":
            return entry._replace(id=f"{entry.id}+pending")
    return entry


def build_prompts(message: OpencodeMessage) -> Iterator[Entry]:
    """Yield what the person wrote and what the tool added: one entry for each run of one author."""
    parts = []
    for part in message.parts:
        if is_one_of(part.get("type"), PROMPT_PARTS) and part.get("ignored") is not True:
            parts.append(part)
    for is_of_tool, run in groupby(parts, key=is_synthetic):
        own = list(run)
        blocks = [block for block in map(read_prompt_part, own) if block is not None]
        meta = "tool" if is_of_tool else None
        yield build_message_entry(to_text(own[0]["id"]), "user", blocks, message.time, meta=meta)


def read_prompt_part(part: Data) -> Data | None:
    """Return a part of a prompt as a block. None if the model does not see it."""
    match part.get("type"):
        case "text":
            return {"type": "text", "text": to_text(part.get("text"))}
        case "subtask":
            return {"type": "text", "text": to_text(part.get("prompt"))}
    return read_media(part)


def read_media(part: Data) -> Data | None:
    """Return an image or a PDF; the text of other files is in the parts beside them."""
    url = to_text(part.get("url"))
    if not url.startswith("data:"):
        return None
    return build_media_block(part.get("mime"), url.partition(";base64,")[2])


def build_answers(message: OpencodeMessage) -> Iterator[Entry]:
    """Yield the steps of an answer, each with its texts, its calls and their results."""
    data = read_answer_data(message.info)
    model = pick_texts(message.info, {"model": "modelID"}).get("model")
    wire_format = find_wire_format(message.info.get("providerID"), model)
    for number, step in enumerate(list_steps(message.parts)):
        id, time = message.id, message.time
        if number:
            id = f"{message.id}/{number}"
            time = parse_time(as_object(step[0].get("time")).get("start")) or time
            data = {}
        builder = AnswerBuilder(id, time, wire_format=wire_format, model=model, data=data)
        yield from builder.build([read_answer_part(part) for part in step])
        for part in list_tools(step):
            if has_result(part):
                yield build_result(part, message.time)


def read_answer_data(info: Data) -> Data:
    """Return the usage of an answer, and why it failed."""
    tokens = as_object(info.get("tokens"))
    counts = {**tokens, **as_object(tokens.get("cache")), "cost": info.get("cost")}
    data: Data = {}
    usage = pick_counts(counts, USAGE)
    if usage:
        data["usage"] = usage
    if isinstance(info.get("error"), dict):
        data["failure"] = to_text(info["error"].get("name"))
    return data


def list_steps(parts: list[Data]) -> list[list[Data]]:
    """Return the parts of each step: old messages contain several. An empty answer has one."""
    steps: list[list[Data]] = [[]]
    for part in parts:
        if part.get("type") == "step-start":
            steps.append([])
        elif is_one_of(part.get("type"), ANSWER_PARTS) and part.get("ignored") is not True:
            steps[-1].append(part)
    return [step for step in steps if step] or [[]]


def read_answer_part(part: Data) -> AnswerBlock:
    """Return a part of an answer."""
    seal = find_seal(part)
    text = to_text(part.get("text"))
    if part.get("type") == "reasoning":
        return AnswerBlock("thinking", text, seal=seal)
    if part.get("type") == "text":
        return AnswerBlock("text", text, seal=seal, entry_id=to_text(part.get("id")))
    state = get_state(part)
    return AnswerBlock(
        "call",
        id=part.get("callID"),
        name=part.get("tool"),
        arguments=state.get("input"),
        seal=seal,
        time=parse_time(as_object(state.get("time")).get("start")),
    )


def find_seal(part: Data) -> Any:
    """Return what the provider wants to get back."""
    for provider, values in as_object(part.get("metadata")).items():
        value = as_object(values)
        seal = value.get("signature") or value.get("thoughtSignature")
        if isinstance(seal, str):
            return seal
        encrypted = value.get("reasoningEncryptedContent")
        if provider == "openai" and isinstance(encrypted, str):
            return {**pick_texts(value, {"id": "itemId"}), "encrypted_content": encrypted}
    return None


def build_result(part: Data, created: int | None) -> Entry:
    """Return the entry of the result of a call."""
    state = get_state(part)
    is_error = state.get("status") == "error"
    text = to_text(state.get("error" if is_error else "output"))
    metadata = as_object(state.get("metadata"))
    if is_error and metadata.get("interrupted") is True:
        # The model reads what the tool wrote before it was interrupted.
        text = to_text(metadata.get("output")) or text
    time = parse_time(as_object(state.get("time")).get("end")) or created
    media = [read_media(file) for file in list_objects(state.get("attachments"))]
    return build_result_entry(part.get("callID"), "", text, time, is_error=is_error, media=media)


# --- rows of the second server ---


def read_row(id: str, type_: str, row: Data, report: ImportReport) -> OpencodeMessage | None:
    """Return a row as a message with parts; None if no model read it."""
    info: Data = {"role": "user", "time": row.get("time")}
    parts: list[Data] = [{"type": "text", "text": to_text(row.get("text"))}]
    match type_:
        case "user" | "system" | "synthetic":
            info["role"] = "system" if type_ == "system" else "user"
            parts[0]["synthetic"] = type_ == "synthetic"
            parts += map(convert_file, list_objects(row.get("files")))
        case "shell":
            info["running"] = "completed" not in as_object(row.get("time"))
            parts = [convert_command(row)]
        case "compaction":  # what was kept is one text
            info.update(role="assistant", summary=True, finish="stop")
            parts[0]["text"] = join_texts(row.get("summary"), row.get("recent"), separator="\n\n")
        case "assistant":
            info.update(convert_info(row))
            parts = [convert_part(part) for part in list_objects(row.get("content"))]
        case "agent-switched" | "model-switched":
            return None
        case _:
            report.unknown[f"{NEW_TABLE} {type_[:40]} ({NAME})"] += 1
            return None
    named = [{**part, "id": f"{id}:{number:04}"} for number, part in enumerate(parts)]
    return OpencodeMessage(id, info, named, is_new=True)


def convert_command(row: Data) -> Data:
    """Return a command that the person ran as the model reads it."""
    command, output = to_text(row.get("command")), to_text(row.get("output"))
    text = f"Shell command: {command}\n\n{output}"
    return {"type": "text", "text": text, "synthetic": True}


def join_texts(*values: Any, separator: str = "\n") -> str:
    """Return values as one text, without those that are empty."""
    return separator.join(filter(None, map(to_text, values)))


def convert_file(file: Data) -> Data:
    """Return a file of a row as a part."""
    return {"type": "file", "mime": file.get("mime"), "url": file.get("uri")}


def convert_info(row: Data) -> Data:
    """Return what a row says about an answer, as the `info` of a message."""
    model = as_object(row.get("model"))
    names = {"modelID": model.get("id"), "providerID": model.get("providerID")}
    info = {**row, **names, "role": "assistant"}
    if isinstance(row.get("error"), dict):
        info["error"] = {"name": to_text(row["error"].get("message"))}
    return info


def convert_part(part: Data) -> Data:
    """Return a part of a row as a part of a message."""
    if part.get("type") != "tool":
        names = {"type": "type", "text": "text", "metadata": "providerMetadata"}
        return {ours: part.get(theirs) for ours, theirs in names.items()}
    state, time = get_state(part), as_object(part.get("time"))
    provider = as_object(part.get("provider"))
    content = list_objects(state.get("content"))
    words = join_texts(*(one.get("text") for one in content if one.get("type") == "text"))
    output = words if content else to_text(state.get("structured"))
    if provider.get("executed") is True and state.get("result") is not None:
        output = to_text(state["result"])
    # A call that failed has the reason, and what the tool wrote before.
    failure = as_object(state.get("error")).get("message")
    converted = {
        "status": state.get("status"),
        "input": state.get("input"),
        "metadata": state.get("structured"),
        "time": {"start": time.get("ran", time.get("created")), "end": time.get("completed")},
        "output": output,
        "error": join_texts(failure, words),
        "attachments": [convert_file(one) for one in content if one.get("type") == "file"],
    }
    call = {"type": "tool", "tool": part.get("name"), "callID": part.get("id")}
    return {**call, "state": converted, "metadata": provider.get("metadata")}
