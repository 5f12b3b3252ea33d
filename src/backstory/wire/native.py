"""Provider-native content: what is kept in `data["native"]`, and when it is sent again.

    {"provider": "anthropic", "model": "…", "wire": <the provider's own form of the message>}

What came from a provider is sent back to it unchanged, unless a recording shows that it refuses it. An answer
is sent back only to the model that gave it, and only if its form still matches the events. For other
providers, media are translated, and what they do not understand is left out and reported.
"""

from collections.abc import Iterator
from typing import Any

from backstory.errors import Invalid
from backstory.wire.formats.base import Form, Format
from backstory.wire.json_values import is_json
from backstory.wire.leftovers import REFUSED, is_same, name_of, named, take_rest, tell_runs
from backstory.wire.media import (
    AN,
    OWN,
    as_words,
    describe_lost_media,
    is_sound,
    pad_part,
    read_own_form,
)
from backstory.wire.origin import SAME_IDS, UNNAMED, UNPADDED, Native
from backstory.wire.target import Target
from backstory.wire.turns import (
    BETWEEN,
    Call,
    Media,
    MessageTurn,
    Other,
    Part,
    Reasoning,
    Result,
    Speaker,
    Step,
    StepCall,
    StepResult,
    Text,
    answer_text,
    is_blank,
    text_of,
)

UNSHOWN = "(output that cannot be shown here)"


# --- what was said ---


def settle_message(message: MessageTurn, native: Native, target: Target) -> None:
    """Restore the form of a message, or translate as much of it as possible."""
    parts = _parts(message.role, native, target, message.at)
    if parts is None:
        return
    if not is_same(text_of(parts), message.text):
        target.report(
            "native",
            message.at,
            "its native content no longer says what the message says: left out",
        )
        return
    message.is_own = target.is_home_of(native)
    if native.provider == target.format.name and _goes_back(
        message.role, parts, native, target.format
    ):
        message.wire = _form(native.wire, target, message.at)
        return
    # System text is text in every other format: "system.0.type: Input should be 'text'" (Anthropic).
    kept = _translated(
        parts, target, message.at, in_result=False, words_only=message.role == "system"
    )
    speaker = next((part.name for part in parts if isinstance(part, Speaker)), None)
    if speaker is not None and len(parts) > 1:
        message.name = named(speaker, kept, target, message.at)
    message.content, message.text = _content(kept, message.text, target)
    if not kept and is_blank(message.text):
        message.text = describe_lost_media(parts)


# --- results ---


def settle_result(call: StepCall, result: StepResult, native: Native, target: Target) -> None:
    """The same for a result; its form also has to name its call as the request does."""
    match _parts("result", native, target, result.at):
        case None:
            return
        case [Result() as read] if is_same(read.text, result.text):
            parts = list(read.content or ())
        case _:
            target.report(
                "native",
                result.at,
                "its native content no longer says what the result says: left out",
            )
            return
    is_mine = native.provider == target.format.name and _answers(read, call, result, target.format)
    # "content cannot be empty if `is_error` is true" (Anthropic), "cannot be empty when status value is
    # error" (Bedrock): else a result may be empty.
    is_taken = not result.error and (target.format.takes_empty_results or target.is_home_of(native))
    is_mine = is_mine and (bool(parts) or is_taken)
    if is_mine and _goes_back("result", parts, native, target.format):
        form = _form(native.wire, target, result.at)
        is_known = (read.id or "") == call.id or (
            UNNAMED in native.took and target.is_home_of(native)
        )
        result.wire = form if is_known else target.format.rename_result(form, call.id)
        return
    # A failed result is only text, in every format that allows more in a result.
    kept = _translated(
        parts, target, result.at, in_result=True, words_only=result.error or bool(call.kind)
    )
    content, result.text = _content(kept, result.text, target)
    if target.format.media_after_results:
        result.extra = content and [
            block for block in content if block != target.format.write_text(result.text)
        ]
    else:
        result.content = content
    if not kept and is_blank(result.text) and not all(isinstance(part, Text) for part in parts):
        result.text = describe_lost_media(parts) or UNSHOWN


def _answers(read: Result, call: StepCall, result: StepResult, format: Format) -> bool:
    """Whether the form of a result fits its call as it is sent: id, name, kind of tool, and error flag."""
    return (
        ((read.id or "") == call.id or bool(call.id))
        and read.name in (None, call.name)
        and read.is_error in (None, result.error)
        and (read.kind == call.kind or read.kind == _written_kind(call.kind, format))
    )


def _written_kind(kind: str, format: Format) -> str:
    """The kind of result that the format writes for a kind of call."""
    [result] = format.read_form(
        "result", format.write_result("id", "name", "text", False, kind), ""
    )
    return result.kind if isinstance(result, Result) else kind


# --- answers of a model ---


def settle_step(step: Step, target: Target, taken: set[str]) -> None:
    """The same for an answer of the model: the whole step unchanged, or only its text and calls. `taken` are
    the ids of earlier calls."""
    natives = [piece.native for piece in step.pieces or () if piece.native is not None]
    is_own = all(map(target.is_home_of, natives))
    is_same = is_named = False
    if is_own:
        for form in _whole_forms(step, natives, target.format):
            parts = _parts("step", natives[0]._replace(wire=form), target, step.at)
            if parts is None:
                return
            is_now = _is_untouched(
                step, parts, target.format, set() if SAME_IDS in step.took else taken
            )
            is_same = is_same or is_now
            is_named = is_named or UNNAMED in step.took or _has_ids(parts, target.format)
            goes_back = is_now and is_named and _goes_back("step", parts, natives[0], target.format)
            if goes_back and _is_answerable(parts, step, target):
                _replay(step, form, parts, target)
                return
    why = "it belongs to another provider or model"
    if is_own:
        why = REFUSED if is_same else "the step is not as it was"
        if is_same and not is_named:
            target.report(
                "native", step.at, "a call has no id in its native content: the log's id goes"
            )
    found = [_parts("step", native, target, step.at) or [] for native in natives]
    for parts in found:
        take_rest(step, parts, why, target)
    tell_runs(step, [part for parts in found for part in parts])


def _whole_forms(step: Step, natives: list[Native], format: Format) -> list[Form]:
    """What the answer looked like: the forms of its events together (often the first has it all), or these
    and those that the other events would be given."""
    whole = format.join_forms([native.wire for native in natives])
    pieces = step.pieces or ()
    ours = [piece.call for piece in pieces if piece.native is None and piece.call is not None]
    if len(natives) == len(pieces) or not all(_is_legal(call, format) for call in ours):
        return [] if whole is None else [whole]
    forms: list[Form] = []
    texts: list[str] = []
    calls: list[Any] = []
    for piece in pieces:
        if piece.native is not None:
            before = format.write_answer(texts, calls, None) if texts or calls else None
            forms += _with_words(before, piece.native.wire, format, is_first=not forms)
            texts, calls = [], []
        elif piece.call is not None:
            calls.append(
                format.write_call(
                    piece.call.key or "", piece.call.name, piece.call.arguments, piece.call.text
                )
            )
        else:
            texts.append(piece.text or "")
    if texts or calls:
        forms.append(format.write_answer(texts, calls, None))
    return [form for form in (whole, format.join_forms(forms)) if form is not None]


def _with_words(before: Form | None, wire: Form, format: Format, *, is_first: bool) -> list[Form]:
    """What the log says before a native form, and that form. Thinking at the beginning of the answer stays
    there: "a final `assistant` message must start with a thinking block" (Anthropic)."""
    if before is None:
        return [wire]
    return format.put_before(before, wire) if is_first else [before, wire]


def _is_legal(call: StepCall, format: Format) -> bool:
    """Whether a call can be sent with the id and the name that it has in the log."""
    is_named = format.tool_names.fullmatch(call.name) is not None
    return is_named and (
        format.call_ids is None or format.call_ids.fullmatch(call.key or "") is not None
    )


def _is_untouched(step: Step, parts: list[Part], format: Format, taken: set[str]) -> bool:
    calls = [part for part in parts if isinstance(part, Call)]
    ids = [part.id for part in calls if part.id]
    texts, blank = (
        "".join(step.texts),
        any(piece.native and piece.call for piece in step.pieces or ()),
    )
    # Blank text in a form that is kept with a call is not in any event.
    words = [
        part for part in parts if not (blank and isinstance(part, Text) and is_blank(part.text))
    ]
    return (
        (is_same(answer_text(parts), texts) or is_same(answer_text(words), texts))
        and len(calls) == len(step.calls)
        and (format.call_ids is None or (len(set(ids)) == len(ids) and taken.isdisjoint(ids)))
        and all(
            (not part.id or part.id == call.key)
            and (part.name, part.arguments) == (call.name, call.arguments)
            for part, call in zip(calls, step.calls, strict=True)
        )
    )


def _has_ids(parts: list[Part], format: Format) -> bool:
    """Whether each call has an id, if it needs one."""
    return format.call_ids is None or not any(
        isinstance(part, Call) and part.id == "" for part in parts
    )


def _is_answerable(parts: list[Part], step: Step, target: Target) -> bool:
    """Whether each call has a result in the form that its kind needs, or can get one."""
    calls = (part for part in parts if isinstance(part, Call))
    return all(
        part.kind in target.format.call_kinds
        or call.result is None
        or (call.result.native is not None and call.result.native.provider == target.format.name)
        for part, call in zip(calls, step.calls, strict=True)
    )


def _replay(step: Step, form: Form, parts: list[Part], target: Target) -> None:
    """Send an answer as it was. Its calls have the ids of the form, where those are optional, and its kind
    of tool, so that results fit them."""
    step.wire = _form(form, target, step.at) or None
    calls = (part for part in parts if isinstance(part, Call))
    for part, call in zip(calls, step.calls, strict=True):
        call.id = part.id or (
            "" if part.id is not None or target.format.call_ids is None else call.id
        )
        call.kind = part.kind


# --- forms and parts ---


def _form(wire: Form, target: Target, at: int | None) -> Form:
    form, whys = target.format.repair_form(wire, target.stored)
    for why in whys:
        target.report("native", at, why)
    return form if target.packed else target.format.unpack_form(form)


def _parts(role: str, native: Native, target: Target, at: int | None) -> list[Part] | None:
    provider = target.formats.get(native.provider)
    if provider is None and native.provider != OWN:
        target.report(
            "native", at, f"native content of {native.provider!r}, an unknown format: left out"
        )
        return None
    try:
        if provider is None:
            parts = read_own_form(native.wire, "native.wire")
        else:
            parts = provider.read_form(role, native.wire, "native.wire")
    except Invalid as error:
        target.report(
            "native", at, f"its native content is not of its format, so it is left out: {error}"
        )
        return None
    if role != "step" and any(isinstance(part, Call) for part in parts):
        target.report(
            "native", at, f"native content with a call in it is not that of a {role}: left out"
        )
        return None
    return list(map(pad_part, parts)) if UNPADDED in native.took else parts


def _goes_back(role: str, parts: list[Part], native: Native, format: Format) -> bool:
    """Whether a form can be sent unchanged: it is not broken, and no recording shows that it is refused."""
    return (
        (role == "result" or not all(isinstance(part, Speaker) for part in parts))
        and all(_is_whole(part, is_known=native.model is not None) for part in parts)
        and not format.find_refusal(role, parts, native.model)
    )


def _is_whole(part: Part, is_known: bool) -> bool:
    match part:
        case Media():
            return is_sound(part)
        case Other(complete=complete) | Reasoning(is_complete=complete):
            return complete
        case Result():
            return False
        # Compatible servers refuse what is not JSON: "Expecting ',' delimiter" (OpenHands sdk#2887). Other
        # JSON than an object was taken from the model that wrote it: "[]" by OpenAI, "null" by Groq.
        case Call(is_sound=False, text=text):
            return is_known and is_json(text)
    return True


def _translated(
    parts: list[Part], target: Target, at: int | None, *, in_result: bool, words_only: bool = False
) -> list[Any]:
    """Words as text and media as blocks, as far as the format can carry them; the rest is reported."""
    kept: list[Any] = []
    lost: list[str] = []
    broken: list[str] = []
    for part in parts:
        if isinstance(part, Text):
            kept.extend([] if is_blank(part.text) else [part.text])
        elif isinstance(part, Media) and (
            block := _block(part, target.format, in_result, words_only)
        ):
            kept.append(block)
            lost.extend([] if words_only else _unsaid(part, target.format))
        elif not isinstance(part, Speaker):
            (lost if _is_usable(part) else broken).append(name_of(part))
            if target.placeholders:
                kept.extend(filter(None, [describe_lost_media([part])]))
    for names, why in (
        (lost, f"{target.format.name} has no such thing here"),
        (broken, "it is broken"),
    ):
        if names:
            target.report("native", at, f"{', '.join(dict.fromkeys(names))} left out: {why}")
    return kept


def _block(part: Media, format: Format, in_result: bool, words_only: bool) -> Any:
    """Media as a format has them; None for what it cannot carry."""
    if not _is_usable(part):
        return None
    return as_words(part) if words_only else format.write_media(part, in_result)


def _is_usable(part: Part) -> bool:
    """Whether a part is complete, so that its own provider would take it."""
    match part:
        case Media(text=text):
            return is_sound(part) and (text is None or not is_blank(text))
        case Other(complete=complete) | Reasoning(is_complete=complete):
            return complete
    return True


def _unsaid(part: Media, format: Format) -> Iterator[str]:
    """What a format cannot say about the media that it supports."""
    if (
        part.name and part.kind == "document" and not format.can_name_file(part)
    ):  # no format names an image
        yield f"the name {part.name!r}"
    if part.detail and not (part.kind == "image" and format.has_detail):
        yield f"the detail {part.detail!r} of {AN[part.kind]}"


def _content(kept: list[Any], text: str, target: Target) -> tuple[list[Any] | None, str]:
    """Blocks if there is media; otherwise only the text."""
    if all(isinstance(part, str) for part in kept):
        return None, BETWEEN.join(kept) or text
    blocks = [target.format.write_text(part) if isinstance(part, str) else part for part in kept]
    return (blocks if target.packed else target.format.unpack_form(blocks)), text
