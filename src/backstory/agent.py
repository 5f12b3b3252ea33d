"""The handle of one agent: writes to its log, and branches from it. `AgentReader` has the reads."""

import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Unpack

from backstory.errors import Invalid, InvalidEvent, KeyTaken, NameTaken
from backstory.log.arguments import (
    change_about,
    check_key,
    check_name,
    check_own_note_name,
    derive_id,
    describe_author,
)
from backstory.log.checks import check_draft, check_drafts, check_not_blank
from backstory.log.data_keys import REPLACE
from backstory.log.events import ErasedEvent, Event, EventTuple, RepeatedEvent, UndoEvent
from backstory.log.kinds import EventKind
from backstory.log.messages import build_call_data, describe_call
from backstory.log.moves import LABEL
from backstory.log.settings import SETTINGS, SettingsChange
from backstory.reading import AgentReader
from backstory.storage.agent_errors import build_deletion_error
from backstory.storage.compact import (
    CompactionRequest,
    ExpansionRequest,
    RecordedCompaction,
    compact_context,
)
from backstory.storage.erase import erase_events
from backstory.storage.ids import find_agent_by_id, find_free_id, new_id, shorten_id
from backstory.storage.positions import find_owner
from backstory.storage.protocol import AgentChange, Backend, Drafts, NewAgent
from backstory.storage.repeats import Once
from backstory.storage.targets import At, Move
from backstory.storage.write import (
    append_answer,
    append_events,
    append_move,
)

if TYPE_CHECKING:
    from backstory.attachments import Attachment

NO_ARGUMENTS: dict[str, Any] = {}


class Agent(AgentReader):
    """One branch of a session."""

    # --- messages ---

    def append(
        self,
        kind: EventKind,
        content: str | None = None,
        data: dict[str, Any] | None = None,
        *,
        key: str | None = None,
        expected: int | None = None,
        once: Once = "lineage",
    ) -> Event:
        """Write one event of any kind. With `expected`, only if that is the head (else Conflict);
        a repeat after a lost connection returns the existing event. With `key`, only if the lineage
        has no event with this key yet; otherwise that event is returned (or KeyTaken raised, if it
        is a different one). With `once="context"`, it is written again if the one with its key is
        no longer in the context. An existing event is a RepeatedEvent, whose `is_live` says whether
        it is in the context."""
        draft = check_draft(kind, content, data, key)
        [event] = append_events(self._backend, self._record, [draft], expected, once)
        return event

    def extend(
        self,
        events: Iterable[Event | EventTuple],
        *,
        expected: int | None = None,
        once: Once = "lineage",
    ) -> list[Event]:
        """Write events, given as (kind, content, data, key) or as events of another log, all or
        none. Content, data and key may be left out; keys work as in `append`, each for itself."""
        return append_events(self._backend, self._record, check_drafts(events), expected, once)

    def system(
        self,
        content: str,
        *,
        replace: bool = False,
        data: dict[str, Any] | None = None,
        key: str | None = None,
        expected: int | None = None,
        once: Once = "lineage",
    ) -> Event:
        """Write a system message, with `data` if it is given. With `replace`, requests have it in
        the place of all system messages before it; the log keeps those. Blank text is refused.
        `key`, `expected` and `once` work as in `append`."""
        check_not_blank("system", content, data)
        if replace and isinstance(data, dict | None):
            data = {**(data or {}), REPLACE: True}
        return self.append("system", content, data, key=key, expected=expected, once=once)

    def user(
        self,
        content: str,
        *,
        images: "Iterable[Attachment]" = (),
        files: "Iterable[Attachment]" = (),
        data: dict[str, Any] | None = None,
        key: str | None = None,
        expected: int | None = None,
        once: Once = "lineage",
    ) -> Event:
        """Write a message of the user. `images` and `files` are paths, bytes or URLs, stored once
        and sent in the form that each provider expects. Blank text alone is refused. `key`,
        `expected` and `once` work as in `append`."""
        # Not `if images or files`: add_attachments refuses wrong values, such as "" or None.
        if images != () or files != ():
            from backstory.attachments import add_attachments

            data = add_attachments(content, images, files, data)
        check_not_blank("user", content, data)
        return self.append("user", content, data, key=key, expected=expected, once=once)

    def assistant(
        self,
        content: str,
        *,
        data: dict[str, Any] | None = None,
        key: str | None = None,
        expected: int | None = None,
        once: Once = "lineage",
    ) -> Event:
        """Write a message of the model, with `data` if it is given, such as its usage. `key`,
        `expected` and `once` work as in `append`."""
        return self.append("assistant", content, data, key=key, expected=expected, once=once)

    def record(
        self,
        response: Any,
        format: str | None = None,
        *,
        model: str | None = None,
        request: Mapping[str, Any] | None = None,
        key: str | None = None,
        expected: int | None = None,
        once: Once = "lineage",
    ) -> list[Event]:
        """Write what a provider's SDK returned (an object, a dict, or the events of a stream): its
        text, calls, reasoning and usage. `model` is the one that was asked, if the answer names
        another. `request` is the body that was sent; its digest is stored, so that
        `store.verify(requests=True)` can check it. With `key`, only if the lineage has no answer
        with this key yet; otherwise the events of that answer are returned, whatever they say. The
        first event has the key, the second "KEY (part 2)", and so on. If the provider compacted the
        context in its answer, that is written as a compaction, which `undo()` takes back."""
        from backstory.wire.answers import build_answer

        # The position from which the request was built.
        at = self.head if expected is None else expected
        answer = build_answer(response, format, model=model, request=request, at=at)
        if answer.kept is not None:
            compaction = RecordedCompaction(answer.events, answer.kept, key)
            return compact_context(self._backend, self._record, compaction, expected, once)
        if key is None:
            return self.extend(answer.events, expected=expected, once=once)
        drafts = check_drafts(answer.events)
        return append_answer(self._backend, self._record, drafts, key, expected, once)

    def tool_call(
        self,
        name: str,
        arguments: Any = NO_ARGUMENTS,
        *,
        id: str | None = None,
        key: str | None = None,
        expected: int | None = None,
        once: Once = "lineage",
    ) -> Event:
        """Write a tool call with the arguments that the model gave: an object, or any text. Without
        an id, it gets one, which a repeat with the same `key` or `expected` gets, too. `key`,
        `expected` and `once` work as in `append`."""
        if id is None:
            seed = os.urandom(32)
            if key is not None:
                seed = check_key(key).encode()
            elif expected is not None:
                seed = f"{self.id} {expected}".encode()
            id = f"call_{sha256(seed).hexdigest()[:24]}"
        data = build_call_data(id, name, arguments)
        return self.append("tool_call", None, data, key=key, expected=expected, once=once)

    def tool_result(
        self,
        call: Event | str,
        output: str,
        *,
        error: bool = False,
        key: str | None = None,
        expected: int | None = None,
        once: Once = "lineage",
    ) -> Event:
        """Write the result of a tool call, which is given as its event or id. `key`, `expected` and
        `once` work as in `append`."""
        data: dict[str, Any]
        if isinstance(call, str):
            data = {"id": call}
        else:
            data = describe_call(call)
        if error:
            data["error"] = True
        return self.append("tool_result", output, data, key=key, expected=expected, once=once)

    def note(
        self,
        name: str,
        data: dict[str, Any] | None = None,
        *,
        key: str | None = None,
        expected: int | None = None,
        once: Once = "lineage",
    ) -> Event:
        """Write something that is not a message: it is part of the context, follows rewinds and
        forks, and is never sent to a model. Names that begin with "backstory." are reserved. `key`,
        `expected` and `once` work as in `append`."""
        checked = check_own_note_name(name)
        return self.append("note", checked, data, key=key, expected=expected, once=once)

    def settings(self, /, **settings: Unpack[SettingsChange]) -> Event | None:
        """Set the model, tools or params of the requests from here on. Writes only what changes,
        and returns None if nothing does. `conversation().settings` reads them. Raises Invalid for
        a parameter that no provider knows, or that would replace the conversation."""
        from backstory.wire.formats import check_parameters

        change = self.conversation().settings.find_changes(**settings)
        check_parameters(change.get("params", {}))
        if not change:
            return None
        return self.append("note", SETTINGS, change)

    # --- moves ---

    # A key of these methods is unique in the lineage. A repeat of a rewind, jump, undo, redo or
    # compaction returns the events that have the key, whatever it would do now.

    def mark(
        self,
        label: str | None = None,
        *,
        key: str | None = None,
        expected: int | None = None,
        by: str | None = None,
    ) -> Event:
        """Set a mark to come back to. `by` is the author, stored in the event's data. `key` and
        `expected` work as in `append`."""
        data = describe_author(by)
        if label is not None:
            if not isinstance(label, str):
                raise InvalidEvent(f"a mark's label must be a string, not {type(label).__name__}")
            data = {"label": label, **data}
        return self.append("mark", None, data or None, key=key, expected=expected)

    def label(self, name: str, *, at: At = None, by: str | None = None) -> Event:
        """Name a position (default: the head), so that jumps and references find it by that name
        wherever the agent is. If a name is given twice, the later one counts."""
        if not isinstance(name, str) or not name.strip():
            raise Invalid(f"{name!r:.60} is not a label", remedy="pass a string")
        position = self._lineage.find_position(at)
        data = {"label": name, "at": position}
        data.update(describe_author(by))
        return self.append("note", LABEL, data)

    def clear(
        self, *, key: str | None = None, expected: int | None = None, by: str | None = None
    ) -> Event:
        """Empty the context. The log keeps everything. `key` and `expected` work as in `append`."""
        data = describe_author(by) or None
        return self.append("clear", None, data, key=key, expected=expected)

    def rewind(
        self,
        to: int | str | None = None,
        *,
        key: str | None = None,
        expected: int | None = None,
        by: str | None = None,
    ) -> Event:
        """Go back to a mark on the stack: the newest, the newest with a label, or the one at a
        position. The mark stays. If the lineage has a rewind with this `key`, that is returned.
        With `expected`, it is only written after that head (else Conflict); a repeat after a lost
        connection returns the existing event."""
        return self._move(Move("rewind", to), key, expected, by)

    def jump(
        self,
        to: int | str | datetime,
        *,
        key: str | None = None,
        expected: int | None = None,
        by: str | None = None,
    ) -> Event:
        """Go to the context of any earlier position, dead or alive. If the lineage has a jump with
        this `key`, that is returned. `expected` works as in `rewind`."""
        return self._move(Move("jump", to), key, expected, by)

    def undo(
        self,
        *,
        turn: bool = False,
        key: str | None = None,
        expected: int | None = None,
        by: str | None = None,
    ) -> UndoEvent | RepeatedEvent:
        """Undo the last clear, rewind, jump or compaction; each further undo reverts the one
        before. With `turn`, a question with its answer counts as a move, too. What was said after
        the move leaves the context with it: the result has what was `removed` and `returned`. If
        the lineage has an undo with this `key`, that is returned. `expected` works as in
        `rewind`."""
        return self._undo(Move("undo_turn" if turn else "undo"), key, expected, by)

    def redo(
        self, *, key: str | None = None, expected: int | None = None, by: str | None = None
    ) -> UndoEvent | RepeatedEvent:
        """Undo the last undo, as long as nothing was written since. The result has what was
        `removed` and `returned`. If the lineage has a redo with this `key`, that is returned.
        `expected` works as in `rewind`."""
        return self._undo(Move("redo"), key, expected, by)

    def _undo(
        self, move: Move, key: str | None, expected: int | None, by: str | None
    ) -> UndoEvent | RepeatedEvent:
        from backstory.comparing import read_changes

        event = self._move(move, key, expected, by)
        undo = event if isinstance(event, RepeatedEvent) else UndoEvent._make(event)
        undo.removed, undo.returned = read_changes(self._lineage, event.seq)
        return undo

    def _move(self, move: Move, key: str | None, expected: int | None, by: str | None) -> Event:
        author = describe_author(by)
        return append_move(self._backend, self._record, move, author, key, expected)

    def compact(
        self,
        summary: str,
        *,
        keep: int = 0,
        key: str | None = None,
        expected: int | None = None,
        by: str | None = None,
    ) -> list[Event]:
        """Replace the older part of the context with a summary, in one batch: a clear, the system
        messages and settings again, the summary as a user message, and copies of the last `keep`
        messages (or a few more, so that no call loses its result). `undo()` takes it all back. If
        the lineage has a compaction with this `key`, its events are returned. Keys of the events
        are numbered as in `record`. With `expected`, it is only written after that head; without a
        key, a repeat raises Conflict."""
        request = CompactionRequest(summary, keep, describe_author(by), key)
        return compact_context(self._backend, self._record, request, expected)

    def expand(
        self, *, key: str | None = None, expected: int | None = None, by: str | None = None
    ) -> list[Event]:
        """Take back the newest compaction of the context, and keep what was said since, in one
        batch: a jump to before the compaction, and copies of the later messages, notes and marks.
        `undo()` takes it all back. `key` and `expected` work as in `compact`."""
        request = ExpansionRequest(describe_author(by), key)
        return compact_context(self._backend, self._record, request, expected)

    def erase(
        self, positions: Iterable[int], *, why: str, dry_run: bool = False, by: str | None = None
    ) -> list[ErasedEvent]:
        """Remove for good the text of the events at these positions, with all copies that a
        compaction made, and with the other events of the same item if a framework wrote it. The
        events themselves stay, empty, for every agent that has them in its lineage. Return what is
        left of them, each with the `owner_id` of its agent; with `dry_run`, change nothing, and
        return all events that would be erased. `store.removals()` lists what was erased, why, and
        `by` whom."""
        return erase_events(self._backend, self._record, positions, why, dry_run=dry_run, by=by)

    # --- details ---

    def describe(self, /, **about: Any) -> dict[str, Any]:
        """Set details that are not part of the log, such as the title and tags; None removes one.
        They are never sent to a model."""
        change_about(None, about)  # refuse a wrong one before anything is locked
        with self._backend.begin(agents=[self._record]) as transaction:
            current = find_agent_by_id(transaction, self.id)
            if current is None:
                raise build_deletion_error(self._record)
            text = change_about(current.about, about)
            transaction.update_agent(self._record, AgentChange(about=text or ""))
        self._record = self._record._replace(about=text)
        return self.about

    def rename(self, name: str) -> None:
        """Give the agent another name."""
        checked = check_name(name)
        with self._backend.begin(agents=[self._record]) as transaction:
            transaction.update_agent(self._record, AgentChange(name=checked))
        self._record = self._record._replace(name=checked)

    # --- branching ---

    def fork(
        self,
        name: str | None = None,
        *,
        at: At = None,
        key: str | None = None,
        spawned: bool = False,
    ) -> "Agent":
        """Return a new agent that continues from a position, a mark's label or a time (default: the
        head). Nothing is copied. Raises KeyTaken if an agent has this key already. `spawned` makes
        it a sub-agent that inherits."""
        pieces, [position] = self._lineage.locate(at)
        new = NewAgent(
            id="",
            session=self.session,
            name="" if name is None else check_name(name),
            parent_pk=find_owner(pieces, position),
            origin_pk=self._record.pk,
            fork_seq=position,
            born_seq=position,
            spawned=bool(spawned),
            key=key,
        )
        return create_agent(self._backend, new, name_prefix="fork")

    def spawn(self, name: str | None = None, *, key: str | None = None) -> "Agent":
        """Return a new agent below this one that inherits nothing."""
        new = NewAgent(
            id="",
            session=self.session,
            name="" if name is None else check_name(name),
            parent_pk=self._record.pk,
            origin_pk=self._record.pk,
            born_seq=self.head,
            spawned=True,
            key=key,
        )
        return create_agent(self._backend, new, name_prefix="spawn")


def create_agent(
    backend: Backend, new: NewAgent, drafts: Drafts = (), *, name_prefix: str = ""
) -> Agent:
    """Create an agent that has no id yet: it gets that of its key, or a new one. A root has no
    session yet, either. An agent without a name gets one that begins with `name_prefix`. Raises
    KeyTaken or NameTaken."""
    id = new_id(new.session) if new.key is None else derive_id(new.key)
    while True:
        name = new.name or f"{name_prefix}-{shorten_id(id)}"
        complete = new._replace(id=id, session=new.session or id, name=name)
        try:
            return Agent(backend, backend.create_agent(complete, drafts))
        except NameTaken:
            if new.name or new.key is not None:
                raise
            # Among thousands of forks, six digits of a random id repeat: take others.
            id = new_id(new.session)
        except KeyTaken:
            if new.key is None:
                raise
            id = find_free_id(backend, new.key)  # perhaps only a deleted agent has the id
