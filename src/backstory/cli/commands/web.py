"""web: the history in a browser."""

import os
from typing import TYPE_CHECKING

import click

from backstory.cli import output as screen
from backstory.cli.options import command, reference
from backstory.cli.requirements import missing
from backstory.cli.stores import opened
from backstory.errors import AgentNotFound, CannotOpen, Invalid
from backstory.store import Store

if TYPE_CHECKING:
    from backstory.web.guard import Proxy

SECRET = "BACKSTORY_PROXY_SECRET"


@command("web", example="backstory web\nbackstory web main@7 --write", json=False)
@reference(metavar="REF[@POS]")
@click.option("--write", is_flag=True, help="Allow moves; without it the page only reads.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=7357,
    metavar="N",
    help="The port (default: 7357).",
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
    no_open: bool,
    public_url: str | None,
    behind_proxy: bool,
    user_header: str,
    writers: str | None,
) -> None:
    """Serves a page on this machine that shows sessions, branches, and what the model saw at any position.
    Ctrl-C ends it. If the port is taken, the next free one is used."""
    advice = missing("backstory web", ("web",))
    if advice:
        raise CannotOpen(advice)
    from backstory.web.server import prepared, serve

    if bool(public_url) != behind_proxy:
        raise click.UsageError("--public-url and --behind-proxy belong together.")
    with opened(url, read_only=not write) as store:
        site = prepared(
            store,
            path=_path(store, ref),
            port=port,
            write=write,
            public_url=public_url,
            proxy=_proxy(user_header, writers) if behind_proxy else None,
        )
        screen.say(f"store    {store.url}")
        screen.say(
            f"mode     {'reads and writes' if write else 'reads only; --write allows moves'}"
        )
        if port and site.port != port:
            screen.say(f"port     {site.port}, because {port} is taken")
        screen.say("Ctrl-C ends it")
        screen.answer(site.address)
        serve(site, browser=not no_open and not behind_proxy)


def _path(store: Store, ref: str) -> str:
    """The page's path for a reference; the list of sessions where there is nothing yet."""
    try:
        agent, at, _ = store.resolve(ref)
    except AgentNotFound:
        if ref != "@":
            raise
        return "/"
    return f"/s/{agent.session}/a/{agent.id}" + ("" if at is None else f"@{at}")


def _proxy(user_header: str, writers: str | None) -> "Proxy":
    from backstory.web.guard import Proxy

    secret = os.environ.get(SECRET, "")
    if not secret:
        raise Invalid(f"--behind-proxy needs a shared secret in ${SECRET}")
    names = None if writers is None else frozenset(name.strip() for name in writers.split(","))
    return Proxy(secret, user_header.lower(), writers=names)
