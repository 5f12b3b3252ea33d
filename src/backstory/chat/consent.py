"""Asks before a tool writes or runs something: yes, no, always for similar calls, or for the whole tool.

The question shows what a person needs to decide: the whole command, or a change with line numbers and the
lines around it. Of a long text, it shows the beginning and the end, and all of it on request.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from backstory.chat.file_diff import Line, changed_lines, new_lines
from backstory.chat.rules import DENIED, Rule, Rules, suggested
from backstory.present.measures import count
from backstory.present.safe_text import one_line, visible
from backstory.runtime.loop import Permission
from backstory.runtime.tools import Tool

MOST_LINES = 24  # lines of a long text, unless all are requested
LONGEST_LINE = 400  # characters; what is longer goes on in the next line
MOST_COMPARED = 10_000_000  # bytes of an existing file: as many as the tools read
REFUSED = "not run: the user said no"
NO_RULES = Rules()
STYLES = {"+": "green", "-": "red"}
ANSWERS = {
    "y": "yes",
    "n": "no",
    "a": "always {what}, until you quit",
    "s": "yes, and to all further calls of it, until you quit",
    "e": "no",
    "v": "view all",
    "": "no",
}

AskKey = Callable[[str, Sequence[str]], str]  # asks a question, returns the key that was pressed
AskLine = Callable[[str], str]  # asks for a line of text


class Request(NamedTuple):
    """What a tool is about to do."""

    head: list[str]  # always shown completely
    body: list[Line]


class Screen(Protocol):
    """What is being drawn when a question comes up."""

    def pause(self) -> None:
        """Remove what is redrawn."""

    def resume(self) -> None:
        """Redraw again."""

    def shows_whole(self, tool: Tool, arguments: dict[str, Any]) -> bool:
        """Whether the last line on the screen shows this call with all its arguments."""


class Consent:
    """Decides by rules, and asks if no rule applies. "Always" adds a rule until the chat ends."""

    def __init__(
        self,
        console: Console,
        ask_key: AskKey,
        ask_line: AskLine,
        *,
        yes: bool = False,
        rules: Rules = NO_RULES,
    ) -> None:
        self._console = console
        self._ask_key = ask_key
        self._ask_line = ask_line
        self._yes = yes
        self._rules = rules
        self.screen: Screen | None = None  # where the calls are drawn

    def __call__(self, tool: Tool, arguments: dict[str, Any]) -> bool | str | Permission:
        """A permission to run the tool, or the reason for a refusal."""
        match self._rules.decide(tool.name, arguments):
            case "deny", rule:
                return DENIED.format(rule)
            case "allow", rule:
                return Permission(f"rule: {rule}")
        if self._yes:
            return Permission("--yes")
        if self.screen is None:
            return self._ask(tool, arguments, request(tool, arguments))
        self.screen.pause()
        is_shown = self.screen.shows_whole(tool, arguments)
        answer = self._ask(
            tool, arguments, Request([], []) if is_shown else request(tool, arguments)
        )
        self.screen.resume()
        return answer

    def _ask(self, tool: Tool, arguments: dict[str, Any], asked: Request) -> str | Permission:
        like_it = suggested(tool.name, arguments)
        body = [part for line in asked.body for part in _parts(line)]
        short = _shortened(body)
        self._show(asked.head, short)
        answer = self._answer(tool, like_it, with_view=len(short) < len(body))
        if answer == "v":
            self._show(asked.head, body)
            answer = self._answer(tool, like_it, with_view=False)
        if answer == "e":
            why = self._ask_line("    Why not? ").strip()
            return f"{REFUSED}: {why}" if why else REFUSED
        if answer in ("a", "s"):
            rule = like_it if answer == "a" and like_it else Rule(tool.name)
            self._rules |= Rules(allow=(rule,))
            return Permission(f"person, and from now on: {rule}")
        return Permission("person") if answer == "y" else REFUSED

    def _answer(self, tool: Tool, like_it: Rule | None, *, with_view: bool) -> str:
        """Ask, and leave the question with its answer on the screen."""
        question = f"    Allow {one_line(tool.name)}?"
        choices = {
            "y": "[y]es",
            "a": f"[a]lways {one_line(like_it.pattern)}" if like_it else "",
            "s": "this [s]ession",
            "n": "[n]o",
            "e": "[e]xplain",
            "v": "[v]iew all" if with_view else "",
        }
        choices = {key: choice for key, choice in choices.items() if choice}
        answer = self._ask_key(f"{question} {', '.join(choices.values())}", "".join(choices))
        what = one_line(like_it.pattern) if like_it else ""
        self._console.print(
            Text(f"{question} {ANSWERS[answer].replace('{what}', what)}", style="dim")
        )
        return answer

    def _show(self, head: list[str], body: list[Line]) -> None:
        lines = [Text(visible(line), style="bold") for line in head]
        lines += [Text(visible(line.text), style=STYLES.get(line.sign, "")) for line in body]
        if lines:
            self._console.print(Padding(Text("\n", overflow="fold").join(lines), (0, 0, 0, 4)))


def request(tool: Tool, arguments: dict[str, Any]) -> Request:
    """What is about to happen."""
    match tool.name, arguments:
        case "bash", {"command": str(command), **more}:
            lines = command.split("\n")
            head = (
                [f"{count(len(lines), 'line')}{_options(more)}:"] if more or len(lines) > 1 else []
            )
            return Request([*head, *(f"$ {line}" for line in lines)], [])
        case "write_file", {"path": str(path), "content": str(content)}:
            return _writing(path, content)
        case "edit_file", {"path": str(path), "old": str(old), "new": str(new), **more}:
            return _editing(path, old, new, everywhere=bool(more.get("everywhere")))
    text = "\n".join(f"{key}: {value}" for key, value in arguments.items())
    return Request([one_line(tool.name)], [Line(line) for line in text.split("\n")])


def _options(more: dict[str, Any]) -> str:
    """Arguments that change what is done."""
    return "".join(f", {key}={value}" for key, value in more.items())


def _writing(path: str, content: str) -> Request:
    size = count(len(content.encode(errors="replace")), "byte")
    if not Path(path).exists():
        return Request([f"create {path} ({size}):"], new_lines(content))
    old = _text(path)
    if old is None:  # nothing to compare with
        return Request([f"overwrite {path} ({size}):"], new_lines(content))
    before = count(len(old.encode()), "byte")
    return Request([f"overwrite {path} ({before}, then {size}):"], _changes(old, content))


def _editing(path: str, old: str, new: str, *, everywhere: bool) -> Request:
    text = _text(path) or ""
    times = text.count(old) if old else 0
    if times == 0 or (times > 1 and not everywhere):  # the tool will refuse it
        found = f"{times} times" if times else "not"
        return Request(
            [f"change {path} (the old text was {found} found there):"], _changes(old, new)
        )
    places = f" in {times} places" if times > 1 else ""
    return Request([f"change {path}{places}:"], _changes(text, text.replace(old, new)))


def _changes(old: str, new: str) -> list[Line]:
    return changed_lines(old, new) or [Line("(nothing changes)")]


def _text(path: str) -> str | None:
    """The text of a file, if it is text and not too large to compare."""
    place = Path(path)
    try:
        if place.stat().st_size > MOST_COMPARED:
            return None
        return place.read_bytes().decode()
    except (OSError, ValueError):
        return None


def _parts(line: Line) -> list[Line]:
    """A line, split into parts that fit the screen."""
    pieces = [
        line.text[at : at + LONGEST_LINE] for at in range(0, len(line.text), LONGEST_LINE)
    ] or [""]
    return [
        line._replace(text=f"…{piece}" if index else piece) for index, piece in enumerate(pieces)
    ]


def _shortened(lines: list[Line]) -> list[Line]:
    if len(lines) <= MOST_LINES:
        return lines
    left_out = count(len(lines) - MOST_LINES + 1, "line")
    half = MOST_LINES // 2
    return [*lines[:half], Line(f"… {left_out} not shown"), *lines[-(half - 1) :]]
