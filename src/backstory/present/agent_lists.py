"""Agents in lists: short references, titles, and trees for a terminal."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from backstory.agent import Agent
from backstory.present.event_text import mark_label
from backstory.present.text import age, one_line

if TYPE_CHECKING:
    from rich.text import Text
    from rich.tree import Tree

SHORTEST_ID = 8
OPENING = 12  # events at the beginning of a session: the prompt follows the system messages
LONGEST_TITLE = 200  # characters
MOST_MARKS = 5  # on one line of a tree
INDENT = 4  # columns of each level of a tree
SHORTEST_NAME = 8  # columns that remain of a name at least


def short_ids(ids: Iterable[str]) -> dict[str, str]:
    """Return the shortest unique prefix of each id."""
    ordered = sorted(ids)
    needed = dict.fromkeys(ordered, SHORTEST_ID)
    for one, other in pairwise(ordered):
        length = _count_shared(one, other) + 1
        needed[one] = max(needed[one], length)
        needed[other] = max(needed[other], length)
    return {id: id[:length].rstrip("-") for id, length in needed.items()}


def _count_shared(one: str, other: str) -> int:
    """Return the number of characters with which both texts begin."""
    for index, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return index
    return min(len(one), len(other))


def short_ref(agent: Agent, agents: Iterable[Agent]) -> str:
    """Return the shortest reference to an agent: its name if it is unique, otherwise its id."""
    return short_refs(agents)[agent.id]


def short_refs(agents: Iterable[Agent]) -> dict[str, str]:
    """Return the shortest reference to each agent, by its id."""
    names = {agent.id: agent.name for agent in agents}
    counts = Counter(names.values())
    ids = short_ids(names)
    return {id: name if counts[name] == 1 else ids[id] for id, name in names.items()}


def find_free_name(name: str, agents: Iterable[Agent]) -> str:
    """Return `name`, or with a number if an agent has it: name-2, name-3, …"""
    names = {agent.name for agent in agents}
    free = name
    number = 1
    while free in names:
        number += 1
        free = f"{name}-{number}"
    return free


def title_of(root: Agent) -> str:
    """Return the title of a session, its first prompt, or nothing; on one line."""
    title = root.about.get("title")
    if not isinstance(title, str) or not title.strip():
        title = first_prompt(root)
    return one_line(title)[:LONGEST_TITLE]


def first_prompt(root: Agent) -> str:
    """Return the first prompt of an agent, if it is near the beginning."""
    for event in root.events(until=min(root.listed_head, OPENING)):
        data = event.data or {}
        is_empty = not (event.content or "").strip()
        if event.kind == "user" and not is_empty and not data.get("meta"):
            return str(data.get("typed") or event.content)
    return ""


def group_by_parent(agents: Sequence[Agent]) -> dict[str | None, list[Agent]]:
    """Return the agents below each parent. Those without one, or whose parent was deleted, are
    below None."""
    children: dict[str | None, list[Agent]] = {}
    known = {agent.id for agent in agents}
    for agent in agents:
        parent = agent.parent if agent.parent in known else None
        children.setdefault(parent, []).append(agent)
    return children


class TreeBuilder:
    """Builds the trees of all sessions for a terminal, from their roots to the leaves."""

    def __init__(self, agents: list[Agent], ids: dict[str, str], width: int) -> None:
        self._agents = agents
        self._ids = ids
        self._width = width
        self._children = group_by_parent(agents)

    def build(self) -> "list[Tree]":
        """Return one tree for each root, and one for each agent whose ancestry is a circle."""
        from rich.tree import Tree

        found = []
        waiting: list[tuple[Tree, Agent, int]] = []
        missing = {agent.id: agent for agent in self._agents}
        for root in self._children.get(None, []):
            tree = Tree(self._draw(root, self._width), guide_style="dim")
            found.append(tree)
            waiting.append((tree, root, self._width))
        while waiting:
            tree, parent, width = waiting.pop()
            del missing[parent.id]
            for agent in self._children.get(parent.id, []):
                line = self._draw(agent, width - INDENT)
                waiting.append((tree.add(line), agent, width - INDENT))
        found += [Tree(self._draw(agent, self._width)) for agent in missing.values()]
        return found

    def _draw(self, agent: Agent, width: int) -> "Text":
        """Draw an agent on one line. The name is cut first, then the end of the line. The root of
        a session ends with the title, because many imported ones share a name."""
        from rich.text import Text

        facts = self._draw_facts(agent)
        name = Text(one_line(agent.name), style="bold")
        name.truncate(max(SHORTEST_NAME, width - facts.cell_len), overflow="ellipsis")
        line = Text(overflow="ellipsis", no_wrap=True).append_text(name).append_text(facts)
        marks = agent.marks()
        if marks:
            more = f" and {len(marks) - MOST_MARKS} more" if len(marks) > MOST_MARKS else ""
            labels = ", ".join(map(mark_label, marks[-MOST_MARKS:]))
            line.append(f"  ⚑ {labels}{more}", style="magenta")
        title = title_of(agent) if agent.parent is None else ""
        if title:
            line.append(f"  {title}")
        return line

    def _draw_facts(self, agent: Agent) -> "Text":
        from rich.text import Text

        facts = Text()
        if agent.parent:
            origin = "spawned" if agent.spawned else "forked"
            facts.append(f" {origin} at {agent.born_seq}", style="cyan")
        facts.append(f"  head {agent.listed_head}")
        facts.append(f"  {age(agent.updated_at)}", style="dim")
        return facts.append(f"  {self._ids[agent.id]}", style="dim")
