"""Claude Code: JSON lines with uuids and parents, one file a session, sub-agents in files of their own. Pure.

The session is the file's name, not the `sessionId` in it. Sub-agents stand in `<session>/subagents/`, before
that beside the session as `agent-*.jsonl`, before that as `isSidechain` lines inside it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from backstory.transcripts.claude_code import records
from backstory.transcripts.claude_code.file import NAME, File
from backstory.transcripts.claude_code.records import Record
from backstory.transcripts.claude_code.tail import checkpoint, resume
from backstory.transcripts.claude_code.tree import CLEAR, Tree
from backstory.transcripts.entries import text_in
from backstory.transcripts.format import Format, Head, Place, Source
from backstory.transcripts.transcript import Origin, Report, Session, Thread

Agent = tuple[Source, str]  # a sub-agent's file, and its id
FIRST_KEYS = 8  # records by which the file of a fork is known, which may begin with some of its own


def fits(head: Head) -> bool:
    """Objects with a type, and a uuid, a parent or a session. Of a first record that is too long for a head
    (an image in a prompt), what stands before the message must do."""
    if any(isinstance(record, dict) and "projectHash" in record for record in head.records[:1]):
        return False  # Gemini CLI, whose messages may name their session
    if any(_is_record(record) for record in head.records):
        return True
    return "parentUuid" in head.keys and bool(head.keys & {"uuid", "isSidechain", "sessionId"})


def _is_record(record: Any) -> bool:
    return (
        isinstance(record, dict)
        and isinstance(record.get("type"), str)
        and ("parentUuid" in record or "sessionId" in record)
        and "payload" not in record
    ) or (
        isinstance(record, dict)
        and (
            (
                record.get("type") in records.BOOKKEEPING
                and ("messageId" in record or "leafUuid" in record)
            )
            # Without ids, as others write them out.
            or (
                record.get("type") in records.SPEAKERS
                and isinstance(records.content_of(record), str | list)
            )
        )
    )


def _agent(head: Sequence[Any]) -> str | None:
    """The agent that a file belongs to, if its first record says so."""
    for record in head:
        if (
            isinstance(record, dict)
            and records.kind_of(record) is not None
            and "isSidechain" in record
        ):
            agent = record.get("agentId")
            return (
                agent
                if record["isSidechain"] is True and isinstance(agent, str) and agent
                else None
            )
    return None


def _session_of(source: Source, head: Sequence[Any]) -> str:
    """The session that a sub-agent's file belongs to."""
    parts = source.path.split("/")
    if "subagents" in parts[1:]:
        return parts[parts.index("subagents", 1) - 1]
    found = (r.get("sessionId") for r in head if isinstance(r, dict))
    return next((id for id in found if isinstance(id, str) and id), source.stem)


def ties(source: Source) -> Iterator[str]:
    """The session that a sub-agent belongs to; of other files the name, the first records, and the session
    that they were forked from."""
    head = source.peek()
    if _agent(head) is not None:
        yield _session_of(source, head)
        return
    start = _start(head)
    yield source.stem
    yield from start.keys
    if start.forked_from is not None:
        yield start.forked_from


class Start(NamedTuple):
    """What the first records of a file say of where it came from."""

    keys: list[str]  # of the first few
    forked_from: str | None  # the session that they were copied from
    time: str


def _start(head: Sequence[Any]) -> Start:
    found = [record for record in head if isinstance(record, dict)]
    keys = [key for record in found if isinstance(key := record.get("uuid"), str)]
    forks = (
        fork.get("sessionId")
        for record in found
        if isinstance(fork := record.get("forkedFrom"), dict)
    )
    times = (time for record in found if isinstance(time := record.get("timestamp"), str))
    fork = next((session for session in forks if isinstance(session, str)), None)
    return Start(keys[:FIRST_KEYS], fork, next(times, ""))


def sessions(sources: Iterable[Source]) -> Iterator[Session]:
    """The sessions in the files: each with its sub-agents, forks behind what they were forked from."""
    files: list[Source] = []
    starts: dict[str, Start] = {}
    agents: dict[str, list[Agent]] = {}
    for source in sources:
        head = source.peek()
        agent = _agent(head)
        if agent is not None:
            agents.setdefault(_session_of(source, head), []).append((source, agent))
            continue
        files.append(source)
        starts[source.path] = _start(head)
    further = _Further(starts)
    for family in _families(files, starts):
        yield from _family(family, agents, further)
    for id, left in agents.items():
        yield from _session(id, [], left, None, Report())


def _families(sources: Iterable[Source], starts: dict[str, Start]) -> list[list[Source]]:
    """Files that are copies of one history: they begin with the same record, or with a later one (a boundary)
    of the session that they say they were forked from. The oldest come first."""
    found: dict[str, list[Source]] = {}
    by_name = {source.stem: starts[source.path] for source in sources}
    for source in sources:
        way = [source.stem]
        while (
            (above := by_name[way[-1]].forked_from) in by_name
            and above is not None
            and above not in way
        ):
            way.append(above)
        found.setdefault(next(iter(by_name[way[-1]].keys), source.path), []).append(source)
    return sorted(
        found.values(), key=lambda family: min(starts[source.path].time for source in family)
    )


class _Further:
    """The first records of files, and the files that were told and have them further down: a fork may begin
    where its origin was cleared or compacted, and not say that it is one."""

    def __init__(self, starts: dict[str, Start]) -> None:
        self._starts = starts
        self._holders: dict[str, list[Source]] = {
            key: [] for start in starts.values() for key in start.keys
        }

    def take(self, file: File) -> None:
        """Note which of the first records a file has."""
        for key in self._holders.keys() & file.main.keys():
            self._holders[key].append(file.source)

    def origins(self, family: list[Source]) -> list[File]:
        """The files, read again, that some files may have been forked from."""
        keys = (key for source in family for key in self._starts[source.path].keys)
        found = {source.path: source for key in keys for source in self._holders[key]}
        return [File(source, Report(), is_told=True) for source in found.values()]


def _family(
    family: list[Source], agents: dict[str, list[Agent]], further: _Further
) -> Iterator[Session]:
    origins = further.origins(family)
    reports = {source.stem: Report() for source in family}
    copies = _copies(File(source, reports[source.stem]) for source in family)
    files = [equal[0] for equal in copies]
    parents = {id(file): _parent(file, [*origins, *files]) for file in files}
    told = {id(file) for file in origins}
    waiting = list(copies)
    while waiting:
        ready = [c for c in waiting if parents[id(c[0])] is None or id(parents[id(c[0])]) in told]
        for equal in ready or waiting[:1]:
            waiting.remove(equal)
            file, name = equal[0], equal[0].source.stem
            told.add(id(file))
            further.take(file)
            yield from _session(name, equal, agents.pop(name, []), parents[id(file)], reports[name])


def _copies(files: Iterable[File]) -> list[list[File]]:
    """Files and their copies in other folders. The one with the most records is the first: the others may
    have lost some."""
    found: dict[str | None, list[File]] = {}
    for file in files:
        found.setdefault(file.source.stem if file.agent is None else file.agent, []).append(file)
    for equal in found.values():
        equal.sort(key=lambda file: -len(file.main.rows))
        equal[0].has_copies = len(equal) > 1
    return list(found.values())


def _parent(file: File, files: list[File]) -> File | None:
    """The file that this one was forked from: the one it names, else one that went on earlier."""
    best: tuple[int, File] | None = None
    for other in files:
        if other.source.stem == file.source.stem or other.forked_from == file.source.stem:
            continue
        named = file.forked_from == other.source.stem
        if not named and not (
            file.forked_from is None and _goes_on(other, file) < _goes_on(file, other)
        ):
            continue
        shared = sum(row.key in other.main for row in file.main.rows)
        if shared and (named or best is None or shared > best[0]):
            best = (shared + (len(file.main.rows) if named else 0), other)
    if best is None:
        return None
    for row in file.main.rows:
        row.own = row.own and row.key not in best[1].main
    return best[1]


def _goes_on(file: File, other: File) -> tuple[str, str]:
    """When a file first says something that the other does not have; one that never does is what the other
    was copied from when it was resumed."""
    for row in file.main.rows:
        if row.key not in other.main:
            return str(file.source.fetch(row.place).get("timestamp") or ""), file.source.path
    return "", file.source.path


def _session(
    id: str, copies: list[File], agents: list[Agent], parent: File | None, report: Report
) -> Iterator[Session]:
    threads: list[Thread] = []
    others = _copies(File(source, report, agent) for source, agent in agents)
    files = copies[:1] + [equal[0] for equal in others]
    beginnings: list[str] = []
    for file in copies[:1]:
        beginnings = file.main.beginnings()
        tree = file.tree()
        origin, mark = _fork(file, tree, parent), partial(checkpoint, file, tree, id, None)
        thread = Thread(id, None, tree.steps, origin, file.described(tree), mark)
        threads.extend(_with_copies(thread, tree, copies) if file.main.rows else ())
    for equal in others:
        if equal[0].main.rows:
            thread, tree = _agent_thread(id, equal[0], files, report)
            threads.extend(_with_copies(thread, tree, equal))
    for file in copies[:1]:
        threads.extend(_side_threads(id, file) if file.side.rows else ())
    if threads:
        yield Session(NAME, id, threads, files[0].source.path, report, frozenset(beginnings))


def _with_copies(thread: Thread, tree: Tree, copies: list[File]) -> Iterator[Thread]:
    """The thread of a file; behind it what only its copies have, and then where the one ends that the tool
    wrote to last."""
    yield thread
    for file in copies[1:]:
        yield replace(thread, steps=partial(file.tree().steps, moves=False))
    if len(copies) > 1:
        latest = max(copies, key=_last_time)
        end = tree if latest is copies[0] else latest.tree()
        yield replace(thread, steps=partial(end.steps, moves=True))


def _last_time(file: File) -> str:
    """When the last record of a file was written."""
    return (
        str(file.source.fetch(file.main.rows[-1].place).get("timestamp") or "")
        if file.main.rows
        else ""
    )


def _fork(file: File, tree: Tree, parent: File | None) -> Origin | None:
    session = parent.source.stem if parent is not None else file.forked_from
    if session is None:
        return None
    at = None
    for node in tree.forest.ordered():
        if _is_own(node.id, tree, parent):
            at = node.parent or at
            break
        at = node.id
    return Origin(session, at=at)


def _is_own(unit: str, tree: Tree, parent: File | None) -> bool:
    """Whether a fork did not copy a unit. A cleared context is known by the record that it began with."""
    if unit in tree.rows:
        return any(row.own for row in tree.rows[unit])
    if parent is not None and unit.removeprefix(CLEAR) in parent.main:
        return False
    return all(_is_own(child, tree, parent) for child in tree.forest.children.get(unit, ()))


def _agent_thread(
    session: str, file: File, files: list[File], report: Report
) -> tuple[Thread, Tree]:
    assert file.agent is not None
    meta = file.source.sibling(f"{file.source.stem}.meta.json", report)
    meta = meta if isinstance(meta, dict) else {}
    call = meta.get("toolUseId")
    if not isinstance(call, str):
        call = _called(file, [other for other in files if other is not file])
    spawner = next((f.agent for f in files if call is not None and call in f.main.calls), None)
    tree = file.tree()
    about = file.described(tree)
    for name, key in (("title", "description"), ("agent_type", "agentType")):
        if isinstance(meta.get(key), str):
            about.setdefault(name, meta[key])
    origin = Origin(session, spawner, call, spawned=True)
    mark = partial(checkpoint, file, tree, session, file.agent)
    return Thread(session, file.agent, tree.steps, origin, about, mark), tree


def _called(file: File, others: list[File]) -> str | None:
    """The call that spawned an agent, by what the session knows of it or of the workflow that it is part of,
    else by the prompt's text."""
    *_, workflow, _ = ("", *file.source.path.split("/"))
    for known in (file.agent, workflow):
        for other in others:
            if known in other.links:
                return other.links[known]
    first = file.main.rows[0]
    return _by_prompt(file.source.fetch(first.place), others)


def _by_prompt(record: Record, files: list[File]) -> str | None:
    content = records.content_of(record)
    text = text_in(content).strip()
    for file in files:
        if text in file.prompts:
            return file.prompts[text][0]
        for prompt, calls in file.prompts.items():  # wrapped in a message to a teammate
            if prompt and text.startswith("<teammate-message") and prompt in text:
                return calls[0]
    return None


def _side_threads(session: str, file: File) -> Iterator[Thread]:
    """The threads of sub-agents inside the main file: one for each root."""
    for part in file.side.parts():
        first = part.rows[0]
        call = _by_prompt(file.source.fetch(first.place), [file])
        origin = Origin(session, call=call, spawned=True)
        yield Thread(session, first.key, Tree(part, file.recall).steps, origin)


FORMAT = Format(
    name=NAME,
    fits=fits,
    sessions=sessions,
    fetches=True,
    places=(Place("CLAUDE_CONFIG_DIR", "projects", "~/.claude/projects"),),
    beside=(".meta.json",),
    ties=ties,
    resume=resume,
)
