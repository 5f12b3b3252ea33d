"""From a provider's body to events: the way in, the same for all formats.

A format takes its body apart into units. Here each unit becomes the events that say the same, and if
those would not be written as the very same form again, the form rides along as native content.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from backstory.wire.format import Format
from backstory.wire.turns import Answer, Asked, Call, Part, Result, Say, Step, Unit, text_of

Loaded = tuple[str, str | None, dict[str, Any] | None]


def events_of(format: Format, body: Mapping[str, Any], model: str | None) -> Iterator[Loaded]:
    """The events of a body, in order."""
    units = list(format.units(body))
    shuffled = _shuffled(units)
    before: Unit | None = None
    for index, unit in enumerate(units):
        match unit.role:
            case "step":
                is_apart = before is not None and before.role == "step" and not _calls(before.parts)
                yield from _step(format, unit, model, is_apart=is_apart)
            case "result":
                yield _result(format, unit, model, is_shuffled=index in shuffled)
            case _:
                yield _said(format, unit, model)
        before = unit


def _shuffled(units: list[Unit]) -> set[int]:
    """Which results do not come in the order of their calls: only their own form keeps such an order."""
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
    plain = format.write_say(Say(unit.role, text, None))
    if unit.wire is not None and (_is_item(format, unit) or plain != unit.wire):
        native = {"native": _native(format, unit.wire, model)}
    return unit.role, text, native


def _is_item(format: Format, unit: Unit) -> bool:
    """System text has two places in some formats; what was not on top is not to end up there."""
    return unit.role == "system" and format.system_on_top and format.system_in_place


def _result(format: Format, unit: Unit, model: str | None, *, is_shuffled: bool) -> Loaded:
    [result] = unit.parts
    assert isinstance(result, Result)
    text = text_of(result.parts)
    data: dict[str, Any] = {"id": result.id}
    if result.error:
        data["error"] = True
    call = Asked(None if format.ids is None else result.id, result.name or "", {}, None)
    answer = Answer(text, bool(result.error), None)
    if is_shuffled or format.write_answer(call, answer) != unit.wire:
        data["native"] = _native(format, unit.wire, model)
    return "tool_result", text, data


def _step(format: Format, unit: Unit, model: str | None, *, is_apart: bool) -> Iterator[Loaded]:
    text, calls = text_of(unit.parts), _calls(unit.parts)
    native = None
    if is_apart or _default_step(format, text, calls) != unit.wire:
        native = {"native": _native(format, unit.wire, model)}
    if text or is_apart or not calls:
        yield "assistant", text, native
        native = None
    for call in calls:
        data = {
            "id": call.id,
            "name": call.name,
            "arguments": call.arguments if call.raw is None else call.raw,
        }
        yield "tool_call", None, data | (native or {})
        native = None


def _default_step(format: Format, text: str, calls: list[Call]) -> Any:
    step = Step(None)
    step.texts = [text] if text else []
    step.calls = [Asked(call.id, call.name, call.arguments, None) for call in calls]
    return format.write_step(step)


def _calls(parts: list[Part]) -> list[Call]:
    return [part for part in parts if isinstance(part, Call)]


def _native(format: Format, wire: Any, model: str | None) -> dict[str, Any]:
    tag = {"provider": format.name} | ({} if model is None else {"model": model})
    return tag | {"wire": format.pack(wire)}
