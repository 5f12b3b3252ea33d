"""Native content: a provider's own form goes back to it, or is translated for another one.

    data["native"] = {"provider": "anthropic", "model": "…", "wire": <the provider's own form>}

What came from a provider goes back to it unchanged, unless a recording shows that it refuses it. An answer goes
back only to the model that gave it, and only if its form still matches the log. For other providers, media are
translated, and what they do not understand is left out and reported.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from backstory.errors import Invalid
from backstory.wire.formats.base import Format
from backstory.wire.json_values import is_json
from backstory.wire.media import (
    AN,
    OWN,
    as_words,
    describe_lost_media,
    is_sound,
    pad_part,
    read_own_form,
)
from backstory.wire.turns import (
    Accepted,
    AnswerTurn,
    Call,
    Form,
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
    is_blank,
    text_of,
)

if TYPE_CHECKING:
    from backstory.wire.request import RequestBuilder

NOT_SHOWN = "(output that cannot be shown here)"
TEXT_FIRST = "text behind a call of the same answer goes before the calls"
# The reasons for which an answer does not go back in its own form.
FOREIGN = "it belongs to another provider or model"
CHANGED = "the step is not as it was"
REFUSED = "the service would refuse it"
NO_ID = "a call has no id in its native content: the log's id goes"
UNREADABLE = "its native content cannot be read"


# --- messages ---


def choose_message_form(
    message: MessageTurn, native: Native, request: "RequestBuilder"
) -> MessageTurn:
    """Return a message in its provider's own form, or with as much of it as the format can carry."""
    parts = read_form(message.role, native, message.position, request)
    if parts is None:
        return message
    if not is_same_text(text_of(parts), message.text):
        why = "its native content no longer says what the message says: left out"
        request.report("native", message.position, why)
        return message
    is_own = native.provider == request.format.name
    if is_own and not is_refused(message.role, parts, native, request.format):
        return message._replace(form=repair_form(native.form, message.position, request))
    # System text is text in every other format: "system.0.type: Input should be 'text'" (Anthropic).
    is_system = message.role == "system"
    content = translate_parts(parts, message.position, request, text_only=is_system)
    message = add_speaker(message, parts, content, request)
    text = message.text
    if not content and is_blank(text):
        text = describe_lost_media(parts)
    if any(isinstance(part, Media) for part in content):
        return message._replace(content=tuple(content), text=text)
    return message._replace(text=text_of(content) or text)


def add_speaker(
    message: MessageTurn, parts: list[Part], content: list[Part], request: "RequestBuilder"
) -> MessageTurn:
    """Return a message with the name of its speaker, which is in `parts`; change `content` if the format has
    no field for it."""
    speakers = [part.name for part in parts if isinstance(part, Speaker)]
    if not speakers or len(parts) == 1:
        return message
    if request.format.has_speakers:
        return message._replace(speaker=speakers[0])
    put_speaker_first(speakers[0], content, message.position, request)
    return message


def put_speaker_first(
    speaker: str, content: list[Part], position: int | None, request: "RequestBuilder"
) -> None:
    """Put the name of the speaker before the first text in `content`."""
    name = request.format.name
    why = f"{name} has no place for the name {speaker!r}: it goes in front of the text"
    request.report("native", position, why)
    for index, part in enumerate(content):
        if isinstance(part, Text):
            content[index] = Text(f"{speaker}: {part.text}")
            return
    content.insert(0, Text(f"{speaker}:"))


# --- results ---


def choose_result_form(
    call: Call, result: Result, native: Native, request: "RequestBuilder"
) -> Result:
    """Return a result in its provider's own form, or with as much of it as the format can carry."""
    parts = read_form("result", native, result.position, request)
    if parts is None:
        return result
    read = parts[0] if len(parts) == 1 else None
    if not isinstance(read, Result) or not is_same_text(read.text, result.text):
        why = "its native content no longer says what the result says: left out"
        request.report("native", result.position, why)
        return result
    if not goes_result_back(call, result, read, native, request):
        return translate_result(call, result, list(read.content or ()), request)
    form = repair_form(native.form, result.position, request)
    is_unnamed = Accepted.UNNAMED in native.accepted and request.is_home_of(native)
    if (read.id or "") != call.id and not is_unnamed:
        form = request.format.rename_result(form, call.id or "")
    return result._replace(form=form)


def translate_result(
    call: Call, result: Result, parts: list[Part], request: "RequestBuilder"
) -> Result:
    """Return a result with the parts of its form that the format can carry."""
    # A failed result is only text, in every format that allows more in a result.
    text_only = bool(result.is_error or call.kind)
    content = translate_parts(parts, result.position, request, in_result=True, text_only=text_only)
    text = result.text
    has_more = any(not isinstance(part, Text) for part in parts)
    if not content and is_blank(text) and has_more:
        text = describe_lost_media(parts) or NOT_SHOWN
    if any(isinstance(part, Media) for part in content):
        return result._replace(content=tuple(content), text=text)
    return result._replace(text=text_of(content) or text)


def goes_result_back(
    call: Call, result: Result, read: Result, native: Native, request: "RequestBuilder"
) -> bool:
    """Return True if the form of a result can be sent. `read` is what its form contains."""
    format = request.format
    if native.provider != format.name or not fits_call(call, result, read, format):
        return False
    parts = list(read.content or ())
    # "content cannot be empty if `is_error` is true" (Anthropic), "cannot be empty when status value is
    # error" (Bedrock): else a result may be empty.
    if not parts and (
        result.is_error or not (format.takes_empty_results or request.is_home_of(native))
    ):
        return False
    return not is_refused("result", parts, native, format)


def fits_call(call: Call, result: Result, read: Result, format: Format) -> bool:
    """Return True if the form of a result fits its call: id, name, error flag, and kind of tool."""
    if (read.id or "") != call.id and not call.id:
        return False
    if read.name not in (None, call.name) or read.is_error not in (None, result.is_error):
        return False
    return read.kind == call.kind or read.kind == find_written_kind(call.kind, format)


def find_written_kind(kind: str, format: Format) -> str:
    """Return the kind of result that the format writes for a kind of call."""
    form = format.write_result(Call("id", "name", {}, kind=kind), Result("id", "text"))
    [result] = format.read_form("result", form, "")
    return result.kind if isinstance(result, Result) else kind


# --- answers ---


class NativeDecision(NamedTuple):
    """The form in which an answer goes back to its provider, or the reason why it does not."""

    form: Form | None
    reason: str
    parts: list[Part]


def choose_native_form(
    answer: AnswerTurn, natives: list[Native], taken: set[str], request: "RequestBuilder"
) -> NativeDecision:
    """Return the first form of `answer` that its provider takes back. `taken` are the ids of earlier calls."""
    for native in natives:
        if not request.is_home_of(native):
            return NativeDecision(None, FOREIGN, [])
    if Accepted.SAME_IDS in answer.accepted:
        taken = set()
    reason = CHANGED
    is_unnamed = Accepted.UNNAMED in answer.accepted
    for form in list_native_forms(answer, natives, request.format):
        native = natives[0]
        if form is not native.form:
            native = native._replace(form=form)
        parts = read_form("step", native, answer.position, request)
        if parts is None:
            return NativeDecision(None, UNREADABLE, [])
        if not matches_log(answer, parts, taken, request.format):
            continue
        if answer.calls and not (has_ids(parts, request.format) or is_unnamed):
            reason = NO_ID
            continue
        reason = REFUSED
        if is_refused("step", parts, native, request.format):
            continue
        if not answer.calls or is_answerable(parts, answer, request.format):
            return NativeDecision(form, "", parts)
    return NativeDecision(None, reason, [])


def list_natives(answer: AnswerTurn) -> list[Native]:
    """Return the native content of an answer's events."""
    return [piece for piece in answer.pieces if isinstance(piece, Native)]


def list_native_forms(answer: AnswerTurn, natives: list[Native], format: Format) -> Iterator[Form]:
    """Yield the forms that `answer` may have had.

    Usually the first event has the form of the whole answer, or each event has its own: then they are joined.
    If some events have none, they are written, each at its place.
    """
    whole = format.join_forms([native.form for native in natives])
    if whole is not None:
        yield whole
    if len(answer.pieces) == 2 * len(natives):  # each text and call has a form
        return
    forms = write_missing_forms(answer, format)
    whole = format.join_forms(forms) if forms else None
    if whole is not None:
        yield whole


def write_missing_forms(answer: AnswerTurn, format: Format) -> list[Form]:
    """Return the forms of an answer's events; those that have none are written. Return none if the service
    would refuse a call that was written."""
    forms: list[Form] = []
    missing = AnswerTurn(None, [], [], [], [], [])
    pieces = iter(answer.pieces)
    for piece in pieces:
        if isinstance(piece, Native):
            next(pieces)  # the text or the call that this is the form of
            if not missing.texts and not missing.calls:
                forms.append(piece.form)
                continue
            written = format.write_answer(missing)
            forms += [written, piece.form] if forms else format.put_before(written, piece.form)
            missing = AnswerTurn(None, [], [], [], [], [])
        elif isinstance(piece, str):
            missing.texts.append(piece)
        elif not is_legal_call(piece, format):
            return []
        else:
            missing.calls.append(piece)
    if missing.texts or missing.calls:
        forms.append(format.write_answer(missing))
    return forms


def is_legal_call(call: Call, format: Format) -> bool:
    """Return True if a call can be sent with the id and the name that it has in the log."""
    if not format.tool_names.fullmatch(call.name):
        return False
    return format.call_ids is None or format.call_ids.fullmatch(call.id or "") is not None


def matches_log(answer: AnswerTurn, parts: list[Part], taken: set[str], format: Format) -> bool:
    """Return True if `parts` have the texts and calls of `answer`, and no id that comes twice."""
    if not has_text_of(answer, parts):
        return False
    calls = [part for part in parts if isinstance(part, Call)]
    if len(calls) != len(answer.calls):
        return False
    ids: list[str] = []
    for read, logged in zip(calls, answer.calls, strict=True):
        if read.name != logged.name or read.arguments != logged.arguments:
            return False
        if read.id:
            ids.append(read.id)
            if read.id != logged.id:
                return False
    if format.call_ids is None:
        return True
    return len(set(ids)) == len(ids) and taken.isdisjoint(ids)


def has_text_of(answer: AnswerTurn, parts: list[Part]) -> bool:
    """Return True if `parts` have the text of `answer`."""
    text = "".join(answer.texts)
    if is_same_text(answer_text(parts), text):
        return True
    # Blank text in a form that is kept with a call is not in any event.
    pieces = answer.pieces
    for index, piece in enumerate(pieces):
        if isinstance(piece, Native) and isinstance(pieces[index + 1], Call):
            words = [part for part in parts if isinstance(part, Text) and not is_blank(part.text)]
            return is_same_text(answer_text(words), text)
    return False


def has_ids(parts: list[Part], format: Format) -> bool:
    """Return True if each call has an id, or if the format has no ids."""
    if format.call_ids is None:
        return True
    return not any(isinstance(part, Call) and part.id == "" for part in parts)


def is_answerable(parts: list[Part], answer: AnswerTurn, format: Format) -> bool:
    """Return True if each call has a result in the form that its kind needs, or can get one."""
    calls = [part for part in parts if isinstance(part, Call)]
    for call, result in zip(calls, answer.results, strict=True):
        if call.kind in format.call_kinds or result is None:
            continue
        if result.native is None or result.native.provider != format.name:
            return False
    return True


def send_back(
    answer: AnswerTurn, decision: NativeDecision, request: "RequestBuilder"
) -> AnswerTurn:
    """Return an answer in its provider's own form. Its calls have the ids and kinds of the form, so that
    results fit them."""
    form = repair_form(decision.form, answer.position, request) or None
    if not answer.calls:
        return answer._replace(form=form)
    calls: list[Call] = []
    read_calls = [part for part in decision.parts if isinstance(part, Call)]
    for read, logged in zip(read_calls, answer.calls, strict=True):
        id = read.id
        if id is None:
            id = logged.id if request.format.call_ids is not None else ""
        calls.append(logged._replace(id=id or "", kind=read.kind))
    return answer._replace(form=form, calls=calls)


# --- answers that are written anew ---


def translate_answer(answer: AnswerTurn, reason: str, request: "RequestBuilder") -> AnswerTurn:
    """Return an answer with what can be used of its native content: what the service's tools did, the
    arguments as the model wrote them, and the name of the model among several."""
    if reason == UNREADABLE:  # this is reported already
        return answer
    if reason == NO_ID:
        request.report("native", answer.position, NO_ID)
    found: list[Part] = []
    for native in list_natives(answer):
        parts = read_form("step", native, answer.position, request) or []
        report_lost_parts(answer, parts, reason, request)
        answer = answer._replace(calls=take_arguments(answer.calls, parts))
        for part in parts:
            if isinstance(part, Speaker):
                answer = take_speaker(answer, part.name, request)
        found += parts
    return answer._replace(texts=describe_runs(answer.texts, found))


def report_lost_parts(
    answer: AnswerTurn, parts: list[Part], reason: str, request: "RequestBuilder"
) -> None:
    """Report what is left out of an answer, and what is told in words."""
    lost: list[str] = []
    runs: list[str] = []
    for part in parts:
        if isinstance(part, Call):
            lost += part.extras
        elif not isinstance(part, Text | Speaker):
            (runs if get_words(part) else lost).append(name_part(part))
    for names, change in ((lost, "left out"), (runs, "told in words")):
        if names:
            what = ", ".join(dict.fromkeys(names))
            request.report("native", answer.position, f"{what} of this answer {change}: {reason}")
    if any("\0" in part.text for part in parts if isinstance(part, Text)):
        why = "U+0000 in this answer is U+FFFD, as in the log"
        request.report("data", answer.position, why)
    if not lost and reason in (REFUSED, NO_ID) and has_text_after_call(parts):
        request.report("order", answer.position, TEXT_FIRST)


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
    """Return calls with their arguments as the model wrote them. Calls without ids are known by their order."""
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
    """Return a call with the text of its arguments in a form, if the form has the same arguments."""
    if call.text or is_blank(read.text or ""):
        return call
    if not read.is_sound or read.arguments != call.arguments:
        return call
    return call._replace(text=read.text)


def take_speaker(answer: AnswerTurn, speaker: str, request: "RequestBuilder") -> AnswerTurn:
    """Return an answer with the name of a model among several: in its field, or before its text. Beside calls
    it is left out."""
    if request.format.has_speakers:
        return answer._replace(speaker=speaker)
    if not answer.texts:
        name = request.format.name
        why = f"{name} has no place for the name {speaker!r}: it is left out"
        request.report("native", answer.position, why)
        return answer
    content: list[Part] = [Text(answer.texts[0])]
    put_speaker_first(speaker, content, answer.position, request)
    return answer._replace(texts=[text_of(content), *answer.texts[1:]])


def describe_runs(texts: list[str], parts: list[Part]) -> list[str]:
    """Return texts with words for what the service's own tools did: where it was in the answer if the answer
    is unchanged, otherwise before it."""
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


# --- forms and parts ---


def read_form(
    role: str, native: Native, position: int | None, request: "RequestBuilder"
) -> list[Part] | None:
    """Return the parts of a form; None if it cannot be read, which is reported."""
    provider = request.formats.get(native.provider)
    why = ""
    parts: list[Part] = []
    try:
        if native.provider == OWN:
            parts = read_own_form(native.form, "native.wire")
        elif provider is not None:
            parts = provider.read_form(role, native.form, "native.wire")
        else:
            why = f"native content of {native.provider!r}, an unknown format: left out"
    except Invalid as error:
        why = f"its native content is not of its format, so it is left out: {error}"
    if role != "step" and any(isinstance(part, Call) for part in parts):
        why = f"native content with a call in it is not that of a {role}: left out"
    if why:
        request.report("native", position, why)
        return None
    if Accepted.UNPADDED in native.accepted:
        return list(map(pad_part, parts))
    return parts


def repair_form(form: Form, position: int | None, request: "RequestBuilder") -> Form:
    """Return a form without what the service refused in a recording."""
    form, changes = request.format.repair_form(form, request.stored)
    for why in changes:
        request.report("native", position, why)
    return form


def is_refused(role: str, parts: list[Part], native: Native, format: Format) -> bool:
    """Return True if a form is broken, or if a recording shows that the service refuses it."""
    is_known = native.model is not None
    has_content = role == "result"
    for part in parts:
        if not is_intact(part, is_known=is_known):
            return True
        if not isinstance(part, Speaker):
            has_content = True
    return not has_content or format.find_refusal(role, parts, native.model) != ""


def is_intact(part: Part, *, is_known: bool) -> bool:
    """Return True if the provider takes a part back. `is_known`: the model of the form is known."""
    if isinstance(part, Text | Speaker):
        return True
    if isinstance(part, Reasoning):
        return part.is_complete
    if isinstance(part, Other):
        return part.complete
    if isinstance(part, Media):
        return is_sound(part)
    if isinstance(part, Result):
        return False
    # Compatible servers refuse what is not JSON: "Expecting ',' delimiter" (OpenHands sdk#2887). Other
    # JSON than an object was taken from the model that wrote it: "[]" by OpenAI, "null" by Groq.
    return part.is_sound or (is_known and is_json(part.text))


def translate_parts(
    parts: list[Part],
    position: int | None,
    request: "RequestBuilder",
    *,
    in_result: bool = False,
    text_only: bool = False,
) -> list[Part]:
    """Return text and media as far as the format can carry them; report the rest."""
    kept: list[Part] = []
    lost: list[str] = []
    broken: list[str] = []
    for part in parts:
        if isinstance(part, Text | Speaker):
            if isinstance(part, Text) and not is_blank(part.text):
                kept.append(part)
            continue
        carried = None
        if isinstance(part, Media):
            carried = carry_media(part, request.format, in_result=in_result, text_only=text_only)
        if isinstance(part, Media) and carried is not None:
            kept.append(carried)
            lost += [] if text_only else name_lost_details(part, request.format)
            continue
        (lost if is_usable(part) else broken).append(name_part(part))
        if request.placeholders:
            kept += make_placeholder(part)
    report_left_out(lost, f"{request.format.name} has no such thing here", position, request)
    report_left_out(broken, "it is broken", position, request)
    return kept


def make_placeholder(part: Part) -> list[Part]:
    """Return a text that stands in place of media; none for a part that is not media."""
    words = describe_lost_media([part])
    return [Text(words)] if words else []


def report_left_out(
    names: list[str], reason: str, position: int | None, request: "RequestBuilder"
) -> None:
    """Report parts that are left out, if there are any."""
    if names:
        what = ", ".join(dict.fromkeys(names))
        request.report("native", position, f"{what} left out: {reason}")


def carry_media(
    part: Media, format: Format, *, in_result: bool, text_only: bool
) -> Media | Text | None:
    """Return media as the format can carry them: as media, or in words; None if it cannot."""
    if not is_usable(part):
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
        case Other(complete=is_complete) | Reasoning(is_complete=is_complete):
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
    return part.told if isinstance(part, Other) else ""


def name_part(part: Part) -> str:
    """Return the name of a part in a repair."""
    match part:
        case Other(what=what) | Reasoning(what=what):
            return what
        case Media(kind=kind):
            return kind
    return type(part).__name__.lower()


def is_same_text(read: str, text: str) -> bool:
    """Return True if a form has the text of its event, which cannot contain U+0000."""
    if read == text or (is_blank(read) and is_blank(text)):
        return True
    return read.replace("\0", "\ufffd") == text


# --- names of models ---

# What providers put behind a model's name: a date, "latest", a revision, Bedrock's version, OpenRouter's
# variant.
_DATE = re.compile(r"[-@](\d{4}-\d{2}-\d{2}|\d{8}|\d{6}|\d{4}|\d{3}|latest)$")
_VERSION = re.compile(r"-v\d+(:\d+)?$|:(free|extended|thinking|online|nitro|floor|exacto)$")
# And in front of it: Google's collections, Amazon's resource names, regions and vendor. Claude's signatures
# are the same wherever it runs ("Extended thinking" in Anthropic's guide).
_PLACE = re.compile(
    r"^(arn:.*/|(.*/)?models/|openrouter/)?((us|eu|apac|jp|au|ca|global|us-gov)\.)?(anthropic\.)?"
)
_BETWEEN = re.compile(r"[-._ ]")


class ModelName(NamedTuple):
    """The parts of a model's name that count."""

    words: tuple[str, ...]  # in any order: OpenRouter says claude-haiku-4.5 and claude-4.5-haiku
    numbers: tuple[str, ...]  # in their order; 4.0 is 4
    date: str


def is_same_model(one: str | None, other: str | None) -> bool:
    """Return True if two names mean one model: they are equal, or only one of them has a date."""
    if one == other:
        return True
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    name, other_name = parse_model_name(one), parse_model_name(other)
    is_same_date = name.date == other_name.date or not name.date or not other_name.date
    return is_same_date and name[:2] == other_name[:2]


@lru_cache(1_000)
def parse_model_name(name: str) -> ModelName:
    """Return a name without its region, vendor and version, and with the date apart."""
    bare = _VERSION.sub("", _PLACE.sub("", name))
    found = _DATE.search(bare)
    date = found[1] if found else ""
    parts = _BETWEEN.split(_DATE.sub("", bare))
    numbers = [part for part in parts if part.isdigit()]
    while len(numbers) > 1 and numbers[-1] == "0":
        del numbers[-1]
    words = sorted(part for part in parts if not part.isdigit())
    return ModelName(tuple(words), tuple(numbers), "" if date == "latest" else date)
