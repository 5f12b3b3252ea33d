"""Native content: a provider's own form of a message goes back to it.

    data["native"] = {"provider": "anthropic", "model": "…", "wire": <the provider's own form>}

What came from a provider goes back to it unchanged, unless a recording shows that it refuses it. An
answer goes back only to the model that gave it, and only if its form still matches the log.
Otherwise `translation` takes what can be used of it. Reasoning is never translated or written: it
travels only inside an answer's form.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from backstory.wire.context import RequestContext
from backstory.wire.formats.base import Format
from backstory.wire.json_values import is_json
from backstory.wire.media import is_sound
from backstory.wire.translation import (
    NO_ID,
    REFUSED,
    UNREADABLE,
    is_same_text,
    read_form,
    translate_answer,
    translate_message,
    translate_result,
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
    find_calls,
    is_blank,
    text_of,
)

# Reasons for which an answer does not go back in its own form.
FROM_ANOTHER = "it belongs to another provider or model"
CHANGED = "the answer is not as it was"


# --- messages ---


def choose_message_form(message: MessageTurn, request: RequestContext) -> MessageTurn:
    """Return a message in its provider's own form, or with as much of it as the format can
    carry."""
    native = message.native
    if native is None:
        return message
    parts = read_form(message.role, native, message.position, request)
    if parts is None:
        return message
    if not is_same_text(text_of(parts), message.text):
        why = "its native content no longer says what the message says: left out"
        request.report("native", message.position, why)
        return message
    is_own = native.provider == request.format.name
    if is_own and not is_refused(message.role, parts, native, request.format):
        form = repair_and_report(native.form, parts, message.position, request)
        return message.replace(form=form)
    return translate_message(message, parts, request)


# --- results ---


def choose_result_form(call: Call, result: Result, request: RequestContext) -> Result:
    """Return a result in its provider's own form, or with as much of it as the format can carry."""
    native = result.native
    if native is None:
        return result
    read = read_unchanged_result(result, native, request)
    if read is None:
        return result
    if not can_send_result_form(call, result, read, native, request):
        return translate_result(call, result, list(read.content or ()), request)
    form = repair_and_report(native.form, [read], result.position, request)
    is_unnamed = Accepted.UNNAMED in native.accepted and request.comes_from_target(native)
    if (read.id or "") != call.id and not is_unnamed:
        form = request.format.rename_result(form, call.id or "")
    return result._replace(form=form)


def read_unchanged_result(result: Result, native: Native, request: RequestContext) -> Result | None:
    """Return what the form of a result contains; None if it cannot be read, or if the result was
    changed."""
    parts = read_form("result", native, result.position, request)
    if parts is None:
        return None
    read = parts[0] if len(parts) == 1 else None
    if isinstance(read, Result) and is_same_text(read.text, result.text):
        return read
    why = "its native content no longer says what the result says: left out"
    request.report("native", result.position, why)
    return None


def can_send_result_form(
    call: Call, result: Result, read: Result, native: Native, request: RequestContext
) -> bool:
    """Return True if the form of a result can be sent. `read` is what its form contains."""
    format = request.format
    if native.provider != format.name or not fits_call(call, result, read, format):
        return False
    parts = list(read.content or ())
    # "content cannot be empty if `is_error` is true" (Anthropic), "cannot be empty when status
    # value is error" (Bedrock): else a result may be empty.
    if not parts and (
        result.is_error or not (format.takes_empty_results or request.comes_from_target(native))
    ):
        return False
    return not is_refused("result", parts, native, format)


def fits_call(call: Call, result: Result, read: Result, format: Format) -> bool:
    """Return True if the form of a result fits its call: id, name, error flag, and kind of tool."""
    if (read.id or "") != call.id and not call.id:
        return False
    if read.name not in (None, call.name) or read.is_error not in (None, result.is_error):
        return False
    return read.kind == call.kind or read.kind == format.get_result_kind(call.kind)


# --- answers ---


def choose_answer_form(answer: AnswerTurn, taken: set[str], request: RequestContext) -> AnswerTurn:
    """Return an answer in its provider's own form, or with its text and calls only. `taken` are the
    ids of earlier calls."""
    natives = answer.list_natives()
    if not natives:
        return answer
    after, accepted = find_accepted(natives, request)
    if after is not None or accepted:
        answer = answer.replace(after=after, accepted=accepted)
    found = find_answer_form(answer, natives, taken, request)
    if isinstance(found, str):
        answer = translate_answer(answer, found, request)
    else:
        answer = send_back(answer, found, request)
    if answer.form is None:
        texts = [text for text in answer.texts if not is_blank(text)]
        answer = answer.replace(texts=texts)
    return answer


def find_accepted(natives: list[Native], request: RequestContext) -> tuple[Any, tuple[str, ...]]:
    """Return what came before an answer when the service accepted it, if that counts, and what else
    the service accepted of it."""
    after: Any = None
    accepted: tuple[str, ...] = ()
    for native in natives:
        is_special = native.after is not None or native.accepted
        if is_special and request.comes_from_target(native):
            accepted += native.accepted
            if after is None:
                after = native.after
    return after, accepted


class AnswerForm(NamedTuple):
    """The form in which an answer goes back to its provider: repaired, with a report of each
    change, and the parts that it had before."""

    form: Form
    changes: list[str]
    parts: list[Part]


def find_answer_form(
    answer: AnswerTurn, natives: list[Native], taken: set[str], request: RequestContext
) -> AnswerForm | str:
    """Return the first form of `answer` that its provider takes back, or the reason why it takes
    none. `taken` are the ids of earlier calls."""
    for native in natives:
        if not request.comes_from_target(native):
            return FROM_ANOTHER
    reason = CHANGED
    for form in list_native_forms(answer, natives, request.format):
        native = natives[0]._replace(form=form)
        parts = read_form("answer", native, answer.position, request)
        if parts is None:
            return UNREADABLE
        if not matches_log(answer, parts):
            continue
        reason = find_call_objection(answer, parts, taken, request.format)
        if reason:
            continue
        repaired = repair_answer_form(native, parts, request)
        if repaired is not None:
            return repaired
        reason = REFUSED
    return reason


def repair_answer_form(
    native: Native, parts: list[Part], request: RequestContext
) -> AnswerForm | None:
    """Return the form of an answer without what the service refused in a recording; None if it
    refuses the form even so, or the rest of it."""
    format = request.format
    form, changes = format.repair_form(native.form, parts, request.stored)
    if is_broken(parts, native):
        return None
    rest = parts
    if changes and form:
        rest = format.read_form("answer", form)
    if is_refused("answer", rest, native, format):
        return None
    return AnswerForm(form, changes, parts)


def list_native_forms(answer: AnswerTurn, natives: list[Native], format: Format) -> Iterator[Form]:
    """Yield the forms that `answer` may have had.

    Usually the first event has the form of the whole answer, or each event has its own: then they
    are joined. If some events have none, they are written, each at its place.
    """
    whole = format.join_forms([native.form for native in natives])
    if whole is not None:
        yield whole
    if len(natives) == len(answer.texts) + len(answer.calls):  # each text and call has a form
        return
    whole = format.join_forms(write_missing_forms(answer, format))
    if whole is not None and are_legal(answer, format):
        yield whole


def write_missing_forms(answer: AnswerTurn, format: Format) -> list[Form]:
    """Return the forms of an answer's events; those that have none are written."""
    forms: list[Form] = []
    texts_before = calls_before = 0  # the texts and calls that are already in forms
    for placed in answer.natives:
        form = placed.native.form
        texts = answer.texts[texts_before : placed.texts_before]
        calls = answer.calls[calls_before : placed.calls_before]
        written = write_part(texts, calls, format)
        if written and not forms:
            forms = format.put_before(written[0], form)
        else:
            forms += [*written, form]
        texts_before, calls_before = placed.texts_before, placed.calls_before
        if placed.is_call:
            calls_before += 1
        else:
            texts_before += 1
    return forms + write_part(answer.texts[texts_before:], answer.calls[calls_before:], format)


def write_part(texts: list[str], calls: list[Call], format: Format) -> list[Form]:
    """Write a part of an answer as a form; none if there is nothing in it."""
    if not texts and not calls:
        return []
    part = AnswerTurn(None)
    part.texts = texts
    part.calls = calls
    return [format.write_answer(part)]


def are_legal(answer: AnswerTurn, format: Format) -> bool:
    """Return True if the calls that have no form can be sent as they are in the log."""
    with_form = {placed.calls_before for placed in answer.natives if placed.is_call}
    for index, call in enumerate(answer.calls):
        if index not in with_form and not format.is_legal_call(call):
            return False
    return True


def matches_log(answer: AnswerTurn, parts: list[Part]) -> bool:
    """Return True if `parts` have the texts and calls of `answer`."""
    calls = find_calls(parts)
    if len(calls) != len(answer.calls) or not has_text_of(answer, parts):
        return False
    for read, logged in zip(calls, answer.calls, strict=True):
        if read.name != logged.name or read.arguments != logged.arguments:
            return False
        if read.id and read.id != logged.id:
            return False
    return True


def has_text_of(answer: AnswerTurn, parts: list[Part]) -> bool:
    """Return True if `parts` have the text of `answer`."""
    text = "".join(answer.texts)
    if is_same_text(answer_text(parts), text):
        return True
    # Blank text in a form that is kept with a call is not in any event.
    if not any(placed.is_call for placed in answer.natives):
        return False
    words = [part for part in parts if isinstance(part, Text) and not is_blank(part.text)]
    return is_same_text(answer_text(words), text)


def find_call_objection(
    answer: AnswerTurn, parts: list[Part], taken: set[str], format: Format
) -> str:
    """Return the reason for which the calls in `parts` do not go back; empty if they do."""
    calls = find_calls(parts)
    if format.call_ids is not None:
        ids = [call.id for call in calls if call.id]
        is_repeated = len(set(ids)) < len(ids) or not taken.isdisjoint(ids)
        if is_repeated and Accepted.SAME_IDS not in answer.accepted:
            return CHANGED
        if "" in [call.id for call in calls] and Accepted.UNNAMED not in answer.accepted:
            return NO_ID
    return "" if is_answerable(calls, answer, format) else REFUSED


def is_answerable(calls: list[Call], answer: AnswerTurn, format: Format) -> bool:
    """Return True if each call has a result in the form that its kind needs, or can get one."""
    for call, result in zip(calls, answer.results, strict=True):
        if call.kind in format.call_kinds or result is None:
            continue
        if result.native is None or result.native.provider != format.name:
            return False
    return True


def send_back(answer: AnswerTurn, found: AnswerForm, request: RequestContext) -> AnswerTurn:
    """Return an answer in its provider's own form. Its calls have the ids and kinds of the form, so
    that results fit them."""
    for why in found.changes:
        request.report("native", answer.position, why)
    form = found.form or None
    if not answer.calls:
        return answer.replace(form=form)
    calls: list[Call] = []
    for read, logged in zip(find_calls(found.parts), answer.calls, strict=True):
        id = read.id
        if id is None:
            id = logged.id if request.format.call_ids is not None else ""
        calls.append(logged._replace(id=id or "", kind=read.kind))
    return answer.replace(form=form, calls=calls)


# --- forms ---


def repair_and_report(
    form: Form, parts: list[Part], position: int | None, request: RequestContext
) -> Form:
    """Return a form of these parts without what the service refused in a recording."""
    form, changes = request.format.repair_form(form, parts, request.stored)
    for why in changes:
        request.report("native", position, why)
    return form


def is_refused(role: str, parts: list[Part], native: Native, format: Format) -> bool:
    """Return True if a form is broken, or if a recording shows that the service refuses it."""
    has_content = role == "result" or any(not isinstance(part, Speaker) for part in parts)
    if not has_content or is_broken(parts, native):
        return True
    return format.find_refusal(role, parts, native.model) != ""


def is_broken(parts: list[Part], native: Native) -> bool:
    """Return True if its provider does not take one of the parts back."""
    is_known = native.model is not None
    for part in parts:
        if not isinstance(part, (Text, Speaker)) and not is_intact(part, is_known=is_known):
            return True
    return False


def is_intact(part: Part, *, is_known: bool) -> bool:
    """Return True if the provider takes a part back. `is_known`: the model of the form is known."""
    if isinstance(part, (Reasoning, Other)):
        return part.is_complete
    if isinstance(part, Media):
        return is_sound(part)
    if not isinstance(part, Call):
        return not isinstance(part, Result)
    # Compatible servers refuse what is not JSON: "Expecting ',' delimiter" (OpenHands sdk#2887).
    # Other JSON than an object was taken from the model that wrote it: "[]" by OpenAI, "null" by
    # Groq.
    return part.is_sound or (is_known and is_json(part.text))
