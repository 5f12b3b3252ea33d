"""Claude Code's tree: from records with parents to units that continue units. Pure.

All lines with one message id are one answer, and the results of its calls belong to it wherever
they are. Records that are not part of the conversation are contracted to their parents.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from backstory.transcripts.claude_code.records import (
    ANSWER,
    BOUNDARY,
    ECHOES,
    PASSED,
    RESULTS,
    SUMMARY,
    find_kind,
    get_answer_id,
    is_reasoning,
    list_calls,
    list_result_ids,
    read_entries,
)
from backstory.transcripts.content import as_object, get_call_id, get_text, parse_time
from backstory.transcripts.model import (
    OUTSIDE,
    Data,
    Entry,
    SourceMove,
    SourceTail,
    Step,
    TailRule,
    Unit,
)
from backstory.transcripts.unit_tree import TreeNode, UnitTree

COMPACTIONS = (BOUNDARY, SUMMARY)
CLEAR = "clear "  # the unit of a cleared context: this and the key of the record after it
LOST = "?"  # the parent of a record that names none, though it must have one
UNUSED_REASONING = "reasoning without an answer, left out"


class Row:
    """A record of the conversation, as the index stores it."""

    __slots__ = ("above", "key", "kind", "line", "parent", "place", "results", "unit")

    def __init__(self, key: str, kind: str, line: int, place: Any, parent: str | None) -> None:
        self.key = key
        self.kind = kind
        self.line = line
        self.place = place
        self.parent = parent  # a key, until rows are linked; None: a root
        self.unit = key
        self.results: Sequence[str] = ()  # until then, the ids of the calls it has results of
        self.above = 0  # the row that it continues; negative: a root


class KeptMessages(NamedTuple):
    """The messages that stay in the context after a compaction."""

    anchor: str | None  # the record after which they come
    keys: list[str]
    head: str | None = None  # or else the first and the last of a range
    tail: str | None = None


class RecordIndex:
    """The records of one thread: rows, and for each contracted record the row it stands for."""

    def __init__(self, tail: SourceTail | None = None) -> None:
        self.rows: list[Row] = []
        self.calls: dict[str, int] = {}  # the row of a call, by its id
        self.kept: dict[str, KeptMessages] = {}  # by the key of the boundary
        self.roots: list[str] = []  # the key of root number n is roots[-n - 1]
        self.mended: Counter[str] = Counter()
        self.tail_rule = TailRule(tail)
        self._leads: dict[str, int] = {}  # the row or root that a key stands for
        self._contracted: dict[str, tuple[str, int]] = {}  # parent, and the next row
        self._begun: dict[int, int] = {}  # the contracted root before a row

    def add(self, record: Data, kind: str, line: int, place: Any) -> Row:
        """Add a record of the conversation."""
        key, parent = find_keys(record, line)
        row = Row(key, kind, line, place, parent)
        number = self._number_row(row)
        if kind == ANSWER:
            row.unit = get_answer_id(record) or key
            for call in list_calls(record):
                self.calls[call["id"]] = number
        elif kind == RESULTS:
            row.results = list_result_ids(record)
            # Ids may repeat: now, the last call with this id is the one before the result.
            row.unit = self._find_unit_of_calls(row.results) or key
        elif kind == BOUNDARY:
            self._add_boundary(row, record)
        return row

    def contract(self, record: Data, line: int) -> None:
        """Add a record that is not part of the conversation: it stands for its parent."""
        key, parent = find_keys(record, line)
        if key in self._leads or key in self._contracted:
            return
        if parent is None:
            self._leads[key] = self._begun[len(self.rows)] = self._add_root(key)
        elif parent in self._leads:
            self._leads[key] = self._leads[parent]
        else:
            self._contracted[key] = (parent, len(self.rows))

    def _number_row(self, row: Row) -> int:
        """Add a row. It replaces the row with the same key: the last line wins."""
        if self.is_row(row.key):
            known = self._leads[row.key]
            self.mended["line written again"] += 1
            row.parent = self.rows[known].parent
            self.rows[known] = row
            return known
        self.rows.append(row)
        self._leads[row.key] = len(self.rows) - 1
        return len(self.rows) - 1

    def _add_root(self, key: str) -> int:
        self.roots.append(key)
        return -len(self.roots)

    def _add_boundary(self, row: Row, record: Data) -> None:
        row.parent = get_text(record, "logicalParentUuid")
        metadata = as_object(record.get("compactMetadata"))
        kept = as_object(metadata.get("preservedMessages"))
        if not isinstance(kept.get("uuids"), list):
            kept = as_object(metadata.get("preservedSegment"))
        if kept:
            anchor, keys = get_text(kept, "anchorUuid"), kept.get("uuids", ())
            head, tail = get_text(kept, "headUuid"), get_text(kept, "tailUuid")
            self.kept[row.key] = KeptMessages(anchor, list(map(str, keys)), head, tail)

    # --- who continues whom ---

    def find_row(self, key: str | None) -> int | None:
        """Return the row that a key stands for, or a negative number for a root. None: not here."""
        way: list[str] = []
        while key in self._contracted:
            way.append(key)
            key, number = self._contracted.pop(key)
        found = None if key is None else self._leads.get(key)
        if found is None and way:
            found = self._replace_lost(way[-1], number)
        if found is not None:
            self._leads.update(dict.fromkeys(way, found))
        return found

    def _replace_lost(self, key: str, number: int) -> int:
        """Return what stands for a record that is not here: the row or root before row `number`."""
        if number == 0 or self.tail_rule.is_tail:
            return self._add_root(key)
        return self._begun.get(number, number - 1)

    def resolve(self, *, lost_are_roots: bool = False) -> None:
        """Set the row above each row, and the units of results. Call it once, after all records.

        `lost_are_roots`: a row whose parent is not here begins a thread of its own.
        """
        for number, row in enumerate(self.rows):
            if row.kind == BOUNDARY:
                row.above = self._find_above_boundary(number, row)
            else:
                row.above = self._find_row_above(number, row, lost_are_roots)
            unit: str | None = row.unit
            if row.kind == RESULTS and unit == row.key:  # its call came later, or is not here
                unit = self._find_unit_of_calls(row.results)
            if not self.tail_rule.was_read(row.line):
                self.tail_rule.require(row.above >= 0, "a parent before the window, or none")
                self.tail_rule.require(unit is not None, "a result of a call before the window")
            row.unit = unit or row.unit
            row.parent, row.results = None, ()  # a large file has many
        self.calls.clear()

    def _find_above_boundary(self, number: int, row: Row) -> int:
        logical = self.find_row(row.parent)
        # Some logical parents are after the boundary and continue it: that would be a circle.
        if logical is not None and 0 <= logical < number:
            return logical
        return self._replace_lost(row.key, number)

    def _find_row_above(self, number: int, row: Row, lost_are_roots: bool) -> int:
        if row.parent is None:
            return self._add_root(row.key)
        above = self.find_row(row.parent)
        if above is not None:
            return above
        if lost_are_roots:
            return self._add_root(row.parent)
        if number > 0 and not self.tail_rule.is_tail:
            self.mended["lost parent"] += 1
        return self._replace_lost(row.parent, number)

    def _find_unit_of_calls(self, ids: Sequence[str]) -> str | None:
        """Return the unit of the calls with these ids. None: they are not here."""
        for id in ids:
            if id in self.calls:
                return self.rows[self.calls[id]].unit
        return None

    def is_row(self, key: str) -> bool:
        """Return True if a record is part of the conversation."""
        number = self._leads.get(key, -1)
        return number >= 0 and self.rows[number].key == key

    def list_kept_keys(self, boundary: str) -> list[str]:
        """Return the keys of the records that a compaction kept."""
        kept = self.kept[boundary]
        if kept.tail is None:
            return kept.keys
        found: list[str] = []
        number = self.find_row(kept.tail)
        while number is not None and number >= 0 and self.rows[number].key not in found:
            row = self.rows[number]
            found.append(row.key)
            if row.key == kept.head:
                return found[::-1]
            number = row.above
        return []

    def split(self) -> list["RecordIndex"]:
        """Return the rows of each root as an index of their own. This one cannot be used again."""
        parts: dict[int, RecordIndex] = {}
        for number, row in enumerate(self.rows):
            above = self.rows[row.above].key if row.above >= 0 else self.roots[-row.above - 1]
            row.parent = None if above == row.key else above
            part = parts.setdefault(self._find_root(number), RecordIndex())
            part._number_row(row)
        for part in parts.values():
            part.resolve(lost_are_roots=True)
        return list(parts.values())

    def _find_root(self, number: int) -> int:
        seen: set[int] = set()
        while number >= 0 and number not in seen:
            seen.add(number)
            number = self.rows[number].above
        return number


def find_keys(record: Data, line: int) -> tuple[str, str | None]:
    """Return the key of a record, and that of its parent."""
    key, parent = get_text(record, "uuid"), get_text(record, "parentUuid")
    if key is not None:
        return key, parent
    return f"line {line}", parent or LOST  # it continues the record before it


class ClaudeTree:
    """The units of a thread, what they continue, and their entries."""

    def __init__(
        self,
        index: RecordIndex,
        fetch: Callable[[Any], Data],
        leaf: str | None = None,
        mended: Counter[str] | None = None,
    ) -> None:
        """`fetch` returns the record at a row's place; `leaf` is the live record that the tool
        named."""
        self._index = index
        self._rows = index.rows
        self._fetch = fetch
        self._mended: Counter[str] = Counter() if mended is None else mended
        self._numbers: dict[str, list[int]] = {}  # of the rows of each unit
        self._own: dict[str, list[int]] = {}  # the same without results, which may be anywhere
        for number, row in enumerate(index.rows):
            self._numbers.setdefault(row.unit, []).append(number)
            if row.kind != RESULTS:
                self._own.setdefault(row.unit, []).append(number)
        self._own = self._numbers | self._own  # A unit of results alone has its results.
        self._continued: str | None = None  # of a tail: the unit that was the last one before
        self._tail_rule = index.tail_rule
        if self._tail_rule.is_tail:
            self._keep_tail()
        self._anchors = {self._find_anchor(boundary): boundary for boundary in index.kept}
        self._roots: dict[str, int] = {}  # the root that a unit begins at
        self._times: dict[str, int] = {}  # of the newest record of each unit
        nodes = [self._build_node(unit) for unit in self._numbers]
        self._units = UnitTree(nodes)
        if self._units.circles:
            self._mended["circle of parents"] += self._units.circles
        if len(set(self._roots.values())) > 1:
            self._units = UnitTree([*nodes, *self._build_clears()])
        self._leaf = self._find_live_unit(leaf)

    def _list_rows(self, unit: str | None) -> list[Row]:
        """Return the rows of a unit. A clear has none."""
        return [self._rows[number] for number in self._numbers.get(unit or "", ())]

    def _keep_tail(self) -> None:
        """Keep the unit that was the last one, and the new ones, if all new rows come after it."""
        rule = self._tail_rule
        last = sum(rule.was_read(row.line) for row in self._rows) - 1
        new = self._rows[last + 1 :]
        self._continued = self._rows[last].unit if last >= 0 else ""
        if new:
            kinds = {row.kind for row in self._list_rows(self._continued)}
            rule.require(kinds.isdisjoint(COMPACTIONS), "what was kept may be before the window")
        for row in new:
            rule.require(row.kind != BOUNDARY, "what is kept may be before the window")
            rule.require(self._is_after(row, last), "it does not continue the last unit")
        units = self._numbers.items()
        self._numbers = {unit: numbers for unit, numbers in units if numbers[-1] >= last}

    def _is_after(self, row: Row, last: int) -> bool:
        """Return True if a row, and what it continues, belongs to the last unit or follows it."""
        continues = row.above > last or self._rows[row.above].unit == self._continued
        return continues and (row.unit == self._continued or self._numbers[row.unit][0] > last)

    def _find_anchor(self, boundary: str) -> str:
        """Return the record after which a compaction's kept messages come."""
        anchor = self._index.kept[boundary].anchor
        is_last = self._rows[-1].key == boundary
        if anchor is not None and (is_last or self._index.is_row(anchor)):
            return anchor  # if the boundary is the last line, the anchor is still to come
        number = self._index.find_row(boundary)
        for row in self._rows:
            if row.kind == SUMMARY and row.above == number:
                return row.key
        return boundary

    # --- who continues whom ---

    def _build_node(self, unit: str) -> TreeNode:
        own = self._own[unit]
        above = self._find_row_before(unit, own)
        parent = None
        if above < 0:
            self._roots[unit] = above
        elif unit != self._continued:
            parent = self._find_lowest(above)
            if parent == unit:
                parent = self._rows[above].unit
        is_echo = self._rows[own[0]].kind in ECHOES
        return TreeNode(unit, parent, own[0], own[-1], is_echo)

    def _find_row_before(self, unit: str, own: list[int]) -> int:
        """Return the row that a unit continues, or the root that it begins at."""
        for number in own:
            above = self._rows[number].above
            if above < 0 or self._rows[above].unit != unit:
                return above
        return -1  # only its own results are above it: the first root

    def _find_lowest(self, number: int) -> str:
        """Return the unit that a row stands for if something continues it.

        That is not its own if another unit begins between its lines: two answers can interleave.
        """
        unit = self._rows[number].unit
        first = self._own[unit][0]
        lowest = None
        seen: set[int] = set()
        while number > first and number not in seen:
            seen.add(number)
            row = self._rows[number]
            if lowest is None and number == self._own[row.unit][0]:
                lowest = row.unit
            number = row.above
        if lowest is not None and number == first:
            unit = lowest
        self._tail_rule.require(unit in self._numbers, "it continues a unit before the last one")
        return unit

    def _build_clears(self) -> list[TreeNode]:
        """Return a node for each cleared context: a second root is one.

        Units that begin at the same root are branches of one context.
        """
        speaking = self._units.find_speaking()
        clears: dict[int, TreeNode | None] = {}  # of each root so far; the first has none
        live: str | None = None  # the unit that would be live before the clear
        for node in self._units.nodes.values():
            root = self._roots.get(node.id) if node.id in speaking else None
            if root is not None and root not in clears:
                is_first = not clears or live is None
                clears[root] = None if is_first else self._build_clear(node, root, live)
            if not self._units.is_dead_end(node, speaking):
                live = node.id
        for unit in speaking & self._roots.keys():
            clear = clears[self._roots[unit]]
            if clear is not None:
                self._units.nodes[unit].parent = clear.id
        return list(filter(None, clears.values()))

    def _build_clear(self, node: TreeNode, root: int, live: str | None) -> TreeNode:
        place = node.first - 0.5
        return TreeNode(f"{CLEAR}{self._index.roots[-root - 1]}", live, place, place)

    # --- the live unit ---

    def _find_live_unit(self, named: str | None) -> str | None:
        """Return the unit that the tool would continue."""
        leaf = self._units.find_leaf()
        if leaf is None:
            return None
        is_echo = self._units.nodes[leaf].is_echo
        self._tail_rule.require(not is_echo, "the live unit is perhaps before the window")
        if leaf in self._numbers:
            leaf = self._find_lowest(self._own[leaf][-1])
        # A result that is the last record of all belongs to the live branch.
        last = self._rows[-1]
        if last.kind == RESULTS and not self._units.is_above(last.unit, leaf):
            leaf = last.unit
        return self._prefer(named, leaf)

    def _prefer(self, named: str | None, leaf: str) -> str:
        """Return the unit of the record that the tool named, if it is on another branch."""
        if named is None:
            return leaf
        number = self._index.find_row(named)
        unit = "" if number is None or number < 0 else self._rows[number].unit
        if unit not in self._numbers:
            self._tail_rule.refuse("the tool named a record before the window")
            return leaf
        is_on_line = self._units.is_above(unit, leaf) or self._units.is_above(leaf, unit)
        return leaf if is_on_line else unit

    # --- units and entries ---

    def read_steps(self) -> Iterator[Step]:
        """Yield the units in the order of the source, then a move to the live one if it is not the
        last."""
        last = None
        for node in self._units.nodes.values():
            after = OUTSIDE if node.id == self._continued else node.parent
            if node.id in self._numbers:
                entries = tuple(self._list_entries(node.id))
            else:
                line = self._rows[int(node.first + 0.5)].line
                entries = (Entry(node.id, "clear", line=line),)
            yield Unit(node.id, after, entries, time=self._times.get(node.id))
            last = node.id
        if last is not None and last != self._leaf:
            self._tail_rule.refuse("the tool is not at the last unit")
            yield SourceMove(self._leaf)

    def _list_entries(self, unit: str) -> list[Entry]:
        """Return the entries of a unit, and after a compaction's summary what that kept."""
        entries = self._read_unit(unit)
        for row in self._list_rows(unit) if self._anchors else ():
            if row.key in self._anchors:
                entries.extend(self.list_kept(row.key))
        return entries

    def _read_unit(self, unit: str) -> list[Entry]:
        """Return the entries of the lines of a unit."""
        entries: list[Entry] = []
        reasoning: list[Any] = []
        records = [(row, self._fetch(row.place)) for row in self._list_rows(unit)]
        began = self._note_times(unit, records)
        for row, record in records:
            if row.kind == ANSWER and is_reasoning(record):
                reasoning += record["message"]["content"]
                continue
            for entry in read_entries(record, row.key, row.line, reasoning):
                is_text = entry.kind == "assistant"
                entries.append(entry._replace(time=began) if is_text else entry)
            if row.kind == ANSWER:
                reasoning = []
        if reasoning:
            self._mended[UNUSED_REASONING] += 1
        return put_results_after_calls(entries)

    def _note_times(self, unit: str, records: Sequence[tuple[Row, Data]]) -> int | None:
        """Note the time of a unit's newest record. Return that of the first line of its answer.

        A text has the time at which its answer began, a call its own.
        """
        began = None
        newest = 0
        for row, record in records:
            time = parse_time(record.get("timestamp"))
            newest = max(newest, time or 0)
            if row.kind == ANSWER and began is None:
                began = time
        self._times[unit] = newest
        return began

    def list_kept(self, key: str | None = None) -> list[Entry]:
        """Return the entries that a compaction kept, if a record (by default the last) is its
        anchor: whole units again. Units that continue the boundary are in its context anyway."""
        key = self._rows[-1].key if key is None else key
        boundary = self._anchors.get(key)
        if boundary is None:
            return []
        entries: list[Entry] = []
        for unit in self._list_kept_units(boundary):
            if unit != key and not self._units.is_above(boundary, unit):
                entries += self._read_unit(unit)
        return [entry.copy_after(boundary) for entry in entries if entry.kind != "clear"]

    def _list_kept_units(self, boundary: str) -> list[str]:
        units: dict[str, None] = {}
        for kept in self._index.list_kept_keys(boundary):
            number = self._index.find_row(kept)
            if number is not None and number >= 0:
                units[self._rows[number].unit] = None
        return list(units)

    # --- for the adapter, which gets lines one by one ---

    def list_keys_before(self) -> list[str]:
        """Return the keys of the rows of the unit that the last record's unit continues."""
        parent = self._units.nodes[self._rows[-1].unit].parent
        return [row.key for row in self._list_rows(parent)]


def put_results_after_calls(entries: list[Entry]) -> list[Entry]:
    """Return entries so that a result that came before its call is directly after it."""
    calls: dict[object, int] = {}
    for number, entry in enumerate(entries):
        if entry.kind == "tool_call":
            calls[get_call_id(entry.data)] = number
    places: list[float] = []
    for number, entry in enumerate(entries):
        is_result = entry.kind == "tool_result"
        after_call = calls.get(get_call_id(entry.data), -1) + 0.5
        places.append(max(number, after_call) if is_result else number)
    return [entries[number] for number in sorted(range(len(entries)), key=places.__getitem__)]


def index_lines(lines: Sequence[Data]) -> ClaudeTree:
    """Return the tree of some lines. The place of each row is its record."""
    index = RecordIndex()
    for number, record in enumerate(lines, 1):
        kind = find_kind(record)
        if kind == PASSED:
            index.contract(record, number)
        elif kind is not None:
            index.add(record, kind, number, record)
    index.resolve()
    return ClaudeTree(index, lambda place: as_object(place))


class LineUnits:
    """The units that lines belong to, by their uuids. An answer with its results is one unit, and
    a line that is not part of the conversation belongs to the unit that it continues."""

    def __init__(self) -> None:
        self._units: dict[str | None, str] = {}
        self._calls: dict[str, str] = {}  # the unit of a call, by its id

    def get(self, uuid: Any) -> str | None:
        """Return the unit of the line with a uuid, or None if it is not known."""
        return self._units.get(uuid) if isinstance(uuid, str) else None

    def add(self, line: Data) -> None:
        """Add a line after the others."""
        uuid = get_text(line, "uuid")
        if uuid is not None:
            unit = self._find_unit(line, uuid)
            if unit is not None:
                self._units[uuid] = unit

    def _find_unit(self, line: Data, uuid: str) -> str | None:
        kind = find_kind(line)
        if kind is None or kind == PASSED:
            return self.get(line.get("parentUuid"))
        if kind == ANSWER:
            unit = get_answer_id(line) or uuid
            for call in list_calls(line):
                self._calls[call["id"]] = unit
            return unit
        if kind == RESULTS:
            for id in list_result_ids(line):
                if id in self._calls:
                    return self._calls[id]
        return uuid
