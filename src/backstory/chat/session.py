"""One chat: a store, the current agent, the model and the tools. It draws nothing.

A new session begins with a clear and its system prompt. An agent with a history is continued as it is:
nothing is written on start.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from backstory import __version__
from backstory.agent import Agent
from backstory.chat import mentions, project
from backstory.chat.presence import OtherChat, other_chats
from backstory.chat.shell import is_command_output
from backstory.errors import AgentNotFound, Conflict, Invalid, NotFound
from backstory.log.events import Event
from backstory.log.kinds import KINDS
from backstory.log.settings import SETTINGS
from backstory.present.names import short_ref
from backstory.runtime.compaction import Compaction, compacted
from backstory.runtime.loop import Allow, EventWritten, Loop, Updates
from backstory.runtime.models import Model
from backstory.runtime.requests import write_settings
from backstory.runtime.signals import defer_signals
from backstory.runtime.tools import Tool
from backstory.storage.ids import name_from_key
from backstory.store import Store
from backstory.wire.tokens import Tokens

SYSTEM = (
    "You are a helpful assistant in a terminal, working in a folder on the user's computer. "
    "Use the tools to look things up instead of guessing. Answer briefly, in Markdown."
)
COMPACT_AT = 0.85  # of the model's window
CARRIED = "Note carried across a rewind: "


class Restored(NamedTuple):
    """What was restored on start."""

    messages: int
    marks: int
    tokens: int


class Chat:
    """The current agent, and what can be done with it."""

    def __init__(
        self,
        store: Store,
        agent: Agent,
        model: Model,
        tools: Sequence[Tool] = (),
        *,
        allow: Allow | None = None,
        system: str = SYSTEM,
        keep: bool = False,
        auto_compact: bool = True,
        folder: Path | None = None,
        params: Mapping[str, Any] | None = None,
        default_params: Mapping[str, Any] | None = None,
    ) -> None:
        """`keep`: a prompt without an answer stays in the context. `auto_compact`: a context that nearly
        fills the model's window is compacted. `folder`: where the tools work; its instructions are read, and
        it is recorded with the session. `params`: parameters for the model, written with the first prompt;
        `default_params` only if the session is new."""
        self.auto_compact = auto_compact
        self.store = store
        self.keep = keep
        self.system = system
        self.folder = folder
        self.instructions = None if folder is None else project.instructions(folder)
        self.loop = Loop(agent, model, tools, allow=allow)
        self._taken_back: Event | None = None  # the undo of a prompt without an answer
        self.is_new = begin(agent, system, self.instructions)
        self._params = {**((default_params or {}) if self.is_new else {}), **(params or {})}
        if folder is not None:
            project.record(store, agent, folder, __version__)

    @property
    def agent(self) -> Agent:
        """The current agent."""
        return self.loop.agent

    @property
    def model(self) -> Model:
        """The model that answers."""
        return self.loop.model

    def ask(self, text: str, files: Sequence[str] = ()) -> Updates:
        """Ask the model, and yield what happens."""
        with defer_signals():
            event = self.say(text, files)
        yield EventWritten(event)
        yield from self.resume()

    def say(self, text: str, files: Sequence[str] = (), *, seen: int | None = None) -> Event:
        """Write a prompt, with the files that it names; `resume` lets the model answer. `seen` is the head
        that the person saw; raises Conflict if there is more."""
        prompt = mentions.read(text, self.folder or Path.cwd(), files)
        if self._params:
            changed = self.agent.settings(params={**self.params(), **self._params})
            self._params = {}
            seen = changed.seq if changed and seen is not None and changed.seq == seen + 1 else seen
        note = write_settings(self.agent, self.model, self.loop.tools, expected=seen)
        return mentions.write(
            self.agent, prompt, expected=note.seq if note and seen is not None else seen
        )

    def params(self) -> dict[str, Any]:
        """The parameters that are in force here."""
        return {**self.agent.conversation().settings.params, **self._params}

    def set_parameter(self, name: str, value: Any) -> None:
        """Set a parameter from here on; None removes it."""
        params, (outer, dot, inner) = self.params(), name.partition(".")
        if dot:  # a parameter of one format
            params[outer] = _without_none({**(params.get(outer) or {}), inner: value}) or None
        else:
            params[outer] = value
        self._params = {}
        self.agent.settings(params=_without_none(params))

    def models(self) -> list[str]:
        """The models that answered in this context, latest first."""
        named = (note.data or {} for note in self.agent.notes(SETTINGS))
        return list(
            dict.fromkeys(str(data["model"]) for data in reversed(list(named)) if data.get("model"))
        )

    @property
    def root(self) -> Agent:
        """The first agent of this session, which has its title and its folder."""
        return project.root_of(self.store, self.agent)

    def tag(self, tags: Sequence[str]) -> list[str]:
        """Add tags to the session, and remove those with a minus before them; returns all of them."""
        root = self.root
        wanted = dict.fromkeys(root.about.get("tags") or ())
        for tag in tags:
            if tag.startswith("-"):
                wanted.pop(tag[1:], None)
            else:
                wanted[tag] = None
        if tags:
            root.describe(tags=list(wanted) or None)
        return list(wanted)

    def latest_of(self, session: str) -> str:
        """The id of the agent of a session that was written to last."""
        return self.store.agents(session=session, order="updated", limit=1)[0].id

    def read_instructions(self) -> project.Instructions:
        """Read the project's instructions again; they are a system message from here on."""
        found = None if self.folder is None else project.instructions(self.folder)
        if found is None:
            raise NotFound(
                "this project has no instructions", remedy="write an AGENTS.md in its folder"
            )
        self.agent.extend([found.event])
        self.instructions = found
        return found

    def has_new_instructions(self) -> bool:
        """Whether the project's instructions changed since they were read."""
        return project.are_outdated(self.agent, self.instructions)

    def resume(self) -> Updates:
        """Let the model continue, and yield what happens."""
        return self.loop.resume()

    def take_back(self, prompt: Event) -> bool:
        """Undo a prompt that got no answer, so that the next request does not contain it. Returns False, and
        does nothing, if a tool has run or someone else has written since."""
        after = self.agent.events(after=prompt.seq)
        if self.keep or any(_counts(event) for event in after):
            return False
        head = after[-1].seq if after else prompt.seq
        self._taken_back = self.agent.undo(turn=True, expected=head)
        return True

    def retry(self) -> None:
        """Go to where the model can answer again: to a prompt that was just taken back, or to before an
        interrupted answer."""
        undone, head = self._taken_back, self.agent.head
        # Compare events, not positions: another agent may have the same position.
        if undone is not None and head == undone.seq and self.agent.event(head) == undone:
            self.agent.redo(expected=head)
        last = self._last()
        if last is None:
            raise NotFound("there is nothing to answer yet: say something")
        if last.kind == "assistant":
            if not (last.data or {}).get("interrupted"):
                raise Invalid(
                    "the last answer is complete: say something, or /back to change what you asked"
                )
            self.agent.jump(last.seq - 1)

    def ask_again(self, model: str) -> str:
        """Switch to a fork from before the last answer, where another model can answer. Returns the name of
        the agent with the first answer."""
        prompts = self.prompts()
        if not prompts:
            raise NotFound("there is nothing to answer yet: say something")
        before = self.agent
        self.loop.agent = before.fork(
            _free_name(self.store, name_from_key(f"{before.name}-{model}")), at=prompts[-1].seq
        )
        return before.name

    def is_unanswered(self) -> bool:
        """Whether the last message is from the person or a tool, so that an answer is missing."""
        last = self._last()
        return last is not None and last.kind != "assistant" and not _is_aside(last)

    def _last(self) -> Event | None:
        spoken = (
            event for event in self.agent.context().messages[::-1] if KINDS[event.kind].is_message
        )
        last = next(spoken, None)
        return None if last is None or last.kind == "system" else last

    def restored(self) -> Restored:
        """The live context in numbers."""
        context = self.agent.context()
        spoken = sum(1 for event in context.messages if KINDS[event.kind].is_message)
        return Restored(spoken, len(context.marks), int(self.tokens()))

    def tokens(self) -> Tokens:
        """The tokens of the context."""
        return self.agent.conversation().tokens(self.model.name)

    def prompts(self) -> list[Event]:
        """The live prompts, oldest first."""
        return [event for event in self._said() if not _is_aside(event)]

    def typed(self) -> list[Event]:
        """What the person typed, shell commands included, oldest first."""
        return [event for event in self._said() if not _is_carried(event)]

    def _said(self) -> list[Event]:
        return [event for event in self.agent.context().messages if event.kind == "user"]

    # --- moving ---

    def clear(self) -> None:
        """Empty the context, except for the system messages, which are written again."""
        kept = [event for event in self.agent.context().messages if event.kind == "system"]
        self.agent.extend([("clear",), *kept])

    def rewind(self, label: str | None, carry: str | None = None) -> None:
        """Go back to a mark; `carry` is added there as a message."""
        to: int | str | None = label
        if label is not None and label.isdecimal() and label not in self.labels():
            to = int(label)
        self.agent.rewind(to)
        if carry:
            self.agent.user(CARRIED + carry, data={"carried": True})

    def undo(self) -> tuple[int, int]:
        """Take back the last turn or move. Returns how many messages leave the context, and how many
        return."""
        before = self._spoken()
        self.agent.undo(turn=True)
        after = self._spoken()
        return len(before - after), len(after - before)

    def _spoken(self) -> set[int]:
        return {
            event.seq for event in self.agent.context().messages if KINDS[event.kind].is_message
        }

    def compact(self, focus: str = "", *, at_least: int = 0) -> Compaction:
        """Let the model summarize the conversation; the last turns stay as they are."""
        return compacted(self.agent, self.model, self.loop.tools, focus=focus, at_least=at_least)

    def is_nearly_full(self) -> bool:
        """Whether the context is so large that it should be compacted before the next prompt."""
        return self.auto_compact and self.tokens() >= (self.model.window or math.inf) * COMPACT_AT

    def back_to(self, prompt: Event) -> None:
        """Go to before a prompt."""
        self.agent.jump(prompt.seq - 1)

    def labels(self) -> list[str]:
        """The labels to go back to, newest first."""
        labels = [mark.label for mark in reversed(self.agent.marks()) if mark.label]
        return list(dict.fromkeys(labels))

    # --- branching ---

    def others(self) -> list[OtherChat]:
        """The chats of other processes on this agent."""
        return other_chats(self.store.agent(self.agent.id))

    def fork(self, name: str | None = None) -> None:
        """Go on in a fork of the agent."""
        self.loop.agent = self.agent.fork(name)

    def spawn(self, name: str | None = None) -> None:
        """Go on in a new agent below this one, with an empty context."""
        child = self.agent.spawn(name)
        begin(child, self.system, self.instructions)
        self.loop.agent = child

    def start_new(self) -> None:
        """Go on in a new session of this folder."""
        agent = self.store.start(_free_name(self.store, "main"))
        begin(agent, self.system, self.instructions)
        if self.folder is not None:
            project.record(self.store, agent, self.folder, __version__)
        self.loop.agent = agent

    def switch(self, ref: str) -> None:
        """Go on in another agent."""
        agent = self.find(ref)
        begin(agent, self.system, self.instructions)
        self.loop.agent = agent

    def find(self, ref: str) -> Agent:
        """The agent of a reference. If several sessions have the name, this session's agent is meant."""
        own = [
            agent for agent in self.store.agents(session=self.agent.session) if agent.name == ref
        ]
        return own[0] if own else only_agent(self.store, ref)

    def ref(self, agent: Agent) -> str:
        """A short reference to an agent: its name, or the beginning of its id."""
        return short_ref(agent, self.store.agents())

    def names(self) -> list[str]:
        """References to all agents, this session's first."""
        agents = self.store.agents()
        own = [agent.name for agent in agents if agent.session == self.agent.session]
        return own + [self.ref(agent) for agent in agents if agent.session != self.agent.session]


def begin(agent: Agent, system: str, instructions: project.Instructions | None = None) -> bool:
    """Write the clear, the system prompt and the project's instructions, if the agent has no history. Returns
    whether it had none."""
    if agent.head != 0:
        return False
    more = [instructions.event] if instructions else []
    try:
        agent.extend([("clear",), ("system", system), *more], expected=0)
    except Conflict:  # someone else has just begun it
        return False
    return True


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _counts(event: Event) -> bool:
    """Whether an event counts as a reaction to a prompt: not an empty answer, a refusal, or a note."""
    if event.kind == "note" and (event.content or "").startswith("backstory."):
        return False
    is_said = bool((event.content or "").strip()) and not (event.data or {}).get("refused")
    return event.kind != "assistant" or is_said


def _is_carried(event: Event) -> bool:
    return bool((event.data or {}).get("carried"))


def _is_aside(event: Event) -> bool:
    """Whether a user message needs no answer."""
    return _is_carried(event) or is_command_output(event)


def only_agent(store: Store, ref: str) -> Agent:
    """The agent of a reference without a position: a chat continues at the head."""
    found = store.resolve(ref)
    if found.at is not None:
        raise Invalid(
            f"a chat continues at the head, not at a position: backstory fork {ref} NAME, then chat NAME"
        )
    return found.agent


def first_agent(
    store: Store, ref: str | None, folder: Path | None = None, *, new: bool = False
) -> Agent:
    """The agent to chat with: the one that is named, or the latest (of this folder), or a new one."""
    if new:
        return store.start(_free_name(store, ref or "main"))
    if ref is not None:
        return only_agent(store, ref)
    found = _latest(store) if folder is None else project.latest_agent(store, folder)
    return found or store.start(_free_name(store, "main"))


def _latest(store: Store) -> Agent | None:
    try:
        return store.resolve("@").agent
    except AgentNotFound:
        return None


def _free_name(store: Store, name: str) -> str:
    """The name, with a number if it is taken."""
    taken = {agent.name for agent in store.agents()}
    if name not in taken:
        return name
    return next(f"{name}-{n}" for n in range(2, len(taken) + 3) if f"{name}-{n}" not in taken)
