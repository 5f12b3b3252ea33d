"""diff and search: how two contexts differ, and where something was said."""

from typing import TYPE_CHECKING, Any

import click

from backstory.cli import output as screen
from backstory.cli.options import agent_of, command, opened, reference
from backstory.core.diff import Change, Comparison, compare
from backstory.core.events import KINDS, Event
from backstory.jobs.search import Hit
from backstory.present.event_text import body
from backstory.present.measures import count
from backstory.present.names import short_ref
from backstory.present.safe_text import one_line, visible
from backstory.present.shapes import event_json
from backstory.references import Reference

if TYPE_CHECKING:
    from rich.text import Text

_SIGNS = {"removed": "-", "added": "+", "changed": "~"}
_MARKED = {"=": "{}", "-": "[-{}-]", "+": "{{+{}+}}"}
_COLOURS = {"-": "red", "+": "green", "~": "blue", "=": ""}


@command("diff", example="backstory diff main idea\nbackstory diff main@7 main")
@reference("left", required=True, metavar="REF[@POS]")
@reference("right", metavar="REF[@POS]")
def diff_command(url: str | None, left: str, right: str, as_json: bool) -> None:
    """How two branches, or two moments of one, differ for the model: what they share is counted,
    then what each has of its own, word by word where a message changed. Without a second REF the
    first is compared with the head of the same agent."""
    with opened(url) as store:
        one = store.resolve(left)
        other = Reference(one.agent, None) if right == "@" else store.resolve(right)
        found = compare(_spoken(one), _spoken(other))
    if as_json:
        screen.answer_json({"common": found.common, "changes": [_change_json(c) for c in found.changes]})
    else:
        _print_diff(found, left, right if right != "@" else one.agent.name)


def _spoken(ref: Reference) -> list[Event]:
    return [event for event in ref.agent.context(ref.at).messages if KINDS[event.kind].speaks]


def _change_json(change: Change) -> dict[str, Any]:
    return {
        "op": change.op,
        "left": change.left and event_json(change.left),
        "right": change.right and event_json(change.right),
        "words": [list(edit) for edit in change.words],
    }


def _print_diff(found: Comparison, left: str, right: str) -> None:
    mine = sum(1 for change in found.changes if change.left)
    theirs = sum(1 for change in found.changes if change.right)
    screen.answer(
        f"{count(found.common, 'message')} in common; {mine} only in {left}, {theirs} only in {right}"
    )
    for change in found.changes:
        if screen.in_colour():
            screen.draw(_drawn(change))
        else:
            screen.answer(_plain(change))


def _heading(change: Change) -> str:
    where = "→".join(str(event.seq) for event in (change.left, change.right) if event)
    kind = (change.left or change.right or Event.of(0, "")).kind
    return f"{_SIGNS[change.op]} {where} {kind}"


def _plain(change: Change) -> str:
    """Words that are gone stand in [-…-], new ones in {+…+}."""
    text = "".join(_MARKED[edit.op].format(edit.text) for edit in change.words)
    if not change.words:
        text = body(change.left or change.right or Event.of(0, ""))
    return f"{_heading(change)}\n" + "\n".join(f"    {line}" for line in text.splitlines())


def _drawn(change: Change) -> "Text":
    from rich.text import Text

    sign = _SIGNS[change.op]
    text = Text(overflow="fold")
    text.append(_heading(change) + "\n", style=f"bold {_COLOURS[sign]}")
    if change.words:
        for op, words in change.words:
            style = {"-": "red strike", "+": "green underline", "=": ""}[op]
            text.append(_MARKED[op].format(visible(words)), style=style)
    else:
        text.append(visible(body(change.left or change.right or Event.of(0, ""))), style=_COLOURS[sign])
    return text


@command(
    "search", example='backstory search "read the file" retry*\nbackstory search b.py --agent main --live'
)
@click.argument("words", nargs=-1, required=True)
@click.option("--agent", metavar="REF", help="Only what this agent sees, dead or alive.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(list(KINDS)), help="Only events of a kind.")
@click.option("--live", is_flag=True, help="Only what is in the context of some agent now.")
@click.option("-n", "--limit", type=click.IntRange(1), default=20, help="At most so many (default: 20).")
def search_command(
    url: str | None,
    words: tuple[str, ...],
    agent: str | None,
    kinds: tuple[str, ...],
    live: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Find events that hold all WORDS, in every session, dead or alive, best first. An argument of
    several words is looked for as it is; begin* is the beginning of a word. Exit code 1 if
    there is nothing."""
    asked = " ".join(f'"{word}"' if " " in word and '"' not in word else word for word in words)
    with opened(url) as store:
        only = agent_of(store.resolve(agent), "a search is over all positions") if agent else None
        with _progress() as tell:
            hits = store.search(asked, agent=only, kinds=kinds, live=live, limit=limit, tell=tell)
        agents = store.agents()
    for hit in hits:
        ref = f"{short_ref(hit.agent, agents)}@{hit.event.seq}"
        if as_json:
            screen.answer_json(_hit_json(hit, ref))
        elif screen.on_terminal():
            screen.draw(_hit_drawn(hit, ref))
        else:
            status = "live" if hit.live else "dead"
            screen.plain_row((ref, hit.event.kind, status, hit.snippet))
    if not hits:
        screen.say(f"nothing found for {asked}")
        click.get_current_context().exit(1)


def _progress() -> Any:
    """Says how far the index is, if there is somebody to hear it and it takes a while."""
    from contextlib import nullcontext

    if not screen.talks_to_terminal():
        return nullcontext()
    from backstory.cli.progress import counting

    return counting("indexing", "events")


def _hit_json(hit: Hit, ref: str) -> dict[str, Any]:
    return {
        "ref": ref,
        "agent": hit.agent.id,
        **event_json(hit.event),
        "live": hit.live,
        "score": hit.score,
        "snippet": hit.snippet,
        "spans": [list(span) for span in hit.spans],
    }


def _hit_drawn(hit: Hit, ref: str) -> "Text":
    from rich.text import Text

    text = Text(overflow="fold")
    text.append(one_line(ref), style="bold")
    text.append(f"  {hit.event.kind}{'' if hit.live else '  dead'}\n", style="dim")
    text.append("    ")
    end = 0
    for low, high in hit.spans:
        text.append(_flat(hit.snippet[end:low]))
        text.append(_flat(hit.snippet[low:high]), style="bold reverse")
        end = high
    return text.append(_flat(hit.snippet[end:]))


def _flat(text: str) -> str:
    """Without line ends, but with the spaces at both sides."""
    return visible(text.replace("\n", " ").replace("\t", " "), keep="")
