"""Converts a provider's body or answer to events, for all formats.

A format splits a body into units. Each unit becomes events with the same meaning. If these would
not be written as the same form again, the form is kept with them as native content.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from backstory.errors import Invalid
from backstory.wire.fields import read_at
from backstory.wire.formats.base import Format
from backstory.wire.json_values import replace_lone_surrogates
from backstory.wire.media import pad_part
from backstory.wire.turns import (
    AFTER_ANSWER,
    AFTER_MESSAGE,
    AFTER_NOTHING,
    Accepted,
    AnswerTurn,
    BodyUnit,
    Call,
    Form,
    MessageTurn,
    Part,
    Result,
    Text,
    answer_text,
    find_calls,
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
    """Return the events of a provider's answer, as far as it arrived. The first has its model and
    usage.

    Raises Invalid if the provider reported an error and nothing else.
    """
    form = format.pack_form(read_at("response", format.read_response, response))
    units = read_at("response", read_units, format.read_answer, form)
    units = CallIds().add_ids(units)
    error = response.get("error")
    if error and is_empty(units):
        raise Invalid(
            f"the provider reported an error instead of an answer: {describe_error(error)}"
        )
    named = format.read_model(response)
    # Keep the name that was asked for, such as "claude-x-latest": the answer often gives another
    # one.
    writer = EventWriter(format, model or named)
    events = list(writer.write(units))
    kind, text, data = events[0]
    data = dict(data or {})
    if named or model:
        data["model"] = named or model
    usage = format.read_usage(format.find_value(response, format.usage_path))
    if usage is not None:
        data["usage"] = usage
    events[0] = kind, text, data or None
    return events


def is_empty(units: list[BodyUnit]) -> bool:
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


def read_units(read: Callable[[Any], list[BodyUnit]], source: Any) -> list[BodyUnit]:
    """Read the units of `source`, with a question mark for each half of a surrogate pair, and a
    mark at each unit that had one. No store holds such a half, and services refuse it: "no low
    surrogate in string" (Anthropic). Units share nothing with `source`."""
    cleaned = replace_lone_surrogates(source, "?")
    units = read(cleaned)
    if cleaned == source:
        return units
    others = read(replace_lone_surrogates(source, "!"))
    marked: list[BodyUnit] = []
    for unit, other in zip(units, others, strict=True):
        marked.append(unit if unit == other else add_mark(unit, Accepted.REPLACED))
    return marked


def add_mark(unit: BodyUnit, mark: str) -> BodyUnit:
    """Return `unit` with one more thing that its service accepted."""
    return unit._replace(accepted=(*unit.accepted, mark))


class OpenCall(NamedTuple):
    """A call that a result may answer."""

    name: str
    id: str
    had_id: bool


class CallIds:
    """Gives ids to calls that have none, and to their results. A result without an id belongs to
    the oldest open call of its name in its answer, if possible to one that had none."""

    def __init__(self) -> None:
        self._count = 0
        self._given: set[str | None] = set()  # the ids that calls have
        self._open: list[OpenCall] = []
        self._is_calling = False  # did only the model write since the first of them?

    def add_ids(self, units: list[BodyUnit]) -> list[BodyUnit]:
        """Return the units with ids in all their calls and results."""
        for unit in units:
            self._given.update([call.id for call in find_calls(unit.parts)])
        found: list[BodyUnit] = []
        for unit in units:
            if unit.role == "answer":
                found.append(self._add_call_ids(unit))
                continue
            self._is_calling = False
            if unit.role == "result":
                parts: list[Part] = [self._add_result_id(part) for part in unit.parts]
                unit = unit._replace(parts=parts)
            found.append(unit)
        return found

    def _add_call_ids(self, unit: BodyUnit) -> BodyUnit:
        calls = find_calls(unit.parts)
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
        had_id = not is_blank(id)
        if not had_id:
            id = self._make_id()
        self._open.append(OpenCall(part.name, id, had_id))
        return part._replace(id=id)

    def _make_id(self) -> str:
        """Return an id that no call has: the number of the call, or one of those after it."""
        while f"call_{self._count}" in self._given:
            self._count += 1
        return f"call_{self._count}"

    def _add_result_id(self, part: Part) -> Part:
        """Return a result with the id of its call. A result without a call gets its name as its
        id."""
        assert isinstance(part, Result)
        if not is_blank(part.id or ""):
            matches = [call for call in self._open if call.id == part.id]
            if matches:
                self._open.remove(matches[0])
            return part
        matches = [call for call in self._open if part.name in (None, call.name)]
        if not matches:
            return part._replace(id=part.name or "unknown")
        matches.sort(key=lambda call: call.had_id)
        self._open.remove(matches[0])
        return part._replace(id=matches[0].id)


# --- what only this request shows ---


def mark_places(units: list[BodyUnit], format: Format) -> list[BodyUnit]:
    """Mark the units that may stand where they stand only because this request was accepted."""
    if not format.alternates_roles:
        return units
    marked: list[BodyUnit] = []
    before: str | None = None  # the role of the last unit that is not system text
    for unit in units:
        if unit.role == "system":
            marked.append(unit if unit.is_on_top else unit._replace(after=AFTER_MESSAGE))
            continue
        if unit.role == "answer" and before in (None, "answer"):
            unit = unit._replace(after=AFTER_NOTHING if before is None else AFTER_ANSWER)
        before = unit.role
        marked.append(unit)
    return marked


def mark_accepted(units: list[BodyUnit], format: Format, model: str | None) -> list[BodyUnit]:
    """Mark the units that show that their service accepts what others were seen to refuse: ids of
    calls that come again, base64 without padding, and an answer at the end, which the model
    continues. Not every model does so: without a model, the body may be a transcript and no request
    at all."""
    marked: list[BodyUnit] = []
    known: set[str | None] = set()
    last = len(units) - 1
    for index, unit in enumerate(units):
        ids = {call.id for call in find_calls(unit.parts)}
        if format.call_ids is not None and known & ids:
            unit = add_mark(unit, Accepted.SAME_IDS)
        known |= ids
        is_last_word = index == last and unit.role == "answer" and not ids
        if is_last_word and can_continue(format, model):
            unit = add_mark(unit, Accepted.LAST_WORD)
        if has_unpadded(unit):
            unit = add_mark(unit, Accepted.UNPADDED)
        marked.append(unit)
    return marked


def can_continue(format: Format, model: str | None) -> bool:
    """Return True if a request whose last message is an answer means that the model continues
    it."""
    return format.alternates_roles and model is not None


def has_unpadded(unit: BodyUnit) -> bool:
    """Return True if base64 in a unit has no padding."""
    return any(pad_part(part) is not part for part in unit.parts)


def find_shuffled(units: list[BodyUnit]) -> set[int]:
    """Return the indexes of results that are not in the order of their calls, which only their own
    form can keep."""
    shuffled: set[int] = set()
    calls: list[str | None] = []
    indexes: list[int] = []
    ids: list[str | None] = []  # of these results
    end = BodyUnit("user", None, [])
    for index, unit in enumerate([*units, end]):
        if unit.role == "result":
            indexes.append(index)
            ids += [part.id for part in unit.parts if isinstance(part, Result)]
            continue
        if ids != calls[: len(ids)]:
            shuffled.update(indexes)
        calls = [call.id for call in find_calls(unit.parts)]
        indexes, ids = [], []
    return shuffled


# --- writing events ---


class EventWriter:
    """Writes units as events, with their form where the events alone would not be written as it."""

    def __init__(self, format: Format, model: str | None) -> None:
        self.format = format
        self.model = model

    def write(self, units: list[BodyUnit]) -> Iterator[Loaded]:
        """Yield the events of `units`."""
        shuffled = find_shuffled(units)
        before: BodyUnit | None = None
        for index, unit in enumerate(units):
            if unit.role == "answer":
                yield from self._write_answer(unit, is_apart=self._is_apart(before, unit))
            elif unit.role == "result":
                yield self._write_result(unit, is_shuffled=index in shuffled)
            else:
                yield self._write_message(unit)
            before = unit

    def _is_apart(self, before: BodyUnit | None, unit: BodyUnit) -> bool:
        """Return True if an answer directly after another must not be read as its continuation."""
        if before is None or before.role != "answer":
            return False
        if find_calls(before.parts):
            return False
        has_text = bool(answer_text(unit.parts))
        return has_text or not self.format.alternates_roles

    def _write_message(self, unit: BodyUnit) -> Loaded:
        text = text_of(unit.parts)
        if unit.form is None:
            # Text without a form of its own (Responses' `instructions`): mark what is replaced in
            # it.
            data: dict[str, Any] = {}
            if unit.accepted or NUL in text:
                data = {"native": {"provider": self.format.name, "took": [str(Accepted.REPLACED)]}}
        else:
            # System text has two places in some formats; if it was not on top, it stays there.
            has_two_places = self.format.system_on_top and (
                self.format.system_in_place or not unit.is_on_top
            )
            written = None
            if not is_blank(text) and not (unit.role == "system" and has_two_places):
                written = self.format.write_message(MessageTurn(None, unit.role, text))
            data = self._add_native(unit, text, written)
        return unit.role, replace_nul(text), data or None

    def _write_result(self, unit: BodyUnit, *, is_shuffled: bool) -> Loaded:
        [result] = unit.parts
        assert isinstance(result, Result)
        data: dict[str, Any] = {"id": result.id}
        if result.is_error:
            data["error"] = True
        written = None
        if not is_shuffled and not is_blank(result.text):
            id = "" if self.format.call_ids is None else str(result.id)
            call = Call(id, result.name or "", {})
            written = self.format.write_result(call, Result(id, result.text, result.is_error))
        return (
            "tool_result",
            replace_nul(result.text),
            data | self._add_native(unit, result.text, written),
        )

    def _write_answer(self, unit: BodyUnit, *, is_apart: bool) -> Iterator[Loaded]:
        text, calls = answer_text(unit.parts), find_calls(unit.parts)
        written = None if is_apart else self._write_form(text, calls)
        native = self._add_native(unit, text, written)
        if text or is_apart or not calls:
            yield "assistant", replace_nul(text), native or None
            native = {}
        for call in calls:
            arguments = call.arguments if call.is_sound else call.text
            data = {"id": call.id, "name": call.name, "arguments": arguments}
            yield "tool_call", None, data | native
            native = {}

    def _write_form(self, text: str, calls: list[Call]) -> Form:
        """Write an answer; None if a server accepted an id or a name that others refuse: it accepts
        them again."""
        answer = AnswerTurn(None)
        answer.texts = [text] if text else []
        answer.calls = [Call(call.id or "", call.name, call.arguments) for call in calls]
        if not all(map(self.format.is_legal_call, calls)):
            return None
        return self.format.write_answer(answer)

    def _add_native(self, unit: BodyUnit, text: str, written: Form) -> dict[str, Any]:
        """Return the native content of a unit as data; none if the event alone is written as the
        same form. What is special about a unit only its form can keep."""
        is_special = unit.after is not None or bool(unit.accepted) or NUL in text
        if written is not None and written == unit.form and not is_special:
            return {}
        return {"native": self._build_native(unit)}

    def _build_native(self, unit: BodyUnit) -> dict[str, Any]:
        """Build `data["native"]`: a form is its `wire`, and what was accepted its `took`."""
        native: dict[str, Any] = {"provider": self.format.name}
        if self.model is not None:
            native["model"] = self.model
        native["wire"] = self.format.pack_form(unit.form)
        if unit.after is not None:
            native["after"] = unit.after
        if unit.accepted:
            native["took"] = [str(word) for word in unit.accepted]
        return native


def replace_nul(text: str) -> str:
    """Return a text as an event can have it. Its form has the U+0000, which JSON escapes."""
    return text.replace(NUL, "\ufffd")
