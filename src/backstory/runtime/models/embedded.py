"""The embedded model: SmolLM2 (135 million parameters) by llama.cpp, in this process.

A tiny model for trying things out, without a key and without a network: its answers are toys.
llama.cpp works in a thread of its own and hands over chunks, so that an answer can be stopped at any word.
"""

import ctypes
import json
import os
import secrets
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from backstory.runtime.models import ModelError, Piece, Retrying
from backstory.runtime.models.chunks import assembled
from backstory.runtime.models.download import Tell, model_file
from backstory.runtime.models.extras import require
from backstory.runtime.models.openai import described
from backstory.runtime.signals import undisturbed
from backstory.runtime.tools import Tool
from backstory.wire.conversation import Conversation

NAME = "smollm2-135m"
WINDOW = 4096
LAST_WORD = 10.0  # seconds to wait for it, when the model is let go of
MOST_TOKENS = 256  # of one answer: a tiny model does not always find its end
OFFERED = frozenset({"glob"})  # with more tools than one it understands none
SIGNALS = (signal.SIGINT, signal.SIGTERM)

SETTINGS: dict[str, Any] = {
    "stream": True,
    "stream_options": {"include_usage": True},
    "max_tokens": MOST_TOKENS,
    "temperature": 0.0,
}
IN_WORDS = {"repeat_penalty": 1.1}  # against going round in circles; a call must be free to repeat itself


class Stumbled(ModelError):
    """llama.cpp could not make sense of the call that the model was writing; in words it can answer."""


class EmbeddedModel:
    """SmolLM2 in this process. It is loaded for its first answer: that takes a second or two, in which
    llama.cpp lets no other thread work, and a person who wants to type should not meet that."""

    name = NAME
    window: int | None = WINDOW

    def __init__(self, path: Path | None = None, *, tell: Tell | None = None) -> None:
        """`path`: the model's file; by default it is fetched once, and `tell` hears of the progress."""
        require("xllamacpp", extra="embedded", what="The embedded model")
        self._path = path or model_file(tell=tell)
        self._server: Any = None
        self._asked: _Asked | None = None

    def answer(self, conversation: Conversation, tools: Sequence[Tool]) -> Iterator[Piece]:
        """The answer, piece by piece."""
        body = conversation.to("openai", model=self.name) | SETTINGS
        offered = described([tool for tool in tools if tool.name in OFFERED])
        if offered and _is_about_files(body["messages"][-1]):
            try:
                yield from assembled(self._chunks(body | {"tools": offered}), self.name)
                return
            except Stumbled as error:
                yield Retrying(str(error), 0.0)
        yield from assembled(self._chunks(body | IN_WORDS), self.name)

    def _chunks(self, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if self._server is None:
            with undisturbed(), own_signals():  # a half-made server that is let go of hangs
                self._server = _server(self._path)
        self._asked = _Asked(self._server, body)
        try:
            yield from self._asked.chunks()
        finally:
            self._asked.stop()

    def close(self) -> None:
        """Let go of the model."""
        if self._asked:
            self._asked.wait()
        self._server = None


class _Asked:
    """One request under way, in a thread of its own."""

    def __init__(self, server: Any, body: dict[str, Any]) -> None:
        self._server = server
        self._body = body
        self._queue: SimpleQueue[str | BaseException | None] = SimpleQueue()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def chunks(self) -> Iterator[dict[str, Any]]:
        self._thread.start()
        while (chunk := self._queue.get()) is not None:
            if isinstance(chunk, BaseException):
                raise _meaning(str(chunk)) from chunk
            for one in _objects(chunk):
                if "error" in one:
                    raise _meaning(json.dumps(one["error"]))
                yield one

    def stop(self) -> None:
        """The thread ends at the next word."""
        self._stopped.set()

    def wait(self) -> None:
        """Until the thread has ended: if it is still in llama.cpp when Python ends, the process aborts."""
        if self._thread.ident:
            self._thread.join(LAST_WORD)

    def _work(self) -> None:
        try:
            self._server.handle_chat_completions(json.dumps(self._body), self._take)
        except BaseException as error:
            self._queue.put(error)
        self._queue.put(None)

    def _take(self, chunk: Any) -> bool:
        """llama.cpp hands over a chunk; the answer is whether to stop."""
        self._queue.put(chunk if isinstance(chunk, str) else json.dumps(chunk))
        return self._stopped.is_set()


def _is_about_files(message: dict[str, Any]) -> bool:
    """Whether to offer the tool at all. Such a small model calls whatever it is offered, whether you
    greet it or hand it a result, so it is offered the tool only where that may make sense."""
    text = str(message.get("content")).lower()
    return message["role"] == "user" and any(word in text for word in ("file", "*", "glob"))


def _objects(chunk: str) -> list[dict[str, Any]]:
    value = json.loads(chunk)
    return value if isinstance(value, list) else [value]


def _meaning(problem: str) -> ModelError:
    if "Invalid diff" in problem:
        return Stumbled("the small model stumbled over its tool")
    if "context" in problem and ("exceed" in problem or "size" in problem):
        return ModelError(
            f"the context is too long for the embedded model ({WINDOW:,} tokens): "
            "/rewind or /clear, or connect a larger model"
        )
    return ModelError(f"the embedded model failed: {' '.join(problem.split())[:200]}")


def _server(path: Path) -> Any:
    import xllamacpp  # type: ignore[import-untyped]

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = WINDOW
    params.n_parallel = 1
    params.use_jinja = True
    params.warmup = False
    params.verbosity = 0
    threads = max(1, min(8, os.cpu_count() or 1))
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    # llama.cpp opens a port on the loopback, wanted or not: nobody else shall use it.
    params.api_keys = [secrets.token_hex(16)]
    try:
        return xllamacpp.Server(params)
    except Exception as error:
        raise ModelError(f"the embedded model could not be loaded from {path}: {error}") from error


@contextmanager
def own_signals() -> Iterator[None]:
    """llama.cpp takes Ctrl-C and its like for itself when it starts, and a second one ends the process.
    After the block they are whose they were; what arrives within it waits."""
    api = ctypes.pythonapi  # Python's own view of C's handlers: works in every thread, unlike signal.signal
    api.PyOS_getsig.restype = ctypes.c_void_p
    api.PyOS_setsig.argtypes = (ctypes.c_int, ctypes.c_void_p)
    before = {number: api.PyOS_getsig(number) for number in SIGNALS}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        for number, handler in before.items():
            api.PyOS_setsig(number, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
