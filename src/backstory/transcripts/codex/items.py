"""Codex's response items: what each is to a history, and the entry that it comes to. Pure."""

from hashlib import blake2b
from typing import Any, NamedTuple

import orjson

from backstory.errors import Invalid
from backstory.transcripts.entries import (
    Data,
    arguments_of,
    as_text,
    call_data,
    is_plain,
    json_of,
    loaded_answer,
    named,
    result_data,
    shallow,
    text_in,
)
from backstory.transcripts.transcript import Entry
from backstory.transcripts.words import Words
from backstory.wire import load

Item = dict[str, Any]

CALLS = Words({"function_call", "custom_tool_call", "local_shell_call", "tool_search_call"})
OUTPUTS = Words({"function_call_output", "custom_tool_call_output", "tool_search_output"})
# What leads to an answer without being said: it rides in the native content of what follows.
SILENT = Words({"reasoning", "web_search_call", "image_generation_call"})
SEALED = Words({"compaction", "compaction_summary", "context_compaction"})
# Of use to Codex only.
PRIVATE = Words({"internal_chat_message_metadata_passthrough", "metadata"})

# The tool in the user's mouth (codex-rs/thread-store, rollback.rs), by how the text begins.
MOUTHED = (
    ("# AGENTS.md instructions", "instructions"),
    ("<user_instructions>", "instructions"),
    ("<INSTRUCTIONS>", "instructions"),
    ("<permissions instructions>", "environment"),
    ("<environment_context>", "environment"),
    ("<environments_instructions>", "environment"),
    ("<skill>", "skill"),
    ("<skills_instructions>", "skill"),
    ("<plugins_instructions>", "plugins"),
    ("<recommended_plugins>", "plugins"),
    ("<apps_instructions>", "plugins"),
    ("<collaboration_mode>", "environment"),
    ("<user_shell_command>", "command"),
    ("<turn_aborted>", "interruption"),
    ("<subagent_notification>", "notification"),
    ("<codex_internal_context", "environment"),
    ("<goal_context>", "environment"),
    ("<external_", "environment"),
    ("<hook_prompt", "hook"),
    ("Warning: The maximum number of unified exec processes you can keep open is", "notification"),
    ("Warning: apply_patch was requested via ", "notification"),
    ("Warning: Your account was flagged for potentially high-risk cyber activity", "notification"),
)


class Kind(NamedTuple):
    """What an item is to rollbacks: a turn begins with a prompt, and takes the notices above it with it."""

    prompt: bool = False
    notice: bool = False


def kind_of(item: Item) -> Kind:
    """Whether an item is a real prompt, or the tool's own."""
    match item.get("type", "message"), item.get("role"):
        case "agent_message", _:
            return Kind(prompt=True)
        case "message", "user":
            meta = meta_of(item)
            return Kind(prompt=meta is None, notice=meta is not None)
        case "message", "assistant":
            return Kind(prompt=_is_letter(item))
        case "message", "developer" | "system":
            # A developer's text that is none of the tool's own stays when the turn goes.
            return Kind(
                notice=_begins(item, "<") or _begins(item, "Approved command prefix saved:")
            )
    return Kind()


def _is_letter(item: Item) -> bool:
    """Whether an answer is what another agent wrote: at first letters were JSON in an answer's words."""
    text = text_in(item.get("content"))
    if not text.startswith("{") or '"trigger_turn"' not in text:
        return False
    letter = arguments_of(text)
    return isinstance(letter, dict) and {"author", "recipient", "content"} <= letter.keys()


def meta_of(item: Item) -> str | None:
    """What a user item is, if the tool wrote it."""
    content = item.get("content")
    for part in content if isinstance(content, list) else [content]:
        text = text_in(part).lstrip()
        for start, what in MOUTHED:
            if text.startswith(start):
                return what
    return None


def _begins(item: Item, start: str) -> bool:
    return text_in(item.get("content")).lstrip().startswith(start)


def mirrored(event: Data) -> Item | None:
    """The item that an event mirrors."""
    role = {"user_message": "user", "agent_message": "assistant"}.get(as_text(event.get("type")))
    text = event.get("message")
    if role is None or not isinstance(text, str):
        return None
    part = {"type": "input_text" if role == "user" else "output_text", "text": text}
    return {"type": "message", "role": role, "content": [part]}


def likeness(item: Item) -> bytes:
    """What makes an item the same as another of one history: a call's id, a message's words."""
    type_ = item.get("type", "message")
    if "call_id" in item:
        return f"{type_} {item['call_id']}".encode("utf-8", "replace")[:200]
    said = f"{type_}\0{item.get('role')}\0{text_in(item.get('content'))}"
    if type_ in SEALED:
        said += as_text(item.get("encrypted_content"))
    return blake2b(said.encode("utf-8", "replace"), digest_size=16).digest()


def digest(item: Item) -> bytes:
    """All that an item says, for comparing it with that of a parent: without ids, times and seals."""
    said = (
        item.get("type", "message"),
        item.get("role"),
        text_in(item.get("content")),
        item.get("call_id"),
        item.get("name"),
        item.get("arguments") or item.get("input"),
        item.get("output"),
    )
    return blake2b(json_of(said), digest_size=16).digest()


def entry(
    item: Item, before: list[Item], id: str, time: int | None, model: str | None
) -> Entry | None:
    """The entry of an item; `before`: the silent items that led to it. None: it says nothing."""
    match item.get("type", "message"):
        case "message":
            return _message(item, before, id, time, model)
        case "agent_message":
            return Entry(id, "user", text_in(item.get("content")), {"meta": "message"}, time)
        case type_ if type_ in CALLS:
            return _call(item, before, id, time, model)
        case type_ if type_ in OUTPUTS:
            return _output(item, id, time)
        case type_ if type_ in SILENT or type_ in SEALED:
            return _loaded([*before, item], id, time, model)
    return None


def _message(item: Item, before: list[Item], id: str, time: int | None, model: str | None) -> Entry:
    role = item.get("role")
    content = item.get("content")
    parts = content if isinstance(content, list) else [content]
    plain = all(isinstance(part, str) or _is_text(part) for part in parts)
    if role == "assistant":
        if plain and not before and "phase" not in item:
            return Entry(id, "assistant", text_in(content), _tag(model), time)
        return _loaded([*before, item], id, time, model) or Entry(
            id, "assistant", text_in(content), _tag(model), time
        )
    kind = "user" if role == "user" else "system"
    data: Data = {}
    meta = meta_of(item) if kind == "user" else None
    if meta is not None:
        data["meta"] = meta
    text = text_in(content)
    if not plain:
        try:
            [(_, said, native)] = load(
                {"input": [_stripped(item)]}, "openai-responses", model=model
            )
            text, data = said or "", data | (native or {})
        except (Invalid, ValueError):
            pass
    return Entry(id, kind, text, data or None, time)


def _is_text(part: Any) -> bool:
    return (
        isinstance(part, dict)
        and part.get("type") in ("input_text", "output_text", "text")
        and isinstance(part.get("text"), str)
    )


def _tag(model: str | None) -> Data | None:
    return None if model is None else {"model": model}


def _call(item: Item, before: list[Item], id: str, time: int | None, model: str | None) -> Entry:
    found = None
    if item["type"] in ("function_call", "custom_tool_call"):
        found = _loaded([*before, item if before else _bare(item)], id, time, model)
    if found is not None and found.kind == "tool_call":
        return found
    call = item.get("call_id") or item.get("id")
    name = item.get("name") or {
        "local_shell_call": "local_shell",
        "tool_search_call": "tool_search",
    }.get(item["type"])
    given = item.get("arguments") if "arguments" in item else item.get("input", item.get("action"))
    if item["type"] == "custom_tool_call":
        given = {"input": as_text(given)}
    return Entry(
        id, "tool_call", None, call_data(call, name, given, id) | (_tag(model) or {}), time
    )


def _bare(item: Item) -> Item:
    """A call without its item's id and status: only reasoning that stands before it needs them."""
    return {key: value for key, value in item.items() if key not in ("id", "status")}


def _stripped(item: Item) -> Item:
    tidy = {key: value for key, value in item.items() if key not in PRIVATE}
    if isinstance(tidy.get("content"), type(None)):
        tidy.pop("content", None)
    return shallow(tidy)  # type: ignore[no-any-return]


def _loaded(items: list[Item], id: str, time: int | None, model: str | None) -> Entry | None:
    """The event that the wire makes of a run of the model's items."""
    tidy = [_stripped(item) for item in items]
    try:
        loaded = usual_answer(tidy, model) or loaded_answer(tidy, "openai-responses", model)
    except Invalid:
        return None
    if len(loaded) != 1:
        return None
    kind, content, data = loaded[0]
    if kind == "tool_call" and data is not None:
        data = data | {"arguments": shallow(arguments_of(data.get("arguments")))}
    return Entry(id, kind, content, (data or {}) | (_tag(model) or {}) or None, time)


def usual_answer(
    items: list[Item], model: str | None
) -> list[tuple[str, str | None, Data | None]] | None:
    """What the wire would load, but many times faster: reasoning, if any, then a message or a call. None: use
    the wire."""
    *before, last = items
    found = _usual_call(last) if "call_id" in last else _usual_message(last)
    if (
        found is None
        or any(item.get("type") != "reasoning" for item in before)
        or not _is_clean(items)
    ):
        return None
    kind, content, data = found
    if before or not _is_bare_call(last):
        tag = {} if model is None else {"model": model}
        data["native"] = {"provider": "openai-responses", **tag, "wire": items}
    if model is not None:
        data["model"] = model
    return [(kind, content, data or None)]


def _usual_call(item: Item) -> tuple[str, None, Data] | None:
    id, name = item["call_id"], item.get("name")
    if not (is_plain(id) and is_plain(name)):
        return None
    match item:
        case {"type": "function_call", "arguments": str(text)}:
            given = arguments_of(text)
            # Where the value gives back the text, the wire's own parser has read the same.
            if not isinstance(given, dict) or json_of(given) != text.encode("utf-8", "replace"):
                return None
            if shallow(given) is not given:
                return None
        case {"type": "custom_tool_call", "input": str(text)} if not id.startswith("xs_call_"):
            given = {"input": text}
        case _:
            return None
    return "tool_call", None, {"id": id, "name": name, "arguments": given}


def _usual_message(item: Item) -> tuple[str, str, Data] | None:
    match item:
        case {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": str(text)} as part],
        }:
            return ("assistant", text, {}) if len(part) == 2 and text.strip() else None
    return None


def _is_bare_call(item: Item) -> bool:
    """Whether an event says all that an item has."""
    return item["type"] == "function_call" and item.keys() == _BARE_CALL


_BARE_CALL = frozenset({"type", "call_id", "name", "arguments"})


def _is_clean(items: list[Item]) -> bool:
    """Whether there is nothing in the texts that the wire would replace: U+0000, or half a surrogate pair."""
    try:
        return b"\\u0000" not in orjson.dumps(items)
    except TypeError:
        return False


def _output(item: Item, id: str, time: int | None) -> Entry:
    output = item.get("output", item.get("tools"))
    error = isinstance(output, dict) and output.get("success") is False
    call = named(item.get("call_id"), id)
    if (
        item["type"] == "function_call_output" and item.get("call_id") is None
    ):  # no call asked for it
        return Entry(
            id, "user", text_in(output), {"meta": as_text(item.get("name")) or "tool"}, time
        )
    if isinstance(output, str):
        return Entry(id, "tool_result", output, result_data(call, id), time)
    if isinstance(output, list) and not all(_is_text(part) for part in output):
        try:
            [(_, text, data)] = load({"input": [_stripped(item)]}, "openai-responses")
            return Entry(id, "tool_result", text or "", data, time)
        except (Invalid, ValueError):
            pass
    text = text_in(output) or (as_text(output) if output and not isinstance(output, list) else "")
    return Entry(id, "tool_result", text, result_data(call, id, error=error), time)
