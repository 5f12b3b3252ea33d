"""Commands that serve the store to other programs, and those that explain the command line."""

import os
from typing import TYPE_CHECKING

import click
from click.shell_completion import get_completion_class

from backstory.cli import output
from backstory.cli.options import command, reference
from backstory.cli.requirements import check_installed
from backstory.cli.stores import find_reference, open_store
from backstory.errors import AgentNotFound, Invalid
from backstory.store import Store

if TYPE_CHECKING:
    from backstory.web.guard import Proxy

SECRET = "BACKSTORY_PROXY_SECRET"


@command("web", example="backstory web\nbackstory web main@7 --write", json=False, store="url")
@reference(metavar="REF[@POS]")
@click.option("--write", is_flag=True, help="Allow moves; without it the page only reads.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=7357,
    metavar="N",
    help="The port (default: 7357).",
)
@click.option(
    "--host",
    metavar="ADDRESS",
    help="Listen on this address, for a container: 0.0.0.0. The page still answers only as "
    "127.0.0.1.",
)
@click.option("--no-open", is_flag=True, help="Print the address and do not start a browser.")
@click.option(
    "--public-url", metavar="URL", help="The address under which a proxy serves the page."
)
@click.option(
    "--behind-proxy", is_flag=True, help=f"Trust the proxy that sends the secret in ${SECRET}."
)
@click.option(
    "--user-header",
    metavar="NAME",
    default="x-forwarded-user",
    help="The header in which the proxy names the user.",
)
@click.option(
    "--writers", metavar="NAMES", help="Who may write behind a proxy, separated by commas."
)
def web_command(
    url: str | None,
    ref: str,
    write: bool,
    port: int,
    host: str | None,
    no_open: bool,
    public_url: str | None,
    behind_proxy: bool,
    user_header: str,
    writers: str | None,
) -> None:
    """Serves a page on this machine that shows sessions, branches, and what the model saw at any
    position. Ctrl-C ends it. If the port is taken, the next free one is used."""
    check_installed("backstory web", ["web"])
    from backstory.web.server import Site

    if bool(public_url) != behind_proxy:
        raise click.UsageError("--public-url and --behind-proxy belong together.")
    with open_store(url, read_only=not write) as store:
        site = Site(
            store,
            path=_build_path(store, ref),
            port=port,
            host=host,
            write=write,
            public_url=public_url,
            proxy=_build_proxy(user_header, writers) if behind_proxy else None,
        )
        mode = "reads and writes" if write else "reads only; --write allows moves"
        output.report(f"store    {store.url}")
        output.report(f"mode     {mode}")
        if port and site.port != port:
            output.report(f"port     {site.port}, because {port} is taken")
        output.report("Ctrl-C ends it")
        site.serve(output.print_line, browser=not no_open and not behind_proxy)


def _build_path(store: Store, ref: str) -> str:
    """Return the page's path for a reference; for an empty store, the list of sessions."""
    try:
        agent, at, _ = find_reference(store, ref)
    except AgentNotFound:
        if ref != "@":
            raise
        return "/"
    path = f"/s/{agent.session}/a/{agent.id}"
    return path if at is None else f"{path}@{at}"


def _build_proxy(user_header: str, writers: str | None) -> "Proxy":
    from backstory.web.guard import Proxy

    secret = os.environ.get(SECRET, "")
    if not secret:
        raise Invalid(f"--behind-proxy needs a shared secret in ${SECRET}")
    names = None if writers is None else frozenset(name.strip() for name in writers.split(","))
    return Proxy(secret, user_header.lower(), writers=names)


@command("mcp", example="backstory mcp", json=False, store="url")
def mcp_command(url: str | None) -> None:
    """Serves on standard input and output, for a client that starts it: search, sessions, read and
    context. It only reads. In a client's configuration, the command is `backstory` and the argument
    `mcp`."""
    check_installed("backstory mcp", ["mcp"])
    from backstory.mcp import server

    with open_store(url, read_only=True) as store:
        server(store).run()


@command(
    "shell-completion",
    example='eval "$(backstory shell-completion bash)"\nbackstory shell-completion fish | source',
    json=False,
    store="none",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def shell_completion_command(shell: str) -> None:
    """The script completes commands, options, the names of agents and the labels of marks. Put the
    line of the example into the file that your shell reads on start."""
    from backstory.cli.main import cli

    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(cli, {}, "backstory", "_BACKSTORY_COMPLETE").source())


@command("help", example="backstory help\nbackstory help log", json=False, store="none")
@click.argument("name", required=False, metavar="[COMMAND]")
def help_command(name: str | None) -> None:
    """Without COMMAND, lists all commands. `backstory COMMAND --help` shows the same."""
    from backstory.cli.main import cli

    context = click.get_current_context().parent
    assert context is not None
    if name is None:
        click.echo(context.get_help())
        return
    _, found, _ = cli.resolve_command(context, [name])
    assert found is not None
    click.echo(found.get_help(click.Context(found, info_name=name, parent=context)))
