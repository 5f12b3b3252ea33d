"""The table of commands: each one is in the module of its family, and its summary is there once."""

from importlib import import_module
from pathlib import Path

import pytest

import backstory.cli
from backstory.cli.commands import ALIASES, COMMANDS, FAMILIES, get_module

FOLDER = Path(backstory.cli.__file__).parent


WITHOUT_JSON = {"chat", "web", "mcp", "seal", "shell-completion", "help"}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_in_the_module_of_its_family(name):
    module = import_module(f"backstory.cli.commands.{get_module(name)}")
    command = getattr(module, f"{name.replace('-', '_')}_command")
    assert command.name == name
    assert command.help.startswith(COMMANDS[name])
    assert len(command.help) > len(COMMANDS[name]) + 20, "the help says no more than the summary"
    assert "\nExample:\n  $ " in command.epilog
    assert f" {name}" in command.epilog
    assert ("as_json" in {param.name for param in command.params}) == (name not in WITHOUT_JSON)


def test_every_module_but_one_is_a_family():
    modules = {path.stem for path in (FOLDER / "commands").glob("*.py")} - {"__init__"}
    assert modules == {family.module for family in FAMILIES} | {"import_report"}


def test_a_summary_is_in_the_source_once():
    source = "".join(path.read_text() for path in FOLDER.rglob("*.py"))
    assert [name for name, summary in COMMANDS.items() if source.count(summary) != 1] == []


def test_an_alias_is_a_new_name_of_a_command_that_exists():
    assert set(ALIASES.values()) <= set(COMMANDS)
    assert not set(ALIASES) & set(COMMANDS)
