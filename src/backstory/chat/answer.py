"""Draws one turn as it comes: complete blocks are printed and stay, the rest is shown above the
editor."""

import time
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from rich.text import Text

from backstory.agent import Agent
from backstory.chat import draw
from backstory.chat.draw import find_last_block
from backstory.chat.screen import ChatScreen
from backstory.log.events import Event
from backstory.present.text import one_line, visible
from backstory.present.usage import AnswerUsage, read_usage
from backstory.runtime.loop import (
    INCOMPLETE,
    Compacted,
    EventWritten,
    Forked,
    OutputDelta,
    Stopped,
    Update,
    Updates,
)
from backstory.runtime.models import Retrying, TextDelta, ThinkingDelta

MAX_OUTPUT = (
    4_000  # characters of a command's output, or of thinking, of which the last lines are shown
)


@dataclass
class DrawnHistory:
    """What is on the screen: the history of an agent, up to a position."""

    agent: Agent
    position: int


class AnswerDrawing:
    """Draws what happens after the history that is on the screen, and adds it to that. It knows
    what others wrote meanwhile."""

    def __init__(
        self, screen: ChatScreen, drawn: DrawnHistory, *, is_expanded: bool = False
    ) -> None:
        self.others: list[Event] = []  # what came from someone else
        self.has_answer = False
        self.is_stopped = False  # by the person
        self.usage = AnswerUsage(None, answers=0)
        self._screen = screen
        self._drawn = drawn
        self._pen = draw.EventPen(is_expanded=is_expanded)
        self._began_at = time.monotonic()
        self._begin_answer()

    def _begin_answer(self) -> None:
        self.text = ""  # the part of an answer that is not in the log yet
        self._printed = 0  # how many characters of it were printed
        self._thought = ""
        self._has_shown_thought = False
        self._output = ""  # of a command that is still running
        self._screen.show_unfinished(None)

    def follow(self, updates: Updates) -> None:
        """Draw everything that happens."""
        try:
            with closing(updates):
                for update in updates:
                    self._take(update)
        finally:
            self._screen.show_unfinished(None)

    def _take(self, update: Update) -> None:
        match update:
            case TextDelta(text):
                self._add_text(text)
            case ThinkingDelta(text):
                self._thought += text
                self._screen.show_unfinished(
                    partial(draw.draw_thinking, self._thought[-MAX_OUTPUT:])
                )
            case OutputDelta(_, text):
                self._output = (self._output + text)[-MAX_OUTPUT:]
                self._screen.show_unfinished(partial(draw.draw_output, self._output))
            case Retrying(why, seconds):
                again = "; the answer begins again" if self._printed else ""
                self._begin_answer()
                self._warn(f"{one_line(why)}; trying again in {seconds:.1f} s{again}")
            case Forked(fork, before):
                self._drawn.agent = fork
                self._drawn.position = fork.fork_seq
                self._warn(
                    f"someone else wrote to {before.name!r} meanwhile: this answer is in the fork "
                    f"{fork.name!r}; /switch {before.name} goes back"
                )
            case Compacted():
                self._note_compaction(update)
            case Stopped(why):
                self._note_stop(why)
            case EventWritten(event):
                self.show(event)

    def _add_text(self, text: str) -> None:
        """Add to the answer, and print the blocks of it that are complete."""
        self._show_thought()
        self.text += text
        rest = self.text[self._printed :]
        if "\n" in text:
            lines = rest.split("\n")
            number = find_last_block(visible(rest))
            if number:
                done = sum(len(line) + 1 for line in lines[:number])
                self._print_block(rest[:done])
                self._printed += done
                rest = rest[done:]
        self._screen.show_unfinished(partial(draw.draw_block, rest))

    def _print_block(self, text: str) -> None:
        if text.strip():
            self._screen.print(draw.draw_block(text))

    def _note_stop(self, why: str) -> None:
        self.is_stopped = why == INCOMPLETE
        if not self.is_stopped:
            self._warn(why)

    def _note_compaction(self, compaction: Compacted) -> None:
        usage = read_usage(compaction.data)
        self._begin_answer()
        self._drawn.position = compaction.position
        sizes = f"from {compaction.before:,} to {compaction.after:,} tokens"
        parts = [f"compacted {sizes}", describe_seconds(compaction.seconds)]
        if usage is not None:
            self.usage += usage
            parts.append(usage.describe())
        text = " · ".join(part for part in parts if part)
        self._screen.print(Text(f"{text}; /undo takes it back", style="dim"))

    def show(self, event: Event) -> None:
        """Draw an event, after what others wrote before it."""
        drawn = self._drawn
        if event.seq > drawn.position + 1:
            between = drawn.agent.events(after=drawn.position, until=event.seq - 1)
            self.others += between
            for one in between:
                self._draw(one)
        self._draw(event, is_own=True)

    def show_missed(self) -> list[Event]:
        """Draw events that were written without an update, such as an interrupted answer."""
        missed = self._drawn.agent.events(after=self._drawn.position)
        for event in missed:
            is_own = (event.content or "").strip() == self.text.strip()
            self._draw(event, is_own=is_own)
        return missed

    def _draw(self, event: Event, *, is_own: bool = False) -> None:
        if event.kind == "assistant" and is_own and self.text.strip():
            self.print_rest(event.content or "")
            self._screen.print(*draw.list_endings(event.data or {}))
        else:
            with_thoughts = not self._has_shown_thought
            self._screen.print(self._pen.draw(event, with_thoughts=with_thoughts))
        if event.kind in ("assistant", "tool_call"):
            self.has_answer = True
            usage = read_usage(event.data)
            if usage is not None:
                self.usage += usage
        if event.kind in ("assistant", "tool_call", "tool_result"):
            self._begin_answer()
        self._drawn.position = event.seq

    def print_rest(self, recorded: str) -> None:
        """Print the rest of an answer that is complete; all of it, if the log has another text."""
        is_same = recorded.strip() == self.text.strip()
        self._screen.show_unfinished(None)
        self._print_block(self.text[self._printed :] if is_same else recorded)

    def _show_thought(self) -> None:
        """Fold the thinking, now that the answer begins."""
        if self._thought.strip():
            thought, self._thought = self._thought, ""
            self._screen.print(self._pen.draw_thoughts(thought))
            self._has_shown_thought = True

    def _warn(self, text: str) -> None:
        self._screen.print(Text(f"⚠ {text}", style="yellow"))

    @property
    def seconds(self) -> float:
        """How long the turn has taken."""
        return time.monotonic() - self._began_at

    def summarize(self) -> str:
        """Return the time of the turn, its tokens and its price."""
        parts = [describe_seconds(self.seconds), self.usage.describe()]
        return " · ".join(part for part in parts if part)


def describe_seconds(seconds: float) -> str:
    """Return a duration for people."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"
