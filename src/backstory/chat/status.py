"""The status line: agent, model, folder, how full the context is, and the cost."""

from backstory.chat.cost import Cost
from backstory.chat.session import Chat
from backstory.present.safe_text import one_line

SHORTEST_NAME = 8  # the least columns for an agent's name


def status_line(chat: Chat, width: int, spent: Cost) -> str:
    """The line. If it is too long, the folder is dropped first, then the name is cut; the numbers stay."""
    marks = chat.agent.marks()
    window = f"/{chat.model.window:,}" if chat.model.window else ""
    model = one_line(chat.model.name)
    numbers = [spent.money()] if spent.dollars else []
    numbers.append(f"{chat.tokens():,}{window} tokens")
    if marks:
        numbers.append(f"⚑ {one_line(str(marks[-1].label or marks[-1].seq))}")
    name = one_line(chat.agent.name)
    folder = one_line(chat.folder.name) if chat.folder else ""
    whole = " · ".join([name, model, *([folder] if folder else []), *numbers])
    if len(whole) < width:
        return whole
    facts = "".join(f" · {part}" for part in [model, *numbers])
    room = max(SHORTEST_NAME, width - len(facts) - 1)
    return (name if len(name) <= room else name[: room - 1] + "…") + facts
