"""The rules that turn any history into turns that the services accept.

Each rule takes turns and returns turns. Rules are pure, linear and deterministic: the same log gives the same
bytes, so prompt caches keep working. The log is not changed, and every change to a request is reported. The
numbers are those of the table in docs/wire.md. Rules apply to what was logged, translated or cut; what a
provider sent itself goes back unchanged (`native`).
"""

import hashlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from backstory.wire.native import (
    choose_native_form,
    choose_result_form,
    list_natives,
    send_back,
    translate_answer,
)
from backstory.wire.turns import (
    AFTER_ANSWER,
    AFTER_MESSAGE,
    AFTER_NOTHING,
    Accepted,
    AnswerTurn,
    Call,
    MessageTurn,
    Result,
    Turn,
    count_leading_system,
    ends_with_model,
    is_blank,
)

if TYPE_CHECKING:
    from backstory.wire.request import RequestBuilder

INTERRUPTED = "interrupted: no result was recorded"
NO_OUTPUT = "(no output)"
CONTINUE = "Continue."
RESUMED = "(conversation resumed)"
NO_NAME = "unknown_tool"
UNSOUND = "the arguments are not a JSON object, or not all of it is JSON: they are mended"
NO_LAST_WORD = f"the user has to have the last word, so the user says {CONTINUE!r}"


# --- rules 1, 2 and 4: each result goes to its call ---


def bind_results(turns: list[Turn | Result], request: "RequestBuilder") -> list[Turn]:
    """Give each result to the oldest open call with its id, directly after the answer, however late it came.

    If no call with its id is open, the result replaces that of the newest one: a framework first says that a
    call waits for approval, and later what the tool returned (ADK). A result without a call is dropped: no
    service accepts it, and nobody knows where it belongs. If a later answer uses an id again, the older call
    gets no more results.
    """
    bound: list[Turn] = []
    calls = OpenCalls(request)
    for turn in turns:
        if not isinstance(turn, Result):
            bound.append(turn)
            if isinstance(turn, AnswerTurn):
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
            why = "this result came late: it moves up, directly behind its call"
            request.report("group", turn.position, why)
    return bound


def keep_without_call(
    result: Result, turns: list[Turn], calls: "OpenCalls", request: "RequestBuilder"
) -> None:
    """Keep a result whose call is in a service's store: in its own form for that service, as marked user text
    for any other. Drop a result without a call."""
    if calls.is_in_store(result):
        form = result.native.form if result.native else None
        turns.append(MessageTurn(result.position, "user", result.text, result.native, form))
    elif calls.was_in_store(result) and not is_blank(result.text):
        why = "the call of this result is only in the service's store: it is marked user text"
        request.report("native", result.position, why)
        text = f"<tool_result>\n{result.text}\n</tool_result>"
        turns.append(MessageTurn(result.position, "user", text, result.native))
    else:
        request.report("drop", result.position, calls.explain_drop(result.id))


class OpenCalls:
    """Finds the open call that a result belongs to."""

    def __init__(self, request: "RequestBuilder") -> None:
        self._request = request
        self._open: dict[str | None, list[tuple[AnswerTurn, int]]] = {}
        self._known: set[str | None] = set()
        self._newest: dict[str, tuple[AnswerTurn, int]] = {}
        self._last: AnswerTurn | None = None

    def add(self, answer: AnswerTurn) -> None:
        """Add the calls of an answer. An id that is used again closes the older call."""
        self._last = answer
        for index, call in enumerate(answer.calls):
            waiting = self._open.setdefault(call.id, [])
            if waiting and waiting[0][0] is not answer:
                older, place = waiting[0]
                why = f"the id {call.id!r} is used again: this call stays open"
                self._request.report("bind", older.calls[place].position, why)
                waiting.clear()
            waiting.append((answer, index))
            self._known.add(call.id)
            if call.id is not None:
                self._newest[call.id] = answer, index

    def take(self, id: str | None) -> tuple[AnswerTurn, int] | None:
        """Return the oldest open call with this id, and close it; if none is open, return the newest one."""
        waiting = self._open.get(id)
        if waiting:
            return waiting.pop(0)
        return None if id is None else self._newest.get(id)

    def is_in_store(self, result: Result) -> bool:
        """Return True if the call of a result is in the service's store: in the response that the request
        continues, or where the answer before it has references."""
        native, request = result.native, self._request
        if result.id in self._known or native is None or native.provider != request.format.name:
            return False
        if Accepted.REFERRED in native.accepted:
            if self._last is None or not request.stored or not request.is_home_of(native):
                return False
            is_found = Accepted.REFERRED in collect_accepted(self._last, request)
        else:
            is_found = isinstance(native.after, dict) and request.continues(native.after)
        if is_found:
            self._known.add(result.id)
        return is_found

    def was_in_store(self, result: Result) -> bool:
        """Return True if a service had the call of a result in its store when the result was recorded."""
        if result.native is None or result.id in self._known:
            return False
        is_referred = Accepted.REFERRED in result.native.accepted
        return is_referred or isinstance(result.native.after, dict)

    def explain_drop(self, id: str | None) -> str:
        """Return why a result has no call."""
        if id in self._known:
            return f"a second result for the call {id!r}"
        return f"a result for a missing call, {id!r}"


def collect_accepted(answer: AnswerTurn, request: "RequestBuilder") -> tuple[str, ...]:
    """Return what the service accepted of an answer that came from it."""
    accepted: tuple[str, ...] = ()
    for native in list_natives(answer):
        if native.accepted and request.is_home_of(native):
            accepted += native.accepted
    return accepted


# --- rule 5: every call has a result ---


def close_open_calls(turns: list[Turn], request: "RequestBuilder") -> list[Turn]:
    """Give each call without a result one that is true and always the same.

    Providers refuse a session with an open call. Only the calls of the last answer may stay open, if they are
    about to run.
    """
    closed: list[Turn] = []
    for turn in turns:
        if isinstance(turn, AnswerTurn) and None in turn.results:
            is_about_to_run = request.pending and turn is turns[-1]
            if not is_about_to_run:
                turn = close_calls(turn, request)
        closed.append(turn)
    return closed


def close_calls(answer: AnswerTurn, request: "RequestBuilder") -> AnswerTurn:
    """Return an answer whose open calls say that they were interrupted."""
    results: list[Result | None] = []
    for call, result in zip(answer.calls, answer.results, strict=True):
        if result is None:
            result = Result(call.id, INTERRUPTED, True, position=call.position)
            why = f"the call {call.id!r} has no result, so it says: {INTERRUPTED}"
            request.report("close", call.position, why)
        results.append(result)
    return answer._replace(results=results)


# --- native content of answers; rules 6, 7 and 8 for the answers that we write ---


def choose_native_forms(turns: list[Turn], request: "RequestBuilder") -> list[Turn]:
    """Send an answer back in its provider's own form, or give its calls ids and names that are legal.

    Ids are given in the order of the request, because an id must not come twice.
    """
    chosen: list[Turn] = []
    names = LegalNames(request)
    for turn in turns:
        if isinstance(turn, AnswerTurn):
            if len(turn.pieces) > len(turn.texts) + len(turn.calls):  # there is native content
                turn = choose_answer_form(turn, names.taken, request)
                if not (turn.form or turn.texts or turn.calls):
                    request.report("blank", turn.position, "nothing is left of this answer")
                    continue
            if turn.calls:
                turn = names.give(turn)
        chosen.append(turn)
    return chosen


def choose_answer_form(
    answer: AnswerTurn, taken: set[str], request: "RequestBuilder"
) -> AnswerTurn:
    """Return an answer as its provider takes it back, or with its text and calls only."""
    natives = list_natives(answer)
    if any(native.after is not None or native.accepted for native in natives):
        after = find_accepted_place(answer, request)
        answer = answer._replace(after=after, accepted=collect_accepted(answer, request))
    decision = choose_native_form(answer, natives, taken, request)
    if decision.form is not None:
        answer = send_back(answer, decision, request)
    else:
        answer = translate_answer(answer, decision.reason, request)
    if answer.form is None:
        texts = [text for text in answer.texts if not is_blank(text)]
        answer = answer._replace(texts=texts)
    return answer


def find_accepted_place(answer: AnswerTurn, request: "RequestBuilder") -> Any:
    """Return what came before an answer when the service accepted it, if that counts."""
    for native in list_natives(answer):
        if native.after is not None and request.is_home_of(native):
            return native.after
    return None


class LegalNames:
    """Gives calls ids and names that the service accepts.

    Legal and unique ids stay. Others become a hash of the id and its ordinal, because replacing single
    characters could make two ids equal. The same goes for names of tools.
    """

    def __init__(self, request: "RequestBuilder") -> None:
        self.taken: set[str] = set()
        self._request = request
        self._names: dict[str, str] = {}
        self._ordinals: dict[str | None, int] = {}

    def give(self, answer: AnswerTurn) -> AnswerTurn:
        """Return an answer whose calls have legal ids and names."""
        if answer.form is not None:
            self.taken.update([call.id or "" for call in answer.calls])
            return answer
        is_same = True
        calls: list[Call] = []
        for call in answer.calls:
            legal = self._rename(call)
            is_same = is_same and legal is call
            calls.append(legal)
        return answer if is_same else answer._replace(calls=calls)

    def _rename(self, call: Call) -> Call:
        """Return a call with a legal id and name: the same object if both are legal."""
        request = self._request
        name = self._names.get(call.name)
        if name is None:
            name = self._names[call.name] = make_legal_name(call.name, request.format.tool_names)
        if not call.is_sound:
            request.report("arguments", call.position, UNSOUND)
        if name != call.name:
            why = f"{request.format.name} refuses the tool name {call.name!r}: it is {name!r}"
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


def make_legal_name(name: str, pattern: re.Pattern[str]) -> str:
    """Return the name of a tool as the service accepts it: still readable, and unique."""
    if pattern.fullmatch(name):
        return name
    if is_blank(name):
        return NO_NAME
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:40].strip("_") or "tool"
    if not readable[0].isalpha():
        readable = f"tool_{readable}"
    return f"{readable}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"


# --- native content of results; rules 4 and 8 for results ---


def choose_result_forms(turns: list[Turn], request: "RequestBuilder") -> list[Turn]:
    """Send results back in their provider's own form, or as text that is not blank."""
    chosen: list[Turn] = []
    for turn in turns:
        if isinstance(turn, AnswerTurn) and turn.calls:
            results = [
                choose_result(call, result, request)
                for call, result in zip(turn.calls, turn.results, strict=True)
            ]
            turn = order_results(turn._replace(results=results), request)
        chosen.append(turn)
    return chosen


def choose_result(call: Call, result: Result | None, request: "RequestBuilder") -> Result | None:
    """Return a result that is complete. Some services refuse an empty one, and it leaves the model guessing."""
    if result is None:
        return None
    if result.is_error and not request.format.has_error_flag and result.text != INTERRUPTED:
        why = f"{request.format.name} cannot say that a result is an error"
        request.report("error", result.position, why)
    if result.native is not None:
        result = choose_result_form(call, result, result.native, request)
    has_content = result.content is not None and not request.format.media_after_results
    if result.form is None and not has_content and is_blank(result.text):
        why = f"the result is blank, so it says {NO_OUTPUT}"
        request.report("blank", result.position, why)
        result = result._replace(text=NO_OUTPUT)
    return result


def order_results(answer: AnswerTurn, request: "RequestBuilder") -> AnswerTurn:
    """Return an answer whose results go in the order of its calls. Results in their provider's own form keep
    the order that it accepted."""
    if answer.arrivals == list(range(len(answer.arrivals))):
        return answer
    has_all_forms = len(answer.arrivals) == len(answer.calls)
    for result in answer.results:
        has_all_forms = has_all_forms and result is not None and result.form is not None
    if has_all_forms:
        return answer
    why = "the results of one answer go in the order of its calls"
    request.report("group", answer.position, why)
    return answer._replace(arrivals=[])


# --- conversations in the service's store ---


def continue_stored_conversation(turns: list[Turn], request: "RequestBuilder") -> list[Turn]:
    """Keep what the request continues in the service's store. Other services cannot reach it."""
    for turn in turns:
        if isinstance(turn, MessageTurn) and turn.role == "system":
            continue
        after = find_after(turn)
        if isinstance(after, dict):
            request.continued = find_continued(turn.position, after, request)
        break
    return turns


def find_after(turn: Turn) -> Any:
    """Return what came before a turn when its provider accepted it."""
    if isinstance(turn, AnswerTurn):
        return turn.after
    return turn.native.after if turn.native else None


def find_continued(
    position: int | None, after: dict[str, Any], request: "RequestBuilder"
) -> dict[str, Any]:
    """Return the fields that name the stored conversation; none if the service does not have it."""
    named = {key: value for key, value in after.items() if key != "store"}
    if request.continues(after):
        return named if request.stored else after
    what = ", ".join([f"{key} {value!r}" for key, value in named.items()])
    why = f"what came before is left out: it is in a store ({what})"
    request.report("native", position, why)
    return {}


# --- rule 10: where system text goes ---


def place_system_text(turns: list[Turn], request: "RequestBuilder") -> list[Turn]:
    """Leave leading system text on top, and later system text in place if that is legal. Otherwise it becomes
    marked user text."""
    format = request.format
    if format.system_in_place:
        return turns
    placed: list[Turn] = []
    count = count_leading_system(turns)
    for turn in turns[:count]:
        top = place_on_top(turn, request)
        if top is not None:
            placed.append(top)
    rest = turns[count:]
    if not has_system_text(rest):
        return placed + rest
    wanted = find_system_inside(rest, request)
    legal = format.find_system_places(rest, wanted)
    for index, turn in enumerate(rest):
        if isinstance(turn, AnswerTurn) or turn.role != "system" or index in legal:
            placed.append(turn)
        elif is_blank(turn.text):
            why = f"{format.name} does not take this here: it is left out"
            request.report("system", turn.position, why)
        else:
            why = f"{format.name} takes no system text here: it is marked user text"
            request.report("system", turn.position, why)
            text = f"<system>\n{turn.text}\n</system>"
            placed.append(turn._replace(role="user", text=text, form=None))
    return placed


def has_system_text(turns: list[Turn]) -> bool:
    """Return True if there is a system message among `turns`."""
    for turn in turns:  # noqa: SIM110 - all() with a generator takes twice as long
        if isinstance(turn, MessageTurn) and turn.role == "system":
            return True
    return False


def place_on_top(turn: Turn, request: "RequestBuilder") -> Turn | None:
    """Return a system turn as it may go to the top; None if nothing is left of it. What stood before a
    message between others may be compacted or erased."""
    if isinstance(turn, AnswerTurn) or find_after(turn) != AFTER_MESSAGE:
        return turn
    if turn.form is None or request.format.takes_on_top(turn.form):
        return turn
    why = f"{request.format.name} takes only text on top: the rest of it is left out"
    request.report("system", turn.position, why)
    return None if is_blank(turn.text) else turn._replace(form=None)


def find_system_inside(turns: list[Turn], request: "RequestBuilder") -> set[int]:
    """Return the indexes of the system turns that should stay between others: all if the caller says so,
    otherwise those that stood there when this provider and model accepted them."""
    found: set[int] = set()
    for index, turn in enumerate(turns):
        if isinstance(turn, AnswerTurn) or turn.role != "system":
            continue
        if request.system_inside or was_inside(turn, request):
            found.add(index)
    return found


def was_inside(turn: MessageTurn, request: "RequestBuilder") -> bool:
    """Return True if a system message stood between others when this provider and model accepted it."""
    if turn.form is None or turn.native is None:
        return False
    return turn.native.after == AFTER_MESSAGE and request.is_home_of(turn.native)


# --- rule 9: whose turn it is ---


def alternate_roles(turns: list[Turn], request: "RequestBuilder") -> list[Turn]:
    """Let the user have the first and the last message, and one between two answers, which must not be joined.

    The formats merge neighbours of one role. If a loaded request did without a user message, so does this one,
    and so it does with `pause`.
    """
    count = count_leading_system(turns)
    if count == len(turns):
        return turns + begin_conversation(turns, request)
    if not request.format.alternates_roles:
        return turns
    spaced = turns[:count]
    first = turns[count]
    if isinstance(first, AnswerTurn) and first.after != AFTER_NOTHING:
        why = f"the user has to begin, so the user says {RESUMED!r}"
        request.report("alternate", first.position, why)
        spaced.append(MessageTurn(None, "user", RESUMED))
    before: Turn | None = None
    for turn in turns[count:]:
        if isinstance(turn, AnswerTurn) and before is not None and is_joined(before, turn):
            why = f"two answers in a row: the user says {CONTINUE!r} between them"
            request.report("alternate", turn.position, why)
            spaced.append(MessageTurn(None, "user", CONTINUE))
        spaced.append(turn)
        before = turn
    last = spaced[-1]
    if isinstance(last, AnswerTurn) and not last.calls and not may_be_last(last, request):
        # "This model does not support assistant message prefill" (CLIProxyAPI#5319).
        request.report("alternate", last.position, NO_LAST_WORD)
        spaced.append(MessageTurn(None, "user", CONTINUE))
    return spaced


def begin_conversation(turns: list[Turn], request: "RequestBuilder") -> list[Turn]:
    """Return the first message of a conversation without messages. The services refuse an empty one."""
    format = request.format
    if format.alternates_roles:
        why = f"the user has to begin, so the user says {RESUMED!r}"
    elif turns and not format.system_on_top:
        return []
    else:
        why = f"nothing was said: the services refuse that, so the user says {RESUMED!r}"
    request.report("alternate", None, why)
    return [MessageTurn(None, "user", RESUMED)]


def is_joined(before: Turn, answer: AnswerTurn) -> bool:
    """Return True if a service would join `answer` with the turn before it."""
    if not isinstance(before, AnswerTurn) or not ends_with_model(before):
        return False
    # The model continued from there, or the service accepted two answers in a row.
    return Accepted.LAST_WORD not in before.accepted and answer.after != AFTER_ANSWER


def may_be_last(answer: AnswerTurn, request: "RequestBuilder") -> bool:
    """Return True if the model continues an answer at the end of a request."""
    return request.pause or Accepted.LAST_WORD in answer.accepted


Rule = Callable[[list[Any], "RequestBuilder"], list[Any]]

# The order counts: a result is bound before its call can be closed, an answer is complete before its form is
# compared with the log, ids are given in the order of the request, roles are looked at last. Rules 3, 4, 7 and
# 8 hold when a turn is read (`reading`).
RULES: tuple[Rule, ...] = (
    bind_results,  # bind, drop, group: each result goes to its call, directly after the answer
    close_open_calls,  # close
    choose_native_forms,  # native, order; id, name, arguments for the calls that we write
    choose_result_forms,  # native, blank, error, group (the order of results)
    continue_stored_conversation,  # native
    place_system_text,  # system
    alternate_roles,  # alternate
)
