"""Reads the messages of a context and groups them into turns.

Old logs contain texts that are not strings and data that JSON cannot carry. Whatever a message has, it can be
written to a request afterwards, and nothing raises. Four of the ten rules in docs/wire.md hold when a turn is
read: text goes before the calls of its answer (3), one answer is one turn (4), arguments are an object (7),
blank text is left out (8).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from backstory.errors import Invalid
from backstory.log import messages as log_messages
from backstory.log.events import Event
from backstory.log.kinds import CONTROL_KINDS, MESSAGE_KINDS, TEXT_KINDS
from backstory.log.messages import Message
from backstory.wire.formats import FORMATS
from backstory.wire.holes import HOLE, with_filled
from backstory.wire.json_values import clean_value, is_exact, is_unicode, parse, read_arguments
from backstory.wire.media import OWN, read_own_form
from backstory.wire.native import TEXT_FIRST, choose_message_form
from backstory.wire.turns import (
    BETWEEN,
    Accepted,
    AnswerTurn,
    Call,
    MessageTurn,
    Native,
    Part,
    Reasoning,
    Result,
    Turn,
    is_blank,
)

if TYPE_CHECKING:
    from backstory.wire.request import RequestBuilder

Report = Callable[[str, int | None, str], None]  # takes the fields of a Repair
Readable = Event | Message | tuple[Any, ...]
Row = tuple[int | None, str, str, dict[str, Any]]  # position, kind, text, data
LONG = 10_000  # the standard library reads long strings faster than orjson does, and exactly
NO_DATA: dict[str, Any] = {}

# What is reported about an event from a loaded request, in every format: the rule and the reason.
REPORTED = {
    Accepted.UNPADDED: (
        "native",
        "base64 in it has no padding, or lacks its end: it goes since its service took it",
    ),
    Accepted.FIELDS: (
        "native",
        "what stood beside the role and the content of its message is left out",
    ),
    Accepted.REPLACED: (
        "data",
        "what no store can hold (U+0000, half of a surrogate pair) was replaced in it",
    ),
}


class TurnReader:
    """Reads messages and groups them into turns. A result stays apart until `bind_results`."""

    def __init__(self, request: "RequestBuilder") -> None:
        self.turns: list[Turn | Result] = []
        self.has_native = False
        self._request = request
        self._answer: AnswerTurn | None = None  # the answer that goes on
        self._named: AnswerTurn | None = None  # the newest answer with a name
        self._name: str | None = None

    def read(self, messages: Iterable[Readable]) -> None:
        """Read messages, oldest first."""
        for position, kind, text, data in read_rows(messages, self._request.report):
            native = None
            if "native" in data:
                native = read_native(position, data["native"], self._request.report)
            if native is not None:
                self.has_native = True
            if kind == "tool_call":
                self._add_call(position, data, native)
            elif kind == "tool_result":
                self.turns.append(read_result(position, text, data, native))
                self._answer = None
            elif native is None and is_blank(text):
                why = f"blank text of the {kind}: the services refuse it"
                self._request.report("blank", position, why)
            elif kind == "assistant":
                self._add_text(position, text, data, native)
            else:
                self._add_message(MessageTurn(position, kind, text, native))  # type: ignore[arg-type]

    def _add_message(self, message: MessageTurn) -> None:
        if message.native is not None:
            message = choose_message_form(message, message.native, self._request)
            if message.form is None and message.content is None and is_blank(message.text):
                why = f"blank text of the {message.role}: the services refuse it"
                self._request.report("blank", message.position, why)
                return
        self.turns.append(message)
        self._answer = self._named = None

    def _add_call(self, position: int | None, data: dict[str, Any], native: Native | None) -> None:
        if data is NO_DATA:
            self._request.report("data", position, "this call has no data that could be read")
        call = read_call(position, data)
        answer = self._find_answer(position, data, native, is_text=False)
        answer.calls.append(call)
        answer.results.append(None)
        answer.pieces.append(call)

    def _add_text(
        self, position: int | None, text: str, data: dict[str, Any], native: Native | None
    ) -> None:
        answer = self._find_answer(position, data, native, is_text=True)
        if answer.calls and not is_blank(text):
            self._request.report("order", position, TEXT_FIRST)
        answer.texts.append(text)
        answer.pieces.append(text)

    def _find_answer(
        self, position: int | None, data: dict[str, Any], native: Native | None, *, is_text: bool
    ) -> AnswerTurn:
        """Return the answer that a text or a call belongs to.

        A result, a user message or a system message ends an answer, and so does text after text without a
        call. Events that name the same answer (`data["answer"]`) are one answer, even with results between
        them, and events that name different answers are not.
        """
        answer = self._answer
        name = data.get("answer")
        if type(name) is str:
            answer = self._named if name == self._name else None
        else:
            name = None
            if answer is not None and is_text and is_complete(answer, native):
                answer = None
        if answer is None:
            answer = AnswerTurn(position, [], [], [], [], [])
            self.turns.append(answer)
            self._named = answer if name is not None else None
            self._name = name
        self._answer = answer
        if native is not None:
            answer.pieces.append(native)
        return answer


def is_complete(answer: AnswerTurn, native: Native | None) -> bool:
    """Return True if more text begins another answer.

    Reasoning without text belongs to the text after it, but two messages that were separate stay separate if
    messages cannot be joined.
    """
    if answer.calls:
        return False
    for text in answer.texts:
        if not is_blank(text):
            return True
    natives = [piece for piece in answer.pieces if isinstance(piece, Native)]
    if native is None or not natives:
        return False
    before = natives[-1]
    if not isinstance(native.form, list) or not isinstance(before.form, list):
        return True
    return (native.provider, native.model) != (before.provider, before.model)


# --- the fields of a message ---


def read_rows(messages: Iterable[Readable], report: Report) -> Iterator[Row]:
    """Yield position, kind, text and data of each message that is given to a model.

    A message without a position has its index instead.
    """
    for index, message in enumerate(messages):
        position: int | None
        raw: Any
        if isinstance(message, Event):
            position, kind, text, raw, _, _ = message
        else:
            position, kind, text, raw = read_fields(index, message)
        if kind not in MESSAGE_KINDS:
            if kind not in CONTROL_KINDS:
                why = f"{kind!r} is not a known kind of message, so it is left out"
                report("kind", position, why)
            continue
        if type(text) is not str or not (text.isascii() or is_unicode(text)):
            text = clean_text(text)
        data = NO_DATA
        if raw is not None:
            if isinstance(message, Event):
                data = read_data(position, kind, raw, report)
            else:
                data = repair_data(position, kind, raw, report)
            # A message has no JSON text in which to look for holes.
            if "native" in data and (type(raw) is not str or HOLE in raw):
                data = with_filled(data, text)
        yield position, kind, text, data


def read_fields(index: int, message: Any) -> tuple[int | None, Any, Any, Any]:
    """Return position, kind, text and data of a Message, or of a (kind, content, data) tuple."""
    if isinstance(message, Message):
        position = index if message.seq is None else message.seq
        return position, message.kind, message.content, message.data
    values = message if isinstance(message, tuple) else ()
    kind, content, data = (*values, None, None, None)[:3]
    return index, kind if isinstance(kind, str) else repr(kind), content, data


def clean_text(value: Any) -> str:
    """Return a text that UTF-8 can encode."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else str(value)
    return text.encode(errors="replace").decode()


def read_data(position: int | None, kind: str, text: str, report: Report) -> dict[str, Any]:
    """Return the data of an event as a dict that JSON can carry."""
    if type(text) is str and len(text) < LONG:
        try:
            data = parse(text)
        except ValueError:  # NaN, half of a surrogate pair: the standard library reads them
            data = None
        if type(data) is dict and is_exact(data):
            return data
    try:
        data = json.loads(text)
    except (ValueError, TypeError, RecursionError):  # TypeError: SQLite keeps what it was given
        data = None
    if data is None and '"native"' in str(text):
        why = "its data cannot be read: the native content in it is left out"
        report("data", position, why)
    return repair_data(position, kind, data, report)


def repair_data(position: int | None, kind: str, data: Any, report: Report) -> dict[str, Any]:
    """Return data without what JSON cannot carry, and report what is replaced."""
    if not isinstance(data, dict):
        return NO_DATA
    if kind in TEXT_KINDS:
        data = {name: data[name] for name in ("native", "answer") if name in data}
    cleaned: dict[str, Any] = clean_value(data)
    if cleaned != data:
        why = f"JSON cannot carry all of the data of this {kind}: what it cannot is replaced"
        report("data", position, why)
    return cleaned


def read_native(position: int | None, native: Any, report: Report) -> Native | None:
    """Return the native content in `data["native"]`; None if there is no form (only usage, say)."""
    if not isinstance(native, dict):
        return None
    words = native.get("took")
    accepted: tuple[str, ...] = ()
    if isinstance(words, list):
        accepted = tuple([word for word in words if isinstance(word, str)])
        for word in accepted:
            if word in REPORTED:
                rule, why = REPORTED[Accepted(word)]
                report(rule, position, why)
    form = native.get("wire")
    if form is None:
        return None
    provider = str(native.get("provider"))
    return Native(provider, native.get("model"), form, native.get("after"), accepted)


def read_call(position: int | None, data: dict[str, Any]) -> Call:
    """Return the call in the data of an event."""
    id, name, raw = data.get("id"), data.get("name"), data.get("arguments")
    if type(id) is not str or type(name) is not str:
        id, name, raw = log_messages.read_call(data)
    arguments, text, is_sound = read_arguments(raw)
    written = data.get("arguments_text")
    if isinstance(written, str) and read_arguments(written).value == arguments:
        text = written
    name = name if isinstance(name, str) else ""
    return Call(to_id(id), name, arguments, text, is_sound, position=position)


def read_result(
    position: int | None, text: str, data: dict[str, Any], native: Native | None
) -> Result:
    """Return the result in an event."""
    id, output, is_error = log_messages.read_result(text, data)
    return Result(to_id(id), output, is_error, position=position, native=native)


def to_id(id: Any) -> str | None:
    """Return the id by which a result finds its call. Old logs have numbers, or none."""
    if isinstance(id, str) and id:
        return id
    if isinstance(id, int) and not isinstance(id, bool):
        return str(id)
    return None


# --- native content, for counts and for people ---

# The roles in which formats read the native content of an event.
ROLES = {"assistant": "step", "tool_call": "step", "tool_result": "result"}


def read_native_parts(kind: str, data: Mapping[str, Any]) -> list[Part] | None:
    """Return the parts of an event's native content, and those inside a result. None if there is no native
    content; [] if it cannot be read."""
    native = data.get("native")
    form = native.get("wire") if isinstance(native, dict) else None
    if not isinstance(native, dict) or form is None:
        return None
    provider = native.get("provider")
    format = FORMATS.get(str(provider))
    try:
        if format is not None:
            parts = format.read_form(ROLES.get(kind, kind), form, "native.wire")
        elif provider == OWN:
            parts = read_own_form(form, "native.wire")
        else:
            return []
    except Invalid:
        return []
    found: list[Part] = []
    for part in parts:
        found.extend(part.content or () if isinstance(part, Result) else [part])
    return found


def find_thinking(message: Readable) -> str:
    """Return the text of the thinking before an answer; empty if there is none, or if it is sealed."""
    texts: list[str] = []
    for _, kind, _, data in read_rows([message], ignore_repair):
        for part in read_native_parts(kind, data) or ():
            if isinstance(part, Reasoning) and not is_blank(part.text):
                texts.append(part.text.strip())
    return BETWEEN.join(texts)


def ignore_repair(_rule: str, _position: int | None, _why: str) -> None:
    """Ignore a repair: it is reported where a request is built."""
