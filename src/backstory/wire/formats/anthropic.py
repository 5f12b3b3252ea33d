"""Anthropic Messages: `{"system"?, "messages": [...]}`, messages of blocks.

Results are the first blocks of the user message behind their calls, calls the last blocks of
the model's. A unit's own form is a content: a text or a list of blocks.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from backstory.log.settings import Settings
from backstory.wire.formats.base import (
    MAX_BREAKPOINTS,
    Block,
    Body,
    Form,
    Format,
    ProviderAnswer,
    ResponseFacts,
    StreamAssembler,
    StreamPiece,
    ToolDefinition,
    build_facts,
    describe_tool,
    find_turn_ends,
    get_schema,
    merged,
)
from backstory.wire.formats.blocks import (
    cited,
    has_unsigned,
    is_said,
    is_without_words,
    renamed_block,
    summed,
    unread,
    unread_keys,
    without_empty_text,
)
from backstory.wire.formats.fields import (
    check_keys,
    field,
    items,
    name_in,
    objects,
    one_of,
    optional,
)
from backstory.wire.json_values import read_arguments
from backstory.wire.media import (
    IMAGES,
    PDF,
    media,
    standard,
    type_of,
    usual_type,
    web_url,
    words_of,
)
from backstory.wire.models import is_claude
from backstory.wire.origin import FIELDS
from backstory.wire.service_tools import ran
from backstory.wire.turns import (
    Call,
    Media,
    Other,
    Part,
    Reasoning,
    Repair,
    Text,
    Unit,
    make_result,
)

WIRE_ROLES = {"user": "user", "model": "assistant", "system": "system"}
NAME = "anthropic"
# Anthropic refuses a request without max_tokens.
DEFAULT_MAX_TOKENS = 4096
THINKING = ("thinking", "redacted_thinking")
MARK = {"type": "ephemeral"}
# Blocks that can have a breakpoint.
MARKABLE = frozenset({"text", "image", "document", "search_result", "tool_use", "tool_result"})


def _source(found: Media, url: str | None) -> dict[str, Any] | None:
    if url is not None:
        return {"type": "url", "url": url}
    if found.data is None or found.type is None:
        return None
    return {"type": "base64", "media_type": found.type, "data": standard(found)}


def as_blocks(form: Form) -> list[Any]:
    """A content as a list of blocks."""
    return [{"type": "text", "text": form}] if isinstance(form, str) else form


# --- reading ---


def system_units(body: Mapping[str, Any], read: Any) -> Iterator[Unit]:
    """The units of system text that is a field of the body: one, or one for each block."""
    system = body.get("system")
    if isinstance(system, str):
        yield Unit("system", system, read("system", system, "system"), "system")
    elif system is not None:
        for path, block in objects(system, "system"):
            yield Unit("system", [block], read("system", [block], path), path)


# What is read of a message and of its blocks.
MESSAGE = frozenset({"role", "content"})
MEDIA = frozenset({"source", "title"})
SEARCH = frozenset({"content", "title"})
USE = frozenset({"id", "name", "input"})
RESULT = frozenset({"tool_use_id", "content", "is_error"})
# Blocks that only other formats have: here they are a mistake, and refused.
FOREIGN = frozenset(
    {
        "image_url",
        "input_text",
        "output_text",
        "input_image",
        "input_file",
        "input_audio",
        "file",
        "reasoning",
    }
)


def _read_media(kind: str, block: dict[str, Any]) -> list[Part]:
    """An image or a document, and the images that are in the document."""
    match block.get("source"):
        case {"type": "content", "content": list(content)}:
            if not all(map(_is_inside, content)):
                return [Other(kind, complete=False, media=kind)]
            inner = [item for item in content if item["type"] == "image"]
            images = [
                part
                for item in inner
                for part in (_read_source("image", item), *_refused_type(item))
            ]
            whole = _read_source(kind, block)
            if not images or not isinstance(whole, Media) or whole.text:
                return [whole, *images]
            return [*images, *([Other(f"the name {whole.name!r}")] if whole.name else [])]
    return [_read_source(kind, block)]


def _is_inside(item: Any) -> bool:
    """Whether an item of a document's content is a block, and one of text has its text."""
    match item:
        case {"type": "text"}:
            return isinstance(item.get("text"), str)
        case {"type": str()}:
            return True
    return False


def _read_source(kind: str, block: dict[str, Any]) -> Part:
    title = block.get("title")
    name = title if isinstance(title, str) else None
    match block.get("source"):
        case {"type": "base64", "data": str(data), "media_type": str(type_)}:
            return Media(kind, usual_type(type_), data, name=name)
        case {"type": "url", "url": str(url)}:
            return Media(kind, PDF if kind == "document" else None, url=url, name=name)
        case {"type": "text", "data": str(text)}:
            return Media(kind, "text/plain", text=text, name=name)
        case {"type": "content", "content": content}:
            return Media(kind, "text/plain", text=_texts(content), name=name)
        case {"type": "base64" | "url" | "text"}:
            return Other(kind, complete=False, media=kind)
        case {"type": str(type_)}:
            is_whole = type_ != "file" or is_said(block["source"].get("file_id"))
            return Other(f"{kind} by {type_}", complete=is_whole, media=kind)
        case _:
            return Other(kind, complete=False, media=kind)


def _refused_type(block: dict[str, Any]) -> list[Part]:
    """An image's type that the service refuses: "media_type: Input should be 'image/jpeg', 'image/png',
    'image/gif' or 'image/webp'" (claude-code#8184)."""
    match block:
        case {"type": "image", "source": {"type": "base64", "media_type": str(type_)}} if (
            type_ not in IMAGES
        ):
            return [Other(f"the media type {type_!r}", complete=False)]
    return []


def _read_thinking(block: Block) -> Reasoning:
    text, seal = block.get("thinking"), block.get("signature")
    is_text = isinstance(text, str)
    return Reasoning(
        str(text) if is_text else "",
        str(seal or ""),
        is_complete=is_text,
        is_signed=is_said(seal),
        what="thinking",
    )


def _read_search(block: dict[str, Any]) -> Part:
    title = block.get("title")
    return media(
        "text/plain",
        text=_texts(block.get("content")),
        name=title if isinstance(title, str) else None,
    )


def _texts(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    texts = (block.get("text") for block in blocks if isinstance(block, dict))
    return "\n\n".join(text for text in texts if isinstance(text, str))


def is_other_server(model: Any) -> bool:
    """Return True if a model is not Claude. DeepSeek, Kimi, GLM, MiniMax and Qwen speak this language too:
    they sign no thinking, and their servers take fields that they do not know."""
    return isinstance(model, str) and not is_claude(model)


def has_more_behind_a_call(parts: list[Part]) -> bool:
    """Whether something other than calls follows a call. Of tools that the service runs itself the results
    come with its next answer."""
    first = next((index for index, part in enumerate(parts) if isinstance(part, Call)), len(parts))
    return not all(
        isinstance(part, Call) or (isinstance(part, Other) and part.what == "server_tool_use")
        for part in parts[first:]
    )


def counts(usage: Any) -> dict[str, int] | None:
    """Tokens as they are kept: all that was read, of it what came from the cache or was put there."""
    if not isinstance(usage, dict):
        return None
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return summed(usage, names, "output_tokens")


class AnthropicFormat(Format):
    """Anthropic's Messages API."""

    name = NAME
    call_ids = re.compile(r"[A-Za-z0-9_-]{1,64}")
    parameters = MappingProxyType(
        {
            "max_tokens": "max_tokens",
            "temperature": "temperature",
            "top_p": "top_p",
            "stop": "stop_sequences",
            "effort": "output_config.effort",
            "thinking": "thinking",
        }
    )

    def put_before(self, written: Form, form: Form) -> list[Form]:
        """Put blocks before the first form of an answer, but after its thinking: "a final `assistant`
        message must start with a thinking block" (claude-code#11978)."""
        blocks = form if isinstance(form, list) else []
        count = 0
        while count < len(blocks) and blocks[count].get("type") in THINKING:
            count += 1
        return [form[:count], written, form[count:]] if count else [written, form]

    def rename_result(self, form: Form, id: str) -> Form:
        """Return a result for the same call under another id."""
        return renamed_block(form, "tool_use_id", id)

    def write_message(self, role: str, content: Any, name: str | None) -> list[dict[str, Any]]:
        """The blocks of a system or user message."""
        return [{"type": "text", "text": content}] if isinstance(content, str) else content

    def write_text(self, text: str) -> dict[str, Any]:
        """A block of words."""
        return {"type": "text", "text": text}

    def write_media(self, found: Media, in_result: bool) -> dict[str, Any] | None:
        """An image or a document; there are no others."""
        url = web_url(found)
        if found.kind == "image":
            source = _source(found, url) if found.url is not None or found.type in IMAGES else None
            return source and {"type": "image", "source": source}
        if found.kind != "document":
            return None
        title = {"title": found.name} if found.name else {}
        text = words_of(found)
        if text is not None:
            source = {"type": "text", "media_type": "text/plain", "data": text}
        else:
            source = _source(found, url) if type_of(found) in (PDF, None) else None
        return source and {"type": "document", "source": source} | title

    def write_call(
        self, id: str, name: str, arguments: dict[str, Any], text: str | None
    ) -> dict[str, Any]:
        """A tool_use block."""
        return {"type": "tool_use", "id": id, "name": name, "input": arguments}

    def write_answer(
        self, texts: Sequence[str], calls: list[Any], name: str | None
    ) -> list[dict[str, Any]]:
        """Texts, then calls. Anything behind a tool_use block is refused: "tool_use ids were found without
        tool_result blocks immediately after" (recorded by opencode, haiku-4.5, 2026-05-05)."""
        return [*({"type": "text", "text": text} for text in texts), *calls]

    def write_result(
        self, id: str, name: str, content: Any, error: bool, kind: str
    ) -> list[dict[str, Any]]:
        """A tool_result block."""
        block = {"type": "tool_result", "tool_use_id": id, "content": content}
        return [block | {"is_error": True} if error else block]

    def write_body(
        self, system: list[Form], roles: list[str], forms: list[Form], names: Iterable[str]
    ) -> dict[str, Any]:
        """The request's system text and messages."""
        messages = [
            {"role": WIRE_ROLES[role], "content": content}
            for role, content in merged(roles, forms, as_blocks)
        ]
        if not system:
            return {"messages": messages}
        top = (
            system[0]
            if len(system) == 1
            else [block for form in system for block in as_blocks(form)]
        )
        return {"system": top, "messages": messages}

    def read_body(self, body: Mapping[str, Any]) -> Iterator[Unit]:
        """System blocks one by one, then the messages, each user message as its results and the rest."""
        yield from system_units(body, self.read_form)
        for path, message in items(dict(body), "messages"):
            is_plain = all(key in MESSAGE or value is None for key, value in message.items())
            if not is_plain and not is_other_server(body.get("model")):
                # "messages.1.reasoning_details: Extra inputs are not permitted" (Roo-Code#11429). Other servers
                # that speak this language take what they do not know.
                check_keys(message, MESSAGE, path)
            for unit in self._message_units(message, path):
                yield unit if is_plain else unit._replace(took=(FIELDS,))

    def _message_units(self, message: dict[str, Any], path: str) -> Iterator[Unit]:
        role = one_of(message.get("role"), ("user", "assistant", "system"), f"{path}.role")
        content, inside = message.get("content"), f"{path}.content"
        if role == "assistant":
            yield Unit("step", content, self.read_form("step", content, inside), inside)
        elif isinstance(content, str) or role == "system":
            yield Unit(role, content, self.read_form(role, content, inside), inside)
        else:
            yield from self._user_units(content, inside)

    def _user_units(self, content: Any, path: str) -> Iterator[Unit]:
        rest = []
        for where, block in objects(content, path):
            if block.get("type") == "tool_result":
                yield Unit("result", [block], self._read_block(block, where), where)
            else:
                rest.append(block)
        if (
            rest or not content
        ):  # an empty message is logged, and its dump tells that it is left out
            yield Unit("user", rest, self.read_form("user", rest, path), path)

    def read_form(self, role: str, form: Form, path: str) -> list[Part]:
        """The parts of a content."""
        if isinstance(form, str):
            return [Text(form)]
        return [
            part for where, block in objects(form, path) for part in self._read_block(block, where)
        ]

    def _read_block(self, block: dict[str, Any], path: str) -> list[Part]:
        match field(block, "type", str, path):
            case "text":
                return cited(field(block, "text", str, path), block)
            case "image" | "document" as kind:
                return [*_read_media(kind, block), *_refused_type(block), *unread(block, MEDIA)]
            case "search_result":
                return [_read_search(block), *unread(block, SEARCH)]
            case "tool_use":
                arguments = field(block, "input", dict, path)
                more = unread_keys(block, USE)
                return [
                    Call(
                        name_in(block, "id", path),
                        name_in(block, "name", path),
                        arguments,
                        extras=more,
                    )
                ]
            case "tool_result":
                content = block.get("content")
                found = (
                    []
                    if content in (None, "")
                    else self.read_form("result", content, f"{path}.content")
                )
                is_error = optional(block, "is_error", bool, path)
                return [
                    make_result(
                        name_in(block, "tool_use_id", path), found + unread(block, RESULT), is_error
                    )
                ]
            case "thinking":
                return [_read_thinking(block)]
            case "redacted_thinking":
                seal = block.get("data")
                return [
                    Reasoning("", str(seal), is_complete=is_said(seal), what="redacted_thinking")
                ]
            case "compaction":  # a summary instead of all that came before
                return [ran("compaction", "compaction", block.get("content"))]
            case "server_tool_use" | "mcp_tool_use" as other:
                return [ran(other, block.get("name"), block.get("input"))]
            case "container_upload" as other:
                return [Other(other, media="document")]
            case other if other.endswith("_tool_result"):
                return [ran(other, other.replace("_tool_result", "_result"), block.get("content"))]
            case other:
                return [Other(other, complete=other not in FOREIGN)]

    def repair_form(self, form: Form, stored: bool) -> tuple[Form, list[str]]:
        """Without empty text: "text content blocks must be non-empty" (claude-code#59812). Blank text beside
        something else is taken: [" ", "real"] was accepted (LibreChat agents PR#124)."""
        return without_empty_text(
            form, lambda block: block.get("type") == "text" and block.get("text") == ""
        )

    def find_refusal(self, role: str, parts: list[Part], model: str | None) -> str:
        """Return the rule by which the service refuses a form of these parts; empty if it takes it."""
        if not is_other_server(model) and has_unsigned(parts):
            return "Invalid `signature` in `thinking` block"
        if is_without_words(parts):  # (home-assistant#175637)
            return "text content blocks must contain non-whitespace text"
        if role == "step" and has_more_behind_a_call(parts):  # see `write_answer`
            return "`tool_use` ids were found without `tool_result` blocks immediately after"
        return ""

    def read_response(self, response: Mapping[str, Any]) -> ProviderAnswer:
        """An answer's content, model and usage."""
        usage = response.get("usage")
        return ProviderAnswer(
            field(dict(response), "content", list, "response"), response.get("model"), counts(usage)
        )

    def read_facts(self, response: Mapping[str, Any]) -> ResponseFacts:
        """Return the id, the stop reason and other facts of a response."""
        usage = response.get("usage")
        return build_facts(
            id=response.get("id"),
            stop=response.get("stop_reason"),
            tier=usage.get("service_tier") if isinstance(usage, Mapping) else None,
            diagnostics=response.get("diagnostics"),
        )

    def open_stream(self) -> StreamAssembler:
        """Return an assembler for the events of one stream."""
        return AnthropicStream()

    # --- around the messages ---

    def add_settings(
        self, body: Body, settings: Settings, model: str | None
    ) -> tuple[Body, list[Repair]]:
        """Return a whole request. It needs max_tokens, and more of them than the budget for thinking:
        "`max_tokens` must be greater than `thinking.budget_tokens`"."""
        request, repairs = super().add_settings(body, settings, model)
        request.setdefault("max_tokens", DEFAULT_MAX_TOKENS)
        thinking = request.get("thinking")
        budget = thinking.get("budget_tokens") if isinstance(thinking, Mapping) else None
        if isinstance(budget, int) and budget >= request["max_tokens"]:
            limit = request["max_tokens"] = request["max_tokens"] + budget
            why = f"max_tokens is {limit}: the budget of {budget} for thinking is a part of it"
            repairs.append(Repair("parameter", None, why))
        return request, repairs

    def write_tool(self, tool: ToolDefinition) -> Block:
        """Write the definition of a tool."""
        return describe_tool(tool) | {"input_schema": get_schema(tool)}

    def write_parameter(self, name: str, value: Any, model: str | None) -> Body:
        """Return the fields of a canonical parameter by their paths."""
        if name == "thinking":
            return {"thinking": {"type": "enabled", "budget_tokens": value}}
        return super().write_parameter(name, value, model)

    def write_tool_choice(self, mode: str, name: str | None) -> Body:
        """Return the field of a tool choice. "any" means that the model has to call some tool."""
        if mode == "tool":
            return {"tool_choice": {"type": "tool", "name": name}}
        if mode == "required":
            return {"tool_choice": {"type": "any"}}
        return {"tool_choice": {"type": mode}} if mode else {}

    # --- the prompt cache ---

    def mark_cache(self, body: Body, model: str | None) -> Body:
        """Set breakpoints on the tools, on the system text and on the user's last two messages, instead
        of those of a loaded history."""
        marked = remove_marks(body, find_marks([body.get("system"), body["messages"]]))
        messages = []
        for message in marked["messages"]:
            # Marked content is a list of blocks, and stays one when the breakpoint moves on.
            messages.append(message | {"content": as_blocks(message["content"])})
        for index in find_turn_ends(messages):
            messages[index]["content"] = mark_last_block(messages[index]["content"])
        marked = marked | {"messages": messages}
        if body.get("system"):
            marked["system"] = mark_last_block(as_blocks(marked["system"]))
        if body.get("tools"):
            marked["tools"] = mark_last_tool(body["tools"])
        return marked

    def finish_body(self, body: Body) -> tuple[Body, list[str]]:
        """Remove all but the last four breakpoints: a loaded history may have more."""
        surplus = find_marks([body.get("system"), body["messages"]])[:-MAX_BREAKPOINTS]
        if not surplus:
            return body, []
        why = f"{len(surplus)} cache breakpoints left out: there may be {MAX_BREAKPOINTS}"
        return remove_marks(body, surplus), [why]


def find_marks(value: Any) -> list[Block]:
    """Return the blocks with a breakpoint, in order. Those within a block (a result, a document, a
    search result) come before the block itself."""
    if isinstance(value, list):
        return [block for item in value for block in find_marks(item)]
    if not isinstance(value, dict):
        return []
    marks = find_marks(value.get("content")) + find_marks(value.get("source"))
    if value.get("cache_control") is not None:
        marks.append(value)
    return marks


def remove_marks(body: Body, blocks: list[Block]) -> Body:
    """Return a body without the breakpoints of these blocks, which are parts of it."""
    if not blocks:
        return body
    ids = {id(block) for block in blocks}
    bare = body | {"messages": copy_without_marks(body["messages"], ids)}
    if "system" in body:
        bare["system"] = copy_without_marks(body["system"], ids)
    return bare


def copy_without_marks(value: Any, ids: set[int]) -> Any:
    """Return a copy of a block, or of a list of blocks, without the breakpoints of blocks with these ids."""
    if isinstance(value, list):
        return [copy_without_marks(item, ids) for item in value]
    if not isinstance(value, dict):
        return value
    block = remove_mark(value) if id(value) in ids else dict(value)
    for key in ("content", "source"):
        if key in block:
            block[key] = copy_without_marks(block[key], ids)
    return block


def remove_mark(block: Block) -> Block:
    """Return a block or a tool without its breakpoint."""
    return {key: value for key, value in block.items() if key != "cache_control"}


def mark_last_block(blocks: list[Block]) -> list[Block]:
    """Set a breakpoint on the last block that can have one. Thinking and empty text cannot."""
    for index in reversed(range(len(blocks))):
        block = blocks[index]
        if block.get("type") in MARKABLE and block.get("text") != "":
            return [*blocks[:index], block | {"cache_control": MARK}, *blocks[index + 1 :]]
    return blocks


def mark_last_tool(tools: list[Block]) -> list[Block]:
    """Set a breakpoint on the last tool that can have one, and on no other: "Tools with defer_loading
    cannot use prompt caching"."""
    tools = [remove_mark(tool) for tool in tools]
    for tool in reversed(tools):
        if not tool.get("defer_loading"):
            tool["cache_control"] = MARK
            break
    return tools


# --- streams ---


# The fields of its block that each kind of delta continues.
CONTINUED_FIELDS = {
    "text_delta": ("text",),
    "input_json_delta": ("partial_json",),
    "thinking_delta": ("thinking",),
    "signature_delta": ("signature",),
    "compaction_delta": ("content", "encrypted_content"),
}


class AnthropicStream(StreamAssembler):
    """Assembles a message of blocks, each started once and continued by deltas."""

    def __init__(self) -> None:
        self._message: Body = {}
        self._blocks: dict[int, Block] = {}

    def add(self, event: Mapping[str, Any]) -> list[StreamPiece]:
        """Take one event. Return the text and the thinking in it."""
        match event.get("type"):
            case "message_start":
                self._message = dict(event["message"])
            case "content_block_start":
                self._blocks[event["index"]] = dict(event["content_block"])
            case "content_block_delta":
                return self._continue_block(self._blocks[event["index"]], event["delta"])
            case "message_delta":
                self._continue_message(event)
        return []

    def _continue_block(self, block: Block, delta: Mapping[str, Any]) -> list[StreamPiece]:
        kind = str(delta.get("type"))
        if kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
        for key in CONTINUED_FIELDS.get(kind, ()):
            if delta.get(key):
                block[key] = (block.get(key) or "") + delta[key]
        if kind == "text_delta":
            return [("text", delta["text"])]
        if kind == "thinking_delta":
            return [("thinking", delta["thinking"])]
        return []

    def _continue_message(self, event: Mapping[str, Any]) -> None:
        for key, value in event["delta"].items():
            if value is not None:
                self._message[key] = value
        usage = dict(self._message.get("usage") or {})
        usage.update(event.get("usage") or {})
        self._message["usage"] = usage

    def finish(self) -> Body:
        """Return the message, as far as it arrived."""
        content = [finish_block(block) for block in self._blocks.values()]
        return {**self._message, "content": content}


def finish_block(block: Block) -> Block:
    """Return a block as it is sent back: with its input parsed, and without null fields."""
    found = {}
    for key, value in block.items():
        if value is not None and key != "partial_json":
            found[key] = value
    if block.get("partial_json"):
        found["input"] = read_arguments(block["partial_json"]).value
    return found


ANTHROPIC = AnthropicFormat()
