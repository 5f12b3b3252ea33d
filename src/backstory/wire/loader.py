"""From a provider's body or answer to events, for all formats.

A format splits its body into units. Here each unit becomes events with the same meaning. If these would not
be written as exactly the same form again, the form is kept with them as native content.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from backstory.wire.formats.base import Format
from backstory.wire.json_values import replace_lone_surrogates
from backstory.wire.media import pad_part
from backstory.wire.origin import LAST_WORD, REPLACED, SAME_IDS, UNNAMED, UNPADDED
from backstory.wire.repair import BEHIND_A_MESSAGE, BEHIND_AN_ANSWER, FIRST
from backstory.wire.turns import Call, Part, Result, Unit, answer_text, is_blank, text_of

NUL = "\0"
Loaded = tuple[str, str | None, dict[str, Any] | None]


def events_of(format: Format, body: Mapping[str, Any], model: str | None) -> Iterator[Loaded]:
    """The events of a body, in order."""
    units = list(Ids().named(_storable(format.read_body, {**body, "model": model})))
    yield from _events(format, _taken(_placed(units, format), format, model), model)


def _events(format: Format, units: list[Unit], model: str | None) -> Iterator[Loaded]:
    shuffled = _shuffled(units)
    before: Unit | None = None
    for index, unit in enumerate(units):
        match unit.role:
            case "step":
                yield from _step(format, unit, model, is_apart=_is_apart(before, unit, format))
            case "result":
                yield _result(format, unit, model, is_shuffled=index in shuffled)
            case _:
                yield _said(format, unit, model)
        before = unit


def answer_events(format: Format, response: Mapping[str, Any], model: str | None) -> list[Loaded]:
    """The events of a provider's answer; the first has its model and usage."""
    form, its_model, usage = format.read_response(response)
    units = list(Ids().named(_storable(format.read_answer, format.pack_form(form))))
    about: dict[str, Any] = {} if (its_model or model) is None else {"model": its_model or model}
    about |= {} if usage is None else {"usage": usage}
    # Keep the name that was asked for, such as "claude-x-latest": the answer often gives another one.
    (kind, text, data), *rest = _events(format, units, model or its_model)
    return [(kind, text, {**(data or {}), **about} or None), *rest]


def _storable(units_of: Callable[[Any], Iterable[Unit]], source: Any) -> list[Unit]:
    """The units with a question mark for each half of a surrogate pair, and a mark where there was one. No
    store holds such a half, and services refuse it: "no low surrogate in string" (Anthropic)."""
    cleaned = replace_lone_surrogates(source, "?")
    units = list(units_of(cleaned))
    if cleaned is source:
        return units
    others = units_of(replace_lone_surrogates(source, "!"))
    return [
        unit if unit == other else unit._replace(took=(*unit.took, REPLACED))
        for unit, other in zip(units, others, strict=True)
    ]


def _placed(units: list[Unit], format: Format) -> list[Unit]:
    """The units, marked where only this request shows that they may stand where they stand."""
    if not format.alternates_roles:
        return units
    found: list[Unit] = []
    for unit in units:
        before = next(
            (earlier.role for earlier in reversed(found) if earlier.role != "system"), None
        )
        if unit.role == "step" and before in (None, "step"):
            unit = unit._replace(after=FIRST if before is None else BEHIND_AN_ANSWER)
        elif unit.role == "system" and _is_inside(unit):
            unit = unit._replace(after=BEHIND_A_MESSAGE)
        found.append(unit)
    return found


def _taken(units: list[Unit], format: Format, model: str | None) -> list[Unit]:
    """The units, marked where this request shows that its service takes what others were seen to refuse: ids
    of calls that come again, base64 without padding, and an answer at the end, which the model goes on from.
    Not every model does so: where none is named, the body may be a transcript and no request at all."""
    may_go_on = format.alternates_roles and model is not None
    found: list[Unit] = []
    known: set[str | None] = set()
    for index, unit in enumerate(units):
        calls = _calls(unit.parts) if unit.role == "step" else []
        ids = [] if format.call_ids is None else [call.id for call in calls]
        if not known.isdisjoint(ids):
            unit = unit._replace(took=(*unit.took, SAME_IDS))
        if may_go_on and unit.role == "step" and not calls and index == len(units) - 1:
            unit = unit._replace(took=(*unit.took, LAST_WORD))
        if any(pad_part(part) is not part for part in unit.parts):
            unit = unit._replace(took=(*unit.took, UNPADDED))
        known.update(ids)
        found.append(unit)
    return found


def _is_apart(before: Unit | None, unit: Unit, format: Format) -> bool:
    """Whether an answer directly after another must not be read as its continuation."""
    if before is None or before.role != "step" or _calls(before.parts):
        return False
    return not format.alternates_roles or bool(answer_text(unit.parts))


class Ids:
    """Gives ids to calls that have none, and to their results: a result belongs to the oldest open call of
    that name in its step."""

    def __init__(self) -> None:
        self._count = 0
        self._open: list[tuple[str, str]] = []
        self._is_calling = False  # did only the model speak since the first of them?

    def named(self, units: Any) -> Iterator[Unit]:
        """The units with ids in all their calls and results."""
        for unit in units:
            if unit.role == "step":
                calls = _calls(unit.parts)
                if (
                    calls and not self._is_calling
                ):  # Google takes one answer as several messages in a row
                    self._open = []
                self._is_calling = self._is_calling or bool(calls)
                if any(call.id == "" for call in calls):  # a server that gives no ids
                    unit = unit._replace(took=(*unit.took, UNNAMED))
                yield unit._replace(parts=list(map(self._called, unit.parts))) if calls else unit
                continue
            self._is_calling = False
            is_result = unit.role == "result"
            yield unit._replace(parts=list(map(self._answered, unit.parts))) if is_result else unit

    def _called(self, part: Part) -> Part:
        if not isinstance(part, Call):
            return part
        self._count += 1
        id = part.id if part.id and not part.id.isspace() else f"call_{self._count}"
        self._open.append((part.name, id))
        return part._replace(id=id)

    def _answered(self, part: Part) -> Part:
        """A result with the id of its call; a result without a call gets its name as its id."""
        assert isinstance(part, Result)
        has_id = bool(part.id) and not str(part.id).isspace()
        for index, (name, id) in enumerate(self._open):
            if (part.id == id) if has_id else part.name in (None, name):
                del self._open[index]
                return part._replace(id=id)
        return part if has_id else part._replace(id=part.name or "unknown")


def _shuffled(units: list[Unit]) -> set[int]:
    """The results that are not in the order of their calls, which only their own form can keep."""
    found: set[int] = set()
    calls: list[str | None] = []
    results: list[tuple[int, str | None]] = []
    for index, unit in enumerate((*units, None)):
        if unit is not None and unit.role == "result":
            results.extend((index, part.id) for part in unit.parts if isinstance(part, Result))
            continue
        if [id for _, id in results] != calls[: len(results)]:
            found.update(index for index, _ in results)
        calls = [call.id for call in _calls(unit.parts)] if unit is not None else []
        results = []
    return found


def _said(format: Format, unit: Unit, model: str | None) -> Loaded:
    text = text_of(unit.parts)
    native = None
    if unit.wire is None:
        # Words without a form of their own (Responses' `instructions`): what is replaced in them is marked.
        if unit.took or NUL in text:
            native = {"native": {"provider": format.name, "took": [REPLACED]}}
    elif not _is_plain(format, unit, text):
        native = {"native": _native(format, unit, model)}
    return unit.role, _shown(text), native


def _shown(text: str) -> str:
    """A text as an event can have it. Its form has the U+0000, which JSON escapes."""
    return text.replace(NUL, "\ufffd")


def _is_plain(format: Format, unit: Unit, text: str) -> bool:
    """Whether the event alone is written as the very same form: it says something, and stands where that
    kind of event goes. System text has two places in some formats; what was not on top stays there."""
    if unit.role == "system" and (
        format.system_on_top and (format.system_in_place or _is_inside(unit))
    ):
        return False
    is_marked = unit.after is not None or bool(unit.took) or NUL in text
    return (
        not is_blank(text)
        and not is_marked
        and format.write_message(unit.role, text, None) == unit.wire
    )


def _is_inside(unit: Unit) -> bool:
    return not unit.path.startswith("system")


def _result(format: Format, unit: Unit, model: str | None, *, is_shuffled: bool) -> Loaded:
    [result] = unit.parts
    assert isinstance(result, Result)
    text = result.text
    data: dict[str, Any] = {"id": result.id}
    if result.is_error:
        data["error"] = True
    id = "" if format.call_ids is None else str(result.id)
    plain = format.write_result(id, result.name or "", text, bool(result.is_error), "")
    is_marked = is_shuffled or unit.after is not None or bool(unit.took) or NUL in text
    if is_marked or is_blank(text) or plain != unit.wire:
        data["native"] = _native(format, unit, model)
    return "tool_result", _shown(text), data


def _step(format: Format, unit: Unit, model: str | None, *, is_apart: bool) -> Iterator[Loaded]:
    text, calls = answer_text(unit.parts), _calls(unit.parts)
    native = None
    is_plain = (
        not is_apart
        and unit.after is None
        and not unit.took
        and NUL not in text
        and all(_is_legal(format, call) for call in calls)
    )
    if not is_plain or _default_step(format, text, calls) != unit.wire:
        native = {"native": _native(format, unit, model)}
    if text or is_apart or not calls:
        yield "assistant", _shown(text), native
        native = None
    for call in calls:
        data = {
            "id": call.id,
            "name": call.name,
            "arguments": call.arguments if call.is_sound else call.text,
        }
        yield "tool_call", None, data | (native or {})
        native = None


def _is_legal(format: Format, call: Call) -> bool:
    """Whether we could have written a call. A server that accepted another id or name accepts it again."""
    ids = format.call_ids
    return (ids is None or ids.fullmatch(call.id or "") is not None) and bool(
        format.tool_names.fullmatch(call.name)
    )


def _default_step(format: Format, text: str, calls: list[Call]) -> Any:
    written = [format.write_call(call.id or "", call.name, call.arguments, None) for call in calls]
    return format.write_answer([text] if text else [], written, None)


def _calls(parts: list[Part]) -> list[Call]:
    return [part for part in parts if isinstance(part, Call)]


def _native(format: Format, unit: Unit, model: str | None) -> dict[str, Any]:
    tag = {"provider": format.name} | ({} if model is None else {"model": model})
    marks = ({} if unit.after is None else {"after": unit.after}) | (
        {"took": [*unit.took]} if unit.took else {}
    )
    return tag | {"wire": format.pack_form(unit.wire)} | marks
