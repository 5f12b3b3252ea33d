"""One chat: a store, the current agent, the model and the tools. It draws nothing.

A new session begins with a clear and its system prompt. An agent with a history is continued as it
is: nothing is written on start.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from backstory import __version__
from backstory.agent import Agent
from backstory.chat import mentions, project
from backstory.chat.tour import TOUR, TourModel, is_over
from backstory.errors import Conflict, Invalid, NotFound
from backstory.log.data_keys import COMPACTED
from backstory.log.events import Event
from backstory.log.kinds import KINDS
from backstory.log.messages import ToolCall, read_call
from backstory.log.settings import SETTINGS
from backstory.present.agent_lists import find_free_name, short_ref, short_refs
from backstory.present.text import count, one_line
from backstory.runtime.compaction import read_request
from backstory.runtime.loop import COMPACT_AT, Allow, EventWritten, Loop, Updates
from backstory.runtime.models import Model
from backstory.runtime.parameters import check_name
from backstory.runtime.requests import merge_params, write_settings
from backstory.runtime.signals import defer_signals
from backstory.runtime.tools import Tool
from backstory.storage.ids import name_from_key
from backstory.store import Store
from backstory.wire.tokens import Tokens

SYSTEM = (
    "You are a helpful assistant in a terminal, working in a folder on the user's computer. "
    "Use the tools to look things up instead of guessing. Answer briefly, in Markdown."
)
NOTHING_ASKED = "there is nothing to answer yet: say something"
CHANGING_TOOLS = ("write_file", "edit_file")


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
        auto_compact: bool = True,
        folder: Path | None = None,
        params: Mapping[str, Any] | None = None,
        default_params: Mapping[str, Any] | None = None,
    ) -> None:
        """`auto_compact`: a context that nearly fills the model's window is compacted. `folder`:
        where the tools work; its instructions are read, and it is recorded with the session.
        `params`: parameters for the model, written with the first prompt; `default_params` only if
        the session is new."""
        self.store = store
        self.system = system
        self.folder = folder
        self.instructions = None if folder is None else project.instructions(folder)
        compact_at = COMPACT_AT if auto_compact else None
        self.loop = Loop(agent, model, tools, allow=allow, compact_at=compact_at)
        self._taken_back: Event | None = None  # the undo of a prompt without an answer
        self.is_new = begin(agent, system, self.instructions)
        self._unwritten_params = dict(params or {})
        if self.is_new:
            self._unwritten_params = merge_params(default_params or {}, self._unwritten_params)
        self.other_folder = ""  # where the session began, if that is not this folder
        if folder is not None:
            began_in = self.root.about.get("cwd", str(folder))
            self.other_folder = str(began_in) if began_in != str(folder) else ""
            is_tour = isinstance(model, TourModel)
            project.record(store, agent, folder, __version__, is_tour=is_tour)
        self.use_model(model)

    def use_model(self, model: Model) -> None:
        """Let a model answer from now on."""
        self.loop.model = model
        if isinstance(model, TourModel):
            model.find_agent = lambda: self.agent

    @property
    def agent(self) -> Agent:
        """The current agent."""
        return self.loop.agent

    @property
    def model(self) -> Model:
        """The model that answers."""
        return self.loop.model

    def ask(self, text: str, files: Sequence[str] = (), *, typed: str | None = None) -> Updates:
        """Ask the model, and yield what happens. Only the typed part may name files."""
        turn = self.resume()  # before the prompt is written, so that `cancel` finds it
        with defer_signals():
            event = self.write_prompt(text, files, typed=typed)
        yield EventWritten(event)
        yield from turn

    def write_prompt(
        self,
        text: str,
        files: Sequence[str] = (),
        *,
        typed: str | None = None,
        seen: int | None = None,
    ) -> Event:
        """Write a prompt, with the files that its typed part names (default: all of it); `resume`
        lets the model answer; call it before, so that Ctrl-C stops the turn while the store is
        locked. `seen` is the head that the person saw; raises Conflict if there is
        more."""
        prompt = mentions.read(text, self.folder or Path.cwd(), files, typed=typed)
        params = self._unwritten_params
        note = write_settings(self.agent, self.model, self.loop.tools, params=params, expected=seen)
        self._unwritten_params = {}
        if note is not None and seen is not None:
            seen = note.seq
        return mentions.write(self.agent, prompt, expected=seen)

    def params(self) -> dict[str, Any]:
        """The parameters that are in force here."""
        return merge_params(self.agent.conversation().settings.params, self._unwritten_params)

    def set_parameter(self, name: str, value: Any) -> None:
        """Set a parameter from here on; None removes it."""
        params = self.params()
        if name not in params:
            check_name(name)
        outer, dot, inner = name.partition(".")
        if dot:  # a parameter of one format
            params[outer] = _without_none({**(params.get(outer) or {}), inner: value}) or None
        else:
            params[name] = value
        self._unwritten_params = {}
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

    def latest_of(self, session: str) -> str:
        """The id of the agent of a session that was written to last."""
        return self.store.agents(session=session, order="updated", limit=1)[0].id

    def has_new_instructions(self) -> bool:
        """Whether the project's instructions changed since they were read."""
        return project.are_outdated(self.agent, self.instructions)

    def resume(self) -> Updates:
        """Let the model continue, and yield what happens. From the call on, `loop.cancel` stops
        it; nothing is read or asked before the first update."""
        return self.loop.resume()

    def take_back(self, prompt: Event) -> bool:
        """Undo a prompt that got no answer, so that the next request does not contain it. Returns
        False, and does nothing, if a tool has run or someone else has written since."""
        after = self.agent.events(after=prompt.seq)
        if any(_counts(event) for event in after):
            return False
        head = after[-1].seq if after else prompt.seq
        self._taken_back = self.agent.undo(turn=True, expected=head)
        return True

    def retry(self) -> None:
        """Go to where the model can answer again: to a prompt that was just taken back, or to
        before an interrupted answer."""
        undone, head = self._taken_back, self.agent.head
        # Compare events, not positions: another agent may have the same position.
        if undone is not None and head == undone.seq and self.agent.events([head]) == [undone]:
            self.agent.redo(expected=head)
        last = self._find_last_message()
        if last is None or is_complete_summary(last):
            raise NotFound(NOTHING_ASKED)
        if last.kind == "assistant":
            if not (last.data or {}).get("interrupted"):
                raise Invalid(
                    "the last answer is complete: say something, or /back to change what you asked"
                )
            self.agent.jump(last.seq - 1)

    def ask_again(self, model: str) -> str:
        """Switch to a fork from before the last answer, where another model can answer. Returns the
        name of the agent with the first answer."""
        request = self.find_request()
        before = self.agent
        name = name_from_key(f"{before.name}-{model}")
        free_name = find_free_name(name, self.store.agents())
        self.loop.agent = before.fork(free_name, at=request.seq)
        return before.name

    def find_request(self) -> Event:
        """Return the last message that asks for an answer: a prompt, or a summary that quotes one.
        Raises NotFound if there is none."""
        for event in self.agent.context().messages[::-1]:
            if event.kind == "user" and not is_complete_summary(event):
                return event
        raise NotFound(NOTHING_ASKED)

    def is_unanswered(self) -> bool:
        """Whether the last message is from the person or a tool, so that an answer is missing."""
        last = self._find_last_message()
        if last is None or is_complete_summary(last):
            return False
        return last.kind != "assistant"

    def _find_last_message(self) -> Event | None:
        spoken = (
            event for event in self.agent.context().messages[::-1] if KINDS[event.kind].is_message
        )
        last = next(spoken, None)
        return None if last is None or last.kind == "system" else last

    def describe_restored(self) -> str:
        """Return what the context contains, as a line."""
        context = self.agent.context()
        messages = sum(KINDS[event.kind].is_message for event in context.messages)
        parts = [
            count(messages, "message"),
            count(len(context.marks), "mark"),
            count(int(self.tokens()), "token"),
        ]
        return f"restored {', '.join(parts)}"

    def tokens(self) -> Tokens:
        """The tokens of the context."""
        return self.agent.conversation().tokens(self.model.name)

    def prompts(self) -> list[Event]:
        """The live prompts, oldest first, also those that a compaction has copied."""
        return [event for event in self.agent.context().messages if is_typed(event)]

    # --- moving ---

    def clear(self) -> None:
        """Empty the context, except for the system messages, which are written again. The
        parameters stay: they are written with the next prompt."""
        self._unwritten_params = self.params()
        kept = [event for event in self.agent.context().messages if event.kind == "system"]
        self.agent.extend([("clear",), *kept])

    def rewind(self, label: str | None) -> None:
        """Go back to a mark."""
        to: int | str | None = label
        if label is not None and label.isdecimal() and label not in self.labels():
            to = int(label)
        self.agent.rewind(to)

    def describe_changes(self, before: Sequence[Event]) -> str:
        """Return what tools have changed in the events of `before` that are not in the context any
        more: no move restores it."""
        live = {event.seq for event in self.agent.context().messages}
        gone = [event for event in before if event.seq not in live]
        paths: dict[str, None] = {}
        commands = 0
        for call, result in list_calls(gone):
            if result.get("allowed_by") is None:
                continue  # it was not run
            if call.name == "bash":
                commands += 1
            elif call.name in CHANGING_TOOLS and not result.get("error"):
                paths[one_line(str(call.arguments["path"]))] = None
        changes = list(paths)
        if commands:
            changes.append(f"what {count(commands, 'command')} did")
        return f"; not restored: {', '.join(changes)}" if changes else ""

    def labels(self) -> list[str]:
        """The labels to go back to, newest first."""
        labels = [mark.label for mark in reversed(self.agent.marks()) if mark.label]
        return list(dict.fromkeys(labels))

    # --- branching ---

    def fork(self, name: str | None = None) -> None:
        """Continue in a fork of the agent."""
        self.loop.agent = self.agent.fork(name)

    def start_new(self) -> None:
        """Continue in a new session of this folder."""
        self._unwritten_params = self.params()
        agent = self.store.start(find_free_name("main", self.store.agents()))
        begin(agent, self.system, self.instructions)
        if self.folder is not None:
            project.record(self.store, agent, self.folder, __version__)
        self.loop.agent = agent

    def switch(self, ref: str) -> None:
        """Continue in another agent."""
        agent = self.find(ref)
        begin(agent, self.system, self.instructions)
        self.loop.agent = agent

    def find(self, ref: str) -> Agent:
        """The agent of a reference. If several sessions have the name, this session's agent is
        meant."""
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
        refs = short_refs(agents)
        others = [refs[agent.id] for agent in agents if agent.session != self.agent.session]
        return own + others


def list_calls(events: Sequence[Event]) -> Iterator[tuple[ToolCall, dict[str, Any]]]:
    """Yield each call among some events that has a result, with the data of the result."""
    calls = {}
    for event in events:
        data = event.data or {}
        if event.kind == "tool_call":
            calls[data.get("id")] = read_call(data)
        elif event.kind == "tool_result" and data.get("id") in calls:
            yield calls[data.get("id")], data


def begin(agent: Agent, system: str, instructions: project.Instructions | None = None) -> bool:
    """Write the clear, the system prompt and the project's instructions, if the agent has no
    history. Returns whether it had none."""
    if agent.head != 0:
        return False
    more = [instructions.event] if instructions else []
    try:
        agent.extend([("clear",), ("system", system), *more], expected=0)
    except Conflict:  # someone else has just begun it
        return False
    return True


def is_typed(event: Event) -> bool:
    """Return True for a prompt or its copy, and False for the summary of a compaction."""
    return event.kind == "user" and COMPACTED not in (event.data or {})


def is_complete_summary(event: Event) -> bool:
    """Return True for the summary of a compaction that quotes no request: it needs no answer."""
    is_summary = event.kind == "user" and COMPACTED in (event.data or {})
    return is_summary and not read_request(event)


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _counts(event: Event) -> bool:
    """Whether an event counts as a reaction to a prompt: not an empty answer, a refusal, or a
    note."""
    if event.kind == "note" and (event.content or "").startswith("backstory."):
        return False
    is_said = bool((event.content or "").strip()) and not (event.data or {}).get("refused")
    return event.kind != "assistant" or is_said


def only_agent(store: Store, ref: str) -> Agent:
    """The agent of a reference without a position: a chat continues at the head."""
    found = store.resolve(ref)
    if found.at is not None:
        raise Invalid(
            "a chat continues at the head, not at a position: "
            f"backstory fork {ref} NAME, then chat NAME"
        )
    return found.agent


def first_agent(
    store: Store, ref: str | None, folder: Path, *, new: bool = False, is_tour: bool = False
) -> Agent:
    """Return the agent to chat with: the one that is named, or the latest of this folder, or a new
    one. The tour has sessions of its own, so that no model continues scripted answers."""
    name = TOUR if is_tour else "main"
    if ref is not None and not new:
        return only_agent(store, ref)
    latest = None if new else project.latest_agent(store, folder, is_tour=is_tour)
    return latest or store.start(find_free_name(ref or name, store.agents()))


def has_begun_tour(store: Store, folder: Path) -> bool:
    """Return True if the folder has a tour that did not end."""
    agent = project.latest_agent(store, folder, is_tour=True)
    return agent is not None and not is_over(agent)
