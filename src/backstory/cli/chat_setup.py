"""What chat and ask share: the options for a model, and setting up the chat."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from backstory.chat.rules import DENIED
from backstory.cli import output as screen
from backstory.cli.input import system_options
from backstory.cli.main import CTRL_C, Ended
from backstory.cli.progress import progress_bar
from backstory.cli.requirements import missing
from backstory.cli.stores import opened
from backstory.errors import Error
from backstory.present.safe_text import one_line

if TYPE_CHECKING:
    from backstory.agent import Agent
    from backstory.chat.session import Chat
    from backstory.log.events import Event
    from backstory.runtime.loop import Allow
    from backstory.runtime.models import Model
    from backstory.runtime.models.choice import ModelSpec
    from backstory.runtime.tools import Tool
    from backstory.runtime.tools.mcp_servers import Server
    from backstory.store import Store

    Place = Callable[[Path], Path]  # the folder of a session: where to work

MEGABYTE = 1_000_000
OPTIONS = (
    click.option(
        "--model", metavar="NAME", help="gpt-…, claude-…, gemini-…, PROVIDER:NAME, or embedded."
    ),
    click.option("--base-url", metavar="URL", help="The address of an OpenAI-compatible endpoint."),
    click.option(
        "--window", type=click.IntRange(1), metavar="TOKENS", help="The model's context window."
    ),
    click.option("--temperature", type=float, metavar="NUMBER", help="How random the answers are."),
    click.option(
        "--effort", metavar="LEVEL", help="How much the model thinks: low, medium, high, …"
    ),
    click.option(
        "--thinking", type=int, metavar="TOKENS", help="The most tokens it may use to think."
    ),
    click.option(
        "--max-tokens", type=int, metavar="TOKENS", help="The maximum length of one answer."
    ),
    system_options,
    click.option("--new", is_flag=True, help="Start a new session."),
    click.option(
        "--all", "everywhere", is_flag=True, help="Continue the latest session of any folder."
    ),
    click.option(
        "--no-compact", is_flag=True, help="Do not compact a context that is nearly full."
    ),
    click.option(
        "--keep", is_flag=True, help="Keep a prompt in the context even if it gets no answer."
    ),
    click.option(
        "--yes", is_flag=True, help="Let tools write files and run commands without asking."
    ),
)

PARAMETERS = (
    "temperature",
    "effort",
    "thinking",
    "max_tokens",
)  # options that go to the model as they are


def chat_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of both commands."""
    for option in reversed(OPTIONS):
        function = option(function)
    return function


def model_spec(
    *, model: str | None = None, base_url: str | None = None, window: int | None = None, **_: Any
) -> "ModelSpec":
    """The model that the options, the environment and the config file ask for."""
    from backstory.runtime.models.choice import BadConfig, ModelSpec, resolve

    said = ModelSpec(model=model, base_url=base_url, window=window)
    try:
        return resolve(said)
    except BadConfig as error:
        if error.__cause__ is None:  # problems with the whole file are reported with the rest of it
            screen.say(f"{error.message}; it is not used")
        return resolve(said, config=False)


def chosen_model(wanted: "ModelSpec") -> "Model":
    """The model that was asked for; on a terminal, with a bar if it has to be downloaded."""
    from backstory.runtime.models.choice import choose

    with progress_bar("downloading the model", "MB") as bar:

        def progress(done: int, total: int) -> None:
            if bar:
                bar(done // MEGABYTE, total // MEGABYTE)

        return choose(wanted, progress=progress)


def check_platform() -> None:
    """Refuse to run without what the editor and the tools need: Unix terminals, process groups, a shell, and
    a folder."""
    try:
        import termios  # noqa: F401
    except ImportError:
        raise Error("the chat needs Linux, macOS or WSL") from None
    try:
        Path.cwd()
    except FileNotFoundError:
        raise Error("the folder you are in is gone", remedy="change to another one") from None


def check_packages(what: str, *extras: str, wanted: "ModelSpec") -> None:
    """Name all missing packages at once, before anything starts."""
    from backstory.runtime.models.choice import provider_of

    advice = missing(what, (*extras, provider_of(wanted)))
    if advice:
        raise Error(advice)


@contextmanager
def chat_with(
    url: str | None,
    ref: str | None,
    wanted: "ModelSpec",
    *,
    allow: Any,
    yes: bool = False,
    system: str | None = None,
    new: bool = False,
    keep: bool = False,
    no_compact: bool = False,
    everywhere: bool = False,
    place: "Place | None" = None,
    **more: Any,
) -> Iterator["Chat"]:
    """Set up the chat; the model is closed at the end. `place` decides where to work on a session of another
    folder."""
    from backstory.chat.config import configuration
    from backstory.chat.session import SYSTEM, Chat, first_agent, only_agent
    from backstory.runtime.models.choice import config_path
    from backstory.runtime.parameters import parameters
    from backstory.runtime.subagents import Subagents
    from backstory.runtime.tools import working_tools

    params = parameters({name: more[name] for name in PARAMETERS if more.get(name) is not None})
    if ref is not None and not new:
        with opened(url) as store:
            only_agent(store, ref)  # before a model is downloaded in vain
    model = chosen_model(wanted)
    try:
        with opened(url, make=True) as store, ExitStack() as stack:
            agent = first_agent(store, ref, None if everywhere else Path.cwd(), new=new)
            folder = _folder(store, agent, place or _there)
            found = configuration(folder, config_path())
            tools = [
                *working_tools(folder),
                *stack.enter_context(_mcp_tools(found.servers, folder)),
            ]
            subagents = Subagents(lambda: chat.loop, tools, allow=_allow(yes=yes))
            chat = Chat(
                store,
                agent,
                model,
                [*tools, subagents.tool],
                allow=allow,
                system=system or SYSTEM,
                keep=keep,
                auto_compact=not no_compact,
                folder=folder,
                params=params,
                default_params=found.params,
            )
            if system and not chat.is_new:
                screen.say(
                    f"the system prompt was not used: {agent.name!r} is not new (--new starts a new session)"
                )
            yield chat
    finally:
        close = getattr(model, "close", None)
        if close:
            close()


@contextmanager
def _mcp_tools(servers: Sequence["Server"], folder: Path) -> Iterator[list["Tool"]]:
    """The tools of MCP servers. A problem with one is reported in a line, and the chat goes on."""
    if not servers:
        yield []
        return
    names = ", ".join(one_line(server.name) for server in servers)
    advice = missing(f"the MCP servers {names}", ("mcp",))
    if advice:
        screen.say(f"{advice}; they are not used")
        yield []
        return
    from backstory.runtime.tools.mcp_servers import McpServers

    screen.say(f"connecting to MCP servers: {names} (Ctrl-C goes on without)")
    with McpServers(servers, folder) as running:
        for problem in running.problems:
            screen.say(one_line(problem))
        yield running.tools


def _folder(store: "Store", agent: "Agent", place: "Place") -> Path:
    """Where the tools work: in the session's folder, if there is one. The process goes there."""
    from backstory.chat.project import root_of

    here = Path.cwd()
    known = root_of(store, agent).about.get("cwd")
    if not isinstance(known, str) or Path(known) == here:
        return here
    if not Path(known).is_dir():
        screen.say(
            f"the folder of this session is gone ({one_line(known)}): the tools work here, in {here}"
        )
        return here
    chosen = place(Path(known))
    os.chdir(chosen)
    return chosen


def _there(known: Path) -> Path:
    screen.say(f"this session belongs to {one_line(str(known))}: the tools work there")
    return known


def answer_once(
    url: str | None,
    ref: str | None,
    question: str,
    *,
    yes: bool,
    files: Sequence[str] = (),
    as_json: bool = False,
    **options: Any,
) -> int:
    """Ask a question, print the answer, and return the exit code."""
    wanted = model_spec(**options)
    check_packages("the chat", "cli", wanted=wanted)
    from backstory.chat.plain import answer
    from backstory.chat.shutdown import Shutdown

    allow = _allow(yes=yes)
    _warn_of_config()
    with (
        Shutdown() as leaving,
        chat_with(url, ref, wanted, allow=allow, yes=yes, **options) as chat,
    ):
        try:
            found = answer(chat, question, files, quiet=as_json)
        except KeyboardInterrupt:
            raise Ended(leaving.code or CTRL_C) from None
        if as_json:
            screen.answer_json(_answer_json(chat, found))
        return 0 if found else 1


def _warn_of_config() -> None:
    from backstory.chat.config import configuration
    from backstory.runtime.models.choice import config_path

    for warning in configuration(Path.cwd(), config_path()).warnings:
        screen.say(warning)


def _allow(*, yes: bool) -> "Allow":
    """Consent without a person: by the rules, and by --yes."""
    from backstory.chat.config import configuration
    from backstory.runtime.loop import NOBODY, Permission
    from backstory.runtime.models.choice import config_path

    found = configuration(Path.cwd(), config_path())

    def allow(tool: "Tool", arguments: dict[str, Any]) -> str | Permission:
        match found.rules.decide(tool.name, arguments):
            case "deny", rule:
                return DENIED.format(rule)
            case "allow", rule:
                return Permission(f"rule: {rule}")
        return Permission("--yes") if yes else NOBODY

    return allow


def _answer_json(chat: "Chat", found: "Event | None") -> dict[str, Any]:
    return {
        "answer": found and found.content,
        "seq": found and found.seq,
        "agent": chat.agent.id,
        "name": chat.agent.name,
        "model": chat.model.name,
        "tokens": int(chat.tokens()),
    }
