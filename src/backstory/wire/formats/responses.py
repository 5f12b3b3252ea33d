"""OpenAI Responses: `{"input": [...], "instructions"?}`, a flat list of items.

A result is paired with its call by call_id; reasoning belongs to the item after it. The `type` of
an item says what it is; only messages may come without one. A form is a list of items. Besides
functions there are tools of OpenAI's own that the caller runs (a shell, patches, a computer). Their
calls and outputs are calls and results like others, in forms of their own.
"""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from backstory.wire.fields import (
    WrongField,
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
from backstory.wire.formats.base import (
    CALLED_BY_MODEL,
    Body,
    Format,
    StreamAssembler,
    StreamPiece,
    ToolDefinition,
    WrittenBody,
    concatenate_forms,
    cut_arguments,
    describe_run,
    describe_tool,
    get_schema,
    has_text,
    make_call,
)
from backstory.wire.formats.openai import (
    FILLED,
    fill_arguments,
    read_detail,
    read_file_data,
    read_sound,
    write_image_url,
)
from backstory.wire.json_values import write_json
from backstory.wire.media import PDF, as_words, data_url, file_name, from_url, web_url
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
    Text,
    Turn,
    find_calls,
    is_blank,
    make_result,
    split_leading_system,
)

Item = dict[str, Any]

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "answer"}
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
    words="(earlier messages were compacted by openai)",
)
# Items that are complete without their ids.
FREE = frozenset({"message", "reasoning", "compaction", "function_call", CUSTOM, *OUTPUTS})
# The fields that name what a request continues in the service's store.
STORE_FIELDS = ("previous_response_id", "conversation")
# Fields of a call that are not arguments of the tool.
CALL_FRAME = frozenset({"type", "id", "call_id", "status", "execution", "caller", "created_by"})
# Fields that no other format can express: of a tool, of a message, a program that makes a call, and
# warnings about a computer.
EXTRAS = ("namespace", "phase", "caller", "acknowledged_safety_checks")
EXTRA_KEYS = frozenset(EXTRAS)
# Values of these fields that say nothing: the last is the caller of a call that the model made.
NOTHING_EXTRA: tuple[Any, ...] = (None, False, "", [], {}, CALLED_BY_MODEL)
# Parts that only other formats have: here they are a mistake, and refused.
OTHER_FORMATS_TYPES = frozenset(
    {"image_url", "image", "file", "document", "tool_use", "tool_result"}
)


class ResponsesFormat(Format):
    """OpenAI's Responses API."""

    name = "openai-responses"
    # "string too long. Expected … maximum length 64" (fastllm#45)
    call_ids = re.compile(r".{1,64}", re.DOTALL)
    alternates_roles = False
    system_in_place = True
    has_error_flag = False
    has_detail = True
    stores_conversations = True
    parameters = MappingProxyType(
        {
            "max_tokens": "max_output_tokens",
            "temperature": "temperature",
            "top_p": "top_p",
            "effort": "reasoning.effort",
        }
    )
    tool_choices = MappingProxyType({"auto": "auto", "none": "none", "required": "required"})
    conversation_fields = frozenset({"input", "instructions"})
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
    fact_paths = MappingProxyType(
        {
            "id": ("id",),
            "stop": ("incomplete_details.reason", "status"),
            "stored": ("store",),
            "tier": ("service_tier",),
            "diagnostics": ("prompt_cache_diagnostics",),
        }
    )
    usage_paths = MappingProxyType(
        {
            "input": ("input_tokens",),
            "output": ("output_tokens",),
            "cached": ("input_tokens_details.cached_tokens",),
        }
    )
    # A computer's output is a screenshot, which we cannot write. A function's output was accepted
    # for a search for tools.
    call_kinds = frozenset(
        {"", "tool_search_call", CUSTOM, "shell_call", "local_shell_call", "apply_patch_call"}
    )

    # --- writing ---

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
            url = write_image_url(found)
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
        """Write the output of a call."""
        content: Any = result.text
        if result.content is not None:
            content = self.write_content(result.content, in_result=True)
        return [write_output(call, content, bool(result.is_error))]

    def get_result_kind(self, kind: str) -> str:
        """Return the kind of the results of a call. A search for tools gets that of a function."""
        return "" if kind == "tool_search_call" else super().get_result_kind(kind)

    def write_body(self, turns: list[Turn]) -> WrittenBody:
        """Write instructions and input. A system message that was an input item stays one."""
        leading, rest = split_leading_system(turns)
        instructions = [turn.text for turn in leading if turn.form is None]
        items = [turn for turn in leading if turn.form is not None]
        input: list[Item] = []
        sources: list[Turn | Result] = []
        form: Form = None
        for _, form, source in self.write_forms([*items, *rest]):
            found = list_items(form)
            input.extend(found)
            sources.extend([source] * len(found))
        body: dict[str, Any] = {"input": input}
        if instructions:
            body["instructions"] = BETWEEN.join(instructions)
        if len(input) == 1 and isinstance(form, str):
            body["input"] = form
        return WrittenBody(body, sources, range(len(input)))

    # --- reading ---

    def read_body(self, body: Mapping[str, Any]) -> list[BodyUnit]:
        """Return messages, outputs, and the items that the model made in one go."""
        units = mark_referred(read_input(body))
        continued = {key: body[key] for key in STORE_FIELDS if body.get(key)}
        if continued:
            # A request can continue a stored answer although it is not stored itself.
            if body.get("store") is False:
                continued["store"] = False
            for index, unit in enumerate(units):
                # The calls that these results answer are in the service's store.
                if index == 0 or unit.role == "result":
                    units[index] = unit._replace(after=continued)
        if body.get("instructions") is None:
            return units
        text = field(body, "instructions", str)
        return [BodyUnit("system", None, [Text(text)]), *units]

    def read_form(self, role: str, form: Form) -> list[Part]:
        """Return the parts of a unit's items."""
        if isinstance(form, str) and role == "user":
            return [Text(form)]
        return read_each(form, partial(self._read_item, role))

    def _read_item(self, role: str, item: Item) -> list[Part]:
        if read_role(item) != role:
            raise WrongField(f"expected an item of the role {role}")
        return read_item(item)

    def recognizes(self, answer: Mapping[str, Any]) -> bool:
        """Return True if an answer, or the first event of a stream, has the shape of this
        format."""
        if isinstance(answer.get("output"), list):
            return True
        return str(answer.get("type")).startswith("response.")

    def read_response(self, response: Mapping[str, Any]) -> Form:
        """Return the items of an answer."""
        return [mark_cut_call(item) for item in field(response, "output", list)]

    def read_answer(self, form: Form) -> list[BodyUnit]:
        """Return the units of an answer. It is one unit, unless the service ran a tool itself, such
        as a shell in a container ("Hosted shell" in OpenAI's guide): its output and the rest of the
        answer follow."""
        return join_items(read_each(form, read_unit)) or [BodyUnit("answer", form, [])]

    def is_compaction(self, response: Mapping[str, Any]) -> bool:
        """Return True for an object `response.compaction`, which has the messages that were kept
        and one compaction item, and for a response with such an item ("Compaction" in OpenAI's
        guide)."""
        for item in response.get("output") or ():
            match item:
                case {"type": "compaction"}:
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
            if is_reasoning_at(form, -1) and is_reasoning_at(following, 0):
                return None
        return concatenate_forms(forms)

    def find_refusal(self, role: str, parts: list[Part], model: str | None) -> str:
        """Return the rule for an output that is an empty array, and for reasoning with nothing
        after it: "Item 'rs_…' of type 'reasoning' was provided without its required following item"
        (vercel/ai#7099). Anything of the same answer may follow it."""
        if role == "result":
            return "" if parts else "an output is not an empty array"
        if role == "answer" and parts and isinstance(parts[-1], Reasoning):
            return "an item has to follow reasoning"
        return ""

    def repair_form(self, form: Form, parts: list[Part], stored: bool) -> tuple[Form, list[str]]:
        """Return the items without what the service was seen to refuse."""
        if not isinstance(form, list):
            return form, []
        # "Invalid 'input[0].content': empty array. Expected an array with minimum length 1"
        filled = [item for item in form if "role" not in item or item.get("content") != []]
        kept, reasons = unbind_reasoning(filled) if stored else remove_ids(filled)
        if len(filled) < len(form):
            reasons.append("an empty message is left out")
        if not find_calls(parts):
            return kept, reasons
        whole = [fill_item(item) for item in kept]
        if whole != kept:
            reasons.append(FILLED)
        return put_messages_first(whole), reasons

    def rename_result(self, form: Form, id: str) -> Form:
        """Return an output for the same call with another id."""
        [item] = form
        return [item | {"call_id": id}]

    # --- around the messages ---

    def write_tool(self, tool: ToolDefinition) -> dict[str, Any]:
        """Write the definition of a function."""
        return {"type": "function"} | describe_tool(tool) | {"parameters": get_schema(tool)}

    def write_named_choice(self, name: str | None) -> Any:
        """Write the choice of the tool of this name."""
        return {"type": "function", "name": name}


# --- units ---


def read_input(body: Mapping[str, Any]) -> list[BodyUnit]:
    """Return the units of an input, which is a text or a list of items."""
    input = body.get("input")
    if isinstance(input, str):
        return [BodyUnit("user", input, [Text(input)])]
    if input is None and body.get("prompt"):  # a template in the service's store is all of it
        return []
    return join_items(read_items(body, "input", read_unit), is_history=True)


def read_unit(item: Item) -> list[BodyUnit]:
    """Return the unit of one item."""
    return [BodyUnit(read_role(item), [item], read_item(item))]


def join_items(units: list[BodyUnit], *, is_history: bool = False) -> list[BodyUnit]:
    """Join the items of the model in a row to one answer. In a history, these are several answers
    if the model was asked again."""
    joined: list[BodyUnit] = []
    for unit in units:
        is_continued = bool(joined) and unit.role == joined[-1].role == "answer"
        if is_continued and is_history:
            is_continued = not is_asked_again(joined[-1], unit.form[0])
        if is_continued:
            joined[-1].form.extend(unit.form)
            joined[-1].parts.extend(unit.parts)
        else:
            joined.append(unit)
    return joined


def is_asked_again(answer: BodyUnit, item: Item) -> bool:
    """Return True for reasoning or a message after a message without a call."""
    if "role" not in item and item.get("type") != "reasoning":
        return False
    has_message = False
    for before in answer.form:
        if before.get("type") in CALLS and not is_run_by_service(before):
            return False
        has_message = has_message or "role" in before
    return has_message


def mark_referred(units: list[BodyUnit]) -> list[BodyUnit]:
    """Mark the units with references to items in the service's store, and the results directly
    after them that answer calls in the store."""
    marked: list[BodyUnit] = []
    called: set[str | None] = set()
    is_referring = False
    for unit in units:
        is_marked = False
        if unit.role == "answer":
            called.update(part.id for part in unit.parts if isinstance(part, Call))
            is_marked = is_referring = REFERENCE in unit.parts
        elif unit.role == "result":
            ids = {part.id for part in unit.parts if isinstance(part, Result)}
            is_marked = is_referring and called.isdisjoint(ids)
        else:
            is_referring = False
        if is_marked:
            unit = unit._replace(accepted=(Accepted.REFERRED,))
        marked.append(unit)
    return marked


def read_role(item: Item) -> str:
    """Return our word for the role of an item."""
    if is_message(item):
        return ROLES[one_in(item, "role", ROLES)]
    match item.get("type"):
        case "additional_tools":
            return "system"
        case "mcp_approval_response":
            return "user"
        case None if "id" in item:
            return "answer"  # an item_reference, whose type may be left out
    field(item, "type", str)  # raises WrongField
    return "result" if is_output(item) else "answer"


def is_message(item: Item) -> bool:
    """Return True if an item is a message: the only one that may come without a type."""
    return "role" in item and item.get("type") in (None, "message")


def list_items(form: Form) -> list[Any]:
    """Return a form as a list of items. An input may be a bare text."""
    return [{"role": "user", "content": form}] if isinstance(form, str) else form


# --- items ---


def read_item(item: Item) -> list[Part]:
    """Return the parts of an item."""
    if is_message(item):
        return [*read_content(item, "content"), *map(Other, list_extras(item))]
    if item.get("type") == "reasoning":
        return [read_reasoning(item)]
    if is_run_by_service(item):
        return [read_service_item(item)]
    match item.get("type"):
        case None | "item_reference":
            return [REFERENCE]
        case "compaction":
            return [COMPACTION]
        case "function_call" | "custom_tool_call":
            return [read_call(item)]
        case type_ if type_ in CALLS:
            return [read_tool_call(item)]
        case type_ if not is_output(item):
            return [Other(str(type_))]
    return [read_result(item)]


def is_run_by_service(item: Item) -> bool:
    """Return True if the service ran a call itself, also for what its search for tools found. What
    xAI does on X comes as calls of custom tools: their ids show it (vercel/ai, packages/xai)."""
    match item:
        case {"type": "tool_search_call" | "tool_search_output", "execution": "server"}:
            return True
        case {"type": "custom_tool_call", "call_id": str(id)}:
            return id.startswith("xs_call_")
    return item.get("type") in SERVICE_CALLS


def read_service_item(item: Item) -> Other:
    """Return what the service ran itself, in words for other providers."""
    type_ = item["type"]
    name = type_.removesuffix("_call")
    if type_ in ("tool_search_call", "tool_search_output"):
        return describe_run(type_, name, item.get("arguments") or item.get("tools"))
    return describe_run(type_, name, {**item, "status": None})


def read_call(item: Item) -> Call:
    """Return a call of a function or of a custom tool."""
    id = text_or_none(item, "call_id") or ""
    is_custom = item["type"] == CUSTOM
    given = field(item, "input" if is_custom else "arguments", str)
    name = name_in(item, "name")
    if is_custom:
        return Call(id, name, {"input": given}, kind=CUSTOM, extras=list_extras(item))
    return make_call(id, name, given)._replace(extras=list_extras(item))


def read_tool_call(item: Item) -> Part:
    """Return a call of a tool of OpenAI's own that the caller runs."""
    type_, id = item["type"], item.get("call_id")
    if not isinstance(id, str):
        return Other(type_)
    name = type_.removesuffix("_call")
    return Call(id, name, list_arguments(item), kind=type_, extras=list_extras(item))


def list_arguments(item: Item) -> dict[str, Any]:
    """Return the fields of a call that are arguments of the tool."""
    return {key: value for key, value in item.items() if key not in CALL_FRAME}


def list_extras(item: Item) -> tuple[str, ...]:
    """Return the names of fields that no other format can express."""
    if EXTRA_KEYS.isdisjoint(item):
        return ()
    return tuple(key for key in EXTRAS if item.get(key) not in NOTHING_EXTRA)


def mark_cut_call(item: Any) -> Any:
    """Return an item that, if it is a call that was cut off, is a function call whose arguments are
    not JSON: no tool runs with them. Any text is an input of a custom tool."""
    match item:
        case {"type": str(type_), "status": "incomplete", "call_id": str(id)} if type_ in CALLS:
            if is_run_by_service(item):
                return item
            return {
                "type": "function_call",
                "call_id": id,
                "name": item.get("name") or type_.removesuffix("_call"),
                "arguments": cut_arguments(write_arguments(item)),
                "status": "incomplete",
            }
    return item


def write_arguments(item: Item) -> str:
    """Return the arguments of a call as JSON, or as far as they arrived."""
    if item["type"] == "function_call":
        return text_or_none(item, "arguments") or ""
    if item["type"] == CUSTOM:
        return read_as_json({"input": item.get("input") or ""})
    return read_as_json(list_arguments(item))


def read_reasoning(item: Item) -> Reasoning:
    """Return the reasoning in an item. OpenAI wants a summary: "missing required field summary"
    (Agora#141). Other servers have the text of the reasoning in the item instead."""
    text = join_reasoning(item.get("summary")) or join_reasoning(item.get("content"))
    is_complete = isinstance(item.get("summary", item.get("content")), list)
    seal = item["encrypted_content"] if is_sealed(item) else ""
    return Reasoning(text, seal, is_complete)


def join_reasoning(parts: Any) -> str:
    """Return the texts of a summary, or of the content of reasoning."""
    texts: list[str] = []
    for part in parts if isinstance(parts, list) else ():
        match part:
            case {"text": str(text)} if not is_blank(text):
                texts.append(text.strip())
    return BETWEEN.join(texts)


def is_output(item: Item) -> bool:
    """Return True if the caller gave the item back for a call. Some outputs the service makes
    itself."""
    type_ = item.get("type")
    if type_ not in OUTPUTS or is_run_by_service(item):
        return False
    return type_ == FUNCTION_OUTPUT or isinstance(find_call_id(item), str)


def find_call_id(item: Item) -> Any:
    """Return the id of the call that an output answers."""
    return item.get(name_call_id(item))


def name_call_id(item: Item) -> str:
    """Return the field of an output that has the id of its call."""
    is_local = item.get("type") == "local_shell_call_output" and "call_id" not in item
    return "id" if is_local else "call_id"


def read_result(item: Item) -> Result:
    """Return the result in an output."""
    id = text_or_none(item, name_call_id(item))
    parts = [*read_output(item), *map(Other, list_extras(item))]
    return make_result(id or "", parts, None, kind=CALL_OF_OUTPUT[item["type"]])


def read_output(item: Item) -> list[Part]:
    """Return the parts of an output."""
    output = item.get("output")
    match item["type"]:
        case "computer_call_output":
            return [read_screenshot(output)]
        case "shell_call_output":
            return [Text(read_shell(output))]
        case "tool_search_output":
            return [Text(read_as_json(item.get("tools") or []))]
        case "apply_patch_call_output":
            return [Text(output if isinstance(output, str) else str(item.get("status") or ""))]
    return read_content(item, "output")


def read_screenshot(output: Any) -> Part:
    """Return the screenshot of a computer."""
    match output:
        case {"image_url": str(url)}:
            return from_url(url, "image")
    return Other("a screenshot in the service's store", media="image")


def read_shell(chunks: Any) -> str:
    """Return what a shell printed, in its order."""
    lines: list[Any] = []
    for chunk in chunks if isinstance(chunks, list) else ():
        if not isinstance(chunk, dict):
            continue
        lines += [chunk.get("stdout"), chunk.get("stderr")]
        match chunk:
            case {"outcome": {"exit_code": code}} if code:
                lines.append(f"(exit code {code})")
    return "\n".join(line for line in lines if has_text(line))


def read_content(item: Item, key: str) -> list[Part]:
    """Return the parts of a content, which is a text or a list of parts."""
    content = item.get(key)
    if isinstance(content, str):
        return [Text(content)]
    if content is None:
        raise WrongField("expected a string or an array of parts, found null", f".{key}")
    return read_at(f".{key}", read_each, content, read_part)


def read_part(part: dict[str, Any]) -> list[Part]:
    """Return what a part says."""
    match field(part, "type", str):
        case "input_text" | "output_text" | "text":
            text = Text(field(part, "text", str))
            return [text, Other("annotations")] if part.get("annotations") else [text]
        case "refusal":
            return [Text(field(part, "refusal", str))]
        case "input_image":
            return [read_image(part)]
        case "input_file":
            return [read_file(part)]
        case "input_audio":
            return [read_sound(part.get("input_audio"))]
        case other:
            return [Other(other, is_complete=other not in OTHER_FORMATS_TYPES)]


def read_image(part: dict[str, Any]) -> Part:
    """Return an image by its address or its data; only the service has one that is named by its
    id."""
    match part:
        case {"image_url": str(url)}:
            return from_url(url, "image", detail=read_detail(part))
        case {"file_id": str()}:
            return Other("an image in the service's store", media="image")
    return Other("input_image", is_complete=False, media="image")


def read_file(part: dict[str, Any]) -> Part:
    """Return a file by its data or its address; only the service has one that is named by its
    id."""
    name, detail = string_in(part, "filename"), read_detail(part)
    match part:
        case {"file_data": str(data)}:
            return read_file_data(data, name, detail)
        case {"file_url": str(url)}:
            return Media("document", PDF, url=url, name=name, detail=detail)
        case {"file_id": str()}:
            return Other("a file in the service's store", media="document")
    return Other("input_file", is_complete=False, media="document")


def write_output(call: Call, content: Any, is_error: bool) -> Item:
    """Write the output of a call in the form of its kind. A function's has no flag for an error:
    the text has to say it."""
    match call.kind:
        case "shell_call":
            name = "stderr" if is_error else "stdout"
            outcome = {"type": "exit", "exit_code": int(is_error)}
            chunk = {"stdout": "", "stderr": "", name: content, "outcome": outcome}
            return {"type": "shell_call_output", "call_id": call.id, "output": [chunk]}
        case "local_shell_call":
            return {"type": "local_shell_call_output", "id": call.id, "output": content}
        case "apply_patch_call":
            status = "failed" if is_error else "completed"
            frame = {"type": "apply_patch_call_output", "call_id": call.id, "status": status}
            return {**frame, "output": content}
        case "custom_tool_call":
            return {"type": CALLS[CUSTOM], "call_id": call.id, "output": content}
    return {"type": FUNCTION_OUTPUT, "call_id": call.id, "output": content}


# --- what the service was seen to refuse ---


def is_reasoning_at(form: Form, index: int) -> bool:
    """Return True if the first or the last item of a form is reasoning."""
    match form[index:][:1] if isinstance(form, list) else ():
        case [{"type": "reasoning"}]:
            return True
    return False


def unbind_reasoning(form: list[Item]) -> tuple[list[Item], list[str]]:
    """Change reasoning with an id before a message without one, which was refused: the service
    looks for the message that it knows. Sealed reasoning goes without its id; other reasoning
    cannot go."""
    kept: list[Item] = []
    lost: list[str] = []
    for item, following in pairwise([*form, {}]):
        if not is_named_reasoning(item) or "role" not in following or "id" in following:
            kept.append(item)
        elif is_sealed(item):
            kept.append(remove_id(item))
        else:
            lost.append("reasoning that the service would not find is left out")
    return kept, lost


def is_named_reasoning(item: Item) -> bool:
    """Return True for reasoning that is known by its id. Other servers put its text into the item,
    where it counts."""
    return item.get("type") == "reasoning" and "id" in item and not item.get("content")


def remove_ids(form: list[Item]) -> tuple[list[Item], list[str]]:
    """Remove the ids of items: "Item with id 'rs_…' not found. Items are not persisted when `store`
    is set to false" (vercel/ai#7543). Items that are nothing without the store are left out; calls
    that the service ran itself were accepted with their ids."""
    kept = [item for item in form if is_whole(item)]
    bare = [remove_id(item) if "id" in item and is_free(item) else item for item in kept]
    if len(kept) == len(form):
        return bare, []
    lost = "what only the service's store could have read is left out"
    return bare, [f"{lost}: reasoning that is not sealed, or an item that needs its id"]


def remove_id(item: Item) -> Item:
    """Return an item without its id."""
    return {key: value for key, value in item.items() if key != "id"}


def is_free(item: Item) -> bool:
    """Return True if an item is complete without its id."""
    if "type" not in item:
        return "role" in item
    return item["type"] in FREE and not is_run_by_service(item)


def is_whole(item: Item) -> bool:
    """Return True if an item is complete outside of the store."""
    match item.get("type"):
        case "reasoning":
            return is_sealed(item) or bool(item.get("content"))
        case None | "item_reference":
            return "role" in item
    return True


def is_sealed(item: Item) -> bool:
    """Return True if reasoning is in the item itself, for the service alone to read."""
    return isinstance(item.get("encrypted_content"), str) and bool(item["encrypted_content"])


def fill_item(item: Item) -> Item:
    """Return an item that, if it is a call, has arguments that the service takes."""
    return fill_arguments(item) if item.get("type") == "function_call" else item


def put_messages_first(form: list[Item]) -> list[Item]:
    """Put messages between two calls before the calls. DeepSeek refused them: "No tool output found
    for tool call call-a". Beside reasoning, or items that are known by their ids, the order
    counts."""
    calls: list[int] = []
    for index, item in enumerate(form):
        type_ = item.get("type")
        if type_ == "reasoning" or "id" in item:
            return form
        if type_ in ("function_call", CUSTOM) and not is_run_by_service(item):
            calls.append(index)
    if len(calls) < 2:
        return form
    first, last = calls[0], calls[-1]
    between = sorted(form[first:last], key=lambda item: "role" not in item)
    return [*form[:first], *between, *form[last:]]


# --- streams ---

# The field that each kind of delta continues.
DELTAS = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.reasoning_summary_text.delta": "thinking",
    "response.reasoning_text.delta": "thinking",
    "response.function_call_arguments.delta": "arguments",
    "response.custom_tool_call_input.delta": "arguments",
}


class ResponsesStream(StreamAssembler):
    """Assembles the events of one answer of the Responses API."""

    def __init__(self) -> None:
        # Items by their index in the answer. Two events of a server may have the same one.
        self._done: list[tuple[int, Item]] = []
        # Of the items that are not done: what they began with, and their texts or arguments.
        self._begun: dict[int, Item] = {}
        self._texts: dict[int, str] = {}
        self._response: Mapping[str, Any] = {}

    def add(self, event: Mapping[str, Any]) -> list[StreamPiece]:
        """Take one event. Return its pieces of text and thinking."""
        index = event.get("output_index") or 0
        if event.get("response"):
            self._response = event["response"]
        match event.get("type"):
            case "error":
                self._response = {**self._response, "error": event.get("error") or event}
            case "response.output_item.added":
                self._begun[index] = event["item"]
            case "response.output_item.done":
                self._done.append((index, event["item"]))
                self._begun.pop(index, None)
                self._texts.pop(index, None)
            case "response.reasoning_summary_part.done":
                return [("thinking", BETWEEN)]
            case str(kind) if kind in DELTAS:
                return self._add_delta(index, DELTAS[kind], event["delta"])
        return []

    def _add_delta(self, index: int, what: str, delta: str) -> list[StreamPiece]:
        if what != "thinking":
            self._texts[index] = self._texts.get(index, "") + delta
        return [] if what == "arguments" else [(what, delta)]

    def finish(self) -> Body:
        """Return the whole answer. Prefer items from `output_item.done`: the last event seals
        reasoning anew, and a recorded request sent the former. Of an item that was cut off, its
        text is kept, or the call, which must not run."""
        output = self._response.get("output") or []
        if len(self._done) >= len(output):
            arrived = [*self._done, *self._list_cut_items()]
            arrived.sort(key=lambda one: one[0])
            output = [item for _, item in arrived]
        return {**self._response, "output": output}

    def _list_cut_items(self) -> Iterator[tuple[int, Item]]:
        """Yield the index and the item of each text and call that was cut off."""
        done = {item.get("call_id") for _, item in self._done}
        for index in self._begun.keys() | self._texts.keys():
            item = self._begun.get(index, {})
            text = self._texts.get(index, "")
            if item.get("type") not in CALLS:
                if text:
                    yield index, {"role": "assistant", "content": text}
            elif item.get("call_id") not in done:  # a server may give it another index when done
                key = "input" if item["type"] == CUSTOM else "arguments"
                cut = {**item, "status": "incomplete"}
                if text:
                    cut[key] = text
                yield index, cut


RESPONSES = ResponsesFormat()
