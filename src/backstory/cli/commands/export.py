"""export: whole sessions without loss, or one context to read."""

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO

import click

from backstory.cli import output as screen
from backstory.cli.options import agent_of, command
from backstory.cli.stores import opened
from backstory.core.events import Event
from backstory.core.kinds import KINDS
from backstory.core.terms import harmless
from backstory.errors import Invalid
from backstory.present.event_text import body
from backstory.present.measures import clock, counted
from backstory.present.safe_text import visible
from backstory.references import Reference
from backstory.store import Store
from backstory.wire import FORMATS


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
@click.option("-o", "--output", metavar="FILE", help="Write to a file, completely or not at all.")
def export_command(
    url: str | None, refs: tuple[str, ...], format: str, output: str | None, as_json: bool
) -> None:
    """Writes the sessions of the given agents, by default all sessions, as JSON lines that `backstory import`
    reads. The export is a snapshot, even while others write. With another --format, it is the context of one
    agent instead, as Markdown or as a request body. --json reports what was written to FILE."""
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


def _sessions(store: Store, refs: tuple[str, ...]) -> list[str] | None:
    why = "export writes whole sessions, not up to a position"
    return [agent_of(store.resolve(ref), why).session for ref in refs] or None


def _context(store: Store, refs: tuple[str, ...], format: str) -> Iterable[str]:
    if len(refs) > 1:
        raise Invalid(f"--format {format} writes the context of one agent", remedy="give one REF")
    found = store.resolve(refs[0] if refs else "@")
    return _markdown(found) if format == "markdown" else [_request(found, format)]


@contextmanager
def _output(path: str | None) -> Iterator[IO[str]]:
    if path is None:
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
        yield sys.stdout
    elif os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        with open(path, "w", encoding="utf-8", newline="\n") as device:  # a pipe must not be replaced
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
    return harmless(found.agent.conversation(found.at).to_bytes(format).decode()) + "\n"


def _markdown(found: Reference) -> Iterator[str]:
    agent, at, _ = found
    context = agent.context(at)
    yield f"# {visible(agent.name)}\n\nThe context at position {context.at}, agent `{agent.id}`.\n"
    for event in context.messages:
        if KINDS[event.kind].speaks:
            yield f"\n## {event.seq} {event.kind} ({clock(event.created_at)})\n\n{_markdown_text(event)}\n"


def _markdown_text(event: Event) -> str:
    """What people and models write is Markdown already; what tools write is not."""
    text = visible(body(event))
    if event.kind not in ("tool_call", "tool_result"):
        return text
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
