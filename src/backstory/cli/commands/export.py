"""export, import and backup: what carries a history from one place to another."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import IO, Any

import click

from backstory.cli import output as screen
from backstory.cli.options import agent_of, command, filled, opened
from backstory.core.events import KINDS, Event
from backstory.core.terms import harmless
from backstory.errors import Invalid
from backstory.jobs.transfer import Transfer
from backstory.present.event_text import body
from backstory.present.measures import clock, count
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
    help="jsonl: whole sessions without loss (default); markdown or a provider's: a context.",
)
@click.option("-o", "--output", metavar="FILE", help="Write to a file, which is there whole or not at all.")
def export_command(
    url: str | None, refs: tuple[str, ...], format: str, output: str | None, as_json: bool
) -> None:
    """Write the sessions of some agents (by default all sessions) as JSON lines that import takes,
    as of one moment, while others write. Or the context of one agent, as Markdown or in a
    provider's format. --json says what was written to a FILE: without one, the export itself is
    the answer."""
    path = None if output == "-" else output
    if as_json and path is None:
        raise click.UsageError("--json says what was written to a file: give one with -o.")
    with opened(url) as store, _output(path) as file:
        if format == "jsonl":
            written = store.export_to(file, sessions=_sessions(store, refs))
        else:
            written = None
            file.writelines(_context(store, refs, format))
    if as_json:
        screen.answer_json({"path": path} | (written._asdict() if written else {}))
    elif written:
        _say_transfer("exported", written)


def _sessions(store: Store, refs: tuple[str, ...]) -> list[str] | None:
    why = "an export is of whole sessions, not up to a position"
    return [agent_of(store.resolve(ref), why).session for ref in refs] or None


def _context(store: Store, refs: tuple[str, ...], format: str) -> Iterable[str]:
    if len(refs) > 1:
        raise Invalid(f"--format {format} is the context of one agent: give one REF")
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
        raise Invalid(f"{path!r} is a directory: give the path of a file")
    if not os.path.isdir(folder):
        raise Invalid(f"cannot write {path!r}: the directory {folder!r} does not exist; create it first")
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


@command("import", example="backstory import everything.jsonl\nssh far backstory export | backstory import -")
@click.argument("file", default="-", type=click.File("rb"), metavar="[FILE]")
def import_command(url: str | None, file: IO[bytes], as_json: bool) -> None:
    """Add what another store exported, from a file or standard input: all of it or nothing, ids,
    times and positions included. What is here already is passed over, so it can be repeated.
    The store is made if it is not there."""
    with _spooled(file) as lines, filled(url) as store, _bar() as tell:
        added = store.import_from(_counted(lines, tell))
    if as_json:
        screen.answer_json(added._asdict())
    else:
        _say_transfer("imported", added)


@contextmanager
def _spooled(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """The whole input before the store is locked: a slow pipe must not keep other writers waiting."""
    if file.seekable():
        yield file
        return
    import shutil

    with tempfile.TemporaryFile() as spool:
        shutil.copyfileobj(file, spool)
        spool.seek(0)
        yield spool


def _bar() -> Any:
    if not screen.talks_to_terminal():
        return nullcontext()
    from backstory.cli.progress import counting

    return counting("importing", "bytes")


def _counted(lines: IO[bytes], tell: Callable[[int, int], None] | None) -> Iterator[bytes]:
    total = os.fstat(lines.fileno()).st_size
    done = 0
    for number, line in enumerate(lines):
        done += len(line)
        if tell and number % 1_000 == 0:
            tell(done, total)
        yield line


def _say_transfer(did: str, moved: Transfer) -> None:
    parts = (count(number, thing[:-1]) for thing, number in moved._asdict().items())
    screen.say(f"{did} {', '.join(parts)}")


@command("backup", example="backstory backup copy.db")
@click.argument("file", type=click.Path())
def backup_command(url: str | None, file: str, as_json: bool) -> None:
    """Write a copy of the store as of one moment into a new SQLite file, while others write. It is
    a store like any other: --store FILE opens it."""
    with opened(url) as store:
        store.backup(file)
    if as_json:
        screen.answer_json({"path": file, "size": os.path.getsize(file)})
    else:
        screen.say(f"the copy is {file}")
