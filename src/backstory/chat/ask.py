"""The chat without a terminal: asks one question and prints the answer to standard output."""

import sys
from collections.abc import Sequence
from contextlib import closing

from backstory.chat.mentions import ATTACHED
from backstory.chat.session import Chat
from backstory.log.events import Event
from backstory.present.text import one_line, visible
from backstory.runtime.loop import Compacted, EventWritten, Forked, Stopped, Update
from backstory.runtime.models import Retrying, TextDelta

TAKEN_BACK = "there was no answer: the question was taken back"


def answer_once(
    chat: Chat,
    question: str,
    files: Sequence[str] = (),
    *,
    typed: str | None = None,
    quiet: bool = False,
) -> Event | None:
    """Ask, and print the answer as it comes in, unless `quiet`. Returns the answer, or None. Only
    the typed part of the question may name files."""
    printer = AnswerPrinter(quiet=quiet)
    try:
        with closing(chat.ask(question, files, typed=typed)) as updates:
            for update in updates:
                printer.take(update)
    finally:
        printer.end_line()
        if printer.answer is None and printer.prompt and chat.take_back(printer.prompt):
            print(TAKEN_BACK, file=sys.stderr)
    return printer.answer


class AnswerPrinter:
    """Prints what happens, and keeps the last answer."""

    def __init__(self, *, quiet: bool) -> None:
        self.prompt: Event | None = None
        self.answer: Event | None = None
        self._quiet = quiet
        self._in_line = False  # something was printed without a line end
        self._has_printed_answer = False  # at least its beginning, as it came
        self._is_terminal = sys.stdout.isatty()

    def take(self, update: Update) -> None:
        """Print what there is to print."""
        match update:
            case TextDelta(text):
                self._print(text)
                self._has_printed_answer = True
            case EventWritten(event):
                self._take_event(event)
            case Retrying(why, seconds):
                self._has_printed_answer = False  # it begins again
                self._note(f"{why}; trying again in {seconds:.1f} s")
            case Forked(fork, before):
                self._note(
                    f"someone else wrote to {before.name!r}: this answer is in the fork "
                    f"{fork.name!r}"
                )
            case Compacted(before=size, after=rest):
                self._note(f"the context was compacted from {size:,} to {rest:,} tokens")
            case Stopped(why):
                self.answer = None
                self._note(why)

    def _take_event(self, event: Event) -> None:
        if event.kind == "user":
            self._take_prompt(event)
        elif event.kind == "assistant":
            self.answer = event if (event.content or "").strip() else None
            if not self._has_printed_answer:
                self._print(event.content or "")
            self.end_line()
            self._has_printed_answer = False
        elif event.kind == "tool_call":
            self._has_printed_answer = False
            self._note(f"[{(event.data or {}).get('name')}]")

    def _take_prompt(self, event: Event) -> None:
        self.prompt = event
        for name in (event.data or {}).get(ATTACHED, ()):
            self._note(f"attached: {name}")

    def end_line(self) -> None:
        """Start a new line, if necessary."""
        if self._in_line:
            print(flush=True)
        self._in_line = False

    def _print(self, text: str) -> None:
        if text and not self._quiet:
            print(visible(text) if self._is_terminal else text, end="", flush=True)
            self._in_line = True

    def _note(self, text: str) -> None:
        self.end_line()
        print(one_line(text), file=sys.stderr, flush=True)
