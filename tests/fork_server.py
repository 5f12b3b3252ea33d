"""The server behind `tests/programs.py`: it imports what a program needs once, and forks one for each order.

    python -m tests.fork_server SOCKET

It has no threads when it forks. It ends when the process that started it closes the socket.
"""

import atexit
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import resource
import signal
import socket
import sys
import termios
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

MODULES = (
    "backstory.chat.ask",
    "backstory.chat.worker",
    "backstory.cli.main",
    "backstory.storage.postgres.backend",
    "backstory.storage.sqlite.backend",
    "rich.progress",
)


def warm_up() -> None:
    """Import the commands and the chat, and what is imported only when a client is made or tokens are
    counted."""
    import backstory
    from backstory.cli import commands

    found = pkgutil.iter_modules(commands.__path__, f"{commands.__name__}.")
    for module in (*MODULES, *(command.name for command in found)):
        importlib.import_module(module)
    from backstory.runtime.models.openai import OpenAIModel

    OpenAIModel("gpt-4o", base_url="http://127.0.0.1:9/v1").close()
    with backstory.open(":memory:") as store:
        store.start(system="s").conversation().tokens("gpt-4o")
    gc.freeze()


def serve(orders: socket.socket) -> dict[str, Any]:
    """Fork a program for each order. Returns, in the program, what was ordered."""
    assert threading.active_count() == 1
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who watch
    while True:
        _, files, *_ = socket.recv_fds(orders, 1, 4)
        if not files:
            os._exit(0)
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            orders.close()
            return _watch(socket.socket(fileno=files[0]), files[1:])
        for file in files:
            os.close(file)


def _watch(line: socket.socket, files: list[int]) -> dict[str, Any]:
    """Fork the program, and report its process id and its exit code. Returns in the program only."""
    order: dict[str, Any] = json.loads(line.makefile().readline())
    pid = os.fork()
    if pid == 0:
        line.close()
        os.setsid()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        return order
    for number in range(3):
        os.close(number)
    for file in files:
        os.close(file)
    line.sendall(f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    with line:
        line.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())
    os._exit(0)


def become(order: dict[str, Any]) -> None:
    """Make this process what the program would find if it had been started by itself."""
    for kind in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(kind, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python has it
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
    sys.argv = ["backstory", *order["arguments"]]
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        errors = "backslashreplace" if number == 2 else "strict"
        buffering = 1 if number == 2 or os.isatty(number) else -1
        stream = open(number, mode, buffering, encoding="utf-8", errors=errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    prepare(order["largest_file"])


def prepare(largest_file: int) -> None:
    """What a program needs whichever way it was started: its terminal, and a disk as full as is wished."""
    if os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if largest_file:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))


def end(main: Callable[[], None]) -> NoReturn:
    """Run a program to its end, without the last step: to take all modules apart would copy every page that
    the server shares with it, which is more work than most commands do."""
    try:
        main()
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        code = 120  # as Python has it
    os._exit(code)


if __name__ == "__main__":
    from backstory.cli import main  # before the module of the same name hides it

    warm_up()
    become(serve(socket.socket(fileno=int(sys.argv[1]))))
    end(main)
