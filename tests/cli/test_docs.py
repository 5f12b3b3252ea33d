"""docs/cli.md says what the command does, because the command has written it."""

import json
import re

import pytest

from backstory.cli.commands import COMMANDS
from tests.cli.manual import PAGE, rewritten


@pytest.mark.slow
def test_the_page_is_what_the_commands_print():
    page = PAGE.read_text()
    assert rewritten(page) == page, "run python -m tests.cli.manual"


def test_every_command_is_on_the_page_with_its_help_and_in_use():
    page = PAGE.read_text()
    for name in COMMANDS:
        assert f"$ backstory {name} --help\n" in page, name
        if name in ("chat", "ask", "web", "mcp"):
            continue  # in use on pages of their own: they take a model, or serve until Ctrl-C
        uses = re.findall(rf"^\$ (?:.*\| )?backstory {name}(?!.*--help)", page, re.MULTILINE)
        assert uses, f"{name} is nowhere used"


def test_every_key_of_json_is_documented():
    section = PAGE.read_text().partition("## JSON")[2]
    examples, _, table = section.partition("| key |")
    objects = [json.loads(line) for line in examples.splitlines() if line.startswith("{")]
    printed = set(keys(objects))
    assert len(printed) > 40
    assert [key for key in sorted(printed) if f"`{key}`" not in table] == []


def keys(value):
    """The keys of an object and of all in it, but for what the log itself holds in data and kinds."""
    if isinstance(value, list):
        yield from (key for inner in value for key in keys(inner))
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            if key not in ("data", "kinds"):
                yield from keys(inner)
