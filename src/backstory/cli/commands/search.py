"""search: where something was said, in any session."""

from typing import TYPE_CHECKING

import click

from backstory.agent import Agent
from backstory.cli import output as screen
from backstory.cli.options import agent_of, command
from backstory.cli.progress import progress_bar
from backstory.cli.stores import opened
from backstory.log.kinds import KINDS
from backstory.maintenance.search import Hit
from backstory.present.names import short_ref
from backstory.present.safe_text import one_line, visible
from backstory.present.shapes import hit_json, titled_json

if TYPE_CHECKING:
    from rich.console import RenderableType


@command(
    "search",
    example="backstory search 'read the file' 'retry*'\nbackstory search b.py --agent main --live",
)
@click.argument("words", nargs=-1, required=True)
@click.option(
    "--agent", metavar="REF", help="Only the events of this agent, inherited ones included."
)
@click.option(
    "--session", metavar="REF", help="Only the events that the agents of this session wrote."
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(list(KINDS)),
    help="Only events of this kind.",
)
@click.option("--live", is_flag=True, help="Only events that are in the context of an agent now.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(1),
    metavar="N",
    default=20,
    help="At most N results (default: 20).",
)
@click.option(
    "--page",
    type=click.IntRange(1),
    metavar="P",
    default=1,
    help="Which N results: 2 for those after the first N.",
)
def search_command(
    url: str | None,
    words: tuple[str, ...],
    agent: str | None,
    session: str | None,
    kinds: tuple[str, ...],
    live: bool,
    limit: int,
    page: int,
    as_json: bool,
) -> None:
    """Finds events that contain all WORDS: what people, models and tools said, tool calls with their
    arguments, labels, and the names of notes. Agents whose title and tags contain all WORDS come before them.
    An argument with several words is a phrase; begin* matches the beginning of a word. The best results come
    first. The exit code is 1 if nothing is found."""
    asked = " ".join(f'"{word}"' if " " in word and '"' not in word else word for word in words)
    with opened(url) as store:
        only = (
            agent_of(store.resolve(agent), "--agent takes an agent, not a position")
            if agent
            else None
        )
        with progress_bar("indexing", "events") as progress:
            hits = store.search(
                asked,
                agent=only,
                session=session,
                kinds=kinds,
                live=live,
                limit=limit * page + 1,
                progress=progress,
            )
        agents = store.agents()
    titled, found = (
        hits.titled[:limit] if page == 1 else [],
        hits[limit * (page - 1) : limit * page],
    )
    for one in titled:
        _print_titled(one, short_ref(one, agents), as_json)
    for hit in found:
        _print(hit, f"{short_ref(hit.agent, agents)}@{hit.event.seq}", as_json)
    if len(hits) > limit * page:
        screen.say(f"there are more results: --page {page + 1} shows the next")
    if hits.missing:
        screen.say(f"{hits.missing:,} events could not be searched: verify shows what is wrong")
    if not found and not titled:
        screen.say(f"nothing found for {asked}" + (f" on page {page}" if page > 1 else ""))
        click.get_current_context().exit(1)


def _print_titled(agent: Agent, ref: str, as_json: bool) -> None:
    title, tags = agent.about.get("title"), agent.about.get("tags", ())
    if as_json:
        screen.answer_json(titled_json(agent, ref))
    else:
        screen.plain_row(
            (ref, "title", "", " ".join([title or "", *(f"#{tag}" for tag in tags)]).strip())
        )


def _print(hit: Hit, ref: str, as_json: bool) -> None:
    if as_json:
        screen.answer_json(hit_json(hit, ref))
    elif screen.on_terminal():
        screen.draw(_drawn(hit, ref))
    else:
        screen.plain_row((ref, hit.event.kind, "live" if hit.live else "dead", hit.snippet))


def _drawn(hit: Hit, ref: str) -> "RenderableType":
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    heading = Text(one_line(ref), style="bold")
    heading.append(
        f"  {one_line(hit.event.kind)}{'' if hit.live else '  dead'}", style="not bold dim"
    )
    text = Text(overflow="fold")
    end = 0
    for low, high in hit.spans:
        text.append(_flat(hit.snippet[end:low]))
        text.append(_flat(hit.snippet[low:high]), style="bold reverse")
        end = high
    text.append(_flat(hit.snippet[end:]))
    return Group(heading, Padding(text, (0, 0, 0, 4)))


def _flat(text: str) -> str:
    """Without line ends, but with the spaces at both sides."""
    return visible(text.replace("\n", " ").replace("\t", " "), keep="")
