"""The log store of simonw's llm, in a SQLite file of its own."""

import json
import os
from collections.abc import Sequence
from typing import Any

import llm
import sqlite_utils
from llm.logs import LogStore as Store
from llm.parts import TextPart, ToolCallPart, ToolResultPart

from benchmarks.peers.conversations import Message, Turn, together
from benchmarks.peers.peer import Peer

NEWEST = "select id from threads where name = ? order by rowid desc limit 1"
HASH_AT = """
    with recursive chain(hash, parent_hash, back) as (
        select hash, parent_hash, 0 from messages where hash = :tip
        union all
        select m.hash, m.parent_hash, back + 1 from chain join messages m on m.hash = chain.parent_hash)
    select hash from chain order by back desc limit 1 offset :position - 1"""


class LogStore(Peer):
    """Messages addressed by the hash of their content and their parent; a thread points at the newest.

    It leaves SQLite's own defaults alone: a rollback journal and synchronous = FULL, so every commit waits
    for the disk, and more than once, where a write-ahead log waits once.
    """

    def __init__(self, place: str) -> None:
        self.store = Store(sqlite_utils.Database(os.path.join(place, "logs.db")))
        self.threads: dict[str, str] = {}

    def native(self, turn: Turn) -> list[llm.Message]:
        return [native_form(messages) for messages in together(turn)]

    def append(self, session: str, turn: list[llm.Message]) -> None:
        """append() in one transaction, as its own log() does: hashes, looks up and writes every message."""
        thread = self._thread(session)
        with self.store.db.atomic():
            self.store.append(thread, turn)

    def fill(self, session: str, turns: list[list[llm.Message]]) -> None:
        self.append(session, [message for turn in turns for message in turn])

    def restore(self, session: str) -> list[llm.Message]:
        """load_chain(): one SELECT per message, last to first, then one for all parts."""
        return self.store.thread_messages(self._thread(session))

    def texts(self, restored: Sequence[llm.Message]) -> list[str]:
        return ["".join(_text(part) for part in message.parts) for message in restored]

    def point(self, session: str, messages: int) -> str:
        tip = self.store.thread_tip(self._thread(session))
        [row] = self.store.db.query(HASH_AT, {"tip": tip, "position": messages})
        return str(row["hash"])

    def fork(self, session: str, at: str, name: str) -> str:
        """fork(): one row that points at a message's hash; nothing is copied."""
        self.threads[name] = self.store.fork(at, name, forked_from=self._thread(session))
        return name

    def rewind(self, session: str, to: str) -> None:
        """fork() under the same name: one row; the newest thread of a name counts, the old one stays."""
        self.fork(session, to, session)

    def as_of(self, session: str, point: str) -> list[llm.Message]:
        """load_chain() of that message's hash: one SELECT per message, then one for all parts."""
        return self.store.load_chain(point)

    def ask(self, session: str, question: str, base_url: str) -> None:
        """Loads the thread's messages into a conversation, as `llm -c` does, and sends them as they are."""
        conversation = endpoint(base_url).conversation()
        conversation.loaded_messages = self.restore(session)
        conversation.prompt(question, stream=False).text()

    def close(self) -> None:
        self.store.db.close()

    def _thread(self, session: str) -> str:
        """A fork's name is ours to choose, its id is not: a session is the newest thread of its name."""
        if session not in self.threads:
            found = list(self.store.db.query(NEWEST, [session]))
            self.threads[session] = (
                found[0]["id"] if found else self.store.ensure_thread(session, session)
            )
        return self.threads[session]


def endpoint(base_url: str) -> Any:
    """Its model class for OpenAI-compatible endpoints, which need no key, without retries and proxies."""
    # Not for a restore, so imported here: what a new process costs is measured, too.
    from llm.default_plugins.openai_models import Chat
    from openai import DefaultHttpxClient

    class Endpoint(Chat):
        needs_key = None

        def get_client(self, key: str | None, **options: Any) -> Any:
            direct = DefaultHttpxClient(trust_env=False)
            return (
                super().get_client(key, **options).with_options(max_retries=0, http_client=direct)
            )

    return Endpoint("any", api_base=base_url)


def native_form(messages: list[Message]) -> llm.Message:
    """One message, or the calls that the model made at once, as llm keeps them."""
    message = messages[0]
    if message.kind == "tool_call":
        return llm.Message("assistant", [_call(call) for call in messages])
    if message.kind == "tool_result":
        return llm.Message("tool", [ToolResultPart(message.tool, message.text, message.call)])
    return llm.Message(message.kind, [TextPart(message.text)])


def _call(message: Message) -> ToolCallPart:
    return ToolCallPart(message.tool, json.loads(message.text), message.call)


def _text(part: Any) -> str:
    if isinstance(part, ToolCallPart):
        return json.dumps(part.arguments)
    return str(part.output if isinstance(part, ToolResultPart) else part.text)
