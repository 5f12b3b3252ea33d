"""Exporters: a context as a file that another tool can resume, or that a person can read.

    from backstory.exporters import exported

    file = exported(store.resolve("main"), "claude-code")

Each target is a module; `TARGETS` lists them.
"""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from backstory.errors import Invalid
from backstory.exporters import atif, claude_code, codex, html, markdown, pi
from backstory.references import Reference
from backstory.store import Store

__all__ = ["TARGETS", "Export", "exported"]


class Export(NamedTuple):
    """A file: its text, and where the tool looks for it."""

    text: str
    place: Path | None  # relative to the tool's folder; None if no tool looks for it
    named_in: tuple[Path, str] | None = None  # another file there, and the line that lists this one in it


Written = tuple[str, Path | None] | tuple[str, Path, tuple[Path, str]]  # the fields of an Export

TARGETS: dict[str, Callable[[Store, Reference], Written]] = {
    "claude-code": claude_code.written,
    "codex": codex.written,
    "pi": pi.written,
    "html": html.written,
    "md": markdown.written,
    "atif": atif.written,
}


def exported(store: Store, found: Reference, target: str) -> Export:
    """The context of an agent at a position, as a file for a target."""
    if target not in TARGETS:
        raise Invalid(f"no target {target!r}", remedy=f"use one of {', '.join(TARGETS)}")
    return Export(*TARGETS[target](store, found))
