"""The real program with Anthropic's own SDK, against a server with a script: tools, thinking, a restart."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.wire.rules import violations

BEGINS = {"id": "m", "type": "message", "role": "assistant", "model": "claude-x", "content": []}
USAGE = {"input_tokens": 7, "output_tokens": 1}
THINKS = (
    {"type": "thinking", "thinking": "", "signature": ""},
    {"type": "thinking_delta", "thinking": "Hm."},
    {"type": "signature_delta", "signature": "c2ln"},
)


def calls(id, arguments):
    block = {"type": "tool_use", "id": id, "name": "glob", "input": {}}
    return block, {"type": "input_json_delta", "partial_json": arguments}


def says(text):
    return {"type": "text", "text": ""}, {"type": "text_delta", "text": text}


def answer(*blocks, ended="end_turn"):
    """The events of one answer, as the service streams them."""
    yield "message_start", {"message": BEGINS | {"usage": USAGE, "stop_reason": None, "stop_sequence": None}}
    for index, (block, *deltas) in enumerate(blocks):
        yield "content_block_start", {"index": index, "content_block": block}
        for delta in deltas:
            yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    yield "message_delta", {"delta": {"stop_reason": ended, "stop_sequence": None}, "usage": USAGE}
    yield "message_stop", {}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for kind, data in self.server.script.pop(0):
            self.wfile.write(f"event: {kind}\ndata: {json.dumps({'type': kind} | data)}\n\n".encode())

    def log_message(self, format, *args):
        """Say nothing."""


@contextmanager
def service(*script):
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.script, server.bodies = list(script), []
        server.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_tools_and_thinking_go_there_and_back_and_survive_a_restart(start, reopened):
    first = answer(THINKS, says("Looking."), calls("t1", '{"pattern": "*.py"}'), ended="tool_use")
    with service(first, answer(says("Two of them.")), answer(says("Still two."))) as server:
        arguments = ("--model", "anthropic:claude-x", "--base-url", server.url)
        terminal = start(None, *arguments)
        terminal.send("Which?")
        terminal.answered("Two of them.")
        assert terminal.leave() == 0
        again = start(None, *arguments)
        assert "● glob *.py" in again.ready()
        again.send("Sure?")
        again.answered("Still two.")
        assert [violations(body, "anthropic") for body in server.bodies] == [[]] * 3
        thought, text, call = server.bodies[-1]["messages"][1]["content"]
        assert (thought["thinking"], thought["signature"]) == ("Hm.", "c2ln")
        assert (text["text"], call["name"], call["input"]) == ("Looking.", "glob", {"pattern": "*.py"})
    assert [event.kind for event in reopened().context().messages if event.kind != "note"] == [
        "system", "user", "assistant", "tool_call", "tool_result", "assistant", "user", "assistant",
    ]  # fmt: skip
