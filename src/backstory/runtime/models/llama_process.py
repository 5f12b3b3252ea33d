"""llama.cpp's own server in a separate process.

    python -P -m backstory.runtime.models.llama_process MODEL_FILE

It loads the model, and writes one line: a JSON object with the address of the server and the key
for it, or with the reason why there is none.

It is a process because llama.cpp blocks all Python threads while it loads, so nothing could be
drawn, and because it takes over the signals. It ends when its standard input is closed, so it does
not outlive its caller.
"""

import json
import os
import secrets
import sys
from typing import Any

WINDOW = 4096  # tokens


def start_server(path: str, key: str) -> Any:
    """Load the model, and start the server in threads of this process."""
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
    params.api_keys = [key]  # without it, whoever uses this machine could ask the model
    return xllamacpp.Server(params)


def main() -> None:
    """Serve until standard input is closed."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # keep what llama.cpp prints out of the report
    key = secrets.token_hex(16)
    try:
        server = start_server(sys.argv[1], key)
        report = {"url": f"{server.listening_address}/v1", "key": key}
    except Exception as error:
        report = {"failed": str(error)}
    print(json.dumps(report), file=out, flush=True)
    if "url" in report:
        sys.stdin.read()
    os._exit(0)  # the server's threads would go on


if __name__ == "__main__":
    main()
