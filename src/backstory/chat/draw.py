"""Turns events, parts of answers, and actions into something that rich can draw.

All text from a log goes through `visible` first, so that it cannot control the terminal. Nothing is
printed here.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markdown import Markdown
from rich.padding import Padding
from rich.segment import Segment
from rich.text import Text

from backstory.chat.mentions import ATTACHED, read_typed_text
from backstory.log.data_keys import COMPACTED
from backstory.log.events import Event
from backstory.log.kinds import TARGETED_KINDS
from backstory.log.messages import read_call, read_result
from backstory.log.moves import read_command
from backstory.present.text import count, one_line, visible
from backstory.present.tools import describe_call
from backstory.runtime.tools import Action
from backstory.wire.conversation import conversation_of
from backstory.wire.reading import find_thinking
from backstory.wire.repair import INTERRUPTED

_WITHOUT_LINKS = ("linux", "dumb", "vt100")  # terminals without hyperlinks
_LEFT_OUT = ["html_inline", "html_block", "entity", "image", "reference"]
_PARSER = MarkdownIt().enable(["strikethrough", "table"]).disable(_LEFT_OUT)
MOST_LINES = 3  # lines of a result that are shown when it is folded
MOST_PROMPT_LINES = 40
MOST_SYSTEM = 1_000  # characters that a line of any width is cut from
DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def draw_events(
    events: Sequence[Event], *, first: int = 0, is_expanded: bool = False
) -> Iterator[RenderableType]:
    """Yield a drawing for each event of a context from an index on. Calls without a result say so.
    Notes are not drawn, nor what /undo and /redo wrote, nor a jump directly before another move."""
    open_calls = find_open_calls(events)
    pen = EventPen(is_expanded=is_expanded)
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


def find_open_calls(events: Iterable[Event]) -> set[int | None]:
    """Return the positions of calls that a model reads as interrupted."""
    repairs = conversation_of(events).repairs("openai")
    return {repair.at for repair in repairs if repair.rule == "close"}


class EventPen:
    """Draws events one after another. It remembers the calls, so that a result that does not
    directly follow its call can name it."""

    def __init__(self, *, is_expanded: bool = False) -> None:
        self._is_expanded = is_expanded
        self._calls: dict[str, Event] = {}
        self._last: Event | None = None

    def draw(self, event: Event, *, with_thoughts: bool = True) -> RenderableType:
        """Return the next event, with what the model thought before it."""
        drawing = self._draw_event(event)
        thought = find_thinking(event) if with_thoughts else ""
        if thought:
            drawing = Group(self.draw_thoughts(thought), drawing)
        if event.kind == "tool_call":
            self._calls[str(read_call(event.data).id)] = event
        elif event.kind == "tool_result":
            call = self._calls.get(str((event.data or {}).get("id")))
            if call is not None and call is not self._last:
                drawing = Group(self._draw_call(call, sign="  ↳ "), drawing)
        self._last = event
        return drawing

    def draw_thoughts(self, text: str) -> RenderableType:
        """Return the thinking of a model: one line, or all of it."""
        if self._is_expanded:
            return Group(Text(""), Text("∴ thinking", style="dim"), draw_thinking(text))
        words = count(len(text.split()), "word")
        return Group(Text(""), Text(f"∴ {words} of thinking: Ctrl-O shows them", style="dim"))

    def _draw_event(self, event: Event) -> RenderableType:
        match event.kind:
            case "user":
                return self._draw_user(event)
            case "assistant":
                return draw_answer(event)
            case "tool_call":
                return self._draw_call(event)
            case "tool_result":
                return self._draw_result(event)
            case "system":
                return self._draw_system(event)
            case "mark":
                return Text(f"⚑ {one_line(event.label or 'mark')}  (at {event.seq})", "magenta")
            case "note":
                return Group()  # not a message: nothing is drawn
        target = (event.data or {}).get("target_message_id")
        return Text(f"↩ {event.kind} to {target}", style="dim")

    def _draw_user(self, event: Event) -> RenderableType:
        """Return a prompt with its files, or a summary that replaces older messages."""
        data = event.data or {}
        if COMPACTED in data:
            summary = self._fold(event.content or "", MOST_PROMPT_LINES, f": /show @{event.seq}")
            return Group(Text(""), Text(summary, style="dim italic", overflow="fold"))
        typed = self._fold(read_typed_text(event), MOST_PROMPT_LINES)
        prompt = "> " + typed.replace("\n", "\n  ")
        drawings: list[RenderableType] = [Text(""), Text(prompt, "bold green", overflow="fold")]
        for name in data.get(ATTACHED) or ():
            drawings.append(Text(f"  ⎘ {one_line(str(name))}", style="dim", overflow="fold"))
        return Group(*drawings)

    def _draw_call(self, event: Event, *, sign: str = "● ") -> RenderableType:
        """Return a tool call on one line, or with all its arguments."""
        _, name, arguments = read_call(event.data)
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(sign, style="cyan").append(one_line(str(name)), style="bold")
        if not self._is_expanded:
            text.append(f" {describe_call(str(name), arguments).subject}")
            return Group(text)  # alone, it would forget not to wrap
        shown = arguments
        if not isinstance(arguments, str):
            shown = json.dumps(arguments, indent=2, ensure_ascii=False)
        return Group(text, indent(Text(visible(shown), overflow="fold")))

    def _draw_result(self, event: Event) -> RenderableType:
        """Return a result: its first lines, or all of them."""
        result = read_result(event.content, event.data)
        whole = (event.data or {}).get("whole")
        is_whole = self._is_expanded and isinstance(whole, str)
        output = whole if is_whole else result.output
        return self._draw_output(str(output or ""), event.seq, "red" if result.error else "dim")

    def _draw_output(self, text: str, position: int, style: str) -> RenderableType:
        """Return the output of a tool, and how to see the rest of it."""
        hint = f": Ctrl-O or /show @{position}"
        lines = self._fold(text.rstrip() or "(no output)", MOST_LINES, hint)
        return indent(Text(lines, style=style, overflow="fold"))

    def _draw_system(self, event: Event) -> RenderableType:
        """Return a system message: the beginning on one line, or all of it."""
        text = event.content or ""
        if self._is_expanded:
            return Text(f"system: {visible(text)}", style="dim")
        line = f"system: {one_line(text)[:MOST_SYSTEM]}"
        text_line = Text(line, style="dim", no_wrap=True, overflow="ellipsis")
        return Group(text_line)  # alone, it would wrap

    def _fold(self, text: str, limit: int, hint: str = "") -> str:
        """Return the first lines of a text, and a line that counts the others."""
        lines = visible(text).splitlines()
        more = len(lines) - limit
        if more > 0 and not self._is_expanded:
            lines = [*lines[:limit], f"… {count(more, 'more line')}{hint}"]
        return "\n".join(lines)


def indent(drawing: RenderableType, columns: int = 4) -> RenderableType:
    """Return a drawing with blanks at its left."""
    return Padding(drawing, (0, 0, 0, columns))


def draw_answer(event: Event) -> RenderableType:
    """Return an answer, with a line about how it ended if it is incomplete."""
    text = event.content or ""
    if text.strip():
        drawing = draw_block(text)
    else:
        drawing = Group(Text(""), Text("(the model said nothing)", style="dim"))
    return Group(drawing, *list_endings(event.data or {}))


def list_endings(data: dict[str, Any]) -> list[RenderableType]:
    """Return how an answer ended, if it is incomplete."""
    endings: list[RenderableType] = []
    if data.get("interrupted"):
        why = one_line(str(data.get("why") or "stopped"))
        endings.append(Text(f"⚠ interrupted: {why}", style="yellow"))
    if data.get("cut"):
        endings.append(Text("⚠ cut off: the answer reached the model's limit", style="yellow"))
    return endings


def draw_thinking(text: str) -> RenderableType:
    """Return the text of a thought."""
    return indent(Text(visible(text).strip(), style="dim italic", overflow="fold"), 2)


def draw_output(text: str) -> RenderableType:
    """Return the output of a command that is still running."""
    return indent(Text(visible(text).rstrip(), style="dim", overflow="fold"))


def draw_action(action: Action) -> RenderableType:
    """Return all lines of what an action will do."""
    shown = []
    if action.effect == "run":
        lines = action.target.split("\n")
        if len(lines) > 1:
            shown.append(Text(f"{len(lines)} lines, which run with your rights:"))
        for line in lines:
            shown.append(Text(f"$ {visible(line)}", style="bold", overflow="fold"))
    else:
        shown.append(Text(one_line(action.target), style="bold", overflow="fold"))
        for line in action.preview.split("\n") if action.preview else []:
            style = DIFF_STYLES.get(line[:1], "")
            shown.append(Text(visible(line), style=style, overflow="fold"))
    return indent(Group(*shown))


# --- answers as Markdown ---


def draw_block(text: str) -> RenderableType:
    """Return a part of an answer, below an empty line."""
    return Group(Text(""), TrimmedProse(text))


class TrimmedProse:
    """Markdown without blanks that a narrower terminal would wrap, and with one empty line between
    blocks, where rich puts two around tables."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(Prose(self._text), options, pad=False)
        trimmed = [trim_line(line) for line in lines]
        while trimmed and not trimmed[-1]:
            trimmed.pop()
        before: list[Segment] = []  # so that the first line is not empty
        for line in trimmed:
            if line or before:
                yield from line
                yield Segment.line()
            before = line


def trim_line(line: list[Segment]) -> list[Segment]:
    """Return a line without trailing blanks, except coloured ones."""
    while line and not (line[-1].style and line[-1].style.bgcolor):
        last = line[-1]._replace(text=line[-1].text.rstrip())
        if last.text:
            return [*line[:-1], last]
        line = line[:-1]
    return line


class Prose(Markdown):
    """The text of an answer."""

    def __init__(self, text: str) -> None:
        super().__init__(
            "", code_theme="ansi_dark", hyperlinks=os.environ.get("TERM") not in _WITHOUT_LINKS
        )
        self.markup = visible(text)
        self.parsed = _PARSER.parse(self.markup)
        _keep_line_breaks(self.parsed)
        if self.hyperlinks:
            _show_targets(self.parsed)


def _keep_line_breaks(tokens: Iterable[Token]) -> None:
    """Keep line breaks. Markdown would join the lines of a paragraph, but models mean theirs: in
    lists, addresses, poems."""
    for token in tokens:
        if token.type == "softbreak":
            token.type = "hardbreak"
        _keep_line_breaks(token.children or ())


def _show_targets(tokens: Iterable[Token]) -> None:
    """Show the address of a link. Without hyperlinks, rich does that itself."""
    for token in tokens:
        said, target = "", ""
        for child in token.children or ():
            if child.type == "link_open":
                said, target = "", str(child.attrs.get("href", ""))
            elif child.type == "link_close" and said != target:
                child.meta["target"] = target
            said += child.content
        if token.children:
            token.children = [one for child in token.children for one in _with_target(child)]


def _with_target(token: Token) -> list[Token]:
    target = token.meta.get("target")
    return [Token("text", "", 0, content=f" ({target})"), token] if target else [token]


def find_last_block(text: str) -> int:
    """Return the line at which the last block of a text begins. Only this block still grows."""
    blocks = [token for token in _PARSER.parse(text) if token.level == 0 and token.map]
    last = blocks[-1].map if blocks else None
    return last[0] if last else 0
