"""diff: how two contexts differ for the model."""

from typing import TYPE_CHECKING

import click

from backstory.cli import output as screen
from backstory.cli.options import command, reference
from backstory.cli.stores import opened
from backstory.log.diff import Change, Comparison
from backstory.log.events import Event
from backstory.present.event_text import body
from backstory.present.measures import count
from backstory.present.safe_text import visible
from backstory.present.shapes import comparison_json
from backstory.references import Reference

if TYPE_CHECKING:
    from rich.console import RenderableType

_SIGNS = {"removed": "-", "added": "+", "changed": "~"}
_MARKED = {"=": "{}", "-": "[-{}-]", "+": "{{+{}+}}"}
_COLOURS = {"-": "red", "+": "green", "~": "blue", "=": ""}


@command("diff", example="backstory diff main idea\nbackstory diff main@7 main")
@reference("left", required=True, metavar="REF[@POS]")
@reference("right", metavar="REF[@POS]")
@click.option("-n", "--limit", type=click.IntRange(1), metavar="N", help="Show at most N changes.")
def diff_command(url: str | None, left: str, right: str, limit: int | None, as_json: bool) -> None:
    """Counts the messages that both contexts share, then shows those that only one of them has, and word
    by word what changed within a message. Where the other context once had a message, it says what took it
    out. Without a second REF, the first is compared with the head of the same agent."""
    with opened(url) as store:
        one = store.resolve(left)
        other = Reference(one.agent, None) if right == "@" else store.resolve(right)
        found = one.agent.diff(other.agent, at=one.at, other_at=other.at, limit=limit)
    if as_json:
        screen.answer_json(comparison_json(found))
    else:
        _print(found, left, right if right != "@" else one.agent.name)


def _print(found: Comparison, left: str, right: str) -> None:
    own = f"{found.only_left} only in {left}, {found.only_right} only in {right}"
    screen.answer(f"{count(found.common, 'message')} in common; {own}")
    for change in found.changes:
        if screen.in_colour():
            screen.draw(_drawn(change))
        else:
            screen.answer(_plain(change))
    if found.more:
        screen.say("there are more changes: a larger --limit shows them")


def _heading(change: Change) -> str:
    where = "→".join(str(event.seq) for event in (change.left, change.right) if event)
    why = f" ({change.why.status} by {change.why.by})" if change.why else ""
    return f"{_SIGNS[change.op]} {where} {_event(change).kind}{why}"


def _event(change: Change) -> Event:
    return change.left or change.right or Event.of(0, "")


def _plain(change: Change) -> str:
    """Words that are gone stand in [-…-], new ones in {+…+}."""
    text = "".join(_MARKED[edit.op].format(edit.text) for edit in change.words) or body(
        _event(change)
    )
    return f"{_heading(change)}\n" + "\n".join(f"    {line}" for line in text.splitlines())


def _drawn(change: Change) -> "RenderableType":
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    sign = _SIGNS[change.op]
    heading = Text(_heading(change), style=f"bold {_COLOURS[sign]}")
    text = Text(overflow="fold")
    for op, words in change.words:
        style = {"-": "red strike", "+": "green underline", "=": ""}[op]
        text.append(_MARKED[op].format(visible(words)), style=style)
    if not change.words:
        text.append(visible(body(_event(change))), style=_COLOURS[sign])
    return Group(heading, Padding(text, (0, 0, 0, 4)))
