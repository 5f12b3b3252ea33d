"""SWE-agent: trajectories, one JSON document each; `history` has the messages. Pure.

There are no ids, and runs of one task have files of one name. A session is known by that name and what was
said, a message by all that was said until then.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from itertools import count
from typing import Any

from backstory.transcripts import openai_chat
from backstory.transcripts.chain import chained
from backstory.transcripts.entries import Data, as_text, json_of, text_in
from backstory.transcripts.format import Format, Head, Source
from backstory.transcripts.transcript import Entry, Report, Session, Step, Thread

NAME = "swe-agent"


def fits(head: Head) -> bool:
    """A history of messages that name their agent, or steps with actions and observations."""
    first = head.records[0] if head.records else None
    if not isinstance(first, dict):
        return bool(head.keys & {"history", "trajectory", "attempts"}) and (
            '"agent"' in head.text or '"action"' in head.text
        )
    tries = first.get("attempts")
    if "history" not in first and isinstance(tries, list) and tries and isinstance(tries[0], dict):
        first = tries[0]
    history, steps = first.get("history"), first.get("trajectory")
    if isinstance(history, list) and history and isinstance(history[0], dict):
        return (
            "role" in history[0] and "parts" not in history[0]
        )  # with parts: a checkpoint of Gemini CLI
    return (
        isinstance(steps, list)
        and bool(steps)
        and isinstance(steps[0], dict)
        and "action" in steps[0]
    )


def _messages(document: Data) -> list[Data]:
    """The messages; where there is only the trajectory, its answers and observations."""
    history = document.get("history")
    if isinstance(history, list) and history:
        return [_message(one) for one in history if isinstance(one, dict)]
    steps = document.get("trajectory")
    found = []
    for step in steps if isinstance(steps, list) else ():
        if isinstance(step, dict):
            said = step.get("response") or step.get("thought") or step.get("action")
            found.append({"role": "assistant", "content": as_text(said)})
            if step.get("observation"):
                found.append({"role": "user", "content": as_text(step["observation"])})
    return found


def _message(message: Data) -> Data:
    """A message as OpenAI has it: a result names its call in a list."""
    ids = message.get("tool_call_ids")
    keys = ("role", "content", "tool_calls", "tool_call_id", "is_demo", "thinking_blocks")
    found = {key: message[key] for key in keys if message.get(key) is not None}
    if isinstance(ids, list) and ids:
        found["tool_call_id"] = ids[0]
    content = found.get("content")
    shown = isinstance(content, list) and any(_is_image(part) for part in content)
    if not isinstance(content, str) and not shown:
        found["content"] = text_in(content)
    return found


def _is_image(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type") == "image_url"


def _units(messages: list[Data], id: str) -> Iterator[tuple[str, list[Entry]]]:
    demos = {str(number) for number, message in enumerate(messages) if message.get("is_demo")}
    plain = [
        {key: value for key, value in message.items() if key != "is_demo"} for message in messages
    ]
    digest = blake2b(digest_size=9)
    for message, (number, found) in zip(plain, openai_chat.entries(plain), strict=True):
        digest.update(json_of(message, is_sorted=True))
        unit = f"{id}:{digest.hexdigest()}"
        if number in demos:
            found = [
                entry._replace(data=(entry.data or {}) | {"meta": "demonstration"})
                for entry in found
            ]
        yield unit, [entry._replace(id=unit + entry.id.removeprefix(number)) for entry in found]


def _id(stem: str, document: Data, messages: list[Data]) -> str:
    """The file's name, and a digest of the run: of one that still goes on, up to its first answer."""
    if "status" not in _about(document):
        answers = (
            n for n in count() if n >= len(messages) or messages[n].get("role") == "assistant"
        )
        messages = messages[: next(answers) + 1]
    return f"{stem}-{blake2b(json_of(messages, is_sorted=True), digest_size=6).hexdigest()}"


def sessions(sources: Iterable[Source]) -> Iterator[Session]:
    """A session for each run: as a rule the one trajectory, else each attempt at it."""
    for source in sources:
        report = Report()
        document = source.document(report)
        told: list[list[Data]] = []
        seen: Counter[str] = Counter()
        for run in _runs(document) if isinstance(document, dict) else ():
            messages = _messages(run)
            if messages and messages not in told:
                told.append(messages)
                id = _id(source.stem, run, messages)
                seen[id] += 1
                id += f"#{seen[id]}" if seen[id] > 1 else ""
                yield _session(source, id, messages, _about(run), report)
                report = Report()


def _runs(document: Data) -> Iterator[Data]:
    """The attempts, of which the best is the document itself once it was chosen."""
    tries = document.get("attempts")
    yield from (one for one in (tries if isinstance(tries, list) else ()) if isinstance(one, dict))
    yield document


def _session(source: Source, id: str, messages: list[Data], about: Data, report: Report) -> Session:
    def steps() -> Iterator[Step]:
        return chained(_units(messages, id))

    return Session(NAME, id, [Thread(id, None, steps, None, about)], source.path, report)


def _about(document: Data) -> dict[str, Any]:
    info = document.get("info")
    found = {
        "environment": document.get("environment"),
        "status": info.get("exit_status") if isinstance(info, dict) else None,
    }
    return {key: value for key, value in found.items() if isinstance(value, str) and value}


FORMAT = Format(name=NAME, fits=fits, sessions=sessions)
