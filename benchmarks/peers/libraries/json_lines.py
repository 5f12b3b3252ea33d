"""What many people write themselves: one JSON object per line, in a file per conversation."""

import json
import os
from collections.abc import Sequence
from itertools import islice
from typing import Any

from benchmarks.peers.conversations import Message, Turn, together
from benchmarks.peers.peer import Peer


class JsonLines(Peer):
    """A file of messages in OpenAI's format, with one fsync per turn."""

    def __init__(self, place: str) -> None:
        self.folder = place

    def native(self, turn: Turn) -> list[dict[str, Any]]:
        return [openai_form(messages) for messages in together(turn)]

    def append(self, session: str, turn: list[dict[str, Any]]) -> None:
        """Appends the lines to the file and waits for the disk."""
        with open(self._path(session), "a") as file:
            file.writelines(json.dumps(message) + "\n" for message in turn)
            file.flush()
            os.fsync(file.fileno())

    def fill(self, session: str, turns: list[list[dict[str, Any]]]) -> None:
        self._write(session, [message for turn in turns for message in turn])

    def restore(self, session: str) -> list[dict[str, Any]]:
        """Reads the whole file, one json.loads per line."""
        with open(self._path(session)) as file:
            return [json.loads(line) for line in file]

    def request(self, session: str) -> list[dict[str, Any]]:
        """The lines are already in a provider's format; nothing checks that they still fit together."""
        return self.restore(session)

    def texts(self, restored: Sequence[dict[str, Any]]) -> list[str]:
        return [message["content"] for message in restored]

    def rewind(self, session: str, to: int) -> None:
        """Writes the messages to keep to a new file that replaces the old one; the rest is gone."""
        with open(self._path(session)) as file:
            kept = list(islice(file, to))
        self._replace(session, kept)

    def fork(self, session: str, at: int, name: str) -> str:
        """Copies the lines up to there to a new file."""
        with open(self._path(session)) as file:
            self._replace(name, list(islice(file, at)))
        return name

    def as_of(self, session: str, point: int) -> list[dict[str, Any]]:
        """Reads the first lines of the file: right only if nothing was ever rewound."""
        with open(self._path(session)) as file:
            return [json.loads(line) for line in islice(file, point)]

    def ask(self, session: str, question: str, base_url: str) -> None:
        """Sends the lines as they are."""
        messages = [*self.restore(session), {"role": "user", "content": question}]
        post(base_url, messages)

    def _path(self, session: str) -> str:
        return os.path.join(self.folder, f"{session}.jsonl")

    def _write(self, session: str, messages: list[dict[str, Any]]) -> None:
        self._replace(session, [json.dumps(message) + "\n" for message in messages])

    def _replace(self, session: str, lines: list[str]) -> None:
        path = self._path(session)
        with open(path + ".new", "w") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".new", path)
        folder = os.open(self.folder, os.O_RDONLY)  # the name is durable only when its folder is
        os.fsync(folder)
        os.close(folder)


def openai_form(messages: list[Message]) -> dict[str, Any]:
    """One message, or the calls that the model made at once, as Chat Completions takes it."""
    message = messages[0]
    if message.kind == "tool_call":
        calls = [
            {
                "id": call.call,
                "type": "function",
                "function": {"name": call.tool, "arguments": call.text},
            }
            for call in messages
        ]
        return {"role": "assistant", "content": "", "tool_calls": calls}
    if message.kind == "tool_result":
        return {"role": "tool", "tool_call_id": message.call, "content": message.text}
    return {"role": message.kind, "content": message.text}


def post(base_url: str, messages: list[dict[str, Any]]) -> None:
    """Send a plain request; a refusal is the server's to note."""
    import urllib.request  # here: a new process that only reads is measured, too

    body = json.dumps({"model": "any", "messages": messages}).encode()
    request = urllib.request.Request(
        f"{base_url}/chat/completions", body, {"Content-Type": "application/json"}
    )
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request).close()
