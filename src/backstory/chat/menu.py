"""Menus: a list that disappears afterwards, and the keys to move, choose and cancel."""

from collections.abc import Callable
from typing import TypeVar

from prompt_toolkit.application import Application
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, Layout, Window

T = TypeVar("T")


def choose(
    text: Callable[[], StyleAndTextTuples], keys: KeyBindings, result: Callable[[], T | None]
) -> T | None:
    """Show a list until Enter chooses what `result` returns; None if the person cancels."""
    content = Window(
        FormattedTextControl(text, focusable=True, show_cursor=False), wrap_lines=False
    )
    app: Application[T | None] = Application(
        layout=Layout(content), key_bindings=keys, erase_when_done=True
    )

    @keys.add("enter")
    def _choose(event: KeyPressEvent) -> None:
        event.app.exit(result=result())

    @keys.add("escape", eager=True)
    @keys.add("c-c")
    @keys.add("c-d")
    @keys.add(Keys.SIGINT)
    def _leave(event: KeyPressEvent) -> None:
        event.app.exit(result=None)

    return app.run()


def arrows(move: Callable[[int], None], page: int) -> KeyBindings:
    """The keys that go up and down, by one or by a page."""
    keys = KeyBindings()
    for key, by in (("up", -1), ("down", 1), ("pageup", -page), ("pagedown", page)):
        keys.add(key)(lambda event, by=by: move(by))
    return keys
