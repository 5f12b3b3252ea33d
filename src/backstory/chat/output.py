"""What the chat itself prints: lines, lists, errors, and a new page after each move."""

from collections.abc import Sequence

from rich.console import Console, RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from backstory.errors import Error
from backstory.present.remedies import in_chat
from backstory.present.safe_text import one_line, visible


class Output:
    """Prints to the terminal through rich."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def draw(self, *things: RenderableType) -> None:
        """Something that rich can draw."""
        for thing in things:
            self.console.print(thing)

    def say(self, text: str) -> None:
        """A dimmed line from the chat, not from the log."""
        self.draw(Text(visible(text), style="dim", overflow="fold"))

    def warn(self, text: str) -> None:
        """A line that should not be overlooked."""
        self.draw(Text(f"⚠ {one_line(text)}", style="yellow", overflow="fold"))

    def line(self, text: str) -> None:
        """A line of a list, cut at the edge, its columns as they are."""
        flat = visible(text.replace("\n", " "), keep="")
        self.console.print(Text(flat), no_wrap=True, overflow="ellipsis")

    def table(self, rows: Sequence[tuple[str, str]]) -> None:
        """Two columns, the second one wrapped where the screen is narrow."""
        table = Table.grid(padding=(0, 2))
        for left, right in rows:
            table.add_row(Text(left), Text(right, style="dim"))
        self.draw(table)

    def complain(self, problem: Exception | str) -> None:
        """One line on what went wrong, and what to do about it here."""
        text = in_chat(problem) if isinstance(problem, Error) else str(problem)
        self.draw(Text(f"✗ {one_line(text)}", style="red", overflow="fold"))

    def turn(self, title: str) -> None:
        """Start a new page below a thin rule. What was on the screen is scrolled away, not erased."""
        if not self.console.is_dumb_terminal:
            self.console.file.write("\n" * self.console.height)
        self.console.clear()
        self.draw(Rule(Text(f"── {one_line(title)}", style="dim"), align="left", style="dim"))
