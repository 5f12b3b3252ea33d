"""import: what another store exported."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

import click

from backstory.cli import output as screen
from backstory.cli.options import command
from backstory.cli.progress import Progress, progress_bar
from backstory.cli.stores import filled
from backstory.present.measures import counted


@command(
    "import", example="backstory import everything.jsonl\nssh host backstory export | backstory import -"
)
@click.argument("file", default="-", type=click.File("rb"), metavar="[FILE]")
def import_command(url: str | None, file: IO[bytes], as_json: bool) -> None:
    """Reads an export from FILE or standard input, and adds all of it or nothing, with the same ids,
    times and positions. What the store already has is skipped, so an import can be repeated. The store is
    created if it does not exist."""
    with _spooled(file) as lines, filled(url) as store, progress_bar("importing", "bytes") as progress:
        added = store.import_from(_lines(lines, progress))
    if as_json:
        screen.answer_json(added._asdict())
    else:
        screen.say(f"imported {counted(added._asdict())}")


@contextmanager
def _spooled(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """The whole input before the store is locked: a slow pipe must not keep other writers waiting."""
    if file.seekable():
        yield file
        return
    with tempfile.TemporaryFile() as spool:
        shutil.copyfileobj(file, spool)
        spool.seek(0)
        yield spool


def _lines(file: IO[bytes], progress: Progress | None) -> Iterator[bytes]:
    """The lines of a file; `progress` hears how far it is read."""
    total = os.fstat(file.fileno()).st_size
    done = 0
    for number, line in enumerate(file):
        done += len(line)
        if progress and number % 1_000 == 0:
            progress(done, total)
        yield line
