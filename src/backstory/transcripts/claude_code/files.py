"""The format of Claude Code: recognizing, reading and writing its files.

In a file that is written, each block is a line, with its parent. Branches that were abandoned are
included; the system prompt is not, because Claude Code adds its own.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from backstory.log.events import to_json
from backstory.transcripts.claude_code.records import (
    BOOKKEEPING,
    SPEAKERS,
    USAGE,
    get_content,
    is_understood,
)
from backstory.transcripts.claude_code.sessions import NAME, find_project, read_sessions
from backstory.transcripts.content import as_object, get_text, is_one_of
from backstory.transcripts.format import (
    ExportedFile,
    ExportedHistory,
    ExportedMessage,
    KnownPlace,
    SourceHead,
    TranscriptFormat,
    TranscriptSource,
    write_time,
)
from backstory.transcripts.model import Data, ImportReport, SourceSession

VERSION = "2.1.237"  # the version whose format is written
MODEL = "claude-sonnet-4-5"  # if the log does not name the model
# Claude Code's sessions are uuids without a prefix.
IFLOW_SESSION = re.compile(r"session-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
UNDERSTOOD = 0.9  # of the records that speak must have the shape of Claude Code's


class ClaudeCodeFormat(TranscriptFormat):
    """Claude Code: JSON lines with uuids and parents, one file for each session."""

    name = NAME
    places = (KnownPlace("CLAUDE_CONFIG_DIR", "projects", "~/.claude/projects"),)
    companions = (".meta.json",)
    reads_tails = True

    def recognize(self, head: SourceHead) -> bool:
        """Return True for objects with a type, and a uuid, a parent or a session."""
        records = [record for record in head.records if isinstance(record, dict)]
        if records and "projectHash" in records[0]:
            return False  # Gemini CLI, whose messages may name their session
        if has_iflow_sessions(records):
            return False
        if not any(is_record(record) for record in records):
            # A first record that is too long for a head, such as one with an image.
            return "parentUuid" in head.keys and bool(
                head.keys & {"uuid", "isSidechain", "sessionId"}
            )
        speaking = [record for record in records if is_one_of(record.get("type"), SPEAKERS)]
        understood = sum(is_understood(record) for record in speaking)
        return understood >= UNDERSTOOD * len(speaking)

    def group_key(self, path: str) -> str:
        """Return the folder of the project: sub-agents belong to a session in it."""
        return find_project(path)

    def read(
        self, sources: Sequence[TranscriptSource], report: ImportReport
    ) -> Iterator[SourceSession]:
        """Yield the sessions that changed, with the sub-agents that changed."""
        return read_sessions(sources)

    def write(self, history: ExportedHistory) -> ExportedFile:
        """Return the file of a session, and its path in the folder of Claude Code."""
        lines: list[Data] = []
        positions: dict[int, Sequence[int]] = {}
        last: dict[int | None, str | None] = {None: None}  # the last line of each message
        for message in history.list_branches("anthropic"):
            parent = last[message.parent]
            for record, own_positions in write_records(history, message):
                lines.append({"parentUuid": parent} | record)
                positions[len(lines) + 1] = own_positions
                parent = record["uuid"]
            last[message.number] = parent
        title = {"type": "custom-title", "customTitle": history.title}
        title["sessionId"] = history.session
        first = title | {"backstory": history.record_positions(positions)}
        text = "".join(f"{to_json(record)}\n" for record in [first, *lines])
        folder = re.sub(r"[^A-Za-z0-9]", "-", history.cwd)
        return ExportedFile(text, Path("projects", folder, f"{history.session}.jsonl"))


def is_record(record: Data) -> bool:
    """Return True if a record can only be one of Claude Code's."""
    type_ = record.get("type")
    if not isinstance(type_, str) or "payload" in record:
        return False
    if "parentUuid" in record or "sessionId" in record:
        return True
    if type_ in BOOKKEEPING:
        return "messageId" in record or "leafUuid" in record
    # Without ids, as other programs write them.
    return type_ in SPEAKERS and isinstance(get_content(record), str | list)


def has_iflow_sessions(records: Sequence[Data]) -> bool:
    """Return True if the sessions have iFlow's ids. Its records are otherwise like Claude Code's,
    but its answers continue the prompt, not the result, so they cannot be read as a tree."""
    sessions = [get_text(record, "sessionId") for record in records]
    named = [session for session in sessions if session is not None]
    return bool(named) and all(map(IFLOW_SESSION.fullmatch, named))


def write_records(
    history: ExportedHistory, message: ExportedMessage
) -> Iterator[tuple[Data, list[int]]]:
    """Yield the lines of a message without their parents, and the positions of each."""
    common: Data = {
        "isSidechain": False,
        "userType": "external",
        "cwd": history.cwd,
        "sessionId": history.session,
        "version": VERSION,
        "timestamp": write_time(message.time),
    }
    if message.role == "model":
        positions = find_block_positions(message)
        for number, (block, own) in enumerate(zip(message.form, positions, strict=True)):
            uuid, body = history.get_id(message, number), write_answer(message, block)
            yield common | {"type": "assistant", "uuid": uuid, "message": body}, own
        return
    content = message.form
    if message.role == "user" and len(content) == 1 and set(content[0]) == {"type", "text"}:
        content = content[0]["text"]
    body = {"role": "user", "content": content}
    record: Data = {"type": "user", "uuid": history.get_id(message), "message": body}
    if message.data.get("meta"):
        record["isMeta"] = True
    yield common | record, message.positions


def find_block_positions(message: ExportedMessage) -> list[list[int]]:
    """Return the positions of the events of each block of an answer: a text or a call is one."""
    calls = message.call_positions
    texts = [one for one in message.positions if one not in calls.values()]
    found = []
    for block in message.form:
        own = []
        if block.get("type") == "tool_use" and block["id"] in calls:
            own = [calls[block["id"]]]
        elif block.get("type") == "text":
            own, texts = texts[:1], texts[1:]
        found.append(own)
    return found


def write_answer(message: ExportedMessage, block: Data) -> Data:
    """Return the message of a line: one block, with id, model and usage of the whole answer."""
    data = message.data
    model = str(data.get("model") or MODEL)
    # Claude Code takes the newest usage as the size of the context. The usage of a copied answer
    # belongs to an abandoned context, and other providers count cached tokens as input, too.
    usage = {} if "copy_of" in data else as_object(data.get("usage"))
    if not model.startswith("claude"):
        usage = {name: usage.get(name) for name in ("input", "output")}
    return {
        "id": data.get("answer") or f"msg_{message.number:024d}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [block],
        "stop_reason": "tool_use" if message.calls else "end_turn",
        "stop_sequence": None,
        "usage": {theirs: usage.get(ours) or 0 for ours, theirs in USAGE.items()},
    }
