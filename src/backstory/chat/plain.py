"""The chat without a terminal: one question, the answer on standard output, and the end."""

import sys
from contextlib import closing

from backstory.chat.session import Chat
from backstory.cli.visible import one_line, visible
from backstory.loop import Halted, Wrote
from backstory.models import Retrying


def answer(chat: Chat, question: str) -> None:
    """Ask, and print what the model says. It is printed when it is whole: a pipe takes nothing back."""
    is_terminal = sys.stdout.isatty()
    with closing(chat.ask(question)) as happenings:
        for happening in happenings:
            match happening:
                case Wrote(event) if event.kind == "assistant":
                    text = event.content or ""
                    print(visible(text) if is_terminal else text, flush=True)
                case Wrote(event) if event.kind == "tool_call":
                    _tell(f"[{(event.data or {}).get('name')}]")
                case Retrying(why, seconds):
                    _tell(f"{why}; trying again in {seconds:.1f} s")
                case Halted(why):
                    _tell(why)


def _tell(text: str) -> None:
    print(one_line(text), file=sys.stderr, flush=True)
