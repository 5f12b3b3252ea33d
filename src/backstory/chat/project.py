"""The folder that a chat belongs to: its latest session, its instructions, and what is recorded
about it."""

import hashlib
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from backstory.agent import Agent
from backstory.chat.tour import TOUR
from backstory.present.agent_lists import title_of
from backstory.present.text import age, count
from backstory.runtime.tools.search import find_repository
from backstory.store import Store

PAGE = 50  # agents that are listed at once
INSTRUCTIONS = ("AGENTS.md", "CLAUDE.md")
MOST_INSTRUCTIONS = 64_000  # bytes of one file
CUT = f"[cut here: only the first {MOST_INSTRUCTIONS:,} bytes of this file are read]"
UNUSED = 4  # events of a session in which nothing was asked yet: a clear, system messages, settings
MOST_LISTED = 500  # sessions to choose from
KEY = "instructions"  # the key in the data of the system message that has them


class Instructions(NamedTuple):
    """The instructions of a project for a model."""

    text: str
    sha256: str
    files: tuple[str, ...]

    @property
    def event(self) -> tuple[str, str, dict[str, Any]]:
        """The system message that has them."""
        return ("system", self.text, {KEY: {"sha256": self.sha256, "files": list(self.files)}})

    def describe(self, folder: Path | None) -> str:
        """Which files they are from."""
        paths = (Path(file) for file in self.files)
        names = [path.name if path.parent == folder else str(path) for path in paths]
        return ", ".join(names) + (
            f" (the first {MOST_INSTRUCTIONS:,} bytes)" if CUT in self.text else ""
        )


class SessionRow(NamedTuple):
    """One session of a list to choose from."""

    id: str
    title: str
    facts: str  # age and size
    is_here: bool  # it belongs to this folder


def latest_agent(store: Store, folder: Path, *, is_tour: bool = False) -> Agent | None:
    """Return the agent that was written to last, among the sessions of a folder, or among its
    tours."""
    belongs: dict[str, bool] = {}
    for agent in _newest_first(store):
        if agent.session not in belongs:
            about = root_of(store, agent).about
            belongs[agent.session] = is_of(about, folder) and (TOUR in about) == is_tour
        if belongs[agent.session]:
            return agent
    return None


def _newest_first(store: Store) -> Iterator[Agent]:
    page = store.agents(order="updated", limit=PAGE)
    while page:
        yield from page
        page = store.agents(order="updated", limit=PAGE, after=page[-1])


def root_of(store: Store, agent: Agent) -> Agent:
    """The first agent of a session, which has the session's title and folder, read again."""
    return store.agent(agent.session)


def is_of(about: dict[str, Any], folder: Path) -> bool:
    """Whether a session belongs to a folder. One without a folder belongs to all of them. An
    imported session must be named, until the chat has written to it."""
    if "chat" not in about and "source" in about:
        return False
    return bool(about.get("cwd", str(folder)) == str(folder))


def session_rows(store: Store, folder: Path | None) -> list[SessionRow]:
    """The latest sessions in which something was asked, as a list to choose from."""
    rows = []
    for session in store.sessions(order="updated", limit=MOST_LISTED):
        root = store.agent(session.id)
        title = title_of(root)
        if not title and session.events <= UNUSED:
            continue
        facts = f"{age(session.updated_at)}, {count(session.events, 'event')}"
        is_here = folder is None or is_of(root.about, folder)
        rows.append(SessionRow(session.id, title or session.name, facts, is_here))
    return rows


def record(
    store: Store, agent: Agent, folder: Path, version: str, *, is_tour: bool = False
) -> None:
    """Record the folder, the machine and the version in the session's `about`."""
    root = root_of(store, agent)
    known: dict[str, Any] = {
        "cwd": str(folder),
        "chat": {"host": platform.node(), "version": version},
    }
    if is_tour:
        known[TOUR] = {"scripted": True}
    if any(root.about.get(key) != value for key, value in known.items()):
        root.describe(**known)


def instructions(folder: Path) -> Instructions | None:
    """The instructions in AGENTS.md or CLAUDE.md, outermost folder first, up to that of the
    repository."""
    texts = []
    files = []
    for path in _find_files(folder):
        text = _read_file(path)
        if text is not None:
            texts.append(f"Instructions from {path}:\n\n{text}")
            files.append(str(path))
    if not texts:
        return None
    whole = "\n\n".join(texts)
    return Instructions(whole, hashlib.sha256(whole.encode()).hexdigest(), tuple(files))


def _find_files(folder: Path) -> list[Path]:
    """Return the files with instructions, outermost first. They are inside the repository, links
    resolved: a link to another place would send any file to the model."""
    top = find_repository(folder)
    found = []
    for place in (folder, *folder.parents):
        for name in INSTRUCTIONS:  # AGENTS.md, which is for all tools, comes first
            path = place / name
            if path.is_file() and path.resolve().is_relative_to(top.resolve()):
                found.append(path)
                break
        if place == top:
            break
    return found[::-1]


def _read_file(path: Path) -> str | None:
    """Return the text of a file with instructions, or None if it has none."""
    try:
        with path.open("rb") as file:
            block = file.read(MOST_INSTRUCTIONS + 1)
    except OSError:
        return None
    text = block[:MOST_INSTRUCTIONS].decode(errors="replace")
    text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if len(block) > MOST_INSTRUCTIONS:
        text += f"\n\n{CUT}"
    return text if text.strip() else None


def are_outdated(agent: Agent, now: Instructions | None) -> bool:
    """Whether the project's instructions differ from those in the context."""
    known = [data[KEY].get("sha256") for data in _list_recorded(agent)]
    return now is not None and now.sha256 not in known


def _list_recorded(agent: Agent) -> Iterator[dict[str, Any]]:
    for event in agent.context().messages:
        if event.kind == "system" and isinstance((event.data or {}).get(KEY), dict):
            yield event.data or {}
