"""The handle of one agent: its log and its contexts.

It turns calls into events and labels into positions. It asks the store each time, and keeps nothing that
could go stale except the agent's own row.
"""

import os
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from backstory.arguments import own_agent
from backstory.errors import Conflict, Invalid, InvalidEvent, NameTaken
from backstory.identity import Identity
from backstory.log.about import described
from backstory.log.compaction import compaction
from backstory.log.drafts import Draft, answered_call, author, call_data, draft, drafts
from backstory.log.events import Event
from backstory.log.kinds import SPOKEN
from backstory.log.labels import LABEL
from backstory.log.messages import check_says_something
from backstory.log.notes import checked_note_name, checked_note_names, own_note_name
from backstory.log.outline import OutlineRow
from backstory.log.replay import Context, Explanation
from backstory.log.settings import SETTINGS
from backstory.log.undo import REDO, UNDO
from backstory.storage.bases import with_bases
from backstory.storage.erase import erase
from backstory.storage.follow import Follower, follow_agent
from backstory.storage.ids import checked_name, new_id, own_digits
from backstory.storage.keys import create_keyed
from backstory.storage.log import At, now
from backstory.storage.positions import check_expected
from backstory.storage.protocols import NewAgent, Reader, Walk
from backstory.storage.targets import Preview, Target, Targets

if TYPE_CHECKING:
    from backstory.attachments import Attachment
    from backstory.log.diff import Change, Comparison
    from backstory.wire.conversation import Conversation

NO_ARGUMENTS: dict[str, Any] = {}


class Agent(Identity):
    """One branch of a session."""

    # --- writing ---

    def append(
        self,
        kind: str,
        content: str | None = None,
        data: dict[str, Any] | None = None,
        *,
        key: str | None = None,
        expected: int | None = None,
    ) -> Event:
        """Write one event of any kind. With `expected`, only if that is the head (else Conflict); a repeat
        after a lost connection returns the existing event. With `key`, only if the lineage has no event with
        this key yet; otherwise that event is returned (or KeyTaken raised, if it says something else)."""
        return self._log.write(self._record, [draft(kind, content, data, key)], expected)[0]

    def extend(
        self, events: Iterable[Event | tuple[Any, ...]], *, expected: int | None = None
    ) -> list[Event]:
        """Write events, given as (kind, content, data, key) or as events of another log, all or none.
        Content, data and key may be left out; keys work as in `append`."""
        return self._log.write(self._record, drafts(events), expected)

    def system(self, content: str, *, data: dict[str, Any] | None = None) -> Event:
        """Write a system message. `data` is kept with it. Blank text is refused."""
        check_says_something("system", content, data)
        return self.append("system", content, data)

    def user(
        self,
        content: str,
        *,
        images: "Iterable[Attachment]" = (),
        files: "Iterable[Attachment]" = (),
        data: dict[str, Any] | None = None,
        expected: int | None = None,
    ) -> Event:
        """Write what the user said. `images` and `files` are paths, bytes or URLs, stored once and sent in
        the form that each provider expects. `data` is kept with the message. Blank text alone is refused.
        `expected` works as in `append`."""
        if images != () or files != ():
            from backstory.attachments import with_attachments

            data = with_attachments(content, images, files, data)
        check_says_something("user", content, data)
        return self.append("user", content, data, expected=expected)

    def assistant(self, content: str, *, data: dict[str, Any] | None = None) -> Event:
        """Write what the model said. `data` is kept with it, such as its usage."""
        return self.append("assistant", content, data)

    def record(
        self,
        response: Any,
        format: str | None = None,
        *,
        model: str | None = None,
        request: Mapping[str, Any] | None = None,
        expected: int | None = None,
    ) -> list[Event]:
        """Write what a provider's SDK returned (an object, a dict, or the events of a stream): its text,
        calls, reasoning and usage. `model` is the one that was asked, if the answer names another. `request`
        is the body that was sent; its digest is kept, so that `store.verify(requests=True)` can check it."""
        from backstory.wire.answers import answer_batch

        batch = answer_batch(response, format, model=model, request=request, at=self.head)
        return self.extend(batch, expected=expected)

    def tool_call(
        self, name: str, arguments: Any = NO_ARGUMENTS, *, id: str | None = None
    ) -> Event:
        """Write a tool call with the arguments that the model gave: an object, or any text. Without an id, it
        gets one."""
        call_id = f"call_{os.urandom(12).hex()}" if id is None else id
        return self.append("tool_call", None, call_data(call_id, name, arguments))

    def tool_result(self, call: Event | str, output: str, *, error: bool = False) -> Event:
        """Write the result of a tool call, which is given as its event or id."""
        data = {"id": call} if isinstance(call, str) else answered_call(call)
        return self.append("tool_result", output, data | ({"error": True} if error else {}))

    def note(
        self, name: str, data: dict[str, Any] | None = None, *, key: str | None = None
    ) -> Event:
        """Write something that is not a message: it is part of the context, follows rewinds and forks, and is
        never sent to a model. Names that begin with "backstory." are reserved."""
        return self.append("note", own_note_name(name), data, key=key)

    def settings(self, /, **settings: Any) -> Event | None:
        """Set the model, tools or params of the requests from here on. Writes only what changes, and returns
        None if nothing does. `conversation().settings` reads them."""
        change = self.conversation().settings.changed(**settings)
        return self.append("note", SETTINGS, change) if change else None

    def mark(
        self, label: str | None = None, *, expected: int | None = None, by: str | None = None
    ) -> Event:
        """Set a mark to come back to. `by`: who did it, kept in the event's data."""
        if label is not None and not isinstance(label, str):
            raise InvalidEvent(f"a mark's label must be a string, not {type(label).__name__}")
        data = ({} if label is None else {"label": label}) | author(by)
        return self.append("mark", None, data or None, expected=expected)

    def label(self, name: str, *, at: At = None, by: str | None = None) -> Event:
        """Name a position (default: the head), so that jumps and references find it by that name wherever the
        agent is. If a name is given twice, the later one counts."""
        if not isinstance(name, str) or not name.strip():
            raise Invalid(f"{name!r:.60} is not a label", remedy="pass a text")
        data = {"label": name, "at": self._log.owner(self._record, at)[1]}
        return self.append("note", LABEL, data | author(by))

    def labels(self) -> dict[str, int]:
        """The positions that have labels, by their names."""
        return self._log.labels(self._record)

    def clear(self, *, expected: int | None = None, by: str | None = None) -> Event:
        """Empty the context; the log keeps everything."""
        return self.append("clear", None, author(by) or None, expected=expected)

    def rewind(
        self, to: int | str | None = None, *, expected: int | None = None, by: str | None = None
    ) -> Event:
        """Go back to a mark on the stack: the newest, the newest with a label, or the one at a
        position. The mark stays."""
        return self._move("rewind", self._targets.mark(to), expected, author(by))

    def jump(
        self, to: int | str | datetime, *, expected: int | None = None, by: str | None = None
    ) -> Event:
        """Go to the context of any earlier position, dead or alive."""
        return self._move("jump", self._targets.position(to), expected, author(by))

    def undo(
        self, *, turn: bool = False, expected: int | None = None, by: str | None = None
    ) -> Event:
        """Take back the last clear, rewind, jump or compaction; each further undo takes back the one before.
        With `turn`, a question with its answer counts as a move, too."""
        target = self._targets.turn if turn else self._targets.undo
        return self._move("jump", target, expected, {UNDO: True} | author(by))

    def redo(self, *, expected: int | None = None, by: str | None = None) -> Event:
        """Take back the last undo, as long as nothing was written since."""
        return self._move("jump", self._targets.redo, expected, {REDO: True} | author(by))

    def compact(
        self, summary: str, *, keep: int = 0, expected: int | None = None, by: str | None = None
    ) -> list[Event]:
        """Replace the older part of the context with a summary, in one batch: a clear, the system messages
        and settings again, the summary as a user message, and copies of the last `keep` messages (or a few
        more, so that no call loses its result). `undo()` takes it all back."""
        from backstory.wire.conversation import conversation_of

        check_expected(expected)
        context = self.context()
        if expected not in (None, context.at):
            raise Conflict.at(self.name, expected or 0, context.at)
        tokens = int(conversation_of(context.messages).tokens())
        batch = compaction(context.messages, summary, keep=keep, head=context.at, tokens=tokens)
        (kind, content, data), *rest = batch
        checked = drafts([(kind, content, (data or {}) | author(by)), *rest])
        with self._log.backend.exclusive(self._record) as rows:
            self._check_unchanged(rows, context)
            return rows.append(self._record, with_bases(checked), context.at, now())

    def _check_unchanged(self, rows: Reader, context: Context) -> None:
        """Refuse to copy what was erased since it was read."""
        before = {event.seq: event for event in context.messages}
        pieces = rows.walk(self._record, None).pieces
        if any(event != before.get(event.seq, event) for event in rows.read(self._record, pieces)):
            raise Conflict(
                f"messages of {self.name!r} were erased in the meantime",
                remedy="compact again",
                head=context.at,
            )

    def erase(self, positions: Iterable[int], *, why: str, dry_run: bool = False) -> list[Event]:
        """Remove for good what the events at these positions say, with all copies that a compaction made, and
        with the other events of the same item if a framework wrote it. The events themselves stay, empty, for
        every agent that has them in its lineage. Returns what is left of them; with `dry_run`, nothing is
        changed, and it returns all events that would be erased."""
        return erase(self._log.backend, self._record, positions, why, dry_run=dry_run)

    def preview(self, move: str, to: int | str | datetime | None = None) -> Preview:
        """What "clear", "rewind", "jump", "undo" or "redo" would do now. Nothing is written."""
        return self._targets.preview(move, to)

    @property
    def _targets(self) -> Targets:
        return Targets(self._log, self._record)

    def _move(self, kind: str, target: Target, expected: int | None, more: dict[str, Any]) -> Event:
        def choose(rows: Reader, walk: Walk) -> Draft:
            return draft(kind, None, {"target_message_id": target(rows, walk), **more})

        return self._log.move(self._record, choose, expected)

    # --- beside the log ---

    def describe(self, /, **about: Any) -> dict[str, Any]:
        """Set details that are kept beside the log, such as the title and tags; None removes one. They are
        never sent to a model."""
        text = self._log.backend.describe(self._record, lambda before: described(before, about))
        self._record = self._record._replace(about=text)
        return self.about

    # --- branching ---

    def fork(
        self,
        name: str | None = None,
        *,
        at: At = None,
        key: str | None = None,
        spawned: bool = False,
    ) -> "Agent":
        """A new agent that continues from a position, a mark's label or a time (default: the head). Nothing
        is copied. Raises KeyTaken if an agent has this key already. `spawned` makes it a sub-agent that
        inherits."""
        owner, position = self._log.owner(self._record, at)
        birth = {
            "parent_pk": owner,
            "fork_seq": position,
            "born_seq": position,
            "spawned": bool(spawned),
        }
        return self._child(name, "fork", key, **birth)

    def spawn(self, name: str | None = None, *, key: str | None = None) -> "Agent":
        """A new agent below this one that inherits nothing."""
        return self._child(
            name, "spawn", key, parent_pk=self._record.pk, born_seq=self.head, spawned=True
        )

    def _child(self, name: str | None, otherwise: str, key: str | None, **birth: Any) -> "Agent":
        def create(id: str) -> Agent:
            given = f"{otherwise}-{own_digits(id)}" if name is None else checked_name(name)
            new = NewAgent(id, self.session, given, key=key, **birth)
            return Agent(self._log, self._log.backend.create(new, [], now()))

        if key is not None:
            return create_keyed(self._log.backend, key, create)
        while True:
            try:
                return create(new_id(self.session))
            except NameTaken:
                if name is not None:
                    raise
                # Among thousands of forks, six digits of a random id repeat: take others.

    def rename(self, name: str) -> None:
        """Give the agent another name."""
        self._log.backend.rename(self._record, checked_name(name))
        self._record = self._record._replace(name=name)

    # --- reading ---

    def context(self, at: At = None) -> Context:
        """What is live: now, or at a position, a mark's label or a time."""
        return self._log.context(self._record, at)

    def conversation(self, at: At = None) -> "Conversation":
        """What a model is given: the messages of the context. `.to(format)` makes a provider's request from
        them."""
        from backstory.wire.conversation import conversation_in

        return conversation_in(self._log.live_columns(self._record, at))

    def messages(self, at: At = None, *, notes: Iterable[str] = ()) -> list[Event]:
        """The live messages, oldest first, and the notes of these names. Other notes are not read."""
        names = checked_note_names(notes)
        pieces = self._log.walk(self._record, at).pieces
        found = self._log.backend.read_said(self._record, pieces, names)
        if not found:
            self.head  # noqa: B018  raises if the agent was deleted in between
        return [event for event in found if event.kind in SPOKEN or event.kind == "note"]

    def texts(
        self, at: At = None, *, notes: Iterable[str] = ()
    ) -> list[tuple[str | None, str | None]]:
        """Only the content and the JSON text of the data of the same messages and notes, in half the time."""
        names = checked_note_names(notes)
        pieces = self._log.walk(self._record, at).pieces
        found = self._log.backend.texts(self._record, pieces, names)
        if not found:
            self.head  # noqa: B018  raises if the agent was deleted in between
        return found

    def tail(self, n: int, at: At = None, *, notes: bool = False) -> list[Event]:
        """The newest `n` live messages, oldest first: what a model would be given last. With `notes`, the
        newest `n` messages and notes."""
        return self._log.tail(self._record, n, at, notes=notes)

    def notes(self, name: str | None = None, at: At = None, live: bool = True) -> list[Event]:
        """The notes in the context, or those of one name, oldest first. `live=False`: of the lineage."""
        name = None if name is None else checked_note_name(name)
        return self._log.notes(self._record, name, at, live=live)

    def last_note(self, name: str, at: At = None) -> Event | None:
        """The newest note of a name in the context."""
        return self._log.last_note(self._record, checked_note_name(name), at)

    def find(self, key: str) -> Event | None:
        """The event of the lineage, dead or alive, with this key."""
        return self._log.find(self._record, key)

    def places(self, keys: Iterable[str]) -> dict[str, int]:
        """The positions of the lineage's events, dead or alive, that have these keys."""
        return self._log.places(self._record, keys)

    def read(self, positions: Iterable[int]) -> list[Event]:
        """The events at these positions of the lineage, dead or alive, in order."""
        return self._log.read_positions(self._record, positions)

    def digest(self, at: At = None) -> str:
        """The digest that names the history up to a position (default: the head) exactly, in hex."""
        return self._log.digest(self._record, at).hex()

    def marks(self, at: At = None) -> list[Event]:
        """The mark stack, oldest first."""
        return self._log.marks_in(self._record, self._log.walk(self._record, at))

    def event(self, seq: int) -> Event:
        """One event of the lineage, dead or alive."""
        return self._log.event(self._record, seq)

    def events(self, *, after: At = 0, until: At = None) -> list[Event]:
        """The whole lineage, dead events included, or the part after `after` up to `until`."""
        return self._log.events(self._record, after, until)

    def outline(self, after: At = 0, until: At = None) -> list[OutlineRow]:
        """The whole lineage without its texts, or the part after `after` up to `until`: the kind, size, time
        and base of each event."""
        return self._log.outline(self._record, after, until)

    def follow(self, after: At = None, *, timeout: float | None = None) -> Follower[Event]:
        """The events after `after` (default: the head), as anyone commits them: an iterator that ends when it
        or the store is closed, or when nothing came for `timeout` seconds."""
        return follow_agent(
            self._log, self._record, self._log.position(self._record, after), timeout
        )

    def diff(
        self,
        other: "Agent | None" = None,
        *,
        at: At = None,
        other_at: At = None,
        after: "Change | None" = None,
        limit: int | None = None,
    ) -> "Comparison":
        """How this context, or the one at `at`, differs from another agent's, or from this agent's at
        `other_at`. What both share through their fork is not read. For pages: `limit` changes after `after`,
        the last one of the previous page."""
        from backstory.comparison import Side, diff

        right = self if other is None else own_agent(self._log, other)
        sides = (Side(self._record, at), Side(right._record, other_at))
        return diff(self._log, *sides, after=after, limit=limit)

    def position(self, at: At = None) -> int:
        """The position that a mark's label or a time means; the head, if none is given."""
        head = self.head  # raises if the agent was deleted; looking up a time would not
        return head if at is None else self._log.position(self._record, at) or 0

    def live_ranges(self, at: At = None) -> list[tuple[int, int]]:
        """The live positions as ranges (first, last), oldest first, for reading a long context part by part.
        The ranges include clears and inert events; `explained` tells them apart."""
        return [(piece.low, piece.high) for piece in self._log.walk(self._record, at).pieces]

    def explained(
        self, *, after: At = 0, until: At = None, at: At = None
    ) -> list[tuple[Event, Explanation]]:
        """Events after `after` up to `until`, each with the reason why it is or is not in the context."""
        return self._log.explained(self._record, after, until, at)

    def explain(self, seq: int, *, at: At = None) -> Explanation:
        """Why an event is or is not in the context."""
        return self._log.explain(self._record, seq, at)
