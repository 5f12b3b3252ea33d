"""llama.cpp in a process of its own: requests come in on standard input, the chunks of answers go out.

    python -P -m backstory.runtime.models.llama_process MODEL_FILE

It loads the model, says `{"ready": true}`, and answers one request after the other. Each line in and out is
one JSON object; what belongs to a request has its number. `{"stop": number}` ends an answer at its next word.

Why a process: while llama.cpp loads, no other thread of Python runs, so nothing could be drawn meanwhile, and
it takes over the signals. It ends when its standard input ends, so never later than its caller.
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
    """Answers requests, one after the other."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._requests: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self._stopped: set[int] = set()

    def listen(self) -> None:
        """Take requests until nobody is there any more."""
        for line in sys.stdin:
            order = json.loads(line)
            if "stop" in order:
                self._stopped.add(order["stop"])
            else:
                self._requests.put(order)
        os._exit(0)

    def work(self, path: str) -> None:
        """Load the model, and answer."""
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
            """llama.cpp hands over a chunk; the result is whether to stop."""
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
    # llama.cpp's threads wait for each other by spinning: beside other work, one thread for each CPU made an
    # answer take a minute that takes two seconds with half of them.
    threads = max(1, min(4, (os.cpu_count() or 1) // 2))
    params.cpuparams.n_threads = threads
    params.cpuparams_batch.n_threads = threads
    # llama.cpp opens a port on the loopback interface, wanted or not: no one else may use it.
    params.api_keys = [secrets.token_hex(16)]
    return xllamacpp.Server(params)


def main() -> None:
    """Listen in one thread, work in another."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever llama.cpp prints is not an answer
    worker = Worker(out)
    threading.Thread(target=worker.listen, daemon=True).start()
    worker.work(sys.argv[1])


if __name__ == "__main__":
    main()
