"""verify and stats: is it sound, and how much is it?"""

from typing import Any

import click

from backstory.cli import output as screen
from backstory.cli.options import command, opened
from backstory.jobs.stats import AgentStats, Stats
from backstory.jobs.verify import Finding
from backstory.present.measures import count, size
from backstory.present.names import short_ids
from backstory.present.safe_text import one_line


@command("verify", example="backstory verify && echo sound")
def verify_command(url: str | None, as_json: bool) -> None:
    """Read the whole store again and derive everything in it. Prints what is wrong, where, and
    what to do about it; exit code 1 if anything is."""
    with opened(url) as store:
        findings = store.verify()
    for finding in findings:
        if as_json:
            screen.answer_json(finding._asdict())
        else:
            screen.answer(_said(finding))
    if not as_json:
        screen.say(count(len(findings), "finding") if findings else "the store is sound")
    click.get_current_context().exit(1 if findings else 0)


def _said(finding: Finding) -> str:
    where = f"{finding.agent}@{finding.position}" if finding.position is not None else finding.agent
    return f"{finding.severity}: {where or 'the store'}: {finding.problem}; {finding.remedy}"


@command("stats", example="backstory stats -n 3")
@click.option("-n", "--limit", type=click.IntRange(0), default=10, help="So many agents (default: 10).")
def stats_command(url: str | None, limit: int, as_json: bool) -> None:
    """How many events are live and dead, how many bytes they take, about how many tokens the
    contexts are, and which agents are the largest."""
    with opened(url) as store:
        found = store.stats()
    if as_json:
        screen.answer_json(_json(found, limit))
    elif screen.on_terminal():
        _draw(found, limit)
    else:
        for name, value in _json(found, 0).items():
            if not isinstance(value, dict | list):
                screen.plain_row((name, value))


def _json(found: Stats, limit: int) -> dict[str, Any]:
    return {
        "sessions": found.sessions,
        "agents": len(found.agents),
        "events": found.events,
        "live": found.live,
        "dead": found.dead,
        "bytes": found.bytes,
        "size": found.size,
        "tokens": found.tokens,
        "kinds": found.kinds,
        "largest": [_agent_json(one) for one in found.agents[:limit]],
    }


def _agent_json(one: AgentStats) -> dict[str, Any]:
    return {"id": one.agent.id, "name": one.agent.name} | {
        key: value for key, value in one._asdict().items() if key != "agent"
    }


def _draw(found: Stats, limit: int) -> None:
    from rich.table import Table
    from rich.text import Text

    screen.answer(
        f"{count(found.events, 'event')}: {found.live:,} live, {found.dead:,} dead; "
        f"{count(len(found.agents), 'agent')} in {count(found.sessions, 'session')}"
    )
    screen.answer(
        f"{size(found.bytes)} of content, {size(found.size)} where it is kept; "
        f"about {count(found.tokens, 'token')} in all contexts"
    )
    screen.answer(", ".join(f"{number:,} {one_line(kind)}" for kind, number in found.kinds.items()))
    if not found.agents[:limit]:
        return
    ids = short_ids(one.agent.id for one in found.agents)
    table = Table(box=None, pad_edge=False)
    table.add_column("largest agents")  # the only one that may shrink
    for heading in ("events", "live", "size", "context", "≈ tokens", "id"):
        table.add_column(heading, justify="left" if heading == "id" else "right", no_wrap=True)
    for one in found.agents[:limit]:
        numbers = (f"{one.events:,}", f"{one.live:,}", size(one.bytes), f"{one.context:,}", f"{one.tokens:,}")
        name = Text(one_line(one.agent.name), no_wrap=True, overflow="ellipsis")
        table.add_row(name, *numbers, ids[one.agent.id])
    screen.draw("", table)
