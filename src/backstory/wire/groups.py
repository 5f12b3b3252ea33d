"""From rows to turns: which events are one answer, and which result belongs to which call.

Rules 1 to 5, 7 and 8 of the table in docs/wire.md. Nothing here depends on a particular format.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from backstory.log.messages import read_call, read_result
from backstory.wire.json_values import read_arguments
from backstory.wire.leftovers import TEXT_FIRST
from backstory.wire.native import settle_message
from backstory.wire.origin import REFERRED, Native, native_of, told_of
from backstory.wire.rows import Readable, Report, rows
from backstory.wire.target import Target
from backstory.wire.turns import MessageTurn, Piece, Step, StepCall, StepResult, Turn, is_blank

INTERRUPTED = "interrupted: no result was recorded"


class Loose(NamedTuple):
    """A result where it was logged, before it is bound to its call."""

    key: str | None
    result: StepResult


def grouped(
    messages: Iterable[Readable], target: Target
) -> tuple[list[MessageTurn | Step | Loose], bool]:
    """Rules 3, 4 and 8: a step is one answer of the model, its text and then its calls.

    A result, a user message or a system message ends a step, and so does text after text without a call. But
    events that name the same answer (`data["answer"]`) are one step even with results between them, and
    events that name different answers are not. Blank text is dropped here, before it can end a step. Also
    returns whether there was native content.
    """
    report = target.report
    turns: list[MessageTurn | Step | Loose] = []
    step: Step | None = None
    last: tuple[str, Step] | None = (
        None  # the newest step that names its answer, until someone else speaks
    )
    is_native = False
    for at, kind, text, data in rows(messages, report):
        native = native_of(data) if data else None
        is_native = is_native or native is not None
        if data and "native" in data:
            for rule, why in told_of(data):
                report(rule, at, why)
        if kind == "tool_result":
            turns.append(loose(at, text, data, native))
            step = None
        elif kind == "user" or kind == "system":
            message = message_turn(at, kind, text, native, target)
            if message is not None:
                turns.append(message)
                step = last = None
        elif kind == "assistant" and native is None and is_blank(text):
            report("blank", at, "blank text of the assistant: the services refuse it")
        else:
            answer = data.get("answer") if data else None
            if type(answer) is str:
                if last is not None and last[0] == answer:
                    step = last[1]
                else:
                    turns.append(step := Step(at))
                    last = answer, step
            elif step is None or (kind == "assistant" and is_over(step, native)):
                turns.append(step := Step(at))
                last = None
            extend_step(step, at, text if kind == "assistant" else None, data, native, target)
    return turns, is_native


def is_over(step: Step, native: Native | None) -> bool:
    """Whether more text begins another answer. Reasoning without text belongs to the text after it, but two
    messages that were separate stay separate if messages cannot be joined."""
    if step.calls:
        return False
    if any(not is_blank(text) for text in step.texts):
        return True
    before = next((piece.native for piece in reversed(step.pieces or ()) if piece.native), None)
    if native is None or before is None:
        return False
    is_list = isinstance(native.wire, list) and isinstance(before.wire, list)
    return not is_list or (native.provider, native.model) != (before.provider, before.model)


def extend_step(
    step: Step,
    at: int | None,
    text: str | None,
    data: dict[str, Any] | None,
    native: Native | None,
    target: Target,
) -> None:
    """Add text or a call to a step. Rule 3: text goes before the calls, whenever it was logged."""
    call = None
    if text is None:
        call = step_call(at, data, target.report)
    if native is not None and step.pieces is None:
        step.pieces = [
            *(Piece(words, None, None) for words in step.texts),
            *(Piece(None, earlier, None) for earlier in step.calls),
        ]
    if step.pieces is not None:
        step.pieces.append(Piece(text, call, native))
    if native is not None and native.after is not None and target.is_home_of(native):
        step.after = step.after or native.after
    if native is not None and native.took and target.is_home_of(native):
        step.took += native.took
    if call is not None:
        step.calls.append(call)
        return
    words = text or ""
    if step.calls and not is_blank(words):
        target.report("order", at, TEXT_FIRST)
    step.texts.append(words)


def message_turn(
    at: int | None, kind: str, text: str, native: Native | None, target: Target
) -> MessageTurn | None:
    """A user or system message; None if it is blank (rule 8)."""
    message = MessageTurn(kind, text, at)
    if native is not None:
        settle_message(message, native, target)
        # What a store has is told everywhere; where a message stood counts for its own provider alone.
        if native.provider == target.format.name or isinstance(native.after, dict):
            message.after = native.after
    if message.wire is None and message.content is None and is_blank(message.text):
        target.report("blank", at, f"blank text of the {kind}: the services refuse it")
        return None
    return message


def step_call(at: int | None, data: dict[str, Any] | None, report: Report) -> StepCall:
    """Rule 7: a call, whose arguments are an object in the request, whatever the model wrote."""
    if data is None:
        report("data", at, "this call has no data that could be read")
    id, name, raw = read_call(data)
    arguments, text, same = read_arguments(raw)
    written = data.get("arguments_text") if data else None
    if isinstance(written, str) and read_arguments(written).value == arguments:
        text = written
    found = StepCall(_key(id), name if isinstance(name, str) else "", arguments, at, text)
    found.is_mended = not same
    return found


def loose(at: int | None, text: str, data: dict[str, Any] | None, native: Native | None) -> Loose:
    """A result as it was logged."""
    id, output, error = read_result(text, data)
    return Loose(_key(id), StepResult(output, error, at, native))


def _key(id: Any) -> str | None:
    """The id by which a result finds its call. Old logs have numbers, or none."""
    if isinstance(id, str) and id:
        return id
    return str(id) if isinstance(id, int) and not isinstance(id, bool) else None


def bound(logged: list[MessageTurn | Step | Loose], target: Target) -> list[Turn]:
    """Rules 1, 2 and 4: each result goes to the oldest open call with its id, however late it is.

    A result without a call, or a second result for a call, is dropped: no service accepts it, and nobody
    knows where it belongs. If a later step uses an id again, the older call gets no more results.
    """
    report = target.report
    turns: list[Turn] = []
    open: dict[str | None, list[tuple[StepCall, Step]]] = {}
    known: set[str | None] = set()
    step: Step | None = None
    for item in logged:
        if isinstance(item, Loose):
            waiting = open.get(item.key)
            if waiting:
                attach_result(*waiting.pop(0), item.result, turns, report)
            elif item.key not in known and is_in_store(item.result.native, step, target):
                turns.append(kept_apart(item.result))
                known.add(item.key)
            else:
                what = (
                    "a second result for the call"
                    if item.key in known
                    else "a result for a missing call,"
                )
                report("drop", item.result.at, f"{what} {item.key!r}")
            continue
        turns.append(item)
        if isinstance(item, Step):
            step = item
            for call in item.calls:
                waiting = open.setdefault(call.key, [])
                if waiting and waiting[0][1] is not item:
                    at = waiting[0][0].at
                    report("bind", at, f"the id {call.key!r} is used again: this call stays open")
                    waiting.clear()
                waiting.append((call, item))
                known.add(call.key)
    return turns


def is_in_store(native: Native | None, step: Step | None, target: Target) -> bool:
    """Whether the call of a result is in the service's store: in the response that the request continues, or
    where the answer before it has references."""
    if native is None or native.provider != target.format.name:
        return False
    if REFERRED in native.took:
        is_behind = step is not None and REFERRED in step.took
        return is_behind and target.stored and target.is_home_of(native)
    return isinstance(native.after, dict) and target.continues(native.after)


def kept_apart(result: StepResult) -> MessageTurn:
    """A result without its call, in its own form."""
    message = MessageTurn("user", result.text, result.at)
    message.wire, message.after = result.native.wire, result.native.after
    return message


def attach_result(
    call: StepCall, step: Step, result: StepResult, turns: list[Turn], report: Report
) -> None:
    """Give a call its result, and report it if the result has to move to follow its step."""
    call.result = result
    if step is not turns[-1]:
        report("group", result.at, "this result came late: it moves up, directly behind its call")
    if len(step.calls) > 1:
        step.order = step.order or []
        step.order.append(call)


def close_open_calls(turns: list[Turn], report: Report, pending: bool) -> None:
    """Rule 5: providers refuse a session with a call that has no result, so it gets one that is true and
    always the same. Only a step that is about to run, with nothing after it, may stay open."""
    for index, turn in enumerate(turns):
        if isinstance(turn, MessageTurn) or (pending and index == len(turns) - 1):
            continue
        for call in turn.calls:
            if call.result is None:
                call.result = StepResult(INTERRUPTED, True, call.at)
                report(
                    "close",
                    call.at,
                    f"the call {call.key!r} has no result, so it says: {INTERRUPTED}",
                )
