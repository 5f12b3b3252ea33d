"""Amazon Bedrock Converse: `{"system"?, "messages": [...], "toolConfig"?}`, as botocore takes it.

Blobs are base64 in the log and in JSON; `convert_for_sdk` makes them bytes, since that is what the
SDK wants. Once a tool block exists the service wants to see tools, so the names in the history
become stubs.
"""

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from backstory.log.settings import Settings
from backstory.wire.fields import (
    WrongField,
    check_keys,
    expect,
    field,
    name_in,
    one_in,
    read_as_json,
    read_at,
    read_items,
    string_in,
)
from backstory.wire.formats.base import (
    CUT_ARGUMENTS,
    Block,
    Body,
    StreamAssembler,
    StreamPiece,
    TokenRules,
    ToolDefinition,
    WrittenBody,
    describe_run,
    describe_tool,
    get_schema,
    has_text,
    is_claude,
    list_unread,
    list_unread_keys,
    price_flat,
)
from backstory.wire.formats.blocks import (
    CUT_REASONS,
    BlockFormat,
    has_more_after_call,
    has_text_field,
    has_unsigned,
    is_without_words,
    join_texts,
    remove_empty_text,
)
from backstory.wire.json_values import read_arguments
from backstory.wire.media import (
    IMAGES,
    PDF,
    SUFFIXES,
    decode_base64,
    encode_base64,
    is_base64,
    plain_name,
    type_of_suffix,
    words_of,
    write_standard_base64,
)
from backstory.wire.turns import (
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
    make_result,
)

BESIDE_DOCUMENT = "(a document)"
REASONING = "reasoningContent"
# The fields that are read of a message and of its blocks.
MESSAGE_KEYS = frozenset({"role", "content"})
MEDIA_KEYS = frozenset({"format", "source", "name", "error"})
SEARCH_KEYS = frozenset({"content", "title"})
CALL_KEYS = frozenset({"toolUseId", "name", "input"})
RESULT_KEYS = frozenset({"toolUseId", "content", "status"})
# Keys of other formats' blocks: here they are a mistake, and refused.
OTHER_FORMATS_KEYS = frozenset(
    {"type", "functionCall", "functionResponse", "inlineData", "fileData"}
)
# The names that the service has for types of media: botocore's model of Converse.
MEDIA_FORMATS = {
    "image": frozenset({"png", "jpeg", "gif", "webp"}),
    "document": frozenset({"pdf", "csv", "doc", "docx", "xls", "xlsx", "html", "txt", "md"}),
    "video": frozenset({"mkv", "mov", "mp4", "webm", "flv", "mpeg", "mpg", "wmv", "three_gp"}),
    "audio": frozenset(
        {"mp3", "opus", "wav", "aac", "flac", "mp4", "ogg", "mkv", "mka", "x-aac", "m4a"}
        | {"mpeg", "mpga", "pcm", "webm"}
    ),
}
CACHE_POINT = Other("cachePoint")
PDF_START = "JVBERi"  # %PDF, in base64

NOVA_TOKENS = TokenRules(
    "nova",
    opening=0,
    message=1,
    call=25,
    result=25,
    tools=(500, 3),
    image=price_flat(1800),
    page=2000,
)


class BedrockFormat(BlockFormat):
    """Amazon Bedrock's Converse API."""

    name = "bedrock"
    takes_trailing_space = False  # Claude's rule, see `anthropic`
    # botocore's model of Converse: `[a-zA-Z0-9_.:-]+`, 64 characters at most.
    call_ids = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
    role_names = MappingProxyType({"user": "user", "answer": "assistant"})
    model_key = "modelId"
    token_rules = (
        (r"nova-2", NOVA_TOKENS._replace(opening=42, message=3)),
        (r"nova", NOVA_TOKENS),
    )
    parameters = MappingProxyType(
        {
            "max_tokens": "inferenceConfig.maxTokens",
            "temperature": "inferenceConfig.temperature",
            "top_p": "inferenceConfig.topP",
            "stop": "inferenceConfig.stopSequences",
        }
    )
    # Converse has no way to say "none".
    choice_path = "toolConfig.toolChoice"
    tool_choices = MappingProxyType({"auto": {"auto": {}}, "required": {"any": {}}})
    own_parameters = frozenset(
        {
            "additionalModelRequestFields",
            "additionalModelResponseFieldPaths",
            "guardrailConfig",
            "inferenceConfig",
            "outputConfig",
            "performanceConfig",
            "promptVariables",
            "requestMetadata",
            "serviceTier",
        }
    )

    model_path = ""  # the service does not say which model it was
    fact_paths = MappingProxyType(
        {
            "id": ("ResponseMetadata.RequestId",),
            "stop": ("stopReason",),
            "tier": ("serviceTier.type",),
        }
    )
    usage_paths = MappingProxyType(
        {
            "input": ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"),
            "output": ("outputTokens",),
            "cached": ("cacheReadInputTokens",),
            "cache_written": ("cacheWriteInputTokens",),
        }
    )

    # --- writing ---

    def write_text(self, text: str) -> Block:
        """Write a block of text."""
        return {"text": text}

    def write_media(self, found: Media, in_result: bool) -> Block | None:
        """Write media by their data: the service fetches nothing. A tool's result has no sound."""
        if found.data is None and found.text is None:
            return None
        if in_result and found.kind == "audio":
            return None
        format = find_media_format(found)
        if format is None:
            return None
        block: Block = {"format": format, "source": {"bytes": write_standard_base64(found)}}
        if found.kind == "document":
            block["name"] = plain_name(found.name)
        return {found.kind: block}

    def write_call(self, call: Call) -> Block:
        """Write a toolUse block."""
        return {"toolUse": {"toolUseId": call.id, "name": call.name, "input": call.arguments}}

    def write_result(self, call: Call, result: Result) -> Form:
        """Write a toolResult block."""
        if result.content:
            content = self.write_content(result.content, in_result=True)
        else:
            content = [self.write_text(result.text)]
        block: Block = {"toolUseId": call.id, "content": content}
        if result.is_error:
            block["status"] = "error"
        return [{"toolResult": block}]

    def write_body(self, turns: list[Turn]) -> WrittenBody:
        """Write the system text, the messages, and stubs for the tools in them."""
        written = super().write_body(turns)
        # "The toolConfig field must be defined when using toolUse and toolResult content blocks."
        stubs = list_tool_stubs(turns)
        if stubs:
            written.body["toolConfig"] = {"tools": stubs}
        return written

    def convert_for_sdk(self, body: Body) -> Body:
        """Return a body with the blobs of its messages as bytes."""
        converted = {}
        for key in ("system", "messages"):
            if key in body:
                converted[key] = convert_blobs(body[key], unpack_blob)
        return body | converted

    # --- reading ---

    def read_body(self, body: Mapping[str, Any]) -> list[BodyUnit]:
        """Return system blocks one by one, then the messages, each user message as its results and
        the rest."""
        system = body.get("system") or []
        units = read_at(".system", self.read_system_blocks, system)
        return units + read_items(body, "messages", self._read_message)

    def _read_message(self, message: Body) -> list[BodyUnit]:
        role = one_in(message, "role", ("user", "assistant", "system"))
        check_keys(message, MESSAGE_KEYS)  # botocore: "Unknown parameter in messages[0]"
        content = field(message, "content", list)
        if role == "assistant":
            role = "answer"
        return read_at(".content", self.read_content, role, content)

    def is_result(self, block: Block) -> bool:
        """Return True if a block is the result of a call."""
        return "toolResult" in block

    def read_block(self, role: str, block: Block) -> list[Part]:
        """Return the parts of a block, which has one key."""
        fields = [(key, value) for key, value in block.items() if value is not None]
        if len(fields) != 1:
            raise WrongField(f"expected an object with one key, found {len(fields)}")
        [(key, value)] = fields
        try:
            return self._read_value(role, key, value)
        except WrongField as error:
            raise error.move_into(f".{key}") from None

    def _read_value(self, role: str, key: str, value: Any) -> list[Part]:
        match key:
            case "text":
                return [Text(expect(value, str))]
            case "reasoningContent":
                return [read_reasoning(value)]
            case "json":
                return [Text(read_as_json(value))]
            case "image" | "document" | "video" | "audio":
                unread = list_unread(expect(value, dict), MEDIA_KEYS)
                return [read_media(key, value), *unread]
            case "guardContent" | "searchResult" | "citationsContent":
                return read_wrapped(key, value)
            case "toolUse":
                return [read_call(expect(value, dict))]
            case "toolResult":
                return [self._read_result(role, expect(value, dict))]
        return [Other(key, is_complete=key not in OTHER_FORMATS_KEYS)]

    def _read_result(self, role: str, result: Block) -> Part:
        content = field(result, "content", list)
        if role == "answer":  # of a tool that the service ran
            what = "the result of a tool run by the service"
            return describe_run(what, result.get("type"), content)
        id = name_in(result, "toolUseId")
        parts = read_at(".content", self.read_form, "result", content)
        parts += list_unread(result, RESULT_KEYS)
        status = result.get("status")
        if status is not None:
            one_in(result, "status", ("success", "error"))
        return make_result(id, parts, status == "error")

    def recognizes(self, answer: Mapping[str, Any]) -> bool:
        """Return True if an answer, or the first event of a stream, has the shape of this
        format."""
        output = answer.get("output")
        if isinstance(output, Mapping):
            return "message" in output
        return any(name in answer for name in FIRST_EVENTS)

    def read_response(self, response: Mapping[str, Any]) -> Form:
        """Return the content of an answer."""
        output = field(response, "output", dict)
        message = read_at(".output", field, output, "message", dict)
        content = read_at(".output.message", field, message, "content", list)
        form = [remove_call_type(block) for block in content]
        if response.get("stopReason", "") in CUT_REASONS:
            form = mark_cut_call(form)
        return form

    def open_stream(self) -> StreamAssembler:
        """Return an assembler for the events of one stream."""
        return BedrockStream()

    def pack_form(self, form: Form) -> Form:
        """Return a form with its blobs as base64, for the log."""
        return convert_blobs(form, pack_blob)

    # --- what goes back to the provider that gave it ---

    def is_thinking(self, block: Block) -> bool:
        """Return True if a block is reasoning."""
        return isinstance(block, dict) and REASONING in block

    def find_refusal(self, role: str, parts: list[Part], model: str | None) -> str:
        """Return the rule by which the service refuses a form of these parts; empty if it takes
        it."""
        if has_unsigned(parts) and not takes_unsigned(model):
            return "reasoning without a signature"
        if is_without_words(parts):  # (hermes-agent PR#63983)
            return "text content blocks must contain non-whitespace text"
        others = [part for part in parts if part != CACHE_POINT]
        if role == "answer" and has_more_after_call(others):
            return "anything after a toolUse block is refused"
        return ""

    def repair_form(self, form: Form, parts: list[Part], stored: bool) -> tuple[Form, list[str]]:
        """Remove thinking at the end, and empty text: "The text field in the ContentBlock object …
        is blank" (agentcore PR#185). A line break beside a document was accepted."""
        return self.remove_refused_blocks(form, parts)

    def repair_result(self, form: Form) -> tuple[Form, list[str]]:
        """Remove empty text from the content of a result."""
        [block] = form
        content, changes = remove_empty_text(block["toolResult"]["content"])
        return [{"toolResult": block["toolResult"] | {"content": content}}], changes

    def rename_result(self, form: Form, id: str) -> Form:
        """Return a result for the same call under another id."""
        [block] = form
        return [{"toolResult": block["toolResult"] | {"toolUseId": id}}]

    def finish_body(self, body: Body) -> tuple[Body, list[str]]:
        """Give documents names of their own and words beside them."""
        return DocumentRules().apply(body)

    # --- around the messages ---

    def add_settings(
        self, body: Body, settings: Settings, model: str | None
    ) -> tuple[Body, list[Repair]]:
        """Return a whole request. Tools that are gone keep their stubs beside those that are
        there."""
        request, repairs = super().add_settings(body, settings, model)
        extra = request.get("additionalModelRequestFields")
        repairs += self.drop_thinking(extra, body["messages"])
        stubs, tools = list_tools(body), list_tools(request)
        config = request.get("toolConfig")
        if isinstance(config, dict) and tools != stubs:
            names = [get_tool_name(tool) for tool in tools]
            gone = [stub for stub in stubs if get_tool_name(stub) not in names]
            request["toolConfig"] = config | {"tools": tools + gone}
        return request, repairs

    def write_tool(self, tool: ToolDefinition) -> Block:
        """Write the definition of a tool."""
        return {"toolSpec": describe_tool(tool) | {"inputSchema": {"json": get_schema(tool)}}}

    def write_tools(self, tools: list[Block]) -> Body:
        """Return the field that has the tools."""
        return {"toolConfig": {"tools": tools}}

    def write_named_choice(self, name: str | None) -> Any:
        """Write the choice of the tool of this name."""
        return {"tool": {"name": name}}

    # --- the prompt cache ---

    def mark_cache(self, body: Body, model: str | None) -> Body:
        """Set breakpoints after the tools, the system text and the user's last two messages. A
        breakpoint is a block of its own."""
        marked = self.mark_messages(body)
        tools = list_tools(marked)
        # Nova caches system text and messages only: AWS, "Prompt caching for faster model
        # inference".
        if tools and "nova" not in (model or ""):
            marked["toolConfig"] = marked["toolConfig"] | {"tools": self.mark_last(tools)}
        return marked

    def mark_last(self, blocks: list[Block]) -> list[Block]:
        """Add a breakpoint."""
        return [*blocks, {"cachePoint": {"type": "default"}}]


# --- blocks ---


def takes_unsigned(model: Any) -> bool:
    """Return True if a model takes its reasoning back without a signature. Claude does not, and
    neither does DeepSeek-R1: "User messages cannot contain reasoning content" (langchain-aws#401,
    bedrock-chat PR#851)."""
    if not isinstance(model, str) or is_claude(model):
        return False
    return "deepseek.r1" not in model


def read_reasoning(value: Any) -> Reasoning:
    """Return the reasoning in a reasoningContent block: text and its signature, or sealed
    content."""
    match value:
        case {"reasoningText": dict(thought)}:
            text, signature = thought.get("text"), thought.get("signature")
            is_signed = has_text(signature)
            return Reasoning(
                text=text if isinstance(text, str) else "",
                seal=str(signature or ""),
                is_complete=is_signed or isinstance(text, str),
                is_signed=is_signed,
                what=REASONING,
            )
        case {"redactedContent": str(sealed)}:
            return Reasoning("", sealed, is_complete=is_base64(sealed), what=REASONING)
        case {"redactedContent": bytes(sealed)}:
            return Reasoning("", is_complete=bool(sealed), what=REASONING)
    return Reasoning("", is_complete=False, what=REASONING)


def read_wrapped(key: str, value: Any) -> list[Part]:
    """Return text that is wrapped: guarded by a guardrail, found by a search, cited from a
    document."""
    match key, value:
        case "guardContent", {"text": {"text": str(text)}}:
            return [Text(text)]
        case "guardContent", {"image": image}:
            return [read_media("image", image)]
        case "searchResult", {"content": list(content)}:
            name = string_in(value, "title")
            document = Media("document", "text/plain", text=join_texts(content), name=name)
            return [document, *list_unread(value, SEARCH_KEYS)]
        case _, {"content": list(content)}:
            texts = [block["text"] for block in content if has_text_field(block)]
            return [*map(Text, texts), Other("citations")]
    return [Other(key)]


def read_call(use: Block) -> Part:
    """Return the call in a toolUse block. A tool that the service ran itself (Nova) has its result
    in the same answer."""
    arguments = field(use, "input", dict)
    id = name_in(use, "toolUseId")
    name = name_in(use, "name")
    if use.get("type") == "server_tool_use":
        what = f"{name} run by the service"
        return describe_run(what, name, arguments)
    extras = list_unread_keys(use, CALL_KEYS)
    return Call(id, name, arguments, extras=extras)


def remove_call_type(block: Any) -> Any:
    """Return a block as requests have it: answers say that a call is a call, for which requests
    have no word."""
    match block:
        case {"toolUse": {"type": "tool_use", **use}}:
            return {"toolUse": use}
    return block


def mark_cut_call(content: list[Block]) -> list[Block]:
    """Return content in which a last call without input says that it was cut off."""
    match content:
        case [*others, {"toolUse": {"input": {**given}, **use}}] if not given:
            arguments = read_arguments(CUT_ARGUMENTS).value
            return [*others, {"toolUse": {**use, "input": arguments}}]
    return content


# --- media ---


def find_media_format(found: Media) -> str | None:
    """Return the service's name for a media type; whatever is text is at least plain text."""
    type_ = found.type or ""
    if found.kind == "image":
        return type_.removeprefix("image/") if type_ in IMAGES else None
    suffix = SUFFIXES.get(type_, "")
    if suffix in MEDIA_FORMATS[found.kind]:
        return suffix
    return None if words_of(found) is None else "txt"


def read_media(kind: str, value: Any) -> Part:
    """Return the media in a block: its data, its text, or something in a store."""
    broken = Other(kind, is_complete=False, media=kind)
    if not isinstance(value, dict) or not has_media_format(kind, value.get("format")):
        return broken
    name = string_in(value, "name")
    match value.get("source"):
        case {"bytes": str() | bytes() | bytearray() as data}:
            return read_blob(kind, value.get("format"), data, name)
        case {"bytes": _}:
            return broken
        case {"text": str(text)}:
            return Media(kind, "text/plain", text=text, name=name)
        case {"content": list(content)}:
            return Media(kind, "text/plain", text=join_texts(content), name=name)
        case dict(source) if source:
            place, where = next(iter(source.items()))
            return Other(f"{kind} by {place}", is_complete=isinstance(where, dict), media=kind)
    return broken


def has_media_format(kind: str, format: Any) -> bool:
    """Return True if botocore lists a format. A document may come without: its DocumentBlock."""
    if format is None:
        return kind == "document"
    return isinstance(format, str) and format.rpartition("/")[2] in MEDIA_FORMATS[kind]


def read_blob(kind: str, format: str | None, data: Any, name: str | None) -> Media:
    """Return media by their data. A document without a format may be a PDF."""
    text = data if isinstance(data, str) else encode_base64(bytes(data))
    if format is None:
        type_ = PDF if text.startswith(PDF_START) else None
        return Media(kind, type_, text, name=name)
    suffix = format.rpartition("/")[2]  # "video/mp4" was accepted, too
    type_ = type_of_suffix(suffix) or ""
    is_of_kind = bool(type_) if kind == "document" else type_.startswith(f"{kind}/")
    return Media(kind, type_ if is_of_kind else f"{kind}/{suffix}", text, name=name)


def list_tool_stubs(turns: list[Turn]) -> list[Block]:
    """Return definitions of the tools that were called, without their parameters."""
    names: dict[str, None] = {}
    for turn in turns:
        if isinstance(turn, AnswerTurn):
            for call in turn.calls:
                names[call.name] = None
    stubs: list[Block] = []
    for name in names:
        stubs.append({"toolSpec": {"name": name, "inputSchema": {"json": {"type": "object"}}}})
    return stubs


BLOB_KEYS = ("bytes", "redactedContent")
# What a tool was given and gave: a "bytes" in there is a word.
TOOL_KEYS = ("input", "json")


def convert_blobs(form: Form, convert: Callable[[Any], Any]) -> Form:
    """Return a form with each of its blobs converted."""
    if isinstance(form, list):
        return [convert_blobs(item, convert) for item in form]
    if not isinstance(form, dict):
        return form
    found: Block = {}
    for key, value in form.items():
        if key in TOOL_KEYS:
            found[key] = value
        elif key in BLOB_KEYS:
            found[key] = convert(value)
        else:
            found[key] = convert_blobs(value, convert)
    return found


def pack_blob(blob: Any) -> Any:
    """Return bytes as base64."""
    if isinstance(blob, bytes | bytearray):
        return encode_base64(bytes(blob))
    return blob


def unpack_blob(blob: Any) -> Any:
    """Return base64 as bytes."""
    if isinstance(blob, str):
        return decode_base64(blob) or b""
    return blob


def has_document(block: Block) -> bool:
    """Return True if a block is a document, or a result with one."""
    result = block.get("toolResult")
    if result is None:
        return "document" in block
    return any("document" in inner for inner in result["content"])


class DocumentRules:
    """Applies the service's rules on documents to a body.

    "Messages can't contain duplicate document names" (bifrost#7003), "A text block must be included
    when using documents" (litellm PR#36499).
    """

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._changes: list[str] = []

    def apply(self, body: Body) -> tuple[Body, list[str]]:
        """Return the body, and a report of each change."""
        messages: list[Body] = []
        for message in body["messages"]:
            if any(map(has_document, message["content"])):
                message = message | {"content": self._apply_to(message["content"])}
            messages.append(message)
        if not self._changes:
            return body, []
        changes = list(dict.fromkeys(self._changes))
        return body | {"messages": messages}, changes

    def _apply_to(self, content: list[Block]) -> list[Block]:
        renamed = self._rename(content)
        has_words = any(has_text(block.get("text")) for block in content)
        if not has_words and any("document" in block for block in content):
            why = f"a document needs words beside it: they are {BESIDE_DOCUMENT!r}"
            self._changes.append(why)
            renamed.append({"text": BESIDE_DOCUMENT})
        return renamed

    def _rename(self, content: list[Block]) -> list[Block]:
        """Return blocks with names for their documents that were not used before."""
        blocks: list[Block] = []
        for block in content:
            match block:
                case {"toolResult": {"content": list(inner)} as result}:
                    block = {"toolResult": result | {"content": self._rename(inner)}}
                case {"document": {"name": name} as document}:
                    unique = self._find_free_name(str(name))
                    if unique != name:
                        block = {"document": document | {"name": unique}}
            blocks.append(block)
        return blocks

    def _find_free_name(self, name: str) -> str:
        unique, number = name, 1
        while unique.lower() in self._names:
            number += 1
            unique = f"{name} {number}"
        self._names.add(unique.lower())
        if number > 1:
            self._changes.append(f"a document's name comes again: it is {unique!r}")
        return unique


# --- tools ---


def list_tools(body: Body) -> list[Block]:
    """Return the tools of a request."""
    match body:
        case {"toolConfig": {"tools": list(tools)}}:
            return tools
    return []


def get_tool_name(tool: Block) -> Any:
    """Return the name of a tool, or None if it is a breakpoint or a tool of the service."""
    match tool:
        case {"toolSpec": {"name": name}}:
            return name
    return None


# --- streams ---


# An SDK puts each event under its name; on the wire the name is in the frame's headers.
FIRST_EVENTS = ("messageStart", "contentBlockStart", "contentBlockDelta")
STREAM_EVENTS = ("contentBlockStart", "contentBlockDelta", "messageStop", "metadata")
# Fields of events that belong to the whole answer.
ABOUT = ("stopReason", "usage", "serviceTier")


class BedrockStream(StreamAssembler):
    """Assembles the events of ConverseStream: blocks by their index, begun by a start or by their
    first delta."""

    def __init__(self) -> None:
        self._blocks: dict[int, Block] = {}
        self._about: Body = {}

    def add(self, event: Mapping[str, Any]) -> list[StreamPiece]:
        """Take one event. Return the text and the thinking in it."""
        for name, value in event.items():
            if name.endswith("Exception"):
                self._about["error"] = value
        inner = unwrap_event(event)
        for name in ABOUT:
            if name in inner:
                self._about[name] = inner[name]
        match inner:
            case {"start": start, "contentBlockIndex": index}:
                self._blocks[index] = {key: dict(value) for key, value in start.items()}
            case {"delta": delta, "contentBlockIndex": index}:
                block = self._blocks.setdefault(index, {})
                for key, value in delta.items():
                    continue_block(block, key, value)
                return find_spoken(delta)
        return []

    def finish(self) -> Body:
        """Return the answer, as far as it arrived."""
        content: list[Block] = []
        for index in sorted(self._blocks):
            if self._blocks[index]:
                content.append(finish_block(self._blocks[index]))
        message = {"role": "assistant", "content": content}
        return {"stopReason": None, **self._about, "output": {"message": message}}


def unwrap_event(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an event without the name that an SDK puts around it."""
    for name in STREAM_EVENTS:
        if name in event:
            return event[name] or {}
    return event


def find_spoken(delta: Mapping[str, Any]) -> list[StreamPiece]:
    """Return the text and the thinking in a delta."""
    match delta:
        case {"text": str(text)}:
            return [("text", text)]
        case {"reasoningContent": {"text": str(text)}}:
            return [("thinking", text)]
    return []


def continue_block(block: Block, key: str, value: Any) -> None:
    """Add a field of a delta to its block."""
    match key:
        case "text":
            block["text"] = block.get("text", "") + value
        case "toolUse":
            use = block.setdefault("toolUse", {})
            use["input"] = (use.get("input") or "") + (value.get("input") or "")
        case "toolResult":
            result = block.setdefault("toolResult", {})
            result["content"] = [*(result.get("content") or ()), *value]
        case "citation":
            cited = block.setdefault("citationsContent", {"content": [], "citations": []})
            cited["citations"].append(value)
        case "reasoningContent":
            continue_reasoning(block.setdefault("reasoningContent", {}), value)
        case _:
            block[key] = value


def continue_reasoning(reasoning: Block, delta: Mapping[str, Any]) -> None:
    """Add a delta to the reasoning of a block: text and its signature, or sealed content."""
    for key, value in delta.items():
        if key == "redactedContent":
            reasoning[key] = value
        else:
            text = reasoning.setdefault("reasoningText", {"text": ""})
            text[key] = text.get(key, "") + value


def finish_block(block: Block) -> Block:
    """Return a block as it is sent back: with its input parsed, and its cited text inside."""
    match block:
        case {"toolUse": dict(use)} if not isinstance(use.get("input"), Mapping):
            return {"toolUse": use | {"input": read_arguments(use.get("input")).value}}
        case {"citationsContent": cited, "text": text}:
            return {"citationsContent": cited | {"content": [{"text": text}]}}
    return block


BEDROCK = BedrockFormat()
