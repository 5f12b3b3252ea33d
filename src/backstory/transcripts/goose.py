"""goose: a database of sessions, formerly JSON lines with a header. Pure.

What the agent no longer sees was compacted; what only the agent sees is the summary. One message of the user
may hold the results of several calls.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, NamedTuple

from backstory.transcripts.answers import Block, family_of, parts_of
from backstory.transcripts.chain import chained, reported
from backstory.transcripts.decode import decoded
from backstory.transcripts.entries import (
    Data,
    anthropic_message,
    as_text,
    media_block,
    microseconds,
    named,
    result_data,
    result_with,
    text_in,
)
from backstory.transcripts.format import Format, Head, Place, Source
from backstory.transcripts.transcript import Entry, Origin, Report, Session, Step, Thread
from backstory.transcripts.words import Words

NAME = "goose"
SECOND = 1_000_000


def fits(head: Head) -> bool:
    """Messages with a JSON content; a header before messages; or an exported session."""
    if "content_json" in head.tables.get("messages", ()):
        return True
    if {"working_dir", "conversation"} <= head.keys:
        return True
    first = head.records[0] if head.records else None
    if not isinstance(first, dict) or "role" in first:
        return False
    # The first headers did not name the folder.
    return "working_dir" in first or {"description", "message_count"} <= set(first)


# What is not part of the conversation: questions to the person, notices, the mark of an old compaction.
UNSPOKEN = Words(
    {"toolConfirmationRequest", "actionRequired", "systemNotification", "conversationCompacted"}
)


SPOKEN = Words(
    {"text", "image", "toolRequest", "toolResponse", "frontendToolRequest"}
    | {"thinking", "redactedThinking", "reasoning"}
)
KNOWN = Words(SPOKEN | UNSPOKEN)


class Message(NamedTuple):
    """A message, and who sees it."""

    id: str
    role: str
    content: list[Data]
    time: int | None
    agent: bool  # the agent sees it
    user: bool  # people see it


def _units(
    messages: list[Message], provider: Any, model: str | None
) -> Iterator[tuple[str, list[Entry]]]:
    """The messages in a row. Behind what the agent no longer sees, the summary of a compaction begins a run
    of what people do not see; what the agent still sees of before was kept. What it does not see without a
    summary behind it, it never saw."""
    summaries = _compactions(messages)
    last = max(summaries, default=-1)
    again = dict(_said_again(messages, summaries))
    for number, message in enumerate(messages):
        if number in summaries:
            yield message.id, _compaction(message, messages[:number], provider, model)
        elif number > last and not message.agent:
            yield message.id, _unseen(message)
        else:
            entries = _entries(message, provider, model)
            yield message.id, [entry._replace(copy_of=again.get(number)) for entry in entries]


def _said_again(messages: list[Message], summaries: set[int]) -> Iterator[tuple[int, str]]:
    """The prompt that was being answered when the context was compacted stands as a new message after the
    summary: where that is, and the message that it repeats."""
    for number in summaries:
        asked = next((m for m in reversed(messages[:number]) if _is_prompt(m)), None)
        after = next(
            (n for n in range(number + 1, len(messages)) if messages[n].role == "user"), None
        )
        if asked is None or asked.agent or after is None or not _is_prompt(messages[after]):
            continue
        before, said = messages[after - 1], messages[after]
        # A person who says the same once more needs longer than the tool.
        is_at_once = (said.time or 0) - (before.time or 0) <= SECOND and not before.user
        if is_at_once and text_in(asked.content) == text_in(said.content):
            yield after, asked.id


def _is_prompt(message: Message) -> bool:
    types = {as_text(part.get("type")) for part in message.content}
    return (
        message.role == "user" and "text" in types and not types & {"toolRequest", "toolResponse"}
    )


def _compactions(messages: list[Message]) -> set[int]:
    """The summaries at which the context begins anew. Of those that stand for single calls, only the last:
    it keeps the others."""
    found: set[int] = set()
    small: set[int] = set()
    gone = next((n for n, message in enumerate(messages) if not message.agent), len(messages))
    seen = next((n for n, message in enumerate(messages) if message.agent), len(messages))
    for number in _summaries(messages):
        if number > gone:
            found.add(number)
            before = messages[number - 1]
            if not before.agent and _has_result(before) and seen < number - 1:
                small.add(number)
    return found - (small - {max(small)}) if small else found


def _has_result(message: Message) -> bool:
    return any(part.get("type") == "toolResponse" for part in message.content)


def _summaries(messages: list[Message]) -> Iterator[int]:
    """Where summaries stand: first in a run of what people do not see. A prompt that was being answered when
    the context was compacted is hidden from everybody and stands before it; it is said again behind it."""
    start = 0
    for shown, run in groupby(messages, key=lambda message: message.user):
        told = list(run)
        if not shown:
            seen = next((n for n, message in enumerate(told) if message.agent), None)
            asked = [message.role for message in told[:2]] == ["user", "user"]
            yield start + (seen if seen is not None else int(asked))
        start += len(told)


def _compaction(
    summary: Message, before: list[Message], provider: Any, model: str | None
) -> list[Entry]:
    text = text_in(summary.content)
    clear = Entry(f"{summary.id}:clear", "clear", None, None, summary.time)
    said = Entry(summary.id, "user", text, {"compaction": True}, summary.time)
    kept = [
        entry._replace(id=f"{entry.id}@{summary.id}", copy_of=entry.id)
        for message in before
        if message.agent
        for entry in _entries(message, provider, model)
    ]
    return [clear, said, *kept]


def _unseen(message: Message) -> list[Entry]:
    """What only people see."""
    text = text_in([part for part in message.content if part.get("type") == "text"])
    return (
        [Entry(message.id, "note", "goose.message", {"text": text}, message.time)] if text else []
    )


def _entries(message: Message, provider: Any, model: str | None) -> Iterator[Entry]:
    if message.content and all(part.get("type") in UNSPOKEN for part in message.content):
        return
    if message.role == "assistant":
        yield from _answer(message, provider, model)
        return
    rest = []
    for number, part in enumerate(message.content):
        if part.get("type") == "toolResponse":
            yield _result(part, f"{message.id}:{number}", message.time)
        elif part.get("type") in ("text", "image"):
            rest.append(part)
    if rest or not _has_result(message):
        text, native = anthropic_message([_block(part) for part in rest])
        data = dict(native or {}) | ({"meta": "tool"} if message.agent and not message.user else {})
        yield Entry(
            message.id,
            "system" if message.role == "system" else "user",
            text,
            data or None,
            message.time,
        )


def _block(part: Data) -> Data:
    if part.get("type") == "image":
        source = {
            "type": "base64",
            "media_type": part.get("mimeType"),
            "data": as_text(part.get("data")),
        }
        return {"type": "image", "source": source}
    return {"type": "text", "text": as_text(part.get("text"))}


def _answer(message: Message, provider: Any, model: str | None) -> Iterator[Entry]:
    blocks = [block for part in message.content if (block := _answer_block(part)) is not None]
    extra: Data = {} if model is None else {"model": model}
    for part in parts_of(family_of(provider, model), blocks, model, message.id):
        data = (part.data or {}) | extra | {"answer": message.id}
        yield Entry(f"{message.id}:{part.block}", part.kind, part.content, data, message.time)
        extra = {}


def _answer_block(part: Data) -> Block | None:
    match part.get("type"):
        case "text":
            return Block("text", as_text(part.get("text")))
        case "thinking" | "reasoning":
            text = part.get("thinking") or part.get("reasoning") or part.get("text")
            return Block("thinking", as_text(text or ""), seal=part.get("signature"))
        case "redactedThinking":
            return Block("thinking", seal=part.get("data"), hidden=True)
        case "toolRequest" | "frontendToolRequest":
            call = part.get("toolCall")
            value = call.get("value") if isinstance(call, dict) else None
            value = value if isinstance(value, dict) else {}
            return Block(
                "call", id=part.get("id"), name=value.get("name"), arguments=value.get("arguments")
            )
    return None


def _result(part: Data, id: str, time: int | None) -> Entry:
    result = part.get("toolResult")
    result = result if isinstance(result, dict) else {}
    value = result.get("value")
    failed = result.get("status") == "error"
    if isinstance(value, dict):
        failed = failed or value.get("isError") is True
        value = value.get("content")
    pieces = (
        value if isinstance(value, list) else [value if value is not None else result.get("error")]
    )
    media, words = [], []
    for piece in [piece for piece in pieces if _is_for_model(piece)] or pieces:
        given = piece if isinstance(piece, dict) else {}
        inside = given["resource"] if isinstance(given.get("resource"), dict) else given
        block = media_block(inside.get("mimeType"), inside.get("data") or inside.get("blob"))
        if block is None:
            words.append(text_in(inside) if given else as_text(piece))
        else:
            media.append(block)
    data = result_data(part.get("id"), id, error=failed)
    return Entry(id, "tool_result", *result_with("\n".join(words), data, media), time)


def _is_for_model(piece: Any) -> bool:
    """Whether the model is shown a piece of a result: many tools say the same once more for the person."""
    notes = piece.get("annotations") if isinstance(piece, dict) else None
    audience = notes.get("audience") if isinstance(notes, dict) else None
    return not isinstance(audience, list) or "assistant" in audience


# ------------------------------------------------------------------ three readers


def _message(id: str, role: Any, content: Any, created: Any, metadata: Any) -> Message:
    parts = (
        [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    )
    seen = metadata if isinstance(metadata, dict) else {}
    return Message(
        id,
        as_text(role),
        parts,
        microseconds(created),
        seen.get("agentVisible") is not False,
        seen.get("userVisible") is not False,
    )


def _from_database(source: Source, session: str, report: Report) -> list[Message]:
    columns = source.columns()["messages"]
    metadata = "metadata_json" if "metadata_json" in columns else "null"
    own = "message_id" if "message_id" in columns else "null"
    query = f"select id, {own}, role, content_json, created_timestamp, {metadata} from messages"
    found = []
    for row, id, role, content, created, seen in source.rows(
        f"{query} where session_id = ? order by created_timestamp, id", (session,)
    ):
        parts = decoded(content, source.path, report)
        if parts is None:
            continue
        # The id that goose itself gives to a message from before there were any.
        name = named(id, f"msg_{session}_{row}")
        found.append(
            _message(
                name, role, parts, created, decoded(seen, source.path, report) if seen else None
            )
        )
    return found


def _from_lines(source: Source, session: str, report: Report) -> list[Message]:
    return _from_records(
        ((line, value) for line, _, value, _ in source.lines(report)), session, report
    )


def _from_export(source: Source, session: str, report: Report) -> list[Message]:
    return _from_records(enumerate(_exported(source, report)["conversation"], 1), session, report)


def _from_records(
    records: Iterable[tuple[int, Any]], session: str, report: Report
) -> list[Message]:
    found = []
    before: Data = {}
    for number, record in records:
        if isinstance(record, dict) and "role" in record:
            if record == before and ("id" in record or "created" in record):
                report.mended["line written again"] += 1
                continue
            before = record
            name = named(record.get("id"), f"{session}:{number}")
            given = (
                record.get("role"),
                record.get("content"),
                record.get("created"),
                record.get("metadata"),
            )
            found.append(_message(name, *given))
    return found


def _exported(source: Source, report: Report) -> Data:
    """A session as `goose session export` writes it."""
    document = source.document(report)
    document = document if isinstance(document, dict) else {}
    return (
        document
        if isinstance(document.get("conversation"), list)
        else document | {"conversation": []}
    )


ABOUT = ("name", "description", "working_dir", "provider_name", "model_config_json", "session_type")


def sessions(sources: Iterable[Source]) -> Iterator[Session]:
    """All sessions of a database, sub-agents after the others, or the one of a file. Old files stay where
    they are when goose moves their sessions into its database, where their messages get ids."""
    given = list(sources)
    bases = [source for source in given if "messages" in source.columns()]
    moved: Counter[str] = Counter()
    for source in bases:
        yield from _in_database(source, source.columns())
        moved.update(as_text(id) for (id,) in source.rows("select session_id from messages"))
    for source in given:
        if source not in bases:
            yield from _in_file(source, moved)


def _in_database(source: Source, tables: Mapping[str, set[str]]) -> Iterator[Session]:
    names = [name for name in ABOUT if name in tables.get("sessions", ())]
    found = list(source.rows(f"select {', '.join(('id', *names))} from sessions order by id"))
    origins = _origins(source)
    for id, *values in sorted(found, key=lambda row: as_text(row[0]) in origins):
        about = dict(zip(names, values, strict=True))
        yield _session(source, as_text(id), about, _from_database, origins.get(as_text(id)))


def _in_file(source: Source, moved: Counter[str]) -> Iterator[Session]:
    header = next((r for r in source.peek()[:1] if isinstance(r, dict)), None)
    reader = _from_lines
    if header is None or "conversation" in header:
        header, reader = _exported(source, Report()), _from_export
    id = named(header.get("id"), source.stem)
    if id not in moved or moved[id] < len(reader(source, id, Report())):
        yield _session(source, id, header, reader)


SUBAGENT = "subagent_session_id"


def _origins(source: Source) -> dict[str, Origin]:
    """Where sub-agents were called: the result of the call names their session. Results that are fetched
    later name it, too; the first counts."""
    found: dict[str, Origin] = {}
    query = "select session_id, content_json from messages where content_json like ? order by id"
    for session, content in source.rows(query, (f"%{SUBAGENT}%",)):
        parts = decoded(content, source.path, Report())
        for part in parts if isinstance(parts, list) else ():
            match part:
                case {
                    "id": str(call),
                    "toolResult": {"value": {"_meta": {"subagent_session_id": str(child)}}},
                }:
                    if child != session:
                        found.setdefault(child, Origin(as_text(session), call=call, spawned=True))
    return found


def _session(
    source: Source, id: str, header: Data, reader: Any, origin: Origin | None = None
) -> Session:
    report = Report()

    config = decoded(header.get("model_config_json") or "{}", source.path, report)
    model = (
        config.get("model_name") if isinstance(config, dict) else None
    )  # the newest: it may have changed

    def read(met: Report) -> Iterator[Step]:
        messages = reader(source, id, met)
        types = (as_text(part.get("type")) for message in messages for part in message.content)
        met.unknown.update(
            f"content {type_[:40]} ({NAME})" for type_ in types if type_ not in KNOWN
        )
        return chained(_units(messages, header.get("provider_name"), None))

    # The call that it belongs to is written when it has a result: until then, nobody knows whose it is.
    is_lost = header.get("session_type") == "sub_agent" and origin is None
    title = header.get("name") or header.get("description")
    found = {"title": title, "cwd": header.get("working_dir"), "model": model}
    about = {key: value for key, value in found.items() if isinstance(value, str) and value}
    thread = Thread(id, None, reported(report, read), origin, about)
    return Session(NAME, id, [thread], source.path, report, settled=not is_lost)


FORMAT = Format(
    name=NAME,
    fits=fits,
    sessions=sessions,
    places=(
        Place("XDG_DATA_HOME", "goose/sessions", "~/.local/share/goose/sessions"),
        Place(None, "sessions", "~/Library/Application Support/Block/goose/sessions"),
    ),
)
