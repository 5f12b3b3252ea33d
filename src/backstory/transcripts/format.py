"""The formats: what each one does for the rest, and how they are found. Pure.

A format reads the records of sources and yields sessions. The files, zips and databases behind a
source are opened elsewhere (`sources.py`), once for all formats.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from backstory.errors import Invalid
from backstory.log.times import to_datetime
from backstory.transcripts.model import (
    Data,
    ExportedPositions,
    ImportReport,
    Origin,
    SourceSession,
    SourceTail,
    Step,
    Thread,
)

ENTRY_POINTS = "backstory.transcripts"
# The order is that in which they are asked whether a source is theirs.
BUILT_IN = {
    "claude-code": "backstory.transcripts.claude_code:ClaudeCodeFormat",
    "codex": "backstory.transcripts.codex:CodexFormat",
    "pi": "backstory.transcripts.pi:PiFormat",
    "gemini": "backstory.transcripts.gemini:GeminiCliFormat",
    "opencode": "backstory.transcripts.opencode:OpencodeFormat",
    "llm": "backstory.transcripts.llm:LlmFormat",
    "goose": "backstory.transcripts.goose:GooseFormat",
    "crush": "backstory.transcripts.crush:CrushFormat",
    "aider": "backstory.transcripts.aider:AiderFormat",
    "chatgpt": "backstory.transcripts.chatgpt:ChatGptFormat",
    "claude-ai": "backstory.transcripts.claude_ai:ClaudeAiFormat",
    "atif": "backstory.transcripts.atif:AtifFormat",
    "swe-agent": "backstory.transcripts.swe_agent:SweAgentFormat",
    "openai-chat": "backstory.transcripts.openai_chat:OpenAIChatFormat",
}


class SourceLine(NamedTuple):
    """A record of a source of JSON lines."""

    number: int  # of its line, from 1; records in one line have the same number
    value: Any
    place: Any  # for `TranscriptSource.fetch`


class TranscriptSource(Protocol):
    """A file, a folder or a database, as a reader sees it."""

    path: str  # with slashes: for ids, names and messages
    # None: `lines` yields the whole file. Else it yields the first line, then those of the tail.
    tail: SourceTail | None
    is_changed: bool  # False: it was read before; sessions with this `source` are not imported
    records: int  # the number of distinct records that `lines` could read so far

    @property
    def stem(self) -> str:
        """The name without its suffixes."""

    @property
    def is_folder(self) -> bool:
        """True for a folder of many small files."""

    def get_size(self) -> int:
        """Return the number of bytes."""

    def peek(self) -> Sequence[Any]:
        """Return the first records, as far as they are within 64 KB, but at least one."""

    def lines(self, report: ImportReport) -> Iterator[SourceLine]:
        """Yield the records of JSON lines. Damaged lines are reported."""

    def fetch(self, place: Any) -> Any:
        """Return a record again."""

    def search(self, words: bytes) -> Iterator[Any]:
        """Yield the records whose line contains these bytes."""

    def read_document(self, report: ImportReport) -> Any:
        """Return the whole as one JSON value. None if it is none."""

    def read_items(self, member: str, report: ImportReport) -> Iterator[Any]:
        """Yield the elements of the JSON array that the file, or a zip's member, is."""

    def read_text(self) -> Iterator[str]:
        """Yield the lines of a text, without their ends."""

    def read_sibling(self, name: str, report: ImportReport) -> Any:
        """Return the JSON value in a file beside this one. None if there is none."""

    def read_files(self, under: str, report: ImportReport) -> Iterator[tuple[str, Any]]:
        """Yield path and value of each JSON file of a folder below a path."""

    def read_rows(self, query: str, arguments: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """Yield the rows that a database answers."""

    def list_columns(self) -> Mapping[str, set[str]]:
        """Return the tables of a database and their columns."""


class SourceHead(NamedTuple):
    """The beginning of a source: enough to recognize it by its content."""

    records: Sequence[Any] = ()  # the first JSON values: one for each line, or the document
    text: str = ""  # the first 64 KB
    keys: frozenset[str] = frozenset()  # top-level keys of a document longer than that
    tables: Mapping[str, set[str]] = {}  # of a database: the columns of each table
    members: frozenset[str] = frozenset()  # the names in a zip or a folder

    def has_items_with(self, key: str, type: type, *, member: str) -> bool:
        """Return True for a JSON array of objects with this key, bare or as a member of a zip."""
        if key in self.keys or (member in self.members and f'"{key}"' in self.text):
            return True
        first = self.records[0] if self.records else None
        if isinstance(first, list) and first:
            first = first[0]
        return isinstance(first, dict) and isinstance(first.get(key), type)


class KnownPlace(NamedTuple):
    """A folder where a tool keeps its transcripts."""

    variable: str | None  # an environment variable with the path of the tool's folder
    below: str  # the folder in there
    otherwise: str  # the path if the variable is not set, with ~ for the home folder


@dataclass
class ExportedMessage:
    """A message, an answer or a result of a history that is exported."""

    role: str  # "system", "user", "model" or "result"
    form: Any  # its content, in the wire format that the target asked for
    calls: list[Any]  # of an answer, or of a result the call that it belongs to: `id` and `name`
    number: int = 0  # from 0, in the order of the file
    parent: int | None = None  # the number of the message that it continues
    content: str = ""  # its text in the log
    positions: list[int] = field(default_factory=list)  # of its events; none if a repair added it
    data: Data = field(default_factory=dict)  # of its first event
    time: int = 0  # microseconds since 1970; no two messages of an exported file have the same
    key: str | None = None  # the key of its first event
    call_positions: dict[str, int] = field(default_factory=dict)  # of its calls, by their ids


class ExportedHistory(Protocol):
    """An agent's history, as a format that writes files sees it."""

    session: str  # a UUID that is the same in every export of this agent and position
    cwd: str
    title: str
    agent_name: str
    model: str | None  # of the agent, if it is known
    began: int  # microseconds since 1970

    def list_context(self, wire_format: str) -> Sequence[ExportedMessage]:
        """Return the messages of the exported context, each after the one before."""

    def list_branches(self, wire_format: str) -> Sequence[ExportedMessage]:
        """Return the messages of all branches without system messages; the context comes last."""

    def get_id(self, message: ExportedMessage, *more: object) -> str:
        """Return a UUID for a message: its own, or one that is the same in every export."""

    def record_positions(self, lines: Mapping[int, Sequence[int]]) -> Data:
        """Return the field "backstory" of the first record. `lines`: the positions in each line."""


class ExportedFile(NamedTuple):
    """A file for another tool: its text, and where the tool looks for it."""

    text: str
    place: Path | None = None  # relative to the tool's folder; None if no tool looks for it
    listing: tuple[Path, str] | None = None  # another file there, and the line that lists this one


class TranscriptFormat(ABC):
    """The files of one tool."""

    name: ClassVar[str]
    places: ClassVar[tuple[KnownPlace, ...]] = ()
    # How the names of files end that only say more about others, such as ".meta.json".
    companions: ClassVar[tuple[str, ...]] = ()
    reads_tails: ClassVar[bool] = False  # JSON lines that only grow, and `read` knows tails
    has_ids: ClassVar[bool] = True  # False: a session that grew is another one

    @abstractmethod
    def recognize(self, head: SourceHead) -> bool:
        """Return True if the records of `head` have the shape that `read` understands."""

    def group_key(self, path: str) -> str:
        """Return a key; files with the same key are read together. Default: the path.

        It is asked for files that are not opened, too.
        """
        return path

    def build_session(
        self,
        source: TranscriptSource,
        id: str,
        read_steps: Callable[[ImportReport], Iterator[Step]],
        about: Data | None = None,
        origin: Origin | None = None,
    ) -> SourceSession:
        """Return a session with one thread."""
        thread = Thread(id, None, read_steps, origin, {} if about is None else about)
        return SourceSession(self.name, id, [thread], source.path, ImportReport())

    @abstractmethod
    def read(
        self, sources: Sequence[TranscriptSource], report: ImportReport
    ) -> Iterator[SourceSession]:
        """Yield the sessions in a group of sources."""

    def write(self, history: ExportedHistory) -> ExportedFile:
        """Return the file that the tool resumes. Raises Invalid if its files are only read."""
        raise Invalid(f"{self.name} files can only be read")


def read_table(
    source: TranscriptSource, table: str, columns: Sequence[str], rest: str = "", *arguments: Any
) -> Iterator[Data]:
    """Yield the rows of a table. A column that an older database lacks is None.

    `rest`: the end of the query, such as its condition, with the `arguments` for it.
    """
    known = source.list_columns().get(table, set())
    names = [name if name in known else f"null as {name}" for name in columns]
    query = f"select {', '.join(names)} from {table} {rest}"
    for row in source.read_rows(query, arguments):
        yield dict(zip(columns, row, strict=True))


def write_time(time: int) -> str:
    """Return a time as most tools write it: ISO text in UTC, with milliseconds if that is exact."""
    moment = to_datetime(time).astimezone(UTC)
    precision = "microseconds" if time % 1000 else "milliseconds"
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


@cache
def list_outside_formats() -> dict[str, str]:
    """Return the formats that other packages added, as "module:Class" by name."""
    found = entry_points(group=ENTRY_POINTS)
    return {point.name: point.value for point in found if point.name not in BUILT_IN}


def list_formats() -> list[str]:
    """Return the names of all formats, in the order in which they are asked."""
    return [*BUILT_IN, *sorted(list_outside_formats())]


@cache
def load_format(name: str) -> TranscriptFormat:
    """Return the format with a name. Raises Invalid if there is none."""
    target = BUILT_IN.get(name) or list_outside_formats().get(name)
    if target is None:
        raise Invalid(f"no format {name!r}", remedy=f"use one of {', '.join(list_formats())}")
    module, _, attribute = target.partition(":")
    chosen: Callable[[], TranscriptFormat] = getattr(import_module(module), attribute)
    return chosen()


def recognize(head: SourceHead) -> TranscriptFormat | None:
    """Return the first format that recognizes the beginning of a source."""
    for name in list_formats():
        format = load_format(name)
        if format.recognize(head):
            return format
    return None


def read_provenance(record: Any) -> ExportedPositions | None:
    """Return the provenance in the first record of a file that backstory exported."""
    if not isinstance(record, dict):
        return None
    return ExportedPositions.decode(record.get("backstory"))
