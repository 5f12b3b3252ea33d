"""import: the histories of other tools, and what another store exported."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, cast

import click

from backstory.cli import output as screen
from backstory.cli.import_view import answer_outcome, answer_places, answer_session
from backstory.cli.options import command
from backstory.cli.progress import Progress, progress_bar
from backstory.cli.stores import filled, rehearsed
from backstory.errors import Invalid
from backstory.present.measures import counted
from backstory.store import Store
from backstory.transcripts import FORMATS, format_named
from backstory.transcripts.finder import known_places
from backstory.transcripts.outcome import Outcome
from backstory.transcripts.run import SETTLE, Run

HEADER = b'{"format":"backstory-export"'  # how an export of ours begins
LOOK = 1.0  # seconds between two looks at what is watched


@command(
    "import",
    example="backstory import\nbackstory import ~/.codex/sessions --since 2026-08 --mask\n"
    "backstory import --watch\nssh host backstory export | backstory import -",
)
@click.argument(
    "paths", nargs=-1, type=click.Path(exists=True, allow_dash=True), metavar="[PATH]..."
)
@click.option(
    "--from",
    "format",
    metavar="TOOL",
    help="The tool that wrote the transcripts, if it is not recognised.",
)
@click.option("--yes", is_flag=True, help="Do not ask before importing what is on this machine.")
@click.option("--watch", is_flag=True, help="Keep running, and import what is added, until Ctrl-C.")
@click.option(
    "--since", metavar="TIME", help="Only sessions with events at or after a time, such as 2026-08."
)
@click.option("--project", metavar="DIR", help="Only sessions of a folder and those below it.")
@click.option("--dry-run", is_flag=True, help="Say what would be new, and write nothing.")
@click.option("--mask", is_flag=True, help="Replace what looks like a secret with a digest.")
@click.option("--no-images", is_flag=True, help="Leave out images.")
@click.option(
    "--raw", is_flag=True, help="Also keep the records of files with one session as they are."
)
@click.option(
    "--siblings",
    is_flag=True,
    help="Make chats (openai-chat) with one system prompt forks of one root.",
)
@click.option("--strict", is_flag=True, help="Exit with 1 if anything is damaged.")
@click.option(
    "--settle",
    type=click.FloatRange(0),
    metavar="SECONDS",
    default=SETTLE,
    help="Treat an answer as complete after this many seconds without a change (default: 30).",
)
def import_command(
    url: str | None, paths: tuple[str, ...], yes: bool, watch: bool, as_json: bool, **options: Any
) -> None:
    """Reads the transcripts of other tools (files, folders, databases, zips) at PATH, recognised by their
    content. Without PATH, it looks where the tools on this machine keep theirs, shows a table and asks. What
    the store already has is skipped, so an import can be repeated. An export of backstory, from a file or
    (with -) from standard input, is added with the same ids, times and positions.
    The store is created if it does not exist."""
    chosen = _options(options)
    piped = not paths and not sys.stdin.isatty() and not (yes or watch or options["dry_run"])
    exports = ["-"] if piped else [path for path in paths if _is_export(path)]
    if piped and not cast(BufferedReader, sys.stdin.buffer).peek(1):
        raise click.UsageError(
            "standard input is empty: give a PATH, or add --yes to import what is on this machine."
        )
    if exports:
        if len(exports) < len(paths):
            raise click.UsageError(
                "exports of backstory and transcripts cannot be imported together."
            )
        for path in exports:
            _import_export(url, path, as_json)
        return
    given = paths or _places(chosen["format"], ask=not (yes or as_json or options["dry_run"]))
    with rehearsed(url) if options["dry_run"] else filled(url) as store:
        outcome = _import(store, given, chosen, as_json, each=watch)
        while watch:
            time.sleep(LOOK)
            _import(store, given, chosen, as_json, each=True)
    click.get_current_context().exit(_code(outcome, strict=options["strict"]))


def _options(given: dict[str, Any]) -> dict[str, Any]:
    format, since = given["format"], given["since"]
    return {
        "format": None if format is None else format_named(format),
        "since": None if since is None else _moment(since),
        "project": given["project"],
        "mask": given["mask"],
        "images": not given["no_images"],
        "raw": given["raw"],
        "settle": given["settle"],
        "siblings": given["siblings"],
        "dry": given["dry_run"],
    }


def _moment(text: str) -> datetime:
    """A time, or the beginning of a day, a month or a year."""
    for form in ("%Y", "%Y-%m"):
        try:
            return datetime.strptime(text, form).astimezone()
        except ValueError:
            continue
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise Invalid(
            f"{text!r:.60} is not a time", remedy="write it as 2026-08 or 2026-08-15T12:00"
        ) from None


def _places(format: Any, *, ask: bool) -> list[str]:
    """Where the tools of this machine keep their transcripts, if the person wants them."""
    found = [
        (tool.name, path)
        for tool, path in known_places(os.environ.get, Path.home())
        if format in (None, tool)
    ]
    if not found:
        names = ", ".join(tool.name for tool in FORMATS if tool.places)
        screen.say(f"no transcripts were found where these tools keep them: {names}; give a PATH")
        click.get_current_context().exit(1)
    if ask:
        answer_places(found)
        click.confirm("Import them?", abort=True, err=True)
    return [str(path) for _, path in found]


def _import(
    store: Store, paths: Any, options: dict[str, Any], as_json: bool, *, each: bool
) -> Outcome:
    run = Run(store, paths, **options)
    with progress_bar("importing", "bytes") as progress:
        for session in run.sessions(progress):
            if as_json or (each and session.has_news):
                answer_session(session, as_json=as_json)
    if not each:
        answer_outcome(run.outcome, as_json=as_json, dry=options["dry"])
    return run.outcome


def _code(outcome: Outcome, *, strict: bool) -> int:
    whole = outcome.everything()
    damaged = strict and bool(whole.damaged or whole.mended)
    return 1 if damaged or whole.unread or not outcome.files else 0


# --- exports of backstory ---


def _is_export(path: str) -> bool:
    if path == "-":
        return True
    if os.path.isdir(path):
        return False
    with open(path, "rb") as file:
        return file.read(200).replace(b" ", b"").startswith(HEADER)


def _import_export(url: str | None, path: str, as_json: bool) -> None:
    with _opened(path) as file, _spooled(file) as lines:
        if os.fstat(lines.fileno()).st_size == 0:
            raise click.UsageError(
                "standard input is empty. Name a PATH, or use --yes to import what is on this machine."
            )
        with filled(url) as store, progress_bar("importing", "bytes") as progress:
            added = store.import_from(_lines(lines, progress))
    if as_json:
        screen.answer_json(added._asdict())
    else:
        screen.say(f"imported {counted(added._asdict())}")


@contextmanager
def _opened(path: str) -> Iterator[IO[bytes]]:
    if path == "-":
        yield sys.stdin.buffer
    else:
        with open(path, "rb") as file:
            yield file


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
