"""What can be used of an answer's form if it is not sent unchanged: what the service's tools did, the
arguments as the model wrote them, and the name of the model among several."""

from typing import Any

from backstory.wire.target import Target
from backstory.wire.turns import (
    Call,
    Media,
    Other,
    Part,
    Reasoning,
    Speaker,
    Step,
    Text,
    answer_text,
    is_blank,
)

REFUSED = "the service would refuse it"
TEXT_FIRST = "text behind a call of the same answer goes before the calls"


def take_rest(step: Step, parts: list[Part], why: str, target: Target) -> None:
    """Take from a form that is not sent the arguments as the model wrote them, and its name."""
    beside = [part for part in parts if not isinstance(part, Text | Call | Speaker)]
    others = [name_of(part) for part in beside if not _told(part)]
    others += [what for part in parts if isinstance(part, Call) for what in part.extras]
    runs = [name_of(part) for part in beside if _told(part)]
    for names, becomes in ((others, "left out"), (runs, "told in words")):
        if names:
            said = ", ".join(dict.fromkeys(names))
            target.report("native", step.at, f"{said} of this answer {becomes}: {why}")
    if any("\0" in part.text for part in parts if isinstance(part, Text)):
        target.report("data", step.at, "U+0000 in this answer is U+FFFD, as in the log")
    if not others and why == REFUSED and _has_words_behind_a_call(parts):
        target.report("order", step.at, TEXT_FIRST)
    _take_arguments(step, parts)
    for part in parts:
        if isinstance(part, Speaker):
            _take_name(step, part.name, target)


def _take_arguments(step: Step, parts: list[Part]) -> None:
    """Give calls their arguments as the model wrote them. Those without ids are known by their order."""
    written: dict[tuple[str, str | None], list[Call]] = {}
    for part in parts:
        if isinstance(part, Call):
            written.setdefault((part.name, part.id or None), []).append(part)
    for call in step.calls:
        found = written.get((call.name, call.key)) or written.get((call.name, None))
        if not found:
            continue
        same = found.pop(0)
        if same.is_sound and same.arguments == call.arguments:
            call.text = call.text or (same.text if same.text and same.text.strip() else None)


def tell_runs(step: Step, parts: list[Part]) -> None:
    """Put what the service's own tools did into words: where it was in the answer if the answer is unchanged,
    otherwise before it."""
    if not any(map(_told, parts)):
        return
    if not is_same(answer_text(parts), "".join(step.texts)):
        step.texts[:0] = filter(None, map(_told, parts))
        return
    step.texts = [""]
    for part in parts:
        if _told(part):
            step.texts += [_told(part), ""]
        elif isinstance(part, Text):
            step.texts[-1] += part.text.replace("\0", "\ufffd")


def _told(part: Part) -> str:
    return part.told if isinstance(part, Other) else ""


def _has_words_behind_a_call(parts: list[Part]) -> bool:
    first = next((index for index, part in enumerate(parts) if isinstance(part, Call)), len(parts))
    return any(isinstance(part, Text) and not is_blank(part.text) for part in parts[first:])


def _take_name(step: Step, speaker: str, target: Target) -> None:
    """Put the name of a model among several in its field, or before its text; beside calls, it is left
    out."""
    if step.texts or target.format.has_speakers:
        kept: list[Any] = step.texts[:1]
        step.name = named(speaker, kept, target, step.at)
        step.texts[:1] = kept
    else:
        why = f"{target.format.name} has no place for the name {speaker!r}: it is left out"
        target.report("native", step.at, why)


def named(speaker: str, kept: list[Any], target: Target, at: int | None) -> str | None:
    """The name of the speaker for its field; without such a field, it is put before the text."""
    if target.format.has_speakers:
        return speaker
    first = next((index for index, part in enumerate(kept) if isinstance(part, str)), None)
    if first is None:
        kept.insert(0, f"{speaker}:")
    else:
        kept[first] = f"{speaker}: {kept[first]}"
    why = (
        f"{target.format.name} has no place for the name {speaker!r}: it goes in front of the text"
    )
    target.report("native", at, why)
    return None


def name_of(part: Part) -> str:
    """The name of a part in a repair."""
    match part:
        case Other(what=what) | Reasoning(what=what):
            return what
        case Media(kind=kind):
            return kind
    return type(part).__name__.lower()


def is_same(said: str, text: str) -> bool:
    """Whether a form has the text of its event, which cannot contain U+0000."""
    return (
        said == text or (is_blank(said) and is_blank(text)) or said.replace("\0", "\ufffd") == text
    )
