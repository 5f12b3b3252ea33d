"""OpenAI Responses: `{"input": [...], "instructions"?}`, a flat list of items.

Pairing is by call_id; reasoning belongs to the item behind it. What an item is, its `type` says;
only messages may come without one. A form is a list of items.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from backstory.wire.formats.base import (
    Answered,
    Body,
    Form,
    Format,
    ToolDefinition,
    concatenated,
    describe_tool,
    get_schema,
    usage_with_details,
)
from backstory.wire.formats.fields import expect, field, items, objects, one_of, wrong
from backstory.wire.formats.items import (
    CALLS,
    CUSTOM,
    KINDS,
    OUTPUTS,
    REFERENCE,
    is_output,
    is_run,
    output,
    read_item,
)
from backstory.wire.formats.openai import FILLED, filled
from backstory.wire.json_values import write_json
from backstory.wire.media import IMAGES, PDF, as_words, data_url, file_name, web_url
from backstory.wire.origin import REFERRED
from backstory.wire.streams import responses_response
from backstory.wire.turns import BETWEEN, Call, Media, Other, Part, Result, Text, Unit

ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "step"}
# Items that say all there is to say without their ids.
FREE = frozenset(
    {"message", "reasoning", "compaction", "function_call", "custom_tool_call", *OUTPUTS}
)
# What a request continues that is in the service's store, and the field that names it.
CONTINUED = ("previous_response_id", "conversation")


def as_items(form: Form) -> list[Any]:
    """A form as a list of items; an input may be a bare text."""
    return [{"role": "user", "content": form}] if isinstance(form, str) else form


# --- reading ---


def _referred(units: Iterable[Unit]) -> Iterator[Unit]:
    """The units, marked where references stand for what the service has in its store, and where results
    directly behind them answer calls that are there."""
    called: set[str | None] = set()
    is_referring = False
    for unit in units:
        if unit.role == "step":
            called.update(part.id for part in unit.parts if isinstance(part, Call))
            is_referring = REFERENCE in unit.parts
        elif unit.role != "result":
            is_referring = False
        is_answer = unit.role == "result" and called.isdisjoint(
            part.id for part in unit.parts if isinstance(part, Result)
        )
        is_marked = is_referring and (unit.role == "step" or is_answer)
        yield unit._replace(took=(*unit.took, REFERRED)) if is_marked else unit


def _units(body: Mapping[str, Any]) -> Iterator[Unit]:
    if isinstance(body.get("input"), str):
        yield Unit("user", body["input"], [Text(body["input"])], "input")
        return
    if body.get("input") is None and body.get(
        "prompt"
    ):  # a template in the service's store says it all
        return
    step = Run()
    for path, item in items(dict(body), "input"):
        role = _role(item, path)
        if step.found and (role != "step" or step.is_over_before(item)):
            yield step.unit()
            step = Run()
        if role == "step":
            step.add(path, item)
        else:
            yield Unit(role, [item], read_item(item, path), path)
    if step.found:
        yield step.unit()


class Run:
    """Items of the model in a row."""

    def __init__(self) -> None:
        self.found: list[tuple[str, dict[str, Any]]] = []
        self._spoke = False
        self._called = False

    def add(self, path: str, item: dict[str, Any]) -> None:
        """Take in one more."""
        self.found.append((path, item))
        self._spoke = self._spoke or "role" in item
        self._called = self._called or (item.get("type") in CALLS and not is_run(item))

    def is_over_before(self, item: dict[str, Any]) -> bool:
        """Reasoning or a message behind a message that made no call: the model was asked again."""
        return (
            self._spoke and not self._called and ("role" in item or item.get("type") == "reasoning")
        )

    def unit(self) -> Unit:
        """The step that they are."""
        parts = [part for path, item in self.found for part in read_item(item, path)]
        return Unit("step", [item for _, item in self.found], parts, self.found[0][0])


def _role(item: dict[str, Any], path: str) -> str:
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
    return "result" if is_output(item) else "step"


# --- what recordings say about forms ---


def _is_reasoning(form: Form, index: int) -> bool:
    item = form[index] if isinstance(form, list) and form else None
    return isinstance(item, dict) and item.get("type") == "reasoning"


def _bound(form: list[Any]) -> tuple[list[Any], list[str]]:
    """A reasoning item with an id in front of a message without one was refused: the service looks for
    the message it knows. Sealed reasoning goes without its id; what is not sealed cannot go."""
    found: list[Any] = []
    lost = []
    for index, item in enumerate(form):
        following = form[index + 1] if index + 1 < len(form) else {}
        if is_bare_reasoning(item) and "role" in following and "id" not in following:
            if not is_sealed(item):
                lost.append("reasoning that the service would not find is left out")
                continue
            item = {key: value for key, value in item.items() if key != "id"}
        found.append(item)
    return found, lost


def is_bare_reasoning(item: dict[str, Any]) -> bool:
    """Reasoning that is known by its id: other servers put its text into the item, where it counts."""
    return item.get("type") == "reasoning" and "id" in item and not item.get("content")


def _unstored(form: list[Any]) -> tuple[list[Any], list[str]]:
    """The items without their ids: "Item with id 'rs_…' not found. Items are not persisted when `store` is
    set to false" (vercel/ai#7543). What is nothing without the store goes; what the service ran itself was
    accepted with its id."""
    kept = [item for item in form if _is_whole(item)]
    bare = [
        {key: value for key, value in item.items() if key != "id"} if _is_free(item) else item
        for item in kept
    ]
    if len(kept) == len(form):
        return bare, []
    lost = "what only the service's store could have read is left out"
    return bare, [f"{lost}: reasoning that is not sealed, or an item that needs its id"]


def _is_free(item: dict[str, Any]) -> bool:
    return (item.get("type") in FREE and not is_run(item)) or (
        "role" in item and "type" not in item
    )


def _is_whole(item: dict[str, Any]) -> bool:
    """Whether an item says all there is to say, outside of the store."""
    if item.get("type") == "reasoning":
        return is_sealed(item) or bool(item.get("content"))
    return item.get("type") not in (None, "item_reference") or "role" in item


def is_sealed(item: dict[str, Any]) -> bool:
    """Whether reasoning is in the item itself, for the service alone to read."""
    return isinstance(item.get("encrypted_content"), str) and bool(item["encrypted_content"])


def _in_order(form: list[Any]) -> list[Any]:
    """A message between two calls was refused by DeepSeek: "No tool output found for tool call call-a". It
    goes before the calls, unless there is reasoning, whose place counts."""
    calls = [
        index
        for index, item in enumerate(form)
        if item.get("type") in ("function_call", CUSTOM) and not is_run(item)
    ]
    if len(calls) < 2 or any(item.get("type") == "reasoning" or "id" in item for item in form):
        return form
    first, last = calls[0], calls[-1]
    between = form[first:last]
    messages = [item for item in between if "role" in item]
    return [
        *form[:first],
        *messages,
        *(item for item in between if "role" not in item),
        *form[last:],
    ]


class ResponsesFormat(Format):
    """OpenAI's Responses API."""

    name = "openai-responses"
    # "string too long. Expected … maximum length 64" (fastllm#45)
    ids = re.compile(r".{1,64}", re.DOTALL)
    alternates = False
    system_in_place = True
    result_errors = False
    has_detail = True
    kinds = KINDS
    parameters = MappingProxyType(
        {
            "max_tokens": "max_output_tokens",
            "temperature": "temperature",
            "top_p": "top_p",
            "effort": "reasoning.effort",
        }
    )

    def top(self, text: str) -> Form:
        """Return system text as it is: it goes into `instructions`."""
        return text

    def names_file(self, found: Media) -> bool:
        """Return True if a document comes with its data."""
        return found.url is None

    def said(self, role: str, content: Any, name: str | None) -> list[dict[str, Any]]:
        """A system or user message."""
        return [{"role": role, "content": content}]

    def words(self, text: str) -> dict[str, Any]:
        """A part of words."""
        return {"type": "input_text", "text": text}

    def media(self, found: Media, in_result: bool) -> dict[str, Any] | str | None:
        """Images and PDFs; text documents go as words."""
        text = as_words(found)
        if text is not None:
            return text
        url = web_url(found)
        if found.kind == "image":
            url = url or (data_url(found) if found.data and found.type in IMAGES else None)
            return (
                {"type": "input_image", "image_url": url, "detail": found.detail or "auto"}
                if url
                else None
            )
        if found.kind != "document":
            return None
        if url is not None:
            return {"type": "input_file", "file_url": url}
        if found.type != PDF or not found.data:
            return None
        return {"type": "input_file", "filename": file_name(found), "file_data": data_url(found)}

    def call(
        self, id: str, name: str, arguments: dict[str, Any], text: str | None
    ) -> dict[str, Any]:
        """A function_call item."""
        given = write_json(arguments) if text is None else text
        return {"type": "function_call", "call_id": id, "name": name, "arguments": given}

    def step(
        self, texts: Sequence[str], calls: list[Any], name: str | None
    ) -> list[dict[str, Any]]:
        """The model's message, if it said something, and its calls."""
        return [{"role": "assistant", "content": BETWEEN.join(texts)}, *calls] if texts else calls

    def result(
        self, id: str, name: str, content: Any, error: bool, kind: str
    ) -> list[dict[str, Any]]:
        """A call's output. A function's has no flag for an error: the text has to say it."""
        return [output(id, content, error, kind)]

    def body(
        self, system: list[Form], roles: list[str], forms: list[Form], names: Iterable[str]
    ) -> dict[str, Any]:
        """The request's instructions and input. A system message that was an input item stays one."""
        instructions = [form for form in system if isinstance(form, str)]
        placed = [item for form in system if not isinstance(form, str) for item in form]
        top = {"instructions": BETWEEN.join(instructions)} if instructions else {}
        if len(forms) == 1 and not placed and isinstance(forms[0], str):
            return {"input": forms[0]} | top
        return {"input": placed + [item for form in forms for item in as_items(form)]} | top

    def units(self, body: Mapping[str, Any]) -> Iterator[Unit]:
        """Messages and outputs are units; what the model made in one go is a step."""
        if body.get("instructions") is not None:
            text = expect(body["instructions"], str, "instructions")
            yield Unit("system", None, [Text(text)], "instructions")
        continued = {key: body[key] for key in CONTINUED if body.get(key)} or None
        if (
            continued and body.get("store") is False
        ):  # what it continues is in the store, though it is not itself
            continued["store"] = False
        is_first = True
        for unit in _referred(_units(body)):
            # What came before is in the service's store: there are the calls that these results answer.
            is_part = is_first or unit.role == "result"
            yield unit._replace(after=continued) if continued and is_part else unit
            is_first = False

    def answer_units(self, form: Form) -> Iterator[Unit]:
        """An answer is one step, but what the service ran itself has its output in there, and more of the answer
        behind it: a shell in a container, for one ("Hosted shell" in OpenAI's guide)."""
        step = Run()
        is_first = True
        for path, item in objects(form, "response"):
            role = _role(item, path)
            if role == "step":
                step.add(path, item)
                continue
            if step.found:
                yield step.unit()
                step = Run()
            yield Unit(role, [item], read_item(item, path), path)
            is_first = False
        if step.found:
            yield step.unit()
        elif is_first:
            yield Unit("step", form, [], "response")

    def read(self, role: str, form: Form, path: str) -> list[Part]:
        """The parts of a unit's items."""
        if isinstance(form, str) and role == "user":
            return [Text(form)]
        parts: list[Part] = []
        for where, item in objects(form, path):
            if _role(item, where) != role:
                raise wrong(where, f"this is not a {role} item")
            parts.extend(read_item(item, where))
        return parts

    def refuses(self, role: str, parts: list[Part]) -> bool:
        """Reasoning with nothing behind it: "Item 'rs_…' of type 'reasoning' was provided without its required
        following item" (vercel/ai#7099). Anything of the same answer may follow it. And an output that is an
        empty array."""
        if role == "result":
            return not parts
        return (
            role == "step"
            and bool(parts)
            and isinstance(parts[-1], Other)
            and parts[-1].what == "reasoning"
        )

    def joined(self, forms: list[Form]) -> Form | None:
        """Items of one answer. Reasoning at the end of an event's items is without its required following item,
        too, if another event's reasoning follows it."""
        is_torn = any(
            _is_reasoning(form, -1) and _is_reasoning(following, 0)
            for form, following in pairwise(forms)
        )
        return None if is_torn else concatenated(forms)

    def mended(self, form: Form, stored: bool) -> tuple[Form, list[str]]:
        """The items without what the service was seen to refuse."""
        if not isinstance(form, list):
            return form, []
        # "Invalid 'input[0].content': empty array. Expected an array with minimum length 1"
        said = [item for item in form if "role" not in item or item.get("content") != []]
        found, whys = _bound(said) if stored else _unstored(said)
        whole = [filled(item) if item.get("type") == "function_call" else item for item in found]
        whys += ["an empty message is left out"] if len(said) < len(form) else []
        return _in_order(whole), [*whys, *([FILLED] if whole != found else [])]

    def renamed(self, form: Form, id: str) -> Form:
        """An output for the same call under another id."""
        [item] = form
        return [item | {"call_id": id}]

    def answered(self, response: Mapping[str, Any]) -> Answered:
        """An answer's items, model and usage."""
        model = response.get("model")
        form = field(dict(response), "output", list, "response")
        usage = usage_with_details(response.get("usage"), "input_tokens", "output_tokens")
        return Answered(form, model if isinstance(model, str) else None, usage)

    def assembled(self, events: list[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the events of a stream as one answer."""
        return responses_response(events)

    def write_tool(self, tool: ToolDefinition) -> dict[str, Any]:
        """Write the definition of a function."""
        return {"type": "function"} | describe_tool(tool) | {"parameters": get_schema(tool)}

    def write_tool_choice(self, mode: str, name: str | None) -> Body:
        """Return the field of a tool choice."""
        if mode == "tool":
            return {"tool_choice": {"type": "function", "name": name}}
        return {"tool_choice": mode} if mode else {}


RESPONSES = ResponsesFormat()
