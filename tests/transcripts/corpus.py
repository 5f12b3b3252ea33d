"""`make corpus`: real transcripts, where they are at hand, come into a store whole.

The transcripts and the tool that compares lie beside the project, in ../shared (or see BACKSTORY_SHARED).
"""

import os
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SHARED = Path(os.environ.get("BACKSTORY_SHARED") or Path(__file__).parents[3] / "shared")
COMMAND = Path(sysconfig.get_path("scripts")) / "backstory"


def judged(format: str) -> subprocess.CompletedProcess[str]:
    """The judge's word on the cases of one format."""
    tool, corpus = SHARED / "tools" / "judge_import.py", SHARED / "corpus" / "transcripts"
    command = [
        sys.executable,
        str(tool),
        str(corpus),
        "--backstory",
        str(COMMAND),
        "--only",
        f"{format}/",
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def main() -> int:
    corpus, tool = SHARED / "corpus" / "transcripts", SHARED / "tools" / "judge_import.py"
    if not corpus.exists() or not tool.exists():
        print("no transcripts beside the project: skipped")
        return 0
    formats = sorted(path.name for path in corpus.iterdir() if path.is_dir())
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(judged, formats))
    for format, result in zip(formats, results, strict=True):
        lines = result.stdout.splitlines()
        whole = next(
            (line for line in lines if "cases whole" in line), result.stderr.strip()[-200:]
        )
        print(f"{format}: {whole}")
        if result.returncode:
            print("\n".join(line for line in lines if not line.startswith("ok ")))
    return 1 if any(result.returncode for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
