"""Commands that talk to a model: chat, restored from the log and recorded in it, and ask."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from backstory.cli import output
from backstory.cli.commands import COMMANDS, SHELL_ONLY
from backstory.cli.input import read_input, read_piped_input, system_options
from backstory.cli.main import CTRL_C, CommandEnd, run_command
from backstory.cli.options import command, complete_reference
from backstory.cli.requirements import check_installed
from backstory.cli.stores import open_store
from backstory.errors import Error, Invalid
from backstory.present.text import one_line

if TYPE_CHECKING:
    from backstory.chat.session import Chat
    from backstory.log.events import Event
    from backstory.runtime.models import Model
    from backstory.runtime.models.choice import ModelSpec
    from backstory.runtime.permission import Allow
    from backstory.runtime.tools import Action

MEGABYTE = 1_000_000


@dataclass(frozen=True)
class ChatOptions:
    """The options that both commands have."""

    model: str | None
    base_url: str | None
    window: int | None
    settings: Sequence[str]  # as NAME=VALUE
    system: str | None
    new: bool
    no_compact: bool


OPTIONS = (
    click.option(
        "--model", metavar="NAME", help="gpt-…, claude-…, gemini-…, PROVIDER:NAME, or embedded."
    ),
    click.option("--base-url", metavar="URL", help="The address of an OpenAI-compatible endpoint."),
    click.option(
        "--window", type=click.IntRange(1), metavar="TOKENS", help="The model's context window."
    ),
    click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        help="A parameter for the model, as for /set (may be repeated).",
    ),
    system_options,
    click.option("--new", is_flag=True, help="Start a new session."),
    click.option(
        "--no-compact", is_flag=True, help="Do not compact a context that is nearly full."
    ),
)


def chat_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that both commands have; the command gets them as `options`."""

    @wraps(function)
    def run(*args: Any, **given: Any) -> Any:
        chosen = {field.name: given.pop(field.name) for field in fields(ChatOptions)}
        return function(*args, options=ChatOptions(**chosen), **given)

    for option in reversed(OPTIONS):
        run = option(run)
    return run


@command(
    "chat",
    example="backstory chat\n"
    "backstory chat --model gpt-5\n"
    "echo 'Which files are here?' | backstory chat",
    json=False,
    store="url",
)
@click.argument("ref", required=False, metavar="[REF]", shell_complete=complete_reference)
@chat_options
def chat_command(url: str | None, ref: str | None, options: ChatOptions) -> int:
    """Continues the latest session of the current folder, with everything that was said, or starts
    one. REF names another one; @ is the latest session of any folder. The store is created if it
    does not exist. Without a terminal, it reads one question from standard input, prints the
    answer, and exits."""
    _check_platform()
    if sys.stdin.isatty() and sys.stdout.isatty():
        return _chat_on_terminal(url, ref, options)
    question = read_input("your question").strip()
    if not question:
        raise Invalid(
            "there is no question on standard input",
            remedy="use echo 'a question' | backstory chat",
        )
    return _answer_question(url, ref, question, options, typed="")


@command(
    "ask",
    example='backstory ask "Which Python files are here?"\n'
    'git diff | backstory ask "Is anything wrong with this?"\n'
    'backstory ask "What is in the picture?" --file photo.png',
    store="url",
)
@click.argument("question", required=False)
@click.option("--agent", "ref", metavar="REF", help="The agent to ask (default: the latest one).")
@click.option(
    "--file", "files", multiple=True, metavar="FILE", help="Attach a file (may be repeated)."
)
@chat_options
@click.option(
    "--yes",
    is_flag=True,
    help="Let tools write files and run commands without asking. File tools refuse sensitive "
    "files, but a command can read and change everything.",
)
def ask_command(
    url: str | None,
    question: str | None,
    ref: str | None,
    files: tuple[str, ...],
    yes: bool,
    options: ChatOptions,
) -> int:
    """Both are added to the log. Text from a pipe or a file on standard input comes first, then an
    empty line, then QUESTION; without QUESTION, that text is the question. The store is created if
    it does not exist. The exit code is 1 if there is no answer."""
    _check_platform()
    texts = [read_piped_input().strip("\n"), question or ""]
    asked = "\n\n".join(text for text in texts if text.strip())
    if not asked:
        raise Invalid("there is no question", remedy="use backstory ask 'a question'")
    paths = [str(Path(file).absolute()) for file in files]  # the session may have another folder
    typed = question or ""
    return _answer_question(url, ref, asked, options, typed=typed, files=paths, yes=yes)


def _check_platform() -> None:
    """Refuse to run without what the editor and the tools need: Unix terminals, process groups, a
    shell, and a folder."""
    try:
        import termios  # noqa: F401
    except ImportError:
        raise Error("the chat needs Linux, macOS or WSL") from None
    try:
        Path.cwd()
    except FileNotFoundError:
        raise Error("the folder you are in is gone", remedy="change to another one") from None


# --- on a terminal ---


def _chat_on_terminal(url: str | None, ref: str | None, options: ChatOptions) -> int:
    wanted = _resolve_model(options)
    if not wanted.model and not wanted.base_url:
        _check_packages("chat")
        wanted = _choose_offer(url, wanted)
    _check_packages("chat", wanted=wanted)
    from backstory.chat.worker import ChatWorker
    from backstory.runtime.models.choice import replace_model
    from backstory.runtime.signals import Shutdown

    with Shutdown() as leaving, _open_chat(url, ref, wanted, options) as chat:
        worker = ChatWorker(
            chat,
            choose_model=lambda name: _load_model(replace_model(wanted, name)),
            run_command=run_command,
            shell_commands=sorted(COMMANDS.keys() - SHELL_ONLY),
        )
        leaving.stop = worker.screen.leave
        try:
            worker.start(_build_greeting(chat))
        except OSError:
            if not leaving.code:  # else the terminal is gone, which is why it was to end
                raise
        return leaving.code


def _choose_offer(url: str | None, wanted: "ModelSpec") -> "ModelSpec":
    """Let the person choose from what can answer here, and remember it unless it is the tour."""
    from backstory.chat.first_start import choose_offer, list_offers, remember_choice
    from backstory.chat.session import has_begun_tour
    from backstory.chat.tour import TOUR
    from backstory.runtime.models.choice import BadConfig, config_path

    with open_store(url, make=True) as store:
        offers = list_offers(has_begun_tour=has_begun_tour(store, Path.cwd()))
    chosen = choose_offer(offers).fill_from(wanted)
    if chosen.model == TOUR:
        return chosen
    try:
        remember_choice(config_path(), chosen)
    except (OSError, BadConfig) as error:
        output.report(f"the choice was not remembered: {error}")
    else:
        output.report(f"remembered in {config_path()}; --model NAME names another one")
    return chosen


def _build_greeting(chat: "Chat") -> list[str]:
    from backstory.chat.tour import FIRST_WORDS, TourModel
    from backstory.runtime.models.choice import config_path
    from backstory.runtime.models.embedded import NAME

    if isinstance(chat.model, TourModel):
        return [FIRST_WORDS] if chat.is_new else []
    lines = [f"backstory chat: {chat.agent.name!r}, {chat.model.name}; /help lists the commands"]
    if chat.model.name == NAME:
        lines += [
            "This is a tiny model to try things out with. Do not expect good answers.",
            "For a real one: backstory chat --model claude-… or --model gpt-… with the key in",
            f"ANTHROPIC_API_KEY or OPENAI_API_KEY, --base-url URL, or {config_path()}",
        ]
    return lines


# --- without a terminal ---


def _answer_question(
    url: str | None,
    ref: str | None,
    question: str,
    options: ChatOptions,
    *,
    typed: str,
    files: Sequence[str] = (),
    yes: bool = False,
) -> int:
    """Ask a question, print the answer, and return the exit code. Piped text names no files."""
    wanted = _resolve_model(options)
    _check_packages(wanted=wanted)
    from backstory.chat import ask
    from backstory.runtime.signals import Shutdown

    allow = _build_allow(yes=yes)
    with Shutdown() as leaving, _open_chat(url, ref, wanted, options, allow=allow) as chat:
        try:
            found = ask.answer_once(chat, question, files, typed=typed, quiet=output.wants_json())
        except KeyboardInterrupt:
            raise CommandEnd(leaving.code or CTRL_C) from None
        if output.wants_json():
            output.print_json(_build_json(chat, found))
        return 0 if found else 1


def _build_allow(*, yes: bool) -> "Allow":
    """Return the function that decides where nobody can be asked. It prints what --yes allows."""
    from backstory.runtime.permission import Permission, Permissions, Refusal

    permissions = Permissions(yes=yes)

    def allow(action: "Action", call: "Event") -> Permission | Refusal:
        decision = permissions.decide(action, call)
        if isinstance(decision, Permission) and decision.by:
            output.report(f"{decision.by}: {action.tool} {one_line(action.target)}")
        return decision

    return allow


def _build_json(chat: "Chat", found: "Event | None") -> dict[str, Any]:
    return {
        "answer": found and found.content,
        "seq": found and found.seq,
        "agent": chat.agent.id,
        "name": chat.agent.name,
        "model": chat.model.name,
        "tokens": int(chat.tokens()),
    }


# --- the model and the chat ---


def _resolve_model(options: ChatOptions) -> "ModelSpec":
    """Return the model that the options, the environment and the config file name."""
    from backstory.runtime.models.choice import BadConfig, ModelSpec, resolve

    given = ModelSpec(options.model, options.base_url, window=options.window)
    try:
        return resolve(given)
    except BadConfig as error:
        output.report(f"{error.message}; it is not used")
        return resolve(given, config=False)


def _check_packages(*extras: str, wanted: "ModelSpec | None" = None) -> None:
    """Name all missing packages at once, before anything starts."""
    from backstory.chat.tour import TOUR
    from backstory.runtime.models.choice import provider_of

    if wanted is not None and wanted.model != TOUR:
        extras += (provider_of(wanted),)
    check_installed("the chat", extras)


def _load_model(wanted: "ModelSpec") -> "Model":
    """Return the model; on a terminal, with a bar if it has to be downloaded."""
    from backstory.chat.tour import TOUR, TourModel
    from backstory.runtime.models.choice import choose

    if wanted.model == TOUR:
        return TourModel()
    with output.show_progress("downloading the model", "MB") as bar:

        def show_bytes(done: int, total: int) -> None:
            if bar:
                bar(done // MEGABYTE, total // MEGABYTE)

        return choose(wanted, progress=show_bytes)


@contextmanager
def _open_chat(
    url: str | None,
    ref: str | None,
    wanted: "ModelSpec",
    options: ChatOptions,
    *,
    allow: "Allow | None" = None,
) -> Iterator["Chat"]:
    """Set up the chat in the current folder. The model is closed at the end."""
    from backstory.chat.session import SYSTEM, Chat, first_agent, only_agent
    from backstory.chat.tour import TourModel
    from backstory.runtime.parameters import parameters
    from backstory.runtime.tools import working_tools

    params = parameters(dict(map(_split_setting, options.settings)))
    if ref is not None and not options.new:
        with open_store(url) as store:
            only_agent(store, ref)  # before a model is downloaded in vain
    model = _load_model(wanted)
    try:
        with open_store(url, make=True) as store:
            folder = Path.cwd()
            is_tour = isinstance(model, TourModel)
            agent = first_agent(store, ref, folder, new=options.new, is_tour=is_tour)
            chat = Chat(
                store,
                agent,
                model,
                working_tools(folder),
                allow=allow,
                system=options.system or SYSTEM,
                auto_compact=not options.no_compact,
                folder=folder,
                params=params,
                default_params=_read_default_parameters(),
            )
            _report_surprises(chat, folder, options.system)
            yield chat
    finally:
        close = getattr(model, "close", None)
        if close:
            close()


def _read_default_parameters() -> dict[str, Any]:
    """Return the parameters of the config file; none if they cannot be used."""
    from backstory.runtime.models.choice import BadConfig, config_path, read_default_parameters

    path = config_path()
    try:
        return read_default_parameters(path)
    except Invalid as error:
        output.report(f"the params of {path} are not used: {error}")
    except BadConfig:
        pass  # it was reported with the model
    return {}


def _split_setting(setting: str) -> tuple[str, str]:
    """Split NAME=VALUE."""
    name, equals, value = setting.partition("=")
    if not equals or not value.strip():
        raise Invalid(f"--set {setting} has no value", remedy="write --set NAME=VALUE")
    return name.strip(), value.strip()


def _report_surprises(chat: "Chat", folder: Path, system: str | None) -> None:
    """Report another folder, and a system prompt that is not used."""
    if chat.other_folder:
        output.report(
            f"this session began in {one_line(chat.other_folder)}: the tools work here, in "
            f"{one_line(str(folder))}"
        )
    if system and not chat.is_new:
        output.report(
            f"the system prompt was not used: {chat.agent.name!r} is not new "
            "(--new starts a new session)"
        )
