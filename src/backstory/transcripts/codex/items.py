"""The response items of Codex: what each means for the history, and the event that it becomes.
Pure.
"""

from hashlib import blake2b
from typing import Any, Final

from backstory.errors import Invalid
from backstory.transcripts.content import (
    as_object,
    build_call,
    build_result,
    flatten_deep,
    join_text,
    load_native,
    parse_arguments,
    to_text,
)
from backstory.transcripts.model import Data
from backstory.wire import load

FORMAT: Final = "openai-responses"
Item = dict[str, Any]
ItemEvent = tuple[str, str | None, Data | None]  # kind, content and data of an event

CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "tool_search_call"})
OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output", "tool_search_output"})
# Items that lead to an answer: they are part of the native content of the item after them.
SILENT = frozenset({"reasoning", "web_search_call", "image_generation_call"})
SEALED = frozenset({"compaction", "compaction_summary", "context_compaction"})
ITEMS = frozenset({"message", "agent_message", *CALLS, *OUTPUTS, *SILENT, *SEALED})
# Fields that only Codex uses.
PRIVATE = frozenset({"internal_chat_message_metadata_passthrough", "metadata"})
NAMELESS_TOOLS = {"local_shell_call": "local_shell", "tool_search_call": "tool_search"}

# How the texts begin that Codex writes in the name of the user (codex-rs/thread-store,
# rollback.rs).
TOOL_TEXTS = (
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
# How the developer texts begin that Codex writes itself: only these go away with a turn.
DEVELOPER_TEXTS = ("<", "Approved command prefix saved:")


def get_type(record: Item) -> str:
    """Return the type of a record or item, "" if it has none that is a text."""
    type_ = record.get("type", "message")
    return type_ if isinstance(type_, str) else ""


def is_prompt(item: Item) -> bool:
    """Return True if a rollback counts the item as the beginning of a turn."""
    if get_type(item) == "agent_message":
        return True
    if get_type(item) != "message":
        return False
    if item.get("role") == "assistant":
        return is_letter(item)
    return item.get("role") == "user" and find_tool_text(item) is None


def is_notice(item: Item) -> bool:
    """Return True if the tool wrote the item: a rollback removes it with the turn below it."""
    if get_type(item) != "message":
        return False
    if item.get("role") == "user":
        return find_tool_text(item) is not None
    if item.get("role") in ("developer", "system"):
        return join_text(item.get("content")).lstrip().startswith(DEVELOPER_TEXTS)
    return False


def is_letter(item: Item) -> bool:
    """Return True if an answer is a letter of another agent. Early releases wrote letters as JSON
    in the words of an answer."""
    text = join_text(item.get("content"))
    if not text.startswith("{") or '"trigger_turn"' not in text:
        return False
    letter = parse_arguments(text)
    return isinstance(letter, dict) and {"author", "recipient", "content"} <= letter.keys()


def find_tool_text(item: Item) -> str | None:
    """Return what a user item is if the tool wrote it, else None."""
    content = item.get("content")
    for part in content if isinstance(content, list) else [content]:
        text = join_text(part).lstrip()
        for start, meaning in TOOL_TEXTS:
            if text.startswith(start):
                return meaning
    return None


def build_mirrored_item(event: Data) -> Item | None:
    """Return the item that a `user_message` or `agent_message` event mirrors."""
    text = event.get("message")
    if not isinstance(text, str):
        return None
    if event.get("type") == "user_message":
        return build_message("user", text)
    if event.get("type") == "agent_message":
        return build_message("assistant", text)
    return None


def build_message(role: str | None, text: str) -> Item:
    """Return a message item."""
    part = {"type": "output_text" if role == "assistant" else "input_text", "text": text}
    return {"type": "message", "role": role, "content": [part]}


def compute_likeness(item: Item) -> bytes:
    """Return a digest that is equal for items of one history that say the same."""
    type_ = get_type(item)
    if "call_id" in item:
        words = f"{type_} {item['call_id']}"
    else:
        words = f"{type_}\0{item.get('role')}\0{join_text(item.get('content'))}"
    if type_ in SEALED:
        words += to_text(item.get("encrypted_content"))
    return blake2b(words.encode("utf-8", "replace"), digest_size=8).digest()


# --- events ---


def read_item(item: Item, silent: list[Item], id: str, model: str | None) -> ItemEvent | None:
    """Return the event of an item; None if the type of the item is unknown.

    `silent` are the items that led to it, `id` names a call or result that has no id.
    """
    type_ = get_type(item)
    if type_ == "message":
        return read_message(item, silent, model)
    if type_ == "agent_message":
        return "user", join_text(item.get("content")), {"meta": "message"}
    if type_ in CALLS:
        return read_call(item, silent, id, model)
    if type_ in OUTPUTS:
        return read_output(item, id)
    if type_ in SEALED:
        return load_items([*silent, item], model)
    return None


def read_message(item: Item, silent: list[Item], model: str | None) -> ItemEvent:
    """Return the event of a message."""
    if item.get("role") == "assistant":
        return read_answer(item, silent, model)
    kind, data = "system", Data()
    if item.get("role") == "user":
        kind, meta = "user", find_tool_text(item)
        if meta is not None:
            data["meta"] = meta
    if not has_only_text(item.get("content")):
        text, native = load_input(item, model)
        if native is not None:
            return kind, text, {**data, **native}
    return kind, join_text(item.get("content")), data or None


def read_answer(item: Item, silent: list[Item], model: str | None) -> ItemEvent:
    """Return the event of an answer. Its own form is kept if it is more than text."""
    if silent or "phase" in item or not has_only_text(item.get("content")):
        loaded = load_items([*silent, item], model)
        if loaded is not None:
            return loaded
    return "assistant", join_text(item.get("content")), tag_model(model) or None


def has_only_text(content: Any) -> bool:
    """Return True if a content is nothing but text."""
    parts = content if isinstance(content, list) else [content]
    return all(isinstance(part, str) or is_text_part(part) for part in parts)


def is_text_part(part: Any) -> bool:
    """Return True if a part of a content is a text."""
    if not isinstance(part, dict) or not isinstance(part.get("text"), str):
        return False
    return part.get("type") in ("input_text", "output_text", "text")


def read_call(item: Item, silent: list[Item], id: str, model: str | None) -> ItemEvent:
    """Return the event of a call."""
    type_ = get_type(item)
    if type_ in ("function_call", "custom_tool_call"):
        # Only reasoning in front of a call needs the id and the status of its item.
        bare = {key: value for key, value in item.items() if key not in ("id", "status")}
        loaded = load_items([*silent, item] if silent else [bare], model)
        if loaded is not None and loaded[0] == "tool_call":
            return loaded
    call_id = item.get("call_id") or item.get("id")
    name = item.get("name") or NAMELESS_TOOLS.get(type_)
    arguments = item.get("arguments", item.get("input", item.get("action")))
    if type_ == "custom_tool_call":
        arguments = {"input": to_text(arguments)}
    return "tool_call", None, build_call(call_id, name, arguments, id) | tag_model(model)


def read_output(item: Item, id: str) -> ItemEvent:
    """Return the event of a result."""
    output = item.get("output", item.get("tools"))
    if item.get("call_id") is None and get_type(item) == "function_call_output":
        # No call asked for it: the tool speaks.
        return "user", join_text(output), {"meta": to_text(item.get("name")) or "tool"}
    if isinstance(output, list) and not has_only_text(output):
        text, native = load_input(item, None)
        if native is not None:
            return "tool_result", text, native
    is_error = as_object(output).get("success") is False
    text = join_text(output)
    if not text and isinstance(output, dict) and output:
        text = to_text(output)
    return "tool_result", text, build_result(item.get("call_id"), id, is_error=is_error)


def load_input(item: Item, model: str | None) -> tuple[str, Data | None]:
    """Return the text and data that the wire loads from an item with media. No data: it refuses
    it."""
    try:
        [(_, text, data)] = load({"input": [clean_item(item)]}, FORMAT, model=model)
    except (Invalid, ValueError):
        return "", None
    return text or "", data


def load_items(items: list[Item], model: str | None) -> ItemEvent | None:
    """Return the one event that the wire loads from items of the model; None if it does not."""
    try:
        loaded = load_native(list(map(clean_item, items)), FORMAT, model)
    except Invalid:
        return None
    if len(loaded) != 1:
        return None
    [(kind, content, data)] = loaded
    data = (data or {}) | tag_model(model)
    if kind == "tool_call":
        data["arguments"] = flatten_deep(parse_arguments(data.get("arguments")))
    return kind, content, data or None


def clean_item(item: Item) -> Item:
    """Return an item as the provider knows it."""
    clean = {key: value for key, value in item.items() if key not in PRIVATE}
    if clean.get("content", ()) is None:
        del clean["content"]
    shallow_item: Item = flatten_deep(clean)
    return shallow_item


def tag_model(model: str | None) -> Data:
    """Return the data that names the model."""
    return {} if model is None else {"model": model}
