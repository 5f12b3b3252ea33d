"""context: what the model sees, to read, as a request, or in tokens."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from backstory.cli import output as screen
from backstory.cli.options import command, reference
from backstory.cli.stores import opened
from backstory.log.events import Event
from backstory.log.json_text import escape_unseen
from backstory.log.kinds import KINDS
from backstory.present.event_text import STYLES, body, gist
from backstory.present.history import told_live
from backstory.present.measures import count
from backstory.present.safe_text import visible
from backstory.present.shapes import event_json, tokens_json
from backstory.references import Reference
from backstory.wire import FORMATS

if TYPE_CHECKING:
    from rich.text import Text


@command(
    "context",
    example="backstory context main@before\nbackstory context main --format anthropic > body.json",
)
@reference(metavar="REF[@POS]")
@click.option(
    "--format", type=click.Choice(FORMATS), help="The request body for a provider, as JSON."
)
@click.option("--tokens", is_flag=True, help="Only the number of tokens.")
@click.option(
    "--model", metavar="NAME", help="The model that will read it, for --format and --tokens."
)
@click.option(
    "--control", is_flag=True, help="Include marks, notes, rewinds and jumps, which no model sees."
)
@click.option("--pager/--no-pager", default=True, help="Use the pager on a terminal (default).")
def context_command(
    url: str | None,
    ref: str,
    format: str | None,
    tokens: bool,
    model: str | None,
    control: bool,
    pager: bool,
    as_json: bool,
) -> None:
    """REF@POS shows the context as it was at that position. With --format, the request body goes to standard
    output, and what had to be repaired to standard error."""
    if control and (format or tokens):
        raise click.UsageError("--control is for reading: leave out --format and --tokens.")
    with opened(url) as store:
        found = store.resolve(ref)
        if tokens:
            _print_tokens(found, model, as_json)
        elif format:
            _print_request(found, format, model)
        else:
            _print_events(_events(found, control), pager, as_json)


def _events(found: Reference, control: bool) -> Iterator[Event]:
    agent, at, _ = found
    for event, _ in told_live(agent, 0, agent.head if at is None else at, at):
        if control or KINDS[event.kind].is_message:
            yield event


def _print_tokens(found: Reference, model: str | None, as_json: bool) -> None:
    tokens = found.agent.conversation(found.at).tokens(model)
    if as_json:
        screen.answer_json(tokens_json(tokens))
    else:
        screen.answer(str(int(tokens)))
        screen.say(tokens.how)


def _print_request(found: Reference, format: str, model: str | None) -> None:
    conversation = found.agent.conversation(found.at)
    click.echo(escape_unseen(conversation.to_bytes(format, model=model).decode()))
    for repair in conversation.repairs(format, model=model):
        where = "" if repair.at is None else f" at {repair.at}"
        screen.say(f"repaired{where}: {repair.rule}: {repair.why}")


def _print_events(events: Iterable[Event], pager: bool, as_json: bool) -> None:
    if as_json:
        for event in events:
            screen.answer_json(event_json(event))
    elif screen.on_terminal():
        screen.draw_lines(_lines(events), pager=pager)
    else:
        for event in events:
            screen.answer(f"[{event.seq} {event.kind}]\n{body(event)}\n")


def _lines(events: Iterable[Event]) -> "Iterator[Text]":
    from rich.text import Text

    messages = 0
    for event in events:
        style = STYLES.get(event.kind, "")
        if KINDS[event.kind].is_message:
            messages += 1
            yield Text(f"{event.kind} ", style=f"bold {style}").append(
                f"{event.seq}", style="not bold dim"
            )
            yield Text(visible(body(event)) + "\n", overflow="fold")
        else:
            yield Text(f"── {event.kind} {event.seq}: {gist(event)}\n", style="dim")
    yield Text(count(messages, "message"), style="dim")
