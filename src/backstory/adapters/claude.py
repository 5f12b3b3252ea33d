"""The Claude Agent SDK: `ClaudeAgentOptions(session_store=BackstorySessionStore("history.db"))`.

A session is an agent, the transcript of a sub-agent is one below it. A line of a transcript is
kept exactly, and is the messages that an import of it would be. A compaction or a rewind of
Claude's own is a move in the log. Claude finds its way by itself, so `load` returns the lines on
both sides of it.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from uuid import UUID, uuid5

from claude_agent_sdk import fold_session_summary

from backstory import Agent, Conflict, Event, replay
from backstory.adapters.items import (
    Item,
    ItemReader,
    TurnItem,
    build_item,
    build_note,
    clean_text,
    read_note,
    read_own_items,
    write_blocks,
)
from backstory.adapters.stores import (
    AdapterStore,
    DraftTuple,
    KeylessDraft,
    KnownHeads,
    Where,
    build_clear,
    build_jump,
    build_prefix,
    check_type,
    copy_in_slices,
    read_ids,
    undo_own_moves,
)
from backstory.aio import in_thread
from backstory.log.erasure import is_erased
from backstory.log.items import read_json, write_item
from backstory.transcripts import Entry
from backstory.transcripts.claude_code import ClaudeTree, LineUnits, index_lines, read_entries
from backstory.wire.neutral import AnsweredCall, list_parts
from backstory.wire.reading import read_native_parts
from backstory.wire.translation import is_same_text
from backstory.wire.turns import AnswerTurn, MessageTurn, text_of

if TYPE_CHECKING:
    from claude_agent_sdk import (
        SessionKey,
        SessionListSubkeysKey,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
    )

__all__ = ["BackstorySessionStore"]

ADAPTER = "claude"
FORMAT = "anthropic"
NOTE = f"{ADAPTER}.line"  # a line that is not a message
SUMMARY = f"{ADAPTER}.summary"
FORKED = f"{ADAPTER}.forked"  # after it, a fork has the lines that Claude copied
ERASED_TEXT = "(erased)"
NEWEST = 64  # live events that show what a line usually continues
FOREIGN = UUID("0f1f6f0e-52b3-5d5c-8e07-3f0d3e0a5a11")  # the namespace of lines of others

Line = dict[str, Any]
T = TypeVar("T")


class BackstorySessionStore:
    """A session store of the Claude Agent SDK in a backstory store.

    With `repair`, calls that another program left open get the result "interrupted" when Claude
    loads a session.
    """

    def __init__(self, where: Where, *, repair: bool = True) -> None:
        self.repair = repair
        self._store = AdapterStore(where, ADAPTER)
        self._known: KnownHeads[TranscriptEnd] = KnownHeads()

    def agent(self, key: "SessionKey") -> Agent:
        """Return the agent with a transcript. It is created if it does not exist."""
        ids = _list_ids(key)
        main = self._store.build_key(*ids[:2])
        if len(ids) == 2:
            return self._store.ensure(main)
        return self._store.spawn(main, self._store.build_key(*ids))

    def fork(self, key: "SessionKey", new_session_id: str, up_to: str | None = None) -> Agent:
        """Return a new session that continues the end of a session, or the line with a uuid: one
        row. Raises AgentNotFound, KeyTaken, and ValueError for a uuid that no line has."""
        project, session, *_ = _list_ids(key)
        source = self._store.store.agent(key=self._store.build_key(project, session))
        at = None if up_to is None else _find_line(source, up_to)
        return self._store.fork(source, self._store.build_key(project, new_session_id), at)

    def close(self) -> None:
        """Release the store. Every later call raises RuntimeError."""
        self._store.close()

    # --- the SDK's interface ---

    async def append(self, key: "SessionKey", entries: "list[SessionStoreEntry]") -> None:
        """Append lines, all or none. A line that is there already is not written again."""
        self._store.check_open()
        if entries:
            texts = await copy_in_slices(_dump_line, entries)
            await in_thread(partial(self._append, key, texts))

    async def load(self, key: "SessionKey") -> "list[SessionStoreEntry] | None":
        """Return all lines as they were written, and those of others; None if there never were
        any."""
        read = partial(_load_lines, session_id=key["session_id"], repair=self.repair)
        return await self._read(key, read, None)

    async def list_sessions(self, project_key: str) -> "list[SessionStoreListEntry]":
        """Return the sessions of a project, with the times of their last writes."""
        return await in_thread(partial(self._list_sessions, project_key))

    async def list_session_summaries(self, project_key: str) -> "list[SessionSummaryEntry]":
        """Return the SDK's own summaries of the sessions of a project."""
        return await in_thread(partial(self._list_summaries, project_key))

    async def delete(self, key: "SessionKey") -> None:
        """Delete a transcript, and those of its sub-agents with a session. Forks of it stay."""
        await in_thread(partial(self._store.delete_tree, *_list_ids(key)))

    async def list_subkeys(self, key: "SessionListSubkeysKey") -> list[str]:
        """Return the subpaths of the transcripts of a session's sub-agents."""
        agents = await in_thread(partial(self._list_subagents, key))
        return [read_ids(agent)[-1] for agent in agents if agent.listed_head]

    # --- reading ---

    async def _read(self, key: "SessionKey", call: Callable[[Agent], T], default: T) -> T:
        agent_key = self._store.build_key(*_list_ids(key))
        return await in_thread(partial(self._store.read, agent_key, call, default))

    def _list_sessions(self, project_key: str) -> "list[SessionStoreListEntry]":
        prefix = build_prefix(ADAPTER, project_key)
        sessions: list[SessionStoreListEntry] = []
        # The SDK sorts by the time and keeps this order within a millisecond.
        for agent in self._store.store.agents(prefix=prefix, order="updated"):
            is_main = "/" not in (agent.key or "").removeprefix(prefix)
            if is_main and agent.listed_head:
                sessions.append({"session_id": read_ids(agent)[-1], "mtime": _get_mtime(agent)})
        return sessions

    def _list_summaries(self, project_key: str) -> "list[SessionSummaryEntry]":
        prefix = build_prefix(ADAPTER, project_key)
        summaries: list[SessionSummaryEntry] = []
        notes = self._store.store.last_notes(SUMMARY, prefix=prefix)
        notes.sort(key=lambda found: found[0].updated_at, reverse=True)
        for agent, note in notes:
            data = read_note(note) or {}
            session_id = read_ids(agent)[-1]
            summaries.append({"session_id": session_id, "mtime": _get_mtime(agent), "data": data})
        return summaries

    def _list_subagents(self, key: "SessionKey | SessionListSubkeysKey") -> list[Agent]:
        return self._store.store.agents(prefix=build_prefix(ADAPTER, *_list_ids(key)))

    # --- writing ---

    def _append(self, key: "SessionKey", texts: Sequence[str]) -> None:
        lines = [NewLine.read(text) for text in texts]
        write = partial(self._append_lines, key=key, lines=lines)
        agent_key = self._store.build_key(*_list_ids(key))
        is_written = self._store.read(agent_key, write, False)
        if not is_written:
            write(self._begin(key, [new.line for new in lines]))

    def _begin(self, key: "SessionKey", lines: Sequence[Line]) -> Agent:
        """Return the new agent of a transcript. It is a fork if Claude forked another session: then
        its first lines are copies."""
        copies = [line for line in lines if _read_original(line) is not None]
        if not copies or "subpath" in key:
            return self.agent(key)
        session = str(copies[0]["forkedFrom"].get("sessionId"))
        source = self._store.find(self._store.build_key(key["project_key"], session))
        if source is None:
            return self.agent(key)
        position = _find_copied_end(source, session, copies)
        if position is None:
            return self.agent(key)
        return self._store.fork(source, self._store.build_key(*_list_ids(key)), position)

    def _append_lines(self, agent: Agent, key: "SessionKey", lines: Sequence["NewLine"]) -> bool:
        """Append the lines that are new. Return True: the agent exists."""
        with self._known.hold(agent) as known:
            while True:
                end = known.value
                if end is None or end.agent is not agent:
                    end = TranscriptEnd.read(agent, key)
                known.value = None  # until the lines are written
                batch = TranscriptBatch(end, end.take_new(lines)).build()
                try:
                    if batch:
                        end.head = agent.extend(batch, expected=end.head)[-1].seq
                except Conflict:  # somebody else appended: read again
                    continue
                known.value = end
                return True


def _list_ids(key: "SessionKey | SessionListSubkeysKey") -> list[str]:
    ids = [key["project_key"], key["session_id"]]
    subpath = key.get("subpath")
    return ids if subpath is None else [*ids, str(subpath)]


def _get_mtime(agent: Agent) -> int:
    return int(agent.updated_at.timestamp() * 1_000)


# --- reading lines ---


def _load_lines(agent: Agent, session_id: str, repair: bool) -> Any:
    events = agent.events()
    if not events:
        return None
    return [item.value for item in _read_lines(agent, events, session_id, repair)]


def _read_lines(agent: Agent, events: Sequence[Event], session_id: str, repair: bool) -> list[Item]:
    """Return the lines in all events of a log. Claude's own moves count as notes; those of people
    end the lines. A line of others continues the line before it."""
    shown = _list_shown(agent, events)
    items: list[Item] = []
    last: str | None = None
    for item in _open_reader(session_id, events, repair).read_events(shown):
        line = item.value
        if not item.is_own:
            line = {**line, "parentUuid": last}
        elif item.last <= agent.fork_seq and "sessionId" in line:
            line = {**line, "sessionId": session_id}
        items.append(item._replace(value=line))
        last = line.get("uuid") or last
    return items


def _list_shown(agent: Agent, events: Sequence[Event]) -> list[Event]:
    """Return the events whose lines Claude is given."""
    shown: list[Event] = []
    for event in undo_own_moves(ADAPTER, agent, events):
        if event.kind == "note" and event.content == FORKED:
            shown.clear()
        else:
            shown.append(_show_erased(event))
    return shown


def _open_reader(session_id: str, events: Sequence[Event], repair: bool) -> ItemReader:
    return ItemReader(ADAPTER, [NOTE], LineWriter(session_id, events), repair)


def _show_erased(event: Event) -> Event:
    """Return a message that says that it was erased: other lines continue it."""
    if event.kind not in ("user", "assistant") or not is_erased(event.data_json):
        return event
    return Event.of(event.seq, event.kind, ERASED_TEXT, None, event.created_at, key=event.key)


def _read_original(line: Line) -> str | None:
    """Return the uuid of the line that Claude copied when it forked a session."""
    source = line.get("forkedFrom")
    uuid = source.get("messageUuid") if isinstance(source, dict) else None
    return uuid if isinstance(uuid, str) else None


def _find_copied_end(source: Agent, session_id: str, copies: Sequence[Line]) -> int | None:
    """Return the position up to which the context of `source` says what copies of its lines say;
    None if they say something else."""
    events = source.messages(notes=[NOTE])
    items = _open_reader(session_id, events, False).read_events(events)
    originals = _map_copies([item.value for item in items])
    copied = set()
    for line in copies:
        if read_entries(line, ""):
            uuid = str(_read_original(line))
            copied.add(originals.get(uuid, uuid))
    position = None
    for item in items:
        uuid = item.value.get("uuid")
        if uuid in copied:
            position = item.last
            copied.remove(uuid)
        elif copied and uuid not in originals and read_entries(item.value, ""):
            return None
    return None if copied else position


def _map_copies(lines: Sequence[Line]) -> dict[str, str]:
    """Return for the uuid of each copied line that of its first original."""
    originals: dict[str, str] = {}
    for line in lines:
        original = _read_original(line)
        if original is not None:
            originals[str(line.get("uuid"))] = originals.get(original, original)
    return originals


def _find_line(agent: Agent, uuid: str) -> int:
    """Return the position of the last event of the line with a uuid."""
    positions = [
        item.last
        for item in read_own_items(ADAPTER, agent.events())
        if item.value.get("uuid") == uuid
    ]
    if not positions:
        raise ValueError(f"no line of {agent.name!r} has the uuid {uuid!r}")
    return positions[-1]


# --- writing lines ---


def _dump_line(line: Any) -> str:
    """Return the JSON of a line."""
    check_type(line, dict, "a line of a transcript")
    return write_item(line)


class NewLine(NamedTuple):
    """A line to be written. Its key names its uuid and its content: if it was changed, it is
    another line. A line without a uuid has none."""

    line: Line
    text: str
    key: str | None

    @classmethod
    def read(cls, text: str) -> "NewLine":
        """Return the line with this JSON."""
        line = read_json(text)
        uuid = line.get("uuid")
        if not isinstance(uuid, str):
            return cls(line, text, None)
        digest = sha256(text.encode()).hexdigest()
        return cls(line, text, f"{ADAPTER}:{clean_text(uuid[:100])}:{digest[:16]}")


def _read_uuid(key: str | None) -> str | None:
    """Return the uuid in the key of a line."""
    adapter, _, rest = (key or "").partition(":")
    uuid, _, digest = rest.rpartition(":")
    return uuid if adapter == ADAPTER and len(digest) == 16 else None


class TranscriptEnd:
    """The known end of a transcript: enough to append most lines without reading."""

    def __init__(self, agent: Agent, key: "SessionKey") -> None:
        self.agent = agent
        self.key = key
        self.is_main = "subpath" not in key
        self.head = 0
        self.units = LineUnits()
        self.spoken: str | None = None  # the uuid of the newest live line that says something
        self.summary: dict[str, Any] | None = None  # None: there is none in the context
        self._keys: set[str] = set()  # of all lines

    @classmethod
    def read(cls, agent: Agent, key: "SessionKey") -> "TranscriptEnd":
        """Read a transcript. This is done once in a process, and after writes of others."""
        end = cls(agent, key)
        events = agent.events()
        if not events:
            return end
        end.head = events[-1].seq
        end._keys.update(event.key for event in events if event.key is not None)
        live = replay(events, agent=agent.name).messages
        for item in read_own_items(ADAPTER, live[-NEWEST:]):
            end.add(item.value)
        for event in reversed(live):
            if event.kind == "note" and event.content == SUMMARY:
                end.summary = read_note(event)
                break
        return end

    def add(self, line: Line) -> None:
        """Add a line after the others."""
        self.units.add(line)
        if self.read_entries(line):
            uuid = line.get("uuid")
            self.spoken = uuid if isinstance(uuid, str) and uuid else None

    def read_entries(self, line: Line) -> list[Entry]:
        """Return the entries of a line. Those of sub-agents are not part of the main transcript,
        into which older versions wrote them."""
        if self.is_side(line):
            return []
        return read_entries(line, str(line.get("uuid")))

    def is_side(self, line: Line) -> bool:
        """Return True if a line of the main transcript is one of a sub-agent."""
        return self.is_main and line.get("isSidechain") is True

    def take_new(self, lines: Sequence[NewLine]) -> list[NewLine]:
        """Return the lines that are not written yet. They count as written from now on."""
        new: list[NewLine] = []
        for line in lines:
            if line.key is None:
                new.append(line)
            elif line.key not in self._keys:
                self._keys.add(line.key)
                new.append(line)
        return new


class TranscriptBatch:
    """Builds the events of new lines, with the moves to the lines that they continue."""

    def __init__(self, end: TranscriptEnd, lines: Sequence[NewLine]) -> None:
        self._end = end
        self._agent = end.agent
        self._lines = lines
        self._events: list[DraftTuple] = []
        self._built: list[Item] = []  # the lines so far
        # The first lines of a fork by Claude: the context has what they say.
        is_new_fork = 0 < end.head == end.agent.fork_seq
        self._has_fork_copies = is_new_fork and any(_read_original(new.line) for new in lines)

    def build(self) -> list[DraftTuple]:
        """Build the events of all lines, and the new summary."""
        if self._has_fork_copies:
            self._events.append(build_note(FORKED, None))
            self._end.summary = None
        for new in self._lines:
            self._add(new)
        if self._end.is_main and self._lines:
            self._add_summary()
        return self._events

    def _add(self, new: NewLine) -> None:
        line = new.line
        entries = self._end.read_entries(line)
        if self._has_fork_copies and _read_original(line) is not None:
            entries = []
        if entries and entries[0].kind not in ("clear", "tool_result"):
            self._events += self._build_move(line)
        kept: list[KeylessDraft] = []
        if line.get("isCompactSummary") is True:
            kept = self._copy_kept(line)
        self._events += build_drafts(new, entries, kept)
        position = self._end.head + len(self._events)
        self._built.append(Item(line, position, position))
        self._end.add(line)

    def _build_move(self, line: Line) -> list[DraftTuple]:
        """Build the jump or the clear before a line that does not continue the newest one. Nearly
        all lines do, or continue its unit. For others the whole transcript is read."""
        last = self._end.spoken
        parent = line.get("parentUuid")
        if last is None or parent == last:
            return []
        units = self._end.units
        current = units.get(last)
        if current in (units.get(line.get("uuid")), units.get(parent)):
            return []
        lines = self._read_lines()
        uuids = self._read_tree(lines, line).list_keys_before()
        if not uuids:
            return [build_clear(ADAPTER)]
        if _find_newest(lines, last) in uuids or current in map(units.get, uuids):
            return []
        target = _find_end(lines, uuids)
        return [] if target is None else [build_jump(ADAPTER, target)]

    def _read_lines(self) -> list[Item]:
        """Return all lines so far: those of Claude, and those of others in the context."""
        if not self._end.head:
            return self._built
        events = self._agent.events(until=self._end.head)
        lines = read_own_items(ADAPTER, events)
        for item in _read_lines(self._agent, events, self._end.key["session_id"], True):
            if not item.is_own:
                lines.append(item)
        return sorted([*lines, *self._built], key=attrgetter("last"))

    def _read_tree(self, lines: Sequence[Item], line: Line) -> ClaudeTree:
        """Return the tree of all lines up to `line`."""
        values = [*(item.value for item in lines), line]
        return index_lines([value for value in values if not self._end.is_side(value)])

    def _copy_kept(self, line: Line) -> list[KeylessDraft]:
        """Build copies of what a compaction kept in the context, to come after its summary."""
        positions: dict[tuple[Any, ...], int] = {}
        if self._end.head:
            for event in self._agent.events(until=self._end.head):
                positions[_identify(event.kind, event.content, event.data)] = event.seq
        copies: list[KeylessDraft] = []
        for entry in self._read_tree(self._read_lines(), line).list_kept():
            data = dict(entry.data or {})
            position = positions.get(_identify(entry.kind, entry.content, data))
            if position is not None:
                data["copy_of"] = position
            copies.append((entry.kind, entry.content, data))
        return copies

    def _add_summary(self) -> None:
        """Add the SDK's summary, if it changed or if its note has left the context."""
        end = self._end
        lines = [new.line for new in self._lines]
        before = end.summary
        is_missing = before is None and end.head > 0
        if is_missing and not self._has_fork_copies:
            # The session is a fork from before its summary, or a person rewound it.
            lines = [*(_load_lines(self._agent, end.key["session_id"], True) or []), *lines]
        previous: Any = None
        if before is not None:
            previous = {"session_id": end.key["session_id"], "mtime": 0, "data": before}
        folded: Any = fold_session_summary(previous, end.key, lines)
        data = read_json(write_item(folded["data"]))
        is_moved = any(event[0] in ("clear", "jump") for event in self._events)
        if is_moved or data != before:
            self._events.append(build_note(SUMMARY, data))
            end.summary = data


def _find_newest(lines: Sequence[Item], last: str) -> str:
    """Return the uuid of the newest line of others, or `last`, whichever is later."""
    newest = last
    for item in lines:
        if not item.is_own or item.value.get("uuid") == last:
            newest = item.value["uuid"]
    return newest


def _find_end(lines: Sequence[Item], uuids: Sequence[str]) -> int | None:
    """Return the newest position of the lines with these uuids."""
    originals = _map_copies([item.value for item in lines])
    ends: dict[str, int] = {}
    for item in lines:
        uuid = str(item.value.get("uuid"))
        # A line that Claude copied into a fork is where its original is.
        ends[uuid] = ends.get(originals.get(uuid, ""), item.last)
    return max([ends[uuid] for uuid in uuids if uuid in ends], default=None)


def _identify(kind: str, content: str | None, data: dict[str, Any] | None) -> tuple[Any, ...]:
    """Return what an event and its copy have in common."""
    return kind, content, str((data or {}).get("id"))


# --- messages in and out ---


def build_drafts(
    new: NewLine, entries: Sequence[Entry], kept: Sequence[KeylessDraft] = ()
) -> list[DraftTuple]:
    """Build the events of a line. `kept` are copies of what a compaction kept in the context."""
    events: list[KeylessDraft] = [(entry.kind, entry.content, entry.data) for entry in entries]
    moves: list[DraftTuple] = []
    if entries and entries[0].kind == "clear":
        moves = [build_clear(ADAPTER)]
        events = []
    events += kept
    if not events:
        events = [("note", NOTE, None)]
    return [*moves, *build_item(ADAPTER, new.line, events, key=new.key, text=new.text)]


class LineWriter:
    """Writes messages of others as lines. Each gets its parent when all lines are in order."""

    def __init__(self, session_id: str, events: Sequence[Event]) -> None:
        self._session_id = session_id
        self._events = {event.seq: event for event in events}

    def write_message(self, turn: MessageTurn, event: Event) -> Iterator[TurnItem]:
        """Write a user message. Claude has its own system prompt."""
        if turn.role == "user":
            message = {"role": "user", "content": _write_message(turn, event)}
            yield self._write_line("user", message, event.seq)

    def write_answer(self, turn: AnswerTurn, event: Event) -> Iterator[TurnItem]:
        """Write the texts and the calls of an answer, one by one."""
        answer = f"msg_{self._build_uuid(event.seq)}"
        block: dict[str, Any]
        for number, text in enumerate(turn.texts):
            block = {"type": "text", "text": text}
            yield self._write_block(answer, block, event.seq, f"/{number}" if number else "")
        for call in turn.calls:
            block = {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
            yield self._write_block(answer, block, call.position or event.seq)

    def write_results(self, calls: Sequence[AnsweredCall], event: Event) -> Iterator[TurnItem]:
        """Write the results of calls, one by one."""
        for call, result in calls:
            content = write_blocks(FORMAT, list_parts(result), in_result=True)
            block: dict[str, Any] = {"type": "tool_result", "tool_use_id": call.id}
            block["content"] = content
            if result.is_error:
                block["is_error"] = True
            message = {"role": "user", "content": [block]}
            yield self._write_line("user", message, result.position or event.seq, "/result")

    def _write_block(
        self, answer: str, block: dict[str, Any], position: int, suffix: str = ""
    ) -> TurnItem:
        message = {
            "id": answer,
            "type": "message",
            "role": "assistant",
            "model": "unknown",
            "content": [block],
        }
        return self._write_line("assistant", message, position, suffix)

    def _write_line(
        self, type: str, message: dict[str, Any], position: int, suffix: str = ""
    ) -> TurnItem:
        line = {
            "parentUuid": None,
            "isSidechain": False,
            "sessionId": self._session_id,
            "uuid": self._build_uuid(position, suffix),
            "timestamp": self._events[position].created_at.isoformat().replace("+00:00", "Z"),
            "type": type,
            "message": message,
        }
        return TurnItem(line, position)

    def _build_uuid(self, position: int, suffix: str = "") -> str:
        """Return the uuid of a line: that which it had, if it was erased."""
        event = self._events[position]
        uuid = _read_uuid(event.key)
        if uuid is not None and is_erased(event.data_json):
            return uuid
        name = f"{self._session_id}/{position}/{event.created_us}{suffix}"
        return str(uuid5(FOREIGN, name))


def _write_message(turn: MessageTurn, event: Event) -> Any:
    """Write a message. A form of Anthropic's stays as it is, with files that only they have."""
    native = turn.native
    if native is not None and native.provider == FORMAT:
        parts = read_native_parts("user", event.data or {}) or ()
        if is_same_text(text_of(parts), event.content or ""):
            return native.form
    return write_blocks(FORMAT, list_parts(turn))
