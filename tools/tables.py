"""Makes the tables of packed events: how often which byte, length and distance is seen in frames.

    python -m tools.tables

They stand before the dictionary, so that no frame has to bring its own: a frame of a few hundred bytes is
smaller by some tens, and packed in two thirds of the time. A frame can only be read with the tables that it
was written with, so this is for a new version of the store's format only. They are made of this project's own
texts, and of made sessions of Claude Code.
"""

import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from backstory.storage.sqlite.frames import LEVEL, TABLES, dictionary
from backstory.storage.zstd import zstd
from benchmarks.importers import session

ROOT = Path(__file__).parents[1]
SIZES = (150, 400, 900, 2_000, 4_000)  # bytes of a sample
TURNS = 3_000_000  # bytes of made sessions


def samples() -> Iterator[bytes]:
    """Results of tools, and answers with their calls, thoughts and signatures."""
    for path in sorted(
        [*ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.py"), *ROOT.glob("tests/**/*.py")]
    ):
        yield from pieces(path.read_text(encoding="utf-8"))
    for record in session(TURNS):
        content = record.get("message", {}).get("content")
        if isinstance(content, str):
            yield content.encode()
        for block in content if isinstance(content, list) else []:
            yield json.dumps(block, ensure_ascii=False, separators=(",", ":")).encode()


def pieces(text: str) -> Iterator[bytes]:
    """A text in pieces of many sizes, as a tool would return them."""
    at, number = 0, 0
    while at < len(text):
        size = SIZES[number % len(SIZES)]
        data = f'\0{{"id":"toolu_{number:024}","name":"Read","answer":"msg_{number:024}"}}'
        yield (text[at : at + size] + data).encode()
        at, number = at + size * 7, number + 1


def tables() -> bytes:
    """What stands before the dictionary."""
    content = dictionary()
    found = list(islice(samples(), 20_000))
    raw = zstd.ZstdDict(content, is_raw=True)
    whole = zstd.finalize_dict(raw, found, len(content) + 4_096, LEVEL).dict_content
    assert whole.endswith(content)
    return whole.removesuffix(content)


if __name__ == "__main__":
    made = tables()
    (ROOT / "src/backstory/storage/sqlite" / TABLES).write_bytes(made)
    sys.stdout.write(f"{len(made)} bytes in {TABLES}\n")
