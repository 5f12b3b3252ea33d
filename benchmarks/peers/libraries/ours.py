"""backstory itself, as its documentation shows it."""

import os
from collections.abc import Sequence
from typing import Any

import backstory
from benchmarks.peers.conversations import Message, Turn
from benchmarks.peers.libraries.json_lines import post
from benchmarks.peers.peer import Peer

Draft = tuple[str, str | None, dict[str, Any] | None]


class Backstory(Peer):
    """A store in one SQLite file: WAL, synchronous = FULL, pages of 8 KB."""

    def __init__(self, place: str) -> None:
        self.store = backstory.open(self.address(place))
        self.agents: dict[str, backstory.Agent] = {}

    def address(self, place: str) -> str:
        """Where the store is."""
        return os.path.join(place, "ours.db")

    def native(self, turn: Turn) -> list[Draft]:
        return [draft(message) for message in turn]

    def append(self, session: str, turn: list[Draft]) -> None:
        """One extend() per turn: one transaction, one wait for the disk."""
        self._agent(session).extend(turn)

    def fill(self, session: str, turns: list[list[Draft]]) -> None:
        self._agent(session).extend([draft for turn in turns for draft in turn])

    def restore(self, session: str) -> list[backstory.Event]:
        """context(): reads only the live ranges, however much dead history there is."""
        return self._agent(session).context().messages

    def request(self, session: str) -> list[dict[str, Any]]:
        """conversation().dump(): events become messages in OpenAI's format, repaired where needed."""
        messages: list[dict[str, Any]] = (
            self._agent(session).conversation().dump("openai").body["messages"]
        )
        return messages

    def texts(self, restored: Sequence[backstory.Event]) -> list[str]:
        return [event.content or "" for event in restored if event.kind != "jump"]

    def point(self, session: str, messages: int) -> int:
        spoken = [event.seq for event in self.restore(session) if event.kind != "jump"]
        return spoken[messages - 1]

    def rewind(self, session: str, to: int) -> None:
        """jump(): one small event; what is left behind stays in the log and can be returned to."""
        self._agent(session).jump(to)

    def fork(self, session: str, at: int, name: str) -> str:
        """fork(): one row that points at the parent; nothing is copied."""
        self.agents[name] = self._agent(session).fork(name, at=at)
        return name

    def as_of(self, session: str, point: int) -> list[backstory.Event]:
        """context(at=…): the live ranges at that position, whatever was rewound or forked later."""
        return self._agent(session).context(point).messages

    def ask(self, session: str, question: str, base_url: str) -> None:
        """conversation() repairs the interruption, in the request only, and reports the repair."""
        self._agent(session).user(question)
        post(base_url, self.request(session))

    def close(self) -> None:
        self.store.close()

    def _agent(self, session: str) -> backstory.Agent:
        if session not in self.agents:
            try:
                self.agents[session] = self.store.agent(session)
            except backstory.NotFound:
                self.agents[session] = self.store.start(session)
        return self.agents[session]


def draft(message: Message) -> Draft:
    """A message as extend() takes it."""
    if message.kind == "tool_call":
        return (
            "tool_call",
            None,
            {"id": message.call, "name": message.tool, "arguments": message.text},
        )
    if message.kind == "tool_result":
        return "tool_result", message.text, {"id": message.call}
    return message.kind, message.text, None
