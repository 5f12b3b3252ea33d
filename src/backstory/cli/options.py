"""How commands are declared: help, options that several share, references and completion."""

import json
from collections.abc import Callable, Iterable
from functools import wraps
from inspect import cleandoc
from typing import Any, Literal, TypeVar

import click
from click.shell_completion import CompletionItem

from backstory.agent import Agent
from backstory.cli import output
from backstory.cli.commands import COMMANDS
from backstory.cli.stores import find_reference, open_store
from backstory.errors import AgentNotFound, Error, Invalid
from backstory.log.kinds import KINDS
from backstory.references import Reference
from backstory.store import Store

CommandFunction = TypeVar("CommandFunction", bound=Callable[..., Any])
# What a command gets: the open store, which must exist or is made, only its address, or nothing.
StoreNeed = Literal["open", "make", "url", "none"]

AT_HEAD = "this command writes at the head, not at a position (to continue from there, fork)"


def command(
    name: str, *, example: str, json: bool = True, store: StoreNeed = "open"
) -> Callable[[Callable[..., Any]], click.Command]:
    """Declare a command. Its help is the summary from the table of commands, the docstring of the
    function, its options with --json and --store as the last ones, and the example."""

    def declare(function: Callable[..., Any]) -> click.Command:
        lines = [f"  $ {line}" for line in example.splitlines()]
        declared = click.command(
            name,
            help=f"{COMMANDS[name]}\n\n{cleandoc(function.__doc__ or '')}",
            short_help=COMMANDS[name],
            epilog="\n".join(["\b", "Example:", *lines]),
        )(function if store == "none" else _pass_store(function, store))
        if json:
            declared.params.append(_build_json_option())
        if store != "none":
            declared.params.append(
                click.Option(["--store", "url"], metavar="URL", help="The store to use.")
            )
        return declared

    return declare


def _build_json_option() -> click.Option:
    """Return --json. It is not passed to the command: `output.wants_json` knows it."""
    return click.Option(
        ["--json", "as_json"],
        is_flag=True,
        expose_value=False,
        callback=output.choose_json,
        help="Print JSON, one object per line.",
    )


def _pass_store(function: Callable[..., Any], need: StoreNeed) -> Callable[..., Any]:
    """Pass the store, or its address, from the command's --store or the one before the command."""

    @wraps(function)
    def run(*args: Any, url: str | None, **kwargs: Any) -> Any:
        if url is None:
            url = click.get_current_context().obj
        if url == "":
            raise click.UsageError("--store is empty: give a path or a URL.")
        if need == "url":
            return function(*args, url=url, **kwargs)
        with open_store(url, make=need == "make") as store:
            return function(*args, store=store, **kwargs)

    return run


# --- options of several commands ---

kinds_option = click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(list(KINDS)),
    help="Only events of this kind.",
)
key_option = click.option(
    "--key", metavar="TEXT", help="A key to find it by; no other agent may have it."
)
dry_run_option = click.option(
    "--dry-run", is_flag=True, help="Show what would change, and write nothing."
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


def limit_option(
    text: str, *names: str, default: int | None = None
) -> Callable[[CommandFunction], CommandFunction]:
    """Return an option that takes the number of items to show."""
    if default is not None:
        text = f"{text} (default: {default})"
    return click.option(
        *(names or ("-n", "--limit")),
        type=click.IntRange(1),
        metavar="N",
        default=default,
        help=f"{text}.",
    )


# --- references ---


def reference(
    name: str = "ref", *, required: bool = False, metavar: str = "REF"
) -> Callable[[CommandFunction], CommandFunction]:
    """Return an argument that names an agent, or a position of one. If it is not required, the
    default is the agent that was written to last."""
    if required:
        return click.argument(name, metavar=metavar, shell_complete=complete_reference)
    return click.argument(
        name, metavar=f"[{metavar}]", shell_complete=complete_reference, default="@"
    )


def complete_reference(
    ctx: click.Context, _param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Return the names that complete a reference, or after an @ the marks."""
    try:
        outer = ctx.parent.params.get("store") if ctx.parent else None
        with open_store(ctx.params.get("url") or outer) as store:
            names = _list_names(store, incomplete)
    except (Error, OSError):
        return []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _list_names(store: Store, incomplete: str) -> Iterable[str]:
    name, at_sign, _ = incomplete.partition("@")
    if not at_sign:
        return sorted({agent.name for agent in store.agents()})
    marks = find_reference(store, name or "@").agent.marks()
    return [f"{name}@{mark.label}" for mark in marks if mark.label]


def get_agent(found: Reference, why: str = AT_HEAD) -> Agent:
    """Return the agent of a reference that must not name a position."""
    if found.at is not None:
        raise Invalid(why, remedy="leave out the @")
    return found.agent


def find_writable(store: Store, ref: str, command: str, *, alone: bool) -> Agent:
    """Return the agent to write to. If the reference is the only argument (`alone`), it may have
    been meant as the text for the latest agent: the error says so."""
    try:
        return get_agent(find_reference(store, ref))
    except AgentNotFound as error:
        if not alone or ref.startswith("@"):
            raise
        text = json.dumps(ref, ensure_ascii=False)
        hint = f"for the latest agent, use backstory {command} @ {text}"
        raise AgentNotFound(error.message, remedy=hint) from error
