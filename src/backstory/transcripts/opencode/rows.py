"""opencode's second table of messages, `session_message`: the same as messages with parts. Pure.

Its second server writes there, in the order of `seq`, and nothing into `message`. Releases until June 2026
could write every message of `message` there once more.
"""

from collections.abc import Callable, Iterable
from typing import Any

from backstory.transcripts.entries import Data, as_text
from backstory.transcripts.opencode.parts import Message
from backstory.transcripts.transcript import Report
from backstory.transcripts.words import Words

TABLE = "session_message"
BOOKKEEPING = Words({"agent-switched", "model-switched"})


def message_of(id: str, type_: Any, seq: Any, row: Data, report: Report) -> Message | None:
    """A row as a message; None if no model saw it."""
    if type_ in BOOKKEEPING:
        return None
    if type_ not in _TYPES:
        report.unknown[f"{TABLE} {as_text(type_)[:40]} (opencode)"] += 1
        return None
    more, parts = _TYPES[type_](row)
    info = {"id": id, "seq": seq, "role": "user", "time": row.get("time"), **more}
    return Message(id, info, [{"id": f"{id}:{n:04}"} | part for n, part in enumerate(parts)])


def is_mirror(row: Message, messages: Iterable[Message]) -> bool:
    """Whether all that a row says stands in a message of the older table."""
    told = set(_told(row))
    return any(row.id == message.id or told <= set(_told(message)) for message in messages)


def _told(message: Message) -> Iterable[str]:
    for part in message.parts:
        if part.get("type") in ("text", "tool") and part.get("synthetic") is not True:
            yield as_text(part.get("callID") or part.get("text")).strip()


# ------------------------------------------------------------------ by type: more of its info, and its parts


def _user(row: Data) -> tuple[Data, list[Data]]:
    files = [_file(file) for file in _objects(row.get("files"))]
    return {}, [{"type": "text", "text": as_text(row.get("text"))}, *files]


def _file(file: Data) -> Data:
    return {
        "type": "file",
        "mime": file.get("mime"),
        "url": file.get("uri"),
        "filename": file.get("name"),
    }


def _synthetic(row: Data) -> tuple[Data, list[Data]]:
    return {}, [{"type": "text", "text": as_text(row.get("text")), "synthetic": True}]


def _system(row: Data) -> tuple[Data, list[Data]]:
    return {"role": "system"}, [{"type": "text", "text": as_text(row.get("text"))}]


def _shell(row: Data) -> tuple[Data, list[Data]]:
    """A command that the person ran, in the words in which the model reads of it."""
    text = f"Shell command: {as_text(row.get('command'))}\n\n{as_text(row.get('output'))}"
    runs = "completed" not in _object(row.get("time"))
    return {"running": runs}, [{"type": "text", "text": text, "synthetic": True}]


def _compaction(row: Data) -> tuple[Data, list[Data]]:
    """The summary, and the newest messages, which stand in the row as one text."""
    texts = [as_text(row.get(name)) for name in ("summary", "recent")]
    words = "\n\n".join(text for text in texts if text)
    return {"role": "assistant", "summary": True, "finish": "stop"}, [
        {"type": "text", "text": words}
    ]


def _assistant(row: Data) -> tuple[Data, list[Data]]:
    model = _object(row.get("model"))
    info = {"role": "assistant", "modelID": model.get("id"), "providerID": model.get("providerID")}
    info |= {name: row[name] for name in ("tokens", "cost", "finish") if name in row}
    if isinstance(row.get("error"), dict):
        info["error"] = {"name": as_text(row["error"].get("message"))}
    return info, [_part(part) for part in _objects(row.get("content"))]


def _part(part: Data) -> Data:
    if part.get("type") == "tool":
        return _tool(part)
    kept = {"type": part.get("type"), "text": part.get("text")}
    metadata = part.get("providerMetadata")
    return kept | {"metadata": metadata} if isinstance(metadata, dict) else kept


def _tool(part: Data) -> Data:
    given, times, provider = (_object(part.get(name)) for name in ("state", "time", "provider"))
    content = _objects(given.get("content"))
    state = {
        "status": given.get("status"),
        "input": given.get("input"),
        "metadata": given.get("structured"),
        "time": {"start": times.get("ran", times.get("created")), "end": times.get("completed")},
        "output": _output(given, content, provider),
        "error": _failure(given, content),
        "attachments": [_file(one) for one in content if one.get("type") == "file"],
    }
    called = {"type": "tool", "tool": part.get("name"), "callID": part.get("id"), "state": state}
    return called | {"metadata": provider["metadata"]} if "metadata" in provider else called


def _output(state: Data, content: list[Data], provider: Data) -> str:
    """What the model is shown of a result: its texts, else the structured value."""
    if provider.get("executed") is True and state.get("result") is not None:
        return as_text(state["result"])
    if content:
        return "\n".join(as_text(one.get("text")) for one in content if one.get("type") == "text")
    return as_text(state.get("structured"))


def _failure(state: Data, content: list[Data]) -> str:
    """What the model is shown of a call that failed: why, and what the tool had said until then."""
    said = [_object(state.get("error")).get("message"), *(one.get("text") for one in content)]
    return "\n".join(text for text in said if isinstance(text, str) and text)


def _object(value: Any) -> Data:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[Data]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


_TYPES: dict[Any, Callable[[Data], tuple[Data, list[Data]]]] = {
    "user": _user,
    "synthetic": _synthetic,
    "system": _system,
    "shell": _shell,
    "assistant": _assistant,
    "compaction": _compaction,
}
