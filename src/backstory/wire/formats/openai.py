"""OpenAI Chat Completions: `{"messages": [...]}`, and the servers that speak this language.

One message for an answer, with all its calls; one tool message for each result. Roles are free, so
the form of a unit is its message. Many servers have words of their own (`reasoning_content`,
`prefix`): a message goes back to its server as it was.
"""

import math
import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import Any

from backstory.wire.file_sizes import Size
from backstory.wire.formats.base import (
    NEWEST_VOCABULARY,
    OLDER_VOCABULARY,
    Body,
    Format,
    ImagePrice,
    ProviderAnswer,
    ResponseFacts,
    StreamAssembler,
    StreamPiece,
    TokenRules,
    ToolDefinition,
    WrittenBody,
    build_facts,
    describe_tool,
    get_schema,
    list_unread,
    make_call,
    make_detailed_usage,
)
from backstory.wire.formats.fields import (
    expect,
    field,
    id_in,
    items,
    name_in,
    objects,
    one_of,
    text_or_none,
    wrong,
)
from backstory.wire.json_values import write_json
from backstory.wire.media import (
    IMAGES,
    PDF,
    as_words,
    data_url,
    file_name,
    from_url,
    is_base64,
    type_of_suffix,
    web_url,
)
from backstory.wire.turns import (
    BETWEEN,
    Accepted,
    AnswerTurn,
    Call,
    Form,
    Media,
    MessageTurn,
    Other,
    Part,
    Reasoning,
    Result,
    Speaker,
    Text,
    Turn,
    Unit,
    is_blank,
    make_result,
)

ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "step",
    "tool": "result",
    "function": "result",
}
# Calls and results as they were before tools: one at a time, known by their names.
LEGACY = "function"
# OpenAI's reasoning models refuse max_tokens; servers that speak its language know only that.
COUNTS_REASONING = re.compile(r"(?:.*/)?(?:o[1-9]|gpt-[5-9])")
SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
# The fields of a message and of a call that are read.
MESSAGE_KEYS = frozenset(
    {"role", "content", "tool_calls", "function_call", "refusal", "name", "tool_call_id"}
)
CALL_KEYS = frozenset({"id", "type", "index", "function", "custom"})
# Fields of an answer that a service wants back. The second has Gemini's signatures ("Thought
# signatures" in Google's guide); behind LiteLLM, the third does.
WANTED_BACK = frozenset({"audio", "extra_content", "provider_specific_fields"})
# Fields with which an answer is complete without any content.
SAYING_KEYS = frozenset({"tool_calls", "function_call", "refusal", "audio"})
FILLED = "arguments that are null or blank become {}"


def price_tiles(base: int, tile: int) -> ImagePrice:
    """Return the price of images in tiles of 512 by 512: within 2048 by 2048, the shorter side 768
    at most."""

    def price(size: Size, detail: str) -> int:
        if detail == "low":
            return base
        shrink = min(1, 2048 / max(size), 768 / min(size))
        return base + tile * math.prod(math.ceil(side * shrink / 512) for side in size)

    return price


def price_patches(factor: float) -> ImagePrice:
    """Return the price of images for smaller models: in patches of 32 by 32, 1,536 of them at
    most."""

    def price(size: Size, _detail: str) -> float:
        return factor * min(1536, math.prod(math.ceil(side / 32) for side in size))

    return price


TILED_TOKENS = TokenRules(
    "gpt-4o",
    NEWEST_VOCABULARY,
    parallel=14,
    tools=(14, 0.58),
    image=price_tiles(85, 170),
    page=20,
)
# The newer framing: one token less around the answer, a channel named on each of the model's texts,
# and reasoning of the current turn that is read again.
CHANNEL_TOKENS = TokenRules(
    "gpt-5",
    NEWEST_VOCABULARY,
    opening=2,
    answer=2,
    call=11,
    result=9,
    tools=(8, 0.74),
    image=price_tiles(70, 140),
    page=20,
    seal=(900, 7),
)


class OpenAIFormat(Format):
    """OpenAI's Chat Completions, and the servers that speak them."""

    name = "openai"
    # "string too long. Expected … maximum length 40" (vercel/ai#5171)
    call_ids = re.compile(r".{1,40}", re.DOTALL)
    alternates_roles = False
    system_on_top = False
    system_in_place = True
    has_error_flag = False
    # "Invalid value for 'content': expected a string, got null" (llama_index#17555).
    takes_empty_results = False
    has_speakers = True
    has_detail = True
    call_kinds = frozenset({"", LEGACY})
    token_rules = (
        # It comes with a system message of its own.
        (r"gpt-oss", CHANNEL_TOKENS._replace(opening=63)),
        (r"gpt-5.*nano", CHANNEL_TOKENS._replace(image=price_patches(1.5))),
        (r"gpt-5.*mini", CHANNEL_TOKENS._replace(image=price_patches(1.2))),
        (r"gpt-5", CHANNEL_TOKENS),
        (r"\bo1-mini", TILED_TOKENS),
        (r"\bo4-mini", CHANNEL_TOKENS._replace(answer=0, image=price_patches(1.72))),
        (r"\bo[134]\b", CHANNEL_TOKENS._replace(answer=0)),
        (r"gpt-4\.1-nano", TILED_TOKENS._replace(image=price_patches(2.46))),
        (r"gpt-4\.1-mini", TILED_TOKENS._replace(image=price_patches(1.62))),
        (r"gpt-4o-mini", TILED_TOKENS._replace(image=price_tiles(2833, 5667))),
        (r"gpt-4o|gpt-4\.1|gpt-4\.5", TILED_TOKENS),
        (r"gpt-4|gpt-3\.?5", TILED_TOKENS._replace(vocabulary=OLDER_VOCABULARY)),
    )
    parameters = MappingProxyType(
        {
            "max_tokens": "max_tokens",
            "temperature": "temperature",
            "top_p": "top_p",
            "stop": "stop",
            "effort": "reasoning_effort",
        }
    )
    own_parameters = frozenset(
        {
            "audio",
            "frequency_penalty",
            "logit_bias",
            "logprobs",
            "max_completion_tokens",
            "metadata",
            "modalities",
            "moderation",
            "n",
            "parallel_tool_calls",
            "prediction",
            "presence_penalty",
            "prompt_cache_key",
            "prompt_cache_options",
            "prompt_cache_retention",
            "reasoning_effort",
            "response_format",
            "safety_identifier",
            "seed",
            "service_tier",
            "store",
            "top_logprobs",
            "user",
            "verbosity",
            "web_search_options",
        }
    )

    # --- from turns to a body ---

    def write_message(self, turn: MessageTurn) -> dict[str, Any]:
        """Write a system or user message."""
        content = turn.text if turn.content is None else self.write_content(turn.content)
        if turn.speaker is None:
            return {"role": turn.role, "content": content}
        return {"role": turn.role, "name": turn.speaker, "content": content}

    def write_text(self, text: str) -> dict[str, Any]:
        """Write a part of text."""
        return {"type": "text", "text": text}

    def write_media(self, found: Media, in_result: bool) -> dict[str, Any] | str | None:
        """Write an image, a PDF or a sound; a text document as text. A tool message has only
        text."""
        text = as_words(found)
        if text is not None or in_result:
            return text
        if found.kind == "image":
            return _write_image(found)
        if found.data is None:
            return None
        if found.kind == "document" and found.type == PDF:
            file = {"filename": file_name(found), "file_data": data_url(found)}
            return {"type": "file", "file": file}
        if found.kind == "audio" and found.type in SOUNDS:
            sound = {"data": found.data, "format": SOUNDS[found.type]}
            return {"type": "input_audio", "input_audio": sound}
        return None

    def write_call(self, call: Call) -> dict[str, Any]:
        """Write a tool call. "arguments as object: 400 Input should be a valid string"
        (deer-flow#4445)."""
        arguments = write_json(call.arguments) if call.text is None else call.text
        function = {"name": call.name, "arguments": arguments}
        return {"id": call.id, "type": "function", "function": function}

    def write_answer(self, turn: AnswerTurn) -> dict[str, Any]:
        """Write the assistant's message. Without text the content is null, which is legal only
        beside calls (llama_index PR#17921); an empty list of calls is refused (openai-node
        PR#1341), so there is none."""
        content = BETWEEN.join(turn.texts) or None
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if turn.speaker is not None:
            message["name"] = turn.speaker
        if turn.calls:
            message["tool_calls"] = [self.write_call(call) for call in turn.calls]
        return message

    def write_result(self, call: Call, result: Result) -> dict[str, Any]:
        """Write a tool message. There is no flag for an error: the text has to say it."""
        if call.kind == LEGACY:
            return {"role": "function", "name": call.name, "content": result.text}
        return {"role": "tool", "tool_call_id": call.id, "content": result.text}

    def write_body(self, turns: list[Turn]) -> WrittenBody:
        """Write the messages of a request."""
        forms = self.write_forms(turns)
        messages = [written.form for written in forms]
        return WrittenBody({"messages": messages}, [written.positions for written in forms])

    # --- from a body or an answer to parts ---

    def read_body(self, body: Mapping[str, Any]) -> Iterator[Unit]:
        """Yield each message. Zhipu's servers take results that do not say which call they
        answer."""
        has_calls = False
        for path, message in items(dict(body), "messages"):
            role = _read_role(message, path)
            accepted: tuple[Accepted, ...] = ()
            has_name = "tool_call_id" in message or "name" in message
            if role == "result" and not has_name:
                if not has_calls:
                    raise wrong(f"{path}.tool_call_id", "missing, expected a string")
                accepted = (Accepted.UNNAMED,)
            if message.get("tool_calls"):
                has_calls = True
            parts = self.read_form(role, message, path)
            yield Unit(role, message, parts, path, took=accepted)

    def read_form(self, role: str, form: Form, path: str) -> list[Part]:
        """Return the parts of a message."""
        message = expect(form, dict, path)
        if _read_role(message, path) != role:
            raise wrong(f"{path}.role", f"this is not a {role} message")
        if role == "step":
            return _read_answer(message, path)
        inside = f"{path}.content"
        if "content" not in message and message["role"] != LEGACY:
            raise wrong(inside, "missing, expected a string, an array of parts or null")
        parts = read_content(message.get("content"), inside)
        if role == "result":
            result = _read_result(message, parts, path)
            return [result]
        speaker = _read_speaker(message)
        rest = _read_rest(message)
        return speaker + parts + rest

    def recognizes(self, answer: Mapping[str, Any]) -> bool:
        """Return True if an answer, or the first event of a stream, has the shape of this format."""
        return "choices" in answer

    def read_response(self, response: Mapping[str, Any]) -> ProviderAnswer:
        """Return the message of the first choice as the next request takes it, the model and the
        usage."""
        choices = field(dict(response), "choices", list, "response")
        first = expect(choices[0] if choices else {}, dict, "response.choices[0]")
        message = field(first, "message", dict, "response.choices[0]")
        model = response.get("model")
        return ProviderAnswer(
            _clean_answer(message),
            model if isinstance(model, str) else None,
            counts(response.get("usage")),
        )

    def read_facts(self, response: Mapping[str, Any]) -> ResponseFacts:
        """Return the id, the stop reason and other facts of a response."""
        choices = response.get("choices") or [{}]
        return build_facts(
            id=response.get("id"),
            stop=choices[0].get("finish_reason"),
            tier=response.get("service_tier"),
        )

    def open_stream(self) -> StreamAssembler:
        """Return an assembler for the chunks of one stream."""
        return ChatStream()

    # --- what goes back to the provider that gave it ---

    def join_forms(self, forms: list[Form]) -> Form | None:
        """Join the messages of one answer: text from one of them, calls and other fields from
        all."""
        if len(forms) == 1:
            return forms[0]
        whole: dict[str, Any] = {}
        calls: list[Any] = []
        for form in forms:
            if not _can_join(whole, form):
                return None
            content = form.get("content")
            # "empty array. Expected an array with minimum length 1": it is not the content of the
            # whole.
            if content == [] or _has_text(whole):
                content = whole.get("content")
            calls.extend(form.get("tool_calls") or ())
            whole = {**form, **whole}
            whole["content"] = content
        if calls:
            whole["tool_calls"] = calls
        return whole

    def repair_form(self, form: Form, stored: bool) -> tuple[Form, list[str]]:
        """Return a message without arguments that are null or blank."""
        message = dict(form)
        if form.get("tool_calls"):
            message["tool_calls"] = [_fill_call(call) for call in form["tool_calls"]]
        if not _is_empty_function(form.get("function_call")):
            message["function_call"] = fill_arguments(form["function_call"])
        if message == form:
            return form, []
        return message, [FILLED]

    def rename_result(self, form: Form, id: str) -> Form:
        """Return a result for the same call with another id."""
        return form | {"tool_call_id": id} if form.get("role") == "tool" else form

    # --- around the messages ---

    def write_tool(self, tool: ToolDefinition) -> dict[str, Any]:
        """Write the definition of a function."""
        function = describe_tool(tool) | {"parameters": get_schema(tool)}
        return {"type": "function", "function": function}

    def write_parameter(self, name: str, value: Any, model: str | None) -> Body:
        """Return the fields of a canonical parameter by their paths."""
        if name == "max_tokens" and COUNTS_REASONING.match(model or ""):
            return {"max_completion_tokens": value}
        if name == "stop":
            return {"stop": value}
        return super().write_parameter(name, value, model)

    def write_tool_choice(self, mode: str, name: str | None) -> Body:
        """Return the field of a tool choice."""
        if mode == "tool":
            return {"tool_choice": {"type": "function", "function": {"name": name}}}
        return {"tool_choice": mode} if mode else {}


# --- messages ---


def _read_role(message: dict[str, Any], path: str) -> str:
    return ROLES[one_of(message.get("role"), tuple(ROLES), f"{path}.role")]


def _can_join(whole: dict[str, Any], form: Form) -> bool:
    """Return True if `form` can be joined with the messages before it: only one of them has
    text."""
    if not isinstance(form, dict):
        return False
    calls = form.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        return False
    return not (_has_text(whole) and _has_text(form))


def _read_speaker(message: dict[str, Any]) -> list[Part]:
    name = message.get("name")
    if isinstance(name, str) and name:
        return [Speaker(name)]
    return []


def _read_rest(message: dict[str, Any]) -> list[Part]:
    """Return the fields that only some servers have: thinking, and others."""
    parts: list[Part] = []
    thinking = ""
    for key, value in message.items():
        if not value or key in MESSAGE_KEYS:
            continue
        if not _is_thinking(key):
            parts.append(Other(key))
        elif isinstance(value, str) and not thinking:
            thinking = value
            parts.append(Reasoning(value, what=key))
        else:  # vLLM has the same text once more under another name
            parts.append(Reasoning("", what=key))
    return parts


def _is_thinking(key: str) -> bool:
    """DeepSeek, Qwen and llama.cpp write reasoning_content, OpenRouter and gpt-oss reasoning."""
    return "reasoning" in key or "thinking" in key


def _read_result(message: dict[str, Any], parts: list[Part], path: str) -> Result:
    if message["role"] == LEGACY:
        return make_result(None, parts, None, name_in(message, "name", path), LEGACY)
    id = id_in(message, "tool_call_id", path)
    name = None
    if not id:  # Mistral's servers know a result by the name of its tool, too
        name = text_or_none(message.get("name"), f"{path}.name")
    return make_result(id, [*parts, *_read_rest(message)], None, name)


def _read_answer(message: dict[str, Any], path: str) -> list[Part]:
    parts = _read_speaker(message)
    parts += read_content(message.get("content"), f"{path}.content")
    refusal = message.get("refusal")
    if isinstance(refusal, str):
        parts.append(Text(refusal))
    parts += _read_rest(message)
    function = message.get("function_call")
    if not _is_empty_function(function):
        inside = f"{path}.function_call"
        function = expect(function, dict, inside)
        parts.append(_read_function(None, function, inside, LEGACY))
    if message.get("tool_calls") is None:
        return parts
    for where, call in items(message, "tool_calls", path):
        parts.append(_read_call(call, where))
        for key, value in call.items():
            if value and key not in CALL_KEYS:
                parts.append(Other(key))
    return parts


def _is_empty_function(function: Any) -> bool:
    """Return True for a call of no function. Servers fill in null, {} and an empty name."""
    if isinstance(function, dict):
        return not function.get("name") and not function.get("arguments")
    return not function


def _read_call(call: dict[str, Any], path: str) -> Call:
    id = id_in(call, "id", path)
    type_ = text_or_none(call.get("type"), f"{path}.type")
    if type_ != "custom":
        function = field(call, "function", dict, path)
        return _read_function(id, function, f"{path}.function", "")
    inside = f"{path}.custom"
    custom = field(call, "custom", dict, path)
    name = name_in(custom, "name", inside)
    text = field(custom, "input", str, inside)
    return Call(id, name, {"input": text})


def _read_function(id: str | None, function: dict[str, Any], path: str, kind: str) -> Call:
    name = name_in(function, "name", path)
    arguments = function.get("arguments")
    if isinstance(arguments, dict):  # compatible servers send and take objects, too
        return Call(id, name, arguments, kind=kind)
    text = text_or_none(arguments, f"{path}.arguments")
    return make_call(id, name, text or "", kind)


# --- content ---

# Parts that only other formats have: here they are a mistake, and refused.
FOREIGN = frozenset(
    {"input_text", "output_text", "input_image", "input_file", "tool_use", "tool_result"}
)
NAMES = ("file_name", "document_name")  # Perplexity's word for a file's name, and Mistral's
LINKS = {
    "image_url": "image",
    "video_url": "video",
    "file_url": "document",
    "document_url": "document",
}


def read_content(content: Any, path: str) -> list[Part]:
    """Return the parts of a content, which is a text or a list of parts."""
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(content)]
    if isinstance(content, dict):  # Cloudflare parses an answer for which there is a schema
        return [Text(write_json(content))]
    parts: list[Part] = []
    for where, part in objects(content, path):
        parts.extend(_read_part(part, where))
    return parts


def _read_part(part: dict[str, Any], path: str) -> list[Part]:
    type_ = field(part, "type", str, path)
    found: Part
    known = {type_}
    if type_ in ("text", "refusal"):
        found = Text(field(part, type_, str, path))
        known = {"text", "refusal"}
    elif type_ in LINKS:
        found = _read_link(type_, part)
        known.update(NAMES)
    elif type_ == "file":
        found = _read_file(part.get("file"))
    elif type_ == "input_audio":
        found = read_sound(part.get("input_audio"))
    elif type_ == "thinking":
        return [_read_thinking(part)]
    else:
        return [Other(type_, complete=type_ not in FOREIGN)]
    others = list_unread(part, frozenset(known))
    return [found, *others]


def _read_thinking(part: dict[str, Any]) -> Reasoning:
    """Read a thinking part of Mistral's models, which has parts of its own."""
    thinking = part.get("thinking")
    if not isinstance(thinking, list):
        thinking = [{"text": thinking}]
    text = ""
    for piece in thinking:
        words = piece.get("text") if isinstance(piece, dict) else None
        if isinstance(words, str):
            text += words
    seal = part.get("signature")
    if not isinstance(seal, str):
        seal = ""
    return Reasoning(text, seal, what="thinking")


def _read_link(type_: str, part: dict[str, Any]) -> Part:
    """Read a link to media: an object with its URL or, with Mistral, the URL alone."""
    kind = LINKS[type_]
    url = part.get(type_)
    detail = None
    if isinstance(url, dict):
        detail = detail_of(url)
        url = url.get("url")
    if not isinstance(url, str):
        return Other(type_, complete=False, media=kind)
    name = _find_file_name(part)
    found = from_url(url, kind, detail=detail, name=name)
    if found.url is None or not is_base64(url):
        return found
    # Perplexity takes a file's bare base64 for its URL, and Zhipu an image's.
    return found._replace(type=_type_of_name(name), data=url, url=None)


def _find_file_name(part: dict[str, Any]) -> str | None:
    for key in NAMES:
        name = part.get(key)
        if isinstance(name, str):
            return name
    return None


def _type_of_name(name: str | None) -> str | None:
    return type_of_suffix((name or "").rpartition(".")[2])


def detail_of(image: dict[str, Any]) -> str | None:
    """Return how closely to look at an image, or None if that is not given."""
    detail = image.get("detail")
    return detail if isinstance(detail, str) and detail != "auto" else None


def _read_file(file: Any) -> Part:
    if not isinstance(file, dict):
        return Other("file", complete=False, media="document")
    if isinstance(file.get("file_data"), str):
        name = file.get("filename")
        return read_file_data(file["file_data"], name if isinstance(name, str) else None)
    if isinstance(file.get("file_id"), str):
        return Other("a file in the service's store", media="document")
    return Other("file", media="document")


def read_file_data(data: str, name: str | None, detail: str | None = None) -> Media:
    """Read a file: a data URL, or bare base64, whose type is known from its name."""
    found = from_url(data, "document", name=name, detail=detail)
    if found.data is not None:
        return found
    found = found._replace(type=_type_of_name(name) or PDF)
    if web_url(found):  # OpenRouter takes an address here ("PDF inputs" in its guide)
        return found
    return found._replace(data=data, url=None)


def read_sound(sound: Any) -> Part:
    """Read a sound: its data or its address."""
    if isinstance(
        sound, str
    ):  # Mistral takes the data alone, or its address, and finds out its type
        return _read_sound_data(sound)
    match sound:
        case {"data": str(data), "format": str(format)}:
            type_ = type_of_suffix(format) or f"audio/{format}"
            return _read_sound_data(data)._replace(type=type_)
    return Other("input_audio", complete=False, media="audio")


def _read_sound_data(data: str) -> Media:
    """Read the data of a sound. Alibaba's servers take a URL here, too ("Qwen-Omni" in its
    guide)."""
    found = from_url(data, "audio")
    if found.data or web_url(found):
        return found
    return found._replace(data=data, url=None)


def _write_image(found: Media) -> dict[str, Any] | None:
    url = image_url(found)
    if url is None:
        return None
    image = {"url": url}
    if found.detail:
        image["detail"] = found.detail
    return {"type": "image_url", "image_url": image}


def image_url(found: Media) -> str | None:
    """Return the address of an image, or its data as a URL; None if OpenAI cannot read it."""
    if web_url(found):
        return found.url
    return data_url(found) if found.data and found.type in IMAGES else None


# --- answers ---


def _clean_answer(message: dict[str, Any]) -> dict[str, Any]:
    """Return the message of an answer as the next request takes it."""
    form: dict[str, Any] = {}
    for key, value in message.items():
        if _is_wanted_back(key, value) and not _is_empty(key, value):
            form[key] = value
    audio = form.get("audio")
    if audio is not None:
        form["audio"] = {"id": audio["id"]}  # the data is in the service's store
    content = form.get("content")
    if isinstance(content, dict):
        form["content"] = write_json(content)
    calls = form.get("tool_calls")
    if isinstance(calls, list):
        form["tool_calls"] = [_add_arguments(call) for call in calls]
    # An answer that was cut off while it thought: "content or tool_calls must be set" (DeepSeek).
    is_cut = form.keys().isdisjoint(SAYING_KEYS)
    return {"role": "assistant", "content": "" if is_cut else None} | form


def _is_wanted_back(key: str, value: Any) -> bool:
    """Return True for a field that the next request needs. Servers refuse others of their own
    fields."""
    if key != "annotations":
        return key in MESSAGE_KEYS or key in WANTED_BACK or _is_thinking(key)
    # OpenRouter has read a file, and reads it anew without its annotations ("PDF Inputs").
    for note in value if isinstance(value, list) else ():
        if isinstance(note, dict) and note.get("type") == "file":
            return True
    return False


def _is_empty(key: str, value: Any) -> bool:
    """Return True for a field without a value. Servers fill in such fields, and refuse them in
    requests."""
    if key == "content":
        return value is None
    if key == "function_call":
        return not isinstance(value, dict) or not value.get("name")
    if key == "audio":
        return not isinstance(value, dict) or not value.get("id")
    return value in (None, "", [], {})


def _add_arguments(call: Any) -> Any:
    """Add arguments to a call without any. Some servers leave them out of their answers, or empty,
    and refuse them so: "Failed to parse tool call arguments as JSON"."""
    match call:
        case {"function": {"name": str()} as function} if function.get("arguments") in (None, ""):
            return call | {"function": function | {"arguments": "{}"}}
    return call


def _fill_call(call: dict[str, Any]) -> dict[str, Any]:
    return call | {"function": fill_arguments(call["function"])} if "function" in call else call


def fill_arguments(function: Any) -> Any:
    """Return a call with "{}" for arguments that are null, "Input should be a valid string", or
    blank, "Failed to parse tool call arguments as JSON". Arguments that a server left out stay
    so."""
    if not isinstance(function, dict) or "arguments" not in function:
        return function
    arguments = function["arguments"]
    if arguments is None:
        arguments = ""
    if not isinstance(arguments, str) or not is_blank(arguments):
        return function
    return function | {"arguments": "{}"}


def _has_text(message: dict[str, Any]) -> bool:
    content = message.get("content")
    return not is_blank(content) if isinstance(content, str) else bool(content)


def counts(usage: Any) -> dict[str, int] | None:
    """Return the tokens of a usage as they are kept."""
    return make_detailed_usage(usage, "prompt_tokens", "completion_tokens")


# --- streams ---

# Fields of a delta that are not simply continued.
CONTINUED = frozenset({"role", "content", "tool_calls"})
# Fields of a chunk that belong to the whole answer.
ABOUT = ("id", "model", "usage", "service_tier", "error")
# Fields of a part of a call that `ChatStream` reads.
CALL_PARTS = frozenset({"index", "id", "type", "function"})
# Fields that name a numbered part of a list: they are repeated, not continued.
LABELS = frozenset({"type", "id", "index", "format", "name"})


class ChatStream(StreamAssembler):
    """Assembles the chunks of one answer of Chat Completions."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {"role": "assistant"}
        self._calls: list[dict[str, Any]] = []
        self._numbered: dict[int, dict[str, Any]] = {}  # the newest call of each number
        self._about: dict[str, Any] = {}
        self._stop: str | None = None

    def add(self, event: Mapping[str, Any]) -> list[StreamPiece]:
        """Take one chunk. Return its pieces of text and thinking."""
        groq = event.get("x_groq") or {}  # Groq has usage and errors here
        for key in ABOUT:
            value = event.get(key) or groq.get(key)
            if value:
                self._about[key] = value
        pieces: list[StreamPiece] = []
        for choice in (event.get("choices") or ())[:1]:
            self._stop = choice.get("finish_reason") or self._stop
            delta = choice.get("delta") or {}
            self._add_delta(delta)
            pieces.extend(_read_pieces(delta))
        return pieces

    def _add_delta(self, delta: Mapping[str, Any]) -> None:
        for part in delta.get("tool_calls") or ():
            self._add_call(part)
        if delta.get("content") is not None:
            self._message["content"] = _join_contents(
                self._message.get("content"), delta["content"]
            )
        rest = {key: value for key, value in delta.items() if key not in CONTINUED}
        _grow(self._message, rest)

    def _add_call(self, part: Mapping[str, Any]) -> None:
        """Add a part of a call."""
        call = self._find_call(part)
        function = part.get("function") or {}
        whole = call["function"]
        if not call["id"]:
            call["id"] = part.get("id") or ""
        if not whole["name"]:
            whole["name"] = function.get("name") or ""
        whole["arguments"] += function.get("arguments") or ""
        for key, value in part.items():
            if key not in CALL_PARTS and value is not None:
                call[key] = value

    def _find_call(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """Return the call that a part belongs to. Most servers number the calls; some send each
        call complete, without a number, or all with the same one."""
        index = part.get("index")
        if index is not None:
            call = self._numbered.get(index)
            is_new = call is None or _is_other_call(call, part)
        else:
            call = self._calls[-1] if self._calls else None
            is_new = bool(part.get("id"))
        if call is None or is_new:
            function = {"name": "", "arguments": ""}
            call = {"id": "", "type": "function", "function": function}
            self._calls.append(call)
        if index is not None:
            self._numbered[index] = call
        return call

    def finish(self) -> dict[str, Any]:
        """Return the whole answer."""
        if self._calls:
            self._message["tool_calls"] = self._calls
        choice: dict[str, Any] = {"message": self._message}
        if self._stop is not None:
            choice["finish_reason"] = self._stop
        return {**self._about, "choices": [choice]}


def _is_other_call(call: Mapping[str, Any], part: Mapping[str, Any]) -> bool:
    """Return True if a part with the number of a call begins another one. A new id without a name does not:
    some servers make an id for each chunk."""
    id, function = part.get("id"), part.get("function") or {}
    return bool(id and function.get("name")) and call["id"] not in ("", id)


def _read_pieces(delta: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the text and the thinking of a delta, to show them as they arrive."""
    content = delta.get("content") or delta.get("refusal")
    pieces = _read_content_pieces("text", content)
    thinking = delta.get("reasoning_content") or delta.get("reasoning")
    if isinstance(thinking, str) and thinking:
        pieces.append(("thinking", thinking))
    return pieces


def _read_content_pieces(kind: str, content: Any) -> list[StreamPiece]:
    if isinstance(content, str) and content:
        return [(kind, content)]
    pieces: list[StreamPiece] = []
    for part in content if isinstance(content, list) else ():
        match part:
            case {"type": "text", "text": str() as text}:
                pieces.extend(_read_content_pieces(kind, text))
            case {"type": "thinking", "thinking": thinking}:
                pieces.extend(_read_content_pieces("thinking", thinking))
    return pieces


def _join_contents(content: Any, more: Any) -> Any:
    """Return a content and more of it. Mistral's models stream text, and parts where they think;
    each continues where the last one ended."""
    if isinstance(content, str | None) and isinstance(more, str):
        return (content or "") + more
    if isinstance(more, Mapping) and not content:  # an answer that the server has parsed
        return more
    parts = _list_parts(content)
    for part in _list_parts(more):
        if parts and _is_continued(parts[-1], part):
            parts[-1] = _join_parts(parts[-1], part)
        else:
            parts.append(part)
    return parts


def _list_parts(content: Any) -> list[Any]:
    if isinstance(content, str | None):
        return [{"type": "text", "text": content}] if content else []
    if not isinstance(content, list | tuple):
        raise TypeError(f"a content is text or a list of parts, not {type(content).__name__}")
    return list(content)


def _is_continued(last: Any, part: Any) -> bool:
    """Return True if `part` continues `last`: it is of the same kind, and not under another
    seal."""
    if not isinstance(last, Mapping) or not isinstance(part, Mapping):
        return False
    type_ = part.get("type")
    if type_ not in ("text", "thinking") or last.get("type") != type_:
        return False
    seal = part.get("signature")
    before = last.get("signature")
    return not seal or not before or seal == before


def _join_parts(last: Mapping[str, Any], part: Mapping[str, Any]) -> dict[str, Any]:
    """Join two pieces of a part. Other fields may come with either: a seal comes with the last."""
    whole = dict(last)
    for name, value in part.items():
        if value is not None:
            whole[name] = value
    key = part["type"]
    whole[key] = _join_contents(last.get(key), part.get(key) or "")
    return whole


def _grow(whole: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Add a delta: texts and lists are continued, numbered parts of a list one by one; the rest is
    replaced."""
    for key, value in delta.items():
        if value is not None:
            _grow_field(whole, key, value)


def _grow_field(whole: dict[str, Any], key: str, value: Any) -> None:
    before = whole.get(key)
    if isinstance(before, str) and isinstance(value, str):
        whole[key] = before + value
    elif isinstance(before, list) and isinstance(value, list):
        _grow_list(before, value)
    elif isinstance(before, dict) and isinstance(value, Mapping):
        _grow(before, value)
    else:
        whole[key] = deepcopy(value)  # it grows, and is not ours


def _grow_list(whole: list[Any], more: list[Any]) -> None:
    for item in more:
        last: Any = whole[-1] if whole else None
        if not _is_same_number(last, item):
            whole.append(deepcopy(item))
            continue
        _grow(last, {key: value for key, value in item.items() if key not in LABELS})
        for key in LABELS:
            if item.get(key) is not None:
                last[key] = item[key]


def _is_same_number(last: Any, item: Any) -> bool:
    if not isinstance(last, dict) or not isinstance(item, Mapping):
        return False
    if "index" not in item or last.get("index") != item["index"]:
        return False
    return last.get("type") == item.get("type")


OPENAI = OpenAIFormat()
