"""An answer as it comes in: finished lines are printed and stay; the last lines and a spinner are redrawn
below."""

import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from rich.console import Console
from rich.spinner import Spinner
from rich.text import Text

from backstory.agent import Agent
from backstory.chat import events as drawing
from backstory.chat.cost import Cost, duration
from backstory.chat.keyboard import Keyboard
from backstory.chat.live_region import Drawn, Frame, Lines, LiveRegion
from backstory.chat.stream import Stream
from backstory.log.events import Event
from backstory.present.safe_text import one_line
from backstory.runtime.loop import EventWritten, Forked, Stopped, Update, Updates
from backstory.runtime.models import Retrying, TextDelta, ThinkingDelta
from backstory.runtime.signals import defer_signals
from backstory.runtime.tools import Tool

THOUGHT_LINES = 4  # lines of the model's thinking, while it thinks
MOST_THOUGHT = 2_000  # characters that they are cut from


class AnswerView:
    """Draws what happens after a position; knows how far it got, and what someone else wrote in the
    meantime."""

    def __init__(
        self,
        console: Console,
        agent: Agent,
        *,
        after: int,
        expanded: bool = False,
        waiting_for: Callable[[], str] = lambda: "",
    ) -> None:
        """`waiting_for` is the text beside the spinner, for example that a model is being loaded."""
        self._waiting_for = waiting_for
        self._console = console
        self.agent = agent  # whose events are drawn: the loop may continue in a fork
        self._expanded = expanded
        self._pen = drawing.Pen(expanded=expanded)
        self._stream = Stream(console)
        self._region = LiveRegion(console, self._frame)
        self._keyboard = Keyboard()
        self._spinner = Spinner("dots")
        self._since = time.monotonic()
        self._last_kind = ""  # of the last event on the screen
        self._only_call: Event | None = None  # it is the last line on the screen, and the only call
        self._thought = ""  # the thinking before an answer that has not begun
        self._has_shown_thought = False
        self._began = time.monotonic()
        self.has_answer = False
        self.cost = Cost()  # of the answers that were drawn
        self.drawn_to = after  # the newest position that is on the screen
        self.others: list[Event] = []  # what came from someone else

    @property
    def said(self) -> str:
        """The part of an answer that is not in the log yet."""
        return self._stream.text

    def follow(self, updates: Updates) -> None:
        """Draw everything that happens. Ctrl-C is raised after the loop has recorded it."""
        try:
            with closing(updates):
                self.resume()
                for update in updates:
                    self._take(update)
        finally:
            self.pause()

    def pause(self) -> None:
        """Remove what is redrawn, because something else needs the screen and the keyboard."""
        with (
            defer_signals()
        ):  # otherwise the terminal would stay without an echo, and what was typed would be lost
            self._keyboard.stop()
            self._region.stop()

    def resume(self) -> None:
        """Redraw again."""
        with defer_signals():
            self._keyboard.start()
            self._region.start()

    def shows_whole(self, tool: Tool, arguments: dict[str, Any]) -> bool:
        """Whether the last line on the screen shows this call with all its arguments."""
        return self._only_call is not None and drawing.fits_one_line(
            tool.name, arguments, self._console.width
        )

    def show(self, event: Event) -> None:
        """Draw an event, after what others wrote before it."""
        between = []
        if event.seq > self.drawn_to + 1:
            between = self.agent.events(after=self.drawn_to, until=event.seq - 1)
        self.others += between
        for one in between:
            self._draw(one)
        self._draw(event, is_own=True)

    def show_missed(self) -> list[Event]:
        """Draw events that were recorded without an update, such as an interrupted answer."""
        missed = self.agent.events(after=self.drawn_to)
        for event in missed:
            self._draw(event, is_own=(event.content or "").strip() == self.said.strip())
        return missed

    def _draw(self, event: Event, *, is_own: bool = False) -> None:
        if event.kind == "assistant" and is_own:
            self._end(event)
        else:
            self._region.print(self._pen.draw(event, with_thoughts=not self._has_shown_thought))
        if event.kind in ("assistant", "tool_call"):
            self._thought, self._has_shown_thought = "", False
            self.has_answer = True
            self.cost.add([event])
        is_alone = event.kind == "tool_call" and self._last_kind != "tool_call"
        self._only_call = event if is_alone and not self._expanded else None
        self._last_kind = event.kind
        self.drawn_to = event.seq
        self._since = time.monotonic()

    def _end(self, event: Event) -> None:
        """Print the rest of an answer, and how it ended."""
        with self._region.lock:  # a frame in between would print the rest of the answer twice
            if self.said.strip():
                self.show_rest(event.content or "")
                self._region.print(*drawing.endings(event.data or {}))
            else:
                self._region.print(self._pen.draw(event, with_thoughts=not self._has_shown_thought))
            self._begin()

    def show_rest(self, text: str) -> None:
        """Print the rest of an answer that is complete."""
        with self._region.lock:
            above = [] if self._stream.is_begun else [Text("")]
            self._region.print(*above, Drawn(self._stream.rest_of(text)))

    def _begin(self) -> None:
        with self._region.lock:
            self._stream = Stream(self._console)

    def _take(self, update: Update) -> None:
        match update:
            case TextDelta(text):
                self._show_thought()
                self._stream.text += text
            case ThinkingDelta(text):
                self._thought += text
            case Retrying(why, seconds):
                again = "; the answer begins again" if self._stream.is_begun else ""
                self._begin()
                self._thought, self._has_shown_thought = "", False
                self._note(f"{one_line(why)}; trying again in {seconds:.1f} s{again}")
            case Forked(fork, before):
                self.agent, self.drawn_to = fork, fork.fork_seq
                self._note(
                    f"someone else wrote to {before.name!r} meanwhile: this answer is in the fork "
                    f"{fork.name!r}; /switch {before.name} goes back"
                )
            case Stopped(why):
                self._note(why)
            case EventWritten(event):
                self.show(event)

    def _show_thought(self) -> None:
        """Fold the thinking, now that the answer begins."""
        if self._thought.strip():
            with self._region.lock:
                thought, self._thought = self._thought, ""
                self._region.print(*drawing.thoughts(thought, expanded=self._expanded))
                self._has_shown_thought = True

    def _note(self, text: str) -> None:
        self._region.print(Text(f"⚠ {text}", style="yellow"))

    def _frame(self) -> Frame:
        """The answer so far, and a spinner below it."""
        was_begun = self._stream.is_begun
        settled, tail = self._stream.settled(), self._stream.tail()
        above: Lines = [[]] if (settled or tail) and not was_begun else []
        seconds = int(time.monotonic() - self._since)
        waiting = "".join(f"{what}, " for what in [self._waiting_for()] if what)
        self._spinner.update(text=Text(f"{waiting}{seconds} s, Ctrl-C stops (or Esc)", style="dim"))
        spinner = [*self._thinking(), *self._console.render_lines(self._spinner, pad=False)]
        if settled:
            return Frame([*above, *settled], [*tail, *spinner])
        return Frame([], [*above, *tail, *spinner])

    def _thinking(self) -> Lines:
        """The last lines of the model's thinking."""
        if not self._thought.strip():
            return []
        shown = drawing.thinking(self._thought[-MOST_THOUGHT:])
        return [[], *self._console.render_lines(shown, pad=False)[-THOUGHT_LINES:]]

    def summary(self) -> str:
        """The time it took, and what it cost."""
        return " · ".join([duration(time.monotonic() - self._began), *self.cost.words()])
