"""OpenAI's chat messages in files: a conversation a line, a list of runs, or one conversation. Pure.

There are no ids: a session is known by the digest of its messages, and by its number among equal ones. Call
ids repeat across lines and within one: they are bound in order.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from backstory.errors import Invalid
from backstory.transcripts.chain import Calls, chained
from backstory.transcripts.entries import (
    Data,
    as_text,
    call_data,
    json_of,
    loaded_answer,
    result_data,
    shallow,
    text_in,
)
from backstory.transcripts.format import Format, Head, Source
from backstory.transcripts.transcript import Entry, Report, Session, Step, Thread
from backstory.transcripts.words import Words
from backstory.wire import load

NAME = "openai-chat"
ROLES = Words({"system", "developer", "user", "assistant", "tool", "function"})
LISTS = ("messages", "traj", "conversation")


def fits(head: Head) -> bool:
    """An object with messages that have roles, or a list of such objects or messages."""
    if any(messages_in(record) is not None for record in _unwrapped(head.records[:3])):
        return True
    if head.text.lstrip().startswith("[") and head.keys >= {"role", "content"}:
        return True
    return bool(head.keys & set(LISTS)) and '"role"' in head.text


def _unwrapped(records: Sequence[Any]) -> Sequence[Any]:
    if len(records) == 1 and isinstance(records[0], list):
        return [*records[0][:3], records[0]]
    return records


def messages_in(value: Any) -> list[Data] | None:
    """The messages of a conversation; None if this is none."""
    if isinstance(value, dict):
        found = next((value[key] for key in LISTS if isinstance(value.get(key), list)), None)
    else:
        found = value
    if not isinstance(found, list) or not found:
        return None
    roles = [one.get("role") if isinstance(one, dict) else None for one in found]
    # One speaker whom nobody knows does not take the others' words away.
    return found if roles[0] in ROLES and all(isinstance(role, str) for role in roles) else None


def entries(messages: Iterable[Data]) -> Iterator[tuple[str, list[Entry]]]:
    """The entries of each message, calls and results bound."""
    calls = Calls()
    for number, message in enumerate(messages):
        found = _message(message, str(number))
        if found[0].kind == "tool_result" and not _names_call(message):
            # The result of a `function_call` of 2023 names no id: it belongs to the oldest call that waits.
            id = calls.result(None)
            yield (
                str(number),
                [found[0]._replace(data=(found[0].data or {}) | ({"id": id} if id else {}))],
            )
            continue
        yield str(number), [calls.entry(entry) for entry in found]


def _names_call(message: Data) -> bool:
    """Whether a result says which call it belongs to."""
    id = message.get("tool_call_id")
    return isinstance(id, str) and bool(id)


def _message(message: Data, id: str) -> list[Entry]:
    match message.get("role"):
        case "assistant":
            return list(_answer(message, id))
        case "tool" | "function":
            text = text_in(message.get("content")) or as_text(message.get("content"))
            return [
                Entry(
                    id, "tool_result", text, result_data(message.get("tool_call_id"), f"call {id}")
                )
            ]
        case "system" | "developer":
            return [_said("system", message, id)]
        case "user":
            return [_said("user", message, id)]
        case other:
            said = _said("user", message, id)
            return [said._replace(data=(said.data or {}) | {"meta": as_text(other)})]


def _said(kind: str, message: Data, id: str) -> Entry:
    content = message.get("content")
    if isinstance(content, list) and any(_type(part) != "text" for part in content):
        try:
            [(_, text, native)] = load({"messages": [shallow(message)]}, "openai")
            return Entry(id, kind, text or "", native)
        except (Invalid, ValueError):
            pass
    return Entry(id, kind, text_in(content))


def _type(part: Any) -> Any:
    return part.get("type") if isinstance(part, dict) else None


def _answer(message: Data, id: str) -> Iterator[Entry]:
    calls = _calls(message)
    text = text_in(message.get("content")) or as_text(message.get("refusal"))
    native: Data = {}
    if set(message) - {
        "role",
        "content",
        "tool_calls",
        "weight",
        "name",
        "refusal",
        "function_call",
    }:
        native = _native(message)
    if text or not calls:
        yield Entry(id, "assistant", text, native or None)
        native = {}
    for number, call in enumerate(calls):
        function = next(
            (call[key] for key in ("function", "custom") if isinstance(call.get(key), dict)), call
        )
        given = function.get("arguments", function.get("input"))  # a custom tool is given a text
        data = call_data(call.get("id"), function.get("name"), given, f"call {id}.{number}")
        yield Entry(f"{id}.{number}", "tool_call", None, data | native)
        native = {}


def _native(message: Data) -> Data:
    """The native content of an answer that has more than words and calls, such as reasoning."""
    try:
        for _, _, data in loaded_answer(shallow(message), "openai", None):
            return {"native": data["native"]} if data and "native" in data else {}
    except Invalid:
        pass
    return {}


def _calls(message: Data) -> list[Data]:
    calls = message.get("tool_calls")
    found = [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    old = message.get("function_call")
    return found or ([old] if isinstance(old, dict) else [])


def sessions(sources: Iterable[Source]) -> Iterator[Session]:
    """A session for each conversation."""
    seen: Counter[str] = Counter()
    for source in sources:
        report = Report()
        for value in _values(source, report):
            messages = messages_in(value)
            if messages is None:
                report.unknown[f"a record without messages ({NAME})"] += 1
                continue
            session = _session(messages, value, seen)
            yield Session(NAME, session.session, [session], source.path, report)
            report = Report()


def _values(source: Source, report: Report) -> Iterator[Any]:
    """The conversations: one a line, the elements of a list, the list itself, or the one object."""
    begun = ((n, line.strip("\ufeff \t")) for n, line in enumerate(source.text_lines(), 1))
    number, start = next(((n, line) for n, line in begun if line), (0, ""))
    first = None if start.startswith("[") else next(source.lines(Report()), None)
    if first is not None and first[0] == number and isinstance(first[2], dict):
        yield from (value for _, _, value, _ in source.lines(report))
        return
    items = source.items("", report)
    value = next(items, None)
    if isinstance(value, dict) and value.get("role") in ROLES:
        yield [value, *items]
    elif value is not None:
        yield value
        yield from items


def _session(messages: list[Data], value: Any, seen: Counter[str]) -> Thread:
    digest = hashlib.sha256(json_of(messages, is_sorted=True)).hexdigest()[:24]
    seen[digest] += 1
    id = digest if seen[digest] == 1 else f"{digest}#{seen[digest]}"
    about = {
        key: value[key] for key in ("reward", "task_id", "trial", "model") if _is_plain(value, key)
    }

    def steps() -> Iterator[Step]:
        return chained(
            (f"{id}:{number}", _with_ids(found, id)) for number, found in entries(messages)
        )

    return Thread(id, None, steps, None, about)


def _with_ids(found: list[Entry], id: str) -> list[Entry]:
    return [entry._replace(id=f"{id}:{entry.id}") for entry in found]


def _is_plain(value: Any, key: str) -> bool:
    return isinstance(value, dict) and isinstance(value.get(key), str | int | float)


FORMAT = Format(name=NAME, fits=fits, sessions=sessions)
