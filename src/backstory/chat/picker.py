"""Choose one of several texts, with the arrows and Enter or by its number; Escape cancels."""

from collections.abc import Sequence

from prompt_toolkit.formatted_text import StyleAndTextTuples

from backstory.chat.menu import arrows, choose
from backstory.present.safe_text import one_line

MOST_ROWS = 10
KEYS = "(↑ ↓ Enter, a number, or Esc)"


def pick(question: str, texts: Sequence[str]) -> int | None:
    """The index of the text that was chosen. The last one is number 1, and chosen at first."""
    menu = Menu(question, texts)
    keys = arrows(menu.move, MOST_ROWS)
    for digit in "0123456789":
        keys.add(digit)(lambda event, digit=digit: menu.number(digit))
    return choose(menu.rows, keys, lambda: menu.chosen)


class Menu:
    """Which text is chosen, and how the list looks."""

    def __init__(self, question: str, texts: Sequence[str]) -> None:
        self._question = question
        self._texts = [one_line(text) for text in texts]
        self.chosen = len(texts) - 1
        self.typed = ""  # digits of a number

    def move(self, by: int) -> None:
        """Up or down, not beyond the ends."""
        self.typed = ""
        self.chosen = min(max(0, self.chosen + by), len(self._texts) - 1)

    def number(self, digit: str) -> None:
        """Add a digit; if there is no such number, start over with it."""
        self.typed = self.typed + digit if self._has(self.typed + digit) else digit
        if self._has(self.typed):
            self.chosen = len(self._texts) - int(self.typed)

    def _has(self, typed: str) -> bool:
        return 1 <= int(typed) <= len(self._texts)

    def rows(self) -> StyleAndTextTuples:
        """The question, and the texts around the chosen one."""
        first = min(max(0, self.chosen - MOST_ROWS // 2), max(0, len(self._texts) - MOST_ROWS))
        last = min(len(self._texts), first + MOST_ROWS)
        found: StyleAndTextTuples = [("bold", f"{self._question} {KEYS}\n")]
        if first:
            found.append(("", f"     … {first} earlier\n"))
        for index in range(first, last):
            sign, style = (">", "bold") if index == self.chosen else (" ", "")
            found.append((style, f"{sign} {len(self._texts) - index:>3}  {self._texts[index]}\n"))
        if last < len(self._texts):
            found.append(("", f"     … {len(self._texts) - last} later\n"))
        return found
