"""The tree of a transcript's units: what continues what, in which order, and which one is live.
Pure.

Sources contain circles, parents after their children, and branches of nothing but echoes. The units
that a tree lists have none of that.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from backstory.transcripts.model import order_nodes


@dataclass(slots=True)
class TreeNode:
    """The place of a unit in the tree."""

    id: str
    parent: str | None
    first: float  # where it begins in the source
    last: float  # its last record there
    is_echo: bool = False  # the tool speaks, or a command is repeated: it makes no branch live


class UnitTree:
    """Units and their parents. A parent that is no node counts as the beginning."""

    def __init__(self, nodes: Iterable[TreeNode]) -> None:
        by_id = {node.id: node for node in sorted(nodes, key=lambda node: node.first)}
        order = order_nodes({node.id: node.parent for node in by_id.values()})
        self.nodes = {id: by_id[id] for id in order}  # parents before their children
        self.circles = 0  # how many were broken
        self.children: dict[str | None, list[str]] = {}
        for id, parent in order.items():
            node = self.nodes[id]
            self.circles += node.parent in order and node.parent != parent
            node.parent = parent
            self.children.setdefault(parent, []).append(id)

    def is_above(self, id: str, other: str) -> bool:
        """Return True if a unit is the other one, or above it."""
        at: str | None = other
        while at is not None and at != id:
            at = self.nodes[at].parent
        return at is not None

    def find_leaf(self) -> str | None:
        """Return the unit that the tool would continue: the last one that is no dead end."""
        speaking = self.find_speaking()
        for node in sorted(self.nodes.values(), key=lambda node: node.last, reverse=True):
            if not self.is_dead_end(node, speaking):
                return node.id
        return None

    def find_speaking(self) -> set[str]:
        """Return the nodes that are no echoes, and all nodes above them."""
        found: set[str] = set()
        for node in self.nodes.values():
            at = None if node.is_echo else node.id
            while at is not None and at not in found:
                found.add(at)
                at = self.nodes[at].parent
        return found

    def is_dead_end(self, node: TreeNode, speaking: set[str]) -> bool:
        """Return True if a node is in a branch of nothing but echoes, beside one that speaks."""
        while node.is_echo:
            for id in self.children[node.parent]:
                if id != node.id and id in speaking:
                    return True
            if node.parent is None:
                return False
            node = self.nodes[node.parent]
        return False
