"""Output of commands: colours and tables on a terminal, plain lines in a pipe, objects with --json.

Standard output is for the result, standard error for everything else. All text from a log goes through
`visible`, here or in `present`. rich is imported only for a terminal.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from backstory.agent import Agent
from backstory.log.events import Event, to_json
from backstory.log.json_text import escape_unseen
from backstory.present.safe_text import one_line, visible
from backstory.present.shapes import agent_json, event_json

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

Row = Mapping[str, Any]


def on_terminal() -> bool:
    """Whether a person reads the answer."""
    return sys.stdout.isatty()


def in_colour() -> bool:
    """Whether the answer has colours."""
    return on_terminal() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def talks_to_terminal() -> bool:
    """Whether a person reads what is said beside the answer."""
    return sys.stderr.isatty()


def say(text: str) -> None:
    """A line beside the answer: to standard error."""
    click.echo(visible(text), err=True)


def answer(text: str) -> None:
    """A line of the answer."""
    click.echo(visible(text))


def answer_json(value: Any) -> None:
    """An object of the answer, on one line."""
    click.echo(escape_unseen(to_json(value)))


def answer_agent(agent: Agent, said: str, *, as_json: bool) -> None:
    """The agent that was made or changed: its id, which other commands take."""
    if as_json:
        answer_json(agent_json(agent))
        return
    answer(agent.id)
    if talks_to_terminal():
        say(said)


def answer_events(agent: Agent, written: Sequence[Event], *, as_json: bool) -> None:
    """The events that were written: the new head, which other commands take."""
    if as_json:
        for event in written:
            answer_json(event_json(event))
    elif written:
        answer(str(written[-1].seq))
        if talks_to_terminal():
            say(f"{agent.name!r} is at position {written[-1].seq} now")


def plain_row(values: Iterable[Any]) -> None:
    """A line for other programs: values with tabs between them."""
    click.echo("\t".join(one_line("" if value is None else str(value)) for value in values))


def console(file: Any = None, *, colour: bool | None = None) -> "Console":
    """rich's console; it knows NO_COLOR and the width of the terminal."""
    from rich.console import Console

    return Console(
        file=file,
        highlight=False,
        soft_wrap=False,
        force_terminal=colour,
        emoji=False,
        markup=False,
    )


def draw(*things: "RenderableType") -> None:
    """Draw on the terminal."""
    console().print(*things, sep="\n")


def rows(
    found: Iterable[Row],
    columns: Sequence[str],
    *,
    as_json: bool,
    drawn: Callable[[list[Row]], "RenderableType"],
) -> None:
    """Print a list as JSON, as a table, or as plain lines with these `columns`."""
    if as_json:
        for row in found:
            answer_json(row)
    elif on_terminal():
        draw(drawn(list(found)))
    else:
        for row in found:
            plain_row(row[column] for column in columns)


def draw_lines(lines: Iterator["Text"], *, pager: bool) -> None:
    """Draw lines one after another, through the pager if requested."""
    if not pager:
        screen = console()
        for line in lines:
            _print(screen, line)
        return
    os.environ.setdefault("LESS", "FRX")  # end if it fits, colours, leave it on the screen
    click.echo_via_pager(_rendered(lines), color=in_colour())


def _rendered(lines: Iterator["Text"]) -> Iterator[str]:
    """The lines as text; the pager puts the last line end itself."""
    from io import StringIO

    buffer = StringIO()
    screen = console(buffer, colour=True)
    screen.width = shutil.get_terminal_size().columns
    between = ""
    for line in lines:
        _print(screen, line)
        yield between + buffer.getvalue().removesuffix("\n")
        between = "\n"
        buffer.seek(0)
        buffer.truncate()


def _print(screen: "Console", line: "Text") -> None:
    """Print a line with its own overflow setting, which rich ignores for a single text."""
    screen.print(line, no_wrap=line.no_wrap, overflow=line.overflow)
