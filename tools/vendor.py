"""Brings the page's two libraries into the package, pinned and checked.

    python -m tools.vendor        # after a change of a version below

Only the modules that the page imports are kept, beside their licences; imports by name become relative
ones, so that no import map is needed, and the line that names a source map is left out. `vendor.json` says
what each file is.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import NamedTuple

from tools.npm import Package, file, packed

FOLDER = Path(__file__).parent.parent / "src" / "backstory" / "web" / "page" / "vendor"


class Vendored(NamedTuple):
    """A package, and the files that are taken of it: their path there, their name here."""

    package: Package
    license: str
    files: dict[str, str]


VENDORED = [
    Vendored(
        Package(
            "preact",
            "11.2.0",
            "sha512-/HfHI/7N84e6GrWBJ3J280z3mLaRJiDcSvj/A+y/4AbLnND/1UlGHe1sR6oYuTGwId0nP7dqDU9OnLxMPZ7xBg==",
        ),
        "MIT",
        {
            "dist/preact.mjs": "preact.js",
            "LICENSE": "preact.LICENSE",
        },
    ),
    Vendored(
        Package(
            "htm",
            "3.1.1",
            "sha512-983Vyg8NwUE7JkZ6NmOqpCZ+sh1bKv2iYTlUkzlWmA5JD2acKoxd4KVxbMmxX/85mtfdnDmTFoNKcg5DGAvxNQ==",
        ),
        "Apache-2.0",
        {"dist/htm.mjs": "htm.js", "LICENSE": "htm.LICENSE"},
    ),
]
LOCAL = {
    b"preact": b"./preact.js",
}
BY_NAME = re.compile(rb"""(\bfrom|\bimport)\s*(["'])(@?[a-z][\w/-]*)\2""")
SOURCE_MAP = re.compile(rb"\n?//# sourceMappingURL=.*\s*$")


def main() -> None:
    """Write the files and the list of them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    listed = [record for vendored in VENDORED for record in _bring(vendored)]
    (FOLDER / "vendor.json").write_text(json.dumps(listed, indent=2) + "\n")


def _bring(vendored: Vendored) -> list[dict[str, str]]:
    records = []
    package = vendored.package
    with packed(package) as archive:
        for source, name in vendored.files.items():
            content = file(archive, source)
            if name.endswith(".js"):
                content = SOURCE_MAP.sub(b"\n", BY_NAME.sub(_relative, content))
            (FOLDER / name).write_bytes(content)
            records.append(
                {
                    "file": name,
                    "package": package.name,
                    "version": package.version,
                    "license": vendored.license,
                    "integrity": package.integrity,
                    "sha256": hashlib.sha256(content).hexdigest(),
                }
            )
    return records


def _relative(found: "re.Match[bytes]") -> bytes:
    return found[1] + b' "' + LOCAL[found[3]] + b'"'


if __name__ == "__main__":
    main()
