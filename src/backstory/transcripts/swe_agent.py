"""SWE-agent: trajectories, one JSON document each, with the messages in `history`.

There are no ids, and runs of one task have files of one name. A session is known by that name and
its first messages, a message by all messages up to it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from hashlib import blake2b
from typing import Any, ClassVar

from backstory.transcripts import openai_chat
from backstory.transcripts.content import (
    CallBinder,
    as_object,
    encode_json,
    get_type,
    join_text,
    list_objects,
    pick_texts,
    to_text,
)
from backstory.transcripts.format import SourceHead, TranscriptFormat, TranscriptSource
from backstory.transcripts.model import (
    Data,
    Entry,
    ImportReport,
    SourceSession,
    Step,
    chain_units,
)

NAME = "swe-agent"
FIELDS = ("role", "content", "tool_calls", "tool_call_id", "thinking_blocks")


class SweAgentFormat(TranscriptFormat):
    """SWE-agent's trajectories."""

    name: ClassVar[str] = NAME

    def recognize(self, head: SourceHead) -> bool:
        """Return True for a history of messages, or steps with actions and observations."""
        if not head.records:
            has_steps = bool(head.keys & {"history", "trajectory", "attempts"})
            return has_steps and ('"agent"' in head.text or '"action"' in head.text)
        document = as_object(head.records[0])
        attempts = list_objects(document.get("attempts"))
        if "history" not in document and attempts:
            document = attempts[0]
        history = list_objects(document.get("history"))
        if history:
            # With parts it is a checkpoint of Gemini CLI, with blocks a log of some other program.
            has_role = "role" in history[0]
            return has_role and all(map(openai_chat.is_chat_message, history))
        steps = list_objects(document.get("trajectory"))
        return bool(steps) and "action" in steps[0]

    def read(
        self, sources: Sequence[TranscriptSource], report: ImportReport
    ) -> Iterator[SourceSession]:
        """Yield a session for each run: the trajectory, or each attempt at it."""
        for source in sources:
            document = as_object(source.read_document(report))
            found: list[list[Data]] = []
            counts: Counter[str] = Counter()
            # The attempt that was chosen is in the document itself, too.
            for run in [*list_objects(document.get("attempts")), document]:
                messages = list_messages(run)
                if not messages or messages in found:
                    continue
                found.append(messages)
                about = pick_texts(run, {"environment": "environment"})
                about |= pick_texts(as_object(run.get("info")), {"status": "exit_status"})
                id = build_id(source.stem, messages, has_ended="status" in about)
                counts[id] += 1
                if counts[id] > 1:
                    id = f"{id}#{counts[id]}"
                read_steps = partial(read_messages, id, messages)
                yield self.build_session(source, id, read_steps, about)


def build_id(stem: str, messages: list[Data], *, has_ended: bool) -> str:
    """Return the file's name with a digest of the run; of one that continues, up to its first
    answer."""
    if not has_ended:
        for number, message in enumerate(messages):
            if message.get("role") == "assistant":
                messages = messages[: number + 1]
                break
    digest = blake2b(encode_json(messages, sorts_keys=True), digest_size=6).hexdigest()
    return f"{stem}-{digest}"


def list_messages(run: Data) -> list[Data]:
    """Return the messages of a run; without a history, its answers and observations."""
    found: list[Data] = []
    for message in list_objects(run.get("history")):
        found.append(convert_message(message))
    if found:
        return found
    for step in list_objects(run.get("trajectory")):
        text = step.get("response") or step.get("thought") or step.get("action")
        found.append({"role": "assistant", "content": to_text(text)})
        if step.get("observation"):
            found.append({"role": "user", "content": to_text(step["observation"])})
    return found


def convert_message(message: Data) -> Data:
    """Return a message in OpenAI's form, and `is_demo`: a result names its call in a list."""
    found: Data = {}
    for name in (*FIELDS, "is_demo"):
        if message.get(name) is not None:
            found[name] = message[name]
    ids: Any = message.get("tool_call_ids")
    if isinstance(ids, list) and ids:
        found["tool_call_id"] = ids[0]
    content = found.get("content")
    parts = list_objects(content)
    if not isinstance(content, str) and not any(get_type(one) == "image_url" for one in parts):
        found["content"] = join_text(content)
    return found


def read_messages(id: str, messages: list[Data], _report: ImportReport) -> Iterator[Step]:
    """Yield a unit for each message of a run."""
    return chain_units(build_units(id, messages))


def build_units(run: str, messages: list[Data]) -> Iterator[tuple[str, list[Entry]]]:
    """Yield the id and the entries of each message."""
    binder = CallBinder()
    digest = blake2b(digest_size=9)
    for message in messages:
        plain = {key: value for key, value in message.items() if key != "is_demo"}
        digest.update(encode_json(plain, sorts_keys=True))
        id = f"{run}:{digest.hexdigest()}"
        entries = [binder.bind(entry) for entry in openai_chat.build_entries(id, plain)]
        if message.get("is_demo"):
            meta = {"meta": "demonstration"}
            entries = [entry._replace(data={**(entry.data or {}), **meta}) for entry in entries]
        yield id, entries
