"""Choose a session from a list of titles, which is filtered as one types; Tab shows other folders' sessions,
too."""

from collections.abc import Sequence

from prompt_toolkit.application import get_app
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyPressEvent
from prompt_toolkit.keys import Keys
from rich.cells import cell_len, set_cell_size

from backstory.chat.menu import arrows, choose
from backstory.chat.project import SessionRow
from backstory.present.safe_text import one_line

MOST_ROWS = 12
KEYS = "type to filter, ↑ ↓ Enter, Tab for {}, or Esc"
SHORTEST_TITLE = 10  # the least columns for a title on a narrow screen


def pick_session(rows: Sequence[SessionRow]) -> str | None:
    """The id of the session that was chosen."""
    menu = SessionMenu(rows)
    keys = arrows(menu.move, MOST_ROWS)
    keys.add("tab")(lambda event: menu.toggle())
    keys.add("backspace")(lambda event: menu.filter(menu.typed[:-1]))

    @keys.add(Keys.Any)
    def _type(event: KeyPressEvent) -> None:
        if event.data.isprintable():
            menu.filter(menu.typed + event.data)

    return choose(lambda: menu.text(get_app().output.get_size().columns), keys, menu.chosen_id)


class SessionMenu:
    """Which sessions are listed, and which one is chosen."""

    def __init__(self, rows: Sequence[SessionRow]) -> None:
        self._rows = rows
        self.everywhere = not any(row.is_here for row in rows)
        self.typed = ""
        self._index = 0

    def listed(self) -> list[SessionRow]:
        """The sessions whose titles contain all words that were typed."""
        words = self.typed.lower().split()
        here = (row for row in self._rows if row.is_here or self.everywhere)
        return [row for row in here if all(word in row.title.lower() for word in words)]

    def chosen(self) -> SessionRow | None:
        """The session at the arrow."""
        listed = self.listed()
        return listed[min(self._index, len(listed) - 1)] if listed else None

    def chosen_id(self) -> str | None:
        """The id of that session."""
        chosen = self.chosen()
        return chosen.id if chosen else None

    def move(self, by: int) -> None:
        """Move up or down, not beyond the ends."""
        self._index = min(max(0, self._index + by), max(0, len(self.listed()) - 1))

    def filter(self, typed: str) -> None:
        """Set the filter; the newest match is selected."""
        self.typed, self._index = typed, 0

    def toggle(self) -> None:
        """Switch between this folder's sessions and all."""
        self.everywhere, self._index = not self.everywhere, 0

    def text(self, width: int) -> StyleAndTextTuples:
        """The list, for a screen of this width."""
        listed = self.listed()
        chosen = self.chosen()
        where, other = (
            ("all folders", "this folder") if self.everywhere else ("this folder", "all folders")
        )
        head = f"sessions of {where}: {self.typed}_\n"
        found: StyleAndTextTuples = [("bold", head), ("", f"{KEYS.format(other)}\n")]
        first = max(0, min(self._index - MOST_ROWS // 2, len(listed) - MOST_ROWS))
        shown = listed[first : first + MOST_ROWS]
        widest = max((len(row.facts) for row in shown), default=0)
        room = max(SHORTEST_TITLE, width - widest - len(">   ") - 1)  # the last column stays free
        for row in shown:
            sign, style = (">", "bold") if row is chosen else (" ", "")
            found.append((style, f"{sign} {_fitted(row.title, room)}  {row.facts}\n"))
        rest = len(listed) - first - MOST_ROWS
        if rest > 0 or not listed:
            found.append(("", f"    … {rest} more\n" if listed else "    none fits\n"))
        return found


def _fitted(title: str, room: int) -> str:
    """A title in exactly this many columns."""
    line = one_line(title)
    return (
        set_cell_size(line, room) if cell_len(line) <= room else f"{set_cell_size(line, room - 1)}…"
    )
