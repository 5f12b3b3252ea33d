"""The OpenAI Agents SDK: `Runner.run(agent, "…", session=BackstorySession("user-42", "history.db"))`.

An item of the SDK is an item of OpenAI's Responses, so it is the native content of its event. Clearing and
popping are moves in the log: everything stays in it.
"""

import json
import re
import secrets
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeGuard, TypeVar

import orjson
from agents.memory.session_settings import SessionSettings, coerce_session_settings

from backstory import Agent, Conflict, Error, Event, wire
from backstory.adapters.forms import HERE, SMALLEST
from backstory.adapters.items import (
    Batch,
    Carried,
    Draft,
    all_items,
    carried,
    last_items,
    newest_items,
    note,
)
from backstory.adapters.keys import agent_key
from backstory.adapters.stores import History, Where
from backstory.adapters.turns import answered, message_of
from backstory.aio import in_thread
from backstory.log.json_text import encode_exactly

__all__ = ["BackstorySession"]

ADAPTER = "openai_agents"
FORMAT = "openai-responses"
TAG = {"of": ADAPTER}
# Calls that OpenAI's own tools make and the caller answers: with an output in sight they are read as calls.
ANSWERED = {
    "shell_call": "shell_call_output",
    "local_shell_call": "local_shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
}

MOST_LEVELS = 50  # of a call's arguments, for them to be read at once
LONG_NUMBER = re.compile(
    "[0-9]{19}"
)  # it may have more than 64 bits: orjson would make it a fraction
# What a plain call, a plain answer and its only part have.
CALL_NAMES = {"type", "call_id", "name", "arguments", "id", "status"}
ANSWER_NAMES = {"type", "role", "content", "id", "status"}
PART_NAMES = {"type", "text", "annotations", "logprobs"}

Item = dict[str, Any]
R = TypeVar("R")


class BackstorySession:
    """A session of the OpenAI Agents SDK whose history is an agent of a backstory store.

    `repair=True` leaves outputs whose calls are gone out of unlimited reads: no model accepts them. `key`
    opens the agent that has this key, whoever began it.
    """

    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        db_path: Where = ":memory:",
        *,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        repair: bool = False,
        key: str | None = None,
    ) -> None:
        self.session_id = session_id
        self.session_settings = coerce_session_settings(session_settings or SessionSettings())
        self.repair = repair
        self._key = agent_key(ADAPTER, session_id) if key is None else key
        self._history = History(db_path)

    @property
    def agent(self) -> Agent:
        """The agent that holds the session: for marks, rewinds, earlier contexts, and everything else."""
        return self._history.ensured(self._key, self.session_id)

    def fork(self, new_id: str, at: Any = None) -> "BackstorySession":
        """A new session that goes on from here, or from an earlier position: one row, nothing is copied."""
        self._history.forked(self.agent, agent_key(ADAPTER, new_id), new_id, at)
        return BackstorySession(
            new_id, self._history.store, session_settings=self.session_settings, repair=self.repair
        )

    def close(self) -> None:
        """Let go of the store; from then on every method raises RuntimeError."""
        self._history.close()

    # --- the SDK's protocol ---

    async def get_items(self, limit: int | None = None) -> list[Item]:
        """The newest `limit` items, oldest first; None: as the settings say, else all."""
        if limit is None and self.session_settings is not None:
            limit = self.session_settings.limit
        nothing: list[Item] = []
        items = await self._read(lambda agent: _items(agent, limit), nothing)
        return _without_orphans(items) if self.repair and limit is None else items

    async def add_items(self, items: list[Item]) -> None:
        """Write items behind the others, all or none."""
        self._history.store  # noqa: B018  a closed session refuses even an empty list
        if items:
            batch = written(items)
            await self._write(lambda agent: agent.extend(batch))

    async def pop_item(self) -> Item | None:
        """Take the newest item out of the context and return it; None if there is none."""
        return await self._read(_popped, None)

    async def clear_session(self) -> None:
        """Empty the context."""
        await self._read(lambda agent: bool(agent.clear(by=ADAPTER)), False)

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[Item], bool] | None = None
    ) -> Any:
        """What the SDK asks for by name, to compact in one step: the newest items, and how to replace the
        last of them. The first items that `prune_prefix` is true of then leave the context, too."""
        from agents.memory.session import _CompactionSnapshot

        nothing: tuple[int, list[Carried]] = (0, [])
        head, found = await self._read(
            lambda agent: (agent.head, newest(agent, limit + 1)), nothing
        )
        shown = found[-limit:]

        async def replace_suffix(start: int, output: list[Item]) -> bool:
            if not shown[start:]:
                return False
            place = shown[start].event.seq

            def replace(agent: Agent) -> bool:
                kept = None if prune_prefix is None else _behind_pruned(agent, place, prune_prefix)
                batch: Batch = [_back_to(place - 1) if kept is None else _clear()]
                batch += written((*(kept or ()), *output))
                return bool(agent.extend(batch, expected=head))

            try:
                return await self._read(replace, False)
            except Conflict:
                return False

        return _CompactionSnapshot(
            [each.item for each in shown], len(found) <= limit, replace_suffix
        )

    async def _read(self, call: Callable[[Agent], R], otherwise: R) -> R:
        self._history.store  # noqa: B018
        return await in_thread(partial(self._history.read, self._key, call, otherwise))

    async def _write(self, call: Callable[[Agent], R]) -> R:
        return await in_thread(partial(self._history.write, self._key, self.session_id, call))


# --- reading ---


def newest(agent: Agent, limit: int | None = None) -> list[Carried]:
    """The newest items of the context, oldest first; None: all."""
    return newest_items(ADAPTER, agent, item_of, limit)


def _items(agent: Agent, limit: int | None) -> list[Item]:
    if limit is None:
        return all_items(ADAPTER, agent, item_of)
    return last_items(ADAPTER, agent, item_of, limit)


def _popped(agent: Agent) -> Item | None:
    """Jump to just before the newest item. Its key makes each pop one of its own: two that jump to the same
    place behind the same head are not one jump that was repeated."""
    while True:
        head = agent.head
        found = newest(agent, 1)
        if not found:
            return None
        try:
            agent.extend([_back_to(found[0].event.seq - 1)], expected=head)
        except Conflict:  # someone else wrote in between: look again
            continue
        item: Item = found[0].item
        return item


def _back_to(place: int) -> Draft:
    return ("jump", None, {"target_message_id": place, "by": ADAPTER}, _unique())


def _clear() -> Draft:
    return ("clear", None, {"by": ADAPTER}, _unique())


def _unique() -> str:
    """A key that makes a move one of its own."""
    return f"{ADAPTER}:{secrets.token_hex(8)}"


def _behind_pruned(agent: Agent, place: int, prune: Callable[[Item], bool]) -> list[Item] | None:
    """The items before a position without the first ones that are to go; None if none is to go."""
    before = [each.item for each in newest(agent) if each.event.seq < place]
    gone = next((number for number, item in enumerate(before) if not prune(item)), len(before))
    return before[gone:] if gone else None


def _without_orphans(items: list[Item]) -> list[Item]:
    """The items without outputs whose calls are gone."""
    calls = {item.get("call_id") for item in items if not _is_output(item)}
    return [item for item in items if not _is_output(item) or item.get("call_id") in calls]


def _is_output(item: Item) -> bool:
    return isinstance(item, dict) and str(item.get("type")).endswith("_call_output")


def item_of(event: Event) -> Item | None:
    """A message that something else wrote, as an item."""
    data = event.data or {}
    match event.kind:
        case "tool_call":
            [call] = wire.dump([event], FORMAT, pending=True).body["input"]
            return dict(call) | {"call_id": str(data.get("id"))}
        case "tool_result":
            call_id, output = str(data.get("id")), answered(event, FORMAT)
            return {"type": "function_call_output", "call_id": call_id, "output": output}
        case "assistant":
            return {"role": "assistant", "content": event.content} if event.content else None
        case "system":
            return {"role": "system", "content": event.content}
    said, _ = message_of(event, FORMAT)
    return said if said["content"] else None


# --- writing ---


def written(items: Iterable[Any]) -> Batch:
    """What items become; TypeError for what is no item."""
    batch: Batch = []
    for item in items:
        draft = _plain(item)
        batch += drafts(item) if draft is None else (draft,)
    return batch


def drafts(item: Any) -> list[Event]:
    """The events that an item becomes, whatever it is."""
    if not isinstance(item, dict):
        raise TypeError(f"an item of a session is a dict, not {type(item).__name__}")
    exact = encode_exactly(item)
    form = item if exact is not None else _as_json(item)
    events = _loaded(form)
    if not events:
        return [note(ADAPTER, f"{ADAPTER}.item", form)]
    return carried(ADAPTER, form, events, provider=FORMAT, exact=exact)


def _as_json(item: Item) -> Item:
    """What is read again of an item that is written as JSON: with lists for tuples, say."""
    try:
        form: Item = json.loads(json.dumps(item))
    except (ValueError, RecursionError) as error:
        raise TypeError(f"an item of a session is JSON, and this one is not ({error})") from error
    return form


def _plain(item: Any) -> Draft | None:
    """The event of one of the plainest items, which `drafts` would make just so; None for all others. Such an
    item has nothing but texts and empty lists, so it need not be shown to be exact JSON."""
    if type(item) is not dict:
        return None
    match item.get("type"):
        case None:
            text = item.get("content")
            if (
                len(item) == 2
                and item.get("role") == "user"
                and _has_texts(item)
                and _is_said(text)
            ):
                return "user", text, _data({**item, "content": _hole_for(text)})
        case "function_call_output":
            id, text = item.get("call_id"), item.get("output")
            if len(item) == 3 and _has_texts(item) and _is_said(id) and _is_said(text):
                return "tool_result", text, {"id": id, **_data({**item, "output": _hole_for(text)})}
        case "function_call":
            return _plain_call(item)
        case "message":
            return _plain_answer(item)
    return None


def _plain_call(item: Item) -> Draft | None:
    id, name, given = item.get("call_id"), item.get("name"), item.get("arguments")
    if not (item.keys() <= CALL_NAMES and _has_texts(item) and _is_said(id) and _is_said(name)):
        return None
    arguments = _object_in(given) if type(given) is str else None
    data = {"id": id, "name": name, "arguments": arguments, **_data(_copied(item))}
    return None if arguments is None else ("tool_call", None, data)


def _plain_answer(item: Item) -> Draft | None:
    parts = item.get("content")
    part = parts[0] if type(parts) is list and len(parts) == 1 else None
    if type(part) is not dict or part.get("type") != "output_text" or not part.keys() <= PART_NAMES:
        return None
    text, around = part.get("text"), {**item, "content": ""}
    if item.get("role") != "assistant" or not item.keys() <= ANSWER_NAMES or not _is_said(text):
        return None
    if not _has_texts(around) or not _has_texts(part):
        return None
    form = {**_copied(around), "content": [{**_copied(part), "text": _hole_for(text)}]}
    return "assistant", text, _data(form)


def _has_texts(item: Item) -> bool:
    """Whether all values are texts or empty lists, themselves and not of another type that is like them. A
    text may not have half of a surrogate pair, which no store takes."""
    for value in item.values():
        if type(value) is str:
            if not value.isascii() and not _is_unicode(value):
                return False
        elif type(value) is not list or value:
            return False
    return True


def _copied(item: Item) -> Item:
    """An item of texts and empty lists, with lists of its own. It becomes JSON when the write is under way,
    and the caller may change the item before that."""
    return {name: value if type(value) is str else [] for name, value in item.items()}


def _is_said(text: Any) -> TypeGuard[str]:
    return type(text) is str and text != "" and "\0" not in text and not text.isspace()


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _hole_for(text: str) -> str | dict[str, str]:
    return text if len(text) < SMALLEST else HERE


def _data(form: Item) -> dict[str, Any]:
    """What the data of an event with an item's form has beside what the event says."""
    return {"native": {"provider": FORMAT, "wire": [form]}, "item": TAG}


def _object_in(text: str) -> Item | None:
    """The JSON object in a text, if it is one that anyone would read the same way, and not a deep one."""
    if LONG_NUMBER.search(text) or text.count("{") + text.count("[") > MOST_LEVELS:
        return None
    try:
        value = orjson.loads(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _loaded(item: Item) -> list[Draft]:
    """What an item says, as far as the format can be read; nothing for what is not a message."""
    items = [item]
    output = ANSWERED.get(str(item.get("type")))
    if output is not None and isinstance(item.get("call_id"), str):
        items.append({"type": output, "call_id": item["call_id"], "id": item["call_id"]})
    try:
        found: list[Draft] = list(wire.load({"input": items}, FORMAT))
    except Error:
        return []
    return found[:1] if len(items) > 1 else found
