"""Anthropic Messages: `{"system"?, "messages": [...]}`, messages of blocks.

Results are the first blocks of the user message after their calls, calls the last blocks of the
model's. A form is a content: a text or a list of blocks.
"""

import math
import re
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from backstory.log.settings import Settings
from backstory.wire.fields import (
    check_keys,
    field,
    name_in,
    one_in,
    optional,
    read_at,
    read_items,
    string_in,
)
from backstory.wire.file_sizes import Size
from backstory.wire.formats.base import (
    CUT_ARGUMENTS,
    Block,
    Body,
    StreamAssembler,
    StreamPiece,
    TokenRules,
    ToolDefinition,
    describe_run,
    describe_tool,
    get_schema,
    has_text,
    is_claude,
    list_unread,
    list_unread_keys,
)
from backstory.wire.formats.blocks import (
    CUT_REASONS,
    BlockFormat,
    has_more_after_call,
    has_unsigned,
    is_without_words,
    join_texts,
    remove_empty_text,
)
from backstory.wire.json_values import read_arguments
from backstory.wire.media import (
    IMAGES,
    PDF,
    media,
    type_of,
    usual_type,
    web_url,
    words_of,
    write_standard_base64,
)
from backstory.wire.turns import (
    Accepted,
    AnswerTurn,
    BodyUnit,
    Call,
    Form,
    Media,
    Other,
    Part,
    Reasoning,
    Repair,
    Result,
    Text,
    Turn,
    ends_with_model,
    is_blank,
    make_result,
)

# The request needs max_tokens.
DEFAULT_MAX_TOKENS = 4096
# Blocks that can have a breakpoint.
MARKABLE = frozenset({"text", "image", "document", "search_result", "tool_use", "tool_result"})
THINKING = ("thinking", "redacted_thinking")
# The fields that are read of a message and of its blocks.
MESSAGE_KEYS = frozenset({"role", "content"})
MEDIA_KEYS = frozenset({"source", "title"})
SEARCH_KEYS = frozenset({"content", "title"})
CALL_KEYS = frozenset({"id", "name", "input"})
RESULT_KEYS = frozenset({"tool_use_id", "content", "is_error"})
# Blocks that only other formats have: here they are a mistake, and refused.
OTHER_FORMATS_TYPES = frozenset(
    {"image_url", "input_text", "output_text", "input_image", "input_file", "input_audio"}
    | {"file", "reasoning"}
)


def price_by_area(size: Size, _detail: str) -> float:
    """Return the price of an image: a token for 750 pixels, 1,568 pixels a side at most, some 1,600
    tokens in all."""
    shrink = min(1, 1568 / max(size))
    return min(1600, math.prod(size) * shrink * shrink / 750)


CLAUDE_TOKENS = TokenRules(
    "claude",
    ratio=1.08,
    opening=4,
    message=3,
    system=0,
    call=34,
    result=24,
    tools=(476, 1.8),  # a system prompt of its own comes with them
    image=price_by_area,
    page=1590,
    letter=0.37,
    seal=(0, 9),
)


class AnthropicFormat(BlockFormat):
    """Anthropic's Messages API, and the servers that speak it."""

    name = "anthropic"
    # "final assistant content cannot end with trailing whitespace"
    takes_trailing_space = False
    # "String should match pattern '^[a-zA-Z0-9_-]+$'" (langchain PR#37756); 64 characters at most.
    call_ids = re.compile(r"[A-Za-z0-9_-]{1,64}")
    # "tools.0.custom.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
    # (home-assistant#147760).
    tool_names = re.compile(r"[A-Za-z0-9_-]{1,128}")
    role_names = MappingProxyType({"user": "user", "answer": "assistant", "system": "system"})
    token_rules = (
        (
            r"claude-(opus-4[-.][789]|opus-5|sonnet-5|fable)",
            CLAUDE_TOKENS._replace(ratio=1.35),
        ),
        (r"claude", CLAUDE_TOKENS),
    )
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
    # "any" means that the model has to call some tool.
    tool_choices = MappingProxyType(
        {"auto": {"type": "auto"}, "none": {"type": "none"}, "required": {"type": "any"}}
    )
    own_parameters = frozenset(
        {
            "billing_policy",
            "cache_control",
            "compaction",
            "container",
            "context_management",
            "diagnostics",
            "fallback_credit_token",
            "fallbacks",
            "inference_geo",
            "mcp_servers",
            "metadata",
            "output_config",
            "service_tier",
            "speed",
            "stop_sequences",
            "thread",
            "top_k",
            "user_profile_id",
            "workspace_id",
        }
    )

    fact_paths = MappingProxyType(
        {
            "id": ("id",),
            "stop": ("stop_reason",),
            "tier": ("usage.service_tier",),
            "diagnostics": ("diagnostics",),
        }
    )
    # The tokens that were read from the cache and those that were written to it count apart.
    usage_paths = MappingProxyType(
        {
            "input": ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"),
            "output": ("output_tokens",),
            "cached": ("cache_read_input_tokens",),
            "cache_written": ("cache_creation_input_tokens",),
        }
    )

    # --- writing ---

    def write_text(self, text: str) -> Block:
        """Write a block of text."""
        return {"type": "text", "text": text}

    def write_media(self, found: Media, in_result: bool) -> Block | None:
        """Write an image or a document; there are no others."""
        if found.kind == "image":
            source = write_image_source(found)
            return {"type": "image", "source": source} if source else None
        if found.kind != "document":
            return None
        source = write_document_source(found)
        if source is None:
            return None
        block: Block = {"type": "document", "source": source}
        if found.name:
            block["title"] = found.name
        return block

    def write_call(self, call: Call) -> Block:
        """Write a tool_use block."""
        return {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}

    def write_result(self, call: Call, result: Result) -> Form:
        """Write a tool_result block."""
        content: Any = result.text
        if result.content is not None:
            content = self.write_content(result.content, in_result=True)
        block: Block = {"type": "tool_result", "tool_use_id": call.id, "content": content}
        if result.is_error:
            block["is_error"] = True
        return [block]

    def list_blocks(self, form: Form) -> Any:
        """Return a content as a list of blocks."""
        return [self.write_text(form)] if isinstance(form, str) else form

    def takes_on_top(self, form: Form) -> bool:
        """Return True for text. Between messages there may be blocks that add and remove tools; on
        top: "system.0.type: Input should be 'text'"."""
        return all(block.get("type") == "text" for block in self.list_blocks(form))

    def find_system_places(self, turns: list[Turn], wanted: set[int]) -> set[int]:
        """Return the system turns that may stand between others.

        Some models take them after the user's turn, or the result of a tool that the service ran,
        and before the model's, or at the end; others answer "role 'system' is not supported on this
        model" (aiquila#413).
        """
        legal = find_after_user(turns, wanted)
        is_before_model = True
        for index in reversed(range(len(turns))):
            turn = turns[index]
            if isinstance(turn, AnswerTurn):
                is_before_model = True
            elif turn.role != "system":
                is_before_model = False
            elif not is_before_model:
                legal.discard(index)
            elif index not in legal and not is_blank(turn.text):  # it becomes the user's
                is_before_model = False
        return legal

    # --- reading ---

    def read_body(self, body: Mapping[str, Any]) -> list[BodyUnit]:
        """Return system blocks one by one, then the messages, each user message as its results and
        the rest."""
        units: list[BodyUnit] = []
        system = body.get("system")
        if isinstance(system, str):
            units.append(BodyUnit("system", system, [Text(system)], is_on_top=True))
        elif system is not None:
            units += read_at(".system", self.read_system_blocks, system)
        is_strict = not is_other_server(body.get("model"))
        return units + read_items(body, "messages", partial(self._read_message, is_strict))

    def _read_message(self, is_strict: bool, message: Body) -> list[BodyUnit]:
        role = one_in(message, "role", ("user", "assistant", "system"))
        extra = {key: value for key, value in message.items() if key not in MESSAGE_KEYS}
        accepted: tuple[str, ...] = ()
        if any(value is not None for value in extra.values()):
            if is_strict:
                # "messages.1.reasoning_details: Extra inputs are not permitted" (Roo-Code#11429).
                check_keys(message, MESSAGE_KEYS)
            accepted = (Accepted.FIELDS,)
        if role == "assistant":
            role = "answer"
        units = read_at(".content", self.read_content, role, message.get("content"))
        return [unit._replace(accepted=accepted) for unit in units]

    def read_form(self, role: str, form: Form) -> list[Part]:
        """Return the parts of a content. An answer that is nothing but a compaction says its
        summary."""
        if role == "answer" and isinstance(form, list) and len(form) == 1 and is_summary(form[0]):
            return [Text(form[0]["content"]), Other("compaction")]
        return super().read_form(role, form)

    def is_result(self, block: Block) -> bool:
        """Return True if a block is the result of a call."""
        return bool(block.get("type") == "tool_result")

    def read_block(self, role: str, block: Block) -> list[Part]:
        """Return the parts of a block."""
        match field(block, "type", str):
            case "text":
                text = Text(field(block, "text", str))
                return [text, Other("citations")] if block.get("citations") else [text]
            case "thinking":
                return [read_thinking(block)]
            case "tool_use":
                return [read_call(block)]
            case "tool_result":
                return [self._read_result(block)]
            case "image" | "document" as kind:
                return read_media(kind, block)
            case "search_result":
                return [read_search(block), *list_unread(block, SEARCH_KEYS)]
            case "redacted_thinking":
                return [read_redacted_thinking(block)]
            case kind:
                return [read_service_block(kind, block)]

    def _read_result(self, block: Block) -> Result:
        id = name_in(block, "tool_use_id")
        is_error = optional(block, "is_error", bool)
        content = block.get("content")
        parts = list_unread(block, RESULT_KEYS)
        if content not in (None, ""):
            parts = read_at(".content", self.read_form, "result", content) + parts
        return make_result(id, parts, is_error)

    def recognizes(self, answer: Mapping[str, Any]) -> bool:
        """Return True if an answer, or the first event of a stream, has the shape of this
        format."""
        return answer.get("type") in ("message", "message_start")

    def read_response(self, response: Mapping[str, Any]) -> Form:
        """Return the content of an answer."""
        content = field(response, "content", list)
        if response.get("stop_reason", "") in CUT_REASONS:
            content = mark_cut_call(content)
        return content

    def is_compaction(self, response: Mapping[str, Any]) -> bool:
        """Return True if there is a compaction block ("Compaction" in Anthropic's guide). Without a
        summary it failed, and the service ignores it."""
        return any(is_summary(block) for block in response.get("content") or ())

    def open_stream(self) -> StreamAssembler:
        """Return an assembler for the events of one stream."""
        return AnthropicStream()

    # --- what goes back to the provider that gave it ---

    def is_thinking(self, block: Block) -> bool:
        """Return True if a block is thinking, sealed or not."""
        return isinstance(block, dict) and block.get("type") in THINKING

    def find_refusal(self, role: str, parts: list[Part], model: str | None) -> str:
        """Return the rule by which the service refuses a form of these parts; empty if it takes
        it."""
        if has_unsigned(parts) and not is_other_server(model):
            return "Invalid `signature` in `thinking` block"
        if is_without_words(parts):  # (home-assistant#175637)
            return "text content blocks must contain non-whitespace text"
        if role == "answer" and has_more_after_call(parts):  # see `write_answer`
            return "`tool_use` ids were found without `tool_result` blocks immediately after"
        return ""

    def repair_form(self, form: Form, parts: list[Part], stored: bool) -> tuple[Form, list[str]]:
        """Remove thinking at the end, and empty text: "text content blocks must be non-empty"
        (claude-code#59812). Blank text beside something else is taken: [" ", "real"] was accepted
        (LibreChat agents PR#124)."""
        return self.remove_refused_blocks(form, parts)

    def repair_result(self, form: Form) -> tuple[Form, list[str]]:
        """Remove empty text from the content of a result."""
        [block] = form
        content, changes = remove_empty_text(block["content"])
        return [block | {"content": content}], changes

    def continues_paused(self, before: Form, form: Form) -> bool:
        """Return True if `form` has the result of a tool that the service ran when it paused
        ("pause_turn" in Anthropic's guide): nothing may come between the two."""
        runs = list_field(before, "id", "server_tool_use", "mcp_tool_use")
        results = list_field(form, "tool_use_id")
        return not runs.isdisjoint(results - list_field(before, "tool_use_id"))

    def rename_result(self, form: Form, id: str) -> Form:
        """Return a result for the same call under another id."""
        [block] = form
        return [block | {"tool_use_id": id}]

    # --- around the messages ---

    def add_settings(
        self, body: Body, settings: Settings, model: str | None
    ) -> tuple[Body, list[Repair]]:
        """Return a whole request. It needs max_tokens, and more of them than the budget for
        thinking: "`max_tokens` must be greater than `thinking.budget_tokens`"."""
        request, repairs = super().add_settings(body, settings, model)
        if not is_other_server(model or settings.model):
            repairs += self.drop_thinking(request, body["messages"])
        request.setdefault("max_tokens", DEFAULT_MAX_TOKENS)
        limit = request["max_tokens"]
        match request.get("thinking"):
            case {"budget_tokens": int(budget)} if type(limit) is int and budget >= limit:
                limit += budget
                request["max_tokens"] = limit
                why = f"max_tokens is {limit}: the budget of {budget} for thinking is a part of it"
                repairs.append(Repair("parameter", None, why))
        return request, repairs

    def write_tool(self, tool: ToolDefinition) -> Block:
        """Write the definition of a tool."""
        return describe_tool(tool) | {"input_schema": get_schema(tool)}

    def write_named_choice(self, name: str | None) -> Any:
        """Write the choice of the tool of this name."""
        return {"type": "tool", "name": name}

    def write_parameter(self, name: str, value: Any, model: str | None) -> Body:
        """Return the fields of a canonical parameter by their paths."""
        if name == "thinking" and not isinstance(value, Mapping):
            return {"thinking": {"type": "enabled", "budget_tokens": value}}
        return super().write_parameter(name, value, model)

    # --- the prompt cache ---

    def mark_cache(self, body: Body, model: str | None) -> Body:
        """Set breakpoints on the tools, on the system text and on the user's last two messages."""
        marked = self.mark_messages(body)
        tools = marked.get("tools")
        if isinstance(tools, list):
            marked["tools"] = self.mark_last_tool(tools)
        return marked

    def mark_last_tool(self, tools: list[Block]) -> list[Block]:
        """Set a breakpoint on the last tool that can have one: "Tools with defer_loading cannot use
        prompt caching"."""
        for index in reversed(range(len(tools))):
            tool = tools[index]
            if isinstance(tool, dict) and not tool.get("defer_loading"):
                return put_mark(tools, index)
        return tools

    def mark_last(self, blocks: list[Block]) -> list[Block]:
        """Set a breakpoint on the last block that can have one. Thinking and empty text cannot."""
        for index in reversed(range(len(blocks))):
            block = blocks[index]
            if block.get("type") in MARKABLE and block.get("text") != "":
                return put_mark(blocks, index)
        return blocks


# --- blocks ---


def write_image_source(image: Media) -> Block | None:
    """Write the source of an image; None if the service does not take its type."""
    if image.url is None and image.type not in IMAGES:
        return None
    return write_source(image)


def write_document_source(document: Media) -> Block | None:
    """Write the source of a document: its text, or a PDF."""
    text = words_of(document)
    if text is not None:
        return {"type": "text", "media_type": "text/plain", "data": text}
    if type_of(document) not in (PDF, None):
        return None
    return write_source(document)


def write_source(found: Media) -> Block | None:
    """Write the source of media by a URL or by its data."""
    url = web_url(found)
    if url is not None:
        return {"type": "url", "url": url}
    if found.data is None or found.type is None:
        return None
    return {"type": "base64", "media_type": found.type, "data": write_standard_base64(found)}


def read_call(block: Block) -> Call:
    """Return the call in a tool_use block."""
    arguments = field(block, "input", dict)
    id = name_in(block, "id")
    name = name_in(block, "name")
    extras = list_unread_keys(block, CALL_KEYS)
    return Call(id, name, arguments, extras=extras)


def list_field(form: Form, key: str, *kinds: str) -> set[str]:
    """Return the texts of a field in the blocks of a form: in those of some kinds, or in all."""
    found: set[str] = set()
    for block in form if isinstance(form, list) else ():
        value = block.get(key)
        if isinstance(value, str) and (not kinds or block.get("type") in kinds):
            found.add(value)
    return found


def mark_cut_call(content: list[Block]) -> list[Block]:
    """Return content in which a last call without input says that it was cut off."""
    match content:
        case [*others, {"type": "tool_use", "input": {**given}} as call] if not given:
            return [*others, call | {"input": read_arguments(CUT_ARGUMENTS).value}]
    return content


def read_thinking(block: Block) -> Reasoning:
    """Return the reasoning in a thinking block."""
    text, signature = block.get("thinking"), block.get("signature")
    is_signed = has_text(signature)
    if not isinstance(text, str):
        return Reasoning("", str(signature or ""), False, is_signed, "thinking")
    return Reasoning(text, str(signature or ""), is_signed=is_signed, what="thinking")


def read_redacted_thinking(block: Block) -> Reasoning:
    """Return the sealed reasoning in a redacted_thinking block."""
    data = block.get("data")
    return Reasoning("", str(data or ""), is_complete=has_text(data), what="redacted_thinking")


def is_summary(block: Any) -> bool:
    """Return True if a block is a compaction that succeeded: a summary of all that came before."""
    if not isinstance(block, dict) or block.get("type") != "compaction":
        return False
    return has_text(block.get("content"))


def read_service_block(kind: str, block: Block) -> Other:
    """Return a block that only Anthropic understands, with text for others where there is any."""
    if kind == "compaction":  # a summary instead of all that came before
        return describe_run(kind, kind, block.get("content"))
    if kind in ("server_tool_use", "mcp_tool_use"):
        return describe_run(kind, block.get("name"), block.get("input"))
    if kind.endswith("_tool_result"):
        name = kind.replace("_tool_result", "_result")
        return describe_run(kind, name, block.get("content"))
    if kind == "container_upload":
        return Other(kind, media="document")
    return Other(kind, is_complete=kind not in OTHER_FORMATS_TYPES)


def read_media(kind: str, block: Block) -> list[Part]:
    """Return an image or a document, the images in it, and what is not read of it."""
    return [*read_source(kind, block), *list_unread(block, MEDIA_KEYS)]


def read_source(kind: str, block: Block) -> list[Part]:
    """Return the media of a block by its source."""
    name = string_in(block, "title")
    match block.get("source"):
        case {"type": "base64", "data": str(data), "media_type": str(type_)}:
            found = Media(kind, usual_type(type_), data, name=name)
            return [found, *find_refused_type(kind, type_)]
        case {"type": "url", "url": str(url)}:
            return [Media(kind, PDF if kind == "document" else None, url=url, name=name)]
        case {"type": "text", "data": str(text)} | {"type": "content", "content": str(text)}:
            return [Media(kind, "text/plain", text=text, name=name)]
        case {"type": "content", "content": list(content)} if all(map(is_readable, content)):
            return read_content_source(kind, content, name)
        case {"type": "base64" | "url" | "text" | "content"}:
            return [Other(kind, is_complete=False, media=kind)]
        case {"type": str(type_), **source}:
            is_whole = type_ != "file" or has_text(source.get("file_id"))
            return [Other(f"{kind} by {type_}", is_complete=is_whole, media=kind)]
    return [Other(kind, is_complete=False, media=kind)]


def find_refused_type(kind: str, type_: str) -> list[Part]:
    """Return a part for an image's type that the service refuses: "media_type: Input should be
    'image/jpeg', 'image/png', 'image/gif' or 'image/webp'" (claude-code#8184)."""
    if kind == "document" or type_ in IMAGES:
        return []
    return [Other(f"the media type {type_!r}", is_complete=False)]


def read_content_source(kind: str, content: list[Block], name: str | None) -> list[Part]:
    """Return a document whose source is a list of blocks, and the images among them."""
    images: list[Part] = []
    for item in content:
        if item["type"] == "image":
            images += read_source("image", item)
    text = join_texts(content)
    if text or not images:
        return [Media(kind, "text/plain", text=text, name=name), *images]
    return images if name is None else [*images, Other(f"the name {name!r}")]


def is_readable(item: Any) -> bool:
    """Return True if an item of a document's content is a block, and one of text has its text."""
    match item:
        case {"type": "text"}:
            return isinstance(item.get("text"), str)
        case {"type": str()}:
            return True
    return False


def read_search(block: Block) -> Media:
    """Return a search result as a text document."""
    name = string_in(block, "title")
    return media("text/plain", text=read_text(block.get("content")), name=name)


def read_text(content: Any) -> str:
    """Return the text of a content, which is a text or a list of blocks."""
    return content if isinstance(content, str) else join_texts(content)


def is_other_server(model: Any) -> bool:
    """Return True if a model is not Claude. DeepSeek, Kimi, GLM, MiniMax and Qwen speak this
    language too: they sign no thinking, and their servers take fields that they do not know."""
    return isinstance(model, str) and not is_claude(model)


# --- system messages between others ---


def find_after_user(turns: list[Turn], wanted: set[int]) -> set[int]:
    """Return the system turns of `wanted` that come after the user's turn, or after an answer that
    ends with the result of a tool of the service."""
    found: set[int] = set()
    is_after_user = False
    for index, turn in enumerate(turns):
        if isinstance(turn, AnswerTurn):
            is_after_user = not ends_with_model(turn) or ends_with_service_result(turn)
            continue
        if index in wanted and is_after_user:
            found.add(index)
        is_after_user = is_after_user or turn.role == "user" or not is_blank(turn.text)
    return found


def ends_with_service_result(turn: AnswerTurn) -> bool:
    """Return True if an answer goes back unchanged and ends with the result of a tool of the
    service."""
    if not isinstance(turn.form, list) or not turn.form:
        return False
    return str(turn.form[-1].get("type")).endswith("_tool_result")


# --- breakpoints of the prompt cache ---


def put_mark(blocks: list[Block], index: int) -> list[Block]:
    """Return blocks or tools, of which one is a breakpoint."""
    marked = [*blocks]
    marked[index] = blocks[index] | {"cache_control": {"type": "ephemeral"}}
    return marked


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
            case "error":
                self._message["error"] = event["error"]
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
        for key, value in (event.get("usage") or {}).items():
            if value is not None:
                usage[key] = value
        if usage:
            self._message["usage"] = usage

    def finish(self) -> Body:
        """Return the message, as far as it arrived."""
        content = [finish_block(block) for block in self._blocks.values()]
        return {"stop_reason": None, **self._message, "content": content}


def finish_block(block: Block) -> Block:
    """Return a block as it is sent back: with its input parsed, and without null fields."""
    found = {key: value for key, value in block.items() if value is not None}
    arguments = found.pop("partial_json", None)
    if arguments:
        found["input"] = read_arguments(arguments).value
    return found


ANTHROPIC = AnthropicFormat()
