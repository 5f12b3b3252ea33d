"""ATIF: agent trajectories, one JSON document each: steps with calls and their observations.

Sub-agents are inside the document (1.7), or in files beside it that the observation of a step
names.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, ClassVar

from backstory.log.events import to_json
from backstory.transcripts.content import (
    AnswerBlock,
    AnswerBuilder,
    CallBinder,
    as_object,
    build_result_entry,
    choose_name,
    find_wire_format,
    join_text,
    list_objects,
    name_call,
    parse_time,
    pick_counts,
    pick_texts,
    to_text,
)
from backstory.transcripts.format import (
    ExportedFile,
    ExportedHistory,
    ExportedMessage,
    SourceHead,
    TranscriptFormat,
    TranscriptSource,
    read_provenance,
    write_time,
)
from backstory.transcripts.model import (
    Data,
    Entry,
    ImportReport,
    Origin,
    SourceSession,
    Step,
    Thread,
    chain_units,
)

NAME = "atif"
SCHEMA = "ATIF-v1.6"
USAGE = {
    "input": "prompt_tokens",
    "output": "completion_tokens",
    "cache_read": "cached_tokens",
    "cost": "cost_usd",
}
ABOUT = {"agent": "name", "model": "model_name", "version": "version"}
WRITTEN_SOURCES = {"system": "system", "user": "user", "model": "agent"}


class AtifFormat(TranscriptFormat):
    """ATIF's trajectories."""

    name: ClassVar[str] = NAME

    def recognize(self, head: SourceHead) -> bool:
        """Return True for a schema version that names it, beside steps."""
        if not head.records:
            return "schema_version" in head.keys and "ATIF" in head.text
        document = as_object(head.records[0])
        return to_text(document.get("schema_version")).startswith("ATIF") and is_trajectory(
            document
        )

    def group_key(self, path: str) -> str:
        """Return the folder: trajectories name the files of their sub-agents in it."""
        return path.rpartition("/")[0]

    def read(
        self, sources: Sequence[TranscriptSource], report: ImportReport
    ) -> Iterator[SourceSession]:
        """Yield a session for each file."""
        files: list[AtifFile] = []
        for source in sources:
            document = source.read_document(report)
            if is_trajectory(document):
                files.append(AtifFile(source, document))
        # Of the files that share an id, the earliest keeps it; without times, that with the
        # shortest name: the others have numbers in theirs.
        first: dict[str, AtifFile] = {}
        for file in sorted(files, key=lambda file: (file.began, len(file.path), file.path)):
            owner = first.setdefault(file.id, file)
            # A file that begins differently is no copy, but another part of the session.
            if file.beginning != owner.beginning:
                file.id = f"{file.id}-{file.beginning}"
        calls: dict[str, Origin] = {}
        for file in files:
            calls |= dict(list_references(file.document, file.id, None))
        for file in files:
            yield file.build_session(calls)

    def write(self, history: ExportedHistory) -> ExportedFile:
        """Return the context as a trajectory. No tool looks for it in a folder."""
        steps: list[Data] = []
        positions: dict[int, list[int]] = {}
        for message in history.list_context("anthropic"):
            if message.role == "result":
                observation = steps[-1].setdefault("observation", {"results": []})
                observation["results"].append(write_result(message))
            else:
                steps.append({"step_id": len(steps) + 1, **write_step(message)})
            positions.setdefault(len(steps), []).extend(message.positions)
        agent = {"name": history.agent_name, "version": "1"}
        if history.model:
            agent["model_name"] = history.model
        document = {
            "schema_version": SCHEMA,
            "session_id": history.session,
            "agent": agent,
            "steps": steps,
            "extra": {"backstory": history.record_positions(positions)},
        }
        return ExportedFile(to_json(document) + "\n")


# --- files and their sub-agents ---


def is_trajectory(value: Any) -> bool:
    """Return True for an object with steps."""
    return isinstance(as_object(value).get("steps"), list)


class AtifFile:
    """A file with a trajectory."""

    def __init__(self, source: TranscriptSource, document: Data) -> None:
        self.document = document
        self.path = source.path
        first = as_object(next(iter(document["steps"]), None))
        self.began = parse_time(first.get("timestamp")) or 0
        beginning = [first.get(key) for key in ("source", "message", "timestamp")]
        self.beginning = compute_digest(beginning)
        # The id of a session may be that of several files.
        names = pick_texts(document, {"file": "trajectory_id", "session": "session_id"})
        self.names = {*names.values(), self.path.rpartition("/")[2]}
        unnamed = f"{source.stem}-{compute_digest(document['steps'][:2])}"
        self.id: str = names.get("file") or names.get("session") or unnamed

    def build_session(self, calls: dict[str, Origin]) -> SourceSession:
        """Return the trajectory and the sub-agents in it. `calls` has the calls of sub-agents by
        name."""
        origin = None
        for name in sorted(self.names & calls.keys()):
            if calls[name].session != self.id:
                origin = calls[name]
                break
        threads = list(build_threads(self.document, self.id, None, origin))
        return SourceSession(NAME, self.id, threads, self.path, ImportReport())


def compute_digest(value: Any) -> str:
    """Return a short digest of a value."""
    return blake2b(to_text(value).encode("utf-8", "replace"), digest_size=6).hexdigest()


def list_references(
    document: Data, session: str, thread: str | None
) -> Iterator[tuple[str, Origin]]:
    """Yield the names of the sub-agents that a trajectory calls, and where: ids, or names of
    files."""
    for step in list_objects(document["steps"]):
        for result in list_results(step):
            call = result.get("source_call_id")
            entry = name_call(call) if isinstance(call, str) else None
            origin = Origin(session, thread, entry, is_spawned=True)
            for reference in list_result_references(result):
                path = to_text(reference.get("trajectory_path")).replace("\\", "/")
                names = [reference.get("trajectory_id"), path.rpartition("/")[2]]
                # Since 1.7 the id of a session is no reference: siblings may share it.
                if not any(names):
                    names = [reference.get("session_id")]
                for name in names:
                    if isinstance(name, str) and name:
                        yield name, origin


def list_results(step: Data) -> list[Data]:
    """Return the results that a step observed."""
    return list_objects(as_object(step.get("observation")).get("results"))


def list_result_references(result: Data) -> list[Data]:
    """Return the references to sub-agents in a result."""
    references = result.get("subagent_trajectory_ref")
    return list_objects(references if isinstance(references, list) else [references])


def build_threads(
    document: Data, session: str, id: str | None, origin: Origin | None
) -> Iterator[Thread]:
    """Yield a trajectory as a thread, and those of the sub-agents in it."""
    about = pick_texts(as_object(document.get("agent")), ABOUT)
    name = session if id is None else f"{session}/{id}"
    read_steps = partial(read_trajectory, document, name)
    exported = read_provenance(document.get("extra"))
    yield Thread(session, id, read_steps, origin, about, exported=exported)
    calls = dict(list_references(document, session, id))
    for number, child in enumerate(list_objects(document.get("subagent_trajectories"))):
        if not is_trajectory(child):
            continue
        names = pick_texts(child, {"id": "trajectory_id", "session": "session_id"})
        place = Origin(session, id, is_spawned=True)
        for name in names.values():
            place = calls.get(name, place)
        child_id = names.get("id", f"sub-agent {number}")
        if id is not None:
            child_id = f"{id}/{child_id}"
        yield from build_threads(child, session, child_id, place)


# --- steps ---


def read_trajectory(document: Data, id: str, _report: ImportReport) -> Iterator[Step]:
    """Yield a unit for each step of a trajectory."""
    return chain_units(build_units(document, id))


def build_units(document: Data, trajectory: str) -> Iterator[tuple[str, list[Entry]]]:
    """Yield the id and the entries of each step."""
    binder = CallBinder()
    model = as_object(document.get("agent")).get("model_name")
    for number, step in enumerate(document["steps"], 1):
        if isinstance(step, dict):
            id = f"{trajectory}:{choose_name(step.get('step_id'), str(number - 1))}"
            entries = build_entries(id, step, model)
            yield id, [binder.bind(entry)._replace(line=number) for entry in entries]


def build_entries(id: str, step: Data, model: Any) -> Iterator[Entry]:
    """Yield the entries of a step. `model` is that of the agent."""
    time = parse_time(step.get("timestamp"))
    source = to_text(step.get("source"))
    if source in ("system", "user"):
        yield Entry(id, source, join_text(step.get("message")), None, time)
    else:
        yield from build_answer(id, step, step.get("model_name") or model, time)
    for number, result in enumerate(list_results(step)):
        text = join_text(result.get("content")) or to_text(result.get("content"))
        call = result.get("source_call_id")
        if isinstance(call, str) and call:
            yield build_result_entry(call, "", text, time)
        elif text or not list_result_references(result):
            # No call asked for it: it is the tool that speaks.
            yield Entry(f"{id}/{number}", "user", text, {"meta": "observation"}, time)


def build_answer(id: str, step: Data, model: Any, time: int | None) -> list[Entry]:
    """Return the entries of an answer."""
    blocks = [AnswerBlock("text", join_text(step.get("message")))]
    reasoning = to_text(step.get("reasoning_content"))
    if reasoning:
        blocks.insert(0, AnswerBlock("thinking", reasoning))
    for call in list_objects(step.get("tool_calls")):
        name, arguments = call.get("function_name"), call.get("arguments")
        blocks.append(AnswerBlock("call", "", call.get("tool_call_id"), name, arguments))
    usage = pick_counts(step.get("metrics"), USAGE)
    # The field in which the reasoning came is not known. Chat completions have one for it.
    wire_format = find_wire_format(model)
    if wire_format in (None, "anthropic"):
        wire_format = "openai"
    builder = AnswerBuilder(
        id,
        time,
        wire_format=wire_format,
        model=model if isinstance(model, str) and model else None,
        data={"usage": usage} if usage else {},
    )
    return builder.build(blocks)


# --- writing ---


def write_step(message: ExportedMessage) -> Data:
    """Return a message as a step."""
    step: Data = {
        "timestamp": write_time(message.time),
        "source": WRITTEN_SOURCES[message.role],
        "message": read_form_text(message.form),
    }
    if message.role != "model":
        return step
    if message.data.get("model"):
        step["model_name"] = message.data["model"]
    thoughts: list[str] = []
    calls: list[Data] = []
    for block in message.form:
        if block.get("type") == "thinking":
            thoughts.append(block["thinking"])
        elif block.get("type") == "tool_use":
            call = {"tool_call_id": block["id"], "function_name": block["name"]}
            calls.append({**call, "arguments": block["input"]})
    usage = as_object(message.data.get("usage"))
    metrics = pick_counts(usage, {theirs: ours for ours, theirs in USAGE.items()})
    if thoughts:
        step["reasoning_content"] = "\n\n".join(thoughts)
    if calls:
        step["tool_calls"] = calls
    if metrics:
        step["metrics"] = metrics
    return step


def write_result(message: ExportedMessage) -> Data:
    """Return a result as a part of an observation."""
    [call] = message.calls
    text = read_form_text(message.form[0].get("content", ""))
    return {"source_call_id": call.id, "content": text}


def read_form_text(form: Any) -> str:
    """Return the text of a message in Anthropic's form."""
    if isinstance(form, str):
        return form
    texts = [to_text(block.get("text")) for block in list_objects(form) if "text" in block]
    return "\n\n".join(texts)
