"""Gemini generateContent, as REST spells it: `{"systemInstruction"?, "contents": [...]}`.

Calls need no ids: a result is known by its name and its place. The first call of each answer has a
thought signature, and where none is known the one that tells the service not to look. Google reads
every field in two spellings, `functionCall` and `function_call`, and so does this. A form is a list
of parts.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import Any

from backstory.wire.fields import (
    WrongField,
    check_keys,
    expect,
    field,
    name_in,
    one_in,
    optional,
    read_as_json,
    read_at,
    read_each,
    read_items,
    text_or_none,
)
from backstory.wire.formats.base import (
    Block,
    Body,
    StreamAssembler,
    StreamPiece,
    TokenRules,
    ToolDefinition,
    WrittenForm,
    describe_run,
    describe_tool,
    get_schema,
    has_text,
    list_unread,
    list_unread_keys,
    price_flat,
)
from backstory.wire.formats.blocks import BlockFormat
from backstory.wire.json_values import write_json
from backstory.wire.media import (
    PDF,
    is_base64,
    is_sound,
    is_text_type,
    media,
    type_of,
    web_url,
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
    Result,
    Text,
    make_result,
)

NO_SIGNATURE = "skip_thought_signature_validator"
# Addresses in Gemini's own file store mean nothing to other services.
OWN_FILE = re.compile(r"https://generativelanguage\.googleapis\.com/(.*/)?files/|gs://")
GEMINI_IMAGES = frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"})


def to_snake_case(name: str) -> str:
    """Return the other spelling of a field."""
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


# The other spelling of each field that is read.
SNAKE_CASE = {
    name: to_snake_case(name)
    for name in (
        *("systemInstruction", "functionCall", "functionResponse", "thoughtSignature"),
        *("inlineData", "fileData", "mimeType", "fileUri", "displayName"),
        *("modelVersion", "usageMetadata", "promptTokenCount", "candidatesTokenCount"),
        *("thoughtsTokenCount", "cachedContentTokenCount", "finishReason"),
        *("responseId", "promptFeedback", "blockReason", "trafficType"),
        *("willContinue", "partialArgs", "jsonPath", "stringValue", "numberValue", "boolValue"),
    )
}
# The fields that are read of a content, of a call and of its result.
CONTENT_KEYS = frozenset({"role", "parts"})
CALL_KEYS = frozenset({"id", "name", "args"})
RESULT_KEYS = frozenset({"id", "name", "response", "parts"})
# Parts in which the service's own tools say what they did.
RUNS = {
    "executableCode": "code_execution",
    "executable_code": "code_execution",
    "codeExecutionResult": "code_execution_result",
    "code_execution_result": "code_execution_result",
    "toolCall": "tool_call",
    "tool_call": "tool_call",
    "toolResponse": "tool_response",
    "tool_response": "tool_response",
}
# A part has one of these, and they are looked for in this order.
DATA_KEYS = (
    *("functionCall", "function_call", "functionResponse", "function_response", "text"),
    *("inlineData", "inline_data", "fileData", "file_data", *RUNS),
)
DATA_NAMES = frozenset(DATA_KEYS)
# The fields that are read of a part. Only the service understands others.
PART_KEYS = frozenset({*DATA_NAMES, "thought", "thoughtSignature", "thought_signature"})
# Keys of other formats' blocks: here they are a mistake, and refused.
OTHER_FORMATS_KEYS = frozenset(
    {"type", "toolUse", "toolResult", "reasoningContent", "image", "document"}
)

GEMINI_TOKENS = TokenRules(
    "gemini",
    ratio=1.03,
    opening=1,
    message=0,
    call=5,
    result=8,
    tools=(0, 1.1),
    image=price_flat(258),
    page=258,
    letter=0,
    audio=32,
    seal=(0, math.inf),
)
GEMINI_3_TOKENS = GEMINI_TOKENS._replace(image=price_flat(1090), page=560, video=70, seal=(0, 5.5))


# Google's own parameters: fields of a request, and fields of its `generationConfig`.
OWN_FIELDS = frozenset(
    {
        "cachedContent",
        "generationConfig",
        "labels",
        "modelArmorConfig",
        "safetySettings",
        "serviceTier",
        "store",
    }
)
CONFIG_FIELDS = frozenset(
    {
        "audioTimestamp",
        "audioTranscriptionConfig",
        "candidateCount",
        "enableEnhancedCivicAnswers",
        "frequencyPenalty",
        "imageConfig",
        "logprobs",
        "maxOutputTokens",
        "mediaResolution",
        "presencePenalty",
        "responseJsonSchema",
        "responseLogprobs",
        "responseMimeType",
        "responseModalities",
        "responseSchema",
        "routingConfig",
        "seed",
        "speechConfig",
        "stopSequences",
        "thinkingConfig",
        "topK",
        "topP",
    }
)
# The names of the SDK for Python, and those of a request.
PARAMETER_NAMES = {to_snake_case(name): name for name in OWN_FIELDS | CONFIG_FIELDS}


class GeminiFormat(BlockFormat):
    """Gemini's generateContent."""

    name = "gemini"
    call_ids = None
    tool_names = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}")
    media_after_results = True
    role_names = MappingProxyType({"user": "user", "answer": "model"})
    messages_key = "contents"
    content_key = "parts"
    token_rules = (
        (r"gemini-3", GEMINI_3_TOKENS),
        (r"gemini-2\.0", GEMINI_TOKENS._replace(image=price_flat(1290))),
        (r"gemini", GEMINI_TOKENS),
    )
    parameters = MappingProxyType(
        {
            "max_tokens": "generationConfig.maxOutputTokens",
            "temperature": "generationConfig.temperature",
            "top_p": "generationConfig.topP",
            "stop": "generationConfig.stopSequences",
            "effort": "generationConfig.thinkingConfig.thinkingLevel",
            "thinking": "generationConfig.thinkingConfig.thinkingBudget",
        }
    )
    choice_path = "toolConfig.functionCallingConfig"
    tool_choices = MappingProxyType(
        {"auto": {"mode": "AUTO"}, "none": {"mode": "NONE"}, "required": {"mode": "ANY"}}
    )
    conversation_fields = frozenset({"contents", "systemInstruction", "system_instruction"})
    own_parameters = frozenset({*OWN_FIELDS, *CONFIG_FIELDS, *PARAMETER_NAMES})

    model_path = "modelVersion"
    usage_path = "usageMetadata"
    # A prompt that is blocked has no candidates.
    fact_paths = MappingProxyType(
        {
            "id": ("responseId",),
            "stop": ("promptFeedback.blockReason", "candidates.0.finishReason"),
            "tier": ("usageMetadata.trafficType",),
        }
    )
    # Thoughts are counted apart from the answer.
    usage_paths = MappingProxyType(
        {
            "input": ("promptTokenCount",),
            "output": ("candidatesTokenCount", "thoughtsTokenCount"),
            "cached": ("cachedContentTokenCount",),
        }
    )

    # --- writing ---

    def write_text(self, text: str) -> Block:
        """Write a part of text."""
        return {"text": text}

    def write_media(self, found: Media, in_result: bool) -> Block | None:
        """Write images, PDFs, text, sounds and films, by their data or a URL."""
        url = web_url(found)
        if url is not None:
            file: Block = {"fileUri": url}
            type_ = type_of(found)
            if type_:
                file["mimeType"] = type_
            return {"fileData": file}
        has_data = found.data is not None or found.text is not None
        if not has_data or not takes_type(found):
            return None
        blob = {"mimeType": found.type, "data": write_standard_base64(found)}
        return {"inlineData": blob}

    def can_name_file(self, found: Media) -> bool:
        """Return False: a part has no name."""
        return False

    def write_call(self, call: Call) -> Block:
        """Write a functionCall part."""
        return {"functionCall": {"name": call.name, "args": call.arguments}}

    def write_answer(self, turn: AnswerTurn) -> Form:
        """Write texts, then calls, the first of them signed: "Function call is missing a
        thought_signature" (dify#29187), and this one is for histories of other models (strands
        PR#1298)."""
        parts = super().write_answer(turn)
        if turn.calls:
            parts[len(turn.texts)]["thoughtSignature"] = NO_SIGNATURE
        return parts

    def write_result(self, call: Call, result: Result) -> Form:
        """Write a functionResponse part. `output` and `error` are the keys that the service knows.
        Media go after the results."""
        response: Block = {}
        if call.id:  # a call that went out with an id wants it back
            response["id"] = call.id
        response["name"] = call.name
        response["response"] = {"error" if result.is_error else "output": result.text}
        return [{"functionResponse": response}]

    def write_results(self, turn: AnswerTurn) -> list[WrittenForm]:
        """Write the results of an answer's calls, and after all of them the media in them."""
        forms = super().write_results(turn)
        if None in turn.results:  # the media have to wait for it
            return forms
        parts: list[Part] = []
        for _, _, result in forms:
            # All text is in the result itself.
            if isinstance(result, Result) and result.content is not None:
                parts += [part for part in result.content if not isinstance(part, Text)]
        media = self.write_content(parts, in_result=True)
        if media:
            forms.append(("user", media, forms[-1][2]))  # it joins the last result
        return forms

    def list_blocks(self, form: Form) -> Any:
        """Return parts as a list. Google takes a single part without its brackets, and then it goes
        back as it was."""
        return [form] if isinstance(form, dict) else form

    def write_system(self, form: Form) -> Body:
        """Return the field that has the system instruction."""
        return {"systemInstruction": {"parts": form}}

    # --- reading ---

    def read_body(self, body: Mapping[str, Any]) -> list[BodyUnit]:
        """Return system parts one by one, then the contents, each user content as its results and
        the rest."""
        units: list[BodyUnit] = []
        system = get_field(body, "systemInstruction")
        if system is not None:
            units += read_at(".systemInstruction", self._read_system, system)
        contents = {"contents": self.list_blocks(body["contents"])} if "contents" in body else {}
        return units + read_items(contents, "contents", self._read_turn)

    def _read_system(self, instruction: Any) -> list[BodyUnit]:
        part = expect(instruction, dict).get("parts")
        if isinstance(part, dict):
            parts = read_at(".parts", self.read_block, "system", part)
            return [BodyUnit("system", part, parts, is_on_top=True)]
        blocks = field(instruction, "parts", list)
        return read_at(".parts", self.read_system_blocks, blocks)

    def _read_turn(self, content: Block) -> list[BodyUnit]:
        role = "user"
        if content.get("role"):
            role = one_in(content, "role", ("user", "model", "function"))
        check_keys(content, CONTENT_KEYS)  # "Invalid JSON payload received. Unknown name"
        if "parts" not in content:
            raise WrongField("missing, expected an array", ".parts")
        parts = content["parts"]
        if role == "model":
            role = "answer"
        elif isinstance(parts, dict) and self.is_result(parts):
            role = "result"
        else:
            role = "user"
        return read_at(".parts", self.read_content, role, parts)

    def is_result(self, block: Block) -> bool:
        """Return True if a part is the result of a call."""
        return get_field(block, "functionResponse") is not None

    def read_block(self, role: str, block: Block) -> list[Part]:
        """Return what a part says, its seal, and its other fields."""
        found = read_data(block)
        others = read_seal(block)
        if len(block) > 1:
            others += list_others(block, found)
        if isinstance(found, Result) and others:
            return [
                make_result(found.id, [*(found.content or ()), *others], found.is_error, found.name)
            ]
        return [found, *others]

    def recognizes(self, answer: Mapping[str, Any]) -> bool:
        """Return True if an answer, or the first event of a stream, has the shape of this
        format. A prompt that is blocked has no candidates."""
        return "candidates" in answer or get_field(answer, "promptFeedback") is not None

    def read_response(self, response: Mapping[str, Any]) -> Form:
        """Return the parts of the first candidate."""
        candidates = optional(response, "candidates", list) or [{}]
        content = read_at(".candidates[0]", read_candidate, candidates[0])
        parts = self.list_blocks(content.get("parts") or [])
        read_at(".candidates[0].content.parts", expect, parts, list)
        return [part for part in parts if part]  # a stream may end with an empty part

    def get_field(self, value: Mapping[str, Any], key: str) -> Any:
        """Return a field in either of its two spellings."""
        return get_field(value, key)

    def open_stream(self) -> StreamAssembler:
        """Return an assembler for the chunks of one stream."""
        return GeminiStream()

    # --- what goes back to the provider that gave it ---

    def rename_result(self, form: Form, id: str) -> Form:
        """Return a result for the same call under another id."""
        [part] = self.list_blocks(form)
        key = find_key(part, "functionResponse")
        result = part[key] | {"id": id}
        return [part | {key: result}]

    # --- around the messages ---

    def write_tool(self, tool: ToolDefinition) -> Block:
        """Write the declaration of a function."""
        return describe_tool(tool) | {"parametersJsonSchema": get_schema(tool)}

    def write_tools(self, tools: list[Block]) -> Body:
        """Return the field that has the tools: all functions are one of them."""
        functions = [tool for tool in tools if "name" in tool]
        others = [tool for tool in tools if "name" not in tool]
        if functions:
            others.insert(0, {"functionDeclarations": functions})
        return {"tools": others}

    def write_named_choice(self, name: str | None) -> Any:
        """Write the choice of the tool of this name: ANY with a list of names forces one."""
        return {"mode": "ANY", "allowedFunctionNames": [name]}

    def write_own_parameter(self, name: str, value: Any) -> Body:
        """Return the field of one of Google's own parameters, in either of its two spellings."""
        field = PARAMETER_NAMES.get(name, name)
        if field in CONFIG_FIELDS:
            return {"generationConfig": {field: value}}
        return {field: value}


# --- parts ---


def get_field(value: Mapping[str, Any], name: str) -> Any:
    """Return a field in either of its two spellings."""
    found = value.get(name)
    return value.get(SNAKE_CASE.get(name, name)) if found is None else found


def find_key(value: Mapping[str, Any], name: str) -> str:
    """Return the spelling in which a field is used."""
    return name if value.get(name) is not None else SNAKE_CASE[name]


def takes_type(found: Media) -> bool:
    """Return True if the service takes media of this type."""
    if found.type is None:
        return False
    if found.type == PDF or is_text_type(found.type):
        return True
    return found.type in GEMINI_IMAGES if found.kind == "image" else found.kind != "document"


def read_candidate(candidate: Any) -> Block:
    """Return the content of a candidate."""
    return optional(expect(candidate, dict), "content", dict)


def find_data_key(part: Block) -> str | None:
    """Return the field that says what a part is; None if there is no such field."""
    for key in DATA_KEYS:
        if part.get(key) is not None:
            return key
    return None


def read_data(part: Block) -> Part:
    """Return what a part says."""
    key = find_data_key(part)
    match key:
        case "functionCall" | "function_call":
            return read_at(".functionCall", read_call, part[key])
        case "functionResponse" | "function_response":
            return read_at(".functionResponse", read_result, part[key])
    if part.get("thought"):
        return read_thought(part, key)
    return read_content(part, key)


def read_content(part: Block, key: str | None) -> Part:
    """Return the text in a part, its media, or what only the service understands."""
    if key == "text":
        return Text(field(part, key, str))
    if key is None:
        return read_unknown(part)
    if key not in RUNS:
        return read_media(part)
    if isinstance(part[key], dict):
        return describe_run(key, RUNS[key], part[key])
    return Other(key, is_complete=False)


def read_unknown(part: Block) -> Other:
    """Return a part of a kind that is not known."""
    for key, value in part.items():
        if value is not None and key != "thought":
            return Other(key, is_complete=key not in OTHER_FORMATS_KEYS)
    raise WrongField("a part without data")


def list_others(part: Block, found: Part) -> list[Part]:
    """Return parts for the fields of a part that are not read."""
    others: list[Part] = []
    if not PART_KEYS.issuperset(part):
        name = found.what if isinstance(found, Other) else None
        for key, value in part.items():
            if value and key not in PART_KEYS and key != name:
                others.append(Other(key))
    # A part has just one: "required oneof field 'data' must have one initialized field"
    # (gemini-cli#5575).
    if len(DATA_NAMES.intersection(part)) > 1:
        data = [key for key in DATA_KEYS if part.get(key) is not None]
        others += [Other(key, is_complete=False) for key in data[1:] if part[key]]
    return others


def read_seal(part: Block) -> list[Part]:
    """Return the signature of a part: "Invalid value at 'thought_signature' (TYPE_BYTES), Base64
    decoding failed"."""
    signature = get_field(part, "thoughtSignature")
    if signature in (None, ""):
        return []
    is_complete = isinstance(signature, str) and is_base64(signature)
    return [Reasoning("", str(signature), is_complete, what="thoughtSignature")]


def read_thought(part: Block, key: str | None) -> Reasoning:
    """Return the thinking in a part: text, what a tool did, or, of models that paint, an image. A
    seal may stand alone, but makes nothing whole that is broken."""
    try:
        found = read_content(part, key)
    except WrongField:
        return Reasoning("", is_complete=False, what="thought")
    is_complete = True
    if isinstance(found, Media):
        is_complete = is_sound(found)
    elif isinstance(found, Other):
        is_complete = found.is_complete
    text = found.text if isinstance(found, Text) else ""
    return Reasoning(text, "", is_complete, what="thought")


def read_call(value: Any) -> Call:
    """Return a call."""
    call = expect(value, dict)
    id = text_or_none(call, "id") or None
    name = name_in(call, "name")
    arguments = optional(call, "args", dict)
    extras = list_unread_keys(call, CALL_KEYS)
    return Call(id, name, arguments, extras=extras)


def read_result(value: Any) -> Result:
    """Return the result of a call: its text, and the media beside it."""
    result = expect(value, dict)
    id = text_or_none(result, "id") or None
    name = name_in(result, "name")
    response = optional(result, "response", dict)
    text, is_error = read_at(".response", read_output, response)
    parts: list[Part] = []
    if text is not None:
        parts.append(Text(text))
    media_parts = optional(result, "parts", list)
    parts += read_at(".parts", read_each, media_parts, lambda part: [read_media(part)])
    parts += list_unread(result, RESULT_KEYS)
    return make_result(id, parts, is_error, name)


def read_output(response: Block) -> tuple[str | None, bool]:
    """Return the text of a tool's output, and whether it is an error."""
    match list(response.items()):
        case []:
            return None, False
        case [("error" | "output" | "result" as key, str(text))]:
            return text, key == "error"
    return read_as_json(response), False


def read_media(part: Block) -> Media | Other:
    """Return the media in a part: data, or an address."""
    blob, file = get_field(part, "inlineData"), get_field(part, "fileData")
    if isinstance(blob, dict):
        return read_blob(blob)
    if isinstance(file, dict):
        return read_file(file)
    if blob is None and file is None:  # in a result
        return Other(next(iter(part), "part"))
    return read_broken("fileData" if blob is None else "inlineData")


def read_broken(key: str) -> Other:
    """Return media that the service would refuse."""
    return Other(key, is_complete=False, media="document")


def read_blob(blob: Block) -> Media | Other:
    """Return media by their data."""
    type_, data = get_field(blob, "mimeType"), blob.get("data")
    if not has_text(type_) or not isinstance(data, str):
        return read_broken("inlineData")
    return media(type_, data=data, name=read_file_name(blob))


def read_file(file: Block) -> Media | Other:
    """Return media by their address. The service takes it without a type."""
    type_, url = get_field(file, "mimeType"), get_field(file, "fileUri")
    if not isinstance(url, str) or not isinstance(type_, str | None):
        return read_broken("fileData")
    known = type_of(media(type_, url=url))
    if OWN_FILE.match(url):
        return Other("a file in Gemini's store", media=media(known).kind)
    if not known:
        return Other("fileData", media="document")
    return media(known, url=url, name=read_file_name(file))


def read_file_name(file: Block) -> str | None:
    """Return the name of a file, if it has one."""
    name = get_field(file, "displayName")
    return name if isinstance(name, str) and name else None


# --- streams ---


class GeminiStream(StreamAssembler):
    """Assembles the chunks of generateContent: the parts of all chunks, one after another."""

    def __init__(self) -> None:
        self._parts = PartList()
        self._about: Body = {}
        self._reason: str | None = None

    def add(self, event: Mapping[str, Any]) -> list[StreamPiece]:
        """Take one chunk. Return the text and the thinking in it."""
        for key, value in event.items():
            if key != "candidates":
                self._about[key] = value
        pieces: list[StreamPiece] = []
        for candidate in (event.get("candidates") or ())[:1]:
            self._reason = get_field(candidate, "finishReason") or self._reason
            content = candidate.get("content") or {}
            pieces.extend(self._add_parts(content.get("parts") or ()))
        return pieces

    def _add_parts(self, parts: Iterable[Block]) -> Iterator[StreamPiece]:
        for part in parts:
            self._parts.add(part)
            if part.get("text"):
                yield "thinking" if part.get("thought") else "text", part["text"]

    def finish(self) -> Body:
        """Return the answer, as far as it arrived."""
        parts = self._parts.finish(is_over=self._reason == "STOP")
        candidate: Body = {"content": {"role": "model", "parts": parts}}
        if self._reason is not None:
            candidate["finishReason"] = self._reason
        return {**self._about, "candidates": [candidate]}


class PartList:
    """The parts of a stream, with each call in one part.

    The arguments of a call may come in pieces (`streamFunctionCallArguments`). The first part has
    the name; each further one has pieces of the arguments, by the JSON path of their place, until
    one does not say that the call continues.
    """

    def __init__(self) -> None:
        self._parts: list[Any] = []
        self._open: int | None = None  # the index of the call that continues

    def add(self, part: Block) -> None:
        """Add a part, or the pieces in it to the call that continues."""
        key = find_key(part, "functionCall")
        call = part.get(key)
        if call is None:
            self._parts.append(part)
            return
        index = len(self._parts) if self._open is None else self._open
        begun = {} if self._open is None else self._parts[index]
        if call.get("name") not in (None, "", begun.get(key, {}).get("name")):
            begun = {}
            index = len(self._parts)
        whole = begun | {name: value for name, value in part.items() if value is not None}
        whole[key] = add_pieces(begun.get(key, {}), call)
        if index == len(self._parts):
            self._parts.append(whole)
        self._parts[index] = whole
        self._open = index if get_field(call, "willContinue") else None

    def finish(self, *, is_over: bool) -> list[Any]:
        """Return the parts. If the stream was cut off, the arguments of a call that would continue
        are not what the model meant: they become arguments that are not JSON, so that no tool runs
        with them."""
        if self._open is not None and not is_over:
            part = self._parts[self._open]
            key = find_key(part, "functionCall")
            text = write_json(part[key].get("args") or {})
            call = part[key] | {"args": {"_invalid_json": text}}
            self._parts[self._open] = {**part, key: call}
        return self._parts


PARTIAL_KEYS = ("willContinue", "will_continue", "partialArgs", "partial_args")
VALUE_NAMES = ("stringValue", "numberValue", "boolValue")
# A name after a dot, an index, or a name in quotes.
PATH_KEY = re.compile(
    r"""\.([^.\[]+)|\[(\d{1,9})\]|\[(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")\]"""
)
WHOLE_PATH = re.compile(rf"\$?(?:{PATH_KEY.pattern})+")
MAX_SKIPPED = 1000  # items of a list that no path names: more would be a way to fill the memory


def add_pieces(call: Block, more: Block) -> Block:
    """Return a call with what a further part says of it."""
    whole = dict(call)
    for key, value in more.items():
        if key not in PARTIAL_KEYS:
            whole[key] = deepcopy(value)  # the arguments grow, and are not ours
    pieces = get_field(more, "partialArgs")
    if pieces:
        arguments = dict(whole.get("args") or {})
        for piece in pieces:
            path = read_path(get_field(piece, "jsonPath") or "")
            put_value(arguments, path, read_value(piece))
        whole["args"] = arguments
    return whole


def read_value(piece: Block) -> Any:
    """Return the value of a piece of arguments."""
    for name in VALUE_NAMES:
        value = get_field(piece, name)
        if value is not None:
            return value
    return None


def read_path(path: str) -> list[str | int]:
    """Return the keys and indexes of a JSON path."""
    if not WHOLE_PATH.fullmatch(path):
        raise ValueError(f"{path!r} is not a place in a call's arguments")
    keys: list[str | int] = []
    for name, index, single, double in PATH_KEY.findall(path):
        if index:
            keys.append(int(index))
        else:
            keys.append(name or re.sub(r"\\(.)", r"\1", single or double))
    return keys


def put_value(inside: Any, keys: list[str | int], value: Any) -> None:
    """Put a value in its place, or add it to the text that is there. The objects and lists around
    it are made on the way."""
    *parents, last = keys
    for key, following in zip(parents, keys[1:], strict=True):
        empty: Any = [] if isinstance(following, int) else {}
        inside = get_item(inside, key, empty)
    before = get_item(inside, last, None)
    if isinstance(before, str) and isinstance(value, str):
        value = before + value
    inside[last] = value


def get_item(inside: Any, key: str | int, empty: Any) -> Any:
    """Return an item of a list or an object; `empty` is put there if there is none."""
    if isinstance(key, int):
        skipped = key - len(inside)
        if skipped > MAX_SKIPPED:
            raise LookupError(f"item {key} of a list of {len(inside)}")
        inside.extend([None] * (skipped + 1))
    elif key not in inside:
        inside[key] = None
    if inside[key] is None:
        inside[key] = empty
    return inside[key]


GEMINI = GeminiFormat()
