"""mcp: the histories for programs that speak the Model Context Protocol."""

from backstory.cli.options import command
from backstory.cli.requirements import missing
from backstory.cli.stores import opened
from backstory.errors import CannotOpen


@command("mcp", example="backstory mcp", json=False)
def mcp_command(url: str | None) -> None:
    """Serves on standard input and output, for a client that starts it: search, sessions, read and context.
    It only reads. In a client's configuration, the command is `backstory` and the argument `mcp`."""
    advice = missing("backstory mcp", ("mcp",))
    if advice:
        raise CannotOpen(advice)
    from backstory.mcp import server

    with opened(url, read_only=True) as store:
        server(store).run()
