"""A question that is answered with one key, without Enter."""

import sys
import termios
from collections.abc import Sequence
from textwrap import fill

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application, get_app
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, Layout, Window

from backstory.present.safe_text import one_line

LONGEST_KEY = 12  # characters shown of what was typed or pasted instead of a key


def ask_key(question: str, keys: Sequence[str]) -> str:
    """Which of these keys was pressed; the empty string for Escape and Ctrl-D. Raises KeyboardInterrupt. What
    was typed before the question appeared does not count.
    """
    asked = Question(question, keys)
    content = Window(FormattedTextControl(asked.text, focusable=True), wrap_lines=True)
    app: Application[str] = Application(
        layout=Layout(content), key_bindings=_bindings(asked), erase_when_done=True
    )
    if sys.stdin.isatty():
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    clear_typeahead(app.input)
    return app.run()


def ask_line(question: str) -> str:
    """A line of text; empty for Escape and Ctrl-D. Raises KeyboardInterrupt."""
    try:
        return PromptSession[str](erase_when_done=True).prompt(question)
    except EOFError:
        return ""


class Question:
    """A question, and what was wrong with the last answer."""

    def __init__(self, question: str, keys: Sequence[str]) -> None:
        self._question = question
        self._wrong = ""
        self.keys = keys

    def refuse(self, typed: str) -> None:
        """Show which keys are valid, after another one was pressed."""
        *most, last = self.keys
        shown = one_line(typed)[:LONGEST_KEY]
        pressed = f"{shown!r} is not an answer: " if shown else ""
        self._wrong = f"{pressed}press {', '.join(most)} or {last}"

    def text(self) -> StyleAndTextTuples:
        """What is on the screen."""
        wrong: StyleAndTextTuples = [("ansiyellow", f"\n    {self._wrong}")] if self._wrong else []
        columns = get_app().output.get_size().columns
        indent = self._question[: len(self._question) - len(self._question.lstrip())]
        question = fill(
            self._question, columns - 1, subsequent_indent=indent, break_on_hyphens=False
        )
        return [("bold", question), ("[SetCursorPosition]", " "), *wrong]


def _bindings(asked: Question) -> KeyBindings:
    keys = KeyBindings()
    for key in asked.keys:
        for typed in (key, key.upper()):
            keys.add(typed)(lambda event, key=key: event.app.exit(result=key))

    @keys.add(Keys.Any)
    def _refuse(event: KeyPressEvent) -> None:
        asked.refuse(event.data)

    @keys.add("escape", eager=True)
    @keys.add("c-d")
    def _leave(event: KeyPressEvent) -> None:
        event.app.exit(result="")

    @keys.add("c-c")
    @keys.add(Keys.SIGINT)
    def _stop(event: KeyPressEvent) -> None:
        event.app.exit(exception=KeyboardInterrupt())

    return keys
