"""The handle of a store: its sessions and agents, and how to find them."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self, Unpack

from backstory.agent import Agent, create_agent
from backstory.errors import AgentNotFound, Conflict, Invalid, KeyTaken, Remedy
from backstory.listings import (
    HeadWatch,
    Session,
    find_events,
    list_last_notes,
    list_last_notes_of,
    list_marks,
    list_sessions,
)
from backstory.log.arguments import (
    check_keys,
    check_limit,
    check_moment,
    check_name,
    check_note_name,
    check_prefix,
)
from backstory.log.checks import check_draft, check_drafts, check_not_blank
from backstory.log.events import Draft, Event, EventTuple
from backstory.log.messages import drop_replaced
from backstory.reading import AgentHandle, get_lineage, get_record
from backstory.references import (
    Reference,
    find_agent,
    find_session,
    resolve_reference,
)
from backstory.storage import connect
from backstory.storage.agent_errors import report_inert_events
from backstory.storage.follow import Follower, follow_store
from backstory.storage.ids import find_keyed_agent, name_from_key
from backstory.storage.locks import DEFAULT_TIMEOUT
from backstory.storage.positions import check_expected
from backstory.storage.protocol import (
    AgentQuery,
    AgentRecord,
    Backend,
    Distributable,
    EventFilter,
    ListOrder,
    NewAgent,
    RemovalRecord,
)
from backstory.storage.repeats import check_distinct_keys
from backstory.storage.write import (
    AgentBatch,
    append_together,
    decide_bases,
)

if TYPE_CHECKING:  # imported where they are used, so that opening a store does not wait for them
    from backstory.intake import Intake
    from backstory.maintenance.export_format import Transfer
    from backstory.maintenance.exporter import Writable
    from backstory.maintenance.indexing import Progress
    from backstory.maintenance.removal import Removed
    from backstory.maintenance.search import Hit, Hits
    from backstory.maintenance.stats import Stats
    from backstory.maintenance.verify import Finding
    from backstory.transcripts.importing import ImportOptions
    from backstory.transcripts.model import ImportOutcome

SYSTEM_MESSAGES = EventFilter(kinds=frozenset({"system"}))
BATCH_FORM = "pass (agent, events) or (agent, events, expected) for each agent"


class Distribution(NamedTuple):
    """The result of distributing a store."""

    rows: int  # that were moved; 0 if the store was distributed already
    servers: int  # that the store is spread over


def open(
    url: str | os.PathLike[str], *, read_only: bool = False, timeout: float = DEFAULT_TIMEOUT
) -> "Store":
    """Open a store, or create it: the path of an SQLite file, "postgresql://…", or ":memory:". With
    `read_only`, it must exist, and calls that write raise ReadOnly. A store that cannot be written
    is opened like this automatically. No call waits longer than `timeout` seconds: for other
    writers, which raises Busy, or for a server that does not answer, which raises
    ConnectionLost."""
    return Store(connect(url, read_only=read_only, timeout=timeout))


class Store:
    """One database with any number of sessions. Threads may share it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

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
        """The address of the store, without its password."""
        return self._backend.url

    @property
    def read_only(self) -> bool:
        """True if the store can only be read: calls that write raise ReadOnly."""
        return self._backend.read_only

    def is_replaced(self) -> bool:
        """Return True if another file is now at the path of the store, such as after a restore from
        a backup. Then the store should be opened again. Always False for other databases."""
        return self._backend.is_replaced()

    def close(self) -> None:
        """Close files and connections."""
        self._backend.close()

    # --- agents ---

    def start(
        self,
        name: str = "main",
        *,
        system: str | None = None,
        key: str | None = None,
        events: Iterable[Event | EventTuple] = (),
    ) -> Agent:
        """Start a session and return its root agent, with a system message if one is given, and
        then with `events`, as in `agent.extend`: all in one step. Raises KeyTaken if an agent has
        this key already."""
        checked_name = check_name(name)
        drafts = _build_first_drafts(system, events)
        decided = decide_bases(drafts, head=0)
        new = NewAgent(id="", session="", name=checked_name, key=key)
        agent = create_agent(self._backend, new, decided.drafts)
        report_inert_events(get_record(self._backend, agent), decided.inert)
        return agent

    def ensure(self, key: str, *, name: str | None = None, system: str | None = None) -> Agent:
        """Return the agent with this key. If there is none, a session is started with it, only
        once, however many processes ask at the same time. If its context has another system prompt
        than `system`, that is replaced: see `agent.system(replace=True)`. The name is that of a
        new session; an existing one keeps its own."""
        while True:
            _, found = find_keyed_agent(self._backend, key)
            if found is not None:
                agent = Agent(self._backend, found)
                if system is not None:
                    _ensure_system_prompt(agent, system)
                return agent
            try:
                wanted = name_from_key(key) if name is None else name
                return self.start(wanted, system=system, key=key)
            except KeyTaken:
                continue  # another process was faster

    def agent(self, ref: str | None = None, *, key: str | None = None) -> Agent:
        """Return the agent with this id, unique id prefix, name, or session/name; otherwise the one
        that another tool knows by this id or its prefix, or that has this key or title. With `key`,
        return the agent that has exactly this key; `ensure` also creates it."""
        if key is None:
            return Agent(self._backend, find_agent(self._backend, ref))
        if ref is not None:
            raise Invalid("an agent is found by a reference or by a key", remedy="pass one of them")
        _, found = find_keyed_agent(self._backend, key)
        if found is None:
            raise AgentNotFound(
                f"no agent has the key {key!r:.80}",
                remedy=Remedy("{} makes one", "ensure", (key[:80],)),
            )
        return Agent(self._backend, found)

    def _get_record(self, agent: str | AgentHandle) -> AgentRecord:
        """Return the row of an agent, which may be given by a reference."""
        if isinstance(agent, str):
            return find_agent(self._backend, agent)
        return get_record(self._backend, agent)

    def resolve(self, ref: str = "@") -> Reference:
        """Return the agent and position that a reference like session/name@label means; `@` is the
        latest agent."""
        return resolve_reference(self._backend, ref)

    def delete(
        self,
        ref: str | AgentHandle,
        below: bool = False,
        *,
        dry_run: bool = False,
        by: str | None = None,
    ) -> "Removed":
        """Remove an agent for good; `below` also removes its forks and sub-agents. Events that
        remaining forks inherit stay with them. `dry_run` only reports what would be removed.
        `removals()` lists what was removed, and `by` whom."""
        from backstory.maintenance.removal import delete_agent

        record = self._get_record(ref)
        return delete_agent(self._backend, record, below=below, dry_run=dry_run, by=by)

    # --- listings ---

    def agents(
        self,
        *,
        session: str | None = None,
        prefix: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        order: ListOrder = "born",
        limit: int | None = None,
        after: AgentHandle | str | None = None,
    ) -> list[Agent]:
        """Return all agents, or those of one session (given by its id, its name, or any of its
        agents), whose key begins with `prefix`, and that were last written to at or after `since`
        and before `until`. Oldest first, or last written first (`order="updated"`). `limit` and
        `after` (the last agent of the previous page) select one page."""
        query = self._build_query(prefix, since, until, order, limit)
        if session is not None:
            query = query._replace(session=find_session(self._backend, session))
        if after is not None:
            query = query._replace(after=self._get_record(after))
        return [Agent(self._backend, record) for record in self._backend.list_agents(query)]

    def sessions(
        self,
        *,
        prefix: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        order: ListOrder = "born",
        limit: int | None = None,
        after: "Session | str | None" = None,
    ) -> list[Session]:
        """Return all sessions, or a page of them, as with `agents`. A session was last written to
        when any of its agents was."""
        query = self._build_query(prefix, since, until, order, limit)
        if isinstance(after, Session):
            after = after.id
        elif after is not None:
            after = find_session(self._backend, after)
        return list_sessions(self._backend, query, after)

    def _build_query(
        self,
        prefix: str,
        since: datetime | None,
        until: datetime | None,
        order: ListOrder,
        limit: int | None,
    ) -> AgentQuery:
        """Return the query of a listing. Raises Invalid if an argument is wrong."""
        if order not in ("born", "updated"):
            raise Invalid(f"{order!r} is not an order", remedy="use 'born' or 'updated'")
        return AgentQuery(
            key_prefix=check_prefix(prefix) or None,
            since_us=None if since is None else check_moment(since),
            until_us=None if until is None else check_moment(until),
            latest_first=order == "updated",
            limit=check_limit(limit, "agents"),
            allow_partial=True,
        )

    def marks(self, session: str) -> list[tuple[Agent, Event]]:
        """Return all marks of a session (given by its id, its name, or any of its agents), dead or
        alive, each with the agent that owns it, or, if that was deleted, with one that inherits
        it."""
        return list_marks(self._backend, find_session(self._backend, session))

    def last_notes(
        self, name: str, prefix: str = "", *, keys: Iterable[str] | None = None
    ) -> list[tuple[Agent, Event]]:
        """Return the newest live note with a name, for each agent that has one and whose key begins
        with `prefix` or is one of `keys`."""
        checked_name, checked_prefix = check_note_name(name), check_prefix(prefix)
        if keys is None:
            return list_last_notes(self._backend, checked_name, checked_prefix)
        wanted = [key for key in check_keys(keys) if key.startswith(checked_prefix)]
        return list_last_notes_of(self._backend, checked_name, wanted)

    def find(self, key: str) -> list[tuple[Agent, Event]]:
        """Return the events with this key, in all sessions, each with the agent that owns it, or,
        if that was deleted, with one that inherits it."""
        return find_events(self._backend, key)

    def search(
        self,
        words: str,
        *,
        agent: str | AgentHandle | None = None,
        session: str | None = None,
        kinds: Sequence[str] = (),
        live: bool = False,
        limit: int = 20,
        after: "Hit | None" = None,
        wait: bool = True,
        progress: "Progress | None" = None,
    ) -> "Hits":
        """Return the events that contain all words, best first, dead ones included. "Several words"
        in quotes are a phrase, begin* is a prefix. `agent`: only what it sees; `session`: only what
        its agents wrote; `live`: only what is in a context; `after`: the last hit of the previous
        page. The index is brought up to date first; `progress(done, total)` is called with how far
        it is. With `wait=False`, much that is new is indexed in the background instead, and
        `hits.missing` is the number of events that were not searched."""
        from backstory.maintenance.search import search_store

        return search_store(
            self._backend,
            words,
            agent=None if agent is None else self._get_record(agent),
            session=None if session is None else find_session(self._backend, session),
            kinds=kinds,
            live=live,
            limit=limit,
            after=after,
            wait=wait,
            progress=progress,
        )

    # --- changes ---

    def write(self, batches: Iterable[tuple[Any, ...]]) -> list[list[Event]]:
        """Append to several agents, all or none: (agent, events, expected) for each, as in
        `agent.extend`; `expected` may be left out."""
        if not isinstance(batches, Iterable):
            raise Invalid(f"{batches!r:.60} is not a list of batches", remedy=BATCH_FORM)
        checked = [self._check_batch(batch) for batch in batches]
        if len({batch.agent.id for batch in checked}) < len(checked):
            raise Invalid("an agent is named twice", remedy="put its events into one batch")
        return append_together(self._backend, checked) if checked else []

    def _check_batch(self, batch: Any) -> AgentBatch:
        match batch:
            case [agent, events]:
                expected = None
            case [agent, events, expected]:
                check_expected(expected)
            case _:
                raise Invalid(f"{batch!r:.60} is not a batch", remedy=BATCH_FORM)
        return AgentBatch(get_record(self._backend, agent), check_drafts(events), expected)

    def follow(
        self, after: Mapping[str, int] | None = None, *, timeout: float | None = None
    ) -> Follower[tuple[Agent, Event]]:
        """Return an iterator over the events of all agents as they are committed, each with its
        agent, new agents included. `after` maps agent ids to the last position seen; all events of
        other agents are yielded. Ends as `agent.follow` does."""
        return follow_store(self._backend, after, timeout, partial(Agent, self._backend))

    def watch(self) -> HeadWatch:
        """Watch the heads of all agents from now on: `watch.wait(timeout)` returns the agents that
        were written to. No event is read."""
        return HeadWatch(self._backend)

    # --- imported events ---

    def intake(self, *, dry_run: bool = False) -> "Intake":
        """Write imported events, with their original times: see `Intake`. With
        `dry_run`, everything is checked, and commits write nothing."""
        from backstory.intake import Intake

        return Intake(self._backend, dry_run=dry_run)

    def import_transcripts(
        self,
        /,
        paths: "str | os.PathLike[str] | Iterable[str | os.PathLike[str]]",
        *,
        progress: "Callable[[int, int], object] | None" = None,
        **options: "Unpack[ImportOptions]",
    ) -> "ImportOutcome":
        """Add the histories of other tools from these files, folders, databases and zips; what is
        there already is skipped. `format` names the tool; without it, the format is recognized.
        `progress(done, total)` is called with bytes. The options are those of `ImportOptions`."""
        from backstory.transcripts.importing import import_transcripts

        given = [paths] if isinstance(paths, str | os.PathLike) else paths
        return import_transcripts(self, given, progress=progress, **options)

    # --- maintenance ---

    def export_to(self, file: "Writable", *, sessions: Sequence[str] | None = None) -> "Transfer":
        """Write sessions (their ids or names; default: all) as JSON lines, without loss, as of one
        moment."""
        from backstory.maintenance.exporter import export_sessions

        ids = None if sessions is None else [find_session(self._backend, ref) for ref in sessions]
        return export_sessions(self._backend, file, ids)

    def import_from(self, lines: Iterable[str | bytes]) -> "Transfer":
        """Add the export of another store; what is there already is skipped. All lines are checked
        before the first one is written. Others can write meanwhile: the import writes a batch at a
        time, and if it is interrupted, repeating it adds the rest."""
        from backstory.maintenance.importer import import_lines

        return import_lines(self._backend, lines)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write a copy as of one moment into a new SQLite file, while others write."""
        from backstory.maintenance.backup import write_backup

        write_backup(self._backend, os.fspath(path))

    def expire(
        self,
        before: datetime,
        prefix: str = "",
        dry_run: bool = True,
        *,
        dead: bool = False,
        by: str | None = None,
    ) -> "Removed":
        """Delete the sessions last written to before `before`, or only those whose key begins with
        `prefix`. With `dead`, no session is deleted; instead, older events that are no longer in
        any context are erased. Unless `dry_run` is False, only report what would be removed.
        Sessions that are in use for longer than the store's timeout are skipped, and reported.
        `removals()` lists what was removed, and `by` whom."""
        from backstory.maintenance.expiry import expire_dead, expire_sessions

        moment = check_moment(before)
        key_prefix = check_prefix(prefix)
        expire = expire_dead if dead else expire_sessions
        return expire(self._backend, moment, prefix=key_prefix, dry_run=dry_run, by=by)

    def removals(self) -> list[RemovalRecord]:
        """Return what was deleted, expired or erased, oldest first: when, by whom and why, and from
        which agents, without the content. Exports do not contain it."""
        return self._backend.list_removals()

    def seal(self) -> dict[str, Any]:
        """Return a small JSON object with the digest of every agent's head. Keep it elsewhere: with
        it, `verify` can prove that everything is still there, unchanged."""
        from backstory.maintenance.seals import make_seal

        return make_seal(self._backend)

    def verify(
        self, *, seal: Mapping[str, Any] | None = None, requests: bool = False
    ) -> "list[Finding]":
        """Read everything and report what contradicts the rules, the digests or a `seal`. Return an
        empty list for a sound store."""
        from backstory.maintenance.verify import verify_store

        return verify_store(self._backend, seal, requests=requests)

    def stats(self, *, tokens: bool = False) -> "Stats":
        """Return live and dead events, bytes, and the largest agents. With `tokens`, also the
        tokens of all contexts, which must be read for that."""
        from backstory.maintenance.stats import compute_stats

        return compute_stats(self._backend, tokens=tokens)

    def distribute(self, progress: Callable[[int, int], None] | None = None) -> Distribution:
        """Spread a store that existed before the Citus extension was installed over the servers of
        its cluster. Other writers wait. `progress` is called with (rows moved, all rows)."""
        if not isinstance(self._backend, Distributable):
            raise Invalid(
                f"{self.url!r} cannot be distributed",
                remedy="export it, and import it into a PostgreSQL database that has the Citus "
                "extension",
            )
        rows, servers = self._backend.distribute(progress or _ignore_progress)
        return Distribution(rows, servers)


def _ignore_progress(done: int, total: int) -> None:
    pass


def _build_first_drafts(system: str | None, events: Iterable[Event | EventTuple]) -> list[Draft]:
    """Return the first events of a session."""
    drafts = []
    if system is not None:
        check_not_blank("system", system)
        drafts.append(check_draft("system", system))
    drafts += check_drafts(events)
    check_distinct_keys(drafts)
    return drafts


def _ensure_system_prompt(agent: Agent, system: str) -> None:
    """Replace the system prompt of an agent's context, if it is another one."""
    check_not_blank("system", system)
    lineage = get_lineage(agent)
    while True:
        walk = lineage.walk(None)
        prompts = drop_replaced(lineage.read_matches(walk.pieces, SYSTEM_MESSAGES))
        if prompts and prompts[0].content == system:
            return
        try:
            agent.system(system, replace=True, expected=walk.at)
            return
        except Conflict:
            continue  # another process wrote something, perhaps the same prompt
