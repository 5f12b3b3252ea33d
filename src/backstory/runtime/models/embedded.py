"""The embedded model: SmolLM2 (135 million parameters), run by llama.cpp in a separate process.

A tiny model for trying things out, without a key and without a network. It starts loading when it is created,
so it is often ready for the first question.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from backstory.runtime.models import ContextTooLong, ModelError, Response, StreamItem, ToolCall
from backstory.runtime.models.arguments import parsed
from backstory.runtime.models.chunks import assembled
from backstory.runtime.models.download import Progress, model_file
from backstory.runtime.models.extras import require
from backstory.runtime.models.llama_process import WINDOW
from backstory.runtime.models.tool_examples import Prompt, prompt_for
from backstory.runtime.tools import Tool
from backstory.wire.conversation import Conversation

__all__ = ["EmbeddedModel"]

NAME = "smollm2-135m"
MOST_TOKENS = 256  # of one answer: a tiny model does not always stop by itself
OF_A_RESULT = (
    60  # tokens about the result of a tool: the longer the answer, the more of it is made up
)
MOST_RESULT = 2_000  # characters of a result that the model reads
UNSHOWN = "(something that this model cannot see)"  # in place of an image or a file
LAST_WORD = 2.0  # seconds to wait for the process when the model is closed

SETTINGS: dict[str, Any] = {
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_tokens": MOST_TOKENS,
    "temperature": 0.0,
}
IN_WORDS = {"repeat_penalty": 1.1}  # against repeating itself; a call may have to repeat words


class EmbeddedModel:
    """SmolLM2, in a process that ends with this one."""

    name = NAME
    window: int | None = WINDOW

    def __init__(self, path: Path | None = None, *, progress: Progress | None = None) -> None:
        """`path` is the file of the model; by default it is downloaded once, reporting to `progress`."""
        require("xllamacpp", extra="embedded", what="The embedded model")
        self._path = path or model_file(progress=progress)
        self._process = _Process(self._path)

    @property
    def waiting_for(self) -> str:
        """What an answer is waiting for, other than the model itself."""
        return "" if self._process.is_ready else "loading the model"

    def answer(self, conversation: Conversation, tools: Sequence[Tool]) -> Iterator[StreamItem]:
        """The answer, part by part."""
        body = conversation.to("openai", model=self.name) | SETTINGS
        body["messages"] = [_in_words(message) for message in body["messages"]]
        last = body["messages"][-1]
        if last["role"] == "tool":
            about = _about_result(body["messages"])
            yield from assembled(self._chunks(body | IN_WORDS | about), self.name)
            return
        prompt = prompt_for(_text(last), tools) if last["role"] == "user" else None
        if prompt is None:
            yield from assembled(self._chunks(body | IN_WORDS), self.name)
        else:
            yield self._called(prompt)

    def _called(self, prompt: Prompt) -> Response:
        """A call of the wanted tool. llama.cpp makes the model's output conform to the schema of the tool."""
        form = {"type": "json_schema", "json_schema": {"schema": prompt.schema}}
        body = SETTINGS | {"model": self.name, "messages": prompt.messages, "response_format": form}
        *_, whole = assembled(self._chunks(body), self.name)
        assert isinstance(whole, Response)
        arguments = parsed(whole.text)
        if isinstance(arguments, dict):
            arguments = {name: str(value).strip() for name, value in arguments.items()}
        call = ToolCall(f"call_{os.urandom(12).hex()}", prompt.tool, arguments)
        return whole._replace(text="", calls=(call,))

    def _chunks(self, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if self._process.has_ended():  # it crashed, or someone killed it
            self._process = _Process(self._path)
        return self._process.chunks(body)

    def close(self) -> None:
        """End the process."""
        self._process.close()


class _Process:
    """The process with the model. A thread reads its output, so that waiting can be interrupted."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-P", "-m", "backstory.runtime.models.llama_process", str(path)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            start_new_session=True,  # Ctrl-C in the terminal must not end it
        )
        self._path = path
        self._number = 0
        self.is_ready = False
        self._said: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._said.put(json.loads(line))
        self._said.put(None)

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def chunks(self, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The chunks of one answer. If the caller stops early, the process is ready for the next request."""
        while not self.is_ready:
            self.is_ready = bool(self._next().get("ready"))
        self._number += 1
        number = self._number
        self._send({"number": number, "body": body})
        try:
            while True:
                said = self._next()
                if said.get("number") != number:
                    continue  # the rest of an answer that was stopped
                if "error" in said:
                    raise _meaning(said["error"])
                if "done" in said:
                    return
                for chunk in said["chunk"] if isinstance(said["chunk"], list) else [said["chunk"]]:
                    if "error" in chunk:
                        raise _meaning(json.dumps(chunk["error"]))
                    yield chunk
        finally:
            self._send({"stop": number})

    def _next(self) -> dict[str, Any]:
        said = self._said.get()
        if said is None:
            raise ModelError("the embedded model's process has ended", remedy="try again")
        if "failed" in said:
            raise ModelError(
                f"the embedded model could not be loaded from {self._path}: {said['failed']}"
            )
        return said

    def _send(self, order: dict[str, Any]) -> None:
        assert self._process.stdin
        with suppress(OSError):  # it has ended, which `_next` will notice
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()

    def close(self) -> None:
        assert self._process.stdin
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(LAST_WORD)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        if self._process.stdout:
            self._process.stdout.close()


def _about_result(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The question and the result as one message, because the model does not understand tool results."""
    asked = next(
        (_text(message) for message in reversed(messages) if message["role"] == "user"), ""
    )
    found = _text(messages[-1])[:MOST_RESULT]
    content = f"{asked}\n\nThe result is:\n{found}\n\nSay in one short sentence what the result is."
    said = [{"role": "system", "content": "Answer briefly."}, {"role": "user", "content": content}]
    return {"messages": said, "max_tokens": OF_A_RESULT}


def _in_words(message: dict[str, Any]) -> dict[str, Any]:
    """A message of which the model can read everything. llama.cpp refuses images that it cannot see."""
    if not isinstance(message.get("content"), list):
        return message
    parts = [
        part if part.get("type") == "text" else {"text": UNSHOWN} for part in message["content"]
    ]
    return message | {"content": _text({"content": parts})}


def _text(message: dict[str, Any]) -> str:
    """The text of a message."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(str(part.get("text") or "") for part in content)


def _meaning(problem: str) -> ModelError:
    if "context" in problem and ("exceed" in problem or "size" in problem):
        return ContextTooLong(
            f"the context is too long for the embedded model ({WINDOW:,} tokens)",
            remedy="compact or rewind it first, or connect a larger model",
        )
    return ModelError(f"the embedded model failed: {' '.join(problem.split())[:200]}")
