"""What a format is to the rest, and what a source is to a format.

A format is pure: it asks a `Source` for records and gives back sessions. The files, zips and databases behind
a source are read elsewhere (`files.py`), once for all formats.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from backstory.transcripts.checkpoints import Reach, Tail
from backstory.transcripts.transcript import Report, Session

# A record of a source of JSON lines: the number of its line, from 1; its part, which is 0, or more for the
# second and later of several records in one line; its value; its place, by which `Source.fetch` gives the
# value again. A plain tuple, because there are very many.
SourceLine = tuple[int, int, Any, Any]


class Source(Protocol):
    """A file, a folder or a database, as a parser sees it."""

    @property
    def path(self) -> str:
        """Where it is, with slashes: for ids that stand in names, and for messages."""

    @property
    def stem(self) -> str:
        """Its name without the suffix."""

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder of many small files."""

    def size(self) -> int:
        """Its bytes."""

    def peek(self) -> Sequence[Any]:
        """The first records, as far as they stand within 64 KB."""

    def lines(self, report: Report) -> Iterator[SourceLine]:
        """All records of JSON lines; what cannot be read goes into the report."""

    @property
    def reach(self) -> Reach:
        """How far its lines were read."""

    def hold(self, place: Any) -> bool:
        """Whether there is room to hold what is needed of the record there until it is told."""

    def release(self, place: Any) -> bool:
        """Make room: what was held of the record there is told. False if the record is kept anyway."""

    def fetch(self, place: Any) -> Any:
        """A record again."""

    def having(self, words: bytes) -> Iterator[Any]:
        """The records whose line has these bytes."""

    def document(self, report: Report) -> Any:
        """The whole as one JSON value; None if it is none."""

    def items(self, name: str, report: Report) -> Iterator[Any]:
        """The elements of the JSON array that the file, or a zip's member of that name, is."""

    def text_lines(self) -> Iterator[str]:
        """The lines of a text, without their ends."""

    def sibling(self, name: str, report: Report) -> Any:
        """The JSON value in a file beside this one; None if there is none."""

    def files(self, under: str, report: Report) -> Iterator[tuple[str, Any]]:
        """A folder's JSON files below a path: their paths and values."""

    def rows(self, query: str, arguments: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        """What a database answers."""

    def columns(self) -> Mapping[str, set[str]]:
        """A database's tables and their columns."""


class Head(NamedTuple):
    """The beginning of a source: enough to recognise it by its content."""

    records: Sequence[Any]  # the first JSON values, one a line or the whole
    text: str  # the first 64 KB
    keys: frozenset[
        str
    ]  # the keys of a JSON object that is longer than that, as far as they were seen
    tables: Mapping[str, set[str]]  # a database's
    members: frozenset[str]  # a zip's, or a folder's

    def has_records_with(self, key: str, of: type, *, member: str) -> bool:
        """Whether it is a JSON array of objects with this key, bare or as a member of a zip."""
        if key in self.keys or (member in self.members and f'"{key}"' in self.text):
            return True
        first = self.records[0] if self.records else None
        first = first[0] if isinstance(first, list) and first else first
        return isinstance(first, dict) and isinstance(first.get(key), of)


class Place(NamedTuple):
    """Where a tool keeps its transcripts: below what a variable says, else at a path of its own."""

    variable: str | None
    below: str
    otherwise: str  # with ~ for the home folder


class Format(NamedTuple):
    """One tool's transcripts. A new one is a module with a `FORMAT`, and a line in `formats/__init__.py`."""

    name: str
    fits: Callable[[Head], bool]
    sessions: Callable[[Iterable[Source]], Iterator[Session]]
    places: tuple[Place, ...] = ()
    beside: tuple[str, ...] = ()  # how the names of files end that only say more about others
    fetches: bool = False  # the records of a file are fetched once more, when all of them are known
    # What ties a source to others that have to be read with it: ids of sessions, of first records.
    ties: Callable[[Source], Iterable[str]] = lambda source: (source.path,)
    # The session of a file of lines from a checkpoint on; raises ReadWhole. None: it is always read whole.
    resume: Callable[[Source, Tail], Session] | None = None
