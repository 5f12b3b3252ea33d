"""notes and settings: what is in the log but is not a message."""

from typing import Any

import click

from backstory.cli import output as screen
from backstory.cli.input import json_option
from backstory.cli.options import agent_to_write_to, command, reference
from backstory.cli.stores import opened
from backstory.log.events import to_json
from backstory.present.measures import stamp
from backstory.present.safe_text import one_line
from backstory.present.shapes import event_json


@command(
    "notes", example="backstory notes main --name backstory.failure\nbackstory notes main --all"
)
@reference(metavar="REF[@POS]")
@click.option("--name", help="Only notes with this name.")
@click.option("--all", "everything", is_flag=True, help="Include dead notes.")
def notes_command(
    url: str | None, ref: str, name: str | None, everything: bool, as_json: bool
) -> None:
    """Notes are part of the log, but no model sees them. In a pipe: position, name, time, data."""
    with opened(url) as store:
        agent, at, _ = store.resolve(ref)
        found = agent.notes(name, at=at, live=not everything)
    rows = [event_json(note) for note in found]
    if as_json:
        for row in rows:
            screen.answer_json(row)
        return
    for note in found:
        data = "" if note.data is None else to_json(note.data)
        screen.plain_row((note.seq, note.content, stamp(note.created_at), data))


@command(
    "settings",
    example="backstory settings main@12 --json\n"
    "backstory settings main --model large --params '{\"temperature\": 0}'",
)
@reference(metavar="REF[@POS]")
@click.option("--model", metavar="NAME", help="Set the model from here on.")
@click.option("--params", metavar="JSON", help="Set the parameters from here on, a JSON object.")
@click.option("--tools", metavar="JSON", help="Set the tools from here on, a JSON array.")
def settings_command(url: str | None, ref: str, as_json: bool, **given: str | None) -> None:
    """Requests are made with these. Each option replaces what was set before, and a rewind restores it. In a
    pipe: name, value."""
    change: dict[str, Any] = {
        name: text if name == "model" else json_option(f"--{name}", text)
        for name, text in given.items()
        if text is not None
    }
    with opened(url) as store:
        if change:
            agent_to_write_to(store, ref, "settings", alone=False).settings(**change)
        agent, at, _ = store.resolve(ref)
        settings = agent.conversation(at).settings
    found: dict[str, Any] = {
        "model": settings.model,
        "tools": list(settings.tools),
        "params": dict(settings.params),
    }
    if as_json:
        screen.answer_json(found)
        return
    screen.plain_row(("model", settings.model))
    for tool in settings.tools:
        screen.plain_row(("tool", tool["name"], one_line(tool.get("description") or "")))
    for name, value in settings.params.items():
        screen.plain_row(("param", name, to_json(value)))
