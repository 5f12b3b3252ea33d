"""shell-completion: the script that makes a shell complete commands, options, agents and marks."""

import click
from click.shell_completion import get_completion_class

from backstory.cli.options import examples


@click.command("shell-completion", epilog=examples('eval "$(backstory shell-completion bash)"'))
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def shell_completion_command(shell: str) -> None:
    """Print the completion script for a shell. For fish: backstory shell-completion fish | source."""
    from backstory.cli.main import cli

    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(cli, {}, "backstory", "_BACKSTORY_COMPLETE").source())
