"""A strict stand-in for OpenAI and Anthropic on the loopback: takes what they take, refuses what they refuse.

The real SDK clients speak to it. It says one canned answer, or HTTP 400 in the provider's shape and words; it
must not know how backstory dumps, and it never leaves this machine.
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

ANSWER = "ok"
FORMATS = {
    "/v1/chat/completions": "openai",
    "/v1/responses": "openai-responses",
    "/v1/messages": "anthropic",
}


@dataclass(frozen=True)
class Exchange:
    """One request as it came over the wire, and every reason to refuse it."""

    path: str
    body: Any
    refused_for: list[str]


@dataclass
class StubServer:
    """Where the server listens, and what it was sent so far, oldest first."""

    url: str
    exchanges: list[Exchange] = field(default_factory=list)

    @property
    def last(self) -> Exchange:
        """The latest request."""
        return self.exchanges[-1]


@contextmanager
def stub_server() -> Iterator[StubServer]:
    """A server on a free port of the loopback for as long as the block runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    # Joined at the end, so that no socket outlives the block: warnings are errors in the tests.
    server.daemon_threads = False
    server.stub = StubServer(f"http://127.0.0.1:{server.server_address[1]}")  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.stub  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def openai_client(server: StubServer) -> Any:
    """The real OpenAI client, pointed at the stub; close it, or use it as a context manager."""
    import openai

    # No proxy from the environment: the loopback is here.
    http = openai.DefaultHttpxClient(trust_env=False)
    return openai.OpenAI(
        base_url=f"{server.url}/v1", api_key="none", max_retries=0, http_client=http
    )


def anthropic_client(server: StubServer) -> Any:
    """The real Anthropic client, pointed at the stub; close it, or use it as a context manager."""
    import anthropic

    http = anthropic.DefaultHttpxClient(trust_env=False)
    return anthropic.Anthropic(base_url=server.url, api_key="none", max_retries=0, http_client=http)


class _Handler(BaseHTTPRequestHandler):
    """Reads one request, judges it, answers; HTTP/1.0, so that each connection ends with its answer."""

    def do_POST(self) -> None:
        path = self.path.partition("?")[0]
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        format = FORMATS.get(path)
        if format is None:
            self._send(404, _error("openai", f"Invalid URL (POST {path})"))
            return
        body = _read(raw)
        # As OpenAI does: what is not said to be left alone is stored.
        stored = not isinstance(body, dict) or body.get("store") is not False
        refused_for = violations(body, format, strict=False, stored=stored)
        self.server.stub.exchanges.append(Exchange(path, body, refused_for))  # type: ignore[attr-defined]
        if refused_for:
            self._send(400, _error(format, refused_for[0]))
        elif body.get("stream"):
            self._send(200, _sse(STREAMS[format](body)), "text/event-stream")
        else:
            self._send(200, json.dumps(ANSWERS[format](body)).encode())

    def _send(self, status: int, payload: bytes, type: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", type)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the tests read the exchanges."""


def _read(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        return None  # which is no object, and refused as such


def _error(format: str, message: str) -> bytes:
    if format == "anthropic":
        error: dict[str, Any] = {"type": "invalid_request_error", "message": message}
        return json.dumps({"type": "error", "error": error, "request_id": "req_stub"}).encode()
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
    return json.dumps({"error": error}).encode()


def _chat(body: dict[str, Any]) -> dict[str, Any]:
    message = {"role": "assistant", "content": ANSWER, "refusal": None}
    return {
        "id": "chatcmpl-stub",
        "object": "chat.completion",
        "created": 0,
        "model": body.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def _response(body: dict[str, Any]) -> dict[str, Any]:
    text = {"type": "output_text", "text": ANSWER, "annotations": []}
    message = {
        "type": "message",
        "id": "msg_stub",
        "status": "completed",
        "role": "assistant",
        "content": [text],
    }
    return {
        "id": "resp_stub",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": body.get("model"),
        "output": [message],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _message(body: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "msg_stub",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": [{"type": "text", "text": ANSWER}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def _chat_stream(body: dict[str, Any]) -> Iterator[tuple[str | None, Any]]:
    head = {
        "id": "chatcmpl-stub",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": body.get("model"),
    }
    for delta, reason in (({"role": "assistant", "content": ANSWER}, None), ({}, "stop")):
        yield None, {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}
    yield None, "[DONE]"


def _response_stream(body: dict[str, Any]) -> Iterator[tuple[str | None, Any]]:
    where = {"item_id": "msg_stub", "output_index": 0, "content_index": 0, "logprobs": []}
    events: list[tuple[str, dict[str, Any]]] = [
        (
            "response.created",
            {"response": {**_response(body), "status": "in_progress", "output": []}},
        ),
        ("response.output_text.delta", {**where, "delta": ANSWER}),
        ("response.completed", {"response": _response(body)}),
    ]
    for number, (type, more) in enumerate(events):
        yield type, {"type": type, "sequence_number": number, **more}


def _message_stream(body: dict[str, Any]) -> Iterator[tuple[str | None, Any]]:
    events: list[tuple[str, dict[str, Any]]] = [
        ("message_start", {"message": {**_message(body), "content": [], "stop_reason": None}}),
        ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
        ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": ANSWER}}),
        ("content_block_stop", {"index": 0}),
        (
            "message_delta",
            {
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "usage": {"output_tokens": 1},
            },
        ),
        ("message_stop", {}),
    ]
    for type, more in events:
        yield type, {"type": type, **more}


def _sse(events: Iterator[tuple[str | None, Any]]) -> bytes:
    lines = []
    for name, data in events:
        lines += [f"event: {name}"] if name else []
        lines += [f"data: {data if isinstance(data, str) else json.dumps(data)}", ""]
    return ("\n".join(lines) + "\n").encode()


ANSWERS = {"openai": _chat, "openai-responses": _response, "anthropic": _message}
STREAMS = {
    "openai": _chat_stream,
    "openai-responses": _response_stream,
    "anthropic": _message_stream,
}
