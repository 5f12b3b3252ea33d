"""A local server that streams what it is given as server-sent events: for Anthropic, Responses and Gemini."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.paths.append(self.path)
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        act = self.server.script.pop(0)
        status, kind = (
            (act[0], "application/json") if isinstance(act, tuple) else (200, "text/event-stream")
        )
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()
        if isinstance(act, tuple):
            self.wfile.write(json.dumps(act[1]).encode())
            return
        for event in act:
            name = f"event: {event['type']}\n" if "type" in event else ""
            self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())

    def log_message(self, format, *args):
        """Say nothing."""


@contextmanager
def event_server(*script):
    """Each request gets the next list of events, or (status, body)."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.script, server.bodies, server.paths = list(script), [], []
        server.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def responses_events(*items, usage=None, **end):
    """The events of one answer of OpenAI's Responses."""
    head = {"id": "resp_1", "object": "response", "model": "gpt-5", "created_at": 0, "tools": []}
    head |= {"parallel_tool_calls": True, "tool_choice": "auto", "output": []}
    yield {"type": "response.created", "sequence_number": 0, "response": head}
    for index, item in enumerate(items):
        place = {"output_index": index, "sequence_number": index + 1, "item_id": item["id"]}
        for part in item.get("summary", ()):
            yield {
                "type": "response.reasoning_summary_text.delta", "summary_index": 0,
                "delta": part["text"], **place,
            }  # fmt: skip
        for part in item.get("content", ()):
            for word in part["text"].split(" "):
                delta = {"content_index": 0, "delta": word + " ", "logprobs": [], **place}
                yield {"type": "response.output_text.delta", **delta}
        yield {"type": "response.output_item.done", "item": item, **place}
    done = (
        head
        | {
            "status": "completed",
            "output": list(items),
            "usage": usage or {"input_tokens": 5, "output_tokens": 7},
        }
        | end
    )
    yield {"type": "response.completed", "sequence_number": 99, "response": done}


def reasoning(text, sealed):
    summary = [{"type": "summary_text", "text": text}]
    return {"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": sealed}


def message(text):
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {
        "type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content,
    }  # fmt: skip


def function_call(id, name, arguments):
    call = {"call_id": id, "name": name, "arguments": arguments, "status": "completed"}
    return {"type": "function_call", "id": f"fc_{id}", **call}


def gemini_chunk(*parts, ended=None):
    candidate = {"content": {"role": "model", "parts": list(parts)}} | (
        {"finishReason": ended} if ended else {}
    )
    usage = {"promptTokenCount": 4, "candidatesTokenCount": 3, "totalTokenCount": 7}
    return {"candidates": [candidate], "usageMetadata": usage}
