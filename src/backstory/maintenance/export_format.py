"""The export format: the lines of an export, as they are written and as they are read.

The format is a contract: docs/export-format.md.
"""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from backstory.errors import Invalid, InvalidEvent
from backstory.log.events import StoredRow, parse_object, to_json
from backstory.log.json_text import escape_unseen
from backstory.log.problems import is_time
from backstory.storage.protocol import AgentRecord, SourceRecord

FORMAT = "backstory-export"
# Version 2 had no salts, and version 1 no keys and digests, either. Both are read.
VERSION = 3

AGENT_FIELDS = ("id", "session", "name", "parent", "fork_seq", "born_seq", "spawned", "created_us")
SINCE_VERSION_2 = ("key", "about")  # of agents; None in a version 1 export


class Transfer(NamedTuple):
    """The numbers of sessions, agents and events that an export wrote, or that an import added."""

    sessions: int
    agents: int
    events: int


# --- writing ---


def build_header() -> dict[str, Any]:
    """Return the value of the first line."""
    return {"format": FORMAT, "version": VERSION}


def build_agent_fields(agent: AgentRecord) -> dict[str, Any]:
    """Return the fields of an agent."""
    fields = {name: getattr(agent, name) for name in (*AGENT_FIELDS, *SINCE_VERSION_2)}
    if agent.deleted_us is not None:
        fields["deleted_us"] = agent.deleted_us
    return fields


def build_event_fields(row: StoredRow) -> dict[str, Any]:
    """Return the fields of an event."""
    fields = {
        "seq": row.seq,
        "kind": row.kind,
        "content": row.content,
        **_build_data_field(row.data_json),
        "created_us": row.created_us,
        "base": row.base,
    }
    if row.key is not None:
        fields["key"] = row.key
    fields["digest"] = row.digest.hex()
    if row.salt is not None:
        fields["salt"] = row.salt.hex()
    return fields


def _build_data_field(text: str | None) -> dict[str, Any]:
    """Return the field with an event's data: an object, if that gives back the exact text."""
    data = parse_object(text)
    if text is None or (data is not None and _is_written_as(data, text)):
        return {"data": data}
    return {"data_text": text}


def _is_written_as(data: dict[str, Any], text: str) -> bool:
    try:
        return to_json(data) == text
    except (ValueError, RecursionError):
        return False


def build_source_fields(source: SourceRecord) -> list[str | None]:
    """Return a source as a list."""
    return [source.tool, source.id, source.cursor]


def format_line(value: Any) -> str:
    """Return a JSON value as a line. Only characters that could control a terminal are escaped."""
    return escape_unseen(to_json(value)) + "\n"


# --- reading ---


def check_header(line: str | bytes) -> int:
    """Return the version of the format that the first line names. Raises Invalid."""
    try:
        header = json.loads(line)
        is_export = header.get("format") == FORMAT
    except (ValueError, AttributeError, TypeError, RecursionError):
        is_export = False
    if not is_export:
        raise Invalid("this is not an export of backstory: its first line does not name the format")
    version = header.get("version")
    if version not in range(1, VERSION + 1):
        raise Invalid(
            f"the export has version {version!r} of the format, and this backstory knows "
            f"up to {VERSION}",
            remedy="upgrade backstory",
        )
    return int(version)


def parse_agent(fields: Mapping[str, Any]) -> AgentRecord:
    """Return the agent of a line, without a backend's key. Raises Invalid if a number is none, and
    KeyError if a field is missing."""
    values = {name: fields[name] for name in AGENT_FIELDS}
    for name in SINCE_VERSION_2:
        values[name] = fields.get(name)
    numbers = (values["fork_seq"], values["born_seq"], values["created_us"])
    if not all(map(_is_whole_number, numbers)) or not isinstance(values["spawned"], bool):
        raise Invalid(
            "fork_seq, born_seq and created_us must be whole numbers, and spawned true or false"
        )
    # It may be before `created_us`, which may have been a time in the future.
    deleted_us = fields.get("deleted_us")
    if deleted_us is not None and not is_time(deleted_us):
        raise Invalid("the time of its deletion is not between 1970 and 9999")
    return AgentRecord(
        pk=None,
        head=values["fork_seq"],
        updated_us=values["created_us"],
        deleted_us=deleted_us,
        **values,
    )


def parse_event(fields: Mapping[str, Any]) -> StoredRow:
    """Return the row of an event; without a digest, if the line has none. Raises InvalidEvent if a
    number is none, and KeyError if a field is missing."""
    base = fields["base"]
    for number in (fields["seq"], fields["created_us"], 0 if base is None else base):
        if not _is_whole_number(number):
            raise InvalidEvent("seq, created_us and base must be whole numbers")
    if "data_text" in fields:
        data_json = fields["data_text"]
    else:
        data_json = None if fields["data"] is None else to_json(fields["data"])
    return StoredRow(
        seq=fields["seq"],
        kind=fields["kind"],
        content=fields["content"],
        data_json=data_json,
        created_us=fields["created_us"],
        key=fields.get("key"),
        base=base,
        digest=bytes.fromhex(fields.get("digest") or ""),
        salt=bytes.fromhex(fields["salt"]) if "salt" in fields else None,
    )


def parse_source(fields: Any, agent: str | None) -> SourceRecord:
    """Return the source of a line, or one of an agent's sources."""
    match fields:
        case [str(tool), str(id), None | str() as cursor]:
            (tool + id + (cursor or "")).encode()  # raises ValueError for a lone surrogate
            return SourceRecord(tool, id, agent, cursor)
    raise Invalid("a source is a list of a tool, an id and a cursor, which may be null")


def _is_whole_number(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63
