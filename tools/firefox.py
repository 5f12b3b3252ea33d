"""Drives an installed Firefox through WebDriver BiDi, its own protocol, for the tests.

Playwright's Firefox is a build of its own, and its driver for a stock one needs commands that the
long-term releases lack.
"""

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from websockets.sync.client import ClientConnection, connect

NAMES = ("firefox-esr", "firefox")
ADDRESS = re.compile(r"WebDriver BiDi listening on (ws://\S+)")
PATIENCE = 60  # seconds for one answer
WAIT = """new Promise((done) => {
  const look = () => ((%s) ? done(true) : setTimeout(look, 50));
  look();
})"""


class Firefox:
    """A running Firefox."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._number = 0
        self.problems: list[str] = []
        self.call("session.new", capabilities={})
        self.call("session.subscribe", events=["log.entryAdded"])

    def call(self, method: str, **params: Any) -> Any:
        """Return the result of a command. Collects the errors that the pages report meanwhile."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv(timeout=PATIENCE))
            if message.get("method") == "log.entryAdded" and message["params"]["level"] == "error":
                self.problems.append(str(message["params"].get("text")))
            if message.get("id") == self._number:
                if message["type"] == "error":
                    raise RuntimeError(f"{method}: {message['message']}")
                return message["result"]

    def open(self, address: str) -> "Tab":
        """Open an address in a new tab."""
        tab = Tab(self, self.call("browsingContext.create", type="tab")["context"])
        tab.go(address)
        return tab


class Tab:
    """A tab of Firefox."""

    def __init__(self, firefox: Firefox, id: str) -> None:
        self._firefox = firefox
        self._id = id

    def go(self, address: str) -> None:
        """Load an address."""
        self._firefox.call("browsingContext.navigate", context=self._id, url=address, wait="none")

    def evaluate(self, expression: str) -> Any:
        """Return what an expression of JavaScript gives, awaited; JSON only."""
        found = self._firefox.call(
            "script.evaluate",
            expression=f"(async () => JSON.stringify(await ({expression})))()",
            target={"context": self._id},
            awaitPromise=True,
        )
        if found["type"] == "exception":
            raise RuntimeError(found["exceptionDetails"]["text"])
        return json.loads(found["result"].get("value", "null"))

    def wait(self, condition: str) -> None:
        """Wait until a condition of JavaScript holds."""
        self.evaluate(WAIT % condition)

    def wait_for(self, selector: str, text: str = "") -> None:
        """Wait until an element with a text is there."""
        elements = f"[...document.querySelectorAll({json.dumps(selector)})]"
        self.wait(f"{elements}.some((one) => one.textContent.includes({json.dumps(text)}))")


def find_firefox() -> str | None:
    """Return the path of the installed Firefox."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def run_firefox(path: str) -> Iterator[Firefox]:
    """Run Firefox without a window and with an empty profile."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        command = [path, "--headless", "--remote-debugging-port=0", "--profile", profile]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        try:
            assert process.stderr is not None
            address = next(filter(None, map(ADDRESS.search, process.stderr)))[1]
            with connect(f"{address}/session", max_size=None) as socket:
                yield Firefox(socket)
        finally:
            process.terminate()
            process.communicate()
