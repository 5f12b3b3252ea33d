"""The editor: several lines, history from the log, completion, and a status line.

    Enter           send                     Esc Esc          back to an earlier prompt
    Alt-Enter       a new line               Ctrl-O           results in full, or short again
    Ctrl-X Ctrl-E   the external editor      Ctrl-C, Ctrl-D   drop the line, leave

It only reads text; it knows commands only for completion.
"""

import asyncio
import re
import select
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input.typeahead import get_typeahead, store_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.styles import Style

STYLE = Style.from_dict({"bottom-toolbar": "noreverse #888888", "prompt": "bold"})
MENTIONED = re.compile(r'(?<!\S)@("[^"\n]*|[^\s"]*)$')  # a path that is being typed
BACK = "/back"
EXPAND = "/expand"

Choices = Callable[[str], Iterable[str]]  # completions for a command's argument


class Words(Completer):
    """Completes commands, their arguments, and paths after an @."""

    def __init__(self, commands: Iterable[str], choices: Choices, paths: Choices) -> None:
        self._commands = sorted(commands)
        self._choices = choices
        self._paths = paths

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Completions for the text so far."""
        text = document.text_before_cursor
        mention = MENTIONED.search(text)
        if mention:
            begun = mention[1]
            yield from (Completion(path, start_position=-len(begun)) for path in self._paths(begun))
        if not text.startswith("/") or "\n" in text:
            return
        command, space, rest = text.partition(" ")
        words = self._choices(command) if space else self._commands
        typed = rest if space else command
        for word in words:
            if word.startswith(typed):
                yield Completion(word, start_position=-len(typed))


class Editor:
    """Reads what the person types."""

    def __init__(
        self,
        commands: Iterable[str],
        choices: Choices,
        paths: Choices,
        status: Callable[[], str],
        pasted: Callable[[str], str] = str,
    ) -> None:
        """`pasted` turns a pasted text into what is inserted."""
        self.draft = ""  # the text when a key other than Enter closed the editor
        self._external: asyncio.Task[None] | None = (
            None  # the external editor, which has the screen
        )
        self._session: PromptSession[str] = PromptSession(
            multiline=True,
            key_bindings=_bindings(self._leave_for, self._edit_externally, pasted),
            completer=Words(commands, choices, paths),
            complete_while_typing=False,
            bottom_toolbar=status,
            style=STYLE,
            erase_when_done=True,
            prompt_continuation="  ",
            reserve_space_for_menu=4,
        )

    def remember(self, prompts: Iterable[str]) -> None:
        """The earlier prompts, oldest first, for the arrow keys."""
        history = InMemoryHistory(list(prompts))
        self._session.history = history
        self._session.default_buffer.history = history

    @property
    def text(self) -> str:
        """The text in the editor, or when it was closed."""
        return self._session.default_buffer.text

    def has_typeahead(self) -> bool:
        """Whether lines were typed before the editor opens."""
        keys = get_typeahead(self._session.input)
        store_typeahead(self._session.input, keys)
        return bool(keys or select.select([sys.stdin], [], [], 0)[0])

    def read(self, text: str = "") -> str:
        """Read a prompt; `text` is the initial text. Raises KeyboardInterrupt and EOFError."""
        self.draft = ""
        return self._session.prompt("> ", default=text)

    def run_above(self, draw: Callable[[], None]) -> None:
        """Draw something above the editor, if it is open. Any thread may call this."""
        app = self._session.app
        if app.loop is not None and app.is_running:
            with suppress(
                RuntimeError
            ):  # it was just closed: then this is drawn before it opens again
                app.loop.call_soon_threadsafe(
                    lambda: app.create_background_task(self._draw_above(draw))
                )

    async def _draw_above(self, draw: Callable[[], None]) -> None:
        """Draw, and keep the keyboard meanwhile: in its usual mode, the terminal echoes what is typed."""
        app = self._session.app
        if self._external and not self._external.done():
            await asyncio.wait([self._external])
        await app.renderer.wait_for_cpr_responses()  # they are about where the editor is now
        if app.is_running and not app.is_done:
            app.renderer.erase()
            draw()
            app.renderer.request_absolute_cursor_position()
            app.invalidate()

    def _edit_externally(self, event: KeyPressEvent) -> None:
        self._external = event.current_buffer.open_in_editor()

    def _leave_for(self, event: KeyPressEvent, command: str) -> None:
        self.draft = event.current_buffer.text
        event.app.exit(result=command)


def _bindings(
    leave_for: Callable[[KeyPressEvent, str], None],
    edit_externally: Callable[[KeyPressEvent], None],
    pasted: Callable[[str], str],
) -> KeyBindings:
    keys = KeyBindings()
    keys.add("c-x", "c-e")(edit_externally)  # the text comes back to be looked at; Enter sends it

    @keys.add(Keys.BracketedPaste)
    def _paste(event: KeyPressEvent) -> None:
        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        event.current_buffer.insert_text(pasted(text))

    @keys.add("enter")
    def _send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state and len(buffer.complete_state.completions) > 1:
            buffer.complete_state = None  # one of them is chosen
        elif buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("escape", "escape")
    def _back(event: KeyPressEvent) -> None:
        leave_for(event, BACK)

    @keys.add("c-o")
    def _expand(event: KeyPressEvent) -> None:
        leave_for(event, EXPAND)

    return keys
