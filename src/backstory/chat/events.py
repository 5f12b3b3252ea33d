"""Turns each event of a context into something that rich can draw.

All text from a log goes through `visible` first, so that it cannot control the terminal. Nothing is printed
here.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from backstory.chat.markdown import Prose
from backstory.chat.mentions import ATTACHED, typed_text
from backstory.chat.shell import OUTPUT
from backstory.log.events import Event
from backstory.log.kinds import TARGETED_KINDS
from backstory.log.messages import read_call, read_result
from backstory.log.moves import read_command
from backstory.present.measures import count
from backstory.present.safe_text import one_line, visible
from backstory.wire.reading import find_thinking
from backstory.wire.repair import INTERRUPTED

MOST_LINES = 3  # lines of a result that are shown when it is folded
MOST_PROMPT_LINES = 40
MOST_ARGUMENTS = 200  # characters
MOST_SYSTEM = 1_000  # characters that a line of any width is cut from


def drawn(
    events: Sequence[Event], *, first: int = 0, expanded: bool = False
) -> Iterator[RenderableType]:
    """The events of a context from an index on, one drawing each. Calls without a result say so. Notes are
    not drawn, nor what /undo and /redo wrote, nor a jump directly before another move, which no longer
    matters."""
    open_calls = interrupted(events)
    pen = Pen(expanded=expanded)
    shown = [event for event in events[first:] if event.kind != "note" and not read_command(event)]
    passed = {
        one.seq
        for one, other in pairwise(shown)
        if one.kind == "jump" and other.kind in TARGETED_KINDS
    }
    for event in shown:
        if event.seq in passed:
            continue
        yield pen.draw(event)
        if event.seq in open_calls:
            yield Text(f"    ⚠ {INTERRUPTED}", style="yellow")


def interrupted(events: Iterable[Event]) -> set[int]:
    """The positions of calls without a result. Ids may repeat, so the order counts, as in `wire`: a result
    belongs to the oldest open call with its id, in the last answer that used the id."""
    waiting: dict[str, list[tuple[int, int]]] = {}
    found: set[int] = set()
    answer = 0
    for event in events:
        id = str((event.data or {}).get("id"))
        if event.kind == "tool_call":
            same = [one for one in waiting.get(id, ()) if one[0] == answer]
            waiting[id] = [*same, (answer, event.seq)]
            found.add(event.seq)
        elif event.kind == "tool_result" and waiting.get(id):
            found.discard(waiting[id].pop(0)[1])
        answer += event.kind in ("user", "system", "tool_result")
    return found


class Pen:
    """Draws events one after another. It remembers the calls, so that a result that does not directly follow
    its call can name it."""

    def __init__(self, *, expanded: bool = False) -> None:
        self._expanded = expanded
        self._calls: dict[str, Event] = {}
        self._last: Event | None = None

    def draw(self, event: Event, *, with_thoughts: bool = True) -> RenderableType:
        """The next event, with what the model thought before it."""
        drawing = one(event, expanded=self._expanded)
        thought = find_thinking(event) if with_thoughts else ""
        if thought:
            drawing = Group(*thoughts(thought, expanded=self._expanded), drawing)
        if event.kind == "tool_call":
            self._calls[str(read_call(event.data).id)] = event
        elif event.kind == "tool_result":
            of = self._calls.get(str((event.data or {}).get("id")))
            if of is not None and of is not self._last:
                drawing = Group(call(of, sign="  ↳ "), drawing)
        self._last = event
        return drawing


def one(event: Event, *, expanded: bool = False) -> RenderableType:
    """One event, by itself."""
    match event.kind:
        case "user" if "compacted" in (event.data or {}):
            return summary_of(event, expanded=expanded)
        case "user" if OUTPUT in (event.data or {}):
            said = _folded(str((event.data or {})[OUTPUT]), event.seq, "dim", expanded=expanded)
            return Group(prompt(typed_text(event), expanded=expanded), said)
        case "user":
            attached = (event.data or {}).get(ATTACHED) or ()
            return prompt(typed_text(event), attached=attached, expanded=expanded)
        case "assistant":
            return answer(event.content or "", event.data or {})
        case "tool_call":
            return call(event, expanded=expanded)
        case "tool_result":
            return result(event, expanded=expanded)
        case "system":
            return system(event.content or "", expanded=expanded)
        case "note":
            return Group()  # not a message: nothing is drawn
        case "mark":
            return Text(f"⚑ {one_line(event.label or 'mark')}  (at {event.seq})", style="magenta")
    target = (event.data or {}).get("target_message_id")
    return Text(f"↩ {event.kind} to {target}", style="dim")


def prompt(text: str, *, attached: Sequence[Any] = (), expanded: bool = False) -> RenderableType:
    """A prompt, and the files that were attached."""
    lines = visible(text).splitlines() or [""]
    more = len(lines) - MOST_PROMPT_LINES
    if more > 0 and not expanded:
        lines = [*lines[:MOST_PROMPT_LINES], f"… {count(more, 'more line')}"]
    body = Text(
        "\n".join(["> " + lines[0], *("  " + line for line in lines[1:])]), style="bold green"
    )
    body.overflow = "fold"
    files = [Text(f"  ⎘ {one_line(str(name))}", style="dim", overflow="fold") for name in attached]
    return Group(Text(""), body, *files)


def summary_of(event: Event, *, expanded: bool = False) -> RenderableType:
    """A summary that replaces older messages."""
    lines = visible(event.content or "").splitlines()
    more = len(lines) - MOST_PROMPT_LINES
    if more > 0 and not expanded:
        lines = [*lines[:MOST_PROMPT_LINES], f"… {count(more, 'more line')}: /show {event.seq}"]
    return Group(Text(""), Text("\n".join(lines), style="dim italic", overflow="fold"))


def answer(text: str, data: dict[str, Any]) -> RenderableType:
    """An answer, with a line about how it ended if it is incomplete."""
    said = Prose(text) if text.strip() else Text("(the model said nothing)", style="dim")
    return Group(Text(""), said, *endings(data))


def thoughts(text: str, *, expanded: bool = False) -> list[RenderableType]:
    """The thinking of a model: one line, or all of it."""
    if not expanded:
        return [
            Text(""),
            Text(
                f"∴ {count(len(text.split()), 'word')} of thinking: Ctrl-O shows them", style="dim"
            ),
        ]
    return [Text(""), Text("∴ thinking", style="dim"), thinking(text)]


def thinking(text: str) -> RenderableType:
    """The text of a thought."""
    return Padding(Text(visible(text).strip(), style="dim italic", overflow="fold"), (0, 0, 0, 2))


def endings(data: dict[str, Any]) -> list[RenderableType]:
    """How an answer ended, if it is incomplete."""
    found: list[RenderableType] = []
    if data.get("interrupted"):
        why = one_line(str(data.get("why") or "stopped"))
        found.append(Text(f"⚠ interrupted: {why}", style="yellow"))
    if data.get("cut"):
        found.append(Text("⚠ cut off: the answer reached the model's limit", style="yellow"))
    return found


def call(event: Event, *, expanded: bool = False, sign: str = "● ") -> RenderableType:
    """A tool call on one line, or with all its arguments."""
    _, name, arguments = read_call(event.data)
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(sign, style="cyan").append(one_line(str(name)), style="bold")
    if not expanded:
        return Group(
            text.append(f" {summary(name, arguments)}")
        )  # alone, it would forget not to wrap
    shown = (
        arguments
        if isinstance(arguments, str)
        else json.dumps(arguments, indent=2, ensure_ascii=False)
    )
    return Group(text, Padding(Text(visible(shown), overflow="fold"), (0, 0, 0, 4)))


def summary(name: Any, arguments: Any) -> str:
    """Arguments on one line: the most informative one, or all of them."""
    match name, arguments:
        case "bash", {"command": str(command)} if "\n" in command.strip():
            text = f"{command.strip().partition(chr(10))[0]} … ({command.count(chr(10)) + 1} lines)"
        case "write_file" | "edit_file", {"path": str(path)}:
            text = path
        case "task", {"description": str(task)}:
            text = task
        case _, dict() if len(arguments) == 1:
            text = _value(next(iter(arguments.values())))
        case _, dict():
            text = ", ".join(f"{key}={_value(value)}" for key, value in arguments.items())
        case _:
            text = str(arguments)
    line = one_line(text)
    return line if len(line) <= MOST_ARGUMENTS else line[: MOST_ARGUMENTS - 1] + "…"


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def fits_one_line(name: str, arguments: dict[str, Any], width: int) -> bool:
    """Whether the one line of a call shows all its arguments completely."""
    values = list(arguments.values())
    if len(values) != 1 or not isinstance(values[0], str) or summary(name, arguments) != values[0]:
        return False
    return cell_len(f"● {name} {values[0]}") <= width


def result(event: Event, *, expanded: bool = False) -> RenderableType:
    """A result: its first lines, or all of them."""
    found = read_result(event.content, event.data)
    whole = (event.data or {}).get("whole")
    text = str(whole if expanded and isinstance(whole, str) else found.output or "")
    return _folded(text, event.seq, "red" if found.error else "dim", expanded=expanded)


def _folded(text: str, seq: int, style: str, *, expanded: bool) -> RenderableType:
    """The output of a tool or a command, and how to see the rest of it."""
    lines = visible(text).rstrip().splitlines() or ["(no output)"]
    more = len(lines) - MOST_LINES
    if more > 0 and not expanded:
        lines = [*lines[:MOST_LINES], f"… {count(more, 'more line')}: Ctrl-O or /show {seq}"]
    return Padding(Text("\n".join(lines), style=style, overflow="fold"), (0, 0, 0, 4))


def system(text: str, *, expanded: bool = False) -> RenderableType:
    """A system message: the beginning on one line, or all of it."""
    if expanded:
        return Text(f"system: {visible(text)}", style="dim")
    line = f"system: {one_line(text)[:MOST_SYSTEM]}"
    return Group(Text(line, style="dim", no_wrap=True, overflow="ellipsis"))  # alone, it would wrap
