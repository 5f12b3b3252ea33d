"""show: one event with everything in it."""

import json

import click

from backstory.agent import Agent
from backstory.cli import output as screen
from backstory.cli.options import command, reference
from backstory.cli.stores import opened
from backstory.log.events import Event
from backstory.log.explanation import Explanation
from backstory.present.measures import stamp
from backstory.present.shapes import event_json


@command("show", example="backstory show main@7\nbackstory show main@7 --content > answer.txt")
@reference(metavar="REF[@POS]")
@click.option(
    "--content", is_flag=True, help="Only the content; into a file or pipe, byte for byte."
)
def show_command(url: str | None, ref: str, content: bool, as_json: bool) -> None:
    """Without a position, shows the newest event."""
    with opened(url) as store:
        agent, at, _ = store.resolve(ref)
        at = agent.head if at is None else at
        why = agent.explain(at)
        event = agent.event(at)
        if as_json:
            about = {"agent": agent.id, "reason": why.reason, "live": why.live}
            screen.answer_json(event_json(event, why) | about)
        elif content:
            _print_content(event.content or "")
        else:
            _print_event(agent, event, why)


def _print_content(text: str) -> None:
    if screen.on_terminal():
        screen.answer(text)
    else:
        click.echo(text.encode(), nl=False)  # as bytes: click takes escapes out of text


def _print_event(agent: Agent, event: Event, why: Explanation) -> None:
    screen.answer(f"{agent.name}@{event.seq}  {event.kind}  {stamp(event.created_at)}")
    screen.answer(f"agent {agent.id}")
    screen.answer(why.reason)
    if event.content is not None:
        screen.answer(f"\n{event.content}")
    if event.data_json is not None:
        shown = (
            event.data_json
            if event.data is None
            else json.dumps(event.data, indent=2, ensure_ascii=False)
        )
        screen.answer(f"\n{shown}")
