"""opencode: a folder of small files, a database, or the output of its export; one mapping for all. Pure.

`revert` hides the messages from one on; the next prompt deletes them. A session with a parent is a sub-agent.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from backstory.transcripts.chain import reported
from backstory.transcripts.decode import decoded
from backstory.transcripts.entries import Data, as_text
from backstory.transcripts.format import Format, Head, Place, Source
from backstory.transcripts.opencode import parts, rows
from backstory.transcripts.opencode.parts import Message
from backstory.transcripts.transcript import (
    Entry,
    Move,
    Origin,
    Report,
    Session,
    Step,
    Thread,
    Unit,
)

NAME = "opencode"


def fits(head: Head) -> bool:
    """Its folders, its tables, or an object with an `info` of a session and `messages`."""
    if head.members & {"part", "session"} and "message" in head.members:
        return True
    if {"session", "message", "part"} <= set(head.tables):
        return True
    first = head.records[0] if head.records else None
    if isinstance(first, dict):
        info = first.get("info")
        return isinstance(info, dict) and "id" in info and isinstance(first.get("messages"), list)
    return {"info", "messages"} <= head.keys or (
        "info" in head.keys and '"ses_' in head.text[:2000]
    )


class Info(NamedTuple):
    """A session, and how its messages are to be had."""

    id: str
    data: Data  # title, directory, parentID, revert, version
    messages: Callable[[Report], list[Message]]


# ------------------------------------------------------------------ three readers


def _infos(source: Source, report: Report) -> Iterator[Info]:
    tables = source.columns()
    if "message" in tables:
        yield from _from_database(source, tables, report)
    elif source.is_folder:
        yield from _from_folder(source, report)
    else:
        yield from _from_document(source, report)


def _from_document(source: Source, report: Report) -> Iterator[Info]:
    document = source.document(report)
    if not isinstance(document, dict) or not isinstance(document.get("info"), dict):
        return
    info = document["info"]

    def messages(met: Report) -> list[Message]:
        whole = source.document(met)
        given = whole.get("messages") if isinstance(whole, dict) else None
        return [
            _message(one["info"], one.get("parts"))
            for one in (given if isinstance(given, list) else ())
            if isinstance(one, dict) and isinstance(one.get("info"), dict)
        ]

    yield Info(as_text(info.get("id")) or source.stem, info, messages)


def _from_folder(source: Source, report: Report) -> Iterator[Info]:
    """Sessions, messages and parts in folders of their names. Before 0.4 the sessions stood in `info`, and
    parts below their session."""
    sessions = [*source.files("session", report), *source.files("info", report)]
    for path, info in sessions:
        if not isinstance(info, dict):
            continue
        id = as_text(info.get("id")) or path.rsplit("/", 1)[-1].removesuffix(".json")

        def messages(met: Report, id: str = id) -> list[Message]:
            found = []
            for name, data in source.files(f"message/{id}", met):
                if isinstance(data, dict):
                    message = as_text(data.get("id")) or name.rsplit("/", 1)[-1].removesuffix(
                        ".json"
                    )
                    places = (f"part/{message}", f"part/{id}/{message}")
                    inside = [part for place in places for _, part in source.files(place, met)]
                    found.append(_message(data | {"id": message}, inside))
            return found

        yield Info(id, info, messages)


def _from_database(source: Source, tables: Any, report: Report) -> Iterator[Info]:
    columns = tables.get("session", ())
    names = [
        name for name in ("parent_id", "directory", "title", "version", "revert") if name in columns
    ]
    query = f"select {', '.join(('id', *names))} from session order by id"
    for id, *values in list(source.rows(query)):
        data: Data = dict(zip(names, values, strict=True))
        data["parentID"] = data.pop("parent_id", None)
        data["revert"] = (
            decoded(data["revert"], source.path, report) if data.get("revert") else None
        )
        newer = "seq" in tables.get(rows.TABLE, ())

        def messages(met: Report, id: str = id, newer: bool = newer) -> list[Message]:
            found = _from_messages(source, id, met)
            others = _from_rows(source, id, met) if newer else []
            if not found:
                return others
            own = [row for row in others if not rows.is_mirror(row, found)]
            newest = max(parts.created(message) or 0 for message in found)
            later = [row for row in own if (parts.created(row) or 0) > newest]
            if lost := len(own) - len(later):
                met.unknown[f"{rows.TABLE} beside message ({NAME})"] += lost
            return found + later  # a session that the second server went on with

        yield Info(as_text(id), data, messages)


def _from_messages(source: Source, id: str, report: Report) -> list[Message]:
    inside: dict[str, list[Data]] = {}
    query = "select id, message_id, data from part where session_id = ? order by id"
    for part, message, text in source.rows(query, (id,)):
        value = decoded(text, source.path, report)
        if isinstance(value, dict):
            inside.setdefault(message, []).append(value | {"id": part})
    found = []
    for message, text in source.rows("select id, data from message where session_id = ?", (id,)):
        value = decoded(text, source.path, report)
        if isinstance(value, dict):
            found.append(_message(value | {"id": message}, inside.get(message, [])))
    return found


def _from_rows(source: Source, id: str, report: Report) -> list[Message]:
    query = f"select id, type, seq, data from {rows.TABLE} where session_id = ? order by seq"
    found = []
    for row, type_, seq, text in source.rows(query, (id,)):
        value = decoded(text, source.path, report)
        if isinstance(value, dict):
            message = rows.message_of(as_text(row), type_, seq, value, report)
            found += [] if message is None else [message]
    return found


def _message(info: Data, inside: Any) -> Message:
    found = [part for part in inside if isinstance(part, dict)] if isinstance(inside, list) else []
    found.sort(key=lambda part: as_text(part.get("id")))
    id = as_text(info.get("id"))
    tidy = [part if part.get("id") else part | {"id": f"{id}:{n}"} for n, part in enumerate(found)]
    return Message(id, info, tidy)


# ------------------------------------------------------------------ one mapping


def _steps(info: Info, report: Report) -> Iterator[Step]:
    messages = sorted(info.messages(report), key=parts.order)
    revert = info.data.get("revert")
    revert = revert if isinstance(revert, dict) else {}
    at: str | None = None
    back: tuple[str | None] | None = None
    for number, message in enumerate(messages):
        report.unknown.update(f"part {type_} ({NAME})" for type_ in parts.unknown(message))
        hidden = message.id == revert.get("messageID")
        if "seq" in message.info:  # here the message itself stays
            hidden = number > 0 and messages[number - 1].id == revert.get("messageID")
        if hidden and not revert.get("partID"):
            back = (at,)
        before = messages[:number] if parts.is_summary(message) else []
        for unit in _units(message, at, before, revert if hidden else {}):
            if hidden and back is None and unit.id != message.id:
                back = (at,)
            yield unit._replace(settled=parts.is_settled(message) or number + 1 < len(messages))
            at = unit.id
    if back is not None and back[0] != at:
        yield Move(back[0])


def _units(message: Message, at: str | None, before: list[Message], revert: Data) -> Iterator[Unit]:
    """The unit of a message; two if a part of it was taken back."""
    if parts.is_summary(message):
        clear = Entry(f"{message.id}:clear", "clear", None, None, parts.created(message))
        yield Unit(message.id, at, (clear, *_said(message), *_kept(message, before)))
        return
    cut = revert.get("partID")
    kept = [
        part for part in message.parts if not isinstance(cut, str) or as_text(part.get("id")) < cut
    ]
    if kept or not message.parts:
        yield Unit(message.id, at, tuple(parts.entries(message._replace(parts=kept))))
        at = message.id
    rest = message.parts[len(kept) :]
    if rest:
        yield Unit(f"{message.id}/{cut}", at, tuple(parts.entries(message._replace(parts=rest))))


def _kept(summary: Message, before: list[Message]) -> Iterator[Entry]:
    """What a compaction keeps of the messages before it, if it says from where on."""
    asked = next((m for m in before if m.id == summary.info.get("parentID")), None)
    first = (
        next((p.get("tail_start_id") for p in asked.parts if p.get("type") == "compaction"), None)
        if asked
        else None
    )
    ids = [message.id for message in before]
    if asked is None or first not in ids:
        return
    for message in before[ids.index(first) : ids.index(asked.id)]:
        for entry in _said(message):
            yield entry._replace(id=f"{entry.id}@{summary.id}", copy_of=entry.id)


def _said(message: Message) -> Iterator[Entry]:
    """What a message says; an earlier summary is one of those that a compaction may keep."""
    if parts.is_summary(message):
        yield Entry(
            message.id, "user", parts.words(message), {"compaction": True}, parts.created(message)
        )
    else:
        yield from parts.entries(message)


def sessions(sources: Iterable[Source]) -> Iterator[Session]:
    """All sessions, parents before their sub-agents. One that is in several places is taken from where it
    went furthest: the folder stays behind when its sessions are moved into the database."""
    found: dict[str, tuple[Info, Source, Report]] = {}
    for source in sources:
        report = Report()
        for info in _infos(source, report):
            own = Report()
            own.add(report)
            if info.id not in found or _newest(info) >= _newest(found[info.id][0]):
                found[info.id] = (info, source, own)
            report = Report()
    told: set[str] = set()
    for id in found:
        way = [id]
        while (
            (above := as_text(found[way[-1]][0].data.get("parentID"))) in found
            and above not in told
            and above not in way
        ):
            way.append(above)
        for one in reversed(way):
            if one not in told:
                told.add(one)
                yield _session(*found[one], found)


def _newest(info: Info) -> tuple[int, int]:
    messages = info.messages(Report())
    return max((parts.created(message) or 0 for message in messages), default=0), len(messages)


def _session(
    info: Info, source: Source, report: Report, found: dict[str, tuple[Info, Source, Report]]
) -> Session:
    parent = info.data.get("parentID")
    origin = None
    if isinstance(parent, str) and parent:
        call = _call(found[parent][0], info.id) if parent in found else None
        origin = Origin(parent, call=call, spawned=True)
    names = {"title": "title", "cwd": "directory", "version": "version"}
    about = {
        ours: info.data[theirs]
        for ours, theirs in names.items()
        if isinstance(info.data.get(theirs), str)
    }
    steps = reported(report, lambda met: _steps(info, met))
    return Session(
        NAME, info.id, [Thread(info.id, None, steps, origin, about)], source.path, report
    )


def _call(parent: Info, child: str) -> str | None:
    """The call of a sub-agent: the task part whose metadata names its session."""
    for message in parent.messages(Report()):
        for part in message.parts:
            state = part.get("state")
            metadata = state.get("metadata") if isinstance(state, dict) else None
            if isinstance(metadata, dict) and child in (
                metadata.get("sessionId"),
                metadata.get("sessionID"),
            ):
                return as_text(part.get("callID")) or None
    return None


FORMAT = Format(
    name=NAME,
    fits=fits,
    sessions=sessions,
    places=(Place("XDG_DATA_HOME", "opencode", "~/.local/share/opencode"),),
)
