"""The short way for OpenAI: histories as well-behaved agents write them, which need no repair.

One pass that writes the messages while it watches for anything unusual; then it gives up and the
long way decides. It may give up whenever it likes, but what it writes has to be what the long way would
have written: a property test holds the two together.
"""

import re
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any

from backstory.core.events import Event
from backstory.core.kinds import TEXT_KINDS
from backstory.wire.encoder import compact, parse
from backstory.wire.format import PLAIN_NAME
from backstory.wire.rows import DEEPEST

LONGEST_ID = 40
_COLUMNS = (itemgetter(1), itemgetter(2), itemgetter(3))  # kind, content and data_json of an event
_RESULT_KEYS = {"id", "name", "error"}
_LONG_NUMBER = re.compile(r"\d{17}")  # parsers differ on whole numbers beyond 64 bits


class Unusual(Exception):
    """Something that the long way has to look at."""


def openai_messages(events: Sequence[Any]) -> list[dict[str, Any]] | None:
    """The messages of a history that needs no repair; None if this one might."""
    if set(map(type, events)) != {Event}:
        return None
    kinds, texts, data = (list(map(column, events)) for column in _COLUMNS)
    try:
        _check_texts(kinds, texts)
        return _messages(zip(kinds, texts, data, strict=True))
    except (Unusual, LookupError, TypeError, ValueError):  # the last three: text or data of no such shape
        return None


def _check_texts(kinds: list[Any], texts: list[Any]) -> None:
    """All at once, because that is quick: texts are texts, none is blank, and only calls have none."""
    said = [text for text in texts if text is not None]
    if len(texts) - len(said) != kinds.count("tool_call"):
        raise Unusual
    if not all(said) or any(map(str.isspace, said)):
        raise Unusual
    if not all(map(str.isascii, said)):
        "".join(said).encode()


def _messages(rows: Iterable[tuple[Any, Any, Any]]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    append = messages.append
    ids: set[str] = set()  # of all calls
    names: set[str] = set()  # of tools, known to be legal
    waiting: list[tuple[str, str]] = []  # ids and names of the step's calls that have no result yet
    last: dict[str, Any] = {"role": None}
    for kind, text, data_json in rows:
        if data_json is None:
            if waiting or kind not in TEXT_KINDS:
                raise Unusual
            last = {"role": kind, "content": text}
            append(last)
        elif kind == "tool_call" and text is None:
            call = _call(data_json, ids, names)
            if last["role"] != "assistant":
                if waiting:
                    raise Unusual
                last = {"role": "assistant", "content": None}
                append(last)
            last.setdefault("tool_calls", []).append(call)
            waiting.append((call["id"], call["function"]["name"]))
        elif kind == "tool_result" and waiting:
            id, name = waiting.pop(0)
            if data_json != f'{{"id":"{id}","name":"{name}"}}' and _result_id(data_json) != id:
                raise Unusual
            last = {"role": "tool", "tool_call_id": id, "content": text}
            append(last)
        else:
            raise Unusual
    if waiting:
        raise Unusual
    return messages


def _call(data_json: str, ids: set[str], names: set[str]) -> dict[str, Any]:
    data = parse(data_json)
    id, name, arguments = data["id"], data["name"], data["arguments"]
    text = compact(arguments)
    # If it all comes out as it went in, then nothing was lost in parsing, there is nothing else in it, and
    # id and name are texts. Otherwise it is of another writer and has to look harmless.
    if f'{{"id":"{id}","name":"{name}","arguments":{text}}}' != data_json:
        _check_harmless(data, data_json)
    elif len(text) > DEEPEST // 2:
        _check_depth(text)
    if type(arguments) is not dict or id in ids or len(id) > LONGEST_ID or not id or id.isspace():
        raise Unusual
    if name not in names:
        if not PLAIN_NAME.fullmatch(name):
            raise Unusual
        names.add(name)
    ids.add(id)
    return {"id": id, "type": "function", "function": {"name": name, "arguments": text}}


def _check_harmless(data: dict[str, Any], data_json: str) -> None:
    if len(data) != 3 or type(data["id"]) is not str or type(data["name"]) is not str:
        raise Unusual
    if _LONG_NUMBER.search(data_json):
        raise Unusual
    _check_depth(data_json)


def _check_depth(data_json: str) -> None:
    if data_json.count("{") + data_json.count("[") > DEEPEST // 2:
        raise Unusual


def _result_id(data_json: str) -> Any:
    """The id; that it is a call's id is the caller's to see."""
    data = parse(data_json)
    if type(data) is not dict or not data.keys() <= _RESULT_KEYS:
        raise Unusual
    if type(data.get("name", "")) is not str or data.get("error", False) is not False:
        raise Unusual  # an old shape, or none, or an error, which the long way reports
    return data.get("id")
