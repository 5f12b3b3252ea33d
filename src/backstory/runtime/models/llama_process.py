"""llama.cpp in a separate process: reads requests from standard input, and writes the chunks of
answers.

    python -P -m backstory.runtime.models.llama_process MODEL_FILE

It loads the model, writes `{"ready": true}`, and answers one request after another. Each line in
and out is a JSON object; a request and its chunks have the same number. `{"stop": number}` ends an
answer at the next word.

It is a process because llama.cpp blocks all Python threads while it loads, so nothing could be
drawn, and because it takes over the signals. It ends when its standard input is closed, so it does
not outlive its caller.
"""

import json
import os
import secrets
import sys
import threading
from queue import SimpleQueue
from typing import Any, TextIO

WINDOW = 4096  # tokens


class Worker:
    """Answers requests one after another."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._requests: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._stopped: set[int] = set()

    def listen(self) -> None:
        """Read requests until standard input is closed."""
        for line in sys.stdin:
            order = json.loads(line)
            if "stop" in order:
                self._stopped.add(order["stop"])
            else:
                self._requests.put(order)
        os._exit(0)

    def work(self, path: str) -> None:
        """Load the model, and answer the requests."""
        try:
            server = load(path)
        except Exception as error:
            self._say(failed=str(error))
            return
        self._say(ready=True)
        while True:
            self._answer(server, self._requests.get())

    def _answer(self, server: Any, request: dict[str, Any]) -> None:
        number = request["number"]

        def take(chunk: Any) -> bool:
            """Take a chunk from llama.cpp; return whether to stop."""
            self._say(number=number, chunk=json.loads(chunk) if isinstance(chunk, str) else chunk)
            return number in self._stopped

        try:
            server.handle_chat_completions(json.dumps(request["body"]), take)
        except Exception as error:
            self._say(number=number, error=str(error))
        self._say(number=number, done=True)

    def _say(self, **values: Any) -> None:
        self._out.write(json.dumps(values) + "\n")
        self._out.flush()


def load(path: str) -> Any:
    """The model in this process."""
    import xllamacpp  # type: ignore[import-untyped]

    params = xllamacpp.CommonParams()
    params.model.path = path
    params.n_ctx = WINDOW
    params.n_parallel = 1
    params.use_jinja = True
    params.warmup = False
    params.verbosity = 0
    # llama.cpp's threads spin while they wait for each other. On a busy machine, an answer took a
    # minute with one thread per CPU, and two seconds with half of them.
    threads = max(1, min(4, (os.cpu_count() or 1) // 2))
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    # llama.cpp always opens a port on the loopback interface. A random key keeps others from using
    # it.
    params.api_keys = [secrets.token_hex(16)]
    return xllamacpp.Server(params)


def main() -> None:
    """Listen in one thread, and work in another."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # keep what llama.cpp prints out of the answers
    worker = Worker(out)
    threading.Thread(target=worker.listen, daemon=True).start()
    worker.work(sys.argv[1])


if __name__ == "__main__":
    main()
