"""Claude Code's tree: from records with parents to units that continue units, and which is live. Pure.

Units first: all lines with one message id are one answer, and the results of its calls belong to it wherever
they stand or hang.
"""

from collections.abc import Callable, Iterator

from backstory.transcripts.claude_code import records
from backstory.transcripts.claude_code.index import Index, Row
from backstory.transcripts.claude_code.records import AnswerLine, Said
from backstory.transcripts.forest import Forest, Node
from backstory.transcripts.transcript import Entry, Move, Step, Unit, as_unit

Recall = Callable[[Row], Said]  # what a row says
CLEAR = "clear "  # the unit of a cleared context: this and the key of the record that it began with


class Tree:
    """The units of a thread, and what they continue."""

    def __init__(self, index: Index, recall: Recall, *, leaf: str | None = None) -> None:
        self.index = index
        self._recall = recall
        self.rows: dict[str, list[Row]] = {}  # the rows of a unit
        for row in index.rows:
            self.rows.setdefault(row.unit, []).append(row)
        self._anchored = {self._anchor(boundary): boundary for boundary in index.kept}
        self.forest = Forest(self._nodes())
        self.leaf = self._resulting(self._lowest(self.forest.leaf()))
        if leaf is not None and leaf in index:
            self._prefer(leaf)

    def _anchor(self, boundary: str) -> str:
        """The record behind which a compaction's kept messages go: the one it names, else its summary."""
        anchor = self.index.kept[boundary][0]
        if anchor is not None and (anchor in self.rows or self.index.rows[-1].key == boundary):
            return anchor  # where the boundary is the last line, what it names is still to come
        number = self.index.lead(boundary)
        summaries = (
            row.key
            for row in self.index.rows
            if row.kind == records.SUMMARY and row.above == number
        )
        return next(summaries, boundary)

    def _lowest(self, unit: str | None) -> str | None:
        """A unit, or what was said between its lines, if its last line continues that."""
        rows = [row for row in self.rows.get(unit or "", ()) if row.kind != records.RESULTS]
        seen: set[int] = set()
        at = rows[-1].above if rows else None
        while at is not None and at >= 0 and at not in seen:
            other = self.index.rows[at]
            if other.unit != unit:
                return other.unit if unit and self.forest.is_above(unit, other.unit) else unit
            seen.add(at)
            at = other.above
        return unit

    def _resulting(self, unit: str | None) -> str | None:
        """A unit, or that of another branch whose result is the last record of all."""
        last = self.index.rows[-1] if self.index.rows else None
        if unit is None or last is None or last.kind != records.RESULTS:
            return unit
        return unit if self.forest.is_above(last.unit, unit) else last.unit

    def _prefer(self, key: str) -> None:
        """The tool itself named another branch as the live one."""
        lead = self.index.lead(key)
        unit = self.index.rows[lead].unit if lead is not None and lead >= 0 else None
        if unit is None or self.leaf is None or unit not in self.forest.nodes:
            return
        if not self.forest.is_above(unit, self.leaf) and not self.forest.is_above(self.leaf, unit):
            self.leaf = unit

    # -------------------------------------------------------------- who continues whom

    def _nodes(self) -> list[Node]:
        nodes = {}
        roots: dict[str, int] = {}  # a unit that begins at a root -> that root
        for unit, rows in self.rows.items():
            own = [row for row in rows if row.kind != records.RESULTS] or rows
            parent = self._parent(unit, own)
            if isinstance(parent, int):
                roots[unit], parent = parent, None
            is_echo = own[0].kind in records.ECHOES
            nodes[unit] = Node(unit, parent, own[0].number, own[-1].number, is_echo)
        return list(nodes.values()) + self._clears(nodes, roots)

    def _parent(self, unit: str, rows: list[Row]) -> str | int | None:
        """The unit that a unit continues, or the root that it begins at."""
        for row in rows:
            above = row.above
            assert above is not None
            if above < 0:
                return above
            if self.index.rows[above].unit != unit:
                return self.index.rows[above].unit
        return None

    def _clears(self, nodes: dict[str, Node], roots: dict[str, int]) -> list[Node]:
        """A second root is a context that was cleared; what hangs on the same root is a branch."""
        if len(set(roots.values())) < 2:
            return []
        clears: dict[int, Node] = {}
        first: int | None = None
        forest = Forest(Node(n.id, n.parent, n.first, n.last, n.echo) for n in nodes.values())
        speaking = forest.speaking()
        told: Node | None = None  # the live unit so far
        for node in forest.nodes.values():
            root = roots.get(node.id) if node.id in speaking else None
            first = root if first is None else first
            if root is not None and root != first:
                if root not in clears and told is not None:
                    id = f"{CLEAR}{self.index.roots[-root - 1]}"
                    clears[root] = Node(id, told.id, node.first - 0.5, node.first - 0.5)
                nodes[node.id].parent = clears[root].id if root in clears else None
            if not forest.is_dead_end(node, speaking):
                told = node
        return list(clears.values())

    # -------------------------------------------------------------- what they say

    def steps(self, *, moves: bool | None = None) -> Iterator[Step]:
        """The units in the order of the source, then a move to the live one, by default if it is not the last
        of them."""
        ordered = self.forest.ordered()
        last = max((row.line for row in self.index.rows if row.kind != records.RESULTS), default=0)
        for node in ordered:
            yield self._unit(node, last)
        if ordered and (ordered[-1].id != self.leaf if moves is None else moves):
            yield Move(self.leaf)

    def _unit(self, node: Node, last: int) -> Unit:
        rows = self.rows.get(node.id)
        if rows is None:
            return Unit(node.id, node.parent, (Entry(node.id, "clear"),))
        settled = inherited = True
        for row in rows:
            if row.own:
                inherited = False
            if row.kind == records.ANSWER:
                settled = row.stopped or row.line != last
        entries = tuple(self._entries(node.id))
        return as_unit((node.id, node.parent, entries, rows[0].line, inherited, settled))

    def _entries(self, unit: str) -> list[Entry]:
        """What a unit says, and behind the summary of a compaction what that kept."""
        entries = self._said(unit)
        for row in self.rows[unit] if self._anchored else ():
            if row.key in self._anchored:
                entries.extend(self.kept(row.key))
        return entries

    def _said(self, unit: str) -> list[Entry]:
        lines: list[AnswerLine] = []
        rest: list[Entry] = []
        for row in self.rows[unit]:
            said = self._recall(row)
            if isinstance(said, AnswerLine):
                lines.append(said)
            else:
                rest.extend(said)
        return records.answer(unit, lines) + rest if lines else rest

    def kept(self, key: str) -> Iterator[Entry]:
        """What a compaction kept, behind its anchor: its whole units again."""
        boundary = self._anchored.get(key)
        if boundary is None:
            return
        units: dict[str, None] = {}
        for kept in self.index.kept[boundary][1]:
            lead = self.index.lead(kept) if kept in self.index else None
            if lead is not None and lead >= 0:
                units[self.index.rows[lead].unit] = None
        for unit in units:
            for entry in self._said(unit) if unit != key else ():
                if entry.kind != "clear":
                    yield entry._replace(id=f"{entry.id}@{boundary}", copy_of=entry.id)
