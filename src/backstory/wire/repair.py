"""Repair: from any messages to turns that every service accepts, in ten rules.

Pure, linear and deterministic: no clock, no randomness, so the same log gives the same bytes and the
services' prompt caches hold. The log is not touched, and every change is told as a `Repair`. The rules
are those of the table in docs/wire.md, each a function here, applied in the order of `repaired`.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from backstory.core.messages import tool_call, tool_result
from backstory.wire.format import Format, arguments_of
from backstory.wire.native import Target, native_of, settle_answer, settle_say, settle_step
from backstory.wire.rows import Readable, Tell, rows
from backstory.wire.turns import Answer, Asked, Repair, Say, Step, Turn, is_blank

INTERRUPTED = "interrupted: no result was recorded"
NO_OUTPUT = "(no output)"
CONTINUE = "Continue."
RESUMED = "(conversation resumed)"
NO_NAME = "unknown_tool"


class Loose(NamedTuple):
    """A result where it was logged, before it is bound to its call."""

    key: str | None
    answer: Answer


class Repaired(NamedTuple):
    """Turns that can be written as they are, the system text that goes on top, and what was mended."""

    system: list[Say]
    turns: list[Turn]
    repairs: list[Repair]


def repaired(
    messages: Iterable[Readable],
    format: Format,
    formats: Mapping[str, Format],
    *,
    model: str | None = None,
    pending: bool = False,
    stored: bool = False,
) -> Repaired:
    """Apply the rules. `pending`: the caller is about to run the open calls of the last step."""
    repairs: list[Repair] = []

    def tell(rule: str, at: int | None, why: str) -> None:
        repairs.append(Repair(rule, at, why))

    target = Target(format, model, stored, formats, tell)
    logged = grouped(messages, target)
    turns = bound(logged, tell)
    closed(turns, tell, pending)
    named(turns, format, tell)
    turns = settled(turns, target)
    system, turns = placed(turns, format, tell)
    if format.alternates:
        turns = alternating(turns, tell)
    elif not turns and (format.system_on_top or not system):
        tell("alternate", None, f"nothing was said: the services refuse that, so the user says {RESUMED!r}")
        turns = [Say("user", RESUMED, None)]
    return Repaired(system, turns, repairs)


def grouped(messages: Iterable[Readable], target: Target) -> list[Say | Step | Loose]:
    """Rules 3, 4 and 8: a step is one answer of the model, its text and then its calls.

    A result, a user or a system message ends a step, and so does text behind text without a call.
    Blank text is dropped here, before it could end anything.
    """
    tell = target.tell
    turns: list[Say | Step | Loose] = []
    step: Step | None = None
    for at, kind, text, data in rows(messages, tell):
        if kind == "tool_result":
            turns.append(loose(at, text, data))
            step = None
            continue
        if kind in ("user", "system"):
            say = said(at, kind, text, data, target)
            if say is not None:
                turns.append(say)
                step = None
            continue
        native = native_of(data) if data else None
        if kind == "assistant" and native is None and is_blank(text):
            tell("blank", at, "blank text of the assistant: the services refuse it")
            continue
        if step is None or (kind == "assistant" and not step.calls):
            turns.append(step := Step(at))
        if kind == "assistant":
            added(step, at, text, tell)
        else:
            step.calls.append(asked(at, data, tell))
        if native is not None:
            step.natives = [*(step.natives or ()), native]
    return turns


def added(step: Step, at: int | None, text: str, tell: Tell) -> None:
    """Rule 3: text belongs before the calls, whenever it was logged."""
    if step.calls and not is_blank(text):
        tell("order", at, "text behind a call of the same answer goes before the calls")
    step.texts.append(text)


def said(at: int | None, kind: str, text: str, data: dict[str, Any] | None, target: Target) -> Say | None:
    """What a person or the system said; None if that is nothing (rule 8)."""
    say = Say(kind, text, at)
    native = native_of(data) if data else None
    if native is not None:
        settle_say(say, native, target)
    if is_blank(text) and say.wire is None and say.parts is None:
        target.tell("blank", at, f"blank text of the {kind}: the services refuse it")
        return None
    return say


def asked(at: int | None, data: dict[str, Any] | None, tell: Tell) -> Asked:
    """Rule 7: a call, with arguments that are an object on the wire, whatever the model gave."""
    if data is None:
        tell("data", at, "this call has no data that could be read")
    id, name, raw = tool_call(data)
    arguments, same = arguments_of(raw)
    if not same:
        tell("arguments", at, "the arguments are no JSON object, or not all of it is JSON: they are mended")
    return Asked(_key(id), name if isinstance(name, str) else "", arguments, at)


def loose(at: int | None, text: str, data: dict[str, Any] | None) -> Loose:
    """A result as it was logged."""
    id, output, error = tool_result(text, data)
    return Loose(_key(id), Answer(output, error, at, native_of(data) if data else None))


def _key(id: Any) -> str | None:
    """What a call and its result know each other by. Old logs have numbers, and nothing."""
    if isinstance(id, str) and id:
        return id
    return str(id) if isinstance(id, int) and not isinstance(id, bool) else None


def bound(logged: list[Say | Step | Loose], tell: Tell) -> list[Turn]:
    """Rules 1, 2 and 4: each result goes to the oldest open call with its id, however late it is.

    What answers nothing, or answers a second time, is dropped: no service accepts it, and
    nobody can say what it belongs to. An id that a later step uses again closes the older call.
    """
    turns: list[Turn] = []
    open: dict[str | None, list[tuple[Asked, Step]]] = {}
    known: set[str | None] = set()
    for item in logged:
        if isinstance(item, Loose):
            waiting = open.get(item.key)
            if waiting:
                answered(*waiting.pop(0), item.answer, turns, tell)
            elif item.key in known:
                tell("drop", item.answer.at, f"a second result for the call {item.key!r}")
            else:
                tell("drop", item.answer.at, f"a result for {item.key!r}, a call that is not there")
            continue
        turns.append(item)
        if isinstance(item, Step):
            for call in item.calls:
                waiting = open.setdefault(call.key, [])
                if waiting and waiting[0][1] is not item:
                    at = waiting[0][0].at
                    tell("bind", at, f"the id {call.key!r} is used again: this call stays open")
                    waiting.clear()
                waiting.append((call, item))
                known.add(call.key)
    return turns


def answered(call: Asked, step: Step, answer: Answer, turns: list[Turn], tell: Tell) -> None:
    """Give a call its result, and say so if the result has to move to get behind its step."""
    call.answer = answer
    if step is not turns[-1]:
        tell("group", answer.at, "this result came late: it moves up, directly behind its call")
    if len(step.calls) > 1:
        step.order = step.order or []
        step.order.append(call)


def closed(turns: list[Turn], tell: Tell, pending: bool) -> None:
    """Rule 5: a call without a result bricks the session, so it gets one that is true and always the
    same. Only a step that is about to run, with nothing behind it, may stay open."""
    for index, turn in enumerate(turns):
        if isinstance(turn, Say) or (pending and index == len(turns) - 1):
            continue
        for call in turn.calls:
            if call.answer is None:
                call.answer = Answer(INTERRUPTED, True, call.at)
                tell("close", call.at, f"the call {call.key!r} has no result, so it says: {INTERRUPTED}")


def named(turns: list[Turn], format: Format, tell: Tell) -> None:
    """Rule 6: ids that are legal and unique stay; others become a hash of the id and its ordinal.
    Replacing single characters could make two ids one. The tools' names are held to the same."""
    taken: set[str] = set()
    names: dict[str, str] = {}
    ordinals: dict[str | None, int] = {}
    for turn in turns:
        if isinstance(turn, Say):
            continue
        for call in turn.calls:
            name = names.get(call.name)
            if name is None:
                name = names[call.name] = legal_name(call.name, format.names)
            if name != call.name:
                tell("name", call.at, f"{format.name} refuses the tool name {call.name!r}: it is {name!r}")
                call.name = name
            if format.ids is None:
                call.id = ""
            else:
                _identify(call, format, taken, ordinals, tell)


def _identify(
    call: Asked, format: Format, taken: set[str], ordinals: dict[str | None, int], tell: Tell
) -> None:
    key = call.key
    if key is None or key in taken or not _is_legal(key, format):
        ordinal = ordinals.get(key, 0)
        call.id = hashed(key, ordinal)
        while call.id in taken:
            ordinal += 1
            call.id = hashed(key, ordinal)
        ordinals[key] = ordinal + 1
        why = "was used before" if key in taken else "is none that the service accepts"
        tell("id", call.at, f"the id {key!r} {why}: it is {call.id!r}")
    taken.add(call.id)


def _is_legal(key: str, format: Format) -> bool:
    return format.ids is not None and format.ids.fullmatch(key) is not None and not key.isspace()


def hashed(key: str | None, ordinal: int) -> str:
    """An id that every service accepts, made of one that it does not."""
    return "call_" + hashlib.sha256(f"{ordinal}:{key or ''}".encode()).hexdigest()[:24]


def legal_name(name: str, pattern: re.Pattern[str]) -> str:
    """A tool's name as the service accepts it: readable still, and not another tool's."""
    if pattern.fullmatch(name):
        return name
    if is_blank(name):
        return NO_NAME
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:40].strip("_") or "tool"
    unique = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{readable if readable[0].isalpha() else f'tool_{readable}'}_{unique}"


def settled(turns: list[Turn], target: Target) -> list[Turn]:
    """Rule 8 once more, and native content: decided now, when steps are whole and ids are final."""
    kept: list[Turn] = []
    for turn in turns:
        if isinstance(turn, Step):
            if turn.natives:
                settle_step(turn, turn.natives, target)
                turn.texts = [text for text in turn.texts if not is_blank(text)]
                if turn.wire is None and not turn.texts and not turn.calls:
                    target.tell("blank", turn.at, "nothing is left of this answer")
                    continue
            for call in turn.calls:
                if call.answer is not None:
                    settle(call, call.answer, target)
            if turn.order is not None:
                order(turn, target.tell)
        kept.append(turn)
    return kept


def order(step: Step, tell: Tell) -> None:
    """Rule 4, the rest: results go in the order of their calls. Results in their provider's own form
    keep the order it accepted."""
    came = step.order or []
    if came == step.calls[: len(came)]:
        step.order = None
    elif len(came) < len(step.calls) or any(call.answer is None or call.answer.wire is None for call in came):
        step.order = None
        tell("group", step.at, "the results of one answer go in the order of its calls")


def settle(call: Asked, answer: Answer, target: Target) -> None:
    """A result as it goes out. An empty one is refused by some, and leaves the model guessing."""
    if answer.error and not target.format.result_errors and answer.text != INTERRUPTED:
        target.tell("error", answer.at, f"{target.format.name} cannot say that a result is an error")
    if answer.native is not None:
        settle_answer(call, answer, answer.native, target)
    if is_blank(answer.text) and answer.wire is None and answer.parts is None:
        answer.text = NO_OUTPUT
        target.tell("blank", answer.at, f"the result is blank, so it says {NO_OUTPUT}")


def placed(turns: list[Turn], format: Format, tell: Tell) -> tuple[list[Say], list[Turn]]:
    """Rule 10: leading system text goes on top; later system text stays where that is legal, and
    becomes marked user text where it is not."""
    count = 0
    while count < len(turns) and getattr(turns[count], "role", None) == "system":
        count += 1
    system = [turn for turn in turns[:count] if isinstance(turn, Say)]
    rest = turns[count:]
    if not format.system_in_place:
        for turn in rest:
            if isinstance(turn, Say) and turn.role == "system":
                tell("system", turn.at, f"{format.name} takes no system text here: it is marked user text")
                turn.role, turn.text, turn.wire = "user", f"<system>\n{turn.text}\n</system>", None
    return system, rest


def alternating(turns: list[Turn], tell: Tell) -> list[Turn]:
    """Rule 9, the second half: the user has the first and the last word, and stands between two
    answers of the model, which must not be glued together. The merging itself is the writing's."""
    spaced: list[Turn] = []
    if not turns or isinstance(turns[0], Step):
        at = turns[0].at if turns else None
        tell("alternate", at, f"the user has to begin, so the user says {RESUMED!r}")
        spaced.append(Say("user", RESUMED, None))
    for turn in turns:
        if isinstance(turn, Step) and spaced and _ends_with_model(spaced[-1]):
            tell("alternate", turn.at, f"two answers in a row: the user says {CONTINUE!r} between them")
            spaced.append(Say("user", CONTINUE, None))
        spaced.append(turn)
    if _ends_with_model(spaced[-1]) and not _is_open(spaced[-1]):
        tell("alternate", turns[-1].at, f"the user has to have the last word, so the user says {CONTINUE!r}")
        spaced.append(Say("user", CONTINUE, None))
    return spaced


def _ends_with_model(turn: Turn) -> bool:
    return isinstance(turn, Step) and not any(call.answer for call in turn.calls)


def _is_open(turn: Turn) -> bool:
    return isinstance(turn, Step) and bool(turn.calls)
