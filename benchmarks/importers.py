"""The importers' table: reading a transcript of Claude Code, against parsing its lines and nothing else."""

import json
import os
import tempfile
from collections.abc import Iterator
from typing import Any

import orjson

import backstory
from backstory import importers
from benchmarks.measure import Row, by_turns

LIMIT = 6.0
MEGABYTES = 40


def importers_table(folder: str) -> list[Row]:
    """One file, larger than what is kept between two passes."""
    path = os.path.join(folder, "0c5f2f0e-0000-4000-8000-000000000001.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        for record in session(MEGABYTES * 1_000_000):
            file.write(json.dumps(record) + "\n")
    ours, floor = by_turns(lambda: read(path), lambda: parse(path), 5)
    whole, parsed = by_turns(lambda: take_in(path), lambda: parse(path), 3)
    what = f"{MEGABYTES} MB of Claude Code"
    return [
        Row(f"{what}, read as units", "orjson.loads of its lines", ours, floor, LIMIT),
        Row(f"{what}, imported into SQLite", "orjson.loads of its lines", whole, parsed, None),
    ]


def read(path: str) -> None:
    """All units of the one session."""
    for one in importers.read(path):
        for thread in one.threads:
            for _ in thread.steps():
                pass


def take_in(path: str) -> None:
    """The one session into a new store."""
    with tempfile.TemporaryDirectory() as folder, backstory.open(os.path.join(folder, "new.db")) as store:
        store.import_transcripts(path, settle=0)


def parse(path: str) -> None:
    """All lines, and nothing made of them."""
    with open(path, "rb") as file:
        for line in file:
            orjson.loads(line)


def session(size: int) -> Iterator[dict[str, Any]]:
    """Turns of a prompt, thinking, calls with ticks of progress, results written twice, and an answer: 3.5 KB
    a line, as in real files."""
    lines = Lines()
    while lines.bytes < size:
        yield from lines.turn()


class Lines:
    """Records that hang on each other."""

    def __init__(self) -> None:
        self.bytes = 0
        self._count = 0
        self._parent: str | None = None

    def turn(self) -> Iterator[dict[str, Any]]:
        yield self._line("user", content=f"Question {self._count}: why does the parser fail here?")
        for _ in range(4):
            yield from self._step()
        yield self._line("assistant", blocks=[{"type": "text", "text": "It was a missing comma. " * 12}])

    def _step(self) -> Iterator[dict[str, Any]]:
        message = f"msg_{self._count}"
        thought = {"type": "thinking", "thinking": "Look at the file first. " * 8, "signature": "c2ln" * 60}
        yield self._line("assistant", blocks=[thought], message=message)
        call = f"toolu_{self._count}"
        use = {
            "type": "tool_use",
            "id": call,
            "name": "Read",
            "input": {"path": f"/src/file_{self._count}.py"},
        }
        yield self._line("assistant", blocks=[use], message=message)
        yield self._line("progress", data={"type": "hook_progress", "hookName": "PreToolUse"})
        text = f"{self._count}: some line of the file\n" * 190
        result = {"type": "tool_result", "tool_use_id": call, "content": text}
        yield self._line("user", content=[result], toolUseResult={"file": {"content": text}})

    def _line(self, type_: str, **fields: Any) -> dict[str, Any]:
        self._count += 1
        uuid = f"{self._count:08x}-0000-4000-8000-{self._count:012x}"
        record: dict[str, Any] = {
            "parentUuid": self._parent,
            "isSidechain": False,
            "type": type_,
            "uuid": uuid,
        }
        record |= {"sessionId": "0c5f2f0e", "version": "2.1.0", "cwd": "/src", "gitBranch": "main"}
        record["timestamp"] = f"2026-03-01T09:{self._count // 60 % 60:02}:{self._count % 60:02}.000Z"
        if "blocks" in fields:
            answer = {
                "id": fields.pop("message", f"msg_{self._count}"),
                "role": "assistant",
                "model": "claude-x",
            }
            record["message"] = answer | {"content": fields.pop("blocks"), "usage": {"input_tokens": 9}}
        elif "content" in fields:
            record["message"] = {"role": "user", "content": fields.pop("content")}
        record |= fields
        self._parent = uuid
        self.bytes += len(json.dumps(record))
        return record
