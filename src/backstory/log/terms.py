"""Search terms: which part of an event is searched, how text is split into words, what a search
means, and how well an event matches it.

All stores use these definitions, so that they find the same events. A database's own tokenizer is
never used.
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from backstory.errors import Invalid
from backstory.log.arguments import RESERVED
from backstory.log.data_keys import COPY
from backstory.log.erasure import is_erased
from backstory.log.events import StoredRow, parse_object
from backstory.log.messages import read_call, read_result
from backstory.log.moves import LABEL

LONGEST_WORD = 200  # characters; longer words are cut, in the index and in the query
LEAD = 60  # characters of a snippet before the first match
LONGEST_SNIPPET = 160  # characters

ACCENTS = "\u0300-\u036f"
# Scripts without spaces between words: each character is a word, and a longer word is a phrase.
SINGLE = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
ASCII_WORD = re.compile(r"[a-z0-9]+")
RUN = re.compile(rf"(?:[^\W_]|[{ACCENTS}])+")
ACCENT = re.compile(f"[{ACCENTS}]+")
WORD = re.compile(rf"[{SINGLE}]|(?:(?![{SINGLE}])[^\W_])+")
QUERY_PART = re.compile(r'"([^"]*)"(\*?)|([^\s"]+)')
SPACE = re.compile(r"\s")

# The kinds whose data is searched, too.
KINDS_WITH_DATA = frozenset({"tool_call", "tool_result", "mark", "note"})


class Phrase(NamedTuple):
    """Consecutive words; the last may be a prefix."""

    words: tuple[str, ...]
    prefix: bool


Phrases = tuple[Phrase, ...]  # all of them, anywhere in the event


class FoundEvent(NamedTuple):
    """An event that matches a search."""

    owner_id: str
    seq: int
    score: float  # the higher the better, within one search


class Snippet(NamedTuple):
    """An excerpt of an event's text, and the spans of the matches in it."""

    text: str
    spans: tuple[tuple[int, int], ...]


def split_words(text: str) -> list[str]:
    """Return the words of `text`, in order: letters and digits, without case and accents."""
    if text.isascii():
        found = ASCII_WORD.findall(text.lower())
    else:
        found = []
        for run in RUN.findall(text):
            found.extend(_split_run(run))
    return [word[:LONGEST_WORD] for word in found]


def _split_run(run: str) -> list[str]:
    """Return the words of letters, digits and accents without other characters between them."""
    if run.isascii():
        return [run.lower()]
    without_accents = ACCENT.sub("", unicodedata.normalize("NFKD", run.casefold()))
    return WORD.findall(unicodedata.normalize("NFC", without_accents).casefold())


def extract_text(kind: str, content: str | None, data_json: str | None) -> str:
    """Return the part of an event that is searched: its text, and the name, arguments, output or
    label in its data.

    Ids, usage numbers, model names, native forms and items (which repeat the message) are not
    searched, nor are the copies that a compaction made.
    """
    if data_json is None:
        return content or ""
    if kind not in KINDS_WITH_DATA and COPY not in data_json:
        return content or ""
    data = parse_object(data_json) or {}
    if is_erased(data_json) or COPY in data:
        return ""
    return "\n".join(text for text in _list_texts(kind, content, data) if text)


def _list_texts(kind: str, content: str | None, data: dict[str, Any]) -> Iterator[str | None]:
    """Yield the texts of an event that are searched."""
    if kind == "tool_result":
        # The complete output of the tool, if the model received only a part.
        output = data.get("whole") or read_result(content, data).output
        yield from _list_values(output)
        return
    if kind == "note" and content is not None and content.startswith(RESERVED):
        if content == LABEL:
            yield from _list_values(data.get("label"))
        return
    yield content
    if kind == "tool_call":
        call = read_call(data)
        yield from _list_values(call.name)
        yield from _list_values(_parse_arguments(call.arguments))
    elif kind == "mark":
        yield from _list_values(data.get("label"))


def _parse_arguments(arguments: Any) -> Any:
    """Return the arguments of a call, as an object if they are the JSON text of one."""
    parsed = parse_object(arguments) if isinstance(arguments, str) else None
    return arguments if parsed is None else parsed


def _list_values(value: Any) -> Iterator[str]:
    """Yield the texts and numbers in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for child in value.values():
            yield from _list_values(child)
    elif isinstance(value, list):
        for child in value:
            yield from _list_values(child)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def parse_phrases(text: str) -> Phrases:
    """Parse what a user searches for: words, "several words" as a phrase, and begin* for
    prefixes."""
    if not isinstance(text, str):
        raise Invalid(f"{text!r:.60} cannot be searched for", remedy="pass a string")
    phrases = []
    for quoted, star, bare in QUERY_PART.findall(text):
        phrase_words = split_words(quoted or bare)
        if phrase_words:
            is_prefix = bool(star) or bare.endswith("*")
            phrases.append(Phrase(tuple(phrase_words), is_prefix))
    if not phrases:
        raise Invalid(
            f"{text!r} has no word to search for", remedy="give at least one letter or digit"
        )
    return tuple(phrases)


def score_row(phrases: Phrases, row: StoredRow, kinds: Collection[str] = ()) -> float | None:
    """Return how well an event matches a search, or None if it does not. `kinds` are the kinds that
    are searched; none means all."""
    if kinds and row.kind not in kinds:
        return None
    text_words = split_words(extract_text(row.kind, row.content, row.data_json))
    if not has_phrases(phrases, text_words):
        return None
    return score_words(phrases, text_words)


def rank_rows(
    phrases: Phrases,
    rows: Iterable[tuple[str, StoredRow]],
    kinds: Collection[str],
    limit: int,
) -> list[FoundEvent]:
    """Return the best matches among `rows`, each given with the id of its owner: a search without
    an index."""
    found = []
    for owner_id, row in rows:
        score = score_row(phrases, row, kinds)
        if score is not None:
            found.append(FoundEvent(owner_id, row.seq, score))
    found.sort(key=lambda event: event.score, reverse=True)
    return found[:limit]


def has_phrases(phrases: Phrases, text_words: Sequence[str]) -> bool:
    """Return True if `text_words` contain every phrase."""
    return all(_has_phrase(phrase, text_words) for phrase in phrases)


def _has_phrase(phrase: Phrase, text_words: Sequence[str]) -> bool:
    return next(_find_phrase(phrase, text_words), None) is not None


def score_words(phrases: Phrases, text_words: Sequence[str]) -> float:
    """Return how well words match: the number of matches, relative to the length."""
    count = 0
    for phrase in phrases:
        count += sum(1 for _ in _find_phrase(phrase, text_words))
    return count / (len(text_words) + 20)


def _find_phrase(phrase: Phrase, text_words: Sequence[str]) -> Iterator[int]:
    """Yield the index of the first word of each match."""
    *firsts, last = phrase.words
    for end, word in enumerate(text_words):
        is_last = word.startswith(last) if phrase.prefix else word == last
        if not is_last:
            continue
        start = max(0, end - len(firsts))
        before = list(text_words[start:end])
        if before == firsts:
            yield start


def build_snippet(phrases: Phrases, text: str) -> Snippet:
    """Return the text around the first matches, short enough for one line."""
    spans = _find_spans(phrases, text)
    start = 0
    if spans:
        first_match, _ = spans[0]
        start = _find_word_start(text, first_match - LEAD)
    end = min(len(text), start + LONGEST_SNIPPET)
    spans_inside = []
    for low, high in spans:
        if start <= low and high <= end:
            spans_inside.append((low - start, high - start))
    return Snippet(text[start:end], tuple(spans_inside))


def _find_spans(phrases: Phrases, text: str) -> list[tuple[int, int]]:
    """Return the start and end of each word that belongs to a match, in order."""
    text_words: list[str] = []
    word_spans: list[tuple[int, int]] = []
    for run in RUN.finditer(text):
        for word in split_words(run.group()):
            text_words.append(word)
            word_spans.append(run.span())
    spans: set[tuple[int, int]] = set()
    for phrase in phrases:
        for index in _find_phrase(phrase, text_words):
            spans.update(word_spans[index : index + len(phrase.words)])
    return sorted(spans)


def _find_word_start(text: str, near: int) -> int:
    """Return the beginning of a word at or after the index `near`."""
    if near <= 0:
        return 0
    space = SPACE.search(text, near, near + LEAD // 2)
    return space.end() if space else near
