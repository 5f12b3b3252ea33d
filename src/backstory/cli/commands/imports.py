"""Commands that bring histories in: of other tools, of an export, or of a backup."""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, cast

import click

import backstory
from backstory.cli import output
from backstory.cli.commands.import_report import print_outcome, print_places, print_session
from backstory.cli.commands.removal import confirm
from backstory.cli.options import command, yes_option
from backstory.cli.stores import find_address, get_path, open_for_import
from backstory.cli.times import parse_time
from backstory.errors import Busy
from backstory.present.text import list_counts
from backstory.store import Store
from backstory.transcripts import list_formats, load_format
from backstory.transcripts.importing import SETTLE, Importer, list_known_places
from backstory.transcripts.model import ImportOutcome

EXPORT_HEADER = b'{"format":"backstory-export"'
SECONDS_BETWEEN_LOOKS = 1.0  # at what is watched
EMPTY_INPUT = (
    "standard input is empty: give a PATH, or add --yes to import what is on this machine."
)


@command(
    "import",
    example="backstory import\n"
    "backstory import ~/.codex/sessions --since 2026-08 --mask\n"
    "backstory import --watch\n"
    "ssh host backstory export | backstory import -",
    store="url",
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
    "--since",
    metavar="TIME",
    help="Only sessions with events at or after a time, such as 2026-08 or 7d.",
)
@click.option("--project", metavar="DIR", help="Only sessions of a folder and those below it.")
@click.option("--dry-run", is_flag=True, help="Say what would be new, and write nothing.")
@click.option("--mask", is_flag=True, help="Replace what looks like a secret with a digest.")
@click.option("--no-images", is_flag=True, help="Leave out images.")
@click.option(
    "--raw", is_flag=True, help="Also keep the records of files with one session as they are."
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
    url: str | None,
    paths: tuple[str, ...],
    yes: bool,
    watch: bool,
    dry_run: bool,
    strict: bool,
    **options: Any,
) -> None:
    """Reads the transcripts of other tools (files, folders, databases, zips) at PATH, recognised by
    their content. Without PATH, it looks where the tools on this machine keep theirs, shows a table
    and asks. What the store already has is skipped, so an import can be repeated. An export of
    backstory, from a file or (with -) from standard input, is added with the same ids, times and
    positions. The store is created if it does not exist."""
    is_unattended = yes or dry_run
    ask = not (is_unattended or output.wants_json())
    if not (paths or watch or is_unattended or sys.stdin.isatty()):
        paths = ("-",)
    exports = list(filter(_is_export, paths))
    if exports:
        _import_exports(url, paths, exports)
        return
    _check_options(options)
    places = paths or _find_places(options["format"], ask=ask)
    with open_for_import(url, dry_run=dry_run) as store:
        outcome = _import(store, places, options, dry_run, watch=watch)
        while watch:
            time.sleep(SECONDS_BETWEEN_LOOKS)
            _import(store, places, options, dry_run, watch=True)
    click.get_current_context().exit(_choose_exit_code(outcome, strict=strict))


def _check_options(options: dict[str, Any]) -> None:
    """Replace what was typed with the arguments of `Importer`."""
    options["images"] = not options.pop("no_images")
    if options["format"] is not None:
        options["format"] = load_format(options["format"]).name
    if options["since"] is not None:
        options["since"] = parse_time(options["since"])


def _find_places(tool: str | None, *, ask: bool) -> list[str]:
    """Return where the tools of this machine keep their transcripts, if the person agrees."""
    found = []
    for known, path in list_known_places(os.environ.get, Path.home()):
        if tool in (None, known.name):
            found.append((known.name, path))
    if not found:
        names = ", ".join(name for name in list_formats() if load_format(name).places)
        output.report(
            f"no transcripts were found where these tools keep them: {names}; give a PATH"
        )
        click.get_current_context().exit(1)
    if ask:
        print_places(found)
        click.confirm("Import them?", abort=True, err=True)
    return [str(path) for _, path in found]


def _import(
    store: Store,
    paths: Sequence[str],
    options: dict[str, Any],
    dry_run: bool,
    *,
    watch: bool,
) -> ImportOutcome:
    """Import what is new, and print it: when watching, session by session, otherwise as a sum."""
    importer = Importer(store, paths, **options, dry=dry_run)
    with output.show_progress("importing", "bytes") as progress:
        for session in importer.import_sessions(progress):
            if output.wants_json() or (watch and session.has_news):
                print_session(session)
    if not watch:
        print_outcome(importer.outcome, dry_run=dry_run)
    if importer.outcome.has_news and not dry_run:
        _update_index(store)
    return importer.outcome


def _update_index(store: Store) -> None:
    """Index what was imported, so that a page that only reads has nothing to index."""
    with output.show_progress("indexing", "events") as progress, suppress(Busy):
        store.search("import", limit=1, progress=progress)  # a search first indexes what is new


def _choose_exit_code(outcome: ImportOutcome, *, strict: bool) -> int:
    whole = outcome.merge_reports()
    if whole.unread or whole.doubtful or not outcome.files:
        return 1
    return 1 if strict and (whole.damaged or whole.mended) else 0


# --- exports of backstory ---


def _is_export(path: str) -> bool:
    """Return True for an export of backstory. Standard input and pipes are taken for one, because
    they can be read only once."""
    is_pipe = not os.path.isfile(path) and not os.path.isdir(path)
    if path == "-" or is_pipe:
        return True
    if os.path.isdir(path):
        return False
    with open(path, "rb") as file:
        return file.read(200).replace(b" ", b"").startswith(EXPORT_HEADER)


def _import_exports(url: str | None, paths: Sequence[str], exports: list[str]) -> None:
    if len(exports) < len(paths):
        raise click.UsageError("exports of backstory and transcripts cannot be imported together.")
    if "-" in exports and not cast(BufferedReader, sys.stdin.buffer).peek(1):
        raise click.UsageError(EMPTY_INPUT)
    for path in exports:
        with _open_seekable(path) as file, open_for_import(url) as store:
            with output.show_progress("importing", "bytes") as progress:
                added = store.import_from(_read_lines(file, progress))
            _update_index(store)
        if output.wants_json():
            output.print_json(added._asdict())
        else:
            output.report(f"imported {list_counts(added._asdict())}")


@contextmanager
def _open_seekable(path: str) -> Iterator[IO[bytes]]:
    """Open a file, a pipe or standard input. A pipe is read to its end before the store is locked:
    a slow one must not keep other writers waiting."""
    with click.open_file(path, "rb") as file:
        if file.seekable():
            yield file
            return
        with tempfile.TemporaryFile() as spool:
            shutil.copyfileobj(file, spool)
            spool.seek(0)
            yield spool


def _read_lines(file: IO[bytes], progress: output.Progress | None) -> Iterator[bytes]:
    total = os.fstat(file.fileno()).st_size
    done = 0
    for number, line in enumerate(file):
        done += len(line)
        if progress and number % 1_000 == 0:
            progress(done, total)
        yield line


# --- backups ---


@command(
    "restore",
    example="backstory restore copy.db --yes\nbackstory restore copy.db --to restored.db",
    store="url",
)
@click.argument("backup", type=click.Path())
@click.option(
    "--to", metavar="PATH", type=click.Path(), help="The file to restore to (default: the store)."
)
@yes_option
def restore_command(url: str | None, backup: str, to: str | None, yes: bool) -> None:
    """BACKUP is copied and verified first, and put in place in one step. A store that is there is
    replaced, with its write-ahead log, and cannot be brought back; that is refused while a program
    has it open. Asks first on a terminal if there is a store; elsewhere, it needs --yes then."""
    address = find_address(url, make=True) if to is None else to
    path = get_path(address) or address  # the library refuses other databases
    if os.path.exists(path) and not yes:
        output.report(f"{path} would be replaced by {backup}")
        confirm("replacing a store", "repeat it with --yes, or restore --to another file")
    with output.show_progress("verifying", "events") as progress:
        contents = backstory.restore(backup, path, progress=progress)
    if output.wants_json():
        output.print_json({"path": path, **contents._asdict()})
    else:
        output.report(f"restored {list_counts(contents._asdict())} to {path}")
