"""log: everything that happened, live or dead."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from backstory.cli import output as screen
from backstory.cli.options import command, reference
from backstory.cli.stores import opened
from backstory.errors import Invalid
from backstory.log.events import Event
from backstory.log.explanation import Explanation
from backstory.log.kinds import KINDS
from backstory.present.event_text import STYLES, body, gist
from backstory.present.history import Told, followed, told, told_live
from backstory.present.measures import clock, stamp
from backstory.present.safe_text import one_line, visible
from backstory.present.shapes import event_json

if TYPE_CHECKING:
    from rich.text import Text


@command(
    "log",
    example="backstory log main --live\nbackstory log main --since before --kind user\nbackstory log -f -n 5",
)
@reference(metavar="REF[@POS]")
@click.option("--live", is_flag=True, help="Only events that are in the context.")
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(list(KINDS)),
    help="Only events of this kind.",
)
@click.option(
    "--since", metavar="POS", help="Only events after a position, a mark's label or a time."
)
@click.option("-n", "--last", type=click.IntRange(1), metavar="N", help="Only the last N events.")
@click.option(
    "-f", "--follow", is_flag=True, help="Go on with what is written from now on, until Ctrl-C."
)
@click.option("--full", is_flag=True, help="All of each text, not only its first line.")
@click.option("--pager/--no-pager", default=True, help="Use the pager on a terminal (default).")
def log_command(
    url: str | None,
    ref: str,
    live: bool,
    kinds: tuple[str, ...],
    since: str | None,
    last: int | None,
    follow: bool,
    full: bool,
    pager: bool,
    as_json: bool,
) -> None:
    """The oldest event comes first. Dead events are dimmed, and say which event left them behind. REF@POS
    shows the log as it was at that position. In a pipe: position, kind, status, time, text."""
    with opened(url) as store:
        agent, at, _ = store.resolve(ref)
        if follow and at is not None:
            raise Invalid(
                "-f follows an agent at its head, not at a position", remedy="leave out the @"
            )
        until = agent.head if at is None else at
        after = 0 if since is None else store.resolve(f"{agent.id}@{since}").at or 0
        if last is not None and not kinds and not live:
            after, last = max(after, until - last), None
        found = (told_live if live else told)(agent, after, until, at)
        found = (one for one in found if not kinds or one[0].kind in kinds)
        if last is not None:
            from collections import deque

            found = iter(deque(found, maxlen=last))
        _print(found, full=full, pager=pager and not follow, as_json=as_json)
        if follow:
            new = (one for one in followed(agent, until) if not kinds or one[0].kind in kinds)
            _print(new, full=full, pager=False, as_json=as_json)


def _print(found: Iterable[Told], *, full: bool, pager: bool, as_json: bool) -> None:
    if as_json:
        for event, why in found:
            screen.answer_json(event_json(event, why))
    elif screen.on_terminal():
        screen.draw_lines((_line(event, why, full) for event, why in found), pager=pager)
    else:
        for event, why in found:
            text = (event.content or gist(event)) if full else gist(event)
            screen.plain_row((event.seq, event.kind, _status(why), stamp(event.created_at), text))


def _line(event: Event, why: Explanation, full: bool) -> "Text":
    from rich.text import Text

    dead = not why.live
    line = Text(
        no_wrap=not full, overflow="fold" if full else "ellipsis", style="dim" if dead else ""
    )
    line.append(f"{event.seq:>5} ", style="dim")
    line.append(f"{one_line(event.kind):<11} ", style=STYLES.get(event.kind, ""))
    line.append(f"{clock(event.created_at)}  ", style="dim")
    if dead:
        line.append(f"[{_status(why)}] ", style="red")
    return line.append(visible(body(event)) if full else gist(event))


def _status(why: Explanation) -> str:
    """Whether an event is live, or what left it behind, in a word or two."""
    return why.status if why.live or why.by is None else f"{why.status} by {why.by}"
