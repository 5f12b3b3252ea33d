"""The chat in a terminal: greets, reads prompts, runs the loop, and draws."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from rich.console import Console

from backstory.chat import commands
from backstory.chat.answer_view import AnswerView
from backstory.chat.consent import Consent
from backstory.chat.context_view import MOVED, UNANSWERED, ContextView, has_moved
from backstory.chat.cost import Cost
from backstory.chat.editor import BACK, EXPAND, Editor
from backstory.chat.mentions import completions, pasted_files
from backstory.chat.output import Output
from backstory.chat.presence import Presence
from backstory.chat.session import Chat
from backstory.chat.shell import SIGN, command_of, ran
from backstory.chat.shutdown import Shutdown
from backstory.chat.status import status_line
from backstory.chat.titles import suggested
from backstory.chat.write_wait import aloud
from backstory.errors import Conflict, Error, StorageError
from backstory.log.events import Event
from backstory.present.measures import count
from backstory.present.prices import preload
from backstory.present.safe_text import one_line
from backstory.runtime.loop import Updates
from backstory.runtime.models import ContextTooLong, Model, ModelError, names_of
from backstory.store import Store

EXCERPT = 1000  # characters of a result that could not be written
TAKEN_BACK = "there was no answer: the prompt was taken back"

T = TypeVar("T")

Choose = Callable[[str], Model]  # finds a model by name
RunCommand = Callable[
    [Store, Sequence[str]], None
]  # runs a command of the command line on an open store


class Terminal:
    """One chat in a terminal."""

    def __init__(
        self,
        chat: Chat,
        console: Console,
        consent: Consent,
        *,
        choose: Choose,
        run_command: RunCommand,
        leaving: Shutdown,
    ) -> None:
        self.chat = chat
        self.output = Output(console)
        self.typed = ""  # the text in the editor when it opens
        self.is_done = False
        self._consent = consent
        self._choose = choose
        self._run_command = run_command
        self._leaving = leaving
        self._status = ""
        self._spent = Cost()  # since the chat was started
        self._hint = ""  # printed before the editor opens
        self._is_leaving = False  # the last key was Ctrl-C
        self._presence = Presence(lambda: self._editor.run_above(self._hear))
        self.context = ContextView(chat, self.output, self._presence)
        self._models: list[str] | None = None  # for completion, once they were requested
        self._refused: list[str] = []  # typed, but not in the log: for the arrow keys
        self._editor = Editor(
            commands.words(),
            lambda command: commands.choices(self, command),
            lambda typed: completions(typed, self.chat.folder or Path.cwd()),
            lambda: self._status,
            lambda text: pasted_files(text, self.chat.folder or Path.cwd()),
        )

    # --- the conversation ---

    def run(self, greeting: Sequence[str]) -> None:
        """Draw the restored context, then read and answer until the person leaves."""
        try:
            self._run_turns(greeting)
        finally:
            self._presence.leave()

    def _run_turns(self, greeting: Sequence[str]) -> None:
        act: Callable[[], None] = partial(self._begin, greeting)
        while not self.is_done and not self._leaving.code:
            try:
                act()
            except KeyboardInterrupt:
                pass  # whatever was stopped has said so
            except EOFError:
                self.is_done = True
            except (Error, OSError) as error:
                self.output.complain(error)
            act = self._turn
        if self.is_done:
            self._part()

    def _begin(self, greeting: Sequence[str]) -> None:
        preload()
        self._presence.enter(self.chat.agent)
        for line in greeting:
            self.output.say(line)
        if self.chat.is_new and self.chat.instructions:
            self.output.say(f"instructions: {self.chat.instructions.described(self.chat.folder)}")
        if not self.chat.is_new:
            self.context.draw()
            self.output.say(self.restored_line())
            if self.chat.has_new_instructions():
                self.output.say("the project's instructions have changed: /instructions reads them")

    def _part(self) -> None:
        """Say how to come back here, if that does not happen by default."""
        with suppress(Error, OSError):
            latest = self.chat.store.resolve("@").agent
            if latest != self.chat.agent:
                here = self.chat.ref(self.chat.agent)
                self.output.say(
                    f"backstory chat {here} comes back here; without a name it is {latest.name!r}, the one "
                    "that was written to last"
                )

    def _turn(self) -> None:
        self._refresh()
        read = self._read()
        if commands.is_command(read):
            self._run(read)
        elif read.startswith(SIGN):
            self._run_shell(read)
        elif read.strip():
            self._send(commands.unescaped(read))

    def _read(self) -> str:
        """Read a prompt. Ctrl-C in an empty editor leaves, when pressed twice."""
        text, self.typed = self.typed, ""
        try:
            read = self._editor.read(text)
        except KeyboardInterrupt:
            is_empty = not self._editor.text
            self.is_done = is_empty and self._is_leaving
            self._is_leaving = is_empty
            self._hint = "press Ctrl-C again to leave (or Ctrl-D, /quit)" if is_empty else ""
            raise
        self._is_leaving = False
        self.typed = self._editor.draft
        return read

    def _run_shell(self, typed: str) -> None:
        """Run a shell command that the person typed, and draw its output."""
        self._refused.append(typed)
        what = f"running {one_line(command_of(typed))}"
        self.context.catch_up()
        view = self._view(lambda: what)
        try:
            view.follow(ran(self.chat.loop, typed))
        except KeyboardInterrupt:
            if not self.context.draw_new():  # otherwise it came after the commit
                self._hint = "stopped; nothing was recorded"
            raise
        except (Error, OSError) as error:
            self._tell_unsaved(error, view)
            raise
        self._refused.pop()
        self.context.mark_drawn(view.drawn_to)

    def _run(self, text: str) -> None:
        self.output.say(text)
        try:
            commands.run(self, text.strip())
        except (Error, OSError):
            if text not in (BACK, EXPAND):
                self._refused.append(text)
            raise

    def _send(self, text: str) -> None:
        """Write a prompt. If that fails, its text is in the editor again."""
        try:
            self.context.catch_up()
            if self.chat.is_nearly_full():
                self.output.say(
                    "the context is nearly full and is compacted first (--no-compact prevents that)"
                )
                self.compact()
            said = self.write(lambda: self._say(text))
        except KeyboardInterrupt:
            if any(
                event.kind == "user" for event in self.context.draw_new()
            ):  # it came after the commit
                self._hint = "stopped; /retry asks again"
            else:
                self._keep(text)
                self._hint = "nothing was sent; the text is in the editor again"
            raise
        except (Error, OSError):
            self._keep(text)
            raise
        self.answer(self.chat.resume(), said)

    def _say(self, text: str) -> Event:
        """Write a prompt after what is on the screen."""
        while True:
            try:
                return self.chat.say(text, seen=self.context.seen)
            except Conflict:  # someone else was faster
                self.context.catch_up()

    def write(self, act: Callable[[], T]) -> T:
        """Run something that writes to the store and may have to wait for others."""
        return aloud(act, self.output.say)

    def _keep(self, text: str) -> None:
        self.typed = text
        self._refused.append(text)

    def compact(self, focus: str = "", *, at_least: int = 0) -> None:
        """Let the model summarize the conversation, and continue with the summary."""
        before = int(self.chat.tokens())
        view = self._view()
        try:
            view.follow(self.chat.compact(focus, at_least=at_least))
        except KeyboardInterrupt:
            self._hint = "stopped; the context is unchanged"
            raise
        sizes = f"from {before:,} to {int(self.chat.tokens()):,} tokens"
        self.context.redraw("compacted", f"{sizes}; /undo takes it back", asking=at_least > 0)

    def title_by_model(self) -> str:
        """Let the model find a title for the session."""
        found: list[str] = []

        def title() -> Updates:
            found.append((yield from suggested(self.chat.agent, self.chat.model)))

        self._view(lambda: "looking for a title").follow(title())
        return found[0]

    def answer(self, updates: Updates, said: Event | None = None, *, compacts: bool = True) -> None:
        """Draw the prompt and the answer. If the context is too long, it is compacted, once."""
        view = self._view()
        self._consent.screen = view
        try:
            if said is not None:
                view.show(said)
            view.follow(updates)
        except KeyboardInterrupt:
            missed = self._draw_missed(view)
            kept = any(event.kind in ("assistant", "tool_result") for event in missed)
            self._hint = "stopped; what was said is kept" if kept else "stopped; /retry asks again"
            self._take_back(said)
        except ContextTooLong as error:
            if not (compacts and self._compact_for(error)):
                self._give_up(error, said, view)
                raise
            self.answer(self.chat.resume(), compacts=False)
        except (Error, OSError) as error:
            self._give_up(error, said, view)
            raise
        else:
            self._draw_missed(view)
            if view.has_answer:
                self.output.say(view.summary())
            self._take_back(said)
        finally:
            self._spent += view.cost

    def _view(self, waiting_for: Callable[[], str] | None = None) -> AnswerView:
        return AnswerView(
            self.output.console,
            self.chat.agent,
            after=self.context.seen,
            expanded=self.context.expanded,
            waiting_for=waiting_for or (lambda: getattr(self.chat.model, "waiting_for", "")),
        )

    def _compact_for(self, problem: ContextTooLong) -> bool:
        """Compact a context that is too long for the model. Returns whether that was possible."""
        if not self.chat.auto_compact:
            return False
        self.output.warn(f"{problem.message}: it is compacted")
        try:
            self.compact(at_least=1)
        except (Error, OSError) as error:
            self.output.complain(error)
            return False
        return True

    def _give_up(self, error: Exception, said: Event | None, view: AnswerView) -> None:
        """Handle a missing answer: show what was not recorded, and take the prompt back."""
        self._tell_unsaved(error, view)
        if isinstance(error, ModelError):
            self._take_back(said)

    def _take_back(self, prompt: Event | None) -> None:
        """Put a prompt without an answer back into the editor, unless something was typed there."""
        with suppress(Error, OSError):  # then it stays in the context, and the screen says so
            if prompt is not None and self.chat.take_back(prompt):
                self.context.mark_drawn(self.chat.agent.head)
                self._refused.append(commands.retyped(prompt))
                if self._editor.has_typeahead():
                    self._hint = f"{TAKEN_BACK}; the ↑ key brings it back"
                else:
                    self.typed = commands.retyped(prompt)
                    self._hint = f"{TAKEN_BACK}, and is in the editor again"

    def _draw_missed(self, view: AnswerView) -> list[Event]:
        """Draw what was recorded after the drawing had stopped."""
        if view.agent != self.chat.agent:  # the fork was not announced
            self.context.redraw(
                f"someone else wrote to {view.agent.name!r}: this is the fork {self.chat.agent.name!r}"
            )
            return []
        missed = view.show_missed()
        self.context.mark_drawn(view.drawn_to)
        if has_moved(view.others):
            self.context.redraw(MOVED)
        return missed

    def _tell_unsaved(self, error: Exception, view: AnswerView) -> None:
        """Print what could not be stored; of a tool's result, the beginning."""
        unsaved = error.unsaved if isinstance(error, Error) else ""
        if isinstance(error, StorageError) and view.said.strip():
            view.show_rest(unsaved or view.said)
            self.output.warn("this answer could not be recorded")
        elif unsaved.strip():
            self.output.say(unsaved if len(unsaved) <= EXCERPT else f"{unsaved[:EXCERPT]}…")
            self.output.warn("this could not be recorded")
        self._draw_missed(view)
        if self.chat.is_unanswered():
            self._hint = UNANSWERED

    # --- what commands need ---

    def shell(self, *arguments: str) -> None:
        """Run a command of the command line on this store."""
        self._run_command(self.chat.store, arguments)

    def change_model(self, name: str) -> None:
        """Let another model answer from now on."""
        before, self.chat.loop.model = self.chat.model, self._choose(name)
        self._models = None
        close = getattr(before, "close", None)
        if close:
            close()

    def models(self) -> list[str]:
        """Model names for completion: those of this session, and those of the endpoint."""
        if self._models is None:
            self._models = list(
                dict.fromkeys([*self.chat.models(), *names_of(self.chat.model), "embedded"])
            )
        return self._models

    def _hear(self) -> None:
        """Draw what someone else wrote, above the editor."""
        try:
            self.context.catch_up()
            self._status = status_line(self.chat, self.output.console.width, self._spent)
        except (Error, OSError) as error:
            self.output.complain(error)

    def restored_line(self) -> str:
        """What was restored, as a line."""
        back = self.chat.restored()
        parts = (
            count(back.messages, "message"),
            count(back.marks, "mark"),
            count(back.tokens, "token"),
        )
        return f"restored {', '.join(parts)}"

    def _refresh(self) -> None:
        """Draw what others wrote, a hint, the status line, and update the history of the arrow keys."""
        try:
            self.context.catch_up()
            self._status = status_line(self.chat, self.output.console.width, self._spent)
            self._editor.remember([*map(commands.retyped, self.chat.typed()), *self._refused])
        except (Error, OSError) as error:  # the person may still want to leave or retry
            self._status = f"{self.chat.agent.name} · the store cannot be read"
            self.output.complain(error)
        if self._hint:
            self.output.say(self._hint)
        self._hint = ""
