"""The chat on a terminal: greets, reads, asks the loop, draws. It decides nothing else."""

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.text import Text

from backstory.chat import commands, drawing
from backstory.chat.answering import Answering
from backstory.chat.consent import Consent
from backstory.chat.editor import Editor, ask
from backstory.chat.session import Chat
from backstory.cli.visible import one_line, visible
from backstory.cli.wording import count
from backstory.errors import Error
from backstory.events import Event
from backstory.models import Model

MOST_DRAWN = 200  # events of a long context; /log has the others
MOST_CHOICES = 20

Choose = Callable[[str], Model]  # the model of a name


class Terminal:
    """One chat on a screen."""

    def __init__(self, chat: Chat, console: Console, consent: Consent, *, url: str, choose: Choose) -> None:
        self.chat = chat
        self.console = console
        self.typed = ""  # what stands in the editor when it opens
        self.is_done = False
        self._consent = consent
        self._url = url
        self._choose = choose
        self._expanded = False
        self._status = ""
        names = [f"/{name}" for name in commands.COMMANDS]
        self._editor = Editor(names, lambda command: commands.choices(self, command), lambda: self._status)

    # --- the conversation ---

    def run(self, greeting: Sequence[str], *, is_new: bool) -> None:
        """Draw what came back, then read and answer until the person leaves."""
        for line in greeting:
            self.say(line)
        if not is_new:
            self.draw_context()
            self.say(self.restored_line())
        while not self.is_done:
            self._refresh()
            text, self.typed = self.typed, ""
            try:
                self._do(self._editor.read(text))
            except KeyboardInterrupt:
                self.say("Ctrl-D or /quit leaves")
            except EOFError:
                return
            except (Error, OSError) as error:
                self.complain(str(error))

    def _do(self, text: str) -> None:
        if text.startswith("/"):
            self.say(text)
            commands.run(self, text.strip())
        elif text.strip():
            self._answer(text)

    def _answer(self, text: str) -> None:
        answering = Answering(self.console, expanded=self._expanded)
        self._consent.rest = answering.rest
        before = self.chat.agent.head
        try:
            answering.follow(self.chat.ask(text))
        except KeyboardInterrupt:
            self._draw_missed(max(before, answering.drawn_to))
            self.say("stopped; what was said is kept")
        except (Error, OSError):
            self._draw_missed(max(before, answering.drawn_to))
            raise

    def _draw_missed(self, after: int) -> None:
        """What was recorded when nobody drew any more."""
        pen = drawing.Pen(expanded=self._expanded)
        for event in self.chat.agent.events(after=after):
            self.console.print(pen.draw(event))

    # --- what commands need ---

    def say(self, text: str) -> None:
        """A line of the chat's own."""
        self.console.print(Text(visible(text), style="dim", overflow="fold"))

    def line(self, text: str) -> None:
        """A line of a list, cut at the edge."""
        self.console.print(Text(one_line_kept(text)), no_wrap=True, overflow="ellipsis")

    def table(self, rows: Sequence[tuple[str, str]]) -> None:
        """Two columns, the second one wrapped where the screen is narrow."""
        from rich.table import Table

        table = Table.grid(padding=(0, 2))
        for left, right in rows:
            table.add_row(Text(left), Text(right, style="dim"))
        self.console.print(table)

    def complain(self, text: str) -> None:
        """One line on what went wrong."""
        self.console.print(Text(f"✗ {one_line(text)}", style="red", overflow="fold"))

    def redraw(self, note: str) -> None:
        """The screen shows exactly the live context, and a note below."""
        self.console.clear()
        if not self.console.is_dumb_terminal:
            self.console.file.write("\x1b[3J")  # what was scrolled away is not the context any more
        self.draw_context()
        self.say(note)

    def draw_context(self) -> None:
        """The live context, or the end of a long one."""
        events = self.chat.agent.context().messages
        if len(events) > MOST_DRAWN:
            self.say(f"… {count(len(events) - MOST_DRAWN, 'earlier event')}: /context lists them")
        for one in drawing.drawn(events[-MOST_DRAWN:], expanded=self._expanded):
            self.console.print(one)

    def draw_event(self, event: Event) -> None:
        """One event in full."""
        self.console.print(drawing.one(event, expanded=True))

    def expand(self) -> None:
        """Results in full, or short again."""
        self._expanded = not self._expanded
        self.redraw("results in full" if self._expanded else "results short")

    def choose(self, texts: Sequence[str]) -> int | None:
        """Which of some texts, by its number; the newest is 1."""
        newest = list(range(len(texts)))[::-1][:MOST_CHOICES]
        for number, index in reversed(list(enumerate(newest, 1))):
            self.line(f"{number:>3}  {one_line(texts[index])}")
        try:
            said = ask("which one? (a number, or nothing) ").strip()
        except (EOFError, KeyboardInterrupt):
            return None
        if not said.isdecimal() or not 1 <= int(said) <= len(newest):
            return None
        return newest[int(said) - 1]

    def shell(self, *arguments: str) -> None:
        """Run a command of the command line on this store."""
        import click

        from backstory.cli.running import cli

        try:
            cli.main(["--store", self._url, *arguments], prog_name="backstory", standalone_mode=False)
        except click.ClickException as error:
            self.complain(error.format_message())

    def change_model(self, name: str) -> None:
        """Let another model answer from now on."""
        before, self.chat.loop.model = self.chat.model, self._choose(name)
        close = getattr(before, "close", None)
        if close:
            close()

    def restored_line(self) -> str:
        """What came back."""
        back = self.chat.restored()
        parts = (count(back.messages, "message"), count(back.marks, "mark"), count(back.tokens, "token"))
        return f"restored {', '.join(parts)}"

    def _refresh(self) -> None:
        """The status line, and the history behind the arrow keys."""
        try:
            self._status = self._state()
            self._editor.remember(prompt.content or "" for prompt in self.chat.prompts())
        except (Error, OSError) as error:  # the person may still want to leave, or to try again
            self._status = f"{self.chat.agent.name} · the store cannot be read"
            self.complain(str(error))

    def _state(self) -> str:
        chat = self.chat
        marks = chat.agent.marks()
        window = f"/{chat.model.window:,}" if chat.model.window else ""
        parts = [chat.agent.name, chat.model.name, f"{chat.tokens():,}{window} tokens"]
        if marks:
            parts.append(f"⚑ {marks[-1].label or marks[-1].seq}")
        return " · ".join(one_line(str(part)) for part in parts)


def one_line_kept(text: str) -> str:
    """A line with its columns as they are, and nothing in it that drives the terminal."""
    return visible(text.replace("\n", " "), keep="")
