"""The title of a session in a list: the one that was set, or the first prompt."""

from backstory.agent import Agent
from backstory.present.safe_text import one_line

LOOKED_AT = 12  # events at the beginning of a session: the prompt comes after the system messages
LONGEST = 200  # characters


def title_of(root: Agent) -> str:
    """The title, the first prompt, or nothing; on one line."""
    title = root.about.get("title")
    return one_line(title if isinstance(title, str) and title.strip() else first_prompt(root))[
        :LONGEST
    ]


def first_prompt(root: Agent) -> str:
    """The first prompt of an agent, if it is near the beginning."""
    for event in root.events(until=min(root.listed_head, LOOKED_AT)):
        data = event.data or {}
        if event.kind == "user" and (event.content or "").strip() and not data.get("meta"):
            return str(data.get("typed") or event.content)
    return ""
