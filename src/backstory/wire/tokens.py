"""Counts the tokens of a conversation: one way of counting for everyone who asks.

A count is the sum of parts, one for each event and kind of content in it. It is exact where that
was measured: plain text, for the models of OpenAI in EXACT, with the extra `tokens` installed
(splintr-rs, which carries the vocabularies with it and works offline). Everything else is an
estimate, and says of what.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

from backstory.log.messages import read_call, read_result
from backstory.wire.file_sizes import (
    Pdf,
    Size,
    measure_image,
    measure_pdf,
    measure_seconds,
    read_text_file,
)
from backstory.wire.formats import FORMATS_BY_NAME
from backstory.wire.formats.base import NEWEST_VOCABULARY, TokenRules, price_flat
from backstory.wire.json_values import clean_value, read_arguments, write_json
from backstory.wire.reading import (
    Readable,
    Row,
    ignore_repair,
    read_native_parts,
    read_rows,
)
from backstory.wire.turns import Media, Other, Part, Reasoning, Text, is_blank

__all__ = ["TokenCount", "Tokens", "count_tokens", "estimate_request", "estimate_tokens"]

CountText = Callable[[str], int]

# The model to count for if none is named.
DEFAULT_MODEL = "gpt-4o"
BYTES_PER_TOKEN = 4
# Usual rates of recordings, in bits per second.
AUDIO_RATE, VIDEO_RATE = 128_000, 1_000_000
# Media of which only the address is known are taken to be of this size.
USUAL_IMAGE = Size(1024, 768)
USUAL_SECONDS = 10
USUAL_DOCUMENT = Pdf(pages=1, letters=2000)
# Characters of base64 for a token of an office document, which is a ZIP file.
OFFICE_CHARACTERS = 25

# Models whose recorded usages were met by the count of plain text, every time. Not gpt-4: Responses
# charges it one token less than Chat Completions does, and a count does not know where it will be
# sent.
EXACT = re.compile(
    r"(gpt-3\.5-turbo|gpt-35-turbo|gpt-4o(-mini)?|gpt-4\.1(-mini|-nano)?|gpt-4\.5-preview"
    r"|gpt-5(-mini|-nano)?|gpt-5\.[2456](-mini|-nano|-sol|-luna)?|o3-mini)"
    r"(-\d{4}(-\d\d-\d\d|-preview)?)?"
)


class TokenCount(NamedTuple):
    """Some tokens of a count: of which event, and of what in it."""

    position: int | None  # or the index of a message without one; None: the request as such
    kind: str  # the kind of the event; "request" for what belongs to none
    # text, call, result, reasoning, server tool, tools, frame; image, audio, video, document, or
    # one of these "by address"
    what: str
    tokens: int
    exact: bool


class Tokens(int):
    """A number of tokens with its parts, a flag `exact`, and a sentence `how` it was counted."""

    exact: bool
    how: str
    parts: tuple[TokenCount, ...]

    def __new__(cls, parts: Iterable[TokenCount], how: str) -> "Tokens":
        parts = tuple(parts)
        tokens = super().__new__(cls, sum(part.tokens for part in parts))
        tokens.exact = bool(parts) and all(part.exact for part in parts)
        tokens.how = how
        tokens.parts = parts
        return tokens

    def __reduce__(self) -> tuple[Any, ...]:
        return Tokens, (self.parts, self.how)

    def __repr__(self) -> str:
        return f"{int(self)} tokens ({self.how})"

    __str__ = int.__repr__

    def by(self, field: Literal["position", "kind", "what"]) -> dict[Any, int]:
        """Return the tokens of each position, kind of event, or kind of content."""
        sums: dict[Any, int] = {}
        for part in self.parts:
            key = getattr(part, field)
            sums[key] = sums.get(key, 0) + part.tokens
        return sums


def count_tokens(
    messages: Iterable[Readable],
    model: str | None = None,
    *,
    tools: Sequence[Mapping[str, Any]] = (),
) -> Tokens:
    """Count the tokens that `model` reads when it is given `messages` and `tools`.

    Without messages there is no request, and nothing to count.
    """
    name = model or DEFAULT_MODEL
    rules = find_rules(name)
    count = load_vocabulary(rules.vocabulary or NEWEST_VOCABULARY)
    is_counted = count is not None
    is_exact = is_counted and model is not None and is_measured(name)
    counter = TokenCounter(rules, count or estimate_text, is_exact=is_exact)
    found = list(read_rows(messages, ignore_repair))
    parts = list(counter.count_rows(found))
    if parts:
        frame = TokenCount(None, "request", "frame", rules.opening, is_exact)
        parts.append(frame)
    if parts and tools:
        tokens = counter.count_tools(tools)
        parts.append(TokenCount(None, "request", "tools", tokens, False))
    how = describe_count(parts, model, rules, is_counted=is_counted, is_exact=is_exact)
    return Tokens(parts, how)


def estimate_tokens(message: Readable, model: str | None = None) -> int:
    """Estimate the tokens of one event: its text and arguments by their length, media by the rules
    of `model`. Marks, notes and moves cost nothing. Reasoning costs nothing either: a model reads
    only that of the current turn, and an event alone does not show whether it belongs to it."""
    counter = get_estimator(model or DEFAULT_MODEL)
    tokens = 0
    for row in read_rows([message], ignore_repair):
        for part in counter.count_row(row, {}, is_current=False):
            tokens += part.tokens
    return tokens


def estimate_request(model: str | None, tools: Sequence[Mapping[str, Any]] = ()) -> int:
    """Estimate the tokens of a request beside its messages: of its frame and of `tools`."""
    counter = get_estimator(model or DEFAULT_MODEL)
    tokens = counter.rules.opening
    if tools:
        tokens += counter.count_tools(tools)
    return tokens


def describe_count(
    parts: list[TokenCount],
    model: str | None,
    rules: TokenRules,
    *,
    is_counted: bool,
    is_exact: bool,
) -> str:
    """Return a sentence that says how a number of tokens was found."""
    if not is_counted:
        return f"estimated at {BYTES_PER_TOKEN} bytes each; backstory[tokens] counts"
    if model is None:
        return f"counted with {NEWEST_VOCABULARY}, as for {DEFAULT_MODEL}: no model was named"
    if rules.vocabulary is None:
        return f"estimated with {NEWEST_VOCABULARY}: no vocabulary of {model!r} is known"
    if not is_exact:
        return f"estimated with {rules.vocabulary}: no exact count for {model!r} is known"
    guesses: dict[str, None] = {}
    for part in parts:
        if not part.exact and part.what != "frame":
            guesses[part.what] = None
    how = f"counted with {rules.vocabulary}"
    return f"{how}; estimated: {', '.join(guesses)}" if guesses else how


class TokenCounter:
    """Counts the tokens of rows by the rules of one family of models."""

    def __init__(self, rules: TokenRules, count: CountText, *, is_exact: bool) -> None:
        self.rules = rules
        self.count = count
        self.is_exact = is_exact

    def count_tools(self, tools: Sequence[Mapping[str, Any]]) -> int:
        """Count tools by the length of their JSON."""
        frame, ratio = self.rules.tools
        size = 0
        for tool in tools:
            # The native form repeats the definition.
            shown = {key: value for key, value in tool.items() if key != "native"}
            size += self.count(write_json(clean_value(shown)))
        return frame + round(ratio * size)

    def count_rows(self, found: list[Row]) -> Iterator[TokenCount]:
        """Yield the parts of all rows, in their order."""
        last_user = -1
        for index, row in enumerate(found):
            if row[1] == "user":
                last_user = index
        names: dict[str, str] = {}  # of the tools, by the ids of their calls
        before = ""
        for index, row in enumerate(found):
            position, kind, _, _ = row
            yield from self.count_row(row, names, is_current=index > last_user)
            if kind == before == "tool_call" and self.rules.parallel:
                yield TokenCount(position, kind, "call", self.rules.parallel, False)
            before = kind

    def count_row(
        self, row: Row, names: dict[str, str], *, is_current: bool
    ) -> Iterator[TokenCount]:
        """Yield the parts of one row. `is_current`: is it of the turn that the model is in?"""
        position, kind, text, data = row
        parts = read_native_parts(kind, data)
        if kind == "tool_call":
            yield TokenCount(position, kind, "call", self._count_call(data, names), False)
        elif kind == "tool_result":
            tokens = self._count_result(text, data, names)
            yield TokenCount(position, kind, "result", tokens, False)
        elif parts is None and is_blank(text):
            yield TokenCount(position, kind, "text", 0, False)  # it is left out of the request
        else:
            yield self._count_message(position, kind, text, parts)
        for part in parts or ():
            found = self._count_part(part, is_current=is_current)
            if found is not None:
                what, price = found
                yield TokenCount(position, kind, what, round(price), False)

    def _count_call(self, data: Mapping[str, Any], names: dict[str, str]) -> int:
        call = read_call(data)
        name = str(call.name)
        names[str(call.id)] = name
        # OpenAI counts arguments as compact JSON, whichever way they were spelled.
        arguments = write_json(read_arguments(call.arguments).value)
        tokens = self.rules.call
        tokens += self._count_text(name)
        tokens += self._count_text(arguments)
        return tokens

    def _count_result(self, text: str, data: Mapping[str, Any], names: dict[str, str]) -> int:
        result = read_result(text, data)
        name = names.get(str(result.id)) or data.get("name")
        tokens = self.rules.result
        if name:
            tokens += self._count_text(str(name))
        if isinstance(result.output, str):
            tokens += self._count_text(result.output)
        return tokens

    def _count_message(
        self, position: int | None, kind: str, text: str, parts: list[Part] | None
    ) -> TokenCount:
        tokens = self.rules.message
        if kind == "assistant":
            tokens += self.rules.answer
        if kind == "system" and self.rules.system is not None:
            tokens = self.rules.system
        tokens += self._count_text(text)
        is_plain = parts is None or parts == [Text(text)]
        is_exact = self.is_exact and is_plain and "<|" not in text
        return TokenCount(position, kind, "text", tokens, is_exact)

    def _count_text(self, text: str) -> int:
        return round(self.count(text) * self.rules.ratio)

    def _count_part(self, part: Part, *, is_current: bool) -> tuple[str, float] | None:
        """Return what a part is, and its tokens; None if the event itself has it, or it costs
        nothing."""
        if isinstance(part, Media):
            price = self._price_media(part)
            if part.data or part.text is not None:
                return part.kind, price
            return f"{part.kind} by address", price
        if isinstance(part, Reasoning) and is_current:
            return "reasoning", self._price_reasoning(part)
        if not isinstance(part, Other):
            return None
        if part.media:
            media = Media(part.media, None)
            return f"{part.media} by address", self._price_media(media)
        if part.words:
            return "server tool", self._count_text(part.words)
        return None

    def _price_media(self, media: Media) -> float:
        data = media.data or ""
        if media.kind == "image":
            size = measure_image(data) or USUAL_IMAGE
            return self.rules.image(size, media.detail or "")
        if media.kind == "audio":
            seconds = measure_seconds(data, AUDIO_RATE) or USUAL_SECONDS
            return self.rules.audio * seconds
        if media.kind == "video":
            seconds = measure_seconds(data, VIDEO_RATE) or USUAL_SECONDS
            return self.rules.video * seconds
        if media.text is not None:
            return self._count_text(media.text)
        return self._price_document(data)

    def _price_document(self, data: str) -> float:
        """Price a PDF by its pages, a text by its words, another file by its length."""
        document = measure_pdf(data) if data else USUAL_DOCUMENT
        if document is not None:
            pages = document.pages * self.rules.page
            letters = document.letters * self.rules.letter
            return pages + letters
        text = read_text_file(data)
        if text:
            return self._count_text(text)
        return len(data) / OFFICE_CHARACTERS

    def _price_reasoning(self, reasoning: Reasoning) -> float:
        if self.rules.seal is None or not reasoning.seal:
            return self._count_text(reasoning.text)
        unread, characters = self.rules.seal
        size = len(reasoning.seal) - unread
        return max(0, size) / characters


# --- rules of models ---

MISTRAL = TokenRules("mistral", ratio=1.1, opening=0, message=3, tools=(8, 1.4))
GROK = TokenRules(
    "grok",
    opening=0,
    call=17,
    result=16,
    tools=(122, 1.3),
    image=price_flat(250),
    seal=(0, 6.2),
)
DEEPSEEK = TokenRules("deepseek", opening=1, message=3, call=25, result=20, tools=(188, 1.8))
OTHER = TokenRules("other")
# Models that no format has rules for; prices follow the name of a model, not the format.
OTHER_MODELS: tuple[tuple[str, TokenRules], ...] = (
    (r"grok-4\.3", GROK._replace(opening=186, call=7, result=6, image=price_flat(20))),
    (r"grok", GROK),
    (r"deepseek-v4", DEEPSEEK._replace(opening=80, call=7, result=6)),
    (r"deepseek", DEEPSEEK),
    (r"(mi|magi|mini)stral-small", MISTRAL._replace(opening=12)),
    (r"(mi|magi|mini|code|dev)stral|pixtral", MISTRAL),
    (r"llama", TokenRules("llama", opening=31)),
    (r"sonar", TokenRules("sonar", opening=1, message=0)),
)


@cache
def find_rules(model: str) -> TokenRules:
    """Return the token rules of a model, by its name wherever it is served."""
    name = model.lower()
    known = [rule for format in FORMATS_BY_NAME.values() for rule in format.token_rules]
    for pattern, rules in (*known, *OTHER_MODELS):
        if re.search(pattern, name):
            return rules
    return OTHER


def is_measured(model: str) -> bool:
    """Return True if the count of plain text was found exact for this model."""
    return EXACT.fullmatch(model.rpartition("/")[2].lower()) is not None


# --- texts ---

SHORT = 64  # characters: a shorter text is counted as fast as it is looked up
MOST_REMEMBERED = 200_000  # counts, about 20 MB


def estimate_text(text: str) -> int:
    """Estimate the tokens of a text by its length in bytes, which is fair to all scripts."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)


@cache
def get_estimator(model: str) -> TokenCounter:
    """Return the counter that estimates texts by their length."""
    return TokenCounter(find_rules(model), estimate_text, is_exact=False)


@cache
def load_vocabulary(name: str) -> CountText | None:
    """Return a function that counts in a vocabulary, or None if the extra is not installed."""
    try:
        from splintr import Tokenizer
    except ImportError:
        return None
    encode = Tokenizer.from_pretrained(name).encode_ordinary
    return remember_counts(lambda text: len(encode(text)))


def remember_counts(count: CountText) -> CountText:
    """Return a function that counts each text once, so that a context that grew by a message is not
    counted again. The texts themselves are not kept, and of the counts only the latest."""
    counts: dict[bytes, int] = {}

    def count_once(text: str) -> int:
        if len(text) < SHORT:
            return count(text)
        digest = blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
        known = counts.get(digest)
        if known is None:
            known = count(text)
            if len(counts) >= MOST_REMEMBERED:
                counts.clear()
            counts[digest] = known
        return known

    return count_once
