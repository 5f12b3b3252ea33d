"""Commands that write to files: whole sessions without loss, one context to read, or the store."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Literal

import click

from backstory.cli import output
from backstory.cli.options import command, get_agent
from backstory.cli.stores import find_reference
from backstory.errors import Invalid
from backstory.present.text import list_counts
from backstory.references import Reference
from backstory.store import Store
from backstory.transcripts import ExportedFile, export_transcript
from backstory.transcripts.exporting import list_targets
from backstory.wire import FORMATS, FormatName

# Where tools keep their sessions: in the folder of a variable, else in one below the home folder.
TOOL_FOLDERS = {
    "claude-code": ("CLAUDE_CONFIG_DIR", ".claude"),
    "codex": ("CODEX_HOME", ".codex"),
    "pi": ("PI_CODING_AGENT_DIR", ".pi/agent"),
}


@command(
    "export",
    example="backstory export > everything.jsonl\n"
    "backstory export main --format markdown -o main.md",
)
@click.argument("refs", nargs=-1, metavar="[REF]...")
@click.option(
    "--format",
    type=click.Choice(["jsonl", "markdown", *FORMATS]),
    default="jsonl",
    help="jsonl: whole sessions (default); the others: the context of one agent.",
)
@click.option(
    "--to",
    "target",
    type=click.Choice(list_targets()),
    help="Write the context of one agent as a file of another tool, or as a page.",
)
@click.option(
    "-o", "--output", "path", metavar="FILE", help="Write to a file, completely or not at all."
)
@click.option(
    "--install", is_flag=True, help="With --to: put the file where the tool looks for it."
)
def export_command(
    store: Store,
    refs: tuple[str, ...],
    format: Literal["jsonl", "markdown"] | FormatName,
    target: str | None,
    path: str | None,
    install: bool,
) -> None:
    """Writes the sessions of the given agents, by default all sessions, as JSON lines that
    `backstory import` reads. The export is a snapshot, even while others write. With another
    --format, it is the context of one agent instead, as Markdown or as a request body. --to writes
    it as a session that Claude Code, Codex or pi can resume, as a trajectory (atif), or as a page
    (html, md). Importing such a file adds nothing. --json reports what was written to FILE."""
    if install and (path is not None or target not in TOOL_FOLDERS):
        raise click.UsageError("--install needs --to claude-code, codex or pi, and no -o.")
    if path == "-":
        path = None
    if target is not None:
        _export_for_tool(store, refs, target, path, install=install)
        return
    if output.wants_json() and path is None:
        raise click.UsageError("--json reports what was written to a file: name one with -o.")
    if format == "jsonl":
        _export_sessions(store, refs, path)
        return
    _export_context(store, _find_single(store, refs, f"--format {format}"), format, path)
    if output.wants_json():
        output.print_json({"path": path})


def _export_sessions(store: Store, refs: tuple[str, ...], path: str | None) -> None:
    """Write the sessions of these agents, or all, as JSON lines."""
    why = "export writes whole sessions, not up to a position"
    sessions = [get_agent(find_reference(store, ref), why).session for ref in refs]
    with _open_output(path) as file:
        written = store.export_to(file, sessions=sessions or None)
    if output.wants_json():
        output.print_json({"path": path, **written._asdict()})
    else:
        output.report(f"exported {list_counts(written._asdict())}")


def _export_context(
    store: Store, found: Reference, format: Literal["markdown"] | FormatName, path: str | None
) -> None:
    """Write a context as Markdown, or as the body of a request."""
    with _open_output(path) as file:
        if format == "markdown":
            file.write(export_transcript(store, found, "md").text)
        else:
            output.write_request(file, found, format)


def _find_single(store: Store, refs: tuple[str, ...], option: str) -> Reference:
    if len(refs) > 1:
        raise Invalid(f"{option} writes the context of one agent", remedy="give one REF")
    return find_reference(store, refs[0] if refs else "@")


def _export_for_tool(
    store: Store,
    refs: tuple[str, ...],
    target: str,
    path: str | None,
    *,
    install: bool,
) -> None:
    """Write one context as a file of another tool, or as a page."""
    found = _find_single(store, refs, f"--to {target}")
    export = (
        _build_page(store, found) if target == "html" else export_transcript(store, found, target)
    )
    if install:
        path = _install(export, target)
    else:
        with _open_output(path) as file:
            file.write(export.text)
    if output.wants_json():
        output.print_json({"path": path})
    elif path is not None:
        output.report(f"wrote {path}")


def _build_page(store: Store, found: Reference) -> ExportedFile:
    """Return the page as one file, which can be read without a script, too."""
    from backstory.web.saved import build_file

    return ExportedFile(build_file(store, found), None)


def _install(export: ExportedFile, target: str) -> str | None:
    """Write a file to where its tool looks for sessions, and return the path."""
    variable, below = TOOL_FOLDERS[target]
    folder = Path(os.environ.get(variable) or Path.home() / below)
    assert export.place is not None
    path = str(folder / export.place)
    if os.path.exists(path):
        raise Invalid(f"{path!r} already exists", remedy="it was installed before; remove it first")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with _open_output(path) as file:
        file.write(export.text)
    if export.listing is not None:
        index, line = export.listing
        with (folder / index).open("a", encoding="utf-8") as names:
            names.write(line)
    return path


@contextmanager
def _open_output(path: str | None) -> Iterator[IO[str]]:
    """Open the file to write to: standard output, a device, or a file that is written completely
    or not at all."""
    if path is None:
        if isinstance(sys.stdout, TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8", newline="\n")
        yield sys.stdout
    elif os.path.isdir(path):
        raise Invalid(f"{path!r} is a directory", remedy="give the path of a file")
    elif os.path.exists(path) and not os.path.isfile(path):  # a pipe must not be replaced
        with open(path, "w", encoding="utf-8", newline="\n") as device:
            yield device
    else:
        with _replace_file(path) as file:
            yield file


@contextmanager
def _replace_file(path: str) -> Iterator[IO[str]]:
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise Invalid(f"the directory {folder!r} does not exist", remedy="create it first")
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", newline="\n", dir=folder, prefix=".backstory-", delete=False
    ) as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            file.close()  # Windows neither moves nor removes a file that is open
            os.replace(file.name, path)
        except BaseException:
            file.close()
            os.unlink(file.name)
            raise


@command("backup", example="backstory backup copy.db\nbackstory agents --store copy.db")
@click.argument("file", type=click.Path())
def backup_command(store: Store, file: str) -> None:
    """FILE must not exist. It becomes a complete SQLite store: a snapshot, even while others
    write."""
    store.backup(file)
    if output.wants_json():
        output.print_json({"path": file, "size": os.path.getsize(file)})
    else:
        output.report(f"copied to {file}")
