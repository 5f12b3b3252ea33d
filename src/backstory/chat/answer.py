"""An answer while it comes: the end of it on the screen, redrawn as it grows, then the whole of it.

What is still growing is drawn over and over at the bottom; what was written to the log is printed once,
above, and stays.
"""

import sys
import termios
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.spinner import Spinner
from rich.text import Text

from backstory.agent import Agent
from backstory.chat import events as drawing
from backstory.chat.markdown import Prose
from backstory.core.events import Event
from backstory.present.safe_text import one_line
from backstory.runtime.loop import Halted, Happening, Happenings, Wrote
from backstory.runtime.models import Retrying, Said

FRAMES = 8  # a second


class Tail:
    """The last lines of a text that may be longer than the screen."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(Prose(self.text), options, pad=False)
        for line in lines[-max(3, console.height - 4) :]:
            yield from line
            yield Segment.line()


class Answering:
    """Draws what happens behind a position; tells where it is, and what somebody else did meanwhile."""

    def __init__(self, console: Console, agent: Agent, *, after: int, expanded: bool = False) -> None:
        self._console = console
        self._agent = agent
        self._pen = drawing.Pen(expanded=expanded)
        self._live: Live | None = None
        self.said = ""  # of an answer that is not in the log yet
        self.drawn_to = after  # the newest position that is on the screen
        self.others: list[Event] = []  # what came from somebody else

    def follow(self, happenings: Happenings) -> None:
        """Draw everything that happens; Ctrl-C goes through, after the loop has recorded it."""
        try:
            with closing(happenings), unechoed():
                for happening in happenings:
                    self._take(happening)
        finally:
            self.rest()

    def rest(self) -> None:
        """Take away what is redrawn: somebody else needs the screen."""
        if self._live:
            self._live.stop()
            self._live = None

    def _take(self, happening: Happening) -> None:
        match happening:
            case Said(text):
                self.said += text
                self._grow()
            case Retrying(why, seconds):
                self.said = ""
                self._note(f"{one_line(why)}; trying again in {seconds:.1f} s")
            case Halted(why):
                self._note(why)
            case Wrote(event):
                self.said = ""
                self.show(event)

    def show(self, event: Event) -> None:
        """Draw an event, and wait for the next thing. What others wrote before it comes first."""
        self.rest()
        between = []
        if event.seq > self.drawn_to + 1:
            between = self._agent.events(after=self.drawn_to, until=event.seq - 1)
        self.others += between
        for one in (*between, event):
            self._console.print(self._pen.draw(one))
        self.drawn_to = event.seq
        self._grow()

    def _note(self, text: str) -> None:
        self.rest()
        self._console.print(Text(f"⚠ {text}", style="yellow"))
        self._grow()

    def _grow(self) -> None:
        shown = Tail(self.said) if self.said else Spinner("dots", Text("… Ctrl-C stops", style="dim"))
        if self._live is None:
            self._live = Live(
                shown, console=self._console, refresh_per_second=FRAMES, transient=True, redirect_stdout=False
            )
            self._live.start()
        else:
            self._live.update(shown)


@contextmanager
def unechoed() -> Iterator[None]:
    """What is typed meanwhile waits for the editor, instead of standing in the middle of an answer."""
    if not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    quiet = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, quiet)
    try:
        yield
    finally:
        with suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
