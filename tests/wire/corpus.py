"""`make corpus`: recorded requests, where they are at hand, come back as they were; fails beyond the limits.

The recordings and the tool that compares lie beside the project, in ../shared.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

SHARED = Path(__file__).parents[3] / "shared"
MOST_THAT_DIFFER = 5  # each of them is explained in docs/wire.md


def main() -> int:
    corpus, tool = SHARED / "corpus" / "wire", SHARED / "tools" / "check_wire.py"
    if not corpus.exists() or not tool.exists():
        print("no recordings beside the project: skipped")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "found.json"
        subprocess.run([sys.executable, tool, "--corpus", corpus, "--json", found], check=False)
        results = json.loads(found.read_text())
    bad = [one for one in results if one["result"] in ("refused", "crash")]
    differ = [one for one in results if one["result"] == "differs"]
    silent = [one for one in differ if not one["repairs"]]
    for one in bad + differ:
        print(one["result"], one["format"], one["id"], one.get("why") or one.get("repairs"))
    return 1 if bad or silent or len(differ) > MOST_THAT_DIFFER else 0


if __name__ == "__main__":
    sys.exit(main())
