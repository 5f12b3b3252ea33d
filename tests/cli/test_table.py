"""The table of commands: each one is where its name says, and its summary is said once."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

import backstory.cli
from backstory.cli.commands import ALIASES, COMMANDS, FAMILIES, module_of

FOLDER = Path(backstory.cli.__file__).parent


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_in_the_module_of_its_name_or_of_its_family(name):
    module = module_of(name)
    own = name.replace("-", "_")
    assert module in (own, f"{own}_") or name in FAMILIES[module]
    command = getattr(import_module(f"backstory.cli.commands.{module}"), f"{own}_command")
    assert command.name == name
    assert command.help.startswith(COMMANDS[name])
    assert len(command.help) > len(COMMANDS[name]) + 20, "the help says no more than the summary"


def test_there_is_no_module_without_a_command():
    modules = {path.stem for path in (FOLDER / "commands").glob("*.py")} - {"__init__"}
    assert modules == {module_of(name) for name in COMMANDS}


def test_a_summary_is_in_the_source_once():
    source = "".join(path.read_text() for path in FOLDER.rglob("*.py"))
    assert [name for name, summary in COMMANDS.items() if source.count(summary) != 1] == []


def test_an_alias_is_a_new_name_of_a_command_that_exists():
    assert set(ALIASES.values()) <= set(COMMANDS)
    assert not set(ALIASES) & set(COMMANDS)
    assert find_spec("backstory.cli.commands.tree") is None
