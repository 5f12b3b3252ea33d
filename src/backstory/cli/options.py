"""What the commands share: how they are declared, references to agents, and completion."""

import json
from collections.abc import Callable
from functools import wraps
from inspect import cleandoc
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from backstory.agent import Agent
from backstory.cli.commands import COMMANDS
from backstory.cli.stores import opened
from backstory.errors import AgentNotFound, Error, Invalid
from backstory.references import Reference
from backstory.store import Store

F = TypeVar("F", bound=Callable[..., Any])

AT_HEAD = "this command writes at the head, not at a position (to continue from there, fork)"


def command(
    name: str, *, example: str, json: bool = True, store: bool = True
) -> Callable[[Callable[..., Any]], click.Command]:
    """Declare a command. Its help is the summary from the table of commands, what the function's
    docstring adds, its options, with --json and --store as the last ones, and an example."""

    def declare(function: Callable[..., Any]) -> click.Command:
        made = click.command(
            name,
            help=f"{COMMANDS[name]}\n\n{cleandoc(function.__doc__ or '')}",
            short_help=COMMANDS[name],
            epilog="\b\nExample:\n" + "\n".join(f"  $ {line}" for line in example.splitlines()),
        )(_with_store(function) if store else function)
        if json:
            made.params.append(
                click.Option(
                    ["--json", "as_json"], is_flag=True, help="Print JSON, one object per line."
                )
            )
        if store:
            made.params.append(click.Option(["--store"], metavar="URL", help="The store to use."))
        return made

    return declare


key_option = click.option(
    "--key", metavar="TEXT", help="A key to find it by; no other agent may have it."
)


def _with_store(function: Callable[..., Any]) -> Callable[..., Any]:
    """Pass the command's own --store, or the one before the command, to `opened`."""

    @wraps(function)
    def run(*args: Any, store: str | None, **kwargs: Any) -> Any:
        url = click.get_current_context().obj if store is None else store
        if url == "":
            raise click.UsageError("--store is empty: give a path or a URL.")
        return function(*args, url=url, **kwargs)

    return run


def reference(
    name: str = "ref", *, required: bool = False, metavar: str = "REF"
) -> Callable[[F], F]:
    """An argument that names an agent, or a position of one; by default the agent that was written to
    last."""
    shown = metavar if required else f"[{metavar}]"
    default: dict[str, Any] = (
        {} if required else {"default": "@"}
    )  # for click, None is a default, too
    return click.argument(name, required=required, metavar=shown, shell_complete=_names, **default)


def _names(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The names that complete a reference, and the marks that may follow an @."""
    try:
        before = ctx.parent.params.get("store") if ctx.parent else None
        with opened(ctx.params.get("store") or before) as store:
            name, at_sign, _ = incomplete.partition("@")
            if at_sign:
                agent = store.resolve(name or "@").agent
                found = [f"{name}@{mark.label}" for mark in agent.marks() if mark.label]
            else:
                found = sorted({agent.name for agent in store.agents()})
    except (Error, OSError):
        return []
    return [CompletionItem(text) for text in found if text.startswith(incomplete)]


def agent_of(found: Reference, why: str = AT_HEAD) -> Agent:
    """The agent of a reference that must not name a position."""
    if found.at is not None:
        raise Invalid(why, remedy="leave out the @")
    return found.agent


def agent_to_write_to(store: Store, ref: str, command: str, *, alone: bool) -> Agent:
    """The agent of a reference. A single argument may have been meant for the latest agent."""
    try:
        return agent_of(store.resolve(ref))
    except AgentNotFound as error:
        if not alone or ref.startswith("@"):
            raise
        hint = (
            f"for the latest agent, use backstory {command} @ {json.dumps(ref, ensure_ascii=False)}"
        )
        raise AgentNotFound(error.message, remedy=hint) from error
