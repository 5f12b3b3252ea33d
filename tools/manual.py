"""Writes the manual of the command line by running it.

    python -m tools.manual docs/cli.md        # put the output of each command below it
    python -m tools.manual docs/commands.md   # the help of all commands, a page that is generated

In the first page, every block of the language `console` is run, from top to bottom, in one shell
on one new store. Ids, times and sizes are replaced by fixed ones, so that the page stays the same.
"""

import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import click

from backstory.cli.commands import FAMILIES
from backstory.cli.main import cli

BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ID = re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")
# What differs from run to run, and what stands for it on the page.
VARIABLE = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", "2026-10-01T12:00:00.000000Z"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d", "2026-10-01 12:00"),
    (r'"score":[\d.e-]+', '"score":1.5'),
)


def rewrite_page(page: str) -> str:
    """Return the page with the output of its commands as it is now."""
    with tempfile.TemporaryDirectory() as folder:
        shell = ManualShell(Path(folder))
        return BLOCK.sub(lambda block: f"```console\n{shell.run_block(block[1])}```", page)


class ManualShell:
    """A shell with one store, in which the commands of the page are run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ids: dict[str, str] = {}  # on the page, by the real one
        self._env = {
            "PATH": f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}",
            "HOME": str(folder),
            "BACKSTORY_STORE": "history.db",
            "COLUMNS": "80",
            "TZ": "UTC",
            "LANG": "C.UTF-8",
        }

    def run_block(self, block: str) -> str:
        """Return the commands of a block, each with its output."""
        lines = [line for line in block.splitlines() if line.startswith("$ ")]
        return "".join(self._run(line) for line in lines)

    def _run(self, line: str) -> str:
        ran = subprocess.run(
            ["bash", "-c", f"exec 2>&1; {line[2:]}"],
            cwd=self._folder,
            env=self._env,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        text = ran.stdout.decode().replace(f"{self._folder.resolve()}/", "")
        text = ID.sub(self._replace_id, text)
        for pattern, replacement in VARIABLE:
            text = re.sub(pattern, replacement, text)
        code = f"(exit code {ran.returncode})\n" if ran.returncode else ""
        return f"{line}\n{text}{code}"

    def _replace_id(self, match: re.Match[str]) -> str:
        number = len(self._ids) + 1
        return self._ids.setdefault(match[0], f"0199c3a1-0000-7000-8000-{number:012}")


def build_commands_page() -> str:
    """Return a page with the help of all commands."""
    root = click.Context(cli, info_name="backstory", terminal_width=80)
    parts = ["# All commands\n\nNeeds: nothing else\n", format_help(cli.get_help(root))]
    for family in FAMILIES:
        parts.append(f"\n## {family.title}\n")
        for name in family.summaries:
            command = cli.get_command(root, name)
            assert command is not None
            context = click.Context(command, info_name=name, parent=root, terminal_width=80)
            parts.append(f"\n### {name}\n\n{format_help(command.get_help(context))}")
    return "\n".join(parts)


def format_help(text: str) -> str:
    """Return a help text as a block of the page."""
    return f"```text\n{text}\n```\n"


def main(path: Path) -> None:
    """Write the page at `path`."""
    if path.name == "commands.md":
        page = build_commands_page()
    else:
        page = rewrite_page(path.read_text(encoding="utf-8"))
    path.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
