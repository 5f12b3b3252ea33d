"""goose: a database of sessions, formerly JSON lines with a header, and exported sessions.

The agent no longer sees what was compacted, and people do not see its summary. One message of the
user may contain the results of several calls.
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
    choose_name,
    find_wire_format,
    is_one_of,
    join_text,
    list_objects,
    make_unique,
    name_call,
    name_record,
    parse_time,
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
    SourceSession,
    Step,
    Unit,
    build_compaction,
)

NAME = "goose"
SECOND = 1_000_000
CALLS = frozenset({"toolRequest", "frontendToolRequest"})
THOUGHTS = frozenset({"thinking", "reasoning", "redactedThinking"})
# Questions to the person, notices, the mark of an old compaction.
NOTICES = frozenset(
    {"toolConfirmationRequest", "actionRequired", "systemNotification", "conversationCompacted"}
)
KNOWN_CONTENT = frozenset({"text", "image", "toolResponse", *CALLS, *THOUGHTS, *NOTICES})
SUBAGENT = "subagent_session_id"
SESSION_COLUMNS = (
    *("id", "name", "description", "working_dir", "provider_name"),
    *("model_config_json", "session_type"),
)
COLUMNS = ("id", "role", "content_json", "created_timestamp", "message_id", "metadata_json")


class GooseMessage(NamedTuple):
    """A message, and who sees it."""

    id: str
    role: str
    content: list[Data]
    time: int | None
    is_for_agent: bool
    is_for_user: bool

    @property
    def text(self) -> str:
        return join_text(self.content)

    def has(self, type: str) -> bool:
        """Return True if the message has content of a type."""
        return any(part.get("type") == type for part in self.content)

    def is_prompt(self) -> bool:
        """Return True if a person wrote this."""
        is_tool = self.has("toolRequest") or self.has("toolResponse")
        return self.role == "user" and self.has("text") and not is_tool


class GooseFormat(TranscriptFormat):
    """goose's sessions."""

    name = NAME
    places = (
        KnownPlace("XDG_DATA_HOME", "goose/sessions", "~/.local/share/goose/sessions"),
        KnownPlace(None, "sessions", "~/Library/Application Support/Block/goose/sessions"),
    )

    def recognize(self, head: SourceHead) -> bool:
        """Return True for messages with `content_json`, a header, or an exported session."""
        if "content_json" in head.tables.get("messages", ()):
            return True
        if {"working_dir", "conversation"} <= head.keys:
            return True
        header = as_object(head.records[0] if head.records else None)
        if "role" in header:
            return False
        # The first headers did not name the folder.
        return "working_dir" in header or {"description", "message_count"} <= set(header)

    def group_key(self, path: str) -> str:
        """Return the folder: old files stay there when their sessions are moved into a database."""
        return path.rpartition("/")[0]

    def read(
        self, sources: Sequence[TranscriptSource], report: ImportReport
    ) -> Iterator[SourceSession]:
        """Yield all sessions; those of a database first."""
        moved: set[str] = set()
        databases = [source for source in sources if "messages" in source.list_columns()]
        for source in databases:
            origins = find_origins(source)
            for header in list(read_table(source, "sessions", SESSION_COLUMNS, "order by id")):
                session = StoredSession(source, to_text(header["id"]), header)
                moved.add(session.id)
                yield self._build_session(session, origins.get(session.id))
        for source in sources:
            if source not in databases:
                file = SessionFile(source)
                # In a database, the messages of an old file have other ids.
                if file.id not in moved:
                    yield self._build_session(file, None)

    def _build_session(self, session: "StoredSession", origin: Origin | None) -> SourceSession:
        """Return a session as a thread that begins at `origin`."""
        source, header = session.source, session.header
        about = pick_texts(header, {"title": "description", "cwd": "working_dir"})
        about |= pick_texts(header, {"title": "name"})
        config = header.get("model_config_json")
        if config:
            model = decode_column(config, source.path, ImportReport())
            about |= pick_texts(as_object(model), {"model": "model_name"})
        session.is_waiting = header.get("session_type") == "sub_agent" and origin is None
        return self.build_session(source, session.id, session.read_steps, about, origin)


def find_origins(source: TranscriptSource) -> dict[str, Origin]:
    """Return the calls of sub-agents: the result of a call names the session.

    Results that are fetched later name it, too; the first counts.
    """
    found: dict[str, Origin] = {}
    names = ("session_id", "content_json")
    rest = "where content_json like ? order by id"
    for row in read_table(source, "messages", names, rest, f"%{SUBAGENT}%"):
        parts = decode_column(row["content_json"], source.path, ImportReport())
        for part in list_objects(parts):
            value = as_object(as_object(part.get("toolResult")).get("value"))
            child = as_object(value.get("_meta")).get(SUBAGENT)
            if isinstance(child, str) and child != row["session_id"]:
                call = name_call(to_text(part.get("id")))
                origin = Origin(to_text(row["session_id"]), call=call, is_spawned=True)
                found.setdefault(child, origin)
    return found


# --- where sessions are stored ---


class StoredSession:
    """A session in a database."""

    def __init__(self, source: TranscriptSource, id: str, header: Data) -> None:
        self.source = source
        self.id = id
        self.header = header
        self.is_waiting = False  # for the result of the call that it belongs to

    def read_steps(self, report: ImportReport) -> Iterator[Step]:
        """Yield a unit for each message."""
        messages = list(self.read_messages(report))
        for message in messages:
            report.count_parts(message.content, KNOWN_CONTENT, NAME)
        history = GooseHistory(messages, self.header.get("provider_name"))
        after: str | None = None
        for id, entries in history.build_units():
            yield Unit(id, after, tuple(entries), is_complete=not self.is_waiting)
            after = id

    def read_messages(self, report: ImportReport) -> Iterator[GooseMessage]:
        """Yield the messages in their order."""
        rest = "where session_id = ? order by created_timestamp, id"
        for row in read_table(self.source, "messages", COLUMNS, rest, self.id):
            parts = decode_column(row["content_json"], self.source.path, report)
            if parts is None:
                continue
            metadata = row["metadata_json"]
            if metadata:
                metadata = decode_column(metadata, self.source.path, report)
            # goose itself gives this id to messages from before there were any.
            id = choose_name(row["message_id"], f"msg_{self.id}_{row['id']}")
            yield build_message(id, row["role"], parts, row["created_timestamp"], metadata)


class SessionFile(StoredSession):
    """A session in a file: JSON lines after a header, or an exported document."""

    def __init__(self, source: TranscriptSource) -> None:
        header = as_object(next(iter(source.peek()), None))
        self._is_document = not header or "conversation" in header
        if self._is_document:
            header = as_object(source.read_document(ImportReport()))
        super().__init__(source, choose_name(header.get("id"), source.stem), header)

    def read_messages(self, report: ImportReport) -> Iterator[GooseMessage]:
        before: Data = {}
        ids: set[str] = set()
        for record in self._list_records(report):
            if "role" not in record:
                continue
            if record == before and ("id" in record or "created" in record):
                report.mended["line written again"] += 1
                continue
            before = record
            content, created = record.get("content"), record.get("created")
            name = name_record(record, parse_time(created))
            id = make_unique(choose_name(record.get("id"), f"{self.id}:{name}"), ids)
            ids.add(id)
            yield build_message(id, record.get("role"), content, created, record.get("metadata"))

    def _list_records(self, report: ImportReport) -> list[Data]:
        if self._is_document:
            document = as_object(self.source.read_document(report))
            return list_objects(document.get("conversation"))
        return list_objects([line.value for line in self.source.lines(report)])


def build_message(id: str, role: Any, content: Any, created: Any, metadata: Any) -> GooseMessage:
    """Return a message from its fields."""
    seen = as_object(metadata)
    return GooseMessage(
        id,
        to_text(role),
        list_objects(content),
        parse_time(created),
        seen.get("agentVisible") is not False,
        seen.get("userVisible") is not False,
    )


# --- messages to entries ---


class GooseHistory:
    """The messages of a session, and the compactions among them.

    Where the agent no longer sees messages, a run of messages that people do not see begins with
    the summary. The agent was never shown what it does not see without a summary after it.
    """

    def __init__(self, messages: list[GooseMessage], provider: Any) -> None:
        self._messages = messages
        self._wire_format = find_wire_format(provider)
        self._binder = CallBinder()
        self._compactions = set(self._find_compactions())
        self._repeated = dict(self._find_repeated())

    def build_units(self) -> Iterator[tuple[str, list[Entry]]]:
        """Yield the id and the entries of each message."""
        last = max(self._compactions, default=-1)
        kept: list[Entry] = []  # the entries that the agent still sees
        for number, message in enumerate(self._messages):
            if number in self._compactions:
                entries = build_compaction(message.id, message.text, message.time, kept)
            elif number > last and not message.is_for_agent:
                entries = list(build_note(message))
            else:
                copy_of = self._repeated.get(number)
                entries = []
                for entry in self._build_entries(message):
                    entries.append(self._binder.bind(entry)._replace(copy_of=copy_of))
            if message.is_for_agent:
                kept += filter(is_original, entries)
            yield message.id, entries

    def _find_compactions(self) -> Iterator[int]:
        """Yield where the summaries are at which the context began.

        Of summaries of single calls only the last counts: it keeps the others.
        """
        seen = [message.is_for_agent for message in self._messages]
        small: int | None = None
        for number in self._find_summaries():
            if all(seen[:number]):
                continue  # nothing was compacted
            before = self._messages[number - 1]
            is_of_call = not before.is_for_agent and before.has("toolResponse")
            if is_of_call and any(seen[: number - 1]):
                small = number
            else:
                yield number
        if small is not None:
            yield small

    def _find_summaries(self) -> Iterator[int]:
        """Yield the first message that the agent sees in each run that people do not see.

        A prompt that was being answered is hidden from everybody and precedes the summary.
        """
        start = 0
        for is_for_user, group in groupby(self._messages, key=lambda message: message.is_for_user):
            run = list(group)
            if not is_for_user:
                seen = [n for n, message in enumerate(run) if message.is_for_agent]
                follows_prompt = [message.role for message in run[:2]] == ["user", "user"]
                yield start + (seen[0] if seen else int(follows_prompt))
            start += len(run)

    def _find_repeated(self) -> Iterator[tuple[int, str]]:
        """Yield where a prompt is repeated after a compaction, because it was being answered, and
        the id of its first form."""
        for number in self._compactions:
            asked = [message for message in self._messages[:number] if message.is_prompt()]
            if not asked or asked[-1].is_for_agent:
                continue
            for later in range(number + 1, len(self._messages)):
                if self._messages[later].role == "user":
                    if self._is_repeated_by_tool(later, asked[-1]):
                        yield later, asked[-1].id
                    break

    def _is_repeated_by_tool(self, number: int, asked: GooseMessage) -> bool:
        before, message = self._messages[number - 1], self._messages[number]
        if before.is_for_user or message.text != asked.text:
            return False
        # A person who writes the same once more needs longer than the tool.
        return (message.time or 0) - (before.time or 0) <= SECOND

    def _build_entries(self, message: GooseMessage) -> Iterator[Entry]:
        types = [part.get("type") for part in message.content]
        if types and all(is_one_of(type_, NOTICES) for type_ in types):
            return
        if message.role != "assistant":
            yield from build_prompt(message)
            return
        builder = AnswerBuilder(message.id, message.time, wire_format=self._wire_format)
        blocks = [read_block(part) for part in message.content]
        yield from builder.build([block for block in blocks if block is not None])


def is_original(entry: Entry) -> bool:
    """Return True if a compaction can keep an entry."""
    return entry.copy_of is None and entry.kind != "clear"


def build_prompt(message: GooseMessage) -> Iterator[Entry]:
    """Yield the results in a message, then what a person or the tool wrote."""
    blocks: list[Data | None] = []
    for part in message.content:
        if part.get("type") == "toolResponse":
            yield build_result(part, message.time)
        elif part.get("type") == "text":
            blocks.append({"type": "text", "text": to_text(part.get("text"))})
        elif part.get("type") == "image":
            blocks.append(build_media_block(part.get("mimeType"), part.get("data")))
    if blocks or not message.has("toolResponse"):
        kind = "system" if message.role == "system" else "user"
        meta = "tool" if message.is_for_agent and not message.is_for_user else None
        yield build_message_entry(message.id, kind, blocks, message.time, meta=meta)


def build_note(message: GooseMessage) -> Iterator[Entry]:
    """Yield what only people see."""
    text = join_text([part for part in message.content if part.get("type") == "text"])
    if text:
        yield Entry(message.id, "note", "goose.message", {"text": text}, message.time)


def read_block(part: Data) -> AnswerBlock | None:
    """Return a part of an answer. None if the model did not write it."""
    type_ = part.get("type")
    if type_ == "text":
        return AnswerBlock("text", to_text(part.get("text")))
    if type_ == "redactedThinking":
        return AnswerBlock("thinking", seal=part.get("data"), is_redacted=True)
    if is_one_of(type_, THOUGHTS):
        text = part.get("thinking") or part.get("reasoning") or part.get("text")
        return AnswerBlock("thinking", to_text(text), seal=part.get("signature"))
    if is_one_of(type_, CALLS):
        call = as_object(as_object(part.get("toolCall")).get("value"))
        return AnswerBlock("call", "", part.get("id"), call.get("name"), call.get("arguments"))
    return None


def build_result(part: Data, time: int | None) -> Entry:
    """Return the entry of a result."""
    result = as_object(part.get("toolResult"))
    value = as_object(result.get("value"))
    is_error = result.get("status") == "error" or value.get("isError") is True
    texts: list[str] = []
    media: list[Data] = []
    for piece in list_pieces(result):
        content = as_object(as_object(piece).get("resource")) or as_object(piece)
        data = content.get("data") or content.get("blob")
        block = build_media_block(content.get("mimeType"), data)
        if block is not None:
            media.append(block)
        else:
            texts.append(join_text(content) if content else to_text(piece))
    text = "\n".join(texts)
    return build_result_entry(part.get("id"), "", text, time, is_error=is_error, media=media)


def list_pieces(result: Data) -> list[Any]:
    """Return the pieces of a result that the model is shown."""
    value = result.get("value")
    if isinstance(value, dict):
        value = value.get("content")
    if value is None:
        value = result.get("error")
    pieces = value if isinstance(value, list) else [value]
    return [piece for piece in pieces if is_for_model(piece)] or pieces


def is_for_model(piece: Any) -> bool:
    """Return True if the model is shown a piece of a result. Many tools repeat it for the
    person."""
    audience = as_object(as_object(piece).get("annotations")).get("audience")
    return not isinstance(audience, list) or "assistant" in audience
