"""Lists sessions: each is one tree of agents, in a few numbers."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

from backstory.log.about import title_and_tags
from backstory.log.events import to_datetime
from backstory.storage.protocols import AgentRecord, Agents, Wanted

PAGE = 200  # agents read at a time
FEW = 1_000  # up to this many sessions are sorted here, instead of being looked for among all


class Session(NamedTuple):
    """One tree of agents, as it was when it was listed."""

    id: str
    name: str  # its root's
    agents: int
    events: int
    created_at: datetime
    updated_at: datetime
    title: str | None = (
        None  # from the `about` of its root, or of its oldest agent if the root was deleted
    )
    tags: tuple[str, ...] = ()
    key: str | None = None


def sessions_of(records: Iterable[AgentRecord]) -> list[Session]:
    """The sessions that some agents belong to."""
    trees: dict[str, list[AgentRecord]] = {}
    for record in records:
        trees.setdefault(record.session, []).append(record)
    return [_session(id, tree) for id, tree in trees.items()]


def _session(id: str, tree: Sequence[AgentRecord]) -> Session:
    root = next((record for record in tree if record.id == id), None)
    eldest = root or min(
        tree, key=attrgetter("created_us")
    )  # of what is left, if the root was deleted
    title, tags = title_and_tags(eldest.about)
    return Session(
        id=id,
        name=root.name if root else id,
        agents=len(tree),
        events=sum(record.head - record.fork_seq for record in tree),
        created_at=to_datetime(min(record.created_us for record in tree)),
        updated_at=to_datetime(max(record.updated_us for record in tree)),
        title=title,
        tags=tags,
        key=root.key if root else None,
    )


def session_page(backend: Agents, wanted: Wanted) -> list[Session]:
    """A page of sessions, oldest first: two statements, however many there are."""
    roots = backend.agents(wanted._replace(roots=True))
    if not roots:
        return []
    ids = tuple(root.session for root in roots)
    found = {session.id: session for session in sessions_of(backend.agents(Wanted(sessions=ids)))}
    return [found[id] for id in ids if id in found]


def latest_sessions(backend: Agents, wanted: Wanted, after: str | None) -> list[Session]:
    """A page of sessions, last written first. A session's time is that of its latest agent. `after` is the id
    of the last session of the previous page. Two statements, and two more each time the agents read belong to
    too few sessions."""
    last = _latest_agent(backend, after)
    size = PAGE if wanted.limit is None else min(PAGE, 2 * wanted.limit)
    page = wanted._replace(key_prefix=None, limit=size, after=last)
    among = wanted._replace(roots=True, latest_first=False, since_us=None, until_us=None)
    found: dict[str, Session] = {}
    few, looked, enough = FEW, 0, 0
    while records := backend.agents(page):
        _add_sessions(
            backend, records, wanted, found, from_top=last is None and wanted.until_us is None
        )
        if len(found) == wanted.limit:
            break
        looked += len(records)
        # Not all sessions with the prefix are among the latest. If sorting all of them is no more work than
        # was done so far, do that, instead of looking for old ones among very many others.
        if wanted.key_prefix is not None and looked >= enough:
            roots = backend.agents(among._replace(limit=few + 1))
            if len(roots) <= few:
                return _latest_among(backend, wanted, roots, last)
            few = enough = 4 * few
        page = page._replace(after=records[-1], limit=PAGE)
    return list(found.values())


def _add_sessions(
    backend: Agents,
    records: list[AgentRecord],
    wanted: Wanted,
    found: dict[str, Session],
    *,
    from_top: bool,
) -> None:
    """Add the sessions whose latest agents are among these, as many as are wanted. Only the trees that are
    needed are read. `from_top`: no later agent was left out, so the first agent of a session was its latest,
    even if another one was written to since."""
    while records and len(found) != wanted.limit:
        some = _of_few_sessions(records, wanted.limit and wanted.limit - len(found))
        records = records[len(some) :]
        trees = _trees(backend, some)
        for record in some:
            tree = trees.get(record.session)
            if tree is None or record.session in found or not _has_key(tree, wanted.key_prefix):
                continue
            if from_top or tree[0].id == record.id:
                [found[record.session]] = sessions_of(tree)


def _of_few_sessions(records: list[AgentRecord], most: int | None) -> list[AgentRecord]:
    """The first of these agents, until they belong to more than this many sessions."""
    seen: set[str] = set()
    for place, record in enumerate(records):
        seen.add(record.session)
        if most is not None and len(seen) > most:
            return records[:place]
    return records


def _latest_agent(backend: Agents, session: str | None) -> AgentRecord | None:
    """The agent of a session that was written to last."""
    if session is None:
        return None
    last = backend.agents(Wanted(session=session, latest_first=True, limit=1))
    return last[0] if last else None


def _latest_among(
    backend: Agents, wanted: Wanted, roots: Sequence[AgentRecord], last: AgentRecord | None
) -> list[Session]:
    """The same for few sessions: they are read and sorted."""
    trees = list(_trees(backend, roots).values()) if roots else []
    if last is not None:
        places = [place for place, tree in enumerate(trees, 1) if tree[0].id == last.id]
        later = [tree for tree in trees if tree[0].updated_us < last.updated_us]
        trees = trees[places[0] :] if places else later
    since, until = wanted.since_us, wanted.until_us
    found = [
        tree
        for tree in trees
        if (since is None or tree[0].updated_us >= since)
        and (until is None or tree[0].updated_us < until)
    ]
    return [session for tree in found[: wanted.limit] for session in sessions_of(tree)]


def _trees(backend: Agents, records: Sequence[AgentRecord]) -> dict[str, list[AgentRecord]]:
    """All agents of the sessions of these agents, last written first."""
    ids = tuple(dict.fromkeys(record.session for record in records))
    trees: dict[str, list[AgentRecord]] = {}
    for record in backend.agents(Wanted(sessions=ids, latest_first=True)):
        trees.setdefault(record.session, []).append(record)
    return trees


def _has_key(tree: Sequence[AgentRecord], prefix: str | None) -> bool:
    """Whether the key of a session's root has the prefix."""
    keys = (record.key or "" for record in tree if record.id == record.session)
    return prefix is None or any(key.startswith(prefix) for key in keys)
