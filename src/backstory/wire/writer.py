"""From repaired turns to a request's body: each turn in its own form, or in the one its format writes."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from backstory.wire.format import Form, Format
from backstory.wire.repair import Repaired
from backstory.wire.turns import Asked, Say, Step


def body_of(repaired: Repaired, format: Format) -> dict[str, Any]:
    """The body that says what the turns say."""
    roles: list[str] = []
    forms: list[Form] = []
    names: dict[str, None] = {}
    for turn in repaired.turns:
        if isinstance(turn, Say):
            roles.append("system" if turn.role == "system" else "user")
            forms.append(_said(turn, format))
            continue
        names |= {call.name: None for call in turn.calls}
        roles.append("model")
        forms.append(_step(turn, format))
        results = list(_results(turn, format))
        roles.extend(["user"] * len(results))
        forms.extend(results)
    body = format.body([_top(say, format) for say in repaired.system], roles, forms, names)
    return body | repaired.after if repaired.after else body


def _top(say: Say, format: Format) -> Form:
    if say.wire is None and format.top is not None:
        return format.top(say.text)
    return _said(say, format)


def _said(say: Say, format: Format) -> Form:
    if say.wire is not None:
        return say.wire
    return format.said(say.role, say.text if say.content is None else say.content, say.name)


def _step(step: Step, format: Format) -> Form:
    if step.wire is not None:
        return step.wire
    calls = [format.call(call.id, call.name, call.arguments, call.text) for call in step.calls]
    return format.step(step.texts, calls, step.name)


def _results(step: Step, format: Format) -> Iterator[Form]:
    extras: list[Any] = []
    for call in step.order or step.calls:
        answer = call.answer
        if answer is None:
            continue
        if answer.wire is not None:
            yield answer.wire
        else:
            content = answer.text if answer.content is None else answer.content
            yield format.result(call.id, call.name, content, answer.error, call.kind)
        extras.extend(answer.extra or ())
    if extras and all(call.answer is not None for call in step.calls):  # else the rest is still to come
        yield extras


class Written(NamedTuple):
    """One turn, or one result of a turn, in a format's own form."""

    role: str  # system, user, model, result
    at: int | None  # the position of its first event; None: a repair put it there
    form: Form
    calls: list[Asked]  # of an answer; of a result, the call that it belongs to


def forms_of(repaired: Repaired, format: Format) -> Iterator[Written]:
    """Each turn by itself: for files in which every message stands alone."""
    for say in repaired.system:
        yield Written("system", say.at, _said(say, format), [])
    for turn in repaired.turns:
        if isinstance(turn, Say):
            yield Written("system" if turn.role == "system" else "user", turn.at, _said(turn, format), [])
            continue
        yield Written("model", turn.at, _step(turn, format), turn.calls)
        for call in turn.calls:
            alone = Step(turn.at)
            alone.calls = [call]
            form = [block for result in _results(alone, format) for block in result]
            yield Written("result", call.answer.at if call.answer else None, form, [call])
