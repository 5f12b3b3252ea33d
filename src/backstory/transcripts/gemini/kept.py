"""Which messages of Gemini CLI say what others said before under another id. Pure.

A compaction keeps the newest messages, but newer versions give them new ids.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from backstory.transcripts.transcript import Entry
from backstory.transcripts.words import Words

TOOLS = Words({"tool_call", "tool_result"})


class Said(NamedTuple):
    """What an entry says, and its id."""

    kind: str
    words: int
    id: str


def said_in(entries: Iterable[Entry], *, is_kept: bool = False) -> list[Said]:
    """What entries say: those without words say nothing. `is_kept`: without the answer to a summary, which
    the tool writes itself and in the same words each time."""
    found = []
    for entry in entries:
        kind, content = entry.kind, entry.content
        if kind in TOOLS:  # a result may have been shortened
            found.append(Said(kind, hash((kind, (entry.data or {}).get("id"))), entry.id))
        elif (
            content
            and kind != "clear"
            and not (is_kept and kind == "assistant" and not entry.copy_of)
        ):
            found.append(Said(kind, hash((kind, "".join(content.split()))), entry.id))
    return found


def repeated(new: Sequence[Said], old: Sequence[Said]) -> dict[str, str]:
    """The entries of a history that repeat the end of another one. What stands before them is a summary."""
    tools = {said.words: said.id for said in old if said.kind in TOOLS}
    texts = [said for said in old if said.words not in tools]
    found: dict[str, str] = {}
    for said in reversed(new):
        if said.words in tools:
            found[said.id] = tools[said.words]
            continue
        place = _last_place(said, texts)
        if place is not None:
            found[said.id] = texts[place].id
            del texts[place:]
        elif said.kind == "user":
            break
    return found


def _last_place(said: Said, texts: Sequence[Said]) -> int | None:
    """Where a text was said last; not before a prompt that is missing in what repeats it."""
    for place in range(len(texts) - 1, -1, -1):
        if texts[place].words == said.words:
            return place
        if texts[place].kind == "user":
            return None
    return None
