"""The tree of a transcript: what continues what, in which order it is told, and which unit is live. Pure.

Sources hold circles, parents behind their children and branches of nothing but echoes; what comes out of here
has none of that.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter


@dataclass(slots=True)
class Node:
    """A unit's place in the tree."""

    id: str
    parent: str | None
    first: float  # where it begins in the source
    last: float  # its last word there
    echo: bool = False  # the tool speaking, or a command repeated: it never makes a branch live


_first, _last = attrgetter("first"), attrgetter("last")


class Forest:
    """Units and their parents. Every parent that a node names is a node."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes = {node.id: node for node in sorted(nodes, key=_first)}
        self.mended = self._break_circles()
        self.children: dict[str | None, list[str]] = {}
        for node in self.nodes.values():
            self.children.setdefault(node.parent, []).append(node.id)

    def _break_circles(self) -> int:
        """Where parents run in a circle, its earliest node continues the one before it. Returns how often."""
        broken = 0
        sound: set[str] = set()
        before: str | None = None
        for node in self.nodes.values():
            if node.parent in sound:
                sound.add(node.id)
                before = node.id
                continue
            if node.parent not in self.nodes:
                node.parent = None
            while (circle := self._circle(node.id, sound)) is not None:
                broken += 1
                earliest = min((self.nodes[id] for id in circle), key=lambda one: one.first)
                other = before if earliest is node else None
                earliest.parent = other if other not in circle else None
                if earliest.parent is not None and earliest.id in self._path(earliest.parent):
                    earliest.parent = None
            before = node.id
        return broken

    def _circle(self, id: str, sound: set[str]) -> set[str] | None:
        """The circle that the way up from a node leads into; without one the way is sound."""
        way: dict[str, None] = {}
        at: str | None = id
        while at is not None and at in self.nodes and at not in sound:
            if at in way:
                order = list(way)
                return set(order[order.index(at) :])
            way[at] = None
            at = self.nodes[at].parent
        sound.update(way)
        return None

    def _path(self, id: str | None) -> set[str]:
        found: set[str] = set()
        while id is not None and id in self.nodes and id not in found:
            found.add(id)
            id = self.nodes[id].parent
        return found

    def ordered(self) -> list[Node]:
        """All nodes in the order of the source, but every parent before its children."""
        told: dict[str, Node] = {}
        for node in self.nodes.values():
            if node.parent in told:
                told[node.id] = node
                continue
            way = []
            at: str | None = node.id
            while at is not None and at not in told:
                way.append(at)
                at = self.nodes[at].parent
            for id in reversed(way):
                told[id] = self.nodes[id]
        return list(told.values())

    def leaf(self) -> str | None:
        """The unit that the tool would go on from: the last that is not in a branch of nothing but echoes."""
        latest = max(self.nodes.values(), key=_last, default=None)
        if latest is None or not latest.echo:
            return None if latest is None else latest.id
        speaking = self.speaking()
        for node in sorted(self.nodes.values(), key=_last, reverse=True):
            if not self.is_dead_end(node, speaking):
                return node.id
        return latest.id

    def speaking(self) -> set[str]:
        """The nodes that say something, or have below them one that does."""
        found: set[str] = set()
        for node in self.nodes.values():
            at: str | None = None if node.echo else node.id
            while at is not None and at not in found:
                found.add(at)
                at = self.nodes[at].parent
        return found

    def is_dead_end(self, node: Node, speaking: set[str]) -> bool:
        while node.echo:
            if any(id in speaking for id in self.children[node.parent] if id != node.id):
                return True
            if node.parent is None:
                return False
            node = self.nodes[node.parent]
        return False

    def is_above(self, id: str, other: str) -> bool:
        """Whether a unit is the other one or on the way to it."""
        return id in self._path(other)
