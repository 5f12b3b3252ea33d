"""OpenAI Responses: `{"input": [...], "instructions"?}`, a flat list of items.

A result is paired with its call by call_id; reasoning belongs to the item after it. The `type` of
an item says what it is; only messages may come without one. A form is a list of items. Besides
functions there are tools of OpenAI's own that the caller runs (a shell, patches, a computer). Their
calls and outputs are calls and results like others, in forms of their own.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from backstory.wire.formats.base import (
    Body,
    Format,
    ProviderAnswer,
    ResponseFacts,
    StreamAssembler,
    StreamPiece,
    ToolDefinition,
    WrittenBody,
    build_facts,
    concatenate_forms,
    describe_run,
    describe_tool,
    get_schema,
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
from backstory.wire.formats.openai import (
    FILLED,
    detail_of,
    fill_arguments,
    image_url,
    read_file_data,
    read_sound,
)
from backstory.wire.json_values import write_json
from backstory.wire.media import PDF, as_words, data_url, file_name, from_url, web_url
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
    Text,
    Turn,
    Unit,
    count_leading_system,
    is_blank,
    make_result,
)

Item = dict[str, Any]

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "step"}
CUSTOM = "custom_tool_call"
FUNCTION_OUTPUT = "function_call_output"
# Calls that the caller answers, and the types of their outputs.
CALLS = {
    "function_call": FUNCTION_OUTPUT,
    CUSTOM: "custom_tool_call_output",
    "shell_call": "shell_call_output",
    "local_shell_call": "local_shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
    "tool_search_call": "tool_search_output",
}
OUTPUTS = frozenset(CALLS.values())
CALL_OF_OUTPUT = {output: call for call, output in CALLS.items()} | {FUNCTION_OUTPUT: ""}
# Calls that the service ran itself.
SERVICE_CALLS = frozenset(
    {"web_search_call", "file_search_call", "code_interpreter_call", "mcp_call", "x_search_call"}
)
# An item that is in the service's store.
REFERENCE = Other("item_reference")
# An encrypted summary of all that came before.
COMPACTION = Other(
    "the compaction (undo, or a fork from before it, has the messages)",
    told="(earlier messages were compacted by openai)",
)
# Items that are complete without their ids.
FREE = frozenset({"message", "reasoning", "compaction", "function_call", CUSTOM, *OUTPUTS})
# The fields that name what a request continues in the service's store.
CONTINUED = ("previous_response_id", "conversation")
# Fields of a call that are not arguments of the tool.
CALL_FRAME = frozenset({"type", "id", "call_id", "status", "execution", "caller", "created_by"})
# Fields that no other format can express: of a tool, of a message, a program that makes a call, and
# warnings about a computer.
EXTRAS = ("namespace", "phase", "caller", "acknowledged_safety_checks")
# The caller of a call that the model made itself.
DIRECT_CALLER = {"type": "direct"}
# Parts that only other formats have: here they are a mistake, and refused.
FOREIGN = frozenset({"image_url", "image", "file", "document", "tool_use", "tool_result"})


class ResponsesFormat(Format):
    """OpenAI's Responses API."""

    name = "openai-responses"
    # "string too long. Expected … maximum length 64" (fastllm#45)
    call_ids = re.compile(r".{1,64}", re.DOTALL)
    alternates_roles = False
    system_in_place = True
    has_error_flag = False
    has_detail = True
    parameters = MappingProxyType(
        {
            "max_tokens": "max_output_tokens",
            "temperature": "temperature",
            "top_p": "top_p",
            "effort": "reasoning.effort",
        }
    )
    own_parameters = frozenset(
        {
            "access_programs",
            "background",
            "context_management",
            "conversation",
            "image",
            "include",
            "max_output_tokens",
            "max_tool_calls",
            "metadata",
            "moderation",
            "parallel_tool_calls",
            "previous_response_id",
            "prompt",
            "prompt_cache_key",
            "prompt_cache_options",
            "prompt_cache_retention",
            "reasoning",
            "safety_identifier",
            "service_tier",
            "store",
            "text",
            "top_logprobs",
            "truncation",
            "user",
        }
    )
    # A computer's output is a screenshot, which we cannot write. A function's output was accepted
    # for a search for tools.
    call_kinds = frozenset(
        {"", "tool_search_call", CUSTOM, "shell_call", "local_shell_call", "apply_patch_call"}
    )

    # --- from turns to a body ---

    def write_message(self, turn: MessageTurn) -> list[Item]:
        """Write a system or user message."""
        content = turn.text if turn.content is None else self.write_content(turn.content)
        return [{"role": turn.role, "content": content}]

    def write_text(self, text: str) -> Item:
        """Write a part of text."""
        return {"type": "input_text", "text": text}

    def write_media(self, found: Media, in_result: bool) -> Item | str | None:
        """Write an image or a PDF; a text document as text."""
        text = as_words(found)
        if text is not None:
            return text
        if found.kind == "image":
            url = image_url(found)
            if url is None:
                return None
            return {"type": "input_image", "image_url": url, "detail": found.detail or "auto"}
        if found.kind != "document":
            return None
        url = web_url(found)
        if url is not None:
            return {"type": "input_file", "file_url": url}
        if found.type != PDF or not found.data:
            return None
        return {"type": "input_file", "filename": file_name(found), "file_data": data_url(found)}

    def can_name_file(self, found: Media) -> bool:
        """Return True if a document comes with its data."""
        return found.url is None

    def write_call(self, call: Call) -> Item:
        """Write a function_call item."""
        arguments = write_json(call.arguments) if call.text is None else call.text
        return {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": arguments,
        }

    def write_answer(self, turn: AnswerTurn) -> list[Item]:
        """Write the model's message, if it has text, and its calls."""
        calls = [self.write_call(call) for call in turn.calls]
        if not turn.texts:
            return calls
        return [{"role": "assistant", "content": BETWEEN.join(turn.texts)}, *calls]

    def write_result(self, call: Call, result: Result) -> list[Item]:
        """Write the output of a call. A function's has no flag for an error: the text has to say
        it."""
        content: Any = result.text
        if result.content is not None:
            content = self.write_content(result.content, in_result=True)
        write = OUTPUT_WRITERS.get(call.kind, _write_function_output)
        return [write(call.id or "", content, bool(result.is_error))]

    def write_body(self, turns: list[Turn]) -> WrittenBody:
        """Write instructions and input. A system message that was an input item stays one."""
        instructions: list[str] = []
        rest: list[Turn] = []
        leading = count_leading_system(turns)
        for index, turn in enumerate(turns):
            if index < leading and isinstance(turn, MessageTurn) and turn.form is None:
                instructions.append(turn.text)
            else:
                rest.append(turn)
        forms = self.write_forms(rest)
        body: dict[str, Any] = {"input": []}
        if instructions:
            body["instructions"] = BETWEEN.join(instructions)
        if len(forms) == 1 and isinstance(forms[0].form, str):
            body["input"] = forms[0].form
            return WrittenBody(body, [forms[0].positions])
        origins: list[list[int]] = []
        for written in forms:
            for item in _list_items(written.form):
                body["input"].append(item)
                origins.append(written.positions)
        return WrittenBody(body, origins)

    # --- from a body or an answer to parts ---

    def read_body(self, body: Mapping[str, Any]) -> Iterator[Unit]:
        """Yield messages, outputs, and the items that the model made in one go."""
        if body.get("instructions") is not None:
            text = expect(body["instructions"], str, "instructions")
            yield Unit("system", None, [Text(text)], "instructions")
        continued = {key: body[key] for key in CONTINUED if body.get(key)} or None
        # A request can continue a stored answer although it is not stored itself.
        if continued and body.get("store") is False:
            continued["store"] = False
        is_first = True
        for unit in _mark_referred(_read_units(body)):
            # The calls that these results answer are in the service's store.
            is_part = is_first or unit.role == "result"
            yield unit._replace(after=continued) if continued and is_part else unit
            is_first = False

    def read_answer(self, form: Form) -> Iterator[Unit]:
        """Yield the units of an answer. It is one step, unless the service ran a tool itself, such
        as a shell in a container ("Hosted shell" in OpenAI's guide): its output and the rest of the
        answer follow."""
        run = ItemRun()
        is_empty = True
        for path, item in objects(form, "response"):
            is_empty = False
            role = _read_role(item, path)
            if role == "step":
                run.add(path, item)
                continue
            yield from run.take()
            yield Unit(role, [item], read_item(item, path), path)
        yield from run.take()
        if is_empty:
            yield Unit("step", form, [], "response")

    def read_form(self, role: str, form: Form, path: str) -> list[Part]:
        """Return the parts of a unit's items."""
        if isinstance(form, str) and role == "user":
            return [Text(form)]
        parts: list[Part] = []
        for where, item in objects(form, path):
            if _read_role(item, where) != role:
                raise wrong(where, f"this is not a {role} item")
            parts.extend(read_item(item, where))
        return parts

    def recognizes(self, answer: Mapping[str, Any]) -> bool:
        """Return True if an answer, or the first event of a stream, has the shape of this format."""
        if isinstance(answer.get("output"), list):
            return True
        return str(answer.get("type")).startswith("response.")

    def read_response(self, response: Mapping[str, Any]) -> ProviderAnswer:
        """Return the items, the model and the usage of an answer."""
        model = response.get("model")
        form = field(dict(response), "output", list, "response")
        usage = make_detailed_usage(response.get("usage"), "input_tokens", "output_tokens")
        return ProviderAnswer(form, model if isinstance(model, str) else None, usage)

    def read_facts(self, response: Mapping[str, Any]) -> ResponseFacts:
        """Return the id, the stop reason and other facts of a response."""
        incomplete = response.get("incomplete_details")
        reason = incomplete.get("reason") if isinstance(incomplete, Mapping) else None
        return build_facts(
            id=response.get("id"),
            stop=reason or response.get("status"),
            stored=response.get("store"),
            tier=response.get("service_tier"),
            diagnostics=response.get("prompt_cache_diagnostics"),
        )

    def is_compaction(self, response: Mapping[str, Any]) -> bool:
        """Return True for an object `response.compaction`, which has the messages that were kept
        and one compaction item, and for a response with such an item ("Compaction" in OpenAI's
        guide)."""
        for item in response.get("output") or ():
            if isinstance(item, Mapping) and item.get("type") == "compaction":
                return True
        return False

    def open_stream(self) -> StreamAssembler:
        """Return an assembler for the events of one stream."""
        return ResponsesStream()

    # --- what goes back to the provider that gave it ---

    def join_forms(self, forms: list[Form]) -> Form | None:
        """Join the items of one answer. Reasoning at the end of an event's items is without its
        required following item, too, if another event's reasoning follows it."""
        for form, following in pairwise(forms):
            if _is_reasoning_at(form, -1) and _is_reasoning_at(following, 0):
                return None
        return concatenate_forms(forms)

    def find_refusal(self, role: str, parts: list[Part], model: str | None) -> str:
        """Return the rule for an output that is an empty array, and for reasoning with nothing
        after it: "Item 'rs_…' of type 'reasoning' was provided without its required following item"
        (vercel/ai#7099). Anything of the same answer may follow it."""
        if role == "result":
            return "" if parts else "an output is not an empty array"
        if role == "step" and parts and isinstance(parts[-1], Reasoning):
            return "an item has to follow reasoning"
        return ""

    def repair_form(self, form: Form, stored: bool) -> tuple[Form, list[str]]:
        """Return the items without what the service was seen to refuse."""
        if not isinstance(form, list):
            return form, []
        # "Invalid 'input[0].content': empty array. Expected an array with minimum length 1"
        said = [item for item in form if "role" not in item or item.get("content") != []]
        kept, reasons = _unbind_reasoning(said) if stored else _remove_ids(said)
        if len(said) < len(form):
            reasons = [*reasons, "an empty message is left out"]
        whole = [_fill_item(item) for item in kept]
        if whole != kept:
            reasons = [*reasons, FILLED]
        return _put_messages_first(whole), reasons

    def rename_result(self, form: Form, id: str) -> Form:
        """Return an output for the same call with another id."""
        [item] = form
        return [item | {"call_id": id}]

    # --- around the messages ---

    def write_tool(self, tool: ToolDefinition) -> dict[str, Any]:
        """Write the definition of a function."""
        return {"type": "function"} | describe_tool(tool) | {"parameters": get_schema(tool)}

    def write_tool_choice(self, mode: str, name: str | None) -> Body:
        """Return the field of a tool choice."""
        if mode == "tool":
            return {"tool_choice": {"type": "function", "name": name}}
        return {"tool_choice": mode} if mode else {}


# --- units ---


class ItemRun:
    """Items of the model in a row, which are one answer."""

    def __init__(self) -> None:
        self._items: list[tuple[str, Item]] = []
        self._has_message = False
        self._has_call = False

    def add(self, path: str, item: Item) -> None:
        """Take one more item."""
        self._items.append((path, item))
        if "role" in item:
            self._has_message = True
        is_run = is_service_call(item) or _is_service_search(item)
        if item.get("type") in CALLS and not is_run:
            self._has_call = True

    def ends_before(self, item: Item) -> bool:
        """Return True for reasoning or a message after a message without a call: the model was
        asked again."""
        if not self._has_message or self._has_call:
            return False
        return "role" in item or item.get("type") == "reasoning"

    def take(self) -> Iterator[Unit]:
        """Yield the answer that the items are, if there are any, and begin a new one."""
        form: list[Item] = []
        parts: list[Part] = []
        for path, item in self._items:
            form.append(item)
            parts.extend(read_item(item, path))
        if form:
            first_path, _ = self._items[0]
            yield Unit("step", form, parts, first_path)
        self._items = []
        self._has_message = False
        self._has_call = False


def _read_units(body: Mapping[str, Any]) -> Iterator[Unit]:
    input = body.get("input")
    if isinstance(input, str):
        yield Unit("user", input, [Text(input)], "input")
        return
    if input is None and body.get("prompt"):  # a template in the service's store is all of it
        return
    run = ItemRun()
    for path, item in items(dict(body), "input"):
        role = _read_role(item, path)
        if role != "step":
            yield from run.take()
            yield Unit(role, [item], read_item(item, path), path)
            continue
        if run.ends_before(item):
            yield from run.take()
        run.add(path, item)
    yield from run.take()


def _mark_referred(units: Iterable[Unit]) -> Iterator[Unit]:
    """Mark the units with references to items in the service's store, and the results directly
    after them that answer calls in the store."""
    called: set[str | None] = set()
    is_referring = False
    for unit in units:
        is_marked = False
        if unit.role == "step":
            called.update(part.id for part in unit.parts if isinstance(part, Call))
            is_marked = is_referring = REFERENCE in unit.parts
        elif unit.role == "result":
            ids = {part.id for part in unit.parts if isinstance(part, Result)}
            is_marked = is_referring and called.isdisjoint(ids)
        else:
            is_referring = False
        yield unit._replace(took=(*unit.took, Accepted.REFERRED)) if is_marked else unit


def _read_role(item: Item, path: str) -> str:
    type_ = item.get("type")
    if type_ == "additional_tools":
        return "system"
    if type_ == "mcp_approval_response":
        return "user"
    if type_ in (None, "message") and "role" in item:
        return ROLES[one_of(item["role"], tuple(ROLES), f"{path}.role")]
    if type_ is None and "id" in item:
        return "step"  # an item_reference, whose type may be left out
    field(item, "type", str, path)
    return "result" if _is_output(item) else "step"


def _list_items(form: Form) -> list[Any]:
    """Return a form as a list of items. An input may be a bare text."""
    return [{"role": "user", "content": form}] if isinstance(form, str) else form


# --- items ---


def read_item(item: Item, path: str) -> list[Part]:
    """Return the parts of an item."""
    type_: Any = item.get("type")
    if is_service_call(item) or _is_service_search(item):
        return [_read_service_item(item, type_)]
    if "role" in item and type_ in (None, "message"):
        parts = _read_content(item.get("content"), f"{path}.content")
        return [*parts, *map(Other, _list_extras(item))]
    if type_ == "reasoning":
        return [_read_reasoning(item)]
    if type_ in (None, "item_reference"):
        return [REFERENCE]
    if type_ in CALLS:
        return [_read_call(item, type_, path)]
    if _is_output(item):
        return [_read_result(item, path)]
    return [COMPACTION if type_ == "compaction" else Other(type_)]


def _read_service_item(item: Item, type_: str) -> Other:
    """Describe what the service ran itself, for other providers."""
    name = type_.removesuffix("_call")
    if _is_service_search(item):
        return describe_run(type_, name, item.get("arguments") or item.get("tools"))
    return describe_run(type_, name, {**item, "status": None})


def is_service_call(item: Item) -> bool:
    """Return True if the service ran the call itself. What xAI does on X comes as calls of custom
    tools, too: their ids show it (vercel/ai, packages/xai)."""
    if item.get("type") in SERVICE_CALLS:
        return True
    return item.get("type") == CUSTOM and str(item.get("call_id")).startswith("xs_call_")


def _is_service_search(item: Item) -> bool:
    """Return True for a search for tools that the service ran itself, and for what it found."""
    is_search = item.get("type") in ("tool_search_call", "tool_search_output")
    return is_search and item.get("execution") == "server"


def _read_call(item: Item, type_: str, path: str) -> Part:
    extras = _list_extras(item)
    if type_ not in ("function_call", CUSTOM):
        return _read_tool_call(item, type_, extras)
    id = id_in(item, "call_id", path)
    if type_ == CUSTOM:
        text = field(item, "input", str, path)
        name = name_in(item, "name", path)
        return Call(id, name, {"input": text}, kind=CUSTOM, extras=extras)
    arguments = field(item, "arguments", str, path)
    name = name_in(item, "name", path)
    call = make_call(id, name, arguments)
    return call._replace(extras=extras)


def _read_tool_call(item: Item, type_: str, extras: tuple[str, ...]) -> Part:
    """Read a call of a tool of OpenAI's own that the caller runs."""
    id = item.get("call_id")
    if not isinstance(id, str):
        return Other(type_)
    arguments: dict[str, Any] = {}
    for key, value in item.items():
        if key not in CALL_FRAME:
            arguments[key] = value
    name = type_.removesuffix("_call")
    return Call(id, name, arguments, kind=type_, extras=extras)


def _list_extras(item: Item) -> tuple[str, ...]:
    """Return the names of fields that no other format can express."""
    extras: list[str] = []
    for key in EXTRAS:
        value = item.get(key)
        if value and value != DIRECT_CALLER:
            extras.append(key)
    return tuple(extras)


def _read_reasoning(item: Item) -> Reasoning:
    """Read a reasoning item. OpenAI wants a summary: "missing required field summary" (Agora#141).
    Other servers have the text of the reasoning in the item instead."""
    summary = _join_reasoning(item.get("summary"))
    text = summary or _join_reasoning(item.get("content"))
    is_complete = isinstance(item.get("summary", item.get("content")), list)
    seal = item["encrypted_content"] if _is_sealed(item) else ""
    return Reasoning(text, seal, is_complete)


def _join_reasoning(parts: Any) -> str:
    texts: list[str] = []
    if not isinstance(parts, list):
        return ""
    for part in parts:
        text = part.get("text") if isinstance(part, dict) else None
        if isinstance(text, str) and not is_blank(text):
            texts.append(text.strip())
    return BETWEEN.join(texts)


def _is_output(item: Item) -> bool:
    """Return True if the caller gave the item back for a call. Some outputs the service makes
    itself."""
    if item.get("type") not in OUTPUTS or _is_service_search(item):
        return False
    return item["type"] == FUNCTION_OUTPUT or isinstance(_find_call_id(item), str)


def _find_call_id(item: Item) -> Any:
    """Return the id of the call that an output answers."""
    is_local = item.get("type") == "local_shell_call_output" and "call_id" not in item
    return item.get("id" if is_local else "call_id")


def _read_result(item: Item, path: str) -> Result:
    parts = _read_output(item, f"{path}.output")
    for name in _list_extras(item):
        parts.append(Other(name))
    id = text_or_none(_find_call_id(item), f"{path}.call_id")
    kind = CALL_OF_OUTPUT[item["type"]]
    return make_result(id or "", parts, None, kind=kind)


def _read_output(item: Item, path: str) -> list[Part]:
    found = item.get("output")
    match item["type"]:
        case "computer_call_output":
            return [_read_screenshot(found)]
        case "shell_call_output":
            return [Text(_read_shell(found))]
        case "tool_search_output":
            return [Text(write_json(item.get("tools") or []))]
        case "apply_patch_call_output":
            return [Text(found if isinstance(found, str) else str(item.get("status") or ""))]
    return _read_content(found, path)


def _read_screenshot(found: Any) -> Part:
    url = found.get("image_url") if isinstance(found, dict) else None
    if isinstance(url, str):
        return from_url(url, "image")
    return Other("a screenshot in the service's store", media="image")


def _read_shell(chunks: Any) -> str:
    """Return what a shell printed, in its order."""
    texts: list[Any] = []
    for chunk in chunks if isinstance(chunks, list) else ():
        if not isinstance(chunk, dict):
            continue
        texts.append(chunk.get("stdout"))
        texts.append(chunk.get("stderr"))
        outcome = chunk.get("outcome")
        if isinstance(outcome, dict) and outcome.get("exit_code"):
            texts.append(f"(exit code {outcome['exit_code']})")
    printed = [text for text in texts if isinstance(text, str) and not is_blank(text)]
    return "\n".join(printed)


def _read_content(content: Any, path: str) -> list[Part]:
    if isinstance(content, str):
        return [Text(content)]
    if content is None:
        raise wrong(path, "expected a string or an array of parts, found null")
    parts: list[Part] = []
    for where, part in objects(content, path):
        parts.extend(_read_part(part, where))
    return parts


def _read_part(part: dict[str, Any], path: str) -> list[Part]:
    match field(part, "type", str, path):
        case "input_text" | "output_text" | "text":
            text = Text(field(part, "text", str, path))
            return [text, Other("annotations")] if part.get("annotations") else [text]
        case "refusal":
            return [Text(field(part, "refusal", str, path))]
        case "input_image":
            return [_read_image(part)]
        case "input_file":
            return [_read_file(part)]
        case "input_audio":
            return [read_sound(part.get("input_audio"))]
        case other:
            return [Other(other, complete=other not in FOREIGN)]


def _read_image(part: dict[str, Any]) -> Part:
    if isinstance(part.get("image_url"), str):
        return from_url(part["image_url"], "image", detail=detail_of(part))
    if isinstance(part.get("file_id"), str):
        return Other("an image in the service's store", media="image")
    return Other("input_image", complete=False, media="image")


def _read_file(part: dict[str, Any]) -> Part:
    name = part.get("filename")
    if not isinstance(name, str):
        name = None
    detail = detail_of(part)
    data = part.get("file_data")
    url = part.get("file_url")
    if isinstance(data, str):
        return read_file_data(data, name, detail)
    if isinstance(url, str):
        return Media("document", PDF, url=url, name=name, detail=detail)
    if isinstance(part.get("file_id"), str):
        return Other("a file in the service's store", media="document")
    return Other("input_file", complete=False, media="document")


# --- outputs of the kinds of calls ---


def _write_function_output(id: str, content: Any, _error: bool) -> Item:
    return {"type": FUNCTION_OUTPUT, "call_id": id, "output": content}


def _write_custom_output(id: str, content: Any, _error: bool) -> Item:
    return {"type": CALLS[CUSTOM], "call_id": id, "output": content}


def _write_shell_output(id: str, content: Any, error: bool) -> Item:
    chunk: Item = {"stdout": content, "stderr": ""}
    if error:
        chunk = {"stdout": "", "stderr": content}
    chunk["outcome"] = {"type": "exit", "exit_code": int(error)}
    return {"type": "shell_call_output", "call_id": id, "output": [chunk]}


def _write_local_shell_output(id: str, content: Any, _error: bool) -> Item:
    return {"type": "local_shell_call_output", "id": id, "output": content}


def _write_patch_output(id: str, content: Any, error: bool) -> Item:
    status = "failed" if error else "completed"
    return {"type": "apply_patch_call_output", "call_id": id, "status": status, "output": content}


OUTPUT_WRITERS: dict[str, Callable[[str, Any, bool], Item]] = {
    CUSTOM: _write_custom_output,
    "shell_call": _write_shell_output,
    "local_shell_call": _write_local_shell_output,
    "apply_patch_call": _write_patch_output,
}


# --- what the service was seen to refuse ---


def _is_reasoning_at(form: Form, index: int) -> bool:
    if not isinstance(form, list) or not form:
        return False
    item = form[index]
    return isinstance(item, dict) and item.get("type") == "reasoning"


def _unbind_reasoning(form: list[Item]) -> tuple[list[Item], list[str]]:
    """Change reasoning with an id before a message without one, which was refused: the service
    looks for the message that it knows. Sealed reasoning goes without its id; other reasoning
    cannot go."""
    kept: list[Item] = []
    lost: list[str] = []
    for item, following in zip(form, [*form[1:], {}], strict=True):
        if not _is_named_reasoning(item) or "role" not in following or "id" in following:
            kept.append(item)
        elif _is_sealed(item):
            kept.append(_remove_id(item))
        else:
            lost.append("reasoning that the service would not find is left out")
    return kept, lost


def _is_named_reasoning(item: Item) -> bool:
    """Return True for reasoning that is known by its id. Other servers put its text into the item,
    where it counts."""
    return item.get("type") == "reasoning" and "id" in item and not item.get("content")


def _remove_ids(form: list[Item]) -> tuple[list[Item], list[str]]:
    """Remove the ids of items: "Item with id 'rs_…' not found. Items are not persisted when `store`
    is set to false" (vercel/ai#7543). Items that are nothing without the store are left out; calls
    that the service ran itself were accepted with their ids."""
    kept = [item for item in form if _is_whole(item)]
    bare = [_remove_id(item) if _is_free(item) else item for item in kept]
    if len(kept) == len(form):
        return bare, []
    lost = "what only the service's store could have read is left out"
    return bare, [f"{lost}: reasoning that is not sealed, or an item that needs its id"]


def _remove_id(item: Item) -> Item:
    return {key: value for key, value in item.items() if key != "id"}


def _is_free(item: Item) -> bool:
    """Return True if an item is complete without its id."""
    if "type" not in item:
        return "role" in item
    return item["type"] in FREE and not is_service_call(item)


def _is_whole(item: Item) -> bool:
    """Return True if an item is complete outside of the store."""
    type_ = item.get("type")
    if type_ == "reasoning":
        return _is_sealed(item) or bool(item.get("content"))
    if type_ in (None, "item_reference"):
        return "role" in item
    return True


def _is_sealed(item: Item) -> bool:
    """Return True if reasoning is in the item itself, for the service alone to read."""
    return isinstance(item.get("encrypted_content"), str) and bool(item["encrypted_content"])


def _fill_item(item: Item) -> Item:
    return fill_arguments(item) if item.get("type") == "function_call" else item


def _put_messages_first(form: list[Item]) -> list[Item]:
    """Put messages between two calls before the calls. DeepSeek refused them: "No tool output found
    for tool call call-a". Beside reasoning, or items that are known by their ids, the order
    counts."""
    calls: list[int] = []
    for index, item in enumerate(form):
        if item.get("type") == "reasoning" or "id" in item:
            return form
        if _is_answerable(item):
            calls.append(index)
    if len(calls) < 2:
        return form
    first, last = calls[0], calls[-1]
    messages: list[Item] = []
    others: list[Item] = []
    for item in form[first:last]:
        if "role" in item:
            messages.append(item)
        else:
            others.append(item)
    return form[:first] + messages + others + form[last:]


def _is_answerable(item: Item) -> bool:
    return item.get("type") in ("function_call", CUSTOM) and not is_service_call(item)


# --- streams ---

TEXT_DELTAS = frozenset({"response.output_text.delta", "response.refusal.delta"})
THINKING_DELTAS = frozenset(
    {"response.reasoning_summary_text.delta", "response.reasoning_text.delta"}
)


class ResponsesStream(StreamAssembler):
    """Assembles the events of one answer of the Responses API."""

    def __init__(self) -> None:
        # Items by their index in the answer. Two events of a server may have the same one.
        self._done: list[tuple[int, Item]] = []
        self._texts: dict[int, str] = {}  # of the items that are not done
        self._response: Mapping[str, Any] = {}

    def add(self, event: Mapping[str, Any]) -> list[StreamPiece]:
        """Take one event. Return its pieces of text and thinking."""
        kind = event.get("type")
        if event.get("response"):
            self._response = event["response"]
        index = event.get("output_index") or 0
        if kind == "error":
            self._response = {**self._response, "error": event.get("error") or event}
        if kind == "response.output_item.done":
            self._done.append((index, event["item"]))
            self._texts.pop(index, None)
        if kind in TEXT_DELTAS:
            self._texts[index] = self._texts.get(index, "") + event["delta"]
            return [("text", event["delta"])]
        if kind in THINKING_DELTAS:
            return [("thinking", event["delta"])]
        if kind == "response.reasoning_summary_part.done":
            return [("thinking", BETWEEN)]
        return []

    def finish(self) -> Body:
        """Return the whole answer. Its items are those that were done. The last event has them once
        more, with reasoning sealed anew; a recorded request sent back the first. Of an item that
        was cut off, its text is kept; a call that was cut off must not run."""
        output = self._response.get("output") or []
        if len(self._done) >= len(output):
            arrived = [*self._done]
            for index, text in self._texts.items():
                arrived.append((index, {"role": "assistant", "content": text}))
            arrived.sort(key=lambda one: one[0])
            output = [item for _, item in arrived]
        return {**self._response, "output": output}


RESPONSES = ResponsesFormat()
