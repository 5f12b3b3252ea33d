"""Codex's rollouts, record by record: the history that the model sees, and the steps that made it. Pure."""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from zlib import crc32

from backstory.transcripts.checkpoints import ROWS, ReadWhole, Tail
from backstory.transcripts.codex import items
from backstory.transcripts.entries import Data, microseconds, text_in, usage_of
from backstory.transcripts.format import SourceLine
from backstory.transcripts.provenance import provenance_in
from backstory.transcripts.transcript import Entry, Move, Report, Step, Unit
from backstory.transcripts.words import Words

NAME = "codex"
TYPES = Words(
    {"session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"}
    | {"inter_agent_communication", "inter_agent_communication_metadata", "security_risk_score"}
)
BARE = Words({"message", "reasoning", *items.CALLS, *items.OUTPUTS})
USAGE = {"input": "input_tokens", "output": "output_tokens", "cache_read": "cached_input_tokens"}
# Without a replacement history, the newest prompts stay, as far as these many tokens go (core, compact.rs).
KEPT_TOKENS = 20_000
BYTES_A_TOKEN = 4
MOST_NAMED = 100  # units of one time that a checkpoint remembers


def is_bare_start(record: dict[str, Any]) -> bool:
    """The first line of 2025: an id and a time, and no type."""
    return isinstance(record.get("id"), str) and "timestamp" in record and "type" not in record


class Past(NamedTuple):
    """A unit in the history that the model sees."""

    unit: str
    entry: str  # the entry, or the first of which it is a copy
    kind: items.Kind
    likeness: bytes
    said: str | None  # the words of what stands above the answers: an old compaction keeps them
    role: str | None


class Copied(NamedTuple):
    """A record of a parent, as a fork's file would repeat it."""

    digest: bytes
    id: str


class Parent(NamedTuple):
    """What a fork inherits: a history that it points at, or records that its file repeats."""

    history: list[Past]
    trail: list[Copied]


class Point(NamedTuple):
    """A line before which nothing is held back, and what is known there."""

    place: Any
    lines: int  # that stand before it
    state: dict[str, Any]


class Reader:
    """The steps of one rollout, record by record."""

    def __init__(
        self,
        thread: str,
        about: dict[str, Any],
        parent: Parent | None = None,
        *,
        has_children: bool = False,
    ) -> None:
        self.thread = thread
        self._has_children = has_children  # then `trail` is wanted
        self.about = about
        self.unknown: Counter[str] = Counter()
        self._mended: Counter[str] = Counter()
        self.history: list[Past] = list(parent.history) if parent else []  # what the model sees now
        self.trail: list[Copied] = []  # what a fork of this one would repeat
        self.inherits = bool(parent and parent.trail)  # the file still repeats its parent
        self.fork_at = self._at()  # the unit behind which it does not
        self._has_parent = parent is not None
        self._parent = iter(parent.trail if parent else ())
        self._model: str | None = None
        self._silent: list[items.Item] = []
        self._held: list[Unit] = []  # the answer so far: its usage comes behind it
        self._first_meta = True
        self._latest = 0  # the latest time so far
        self._named: Counter[str] = Counter()  # the units of that time
        self._last_own = ""  # of the last silent item: its line
        self._last_time: int | None = None
        self._last_line = 0
        self._last_item: dict[str, Any] = {}
        self._is_tail = False
        self.is_complete = False  # the file goes as far as it was to be read
        self.beyond: str | None = None  # the unit that it goes on from, if that is not here
        self.is_mirror = False  # nothing but events: what they mirror is not in the file
        self._points: deque[Point] = deque(maxlen=2)

    @classmethod
    def resumed(cls, tail: Tail, about: dict[str, Any]) -> "Reader":
        """One that goes on at a checkpoint."""
        reader = cls(tail.session, about)
        at, state = tail.state["at"], tail.state
        reader.history = [] if at is None else [Past(at, at, items.Kind(), b"", None, None)]
        reader._model, reader._latest = state["model"], state["latest"]
        reader._first_meta, reader._is_tail = False, True
        reader.is_mirror, reader._named = state["mirror"], Counter(state["named"])
        return reader

    def point(self) -> Point | None:
        """Where the file can be read on: the older of two points, so that something stands behind it."""
        return self._points[0] if self._points else None

    def tell(self, report: Report) -> None:
        """Report what was not understood, and what is in the file twice, one behind the other."""
        report.unknown.update(self.unknown)
        report.mended.update(self._mended)

    def _mark(self, number: int, place: Any) -> None:
        """Remember a moment at which nothing is held back."""
        if self._silent or self._held or self.inherits:
            return
        if not self._points or number - self._points[-1].lines > ROWS:
            if len(self._named) > MOST_NAMED:
                return
            about = {key: value for key, value in self.about.items() if key != "title"}
            state = {"at": self._at(), "model": self._model, "latest": self._latest, "about": about}
            state |= {"mirror": self.is_mirror, "named": dict(self._named)}
            self._points.append(Point(place, number - 1, state))

    def read(self, lines: Iterable[SourceLine], until: int | None = None) -> Iterator[Step]:
        """All steps. `until`: only the records below that ordinal."""
        for number, part, record, place in lines:
            if not isinstance(record, dict):
                continue
            ordinal = record.get("ordinal")
            if until is not None and isinstance(ordinal, int):
                self.is_complete = ordinal >= until - 1
                if ordinal >= until:
                    break
            if not part:
                self._mark(number, place)
            own = f"{number}.{part}" if part else str(number)
            yield from self._record(record, own, number)
        if self._silent and not self.inherits:  # of a copy, what it leads to may still come
            yield from self._unit(
                self._silent.pop(), self._last_own, self._last_time, self._last_line
            )
        # An answer at the end of a file may go on, or its usage may still come.
        yield from (unit._replace(settled=False) for unit in self._held)
        self._held = []

    def _name(self, likeness: bytes, time: int | None, own: str) -> str:
        """The id of a unit: its time and what it says. Neither the number of a line nor an ordinal would do:
        Codex writes its older rollouts anew, with ordinals, and without the turns that were rolled back."""
        if time is None:
            return f"{self.thread[-12:]}:{own}"
        name = f"{self.thread[-12:]}:{time:x}.{crc32(likeness):x}"
        if time > self._latest:
            self._latest = time
            self._named.clear()
        elif time < self._latest:
            return f"{name}~{own}"
        self._named[name] = count = (
            self._named.get(name, 0) + 1
        )  # all of a fork's copies have one time
        return name if count == 1 else f"{name}~{count}"

    def _record(self, record: dict[str, Any], own: str, line: int) -> Iterator[Step]:
        payload = record.get("payload")
        time = microseconds(record.get("timestamp"))
        match record.get("type"):
            case "response_item" if isinstance(payload, dict):
                if time is not None and record == self._last_item and not self.inherits:
                    self._mended["line written again"] += 1
                    return
                self._last_item = record
                yield from self._item(payload, own, time, line)
            case "inter_agent_communication" if isinstance(payload, dict):
                yield from self._item({"type": "agent_message"} | payload, own, time, line)
            case "compacted" if isinstance(payload, dict):
                yield from self._compaction(payload, own, time, line)
            case "event_msg" if isinstance(payload, dict):
                said = items.mirrored(payload) if self.is_mirror else None
                yield from (
                    self._event(payload, time)
                    if said is None
                    else self._item(said, own, time, line)
                )
            case "turn_context" if isinstance(payload, dict):
                self._turn(payload)
            case "session_meta" if isinstance(payload, dict):
                yield from self._meta(payload, time, line)
            case type_ if type_ in BARE and payload is None:
                yield from self._item(record, own, time, line)
            case type_ if (
                type_ not in TYPES and "record_type" not in record and not is_bare_start(record)
            ):
                self.unknown[
                    f"{type_} ({NAME} {self.about.get('version', '')})".replace(" )", ")")
                ] += 1

    def _meta(self, payload: Data, time: int | None, line: int) -> Iterator[Step]:
        if not self._first_meta:
            return
        self._first_meta = False
        self.about |= about_of(payload)
        instructions = payload.get("base_instructions")
        text = text_in(instructions)
        if self._has_parent:
            if self.inherits and self.history:  # a rollback of all that the fork copied ends here
                yield _instructions(self.history[0].unit, text, time, line)._replace(inherited=True)
        elif text.strip():
            unit = f"{self.thread[-12:]}:instructions"
            yield _instructions(unit, text, time, line)
            self._remember(
                unit, unit, items.Kind(), {"type": "message", "role": "system", "content": text}
            )
        if self.beyond is not None:
            self.history.append(Past(self.beyond, self.beyond, items.Kind(), b"", None, None))

    def _turn(self, payload: Data) -> None:
        model = payload.get("model")
        if isinstance(model, str) and model:
            self._model = model
            self.about["model"] = model

    # -------------------------------------------------------------- items

    def _item(self, item: items.Item, own: str, time: int | None, line: int) -> Iterator[Step]:
        type_ = item.get("type", "message")
        if type_ in items.SILENT:
            self._silent.append(item)
            self._last_own, self._last_time, self._last_line = own, time, line
            return
        is_models = type_ in items.CALLS or item.get("role") == "assistant"
        if not is_models:
            if self._silent:
                last = self._silent.pop()
                yield from self._unit(last, self._last_own, self._last_time, self._last_line)
            yield from self._flush()
        yield from self._unit(item, own, time, line)

    def _unit(self, item: items.Item, own: str, time: int | None, line: int) -> Iterator[Step]:
        before, self._silent = self._silent, []
        likeness = items.likeness(item)
        id, inherited = self._known(item, self._name(likeness, time, own))
        entry = items.entry(item, before, id, time, self._model)
        if entry is None:
            self.unknown[f"{item.get('type')} ({NAME} {self.about.get('version', '')})"] += 1
            return
        unit = Unit(id, self._at(), (entry,), line, inherited)
        self._remember(id, id, items.kind_of(item), item, likeness)
        if entry.kind in ("assistant", "tool_call"):
            self._held.append(unit)
        else:
            yield unit

    def _at(self) -> str | None:
        return self.history[-1].unit if self.history else None

    def _remember(
        self,
        unit: str,
        entry: str,
        kind: items.Kind,
        item: items.Item,
        likeness: bytes | None = None,
    ) -> None:
        role = item.get("role")
        said = text_in(item.get("content")) if role in ("user", "developer", "system") else None
        self.history.append(Past(unit, entry, kind, likeness or items.likeness(item), said, role))

    def _flush(self, usage: Data | None = None) -> Iterator[Step]:
        """Tell the answer that was held back for its usage."""
        for unit in self._held:
            if usage:
                [entry] = unit.entries
                unit = unit._replace(
                    entries=(entry._replace(data=(entry.data or {}) | {"usage": usage}),)
                )
                usage = None
            yield unit
        self._held = []

    # -------------------------------------------------------------- events

    def _event(self, payload: Data, time: int | None) -> Iterator[Step]:
        match payload.get("type"):
            case "token_count":
                info = payload.get("info")
                last = info.get("last_token_usage") if isinstance(info, dict) else None
                yield from self._flush(usage_of(last, USAGE))
            case "thread_rolled_back":
                yield from self._flush()
                yield from self._roll_back(payload.get("num_turns"), time)
            case "thread_name_updated" if payload.get("thread_id") in (None, self.thread):
                name = payload.get("thread_name")
                if isinstance(name, str) and name:
                    self.about["title"] = name

    def _roll_back(self, turns: Any, time: int | None) -> Iterator[Step]:
        """Drop the last turns: only real prompts count, and the tool's notices just above the cut go too."""
        if not isinstance(turns, int) or isinstance(turns, bool) or turns <= 0:
            return
        self._forget()
        _, inherited = self._known({"type": "rollback", "name": str(turns)}, "")
        prompts = [number for number, place in enumerate(self.history) if place.kind.prompt]
        if not prompts:
            return
        first = prompts[0]
        cut = first if turns >= len(prompts) else prompts[-turns]
        while cut > first and self.history[cut - 1].kind.notice:
            cut -= 1
        self.history = self.history[:cut]
        if not inherited:
            yield Move(self._at(), time)

    def _compaction(self, payload: Data, own: str, time: int | None, line: int) -> Iterator[Step]:
        """A clear, then each item of the new history: a copy where it has an equal, else the summary."""
        yield from self._flush()
        self._forget()
        item = {"type": "compacted", "content": payload.get("message")}
        id, inherited = self._known(item, self._name(items.likeness(item), time, own))
        old, self.history = self.history, []
        given = payload.get("replacement_history")
        replaced = (
            [item for item in given if isinstance(item, dict)]
            if isinstance(given, list)
            else self._kept(old, payload)
        )
        after = old[-1].unit if old else None
        yield Unit(id, after, (Entry(id, "clear", None, None, time),), line, inherited)
        self._remember(id, id, items.Kind(), {"type": "compacted"})
        before: list[items.Item] = []
        for number, item in enumerate(replaced):
            if item.get("type") in items.SILENT and number + 1 < len(replaced):
                before.append(item)
                continue
            unit = f"{id}/{number}"
            equal = _newest_equal(old, items.likeness(item))
            entry = items.entry(item, before, unit, time, self._model)
            before = []
            if entry is None:
                continue
            if equal is not None:
                old.remove(equal)
                entry = entry._replace(copy_of=equal.entry)
            elif items.kind_of(item).prompt or entry.kind == "assistant":
                entry = entry._replace(data=(entry.data or {}) | {"compaction": True})
            yield Unit(unit, self._at(), (entry,), line, inherited)
            self._remember(unit, unit if equal is None else equal.entry, items.kind_of(item), item)

    def _forget(self) -> None:
        """What comes now refers to all that was said: no tail begins before it, and none can tell it."""
        if self._is_tail:
            raise ReadWhole
        self._points.clear()

    def _kept(self, old: list[Past], payload: Data) -> list[items.Item]:
        """What stays if nothing says so: what is above the first prompt, the newest prompts, the summary."""
        prompts = [place for place in old if place.kind.prompt]
        first = old.index(prompts[0]) if prompts else len(old)
        room = KEPT_TOKENS * BYTES_A_TOKEN
        kept: list[items.Item] = []
        for place in reversed(prompts):
            room -= len((place.said or "").encode("utf-8", "replace"))
            if room < 0:
                break
            kept.insert(0, _again(place))
        text = payload.get("message")
        summary = {
            "type": "message",
            "role": "user",
            "content": text if isinstance(text, str) else "",
        }
        return [*(_again(place) for place in old[:first] if place.said is not None), *kept, summary]

    # -------------------------------------------------------------- what a fork's file begins with

    def _known(self, item: items.Item, id: str) -> tuple[str, bool]:
        """The id of a record, and whether it is the parent's: as long as the file repeats that."""
        if not self.inherits and not self._has_children:
            return id, False
        digest = items.digest(item)
        if self.inherits:
            other = next(self._parent, None)
            if other is not None and other.digest == digest:
                self.trail.append(other)
                return other.id, True
            self.inherits = False
            self.fork_at = self._at()
        self.trail.append(Copied(digest, id))
        return id, False


def _instructions(unit: str, text: str, time: int | None, line: int) -> Unit:
    return Unit(unit, None, (Entry(unit, "system", text, {"meta": "instructions"}, time),), line)


def _newest_equal(places: list[Past], likeness: bytes) -> Past | None:
    return next((place for place in reversed(places) if place.likeness == likeness), None)


def _again(place: Past) -> items.Item:
    """A message as it was."""
    return {"type": "message", "role": place.role, "content": place.said}


def about_of(meta: Data) -> Data:
    """What the first record says of the thread."""
    git = meta.get("git")
    found = {
        "cwd": meta.get("cwd"),
        "version": meta.get("cli_version"),
        "branch": git.get("branch") if isinstance(git, dict) else None,
        "agent": meta.get("agent_nickname"),
        "agent_type": meta.get("agent_role"),
    }
    told = {key: value for key, value in found.items() if isinstance(value, str) and value}
    return told | provenance_in(meta)
