"""A local OpenAI-compatible server that says what a script tells it to say.

Each request takes the next act of the script. What it was sent is kept, and judged by the rules of the
wire. It never leaves this machine.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.wire.rules import violations


@dataclass(frozen=True)
class Say:
    """Text, word by word; then, perhaps, calls."""

    text: str = ""
    calls: tuple[tuple[str, str, str], ...] = ()  # id, name, arguments as text
    held: bool = False  # behind the text, nothing more comes until `release`
    drop_after: int | None = None  # close the connection behind so many words


@dataclass(frozen=True)
class Refuse:
    """An HTTP error."""

    status: int
    message: str = "no"
    headers: tuple[tuple[str, str], ...] = ()
    code: str | None = None


@dataclass(frozen=True)
class Send:
    """Any bytes, whatever they mean."""

    payload: bytes
    type: str = "text/event-stream"


Act = Say | Refuse | Send


@dataclass
class Server:
    url: str
    script: list[Act] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    _released: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        """Let go on what is held."""
        self._released.set()

    def hold(self) -> None:
        self._released.wait()

    @property
    def last(self) -> Any:
        return self.bodies[-1]

    def said(self) -> list[tuple[str, str]]:
        """The last request, as (role, text)."""
        return [(m["role"], m.get("content") or "") for m in self.last["messages"]]


@contextmanager
def scripted(*script: Act) -> Iterator[Server]:
    http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    http.daemon_threads = True
    http.block_on_close = False
    server = Server(f"http://127.0.0.1:{http.server_address[1]}/v1", list(script))
    http.stage = server  # type: ignore[attr-defined]
    thread = threading.Thread(
        target=http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    try:
        yield server
    finally:
        server.release()
        http.shutdown()
        thread.join()
        http.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self._json(
            200,
            {
                "object": "list",
                "data": [{"id": "scripted-1", "object": "model", "created": 0, "owned_by": "us"}],
            },
        )

    def do_POST(self) -> None:
        stage: Server = self.server.stage  # type: ignore[attr-defined]
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        stage.bodies.append(body)
        stage.keys.append(self.headers["Authorization"] or self.headers["X-Api-Key"])
        stage.refused += violations(
            body, "anthropic" if self.path.endswith("/messages") else "openai"
        )
        act = stage.script.pop(0) if stage.script else Say("(the script is over)")
        match act:
            case Refuse():
                error = {"message": act.message, "type": "x", "param": None, "code": act.code}
                self._json(act.status, {"error": error}, act.headers)
            case Send():
                self._send(act)
            case Say():
                self._stream(act, body)

    def _send(self, act: Send) -> None:
        self.send_response(200)
        self.send_header("Content-Type", act.type)
        self.end_headers()
        self.wfile.write(act.payload)

    def _json(self, status: int, value: Any, headers: tuple[tuple[str, str], ...] = ()) -> None:
        payload = json.dumps(value).encode()
        self.send_response(status)
        for name, text in (
            ("Content-Type", "application/json"),
            ("Content-Length", str(len(payload))),
            *headers,
        ):
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(payload)

    def _stream(self, act: Say, body: Any) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            for number, word in enumerate(act.text.split(" ") if act.text else ()):
                if act.drop_after is not None and number >= act.drop_after:
                    return
                self._delta({"content": word if number == 0 else f" {word}"})
            if act.held:
                self.server.stage.hold()  # type: ignore[attr-defined]
            for index, (id, name, arguments) in enumerate(act.calls):
                function = {"name": name, "arguments": ""}
                self._delta(
                    {
                        "tool_calls": [
                            {"index": index, "id": id, "type": "function", "function": function}
                        ]
                    }
                )
                for part in (arguments[:5], arguments[5:]):
                    self._delta({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
            self._delta({}, "tool_calls" if act.calls else "stop")
            self.wfile.write(b"data: [DONE]\n\n")
        except (BrokenPipeError, ConnectionResetError):
            return  # the client has had enough

    def _delta(self, delta: dict[str, Any], reason: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        chunk = {
            "id": "c",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": "scripted-1",
            "choices": [choice],
        }
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""
