"""The screen: an editor that stays open, and everything that is printed above it.

The main thread reads keys. One other thread, the worker, does everything else, and calls the
methods here. Each of them returns when the screen shows what it did, so that things are drawn in
their order.
"""

import asyncio
import io
import os
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from prompt_toolkit import PromptSession
from prompt_toolkit.application import Application, create_app_session
from prompt_toolkit.completion import Completer
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.screen import Char
from prompt_toolkit.output.vt100 import Vt100_Output
from prompt_toolkit.shortcuts.choice_input import ChoiceInput
from prompt_toolkit.styles import Style
from rich.console import Console, RenderableType

from backstory.present.text import count, one_line

STYLE = Style.from_dict({"bottom-toolbar": "noreverse #888888"})
QUIET_SECONDS = 0.7  # without a key, before a question is asked
REFRESH_SECONDS = 0.25
MAX_UNFINISHED = 8  # lines of an unfinished answer
MAX_PASTED = 20  # lines that are shown
EXPAND = "\x0f"  # what Ctrl-O sends
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

T = TypeVar("T")
Draw = Callable[[], RenderableType]


class Work(Protocol):
    """What the screen needs from the worker."""

    def run(self) -> None:
        """Do everything until the person leaves."""

    def preload(self) -> None:
        """Load what an answer needs. Called in a thread of its own, once the editor is drawn."""

    def interrupt(self) -> None:
        """Stop what is being done. Any thread may call this."""

    def describe_wait(self) -> str:
        """Return what is waited for, or an empty text."""


class ChatScreen:
    """Reads what the person types, and prints above it."""

    def __init__(self, completer: Completer) -> None:
        self._console = Console(file=sys.stdout)
        output = ReflowedOutput.from_pty(sys.stdout, term=os.environ.get("TERM"))
        assert isinstance(output, ReflowedOutput)
        self._output = output
        self._typed = threading.Condition()
        self._queue: list[str] = []  # typed, and not read by the worker
        self._has_news = False
        self.is_leaving = False
        self._busy_since: float | None = time.monotonic()
        self._status = ""
        self._draft = ""  # the text in the editor when it opens
        self._unfinished: Draw | None = None
        self._question = ""
        self._answer: asyncio.Future[str | None] | None = None
        self._choice: asyncio.Future[int | None] | None = None
        self._choices: tuple[str, Sequence[str]] = ("", ())
        self._pasted: dict[str, str] = {}  # what stands for a long text, and the text
        self._last_key = 0.0
        self._external: asyncio.Task[None] | None = None  # the external editor
        self._error: BaseException | None = None
        self._work: Work
        self._event_loop: asyncio.AbstractEventLoop | None = None
        self._session: PromptSession[str | None] = PromptSession(
            self._draw_message,
            multiline=True,
            key_bindings=self._bind_keys(),
            completer=completer,
            complete_while_typing=False,
            bottom_toolbar=self._draw_status,
            style=STYLE,
            erase_when_done=True,
            prompt_continuation="  ",
            reserve_space_for_menu=4,
            refresh_interval=REFRESH_SECONDS,
            output=output,
        )
        self._session.app.after_render += output.note_render
        self._session.app.after_render += self._start_preload
        self._session.app.key_processor.before_key_press += self._note_key

    @property
    def width(self) -> int:
        """The columns of the window."""
        return self._console.width

    @property
    def height(self) -> int:
        """The rows of the window."""
        return self._console.height

    # --- the main thread ---

    def run(self, work: Work) -> None:
        """Read keys until the work, which is done in another thread, has ended."""
        self._work = work
        streams = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = PrintedAbove(self, sys.stdout), PrintedAbove(self, None)
        try:
            with create_app_session(output=self._output):  # otherwise lists would be printed above
                asyncio.run(self._run())
        finally:
            sys.stdout, sys.stderr = streams
        if self._error is not None:
            raise self._error

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        self._event_loop = loop
        self._has_ended = asyncio.Event()
        threading.Thread(target=self._run_work, args=(loop,), daemon=True).start()
        while not self._has_ended.is_set():
            draft, self._draft = self._draft, ""
            try:
                line = await self._session.prompt_async(default=draft)
            except (EOFError, OSError):  # the terminal is gone
                self.leave()
                await self._has_ended.wait()
            else:
                if line is not None:  # a dumb terminal reads whole lines
                    self._submit(line)
                if self._choice is not None:
                    await self._run_choice(self._choice)

    def _start_preload(self, app: Application[Any]) -> None:
        """Let the worker load the rest, after the editor was drawn for the first time."""
        app.after_render -= self._start_preload
        threading.Thread(target=self._work.preload, daemon=True).start()

    def _run_work(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            self._work.run()
        except BaseException as error:
            self._error = error
        loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        self._has_ended.set()
        self._close_editor()

    def _close_editor(self) -> None:
        app = self._session.app
        if app.is_running and not app.is_done:
            self._draft = app.current_buffer.text
            app.exit(result=None)

    def leave(self) -> None:
        """Let the worker stop and end. Any thread and any signal handler may call this."""
        with self._typed:
            self.is_leaving = True
            self._typed.notify()
        if self._event_loop is not None:  # otherwise there is nothing to stop yet
            self._work.interrupt()
            self._event_loop.call_soon_threadsafe(self._give_answer, None)

    # --- what the worker calls ---

    def read(self) -> str:
        """Return the next text that was typed; an empty one if there are other news. Raises
        EOFError if the person leaves."""
        with self._typed:
            if not self._queue:
                self._busy_since = None
            while not (self._queue or self._has_news or self.is_leaving):
                self._typed.wait()
            self._busy_since = time.monotonic()
            if self.is_leaving:
                raise EOFError
            self._has_news = False
            return self._queue.pop(0) if self._queue else ""

    def hear(self) -> None:
        """Let `read` return. Any thread may call this."""
        with self._typed:
            self._has_news = True
            self._typed.notify()

    def take_back_queue(self) -> str:
        """Return what was typed and not read, which is not done any more."""
        with self._typed:
            texts, self._queue = self._queue, []
        return "\n".join(texts)

    def print(self, *things: RenderableType) -> None:
        """Print above the editor."""
        with self._console.capture() as drawn:
            for thing in things:
                self._console.print(thing)
        self.write(drawn.get())

    def write(self, text: str) -> None:
        """Write a text above the editor. The main thread does not wait for it: it would wait for
        itself."""
        if not text:
            return
        if threading.current_thread() is threading.main_thread():
            self._session.app.create_background_task(self._write_above(text))
        else:
            self.call(self._write_above(text))

    def show_unfinished(self, draw: Draw | None) -> None:
        """Show the last lines of something above the editor until it is printed."""
        self._unfinished = draw
        self._session.app.invalidate()

    def set_status(self, text: str) -> None:
        """Set the line below the editor."""
        self._status = text

    def ask(self, question: str) -> str:
        """Return a line of text that answers a question. Keys count when nobody has typed for a
        moment. Raises KeyboardInterrupt for Ctrl-C."""
        self.ring()
        answer = self.call(self._ask(question))
        if answer is None:
            raise KeyboardInterrupt
        return answer

    def put_draft(self, text: str) -> bool:
        """Put a text into the editor, unless something was typed there. Return whether it is
        there."""
        return self.call(self._put_draft(text))

    def remember(self, prompts: Sequence[str]) -> None:
        """Let the arrow keys bring back these prompts."""
        self.call(self._remember(prompts))

    def choose(self, question: str, options: Sequence[str]) -> int | None:
        """Let the person choose, and return the index; None if the person did not."""
        return self.call(self._choose(question, options))

    def ring(self) -> None:
        """Ring the bell."""
        self._session.app.output.bell()
        self._session.app.output.flush()

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the event loop of the main thread, and wait for its result."""
        assert self._event_loop is not None, "the worker runs within `run`"
        return asyncio.run_coroutine_threadsafe(coroutine, self._event_loop).result()

    # --- in the event loop of the main thread ---

    async def _write_above(self, text: str) -> None:
        """Write, and keep the keyboard meanwhile: in its usual mode, the terminal echoes what is
        typed."""
        app = self._session.app
        if self._external is not None and not self._external.done():
            await asyncio.wait([self._external])
        await app.renderer.wait_for_cpr_responses()  # they are about where the editor is now
        is_open = app.is_running and not app.is_done
        if is_open:
            app.renderer.erase()
        with suppress(OSError):  # the terminal is gone: whoever reads from it will notice
            app.output.write_raw(text)
            app.output.flush()
        if is_open:
            app.renderer.request_absolute_cursor_position()
            app.invalidate()

    async def _put_draft(self, text: str) -> bool:
        buffer = self._session.default_buffer
        if buffer.text.strip() or self._draft.strip():
            return False
        buffer.text = text
        buffer.cursor_position = len(text)
        if not self._session.app.is_running:
            self._draft = text
        return True

    async def _remember(self, prompts: Sequence[str]) -> None:
        buffer = self._session.default_buffer
        history = InMemoryHistory(prompts)
        self._session.history = buffer.history = history
        if not buffer.text:
            buffer.reset()

    async def _ask(self, question: str) -> str | None:
        drawn_at = time.monotonic()
        while time.monotonic() - max(drawn_at, self._last_key) < QUIET_SECONDS:
            if self.is_leaving:
                return None
            await asyncio.sleep(0.05)
        buffer = self._session.default_buffer
        draft = buffer.document
        buffer.reset()
        self._question = question
        self._answer = asyncio.get_running_loop().create_future()
        self._session.app.invalidate()
        try:
            return await self._answer
        finally:
            self._question = ""
            self._answer = None
            buffer.document = draft

    def _give_answer(self, text: str | None) -> None:
        """Answer the question, if there is one."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(text)

    async def _choose(self, question: str, options: Sequence[str]) -> int | None:
        self._choices = (question, options)
        self._choice = asyncio.get_running_loop().create_future()
        self._close_editor()
        try:
            return await self._choice
        finally:
            self._choice = None

    async def _run_choice(self, choice: "asyncio.Future[int | None]") -> None:
        question, options = self._choices
        keys = KeyBindings()
        keys.add("escape", eager=True)(lambda event: event.app.exit(result=None))
        listed = [(index, one_line(text)) for index, text in enumerate(options)]
        menu = ChoiceInput[Any](message=question, options=listed, key_bindings=keys)
        chosen = None
        with suppress(KeyboardInterrupt, EOFError):
            chosen = await menu.prompt_async()
        choice.set_result(chosen)
        await asyncio.sleep(0)  # `_choose` returns

    # --- drawing ---

    def _draw_message(self) -> ANSI:
        """Return what is above the draft, and the sign before it."""
        lines = []
        if self._unfinished is not None:
            with self._console.capture() as drawn:
                self._console.print(self._unfinished())
            lines = drawn.get().rstrip("\n").split("\n")[-MAX_UNFINISHED:]
        lines += [f"\x1b[2m  next: {one_line(text)}\x1b[0m" for text in self._queue]
        lines.append(f"\x1b[1m{self._question or '> '}\x1b[0m")
        return ANSI("\n".join(lines))

    def _draw_status(self) -> str:
        since = self._busy_since
        if since is None:
            return self._status
        seconds = int(time.monotonic() - since)
        sign = SPINNER[int(time.monotonic() * 4) % len(SPINNER)]
        parts = [f"{sign} {seconds} s", "Ctrl-C stops"]
        if self._work.describe_wait():
            parts.insert(0, self._work.describe_wait())
        if self._queue:
            parts.append(f"{count(len(self._queue), 'prompt')} waiting")
        return " · ".join(parts)

    # --- keys ---

    def _note_key(self, _processor: object) -> None:
        self._last_key = time.monotonic()

    def _submit(self, text: str) -> None:
        """Give a line to whoever waits for one: a question, otherwise the worker."""
        if self._question:
            self._give_answer(text)
            return
        if text.strip():
            self._enqueue(text)

    def _unfold(self, text: str) -> str:
        """Return a draft with the texts that were pasted."""
        for sign, pasted in self._pasted.items():
            text = text.replace(sign, pasted)
        return text

    def _fold(self, pasted: str) -> str:
        """Return what stands for a pasted text in the draft; a short one stands for itself."""
        lines = pasted.count("\n") + 1
        if lines <= MAX_PASTED:
            return pasted
        sign = f"[pasted text {len(self._pasted) + 1}: {lines:,} lines]"
        self._pasted[sign] = pasted
        return sign

    def _bind_keys(self) -> KeyBindings:
        keys = KeyBindings()
        keys.add(Keys.BracketedPaste)(self._paste)
        keys.add("enter")(self._press_enter)
        keys.add("escape", "enter")(lambda event: event.current_buffer.insert_text("\n"))
        keys.add("c-o")(self._press_ctrl_o)
        keys.add("c-x", "c-e")(self._edit_externally)
        keys.add("c-c")(self._press_ctrl_c)
        keys.add(Keys.SIGINT)(self._press_ctrl_c)
        keys.add("c-d")(self._press_ctrl_d)
        return keys

    def _paste(self, event: KeyPressEvent) -> None:
        text = event.data.replace("\r\n", "\n").replace("\r", "\n")
        event.current_buffer.insert_text(self._fold(text))

    def _press_enter(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state and len(buffer.complete_state.completions) > 1:
            buffer.complete_state = None  # one of them is chosen
        elif buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        elif not self._session.app.is_running:  # a dumb terminal
            event.app.exit(result=buffer.text)
        else:
            text = self._unfold(buffer.text)
            if self._question:
                buffer.reset()
            else:
                buffer.text = text
                buffer.reset(append_to_history=True)
                self._pasted = {}
            self._submit(text)

    def _press_ctrl_o(self, _event: KeyPressEvent) -> None:
        if not self._question:
            self._enqueue(EXPAND)

    def _enqueue(self, text: str) -> None:
        with self._typed:
            self._queue.append(text)
            self._typed.notify()

    def _edit_externally(self, event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        buffer.text = self._unfold(buffer.text)
        self._external = buffer.open_in_editor()  # Enter sends the text afterwards

    def _press_ctrl_c(self, event: KeyPressEvent) -> None:
        """Stop what is being done, or clear the line."""
        if self._busy_since is not None:
            self._work.interrupt()
            self._give_answer(None)
        else:
            event.current_buffer.reset()

    def _press_ctrl_d(self, event: KeyPressEvent) -> None:
        if event.current_buffer.text:
            event.current_buffer.delete()
        else:
            self.leave()


class ReflowedOutput(Vt100_Output):
    """A terminal that breaks long lines again when its window becomes narrower.

    prompt_toolkit erases as many rows as it has drawn, which would leave some of them.
    """

    _widths: Sequence[int] = ()  # of the rows that were drawn above the cursor
    _columns = 0  # of the window then

    def note_render(self, app: Application[Any]) -> None:
        """Remember the rows above the cursor."""
        screen = app.renderer.last_rendered_screen
        self._widths = ()
        if screen is not None:
            cursor = screen.get_cursor_position(app.layout.current_window)
            self._widths = [measure_row(screen.data_buffer[row]) for row in range(cursor.y)]
        # The window may have changed since: then a row is wider.
        self._columns = max([self.get_size().columns, *self._widths])

    def cursor_up(self, amount: int) -> None:
        """Move up. After the window became narrower, the first move is to what has to be erased."""
        columns = self.get_size().columns
        if columns < self._columns:
            for width in self._widths:
                amount += max(0, width - 1) // columns
            self._columns = columns
        super().cursor_up(amount)


def measure_row(row: Mapping[int, Char]) -> int:
    """Return how many columns of a row are used."""
    return max((column + 1 for column, char in row.items() if char.char.strip()), default=0)


class PrintedAbove(io.TextIOBase):
    """Standard output or standard error while the editor is open."""

    def __init__(self, screen: ChatScreen, stdout: Any) -> None:
        """`stdout` is the real output; without it, nobody takes this for a terminal."""
        self._screen = screen
        self._stdout = stdout
        self._text = ""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """The encoding of the terminal."""
        return getattr(self._stdout, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Return True if a person reads it."""
        return self._stdout is not None and self._stdout.isatty()

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Keep a text until a line of it is complete."""
        self._text += text
        if "\n" in text:
            self.flush()
        return len(text)

    def flush(self) -> None:
        """Print what was written."""
        text, self._text = self._text, ""
        self._screen.write(text)
