"""The manual says what the commands do, because they have written it."""

import re
from pathlib import Path

import pytest

import backstory
from backstory.cli.commands import COMMANDS
from tests.cli.conftest import fill
from tools.manual import build_commands_page, rewrite_page

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


@pytest.mark.slow
def test_the_page_is_what_the_commands_print():
    page = PAGE.read_text()
    assert rewrite_page(page) == page, "run python -m tools.manual docs/cli.md"


def test_the_generated_page_has_the_help_of_every_command():
    page = build_commands_page()
    assert page.startswith("# All commands\n\nNeeds: ")
    for name, summary in COMMANDS.items():
        section = page.partition(f"\n### {name}\n")[2].partition("\n### ")[0]
        assert f"Usage: backstory {name} " in section
        assert summary in section
        assert "  Example:" in section


# Commands whose JSON has all documented keys between them.
PRINTED = [
    ["agents"],
    ["sessions"],
    ["log", "main"],
    ["show", "main@6"],
    ["explain", "main@6"],
    ["marks", "main"],
    ["settings", "main"],
    ["notes", "main"],
    ["describe", "main/main"],
    ["search", "files"],
    ["search", "b.py"],
    ["diff", "main@6", "idea"],
    ["context", "main", "--tokens"],
    ["rewind", "main", "--dry-run"],
    ["clear", "main"],
    ["undo", "main"],
    ["stats"],
    ["export", "-o", "all.jsonl"],
    ["backup", "copy.db"],
    ["restore", "copy.db", "--to", "restored.db"],
    ["import", "all.jsonl"],
    ["delete", "idea", "--dry-run"],
    ["erase", "main@2", "--why", "x", "--dry-run"],
    ["expire", "--before", "2100", "--dry-run"],
]


def test_every_key_of_json_is_documented(sqlite_shell, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    fill(sqlite_shell)
    with backstory.open(sqlite_shell.env["BACKSTORY_STORE"]) as store:
        store.agent("main/main").describe(title="Python files", tags=["demo"])
    printed = set()
    for arguments in PRINTED:
        printed |= set(list_keys(sqlite_shell(*arguments, "--json").json))
    assert len(printed) > 60
    table = PAGE.read_text().partition("| key |")[2]
    documented = set(re.findall(r"`(\w+)`", table))
    assert sorted(printed - documented) == []


def list_keys(value):
    """Yield the keys of a value, but for those that the log itself has in data and kinds."""
    if isinstance(value, list):
        for inner in value:
            yield from list_keys(inner)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            if key not in ("data", "kinds"):
                yield from list_keys(inner)
