"""The importers' table: reading a transcript of Claude Code, against parsing its lines and nothing else."""

import json
import os
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from random import Random
from typing import Any

import orjson

import backstory
from backstory import transcripts
from benchmarks.measure import Row, by_turns

MEGABYTES = 40
SLOWEST = 30  # MB of Claude Code's lines that an import must take in a second, on one core


def importers_table(folder: str) -> list[Row]:
    """One file, larger than what is kept between two passes."""
    path = os.path.join(folder, "0c5f2f0e-0000-4000-8000-000000000001.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        for record in session(MEGABYTES * 1_000_000):
            file.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")
    ours, floor = by_turns(lambda: read(path), lambda: parse(path), 5)
    imported, parsed = by_turns(lambda: take_in(path), lambda: parse(path), 3)
    what = f"{MEGABYTES} MB of Claude Code"
    allowed = MEGABYTES / SLOWEST * 1000
    return [
        Row(f"{what}, read as units", "orjson.loads of its lines", ours, floor, None),
        Row(f"{what}, imported into SQLite", "orjson.loads of its lines", imported, parsed, None),
        Row(f"{what}, imported into SQLite", f"{SLOWEST} MB/s", imported, allowed, 1.0),
        size_row(path, what),
    ]


def size_row(path: str, what: str) -> Row:
    """What the store takes, signatures included, against what was said: contents and arguments."""
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "new.db")
        said = 0
        with backstory.open(file) as store:
            store.import_transcripts(path, settle=0)
            for event in store.agents()[0].events():
                arguments = (event.data or {}).get("arguments")
                said += len((event.content or "").encode())
                said += len(orjson.dumps(arguments)) if arguments is not None else 0
        size = os.path.getsize(file)
    return Row(f"size of the store of {what}", "what was said", size / 1e6, said / 1e6, 1.2, "MB")


def read(path: str) -> None:
    """All units of the one session."""
    for one in transcripts.read(path):
        for thread in one.threads:
            for _ in thread.read_steps(transcripts.ImportReport()):
                pass


def take_in(path: str) -> None:
    """The one session into a new store, as `backstory import` does it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        backstory.open(os.path.join(folder, "new.db")) as store,
    ):
        store.import_transcripts(path, settle=0)


def parse(path: str) -> None:
    """All lines, and nothing made of them."""
    with open(path, "rb") as file:
        for line in file:
            orjson.loads(line)


def session(size: int) -> Iterator[dict[str, Any]]:
    """Turns of a prompt, thinking with its signature, calls with ticks of progress and attachments, results
    written twice, and an answer. The kinds of records, their sizes and their fields are those of real files
    of versions 2.0 and 2.1: 2.5 KB a record, of which the results are 44 % and the calls 15 %."""
    lines = Lines()
    while lines.bytes < size:
        yield from lines.turn()


USAGE = {
    "input_tokens": 9,
    "cache_creation_input_tokens": 1250,
    "cache_read_input_tokens": 48211,
    "cache_creation": {"ephemeral_5m_input_tokens": 1250, "ephemeral_1h_input_tokens": 0},
    "output_tokens": 312,
    "server_tool_use": {"web_search_requests": 0, "web_fetch_requests": 0},
    "service_tier": "standard",
    "inference_geo": "not_available",
    "iterations": [],
    "speed": "standard",
}


WORDS = """
    the a of in to and is for with not file line test value name list index error result config parser
    function returns import class module request response update missing default string number because
    before after when while every should check token event store branch commit path folder
    """
SENTENCE = 42  # characters, about


def sentences() -> list[str]:
    """Some thousand; a few have characters that are not ASCII."""
    chance = Random(5)
    words = WORDS.split()
    made = [" ".join(chance.choices(words, k=7)) for _ in range(4_000)]
    return [f"{text[:20]}“{text[20:]}”" if n % 15 == 0 else text for n, text in enumerate(made)]


SENTENCES = sentences()


class Lines:
    """Records that hang on each other."""

    def __init__(self) -> None:
        self.bytes = 0
        self._chance = Random(7)
        self._count = 0
        self._parent: str | None = None

    def turn(self) -> Iterator[dict[str, Any]]:
        yield self._line("user", content=self._prose(430))
        yield self._line(
            "attachment",
            attachment={"type": "hook_success", "content": self._prose(1200, end="\n")},
        )
        for number in range(4):
            yield from self._step(is_thoughtful=number != 3)
        yield self._line("assistant", blocks=[{"type": "text", "text": self._prose(480)}])

    def _prose(self, size: int, end: str = " ") -> str:
        """Sentences that differ, because what is packed depends on what is in it."""
        text = end.join(self._chance.choices(SENTENCES, k=size // SENTENCE + 1))
        return text[:size]

    def _step(self, *, is_thoughtful: bool) -> Iterator[dict[str, Any]]:
        message = f"msg_{self._count}"
        if is_thoughtful:
            signature = b64encode(self._chance.randbytes(1770)).decode()
            thought = {"type": "thinking", "thinking": self._prose(170), "signature": signature}
            yield self._line("assistant", blocks=[thought], message=message)
        call = f"toolu_{self._count}"
        edit = {
            "file_path": f"/src/file_{self._count}.py",
            "old_string": self._prose(240, end="\n"),
            "new_string": self._prose(180, end="\n"),
        }
        use = {"type": "tool_use", "id": call, "name": "Edit", "input": edit}
        yield self._line("assistant", blocks=[use], message=message)
        if is_thoughtful:
            yield self._line(
                "progress", data={"type": "hook_progress", "output": self._prose(1440, end="\n")}
            )
        lines = self._chance.choices(SENTENCES, k=42)
        text = "".join(f"{number:6}\t{line}\n" for number, line in enumerate(lines))
        result = {"type": "tool_result", "tool_use_id": call, "content": text}
        patch = [
            {
                "oldStart": 3,
                "oldLines": 9,
                "newStart": 3,
                "newLines": 9,
                "lines": [" a", "-b", "+c"] * 6,
            }
        ]
        told = {"filePath": edit["file_path"], "originalFile": text, "structuredPatch": patch}
        yield self._line("user", content=[result], toolUseResult=told)

    def _line(self, type_: str, **fields: Any) -> dict[str, Any]:
        self._count += 1
        uuid = f"{self._count:08x}-0000-4000-8000-{self._count:012x}"
        record: dict[str, Any] = {
            "parentUuid": self._parent,
            "isSidechain": False,
            "userType": "external",
        }
        record |= {"cwd": "/src/project", "sessionId": "0c5f2f0e-0000-4000-8000-000000000001"}
        record |= {
            "version": "2.1.0",
            "gitBranch": "main",
            "slug": "a-missing-comma",
            "type": type_,
        }
        if "blocks" in fields:
            id = fields.pop("message", f"msg_{self._count}")
            answer = {"model": "claude-x", "id": id, "type": "message", "role": "assistant"}
            ends = {
                "stop_reason": "tool_use",
                "stop_sequence": None,
                "usage": USAGE,
                "context_management": None,
            }
            record["message"] = answer | {"content": fields.pop("blocks")} | ends
            record["requestId"] = f"req_{self._count:024}"
        elif "content" in fields:
            record["message"] = {"role": "user", "content": fields.pop("content")}
        record |= fields
        record |= {"uuid": uuid, "timestamp": _time(self._count)}
        self._parent = uuid
        self.bytes += len(json.dumps(record, ensure_ascii=False).encode())
        return record


def _time(count: int) -> str:
    return f"2026-03-{1 + count // 86_400:02}T{count // 3600 % 24:02}:{count // 60 % 60:02}:{count % 60:02}.000Z"
