"""Search terms: which part of an event is searched, how text is split into words, and what a query means.

All stores use these definitions, so that they find the same events; a database's own tokenizer is never used.
Pure: no I/O, no clock.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from backstory.errors import Invalid
from backstory.log.chain import is_erased
from backstory.log.events import parse_object
from backstory.log.labels import LABEL
from backstory.log.messages import tool_call, tool_result
from backstory.log.notes import OURS

LONGEST_WORD = 200  # characters; longer words are cut, in the index and in the query
AROUND = 60  # characters of a snippet before the first match
SNIPPET = 160  # characters of a snippet

# Invisible characters that a terminal acts on, or that change how others are read: delete and C1, direction
# marks and overrides, separators, and zero-width characters.
UNSEEN = frozenset(
    (
        *range(0x7F, 0xA0),
        *(0xAD, 0x61C, 0x180E, 0xFEFF),
        *range(0x200B, 0x2010),
        *range(0x2028, 0x202F),
        *range(0x2060, 0x2070),
        *range(0xFFF9, 0xFFFC),
        *range(0xE0000, 0xE0080),
    )
)

_ESCAPED = {code: json.dumps(chr(code))[1:-1] for code in UNSEEN - {0x7F}} | {0x7F: "\\u007f"}

_ASCII = re.compile(r"[a-z0-9]+")
_ACCENTS = "\u0300-\u036f"
_RUN = re.compile(rf"(?:[^\W_]|[{_ACCENTS}])+")
_ACCENT = re.compile(f"[{_ACCENTS}]+")
# Scripts without spaces between words: each character is a word, and a longer word is a phrase.
_ALONE = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_ALONE}]|(?:(?![{_ALONE}])[^\W_])+")


class Phrase(NamedTuple):
    """Consecutive words; the last may be a prefix."""

    words: tuple[str, ...]
    prefix: bool


Query = tuple[Phrase, ...]  # all of them, anywhere in the event


class Snippet(NamedTuple):
    """An excerpt of an event's text, and where the matches are."""

    text: str
    spans: tuple[tuple[int, int], ...]


def words(text: str) -> list[str]:
    """The words of a text, in order: letters and digits, without case and accents."""
    if text.isascii():
        found = _ASCII.findall(text.lower())
    else:
        found = [word for run in _RUN.findall(text) for word in _folded(run)]
    return [word[:LONGEST_WORD] for word in found] if len(text) > LONGEST_WORD else found


def _folded(run: str) -> list[str]:
    if run.isascii():
        return [run.lower()]
    plain = _ACCENT.sub("", unicodedata.normalize("NFKD", run.casefold()))
    return _WORD.findall(unicodedata.normalize("NFC", plain).casefold())


def searchable(kind: str, content: str | None, data_json: str | None) -> str:
    """The part of an event that is searched: what was said, called, answered or labelled. Ids, usage numbers,
    model names, native forms and items (which repeat the message) are not, nor are copies that a compaction
    made."""
    if data_json is None or (kind not in _TOLD_BY_DATA and "copy_of" not in data_json):
        return content or ""
    if is_erased(data_json):
        return ""
    data = parse_object(data_json) or {}
    if "copy_of" in data:
        return ""
    if kind not in _TOLD_BY_DATA:
        return content or ""
    return "\n".join(text for text in _TOLD_BY_DATA[kind](content, data) if text)


def _called(content: str | None, data: dict[str, Any]) -> Iterator[str | None]:
    yield content
    _, name, arguments = tool_call(data)
    yield from _values(name)
    parsed = parse_object(arguments) if isinstance(arguments, str) else None
    yield from _values(arguments if parsed is None else parsed)


def _answered(content: str | None, data: dict[str, Any]) -> Iterator[str | None]:
    """The whole output of a tool, if the model was given only a part."""
    yield from _values(data.get("whole") or tool_result(content, data).output)


def _labelled(content: str | None, data: dict[str, Any]) -> Iterator[str | None]:
    yield content
    yield from _values(data.get("label"))


def _noted(content: str | None, data: dict[str, Any]) -> Iterator[str | None]:
    """A note's name; of reserved notes, only the name that a label gives."""
    if not (content or "").startswith(OURS):
        yield content
    elif content == LABEL:
        yield from _values(data.get("label"))


_TOLD_BY_DATA: dict[str, Callable[[str | None, dict[str, Any]], Iterator[str | None]]] = {
    "tool_call": _called,
    "tool_result": _answered,
    "mark": _labelled,
    "note": _noted,
}


def _values(value: Any) -> Iterator[str]:
    match value:
        case dict():
            for inner in value.values():
                yield from _values(inner)
        case list():
            for inner in value:
                yield from _values(inner)
        case str():
            yield value
        case bool() | None:
            return
        case _:
            yield str(value)


def query(text: str) -> Query:
    """Parse a query: words, "several words" as a phrase, and begin* for prefixes."""
    if not isinstance(text, str):
        raise Invalid(f"{text!r:.60} is not a text to search for", remedy="pass a string")
    asked = []
    for quoted, star, bare in re.findall(r'"([^"]*)"(\*?)|([^\s"]+)', text):
        found = words(quoted or bare)
        if found:
            asked.append(Phrase(tuple(found), bool(star) or bare.endswith("*")))
    if not asked:
        raise Invalid(
            f"{text!r} has no word to search for", remedy="give at least one letter or digit"
        )
    return tuple(asked)


def matches(asked: Query, found: Sequence[str]) -> bool:
    """Whether words match a query."""
    return all(next(_places(phrase, found), None) is not None for phrase in asked)


def score(asked: Query, found: Sequence[str]) -> float:
    """How well words match: the number of matches, relative to the length."""
    return sum(sum(1 for _ in _places(phrase, found)) for phrase in asked) / (len(found) + 20)


def _places(phrase: Phrase, found: Sequence[str]) -> Iterator[int]:
    *firsts, last = phrase.words
    length = len(phrase.words)
    for place in range(len(found) - length + 1):
        end = found[place + length - 1]
        if (end.startswith(last) if phrase.prefix else end == last) and (
            not firsts or list(found[place : place + length - 1]) == firsts
        ):
            yield place


def snippet(asked: Query, text: str) -> Snippet:
    """The text around the first matches, short enough for one line."""
    runs = [
        (run.start(), run.end(), word) for run in _RUN.finditer(text) for word in words(run.group())
    ]
    found = [word for _, _, word in runs]
    hits = (
        (place, place + len(phrase.words)) for phrase in asked for place in _places(phrase, found)
    )
    spans = sorted({run[:2] for low, high in hits for run in runs[low:high]})
    start = _edge(text, spans[0][0] - AROUND) if spans else 0
    end = min(len(text), start + SNIPPET)
    inside = tuple(
        (low - start, high - start) for low, high in spans if start <= low and high <= end
    )
    return Snippet(text[start:end], inside)


def _edge(text: str, near: int) -> int:
    """The beginning of a word at or after a place."""
    if near <= 0:
        return 0
    gap = re.compile(r"\s").search(text, near, near + AROUND // 2)
    return gap.end() if gap else near


def harmless(json_text: str) -> str:
    """The same JSON, with invisible characters escaped."""
    if json_text.isascii() and "\x7f" not in json_text:
        return json_text
    return json_text.translate(_ESCAPED)
