"""Writes a context as a file that another tool can resume, or that a person can read.

from backstory.transcripts.exporting import exported

file = exported(store, store.resolve("main"), "claude-code")
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Protocol

from backstory.agent import Agent
from backstory.errors import Invalid
from backstory.present import html, markdown
from backstory.references import Reference
from backstory.transcripts.atif import export as atif
from backstory.transcripts.claude_code import export as claude_code
from backstory.transcripts.codex import export as codex
from backstory.transcripts.pi import export as pi

__all__ = ["TARGETS", "Export", "exported"]


class Export(NamedTuple):
    """A file: its text, and where the tool looks for it."""

    text: str
    place: Path | None = None  # relative to the tool's folder; None if no tool looks for it
    named_in: tuple[Path, str] | None = (
        None  # another file there, and the line that lists this one in it
    )


class SessionAgents(Protocol):
    """Lists the agents of a session, as a store does."""

    def agents(self, *, session: str) -> list[Agent]: ...


Written = tuple[str, Path | None] | tuple[str, Path, tuple[Path, str]]  # the fields of an Export

TOOLS: dict[str, Callable[[Reference], Written]] = {
    "claude-code": claude_code.written,
    "codex": codex.written,
    "pi": pi.written,
    "atif": atif.written,
}
TARGETS = ("claude-code", "codex", "pi", "html", "md", "atif")


def exported(store: SessionAgents, found: Reference, target: str) -> Export:
    """Return the context of an agent at a position, as a file for `target`."""
    if target == "html":
        return Export(html.written(found, store.agents(session=found.agent.session)))
    if target == "md":
        return Export(markdown.written(found))
    if target not in TOOLS:
        raise Invalid(f"no target {target!r}", remedy=f"use one of {', '.join(TARGETS)}")
    return Export(*TOOLS[target](found))
