"""Repair: from any messages to turns that every service accepts, in ten rules.

Pure, linear and deterministic: without a clock or randomness, the same log gives the same bytes, so prompt
caches keep working. The log is not changed, and every change to a request is reported as a `Repair`. The
rules are those of the table in docs/wire.md, each a function here or in `groups` and `names`, applied in the
order of `repaired`. They apply to what was logged, translated or cut; what a provider sent itself is sent
back unchanged (`native`).
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from backstory.wire.formats.base import Format
from backstory.wire.groups import INTERRUPTED, bound, close_open_calls, grouped
from backstory.wire.names import Names
from backstory.wire.native import settle_result, settle_step
from backstory.wire.origin import LAST_WORD
from backstory.wire.rows import Readable, Report
from backstory.wire.target import Target
from backstory.wire.turns import MessageTurn, Repair, Step, StepCall, StepResult, Turn, is_blank

NO_OUTPUT = "(no output)"
CONTINUE = "Continue."
RESUMED = "(conversation resumed)"
MENDED = "the arguments are not a JSON object, or not all of it is JSON: they are mended"
NO_LAST_WORD = f"the user has to have the last word, so the user says {CONTINUE!r}"

# Where an answer was when its provider accepted it: there, no user message has to come first.
FIRST = "nothing"
BEHIND_AN_ANSWER = "answer"
# And system text that was a message between others, not on top.
BEHIND_A_MESSAGE = "message"


class Repaired(NamedTuple):
    """Turns that can be written unchanged, the system text for the top, and the repairs."""

    system: list[MessageTurn]
    turns: list[Turn]
    repairs: list[Repair]
    is_native: bool  # is there a form in it that we did not make?
    after: dict[str, Any] | None  # what in the service's store the first turn continues


class Options(NamedTuple):
    """What the caller knows about the request."""

    pending: bool = False  # the open calls of the last step are about to run: they stay open
    pause: bool = False  # the model has the last word, and goes on from there
    system_inside: bool = (
        False  # the model takes system messages between others (some of Anthropic's)
    )


def repaired(messages: Iterable[Readable], target: Target, options: Options) -> Repaired:
    """Apply the rules."""
    repairs: list[Repair] = []

    def report(rule: str, at: int | None, why: str) -> None:
        repairs.append(Repair(rule, at, why))

    format = target.format
    target = target._replace(report=report)
    logged, is_native = grouped(messages, target)
    turns = bound(logged, target)
    close_open_calls(turns, report, options.pending)
    turns = settled(turns, target)
    after = continued(turns, target)
    system, turns = placed(turns, format, options, report)
    if format.alternates_roles:
        turns = alternating(turns, options, report)
    elif not turns and (format.system_on_top or not system):
        report(
            "alternate",
            None,
            f"nothing was said: the services refuse that, so the user says {RESUMED!r}",
        )
        turns = [MessageTurn("user", RESUMED, None)]
    return Repaired(system, turns, repairs, is_native, after)


def settled(turns: list[Turn], target: Target) -> list[Turn]:
    """Native content, ids, and rule 8 again: decided now that steps are complete, and in order, because an id
    must not be used twice."""
    kept: list[Turn] = []
    names = Names(target.format, target.report)
    for turn in turns:
        if isinstance(turn, Step):
            if turn.pieces is not None:
                settle_step(turn, target, names.taken)
            if turn.wire is not None:
                names.taken.update(call.id for call in turn.calls)
            else:
                if turn.pieces is not None:
                    turn.texts = [text for text in turn.texts if not is_blank(text)]
                    if not turn.texts and not turn.calls:
                        target.report("blank", turn.at, "nothing is left of this answer")
                        continue
                for call in turn.calls:
                    names.give(call)
                    if call.is_mended:
                        target.report("arguments", call.at, MENDED)
            for call in turn.calls:
                if call.result is not None:
                    settle(call, call.result, target)
            if turn.order is not None:
                order(turn, target.report)
        kept.append(turn)
    return kept


def order(step: Step, report: Report) -> None:
    """The rest of rule 4: results are in the order of their calls. Results in their provider's own form keep
    the order that it accepted."""
    came = step.order or []
    if came == step.calls[: len(came)]:
        step.order = None
    elif len(came) < len(step.calls) or any(
        call.result is None or call.result.wire is None for call in came
    ):
        step.order = None
        report("group", step.at, "the results of one answer go in the order of its calls")


def settle(call: StepCall, result: StepResult, target: Target) -> None:
    """Complete a result. Some services refuse an empty one, and it leaves the model guessing."""
    if result.error and not target.format.has_error_flag and result.text != INTERRUPTED:
        target.report("error", result.at, no_flag(target.format.name))
    if result.native is not None:
        settle_result(call, result, result.native, target)
    if result.wire is None and result.content is None and is_blank(result.text):
        result.text = NO_OUTPUT
        target.report("blank", result.at, f"the result is blank, so it says {NO_OUTPUT}")


def no_flag(format: str) -> str:
    """Why a failed result is not marked as an error."""
    return f"{format} cannot say that a result is an error"


def continued(turns: list[Turn], target: Target) -> dict[str, Any] | None:
    """What the request continues in the service's store. Other services cannot reach it, which is
    reported."""
    first = next((turn for turn in turns if getattr(turn, "role", None) != "system"), None)
    after = first.after if first is not None else None
    if not isinstance(after, dict):
        return None
    named = {key: value for key, value in after.items() if key != "store"}
    if target.continues(after):
        return named if target.stored else after
    what = ", ".join(f"{key} {value!r}" for key, value in named.items())
    target.report(
        "native",
        first.at if first else None,
        f"what came before is left out: it is in a store ({what})",
    )
    return None


def placed(
    turns: list[Turn], format: Format, options: Options, report: Report
) -> tuple[list[MessageTurn], list[Turn]]:
    """Rule 10: leading system text goes to the top; later system text stays in place if that is legal, and
    otherwise becomes marked user text."""
    count = 0
    while count < len(turns) and getattr(turns[count], "role", None) == "system":
        count += 1
    system = [turn for turn in turns[:count] if isinstance(turn, MessageTurn)]
    rest: list[Turn] = turns[count:]
    if format.system_in_place:
        return system, rest
    system = [turn for turn in system if _may_lead(turn, format, report)]
    inside = _inside(rest, options) if format.name == "anthropic" else set()
    kept: list[Turn] = []
    for index, turn in enumerate(rest):
        if isinstance(turn, Step) or turn.role != "system" or index in inside:
            kept.append(turn)
        elif is_blank(turn.text):
            report("system", turn.at, f"{format.name} does not take this here: it is left out")
        else:
            report(
                "system",
                turn.at,
                f"{format.name} takes no system text here: it is marked user text",
            )
            turn.role, turn.text, turn.wire = "user", f"<system>\n{turn.text}\n</system>", None
            kept.append(turn)
    return system, kept


def _may_lead(turn: MessageTurn, format: Format, report: Report) -> bool:
    """Whether anything of a system message may go to the top. Between messages, Anthropic takes blocks that
    add and remove tools; on top, only text ("system.0.type: Input should be 'text'"). What stood before
    such a message may be compacted or erased."""
    blocks = turn.wire if isinstance(turn.wire, list) and turn.after == BEHIND_A_MESSAGE else []
    if all(block.get("type") == "text" for block in blocks):
        return True
    report("system", turn.at, f"{format.name} takes only text on top: the rest of it is left out")
    turn.wire = None
    return not is_blank(turn.text)


def _inside(turns: list[Turn], options: Options) -> set[int]:
    """Which system messages may stand between others: some of Anthropic's models take them behind the user's
    turn, or the result of a tool that the service ran, and before the model's, or at the end; others answer
    "role 'system' is not supported on this model" (aiquila#413). One that came from there goes back to
    the same model."""
    found: set[int] = set()
    is_behind_user = False
    for index, turn in enumerate(turns):
        if isinstance(turn, Step):
            is_behind_user = not _ends_with_model(turn) or _ends_with_result(turn)
        elif turn.role == "system":
            was_inside = turn.is_own and turn.wire is not None and turn.after == BEHIND_A_MESSAGE
            if is_behind_user and (options.system_inside or was_inside):
                found.add(index)
            is_behind_user = is_behind_user or not is_blank(turn.text)
        else:
            is_behind_user = True
    is_before_model = True
    for index, turn in reversed(list(enumerate(turns))):
        if isinstance(turn, Step):
            is_before_model = True
        elif turn.role != "system":
            is_before_model = False
        elif not is_before_model:
            found.discard(index)
        elif index not in found and not is_blank(turn.text):  # it becomes the user's
            is_before_model = False
    return found


def alternating(turns: list[Turn], options: Options, report: Report) -> list[Turn]:
    """The second half of rule 9: the first and the last message are the user's, and so is one between two
    answers of the model, which must not be joined. The writers do the merging. If a loaded request did
    without, so does this one, and also if the caller passes `pause`."""
    spaced: list[Turn] = []
    if not turns or (isinstance(turns[0], Step) and turns[0].after != FIRST):
        at = turns[0].at if turns else None
        report("alternate", at, f"the user has to begin, so the user says {RESUMED!r}")
        spaced.append(MessageTurn("user", RESUMED, None))
    for turn in turns:
        if (
            isinstance(turn, Step)
            and spaced
            and _ends_with_model(spaced[-1])
            and turn.after != BEHIND_AN_ANSWER
            and LAST_WORD not in getattr(spaced[-1], "took", ())  # the model went on from there
        ):
            report(
                "alternate",
                turn.at,
                f"two answers in a row: the user says {CONTINUE!r} between them",
            )
            spaced.append(MessageTurn("user", CONTINUE, None))
        spaced.append(turn)
    is_taken = options.pause or LAST_WORD in getattr(spaced[-1], "took", ())
    if _ends_with_model(spaced[-1]) and not _is_open(spaced[-1]) and not is_taken:
        # "This model does not support assistant message prefill" (CLIProxyAPI#5319).
        report("alternate", turns[-1].at, NO_LAST_WORD)
        spaced.append(MessageTurn("user", CONTINUE, None))
    return spaced


def _ends_with_result(turn: Turn) -> bool:
    """Whether an answer is sent back unchanged and ends with the result of one of the service's own tools."""
    blocks = turn.wire if isinstance(turn.wire, list) else []
    return bool(blocks) and str(blocks[-1].get("type")).endswith("_tool_result")


def _ends_with_model(turn: Turn) -> bool:
    return isinstance(turn, Step) and not any(call.result for call in turn.calls)


def _is_open(turn: Turn) -> bool:
    return isinstance(turn, Step) and bool(turn.calls)
