"""The chats of Gemini CLI: a document, or JSON lines in which a message is written again. Pure.

A message with the id of an earlier one replaces it. `$rewindTo` takes a message and everything
after it away. `$set.messages` is the whole history anew: the same one, its beginning, or a
compaction.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from backstory.transcripts.content import as_object, choose_name, list_objects, pick_texts
from backstory.transcripts.format import (
    KnownPlace,
    SourceHead,
    TranscriptFormat,
    TranscriptSource,
)
from backstory.transcripts.gemini.messages import (
    GeminiCall,
    MessageReader,
    is_speaking,
    list_calls,
    list_responses,
    read_likeness,
)
from backstory.transcripts.model import (
    Data,
    Entry,
    ImportReport,
    Origin,
    SourceMove,
    SourceSession,
    Step,
    Unit,
)

NAME = "gemini"
RUNNING = ("scheduled", "validating", "awaiting_approval", "executing")
TOOLS = ("tool_call", "tool_result")


class GeminiCliFormat(TranscriptFormat):
    """The chats of Gemini CLI."""

    name = NAME
    places = (KnownPlace(None, "tmp", "~/.gemini/tmp"),)

    def recognize(self, head: SourceHead) -> bool:
        """Return True for a session's id beside the hash of its project, or beside its times."""
        first = head.records[0] if head.records else None
        keys = set(first) if isinstance(first, dict) else head.keys
        if not keys >= {"sessionId", "projectHash"}:
            return keys >= {"sessionId", "startTime", "lastUpdated"}
        return True

    def group_key(self, path: str) -> str:
        """Return the folder of a project's chats. Sub-agents are in folders below it."""
        return path.rpartition("/chats/")[0] or path

    def read(
        self, sources: Sequence[TranscriptSource], report: ImportReport
    ) -> Iterator[SourceSession]:
        """Yield one session for each file that changed, sub-agents last."""
        chats = [GeminiChat(source) for source in sources]
        chats.sort(key=lambda chat: chat.is_subagent)
        for chat in chats:
            if not chat.source.is_changed:
                continue
            origin = None
            if chat.is_subagent:
                call = find_spawn_call(chat, chats)
                origin = Origin(chat.parent, call=call, is_spawned=True)
            yield self.build_session(chat.source, chat.id, chat.read_steps, chat.about, origin)


class GeminiChat:
    """One file, and what its first record says."""

    def __init__(self, source: TranscriptSource) -> None:
        self.source = source
        first = next(iter(list_objects(list(source.peek()[:1]))), {})
        self.id = choose_name(first.get("sessionId"), source.stem)
        self.is_subagent = first.get("kind") == "subagent"
        # A sub-agent is in a folder with the name of its session.
        self.parent = source.path.rpartition("/")[0].rpartition("/")[2]
        self.about: Data = {}
        self._is_document = not source.peek() or isinstance(first.get("messages"), list)

    def read_history(self, report: ImportReport) -> "GeminiHistory":
        """Return the messages in the order in which they came."""
        history = GeminiHistory(report)
        if self._is_document:
            document = self.source.read_document(report)
            if isinstance(document, dict):
                history.add_record(document, 1)
        else:
            for line, record, _ in self.source.lines(report):
                if isinstance(record, dict):
                    history.add_record(record, line)
        return history

    def read_steps(self, report: ImportReport) -> Iterator[Step]:
        """Yield the steps of the chat."""
        history = self.read_history(report)
        folders = history.meta.get("directories")
        cwd = folders[0] if isinstance(folders, list) and folders else None
        self.about.update(pick_texts(history.meta, {"title": "summary", "cwd": "projectHash"}))
        self.about.update(pick_texts({"cwd": cwd}, {"cwd": "cwd"}))
        yield from HistoryReader(history).read()


def find_spawn_call(chat: GeminiChat, chats: Sequence[GeminiChat]) -> str | None:
    """Return the id of the entry of the call that spawned a sub-agent."""
    for other in chats:
        if other.id == chat.parent:
            for node in other.read_history(ImportReport()).nodes:
                for call in list_calls(node.message):
                    if call.get("agentId") == chat.id:
                        return f"{node.entry_id}/call {call.get('id')}"
    return None


# --- the history ---


@dataclass(eq=False, slots=True)
class MessageNode:
    """A message at one place of the history, or a compaction."""

    message_id: str  # the tool's own
    entry_id: str
    after: "MessageNode | None"
    message: Data = field(default_factory=dict)
    kept: "list[MessageNode] | None" = None  # of a compaction: the messages that it begins with
    is_kept: bool = False  # it is one of them
    answered: frozenset[str] = frozenset()  # calls whose results are in an earlier message, too

    @property
    def is_speaking(self) -> bool:
        """True if the history would lack something without it."""
        return is_speaking(self.message)


class GeminiHistory:
    """The messages of a file in their order, and the live ones."""

    def __init__(self, report: ImportReport) -> None:
        self.meta: Data = {}
        self.nodes: list[MessageNode] = []
        self.last: MessageNode | None = None  # the message that the next one continues
        self._report = report
        self._live: dict[str, MessageNode] = {}  # by the tool's own id, in order
        self._answered: dict[str, MessageNode] = {}  # the message with a call and its result

    def add_record(self, record: Data, line: int) -> None:
        """Add a line, or the whole document."""
        if isinstance(record.get("$rewindTo"), str):
            self._rewind(record["$rewindTo"])
        elif isinstance(record.get("$set"), dict):
            changes = dict(record["$set"])
            messages = changes.pop("messages", None)
            self.meta |= changes
            if isinstance(messages, list):
                self._replace(list_objects(messages))
        elif isinstance(record.get("id"), str) and "type" in record:
            self._add_message(record)
        elif "sessionId" in record:
            self.meta |= {key: value for key, value in record.items() if key != "messages"}
            for message in list_objects(record.get("messages")):
                self._add_message(message)
        else:
            self._report.unknown[f"{','.join(sorted(record))[:40]} ({NAME})"] += 1

    def _add_message(self, message: Data) -> None:
        """Add a message, or replace the live one with its id."""
        id = name_message(message, f"message {len(self.nodes)}")
        node = self._live.get(id)
        if node is None:
            node = self._live[id] = self._add_node(id, id)
        self._fill(node, message)

    def _add_node(self, message_id: str, entry_id: str) -> MessageNode:
        node = MessageNode(message_id, entry_id, self.last)
        self.nodes.append(node)
        self.last = node
        return node

    def _fill(self, node: MessageNode, message: Data) -> None:
        node.message = message
        for call in list_calls(message):
            if call.get("result") and isinstance(call.get("id"), str):
                self._answered[call["id"]] = node
        ids = [response.get("id") for response in list_responses(message)]
        node.answered = frozenset(id for id in ids if isinstance(id, str) and self._is_answered(id))

    def _is_answered(self, call: str) -> bool:
        """Return True if a live message has a call with its result."""
        node = self._answered.get(call)
        return node is not None and self._live.get(node.message_id) is node

    def _rewind(self, message_id: str) -> None:
        """Go back to before a message. An unknown one empties the history."""
        live = list(self._live.values())
        start = live.index(self._live[message_id]) if message_id in self._live else 0
        for node in live[start:]:
            self._live.pop(node.message_id, None)
        if live[start:]:
            self.last = live[start].after

    def _replace(self, messages: list[Data]) -> None:
        """Take a whole history: the live one and maybe more, its beginning, or a compaction."""
        self._drop_announced(messages)
        ids = [name_message(message) for message in messages if is_speaking(message)]
        live = [node.message_id for node in self._live.values() if node.is_speaking]
        if live[: len(ids)] == ids and len(ids) < len(live) and messages:
            self._rewind(live[len(ids)])  # a prompt was broken off, and taken back
        elif ids[: len(live)] != live:
            self._compact(messages)
            return
        for message in messages:
            self._add_message(message)

    def _drop_announced(self, messages: list[Data]) -> None:
        """Drop the newest live messages if a whole history has them, and they repeat older ones.

        A history whose messages get new ids is written twice: message by message, as if all was
        said once more, and then as the whole. Only the whole counts.
        """
        ids = set(map(name_message, messages))
        live = list(self._live.values())
        start = len(live)
        while start and live[start - 1].message_id in ids:
            start -= 1
        known = {read_likeness(node.message) for node in live[:start] if node.is_speaking}
        new = [node.message for node in live[start:] if node.is_speaking]
        repeated = sum(read_likeness(message) in known for message in new)
        if 2 * repeated > len(new):
            self._rewind(live[start].message_id)
            self.nodes = [node for node in self.nodes if node not in live[start:]]

    def _compact(self, messages: list[Data]) -> None:
        """Begin anew with the messages of a compaction."""
        self._live = {}
        ids = [name_message(message, str(number)) for number, message in enumerate(messages)]
        # A compaction is known by what it begins with, whatever is lost before it.
        digest = blake2b("\0".join(ids).encode("utf-8", "replace"), digest_size=8).hexdigest()
        cut = self._add_node("", f"cut {digest}")
        cut.kept = []
        for id, message in zip(ids, messages, strict=True):
            node = self._live[id] = self._add_node(id, f"{id}@{digest}")
            node.is_kept = True
            cut.kept.append(node)
            self._fill(node, message)


def name_message(message: Data, otherwise: str = "") -> str:
    """Return the tool's own id of a message."""
    return choose_name(message.get("id"), otherwise)


# --- steps ---


class HistoryReader:
    """Reads the messages of a history as steps."""

    def __init__(self, history: GeminiHistory) -> None:
        self._nodes = history.nodes
        self._last = history.last
        self._entries: dict[MessageNode, list[Entry]] = {}

    def read(self) -> Iterator[Step]:
        """Yield the messages in the order in which they came, then a move to the live one."""
        self._read_entries()
        # A message that says nothing is no unit. What continues it continues the one before it.
        units: dict[MessageNode | None, str | None] = {None: None}
        last: str | None = None
        for number, node in enumerate(self._nodes):
            if node.kept is not None:
                self._mark_kept(node, node.kept)
            units[node] = units[node.after]
            entries = self._entries[node]
            if entries:
                is_complete = node is not self._nodes[-1] or not is_running(node.message)
                last = units[node] = str(number)
                yield Unit(last, units[node.after], tuple(entries), is_complete)
        if units[self._last] != last:
            yield SourceMove(units[self._last])

    def _read_entries(self) -> None:
        """Read the entries of all messages."""
        open_calls: dict[MessageNode | None, list[GeminiCall]] = {None: []}
        for node in self._nodes:
            calls = open_calls[node.after]
            entries = [Entry(node.entry_id, "clear")]
            if node.kept is None:
                reader = MessageReader(node.message, node.entry_id)
                entries = list(reader.read(node.answered, list(calls)))
            self._entries[node] = entries
            open_calls[node] = list_open_calls(calls, entries)

    def _mark_kept(self, cut: MessageNode, kept: list[MessageNode]) -> None:
        """Mark the entries that a compaction keeps as copies, or as its summary."""
        new = [entry for node in kept for entry in self._entries[node]]
        originals = find_originals(new, self._list_compacted(cut))
        for node in kept:
            entries = self._entries[node]
            self._entries[node] = [mark_kept(one, originals.get(one.id)) for one in entries]

    def _list_compacted(self, cut: MessageNode) -> list[Entry]:
        """Return the entries since the compaction before this one."""
        found: list[Entry] = []
        node = cut.after
        while node is not None and node.kept is None:
            entries = self._entries[node]
            found[:0] = [entry for entry in entries if not is_tool_answer(node, entry)]
            node = node.after
        return found


def mark_kept(entry: Entry, original: str | None) -> Entry:
    """Return an entry of a compaction as a copy, or as the summary."""
    if original is not None or entry.kind != "user" or "meta" in (entry.data or {}):
        return entry._replace(copy_of=original)
    return entry._replace(data={**(entry.data or {}), "compaction": True})


def list_open_calls(before: list[GeminiCall], entries: list[Entry]) -> list[GeminiCall]:
    """Return the calls without a result after some entries, oldest first."""
    calls = {call.id: call for call in before}
    for entry in entries:
        data = entry.data or {}
        if entry.kind == "tool_call":
            calls[data["id"]] = GeminiCall(data["id"], data["name"])
        elif entry.kind == "tool_result":
            calls.pop(data["id"], None)
        elif entry.kind == "clear":
            calls.clear()
    return list(calls.values())


def is_running(message: Data) -> bool:
    """Return True if a call of a message is not finished."""
    for call in list_calls(message):
        if call.get("status") in RUNNING and not call.get("result"):
            return True
    return False


def is_tool_answer(node: MessageNode, entry: Entry) -> bool:
    """Return True for the answer to a summary. The tool writes it in the same words each time."""
    return node.is_kept and entry.kind == "assistant" and entry.copy_of is None


def read_words(entry: Entry) -> tuple[str, str]:
    """Return a value that is equal for entries that say the same. A result may have been
    shortened, so its call counts."""
    if entry.kind in TOOLS:
        return entry.kind, str(as_object(entry.data).get("id"))
    return entry.kind, "".join((entry.content or "").split())


def find_originals(new: Sequence[Entry], old: Sequence[Entry]) -> dict[str, str]:
    """Return the entries of a new history that repeat those of an old one, with the earlier
    entries."""
    left = [(read_words(entry), entry.id) for entry in old]
    found: dict[str, str] = {}
    for entry in reversed(new):
        words = read_words(entry)
        same = [number for number, (known, _) in enumerate(left) if known == words and words[1]]
        if same:
            found[entry.id] = left[same[-1]][1]
            if entry.kind not in TOOLS:
                del left[same[-1] :]
    return found
