"""Reads the messages of a context and groups them into turns.

Old logs contain texts that are not strings and data that JSON cannot carry. Whatever a message has,
it can be written to a request afterwards, and nothing raises. Four rules hold when
a turn is read: text goes before the calls of its answer, one answer is one turn, arguments are an
object, and blank text is left out.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import orjson

from backstory.errors import Invalid
from backstory.log import messages as log_messages
from backstory.log.data_keys import REPLACE
from backstory.log.events import Event
from backstory.log.items import fill_native_item
from backstory.log.kinds import CONTROL_KINDS, MESSAGE_KINDS, TEXT_KINDS
from backstory.log.messages import Message
from backstory.wire.context import RequestContext
from backstory.wire.formats import read_native_form
from backstory.wire.holes import HOLE, fill_data
from backstory.wire.json_values import clean_value, is_exact, read_arguments
from backstory.wire.native import choose_message_form
from backstory.wire.translation import TEXT_FIRST
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

Report = Callable[[str, int | None, str], None]  # takes the fields of a Repair
Readable = Event | Message | tuple[Any, ...]
Row = tuple[int | None, str, str, dict[str, Any]]  # position, kind, text, data
LONG = 10_000  # the standard library reads long strings faster than orjson does, and exactly
NO_DATA: dict[str, Any] = {}

# Repairs of an event from a loaded request, in every format: the rule and the reason.
REPORTED = {
    Accepted.UNPADDED: (
        "native",
        "base64 in it has no padding, or lacks its end: it goes since its service took it",
    ),
    Accepted.FIELDS: (
        "native",
        "further fields of its message, beside role and content, are left out",
    ),
    Accepted.REPLACED: (
        "data",
        "what no store can hold (U+0000, half of a surrogate pair) was replaced in it",
    ),
}


class TurnReader:
    """Reads messages and groups them into turns. A result stays apart until `bind_results`."""

    def __init__(self, request: RequestContext) -> None:
        self.turns: list[Turn | Result] = []
        self._request = request
        self._answer: AnswerTurn | None = None  # the answer that continues
        self._named: AnswerTurn | None = None  # the newest answer with a name
        self._name: str | None = None

    def read(self, messages: Iterable[Readable]) -> list[Turn | Result]:
        """Read messages, oldest first. Return all turns so far."""
        report = self._request.report
        for position, kind, text, data in read_rows(messages, report):
            native = name = None
            if data:
                name = data.get("answer")
                if "native" in data:
                    native = read_native(position, data["native"], self._request)
            if kind == "tool_call":
                self._add_call(position, data, name, native)
            elif kind == "tool_result":
                self._add_result(read_result(position, text, data, native))
            elif native is None and is_blank(text):
                report("blank", position, f"blank text of the {kind}: the services refuse it")
            elif kind == "assistant":
                self._add_text(position, text, name, native)
            else:
                self._add_message(MessageTurn(position, kind, text, native), data)
        return self.turns

    def end_answer(self) -> None:
        """Let the next text or call begin another answer."""
        self._answer = self._named = None

    def _add_message(self, message: MessageTurn, data: dict[str, Any]) -> None:
        # Not a rule of `repair`: a message of which nothing is left does not end an answer.
        message = choose_message_form(message, self._request)
        if message.form is None and message.content is None and is_blank(message.text):
            why = f"blank text of the {message.role}: the services refuse it"
            self._request.report("blank", message.position, why)
            return
        if message.role == "system" and data.get(REPLACE) is True:
            # It takes the place of all system messages before it.
            self.turns = [message, *(turn for turn in self.turns if not is_system(turn))]
        else:
            self.turns.append(message)
        self._answer = self._named = None

    def _add_call(
        self, position: int | None, data: dict[str, Any], name: Any, native: Native | None
    ) -> None:
        if data is NO_DATA:
            self._request.report("data", position, "this call has no data that could be read")
        self._request.has_tools = True
        call = read_call(position, data)
        answer = self._find_answer(name)
        if answer is None:
            answer = self._begin_answer(position, name)
        if native is not None:
            answer.add_native(native, is_call=True)
        answer.add_call(call)

    def _add_result(self, result: Result) -> None:
        self._request.has_tools = True
        self.turns.append(result)
        self._answer = None

    def _add_text(self, position: int | None, text: str, name: Any, native: Native | None) -> None:
        answer = self._find_answer(name)
        if answer is None or (type(name) is not str and is_complete(answer, native)):
            answer = self._begin_answer(position, name)
        elif answer.calls and not is_blank(text):
            self._request.report("order", position, TEXT_FIRST)
        if native is not None:
            answer.add_native(native, is_call=False)
        answer.texts.append(text)

    def _find_answer(self, name: Any) -> AnswerTurn | None:
        """Return the answer that a text or a call belongs to, unless it begins one.

        A result, a user message or a system message ends an answer, and so does text after text
        without a call. Events that name the same answer (`data["answer"]`) are one answer, even
        with results between them, and events that name different answers are not.
        """
        if type(name) is not str:
            return self._answer
        if name != self._name:
            return None
        self._answer = self._named
        return self._named

    def _begin_answer(self, position: int | None, name: Any) -> AnswerTurn:
        """Begin an answer of the model. Old logs may have anything as its name."""
        answer = AnswerTurn(position)
        self.turns.append(answer)
        self._answer = answer
        self._named = answer if type(name) is str else None
        self._name = name
        return answer


def is_system(turn: Turn | Result) -> bool:
    """Return True if a turn is a system message."""
    return isinstance(turn, MessageTurn) and turn.role == "system"


def is_complete(answer: AnswerTurn, native: Native | None) -> bool:
    """Return True if more text begins another answer.

    Reasoning without text belongs to the text after it, but two messages that were separate stay
    separate if messages cannot be joined.
    """
    if answer.calls:
        return False
    for text in answer.texts:
        if not is_blank(text):
            return True
    natives = answer.list_natives()
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
            report_unknown_kind(position, kind, report)
            continue
        if type(text) is not str or not text.isascii():
            text = clean_text(text)
        data = NO_DATA
        if raw is not None:
            data = read_data(position, kind, raw, report)
            if "native" in data:
                data = complete_native(data, raw, text)
        yield position, kind, text, data


def complete_native(data: dict[str, Any], raw: Any, text: str) -> dict[str, Any]:
    """Return data with the whole form of its native content. `raw` is their JSON text, in which to
    look for holes; a message has none."""
    # One letter is looked for ten times as fast as a word.
    if type(raw) is not str or ("$" in raw and HOLE in raw):
        data = fill_data(data, text)
    if "item" in data:
        data = fill_native_item(data, text)
    return data


def report_unknown_kind(position: int | None, kind: str, report: Report) -> None:
    """Report a kind that is left out, unless it is known to be no message."""
    if kind not in CONTROL_KINDS:
        report("kind", position, f"{kind!r} is not a known kind of message, so it is left out")


def read_fields(index: int, message: Any) -> tuple[int | None, Any, Any, Any]:
    """Return position, kind, text and data of a Message, or of a (kind, content, data) tuple.
    Raises Invalid for anything else, such as a message in a provider's format."""
    if isinstance(message, Message):
        position = index if message.seq is None else message.seq
        kind, content, data = message.kind, message.content, message.data
    elif isinstance(message, tuple):
        position = index
        kind, content, data = (*message, None, None, None)[:3]
    else:
        raise Invalid(
            f"{message!r:.60} is not an event, a Message or a tuple (kind, content, data)",
            remedy="convert messages of a provider's format with backstory.wire.load",
        )
    if not isinstance(kind, str):
        kind = repr(kind)
    return position, kind, content, data if isinstance(data, dict) else None


def clean_text(value: Any) -> str:
    """Return a text that UTF-8 can encode."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else str(value)
    return text.encode(errors="replace").decode()


def read_data(position: int | None, kind: str, raw: Any, report: Report) -> dict[str, Any]:
    """Return the data of an event, which is JSON text, or of a message as a dict that JSON can
    carry."""
    if type(raw) is str and len(raw) < LONG:
        try:
            data = orjson.loads(raw)
        except ValueError:  # NaN, half of a surrogate pair: the standard library reads them
            data = None
        if type(data) is dict and is_exact(find_sent_data(kind, data)):
            return data
    if isinstance(raw, dict):
        return repair_data(position, kind, raw, report)
    try:
        data = json.loads(raw)
    except (ValueError, TypeError, RecursionError):  # TypeError: SQLite keeps what it was given
        data = None
    if data is None and '"native"' in str(raw):
        why = "its data cannot be read: the native content in it is left out"
        report("data", position, why)
    return repair_data(position, kind, data, report)


def find_sent_data(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    """Return the part of an event's data that a request may contain: of a text, its native
    content."""
    if kind not in TEXT_KINDS:
        return data
    native = data.get("native")
    return native if isinstance(native, dict) else NO_DATA


def repair_data(position: int | None, kind: str, data: Any, report: Report) -> dict[str, Any]:
    """Return data without what JSON cannot carry, and report what is replaced."""
    if not isinstance(data, dict):
        return NO_DATA
    if kind in TEXT_KINDS:
        data = {name: data[name] for name in ("native", "answer", REPLACE) if name in data}
    cleaned: dict[str, Any] = clean_value(data)
    if cleaned != data:
        why = f"JSON cannot carry all of the data of this {kind}: what it cannot is replaced"
        report("data", position, why)
    return cleaned


def read_native(position: int | None, native: Any, request: RequestContext) -> Native | None:
    """Return the native content in `data["native"]`, whose `wire` is the form, and whose `took` is
    what was accepted; None if there is no form (only usage, say)."""
    request.has_native = True
    if not isinstance(native, dict):
        return None
    accepted: tuple[str, ...] = ()
    if "took" in native:
        accepted = read_accepted(position, native["took"], request)
    form = native.get("wire")
    if form is None:
        return None
    provider, after = str(native.get("provider")), native.get("after")
    if isinstance(after, dict):
        request.has_stored = True
    return Native(provider, native.get("model"), form, after, accepted)


def read_accepted(position: int | None, words: Any, request: RequestContext) -> tuple[str, ...]:
    """Return what a service accepted, and report what counts in every format."""
    if not isinstance(words, list):
        return ()
    accepted = tuple([word for word in words if isinstance(word, str)])
    for word in accepted:
        if word in REPORTED:
            rule, why = REPORTED[Accepted(word)]
            request.report(rule, position, why)
    return accepted


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
ROLES = {"assistant": "answer", "tool_call": "answer", "tool_result": "result"}


def read_native_parts(kind: str, data: Mapping[str, Any]) -> list[Part] | None:
    """Return the parts of an event's native content, and those inside a result. None if there is no
    native content; [] if it cannot be read."""
    native = data.get("native")
    form = native.get("wire") if isinstance(native, dict) else None
    if not isinstance(native, dict) or form is None:
        return None
    try:
        parts = read_native_form(str(native.get("provider")), ROLES.get(kind, kind), form)
    except Invalid:
        return []
    found: list[Part] = []
    for part in parts or ():
        found.extend(part.content or () if isinstance(part, Result) else [part])
    return found


def find_thinking(message: Readable) -> str:
    """Return the text of the thinking before an answer; empty if there is none, or if it is
    sealed."""
    texts: list[str] = []
    for _, kind, _, data in read_rows([message], ignore_repair):
        for part in read_native_parts(kind, data) or ():
            if isinstance(part, Reasoning) and not is_blank(part.text):
                texts.append(part.text.strip())
    return BETWEEN.join(texts)


def ignore_repair(_rule: str, _position: int | None, _why: str) -> None:
    """Ignore a repair: it is reported where a request is built."""
