"""What begins with a slash: one table, and a few lines for each command.

Where the command line can do a thing already, its command is run on the same store.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from backstory.errors import Invalid, NotFound
from backstory.events import KINDS, to_json
from backstory.messages import tool_call

if TYPE_CHECKING:
    from backstory.chat.terminal import Terminal


class Command(NamedTuple):
    """One command: what it takes, what it does, and the function that does it."""

    takes: str
    help: str
    run: "Callable[[Terminal, str], None]"
    completes: str = ""  # labels, agents, or nothing


def _agents(at: "Terminal", _: str) -> None:
    at.shell("agents", "--session", at.chat.agent.id)


def _marks(at: "Terminal", _: str) -> None:
    at.shell("marks", at.chat.agent.id)


def _expand(at: "Terminal", _: str) -> None:
    at.expand()


def _mark(at: "Terminal", rest: str) -> None:
    mark = at.chat.agent.mark(rest or None)
    at.say(
        f"⚑ {mark.label or 'mark'} at {mark.seq}: /rewind {mark.label or ''}".rstrip() + " comes back here"
    )


def _rewind(at: "Terminal", rest: str) -> None:
    label, carries, note = rest.partition("--carry")
    note = note.strip().strip("\"'")
    if carries and not note:
        raise Invalid('what to carry? /rewind [label] --carry "what I learned"')
    at.chat.rewind(label.strip() or None, note or None)
    at.redraw("rewound; /undo takes it back")


def _clear(at: "Terminal", _: str) -> None:
    at.chat.clear()
    at.redraw("the context is empty; /undo takes it back")


def _undo(at: "Terminal", _: str) -> None:
    at.chat.undo()
    at.redraw("undone; /undo once more does it again")


def _jump(at: "Terminal", rest: str) -> None:
    if not rest.isdecimal():
        raise Invalid("where to? /jump POSITION, as /log shows them")
    at.chat.agent.jump(int(rest))
    at.redraw(f"at the context of {rest}; /undo takes it back")


def _back(at: "Terminal", _: str) -> None:
    prompts = at.chat.prompts()
    if not prompts:
        raise NotFound("there is no earlier prompt in the context")
    chosen = at.choose([prompt.content or "" for prompt in prompts])
    if chosen is not None:
        at.typed = at.chat.back_to(prompts[chosen])
        at.redraw("before that prompt, which is in the editor again; /undo takes it back")


def _fork(at: "Terminal", rest: str) -> None:
    parent = at.chat.agent.name
    at.chat.fork(rest or None)
    at.redraw(f"in {at.chat.agent.name!r}, a fork; /switch {parent} goes back")


def _spawn(at: "Terminal", rest: str) -> None:
    parent = at.chat.agent.name
    at.chat.spawn(rest or None)
    at.redraw(f"in {at.chat.agent.name!r}, a new agent; /switch {parent} goes back")


def _switch(at: "Terminal", rest: str) -> None:
    if not rest:
        raise Invalid("to which agent? /agents lists them")
    at.chat.switch(rest)
    at.redraw(at.restored_line())


def _context(at: "Terminal", _: str) -> None:
    """What the model sees: tokens by kind, then each message on a line."""
    from backstory.cli.wording import gist
    from backstory.wire.tokens import NEWEST, counter, estimate, vocabulary

    size = counter(vocabulary(at.chat.model.name) or NEWEST) or estimate
    kinds: dict[str, list[int]] = {}
    for event in at.chat.agent.context().messages:
        if not KINDS[event.kind].speaks:
            continue
        tokens = size(event.content or "")
        if event.kind == "tool_call":
            tokens += size(to_json(tool_call(event.data).arguments))
        kinds.setdefault(event.kind, []).append(tokens)
        at.line(f"{event.seq:>5} {event.kind:<11} {tokens:>6,}  {gist(event)}")
    for kind, numbers in kinds.items():
        at.say(f"{kind}: {len(numbers):,} with {sum(numbers):,} tokens")
    window = f" of {at.chat.model.window:,}" if at.chat.model.window else ""
    at.say(f"in all about {at.chat.tokens():,} tokens{window}")


def _export(at: "Terminal", rest: str) -> None:
    file = rest or f"{at.chat.agent.name}.jsonl"
    if Path(file).exists():
        raise Invalid(f"there is a file {file} already: /export ANOTHER")
    format = "markdown" if file.endswith(".md") else "jsonl"
    at.shell("export", at.chat.agent.id, "--format", format, "--output", file)
    at.say(f"written to {file}")


def _diff(at: "Terminal", rest: str) -> None:
    if not rest:
        raise Invalid("with what? /diff AGENT or /diff @POSITION of this one")
    other = f"{at.chat.agent.id}{rest}" if rest.startswith("@") else rest
    at.shell("diff", other, at.chat.agent.id)


def _search(at: "Terminal", rest: str) -> None:
    if not rest:
        raise Invalid("for what? /search WORDS")
    at.shell("search", rest)


def _log(at: "Terminal", rest: str) -> None:
    number = rest if rest.isdecimal() and rest != "0" else "40"
    at.shell("log", at.chat.agent.id, "--no-pager", "--last", number)


def _show(at: "Terminal", rest: str) -> None:
    """One event in full; by default the last result of a tool."""
    results = [event.seq for event in at.chat.agent.context().messages if event.kind == "tool_result"]
    if rest and not rest.isdecimal():
        raise Invalid("which event? /show POSITION, as /log shows them")
    if not rest and not results:
        raise NotFound("no tool has been called in this context")
    at.draw_event(at.chat.agent.event(int(rest) if rest else results[-1]))


def _model(at: "Terminal", rest: str) -> None:
    if rest:
        at.change_model(rest)
    window = f", {at.chat.model.window:,} tokens" if at.chat.model.window else ""
    at.say(f"the model is {at.chat.model.name}{window}; /model NAME takes another")


def _system(at: "Terminal", rest: str) -> None:
    if rest:
        at.chat.agent.system(rest)
        at.redraw("the system message is in the log, from here on")
        return
    for event in at.chat.agent.context().messages:
        if event.kind == "system":
            at.draw_event(event)


def _help(at: "Terminal", _: str) -> None:
    at.table([(f"/{name} {command.takes}", command.help) for name, command in COMMANDS.items()])
    at.say(
        "Enter sends, Alt-Enter is a new line, Esc Esc goes back to an earlier prompt, Ctrl-O shows "
        "results in full, Ctrl-X Ctrl-E opens your editor, Ctrl-C stops an answer, Ctrl-D leaves."
    )


def _quit(at: "Terminal", _: str) -> None:
    at.is_done = True


COMMANDS = {
    "mark": Command("[label]", "Set a mark to come back to.", _mark),
    "rewind": Command('[label] [--carry "…"]', "Go back to a mark, with a note.", _rewind, "labels"),
    "clear": Command("", "Empty the context; the system prompt stays.", _clear),
    "undo": Command("", "Take back the last clear, rewind or jump.", _undo),
    "jump": Command("POSITION", "Go to the context of any position.", _jump),
    "back": Command("", "Go to before an earlier prompt and edit it (Esc Esc).", _back),
    "fork": Command("[name]", "Go on in a fork.", _fork),
    "spawn": Command("[name]", "Go on in a new agent with an empty context.", _spawn),
    "agents": Command("", "The tree of this session.", _agents),
    "switch": Command("AGENT", "Go on in another agent.", _switch, "agents"),
    "marks": Command("", "The marks to come back to.", _marks),
    "context": Command("", "What the model sees, and its tokens.", _context),
    "log": Command("[n]", "The last events, dead ones too.", _log),
    "show": Command("[position]", "One event in full; the last result.", _show),
    "diff": Command("AGENT", "How another agent's context differs.", _diff, "agents"),
    "search": Command("WORDS", "Find words in all sessions.", _search),
    "export": Command("[file]", "The session as JSON lines, or as .md.", _export),
    "model": Command("[name]", "Which model answers; take another.", _model),
    "system": Command("[text]", "The system prompt; add to it.", _system),
    "expand": Command("", "Results in full, or short again (Ctrl-O).", _expand),
    "help": Command("", "This list.", _help),
    "quit": Command("", "Leave; everything is in the log.", _quit),
}


def run(at: "Terminal", text: str) -> None:
    """Run what the person typed behind a slash."""
    name, _, rest = text[1:].partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        from difflib import get_close_matches

        near = get_close_matches(name, COMMANDS)
        hint = f"did you mean /{near[0]}?" if near else "/help lists them"
        raise Invalid(f"there is no command /{name}: {hint}")
    command.run(at, rest.strip())


def choices(at: "Terminal", typed: str) -> Iterable[str]:
    """What may stand behind a command."""
    command = COMMANDS.get(typed.removeprefix("/"))
    match command and command.completes:
        case "labels":
            return at.chat.labels()
        case "agents":
            return [agent.name for agent in at.chat.store.agents(session=at.chat.agent.session)]
    return ()
