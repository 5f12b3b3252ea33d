"""export: whole sessions without loss, or one context to read."""

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import click

from backstory.cli import output as screen
from backstory.cli.options import agent_of, command
from backstory.cli.stores import opened
from backstory.errors import Invalid
from backstory.log.json_text import escape_unseen
from backstory.present.measures import counted
from backstory.references import Reference
from backstory.store import Store
from backstory.transcripts.exporting import TARGETS, Export, exported
from backstory.wire import FORMATS

# Where the tools keep their sessions: a variable that may say so, else a folder below the home folder.
HOMES = {
    "claude-code": ("CLAUDE_CONFIG_DIR", ".claude"),
    "codex": ("CODEX_HOME", ".codex"),
    "pi": ("PI_CODING_AGENT_DIR", ".pi/agent"),
}


@command(
    "export",
    example="backstory export > everything.jsonl\nbackstory export main --format markdown -o main.md",
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
    type=click.Choice(list(TARGETS)),
    help="Write the context of one agent as a file of another tool, or as a page.",
)
@click.option("-o", "--output", metavar="FILE", help="Write to a file, completely or not at all.")
@click.option(
    "--install", is_flag=True, help="With --to: put the file where the tool looks for it."
)
def export_command(
    url: str | None,
    refs: tuple[str, ...],
    format: str,
    target: str | None,
    output: str | None,
    install: bool,
    as_json: bool,
) -> None:
    """Writes the sessions of the given agents, by default all sessions, as JSON lines that `backstory import`
    reads. The export is a snapshot, even while others write. With another --format, it is the context of one
    agent instead, as Markdown or as a request body. --to writes it as a session that Claude Code, Codex or pi
    can resume, as a trajectory (atif), or as a page (html, md). Importing such a file adds nothing.
    --json reports what was written to FILE."""
    if target is not None:
        _write_for(url, refs, target, output, install=install, as_json=as_json)
        return
    if install:
        raise click.UsageError("--install needs --to claude-code, codex or pi.")
    path = None if output == "-" else output
    if as_json and path is None:
        raise click.UsageError("--json reports what was written to a file: name one with -o.")
    with opened(url) as store, _output(path) as file:
        if format == "jsonl":
            written = store.export_to(file, sessions=_sessions(store, refs))
        else:
            written = None
            file.writelines(_context(store, refs, format))
    if as_json:
        screen.answer_json({"path": path} | (written._asdict() if written else {}))
    elif written:
        screen.say(f"exported {counted(written._asdict())}")


def _write_for(
    url: str | None,
    refs: tuple[str, ...],
    target: str,
    output: str | None,
    *,
    install: bool,
    as_json: bool,
) -> None:
    """Write one context as a file of another tool."""
    if len(refs) > 1:
        raise Invalid(f"--to {target} writes the context of one agent", remedy="give one REF")
    if install and (output is not None or target not in HOMES):
        raise click.UsageError("--install goes with --to claude-code, codex or pi, and without -o.")
    with opened(url) as store:
        found = store.resolve(refs[0] if refs else "@")
        export = _page(store, found) if target == "html" else exported(store, found, target)
    path = None if output == "-" else output
    if install and export.place is not None:
        path = str(_home(target) / export.place)
        if os.path.exists(path):
            raise Invalid(
                f"{path!r} already exists", remedy="it was installed before; remove it first"
            )
        os.makedirs(os.path.dirname(path), exist_ok=True)
    with _output(path) as file:
        file.write(export.text)
    if install and export.named_in is not None:
        index, line = export.named_in
        with (_home(target) / index).open("a", encoding="utf-8") as names:
            names.write(line)
    if as_json:
        screen.answer_json({"path": path})
    elif path is not None:
        screen.say(f"wrote {path}")


def _page(store: Store, found: Reference) -> Export:
    """The page as one file: it can be read without a script, too."""
    from backstory.web.standalone import standalone

    return Export(standalone(store, found), None)


def _home(target: str) -> Path:
    """The folder of a tool."""
    variable, below = HOMES[target]
    return Path(os.environ.get(variable) or Path.home() / below)


def _sessions(store: Store, refs: tuple[str, ...]) -> list[str] | None:
    why = "export writes whole sessions, not up to a position"
    return [agent_of(store.resolve(ref), why).session for ref in refs] or None


def _context(store: Store, refs: tuple[str, ...], format: str) -> Iterable[str]:
    if len(refs) > 1:
        raise Invalid(f"--format {format} writes the context of one agent", remedy="give one REF")
    found = store.resolve(refs[0] if refs else "@")
    return [exported(store, found, "md").text if format == "markdown" else _request(found, format)]


@contextmanager
def _output(path: str | None) -> Iterator[IO[str]]:
    if path is None:
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
        yield sys.stdout
    elif os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        with open(
            path, "w", encoding="utf-8", newline="\n"
        ) as device:  # a pipe must not be replaced
            yield device
    else:
        with _whole_file(path) as file:
            yield file


@contextmanager
def _whole_file(path: str) -> Iterator[IO[str]]:
    folder = os.path.dirname(os.path.abspath(path))
    if os.path.isdir(path):
        raise Invalid(f"{path!r} is a directory", remedy="give the path of a file")
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


def _request(found: Reference, format: str) -> str:
    return escape_unseen(found.agent.conversation(found.at).to_bytes(format).decode()) + "\n"
