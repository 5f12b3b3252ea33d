"""Commands that list and search: sessions, agents, events by their words, and numbers."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice
from typing import Any

import click

from backstory.agent import Agent
from backstory.cli import output
from backstory.cli.options import command, get_agent, kinds_option, limit_option
from backstory.cli.stores import find_reference
from backstory.cli.times import parse_time
from backstory.listings import Session
from backstory.maintenance.search import Hit
from backstory.maintenance.stats import AgentStats, Stats
from backstory.present.agent_lists import TreeBuilder, first_prompt, short_ids, short_refs
from backstory.present.event_text import mark_label
from backstory.present.shapes import agent_json, hit_json, session_json, stats_json, title_json
from backstory.present.text import age, count, one_line, size, stamp, visible
from backstory.store import Store

PAGE = 100  # sessions read at a time
LONGEST = 60  # characters of a title in a table

# --- sessions ---


@command(
    "sessions",
    example="backstory sessions\nbackstory sessions --since 7d --tag work --limit 5",
)
@click.option("--since", metavar="TIME", help="Only sessions that were written to since then.")
@click.option("--tag", help="Only sessions with this tag.")
@limit_option("At most N, the latest", "--limit", default=100)
def sessions_command(store: Store, since: str | None, tag: str | None, limit: int) -> None:
    """For each session: its name, its title or first prompt, how many agents and events it has, and
    when it was last written to. In a pipe: id, name, agents, events, created, last written, title
    or first prompt. TIME is a date or a time, such as 2026-11, yesterday or 7d."""
    found = _read_sessions(store, None if since is None else parse_time(since), tag)
    latest = list(islice(found, limit))
    output.print_items(
        [_build_session(store, session) for session in reversed(latest)],
        shape=lambda shown: shown,
        row=_build_session_row,
        draw=_draw_sessions,
    )


def _read_sessions(store: Store, since: datetime | None, tag: str | None) -> Iterator[Session]:
    """Yield the sessions, latest first, page by page."""
    last: Session | None = None
    while page := store.sessions(order="updated", since=since, limit=PAGE, after=last):
        for session in page:
            if tag is None or tag in session.tags:
                yield session
        last = page[-1]


def _build_session(store: Store, session: Session) -> dict[str, Any]:
    prompt = one_line(first_prompt(store.agent(session.id)))
    return session_json(session) | {"prompt": prompt or None}


def _get_subject(session: dict[str, Any]) -> str:
    return session["title"] or session["prompt"] or ""


def _build_session_row(session: dict[str, Any]) -> list[Any]:
    names = ("id", "name", "agents", "events", "created_at", "updated_at")
    return [*(session[name] for name in names), _get_subject(session)]


def _draw_sessions(found: Iterable[dict[str, Any]]) -> None:
    sessions = list(found)
    ids = short_ids(session["id"] for session in sessions)
    headings = ("name", "about", "agents", "events", "last written", "id")
    table = output.make_table(*headings, right=("agents", "events"))
    table.title, table.title_justify = count(len(sessions), "session"), "left"
    table.columns[1].no_wrap = True
    for session in sessions:
        table.add_row(
            one_line(session["name"]),
            one_line(_get_subject(session))[:LONGEST],
            f"{session['agents']:,}",
            f"{session['events']:,}",
            age(datetime.fromisoformat(session["updated_at"])),
            ids[session["id"]],
        )
    output.draw(table)


# --- agents ---


@command("agents", example="backstory agents\nbackstory tree --session main")
@click.option("--session", metavar="REF", help="Only the session of this agent.")
def agents_command(store: Store, session: str | None) -> None:
    """For each agent: its name, where it was forked or spawned, its head, when it was last written
    to, the beginning of its id, and its marks; for the first agent of a session, also the title or
    first prompt. In a pipe, one agent per line: id, session/name, parent, where it was forked or
    spawned, head, last written, marks."""
    session = _find_session(store, session)
    everybody = store.agents()
    names = {agent.id: agent.name for agent in everybody}

    def build_row(agent: Agent) -> list[Any]:
        return [
            agent.id,
            f"{names.get(agent.session, agent.session)}/{agent.name}",
            names.get(agent.parent or ""),
            agent.born_seq if agent.parent else None,
            agent.listed_head,
            stamp(agent.updated_at),
            ", ".join(map(mark_label, agent.marks())),
        ]

    output.print_items(
        everybody if session is None else store.agents(session=session),
        shape=lambda agent: agent_json(agent, agent.marks()),
        row=build_row,
        draw=lambda agents: _draw_agents(list(agents), short_ids(names)),
    )


def _find_session(store: Store, ref: str | None) -> str | None:
    """Return the session that --session names."""
    if ref is None or "@" not in ref:
        return ref  # the store also finds a session whose first agent was deleted
    found = find_reference(store, ref)
    return get_agent(found, "--session takes an agent, not a position").session


def _draw_agents(agents: list[Agent], ids: dict[str, str]) -> None:
    if not agents:
        output.draw("no agents yet; `backstory new` starts one")
    for tree in TreeBuilder(agents, ids, output.make_console().width).build():
        output.draw(tree)


# --- search ---


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
@kinds_option
@click.option("--live", is_flag=True, help="Only events that are in the context of an agent now.")
@limit_option("At most N results", default=20)
@click.option(
    "--page",
    type=click.IntRange(1),
    metavar="P",
    default=1,
    help="Which N results: 2 for those after the first N.",
)
def search_command(
    store: Store,
    words: tuple[str, ...],
    agent: str | None,
    session: str | None,
    kinds: tuple[str, ...],
    live: bool,
    limit: int,
    page: int,
) -> None:
    """Finds events that contain all WORDS: what people, models and tools said, tool calls with
    their arguments, labels, and the names of notes. Agents whose title and tags contain all WORDS
    come before them. An argument with several words is a phrase; begin* matches the beginning of a
    word. The best results come first. The exit code is 1 if nothing is found."""
    query = " ".join(map(_quote_phrase, words))
    owner = None
    if agent is not None:
        found = find_reference(store, agent)
        owner = get_agent(found, "--agent takes an agent, not a position")
    with output.show_progress("indexing", "events") as progress:
        hits = store.search(
            query,
            agent=owner,
            session=_find_session(store, session),
            kinds=kinds,
            live=live,
            limit=limit * page + 1,
            progress=progress,
        )
    refs = short_refs(store.agents())
    shown = hits[limit * (page - 1) : limit * page]
    titled = hits.titled[:limit] if page == 1 else []
    for one in titled:
        _print_title(one, refs[one.id])
    for hit in shown:
        _print_hit(hit, f"{refs[hit.agent.id]}@{hit.event.seq}")
    if len(hits) > limit * page:
        output.report(f"there are more results: --page {page + 1} shows the next")
    if hits.missing:
        output.report(f"{hits.missing:,} events could not be searched: verify shows what is wrong")
    if not shown and not titled:
        where = f" on page {page}" if page > 1 else ""
        output.report(f"nothing found for {query}{where}")
        click.get_current_context().exit(1)


def _quote_phrase(word: str) -> str:
    return f'"{word}"' if " " in word and '"' not in word else word


def _print_title(agent: Agent, ref: str) -> None:
    if output.wants_json():
        output.print_json(title_json(agent, ref))
        return
    tags = [f"#{tag}" for tag in agent.about.get("tags", ())]
    words = [agent.about.get("title") or "", *tags]
    output.print_row((ref, "title", "", " ".join(words).strip()))


def _print_hit(hit: Hit, ref: str) -> None:
    if output.wants_json():
        output.print_json(hit_json(hit, ref))
    elif output.is_terminal():
        _draw_hit(hit, ref)
    else:
        output.print_row((ref, hit.event.kind, "live" if hit.live else "dead", hit.snippet))


def _draw_hit(hit: Hit, ref: str) -> None:
    from rich.text import Text

    heading = Text(one_line(ref), style="bold")
    heading.append(f"  {one_line(hit.event.kind)}", style="not bold dim")
    if not hit.live:
        heading.append("  dead", style="not bold dim")
    text = Text(overflow="fold")
    end = 0
    for first, last in hit.spans:
        text.append(_flatten(hit.snippet[end:first]))
        text.append(_flatten(hit.snippet[first:last]), style="bold reverse")
        end = last
    text.append(_flatten(hit.snippet[end:]))
    output.draw_below(heading, text)


def _flatten(text: str) -> str:
    """Return the text without line ends, but with the spaces at both sides."""
    return visible(text.replace("\n", " ").replace("\t", " "), keep="")


# --- numbers ---


@command("stats", example="backstory stats -n 3 --tokens")
@click.option(
    "--tokens", is_flag=True, help="Also count the tokens of all contexts, which takes longer."
)
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(0),
    metavar="N",
    default=10,
    help="Show the N largest agents (default: 10).",
)
def stats_command(store: Store, tokens: bool, limit: int) -> None:
    """Live events are in the context of the agent that wrote them; dead events are not. In a pipe,
    one number per line. Tokens are counted as `backstory context --tokens` counts them."""
    stats = store.stats(tokens=tokens)
    if output.wants_json():
        output.print_json(stats_json(stats, largest=limit))
    elif output.is_terminal():
        _draw_stats(stats, limit)
    else:
        for name, value in stats_json(stats, largest=0).items():
            if isinstance(value, int):
                output.print_row((name, value))


def _draw_stats(stats: Stats, limit: int) -> None:
    output.print_line(
        f"{count(stats.events, 'event')}: {stats.live:,} live, {stats.dead:,} dead; "
        f"{count(len(stats.agents), 'agent')} in {count(stats.sessions, 'session')}"
    )
    sizes = f"{size(stats.bytes)} of content, {size(stats.size)} on disk"
    if stats.tokens is not None:
        sizes += f"; {count(stats.tokens, 'token')} in all contexts"
    output.print_line(sizes)
    kinds = [f"{number:,} {one_line(kind)}" for kind, number in stats.kinds.items()]
    output.print_line(", ".join(kinds))
    if stats.agents[:limit]:
        _draw_largest(stats.agents[:limit])


def _draw_largest(agents: list[AgentStats]) -> None:
    from rich.text import Text

    ids = short_ids(one.agent.id for one in agents)
    numbers = ["events", "live", "size", "context"]
    if any(one.tokens is not None for one in agents):
        numbers.append("tokens")
    table = output.make_table("largest agents", *numbers, "id", right=numbers)
    for column in table.columns[1:]:  # only the name may shrink
        column.no_wrap = True
    for one in agents:
        name = Text(one_line(one.agent.name), no_wrap=True, overflow="ellipsis")
        texts = [f"{one.events:,}", f"{one.live:,}", size(one.bytes), f"{one.context:,}"]
        if one.tokens is not None:
            texts.append(f"{one.tokens:,}")
        table.add_row(name, *texts, ids[one.agent.id])
    output.draw("", table)
