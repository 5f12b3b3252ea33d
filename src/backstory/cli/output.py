"""Output of commands: colours and tables on a terminal, plain rows in a pipe, objects with --json.

Standard output is for the result, standard error for everything else. All text from a log goes
through `visible`, here or in `present`. rich is imported only for a terminal.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from backstory.agent import Agent
from backstory.cli.stores import is_lent
from backstory.log.events import Event, to_json
from backstory.log.json_text import escape_unseen
from backstory.present.shapes import agent_json, event_json
from backstory.present.text import one_line, visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

    from backstory.references import Reference
    from backstory.wire import FormatName

Item = TypeVar("Item")
Progress = Callable[[int, int], None]  # takes what is done, and the total


def is_terminal() -> bool:
    """Return True if standard output is a terminal."""
    return sys.stdout.isatty()


def is_watched() -> bool:
    """Return True if standard error is a terminal: a person reads the reports."""
    return sys.stderr.isatty()


def has_colours() -> bool:
    """Return True if standard output is shown in colours."""
    return is_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def choose_json(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    """Remember whether the command was given --json."""
    ctx.meta["json"] = value


def wants_json() -> bool:
    """Return True if the command was given --json."""
    return bool(click.get_current_context().meta.get("json"))


def report(text: str) -> None:
    """Print a line to standard error."""
    click.echo(visible(text), err=True)


def print_line(text: str) -> None:
    """Print a line of the result."""
    click.echo(visible(text))


def print_json(value: Any) -> None:
    """Print an object of the result, on one line."""
    click.echo(escape_unseen(to_json(value)))


def print_row(values: Iterable[Any]) -> None:
    """Print a row for other programs: values with tabs between them."""
    texts = ["" if value is None else str(value) for value in values]
    click.echo("\t".join(map(one_line, texts)))


def print_items(
    items: Iterable[Item],
    *,
    shape: Callable[[Item], Any],
    row: Callable[[Item], Iterable[Any]],
    draw: Callable[[Iterable[Item]], None] | None = None,
) -> None:
    """Print a list: with `shape` as JSON, with `draw` on a terminal, otherwise as rows."""
    if wants_json():
        for item in items:
            print_json(shape(item))
    elif draw is not None and is_terminal():
        draw(items)
    else:
        for item in items:
            print_row(row(item))


def print_agent(agent: Agent, summary: str) -> None:
    """Print the id of an agent that was made or changed, and the summary for a person."""
    if wants_json():
        print_json(agent_json(agent))
        return
    print_line(agent.id)
    if is_watched():
        report(summary)


def print_events(agent: Agent, events: Sequence[Event]) -> None:
    """Print the new head after `events` were written, or the events as JSON."""
    if wants_json():
        for event in events:
            print_json(event_json(event))
    elif events:
        print_line(str(events[-1].seq))
        if is_watched():
            report(f"{agent.name!r} is at position {events[-1].seq} now")


def write_request(
    file: IO[str], found: "Reference", format: "FormatName", model: str | None = None
) -> None:
    """Write the body of a request to `file`, then report what had to be repaired in it."""
    conversation = found.agent.conversation(found.at)
    body = conversation.to_bytes(format, model=model).decode()
    file.write(f"{escape_unseen(body)}\n")
    file.flush()
    for repair in conversation.repairs(format, model=model):
        where = "" if repair.at is None else f" at {repair.at}"
        report(f"repaired{where}: {repair.rule}: {repair.why}")


# --- drawing on a terminal ---


def make_console(file: IO[str] | None = None, *, colour: bool | None = None) -> "Console":
    """Return rich's console, which knows NO_COLOR and the width of the terminal."""
    from rich.console import Console

    return Console(file=file, highlight=False, force_terminal=colour, emoji=False, markup=False)


def make_table(*headings: str, right: Sequence[str] = ()) -> "Table":
    """Return an empty table with these headings. The columns in `right` are aligned right."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, justify="right" if heading in right else "left")
    return table


def draw(*things: "RenderableType") -> None:
    """Draw on the terminal."""
    make_console().print(*things, sep="\n")


def draw_below(heading: "Text", text: "Text") -> None:
    """Draw a heading, and a text that is indented below it."""
    from rich.padding import Padding

    draw(heading, Padding(text, (0, 0, 0, 4)))


def draw_lines(lines: Iterator["Text"], *, pager: bool = True) -> None:
    """Draw lines one after another, through the pager unless another program runs the command."""
    if not pager or is_lent():
        console = make_console()
        for line in lines:
            _draw_line(console, line)
        return
    os.environ.setdefault("LESS", "FRX")  # end if it fits, colours, leave it on the screen
    click.echo_via_pager(_render_lines(lines), color=has_colours())


def _render_lines(lines: Iterator["Text"]) -> Iterator[str]:
    """Yield the lines as text. The pager adds the last line end itself."""
    from io import StringIO

    buffer = StringIO()
    console = make_console(buffer, colour=True)
    console.width = shutil.get_terminal_size().columns
    between = ""
    for line in lines:
        _draw_line(console, line)
        yield between + buffer.getvalue().removesuffix("\n")
        between = "\n"
        buffer.seek(0)
        buffer.truncate()


def _draw_line(console: "Console", line: "Text") -> None:
    """Draw a line with its own overflow setting, which rich ignores for a single text."""
    console.print(line, no_wrap=line.no_wrap, overflow=line.overflow)


def show_progress(what: str, unit: str) -> AbstractContextManager[Progress | None]:
    """Return a bar on standard error that appears when it is first called with what is done and
    the total. Without a terminal, the value is None."""
    return _show_bar(what, unit) if is_watched() else nullcontext()


@contextmanager
def _show_bar(what: str, unit: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} " + unit),
        TimeRemainingColumn(),
    )
    tasks: list[TaskID] = []
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:

        def advance(done: int, total: int) -> None:
            if not tasks:
                tasks.append(bar.add_task(what, total=total))
            bar.update(tasks[0], completed=done, total=total)

        yield advance
