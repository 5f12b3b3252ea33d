"""Records a session of the chat as a picture, with a server that plays the model.

python -m tools.session docs/chat.svg
"""

import io
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.color import Color, ColorParseError
from rich.console import Console
from rich.style import Style
from rich.text import Text

from tests.chat.screen import Terminal, environment
from tests.runtime.scripted import Say, scripted

COLUMNS, LINES = 84, 32
FILES = {
    "notes.md": "# Notes\n\n- the totals in report.py are wrong\n",
    "report.py": "def total(rows):\n    return sum(row.price for row in rows[1:])\n",
}
SCRIPT = (
    Say("I'll look at the code.", calls=(("c1", "read_file", '{"path": "report.py"}'),)),
    Say(
        "`total` skips the first row: `rows[1:]` should be `rows`.\n\n"
        "```python\nreturn sum(row.price for row in rows)\n```"
    ),
    Say("| file | lines |\n| --- | --- |\n| report.py | 2 |\n| notes.md | 3 |"),
    Say(
        "I'll change that line.",
        calls=(("c2", "edit_file", '{"path": "report.py", "old": "rows[1:]", "new": "rows"}'),),
    ),
)


def main(target: Path) -> None:
    """Play the session, and write the picture of its screen."""
    with tempfile.TemporaryDirectory() as place, scripted(*SCRIPT) as server:
        folder = Path(place) / "shop"
        folder.mkdir()
        for name, text in FILES.items():
            (folder / name).write_text(text)
        options = ("--store", str(Path(place) / "history.db"), "chat", "--base-url", server.url)
        terminal = Terminal(
            *options,
            cwd=folder,
            env=environment(Path(place)),
            columns=COLUMNS,
            lines=LINES,
            cold=True,
        )
        try:
            _play(terminal)
            target.write_text(picture(terminal.screen))
        finally:
            terminal.close()


def _play(terminal: Terminal) -> None:
    terminal.send("Why are the totals wrong?")
    terminal.answered("should be")
    terminal.send("/mark found")
    terminal.ready()
    terminal.send("Which files are there, in a table?")
    terminal.answered("notes.md")
    terminal.send("/undo")
    terminal.wait("── undone ──")
    terminal.ready()
    terminal.send("Fix it, please")
    terminal.wait("[e]xplain")


def picture(screen: Any) -> str:
    """A screen as an SVG."""
    console = Console(record=True, width=screen.columns, file=io.StringIO(), legacy_windows=False)
    for y in range(screen.lines):
        line = Text(no_wrap=True, overflow="crop")
        for x in range(screen.columns):
            cell = screen.buffer[y][x]
            line.append(cell.data, _style(cell))
        console.print(line)
    # Without the fonts that rich would have a viewer fetch: the picture asks nobody for anything.
    plain = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return console.export_svg(title="backstory chat", code_format=plain, unique_id="chat")


def _style(cell: Any) -> Style:
    flags = {
        "bold": cell.bold,
        "italic": cell.italics,
        "underline": cell.underscore,
        "reverse": cell.reverse,
    }
    return Style(color=_color(cell.fg), bgcolor=_color(cell.bg), **flags)


def _color(name: str) -> Color | None:
    """The emulator says "default", a name, or six digits."""
    if name == "default":
        return None
    try:
        return Color.parse(
            f"#{name}" if len(name) == 6 and name.lower() == name and _is_hex(name) else name
        )
    except ColorParseError:
        return Color.parse(name.replace("brown", "yellow").replace("bright", "bright_"))


def _is_hex(name: str) -> bool:
    return all(char in "0123456789abcdef" for char in name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
