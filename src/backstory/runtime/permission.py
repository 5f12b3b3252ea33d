"""Decides whether an action may run. Every call of every tool goes through `decide`.

Reading is free, except of sensitive files. Everything else needs a person who saw the action, or
`--yes`. There are no rules and no patterns: the only grant is one exact command, until the process
ends.
"""

from collections.abc import Callable
from typing import NamedTuple

from backstory.log.events import Event
from backstory.runtime.tools.tool import Action

__all__ = ["Allow", "Permission", "Permissions", "Refusal"]

NOBODY = "not run: it needs consent, and there was no one to ask"
SAID_NO = "not run: the user said no"
SESSION = "person, for this session"


class Permission(NamedTuple):
    """An action may run. What allowed it is recorded with the result."""

    by: str | None = None


class Refusal(NamedTuple):
    """An action may not run. The model reads why."""

    why: str


Allow = Callable[[Action, Event], Permission | Refusal]


class Permissions:
    """Decides about every action of one process."""

    def __init__(self, ask: Callable[[Action], str] | None = None, *, yes: bool = False) -> None:
        """`ask` shows an action to a person and returns what the person typed. `yes` answers for a
        person, except to file tools about sensitive files; a command can reach those, too."""
        self._ask = ask
        self._yes = yes
        self._granted: set[tuple[str, str]] = set()  # tools and their exact targets

    def decide(self, action: Action, call: Event) -> Permission | Refusal:
        """Return a permission, or the refusal that the model reads."""
        if action.effect == "read" and not action.is_sensitive:
            return Permission()
        if (action.tool, action.target) in self._granted:
            return Permission(SESSION)
        if self._yes and not action.is_sensitive:
            return Permission("--yes")
        if self._ask is None:
            return Refusal(NOBODY)
        return self._read_answer(action, self._ask(action).strip())

    def _read_answer(self, action: Action, answer: str) -> Permission | Refusal:
        """Interpret what the person typed. Only two words allow something."""
        word = answer.lower()
        if word in ("y", "yes"):
            return Permission("person")
        if word in ("s", "session") and action.effect == "run":
            self._granted.add((action.tool, action.target))
            return Permission(SESSION)
        if word in ("", "n", "no"):
            return Refusal(SAID_NO)
        return Refusal(f"{SAID_NO}: {answer}")
