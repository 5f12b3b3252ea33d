"""The fast path: histories that need no repair, as well-behaved agents write them, in every format.

The sequence of kinds shows whether there is anything to repair. If not, the contents of the events are put
into the gaps of a template, which the format's own writers make from placeholders. So there is one fast path
for all formats, which duplicates none of them. It works on columns instead of events, because that is several
times faster. If it finds anything unusual, it gives up, and the slow path decides. It may give up at any
time, but its output must be the same as that of the slow path: a property test compares the two.
"""

import re
from collections.abc import Sequence
from itertools import chain, compress
from operator import add, mod
from typing import Any, NamedTuple

from backstory.log.events import Event
from backstory.wire.columns import Columns, columns_of
from backstory.wire.formats.base import Format
from backstory.wire.groups import INTERRUPTED
from backstory.wire.json_values import DEEPEST, orjson
from backstory.wire.repair import CONTINUE, NO_LAST_WORD, no_flag
from backstory.wire.rows import Gathered
from backstory.wire.template import (
    END,
    FAILED,
    FIRST_CALL,
    RESULT,
    SILENT,
    SPOKEN,
    START,
    USER,
    Template,
    template,
)
from backstory.wire.turns import Repair, is_blank

_LETTERS = {"system": "S", "user": "U", "assistant": "A", "tool_call": "C", "tool_result": "R"}
_ONLY = {letter: bytes(byte == ord(letter) for byte in range(256)) for letter in "CR"}
_CALL = re.compile(
    r'\{"id":"([^"\\\n]++)","name":"([^"\\\n]++)","arguments":(\{.*\})\}\n'
)  # a line each
_EASY_IDS = re.compile(r"(?:[A-Za-z0-9_-]{1,40}(?:\n|\Z))*+")
_MARK = r',"\u0001",'
_LONG_NUMBER = re.compile(r"\d{17}")  # parsers differ on whole numbers beyond 64 bits


class Unusual(Exception):
    """Something that the slow path has to handle."""


class Plain(NamedTuple):
    """A request's body as JSON, and the few repairs."""

    json: bytes
    repairs: list[Repair]


def plain_json(events: Sequence[Any], format: Format, *, pause: bool = False) -> Plain | None:
    """The request of a history that needs no repair; None if this one might."""
    if orjson is None:
        return None
    if not isinstance(events, Gathered):
        if set(map(type, events)) != {Event}:
            return None
        events = Gathered(columns_of(events))
    try:
        return _filled(events, format, pause=pause)
    except (
        Unusual,
        LookupError,
        TypeError,
        ValueError,
    ):  # the last three: text or data of no such shape
        return None


def _filled(events: Gathered, format: Format, *, pause: bool) -> Plain:
    letters = "".join(map(_LETTERS.__getitem__, events.columns.kinds))
    texts: list[Any] = list(events.columns.contents)
    data = events.columns.data
    _check_data(letters, data)
    lead = len(letters) - len(letters.lstrip("S")) if format.system_on_top else 0
    if any(map(is_blank, texts[:lead])):
        raise Unusual
    top = [format.top(text) or format.said("system", text, None) for text in texts[:lead]]
    letters, texts, data = letters[lead:], texts[lead:], data[lead:]
    _check_order(letters, format)
    asked, answered = _places(letters, "C"), _places(letters, "R")
    _check_texts(texts, asked)
    calls = _calls([data[place] for place in asked], format)
    if not calls.are_bare or len(data) - data.count(None) != len(asked) + len(answered):
        _check_answers(letters, data)
    failed = _failed([data[place] for place in answered], calls)
    repairs = _flags(events.columns, [lead + place for place in answered], failed, format)
    if format.alternates and letters[-1] == "A" and not pause:
        letters, texts = letters + "U", [*texts, CONTINUE]
        repairs.append(Repair("alternate", events.columns.seqs[-1], NO_LAST_WORD))
    gaps = template(format)
    letters = _with_failed(_forms(letters), answered, failed)
    for place, given in zip(asked, calls.given, strict=True):
        texts[place] = given if gaps.carries_text else ""
    contents = _encoded(texts)
    keys = _fill_calls(contents, letters, asked, calls, gaps)
    _fill_results(contents, letters, answered, keys, gaps)
    around = gaps.around(top, dict.fromkeys(calls.names), format)
    return Plain(_joined(letters, contents, gaps, around), repairs)


def _selected(letters: str, letter: str) -> bytes:
    """For each event, whether it has that letter."""
    return letters.encode().translate(_ONLY[letter])


def _places(letters: str, letter: str) -> list[int]:
    return list(compress(range(len(letters)), _selected(letters, letter)))


def _forms(letters: str) -> str:
    """What the events are in the request: see `template`."""
    letters = f"{START}{letters}".replace("AC", f"{SPOKEN}{FIRST_CALL}")
    for before in (START, "U", "S", "R"):
        letters = letters.replace(f"{before}C", f"{before}{SILENT}")
    return letters[1:]


def _with_failed(letters: str, answered: list[int], failed: list[bool]) -> str:
    if True not in failed:
        return letters
    found = list(letters)
    for place, is_failed in zip(answered, failed, strict=True):
        found[place] = FAILED if is_failed else RESULT
    return "".join(found)


def _joined(
    letters: str, contents: list[bytes], gaps: Template, around: tuple[bytes, bytes]
) -> bytes:
    """The JSON of all messages: the constant parts, with the contents of the events in between. Most turns
    are alike, so the constant parts are looked up turn by turn. `around` is what comes before and after them
    all."""
    first, *turns = f"{letters}{END}".split(USER)
    # A turn is everything from one user message to the next.
    last = turns.pop() if turns else None
    constant = {turn: gaps.between(f"{USER}{turn}{USER}") for turn in set(turns)}
    pieces = [b""] * (2 * len(contents) + 3)
    pieces[0], pieces[-1] = around
    pieces[1:-1:2] = chain(
        gaps.between(f"{START}{first}" + ("" if last is None else USER)),
        chain.from_iterable(map(constant.__getitem__, turns)),
        () if last is None else gaps.between(f"{USER}{last}"),
    )
    pieces[2:-1:2] = contents
    return b"".join(pieces)


def _check_order(letters: str, format: Format) -> None:
    """Check that each call has its result in its turn, and that roles alternate if they have to."""
    while "CCRR" in letters:  # calls of one answer, and as many results behind them
        letters = letters.replace("CCRR", "CR")
    rest = letters.replace("CR", "")
    if not letters or "C" in rest or "R" in rest:
        raise Unusual
    if format.alternates and (letters[0] != "U" or "S" in letters or "AA" in letters):
        raise Unusual


def _check_texts(texts: list[Any], asked: list[int]) -> None:
    """Check that texts are strings and not blank, and that calls have none."""
    said = list(filter(None, texts))
    if len(said) != len(texts) - len(asked) or any(map(texts.__getitem__, asked)):
        raise Unusual
    if any(map(str.isspace, said)):
        raise Unusual


def _check_data(letters: str, data: Sequence[Any]) -> None:
    """Check that the data of texts (usage, the model's name) has no native content: then it is not sent."""
    if data.count(None) == len(letters) - letters.count("C") - letters.count("R"):
        return
    for letter, raw in zip(letters, data, strict=True):
        if (
            raw is not None
            and letter in "SUA"
            and ('"native"' in raw or type(orjson.loads(raw)) is not dict)
        ):
            raise Unusual


def _check_answers(letters: str, data: Sequence[Any]) -> None:
    """Check that answers that are named begin and end where the order of the events says."""
    if '"answer"' not in "\n".join(filter(None, data)):
        return
    last = None  # the answer of the last run of the model's events, until someone else speaks
    before = "U"
    for letter, raw in zip(letters, data, strict=True):
        if letter in "AC":
            answer = orjson.loads(raw).get("answer") if raw is not None else None
            if (answer != last) if before in "AC" else (answer is not None and answer == last):
                raise Unusual
            last = answer
        elif letter in "US":
            last = None
        before = letter


def _encoded(texts: list[str]) -> list[bytes]:
    """Texts as JSON without their quotes, all at once because that is several times faster. A quote within a
    text has a backslash before it, so `","` occurs only between two texts, or where one ends with `",`."""
    if not texts:
        return []
    encoded = orjson.dumps(texts)
    if b'\\",","' in encoded or encoded.endswith(b'\\","]'):
        return [orjson.dumps(text)[1:-1] for text in texts]
    found = encoded.split(b'","')
    found[0] = found[0][len('["') :]
    found[-1] = found[-1][: -len('"]')]
    return found


class _Calls(NamedTuple):
    """The calls of a history, in columns."""

    ids: list[str]
    names: list[str]
    given: list[str]  # the arguments, as JSON
    are_bare: bool = False  # is there nothing else in their data?


def _calls(raws: list[Any], format: Format) -> _Calls:
    """The calls, if none of them needs a repair."""
    calls = _usual_calls(raws) or _other_calls(raws, format)
    if not all(calls.ids) or not all(map(format.names.fullmatch, set(calls.names))):
        raise Unusual
    if format.ids is not None and not _are_legal(calls.ids, format.ids):
        raise Unusual
    return calls


def _usual_calls(raws: list[Any]) -> _Calls | None:
    """The calls, all at once, if we wrote their data ourselves; otherwise None."""
    # What is between the calls (nothing), then what is in them: id, name, arguments; and so on.
    found = _CALL.split("\n".join([*raws, ""]))
    between, ids, names, given = (found[column::4] for column in range(4))
    if len(given) != len(raws) or not raws or any(between):
        return None
    # If they come out as they went in, then nothing was lost in parsing. The marks keep them apart: data that
    # is not JSON could be JSON together with its neighbour's.
    joined = f"[{_MARK.join(given)}]"
    try:
        values = orjson.loads(joined)
    except ValueError:
        return None  # there is more in the data than that
    if values[1::2].count("\x01") != len(given) - 1 or orjson.dumps(values).decode() != joined:
        return None
    for text in given:
        if len(text) > DEEPEST // 2:
            _check_depth(text)
    return _Calls(ids, names, given, are_bare=True)


def _other_calls(raws: list[Any], format: Format) -> _Calls:
    """The calls, one by one, if someone else wrote their data, or if it has more fields."""
    calls = _Calls([], [], [])
    for raw in raws:
        data = orjson.loads(raw)
        calls.ids.append(data["id"])
        calls.names.append(data["name"])
        calls.given.append(_harmless(data, raw, format))
    return calls


def _are_legal(ids: list[str], pattern: re.Pattern[str]) -> bool:
    if len(set(ids)) != len(ids):
        return False
    # Most ids are legal everywhere, which one match of all of them shows.
    if _EASY_IDS.fullmatch("\n".join(ids)):
        return True
    return all(map(pattern.fullmatch, ids)) and not any(map(str.isspace, ids))


def _harmless(data: dict[str, Any], raw: str, format: Format) -> str:
    """The arguments of a call, if nothing was lost in parsing them. If the format has them as text, arguments
    that are text are sent unchanged."""
    if (
        "native" in data
        or "arguments_text" in data
        or type(data["id"]) is not str
        or type(data["name"]) is not str
    ):
        raise Unusual
    arguments = data["arguments"]
    is_text = type(arguments) is str
    value = orjson.loads(arguments) if is_text else arguments
    for text in (raw, arguments) if is_text else (raw,):
        _check_depth(text)
        if _LONG_NUMBER.search(text):
            raise Unusual
    if type(value) is not dict:
        raise Unusual
    return arguments if is_text and template(format).carries_text else orjson.dumps(value).decode()


def _check_depth(text: str) -> None:
    if text.count("{") + text.count("[") > DEEPEST // 2:
        raise Unusual


def _fill_calls(
    contents: list[bytes], letters: str, asked: list[int], calls: _Calls, gaps: Template
) -> list[bytes]:
    """Fill in the calls, and return how results refer to them: by id, or by name if there are no ids."""
    names = _encoded(calls.names)
    if gaps.carries_text:
        given = [contents[place] for place in asked]
    else:
        given = list(map(str.encode, calls.given))
    keys = _encoded(calls.ids) if gaps.has_ids else names
    columns = (keys, names, given) if gaps.has_ids else (names, given)
    forms = [gaps.calls[letters[place]] for place in asked]
    for place, written in zip(asked, map(mod, forms, zip(*columns, strict=True)), strict=True):
        contents[place] = written
    return keys


def _fill_results(
    contents: list[bytes], letters: str, answered: list[int], keys: list[bytes], gaps: Template
) -> None:
    """Put the id or the name of its call before each result."""
    between = [gaps.results[letters[place]] for place in answered]
    for place, before in zip(answered, map(add, keys, between), strict=True):
        contents[place] = before + contents[place]


def _failed(raws: list[Any], calls: _Calls) -> list[bool]:
    """Which results failed. Each has to belong to its call."""
    return [
        raw != f'{{"id":"{id}","name":"{name}"}}' and _is_error(orjson.loads(raw), id)
        for raw, id, name in zip(raws, calls.ids, calls.names, strict=True)
    ]


def _is_error(data: Any, id: str) -> bool:
    if type(data) is not dict or data.get("id") != id or "native" in data or "tool_call_id" in data:
        raise Unusual  # the last: an older shape
    error: bool = data.get("error", False)
    if type(error) is not bool or type(data.get("name", "")) is not str:
        raise Unusual
    return error


def _flags(
    columns: Columns, answered: list[int], failed: list[bool], format: Format
) -> list[Repair]:
    """The repairs for failed results, if the format has no error flag."""
    if format.result_errors or True not in failed:
        return []
    found = list(compress(answered, failed))
    if any(columns.contents[place] == INTERRUPTED for place in found):
        raise Unusual
    return [Repair("error", columns.seqs[place], no_flag(format.name)) for place in found]
