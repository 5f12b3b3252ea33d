"""chat: a conversation with a model, restored from the log and recorded in it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from backstory.cli import output as screen
from backstory.cli.chat_setup import (
    answer_once,
    chat_options,
    chat_with,
    check_packages,
    check_platform,
    chosen_model,
    model_spec,
)
from backstory.cli.input import standard_input
from backstory.cli.main import CTRL_C, Ended, run_within
from backstory.cli.options import command, reference
from backstory.cli.stores import opened
from backstory.errors import Invalid
from backstory.present.safe_text import one_line

if TYPE_CHECKING:
    from backstory.chat.session import Chat


@command(
    "chat",
    example="backstory chat\nbackstory chat --model gpt-5\necho 'Which files are here?' | backstory chat",
    json=False,
)
@reference(metavar="REF")
@chat_options
@click.option("--continue", "continued", metavar="REF", help="The same as REF.")
@click.option("--pick", is_flag=True, help="Choose a session from a list.")
def chat_command(
    url: str | None, ref: str, continued: str | None, pick: bool, **options: Any
) -> int:
    """Continues the latest session of the current folder, with everything that was said, or starts one. REF
    names another one. The store is created if it does not exist. Without a terminal, it reads one question
    from standard input, prints the answer, and exits."""
    check_platform()
    named = continued or (None if ref == "@" else ref)
    if pick:
        named = _picked(url)
    if sys.stdin.isatty() and sys.stdout.isatty():
        return _on_terminal(url, named, **options)
    question = standard_input("your question").strip()
    if not question:
        raise Invalid(
            "there is no question on standard input",
            remedy="use echo 'a question' | backstory chat",
        )
    return answer_once(url, named, question, **options)


def _picked(url: str | None) -> str:
    """The agent that was chosen from the list of sessions."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Invalid(
            "choosing a session needs a terminal", remedy="name the session: backstory chat REF"
        )
    from backstory.chat.project import session_rows
    from backstory.chat.session_picker import pick_session

    with opened(url) as store:
        chosen = pick_session(session_rows(store, Path.cwd()))
        if chosen is None:
            raise Ended(CTRL_C)
        return store.agents(session=chosen, order="updated", limit=1)[0].id


def _place(known: Path) -> Path:
    """Ask where a session of another folder goes on."""
    from backstory.chat.question import ask_key

    here = Path.cwd()
    screen.say(
        f"this session belongs to {one_line(str(known))}, and you are in {one_line(str(here))}"
    )
    answer = ask_key("Where shall the tools work? [t]here, [h]ere, [n]owhere: leave", "thn")
    if answer not in ("t", "h"):
        raise Ended(CTRL_C)
    return known if answer == "t" else here


def _share_or_fork(chat: "Chat") -> None:
    """Ask whether to write to an agent that another chat has open."""
    from backstory.chat.question import ask_key

    for other in chat.others():
        screen.say(
            f"{one_line(chat.agent.name)!r} is open in another chat ({one_line(str(other))})"
        )
    if chat.others():
        answer = ask_key(
            "Go on in a [f]ork, [s]hare it (both see what is written), or [l]eave?", "fsl"
        )
        if answer not in ("f", "s"):
            raise Ended(CTRL_C)
        if answer == "f":
            chat.fork()


def _on_terminal(url: str | None, ref: str | None, *, yes: bool, **options: Any) -> int:
    wanted = model_spec(**options)
    check_packages("the chat", "cli", "chat", wanted=wanted)
    from backstory.chat.config import configuration
    from backstory.chat.consent import Consent
    from backstory.chat.question import ask_key, ask_line
    from backstory.chat.shutdown import Shutdown
    from backstory.chat.terminal import Terminal
    from backstory.runtime.models.choice import config_path, instead

    console = screen.console()
    found = configuration(Path.cwd(), config_path())
    consent = Consent(console, ask_key, ask_line, yes=yes, rules=found.rules)
    with (
        Shutdown() as leaving,
        chat_with(url, ref, wanted, allow=consent, place=_place, yes=yes, **options) as chat,
    ):
        _share_or_fork(chat)
        terminal = Terminal(
            chat,
            console,
            consent,
            choose=lambda name: chosen_model(instead(wanted, name)),
            run_command=run_within,
            leaving=leaving,
        )
        try:
            terminal.run([*_greeting(chat), *found.warnings])
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
            "This is a tiny model to try things out with. Do not expect good answers.",
            "For a real one: backstory chat --model claude-… or --model gpt-… with the key in",
            f"ANTHROPIC_API_KEY or OPENAI_API_KEY, --base-url URL, or {config_path()}",
        ]
    return lines
