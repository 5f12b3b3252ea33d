"""ATIF: agent trajectories, one JSON document each, steps with calls and their observations. Pure."""

from collections.abc import Iterable, Iterator
from typing import Any

from backstory.importers.answers import Block, family_of, parts_of
from backstory.importers.chain import Calls, chained
from backstory.importers.entries import (
    Data,
    as_text,
    microseconds,
    named,
    result_data,
    text_in,
    usage_of,
)
from backstory.importers.format import Format, Head, Source
from backstory.importers.marker import marker_in
from backstory.importers.transcript import Entry, Report, Session, Step, Thread

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
    return {"schema_version", "steps"} <= head.keys or ("schema_version" in head.keys and "ATIF" in head.text)


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
    yield from _observation(step.get("observation"), id, time)


def _answer(step: Data, agent: Data, text: str, id: str, time: int | None) -> Iterator[Entry]:
    model = step.get("model_name") or agent.get("model_name")
    model = model if isinstance(model, str) and model else None
    given = step.get("tool_calls")
    calls = [call for call in given if isinstance(call, dict)] if isinstance(given, list) else []
    blocks = (
        [Block("thinking", as_text(step.get("reasoning_content")))] if step.get("reasoning_content") else []
    )
    blocks += [Block("text", text)] if text else []
    blocks += [
        Block("call", id=c.get("tool_call_id"), name=c.get("function_name"), arguments=c.get("arguments"))
        for c in calls
    ]
    extra: Data = {} if model is None else {"model": model}
    usage = usage_of(step.get("metrics"), USAGE)
    extra |= {"usage": usage} if usage else {}
    # Which field the reasoning came in is not kept; chat completions have one for it.
    family = family_of(model) if family_of(model) != "anthropic" else None
    for part in parts_of(family or "openai", blocks, model, id):
        yield Entry(f"{id}.{part.block}", part.kind, part.content, (part.data or {}) | extra or None, time)
        extra = {}


def _observation(observation: Any, id: str, time: int | None) -> Iterator[Entry]:
    """The results of a step's calls; what no call asked for is the tool speaking."""
    results = observation.get("results") if isinstance(observation, dict) else None
    for number, result in enumerate(results if isinstance(results, list) else ()):
        if not isinstance(result, dict):
            continue
        text = text_in(result.get("content")) or as_text(result.get("content") or "")
        call = result.get("source_call_id")
        own = f"{id}/{number}"
        if isinstance(call, str) and call:
            yield Entry(own, "tool_result", text, result_data(call, own), time)
        else:
            yield Entry(own, "user", text, {"meta": "observation"}, time)


def sessions(sources: Iterable[Source]) -> Iterator[Session]:
    """A session for each trajectory."""
    for source in sources:
        report = Report()
        document = source.document(report)
        if not isinstance(document, dict) or not isinstance(document.get("steps"), list):
            continue
        id = named(document.get("session_id"), source.stem)
        agent = document["agent"] if isinstance(document.get("agent"), dict) else {}
        names = {"agent": "name", "model": "model_name", "version": "version"}
        about = {ours: agent[theirs] for ours, theirs in names.items() if isinstance(agent.get(theirs), str)}
        about |= marker_in(document.get("extra"))

        def steps(given: list[Any] = document["steps"], agent: Data = agent, id: str = id) -> Iterator[Step]:
            return chained(_units(given, agent, id))

        yield Session(NAME, id, [Thread(id, None, steps, None, about)], source.path, report)


FORMAT = Format(name=NAME, fits=fits, sessions=sessions)
