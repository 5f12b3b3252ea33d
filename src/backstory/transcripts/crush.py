"""crush: a database in each project. The context begins at the summary; a child's id names its call. Pure."""

from base64 import b64decode
from collections.abc import Iterable, Iterator
from typing import Any

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
)
from backstory.transcripts.format import Format, Head, Place, Source
from backstory.transcripts.transcript import Entry, Origin, Report, Session, Step, Thread, Unit
from backstory.transcripts.words import Words

NAME = "crush"
KNOWN = Words(
    {
        "text",
        "reasoning",
        "image_url",
        "binary",
        "tool_call",
        "tool_result",
        "finish",
        "shell_command",
    }
)


def fits(head: Head) -> bool:
    """Messages with parts, and sessions with a summary."""
    return "parts" in head.tables.get("messages", ()) and "parent_session_id" in head.tables.get(
        "sessions", ()
    )


def sessions(sources: Iterable[Source]) -> Iterator[Session]:
    """All sessions, parents before their children."""
    for source in sources:
        order = "parent_session_id is not null, created_at"
        query = f"select id, parent_session_id, title from sessions order by {order}"
        for id, parent, title in list(source.rows(query)):
            yield _session(source, as_text(id), parent, title)


def _session(source: Source, id: str, parent: Any, title: Any) -> Session:
    report = Report()
    origin = None
    if isinstance(parent, str) and parent:
        # At first the id was that of the call alone.
        origin = Origin(parent, call=id.partition("$$")[2] or id, spawned=True)
    steps = reported(report, lambda met: _steps(source, id, met))
    about = {"title": title} if isinstance(title, str) and title else {}
    return Session(NAME, id, [Thread(id, None, steps, origin, about)], source.path, report)


def _steps(source: Source, session: str, report: Report) -> Iterator[Step]:
    """The messages in a row. A last answer without its end is still being written."""
    last = "select rowid, id, role, parts from messages where session_id = ?"
    last = f"{last} order by created_at desc, rowid desc"
    row, id, role, text = next(
        iter(source.rows(f"{last} limit 1", (session,))), (0, None, None, None)
    )
    id = named(id, f"{session}:{row}")
    ended = role != "assistant" or _has_end(_parts(text, source, Report()) or [])
    for step in chained(_units(source, session, report)):
        yield step._replace(settled=ended) if isinstance(step, Unit) and step.id == id else step


def _units(source: Source, session: str, report: Report) -> Iterator[tuple[str, list[Entry]]]:
    tables = source.columns()
    columns = tables["messages"]
    summary = "is_summary_message" if "is_summary_message" in columns else "0"
    provider = "provider" if "provider" in columns else "null"
    pointer = "summary_message_id" if "summary_message_id" in tables["sessions"] else "null"
    found = source.rows(f"select {pointer} from sessions where id = ?", (session,))
    chosen = next(iter(found), (None,))[0]
    there = source.rows("select 1 from messages where session_id = ? and id = ?", (session, chosen))
    is_ahead = next(iter(there), None) is not None  # the summary that counts comes still
    query = (
        f"select rowid, id, role, parts, model, {provider}, created_at, {summary} from messages"
        " where session_id = ? order by created_at, rowid"
    )
    for row, given, role, text, model, maker, created, short in source.rows(query, (session,)):
        id, parts = named(given, f"{session}:{row}"), _parts(text, source, report)
        if parts is None:
            continue
        report.unknown.update(
            f"part {type_[:40]} ({NAME})" for type_, _ in parts if type_ not in KNOWN
        )
        time = microseconds(created)
        # One that was never finished, and has no later one, began no context.
        if id == chosen or (short and _failure(parts) is None and (is_ahead or _has_end(parts))):
            is_ahead = is_ahead and id != chosen
            words = "".join(as_text(data.get("text")) for type_, data in parts if type_ == "text")
            clear = Entry(f"{id}:clear", "clear", None, None, time)
            yield id, [clear, Entry(id, "user", words, {"compaction": True}, time)]
        elif short:
            yield id, []  # no model ever reads it
        elif role == "assistant":
            yield id, list(_answer(id, parts, model, maker, time))
        elif role == "tool":
            yield (
                id,
                [
                    _result(data, f"{id}:{n}", time)
                    for n, (type_, data) in enumerate(parts)
                    if type_ == "tool_result"
                ],
            )
        else:
            yield id, [_prompt(id, as_text(role), parts, time), *_attached(id, parts, time)]


def _parts(text: Any, source: Source, report: Report) -> list[tuple[str, Data]] | None:
    """The parts of a message; None if they cannot be read."""
    value = decoded(text, source.path, report)
    if value is None:
        return None
    return [
        (as_text(one.get("type")), one["data"])
        for one in (value if isinstance(value, list) else ())
        if isinstance(one, dict) and isinstance(one.get("data"), dict)
    ]


def _prompt(id: str, role: str, parts: list[tuple[str, Data]], time: int | None) -> Entry:
    blocks: list[Data] = []
    for type_, data in parts:
        if type_ == "text":
            blocks.append({"type": "text", "text": as_text(data.get("text"))})
        elif type_ == "image_url":
            blocks.append(
                {"type": "image", "source": {"type": "url", "url": as_text(data.get("url"))}}
            )
        elif type_ == "binary":
            block = media_block(data.get("MIMEType"), data.get("Data"))
            blocks += [] if block is None else [block]
        elif type_ == "shell_command":  # as crush tells it to the model
            ran, said = as_text(data.get("command")), as_text(data.get("output"))
            shown = f"$ {ran}\n{said}\n(exit code {data.get('exit_code')})"
            blocks.append({"type": "text", "text": f"\n\n{shown}" if blocks else shown})
    text, native = anthropic_message(blocks)
    return Entry(id, "system" if role == "system" else "user", text, native, time)


def _attached(id: str, parts: list[tuple[str, Data]], time: int | None) -> Iterator[Entry]:
    """The text files that a person attached, as crush shows them to the model."""
    for number, (type_, data) in enumerate(parts):
        if type_ == "binary" and as_text(data.get("MIMEType")).startswith("text/"):
            given = as_text(data.get("Data"))
            try:
                text = b64decode(given).decode("utf-8", "replace")
            except ValueError:
                text = given
            path = as_text(data.get("Path"))
            shown = f"<file path='{path}'>" if path else "<file>"
            said = f"{shown}\n\n{text}\n</file>"
            yield Entry(f"{id}:{number}", "user", said, {"meta": "attachment"}, time)


def _seal(data: Data) -> Any:
    """What the provider of a reasoning wants to see again."""
    sealed = data.get("responses_data")
    if isinstance(sealed, dict) and isinstance(sealed.get("encrypted_content"), str):
        id = {"id": sealed["item_id"]} if isinstance(sealed.get("item_id"), str) else {}
        return id | {"encrypted_content": sealed["encrypted_content"]}
    return data.get("signature") or data.get("thought_signature") or None


def _has_end(parts: list[tuple[str, Data]]) -> bool:
    return any(type_ == "finish" for type_, _ in parts)


def _failure(parts: list[tuple[str, Data]]) -> str | None:
    """Why an answer ended early."""
    for type_, data in parts:
        if type_ == "finish" and data.get("reason") in ("error", "canceled", "content_filter"):
            return as_text(data.get("message")) or as_text(data["reason"])
    return None


def _answer(
    id: str, parts: list[tuple[str, Data]], model: Any, maker: Any, time: int | None
) -> Iterator[Entry]:
    blocks = []
    for type_, data in parts:
        if type_ == "text":
            blocks.append(Block("text", as_text(data.get("text"))))
        elif type_ == "reasoning":
            blocks.append(Block("thinking", as_text(data.get("thinking")), seal=_seal(data)))
        elif type_ == "tool_call":
            blocks.append(
                Block("call", id=data.get("id"), name=data.get("name"), arguments=data.get("input"))
            )
    name = model if isinstance(model, str) and model else None
    failure = _failure(parts)
    extra = ({} if name is None else {"model": name}) | (
        {} if failure is None else {"failure": failure}
    )
    for part in parts_of(family_of(maker, name), blocks, name, id):
        data = (part.data or {}) | extra | {"answer": id}
        yield Entry(f"{id}:{part.block}", part.kind, part.content, data, time)
        extra = {}


def _result(data: Data, id: str, time: int | None) -> Entry:
    about = result_data(data.get("tool_call_id"), id, error=data.get("is_error") is True)
    media = media_block(data.get("mime_type"), data.get("data"))
    return Entry(
        id, "tool_result", *result_with(as_text(data.get("content")), about, [media]), time
    )


FORMAT = Format(
    name=NAME,
    fits=fits,
    sessions=sessions,
    # Each project has its own: that of the folder where the command is run.
    places=(Place("PWD", ".crush/crush.db", "~/.crush/crush.db"),),
)
