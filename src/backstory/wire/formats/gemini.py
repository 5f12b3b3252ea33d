"""Gemini generateContent, as REST spells it: `{"systemInstruction"?, "contents": [...]}`.

Calls need no ids: a result is known by its name and its place. The first call of each step
carries a thought signature, and where none is known the one that tells the service not to look.
Google reads every field in two spellings, `functionCall` and `function_call`, and so does this.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from backstory.wire.formats.base import (
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
    get_schema,
    merged,
    usage_of,
)
from backstory.wire.formats.blocks import unread, unread_keys
from backstory.wire.formats.fields import (
    check_keys,
    expect,
    items,
    name_in,
    objects,
    one_of,
    optional,
    wrong,
)
from backstory.wire.json_values import write_json
from backstory.wire.media import (
    PDF,
    is_base64,
    is_sound,
    is_text_type,
    media,
    standard,
    type_of,
    web_url,
)
from backstory.wire.partial_calls import whole_calls
from backstory.wire.service_tools import ran
from backstory.wire.turns import Call, Media, Other, Part, Result, Text, Unit, make_result

NO_SIGNATURE = "skip_thought_signature_validator"
# What was uploaded to Gemini's own file store: the address means nothing to other services.
OWN_FILE = re.compile(r"https://generativelanguage\.googleapis\.com/(.*/)?files/|gs://")
IMAGES = frozenset({"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"})


def _together(form: Form) -> list[Any]:
    """Parts as they stand among others."""
    return form if isinstance(form, list) else [form]


def _as_list(form: Form) -> Form:
    """Parts as a list. Google takes a single part without its brackets, and then it goes back as it was."""
    return [form] if isinstance(form, dict) else form


# --- reading ---


def spelled(value: Mapping[str, Any], name: str) -> Any:
    """A field in either of its two spellings."""
    found = value.get(name)
    return found if found is not None else value.get(_SNAKE[name])


_SNAKE = {
    name: re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)
    for name in (
        *("systemInstruction", "functionCall", "functionResponse", "thoughtSignature"),
        *(
            "inlineData",
            "fileData",
            "mimeType",
            "fileUri",
            "displayName",
            "modelVersion",
            "usageMetadata",
        ),
        *("responseId", "promptFeedback", "blockReason", "finishReason", "trafficType"),
        *(
            "promptTokenCount",
            "candidatesTokenCount",
            "thoughtsTokenCount",
            "cachedContentTokenCount",
        ),
    )
}


def _read_part(part: dict[str, Any], path: str) -> list[Part]:
    found = _read_data(part, path)
    if len(part) == 1:
        return found
    read = {other.what for other in found if isinstance(other, Other)}
    beside = [
        Other(key) for key, value in part.items() if value and key not in DATA and key not in read
    ]
    # A part has just one: "required oneof field 'data' must have one initialized field" (gemini-cli#5575).
    given = [key for key in ONE_OF if part.get(key) is not None]
    beside += [Other(key, complete=False) for key in given[1:] if part[key]]
    match found:
        case [Result(content=tuple(parts)) as result, *sealed]:
            return [result._replace(content=(*parts, *sealed, *beside))]
    return [*found, *beside]


def _read_data(part: dict[str, Any], path: str) -> list[Part]:
    call = spelled(part, "functionCall")
    answer = spelled(part, "functionResponse")
    sealed = _seal(spelled(part, "thoughtSignature"))
    if call is not None:
        return [
            _read_call(expect(call, dict, f"{path}.functionCall"), f"{path}.functionCall"),
            *sealed,
        ]
    if answer is not None:
        return [_read_response(expect(answer, dict, f"{path}.functionResponse"), path), *sealed]
    if part.get("thought"):
        return [Other("thought", complete=_is_thought(part, is_sealed=bool(sealed))), *sealed]
    if part.get("text") is not None:
        return [Text(expect(part["text"], str, f"{path}.text")), *sealed]
    if spelled(part, "inlineData") is not None or spelled(part, "fileData") is not None:
        return [_read_media(part), *sealed]
    what = next((key for key, value in part.items() if value is not None), None)
    if what is None:
        raise wrong(path, "a part without data")
    if what in RUN:
        return [ran(what, RUN[what], part[what]), *sealed]
    return [Other(what, complete=what not in FOREIGN), *sealed]


def _is_thought(part: dict[str, Any], *, is_sealed: bool) -> bool:
    """Whether a thought has what was thought: text, what a tool did, or, of models that paint, an image. A
    seal may stand alone, but makes nothing whole that is broken."""
    if part.get("text") is not None:
        return isinstance(part["text"], str)
    if spelled(part, "inlineData") is not None or spelled(part, "fileData") is not None:
        found = _read_media(part)
        return (
            is_sound(found)
            if isinstance(found, Media)
            else isinstance(found, Other) and found.complete
        )
    runs = [part[key] for key in RUN if part.get(key) is not None]
    return all(isinstance(run, dict) for run in runs) if runs else is_sealed


def _seal(signature: Any) -> list[Part]:
    """A part's signature: "Invalid value at 'thought_signature' (TYPE_BYTES), Base64 decoding failed"."""
    if signature in (None, ""):
        return []
    return [Other("thoughtSignature", complete=isinstance(signature, str) and is_base64(signature))]


CONTENT = frozenset({"role", "parts"})
CALL = frozenset({"id", "name", "args"})
RESPONSE = frozenset({"id", "name", "response", "parts"})
# What the service's own tools did.
RUN = {
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
ONE_OF = (
    *(each for name in ("functionCall", "functionResponse") for each in (name, _SNAKE[name])),
    "text",
    *(each for name in ("inlineData", "fileData") for each in (name, _SNAKE[name])),
    *RUN,
)
# What is read of a part, in both spellings. What else stands beside it only the service understands.
DATA = frozenset({*ONE_OF, "thought", "thoughtSignature", _SNAKE["thoughtSignature"]})
# Keys of other formats' blocks: here they are a mistake, and refused.
FOREIGN = frozenset({"type", "toolUse", "toolResult", "reasoningContent", "image", "document"})


def _read_call(call: dict[str, Any], path: str) -> Call:
    arguments = optional(call, "args", dict, path)
    return Call(
        _id(call, path), name_in(call, "name", path), arguments, extras=unread_keys(call, CALL)
    )


def _id(value: dict[str, Any], path: str) -> str | None:
    return expect(value["id"], str, f"{path}.id") or None if value.get("id") is not None else None


def _read_response(answer: dict[str, Any], path: str) -> Result:
    inside = f"{path}.functionResponse"
    id, name = _id(answer, inside), name_in(answer, "name", inside)
    shown = objects(optional(answer, "parts", list, inside), f"{inside}.parts")
    more: list[Part] = [_read_media(part) for _, part in shown]
    more.extend(unread(answer, RESPONSE))
    match optional(answer, "response", dict, inside):
        case {"error": str(text), **rest} if not rest:
            return make_result(id, [Text(text), *more], True, name)
        case {"output": str(text), **rest} | {"result": str(text), **rest} if not rest:
            return make_result(id, [Text(text), *more], False, name)
        case response if not response:
            return make_result(id, more, False, name)
        case response:
            return make_result(id, [Text(_as_text(response, inside)), *more], False, name)


def _as_text(response: dict[str, Any], path: str) -> str:
    try:
        return write_json(response)
    except (TypeError, ValueError) as error:
        raise wrong(f"{path}.response", f"this is not JSON: {error}") from error


def _read_media(part: dict[str, Any]) -> Part:
    blob, file = spelled(part, "inlineData"), spelled(part, "fileData")
    if isinstance(blob, dict):
        type_, data = spelled(blob, "mimeType"), blob.get("data")
        if isinstance(type_, str) and type_.strip() and isinstance(data, str):
            return media(type_, data=data, name=_name(blob))
    elif isinstance(file, dict):
        type_, url = spelled(file, "mimeType"), spelled(file, "fileUri")
        if isinstance(url, str) and isinstance(type_, str | None):
            known = type_of(media(type_, url=url))
            if OWN_FILE.match(url):
                return Other("a file in Gemini's store", media=media(known).kind)
            return (
                media(known, url=url, name=_name(file))
                if known
                else Other("fileData", media="document")
            )
    elif blob is None and file is None:
        return Other(next(iter(part), "part"))
    return Other("inlineData" if blob is not None else "fileData", complete=False, media="document")


def _name(file: dict[str, Any]) -> str | None:
    name = spelled(file, "displayName")
    return name if isinstance(name, str) and name else None


def _counts(usage: Any) -> dict[str, int] | None:
    if not isinstance(usage, dict):
        return None
    wrote = (spelled(usage, name) for name in ("candidatesTokenCount", "thoughtsTokenCount"))
    return usage_of(
        spelled(usage, "promptTokenCount"),
        sum(count for count in wrote if type(count) is int),
        spelled(usage, "cachedContentTokenCount"),
    )


class GeminiFormat(Format):
    """Gemini's generateContent."""

    name = "gemini"
    call_ids = None
    tool_names = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}")
    media_after_results = True
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

    def can_name_file(self, found: Media) -> bool:
        """Return False: a part has no name."""
        return False

    def write_message(self, role: str, content: Any, name: str | None) -> list[dict[str, Any]]:
        """The parts of a system or user message."""
        return [{"text": content}] if isinstance(content, str) else content

    def write_text(self, text: str) -> dict[str, Any]:
        """A part of words."""
        return {"text": text}

    def write_media(self, found: Media, in_result: bool) -> dict[str, Any] | None:
        """Images, PDFs, text, sounds and films, by their data or a URL."""
        type_ = type_of(found)
        url = web_url(found)
        if url is not None:
            return {"fileData": {"fileUri": url} | ({"mimeType": type_} if type_ else {})}
        taken = found.type in IMAGES if found.kind == "image" else found.kind != "document"
        taken = taken or found.type == PDF or is_text_type(found.type)
        if not taken or found.type is None or (found.data is None and found.text is None):
            return None
        return {"inlineData": {"mimeType": found.type, "data": standard(found)}}

    def write_call(
        self, id: str, name: str, arguments: dict[str, Any], text: str | None
    ) -> dict[str, Any]:
        """A functionCall part."""
        return {"functionCall": {"name": name, "args": arguments}}

    def write_answer(
        self, texts: Sequence[str], calls: list[Any], name: str | None
    ) -> list[dict[str, Any]]:
        """Texts, then calls, the first of them signed: "Function call is missing a thought_signature"
        (dify#29187), and this one is for histories of other models (strands PR#1298)."""
        parts = [{"text": text} for text in texts]
        if calls:
            parts.append(calls[0] | {"thoughtSignature": NO_SIGNATURE})
            parts.extend(calls[1:])
        return parts

    def write_result(
        self, id: str, name: str, content: Any, error: bool, kind: str
    ) -> list[dict[str, Any]]:
        """A response. `output` and `error` are the keys that the service knows."""
        named = {"id": id} if id else {}  # a call that went out with an id wants it back
        return [
            {
                "functionResponse": named
                | {"name": name, "response": {"error" if error else "output": content}}
            }
        ]

    def write_body(
        self, system: list[Form], roles: list[str], forms: list[Form], names: Iterable[str]
    ) -> dict[str, Any]:
        """The request's system instruction and contents."""
        contents = [
            {"role": role, "parts": parts} for role, parts in merged(roles, forms, _together)
        ]
        if not system:
            return {"contents": contents}
        parts = (
            system[0] if len(system) == 1 else [part for form in system for part in _together(form)]
        )
        return {"systemInstruction": {"parts": parts}, "contents": contents}

    def read_body(self, body: Mapping[str, Any]) -> Iterator[Unit]:
        """System parts one by one, then the contents, each user content as its responses and the rest."""
        system = spelled(body, "systemInstruction")
        if system is not None:
            instruction = expect(system, dict, "systemInstruction")
            if isinstance(instruction.get("parts"), dict):
                path = "systemInstruction.parts"
                yield Unit(
                    "system", instruction["parts"], _read_part(instruction["parts"], path), path
                )
            else:
                for path, part in items(instruction, "parts", "systemInstruction"):
                    yield Unit("system", [part], _read_part(part, path), path)
        for path, content in items(
            {"contents": _as_list(body["contents"])} if "contents" in body else {}, "contents"
        ):
            role = one_of(
                content.get("role") or "user", ("user", "model", "function"), f"{path}.role"
            )
            check_keys(content, CONTENT, path)  # "Invalid JSON payload received. Unknown name"
            if "parts" not in content:
                raise wrong(f"{path}.parts", "missing, expected an array")
            inside = f"{path}.parts"
            parts = (
                content["parts"]
                if isinstance(content["parts"], dict)
                else expect(content["parts"], list, inside)
            )
            if role == "model":
                yield Unit("step", parts, self.read_form("step", parts, inside), inside)
            else:
                yield from self._user_units(parts, inside)

    def _user_units(self, parts: Form, path: str) -> Iterator[Unit]:
        if isinstance(parts, dict):
            alone = _read_part(parts, path)
            yield Unit("result" if isinstance(alone[0], Result) else "user", parts, alone, path)
            return
        rest = []
        for where, part in objects(parts, path):
            if spelled(part, "functionResponse") is not None:
                yield Unit("result", [part], _read_part(part, where), where)
            else:
                rest.append(part)
        if rest or not parts:
            yield Unit("user", rest, self.read_form("user", rest, path), path)

    def read_form(self, role: str, form: Form, path: str) -> list[Part]:
        """The parts of a content's parts."""
        return [
            found
            for where, part in objects(_as_list(form), path)
            for found in _read_part(part, where)
        ]

    def rename_result(self, form: Form, id: str) -> Form:
        """A response to the same call under another id."""
        [part] = _as_list(form)
        key = (
            "functionResponse" if part.get("functionResponse") is not None else "function_response"
        )
        return [part | {key: part[key] | {"id": id}}]

    def read_response(self, response: Mapping[str, Any]) -> ProviderAnswer:
        """The first candidate's parts, and the model and usage."""
        candidates = response.get("candidates") or [{}]
        first = expect(
            expect(candidates, list, "response.candidates")[0], dict, "response.candidates[0]"
        )
        content = optional(first, "content", dict, "response.candidates[0]")
        parts = expect(
            _as_list(content.get("parts") or []), list, "response.candidates[0].content.parts"
        )
        model = spelled(response, "modelVersion")
        found = [
            part for part in parts if part
        ]  # a stream may end with a part that has nothing in it
        return ProviderAnswer(
            found,
            model if isinstance(model, str) else None,
            _counts(spelled(response, "usageMetadata")),
        )

    def read_facts(self, response: Mapping[str, Any]) -> ResponseFacts:
        """Return the id, the stop reason and other facts of a response. A prompt that is blocked has no
        candidates."""
        candidates = response.get("candidates") or [{}]
        feedback = spelled(response, "promptFeedback")
        blocked = spelled(feedback, "blockReason") if isinstance(feedback, Mapping) else None
        usage = spelled(response, "usageMetadata")
        return build_facts(
            id=spelled(response, "responseId"),
            stop=blocked or spelled(candidates[0], "finishReason"),
            tier=spelled(usage, "trafficType") if isinstance(usage, Mapping) else None,
        )

    def open_stream(self) -> StreamAssembler:
        """Return an assembler for the events of one stream."""
        return GeminiStream()

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

    def write_tool_choice(self, mode: str, name: str | None) -> Body:
        """Return the field of a tool choice. ANY with a list of names forces one function."""
        choices: dict[str, Body] = {
            "auto": {"mode": "AUTO"},
            "none": {"mode": "NONE"},
            "required": {"mode": "ANY"},
            "tool": {"mode": "ANY", "allowedFunctionNames": [name]},
        }
        return {"toolConfig.functionCallingConfig": choices[mode]} if mode in choices else {}


# --- streams ---


class GeminiStream(StreamAssembler):
    """Assembles the chunks of generateContent: the parts of all chunks, one after another."""

    def __init__(self) -> None:
        self._parts: list[Any] = []
        self._about: Body = {}
        self._reason: str | None = None

    def add(self, event: Mapping[str, Any]) -> list[StreamPiece]:
        """Take one chunk. Return the text and the thinking in it."""
        for key, value in event.items():
            if key != "candidates":
                self._about[key] = value
        pieces: list[StreamPiece] = []
        for candidate in (event.get("candidates") or ())[:1]:
            parts = (candidate.get("content") or {}).get("parts") or ()
            self._parts.extend(parts)
            reason = candidate.get("finishReason") or candidate.get("finish_reason")
            self._reason = reason or self._reason
            for part in parts:
                if part.get("text"):
                    pieces.append(("thinking" if part.get("thought") else "text", part["text"]))
        return pieces

    def finish(self) -> Body:
        """Return the answer, as far as it arrived."""
        parts = whole_calls(self._parts, is_over=self._reason == "STOP")
        candidate: Body = {"content": {"role": "model", "parts": parts}}
        if self._reason is not None:
            candidate["finishReason"] = self._reason
        return {**self._about, "candidates": [candidate]}


GEMINI = GeminiFormat()
