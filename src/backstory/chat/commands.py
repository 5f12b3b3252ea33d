"""The slash commands: those that move in the log, and those that the chat needs.

Every other /word is the command of that name of the command line, which runs on this agent.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from backstory.chat.mentions import read_typed_text
from backstory.chat.project import session_rows
from backstory.errors import Invalid, NotFound
from backstory.log.events import Event
from backstory.present.text import count
from backstory.runtime.parameters import NAMES, parameter

if TYPE_CHECKING:
    from backstory.chat.worker import ChatWorker

from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from backstory.chat import commands
from backstory.chat.mentions import completions

if TYPE_CHECKING:
    from backstory.chat.worker import ChatWorker


MENTIONED = re.compile(r'(?<!\S)@("[^"\n]*|[^\s"]*)$')  # a path that is being typed
_WORD = re.compile(r"/([a-zA-Z]+)(?=\s|$)")
MAX_CHOICES = 30  # prompts or sessions to choose from
KEYS = (
    "Enter sends; Alt-Enter, or a backslash before Enter, starts a new line; Tab completes. @path "
    "attaches a file. Ctrl-C stops an answer or clears the line, Ctrl-R finds an earlier prompt, "
    "Ctrl-O shows results and thinking in full, Ctrl-X Ctrl-E opens your editor, Ctrl-D leaves."
)


class ChatCommand(NamedTuple):
    """One command: its arguments, its help, and the function that runs it."""

    takes: str
    help: str
    run: "Callable[[ChatWorker, str], None]"
    completes: str = ""  # labels, agents, models, parameters, or nothing


def mark(at: "ChatWorker", rest: str) -> None:
    """Set a mark."""
    written = at.wait_aloud(lambda: at.chat.agent.mark(rest or None))
    at.draw_new()
    at.say(f"/rewind {written.label or ''}".rstrip() + " comes back here")


def rewind(at: "ChatWorker", rest: str) -> None:
    """Go back to a mark."""
    left = at.move(lambda: at.chat.rewind(rest or None))
    at.redraw(f"rewound to {rest or 'the last mark'}", f"/undo takes it back{left}")


def clear(at: "ChatWorker", _: str) -> None:
    """Empty the context."""
    at.wait_aloud(at.chat.clear)
    at.redraw("the context is empty", "/undo takes it back")


def compact(at: "ChatWorker", rest: str) -> None:
    """Let the model summarize the older part of the context."""
    at.compact(rest)


def undo(at: "ChatWorker", _: str) -> None:
    """Take back the last turn or move."""
    numbers = (0, 0)

    def act() -> None:
        nonlocal numbers
        numbers = at.chat.undo()

    left = at.move(act)
    gone, back = numbers
    changes = f"{count(gone, 'message')} out of the context, {back:,} back in"
    at.redraw("undone", f"{changes}; /redo brings it back{left}")


def redo(at: "ChatWorker", _: str) -> None:
    """Take back the last undo."""
    at.wait_aloud(at.chat.agent.redo)
    at.redraw("done again", "/undo takes it back")


def jump(at: "ChatWorker", rest: str) -> None:
    """Go to the context of a position."""
    if not rest.isdecimal():
        raise Invalid("where to? /jump POSITION, as /log shows them")
    left = at.move(lambda: at.chat.agent.jump(int(rest)))
    at.redraw(f"at the context of {rest}", f"/undo takes it back{left}")


def back(at: "ChatWorker", _: str) -> None:
    """Let the person choose an earlier prompt, and go to before it."""
    prompts = at.chat.prompts()[: -MAX_CHOICES - 1 : -1]
    if not prompts:
        raise NotFound("there is no earlier prompt in the context")
    texts = [read_typed_text(prompt) for prompt in prompts]
    chosen = at.screen.choose("Back to before which prompt? (Esc: none)", texts)
    if chosen is not None:
        left = at.move(lambda: at.chat.back_to(prompts[chosen]))
        at.redraw("before that prompt", f"/undo takes it back{left}")
        at.screen.put_draft(restore_typed(prompts[chosen]))


def retry(at: "ChatWorker", rest: str) -> None:
    """Let the model answer again, or another one in a fork."""
    if rest:
        ask_another(at, rest)
        return
    at.wait_aloud(at.chat.retry)
    at.draw_new()
    at.answer(at.chat.resume())


def ask_another(at: "ChatWorker", model: str) -> None:
    """Let another model answer the last prompt in a fork."""
    at.change_model(model)
    first = at.wait_aloud(lambda: at.chat.ask_again(model))
    at.redraw(f"{model} answers in the fork {at.chat.agent.name!r}", asking=True)
    at.answer(at.chat.resume())
    at.say(f"/diff {first} compares the answers, /switch {first} goes back")


def set_parameter(at: "ChatWorker", rest: str) -> None:
    """Set, remove and list the parameters for the model."""
    name, _, value = rest.partition(" ")
    if name:
        wanted = parameter(name, value.strip()) if value.strip() else None
        at.wait_aloud(lambda: at.chat.set_parameter(name, wanted))
        at.draw_new()
    params = at.chat.params()
    for known in params:
        at.draw_line(f"  {known} = {json.dumps(params[known], ensure_ascii=False)}")
    none = "" if params else "no parameters are set; "
    at.say(f"{none}/set NAME VALUE sets one, /set NAME removes it ({', '.join(NAMES)})")


def fork(at: "ChatWorker", rest: str) -> None:
    """Continue in a fork."""
    parent = at.chat.agent.name
    at.wait_aloud(lambda: at.chat.fork(rest or None))
    at.redraw(f"in {at.chat.agent.name!r}, a fork", f"/switch {parent} goes back")


def switch(at: "ChatWorker", rest: str) -> None:
    """Continue in another agent."""
    if not rest:
        raise Invalid("to which agent? /agents lists them")
    at.wait_aloud(lambda: at.chat.switch(rest))
    at.redraw(f"in {at.chat.agent.name!r}", at.describe_restored())


def new(at: "ChatWorker", _: str) -> None:
    """Start a new session in this folder."""
    before = at.chat.ref(at.chat.agent)
    at.wait_aloud(at.chat.start_new)
    at.redraw(f"a new session, {at.chat.agent.name!r}", f"/switch {before} goes back")


def sessions(at: "ChatWorker", rest: str) -> None:
    """Let the person choose a session of this folder, or, with words, of any folder."""
    words = rest.lower().split()
    rows = []
    for row in session_rows(at.chat.store, at.chat.folder):
        is_wanted = all(word in row.title.lower() for word in words)
        if is_wanted and (row.is_here or words):
            rows.append(row)
    if not rows:
        raise NotFound("no session fits")
    shown = rows[:MAX_CHOICES]
    texts = [f"{row.title}  ({row.facts})" for row in shown]
    chosen = at.screen.choose("Which session? (Esc: none)", texts)
    if chosen is not None:
        switch(at, at.chat.latest_of(shown[chosen].id))


def change_model(at: "ChatWorker", rest: str) -> None:
    """Show or change the model."""
    if rest:
        at.change_model(rest)
    window = f", {at.chat.model.window:,} tokens" if at.chat.model.window else ""
    at.say(f"the model is {at.chat.model.name}{window}; /model NAME changes it")


def show_help(at: "ChatWorker", _: str) -> None:
    """List the commands and the keys."""
    at.draw_table(
        [(f"/{name} {command.takes}", command.help) for name, command in COMMANDS.items()]
    )
    others = " ".join(f"/{name}" for name in at.shell_commands if name not in COMMANDS)
    at.say(f"As in the command line, on this agent: {others}")
    at.say(KEYS)


def leave(at: "ChatWorker", _: str) -> None:
    """Leave the chat."""
    at.is_done = True


COMMANDS = {
    "mark": ChatCommand("[label]", "Set a mark to return to.", mark),
    "rewind": ChatCommand("[label]", "Go back to a mark.", rewind, "labels"),
    "clear": ChatCommand("", "Empty the context; the system messages stay.", clear),
    "compact": ChatCommand(
        "[focus]", "Summarize the older part; say what to keep in mind.", compact
    ),
    "undo": ChatCommand("", "Take back the last turn or move, then the one before it.", undo),
    "redo": ChatCommand("", "Take back the last undo, if nothing was written since.", redo),
    "jump": ChatCommand("POSITION", "Go to the context of any position.", jump),
    "back": ChatCommand("", "Go to before an earlier prompt and edit it.", back),
    "retry": ChatCommand(
        "[model]", "Let the model answer again, or another one in a fork.", retry, "models"
    ),
    "fork": ChatCommand("[name]", "Continue in a fork.", fork),
    "new": ChatCommand("", "Start a new session in this folder.", new),
    "sessions": ChatCommand(
        "[words]", "Choose a session of this folder, or one with these words.", sessions
    ),
    "switch": ChatCommand("AGENT", "Continue in another agent.", switch, "agents"),
    "model": ChatCommand("[name]", "Show or change the model.", change_model, "models"),
    "set": ChatCommand(
        "[name] [value]", "Show or set parameters for the model.", set_parameter, "parameters"
    ),
    "help": ChatCommand("", "This list.", show_help),
    "quit": ChatCommand("", "Leave; everything is in the log.", leave),
}


def is_command(text: str) -> bool:
    """Return True if a text is a command: /word, but not a path, and nothing that begins with a
    space or //."""
    return text.startswith("/") and (len(text.strip()) == 1 or _WORD.match(text) is not None)


def unescape(text: str) -> str:
    """Return the text that is sent: of two slashes at the beginning, one is removed."""
    return text[1:] if text.startswith("//") else text


def restore_typed(event: Event) -> str:
    """Return what the person typed, for the editor, changed so that a prompt that looks like a
    command stays a prompt."""
    text = read_typed_text(event)
    return f" {text}" if is_command(text) or text.startswith("//") else text


def run(at: "ChatWorker", text: str) -> None:
    """Run a command that the person typed."""
    name, *rest = text[1:].split(maxsplit=1) or [""]
    arguments = rest[0] if rest else ""
    if name in COMMANDS:
        COMMANDS[name].run(at, arguments)
    elif name in at.shell_commands:
        at.shell(name, *split_arguments(arguments))
    else:
        near = get_close_matches(name, [*COMMANDS, *at.shell_commands])
        hint = f"did you mean /{near[0]}?" if near else "/help lists them"
        raise Invalid(f"no command /{name}: {hint} (a space before it sends it as it is)")


def split_arguments(text: str) -> list[str]:
    """Split arguments as a shell does."""
    try:
        return shlex.split(text)
    except ValueError as error:  # a quote without its end
        raise Invalid(f"these arguments cannot be split: {error}") from error


def words(at: "ChatWorker") -> list[str]:
    """Return the commands, for completion, with a space after those that take arguments."""
    own = [f"/{name}{' ' if command.takes else ''}" for name, command in COMMANDS.items()]
    return own + [f"/{name} " for name in at.shell_commands if name not in COMMANDS]


def choices(at: "ChatWorker", typed: str) -> Iterable[str]:
    """Return completions for the argument of a command."""
    name = typed.removeprefix("/")
    command = COMMANDS.get(name)
    match command.completes if command else "agents":
        case "labels":
            return at.chat.labels()
        case "agents":
            return at.chat.names()
        case "models":
            return at.list_models()
        case "parameters":
            return [f"{name} " for name in NAMES]
    return ()


class ChatCompleter(Completer):
    """Completes what is typed in one chat."""

    def __init__(self, worker: "ChatWorker") -> None:
        self._worker = worker

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Yield completions for the text so far."""
        text = document.text_before_cursor
        mention = MENTIONED.search(text)
        if mention:
            begun = mention[1]
            folder = self._worker.chat.folder or Path.cwd()
            for path in completions(begun, folder):
                yield Completion(path, start_position=-len(begun))
        if not text.startswith("/") or "\n" in text:
            return
        command, space, rest = text.partition(" ")
        words = (
            commands.choices(self._worker, command)
            if space
            else sorted(commands.words(self._worker))
        )
        typed = rest if space else command
        for word in words:
            if word.startswith(typed):
                yield Completion(word, start_position=-len(typed))
