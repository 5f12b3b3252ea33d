"""Runs the commands on docs/cli.md and puts what they print below them.

    python -m tests.cli.manual        # rewrite the page after a change

Every block of the language `console` is run, from the top of the page to its end, in one shell on one
new store. Ids, times and sizes are replaced by fixed ones, so that the page stays the same.
"""

import os
import re
import subprocess
import sysconfig
import tempfile
from pathlib import Path

PAGE = Path(__file__).parent.parent.parent / "docs" / "cli.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def rewritten(page: str) -> str:
    """The page with the output of its commands as it is now."""
    with tempfile.TemporaryDirectory() as folder:
        run = Runner(Path(folder))
        return BLOCK.sub(lambda block: f"```console\n{run.block(block[1])}```", page)


class Runner:
    """One shell's worth of commands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ids: dict[str, str] = {}
        self.env = {
            "PATH": f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}",
            "HOME": str(folder),
            "BACKSTORY_STORE": "history.db",
            "COLUMNS": "80",
            "TZ": "UTC",
            "LANG": "C.UTF-8",
        }

    def block(self, text: str) -> str:
        return "".join(self.command(line) for line in text.splitlines() if line.startswith("$ "))

    def command(self, line: str) -> str:
        ran = subprocess.run(
            ["bash", "-c", f"exec 2>&1; {self.real(line[2:])}"],
            cwd=self.folder,
            env=self.env,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        said = self.fixed(ran.stdout.decode())
        return f"{line}\n{said}" + (f"(exit code {ran.returncode})\n" if ran.returncode else "")

    def real(self, command: str) -> str:
        for real, shown in self.ids.items():
            command = command.replace(shown, real)
        return command

    def fixed(self, text: str) -> str:
        """What differs from run to run, made equal."""
        text = text.replace(f"{self.folder.resolve()}/", "")
        text = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", self.fixed_id, text)
        text = re.sub(
            r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", "2026-10-01T12:00:00.000000Z", text
        )
        text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "2026-10-01 12:00", text)
        text = re.sub(r'"created_us":\d+', '"created_us":1790856000000000', text)
        text = re.sub(r'size(\t|":)\d+', r"size\g<1>98304", text)
        return re.sub(r'"score":[\d.e-]+', '"score":1.5', text)

    def fixed_id(self, match: "re.Match[str]") -> str:
        return self.ids.setdefault(match[0], f"0199c3a1-0000-7000-8000-{len(self.ids) + 1:012}")


if __name__ == "__main__":
    PAGE.write_text(rewritten(PAGE.read_text()))
