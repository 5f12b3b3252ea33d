"""ATIF: agent trajectories, one JSON document each, steps with calls and their observations. Pure.

Sub-agents stand inside the document (1.7), or in files beside it that a step's observation names.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple

from backstory.transcripts.answers import Block, family_of, parts_of
from backstory.transcripts.chain import Calls, chained
from backstory.transcripts.entries import (
    Data,
    as_text,
    microseconds,
    named,
    result_data,
    text_in,
    usage_of,
)
from backstory.transcripts.format import Format, Head, Source
from backstory.transcripts.provenance import provenance_in
from backstory.transcripts.transcript import Entry, Origin, Report, Session, Step, Thread

NAME = "atif"
USAGE = {
    "input": "prompt_tokens",
    "output": "completion_tokens",
    "cache_read": "cached_tokens",
    "cost": "cost_usd",
}


def fits(head: Head) -> bool:
    """A schema version that names it, beside steps."""
    first = head.records[0] if head.records else None
    if isinstance(first, dict):
        return str(first.get("schema_version", "")).startswith("ATIF") and isinstance(
            first.get("steps"), list
        )
    return {"schema_version", "steps"} <= head.keys or (
        "schema_version" in head.keys and "ATIF" in head.text
    )


# ------------------------------------------------------------------ steps


def _units(steps: list[Any], agent: Data, id: str) -> Iterator[tuple[str, list[Entry]]]:
    calls = Calls()
    for number, step in enumerate(steps):
        if isinstance(step, dict):
            unit = f"{id}:{named(step.get('step_id'), str(number))}"
            yield unit, [calls.entry(entry) for entry in _step(step, agent, unit)]


def _step(step: Data, agent: Data, id: str) -> Iterator[Entry]:
    time = microseconds(step.get("timestamp"))
    source = step.get("source")
    text = text_in(step.get("message"))
    if source in ("system", "user"):
        yield Entry(id, str(source), text, None, time)
    else:
        yield from _answer(step, agent, text, id, time)
    yield from _observation(step, id, time)


def _answer(step: Data, agent: Data, text: str, id: str, time: int | None) -> Iterator[Entry]:
    model = step.get("model_name") or agent.get("model_name")
    model = model if isinstance(model, str) and model else None
    given = step.get("tool_calls")
    calls = [call for call in given if isinstance(call, dict)] if isinstance(given, list) else []
    blocks = (
        [Block("thinking", as_text(step.get("reasoning_content")))]
        if step.get("reasoning_content")
        else []
    )
    blocks += [Block("text", text)] if text else []
    blocks += [
        Block(
            "call",
            id=c.get("tool_call_id"),
            name=c.get("function_name"),
            arguments=c.get("arguments"),
        )
        for c in calls
    ]
    extra: Data = {} if model is None else {"model": model}
    usage = usage_of(step.get("metrics"), USAGE)
    extra |= {"usage": usage} if usage else {}
    # Which field the reasoning came in is not kept; chat completions have one for it.
    family = family_of(model) if family_of(model) != "anthropic" else None
    for part in parts_of(family or "openai", blocks, model, id):
        yield Entry(
            f"{id}.{part.block}", part.kind, part.content, (part.data or {}) | extra or None, time
        )
        extra = {}


def _results(step: Data) -> list[Data]:
    observation = step.get("observation")
    results = observation.get("results") if isinstance(observation, dict) else None
    return [one for one in results if isinstance(one, dict)] if isinstance(results, list) else []


def _observation(step: Data, id: str, time: int | None) -> Iterator[Entry]:
    """The results of a step's calls; what no call asked for is the tool speaking."""
    for number, result in enumerate(_results(step)):
        text = text_in(result.get("content")) or as_text(result.get("content") or "")
        call = result.get("source_call_id")
        own = f"{id}/{number}"
        if isinstance(call, str) and call:
            yield Entry(own, "tool_result", text, result_data(call, own), time)
        elif text or not _refs(result):
            yield Entry(own, "user", text, {"meta": "observation"}, time)


# ------------------------------------------------------------------ sub-agents


class Ref(NamedTuple):
    """Where a sub-agent was called."""

    session: str
    thread: str | None
    call: str | None


def _refs(result: Data) -> list[Data]:
    given = result.get("subagent_trajectory_ref")
    given = given if isinstance(given, list) else [given]
    return [ref for ref in given if isinstance(ref, dict)]


def _refs_in(document: Data, session: str, thread: str | None) -> Iterator[tuple[str, Ref]]:
    """The names of the sub-agents that a trajectory calls: ids, or the names of their files."""
    for step in document["steps"]:
        for result in _results(step) if isinstance(step, dict) else ():
            call = result.get("source_call_id")
            for ref in _refs(result):
                # Since 1.7 a session's id does not resolve a reference: siblings may share it.
                names = [ref.get("trajectory_id"), _file_name(ref.get("trajectory_path"))]
                names = [name for name in names if name] or [ref.get("session_id")]
                for name in names:
                    if isinstance(name, str):
                        yield name, Ref(session, thread, call if isinstance(call, str) else None)


def _file_name(path: Any) -> str | None:
    return path.replace("\\", "/").rsplit("/", 1)[-1] if isinstance(path, str) and path else None


def _children(document: Data) -> list[Data]:
    given = document.get("subagent_trajectories")
    return [one for one in given if _is_trajectory(one)] if isinstance(given, list) else []


def _is_trajectory(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("steps"), list)


def _threads(
    document: Data, session: str, id: str | None, origin: Origin | None
) -> Iterator[Thread]:
    """A trajectory, and those of the sub-agents inside of it."""
    agent = document["agent"] if isinstance(document.get("agent"), dict) else {}
    names = {"agent": "name", "model": "model_name", "version": "version"}
    about = {
        ours: agent[theirs] for ours, theirs in names.items() if isinstance(agent.get(theirs), str)
    }
    about |= provenance_in(document.get("extra"))
    own = session if id is None else f"{session}/{id}"

    def steps() -> Iterator[Step]:
        return chained(_units(document["steps"], agent, own))

    yield Thread(session, id, steps, origin, about)
    calls = dict(_refs_in(document, session, id))
    for number, child in enumerate(_children(document)):
        found = [child.get(key) for key in ("trajectory_id", "session_id")]
        ref = next((calls[one] for one in found if isinstance(one, str) and one in calls), None)
        name = f"{id}/" if id is not None else ""
        name += next(
            (one for one in found[:1] if isinstance(one, str) and one), f"sub-agent {number}"
        )
        below = Origin(session, id, ref.call if ref else None, spawned=True)
        yield from _threads(child, session, name, below)


# ------------------------------------------------------------------ sessions


def _id(document: Data, source: Source) -> str:
    """The trajectory's id, else the session's, which files may share; else the file's name and beginning."""
    for key in ("trajectory_id", "session_id"):
        if isinstance(document.get(key), str) and document[key]:
            return str(document[key])
    begun = as_text(document["steps"][:2]).encode("utf-8", "replace")
    return f"{source.stem}-{blake2b(begun, digest_size=6).hexdigest()}"


def sessions(sources: Iterable[Source]) -> Iterator[Session]:
    """A session for each trajectory, those that call sub-agents before these."""
    waiting = {source.path: source for source in sources}
    ids: dict[str, str] = {}
    begun: dict[str, tuple[int, str]] = {}
    names: dict[str, set[str]] = {}
    refs: dict[str, list[tuple[str, Ref]]] = {}
    for path, source in waiting.items():
        document = source.document(Report())
        if _is_trajectory(document):
            ids[path], begun[path] = _id(document, source), _beginning(document["steps"])
            keys = (document.get("trajectory_id"), document.get("session_id"), _file_name(path))
            names[path] = {key for key in keys if isinstance(key, str) and key}
            refs[path] = list(_refs_in(document, "", None))
    ids = dict(_told_apart(ids, begun))
    called = {name: ref._replace(session=ids[path]) for path in ids for name, ref in refs[path]}
    callers = {path: _caller(names[path], called, ids[path]) for path in ids}
    told: set[str] = set()
    while ids:
        ready = [
            path for path in ids if (ref := callers[path]) is None or ref.session in told
        ] or list(ids)
        for path in ready:
            told.add(ids[path])
            yield _session(waiting[path], ids.pop(path), callers[path])


def _beginning(steps: list[Any]) -> tuple[int, str]:
    """When a trajectory began, and a digest of how."""
    first = steps[0] if steps and isinstance(steps[0], dict) else {}
    said = as_text([first.get(key) for key in ("source", "message", "timestamp")]).encode(
        "utf-8", "replace"
    )
    return microseconds(first.get("timestamp")) or 0, blake2b(said, digest_size=6).hexdigest()


def _told_apart(
    ids: dict[str, str], begun: dict[str, tuple[int, str]]
) -> Iterator[tuple[str, str]]:
    """The ids of trajectories. Files that share an id and begin differently are not copies, but parts of one
    session. The earliest has the id, or without times the one with the shortest name: the others have numbers
    in theirs. They get the id with a digest of their beginnings."""
    first: dict[str, tuple[int, str]] = {}
    for path in sorted(ids, key=lambda path: (begun[path][0], len(path), path)):
        first.setdefault(ids[path], begun[path])
    for path, id in ids.items():
        yield path, id if begun[path] == first[id] else f"{id}-{begun[path][1]}"


def _caller(names: set[str], called: dict[str, Ref], id: str) -> Ref | None:
    return next(
        (called[name] for name in sorted(names & called.keys()) if called[name].session != id), None
    )


def _session(source: Source, id: str, ref: Ref | None) -> Session:
    report = Report()
    document = source.document(report)
    origin = None if ref is None else Origin(ref.session, ref.thread, ref.call, spawned=True)
    threads = list(_threads(document, id, None, origin)) if _is_trajectory(document) else []
    return Session(NAME, id, threads, source.path, report)


def _folder(source: Source) -> tuple[str]:
    """Trajectories that name each other stand in one folder."""
    return (source.path.rpartition("/")[0],)


FORMAT = Format(name=NAME, fits=fits, sessions=sessions, ties=_folder)
