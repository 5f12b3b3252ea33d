"""The smallest body that breaks each rule, for Chat Completions, Responses and Gemini, and what is said.

Each row: a name, the body, a fragment of the service's error text. The other half is in refused_blocks.py.
"""

from __future__ import annotations

from typing import Any

HI = {"role": "user", "content": "hi"}
Row = tuple[str, Any, str]


def chat(*messages: Any) -> dict[str, Any]:
    """A Chat Completions body."""
    return {"messages": list(messages)}


def asks(*ids: Any, name: Any = "f", arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    """An assistant message with calls of these ids."""
    function = {"name": name, "arguments": arguments}
    calls = [{"id": id, "type": "function", "function": function} for id in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls, **more}


def told(id: Any, content: Any = "1") -> dict[str, Any]:
    """A tool message."""
    return {"role": "tool", "tool_call_id": id, "content": content}


MISSING = "The following tool_call_ids did not have response messages: a"
ORPHAN = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."

OPENAI: list[Row] = [
    ("no messages", chat(), "[] is too short - 'messages'"),
    ("messages absent", {}, "Invalid type for 'messages'"),
    ("message is no object", chat(7), "Supported values are"),
    ("unknown role", chat({"role": "bot", "content": "x"}), "Invalid value: 'bot'."),
    ("call cut from its result", chat(HI, asks("a")), MISSING),
    ("user before the result", chat(asks("a"), HI, told("a")), MISSING),
    ("one of two answered", chat(asks("a", "b"), told("b"), HI), MISSING),
    ("answer before the result", chat(asks("a"), {"role": "assistant", "content": "x"}), MISSING),
    ("result without call", chat(HI, told("a")), ORPHAN),
    ("result of another step", chat(asks("a"), told("a"), HI, told("a")), ORPHAN),
    (
        "two results",
        chat(asks("a"), told("a"), told("a")),
        "Duplicate value for 'tool_call_id' of 'a'",
    ),
    ("id twice in one step", chat(asks("a", "a"), told("a")), "in messages[0] and messages[0]."),
    (
        "id in two steps",
        chat(asks("a"), told("a"), asks("a"), told("a")),
        "in messages[0] and messages[2].",
    ),
    ("id too long", chat(asks("a" * 41), told("a" * 41)), "maximum length 40"),
    ("id empty", chat(asks(""), told("")), "'messages[0].tool_calls[0].id': empty string"),
    ("id is no string", chat(asks([])), "Invalid type for 'messages[0].tool_calls[0].id'"),
    (
        "result id is no string",
        chat(asks("a"), told(7)),
        "Invalid type for 'messages[1].tool_call_id'",
    ),
    ("no calls", chat(HI, asks()), "Invalid 'messages[1].tool_calls': empty array."),
    (
        "calls null",
        chat({"role": "assistant", "content": "x", "tool_calls": None}),
        "expected an array",
    ),
    (
        "name empty",
        chat(asks("a", name=""), told("a")),
        "tool_calls[0].function.name': empty string",
    ),
    ("name illegal", chat(asks("a", name="f.g"), told("a")), "string does not match pattern."),
    ("name too long", chat(asks("a", name="f" * 65), told("a")), "maximum length 64"),
    (
        "call of another type",
        chat({**asks(), "tool_calls": [{"id": "a"}]}),
        "values are: 'function'",
    ),
    (
        "arguments object",
        chat(asks("a", arguments={}), told("a")),
        "Input should be a valid string",
    ),
    (
        "arguments no JSON",
        chat(asks("a", arguments="{"), told("a")),
        "Failed to parse tool call arguments",
    ),
    (
        "arguments a list",
        chat(asks("a", arguments="[]"), told("a")),
        "Failed to parse tool call arguments",
    ),
    (
        "arguments NaN",
        chat(asks("a", arguments='{"x":NaN}'), told("a")),
        "Failed to parse tool call",
    ),
    ("user null", chat({"role": "user", "content": None}), "expected a string, got null."),
    ("system without content", chat({"role": "system"}), "expected a string, got null."),
    ("tool null", chat(asks("a"), told("a", None)), "expected a string, got null."),
    ("answer null", chat({"role": "assistant", "content": None}), "expected a string, got null."),
    (
        "text is no string",
        chat({"role": "user", "content": 7}),
        "expected a string, but got a number",
    ),
    ("blank text", chat({"role": "user", "content": " \n"}), "'messages[0].content': empty string"),
    (
        "blank beside calls",
        chat(asks("a", content=""), told("a")),
        "'messages[0].content': empty string",
    ),
    ("no parts", chat({"role": "user", "content": []}), "'messages[0].content': empty array"),
    (
        "blank part",
        chat({"role": "user", "content": [{"type": "text", "text": ""}]}),
        "content[0].text'",
    ),
    (
        "foreign part",
        chat({"role": "user", "content": [{"type": "image"}]}),
        "Invalid value: 'image'",
    ),
    (
        "image nowhere",
        chat({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "a.png"}}]}),
        "Expected a valid URL",
    ),
    ("half a surrogate", chat({"role": "user", "content": "\ud800"}), "no low surrogate in string"),
    (
        "not JSON",
        chat({"role": "user", "content": "x", "at": b""}),
        "could not parse the JSON body",
    ),
]


def responses(*items: Any, **more: Any) -> dict[str, Any]:
    """A Responses body."""
    return {"input": list(items), **more}


def call(id: Any = "a", *, name: Any = "f", arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    """A function_call item."""
    return {"type": "function_call", "call_id": id, "name": name, "arguments": arguments, **more}


def output(id: Any = "a", output: Any = "1") -> dict[str, Any]:
    """A function_call_output item."""
    return {"type": "function_call_output", "call_id": id, "output": output}


SAYS = {"role": "assistant", "content": "x"}
THOUGHT = {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
LONELY = "of type 'reasoning' was provided without its required following item."
NOT_STORED = "not found. Items are not persisted when `store` is set to false."

RESPONSES: list[Row] = [
    ("no items", responses(), "[] is too short - 'input'"),
    ("input absent", {}, "Invalid type for 'input'"),
    ("input blank", {"input": " "}, "'input': empty string"),
    ("instructions blank", responses(HI, instructions=""), "'instructions': empty string"),
    ("item is no object", responses(7), "Supported values are"),
    (
        "unknown item",
        responses({"type": "item_reference", "id": "x"}),
        "Invalid value: 'item_reference'.",
    ),
    ("tool role", responses({"role": "tool", "content": "x"}), "Invalid value: 'tool'."),
    (
        "call cut from its output",
        responses(HI, call()),
        "No tool output found for function call a.",
    ),
    (
        "output without call",
        responses(output()),
        "No tool call found for function call output with call_id a",
    ),
    (
        "output before call",
        responses(output(), call()),
        "No tool call found for function call output",
    ),
    ("two outputs", responses(call(), output(), output()), "Duplicate 'call_id'"),
    (
        "id on two calls",
        responses(call(), call(), output()),
        "Duplicate 'call_id': 'a' in input[0]",
    ),
    ("id too long", responses(call("a" * 65), output("a" * 65)), "maximum length 64"),
    ("id empty", responses(call(""), output("")), "Invalid 'input[0].call_id': empty string"),
    ("name empty", responses(call(name=""), output()), "Invalid 'input[0].name': empty string"),
    ("name illegal", responses(call(name="a b"), output()), "string does not match pattern."),
    ("arguments object", responses(call(arguments={}), output()), "Input should be a valid string"),
    (
        "arguments no object",
        responses(call(arguments="1"), output()),
        "Failed to parse tool call arguments",
    ),
    ("item id", responses({**call(), "id": "fc_1"}, output()), f"Item with id 'fc_1' {NOT_STORED}"),
    ("output null", responses(call(), output("a", None)), "expected a string, got null."),
    ("output blank", responses(call(), output("a", "")), "'input[1].output': empty string"),
    ("output id is no string", responses(call(), output(7)), "Invalid type for 'input[1].call_id'"),
    (
        "output part blank",
        responses(call(), output("a", [{"type": "input_text", "text": ""}])),
        "output[0].text",
    ),
    ("content null", responses({"role": "user", "content": None}), "expected a string, got null."),
    (
        "content blank",
        responses({"role": "user", "content": " "}),
        "'input[0].content': empty string",
    ),
    ("no parts", responses({"role": "user", "content": []}), "'input[0].content': empty array"),
    (
        "input part of an answer",
        responses({"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}),
        "Supported values are: 'output_text', 'refusal'.",
    ),
    (
        "image nowhere",
        responses({"role": "user", "content": [{"type": "input_image", "image_url": "a.png"}]}),
        "Expected a valid URL",
    ),
    ("reasoning at the end", responses(HI, THOUGHT), LONELY),
    ("reasoning before the user", responses(THOUGHT, HI), LONELY),
    ("reasoning before an output", responses(call(), THOUGHT, output()), LONELY),
    ("reasoning twice", responses(THOUGHT, THOUGHT, SAYS), LONELY),
    ("reasoning not encrypted", responses({"type": "reasoning", "summary": []}, SAYS), NOT_STORED),
    (
        "reasoning with its id",
        responses({**THOUGHT, "id": "rs_1"}, SAYS),
        f"id 'rs_1' {NOT_STORED}",
    ),
    (
        "reasoning without summary",
        responses({"type": "reasoning", "encrypted_content": "gAAA"}, SAYS),
        "input[0] missing required field summary",
    ),
]


def gemini(*contents: Any, **more: Any) -> dict[str, Any]:
    """A generateContent body."""
    return {"contents": list(contents), **more}


def user(*parts: Any) -> dict[str, Any]:
    """A user turn."""
    return {"role": "user", "parts": list(parts)}


def model(*parts: Any) -> dict[str, Any]:
    """A model turn."""
    return {"role": "model", "parts": list(parts)}


def want(name: Any = "f", args: Any = None, **more: Any) -> dict[str, Any]:
    """A functionCall part."""
    return {"functionCall": {"name": name, "args": {} if args is None else args, **more}}


def got(name: Any = "f", response: Any = None, **more: Any) -> dict[str, Any]:
    """A functionResponse part."""
    return {
        "functionResponse": {"name": name, "response": {} if response is None else response, **more}
    }


ASK, SAY = user({"text": "hi"}), model({"text": "hello"})
COUNTS = "number of function response parts is equal to the number of function call parts"
AFTER_USER = (
    "function call turn comes immediately after a user turn or after a function response turn."
)
AFTER_CALL = "function response turn comes immediately after a function call turn."
NO_DATA = "required oneof field 'data' must have one initialized field"

GEMINI: list[Row] = [
    ("no contents", gemini(), "contents is not specified"),
    ("contents absent", {}, "contents is not specified"),
    ("content is no object", gemini(7), "Please use a valid role: user, model."),
    (
        "system role",
        gemini({"role": "system", "parts": [{"text": "x"}]}),
        "Please use a valid role",
    ),
    ("system blank", gemini(ASK, systemInstruction={"parts": [{"text": ""}]}), NO_DATA),
    ("system empty", gemini(ASK, systemInstruction={"parts": []}), "system_instruction.parts"),
    ("call cut from its response", gemini(ASK, model(want())), COUNTS),
    ("call and then text", gemini(ASK, model(want()), ASK), COUNTS),
    ("one of two answered", gemini(ASK, model(want(), want()), user(got())), COUNTS),
    ("one answered twice", gemini(ASK, model(want()), user(got(), got())), COUNTS),
    ("another name", gemini(ASK, model(want()), user(got("g"))), COUNTS),
    ("another id", gemini(ASK, model(want(id="a")), user(got(id="b"))), COUNTS),
    ("response without call", gemini(user(got())), AFTER_CALL),
    ("response too late", gemini(ASK, model(want()), ASK, SAY, user(got())), AFTER_CALL),
    (
        "text before the response",
        gemini(ASK, model(want()), user({"text": "x"}, got())),
        AFTER_CALL,
    ),
    ("call first", gemini(model(want()), user(got())), AFTER_USER),
    ("call after a model turn", gemini(ASK, SAY, model(want()), user(got())), AFTER_USER),
    (
        "call of the user",
        gemini(user(want())),
        f"{AFTER_USER} (contents[0].parts[0] in a user turn)",
    ),
    ("response of the model", gemini(ASK, model(got()), ASK), AFTER_CALL),
    ("model first", gemini(SAY, ASK), "start with a user role"),
    ("user twice", gemini(ASK, ASK), "alternate between user and model."),
    ("model last", gemini(ASK, SAY), "ends with a user role or a function response."),
    ("no parts", gemini(user()), "contents[0].parts: contents.parts must not be empty."),
    ("empty part", gemini(user({})), NO_DATA),
    ("empty text", gemini(user({"text": ""})), NO_DATA),
    ("blank text", gemini(user({"text": " "})), NO_DATA),
    (
        "two in one part",
        gemini(user({"text": "x", "fileData": {}})),
        "oneof field 'data' is already set.",
    ),
    ("name empty", gemini(ASK, model(want("")), user(got(""))), "Name cannot be empty."),
    (
        "args text",
        gemini(ASK, model(want(args="{}")), user(got())),
        "function_call.args' (type.googleapis",
    ),
    (
        "response text",
        gemini(ASK, model(want()), user(got(response="x"))),
        "function_response.response'",
    ),
    (
        "image no base64",
        gemini(user({"inlineData": {"mimeType": "image/png", "data": "?"}})),
        "Base64",
    ),
    ("image without type", gemini(user({"inlineData": {"data": "aGk="}})), "mimeType parameter"),
    ("file nowhere", gemini(user({"fileData": {}})), "file_uri"),
    (
        "signature no base64",
        gemini(ASK, model({**want(), "thoughtSignature": "?"}), user(got())),
        "thought_signature' (TYPE_BYTES), Base64 decoding failed",
    ),
]
