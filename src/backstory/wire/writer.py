"""From repaired turns to a request body: each turn in its own form, or as the format writes it."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from backstory.wire.formats.base import Form, Format
from backstory.wire.repair import Repaired
from backstory.wire.turns import MessageTurn, Step, StepCall


def body_of(repaired: Repaired, format: Format) -> dict[str, Any]:
    """The body for the turns."""
    placed = list(_placed(repaired, format))
    names = {
        call.name: None for turn in repaired.turns if isinstance(turn, Step) for call in turn.calls
    }
    system = [_top(message, format) for message in repaired.system]
    body = format.write_body(
        system, [one.role for one in placed], [one.form for one in placed], names
    )
    return body | repaired.after if repaired.after else body


def origins_of(repaired: Repaired, format: Format) -> list[list[int]]:
    """For each message of the body, the positions of its events. The format builds the body as usual, but
    each form is replaced by its positions."""
    placed = list(_placed(repaired, format))
    forms = [_marked(one.form, one.at) for one in placed]
    tops = [(_top(message, format), _known(message.at)) for message in repaired.system]
    # Bare system text is not a message: it stays on top.
    system = [form if isinstance(form, str) else _marked(form, at) for form, at in tops]
    body = format.write_body(system, [one.role for one in placed], forms, {})
    messages = next(body[key] for key in ("messages", "input", "contents") if key in body)
    return [sorted({at for mark in _marks(message) for at in mark}) for message in messages]


class _Placed(NamedTuple):
    role: str
    form: Form
    at: tuple[int, ...]  # the positions of its events


def _placed(repaired: Repaired, format: Format) -> Iterator[_Placed]:
    """What goes into the body, in order."""
    for turn in repaired.turns:
        if isinstance(turn, MessageTurn):
            role = "system" if turn.role == "system" else "user"
            yield _Placed(role, _said(turn, format), _known(turn.at))
            continue
        yield _Placed(
            "model", _step(turn, format), _known(turn.at, *(call.at for call in turn.calls))
        )
        for at, form in _results(turn, format):
            yield _Placed("user", form, at)


def _known(*positions: int | None) -> tuple[int, ...]:
    return tuple(at for at in positions if at is not None)


def _marked(form: Form, at: tuple[int, ...]) -> Form:
    """What stands for a form: a format has messages, lists of blocks or items, or bare texts."""
    return [at] * len(form) if isinstance(form, list) else [at]


def _marks(message: Any) -> list[tuple[int, ...]]:
    """The marks in one message of a body."""
    if isinstance(message, dict):
        message = message.get("content", message.get("parts"))
    return message if isinstance(message, list) else [message]


def _top(message: MessageTurn, format: Format) -> Form:
    top = format.write_top(message.text) if message.wire is None else None
    return _said(message, format) if top is None else top


def _said(message: MessageTurn, format: Format) -> Form:
    if message.wire is not None:
        return message.wire
    return format.write_message(
        message.role, message.text if message.content is None else message.content, message.name
    )


def _step(step: Step, format: Format) -> Form:
    if step.wire is not None:
        return step.wire
    calls = [
        format.write_call(call.id, call.name, call.arguments, call.text) for call in step.calls
    ]
    return format.write_answer(step.texts, calls, step.name)


def _results(step: Step, format: Format) -> Iterator[tuple[tuple[int, ...], Form]]:
    """The results of a step, each with the positions of its events."""
    extras: list[Any] = []
    shown: tuple[int, ...] = ()
    for call in step.order or step.calls:
        result = call.result
        if result is None:
            continue
        if result.wire is not None:
            yield _known(result.at), result.wire
        else:
            content = result.text if result.content is None else result.content
            yield (
                _known(result.at),
                format.write_result(call.id, call.name, content, result.error, call.kind),
            )
        if result.extra:
            extras.extend(result.extra)
            shown += _known(result.at)
    if extras and all(
        call.result is not None for call in step.calls
    ):  # else the rest is still to come
        yield shown, extras


class Written(NamedTuple):
    """One turn, or one result of a turn, in a format's own form."""

    role: str  # system, user, model, result
    at: int | None  # the position of its first event; None: a repair put it there
    form: Form
    calls: list[StepCall]  # of an answer; of a result, the call that it belongs to


def forms_of(repaired: Repaired, format: Format) -> Iterator[Written]:
    """Each turn by itself, for files in which every message is separate."""
    for message in repaired.system:
        yield Written("system", message.at, _said(message, format), [])
    for turn in repaired.turns:
        if isinstance(turn, MessageTurn):
            yield Written(
                "system" if turn.role == "system" else "user", turn.at, _said(turn, format), []
            )
            continue
        yield Written("model", turn.at, _step(turn, format), turn.calls)
        for call in turn.calls:
            alone = Step(turn.at)
            alone.calls = [call]
            results = (
                form if isinstance(form, list) else [form] for _, form in _results(alone, format)
            )
            form = [block for result in results for block in result]
            yield Written("result", call.result.at if call.result else None, form, [call])
