"""OpenAI Chat Completions: `{"messages": [...]}`.

One message for a step, with all its calls; one tool message for each result. Roles are free, so a
unit's own form is simply its message. Many servers speak this language with words of their own
(`reasoning_content`, `prefix`): a message goes back to its server as it was.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from backstory.wire.formats.base import (
    Answered,
    Body,
    Form,
    Format,
    ToolDefinition,
    call_of,
    describe_tool,
    get_schema,
    usage_with_details,
)
from backstory.wire.formats.fields import (
    expect,
    field,
    id_in,
    items,
    name_in,
    one_of,
    text_or_none,
    wrong,
)
from backstory.wire.formats.parts import read_content
from backstory.wire.json_values import write_json
from backstory.wire.media import IMAGES, PDF, as_words, data_url, file_name, web_url
from backstory.wire.origin import UNNAMED
from backstory.wire.streams import openai_completion
from backstory.wire.turns import (
    BETWEEN,
    Call,
    Media,
    Other,
    Part,
    Speaker,
    Text,
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
LEGACY = (
    "function"  # calls and results as they were before tools: one at a time, known by their names
)
# OpenAI's reasoning models refuse max_tokens; servers that speak its language know only that.
COUNTS_REASONING = re.compile(r"(?:.*/)?(?:o[1-9]|gpt-[5-9])")
SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
READ = frozenset(
    {"role", "content", "tool_calls", "function_call", "refusal", "name", "tool_call_id"}
)
CALL_KEYS = frozenset({"id", "type", "index", "function", "custom"})


def _write_image(found: Media) -> dict[str, Any] | None:
    url = web_url(found) or (data_url(found) if found.data and found.type in IMAGES else None)
    detail = {"detail": found.detail} if found.detail else {}
    return {"type": "image_url", "image_url": {"url": url} | detail} if url else None


def is_worded(message: dict[str, Any]) -> bool:
    """Whether an assistant's message has words."""
    content = message.get("content")
    return not is_blank(content) if isinstance(content, str) else bool(content)


# --- reading ---


def _speaker(message: dict[str, Any]) -> list[Part]:
    name = message.get("name")
    return [Speaker(name)] if isinstance(name, str) and name else []


def _more(message: dict[str, Any]) -> list[Part]:
    return [Other(key) for key, value in message.items() if value and key not in READ]


def _read_answer(message: dict[str, Any], path: str) -> list[Part]:
    parts = read_content(message.get("content"), f"{path}.content")
    if isinstance(message.get("refusal"), str):
        parts.append(Text(message["refusal"]))
    parts.extend(_more(message))
    if message.get("function_call"):  # servers fill it in with null, and with {}
        function = expect(message["function_call"], dict, f"{path}.function_call")
        parts.append(_read_function(None, function, f"{path}.function_call", LEGACY))
    if message.get("tool_calls") is not None:
        for where, call in items(message, "tool_calls", path):
            parts.append(_read_call(call, where))
            parts.extend(
                Other(key) for key, value in call.items() if value and key not in CALL_KEYS
            )
    return parts


def _read_call(call: dict[str, Any], path: str) -> Call:
    id = id_in(call, "id", path)
    if text_or_none(call.get("type"), f"{path}.type") == "custom":
        custom, inside = field(call, "custom", dict, path), f"{path}.custom"
        return Call(
            id, name_in(custom, "name", inside), {"input": field(custom, "input", str, inside)}
        )
    return _read_function(id, field(call, "function", dict, path), f"{path}.function", "")


def _read_function(id: str | None, function: dict[str, Any], path: str, kind: str) -> Call:
    arguments, name = function.get("arguments"), name_in(function, "name", path)
    if isinstance(
        arguments, dict
    ):  # servers that speak OpenAI's language send and take objects too
        return Call(id, name, arguments, kind=kind)
    return call_of(
        id, name, "" if arguments is None else expect(arguments, str, f"{path}.arguments"), kind
    )


# The second has Gemini's signatures ("Thought signatures" in Google's guide); behind LiteLLM, the third does.
WANTED_BACK = frozenset({"audio", "extra_content", "provider_specific_fields"})


def _is_kept(key: str, value: Any) -> bool:
    """Servers add fields to their answers that they refuse in requests; what they want back is known."""
    if (
        key == "annotations"
    ):  # OpenRouter has read a file, and reads it anew without them ("PDF Inputs")
        return isinstance(value, list) and any(_is_file(note) for note in value)
    return key in READ or key in WANTED_BACK or "reasoning" in key or "thinking" in key


def _is_file(note: Any) -> bool:
    return isinstance(note, dict) and note.get("type") == "file"


def _with_arguments(call: Any) -> Any:
    """A call with arguments: where nothing was given, some servers leave them out of their answers, or empty,
    and refuse them so: "Failed to parse tool call arguments as JSON"."""
    match call:
        case {"function": {"name": str()} as function} if function.get("arguments") in (None, ""):
            return call | {"function": function | {"arguments": "{}"}}
    return call


def filled(function: Any) -> Any:
    """What is called, with empty arguments instead of null, "Input should be a valid string", or blank text,
    "Failed to parse tool call arguments as JSON". A server that left them out takes them so."""
    match function:
        case {"arguments": None | str() as given} if given is None or is_blank(given):
            return function | {"arguments": "{}"}
    return function


FILLED = "arguments that are null or blank become {}"


def _is_empty(key: str, value: Any) -> bool:
    """Whether a field says nothing: servers fill in empty ones, which they refuse in requests."""
    if key == "content":
        return value is None
    if key in ("function_call", "audio"):
        return not isinstance(value, dict) or not value.get(
            "name" if key == "function_call" else "id"
        )
    return value in (None, "", [], {})


def counts(usage: Any) -> dict[str, int] | None:
    """Tokens as they are kept."""
    return usage_with_details(usage, "prompt_tokens", "completion_tokens")


class OpenAIFormat(Format):
    """OpenAI's Chat Completions, and the servers that speak them."""

    name = "openai"
    # "string too long. Expected … maximum length 40" (vercel/ai#5171)
    ids = re.compile(r".{1,40}", re.DOTALL)
    alternates = False
    system_on_top = False
    system_in_place = True
    result_errors = False
    # "Invalid value for 'content': expected a string, got null" (llama_index#17555).
    empty_results = False
    names_people = True
    has_detail = True
    kinds = frozenset({"", LEGACY})
    parameters = MappingProxyType(
        {
            "max_tokens": "max_tokens",
            "temperature": "temperature",
            "top_p": "top_p",
            "stop": "stop",
            "effort": "reasoning_effort",
        }
    )

    def said(self, role: str, content: Any, name: str | None) -> dict[str, Any]:
        """A system or user message."""
        if name is None:
            return {"role": role, "content": content}
        return {"role": role, "name": name, "content": content}

    def words(self, text: str) -> dict[str, Any]:
        """A part of words."""
        return {"type": "text", "text": text}

    def media(self, found: Media, in_result: bool) -> dict[str, Any] | str | None:
        """Images, PDFs and two kinds of sound; text documents go as words. A tool message holds only words."""
        text = as_words(found)
        if text is not None or in_result:
            return text
        if found.kind == "image":
            return _write_image(found)
        if found.data is None:
            return None
        if found.kind == "document" and found.type == PDF:
            return {
                "type": "file",
                "file": {"filename": file_name(found), "file_data": data_url(found)},
            }
        if found.kind == "audio" and found.type in SOUNDS:
            return {
                "type": "input_audio",
                "input_audio": {"data": found.data, "format": SOUNDS[found.type]},
            }
        return None

    def call(
        self, id: str, name: str, arguments: dict[str, Any], text: str | None
    ) -> dict[str, Any]:
        """A tool call. "arguments as object: 400 Input should be a valid string" (deer-flow#4445)."""
        given = write_json(arguments) if text is None else text
        return {"id": id, "type": "function", "function": {"name": name, "arguments": given}}

    def step(self, texts: Sequence[str], calls: list[Any], name: str | None) -> dict[str, Any]:
        """The assistant's message. Without text the content is null, which is legal only beside calls
        (llama_index PR#17921); an empty list of calls is refused (openai-node PR#1341), so there is none."""
        message: dict[str, Any] = {"role": "assistant", "content": BETWEEN.join(texts) or None}
        if name is not None:
            message["name"] = name
        if calls:
            message["tool_calls"] = calls
        return message

    def result(self, id: str, name: str, content: Any, error: bool, kind: str) -> dict[str, Any]:
        """A tool message. There is no flag for an error: the text has to say it."""
        if kind == LEGACY:
            return {"role": "function", "name": name, "content": content}
        return {"role": "tool", "tool_call_id": id, "content": content}

    def body(
        self, system: list[Form], roles: list[str], forms: list[Form], names: Iterable[str]
    ) -> dict[str, Any]:
        """The request's messages."""
        return {"messages": system + forms if system else forms}

    def joined(self, forms: list[Form]) -> Form | None:
        """Messages of one answer as one: words from one of them, calls from all, and what else they have."""
        if len(forms) == 1:
            return forms[0]
        whole: dict[str, Any] = {}
        calls: list[Any] = []
        for form in forms:
            if not isinstance(form, dict) or not isinstance(form.get("tool_calls"), list | None):
                return None
            if is_worded(whole) and is_worded(form):
                return None
            # "empty array. Expected an array with minimum length 1", so that is not what the whole says.
            content = (
                whole.get("content")
                if is_worded(whole) or form.get("content") == []
                else form.get("content")
            )
            calls.extend(form.get("tool_calls") or ())
            whole = {**form, **whole, "content": content}
        return whole | {"tool_calls": calls} if calls else whole

    def units(self, body: Mapping[str, Any]) -> Iterator[Unit]:
        """Each message is a unit. Zhipu's servers take results that do not say which call they answer."""
        is_called = False
        for path, message in items(dict(body), "messages"):
            role = ROLES[one_of(message.get("role"), tuple(ROLES), f"{path}.role")]
            is_unnamed = role == "result" and not message.keys() & {"tool_call_id", "name"}
            if is_unnamed and not is_called:
                raise wrong(f"{path}.tool_call_id", "missing, expected a string")
            is_called = is_called or bool(message.get("tool_calls"))
            took = (UNNAMED,) if is_unnamed else ()
            yield Unit(role, message, self.read(role, message, path), path, took=took)

    def read(self, role: str, message: Form, path: str) -> list[Part]:
        """The parts of a message."""
        message = expect(message, dict, path)
        if ROLES[one_of(message.get("role"), tuple(ROLES), f"{path}.role")] != role:
            raise wrong(f"{path}.role", f"this is not a {role} message")
        if role == "step":
            return [*_speaker(message), *_read_answer(message, path)]
        if "content" not in message and message["role"] != "function":
            raise wrong(f"{path}.content", "missing, expected a string, an array of parts or null")
        parts = read_content(message.get("content"), f"{path}.content")
        if message["role"] == "function":
            return [make_result(None, parts, None, name_in(message, "name", path), LEGACY)]
        if role == "result":
            id, name = id_in(message, "tool_call_id", path), message.get("name")
            if (
                name is not None and not id
            ):  # Mistral's servers know a result by the name of its tool, too
                name = expect(name, str, f"{path}.name")
            return [make_result(id, [*parts, *_more(message)], None, None if id else name)]
        return [*_speaker(message), *parts, *_more(message)]

    def answered(self, response: Mapping[str, Any]) -> Answered:
        """The first choice's message, as the next request takes it, and the model and usage."""
        choices = field(dict(response), "choices", list, "response")
        first = expect(choices[0] if choices else {}, dict, "response.choices[0]")
        message = field(first, "message", dict, "response.choices[0]")
        form = {
            key: value
            for key, value in message.items()
            if _is_kept(key, value) and not _is_empty(key, value)
        }
        if "audio" in form:
            form["audio"] = {"id": form["audio"]["id"]}  # the data is in the service's store
        if isinstance(
            form.get("content"), dict
        ):  # Cloudflare parses an answer for which there is a schema
            form["content"] = write_json(form["content"])
        if isinstance(form.get("tool_calls"), list):
            form["tool_calls"] = list(map(_with_arguments, form["tool_calls"]))
        # One that was cut off while it thought: "content or tool_calls must be set" (DeepSeek).
        is_cut = not form.keys() & {"tool_calls", "function_call", "refusal", "audio"}
        model = response.get("model")
        return Answered(
            {"role": "assistant", "content": "" if is_cut else None} | form,
            model if isinstance(model, str) else None,
            counts(response.get("usage")),
        )

    def mended(self, form: Form, stored: bool) -> tuple[Form, list[str]]:
        """A message without arguments that are null or blank."""
        found = dict(form)
        if form.get("tool_calls"):
            found["tool_calls"] = [
                call | {"function": filled(call["function"])} if "function" in call else call
                for call in form["tool_calls"]
            ]
        if form.get("function_call"):
            found["function_call"] = filled(form["function_call"])
        return (form, []) if found == form else (found, [FILLED])

    def renamed(self, form: Form, id: str) -> Form:
        """A result for the same call under another id."""
        return form | {"tool_call_id": id} if form.get("role") == "tool" else form

    def assembled(self, events: list[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the events of a stream as one answer."""
        return openai_completion(events)

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


OPENAI = OpenAIFormat()
