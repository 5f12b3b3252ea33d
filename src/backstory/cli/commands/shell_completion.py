"""shell-completion: the script that makes a shell complete commands, options, agents and marks."""

import click
from click.shell_completion import get_completion_class

from backstory.cli.options import command


@command(
    "shell-completion",
    example='eval "$(backstory shell-completion bash)"\nbackstory shell-completion fish | source',
    json=False,
    store=False,
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def shell_completion_command(shell: str) -> None:
    """The script completes commands, options, the names of agents and the labels of marks. Put the line
    of the example into the file that your shell reads on start."""
    from backstory.cli.main import cli

    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(cli, {}, "backstory", "_BACKSTORY_COMPLETE").source())
