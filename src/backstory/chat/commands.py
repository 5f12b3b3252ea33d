"""The slash commands: those that move in the log, and those that the chat needs.

Every other /word is the command of that name of the command line, which runs on this agent.
"""

import json
import re
import shlex
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from backstory.chat.mentions import complete_path, read_typed_text
from backstory.chat.project import session_rows
from backstory.errors import Invalid, NotFound
from backstory.log.events import Event, UndoEvent
from backstory.log.kinds import MESSAGE_KINDS
from backstory.present.text import count
from backstory.runtime.parameters import NAMES, parameter

if TYPE_CHECKING:
    from backstory.chat.worker import ChatWorker

MENTIONED = re.compile(r'(?<!\S)@("[^"\n]*|[^\s"]*)$')  # a path that is being typed
COMMAND = re.compile(r"/([a-zA-Z]+)(?=\s|$)")
MAX_CHOICES = 30  # prompts or sessions to choose from
UNDO_HINT = "/undo takes it back"
KEYS = (
    "Enter sends; Alt-Enter, or a backslash before Enter, starts a new line; Tab completes. @path "
    "attaches a file. Ctrl-C stops an answer or clears the line, Ctrl-R finds an earlier prompt, "
    "Ctrl-O shows results and thinking in full, Ctrl-X Ctrl-E opens your editor, Ctrl-D leaves."
)


class ChatCommand(NamedTuple):
    """One command: its arguments, and the function that runs it, whose docstring is the help."""

    takes: str
    run: "Callable[[ChatWorker, str], None]"
    completes: str = ""  # labels, agents, models, parameters, or nothing


def mark(worker: "ChatWorker", rest: str) -> None:
    """Set a mark to return to."""
    written = worker.wait_aloud(lambda: worker.chat.agent.mark(rest or None))
    worker.draw_new()
    worker.print_notice(f"/rewind {written.label or ''}".rstrip() + " comes back here")


def rewind(worker: "ChatWorker", rest: str) -> None:
    """Go back to a mark."""
    left = worker.move(lambda: worker.chat.rewind(rest or None))
    worker.redraw(f"rewound to {rest or 'the last mark'}", f"{UNDO_HINT}{left}")


def clear(worker: "ChatWorker", _: str) -> None:
    """Empty the context; the system messages stay."""
    worker.wait_aloud(worker.chat.clear)
    worker.redraw("the context is empty", UNDO_HINT)


def compact(worker: "ChatWorker", rest: str) -> None:
    """Summarize the older part; say what to keep in mind."""
    worker.compact(rest)


def undo(worker: "ChatWorker", _: str) -> None:
    """Take back the last turn or move, then the one before it."""
    before = worker.chat.agent.context().messages
    event = worker.wait_aloud(lambda: worker.chat.agent.undo(turn=True))
    assert isinstance(event, UndoEvent)  # without a key, nothing is a repeat
    removed = count(count_messages(event.removed), "message")
    changes = f"{removed} out of the context, {count_messages(event.returned):,} back in"
    left = worker.chat.describe_changes(before)
    worker.redraw("undone", f"{changes}; /redo brings it back{left}")


def count_messages(events: Iterable[Event]) -> int:
    """Return how many of the events are messages."""
    return sum(event.kind in MESSAGE_KINDS for event in events)


def redo(worker: "ChatWorker", _: str) -> None:
    """Take back the last undo, if nothing was written since."""
    worker.wait_aloud(worker.chat.agent.redo)
    worker.redraw("done again", UNDO_HINT)


def jump(worker: "ChatWorker", rest: str) -> None:
    """Go to the context of any position."""
    if not rest.isdecimal():
        raise Invalid("where to? /jump POSITION, as /log shows them")
    left = worker.move(lambda: worker.chat.agent.jump(int(rest)))
    worker.redraw(f"at the context of {rest}", f"{UNDO_HINT}{left}")


def back(worker: "ChatWorker", _: str) -> None:
    """Go to before an earlier prompt and edit it."""
    prompts = worker.chat.prompts()[: -MAX_CHOICES - 1 : -1]
    if not prompts:
        raise NotFound("there is no earlier prompt in the context")
    texts = [read_typed_text(prompt) for prompt in prompts]
    chosen = worker.screen.choose("Back to before which prompt? (Esc: none)", texts)
    if chosen is None:
        return
    prompt = prompts[chosen]
    left = worker.move(lambda: worker.chat.agent.jump(prompt.seq - 1))
    worker.redraw("before that prompt", f"{UNDO_HINT}{left}")
    worker.screen.put_draft(restore_typed(prompt))


def retry(worker: "ChatWorker", rest: str) -> None:
    """Let the model answer again, or another one in a fork."""
    if rest:
        ask_another(worker, rest)
        return
    turn = worker.chat.resume()  # first, so that Ctrl-C stops it while the store is locked
    worker.wait_aloud(worker.chat.retry)
    worker.draw_new()
    worker.draw_turn(turn)


def ask_another(worker: "ChatWorker", model: str) -> None:
    """Let another model answer the last prompt in a fork."""
    worker.chat.find_request()  # before the model changes: there may be nothing to answer
    worker.change_model(model)
    turn = worker.chat.resume()
    first = worker.wait_aloud(lambda: worker.chat.ask_again(model))
    worker.redraw(f"{model} answers in the fork {worker.chat.agent.name!r}", asking=True)
    worker.draw_turn(turn)
    worker.print_notice(f"/diff {first} compares the answers, /switch {first} goes back")


def fork(worker: "ChatWorker", rest: str) -> None:
    """Continue in a fork."""
    parent = worker.chat.agent.name
    worker.wait_aloud(lambda: worker.chat.fork(rest or None))
    worker.redraw(f"in {worker.chat.agent.name!r}, a fork", f"/switch {parent} goes back")


def new(worker: "ChatWorker", _: str) -> None:
    """Start a new session in this folder."""
    before = worker.chat.ref(worker.chat.agent)
    worker.wait_aloud(worker.chat.start_new)
    worker.redraw(f"a new session, {worker.chat.agent.name!r}", f"/switch {before} goes back")


def sessions(worker: "ChatWorker", rest: str) -> None:
    """Choose a session of this folder, or one with these words."""
    words = rest.lower().split()
    rows = []
    for row in session_rows(worker.chat.store, worker.chat.folder):
        is_wanted = all(word in row.title.lower() for word in words)
        if is_wanted and (row.is_here or words):
            rows.append(row)
    if not rows:
        raise NotFound("no session fits")
    shown = rows[:MAX_CHOICES]
    texts = [f"{row.title}  ({row.facts})" for row in shown]
    chosen = worker.screen.choose("Which session? (Esc: none)", texts)
    if chosen is not None:
        switch(worker, worker.chat.latest_of(shown[chosen].id))


def switch(worker: "ChatWorker", rest: str) -> None:
    """Continue in another agent."""
    if not rest:
        raise Invalid("to which agent? /agents lists them")
    worker.wait_aloud(lambda: worker.chat.switch(rest))
    worker.redraw(f"in {worker.chat.agent.name!r}", worker.chat.describe_restored())


def change_model(worker: "ChatWorker", rest: str) -> None:
    """Show or change the model."""
    if rest:
        worker.change_model(rest)
    model = worker.chat.model
    window = f", {model.window:,} tokens" if model.window else ""
    worker.print_notice(f"the model is {model.name}{window}; /model NAME changes it")


def set_parameter(worker: "ChatWorker", rest: str) -> None:
    """Show or set parameters for the model."""
    name, _, value = rest.partition(" ")
    if name:
        wanted = parameter(name, value.strip()) if value.strip() else None
        worker.wait_aloud(lambda: worker.chat.set_parameter(name, wanted))
        worker.draw_new()
    params = worker.chat.params()
    for known, setting in params.items():
        worker.draw_line(f"  {known} = {json.dumps(setting, ensure_ascii=False)}")
    none = "" if params else "no parameters are set; "
    names = ", ".join(NAMES)
    worker.print_notice(f"{none}/set NAME VALUE sets one, /set NAME removes it ({names})")


def show_help(worker: "ChatWorker", _: str) -> None:
    """List the commands and the keys."""
    rows = []
    for name, command in COMMANDS.items():
        rows.append((f"/{name} {command.takes}", command.run.__doc__ or ""))
    worker.draw_table(rows)
    others = " ".join(f"/{name}" for name in worker.shell_commands if name not in COMMANDS)
    worker.print_notice(f"As in the command line, on this agent: {others}")
    worker.print_notice(KEYS)


def leave(worker: "ChatWorker", _: str) -> None:
    """Leave; everything is in the log."""
    worker.is_done = True


COMMANDS = {
    "mark": ChatCommand("[label]", mark),
    "rewind": ChatCommand("[label]", rewind, "labels"),
    "clear": ChatCommand("", clear),
    "compact": ChatCommand("[focus]", compact),
    "undo": ChatCommand("", undo),
    "redo": ChatCommand("", redo),
    "jump": ChatCommand("POSITION", jump),
    "back": ChatCommand("", back),
    "retry": ChatCommand("[model]", retry, "models"),
    "fork": ChatCommand("[name]", fork),
    "new": ChatCommand("", new),
    "sessions": ChatCommand("[words]", sessions),
    "switch": ChatCommand("AGENT", switch, "agents"),
    "model": ChatCommand("[name]", change_model, "models"),
    "set": ChatCommand("[name] [value]", set_parameter, "parameters"),
    "help": ChatCommand("", show_help),
    "quit": ChatCommand("", leave),
}


def run(worker: "ChatWorker", text: str) -> None:
    """Run a command that the person typed."""
    name, *rest = text[1:].split(maxsplit=1) or [""]
    arguments = rest[0] if rest else ""
    if name in COMMANDS:
        COMMANDS[name].run(worker, arguments)
    elif name in worker.shell_commands:
        worker.shell(name, *split_arguments(arguments))
    else:
        near = get_close_matches(name, [*COMMANDS, *worker.shell_commands])
        hint = f"did you mean /{near[0]}?" if near else "/help lists them"
        raise Invalid(f"no command /{name}: {hint} (a space before it sends it as it is)")


def split_arguments(text: str) -> list[str]:
    """Split arguments as a shell does."""
    try:
        return shlex.split(text)
    except ValueError as error:  # a quote without its end
        raise Invalid(f"these arguments cannot be split: {error}") from error


# --- prompts that look like commands ---


def is_command(text: str) -> bool:
    """Return True if a text is a command: /word, but not a path, and nothing that begins with a
    space or //."""
    return text.rstrip() == "/" or COMMAND.match(text) is not None


def unescape(text: str) -> str:
    """Return the text that is sent: of two slashes at the beginning, one is removed."""
    return text[1:] if text.startswith("//") else text


def restore_typed(event: Event) -> str:
    """Return what the person typed, for the editor, changed so that a prompt that looks like a
    command stays a prompt."""
    text = read_typed_text(event)
    return f" {text}" if is_command(text) or text.startswith("//") else text


# --- completion ---


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
            typed = mention[1]
            words = complete_path(typed, self._worker.chat.folder or Path.cwd())
            return [Completion(path, start_position=-len(typed)) for path in words]
        if not text.startswith("/") or "\n" in text:
            return []
        command, space, argument = text.partition(" ")
        typed = argument if space else command
        words = self._list_arguments(command[1:]) if space else self._list_commands()
        fitting = [word for word in words if word.startswith(typed)]
        return [Completion(word, start_position=-len(typed)) for word in fitting]

    def _list_commands(self) -> list[str]:
        """Return the commands, with a space after those that take arguments."""
        words = [f"/{name} " for name in self._worker.shell_commands if name not in COMMANDS]
        for name, command in COMMANDS.items():
            words.append(f"/{name} " if command.takes else f"/{name}")
        return sorted(words)

    def _list_arguments(self, name: str) -> list[str]:
        """Return what may be the argument of a command."""
        chat = self._worker.chat
        command = COMMANDS.get(name)
        match command.completes if command else "agents":
            case "labels":
                return chat.labels()
            case "agents":
                return chat.names()
            case "models":
                return self._worker.list_models()
            case "parameters":
                return [f"{name} " for name in NAMES]
        return []
