"""The store people open: sessions, agents, and how to find them."""

import os
from collections.abc import Iterable, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from backstory.agent import Agent
from backstory.core.events import draft, to_datetime
from backstory.errors import AgentNotFound, Ambiguous, Remedy
from backstory.jobs.verify import Finding, verify
from backstory.references import Reference, resolve
from backstory.storage import connect
from backstory.storage.ids import checked_name, new_id
from backstory.storage.log import Log, now, settle
from backstory.storage.protocols import AgentRecord, Backend, NewAgent

if TYPE_CHECKING:  # imported where they are used: opening a store should not wait for them
    from backstory.jobs.search import Hit, Tell
    from backstory.jobs.stats import Stats
    from backstory.jobs.transfer import Transfer, Writable

SHORTEST_PREFIX = 4  # of an id
LONGEST_ID = 36


class Session(NamedTuple):
    """One tree of agents, as it was when it was listed."""

    id: str
    name: str  # its root's
    agents: int
    events: int
    created_at: datetime
    updated_at: datetime


def open(url: str | os.PathLike[str]) -> "Store":
    """Open a store, and make it if it is not there: the path of an SQLite file, "postgresql://…",
    or ":memory:"."""
    return Store(connect(url))


class Store:
    """One database with any number of sessions. Threads may share it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._log = Log(backend)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {self.url!r}>"

    @property
    def url(self) -> str:
        """Where the store is, without its password."""
        return self._backend.url

    def close(self) -> None:
        """Let go of files and connections."""
        self._backend.close()

    def start(self, name: str = "main", *, system: str | None = None) -> Agent:
        """A new session and its root agent, with its system message if one is given."""
        id = new_id()
        events = [] if system is None else settle([draft("system", system)])
        record = self._backend.create(NewAgent(id, id, checked_name(name)), events, now())
        return Agent(self._log, record)

    def agent(self, ref: str) -> Agent:
        """The agent with this id, unique id prefix, name, or session/name."""
        if not isinstance(ref, str) or not ref.isprintable():
            raise AgentNotFound(
                f"{ref!r} is not an agent", remedy="pass an id, an id prefix, a name or session/name"
            )
        found = self._matches(ref)
        if not found:
            raise AgentNotFound(
                f"there is no agent {ref!r} in {self.url!r}{self._near(ref)}",
                remedy=Remedy("{} lists all of them", "agents"),
            )
        if len(found) > 1:
            matches = [f"{record.session}/{record.name}" for record in found]
            raise Ambiguous(
                f"{ref!r} fits {len(found)} agents",
                remedy=f"use one of {_shortened(matches)}",
                matches=matches,
            )
        return Agent(self._log, found[0])

    def _matches(self, ref: str) -> list[AgentRecord]:
        if len(ref) == LONGEST_ID and (exact := self._backend.agents(prefix=ref.lower())):
            return exact
        session, slash, name = ref.rpartition("/")
        if slash:
            roots = [record for record in self._matches(session) if record.id == record.session]
            return [record for root in roots for record in self._backend.agents(session=root.id, name=name)]
        named = self._backend.agents(name=ref)
        if named or len(ref) < SHORTEST_PREFIX:
            return named
        return self._backend.agents(prefix=ref.lower())

    def _near(self, ref: str) -> str:
        from difflib import get_close_matches

        names = {record.name for record in self._backend.agents()}
        near = get_close_matches(ref.rpartition("/")[2], names)
        return f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""

    def agents(self, *, session: str | None = None) -> list[Agent]:
        """All agents, or those of one session (its id, its name, or any agent of it), in the order
        of their birth."""
        id = None if session is None else self.agent(session).session
        return [Agent(self._log, record) for record in self._backend.agents(session=id)]

    def sessions(self) -> list[Session]:
        """All sessions, in the order of their birth."""
        trees: dict[str, list[AgentRecord]] = {}
        for record in self._backend.agents():
            trees.setdefault(record.session, []).append(record)
        return [_session(id, tree) for id, tree in trees.items()]

    def resolve(self, ref: str = "@") -> Reference:
        """The agent and position that a reference like session/name@label means; `@`: the latest."""
        return resolve(self, ref)

    def search(
        self,
        words: str,
        *,
        agent: str | Agent | None = None,
        kinds: Sequence[str] = (),
        live: bool = False,
        limit: int = 20,
        tell: "Tell | None" = None,
    ) -> "list[Hit]":
        """The events that hold all words, best first, dead ones included. "Several words" in quotes
        stand side by side, begin* is the beginning of one. `agent`: only what it sees; `live`: only
        what is in a context; `tell(done, total)` hears how far the index has caught up."""
        from backstory.jobs.search import search

        asked = self.agent(agent) if isinstance(agent, str) else agent
        return search(self._log, words, agent=asked, kinds=kinds, live=live, limit=limit, tell=tell)

    def stats(self, *, tokens: bool = False) -> "Stats":
        """Events live and dead, bytes, and the largest agents. With `tokens`, the tokens of all contexts,
        too: that reads them all."""
        from backstory.jobs.stats import stats

        return stats(self._log, tokens=tokens)

    def export_to(self, file: "Writable", *, sessions: Sequence[str] | None = None) -> "Transfer":
        """Write sessions (their ids; default: all) as JSON lines, without loss, as of one moment."""
        from backstory.jobs.transfer import export

        return export(self._backend, file, sessions)

    def import_from(self, lines: Iterable[str | bytes]) -> "Transfer":
        """Add what another store exported: all of it or nothing, and nothing twice."""
        from backstory.jobs.transfer import import_

        return import_(self._backend, lines)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write a copy as of one moment into a new SQLite file, while others write."""
        from backstory.jobs.transfer import backup

        backup(self._backend, os.fspath(path))

    def verify(self) -> list[Finding]:
        """Read everything again and report what contradicts the law; nothing, for a sound store."""
        return verify(self._backend)


def _session(id: str, tree: Sequence[AgentRecord]) -> Session:
    return Session(
        id=id,
        name=next((record.name for record in tree if record.id == id), id),
        agents=len(tree),
        events=sum(record.head - record.fork_seq for record in tree),
        created_at=to_datetime(min(record.created_us for record in tree)),
        updated_at=to_datetime(max(record.updated_us for record in tree)),
    )


def _shortened(matches: list[str], most: int = 8) -> str:
    rest = f" and {len(matches) - most} more" if len(matches) > most else ""
    return ", ".join(matches[:most]) + rest
