"""Export and import: whole sessions as JSON lines, without loss, between any two stores.

The format is a contract: docs/export-format.md. An export reads a page at a time. An import checks every line
against the rules of the log and writes everything or nothing. What the store already has must be the same;
the rest is added.
"""

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from backstory.errors import Busy, Corrupt, Invalid, InvalidEvent, Remedy
from backstory.log.events import Stored, to_json
from backstory.log.kinds import SPOKEN
from backstory.log.terms import harmless
from backstory.maintenance.export_loader import (
    AGENT_FIELDS,
    PAGE,
    SINCE_VERSION_2,
    ExportLoader,
    Transfer,
)
from backstory.maintenance.verify import parents_first
from backstory.storage.protocols import (
    AgentRecord,
    Agents,
    Intakes,
    Sources,
    StoredRows,
    Wanted,
)

FORMAT = "backstory-export"
SPOOL = 16_000_000  # bytes of an import that are kept in memory while it is read
VERSION = 2  # version 1, which had no keys and digests, is read too


class Writable(Protocol):
    """A text file, or anything else with a `write` method."""

    def write(self, text: str, /) -> object:
        """Take some text."""


class Exportable(Agents, StoredRows, Sources, Protocol):
    """What can be exported: agents, their rows and their sources."""


# --- out ---


def export(backend: Exportable, file: Writable, sessions: Sequence[str] | None = None) -> Transfer:
    """Write sessions (None: all) as of one moment. The agents and their heads are read at once, and what
    comes before a head does not change, so the export is a snapshot. If the text of events is damaged,
    Corrupt is raised when everything else is written: what the file has then can be read, not imported."""
    records = [
        r for r in backend.agents(Wanted(deleted=True)) if sessions is None or r.session in sessions
    ]
    needed = {record.parent for record in records}
    records = [record for record in records if record.deleted_us is None or record.id in needed]
    records.sort(key=lambda record: (record.session, record.id))
    ordered = parents_first({record.id: record for record in records})
    file.write(line({"format": FORMAT, "version": VERSION}))
    events = 0
    damaged: list[tuple[str, int]] = []
    sources = _sources(backend)
    for record in ordered:
        fields = {field: getattr(record, field) for field in (*AGENT_FIELDS, *SINCE_VERSION_2)}
        fields |= {} if record.deleted_us is None else {"deleted_us": record.deleted_us}
        came_from = {"sources": sources[record.id]} if record.id in sources else {}
        file.write(line({"agent": fields | came_from}))
        for page in _pages(backend, record):
            damaged.extend((record.name, row.seq) for row in page if _is_damaged(row))
            file.write("".join(_event_line(row) for row in page if not _is_damaged(row)))
            events += len(page)
    if damaged:
        raise _damage(damaged)
    written = Transfer(len({record.session for record in records}), len(records), events)
    if sessions is None:  # a store with only some of the sessions has not read these files
        file.write("".join(line({"source": source}) for source in sources.get(None, ())))
    file.write(line({"end": written._asdict()}))
    return written


def _sources(backend: Exportable) -> dict[str | None, list[list[str | None]]]:
    """The sources of each agent, as [tool, id, cursor]; under None, those that did not become an agent."""
    found: dict[str | None, list[list[str | None]]] = {}
    for tool, id, agent, cursor in backend.sources():
        found.setdefault(agent, []).append([tool, id, cursor])
    return found


def _pages(backend: Exportable, record: AgentRecord) -> Iterator[list[Stored]]:
    after = record.fork_seq
    while after < record.head and (page := backend.stored(record, after, PAGE)):
        if page[0].seq != after + 1:
            _check_kept(backend, record)
        after = page[-1].seq
        yield [row for row in page if row.seq <= record.head]
    if after < record.head:
        _check_kept(backend, record)


def _check_kept(backend: Exportable, record: AgentRecord) -> None:
    """Refuse to go on if events are missing because they were deleted since the agents were read. In a
    damaged store, where nobody deleted anything, what is left is exported."""
    found = backend.agents(Wanted(prefix=record.id, deleted=True))
    if not found or found[0].deleted_us is not None:
        raise Busy(
            f"agent {record.name!r} was deleted while it was exported", remedy="export again"
        )


def _is_damaged(row: Stored) -> bool:
    """Whether a message has neither a text nor data: its frame cannot be unpacked."""
    return row.content is None and row.data_json is None and row.kind in SPOKEN


def _damage(found: list[tuple[str, int]]) -> Corrupt:
    (name, seq), more = found[0], len(found) - 1
    others = f", and {more:,} more" if more else ""
    return Corrupt(
        f"the export cannot be completed, because event {seq} of agent {name!r} is damaged{others}",
        remedy=Remedy(
            "{} shows everything that is; restore a backup, or export other sessions", "verify"
        ),
    )


def _event_line(row: Stored) -> str:
    seq, kind, content, data, created_us, key, base, link = row
    event: dict[str, Any] = {"seq": seq, "kind": kind, "content": content}
    event |= _data_field(data)
    event |= {"created_us": created_us, "base": base}
    event |= {} if key is None else {"key": key}
    return line({"event": event | {"digest": link.hex()}})


def _data_field(text: str | None) -> dict[str, Any]:
    """Data as an object, if that gives back the exact text; otherwise the text itself."""
    if text is None:
        return {"data": None}
    try:
        value = json.loads(text)
        same = isinstance(value, dict) and to_json(value) == text
    except (ValueError, RecursionError):
        same = False
    return {"data": value} if same else {"data_text": text}


def line(value: Any) -> str:
    """A line of the export. Only what could control a terminal is escaped."""
    return harmless(to_json(value)) + "\n"


# --- in ---


def import_(backend: Intakes, lines: Iterable[str | bytes]) -> Transfer:
    """Add an export, completely or not at all; what the store already has must be the same. The store is
    locked only after everything was read, so a slow stream keeps no one waiting."""
    arriving = iter(lines)
    _check_header(next(arriving, ""))
    with _spooled(arriving) as spool, backend.intake() as intake:
        loader = ExportLoader(intake)
        for number, text in enumerate(spool, 2):
            try:
                loader.take(_parsed(text))
            except (InvalidEvent, Invalid, ValueError, TypeError, KeyError) as error:
                said = f"{error} is missing" if isinstance(error, KeyError) else str(error)
                raise Invalid(
                    f"nothing was imported: line {number} of the export: {said}"
                ) from error
        loader.finish()
    return Transfer(len(loader.new_sessions), loader.new_agents, loader.new_events)


@contextmanager
def _spooled(lines: Iterable[str | bytes]) -> Iterator[Iterator[bytes]]:
    """All lines: in memory, or in a private temporary file if there are many."""
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
