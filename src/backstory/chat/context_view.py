"""The live context on the screen: drawn whole after a move, and event by event as it grows."""

from collections.abc import Sequence

from backstory.chat import events as drawing
from backstory.chat.output import Output
from backstory.chat.presence import Presence
from backstory.chat.session import Chat
from backstory.log.events import Event
from backstory.log.kinds import MOVE_KINDS
from backstory.present.measures import count

MOST_DRAWN = 200  # events of a long context
UNANSWERED = "this got no answer: /retry asks again"
MOVED = "someone else has moved this agent"


class ContextView:
    """Draws the context of the current agent, and knows how far it was drawn."""

    def __init__(self, chat: Chat, output: Output, presence: Presence) -> None:
        self._chat = chat
        self._output = output
        self._presence = presence
        self._others_wrote = False  # and the screen says so already
        self.expanded = False  # results in full
        self.shown = chat.agent  # whose events are on the screen
        self.seen = chat.agent.head  # the newest position that is there

    def mark_drawn(self, position: int) -> None:
        """Remember that the current agent is on the screen up to a position."""
        self.shown, self.seen = self._chat.agent, position
        self._others_wrote = False
        self._presence.enter(self.shown)

    def catch_up(self) -> None:
        """Draw what someone else wrote to this agent; the model will read it, too."""
        if self._chat.agent != self.shown:  # the context was not drawn completely
            self.redraw(f"in {self._chat.agent.name!r}")
        elif self._chat.agent.head != self.seen:
            self._draw_others()

    def _draw_others(self) -> None:
        if any(event.kind != "note" for event in self._chat.agent.events(after=self.seen)):
            if not self._others_wrote:
                self._output.say("someone else wrote to this agent:")
            self._others_wrote = True
        if has_moved(self.draw_new()):
            self.redraw(MOVED)

    def draw_new(self) -> list[Event]:
        """Draw the events that are not on the screen yet."""
        new = self._chat.agent.events(after=self.seen)
        pen = drawing.Pen(expanded=self.expanded)
        for event in new:
            self._output.draw(pen.draw(event))
        self.seen += len(new)
        return new

    def redraw(self, done: str, hint: str = "", *, asking: bool = False) -> None:
        """Start a new page with the live context. A line above and one below say what was done. With
        `asking`, the model is about to be asked, so there is no warning about a question without an
        answer."""
        self._output.turn(done)
        self.draw(asking=asking)
        self._output.say(f"{done}; {hint}" if hint else done)

    def draw(self, *, asking: bool = False) -> None:
        """The live context, or the end of a long one."""
        context = self._chat.agent.context()
        events = context.messages
        self.mark_drawn(context.at)
        earlier = max(0, len(events) - MOST_DRAWN)
        if earlier:
            self._output.say(
                f"… {count(earlier, 'earlier event')} of the context not drawn: "
                "/context lists them, /show POSITION shows one, /log all shows everything"
            )
        self._output.draw(*drawing.drawn(events, first=earlier, expanded=self.expanded))
        if not asking and self._chat.is_unanswered():
            self._output.warn(UNANSWERED)

    def draw_event(self, event: Event) -> None:
        """One event in full."""
        self._output.draw(drawing.one(event, expanded=True))

    def toggle(self) -> None:
        """Results in full, or short again."""
        self.expanded = not self.expanded
        self.redraw("results in full" if self.expanded else "results short")


def has_moved(events: Sequence[Event]) -> bool:
    """Whether these events changed the context, so that it must be drawn again."""
    return any(event.kind in MOVE_KINDS for event in events)
