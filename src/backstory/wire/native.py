"""Provider-native content: what rides in `data["native"]`, and when it may be sent again.

    {"provider": "anthropic", "model": "…", "wire": <the provider's own form of the message>}

What a person, the system or a tool said goes back to its own provider as it was. A model's
answer goes back only to the same provider and the same model, and only if the step is untouched:
its form still says exactly what the events say. Elsewhere images are translated, and
what nobody else understands is left out and reported.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from backstory.errors import Invalid
from backstory.wire.format import Format
from backstory.wire.images import is_sound, to_bytes
from backstory.wire.rows import Tell
from backstory.wire.turns import (
    BETWEEN,
    Answer,
    Asked,
    Call,
    Image,
    Other,
    Part,
    Result,
    Say,
    Step,
    Text,
    is_blank,
    text_of,
)

UNSHOWN_IMAGE = "(an image that cannot be shown here)"
UNSHOWN = "(output that cannot be shown here)"


class Native(NamedTuple):
    """The provider's own form of a message, tagged with where it came from."""

    provider: str
    model: str | None
    wire: Any


def native_of(data: Mapping[str, Any] | None) -> Native | None:
    """The native content in an event's data; None where there is none to send (usage alone, say)."""
    native = data.get("native") if data else None
    if not isinstance(native, dict) or native.get("wire") is None:
        return None
    return Native(str(native.get("provider")), native.get("model"), native["wire"])


class Target(NamedTuple):
    """Where a dump goes."""

    format: Format
    model: str | None
    stored: bool  # does the service keep what it was sent?
    formats: Mapping[str, Format]
    tell: Tell


def settle_say(say: Say, native: Native, target: Target) -> None:
    """Give what was said its own form again, or what of it can be translated."""
    parts = _parts(say.role, native, target, say.at)
    if parts is None:
        return
    if not _says(parts, say.text):
        target.tell("native", say.at, "its native content no longer says what the message says: left out")
        return
    if native.provider == target.format.name and _may_return(parts, target.format):
        say.wire = _form(native, target)
        return
    kept = _translated(parts, target, say.at, images=say.role == "user")
    if any(isinstance(part, Image) for part in kept):
        say.parts = kept


def settle_answer(call: Asked, answer: Answer, native: Native, target: Target) -> None:
    """The same for a result; its form also has to name its call as the wire does."""
    match _parts("result", native, target, answer.at):
        case None:
            return
        case [Result(parts=parts) as result] if _says(parts, answer.text):
            same = _answers(result, call, answer)
        case _:
            target.tell(
                "native", answer.at, "its native content no longer says what the result says: left out"
            )
            return
    mine = native.provider == target.format.name
    if mine and same and any(parts) and _may_return(parts, target.format):
        answer.wire = _form(native, target)
        return
    # A failed result is text and nothing else, where anything else is possible at all.
    kept = _translated(parts, target, answer.at, images=target.format.result_images and not answer.error)
    if any(isinstance(part, Image) for part in kept):
        answer.parts = kept
    elif is_blank(answer.text) and any(not isinstance(part, Text) for part in parts):
        answer.text = UNSHOWN_IMAGE if any(isinstance(part, Image) for part in parts) else UNSHOWN


def _answers(result: Result, call: Asked, answer: Answer) -> bool:
    """Whether a result's form fits its call as that goes out: id, name, kind of tool, and the error flag."""
    return (
        (result.id or "") == call.id
        and result.name in (None, call.name)
        and result.error in (None, answer.error)
        and result.custom == call.custom
    )


def settle_step(step: Step, natives: list[Native], target: Target) -> None:
    """The same for a model's answer: the whole step as it was, or none of what is not text or calls."""
    at, tell = step.at, target.tell
    here = [native.provider == target.format.name and native.model == target.model for native in natives]
    if all(here):
        whole = _joined(natives)
        parts = _parts("step", whole, target, at)
        if parts is None:
            return
        if _is_untouched(step, parts) and _may_return(parts, target.format):
            _replay(step, whole, parts, target)
            return
    for native in natives:
        others = [_name(part) for part in _parts("step", native, target, at) or () if _is_extra(part)]
        if others:
            why = "the step is not as it was" if all(here) else "it belongs to another provider or model"
            tell("native", at, f"{', '.join(dict.fromkeys(others))} of this answer left out: {why}")


def _replay(step: Step, native: Native, parts: list[Part], target: Target) -> None:
    form = _form(native, target)
    if len(form) < len(native.wire):
        lost = "what only the service's store could have read is left out"
        target.tell("native", step.at, f"{lost}: reasoning that is not sealed, or an item that needs its id")
    if form:
        step.wire = form
        _take_calls(step, parts)


def _is_extra(part: Part) -> bool:
    return not isinstance(part, Text | Call)


def _name(part: Part) -> str:
    return part.what if isinstance(part, Other) else type(part).__name__.lower()


def _joined(natives: list[Native]) -> Native:
    """Several events' forms as one; forms that are no lists cannot be joined, the first one speaks."""
    if len(natives) == 1 or not all(isinstance(native.wire, list) for native in natives):
        return natives[0]
    return natives[0]._replace(wire=[block for native in natives for block in native.wire])


def _form(native: Native, target: Target) -> Any:
    form = target.format.unpack(native.wire)
    return form if target.stored else target.format.unstored(form)


def _parts(role: str, native: Native, target: Target, at: int | None) -> list[Part] | None:
    provider = target.formats.get(native.provider)
    if provider is None:
        target.tell("native", at, f"native content of {native.provider!r}, a format nobody knows: left out")
        return None
    try:
        parts = provider.read(role, native.wire, "native.wire")
    except Invalid as error:
        target.tell("native", at, f"its native content is not of its format, so it is left out: {error}")
        return None
    if role != "step" and any(isinstance(part, Call) for part in parts):
        target.tell("native", at, f"native content with a call in it is none of a {role}: left out")
        return None
    return parts


def _says(parts: list[Part], text: str) -> bool:
    return text_of(parts) == ("" if is_blank(text) else text)


def _is_untouched(step: Step, parts: list[Part]) -> bool:
    calls = [part for part in parts if isinstance(part, Call)]
    return (
        _says(parts, BETWEEN.join(text for text in step.texts if not is_blank(text)))
        and len(calls) == len(step.calls)
        and all(
            part.id in (None, call.id or call.key)
            and (part.name, part.arguments) == (call.name, call.arguments)
            for part, call in zip(calls, step.calls, strict=True)
        )
    )


def _take_calls(step: Step, parts: list[Part]) -> None:
    """Calls that go out in their own form have its ids, where those are optional, and its kind of tool,
    so that results fit them."""
    calls = (part for part in parts if isinstance(part, Call))
    for part, call in zip(calls, step.calls, strict=True):
        call.id = part.id or call.id
        call.custom = part.custom


def _may_return(parts: list[Part], format: Format) -> bool:
    """Whether the service took this once and would again: nothing blank, nothing half, nothing that
    belongs into another message, and nothing behind a call where calls come last."""
    called = False
    for part, following in pairwise((*parts, None)):
        if called and format.calls_come_last and not isinstance(part, Call):
            return False
        if isinstance(part, Other) and part.leads and not isinstance(following, Text | Call):
            return False
        match part:
            case Text(text) if is_blank(text):
                return False
            case Image(data=str(data)) if not to_bytes(data):
                return False
            case Other(complete=False) | Result() | Call(raw=str()):
                return False
            case Call():
                called = True
    return bool(parts)


def _translated(parts: list[Part], target: Target, at: int | None, *, images: bool) -> list[Text | Image]:
    """The words and the images that the format can carry; the rest is reported."""
    kept: list[Text | Image] = []
    lost = []
    for part in parts:
        if isinstance(part, Text):
            kept.extend([] if is_blank(part.text) else [part])
        elif isinstance(part, Image):
            sound = images and is_sound(part, target.format.image_types, target.format.image_urls)
            kept.extend([part] if sound else [])
            lost.extend([] if sound else ["image"])
        else:
            lost.append(_name(part))
    if lost:
        name = target.format.name
        target.tell("native", at, f"{', '.join(dict.fromkeys(lost))} left out: {name} has no such thing here")
    return kept
