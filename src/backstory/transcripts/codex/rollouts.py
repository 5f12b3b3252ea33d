"""Reads Codex's rollouts: JSON lines, one file for each thread. Pure.

A `response_item` is a message, call or result of the conversation. An `event_msg` mirrors it and
is skipped, except rollbacks and names. A fork either repeats the items of its parent, without ids
and with the time of the fork, or (paginated) names the position in the parent's file that it
continues.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from zlib import crc32

from backstory.transcripts.codex.items import (
    ITEMS,
    SILENT,
    Item,
    build_message,
    build_mirrored_item,
    compute_likeness,
    get_type,
    is_notice,
    is_prompt,
    read_item,
)
from backstory.transcripts.content import as_object, join_text, parse_time, pick_counts, pick_texts
from backstory.transcripts.format import SourceLine
from backstory.transcripts.model import (
    OUTSIDE,
    Data,
    Entry,
    ImportReport,
    SourceMove,
    SourceTail,
    Step,
    TailRule,
    Unit,
)

TYPES = frozenset(
    {"session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"}
    | {"inter_agent_communication", "inter_agent_communication_metadata", "security_risk_score"}
)
USAGE = {"input": "input_tokens", "output": "output_tokens", "cache_read": "cached_input_tokens"}
# Without a replacement history, the newest prompts stay, as long as they have this size (core,
# compact.rs).
KEPT_BYTES = 20_000 * 4


class HistoryItem(NamedTuple):
    """An item of the history that the model sees."""

    unit: str
    entry: str  # the entry, or the one of which it is a copy
    likeness: bytes
    is_prompt: bool = False
    is_notice: bool = False
    message: Item | None = None  # the text of one that is no answer: an old compaction keeps it


class RolloutReader:
    """Reads the records of a thread as steps."""

    def __init__(self, about: Data, report: ImportReport) -> None:
        self.is_mirror = False  # nothing but events: the items that they mirror are missing
        self._about = about
        self._report = report
        self._thread = ""  # the id of the file
        self._is_own_file = True
        self._model: str | None = None
        self._tail_rule = TailRule(None)
        self._is_first_meta = True
        self._history: list[HistoryItem] = []
        self._count = 0  # of units
        self._silent: list[Item] = []
        self._answer: list[Unit] = []  # units that wait for their usage, which is reported later
        self._last_record: Data = {}

    def begin_tail(self, tail: SourceTail) -> None:
        """Prepare to read the end of a file whose beginning is in the log."""
        self._tail_rule = TailRule(tail)
        self._is_first_meta = False
        self._model, self.is_mirror = tail.state["model"], tail.state["is_mirror"]
        self._history = [HistoryItem(OUTSIDE, OUTSIDE, b"")]

    def get_state(self) -> Data:
        """Return what `begin_tail` has to know of the records so far."""
        return {"model": self._model, "is_mirror": self.is_mirror}

    def read(
        self, thread: str, lines: Iterable[SourceLine], end: int | None = None
    ) -> Iterator[Step]:
        """Yield the steps of one file of the thread. `end` is the first ordinal that is not
        read."""
        self._thread = thread
        self._is_own_file = end is None
        for line, record, _ in lines:
            if not isinstance(record, dict):
                continue
            ordinal = record.get("ordinal")
            if end is not None and isinstance(ordinal, int) and ordinal >= end:
                break
            yield from self._read_record(record, line)
        self._drop_reasoning()
        for unit in self._answer:
            # The usage of an answer at the end of a file may still come.
            yield unit._replace(is_complete=not self._is_own_file)
        self._answer = []

    def _read_record(self, record: Data, line: int) -> Iterator[Step]:
        payload = record.get("payload")
        type_ = get_type(record)
        if payload is None and type_ in ITEMS and "type" in record:
            yield from self._read_item(record, None, line)  # a rollout of 2025
        elif isinstance(payload, dict) and type_ in TYPES:
            yield from self._read_payload(record, payload, line)
        elif "record_type" not in record and not is_bare_header(record):
            self._report_unknown(type_)

    def _read_payload(self, record: Data, payload: Data, line: int) -> Iterator[Step]:
        time = parse_time(record.get("timestamp"))
        match record["type"]:
            case "response_item" if self._is_repeated(record):
                self._report.mended["line written again"] += 1
            case "response_item":
                self._last_record = record
                yield from self._read_item(payload, time, line)
            case "inter_agent_communication":
                letter = {"type": "agent_message"} | payload
                yield from self._read_item(letter, time, line)
            case "compacted":
                yield from self._compact(payload, time, line)
            case "event_msg":
                yield from self._read_event(payload, time, line)
            case "turn_context":
                self._about.update(pick_texts(payload, {"model": "model"}))
                self._model = self._about.get("model")
            case "session_meta":
                yield from self._read_meta(payload, time, line)

    def _is_repeated(self, record: Data) -> bool:
        """Return True if an item was written twice in a row, which its time shows."""
        return "timestamp" in record and record == self._last_record

    def _read_meta(self, payload: Data, time: int | None, line: int) -> Iterator[Step]:
        """Read the instructions in the first header. A thread that is resumed writes its header
        again.
        """
        if not self._is_first_meta:
            return
        self._is_first_meta = False
        text = join_text(payload.get("base_instructions"))
        if text.strip():
            item = build_message("system", text)
            # A fork has the instructions of its parent: whichever file they are read from.
            id = f"instructions.{crc32(compute_likeness(item)):x}"
            entry = Entry(id, "system", text, {"meta": "instructions"}, time, line=line)
            yield self._add_unit(entry, item)

    def _read_event(self, payload: Data, time: int | None, line: int) -> Iterator[Step]:
        mirrored = build_mirrored_item(payload) if self.is_mirror else None
        if mirrored is not None:
            yield from self._read_item(mirrored, time, line)
            return
        match payload.get("type"):
            case "token_count":
                info = as_object(payload.get("info"))
                yield from self._finish_answer(pick_counts(info.get("last_token_usage"), USAGE))
            case "thread_rolled_back":
                yield from self._finish_answer()
                yield from self._roll_back(payload.get("num_turns"), time)
            case "thread_name_updated":
                if self._is_own_file:
                    self._about.update(pick_texts(payload, {"title": "thread_name"}))

    # --- items ---

    def _read_item(self, item: Item, time: int | None, line: int) -> Iterator[Step]:
        type_ = get_type(item)
        if type_ in SILENT:
            self._silent.append(item)
            return
        id = name_entry(self._thread, item, time)
        loaded = read_item(item, self._silent, id, self._model)
        if loaded is None:
            self._report_unknown(type_)
            return
        kind, content, data = loaded
        is_answer = kind in ("assistant", "tool_call")
        if is_answer:
            self._silent = []
        else:
            yield from self._finish_answer()
        if kind in ("user", "system"):
            self._drop_reasoning()
        unit = self._add_unit(Entry(id, kind, content, data, time, line=line), item)
        if is_answer:
            self._answer.append(unit)
        else:
            yield unit

    def _add_unit(self, entry: Entry, item: Item, original: str | None = None) -> Unit:
        """Add an entry to the history. Return its unit. Ids of entries may repeat, those of units
        may not.
        """
        self._count += 1
        unit = Unit(str(self._count), self._get_last_unit(), (entry,))
        message = None
        if entry.kind in ("user", "system"):
            message = build_message(item.get("role"), join_text(item.get("content")))
        known = HistoryItem(
            unit=unit.id,
            entry=original or entry.id,
            likeness=compute_likeness(item),
            is_prompt=is_prompt(item),
            is_notice=is_notice(item),
            message=message,
        )
        self._history.append(known)
        return unit

    def _get_last_unit(self) -> str | None:
        return self._history[-1].unit if self._history else None

    def _finish_answer(self, usage: Data | None = None) -> Iterator[Step]:
        """Yield the answer that waited for its usage, which is in the data of its first event."""
        for unit in self._answer:
            if usage:
                [entry] = unit.entries
                entry = entry._replace(data={**(entry.data or {}), "usage": usage})
                unit = unit._replace(entries=(entry,))
                usage = None
            yield unit
        self._answer = []

    def _drop_reasoning(self) -> None:
        """Leave out reasoning that no answer followed."""
        if self._silent:
            self._report.mended["reasoning without an answer"] += len(self._silent)
            self._silent = []

    def _report_unknown(self, type_: str) -> None:
        version = self._about.get("version")
        where = f"codex {version}" if version else "codex"
        self._report.unknown[f"{type_} ({where})"] += 1

    # --- rollbacks and compactions ---

    def _roll_back(self, turns: Any, time: int | None) -> Iterator[Step]:
        """Drop the last turns. Only prompts of people count; notices directly above the cut go
        too."""
        if not isinstance(turns, int) or isinstance(turns, bool) or turns <= 0:
            return
        self._tail_rule.refuse("a rollback to something before the window")
        prompts = [number for number, item in enumerate(self._history) if item.is_prompt]
        if not prompts:
            return
        cut = prompts[0] if turns >= len(prompts) else prompts[-turns]
        while cut > prompts[0] and self._history[cut - 1].is_notice:
            cut -= 1
        del self._history[cut:]
        yield SourceMove(self._get_last_unit(), time)

    def _compact(self, payload: Data, time: int | None, line: int) -> Iterator[Step]:
        """Yield a clear, then each item of the new history: a copy if the old one has it, else
        new."""
        yield from self._finish_answer()
        self._tail_rule.refuse("a compaction may keep what is before the window")
        summary = {"type": "compacted", "content": payload.get("message")}
        id = name_entry(self._thread, summary, time)
        old = self._history
        clear = self._add_unit(Entry(id, "clear", time=time, line=line), summary)
        self._history = [old.pop()]
        yield clear
        silent: list[Item] = []
        for number, item in enumerate(list_replacements(payload, old)):
            if get_type(item) in SILENT:
                silent.append(item)
                continue
            loaded = read_item(item, silent, f"{id}/{number}", self._model)
            silent = []
            if loaded is None:
                continue
            entry = Entry(f"{id}/{number}", *loaded, time, line=line)
            entry = mark_copy(entry, item, old)
            yield self._add_unit(entry, item, entry.copy_of)


def name_entry(thread: str, item: Item, time: int | None) -> str:
    """Return the id of an entry: the time of its record and what it says.

    The number of a line or an ordinal would not do: Codex rewrites its older rollouts with
    ordinals, and without the turns that were rolled back.
    """
    return f"{thread[-12:]}:{time or 0:x}.{crc32(compute_likeness(item)):x}"


def mark_copy(entry: Entry, item: Item, old: list[HistoryItem]) -> Entry:
    """Mark an entry of a new history as a copy of an item of the old one, which is used up.

    Anything else that somebody said is the summary.
    """
    likeness = compute_likeness(item)
    for number in range(len(old) - 1, -1, -1):
        if old[number].likeness == likeness:
            return entry._replace(copy_of=old.pop(number).entry)
    if is_prompt(item) or entry.kind == "assistant":
        return entry._replace(data={**(entry.data or {}), "compaction": True})
    return entry


def list_replacements(payload: Data, old: list[HistoryItem]) -> list[Item]:
    """Return the items that are left after a compaction."""
    given = payload.get("replacement_history")
    if isinstance(given, list):
        return [item for item in given if isinstance(item, dict)]
    # Early releases wrote only the summary. What was before the first prompt stays, and the newest
    # prompts.
    prompts = [item for item in old if item.is_prompt and item.message is not None]
    first = old.index(prompts[0]) if prompts else len(old)
    opening = [item.message for item in old[:first] if item.message is not None]
    room = KEPT_BYTES
    kept: list[Item] = []
    for prompt in reversed(prompts):
        message = prompt.message or {}
        room -= len(join_text(message.get("content")).encode("utf-8", "replace"))
        if room < 0:
            break
        kept.insert(0, message)
    return [*opening, *kept, build_message("user", join_text(payload.get("message")))]


def is_bare_header(record: Data) -> bool:
    """Return True if a record is the header of a rollout of 2025: an id and a time, but no type."""
    return isinstance(record.get("id"), str) and "timestamp" in record and "type" not in record
