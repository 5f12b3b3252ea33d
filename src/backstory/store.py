"""The handle of a store: its sessions and agents, and how to find them."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from backstory.agent import Agent
from backstory.arguments import checked_limit, own_agent
from backstory.errors import AgentNotFound, Ambiguous, Invalid, KeyTaken, Remedy
from backstory.listings import Session, latest_sessions, session_page, sessions_of
from backstory.log.drafts import draft
from backstory.log.events import Event, checked_prefix, moment_us
from backstory.log.messages import check_says_something
from backstory.log.notes import checked_note_name
from backstory.maintenance.verify import Finding, verify
from backstory.references import LONGEST_ID, Reference, matches, near_names, resolve, session_ids
from backstory.storage import connect
from backstory.storage.bases import with_bases
from backstory.storage.erase import expire_dead
from backstory.storage.follow import Follower, follow_store
from backstory.storage.ids import checked_name, name_of, new_id
from backstory.storage.keys import create_keyed, keyed_agent
from backstory.storage.log import Log, now
from backstory.storage.protocols import Backend, NewAgent, Wanted

if TYPE_CHECKING:  # imported where they are used, so that opening a store does not wait for them
    from backstory.intake import Intake, Source
    from backstory.maintenance.distribution import Distribution
    from backstory.maintenance.export_loader import Transfer
    from backstory.maintenance.indexer import Progress
    from backstory.maintenance.removal import Removed
    from backstory.maintenance.search import Hit, Hits
    from backstory.maintenance.stats import Stats
    from backstory.maintenance.transfer import Writable
    from backstory.transcripts.outcome import Outcome


def open(url: str | os.PathLike[str], *, read_only: bool = False) -> "Store":
    """Open a store, or create it: the path of an SQLite file, "postgresql://…", or ":memory:". With
    `read_only`, it must exist, and calls that write raise ReadOnly. A store that cannot be written is opened
    like this automatically."""
    return Store(connect(url, read_only=read_only))


class Store:
    """One database with any number of sessions. Threads may share it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._log = Log(backend)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Store {self.url!r}>"

    @property
    def url(self) -> str:
        """Where the store is, without its password."""
        return self._backend.url

    @property
    def read_only(self) -> bool:
        """Whether the store can only be read: calls that write raise ReadOnly."""
        return self._backend.read_only

    def close(self) -> None:
        """Close files and connections."""
        self._backend.close()

    def start(
        self, name: str = "main", *, system: str | None = None, key: str | None = None
    ) -> Agent:
        """Start a session and return its root agent, with a system message if one is given. Raises KeyTaken
        if an agent has this key already."""
        if system is not None:
            check_says_something("system", system)
        events = [] if system is None else with_bases([draft("system", system)])

        def create(id: str) -> Agent:
            new = NewAgent(id, id, checked_name(name), key=key)
            return Agent(self._log, self._backend.create(new, events, now()))

        return create(new_id()) if key is None else create_keyed(self._backend, key, create)

    def ensure(self, key: str, *, name: str | None = None, system: str | None = None) -> Agent:
        """The agent with this key. If there is none, a session is started with it, only once, however many
        processes ask at the same time."""
        while True:
            _, found = keyed_agent(self._backend, key)
            if found is not None:
                return Agent(self._log, found)
            try:
                return self.start(name_of(key) if name is None else name, system=system, key=key)
            except KeyTaken:
                continue  # another process was faster

    def keyed(self, key: str) -> Agent:
        """The agent with this key."""
        _, found = keyed_agent(self._backend, key)
        if found is None:
            raise AgentNotFound(
                f"no agent has the key {key!r:.80}",
                remedy=Remedy("{} makes one", "ensure", (key[:80],)),
            )
        return Agent(self._log, found)

    def agent(self, ref: str) -> Agent:
        """The agent with this id, unique id prefix, name, or session/name; otherwise the one that another
        tool knows by this id or its prefix, or that has this key or title."""
        if not isinstance(ref, str) or not ref.isprintable():
            raise AgentNotFound(
                f"{ref!r} is not an agent",
                remedy="pass an id, an id prefix, a name or session/name",
            )
        found = matches(self._backend, ref)
        if not found:
            raise AgentNotFound(
                f"no agent {ref!r} in {self.url!r}{near_names(self._backend, ref)}",
                remedy=Remedy("{} lists the agents", "agents"),
            )
        if len(found) > 1:
            fitting = [f"{record.session}/{record.name}" for record in found]
            raise Ambiguous(
                f"{ref!r} fits {len(found)} agents",
                remedy=f"use one of {_shortened(fitting)}",
                matches=fitting,
            )
        return Agent(self._log, found[0])

    def agents(
        self,
        *,
        session: str | None = None,
        prefix: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        order: str = "born",
        limit: int | None = None,
        after: Agent | str | None = None,
    ) -> list[Agent]:
        """All agents, or those of one session (given by its id, its name, or any of its agents), whose key
        begins with `prefix`, and that were last written to at or after `since` and before `until`. Oldest
        first, or last written first (`order="updated"`). `limit` and `after` (the last agent of the previous
        page) select one page."""
        id = None if session is None else self._session_of(session)
        wanted = self._page(prefix, since, until, order, limit, after)._replace(session=id)
        return [Agent(self._log, record) for record in self._backend.agents(wanted)]

    def _session_of(self, ref: str) -> str:
        """The id of a session, given by its id, its name, or any of its agents."""
        if (
            isinstance(ref, str)
            and len(ref) == LONGEST_ID
            and (known := session_ids(self._backend, ref))
        ):
            return known[0]
        return self.agent(ref).session

    def sessions(
        self,
        *,
        prefix: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        order: str = "born",
        limit: int | None = None,
        after: "Session | str | None" = None,
    ) -> list[Session]:
        """All sessions, or a page of them, as with `agents`. A session was last written to when any of its
        agents was."""
        everything = (prefix, since, until, limit, after) == ("", None, None, None, None)
        if everything and order == "born":
            return sessions_of(self._backend.agents(Wanted(partial=True)))
        page = self._page(prefix, since, until, order, limit, None)
        if order == "updated":
            last_id = after.id if isinstance(after, Session) else after and self._session_of(after)
            return latest_sessions(self._backend, page, last_id or None)
        if after is not None:
            id = after.id if isinstance(after, Session) else self._session_of(after)
            [last] = self._backend.agents(Wanted(prefix=id, deleted=True)) or [
                self.agent(id).snapshot
            ]
            page = page._replace(after=last)
        return session_page(self._backend, page)

    def _page(
        self,
        prefix: str,
        since: datetime | None,
        until: datetime | None,
        order: str,
        limit: int | None,
        after: Agent | str | None,
    ) -> Wanted:
        if order not in ("born", "updated"):
            raise Invalid(f"{order!r} is not an order", remedy="use 'born' or 'updated'")
        last = after if isinstance(after, Agent | None) else self.agent(after)
        return Wanted(
            key_prefix=checked_prefix(prefix) or None,
            since_us=None if since is None else moment_us(since),
            until_us=None if until is None else moment_us(until),
            latest_first=order == "updated",
            limit=checked_limit(limit, "agents"),
            after=None if last is None else own_agent(self._log, last).snapshot,
            partial=True,
        )

    def find(self, key: str) -> list[tuple[Agent, Event]]:
        """The events with this key, in all sessions, each with the agent that owns it, or, if that was
        deleted, with one that inherits it."""
        from backstory.maintenance.keys import find

        return find(self._log, key)

    def last_notes(self, name: str, prefix: str = "") -> list[tuple[Agent, Event]]:
        """The newest live note with a name, for each agent that has one and whose key begins with
        `prefix`."""
        from backstory.maintenance.notes import last_notes

        return last_notes(self._log, checked_note_name(name), checked_prefix(prefix))

    def marks(self, session: str) -> list[tuple[Agent, Event]]:
        """All marks of a session (given by its id, its name, or any of its agents), dead or alive, each with
        the agent that owns it, or, if that was deleted, with one that inherits it."""
        from backstory.maintenance.marks import session_marks

        return session_marks(self._log, self._session_of(session))

    def follow(
        self, after: Mapping[str, int] | None = None, *, timeout: float | None = None
    ) -> Follower[tuple[Agent, Event]]:
        """The events of all agents as they are committed, each with its agent, new agents included. `after`
        maps agent ids to the last position seen; all events of other agents are yielded. Ends as
        `agent.follow` does."""
        return follow_store(self._log, after, timeout, lambda record: Agent(self._log, record))

    def resolve(self, ref: str = "@") -> Reference:
        """The agent and position that a reference like session/name@label means; `@` is the latest agent."""
        return resolve(self, ref)

    def search(
        self,
        words: str,
        *,
        agent: str | Agent | None = None,
        session: str | None = None,
        kinds: Sequence[str] = (),
        live: bool = False,
        limit: int = 20,
        after: "Hit | None" = None,
        wait: bool = False,
        progress: "Progress | None" = None,
    ) -> "Hits":
        """The events that contain all words, best first, dead ones included. "Several words" in quotes are a
        phrase, begin* is a prefix. `agent`: only what it sees; `session`: only what its agents wrote; `live`:
        only what is in a context; `after`: the last hit of the previous page. If much was written since the
        last search, the index catches up in the background, and `hits.behind` says how many events it lacks.
        `wait` waits for it, and so does `progress(done, total)`, which is called with how far it is."""
        from backstory.maintenance.search import search

        return search(
            self._log,
            words,
            agent=self.agent(agent) if isinstance(agent, str) else agent,
            session=None if session is None else self._session_of(session),
            kinds=kinds,
            live=live,
            limit=limit,
            after=after,
            wait=wait,
            progress=progress,
        )

    def write(self, batches: Iterable[tuple[Any, ...]]) -> list[list[Event]]:
        """Append to several agents, all or none: (agent, events, expected) for each, as in `agent.extend`;
        `expected` may be left out."""
        from backstory.batches import write

        return write(self._log, batches)

    def stats(self, *, tokens: bool = False) -> "Stats":
        """Live and dead events, bytes, and the largest agents. With `tokens`, also the tokens of all
        contexts, which must be read for that."""
        from backstory.maintenance.stats import stats

        return stats(self._log, tokens=tokens)

    def export_to(self, file: "Writable", *, sessions: Sequence[str] | None = None) -> "Transfer":
        """Write sessions (their ids or names; default: all) as JSON lines, without loss, as of one moment."""
        from backstory.maintenance.transfer import export

        ids = None if sessions is None else [self._session_of(session) for session in sessions]
        return export(self._backend, file, ids)

    def import_from(self, lines: Iterable[str | bytes]) -> "Transfer":
        """Add the export of another store, completely or not at all; what is there already is skipped."""
        from backstory.maintenance.transfer import import_

        return import_(self._backend, lines)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write a copy as of one moment into a new SQLite file, while others write."""
        from backstory.maintenance.backup import backup

        backup(self._backend, os.fspath(path))

    def intake(self) -> "Intake":
        """Write events that happened elsewhere, with their original times: see `Intake`."""
        from backstory.intake import Intake

        return Intake(self._log)

    def source(self, tool: str, id: str) -> "Source | None":
        """What is known about a source, given by its tool and the tool's id for it; None if nothing is."""
        from backstory.intake import source_of

        return source_of(self._backend, tool, id)

    def delete(self, ref: str | Agent, below: bool = False, *, dry_run: bool = False) -> "Removed":
        """Remove an agent for good; `below` also removes its forks and sub-agents. What remaining forks
        inherit stays with them. `dry_run` only reports what would be removed."""
        from backstory.maintenance.removal import delete

        agent = own_agent(self._log, ref) if isinstance(ref, Agent) else self.agent(ref)
        return delete(self._backend, agent.snapshot, below=below, dry_run=dry_run)

    def import_transcripts(
        self,
        /,
        paths: "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]",
        *,
        format: str | None = None,
        progress: "Callable[[int, int], object] | None" = None,
        **options: Any,
    ) -> "Outcome":
        """Add the histories of other tools from these files, folders, databases and zips; what is there
        already is skipped. `format` names the tool; without it, the format is recognized. `progress(done,
        total)` is called with bytes. Options: `since`, `project`, `mask`, `images`, `raw`, `settle`, `dry`
        and `siblings`."""
        from backstory.transcripts import format_named
        from backstory.transcripts.run import import_transcripts

        given = [paths] if isinstance(paths, str | os.PathLike) else paths
        chosen = None if format is None else format_named(format)
        return import_transcripts(self, given, format=chosen, progress=progress, **options)

    def expire(
        self, before: datetime, prefix: str = "", dry_run: bool = True, *, dead: bool = False
    ) -> "Removed":
        """Delete the sessions last written to before `before`, or only those whose key begins with `prefix`.
        With `dead`, no session is deleted; instead, older events that are no longer in any context are
        erased. Unless `dry_run` is False, it only reports what would be removed."""
        from backstory.maintenance.removal import Removed, expire

        moment = moment_us(before)
        checked_prefix(prefix)
        if dead:
            erased = expire_dead(self._backend, moment, prefix=prefix, dry_run=dry_run)
            return Removed((), 0, erased)
        return expire(self._backend, moment, prefix=prefix, dry_run=dry_run)

    def seal(self) -> dict[str, Any]:
        """A small JSON object with the digest of every agent's head. Keep it elsewhere: with it, `verify` can
        prove that everything is still there, unchanged."""
        from backstory.maintenance.seals import seal

        return seal(self._backend)

    def distribute(self, progress: Callable[[int, int], None] | None = None) -> "Distribution":
        """Spread a store that existed before the Citus extension was installed over the servers of its
        cluster. Everyone else waits. `progress` is called with (rows moved, all rows)."""
        from backstory.maintenance.distribution import distribute

        return distribute(self._backend, progress)

    def verify(
        self, *, seal: Mapping[str, Any] | None = None, requests: bool = False
    ) -> list[Finding]:
        """Read everything and report what contradicts the rules, the digests or a `seal`. Returns an empty
        list for a sound store."""
        found = verify(self._backend, seal)
        if requests:
            from backstory.maintenance.requests import unproved_requests

            found += unproved_requests(self._log)
        return found


def _shortened(matches: list[str], most: int = 8) -> str:
    rest = f" and {len(matches) - most} more" if len(matches) > most else ""
    return ", ".join(matches[:most]) + rest
