"""restore: a backup in the place of the store."""

import os

import click

import backstory
from backstory.cli import output as screen
from backstory.cli.commands.removal import ask, yes
from backstory.cli.options import command
from backstory.cli.progress import progress_bar
from backstory.cli.stores import address_of, file_of
from backstory.present.measures import counted


@command(
    "restore",
    example="backstory restore copy.db --yes\nbackstory restore copy.db --to restored.db",
)
@click.argument("backup", type=click.Path())
@click.option(
    "--to", metavar="PATH", type=click.Path(), help="The file to restore to (default: the store)."
)
@yes
def restore_command(url: str | None, backup: str, to: str | None, yes: bool, as_json: bool) -> None:
    """BACKUP is copied and verified first, and put in place in one step. A store that is there is replaced,
    with its write-ahead log, and cannot be brought back; that is refused while a program has it open. Asks
    first on a terminal if there is a store; elsewhere, it needs --yes then."""
    address = address_of(url, make=True) if to is None else to
    path = file_of(address) or address  # the library refuses other databases
    if os.path.exists(path) and not yes:
        screen.say(f"{path} would be replaced by {backup}")
        ask("replacing a store", "repeat it with --yes, or restore --to another file")
    with progress_bar("verifying", "events") as progress:
        contents = backstory.restore(backup, path, progress=progress)
    if as_json:
        screen.answer_json({"path": path, **contents._asdict()})
        return
    screen.say(f"restored {counted(contents._asdict())} to {path}")
