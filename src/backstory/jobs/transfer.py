"""Export and import: whole sessions as JSON lines, without loss, between any two stores.

The format is a contract: docs/export-format.md. An export reads a page at a time; an import checks
every line against the rules of the log and writes all of it or nothing. Where a store has a part already,
that part must be the same, and the rest is added.
"""

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from backstory.core.events import Stored, to_json
from backstory.core.terms import harmless
from backstory.errors import Invalid, InvalidEvent
from backstory.jobs.export_loader import AGENT_FIELDS, PAGE, SINCE_VERSION_2, ExportLoader, Transfer
from backstory.jobs.verify import parents_first
from backstory.storage.protocols import (
    AgentRecord,
    Agents,
    Intakes,
    Sources,
    StoredRows,
    Wanted,
)

FORMAT = "backstory-export"
SPOOL = 16_000_000  # bytes of an import that are kept in memory until all of it is here
VERSION = 2  # version 1, which had no keys and digests, is read too


class Writable(Protocol):
    """A text file, or anything else that lines can be written to."""

    def write(self, text: str, /) -> object:
        """Take some text."""


class Exportable(Agents, StoredRows, Sources, Protocol):
    """What can be exported: agents, their rows and their sources."""


# --- out ---


def export(backend: Exportable, file: Writable, sessions: Sequence[str] | None = None) -> Transfer:
    """Write sessions (None: all) as they are at this moment. The list of agents and heads is read
    at once, and what is behind a head never changes: so the whole is of one moment, too."""
    records = [r for r in backend.agents(Wanted(deleted=True)) if sessions is None or r.session in sessions]
    needed = {record.parent for record in records}
    records = [record for record in records if record.deleted_us is None or record.id in needed]
    records.sort(key=lambda record: (record.session, record.id))
    ordered = parents_first({record.id: record for record in records})
    file.write(line({"format": FORMAT, "version": VERSION}))
    events = 0
    sources = _sources(backend)
    for record in ordered:
        fields = {field: getattr(record, field) for field in (*AGENT_FIELDS, *SINCE_VERSION_2)}
        fields |= {} if record.deleted_us is None else {"deleted_us": record.deleted_us}
        came_from = {"sources": sources[record.id]} if record.id in sources else {}
        file.write(line({"agent": fields | came_from}))
        for page in _pages(backend, record):
            file.write("".join(map(_event_line, page)))
            events += len(page)
    written = Transfer(len({record.session for record in records}), len(records), events)
    if sessions is None:  # a store that gets only some sessions has not read these files
        file.write("".join(line({"source": source}) for source in sources.get(None, ())))
    file.write(line({"end": written._asdict()}))
    return written


def _sources(backend: Exportable) -> dict[str | None, list[list[str | None]]]:
    """The sources of each agent, as [tool, id, cursor]; under None those that did not become an agent."""
    found: dict[str | None, list[list[str | None]]] = {}
    for tool, id, agent, cursor in backend.sources():
        found.setdefault(agent, []).append([tool, id, cursor])
    return found


def _pages(backend: Exportable, record: AgentRecord) -> Iterator[list[Stored]]:
    after = record.fork_seq
    while after < record.head and (page := backend.stored(record, after, PAGE)):
        after = page[-1].seq
        yield [row for row in page if row.seq <= record.head]


def _event_line(row: Stored) -> str:
    seq, kind, content, data, created_us, key, base, link = row
    event: dict[str, Any] = {"seq": seq, "kind": kind, "content": content}
    event |= _data_field(data)
    event |= {"created_us": created_us, "base": base}
    event |= {} if key is None else {"key": key}
    return line({"event": event | {"digest": link.hex()}})


def _data_field(text: str | None) -> dict[str, Any]:
    """Data as an object, if that brings back the very text; otherwise the text itself."""
    if text is None:
        return {"data": None}
    try:
        value = json.loads(text)
        same = isinstance(value, dict) and to_json(value) == text
    except (ValueError, RecursionError):
        same = False
    return {"data": value} if same else {"data_text": text}


def line(value: Any) -> str:
    """A line of the export: what could drive a terminal is escaped, all else is as it is."""
    return harmless(to_json(value)) + "\n"


# --- in ---


def import_(backend: Intakes, lines: Iterable[str | bytes]) -> Transfer:
    """Add what was exported, all of it or nothing; what is here already must be the same. The store is locked
    only when all of it has arrived: a slow stream keeps nobody waiting."""
    arriving = iter(lines)
    _check_header(next(arriving, ""))
    with _spooled(arriving) as spool, backend.intake() as intake:
        loader = ExportLoader(intake)
        for number, text in enumerate(spool, 2):
            try:
                loader.take(_parsed(text))
            except (InvalidEvent, Invalid, ValueError, TypeError, KeyError) as error:
                said = f"{error} is missing" if isinstance(error, KeyError) else str(error)
                raise Invalid(f"nothing was imported: line {number} of the export: {said}") from error
        loader.finish()
    return Transfer(len(loader.new_sessions), loader.new_agents, loader.new_events)


@contextmanager
def _spooled(lines: Iterable[str | bytes]) -> Iterator[Iterator[bytes]]:
    """The lines, read to the end: in memory, or in a private temporary file if there are many."""
    with tempfile.SpooledTemporaryFile(max_size=SPOOL) as spool:
        for text in lines:
            data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
            spool.write(data if data.endswith(b"\n") else data + b"\n")
        spool.seek(0)
        yield iter(spool)


def _check_header(text: str | bytes) -> None:
    try:
        header = json.loads(text)
        known = header.get("format") == FORMAT
    except (ValueError, AttributeError):
        known = False
    if not known:
        raise Invalid("this is not an export of backstory: its first line does not name the format")
    if header.get("version") not in range(1, VERSION + 1):
        raise Invalid(
            f"the export has version {header.get('version')!r} of the format, and this backstory knows "
            f"up to {VERSION}",
            remedy="upgrade backstory",
        )


def _parsed(text: str | bytes) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict) or len(value) != 1:
        raise Invalid("it is not an object with an agent or an event")
    return value
