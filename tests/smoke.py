"""The library and the command line, everything once: `python tests/smoke.py`, on any platform.

It needs neither pytest nor a database server, so it also checks an installed wheel and a Windows machine.
"""

import os
import tempfile
from importlib import import_module

import backstory
from backstory.cli.commands import COMMANDS, get_module
from backstory.cli.main import run

STEPS = (
    ["new", "main"],
    ["append", "main", "hello"],
    ["mark", "main", "here"],
    ["append", "main", "again"],
    ["rewind", "main@here"],
    ["fork", "main", "idea"],
    ["agents"],
    ["log", "main"],
    ["context", "main", "--format", "openai"],
    ["search", "hello"],
    ["export", "-o", "all.jsonl"],
    ["backup", "copy.db"],
    ["restore", "copy.db", "--to", "restored.db"],
    ["verify"],
    ["stats"],
)


def main() -> None:
    """Raise if anything does not work."""
    for name in COMMANDS:
        import_module(f"backstory.cli.commands.{get_module(name)}")
    for step in STEPS:
        assert run([*step, "--store", "history.db"]) == 0, step
    assert run(["import", "all.jsonl", "--store", "other.db"]) == 0
    for file in ("history.db", "other.db", "copy.db", "restored.db"):
        with backstory.open(file) as store:
            assert [message.content for message in store.agent("main").conversation()] == [
                "hello"
            ], file
            assert store.verify() == []


if __name__ == "__main__":
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
        os.chdir(here)  # Windows does not remove the folder that a process is in
