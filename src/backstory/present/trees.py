"""The agents of a session as a tree that rich can draw. Nothing is printed here."""

from rich.text import Text
from rich.tree import Tree

from backstory.agent import Agent
from backstory.present.event_text import mark_label
from backstory.present.measures import age
from backstory.present.safe_text import one_line
from backstory.present.titles import title_of

MOST_MARKS = 5  # on one line of the tree
INDENT = 4  # columns of each level of the tree
SHORTEST_NAME = 8  # what is left of a name at least


def trees(agents: list[Agent], ids: dict[str, str], *, width: int, here: str = "") -> list[Tree]:
    """The sessions as trees of this width; the agent with the id `here` is marked."""
    roots: list[Tree] = []
    nodes: dict[str, Tree] = {}
    room: dict[str | None, int] = {None: width + INDENT}
    known = {agent.id for agent in agents}
    waiting = sorted(agents, key=lambda agent: agent.parent in known)
    while waiting:
        left = []
        for agent in waiting:
            room[agent.id] = room.get(agent.parent if agent.parent in known else None, 0) - INDENT
            line = _line(agent, ids[agent.id], room[agent.id], is_here=agent.id == here)
            if agent.parent not in known:  # a root, or its parent was deleted
                nodes[agent.id] = Tree(line, guide_style="dim")
                roots.append(nodes[agent.id])
            elif agent.parent in nodes:
                nodes[agent.id] = nodes[agent.parent].add(line)
            else:
                left.append(agent)
        if len(left) == len(waiting):  # the ancestry is damaged: show them anyway
            return roots + [
                Tree(_line(agent, ids[agent.id], room[None] - INDENT)) for agent in left
            ]
        waiting = left
    return roots


def _line(agent: Agent, id: str, room: int, *, is_here: bool = False) -> Text:
    """An agent on a line of `room` columns: the name is cut first, then the end of the line; the numbers
    stay. A session's first agent ends with what the session is about: many imported ones share a name."""
    facts = _facts(agent, id)
    if is_here:
        facts = Text(" ◂ here", style="bold").append_text(facts)
    name = Text(one_line(agent.name), style="bold")
    name.truncate(max(SHORTEST_NAME, room - facts.cell_len), overflow="ellipsis")
    text = Text(overflow="ellipsis", no_wrap=True).append_text(name).append_text(facts)
    marks = agent.marks()
    if marks:
        more = f" and {len(marks) - MOST_MARKS} more" if len(marks) > MOST_MARKS else ""
        labels = ", ".join(map(mark_label, marks[-MOST_MARKS:]))
        text.append(f"  ⚑ {labels}{more}", style="magenta")
    if agent.parent is None and (title := title_of(agent)):
        text.append(f"  {title}")
    return text


def _facts(agent: Agent, id: str) -> Text:
    text = Text()
    if agent.parent:
        text.append(
            f" {'spawned' if agent.spawned else 'forked'} at {agent.born_seq}", style="cyan"
        )
    text.append(f"  head {agent.listed_head}")
    text.append(f"  {age(agent.updated_at)}", style="dim")
    return text.append(f"  {id}", style="dim")
