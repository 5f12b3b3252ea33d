"""The slash commands: one table, and a few lines for each command that changes something. Those that only
show something are in `views`.
"""

import json
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from backstory.chat import views
from backstory.chat.mentions import typed_text
from backstory.chat.project import session_rows
from backstory.chat.shell import SIGN, is_command_output
from backstory.errors import Invalid, NotFound
from backstory.log.events import Event
from backstory.present.measures import count
from backstory.present.titles import title_of
from backstory.runtime.parameters import NAMES, parameter

if TYPE_CHECKING:
    from backstory.chat.terminal import Terminal


class Command(NamedTuple):
    """One command: its arguments, its help, and the function that runs it."""

    takes: str
    help: str
    run: "Callable[[Terminal, str], None]"
    completes: str = ""  # labels, agents, models, parameters, or nothing


def _expand(at: "Terminal", _: str) -> None:
    at.context.toggle()


def _mark(at: "Terminal", rest: str) -> None:
    mark = at.write(lambda: at.chat.agent.mark(rest or None))
    at.context.draw_new()
    at.output.say(f"/rewind {mark.label or ''}".rstrip() + " comes back here")


def _rewind(at: "Terminal", rest: str) -> None:
    label, note = carried(rest)
    at.write(lambda: at.chat.rewind(label, note))
    at.context.redraw(f"rewound to {label or 'the last mark'}", "/undo takes it back")


def carried(rest: str) -> tuple[str | None, str | None]:
    """The label and the note of a rewind: [label] --carry "note", or --carry "note" [label]."""
    before, carries, after = (part.strip() for part in rest.partition("--carry"))
    if not carries:
        return rest or None, None
    note, behind = after, ""
    if after[:1] in ("'", '"'):
        note, closed, behind = after[1:].partition(after[0])
        if not closed:
            raise Invalid(
                f"the note has no closing quote: /rewind [label] --carry {after[0]}what I learned{after[0]}"
            )
    if not note.strip():
        raise Invalid('what should be carried? /rewind [label] --carry "what I learned"')
    return before or behind.strip() or None, note.strip()


def _clear(at: "Terminal", _: str) -> None:
    at.write(at.chat.clear)
    at.context.redraw("the context is empty", "/undo takes it back")


def _compact(at: "Terminal", rest: str) -> None:
    at.compact(rest)


def _undo(at: "Terminal", _: str) -> None:
    gone, back = at.write(at.chat.undo)
    numbers = f"{count(gone, 'message')} out of the context, {back:,} back in"
    at.context.redraw("undone", f"{numbers}; /redo brings it back")


def _redo(at: "Terminal", _: str) -> None:
    at.write(at.chat.agent.redo)
    at.context.redraw("done again", "/undo takes it back")


def _jump(at: "Terminal", rest: str) -> None:
    if not rest.isdecimal():
        raise Invalid("where to? /jump POSITION, as /log shows them")
    at.write(lambda: at.chat.agent.jump(int(rest)))
    at.context.redraw(f"at the context of {rest}", "/undo takes it back")


def _back(at: "Terminal", _: str) -> None:
    from backstory.chat.picker import pick

    prompts = at.chat.prompts()
    if not prompts:
        raise NotFound("there is no earlier prompt in the context")
    chosen = pick("back to before which prompt?", [typed_text(prompt) for prompt in prompts])
    if chosen is not None:
        at.write(lambda: at.chat.back_to(prompts[chosen]))
        at.typed = retyped(prompts[chosen])
        at.context.redraw("before that prompt, which is in the editor again", "/undo takes it back")


def _retry(at: "Terminal", rest: str) -> None:
    if rest:
        _ask_another(at, rest)
        return
    at.write(at.chat.retry)
    at.context.draw_new()
    at.answer(at.chat.resume())


def _ask_another(at: "Terminal", model: str) -> None:
    at.change_model(model)
    first = at.write(lambda: at.chat.ask_again(model))
    at.context.redraw(f"{model} answers in the fork {at.chat.agent.name!r}", asking=True)
    at.answer(at.chat.resume())
    at.output.say(f"/diff {first} compares the answers, /switch {first} goes back")


def _set(at: "Terminal", rest: str) -> None:
    name, _, value = rest.partition(" ")
    if name:
        wanted = parameter(name, value.strip()) if value.strip() else None
        at.write(lambda: at.chat.set_parameter(name, wanted))
        at.context.draw_new()
    params = at.chat.params()
    for known in params:
        at.output.line(f"  {known} = {json.dumps(params[known], ensure_ascii=False)}")
    none = "" if params else "no parameters are set; "
    at.output.say(f"{none}/set NAME VALUE sets one, /set NAME removes it ({', '.join(NAMES)})")


def _fork(at: "Terminal", rest: str) -> None:
    parent = at.chat.agent.name
    at.write(lambda: at.chat.fork(rest or None))
    at.context.redraw(f"in {at.chat.agent.name!r}, a fork", f"/switch {parent} goes back")


def _spawn(at: "Terminal", rest: str) -> None:
    parent = at.chat.agent.name
    at.write(lambda: at.chat.spawn(rest or None))
    at.context.redraw(f"in {at.chat.agent.name!r}, a new agent", f"/switch {parent} goes back")


def _switch(at: "Terminal", rest: str) -> None:
    if not rest:
        raise Invalid("to which agent? /agents lists them")
    at.write(lambda: at.chat.switch(rest))
    at.context.redraw(f"in {at.chat.agent.name!r}", at.restored_line())


def _title(at: "Terminal", rest: str) -> None:
    title = at.title_by_model() if rest == "auto" else rest
    if title:
        at.write(lambda: at.chat.root.describe(title=title))
    shown = title_of(at.chat.root) or "not there yet"
    at.output.say(
        f"the title is {shown}; /title TEXT sets another, /title auto lets the model choose one"
    )


def _tag(at: "Terminal", rest: str) -> None:
    tags = at.write(lambda: at.chat.tag(rest.split()))
    at.output.say(f"tags: {', '.join(tags) or 'none'}; /tag NAME adds one, /tag -NAME removes it")


def _new(at: "Terminal", _: str) -> None:
    before = at.chat.ref(at.chat.agent)
    at.write(at.chat.start_new)
    at.context.redraw(f"a new session, {at.chat.agent.name!r}", f"/switch {before} goes back")


def _sessions(at: "Terminal", _: str) -> None:
    from backstory.chat.session_picker import pick_session

    chosen = pick_session(session_rows(at.chat.store, at.chat.folder))
    if chosen is not None:
        _switch(at, at.chat.latest_of(chosen))


def _instructions(at: "Terminal", _: str) -> None:
    at.write(at.chat.read_instructions)
    at.context.redraw("the project's instructions are in the context from here on")


def _model(at: "Terminal", rest: str) -> None:
    if rest:
        at.change_model(rest)
    window = f", {at.chat.model.window:,} tokens" if at.chat.model.window else ""
    at.output.say(f"the model is {at.chat.model.name}{window}; /model NAME changes it")


def _system(at: "Terminal", rest: str) -> None:
    if rest:
        at.write(lambda: at.chat.agent.system(rest))
        at.context.redraw("the system message was added")
        return
    found = [event for event in at.chat.agent.context().messages if event.kind == "system"]
    if not found:
        raise NotFound("this context has no system message: /system TEXT adds one")
    for event in found:
        at.context.draw_event(event)


def _help(at: "Terminal", _: str) -> None:
    at.output.table(
        [(f"/{name} {command.takes}", command.help) for name, command in COMMANDS.items()]
    )
    at.output.say(
        "Enter sends; Alt-Enter, or a backslash before Enter, starts a new line; Tab completes. @path "
        "attaches a file; !command runs a command, and the model reads its output. Esc or Ctrl-C stops an "
        "answer. Esc Esc goes back to an earlier prompt, Ctrl-R finds one, Ctrl-O shows results and thinking "
        "in full, Ctrl-X Ctrl-E opens your editor, Ctrl-D leaves."
    )


def _quit(at: "Terminal", _: str) -> None:
    at.is_done = True


COMMANDS = {
    "mark": Command("[label]", "Set a mark to return to.", _mark),
    "rewind": Command(
        '[label] [--carry "…"]', "Go back to a mark; --carry adds a message.", _rewind, "labels"
    ),
    "clear": Command("", "Empty the context; the system messages stay.", _clear),
    "compact": Command("[focus]", "Summarize the older part; say what to keep in mind.", _compact),
    "undo": Command("", "Take back the last turn or move, then the one before it.", _undo),
    "redo": Command("", "Take back the last undo, if nothing was written since.", _redo),
    "jump": Command("POSITION", "Go to the context of any position.", _jump),
    "back": Command("", "Go to before an earlier prompt and edit it (Esc Esc).", _back),
    "retry": Command(
        "[model]", "Let the model answer again, or another one in a fork.", _retry, "models"
    ),
    "fork": Command("[name]", "Go on in a fork.", _fork),
    "spawn": Command("[name]", "Go on in a new agent with an empty context.", _spawn),
    "new": Command("", "Start a new session in this folder.", _new),
    "sessions": Command("", "Choose a session of this folder, or of another.", _sessions),
    "title": Command("[text|auto]", "Show or set the title; auto: let the model choose.", _title),
    "tag": Command("[name …]", "Show or add tags; -name removes one.", _tag),
    "agents": Command("", "List all sessions and their agents as trees.", views.agents),
    "switch": Command("AGENT", "Go on in another agent.", _switch, "agents"),
    "marks": Command("", "List the marks that you can rewind to.", views.marks),
    "context": Command("", "Show what the model sees, with its tokens.", views.context),
    "log": Command("[n|all]", "Show the last events, including dead ones.", views.log),
    "show": Command(
        "[position]", "Show one event in full; by default, the last result.", views.show
    ),
    "diff": Command("AGENT", "Compare with another agent's context.", views.diff, "agents"),
    "search": Command("WORDS", "Find words in all sessions.", views.search),
    "export": Command(
        "[file]", "Write the session as JSON lines, or the context as .md.", views.export
    ),
    "model": Command("[name]", "Show or change the model.", _model, "models"),
    "set": Command("[name] [value]", "Show or set parameters for the model.", _set, "parameters"),
    "system": Command("[text]", "Show the system messages; add one.", _system),
    "instructions": Command("", "Read the project's AGENTS.md again.", _instructions),
    "expand": Command("", "Show results in full, or short again (Ctrl-O).", _expand),
    "help": Command("", "This list.", _help),
    "quit": Command("", "Leave; everything is in the log.", _quit),
}


OTHER_NAMES = {
    "exit": "quit",
    "resume": "sessions",
    "rename": "title",
    "tree": "agents",
}  # names in other tools

_WORD = re.compile(r"/([a-zA-Z]+)(?=\s|$)")


def is_command(text: str) -> bool:
    """Whether a text is a command: /word, but not a path, and nothing that begins with a space or //."""
    return text.startswith("/") and (len(text.strip()) == 1 or _WORD.match(text) is not None)


def unescaped(text: str) -> str:
    """The text that is sent: of two slashes at the beginning, one is removed."""
    return text[1:] if text.startswith("//") else text


def retyped(event: Event) -> str:
    """What the person typed, for the editor, changed so that a prompt that looks like a command stays a
    prompt."""
    text = typed_text(event)
    looks_like_one = is_command(text) or text.startswith((SIGN, "//"))
    return f" {text}" if looks_like_one and not is_command_output(event) else text


def run(at: "Terminal", text: str) -> None:
    """Run a command that the person typed."""
    name, *rest = text[1:].split(maxsplit=1) or [""]
    command = COMMANDS.get(OTHER_NAMES.get(name, name))
    if command is None:
        from difflib import get_close_matches

        near = get_close_matches(name, COMMANDS)
        hint = f"did you mean /{near[0]}?" if near else "/help lists them"
        raise Invalid(f"no command /{name}: {hint} (a space before it sends it as it is)")
    command.run(at, rest[0] if rest else "")


def words() -> list[str]:
    """The commands, for completion, with a space after those that take arguments."""
    return [f"/{name}{' ' if command.takes else ''}" for name, command in COMMANDS.items()]


def choices(at: "Terminal", typed: str) -> Iterable[str]:
    """Completions for the argument of a command."""
    command = COMMANDS.get(typed.removeprefix("/"))
    match command and command.completes:
        case "labels":
            return at.chat.labels()
        case "agents":
            return at.chat.names()
        case "models":
            return at.models()
        case "parameters":
            return [f"{name} " for name in NAMES]
    return ()
