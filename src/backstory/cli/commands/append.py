"""append: one event, or a batch of them."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import click

from backstory.cli import output as screen
from backstory.cli.input import json_option, standard_input
from backstory.cli.options import agent_to_write_to, command, reference
from backstory.cli.stores import opened
from backstory.errors import Invalid, InvalidEvent
from backstory.log.checks import check_not_blank, check_own_note_name
from backstory.log.kinds import KINDS, NEVER_BLANK

FIELDS = ("kind", "content", "data", "key")


@command(
    "append",
    example='backstory append main "Which files are here?"\n'
    "cat answer.txt | backstory append main --kind assistant\n"
    "backstory append main --jsonl < events.jsonl",
)
@reference()
@click.argument("text", required=False)
@click.option(
    "--kind", type=click.Choice(list(KINDS)), default="user", help="The kind (default: user)."
)
@click.option("--data", metavar="JSON", help="The event's data, a JSON object.")
@click.option(
    "--jsonl",
    is_flag=True,
    help='Read events from standard input: {"kind", "content", "data", "key"} per line.',
)
@click.option(
    "--key",
    help="Write the event only if the history has none with this key; otherwise print that one.",
)
@click.option(
    "--expected", type=click.IntRange(0), metavar="HEAD", help="Write only if this is the head."
)
def append_command(
    url: str | None,
    ref: str,
    text: str | None,
    kind: str,
    data: str | None,
    jsonl: bool,
    key: str | None,
    expected: int | None,
    as_json: bool,
) -> None:
    """Without TEXT, or with - for it, the text is read from standard input. The text of a mark is its
    label. To append to the latest agent, write @ for REF. With --jsonl, all events are written or none.
    Prints the new head."""
    if jsonl and (text is not None or data is not None or key is not None):
        raise click.UsageError(
            "--jsonl reads everything from standard input: leave out TEXT, --data and --key."
        )
    with opened(url) as store:
        agent = agent_to_write_to(store, ref, "append", alone=text is None)
        if jsonl:
            written = agent.extend(list(_json_lines()), expected=expected)
        else:
            event = _event(kind, _content(ref, text, kind), json_option("--data", data))
            check_not_blank(*event)
            if kind == "note":
                check_own_note_name(event[1])
            written = [agent.append(*event, key=key, expected=expected)]
        screen.answer_events(agent, written, as_json=as_json)


def _content(ref: str, text: str | None, kind: str) -> str | None:
    needs_text = KINDS[kind].is_message and kind != "tool_call"
    if text == "-" or (text is None and needs_text):
        text = standard_input(f"the text for {ref}").removesuffix(
            "\n"
        )  # the shell's, not the writer's
        if not text and kind not in NEVER_BLANK:
            raise Invalid(
                "standard input is empty", remedy='if the text should be empty, give it as ""'
            )
    return text


def _event(kind: str, content: str | None, data: Any) -> tuple[str, str | None, Any]:
    if kind == "mark" and content is not None and data is None:
        return kind, None, {"label": content}
    return kind, content, data


def _json_lines() -> Iterator[tuple[Any, ...]]:
    if sys.stdin.isatty():
        screen.say("Type one JSON object per line, then press Ctrl-D on an empty line.")
    for number, line in enumerate(sys.stdin.buffer, 1):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
            unknown = set(event) - set(FIELDS)
        except (ValueError, TypeError) as error:
            raise InvalidEvent(
                f"line {number} is not JSON: {error}; nothing was written"
            ) from error
        if not isinstance(event, dict) or unknown:
            raise InvalidEvent(
                f"line {number} is not an object with kind, content, data and key; nothing was written"
            )
        yield tuple(event.get(field) for field in FIELDS)
