"""Translates native content: its parts in the form of another provider, or of another model.

Media are translated. What the provider does not understand is left out and reported.
"""

from collections.abc import Iterator

from backstory.wire.context import RequestContext
from backstory.wire.fields import WrongField
from backstory.wire.formats import read_native_form
from backstory.wire.formats.base import Format
from backstory.wire.media import (
    AN,
    OWN,
    as_words,
    describe_lost_media,
    is_sound,
    pad_part,
)
from backstory.wire.turns import (
    Accepted,
    AnswerTurn,
    Call,
    Media,
    MessageTurn,
    Native,
    Other,
    Part,
    Reasoning,
    Result,
    Speaker,
    Text,
    answer_text,
    find_calls,
    is_blank,
    make_result,
    text_of,
)

NOT_SHOWN = "(output that cannot be shown here)"
TEXT_FIRST = "text after a call of the same answer goes before the calls"
# The kinds of calls that are functions in every format. The second is OpenAI's older form.
FUNCTION_KINDS = frozenset({"", "function"})
# Reasons for which an answer does not go back in its own form.
REFUSED = "the service would refuse it"
NO_ID = "a call has no id in its native content: the log's id goes"
UNREADABLE = "its native content cannot be read"


def read_form(
    role: str, native: Native, position: int | None, request: RequestContext
) -> list[Part] | None:
    """Return the parts of a form; None if it cannot be read, which is reported."""
    try:
        parts = read_native_form(native.provider, role, native.form)
    except WrongField as error:
        problem = error.move_into("native.wire")
        why = f"its native content is not of its format, so it is left out: {problem}"
        request.report("native", position, why)
        return None
    if parts is None:
        why = f"native content of {native.provider!r}, an unknown format: left out"
        request.report("native", position, why)
        return None
    if role != "answer" and find_calls(parts):
        why = f"native content with a call in it is not that of a {role}: left out"
        request.report("native", position, why)
        return None
    if native.provider == OWN and role == "result":
        parts = [make_result(None, parts, None)]
    if native.accepted and Accepted.UNPADDED in native.accepted:
        return list(map(pad_part, parts))
    return parts


def is_same_text(read: str, text: str) -> bool:
    """Return True if a form has the text of its event, which cannot contain U+0000."""
    if read == text or (is_blank(read) and is_blank(text)):
        return True
    return read.replace("\0", "\ufffd") == text


# --- parts ---


def translate_parts(
    parts: list[Part],
    position: int | None,
    request: RequestContext,
    *,
    in_result: bool = False,
    text_only: bool = False,
) -> list[Part]:
    """Return text and media as far as the format can carry them; report the rest."""
    kept: list[Part] = []
    lost: list[str] = []
    broken: list[str] = []
    for part in parts:
        if isinstance(part, Speaker) or is_blank_text(part):
            continue
        carried = carry_part(part, request.format, in_result=in_result, text_only=text_only)
        if carried is not None:
            kept.append(carried)
            if isinstance(part, Media) and not text_only:
                lost += name_lost_details(part, request.format)
            continue
        if is_usable(part):
            lost.append(name_part(part))
        else:
            broken.append(name_part(part))
        if request.placeholders:
            kept += make_placeholder(part)
    why = f"left out: {request.format.name} has no such thing here"
    report_parts(lost, why, position, request)
    report_parts(broken, "left out: it is broken", position, request)
    return kept


def make_placeholder(part: Part) -> list[Part]:
    """Return a text to send in place of media; none for a part that is not media."""
    words = describe_lost_media([part])
    return [Text(words)] if words else []


def report_parts(names: list[str], why: str, position: int | None, request: RequestContext) -> None:
    """Report what happened to parts with these names, if there are any."""
    if names:
        what = ", ".join(dict.fromkeys(names))
        request.report("native", position, f"{what} {why}")


def is_blank_text(part: Part) -> bool:
    """Return True if a part is blank text."""
    return isinstance(part, Text) and is_blank(part.text)


def carry_part(part: Part, format: Format, *, in_result: bool, text_only: bool) -> Part | None:
    """Return text, or media as the format can carry them: as media, or in words; None if it
    cannot."""
    if isinstance(part, Text):
        return part
    if not isinstance(part, Media) or not is_usable(part):
        return None
    written = as_words(part) if text_only else format.write_media(part, in_result)
    if not written:
        return None
    return Text(written) if isinstance(written, str) else part


def is_usable(part: Part) -> bool:
    """Return True if a part is complete, so that its own provider would take it."""
    match part:
        case Media(text=text):
            return is_sound(part) and (text is None or not is_blank(text))
        case Other(is_complete=is_complete) | Reasoning(is_complete=is_complete):
            return is_complete
    return True


def name_lost_details(part: Media, format: Format) -> Iterator[str]:
    """Yield what a format cannot express about media that it carries."""
    # No format names an image.
    if part.name and part.kind == "document" and not format.can_name_file(part):
        yield f"the name {part.name!r}"
    if part.detail and not (part.kind == "image" and format.has_detail):
        yield f"the detail {part.detail!r} of {AN[part.kind]}"


def get_words(part: Part) -> str:
    """Return the text for other providers of what a service's tool did; "" if there is none."""
    return part.words if isinstance(part, Other) else ""


def name_part(part: Part) -> str:
    """Return the name of a part in a repair."""
    match part:
        case Other(what=what) | Reasoning(what=what):
            return what
        case Media(kind=kind):
            return kind
    return type(part).__name__.lower()


# --- messages and results ---


def translate_message(
    message: MessageTurn, parts: list[Part], request: RequestContext
) -> MessageTurn:
    """Return a message with the parts of its form that the format can carry."""
    # System text is text in every other format: "system.0.type: Input should be 'text'"
    # (Anthropic).
    is_system = message.role == "system"
    content = translate_parts(parts, message.position, request, text_only=is_system)
    message = add_speaker(message, parts, content, request)
    text = message.text
    if not content and is_blank(text):
        text = describe_lost_media(parts)
    media, text = separate_text(content, text)
    return message.replace(content=media, text=text)


def add_speaker(
    message: MessageTurn, parts: list[Part], content: list[Part], request: RequestContext
) -> MessageTurn:
    """Return a message with the name of its speaker, which is in `parts`; change `content` if the
    format has no field for it."""
    speakers = [part.name for part in parts if isinstance(part, Speaker)]
    if not speakers or len(parts) == 1:
        return message
    if request.format.has_speakers:
        return message.replace(speaker=speakers[0])
    put_speaker_first(speakers[0], content, message.position, request)
    return message


def put_speaker_first(
    speaker: str, content: list[Part], position: int | None, request: RequestContext
) -> None:
    """Put the name of the speaker before the first text in `content`."""
    name = request.format.name
    why = f"{name} has no place for the name {speaker!r}: it goes before the text"
    request.report("native", position, why)
    for index, part in enumerate(content):
        if isinstance(part, Text):
            content[index] = Text(f"{speaker}: {part.text}")
            return
    content.insert(0, Text(f"{speaker}:"))


def translate_result(
    call: Call, result: Result, parts: list[Part], request: RequestContext
) -> Result:
    """Return a result with the parts of its form that the format can carry."""
    # A failed result is only text, in every format that allows more in a result.
    text_only = bool(result.is_error or call.kind)
    content = translate_parts(parts, result.position, request, in_result=True, text_only=text_only)
    text = result.text
    has_more = any(not isinstance(part, Text) for part in parts)
    if not content and is_blank(text) and has_more:
        text = describe_lost_media(parts) or NOT_SHOWN
    media, text = separate_text(content, text)
    return result._replace(content=media, text=text)


def separate_text(content: list[Part], text: str) -> tuple[tuple[Part, ...] | None, str]:
    """Return the parts of a content if there are media among them, and its text; `text` if it has
    none."""
    if any(isinstance(part, Media) for part in content):
        return tuple(content), text
    return None, text_of(content) or text


# --- answers ---


def translate_answer(answer: AnswerTurn, reason: str, request: RequestContext) -> AnswerTurn:
    """Return an answer with what can be used of its native content: what the service's tools did,
    the arguments as the model wrote them, and the name of the model among several."""
    if reason == UNREADABLE:  # this is reported already
        return answer
    if reason == NO_ID:
        request.report("native", answer.position, NO_ID)
    found: list[Part] = []
    for native in answer.list_natives():
        parts = read_form("answer", native, answer.position, request) or []
        report_lost_parts(answer, parts, reason, request)
        report_other_tools(answer, parts, reason, request)
        answer = answer.replace(calls=take_arguments(answer.calls, parts))
        for part in parts:
            if isinstance(part, Speaker):
                answer = take_speaker(answer, part.name, request)
        found += parts
    return answer.replace(texts=describe_runs(answer.texts, found))


def report_lost_parts(
    answer: AnswerTurn, parts: list[Part], reason: str, request: RequestContext
) -> None:
    """Report what is left out of an answer, and what is described in words."""
    lost: list[str] = []
    runs: list[str] = []
    for part in parts:
        if isinstance(part, Call):
            lost += part.extras
        elif get_words(part):
            runs.append(name_part(part))
        elif not isinstance(part, (Text, Speaker)):
            lost.append(name_part(part))
    report_parts(lost, f"of this answer left out: {reason}", answer.position, request)
    report_parts(runs, f"of this answer described in words: {reason}", answer.position, request)
    if "\0" in answer_text(parts):
        why = "U+0000 in this answer is U+FFFD, as in the log"
        request.report("data", answer.position, why)
    if not lost and reason in (REFUSED, NO_ID) and has_text_after_call(parts):
        request.report("order", answer.position, TEXT_FIRST)


def report_other_tools(
    answer: AnswerTurn, parts: list[Part], reason: str, request: RequestContext
) -> None:
    """Report calls of tools that are not functions, such as a shell."""
    kinds = [call.kind for call in find_calls(parts) if call.kind not in FUNCTION_KINDS]
    why = f"of this answer written as a function: {reason}"
    report_parts(kinds, why, answer.position, request)


def has_text_after_call(parts: list[Part]) -> bool:
    """Return True if there is text after a call."""
    is_called = False
    for part in parts:
        if isinstance(part, Call):
            is_called = True
        elif is_called and isinstance(part, Text) and not is_blank(part.text):
            return True
    return False


def take_arguments(calls: list[Call], parts: list[Part]) -> list[Call]:
    """Return calls with their arguments as the model wrote them. Calls without ids are known by
    their order."""
    written: dict[tuple[str, str | None], list[Call]] = {}
    for part in parts:
        if isinstance(part, Call):
            written.setdefault((part.name, part.id or None), []).append(part)
    changed: list[Call] = []
    for call in calls:
        found = written.get((call.name, call.id)) or written.get((call.name, None))
        changed.append(take_text(call, found.pop(0)) if found else call)
    return changed


def take_text(call: Call, read: Call) -> Call:
    """Return a call with the text of its arguments in a form, if the form has the same
    arguments."""
    if call.text or is_blank(read.text or ""):
        return call
    if not read.is_sound or read.arguments != call.arguments:
        return call
    return call._replace(text=read.text)


def take_speaker(answer: AnswerTurn, speaker: str, request: RequestContext) -> AnswerTurn:
    """Return an answer with the name of a model among several: in its field, or before its text.
    Beside calls it is left out."""
    if request.format.has_speakers:
        return answer.replace(speaker=speaker)
    if not answer.texts:
        name = request.format.name
        why = f"{name} has no place for the name {speaker!r}: it is left out"
        request.report("native", answer.position, why)
        return answer
    content: list[Part] = [Text(answer.texts[0])]
    put_speaker_first(speaker, content, answer.position, request)
    return answer.replace(texts=[text_of(content), *answer.texts[1:]])


def describe_runs(texts: list[str], parts: list[Part]) -> list[str]:
    """Return texts with words for what the service's own tools did: where it was in the answer if
    the answer is unchanged, otherwise before it."""
    runs = [words for words in map(get_words, parts) if words]
    if not runs:
        return texts
    if not is_same_text(answer_text(parts), "".join(texts)):
        return [*runs, *texts]
    described = [""]
    for part in parts:
        if get_words(part):
            described += [get_words(part), ""]
        elif isinstance(part, Text):
            described[-1] += part.text.replace("\0", "\ufffd")
    return described
