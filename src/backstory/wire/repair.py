"""The rules that turn any history into turns that the services accept.

Each rule takes turns and returns turns. Rules are linear and deterministic: the same log gives the
same bytes, so prompt caches keep working. The log is not changed, and every change to a request is
reported under a name that docs/wire.md explains. Rules apply to what was logged, translated or cut;
what a provider sent itself goes back unchanged (`native`).
"""

import hashlib
from collections.abc import Callable
from typing import Any

from backstory.wire.context import RequestContext
from backstory.wire.native import choose_answer_form, choose_result_form, find_accepted
from backstory.wire.turns import (
    AFTER_ANSWER,
    AFTER_MESSAGE,
    AFTER_NOTHING,
    Accepted,
    AnswerTurn,
    Call,
    Media,
    MessageTurn,
    Part,
    Result,
    Text,
    Turn,
    ends_with_model,
    is_blank,
    split_leading_system,
)

INTERRUPTED = "interrupted: no result was recorded"
NO_OUTPUT = "(no output)"
CONTINUE = "Continue."
RESUMED = "(conversation resumed)"
UNSOUND = "the arguments are not a JSON object, or not all of it is JSON: they were repaired"
MEDIA_LAST = "an image or a file in this result moves after its text"
TRAILING = "whitespace at the end of the last answer is left out: the service would refuse it"
USER_BEGINS = f"the first message must be the user's: {RESUMED!r} was added"
USER_BETWEEN = f"a user message must come between two answers: {CONTINUE!r} was added"
USER_ENDS = f"the last message must be the user's: {CONTINUE!r} was added"


# --- conversations in the service's store (before the rules) ---


def find_stored_conversation(
    turns: list[Turn | Result], request: RequestContext
) -> dict[str, Any] | None:
    """Return what the first turn continues in the service's store; None if there is nothing, or if
    the service does not have it.

    A request can continue one conversation, and only from its beginning. All others are reported.
    """
    found: dict[str, Any] | None = None
    for turn in turns:
        after = find_stored_before(turn)
        if after is not None and request.continues(after):
            found = after
        if after is not None or not is_ahead(turn):
            break
    report_left_out(turns, found, request)
    return found


def report_left_out(
    turns: list[Turn | Result], continued: dict[str, Any] | None, request: RequestContext
) -> None:
    """Report each stored conversation that the request does not continue. The result of a logged
    call needs none."""
    known = [continued]
    called: set[str | None] = set()
    for turn in turns:
        if isinstance(turn, AnswerTurn):
            called.update([call.id for call in turn.calls])
        elif isinstance(turn, Result) and turn.id in called:
            continue
        after = find_stored_before(turn)
        if after is None or after in known:
            continue
        known.append(after)
        fields = name_stored_conversation(after)
        what = ", ".join([f"{key} {value!r}" for key, value in fields.items()])
        why = f"what came before is left out: it is in a store ({what})"
        request.report("native", turn.position, why)


def find_stored_before(turn: Turn | Result) -> dict[str, Any] | None:
    """Return the stored conversation that came before a turn, if there was one."""
    natives = turn.list_natives() if isinstance(turn, AnswerTurn) else [turn.native]
    for native in natives:
        if native is not None and isinstance(native.after, dict):
            return native.after
    return None


def is_ahead(turn: Turn | Result) -> bool:
    """Return True if a conversation can begin after a turn: system text moves to the top, and a
    result without a call is dropped."""
    if isinstance(turn, MessageTurn):
        return turn.role == "system"
    return isinstance(turn, Result)


def name_stored_conversation(after: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that name a stored conversation."""
    return {key: value for key, value in after.items() if key != "store"}


# --- bind, drop, group: each result goes to its call ---


def bind_results(turns: list[Any], request: RequestContext) -> list[Turn]:
    """Give each result to the oldest open call with its id, directly after the answer, however late
    it came.

    If no call with its id is open, the result replaces that of the newest one: a framework first
    says that a call waits for approval, and later what the tool returned (ADK). A result without a
    call is dropped: no service accepts it, and nobody knows where it belongs. If a later answer
    uses an id again, the older call gets no more results.
    """
    if not request.has_tools:
        return turns
    bound: list[Turn] = []
    calls = OpenCalls(request)
    for turn in turns:
        if not isinstance(turn, Result):
            bound.append(turn)
            if isinstance(turn, AnswerTurn) and turn.calls:
                calls.add(turn)
            continue
        place = calls.take(turn.id)
        if place is None:
            keep_without_call(turn, bound, calls, request)
            continue
        answer, index = place
        interim = answer.results[index]
        answer.results[index] = turn
        if interim is not None:
            why = f"a newer result of the call {turn.id!r} counts"
            request.report("drop", interim.position, why)
            continue
        answer.arrivals.append(index)
        if answer is not bound[-1]:
            why = "this result came late: it moves up, directly after its call"
            request.report("group", turn.position, why)
    return bound


def keep_without_call(
    result: Result, turns: list[Turn], calls: "OpenCalls", request: RequestContext
) -> None:
    """Keep a result whose call is in a service's store: in its own form for that service, as marked
    user text for any other. Drop a result without a call."""
    if calls.is_in_store(result, turns):
        form = result.native.form if result.native else None
        message = MessageTurn(result.position, "user", result.text, result.native)
        message.form = form
        turns.append(message)
    elif calls.was_in_store(result) and not is_blank(result.text):
        why = "the call of this result is only in the service's store: it is marked user text"
        request.report("native", result.position, why)
        text = f"<tool_result>\n{result.text}\n</tool_result>"
        turns.append(MessageTurn(result.position, "user", text, result.native))
    else:
        request.report("drop", result.position, calls.explain_drop(result.id))


class OpenCalls:
    """Finds the open call that a result belongs to."""

    def __init__(self, request: RequestContext) -> None:
        self._request = request
        self._open: dict[str | None, list[tuple[AnswerTurn, int]]] = {}
        self._newest: dict[str | None, tuple[AnswerTurn, int]] = {}
        self._stored: set[str | None] = set()  # ids of results whose call is in the store

    def add(self, answer: AnswerTurn) -> None:
        """Add the calls of an answer. An id that is used again closes the older call."""
        for index, call in enumerate(answer.calls):
            waiting = self._open.setdefault(call.id, [])
            if waiting and waiting[0][0] is not answer:
                older, place = waiting[0]
                why = f"the id {call.id!r} is used again: this call stays open"
                self._request.report("bind", older.calls[place].position, why)
                waiting.clear()
            waiting.append((answer, index))
            self._newest[call.id] = answer, index

    def take(self, id: str | None) -> tuple[AnswerTurn, int] | None:
        """Return the oldest open call with this id, and close it; if none is open, return the
        newest one."""
        waiting = self._open.get(id)
        if waiting:
            return waiting.pop(0)
        return None if id is None else self._newest.get(id)

    def is_known(self, id: str | None) -> bool:
        """Return True if there is a call with this id, in the log or in the service's store."""
        return id in self._newest or id in self._stored

    def is_in_store(self, result: Result, turns: list[Turn]) -> bool:
        """Return True if the call of a result is in the service's store: in the response that the
        request continues, or where the answer before it, the last one of `turns`, has
        references."""
        native, request = result.native, self._request
        if self.is_known(result.id) or native is None or native.provider != request.format.name:
            return False
        if Accepted.REFERRED in native.accepted:
            if not request.stored or not request.comes_from_target(native):
                return False
            is_found = has_references(turns, request)
        else:
            is_found = native.after is not None and native.after == request.continued
        if is_found:
            self._stored.add(result.id)
        return is_found

    def was_in_store(self, result: Result) -> bool:
        """Return True if a service had the call of a result in its store when the result was
        recorded."""
        if result.native is None or self.is_known(result.id):
            return False
        is_referred = Accepted.REFERRED in result.native.accepted
        return is_referred or isinstance(result.native.after, dict)

    def explain_drop(self, id: str | None) -> str:
        """Return why a result has no call."""
        if self.is_known(id):
            return f"a second result for the call {id!r}"
        return f"a result for a missing call, {id!r}"


def has_references(turns: list[Turn], request: RequestContext) -> bool:
    """Return True if the last answer of `turns` has references to the service's store."""
    for turn in reversed(turns):
        if isinstance(turn, AnswerTurn):
            _, accepted = find_accepted(turn.list_natives(), request)
            return Accepted.REFERRED in accepted
    return False


# --- close: every call has a result ---


def close_open_calls(turns: list[Turn], request: RequestContext) -> list[Turn]:
    """Give each call without a result one that is true and always the same.

    Providers refuse a session with an open call. Only the calls of the last answer may stay open,
    if they are about to run.
    """
    if not request.has_tools:
        return turns
    closed: list[Turn] = []
    for turn in turns:
        if isinstance(turn, AnswerTurn) and None in turn.results:
            is_about_to_run = request.pending and turn is turns[-1]
            if not is_about_to_run:
                turn = close_calls(turn, request)
        closed.append(turn)
    return closed


def close_calls(answer: AnswerTurn, request: RequestContext) -> AnswerTurn:
    """Return an answer whose open calls say that they were interrupted."""
    results: list[Result | None] = []
    for call, result in zip(answer.calls, answer.results, strict=True):
        if result is None:
            result = Result(call.id, INTERRUPTED, True, position=call.position)
            why = f"the call {call.id!r} has no result, so it says: {INTERRUPTED}"
            request.report("close", call.position, why)
        results.append(result)
    return answer.replace(results=results)


# --- native, id, name, arguments, blank, error, group: each answer can be sent ---


def complete_answers(turns: list[Turn], request: RequestContext) -> list[Turn]:
    """Send each answer, with its results, in its provider's own form, or with text, media and calls
    that the service accepts. An answer of which nothing is left is left out.

    Ids are given in the order of the request, because an id must not come twice.
    """
    if not (request.has_native or request.has_tools):
        return turns
    completed: list[Turn] = []
    names = LegalNames(request)
    for turn in turns:
        if not isinstance(turn, AnswerTurn):
            completed.append(turn)
            continue
        answer = complete_answer(turn, names, request)
        if answer is not None:
            completed.append(answer)
    return completed


def complete_answer(
    answer: AnswerTurn, names: "LegalNames", request: RequestContext
) -> AnswerTurn | None:
    """Return an answer that can be sent, with its results; None if nothing is left of it."""
    answer = choose_answer_form(answer, names.taken, request)
    if not (answer.form or answer.texts or answer.calls):
        request.report("blank", answer.position, "nothing is left of this answer")
        return None
    if not answer.calls:
        return answer
    answer = names.give(answer)
    results: list[Result | None] = []
    for call, result in zip(answer.calls, answer.results, strict=True):
        results.append(complete_result(call, result, request))
    if results != answer.results:
        answer = answer.replace(results=results)
    return order_results(answer, request)


class LegalNames:
    """Gives calls ids and names that the service accepts.

    Legal and unique ids stay. Others become a hash of the id and its ordinal, because replacing
    single characters could make two ids equal. The same goes for names of tools.
    """

    def __init__(self, request: RequestContext) -> None:
        self.taken: set[str] = set()
        self._request = request
        self._names: dict[str, str] = {}
        self._ordinals: dict[str | None, int] = {}

    def give(self, answer: AnswerTurn) -> AnswerTurn:
        """Return an answer whose calls have legal ids and names."""
        if answer.form is not None:
            self.taken.update([call.id or "" for call in answer.calls])
            return answer
        calls = [self._rename(call) for call in answer.calls]
        return answer if calls == answer.calls else answer.replace(calls=calls)

    def _rename(self, call: Call) -> Call:
        """Return a call with a legal id and name."""
        request = self._request
        name = self._names.get(call.name)
        if name is None:
            name = self._names[call.name] = request.format.make_legal_name(call.name)
        if not call.is_sound:
            request.report("arguments", call.position, UNSOUND)
        if name != call.name:
            why = request.format.explain_name(call.name, name)
            request.report("name", call.position, why)
        id = self._find_id(call)
        self.taken.add(id)
        if id == call.id and name == call.name:
            return call
        return call._replace(id=id, name=name)

    def _find_id(self, call: Call) -> str:
        pattern, id = self._request.format.call_ids, call.id
        if pattern is None:
            return ""
        is_taken = id in self.taken
        if id is not None and not is_taken and pattern.fullmatch(id) and not id.isspace():
            return id
        hashed = self._hash(id)
        why = "was used before" if is_taken else "is not one that the service accepts"
        self._request.report("id", call.position, f"the id {id!r} {why}: it is {hashed!r}")
        return hashed

    def _hash(self, id: str | None) -> str:
        ordinal = self._ordinals.get(id, 0)
        while True:
            hashed = hash_id(id, ordinal)
            ordinal += 1
            if hashed not in self.taken:
                self._ordinals[id] = ordinal
                return hashed


def hash_id(id: str | None, ordinal: int) -> str:
    """Return an id that every service accepts, made from any other."""
    return "call_" + hashlib.sha256(f"{ordinal}:{id or ''}".encode()).hexdigest()[:24]


def complete_result(call: Call, result: Result | None, request: RequestContext) -> Result | None:
    """Return a result that is complete. Some services refuse an empty one, and it leaves the model
    guessing."""
    if result is None:
        return None
    result = choose_result_form(call, result, request)
    report_result(result, request)
    has_content = result.content is not None and not request.format.media_after_results
    if result.form is None and not has_content and is_blank(result.text):
        why = f"the result is blank, so it says {NO_OUTPUT}"
        request.report("blank", result.position, why)
        result = result._replace(text=NO_OUTPUT)
    return result


def report_result(result: Result, request: RequestContext) -> None:
    """Report what the format cannot say of a result: that it is an error, or where its media
    are."""
    if result.is_error and not request.format.has_error_flag and result.text != INTERRUPTED:
        why = f"{request.format.name} cannot say that a result is an error"
        request.report("error", result.position, why)
    if request.format.media_after_results and has_text_after_media(result.content or ()):
        request.report("group", result.position, MEDIA_LAST)


def has_text_after_media(parts: tuple[Part, ...]) -> bool:
    """Return True if there is text after an image or a file."""
    has_media = False
    for part in parts:
        if isinstance(part, Media):
            has_media = True
        elif has_media and isinstance(part, Text):
            return True
    return False


def order_results(answer: AnswerTurn, request: RequestContext) -> AnswerTurn:
    """Return an answer whose results go in the order of its calls. Results in their provider's own
    form keep the order that it accepted."""
    if answer.arrivals == sorted(answer.arrivals):
        return answer
    has_all_forms = len(answer.arrivals) == len(answer.calls)
    for result in answer.results:
        has_all_forms = has_all_forms and result is not None and result.form is not None
    if has_all_forms:
        return answer
    why = "the results of one answer go in the order of its calls"
    request.report("group", answer.position, why)
    return answer.replace(arrivals=[])


# --- system: where system text goes ---


def place_system_text(turns: list[Turn], request: RequestContext) -> list[Turn]:
    """Leave leading system text on top, and later system text in place if that is legal. Otherwise
    it becomes marked user text."""
    format = request.format
    if format.system_in_place:
        return turns
    leading, rest = split_leading_system(turns)
    placed: list[Turn] = []
    for system in leading:
        placed += place_on_top(system, request)
    found = find_system_text(rest)
    if not found:
        return placed + rest
    wanted = {index for index, system in found.items() if was_inside(system, request)}
    legal = format.find_system_places(rest, wanted)
    for index, turn in enumerate(rest):
        if index not in found or index in legal:
            placed.append(turn)
        else:
            placed += mark_system_text(found[index], request)
    return placed


def find_system_text(turns: list[Turn]) -> dict[int, MessageTurn]:
    """Return the system turns by their indexes."""
    found: dict[int, MessageTurn] = {}
    for index, turn in enumerate(turns):
        if isinstance(turn, MessageTurn) and turn.role == "system":
            found[index] = turn
    return found


def mark_system_text(turn: MessageTurn, request: RequestContext) -> list[Turn]:
    """Return a system turn as marked user text; nothing if it has no text."""
    name = request.format.name
    if is_blank(turn.text):
        why = f"{name} does not take this here: it is left out"
        request.report("system", turn.position, why)
        return []
    why = f"{name} takes no system text here: it is marked user text"
    if turn.form is not None and not request.format.takes_on_top(turn.form):
        why += ", and the rest of it is left out"
    request.report("system", turn.position, why)
    text = f"<system>\n{turn.text}\n</system>"
    return [turn.replace(role="user", text=text, form=None)]


def place_on_top(turn: MessageTurn, request: RequestContext) -> list[Turn]:
    """Return a system turn as it may go to the top, if anything is left of it. What came before a
    message between others may be compacted or erased."""
    if turn.native is None or turn.native.after != AFTER_MESSAGE:
        return [turn]
    if turn.form is None or request.format.takes_on_top(turn.form):
        return [turn]
    why = f"{request.format.name} takes only text on top: the rest of it is left out"
    request.report("system", turn.position, why)
    return [] if is_blank(turn.text) else [turn.replace(form=None)]


def was_inside(turn: MessageTurn, request: RequestContext) -> bool:
    """Return True if a system message should stay between others: if the caller says so, or if it
    was there when this provider and model accepted it."""
    if request.system_inside:
        return True
    if turn.form is None or turn.native is None:
        return False
    return turn.native.after == AFTER_MESSAGE and request.comes_from_target(turn.native)


# --- alternate: whose turn it is ---


def alternate_roles(turns: list[Turn], request: RequestContext) -> list[Turn]:
    """Let the user have the first and the last message, and one between two answers, which must not
    be joined.

    The formats merge neighbours of one role. If a loaded request did without a user message, so
    does this one, and so it does with `pause`.
    """
    leading, rest = split_leading_system(turns)
    if not rest:
        return turns + begin_conversation(turns, request)
    if not request.format.alternates_roles:
        return turns
    spaced: list[Turn] = [*leading]
    first, last = rest[0], rest[-1]
    if isinstance(first, AnswerTurn) and first.after != AFTER_NOTHING:
        spaced.append(write_user_word(first, RESUMED, USER_BEGINS, request))
    spaced.append(first)
    before = first
    for turn in rest[1:]:
        if isinstance(turn, AnswerTurn) and is_joined(before, turn, request):
            spaced.append(write_user_word(turn, CONTINUE, USER_BETWEEN, request))
        spaced.append(turn)
        before = turn
    if isinstance(last, AnswerTurn):
        spaced[-1:] = end_with_answer(last, request)
    return spaced


def end_with_answer(last: AnswerTurn, request: RequestContext) -> list[Turn]:
    """Return the last answer as the services take it at the end of a request."""
    if not may_be_last(last, request):
        return [last, write_user_word(last, CONTINUE, USER_ENDS, request)]
    if may_be_trimmed(last, request):
        return [trim_answer(last, request)]
    return [last]


def may_be_trimmed(answer: AnswerTurn, request: RequestContext) -> bool:
    """Return True if the service may refuse whitespace at the end of the last answer. It took what
    was loaded from a request, and a file keeps what was said."""
    if request.any_model or request.format.takes_trailing_space or answer.calls:
        return False
    return Accepted.LAST_WORD not in answer.accepted


def trim_answer(answer: AnswerTurn, request: RequestContext) -> AnswerTurn:
    """Return an answer without whitespace at its end."""
    form = answer.form
    if form is None:
        form = request.format.write_answer(answer)
    trimmed = request.format.trim_form(form)
    if trimmed == form:
        return answer
    request.report("blank", answer.position, TRAILING)
    return answer.replace(form=trimmed)


def write_user_word(
    answer: AnswerTurn, words: str, why: str, request: RequestContext
) -> MessageTurn:
    """Return a message of the user that nobody wrote, and report it at an answer."""
    request.report("alternate", answer.position, why)
    return MessageTurn(None, "user", words)


def begin_conversation(turns: list[Turn], request: RequestContext) -> list[Turn]:
    """Return the first message of a conversation without messages. The services refuse an empty
    one."""
    format = request.format
    if format.alternates_roles:
        why = USER_BEGINS
    elif turns and not format.system_on_top:
        return []
    else:
        why = f"the services refuse a request without messages: {RESUMED!r} was added"
    request.report("alternate", None, why)
    return [MessageTurn(None, "user", RESUMED)]


def is_joined(before: Turn, answer: AnswerTurn, request: RequestContext) -> bool:
    """Return True if a service would join `answer` with the turn before it, and should not."""
    if not isinstance(before, AnswerTurn) or not ends_with_model(before):
        return False
    if request.format.continues_paused(before.form, answer.form):
        return False
    # The model continued from there, or the service accepted two answers in a row.
    return Accepted.LAST_WORD not in before.accepted and answer.after != AFTER_ANSWER


def may_be_last(answer: AnswerTurn, request: RequestContext) -> bool:
    """Return True if an answer may end a request: its calls run next, or the model continues it.
    Other models refuse that: "This model does not support assistant message prefill"
    (CLIProxyAPI#5319)."""
    return bool(answer.calls) or request.pause or Accepted.LAST_WORD in answer.accepted


Rule = Callable[[list[Any], RequestContext], list[Any]]

# The order counts: a result is bound before its call can be closed, an answer is complete before
# its form is compared with the log, ids are given in the order of the request, roles are looked at
# last. Some rules hold already when a turn is read (`reading`).
RULES: tuple[Rule, ...] = (
    bind_results,
    close_open_calls,
    complete_answers,
    place_system_text,
    alternate_roles,
)
# Those that bind and complete turns. The others are about the messages of a request.
TURN_RULES = RULES[:3]
