"""OpenAI Chat Completions: `{"messages": [...]}`, and the servers that speak this language.

One message for an answer, with all its calls; one tool message for each result. Roles are free, so
the form of a unit is its message. Many servers have words of their own (`reasoning_content`,
`prefix`): a message goes back to its server as it was.
"""

import math
import re
from collections.abc import Mapping
from copy import deepcopy
from types import MappingProxyType
from typing import Any

from backstory.wire.fields import (
    WrongField,
    expect,
    field,
    name_in,
    one_in,
    read_as_json,
    read_at,
    read_each,
    read_items,
    string_in,
    text_or_none,
)
from backstory.wire.file_sizes import Size
from backstory.wire.formats.base import (
    CUT_ARGUMENTS,
    NEWEST_VOCABULARY,
    OLDER_VOCABULARY,
    Body,
    Format,
    ImagePrice,
    StreamAssembler,
    StreamPiece,
    TokenRules,
    ToolDefinition,
    WrittenBody,
    cut_arguments,
    describe_tool,
    get_schema,
    list_unread,
    make_call,
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
    write_standard_base64,
)
from backstory.wire.turns import (
    BETWEEN,
    Accepted,
    AnswerTurn,
    BodyUnit,
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
    find_calls,
    is_blank,
    make_result,
)

ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "answer",
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
# The reasons for which an answer is cut off; None: its stream ended without a reason.
CUT_REASONS = (None, "length")
FILLED = "arguments that are null or blank become {}"


def count_squares(width: float, height: float, side: int) -> int:
    """Return the number of squares that cover an image."""
    columns = math.ceil(width / side)
    rows = math.ceil(height / side)
    return columns * rows


def price_tiles(base: int, tile: int) -> ImagePrice:
    """Return the price of images in tiles of 512 by 512: within 2048 by 2048, the shorter side 768
    at most."""

    def price(size: Size, detail: str) -> int:
        if detail == "low":
            return base
        shrink = min(1, 2048 / max(size), 768 / min(size))
        return base + tile * count_squares(size.width * shrink, size.height * shrink, 512)

    return price


def price_patches(factor: float) -> ImagePrice:
    """Return the price of images for smaller models: in patches of 32 by 32, 1,536 of them at
    most."""

    def price(size: Size, _detail: str) -> float:
        return factor * min(1536, count_squares(size.width, size.height, 32))

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
    tool_choices = MappingProxyType({"auto": "auto", "none": "none", "required": "required"})
    conversation_fields = frozenset({"messages"})
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

    fact_paths = MappingProxyType(
        {"id": ("id",), "stop": ("choices.0.finish_reason",), "tier": ("service_tier",)}
    )
    usage_paths = MappingProxyType(
        {
            "input": ("prompt_tokens",),
            "output": ("completion_tokens",),
            "cached": ("prompt_tokens_details.cached_tokens",),
        }
    )

    # --- writing ---

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
            return write_image(found)
        if found.data is None:
            return None
        if found.kind == "document" and found.type == PDF:
            file = {"filename": file_name(found), "file_data": data_url(found)}
            return {"type": "file", "file": file}
        if found.kind == "audio" and found.type in SOUNDS:
            sound = {"data": write_standard_base64(found), "format": SOUNDS[found.type]}
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
        messages: list[Form] = []
        sources: list[Turn | Result] = []
        for _, form, source in self.write_forms(turns):
            messages.append(form)
            sources.append(source)
        return WrittenBody({"messages": messages}, sources, range(len(messages)))

    # --- reading ---

    def read_body(self, body: Mapping[str, Any]) -> list[BodyUnit]:
        """Return each message. Zhipu's servers take results that do not say which call they
        answer, once there are calls."""
        units = read_items(body, "messages", self._read_message)
        has_calls = False
        for index, unit in enumerate(units):
            message = unit.form
            if message.get("tool_calls"):
                has_calls = True
            if unit.role != "result" or "tool_call_id" in message or "name" in message:
                continue
            if not has_calls:
                path = f".messages[{index}].tool_call_id"
                raise WrongField("missing, expected a string", path)
            units[index] = unit._replace(accepted=(Accepted.UNNAMED,))
        return units

    def _read_message(self, message: dict[str, Any]) -> list[BodyUnit]:
        role = read_role(message)
        return [BodyUnit(role, message, self.read_form(role, message))]

    def read_form(self, role: str, form: Form) -> list[Part]:
        """Return the parts of a message."""
        message = expect(form, dict)
        if read_role(message) != role:
            raise WrongField(f"expected a message of the role {role}", ".role")
        if role == "answer":
            return read_answer(message)
        if "content" not in message and message["role"] != LEGACY:
            raise WrongField("missing, expected a string, an array of parts or null", ".content")
        parts = read_content(message)
        if role == "result":
            return [read_result(message, parts)]
        return [*read_speaker(message), *parts, *read_rest(message)]

    def recognizes(self, answer: Mapping[str, Any]) -> bool:
        """Return True if an answer, or the first event of a stream, has the shape of this
        format."""
        return "choices" in answer

    def read_response(self, response: Mapping[str, Any]) -> Form:
        """Return the message of the first choice as the next request takes it."""
        choices = field(response, "choices", list)
        first = read_at(".choices[0]", expect, choices[0] if choices else {}, dict)
        message = read_at(".choices[0]", field, first, "message", dict)
        if first.get("finish_reason", "") in CUT_REASONS:
            message = mark_cut_call(message)
        return clean_answer(message)

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
            if not can_join(whole, form):
                return None
            content = form.get("content")
            # "empty array. Expected an array with minimum length 1": it is not the content of the
            # whole.
            if content == [] or has_content(whole):
                content = whole.get("content")
            calls.extend(form.get("tool_calls") or ())
            whole = {**form, **whole}
            whole["content"] = content
        if calls:
            whole["tool_calls"] = calls
        return whole

    def repair_form(self, form: Form, parts: list[Part], stored: bool) -> tuple[Form, list[str]]:
        """Return a message without arguments that are null or blank."""
        if not find_calls(parts):
            return form, []
        message = dict(form)
        if form.get("tool_calls"):
            message["tool_calls"] = [fill_call(call) for call in form["tool_calls"]]
        if not is_empty_function(form.get("function_call")):
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

    def write_named_choice(self, name: str | None) -> Any:
        """Write the choice of the tool of this name."""
        return {"type": "function", "function": {"name": name}}

    def write_parameter(self, name: str, value: Any, model: str | None) -> Body:
        """Return the fields of a canonical parameter by their paths."""
        if name == "max_tokens" and COUNTS_REASONING.match(model or ""):
            return {"max_completion_tokens": value}
        if name == "stop":
            return {"stop": value}
        return super().write_parameter(name, value, model)


# --- messages ---


def read_role(message: dict[str, Any]) -> str:
    """Return our word for the role of a message."""
    return ROLES[one_in(message, "role", ROLES)]


def read_speaker(message: dict[str, Any]) -> list[Part]:
    """Return the name of the speaker, if there is one."""
    match message:
        case {"name": str(name)} if name:
            return [Speaker(name)]
    return []


def read_rest(message: dict[str, Any]) -> list[Part]:
    """Return the fields that only some servers have: thinking, and others."""
    parts: list[Part] = []
    has_thinking = False
    for key, value in message.items():
        if not value or key in MESSAGE_KEYS:
            continue
        if not is_thinking(key):
            parts.append(Other(key))
        elif isinstance(value, str) and not has_thinking:
            parts.append(Reasoning(value, what=key))
            has_thinking = True
        else:  # vLLM repeats the text under another name
            parts.append(Reasoning("", what=key))
    return parts


def is_thinking(key: str) -> bool:
    """Return True for a field of thinking. DeepSeek, Qwen and llama.cpp write reasoning_content,
    OpenRouter and gpt-oss reasoning."""
    return "reasoning" in key or "thinking" in key


def read_result(message: dict[str, Any], parts: list[Part]) -> Result:
    """Return the result in a tool message. `parts` are those of its content."""
    if message["role"] == LEGACY:
        return make_result(None, parts, None, name_in(message, "name"), LEGACY)
    # Servers have sent empty ids, null, or none at all, and accepted them again.
    id = text_or_none(message, "tool_call_id") or ""
    name = None
    if not id:  # Mistral's servers know a result by the name of its tool, too
        name = text_or_none(message, "name")
    return make_result(id, [*parts, *read_rest(message)], None, name)


def read_answer(message: dict[str, Any]) -> list[Part]:
    """Return the parts of an answer: speaker, text, fields of some servers, and calls."""
    parts = [*read_speaker(message), *read_content(message)]
    refusal = message.get("refusal")
    if isinstance(refusal, str):
        parts.append(Text(refusal))
    parts += read_rest(message)
    function = message.get("function_call")
    if not is_empty_function(function):
        parts.append(read_at(".function_call", read_function, None, function, LEGACY))
    if message.get("tool_calls") is not None:
        parts += read_items(message, "tool_calls", read_call)
    return parts


def is_empty_function(function: Any) -> bool:
    """Return True for a call of no function. Servers fill in null, {} and an empty name."""
    if isinstance(function, dict):
        return not function.get("name") and not function.get("arguments")
    return not function


def read_call(call: dict[str, Any]) -> list[Part]:
    """Return a call of a function or of a custom tool, and its other fields."""
    id = text_or_none(call, "id") or ""
    if text_or_none(call, "type") == "custom":
        custom = field(call, "custom", dict)
        found = read_at(".custom", read_custom, id, custom)
    else:
        found = read_at(".function", read_function, id, field(call, "function", dict), "")
    return [found, *list_unread(call, CALL_KEYS)]


def read_custom(id: str, custom: dict[str, Any]) -> Call:
    """Return the call of a custom tool."""
    name = name_in(custom, "name")
    return Call(id, name, {"input": field(custom, "input", str)})


def read_function(id: str | None, value: Any, kind: str) -> Call:
    """Return the call of a function. Compatible servers send and take objects as arguments, too."""
    function = expect(value, dict)
    name = name_in(function, "name")
    arguments = function.get("arguments")
    if isinstance(arguments, dict):
        return Call(id, name, arguments, kind=kind)
    return make_call(id, name, text_or_none(function, "arguments") or "", kind)


# --- content ---

# Parts that only other formats have: here they are a mistake, and refused.
OTHER_FORMATS_TYPES = frozenset(
    {"input_text", "output_text", "input_image", "input_file", "tool_use", "tool_result"}
)
TEXTS = frozenset({"text", "refusal"})
NAMES = ("file_name", "document_name")  # Perplexity's word for a file's name, and Mistral's
LINKS = {
    "image_url": "image",
    "video_url": "video",
    "file_url": "document",
    "document_url": "document",
}


def read_content(message: dict[str, Any]) -> list[Part]:
    """Return the parts of a message's content, which is a text or a list of parts."""
    content = message.get("content")
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(content)]
    if isinstance(content, dict):  # Cloudflare parses an answer for which there is a schema
        return [Text(read_as_json(content))]
    return read_at(".content", read_each, content, read_part)


def read_part(part: dict[str, Any]) -> list[Part]:
    """Return what a part says, and the fields of it that are not read."""
    type_ = field(part, "type", str)
    if type_ in TEXTS:
        text = Text(field(part, type_, str))
        return [text, *list_unread(part, TEXTS)]
    if type_ in LINKS:
        return [read_link(type_, part), *list_unread(part, frozenset({type_, *NAMES}))]
    match type_:
        case "file":
            found = read_file(part.get("file"))
        case "input_audio":
            found = read_sound(part.get("input_audio"))
        case "thinking":
            return [read_thinking(part)]
        case _:
            return [Other(type_, is_complete=type_ not in OTHER_FORMATS_TYPES)]
    return [found, *list_unread(part, frozenset({type_}))]


def read_thinking(part: dict[str, Any]) -> Reasoning:
    """Return a thinking part of Mistral's models, which has parts of its own."""
    pieces = part.get("thinking")
    if not isinstance(pieces, list):
        pieces = [{"text": pieces}]
    text = ""
    for piece in pieces:
        match piece:
            case {"text": str(words)}:
                text += words
    return Reasoning(text, string_in(part, "signature") or "", what="thinking")


def read_link(type_: str, part: dict[str, Any]) -> Part:
    """Return media by a link: an object with its URL or, with Mistral, the URL alone."""
    kind = LINKS[type_]
    url = part.get(type_)
    detail = None
    if isinstance(url, dict):
        detail = read_detail(url)
        url = url.get("url")
    if not isinstance(url, str):
        return Other(type_, is_complete=False, media=kind)
    names = [string_in(part, key) for key in NAMES]
    name = next(filter(None, names), None)
    found = from_url(url, kind, detail=detail, name=name)
    if found.url is None or not is_base64(url):
        return found
    # Perplexity takes a file's bare base64 for its URL, and Zhipu an image's.
    return found._replace(type=find_type(name), data=url, url=None)


def find_type(name: str | None) -> str | None:
    """Return the media type of a file by its name."""
    return type_of_suffix((name or "").rpartition(".")[2])


def read_detail(image: dict[str, Any]) -> str | None:
    """Return how closely to look at an image, or None if that is not given."""
    detail = string_in(image, "detail")
    return None if detail == "auto" else detail


def read_file(file: Any) -> Part:
    """Return a file by its data; only the service has one that is named by its id."""
    match file:
        case {"file_data": str(data)}:
            return read_file_data(data, string_in(file, "filename"))
        case {"file_id": str()}:
            return Other("a file in the service's store", media="document")
    return Other("file", is_complete=isinstance(file, dict), media="document")


def read_file_data(data: str, name: str | None, detail: str | None = None) -> Media:
    """Return a file by a data URL, or by bare base64, whose type is known from its name."""
    found = from_url(data, "document", name=name, detail=detail)
    if found.data is not None:
        return found
    found = found._replace(type=find_type(name) or PDF)
    if web_url(found):  # OpenRouter takes an address here ("PDF inputs" in its guide)
        return found
    return found._replace(data=data, url=None)


def read_sound(sound: Any) -> Part:
    """Return a sound by its data or its address."""
    match sound:
        case str():  # Mistral takes the data alone, or its address, and finds out its type
            return read_sound_data(sound)
        case {"data": str(data), "format": str(format)}:
            type_ = type_of_suffix(format) or f"audio/{format}"
            return read_sound_data(data)._replace(type=type_)
    return Other("input_audio", is_complete=False, media="audio")


def read_sound_data(data: str) -> Media:
    """Return a sound by its data. Alibaba's servers take a URL here, too ("Qwen-Omni" in its
    guide)."""
    found = from_url(data, "audio")
    if found.data or web_url(found):
        return found
    return found._replace(data=data, url=None)


def write_image(found: Media) -> dict[str, Any] | None:
    """Write an image; None if OpenAI cannot read it."""
    url = write_image_url(found)
    if url is None:
        return None
    image = {"url": url}
    if found.detail:
        image["detail"] = found.detail
    return {"type": "image_url", "image_url": image}


def write_image_url(found: Media) -> str | None:
    """Return the address of an image, or its data as a URL; None if OpenAI cannot read it."""
    if web_url(found):
        return found.url
    return data_url(found) if found.data and found.type in IMAGES else None


# --- answers ---


def clean_answer(message: dict[str, Any]) -> dict[str, Any]:
    """Return the message of an answer as the next request takes it."""
    form: dict[str, Any] = {}
    for key, value in message.items():
        if is_wanted_back(key, value) and not is_empty(key, value):
            form[key] = value
    match form:
        case {"audio": {"id": id}}:
            form["audio"] = {"id": id}  # the data is in the service's store
    match form:
        case {"content": dict(content)}:
            form["content"] = read_as_json(content)
    match form:
        case {"tool_calls": list(calls)}:
            form["tool_calls"] = [add_arguments(call) for call in calls]
    # An answer that was cut off while it thought: "content or tool_calls must be set" (DeepSeek).
    is_cut = form.keys().isdisjoint(SAYING_KEYS)
    return {"role": "assistant", "content": "" if is_cut else None} | form


def is_wanted_back(key: str, value: Any) -> bool:
    """Return True for a field that the next request needs. Servers refuse others of their own
    fields."""
    if key == "annotations":
        # OpenRouter has read a file, and reads it anew without its annotations ("PDF Inputs").
        notes = value if isinstance(value, list) else ()
        return any(isinstance(note, dict) and note.get("type") == "file" for note in notes)
    return key in MESSAGE_KEYS or key in WANTED_BACK or is_thinking(key)


def is_empty(key: str, value: Any) -> bool:
    """Return True for a field without a value. Servers fill in such fields, and refuse them in
    requests."""
    match key:
        case "content":
            return value is None
        case "function_call":
            return not isinstance(value, dict) or not value.get("name")
        case "audio":
            return not isinstance(value, dict) or not value.get("id")
    return value in (None, "", [], {})


def add_arguments(call: Any) -> Any:
    """Add arguments to a call without any. Some servers leave them out of their answers, or empty,
    and refuse them so: "Failed to parse tool call arguments as JSON"."""
    match call:
        case {"function": {"name": str()} as function} if function.get("arguments") in (None, ""):
            return call | {"function": function | {"arguments": "{}"}}
    return call


def mark_cut_call(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message whose last call has arguments that are not JSON, if it was cut off before
    any of them arrived, or if it is one of a custom tool, whose input may be any text."""
    match message:
        case {"tool_calls": [*others, {} as last]}:
            return message | {"tool_calls": [*others, cut_call(last)]}
    return message


def cut_call(call: dict[str, Any]) -> dict[str, Any]:
    """Return a call that was cut off as one of a function."""
    match call:
        case {"custom": {"name": name, "input": str(input)}}:
            arguments = cut_arguments(write_json({"input": input}))
        case {"function": {"name": name, "arguments": "" | None}}:
            arguments = CUT_ARGUMENTS
        case _:
            return call
    rest = {key: value for key, value in call.items() if key != "custom"}
    return rest | {"type": "function", "function": {"name": name, "arguments": arguments}}


# --- what goes back ---


def can_join(whole: dict[str, Any], form: Form) -> bool:
    """Return True if `form` can be joined with the messages before it: only one of them has
    text."""
    if not isinstance(form, dict) or not isinstance(form.get("tool_calls"), list | None):
        return False
    return not (has_content(whole) and has_content(form))


def has_content(message: dict[str, Any]) -> bool:
    """Return True if a message has a content that is not blank."""
    content = message.get("content")
    return not is_blank(content) if isinstance(content, str) else bool(content)


def fill_call(call: dict[str, Any]) -> dict[str, Any]:
    """Return a call with arguments that the service takes."""
    return call | {"function": fill_arguments(call["function"])} if "function" in call else call


def fill_arguments(function: Any) -> Any:
    """Return a call with "{}" for arguments that are null, "Input should be a valid string", or
    blank, "Failed to parse tool call arguments as JSON". Arguments that a server left out stay
    so."""
    match function:
        case {"arguments": str() | None as arguments} if is_blank(arguments or ""):
            return function | {"arguments": "{}"}
    return function


# --- streams ---

# Fields of a delta that are not simply continued.
CONTINUED = frozenset({"role", "content", "tool_calls"})
# Fields of a chunk that belong to the whole answer.
ABOUT = ("id", "model", "usage", "service_tier", "error")
# Fields of a part of a call that `ChatStream` reads.
CALL_PARTS = frozenset({"index", "id", "type", "function", "custom"})
# Fields that are repeated, not continued.
LABELS = frozenset({"type", "id", "index", "format", "name", "signature"})


class ChatStream(StreamAssembler):
    """Assembles the chunks of one answer of Chat Completions."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {"role": "assistant"}
        self._calls: list[dict[str, Any]] = []
        self._numbered: dict[Any, dict[str, Any]] = {}  # the newest call of each number
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
            pieces.extend(read_pieces(delta))
        return pieces

    def _add_delta(self, delta: Mapping[str, Any]) -> None:
        for part in delta.get("tool_calls") or ():
            self._add_call(part)
        if delta.get("content") is not None:
            content = self._message.get("content")
            self._message["content"] = join_contents(content, delta["content"])
        rest = {key: value for key, value in delta.items() if key not in CONTINUED}
        grow(self._message, rest)

    def _add_call(self, part: Mapping[str, Any]) -> None:
        """Add a part of a call. Its id and name count only once: some servers repeat them."""
        call = self._find_call(part)
        call["id"] = call["id"] or part.get("id") or ""
        continue_call(call[call["type"]], part.get(call["type"]) or {})
        for key, value in part.items():
            if key not in CALL_PARTS and value is not None:
                call[key] = value

    def _find_call(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """Return the call that a part belongs to. Most servers number the calls; some send each
        call complete, without a number, or all with the same one."""
        index = part.get("index")
        call = self._numbered.get(index)
        if call is None or is_other_call(call, part):
            call = {"id": "", "type": "function", "function": {"name": "", "arguments": ""}}
            if part.get("custom"):
                call = {"id": "", "type": "custom", "custom": {"name": "", "input": ""}}
            self._calls.append(call)
            self._numbered[index] = call
        return call

    def finish(self) -> dict[str, Any]:
        """Return the whole answer."""
        message = self._message
        if self._calls:
            message["tool_calls"] = self._calls
        if self._stop in CUT_REASONS:
            message = mark_cut_call(message)
        choice = {"message": message, "finish_reason": self._stop}
        return {**self._about, "choices": [choice]}


def continue_call(whole: dict[str, str], delta: Mapping[str, Any]) -> None:
    """Add a piece to the text of a call. Its name counts only once."""
    for key, before in whole.items():
        more = delta.get(key) or ""
        whole[key] = before or more if key == "name" else before + more


def is_other_call(call: Mapping[str, Any], part: Mapping[str, Any]) -> bool:
    """Return True if a part with the number of a call begins another one. A new id without a name
    does not: some servers make an id for each chunk."""
    id, named = part.get("id"), part.get("function") or part.get("custom") or {}
    return bool(id and named.get("name")) and call["id"] not in ("", id)


def read_pieces(delta: Mapping[str, Any]) -> list[StreamPiece]:
    """Return the text and the thinking of a delta, to show them as they arrive."""
    pieces = read_content_pieces("text", delta.get("content") or delta.get("refusal"))
    thinking = delta.get("reasoning_content") or delta.get("reasoning")
    if isinstance(thinking, str) and thinking:
        pieces.append(("thinking", thinking))
    return pieces


def read_content_pieces(kind: str, content: Any) -> list[StreamPiece]:
    """Return the text and the thinking in a content of a delta."""
    if isinstance(content, str) and content:
        return [(kind, content)]
    pieces: list[StreamPiece] = []
    for part in content if isinstance(content, list) else ():
        match part:
            case {"type": "text", "text": str() as text}:
                pieces.extend(read_content_pieces(kind, text))
            case {"type": "thinking", "thinking": thinking}:
                pieces.extend(read_content_pieces("thinking", thinking))
    return pieces


def join_contents(content: Any, more: Any) -> Any:
    """Return a content and more of it. Mistral's models stream text, and parts where they think;
    each continues where the last one ended."""
    if isinstance(content, str | None) and isinstance(more, str):
        return (content or "") + more
    if isinstance(more, Mapping) and not content:  # an answer that the server has parsed
        return more
    parts = list_parts(content)
    grow_list(parts, list_parts(more))
    return parts


def list_parts(content: Any) -> list[Any]:
    """Return a content as a list of parts."""
    if isinstance(content, str | None):
        return [{"type": "text", "text": content}] if content else []
    if not isinstance(content, list | tuple):
        raise TypeError(f"a content is text or a list of parts, not {type(content).__name__}")
    return list(content)


def grow(whole: dict[str, Any], delta: Mapping[str, Any]) -> None:
    """Add a delta: texts and lists are continued, labels stay, the rest is replaced."""
    for key, value in delta.items():
        before = whole.get(key)
        if value is None or (before and key in LABELS):
            continue
        match before, value:
            case str(), str():
                whole[key] = before + value
            case list(), list():
                grow_list(before, value)
            case dict(), dict():
                grow(before, value)
            case _:
                whole[key] = deepcopy(value)  # it grows, and is not ours


def grow_list(whole: list[Any], more: list[Any]) -> None:
    """Add items to a list. One that continues the last item is added to it."""
    for item in more:
        if whole and is_continued(whole[-1], item):
            grow(whole[-1], item)
        else:
            whole.append(deepcopy(item))


def is_continued(last: Any, item: Any) -> bool:
    """Return True if `item` continues `last`: it is of the same kind and has the same number, or is
    text or thinking that is not under another seal."""
    if not isinstance(last, dict) or not isinstance(item, dict):
        return False
    if last.get("type") != item.get("type"):
        return False
    if "index" in item:
        return bool(last.get("index") == item["index"])
    seals = {last.get("signature"), item.get("signature")}
    return item.get("type") in ("text", "thinking") and len(seals - {None, ""}) < 2


OPENAI = OpenAIFormat()
