"""The worker of the chat: one thread that runs turns and commands, and draws what others write."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread, Timer
from typing import TypeVar

from rich.console import RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from backstory.agent import Agent
from backstory.chat import commands, draw
from backstory.chat.answer import AnswerDrawing, DrawnHistory
from backstory.chat.commands import ChatCompleter
from backstory.chat.screen import EXPAND, ChatScreen
from backstory.chat.session import Chat
from backstory.chat.tour import TOUR
from backstory.errors import Conflict, Error, Invalid, StorageError
from backstory.log.events import Event
from backstory.log.kinds import MOVE_KINDS
from backstory.present.text import count, in_chat, one_line, visible
from backstory.present.usage import preload
from backstory.runtime.loop import Updates
from backstory.runtime.models import Model, ModelError, names_of
from backstory.runtime.permission import Permissions
from backstory.runtime.tools import Action
from backstory.storage.follow import Follower
from backstory.store import Store

MAX_DRAWN = 200  # events of a long context
MAX_UNSAVED = 1000  # characters of a result that could not be written
SHORTEST_NAME = 8  # the least columns for an agent's name
WAIT_SECONDS = 1.0  # until a line says that the store is locked
BELL_SECONDS = 10.0  # after a turn of this length, the bell rings
UNANSWERED = "this got no answer: /retry asks again"
MOVED = "someone else has moved this agent"
TAKEN_BACK = "there was no answer: the prompt was taken back"
LOCKED = "waiting for the store: someone else is writing"

T = TypeVar("T")

ChooseModel = Callable[[str], Model]  # finds a model by name
# Runs a command of the command line on an open store and its agent.
RunCommand = Callable[[Store, Agent, Sequence[str]], None]


class ChatWorker:
    """Runs one chat on a screen."""

    def __init__(
        self,
        chat: Chat,
        *,
        choose_model: ChooseModel,
        run_command: RunCommand,
        shell_commands: Sequence[str],
    ) -> None:
        """`shell_commands` are those of the command line that may run here."""
        self.chat = chat
        self.chat.loop.allow = Permissions(self.ask_permission).decide
        self.shell_commands = shell_commands
        self.is_done = False
        self.is_expanded = False  # results in full
        self.screen = ChatScreen(ChatCompleter(self))
        self._choose_model = choose_model
        self._run_command = run_command
        self._greeting: Sequence[str] = ()
        self._drawn = DrawnHistory(chat.agent, chat.agent.head)
        self._others_wrote = False  # and the screen says so already
        self._followed: Agent | None = None
        self._follower: Follower[Event] | None = None
        self._models: list[str] | None = None  # for completion, once they were requested

    # --- what the screen calls ---

    def preload(self) -> None:
        """Load the prices and the provider's SDK, so that nobody waits for them later."""
        load = getattr(self.chat.model, "load", None)
        if load:
            with suppress(Exception):  # the first answer reports it
                load()
        preload()

    def interrupt(self) -> None:
        """Stop the turn. Any thread may call this."""
        self.chat.loop.cancel()

    def describe_wait(self) -> str:
        """Return what an answer is waiting for, for example that a model is loaded."""
        return str(getattr(self.chat.model, "waiting_for", ""))

    # --- the conversation ---

    def start(self, greeting: Sequence[str]) -> None:
        """Open the screen in this thread, and work in another one, until the person leaves."""
        self._greeting = greeting
        self.screen.run(self)

    def run(self) -> None:
        """Draw the restored context, then read and answer until the person leaves."""
        try:
            self._try(self._begin)
            while not self.is_done:
                self._refresh()
                self._try(self._take_text)
            self._say_goodbye()
        finally:
            self._follow(None)

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except EOFError:
            self.is_done = True
        except KeyboardInterrupt:
            self.print_notice("stopped")
        except (Error, OSError) as error:
            self.complain(error)

    def _begin(self) -> None:
        self.draw(*(Text(visible(line), style="dim", overflow="fold") for line in self._greeting))
        self._follow(self.chat.agent)
        if self.chat.is_new and self.chat.instructions:
            self.print_notice(f"instructions: {self.chat.instructions.describe(self.chat.folder)}")
        if not self.chat.is_new:
            self.draw_context()
            self.print_notice(self.chat.describe_restored())
            if self.chat.has_new_instructions():
                self.print_notice(
                    "the project's instructions have changed: @AGENTS.md in a prompt sends the new "
                    "ones"
                )
        self._remember_prompts()

    def _take_text(self) -> None:
        text = self.screen.read()
        if text == EXPAND:
            self.is_expanded = not self.is_expanded
            self.redraw("results in full" if self.is_expanded else "results short")
        elif commands.is_command(text):
            self.print_notice(text)
            commands.run(self, text.strip())
            self._remember_prompts()
        elif text.strip():
            self._send(commands.unescape(text))

    def _say_goodbye(self) -> None:
        """Say how to come back here, if that does not happen by default."""
        with suppress(Error, OSError):
            latest = self.chat.store.resolve("@").agent
            if latest != self.chat.agent:
                here = self.chat.ref(self.chat.agent)
                self.print_notice(
                    f"backstory chat {here} comes back here; without a name it is "
                    f"{latest.name!r}, the one that was written to last"
                )

    def _send(self, text: str) -> None:
        """Write a prompt, and let the model answer. If that fails, its text is in the editor
        again."""
        turn = self.chat.resume()  # before the prompt is written, so that Ctrl-C stops it
        try:
            self.catch_up()
            prompt = self.wait_aloud(lambda: self._write_prompt(text))
        except (Error, OSError):
            self.screen.put_draft(text)
            raise
        self.draw_turn(turn, prompt)

    def _write_prompt(self, text: str) -> Event:
        """Write a prompt after what is on the screen."""
        while True:
            try:
                return self.chat.write_prompt(text, seen=self._drawn.position)
            except Conflict:  # someone else was faster
                self.catch_up()

    def wait_aloud(self, write: Callable[[], T]) -> T:
        """Run a write, and say so if it has to wait for others."""
        timer = Timer(WAIT_SECONDS, self.print_notice, (LOCKED,))
        timer.daemon = True
        timer.start()
        try:
            return write()
        finally:
            timer.cancel()

    def draw_turn(self, updates: Updates, prompt: Event | None = None) -> None:
        """Draw the prompt and the answer."""
        drawing = AnswerDrawing(self.screen, self._drawn, is_expanded=self.is_expanded)
        if self.screen.is_leaving:  # before there was something to stop
            raise EOFError
        try:
            if prompt is not None:
                drawing.show(prompt)
            drawing.follow(updates)
            missed = self._draw_missed(drawing)
        except (Error, OSError) as error:
            self._give_back_queue()
            self._draw_unrecorded(error, drawing)
            self._draw_missed(drawing)
            is_taken_back = isinstance(error, ModelError) and self._take_back(prompt)
            if not is_taken_back and self.chat.is_unanswered():
                self.print_notice(UNANSWERED)
            raise
        except BaseException:
            self._give_back_queue()
            self._draw_missed(drawing)
            raise
        self._note_end(drawing, missed)
        self._take_back(prompt)

    def _note_end(self, drawing: AnswerDrawing, missed: Sequence[Event]) -> None:
        """Say how a turn ended: it was stopped, or what it took."""
        if drawing.is_stopped:
            is_kept = any(event.kind in ("assistant", "tool_result") for event in missed)
            self.print_notice(
                "stopped; what was said is kept" if is_kept else "stopped; /retry asks again"
            )
            self._give_back_queue()
        elif drawing.has_answer:
            self.print_notice(drawing.summarize())
        if drawing.seconds > BELL_SECONDS:
            self.screen.ring()

    def _give_back_queue(self) -> None:
        """Put prompts that wait into the editor, because the turn before them did not end well."""
        waiting = self.screen.take_back_queue()
        if waiting:
            self.screen.put_draft(waiting)

    def _draw_unrecorded(self, error: Exception, drawing: AnswerDrawing) -> None:
        """Draw the text that is lost with an error, because it is not in the log."""
        unsaved = error.unsaved if isinstance(error, Error) else ""
        if isinstance(error, StorageError) and drawing.text.strip():
            drawing.print_rest(unsaved or drawing.text)
            self.warn("this answer could not be recorded")
        elif unsaved.strip():
            self.print_notice(
                unsaved if len(unsaved) <= MAX_UNSAVED else f"{unsaved[:MAX_UNSAVED]}…"
            )
            self.warn("this could not be recorded")

    def _take_back(self, prompt: Event | None) -> bool:
        """Put a prompt without an answer back into the editor, unless something was typed there."""
        with suppress(Error, OSError):  # then it stays in the context, and the screen says so
            if prompt is not None and self.chat.take_back(prompt):
                self._mark_drawn(self.chat.agent.head)
                self._give_back_queue()
                self._remember_prompts(commands.restore_typed(prompt))
                if self.screen.put_draft(commands.restore_typed(prompt)):
                    self.print_notice(f"{TAKEN_BACK}, and is in the editor again")
                else:
                    self.print_notice(f"{TAKEN_BACK}; the ↑ key brings it back")
                return True
        return False

    def _draw_missed(self, drawing: AnswerDrawing) -> list[Event]:
        """Draw what was recorded after the drawing had stopped."""
        before, agent = self._drawn.agent, self.chat.agent
        if before != agent:  # the fork was not announced
            self.redraw(f"someone else wrote to {before.name!r}: this is the fork {agent.name!r}")
            return []
        missed = drawing.show_missed()
        self._mark_drawn(self._drawn.position)
        if any(event.kind in MOVE_KINDS for event in drawing.others):
            self.redraw(MOVED)
        return missed

    def ask_permission(self, action: Action) -> str:
        """Show a complete action, and return what the person typed."""
        self.draw(draw.draw_action(action))
        choices = "yes, session, or why not" if action.effect == "run" else "yes, or why not"
        question = f"    Allow {one_line(action.tool)}? ({choices}) "
        answer = self.screen.ask(question)
        self.draw(Text(f"{question}{one_line(answer) or 'no'}", style="dim"))
        return answer

    # --- what commands need ---

    def shell(self, *arguments: str) -> None:
        """Run a command of the command line on this store and agent."""
        self._run_command(self.chat.store, self.chat.agent, arguments)

    def compact(self, focus: str) -> None:
        """Let the model summarize the conversation, and continue with the summary."""
        drawing = AnswerDrawing(self.screen, self._drawn)
        drawing.follow(self.chat.loop.compact(focus))
        if drawing.is_stopped:
            self.print_notice("stopped; the context is unchanged")
        else:
            self.redraw("compacted", "/undo takes it back")

    def move(self, act: Callable[[], object]) -> str:
        """Make a move that goes back. Return a line about changes that are not taken back with
        it."""
        before = self.chat.agent.context().messages
        self.wait_aloud(act)
        return self.chat.describe_changes(before)

    def change_model(self, name: str) -> None:
        """Let another model answer from now on."""
        if name == TOUR:  # no model should continue scripted answers
            raise Invalid(
                "the tour has sessions of its own",
                remedy="leave, and use backstory chat --model tour",
            )
        before = self.chat.model
        self.chat.use_model(self._choose_model(name))
        self._models = None
        close = getattr(before, "close", None)
        if close:
            close()

    def list_models(self) -> list[str]:
        """Return model names for completion: those of this session, and those of the endpoint."""
        if self._models is None:
            names = [*self.chat.models(), *names_of(self.chat.model), "embedded"]
            self._models = list(dict.fromkeys(names))
        return self._models

    # --- the context on the screen ---

    def _mark_drawn(self, position: int) -> None:
        """Remember that the current agent is on the screen up to a position."""
        self._drawn.agent = self.chat.agent
        self._drawn.position = position
        self._others_wrote = False
        self._follow(self.chat.agent)

    def catch_up(self) -> None:
        """Draw what someone else wrote to this agent; the model will read it, too."""
        if self.chat.agent != self._drawn.agent:  # the context was not drawn completely
            self.redraw(f"in {self.chat.agent.name!r}")
        elif self.chat.agent.head != self._drawn.position:
            self._draw_others()

    def _draw_others(self) -> None:
        new = self.chat.agent.events(after=self._drawn.position)
        if any(event.kind != "note" for event in new):
            if not self._others_wrote:
                self.print_notice("someone else wrote to this agent:")
            self._others_wrote = True
        if any(event.kind in MOVE_KINDS for event in self.draw_new()):
            self.redraw(MOVED)

    def draw_new(self) -> list[Event]:
        """Draw the events that are not on the screen yet."""
        new = self.chat.agent.events(after=self._drawn.position)
        pen = draw.EventPen(is_expanded=self.is_expanded)
        self.draw(*(pen.draw(event) for event in new))
        self._drawn.position += len(new)
        return new

    def redraw(self, title: str, hint: str = "", *, asking: bool = False) -> None:
        """Start a new page with the live context: a rule above and a line below say what was done.
        What was on the screen is scrolled away. With `asking`, the model is about to be asked, so
        there is no warning about a prompt without an answer."""
        rule = Rule(Text(f"── {one_line(title)}", style="dim"), align="left", style="dim")
        self.draw(Text("\n" * (self.screen.height - 1)), rule)
        self.draw_context(asking=asking)
        self.print_notice(f"{title}; {hint}" if hint else title)

    def draw_context(self, *, asking: bool = False) -> None:
        """Draw the live context, or the end of a long one."""
        context = self.chat.agent.context()
        events = context.messages
        self._mark_drawn(context.at)
        earlier = max(0, len(events) - MAX_DRAWN)
        if earlier:
            self.print_notice(
                f"… {count(earlier, 'earlier event')} of the context not drawn: "
                "/context lists them, /show @POSITION shows one"
            )
        self.draw(*draw.draw_events(events, first=earlier, is_expanded=self.is_expanded))
        if not asking and self.chat.is_unanswered():
            self.warn(UNANSWERED)

    def _follow(self, agent: Agent | None) -> None:
        """Follow an agent, whoever writes to it, instead of the one before."""
        if self._follower is not None:
            if agent == self._followed:
                return
            self._follower.close()
        self._followed = agent
        self._follower = None if agent is None else agent.follow()
        if self._follower is not None:
            Thread(target=self._listen, args=(self._follower,), daemon=True).start()

    def _listen(self, follower: Follower[Event]) -> None:
        with suppress(Error):  # if the store has a problem, the next prompt reports it
            for _ in follower:
                self.screen.hear()

    # --- what is printed ---

    def draw(self, *things: RenderableType) -> None:
        """Print something that rich can draw."""
        if things:
            self.screen.print(*things)

    def print_notice(self, text: str) -> None:
        """Print a dimmed line from the chat, not from the log."""
        self.draw(Text(visible(text), style="dim", overflow="fold"))

    def warn(self, text: str) -> None:
        """Print a line that should not be overlooked."""
        self.draw(Text(f"⚠ {one_line(text)}", style="yellow", overflow="fold"))

    def complain(self, problem: Exception) -> None:
        """Print one line on what went wrong, and what to do about it here."""
        text = in_chat(problem) if isinstance(problem, Error) else str(problem)
        self.draw(Text(f"✗ {one_line(text)}", style="red", overflow="fold"))

    def draw_line(self, text: str) -> None:
        """Print a line of a list, cut at the edge, its columns as they are."""
        flat = visible(text.replace("\n", " "), keep="")
        self.draw(Text(flat, no_wrap=True, overflow="ellipsis"))

    def draw_table(self, rows: Sequence[tuple[str, str]]) -> None:
        """Print two columns, the second one wrapped where the screen is narrow."""
        table = Table.grid(padding=(0, 2))
        for left, right in rows:
            table.add_row(Text(left), Text(right, style="dim"))
        self.draw(table)

    def _remember_prompts(self, *more: str) -> None:
        self.screen.remember([*map(commands.restore_typed, self.chat.prompts()), *more])

    def _refresh(self) -> None:
        """Draw what others wrote, and update the status line."""
        try:
            self.catch_up()
            self.screen.set_status(self._describe_status())
        except (Error, OSError) as error:  # the person may still want to leave or retry
            self.screen.set_status(f"{self.chat.agent.name} · the store cannot be read")
            self.complain(error)

    def _describe_status(self) -> str:
        """Return the status line. If it is too long, the folder is dropped first, then the name is
        cut; the numbers stay."""
        chat = self.chat
        window = f"/{chat.model.window:,}" if chat.model.window else ""
        facts = [one_line(chat.model.name), f"{chat.tokens():,}{window} tokens"]
        marks = chat.agent.marks()
        if marks:
            facts.append(f"⚑ {one_line(str(marks[-1].label or marks[-1].seq))}")
        name = one_line(chat.agent.name)
        width = self.screen.width
        if chat.folder:
            line = " · ".join([name, facts[0], one_line(chat.folder.name), *facts[1:]])
            if len(line) < width:
                return line
        rest = " · ".join(["", *facts])
        room = max(SHORTEST_NAME, width - len(rest) - 1)
        return (name if len(name) <= room else name[: room - 1] + "…") + rest
