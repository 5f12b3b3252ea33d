"""Claude Code's records, indexed: what each one is, and which record stands above it. Pure.

Everything that is not part of the conversation is contracted to its parent.
"""

from collections import Counter
from collections.abc import KeysView, Sequence
from typing import Any

from backstory.transcripts.claude_code import records
from backstory.transcripts.claude_code.records import AnswerLine, Record, Said

MOST_BEGINNINGS = 1_000  # that are remembered of a file
LOST = "?"  # the parent of a record that names none though it must have one


class Row:
    """A record of the conversation, as the index keeps it."""

    __slots__ = (
        "above",
        "before",
        "key",
        "kind",
        "line",
        "number",
        "own",
        "parent",
        "place",
        "results",
        "said",
        "stopped",
        "unit",
    )

    def __init__(
        self,
        key: str,
        kind: str,
        line: int,
        place: Any,
        said: Said,
        parent: str | int | None,
        before: int | None,
    ):
        self.key = key
        self.kind = kind
        self.line = line
        self.place = place  # where the record is to be had again
        self.said: Said | None = said  # None: there was no room to keep it, or it was told
        self.parent = parent  # its key; what that leads to, if it is known already; None: a root
        self.before = before  # what stands above it: a row's number, or a root's (negative)
        self.number = -1  # its own, in the index
        self.unit = key
        self.results: Sequence[Any] = ()
        self.stopped = True  # False: an answer's line that is not marked as its last
        self.own = True  # False: copied from another file
        self.above: int | None = None


class Index:
    """The records of one thread: rows, and for each contracted record the row that it stands for."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.calls: dict[str, int] = {}  # a call's id -> its row
        self.mended: Counter[str] = Counter()
        self.kept: dict[
            str, tuple[str | None, list[str]]
        ] = {}  # a boundary -> its anchor, the keys it keeps
        self._logical: dict[str, str] = {}
        # Where a key leads: a row's number, a root's (negative), or a parent that is not resolved yet.
        self._leads: dict[str, int | tuple[str, int | None]] = {}
        self._here: int | None = None  # what the last record stands for
        self.roots: list[str] = []
        self.newest = 0  # the line of the last row that was not written again
        self._strayed = False
        self.strays: set[int] = set()  # the lines of rows whose way up leads out of the file
        self.looks_ahead = False  # whether a row continues one that stands behind it

    def __contains__(self, key: str) -> bool:
        return key in self._leads

    def keys(self) -> KeysView[str]:
        """The keys of all records."""
        return self._leads.keys()

    def add(self, record: Record, kind: str, line: int, place: Any) -> Row:
        """Take in a record of the conversation."""
        key, parent = _key_and_parent(record, line)
        lead = None if parent is None else self._leads.get(parent)
        said = records.said_in(key, kind, record)
        row = Row(key, kind, line, place, said, lead if type(lead) is int else parent, self._here)
        self._here = row.number = number = self._number(row)
        if isinstance(said, AnswerLine):
            unit = said.id or key
            last = self.rows[number - 1].unit if number else ""
            row.unit = last if last == unit else unit  # one text for all lines of an answer
            row.stopped = said.is_last
            for call in said.calls:
                self.calls[call["id"]] = number
        elif kind == records.RESULTS:
            row.results = records.result_ids(record)
        elif kind == records.BOUNDARY:
            self._boundary(row, record)
        if "forkedFrom" in record:
            row.own = False
        return row

    def contract(self, record: Record, line: int) -> None:
        """Take in a record that is not part of the conversation: it stands for its parent."""
        key, parent = _key_and_parent(record, line)
        if key in self._leads:
            return
        lead = self._root(key) if parent is None else self._leads.get(parent)
        if isinstance(lead, int):
            self._leads[key] = self._here = lead
        else:
            assert parent is not None
            self._leads[key] = (parent, self._here)

    def _number(self, row: Row) -> int:
        """The number of a new row: the next one, or that of the row with the same key, which it replaces."""
        rows, key = self.rows, row.key
        known = self._leads.get(key)
        if isinstance(known, int) and known >= 0 and rows[known].key == key:
            self.mended["line written again"] += 1
            row.before, row.parent = rows[known].before, rows[known].parent
            rows[known] = row
            return known
        self._leads[key] = number = len(rows)
        self.newest = row.line
        rows.append(row)
        return number

    def _boundary(self, row: Row, record: Record) -> None:
        logical = _text(record.get("logicalParentUuid"))
        if logical is not None:
            self._logical[row.key] = logical
        data = record.get("compactMetadata")
        data = data if isinstance(data, dict) else {}
        messages, segment = data.get("preservedMessages"), data.get("preservedSegment")
        if isinstance(messages, dict) and isinstance(messages.get("uuids"), list):
            keys = [key for key in messages["uuids"] if isinstance(key, str)]
            self.kept[row.key] = (_text(messages.get("anchorUuid")), keys)
        elif isinstance(segment, dict):
            keys = self._segment(_text(segment.get("headUuid")), _text(segment.get("tailUuid")))
            self.kept[row.key] = (_text(segment.get("anchorUuid")), keys)

    def _segment(self, head: str | None, tail: str | None) -> list[str]:
        """The keys of the rows from head to tail, by their parents."""
        found: list[str] = []
        lead = self.lead(tail) if tail in self._leads else None
        while lead is not None and lead >= 0 and self.rows[lead].key not in found:
            row = self.rows[lead]
            found.append(row.key)
            if row.key == head:
                return found[::-1]
            lead = self._parent(row)
        return []

    def _parent(self, row: Row) -> int | None:
        """What a row's parent leads to; None: it is not here."""
        if isinstance(row.parent, str):
            return self.lead(row.parent) if row.parent in self._leads else None
        return row.parent

    def lead(self, key: str | None) -> int | None:
        """The row, or root, that a key stands for; None: it is not here."""
        way: list[str] = []
        found: int | None = None
        while key is not None:
            lead = self._leads.get(key)
            if lead is None or isinstance(lead, int):
                found = lead
                break
            parent, before = lead
            way.append(key)
            if parent in way or parent not in self._leads:
                self._strayed = True
                found = before if before is not None else self._root(key)
                break
            key = parent
        if found is not None:
            self._leads.update(dict.fromkeys(way, found))
        return found

    def beginnings(self) -> list[str]:
        """The records that the file of a fork may begin with, though this one does not: where the context was
        cleared or compacted."""
        compacted = [row.key for row in self.rows if row.kind == records.BOUNDARY]
        return [*self.roots, *compacted][:MOST_BEGINNINGS]

    def _root(self, key: str) -> int:
        self.roots.append(key)
        return -len(self.roots)

    def resolve(self, *, lost_are_roots: bool = False) -> None:
        """Say of each row what stands above it, and to which unit it belongs. `lost_are_roots`: a row whose
        parent is not here begins a thread of its own."""
        rows, calls = self.rows, self.calls
        for number, row in enumerate(rows):
            above = row.parent
            if type(above) is not int or row.kind == records.BOUNDARY:
                self._strayed = False
                above = self._above(number, row, lost_are_roots)
                if self._strayed:
                    self.strays.add(row.line)
            row.above = above
            if above < 0:
                self.strays.add(row.line)
            elif above > number:
                self.looks_ahead = True
            if row.kind == records.RESULTS:
                for id in row.results:
                    if id in calls:
                        row.unit = rows[calls[id]].unit
                        break

    def _above(self, number: int, row: Row, lost_are_roots: bool) -> int:
        if row.kind == records.BOUNDARY:
            logical = self._logical.get(row.key)
            lead = self.lead(logical) if logical in self._leads else None
            # Some stand behind the boundary and hang on it: following them would make a circle.
            if lead is None or lead < 0 or lead >= number:
                self._strayed = logical is not None and lead is None
                lead = row.before
            return self._root(row.key) if lead is None else lead
        if row.parent is None:
            return self._root(row.key)
        lead = self._parent(row)
        if lead is not None:
            return lead
        self._strayed = True
        if not lost_are_roots and row.before is not None:
            self.mended["lost parent"] += 1
            return row.before
        return self._root(row.key)

    def parts(self) -> list["Index"]:
        """The rows of each root as an index of their own. This one is used up."""
        found: dict[int, Index] = {}
        homes = [self._root_of(number) for number in range(len(self.rows))]
        for row, home in zip(self.rows, homes, strict=True):
            part = found.setdefault(home, Index())
            row.number = len(part.rows)
            part.rows.append(row)
            part.roots = part.roots or [row.key]
        for row, home in zip(self.rows, homes, strict=True):
            above = row.above
            inside = above is not None and above >= 0 and homes[above] == home
            row.above = self.rows[above].number if inside and above is not None else -1
        return list(found.values())

    def _root_of(self, number: int) -> int:
        seen = set()
        while number not in seen:
            seen.add(number)
            above = self.rows[number].above
            if above is None or above < 0:
                return above or 0
            number = above
        return number


def _key_and_parent(record: Record, line: int) -> tuple[str, str | None]:
    key, parent = record.get("uuid"), record.get("parentUuid")
    above = parent if isinstance(parent, str) and parent else None
    if isinstance(key, str) and key:
        return key, above
    return f"line {line}", above or LOST  # nothing can hang on it, and it hangs on what is above it


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
