"""Amazon Bedrock Converse: `{"system"?, "messages": [...], "toolConfig"?}`, as botocore takes it.

Blobs are base64 here, in the log and in JSON; `unpack` makes them bytes, since that is what the SDK
wants. Once a tool block exists the service wants to see tools, so the names in the history become stubs.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from backstory.wire.formats.anthropic import MESSAGE, has_more_behind_a_call, system_units
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
from backstory.wire.formats.blobs import pack, read_media, unpack, write_media
from backstory.wire.formats.blocks import (
    has_unsigned,
    is_said,
    is_without_words,
    summed,
    unread,
    unread_keys,
    without_empty_text,
)
from backstory.wire.formats.fields import (
    check_keys,
    expect,
    field,
    items,
    name_in,
    objects,
    one_of,
    wrong,
)
from backstory.wire.json_values import read_arguments, write_json
from backstory.wire.media import is_base64
from backstory.wire.models import is_claude
from backstory.wire.service_tools import ran
from backstory.wire.turns import (
    Call,
    Media,
    Other,
    Part,
    Reasoning,
    Text,
    Unit,
    is_blank,
    make_result,
)

BESIDE_DOCUMENT = "(a document)"
REASONING = "reasoningContent"
POINT = {"cachePoint": {"type": "default"}}
WIRE_ROLES = {"user": "user", "model": "assistant"}


def _stub(name: str) -> dict[str, Any]:
    return {"toolSpec": {"name": name, "inputSchema": {"json": {"type": "object"}}}}


# --- reading ---


MEDIA = frozenset({"format", "source", "name", "error"})
SEARCH = frozenset({"content", "title"})
USE = frozenset({"toolUseId", "name", "input"})
RESULT = frozenset({"toolUseId", "content", "status"})
# Keys of other formats' blocks: here they are a mistake, and refused.
FOREIGN = frozenset({"type", "functionCall", "functionResponse", "inlineData", "fileData"})


def takes_unsigned(model: Any) -> bool:
    """Return True if a model takes its reasoning back without a signature. Claude does not, and neither does
    DeepSeek-R1: "User messages cannot contain reasoning content" (langchain-aws#401, bedrock-chat PR#851)."""
    return isinstance(model, str) and not is_claude(model) and "deepseek.r1" not in model


def _read_reasoning(reasoning: Any) -> Reasoning:
    match reasoning:
        case {"reasoningText": dict(said)}:
            text, seal = said.get("text"), said.get("signature")
            is_text, is_signed = isinstance(text, str), is_said(seal)
            return Reasoning(
                str(text) if is_text else "",
                str(seal or ""),
                is_complete=is_text or is_signed,
                is_signed=is_signed,
                what=REASONING,
            )
        case {"redactedContent": str(sealed)}:
            return Reasoning("", sealed, is_complete=is_base64(sealed), what=REASONING)
        case {"redactedContent": bytes(sealed)}:
            return Reasoning("", is_complete=bool(sealed), what=REASONING)
    return Reasoning("", is_complete=False, what=REASONING)


def _read_inside(key: str, value: Any) -> list[Part]:
    """Words that are wrapped: guarded by a guardrail, cited from a document, found by a search."""
    match value:
        case {"text": {"text": str(text)}} if key == "guardContent":
            return [Text(text)]
        case {"image": image} if key == "guardContent":
            return [read_media("image", image)]
        case {"content": list(content)}:
            given = (part.get("text") for part in content if isinstance(part, dict))
            texts = [text for text in given if isinstance(text, str)]
            if key == "searchResult":
                title = value.get("title")
                name = title if isinstance(title, str) else None
                found = Media("document", "text/plain", text="\n\n".join(texts), name=name)
                return [found, *unread(value, SEARCH)]
            return [*map(Text, texts), Other("citations")]
        case _:
            return [Other(key)]


def _as_text(value: Any, path: str) -> str:
    try:
        return write_json(value)
    except (TypeError, ValueError) as error:
        raise wrong(f"{path}.json", f"this is not JSON: {error}") from error


def _read_call(use: dict[str, Any], path: str) -> Part:
    arguments = field(use, "input", dict, path)
    more = unread_keys(use, USE)
    found = Call(
        name_in(use, "toolUseId", path), name_in(use, "name", path), arguments, extras=more
    )
    # A tool that the service ran itself (Nova): its result stands in the same answer.
    if use.get("type") == "server_tool_use":
        return ran(f"{found.name} run by the service", found.name, arguments)
    return found


def finish_documents(body: Body) -> tuple[Body, list[str]]:
    """Return a body that obeys the rules on documents: "Messages can't contain duplicate document names"
    (bifrost#7003), "A text block must be included when using documents" (litellm PR#36499)."""
    taken: set[str] = set()
    whys: list[str] = []
    messages = [
        message | {"content": _finished(message["content"], taken, whys)}
        for message in body["messages"]
    ]
    return (body | {"messages": messages} if whys else body), list(dict.fromkeys(whys))


def _finished(content: list[Any], taken: set[str], whys: list[str]) -> list[Any]:
    found = [_renamed_document(block, taken, whys) for block in content]
    has_words = any(
        isinstance(block.get("text"), str) and not is_blank(block["text"]) for block in found
    )
    if any("document" in block for block in found) and not has_words:
        whys.append(f"a document needs words beside it: they are {BESIDE_DOCUMENT!r}")
        found.append({"text": BESIDE_DOCUMENT})
    return found


def _renamed_document(block: dict[str, Any], taken: set[str], whys: list[str]) -> dict[str, Any]:
    if "toolResult" in block:
        inside = block["toolResult"]
        content = [_renamed_document(part, taken, whys) for part in inside.get("content") or ()]
        return (
            block
            if content == inside.get("content")
            else {"toolResult": inside | {"content": content}}
        )
    document = block.get("document")
    if not isinstance(document, dict):
        return block
    name = str(document.get("name"))
    number = 1
    while (unique := name if number == 1 else f"{name} {number}").lower() in taken:
        number += 1
    taken.add(unique.lower())
    if unique == name:
        return block
    whys.append(f"a document's name comes again: it is {unique!r}")
    return {"document": document | {"name": unique}}


def _as_request(block: Any) -> Any:
    """A block as requests have it: answers say that a call is a call, for which requests have no word."""
    match block:
        case {"toolUse": {"type": "tool_use", **use}}:
            return {"toolUse": use}
    return block


def _counts(usage: Any) -> dict[str, int] | None:
    if not isinstance(usage, dict):
        return None
    return summed(
        usage, ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens"), "outputTokens"
    )


class BedrockFormat(Format):
    """Amazon Bedrock's Converse API."""

    name = "bedrock"
    call_ids = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
    model_key = "modelId"
    parameters = MappingProxyType(
        {
            "max_tokens": "inferenceConfig.maxTokens",
            "temperature": "inferenceConfig.temperature",
            "top_p": "inferenceConfig.topP",
            "stop": "inferenceConfig.stopSequences",
        }
    )

    def write_media(self, found: Media, in_result: bool) -> dict[str, Any] | None:
        """Write a block of media by its data."""
        return write_media(found, in_result)

    def pack_form(self, form: Form) -> Form:
        """Return a form with its blobs as base64, for the log."""
        return pack(form)

    def unpack_form(self, form: Form) -> Form:
        """Return a form with its blobs as bytes, for the SDK."""
        return unpack(form)

    def write_message(self, role: str, content: Any, name: str | None) -> list[dict[str, Any]]:
        """The blocks of a system or user message."""
        return [{"text": content}] if isinstance(content, str) else content

    def write_text(self, text: str) -> dict[str, Any]:
        """A block of words."""
        return {"text": text}

    def write_call(
        self, id: str, name: str, arguments: dict[str, Any], text: str | None
    ) -> dict[str, Any]:
        """A toolUse block."""
        return {"toolUse": {"toolUseId": id, "name": name, "input": arguments}}

    def write_answer(
        self, texts: Sequence[str], calls: list[Any], name: str | None
    ) -> list[dict[str, Any]]:
        """Texts, then calls: anything behind a toolUse block is refused."""
        return [*({"text": text} for text in texts), *calls]

    def write_result(
        self, id: str, name: str, content: Any, error: bool, kind: str
    ) -> list[dict[str, Any]]:
        """A toolResult block."""
        blocks = [{"text": content}] if isinstance(content, str) else content
        found: dict[str, Any] = {"toolUseId": id, "content": blocks}
        return [{"toolResult": found | {"status": "error"} if error else found}]

    def write_body(
        self, system: list[Form], roles: list[str], forms: list[Form], names: Iterable[str]
    ) -> dict[str, Any]:
        """The request's system text, messages, and stubs for the tools in them."""
        messages = [
            {"role": WIRE_ROLES[role], "content": content}
            for role, content in merged(roles, forms, list)
        ]
        stubs = [_stub(name) for name in names]
        # "The toolConfig field must be defined when using toolUse and toolResult content blocks."
        tools = {"toolConfig": {"tools": stubs}} if stubs else {}
        top = {"system": [block for form in system for block in form]} if system else {}
        return top | {"messages": messages} | tools

    def read_body(self, body: Mapping[str, Any]) -> Iterator[Unit]:
        """System blocks one by one, then the messages, each user message as its results and the rest."""
        expect(body.get("system") or [], list, "system")
        yield from system_units(body, self.read_form)
        for path, message in items(dict(body), "messages"):
            role = one_of(message.get("role"), ("user", "assistant", "system"), f"{path}.role")
            check_keys(message, MESSAGE, path)  # botocore: "Unknown parameter in messages[0]"
            content, inside = field(message, "content", list, path), f"{path}.content"
            if role == "user":
                yield from self._user_units(content, inside)
            else:
                role = "step" if role == "assistant" else role
                yield Unit(role, content, self.read_form(role, content, inside), inside)

    def _user_units(self, content: list[Any], path: str) -> Iterator[Unit]:
        rest = []
        for where, block in objects(content, path):
            if "toolResult" in block:
                yield Unit("result", [block], self.read_form("result", [block], path), where)
            else:
                rest.append(block)
        if rest or not content:
            yield Unit("user", rest, self.read_form("user", rest, path), path)

    def read_form(self, role: str, form: Form, path: str) -> list[Part]:
        """The parts of a content."""
        return [
            part
            for where, block in objects(form, path)
            for part in self._read_block(role, block, where)
        ]

    def _read_block(self, role: str, block: dict[str, Any], path: str) -> list[Part]:
        given = {key: value for key, value in block.items() if value is not None}
        if len(given) != 1:
            raise wrong(path, f"expected an object with one key, found {len(given)}")
        [(key, value)] = given.items()
        match key:
            case "text":
                return [Text(expect(value, str, f"{path}.text"))]
            case "json":
                return [Text(_as_text(value, path))]
            case "image" | "document" | "video" | "audio":
                return [
                    read_media(key, value),
                    *unread(expect(value, dict, f"{path}.{key}"), MEDIA),
                ]
            case "searchResult" | "guardContent" | "citationsContent":
                return _read_inside(key, value)
            case "toolUse":
                return [_read_call(expect(value, dict, f"{path}.toolUse"), f"{path}.toolUse")]
            case "toolResult":
                return [
                    self._read_result(
                        role, expect(value, dict, f"{path}.toolResult"), f"{path}.toolResult"
                    )
                ]
            case "reasoningContent":
                return [_read_reasoning(value)]
            case _:
                return [Other(key, complete=key not in FOREIGN)]

    def _read_result(self, role: str, found: dict[str, Any], path: str) -> Part:
        parts = self.read_form("result", field(found, "content", list, path), f"{path}.content")
        parts.extend(unread(found, RESULT))
        if role == "step":
            return ran(
                "the result of a tool run by the service", found.get("type"), found["content"]
            )
        if found.get("status") is not None:
            one_of(found["status"], ("success", "error"), f"{path}.status")
        return make_result(name_in(found, "toolUseId", path), parts, found.get("status") == "error")

    def repair_form(self, form: Form, stored: bool) -> tuple[Form, list[str]]:
        """Without empty text: "The text field in the ContentBlock object … is blank" (agentcore PR#185).
        A line break beside a document was accepted."""
        return without_empty_text(form, lambda block: block.get("text") == "")

    def find_refusal(self, role: str, parts: list[Part], model: str | None) -> str:
        """Return the rule by which the service refuses a form of these parts; empty if it takes it."""
        if has_unsigned(parts) and not takes_unsigned(model):
            return "reasoning without a signature"
        if is_without_words(parts):  # (hermes-agent PR#63983)
            return "text content blocks must contain non-whitespace text"
        others = [part for part in parts if part != Other("cachePoint")]
        if role == "step" and has_more_behind_a_call(others):
            return "anything behind a toolUse block is refused"
        return ""

    def finish_body(self, body: Body) -> tuple[Body, list[str]]:
        """Give documents names of their own and words beside them, and remove all but the last four
        breakpoints."""
        body, changes = finish_documents(body)
        body, dropped = drop_extra_points(body)
        return body, changes + dropped

    def rename_result(self, form: Form, id: str) -> Form:
        """A result for the same call under another id."""
        [block] = form
        return [{"toolResult": block["toolResult"] | {"toolUseId": id}}]

    def read_response(self, response: Mapping[str, Any]) -> ProviderAnswer:
        """An answer's content and usage. The service does not say which model it was."""
        output = field(dict(response), "output", dict, "response")
        content = field(
            field(output, "message", dict, "response.output"),
            "content",
            list,
            "response.output.message",
        )
        return ProviderAnswer(list(map(_as_request, content)), None, _counts(response.get("usage")))

    def read_facts(self, response: Mapping[str, Any]) -> ResponseFacts:
        """Return the id, the stop reason and other facts of a response."""
        about = response.get("ResponseMetadata")
        tier = response.get("serviceTier")
        return build_facts(
            id=about.get("RequestId") if isinstance(about, Mapping) else None,
            stop=response.get("stopReason"),
            tier=tier.get("type") if isinstance(tier, Mapping) else None,
        )

    def open_stream(self) -> StreamAssembler:
        """Return an assembler for the events of one stream."""
        return BedrockStream()

    # --- around the messages ---

    def write_tool(self, tool: ToolDefinition) -> Block:
        """Write the definition of a tool."""
        return {"toolSpec": describe_tool(tool) | {"inputSchema": {"json": get_schema(tool)}}}

    def write_tools(self, tools: list[Block]) -> Body:
        """Return the field that has the tools."""
        return {"toolConfig": {"tools": tools}}

    def write_tool_choice(self, mode: str, name: str | None) -> Body:
        """Return the field of a tool choice. Converse has no way to say "none"."""
        choices = {"auto": {"auto": {}}, "required": {"any": {}}, "tool": {"tool": {"name": name}}}
        return {"toolConfig.toolChoice": choices[mode]} if mode in choices else {}

    def mark_cache(self, body: Body, model: str | None) -> Body:
        """Set breakpoints behind the tools, the system text and the user's last two messages, instead of
        those of a loaded history. A breakpoint is a block of its own."""
        messages = []
        for message in body["messages"]:
            messages.append(message | {"content": remove_points(message["content"])})
        for index in find_turn_ends(messages):
            messages[index]["content"].append(POINT)
        marked = body | {"messages": messages}
        system = remove_points(body.get("system") or [])
        if system:
            marked["system"] = [*system, POINT]
        config = body.get("toolConfig") or {}
        tools = remove_points(config.get("tools") or [])
        # Nova caches system text and messages only: AWS, "Prompt caching for faster model inference".
        if tools and "nova" not in (model or ""):
            marked["toolConfig"] = config | {"tools": [*tools, POINT]}
        return marked


def remove_points(blocks: list[Block]) -> list[Block]:
    """Return blocks without breakpoints."""
    return [block for block in blocks if "cachePoint" not in block]


def drop_extra_points(body: Body) -> tuple[Body, list[str]]:
    """Remove all but the last four breakpoints: a loaded history may have more."""
    contents = [body.get("system") or [], *(message["content"] for message in body["messages"])]
    count = sum("cachePoint" in block for content in contents for block in content)
    surplus = max(0, count - MAX_BREAKPOINTS)
    if not surplus:
        return body, []
    left = surplus
    kept: list[list[Block]] = []
    for content in contents:
        blocks = []
        for block in content:
            if left and "cachePoint" in block:
                left -= 1
            else:
                blocks.append(block)
        kept.append(blocks)
    system, *others = kept
    messages = []
    for message, blocks in zip(body["messages"], others, strict=True):
        messages.append(message | {"content": blocks})
    thinned = body | {"messages": messages}
    if "system" in body:
        thinned["system"] = system
    return thinned, [f"{surplus} cache breakpoints left out: there may be {MAX_BREAKPOINTS}"]


# --- streams ---


# An SDK puts each event under its name; on the wire the name is in the frame's headers.
STREAM_EVENTS = ("contentBlockStart", "contentBlockDelta", "messageStop", "metadata")


class BedrockStream(StreamAssembler):
    """Assembles the events of ConverseStream: blocks by their index, begun by a start or by their first
    delta."""

    def __init__(self) -> None:
        self._blocks: dict[int, Block] = {}
        self._about: Body = {}

    def add(self, event: Mapping[str, Any]) -> list[StreamPiece]:
        """Take one event. Return the text and the thinking in it."""
        for name in STREAM_EVENTS:
            if name in event:
                event = event[name]
                break
        match event:
            case {"start": start, "contentBlockIndex": index}:
                self._blocks[index] = {key: dict(value) for key, value in start.items()}
            case {"delta": delta, "contentBlockIndex": index}:
                block = self._blocks.setdefault(index, {})
                for key, value in delta.items():
                    continue_block(block, key, value)
                return find_spoken(delta)
            case {"usage": usage}:
                self._about["usage"] = usage
                if "serviceTier" in event:
                    self._about["serviceTier"] = event["serviceTier"]
            case {"stopReason": reason}:
                self._about["stopReason"] = reason
        return []

    def finish(self) -> Body:
        """Return the answer, as far as it arrived."""
        content = [finish_block(block) for _, block in sorted(self._blocks.items()) if block]
        return {**self._about, "output": {"message": {"role": "assistant", "content": content}}}


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
    use = block.get("toolUse")
    if use is not None and not isinstance(use.get("input"), Mapping):
        return {"toolUse": use | {"input": read_arguments(use.get("input") or "").value}}
    if "citationsContent" in block and "text" in block:
        cited = block["citationsContent"]
        return {"citationsContent": cited | {"content": [{"text": block["text"]}]}}
    return block


BEDROCK = BedrockFormat()
