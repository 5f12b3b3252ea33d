"""crush: a database in each project.

The context begins at the newest summary. A sub-agent is a session whose id names its call.
"""

from base64 import b64decode
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
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
    join_text,
    list_objects,
    name_call,
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

NAME = "crush"
KNOWN_PARTS = frozenset(
    {"text", "reasoning", "image_url", "binary", "tool_call", "tool_result", "finish"}
    | {"shell_command"}
)
FAILURES = frozenset({"error", "canceled", "content_filter"})
SESSION_COLUMNS = ("id", "parent_session_id", "title", "summary_message_id")
COLUMNS = ("id", "role", "parts", "model", "created_at", "provider", "is_summary_message")


class CrushMessage(NamedTuple):
    """A row of the table `messages`."""

    id: str
    role: str
    parts: list[Data]
    model: Any
    provider: Any
    time: int | None
    is_summary: bool

    def has_ended(self) -> bool:
        """Return True if crush will not change this message any more."""
        return self.role != "assistant" or bool(list_parts(self.parts, "finish"))

    def is_finished_summary(self) -> bool:
        """Return True if the context of the model began at this message."""
        return self.is_summary and self.has_ended() and self.find_failure() is None

    def find_failure(self) -> str | None:
        """Return the reason why an answer ended early."""
        for data in list_parts(self.parts, "finish"):
            reason = to_text(data.get("reason"))
            if reason in FAILURES:
                return to_text(data.get("message")) or reason
        return None


class CrushFormat(TranscriptFormat):
    """crush's databases."""

    name = NAME
    # Each project has its own: that of the folder where the command is run.
    places = (KnownPlace("PWD", ".crush/crush.db", "~/.crush/crush.db"),)

    def recognize(self, head: SourceHead) -> bool:
        """Return True for messages with parts, and sessions with parents."""
        messages, sessions = head.tables.get("messages", ()), head.tables.get("sessions", ())
        return "parts" in messages and "parent_session_id" in sessions

    def read(
        self, sources: Sequence[TranscriptSource], report: ImportReport
    ) -> Iterator[SourceSession]:
        """Yield all sessions, parents before their sub-agents."""
        order = "order by parent_session_id is not null, created_at"
        for source in sources:
            for row in list(read_table(source, "sessions", SESSION_COLUMNS, order)):
                id, parent = to_text(row["id"]), to_text(row["parent_session_id"])
                origin = None
                if parent:
                    # "message$$call"; at first it was the id of the call alone.
                    call = name_call(id.partition("$$")[2] or id)
                    origin = Origin(parent, call=call, is_spawned=True)
                read_steps = partial(read_session, source, id, row["summary_message_id"])
                about = pick_texts(row, {"title": "title"})
                yield self.build_session(source, id, read_steps, about, origin)


def read_session(
    source: TranscriptSource, id: str, summary: Any, report: ImportReport
) -> Iterator[Step]:
    """Yield a unit for each message of a session. The last answer may still be written.

    `summary`: the message at which the context begins.
    """
    binder = CallBinder()
    messages = read_messages(source, id, report)
    after: str | None = None
    for message in messages:
        report.count_parts(message.parts, KNOWN_PARTS, NAME)
        if message.id == summary or message.is_finished_summary():
            text = join_text(list_parts(message.parts, "text"))
            entries = build_compaction(message.id, text, message.time)
        else:
            entries = [binder.bind(entry) for entry in build_entries(message)]
        is_complete = message is not messages[-1] or message.has_ended()
        yield Unit(message.id, after, tuple(entries), is_complete)
        after = message.id


def read_messages(
    source: TranscriptSource, session: str, report: ImportReport
) -> list[CrushMessage]:
    """Return the messages of a session in their order."""
    found: list[CrushMessage] = []
    rest = "where session_id = ? order by created_at, rowid"
    for row in read_table(source, "messages", COLUMNS, rest, session):
        parts = decode_column(row["parts"], source.path, report)
        if parts is not None:
            message = CrushMessage(
                choose_name(row["id"], f"{session}:{len(found)}"),
                to_text(row["role"]),
                list_objects(parts),
                row["model"] or None,
                row["provider"],
                parse_time(row["created_at"]),
                bool(row["is_summary_message"]),
            )
            found.append(message)
    return found


def list_parts(parts: Sequence[Data], type_: str) -> list[Data]:
    """Return the data of the parts of a type."""
    return [as_object(part.get("data")) for part in parts if part.get("type") == type_]


def build_entries(message: CrushMessage) -> list[Entry]:
    """Return the entries of a message that is no compaction."""
    if message.is_summary:
        return []  # it failed: no model ever reads it
    if message.role == "assistant":
        return build_answer(message)
    if message.role == "tool":
        results = list_parts(message.parts, "tool_result")
        return [build_result(data, message.time) for data in results]
    return build_prompt(message)


def build_prompt(message: CrushMessage) -> list[Entry]:
    """Return a prompt, then the text files that the person attached."""
    blocks: list[Data] = []
    files: list[Entry] = []
    for number, part in enumerate(message.parts):
        data = as_object(part.get("data"))
        media_type = to_text(data.get("MIMEType"))
        if part.get("type") == "binary" and media_type.startswith("text/"):
            id, text = f"{message.id}:{number}", describe_file(data)
            files.append(Entry(id, "user", text, {"meta": "attachment"}, message.time))
            continue
        block = read_prompt_part(part.get("type"), data)
        if block is not None:
            if blocks and part.get("type") == "shell_command":
                block["text"] = f"\n\n{block['text']}"
            blocks.append(block)
    kind = "system" if message.role == "system" else "user"
    return [build_message_entry(message.id, kind, blocks, message.time), *files]


def read_prompt_part(type_: Any, data: Data) -> Data | None:
    """Return a part of a prompt as a block. None if the model does not see it."""
    match type_:
        case "text":
            return {"type": "text", "text": to_text(data.get("text"))}
        case "shell_command":
            return {"type": "text", "text": describe_command(data)}
        case "image_url":
            image = {"type": "url", "url": to_text(data.get("url"))}
            return {"type": "image", "source": image}
        case "binary":
            return build_media_block(data.get("MIMEType"), data.get("Data"))
    return None


def describe_command(data: Data) -> str:
    """Return a command that the person ran, as crush shows it to the model."""
    command, output = to_text(data.get("command")), to_text(data.get("output"))
    return f"$ {command}\n{output}\n(exit code {data.get('exit_code')})"


def describe_file(data: Data) -> str:
    """Return a text file, as crush shows it to the model."""
    text = to_text(data.get("Data"))
    with suppress(ValueError):
        text = b64decode(text).decode("utf-8", "replace")
    path = to_text(data.get("Path"))
    tag = f"<file path='{path}'>" if path else "<file>"
    return f"{tag}\n\n{text}\n</file>"


def build_answer(message: CrushMessage) -> list[Entry]:
    """Return the entries of an answer."""
    failure = message.find_failure()
    builder = AnswerBuilder(
        message.id,
        message.time,
        wire_format=find_wire_format(message.provider, message.model),
        model=message.model,
        data=None if failure is None else {"failure": failure},
    )
    blocks = [read_answer_part(part) for part in message.parts]
    entries = builder.build([block for block in blocks if block is not None])
    if message.has_ended():
        return entries
    # Its texts may still grow: then they are other entries.
    return [entry._replace(id=f"{entry.id}+{len(entry.content or '')}") for entry in entries]


def read_answer_part(part: Data) -> AnswerBlock | None:
    """Return a part of an answer. None if the model did not write it."""
    data = as_object(part.get("data"))
    match part.get("type"):
        case "text":
            return AnswerBlock("text", to_text(data.get("text")))
        case "reasoning":
            text = to_text(data.get("thinking"))
            return AnswerBlock("thinking", text, seal=find_seal(data))
        case "tool_call":
            return AnswerBlock("call", "", data.get("id"), data.get("name"), data.get("input"))
    return None


def find_seal(data: Data) -> Any:
    """Return the part of a reasoning that its provider wants to get back."""
    sealed = as_object(data.get("responses_data"))
    if isinstance(sealed.get("encrypted_content"), str):
        names = {"id": "item_id", "encrypted_content": "encrypted_content"}
        return pick_texts(sealed, names)
    return data.get("signature") or data.get("thought_signature") or None


def build_result(data: Data, time: int | None) -> Entry:
    """Return the entry of a result."""
    media = build_media_block(data.get("mime_type"), data.get("data"))
    is_error = data.get("is_error") is True
    text = to_text(data.get("content"))
    id = data.get("tool_call_id")
    return build_result_entry(id, "", text, time, is_error=is_error, media=[media])
