"""How many tokens a conversation is: one way of counting for everyone who asks.

A count is made of parts, one for each event and kind of content in it, and the parts sum to the whole. It is
exact where that was measured: plain text, for the models of OpenAI in `families.EXACT`, with the extra
`tokens` installed. Everything else is an estimate, and says of what.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from backstory.log.messages import read_call, read_result
from backstory.wire.file_sizes import Pdf, image_size, pdf, seconds, words
from backstory.wire.formats.base import NEWEST_VOCABULARY, TokenRules
from backstory.wire.json_values import clean_value, read_arguments, write_json
from backstory.wire.reading import Readable, Row, read_rows
from backstory.wire.tokens.extras import Extra, extras
from backstory.wire.tokens.families import USUAL, family_of, is_measured
from backstory.wire.tokens.vocabulary import BYTES_PER_TOKEN, Count, counter, estimate
from backstory.wire.turns import is_blank

__all__ = ["Part", "Tokens", "count_tokens"]

# What may stand beside the text of a message and is not for the model.
UNCOUNTED = frozenset({"id", "type", "status"})

# Whom to count for where nobody is named.
DEFAULT = "gpt-4o"
MP3, MP4 = 128_000, 1_000_000  # usual rates, in bits for a second
MEDIA = frozenset({"image", "audio", "video", "document"})
# What is somewhere else is taken to be this long.
USUAL_SECONDS = 10
ELSEWHERE = Pdf(pages=1, letters=2000)
PACKED = 25  # characters of base64 for a token of an office document, which is a ZIP file


class Part(NamedTuple):
    """Some tokens of a count: of which event, and of what in it."""

    at: int | None  # the event's position, or the message's index; None: the request as such
    kind: str  # the event's kind; "request" for what belongs to none
    what: str  # text, call, result, reasoning, server tool, tools, frame, one of MEDIA, or that "by address"
    tokens: int
    exact: bool


class Tokens(int):
    """A number of tokens that knows how it was come by, and what it is the sum of."""

    exact: bool
    how: str
    parts: tuple[Part, ...]

    def __new__(cls, parts: Iterable[Part], how: str) -> "Tokens":
        parts = tuple(parts)
        tokens = super().__new__(cls, sum(part.tokens for part in parts))
        tokens.exact = bool(parts) and all(part.exact for part in parts)
        tokens.how = how
        tokens.parts = parts
        return tokens

    def __repr__(self) -> str:
        return f"{int(self)} tokens ({self.how})"

    __str__ = int.__repr__

    def by(self, field: str) -> dict[Any, int]:
        """The tokens of each position (`"at"`), kind of event (`"kind"`) or kind of content (`"what"`)."""
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
    """The tokens that a model reads when it is given these messages, and these tools.

    Nothing to say is nothing to count: without messages there is no request.
    """
    name = model or DEFAULT
    family = family_of(name)
    counted = Counter(
        family,
        counter(family.vocabulary or NEWEST_VOCABULARY),
        model is not None and is_measured(name),
    )
    found = list(read_rows(messages, lambda rule, at, why: None))
    parts = list(counted.parts(found))
    if parts:
        parts.append(Part(None, "request", "frame", family.opening, counted.is_exact))
    if parts and tools:
        parts.append(Part(None, "request", "tools", counted.tools(tools), False))
    return Tokens(parts, _how(parts, counted, model))


def _how(parts: list[Part], counted: "Counter", model: str | None) -> str:
    family = counted.family
    if counted.count is None:
        return f"estimated at {BYTES_PER_TOKEN} bytes each; backstory[tokens] counts"
    if model is None:
        return f"counted with {NEWEST_VOCABULARY}, as for {DEFAULT}: no model was named"
    if family.vocabulary is None:
        return f"estimated with {NEWEST_VOCABULARY}: no vocabulary of {model!r} is known"
    guessed = dict.fromkeys(part.what for part in parts if not part.exact and part.what != "frame")
    if not counted.is_exact:
        return f"estimated with {family.vocabulary}: no exact count for {model!r} is known"
    return f"counted with {family.vocabulary}" + (
        f"; estimated: {', '.join(guessed)}" if guessed else ""
    )


class Counter:
    """Counts the parts of rows for one family of models."""

    def __init__(self, family: TokenRules, count: Count | None, measured: bool) -> None:
        self.family = family
        self.count = count
        self.is_exact = measured and count is not None

    def tools(self, tools: Sequence[Mapping[str, Any]]) -> int:
        """What tools cost, by the length of their JSON."""
        frame, ratio = self.family.tools
        return frame + round(ratio * sum((self.count or estimate)(_shown(tool)) for tool in tools))

    def parts(self, rows: list[Row]) -> Iterator[Part]:
        """The parts of all rows, in their order."""
        spoken = max((index for index, row in enumerate(rows) if row[1] == "user"), default=-1)
        names: dict[str, str] = {}
        before = ""
        for index, row in enumerate(rows):
            yield from self._row(row, names, is_current=index > spoken)
            if row[1] == before == "tool_call" and self.family.parallel:
                yield Part(row[0], before, "call", self.family.parallel, False)
            before = row[1]

    def _row(self, row: Row, names: dict[str, str], *, is_current: bool) -> Iterator[Part]:
        at, kind, text, data = row
        native = data.get("native") if data else None
        form = native.get("wire") if isinstance(native, dict) else None
        if kind == "tool_call":
            call = read_call(data)
            names[str(call.id)] = str(call.name)
            tokens = (
                self.family.call
                + self._size(str(call.name))
                + self._size(_arguments(call.arguments))
            )
            yield Part(at, kind, "call", tokens, False)
        elif kind == "tool_result":
            result = read_result(text, data)
            said = result.output if isinstance(result.output, str) else ""
            tokens = (
                self.family.result + self._size(names.get(str(result.id), "")) + self._size(said)
            )
            yield Part(at, kind, "result", tokens, False)
        elif form is None and is_blank(text):
            yield Part(at, kind, "text", 0, False)  # left out of the request
        else:
            yield self._text(at, kind, text, form)
        if form is not None:
            yield from self._extras(at, kind, form, is_current=is_current)

    def _text(self, at: int | None, kind: str, text: str, form: Any) -> Part:
        family = self.family
        framed = family.message + (family.answer if kind == "assistant" else 0)
        if kind == "system" and family.system is not None:
            framed = family.system
        exact = self.is_exact and "<|" not in text and (form is None or _is_plain(form, text))
        return Part(at, kind, "text", framed + self._size(text), exact)

    def _size(self, text: str) -> int:
        size = (self.count or estimate)(text)
        return size if self.family.ratio == 1 else round(size * self.family.ratio)

    def _extras(self, at: int | None, kind: str, form: Any, *, is_current: bool) -> Iterator[Part]:
        for extra in extras(form):
            if extra.what != "reasoning" or is_current:
                known = extra.data or extra.text or extra.what not in MEDIA
                what = extra.what if known else f"{extra.what} by address"
                yield Part(at, kind, what, round(self._price(extra)), False)

    def _price(self, extra: Extra) -> float:
        family, data = self.family, extra.data or ""
        match extra.what:
            case "image":
                return family.image(image_size(data) or USUAL, extra.detail)
            case "audio":
                return family.audio * (seconds(data, MP3) or USUAL_SECONDS)
            case "video":
                return family.video * (seconds(data, MP4) or USUAL_SECONDS)
            case "document" if not extra.text:
                return self._document(data)
            case "reasoning" if family.seal is not None and data:
                unread, characters = family.seal
                return max(0, len(data) - unread) / characters
        return self._size(extra.text)

    def _document(self, data: str) -> float:
        """A PDF by its pages, a text by its words, another file by its length."""
        found = pdf(data) if data else ELSEWHERE
        if found is not None:
            return found.pages * self.family.page + found.letters * self.family.letter
        text = words(data)
        return self._size(text) if text else len(data) / PACKED


def _shown(tool: Mapping[str, Any]) -> str:
    """A tool without its native form, which is the same once more."""
    return write_json(clean_value({key: value for key, value in tool.items() if key != "native"}))


def _arguments(raw: Any) -> str:
    """Arguments as OpenAI counts them, whichever way they were spelled: compact."""
    return write_json(read_arguments(raw).value)


def _is_plain(form: Any, text: str) -> bool:
    """Whether a native form is only another spelling of the event's text."""
    match form:
        case str():
            return form == text
        case [only]:
            return _is_plain(only, text)
        case {"role": str(), "content": inner, **rest} | {"type": str(), "text": inner, **rest}:
            return _is_plain(inner, text) and not any(rest[key] for key in rest.keys() - UNCOUNTED)
    return False
