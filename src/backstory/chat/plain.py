"""The chat without a terminal: asks one question and prints the answer to standard output."""

import sys
from collections.abc import Sequence
from contextlib import closing

from backstory.chat.session import Chat
from backstory.log.events import Event
from backstory.present.safe_text import one_line, visible
from backstory.runtime.loop import EventWritten, Forked, Stopped, Update
from backstory.runtime.models import Retrying, TextDelta

TAKEN_BACK = "there was no answer: the question was taken back (--keep keeps it)"


def answer(
    chat: Chat, question: str, files: Sequence[str] = (), *, quiet: bool = False
) -> Event | None:
    """Ask, and print the answer as it comes in, unless `quiet`. Returns the answer, or None."""
    reader = Reader(quiet=quiet)
    try:
        with closing(chat.ask(question, files)) as updates:
            for update in updates:
                reader.take(update)
    finally:
        reader.end_line()
        if reader.answer is None and reader.prompt and chat.take_back(reader.prompt):
            print(TAKEN_BACK, file=sys.stderr)
    return reader.answer


class Reader:
    """Passes on what happens, and keeps the last answer."""

    def __init__(self, *, quiet: bool) -> None:
        self.prompt: Event | None = None
        self.answer: Event | None = None
        self._quiet = quiet
        self._in_line = False  # something was printed without a line end
        self._is_terminal = sys.stdout.isatty()

    def take(self, update: Update) -> None:
        """Print what there is to print."""
        match update:
            case TextDelta(text):
                self._print(text)
            case EventWritten(event) if event.kind == "user":
                self.prompt = event
            case EventWritten(event) if event.kind == "assistant":
                self.answer = event if (event.content or "").strip() else None
                if not self._in_line:
                    self._print(event.content or "")
                self.end_line()
            case EventWritten(event) if event.kind == "tool_call":
                self._tell(f"[{(event.data or {}).get('name')}]")
            case Retrying(why, seconds):
                self._tell(f"{why}; trying again in {seconds:.1f} s")
            case Forked(fork, before):
                self._tell(
                    f"someone else wrote to {before.name!r}: this answer is in the fork {fork.name!r}"
                )
            case Stopped(why):
                self.answer = None
                self._tell(why)

    def end_line(self) -> None:
        """Start a new line, if necessary."""
        if self._in_line:
            print(flush=True)
        self._in_line = False

    def _print(self, text: str) -> None:
        if text and not self._quiet:
            print(visible(text) if self._is_terminal else text, end="", flush=True)
            self._in_line = True

    def _tell(self, text: str) -> None:
        self.end_line()
        print(one_line(text), file=sys.stderr, flush=True)
