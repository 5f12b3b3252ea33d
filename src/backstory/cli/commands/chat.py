"""chat and ask: a conversation with a model, restored from the log and recorded in it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from backstory.cli import output as screen
from backstory.cli.main import Ended, run_within
from backstory.cli.options import command, opened, reference
from backstory.errors import Error, Invalid

if TYPE_CHECKING:
    from backstory.chat.session import Chat
    from backstory.core.events import Event
    from backstory.runtime.models import Model
    from backstory.runtime.models.choice import Wish

F = Callable[..., Any]


def _model_options(function: F) -> F:
    """The options of both commands."""
    for option in (
        click.option("--model", metavar="NAME", help="openai:NAME, anthropic:NAME, claude-…, or embedded."),
        click.option("--base-url", metavar="URL", help="An OpenAI-compatible endpoint."),
        click.option("--window", type=click.IntRange(1), help="How many tokens the model reads."),
        click.option("--system", type=click.File(), help="A file with the system prompt of a new session."),
        click.option("--new", is_flag=True, help="Begin a new session."),
        click.option("--yes", is_flag=True, help="Let tools write and run without asking."),
    ):
        function = option(function)
    return function


@command(
    "chat",
    example="backstory chat\nbackstory chat --model gpt-5\necho 'Which files are here?' | backstory chat",
    json=False,
)
@reference(metavar="REF")
@_model_options
def chat_command(url: str | None, ref: str, **options: Any) -> int:
    """Talk with a model that has tools. Goes on where the agent (by default the latest) was, with
    everything that was said. Without a terminal: reads the question from standard input,
    answers on standard output, and exits."""
    _check_platform()
    if sys.stdin.isatty() and sys.stdout.isatty():
        return _on_terminal(url, None if ref == "@" else ref, **options)
    return _once(url, None if ref == "@" else ref, _standard_input(), **options)


@command("ask", example='backstory ask "Which Python files are here?"')
@click.argument("question")
@click.option("--agent", "ref", metavar="REF", help="Whom to ask (default: the latest agent).")
@_model_options
def ask_command(url: str | None, question: str, ref: str | None, **options: Any) -> int:
    """Ask one question; the answer goes to standard output as it comes, and both into the log. Exit
    code 1 if there is no answer."""
    _check_platform()
    if not question.strip():
        raise Invalid("there is no question: backstory ask 'a question'")
    return _once(url, ref, question, **options)


def _check_platform() -> None:
    """The editor and the tools need the terminals, process groups and shell of Unix."""
    try:
        import termios  # noqa: F401
    except ImportError:
        raise Error("the chat needs Linux, macOS or WSL") from None


def _standard_input() -> str:
    question = sys.stdin.buffer.read().decode(errors="replace").strip()
    if not question:
        raise Invalid("there is no question on standard input: echo 'a question' | backstory chat")
    return question


def _once(
    url: str | None, ref: str | None, question: str, *, yes: bool, as_json: bool = False, **options: Any
) -> int:
    from backstory.chat.plain import answer
    from backstory.chat.shutdown import Leaving

    allow = (lambda tool, arguments: True) if yes else None
    with Leaving() as leaving, _chat(url, ref, allow=allow, **options) as chat:
        try:
            found = answer(chat, question, quiet=as_json)
        except KeyboardInterrupt:
            raise Ended(leaving.code or 130) from None
        if as_json:
            screen.answer_json(_answer_json(chat, found))
        return 0 if found else 1


def _answer_json(chat: "Chat", found: "Event | None") -> dict[str, Any]:
    return {
        "answer": found and found.content,
        "seq": found and found.seq,
        "agent": chat.agent.id,
        "name": chat.agent.name,
        "model": chat.model.name,
        "tokens": int(chat.tokens()),
    }


def _on_terminal(url: str | None, ref: str | None, *, yes: bool, **options: Any) -> int:
    try:
        from backstory.chat.consent import Consent
        from backstory.chat.editor import ask
        from backstory.chat.shutdown import Leaving
        from backstory.chat.terminal import Terminal
        from backstory.runtime.models.choice import instead
    except ImportError as error:
        raise Error(f"the chat needs {error.name}: run pip install 'backstory[chat]'") from error
    console = screen.console()
    consent = Consent(console, ask, yes=yes)
    with Leaving() as leaving, _chat(url, ref, allow=consent, **options) as chat:
        wish = _wish(**options)
        terminal = Terminal(
            chat,
            console,
            consent,
            choose=lambda name: _model(instead(wish, name)),
            run_command=run_within,
            leaving=leaving,
        )
        try:
            terminal.run(_greeting(chat))
        except OSError:
            if not leaving.code:  # else the terminal is gone, which is why it was to end
                raise
        return leaving.code


def _greeting(chat: "Chat") -> list[str]:
    from backstory.runtime.models.choice import config_path
    from backstory.runtime.models.embedded import NAME

    lines = [f"backstory chat: {chat.agent.name!r}, {chat.model.name}; /help lists the commands"]
    if chat.model.name == NAME:
        lines += [
            "This is a tiny model for trying things out: its answers are toys.",
            "A real one: backstory chat --model claude-… or --model gpt-… with its key in",
            f"ANTHROPIC_API_KEY or OPENAI_API_KEY, --base-url URL, or {config_path()}",
        ]
    return lines


@contextmanager
def _chat(
    url: str | None, ref: str | None, *, allow: Any, system: Any = None, new: bool = False, **options: Any
) -> Iterator["Chat"]:
    """The chat that the options ask for; the model is let go of at the end."""
    from backstory.chat.session import SYSTEM, Chat, first_agent
    from backstory.runtime.tools import working_tools

    prompt = system.read().strip() if system else SYSTEM
    model = _model(_wish(**options))
    try:
        with opened(url, make=True) as store:
            agent = first_agent(store, ref, new=new)
            chat = Chat(store, agent, model, working_tools(), allow=allow, system=prompt)
            if system and not chat.is_new:
                screen.say(
                    f"--system is for a new session, {agent.name!r} has its own: say --new, or /system"
                )
            yield chat
    finally:
        close = getattr(model, "close", None)
        if close:
            close()


def _wish(
    *, model: str | None = None, base_url: str | None = None, window: int | None = None, **_: Any
) -> "Wish":
    from backstory.runtime.models.choice import Wish, wish

    return wish(Wish(model=model, base_url=base_url, window=window))


def _model(wanted: "Wish") -> "Model":
    from backstory.runtime.models.choice import choose

    if not screen.talks_to_terminal():
        return choose(wanted)
    from backstory.cli.progress import counting

    with counting("fetching the model", "bytes") as tell:
        return choose(wanted, tell=tell)
