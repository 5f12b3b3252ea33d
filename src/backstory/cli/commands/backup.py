"""backup: a copy of the store as a file."""

import os

import click

from backstory.cli import output as screen
from backstory.cli.options import command
from backstory.cli.stores import opened


@command("backup", example="backstory backup copy.db\nbackstory agents --store copy.db")
@click.argument("file", type=click.Path())
def backup_command(url: str | None, file: str, as_json: bool) -> None:
    """FILE must not exist. It becomes a complete SQLite store: a snapshot, even while others write."""
    with opened(url) as store:
        store.backup(file)
    if as_json:
        screen.answer_json({"path": file, "size": os.path.getsize(file)})
    else:
        screen.say(f"copied to {file}")
