"""Converts a provider's body or answer to events, for all formats.

A format splits a body into units. Each unit becomes events with the same meaning. If these would
not be written as the same form again, the form is kept with them as native content.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

from backstory.errors import Invalid
from backstory.wire.formats.base import Format
from backstory.wire.json_values import replace_lone_surrogates
from backstory.wire.media import pad_part
from backstory.wire.turns import (
    AFTER_ANSWER,
    AFTER_MESSAGE,
    AFTER_NOTHING,
    Accepted,
    AnswerTurn,
    Call,
    MessageTurn,
    Part,
    Result,
    Text,
    Unit,
    answer_text,
    is_blank,
    text_of,
)

NUL = "\0"
Loaded = tuple[str, str | None, dict[str, Any] | None]


def load_body(format: Format, body: Mapping[str, Any], model: str | None) -> list[Loaded]:
    """Return the events of a body, in order."""
    source = {**body, "model": model}
    units = read_units(format.read_body, source)
    units = CallIds().add_ids(units)
    units = mark_places(units, format)
    units = mark_accepted(units, format, model)
    writer = EventWriter(format, model)
    return list(writer.write(units))


def load_response(format: Format, response: Mapping[str, Any], model: str | None) -> list[Loaded]:
    """Return the events of a provider's answer, as far as it arrived. The first has its model and usage.

    Raises Invalid if the provider reported an error and nothing else.
    """
    answer = format.read_response(response)
    form = format.pack_form(answer.form)
    units = read_units(format.read_answer, form)
    units = CallIds().add_ids(units)
    error = response.get("error")
    if error and is_empty(units):
        raise Invalid(
            f"the provider reported an error instead of an answer: {describe_error(error)}"
        )
    # Keep the name that was asked for, such as "claude-x-latest": the answer often gives another
    # one.
    writer = EventWriter(format, model or answer.model)
    events = list(writer.write(units))
    kind, text, data = events[0]
    data = dict(data or {})
    if answer.model or model:
        data["model"] = answer.model or model
    if answer.usage is not None:
        data["usage"] = answer.usage
    events[0] = kind, text, data or None
    return events


def is_empty(units: list[Unit]) -> bool:
    """Return True if there is nothing in an answer, or only blank text."""
    for unit in units:
        for part in unit.parts:
            if not isinstance(part, Text) or not is_blank(part.text):
                return False
    return True


def describe_error(error: Any) -> str:
    """Return the message of a provider's error, or all of it."""
    message = error.get("message") if isinstance(error, Mapping) else None
    return str(message or error)


# --- reading units ---


def read_units(read: Callable[[Any], Iterable[Unit]], source: Any) -> list[Unit]:
    """Read the units of `source`, with a question mark for each half of a surrogate pair, and a
    mark at each unit that had one. No store holds such a half, and services refuse it: "no low
    surrogate in string" (Anthropic)."""
    cleaned = replace_lone_surrogates(source, "?")
    units = list(read(cleaned))
    if cleaned is source:
        return units
    others = read(replace_lone_surrogates(source, "!"))
    marked: list[Unit] = []
    for unit, other in zip(units, others, strict=True):
        marked.append(unit if unit == other else add_mark(unit, Accepted.REPLACED))
    return marked


def add_mark(unit: Unit, mark: str) -> Unit:
    """Return `unit` with one more thing that its service accepted."""
    return unit._replace(took=(*unit.took, mark))


def find_calls(unit: Unit) -> list[Call]:
    """Return the calls of a unit."""
    return [part for part in unit.parts if isinstance(part, Call)]


class CallIds:
    """Gives ids to calls that have none, and to their results. A result belongs to the oldest open
    call of that name in its answer."""

    def __init__(self) -> None:
        self._count = 0
        self._open: list[tuple[str, str]] = []  # the names and ids of calls
        self._is_calling = False  # did only the model write since the first of them?

    def add_ids(self, units: Iterable[Unit]) -> list[Unit]:
        """Return the units with ids in all their calls and results."""
        found: list[Unit] = []
        for unit in units:
            if unit.role == "step":
                found.append(self._add_call_ids(unit))
                continue
            self._is_calling = False
            if unit.role == "result":
                parts: list[Part] = [self._add_result_id(part) for part in unit.parts]
                unit = unit._replace(parts=parts)
            found.append(unit)
        return found

    def _add_call_ids(self, unit: Unit) -> Unit:
        calls = find_calls(unit)
        if not calls:
            return unit
        if not self._is_calling:  # Google takes one answer as several messages in a row
            self._open = []
        self._is_calling = True
        if any(call.id == "" for call in calls):  # a server that gives no ids
            unit = add_mark(unit, Accepted.UNNAMED)
        return unit._replace(parts=[self._add_call_id(part) for part in unit.parts])

    def _add_call_id(self, part: Part) -> Part:
        if not isinstance(part, Call):
            return part
        self._count += 1
        id = part.id or ""
        if is_blank(id):
            id = f"call_{self._count}"
        self._open.append((part.name, id))
        return part._replace(id=id)

    def _add_result_id(self, part: Part) -> Part:
        """Return a result with the id of its call. A result without a call gets its name as its
        id."""
        assert isinstance(part, Result)
        has_id = not is_blank(part.id or "")
        for index, (name, id) in enumerate(self._open):
            is_answer = part.name is None or part.name == name
            if has_id:
                is_answer = part.id == id
            if is_answer:
                del self._open[index]
                return part._replace(id=id)
        if has_id:
            return part
        return part._replace(id=part.name or "unknown")


# --- what only this request shows ---


def mark_places(units: list[Unit], format: Format) -> list[Unit]:
    """Mark the units that may stand where they stand only because this request was accepted."""
    if not format.alternates_roles:
        return units
    marked: list[Unit] = []
    before: str | None = None  # the role of the last unit that is not system text
    for unit in units:
        if unit.role == "system":
            marked.append(unit._replace(after=AFTER_MESSAGE) if is_inside(unit) else unit)
            continue
        if unit.role == "step" and before in (None, "step"):
            unit = unit._replace(after=AFTER_NOTHING if before is None else AFTER_ANSWER)
        before = unit.role
        marked.append(unit)
    return marked


def is_inside(unit: Unit) -> bool:
    """Return True if system text stands between other messages, not on top."""
    return not unit.path.startswith("system")


def mark_accepted(units: list[Unit], format: Format, model: str | None) -> list[Unit]:
    """Mark the units that show that their service accepts what others were seen to refuse: ids of
    calls that come again, base64 without padding, and an answer at the end, which the model
    continues. Not every model does so: without a model, the body may be a transcript and no request
    at all."""
    marked: list[Unit] = []
    known: set[str | None] = set()
    last = len(units) - 1
    for index, unit in enumerate(units):
        ids = {call.id for call in find_calls(unit)}
        if format.call_ids is not None and known & ids:
            unit = add_mark(unit, Accepted.SAME_IDS)
        known |= ids
        is_last_word = index == last and unit.role == "step" and not ids
        if is_last_word and can_continue(format, model):
            unit = add_mark(unit, Accepted.LAST_WORD)
        if has_unpadded(unit):
            unit = add_mark(unit, Accepted.UNPADDED)
        marked.append(unit)
    return marked


def can_continue(format: Format, model: str | None) -> bool:
    """Return True if a request whose last message is an answer means that the model continues it."""
    return format.alternates_roles and model is not None


def has_unpadded(unit: Unit) -> bool:
    """Return True if base64 in a unit has no padding."""
    return any(pad_part(part) is not part for part in unit.parts)


def find_shuffled(units: list[Unit]) -> set[int]:
    """Return the indexes of results that are not in the order of their calls, which only their own
    form can keep."""
    shuffled: set[int] = set()
    calls: list[str | None] = []
    indexes: list[int] = []
    ids: list[str | None] = []
    for index, unit in enumerate(units):
        if unit.role == "result":
            for part in unit.parts:
                if isinstance(part, Result):
                    indexes.append(index)
                    ids.append(part.id)
            continue
        if ids != calls[: len(ids)]:
            shuffled.update(indexes)
        calls = [call.id for call in find_calls(unit)]
        indexes = []
        ids = []
    if ids != calls[: len(ids)]:
        shuffled.update(indexes)
    return shuffled


# --- writing events ---


class EventWriter:
    """Writes units as events, with their form where the events alone would not be written as it."""

    def __init__(self, format: Format, model: str | None) -> None:
        self.format = format
        self.model = model

    def write(self, units: list[Unit]) -> Iterator[Loaded]:
        """Yield the events of `units`."""
        shuffled = find_shuffled(units)
        before: Unit | None = None
        for index, unit in enumerate(units):
            if unit.role == "step":
                yield from self._write_answer(unit, is_apart=self._is_apart(before, unit))
            elif unit.role == "result":
                yield self._write_result(unit, is_shuffled=index in shuffled)
            else:
                yield self._write_message(unit)
            before = unit

    def _is_apart(self, before: Unit | None, unit: Unit) -> bool:
        """Return True if an answer directly after another must not be read as its continuation."""
        if before is None or before.role != "step":
            return False
        if find_calls(before):
            return False
        has_text = bool(answer_text(unit.parts))
        return has_text or not self.format.alternates_roles

    def _write_message(self, unit: Unit) -> Loaded:
        text = text_of(unit.parts)
        data = None
        if unit.wire is None:
            # Text without a form of its own (Responses' `instructions`): mark what is replaced in
            # it.
            if unit.took or NUL in text:
                data = {"native": {"provider": self.format.name, "took": [str(Accepted.REPLACED)]}}
        elif not self._is_plain_message(unit, text):
            data = {"native": self._build_native(unit)}
        return unit.role, replace_nul(text), data

    def _is_plain_message(self, unit: Unit, text: str) -> bool:
        """Return True if the event alone is written as the same form: it has text, and stands where
        that kind of event goes. System text has two places in some formats; if it was not on top,
        it stays there."""
        has_two_places = self.format.system_on_top and (
            self.format.system_in_place or is_inside(unit)
        )
        if unit.role == "system" and has_two_places:
            return False
        if is_blank(text) or is_marked(unit, text):
            return False
        role: Literal["user", "system"] = "system" if unit.role == "system" else "user"
        return bool(self.format.write_message(MessageTurn(None, role, text)) == unit.wire)

    def _write_result(self, unit: Unit, *, is_shuffled: bool) -> Loaded:
        [result] = unit.parts
        assert isinstance(result, Result)
        data: dict[str, Any] = {"id": result.id}
        if result.is_error:
            data["error"] = True
        is_plain = not is_shuffled and self._is_plain_result(unit, result)
        if not is_plain:
            data["native"] = self._build_native(unit)
        return "tool_result", replace_nul(result.text), data

    def _is_plain_result(self, unit: Unit, result: Result) -> bool:
        """Return True if the event alone is written as the same form."""
        if is_blank(result.text) or is_marked(unit, result.text):
            return False
        id = "" if self.format.call_ids is None else str(result.id)
        call = Call(id, result.name or "", {})
        written = self.format.write_result(call, Result(id, result.text, result.is_error))
        return bool(written == unit.wire)

    def _write_answer(self, unit: Unit, *, is_apart: bool) -> Iterator[Loaded]:
        text, calls = answer_text(unit.parts), find_calls(unit)
        native = None
        if is_apart or not self._is_plain_answer(unit, text, calls):
            native = {"native": self._build_native(unit)}
        if text or is_apart or not calls:
            yield "assistant", replace_nul(text), native
            native = None
        for call in calls:
            arguments = call.arguments if call.is_sound else call.text
            data = {"id": call.id, "name": call.name, "arguments": arguments}
            yield "tool_call", None, data | (native or {})
            native = None

    def _is_plain_answer(self, unit: Unit, text: str, calls: list[Call]) -> bool:
        """Return True if the events alone are written as the same form."""
        if is_marked(unit, text):
            return False
        bare: list[Call] = []
        for call in calls:
            if not self._is_legal(call):
                return False
            bare.append(Call(call.id or "", call.name, call.arguments))
        texts = [text] if text else []
        answer = AnswerTurn(None, texts, bare, [], [], [])
        written = self.format.write_answer(answer)
        return bool(written == unit.wire)

    def _is_legal(self, call: Call) -> bool:
        """Return True if we could have written a call. A server that accepted another id or name
        accepts it again."""
        ids = self.format.call_ids
        if ids is not None and ids.fullmatch(call.id or "") is None:
            return False
        return self.format.tool_names.fullmatch(call.name) is not None

    def _build_native(self, unit: Unit) -> dict[str, Any]:
        native: dict[str, Any] = {"provider": self.format.name}
        if self.model is not None:
            native["model"] = self.model
        native["wire"] = self.format.pack_form(unit.wire)
        if unit.after is not None:
            native["after"] = unit.after
        if unit.took:
            native["took"] = [str(word) for word in unit.took]
        return native


def is_marked(unit: Unit, text: str) -> bool:
    """Return True if only the form of a unit can keep what is special about it."""
    return unit.after is not None or bool(unit.took) or NUL in text


def replace_nul(text: str) -> str:
    """Return a text as an event can have it. Its form has the U+0000, which JSON escapes."""
    return text.replace(NUL, "\ufffd")
