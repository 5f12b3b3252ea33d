"""The smallest body that breaks each rule, for Anthropic and Bedrock, and what the service says of it.

Each row: a name, the body, a fragment of the service's error text. The other half is in refused.py.
"""

from __future__ import annotations

from typing import Any

from tests.wire.accepted import TOOLS

HI = {"role": "user", "content": "hi"}
BYE = {"role": "assistant", "content": "bye"}
TEXT = {"type": "text", "text": "x"}
Row = tuple[str, Any, str]


def anthropic(*messages: Any, **more: Any) -> dict[str, Any]:
    """A Messages body."""
    return {"messages": list(messages), **more}


def says(*blocks: Any) -> dict[str, Any]:
    """An assistant message."""
    return {"role": "assistant", "content": list(blocks)}


def user(*blocks: Any) -> dict[str, Any]:
    """A user message."""
    return {"role": "user", "content": list(blocks)}


def use(id: Any = "a", *, name: Any = "f", input: Any = None) -> dict[str, Any]:
    """A tool_use block."""
    return {"type": "tool_use", "id": id, "name": name, "input": {} if input is None else input}


def result(id: Any = "a", content: Any = "1", **more: Any) -> dict[str, Any]:
    """A tool_result block."""
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


def image(**source: Any) -> dict[str, Any]:
    """A user message with an image."""
    return user({"type": "image", "source": source})


MISSING = "`tool_use` ids were found without `tool_result` blocks immediately after: a."
ORPHAN = "unexpected `tool_use_id` found in `tool_result` blocks: a."
HEAD = "tool_result block(s) at the beginning of this message."
BLANK = "text content blocks must be non-empty"
WHITE = "text content blocks must contain non-whitespace text"
THOUGHT = {"type": "thinking", "thinking": "so", "signature": "EqQB"}
PREFILL = "This model does not support assistant message prefill."

ANTHROPIC: list[Row] = [
    ("no messages", anthropic(), "at least one message is required"),
    ("messages absent", {}, "messages: Input should be a valid list"),
    (
        "message is no object",
        anthropic(7),
        "messages.0.role: Input should be 'user' or 'assistant'",
    ),
    (
        "system first",
        anthropic({"role": "system", "content": "x"}, HI),
        "messages.0: use the top-level",
    ),
    (
        "system later",
        anthropic(HI, BYE, {"role": "system", "content": "x"}),
        "role 'system' is not supported",
    ),
    ("system blank", anthropic(HI, system=""), f"system: {BLANK}"),
    (
        "system block blank",
        anthropic(HI, system=[{"type": "text", "text": " "}]),
        f"system.0: {WHITE}",
    ),
    ("call cut from its result", anthropic(HI, says(use())), f"messages.1: {MISSING}"),
    ("call and then text", anthropic(HI, says(use()), HI), MISSING),
    ("one of two answered", anthropic(HI, says(use(), use("b")), user(result("b"))), MISSING),
    ("text after the call", anthropic(HI, says(use(), TEXT), user(result())), MISSING),
    (
        "text before the result",
        anthropic(HI, says(use()), user(TEXT, result())),
        f"Did not find 1 {HEAD}",
    ),
    ("text between", anthropic(HI, says(use(), use("b")), user(result(), TEXT, result("b"))), HEAD),
    ("result without call", anthropic(user(result())), f"messages.0.content.0: {ORPHAN}"),
    ("result too late", anthropic(HI, says(use()), user(result()), BYE, user(result())), ORPHAN),
    (
        "two results",
        anthropic(HI, says(use()), user(result(), result())),
        "must have a single result",
    ),
    (
        "id twice in one step",
        anthropic(HI, says(use(), use()), user(result())),
        "messages.1.content.1: `tool_use` ids must be unique",
    ),
    (
        "id in two steps",
        anthropic(HI, says(use()), user(result()), says(use()), user(result())),
        "messages.3.content.0: `tool_use` ids must be unique",
    ),
    (
        "id illegal",
        anthropic(HI, says(use("a.b")), user(result("a.b"))),
        "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    ),
    (
        "id with newline",
        anthropic(HI, says(use("a\n")), user(result("a\n"))),
        "String should match pattern",
    ),
    (
        "id too long",
        anthropic(HI, says(use("a" * 65)), user(result("a" * 65))),
        "at most 64 characters",
    ),
    (
        "id is no string",
        anthropic(HI, says(use([])), user(result([]))),
        "tool_use_id: String should match pattern",
    ),
    ("name empty", anthropic(HI, says(use(name="")), user(result())), "at least 1 character"),
    (
        "name too long",
        anthropic(HI, says(use(name="f" * 201)), user(result())),
        "at most 200 characters",
    ),
    (
        "input text",
        anthropic(HI, says(use(input="{}")), user(result())),
        "should be a valid dictionary",
    ),
    ("empty text", anthropic(user({"type": "text", "text": ""})), f"messages.0.content.0: {BLANK}"),
    ("white text", anthropic(user({"type": "text", "text": " \n"})), WHITE),
    ("white string", anthropic({"role": "user", "content": " "}), f"messages.0: {WHITE}"),
    (
        "empty string",
        anthropic({"role": "user", "content": ""}),
        "all messages must have non-empty content",
    ),
    ("no blocks", anthropic(user()), "all messages must have non-empty content"),
    ("content null", anthropic({"role": "user", "content": None}), "must have non-empty content"),
    (
        "empty result",
        anthropic(HI, says(use()), user(result("a", ""))),
        f"tool_result.content: {BLANK}",
    ),
    ("no result blocks", anthropic(HI, says(use()), user(result("a", []))), BLANK),
    (
        "image in an error",
        anthropic(
            HI,
            says(use()),
            user(result("a", image(type="url", url="https://x/")["content"], is_error=True)),
        ),
        "all content must be type `text` if `is_error` is true",
    ),
    (
        "blank result block",
        anthropic(HI, says(use()), user(result("a", [{"type": "text", "text": ""}]))),
        f"tool_result.content.0: {BLANK}",
    ),
    (
        "call of the user",
        anthropic(user(use())),
        "`tool_use` blocks can only be in `assistant` messages",
    ),
    ("result of the answer", anthropic(HI, says(result()), HI), "can only be in `user` messages"),
    ("unknown block", anthropic(user({"type": "video"})), "Input tag 'video' found using 'type'"),
    ("user twice", anthropic(HI, HI), 'roles must alternate between "user" and "assistant"'),
    ("assistant twice", anthropic(HI, BYE, BYE, HI), 'found multiple "assistant" roles in a row'),
    ("assistant first", anthropic(BYE, HI), 'first message must use the "user" role'),
    ("assistant last", anthropic(HI, BYE), PREFILL),
    (
        "assistant ends in space",
        anthropic(HI, says({"type": "text", "text": "x "})),
        "trailing whitespace",
    ),
    (
        "thinking unsigned",
        anthropic(HI, says({**THOUGHT, "signature": ""}), HI),
        "Invalid `signature`",
    ),
    ("thinking not first", anthropic(HI, says(TEXT, THOUGHT, TEXT), HI), "Expected `thinking` or"),
    (
        "thinking last",
        anthropic(HI, says(THOUGHT), HI),
        "final block in an assistant message cannot",
    ),
    ("thinking of the user", anthropic(user(THOUGHT)), "Input tag 'thinking'"),
    (
        "image type",
        anthropic(image(type="base64", media_type="image/bmp", data="aGk=")),
        "media_type",
    ),
    (
        "image no base64",
        anthropic(image(type="base64", media_type="image/png", data="?")),
        "invalid base64",
    ),
    ("image nowhere", anthropic(image(type="url", url="a.png")), "Only HTTP and HTTPS URLs"),
    ("image of a file", anthropic(image(type="file")), "file.file_id"),
    ("image of nothing", anthropic(image()), "Input tag None found using 'type'"),
    (
        "text is no string",
        anthropic(user({"type": "text", "text": 7})),
        "text.text: Input should be a valid",
    ),
    (
        "system image",
        anthropic(HI, system=[{"type": "image"}]),
        "system.0.type: Input should be 'text'",
    ),
    ("redacted nothing", anthropic(HI, says({"type": "redacted_thinking"}), HI), "Invalid `data`"),
    (
        "thinking nothing",
        anthropic(HI, says({**THOUGHT, "thinking": None}), HI),
        "thinking: Field required",
    ),
    (
        "error flag",
        anthropic(HI, says(use()), user(result(is_error="no"))),
        "is_error: Input should be a valid",
    ),
    (
        "result block",
        anthropic(HI, says(use()), user(result("a", [use()]))),
        "Input tag 'tool_use'",
    ),
    (
        "five breakpoints",
        anthropic(user(*[{**TEXT, "cache_control": {}}] * 5)),
        "maximum of 4 blocks",
    ),
    (
        "half a surrogate",
        anthropic({"role": "user", "content": "\ud800"}),
        "no low surrogate in string",
    ),
]


def bedrock(*messages: Any, toolConfig: Any = TOOLS, **more: Any) -> dict[str, Any]:
    """A Converse body."""
    return {"messages": list(messages), "toolConfig": toolConfig, **more}


def tool_use(id: Any = "a", *, name: Any = "f", input: Any = None) -> dict[str, Any]:
    """A toolUse block."""
    return {"toolUse": {"toolUseId": id, "name": name, "input": {} if input is None else input}}


def tool_result(id: Any = "a", *content: Any, **more: Any) -> dict[str, Any]:
    """A toolResult block."""
    return {"toolResult": {"toolUseId": id, "content": list(content) or [{"text": "1"}], **more}}


def spec(name: Any, schema: Any) -> dict[str, Any]:
    """A toolConfig with one tool."""
    return {"tools": [{"toolSpec": {"name": name, "inputSchema": schema}}]}


ASK, SAY = user({"text": "hi"}), says({"text": "hello"})
SEALED = {"reasoningContent": {"redactedContent": b"x"}}
EXPECTED = "Expected toolResult blocks at messages.2.content for the following Ids: a"
EXCEEDS = "exceeds the number of toolUse blocks of previous turn."
OBJECT = {"json": {"type": "object"}}
PATTERN = "Member must satisfy regular expression pattern: "

BEDROCK: list[Row] = [
    ("no messages", bedrock(), "A conversation must start with a user message."),
    ("messages absent", {}, "A conversation must start with a user message."),
    ("message is no object", bedrock(7), "Member must satisfy enum value set: [user, assistant]"),
    ("system role", bedrock({"role": "system", "content": [{"text": "x"}]}, ASK), "Value 'system'"),
    ("system blank", bedrock(ASK, system=[{"text": ""}]), "at system.0 is blank."),
    ("system text", bedrock(ASK, system="x"), "'system' failed to satisfy constraint"),
    ("call cut from its result", bedrock(ASK, says(tool_use())), EXPECTED),
    ("call and then text", bedrock(ASK, says(tool_use()), ASK), EXPECTED),
    (
        "results split",
        bedrock(ASK, says(tool_use(), tool_use("b")), user(tool_result("b")), ASK),
        EXPECTED,
    ),
    (
        "text after the call",
        bedrock(ASK, says(tool_use(), {"text": "x"}), user(tool_result())),
        EXPECTED,
    ),
    (
        "text before the result",
        bedrock(ASK, says(tool_use()), user({"text": "x"}, tool_result())),
        EXPECTED,
    ),
    ("result without call", bedrock(user(tool_result())), EXCEEDS),
    ("two results", bedrock(ASK, says(tool_use()), user(tool_result(), tool_result())), EXCEEDS),
    (
        "id twice",
        bedrock(ASK, says(tool_use(), tool_use()), user(tool_result())),
        "ids must be unique",
    ),
    (
        "id illegal",
        bedrock(ASK, says(tool_use("a b")), user(tool_result("a b"))),
        f"{PATTERN}[a-zA-Z0-9_.:-]+",
    ),
    (
        "id too long",
        bedrock(ASK, says(tool_use("a" * 65)), user(tool_result("a" * 65))),
        "toolUse.toolUseId' failed to satisfy constraint: Member must have length less than or equal to 64",
    ),
    (
        "id empty",
        bedrock(ASK, says(tool_use("")), user(tool_result(""))),
        "toolResult.toolUseId' failed to satisfy constraint: Member must have length greater than",
    ),
    (
        "name empty",
        bedrock(ASK, says(tool_use(name="")), user(tool_result())),
        "toolUse.name' failed",
    ),
    (
        "name illegal",
        bedrock(ASK, says(tool_use(name="f.g")), user(tool_result())),
        f"{PATTERN}[a-zA-Z0-9_-]+",
    ),
    (
        "input text",
        bedrock(ASK, says(tool_use(input="{}")), user(tool_result())),
        "Provide a json object",
    ),
    (
        "json a list",
        bedrock(ASK, says(tool_use()), user(tool_result("a", {"json": []}))),
        "content.0.json",
    ),
    (
        "result block",
        bedrock(ASK, says(tool_use()), user(tool_result("a", {"x": 1}))),
        "tagged union",
    ),
    ("system image", bedrock(ASK, system=[{"image": {}}]), "tagged union structure system.0"),
    (
        "reasoning nothing",
        bedrock(ASK, says({"reasoningContent": {}}), ASK),
        "tagged union structure",
    ),
    (
        "tool nothing",
        bedrock(ASK, toolConfig={"tools": [{}]}),
        "tagged union structure toolConfig.tools.0",
    ),
    ("user twice", bedrock(ASK, ASK), "must alternate between user and assistant roles."),
    ("assistant first", bedrock(SAY, ASK), "A conversation must start with a user message."),
    ("assistant last", bedrock(ASK, SAY), PREFILL),
    (
        "blank text",
        bedrock(user({"text": " "})),
        "ContentBlock object at messages.0.content.0 is blank.",
    ),
    ("no blocks", bedrock(user()), "Message object at messages.0 is empty."),
    (
        "content text",
        bedrock({"role": "user", "content": "hi"}),
        "Message object at messages.0 is empty.",
    ),
    ("two in one block", bedrock(user({"text": "x", "image": {}})), "tagged union structure"),
    ("unknown block", bedrock(user({"type": "text"})), "tagged union structure"),
    (
        "call of the user",
        bedrock(user(tool_use())),
        "toolUse blocks are not allowed in user messages",
    ),
    (
        "result of the answer",
        bedrock(ASK, says(tool_result()), ASK),
        "not allowed in assistant messages",
    ),
    (
        "error without content",
        bedrock(
            ASK,
            says(tool_use()),
            user({"toolResult": {"toolUseId": "a", "content": [], "status": "error"}}),
        ),
        "cannot be empty when status value is error.",
    ),
    (
        "result blank",
        bedrock(ASK, says(tool_use()), user(tool_result("a", {"text": ""}))),
        "is blank.",
    ),
    (
        "status",
        bedrock(ASK, says(tool_use()), user(tool_result(status="ok"))),
        "set: [success, error]",
    ),
    (
        "no toolConfig",
        {"messages": [ASK, says(tool_use()), user(tool_result())]},
        "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
    ),
    ("no tools", bedrock(ASK, toolConfig={"tools": []}), "'toolConfig.tools' failed"),
    ("tool name illegal", bedrock(ASK, toolConfig=spec("f g", OBJECT)), "toolSpec.name' failed"),
    (
        "tool schema",
        bedrock(ASK, toolConfig=spec("f", {"json": {}})),
        "inputSchema.json.type must be one of",
    ),
    (
        "tool twice",
        bedrock(ASK, toolConfig={"tools": TOOLS["tools"] * 2}),
        "tool names must be unique",
    ),
    (
        "image format",
        bedrock(user({"image": {"format": "bmp", "source": {"bytes": b"x"}}})),
        "image.format'",
    ),
    (
        "image nowhere",
        bedrock(user({"image": {"format": "png", "source": {}}})),
        "union structure messages.0.content.0.image",
    ),
    (
        "image empty",
        bedrock(user({"image": {"format": "png", "source": {"bytes": b""}}})),
        "image.source",
    ),
    (
        "reasoning unsigned",
        bedrock(ASK, says({"reasoningContent": {"reasoningText": {"text": "so"}}}), ASK),
        "Invalid `signature`",
    ),
    (
        "reasoning not first",
        bedrock(ASK, says({"text": "x"}, SEALED, {"text": "x"}), ASK),
        "Expected `thinking` or",
    ),
    (
        "reasoning last",
        bedrock(ASK, says(SEALED), ASK),
        "final block in an assistant message cannot",
    ),
]
