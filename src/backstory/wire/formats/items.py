"""The items of OpenAI's Responses, one by one: what they say, and the outputs that calls get.

Besides functions there are tools of OpenAI's own that the caller runs (a shell, patches, a computer). Their
calls and outputs are calls and results like others, in a form of their own.
"""

from collections.abc import Callable
from typing import Any

from backstory.wire.formats.base import call_of
from backstory.wire.formats.fields import field, id_in, name_in, objects, text_or_none, wrong
from backstory.wire.formats.parts import bare, detail_of, read_sound
from backstory.wire.json_values import write_json
from backstory.wire.media import PDF, from_url
from backstory.wire.service_tools import ran
from backstory.wire.turns import Call, Media, Other, Part, Text, is_blank, make_result

CUSTOM = "custom_tool_call"
FUNCTION_OUTPUT = "function_call_output"
# Calls that the caller answers, and what their outputs are called.
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
REFERENCE = Other("item_reference")  # an item that is in the service's store
_CALL_OF = {output: call for call, output in CALLS.items()} | {FUNCTION_OUTPUT: ""}
# What the service ran itself.
RUN = frozenset(
    {"web_search_call", "file_search_call", "code_interpreter_call", "mcp_call", "x_search_call"}
)
# Fields of a call that are not what the tool was given.
_FRAME = frozenset({"type", "id", "call_id", "status", "execution", "caller", "created_by"})
# Parts that only other formats have: here they are a mistake, and refused.
FOREIGN = frozenset({"image_url", "image", "file", "document", "tool_use", "tool_result"})


def read_item(item: dict[str, Any], path: str) -> list[Part]:
    """The parts of an item."""
    type_: Any = item.get("type")
    if is_run(item):
        return [ran(type_, type_.removesuffix("_call"), {**item, "status": None})]
    if "role" in item and type_ in (None, "message"):
        return [*_read_content(item.get("content"), f"{path}.content"), *map(Other, _beside(item))]
    match type_:
        case "function_call":
            arguments = field(item, "arguments", str, path)
            called = call_of(id_in(item, "call_id", path), name_in(item, "name", path), arguments)
            return [called._replace(extras=_beside(item))]
        case "custom_tool_call":
            given = {"input": field(item, "input", str, path)}
            called = Call(
                id_in(item, "call_id", path), name_in(item, "name", path), given, kind=CUSTOM
            )
            return [called._replace(extras=_beside(item))]
        case "reasoning":
            return [Other("reasoning", complete=_is_whole_reasoning(item))]
        case None | "item_reference":
            return [REFERENCE]
    if type_ in CALLS and isinstance(item.get("call_id"), str):
        given = {key: value for key, value in item.items() if key not in _FRAME}
        name = type_.removesuffix("_call")
        return [Call(item["call_id"], name, given, kind=type_, extras=_beside(item))]
    if is_output(item):
        parts = [*_read_output(item, f"{path}.output"), *map(Other, _beside(item))]
        id = text_or_none(answered_id(item), f"{path}.call_id") or ""
        return [make_result(id, parts, None, kind=_CALL_OF[type_])]
    return [Other(type_)]


def is_run(item: dict[str, Any]) -> bool:
    """Whether the service ran it itself. What xAI does on X comes as calls of custom tools, too: their ids
    say so (vercel/ai, packages/xai)."""
    return item.get("type") in RUN or (
        item.get("type") == CUSTOM and str(item.get("call_id")).startswith("xs_call_")
    )


def _is_whole_reasoning(item: dict[str, Any]) -> bool:
    """OpenAI wants a summary: "missing required field summary" (Agora#141). Other servers have the text of
    the reasoning in the item instead."""
    return isinstance(item.get("summary", item.get("content")), list)


def _beside(item: dict[str, Any]) -> tuple[str, ...]:
    """What an item has that no other format can say."""
    return tuple(key for key in _BESIDE if item.get(key) and item[key] != {"type": "direct"})


# Of a tool, of a message, a program that makes a call, and warnings about a computer.
_BESIDE = ("namespace", "phase", "caller", "acknowledged_safety_checks")


def answered_id(item: dict[str, Any]) -> Any:
    """The id of the call that an item is the output of."""
    is_local = item.get("type") == "local_shell_call_output" and "call_id" not in item
    return item.get("id" if is_local else "call_id")


def is_output(item: dict[str, Any]) -> bool:
    """Whether an item is what the caller gave back for a call; some the service makes itself."""
    if item.get("type") not in OUTPUTS:
        return False
    return item["type"] == FUNCTION_OUTPUT or isinstance(answered_id(item), str)


def _read_output(item: dict[str, Any], path: str) -> list[Part]:
    found = item.get("output")
    match item["type"]:
        case "computer_call_output":
            return _read_screenshot(found)
        case "shell_call_output":
            return [Text(_shell_text(found))]
        case "tool_search_output":
            return [Text(write_json(item.get("tools") or []))]
        case "apply_patch_call_output":
            return [Text(found if isinstance(found, str) else str(item.get("status") or ""))]
    return _read_content(found, path)


def _read_screenshot(found: Any) -> list[Part]:
    match found:
        case {"image_url": str(url)}:
            return [from_url(url, "image")]
        case _:
            return [Other("a screenshot in the service's store", media="image")]


def _shell_text(chunks: Any) -> str:
    """What a shell printed, in the order it came."""
    texts = []
    for chunk in chunks if isinstance(chunks, list) else ():
        if isinstance(chunk, dict):
            texts += [chunk.get("stdout"), chunk.get("stderr")]
            outcome = chunk.get("outcome")
            code = outcome.get("exit_code") if isinstance(outcome, dict) else None
            texts += [f"(exit code {code})"] if code else []
    return "\n".join(text for text in texts if isinstance(text, str) and not is_blank(text))


def _read_content(content: Any, path: str) -> list[Part]:
    if isinstance(content, str):
        return [Text(content)]
    if content is None:
        raise wrong(path, "expected a string or an array of parts, found null")
    return [part for where, found in objects(content, path) for part in _read_part(found, where)]


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
    match part:
        case {"image_url": str(url)}:
            return from_url(url, "image", detail=detail_of(part))
        case {"file_id": str()}:
            return Other("an image in the service's store", media="image")
        case _:
            return Other("input_image", complete=False, media="image")


def _read_file(part: dict[str, Any]) -> Part:
    name = part.get("filename") if isinstance(part.get("filename"), str) else None
    detail = detail_of(part)
    match part:
        case {"file_data": str(data)}:
            found = from_url(data, "document", name=name, detail=detail)
            return found if found.data is not None else bare(found, data)
        case {"file_url": str(url)}:
            return Media("document", PDF, url=url, name=name, detail=detail)
        case {"file_id": str()}:
            return Other("a file in the service's store", media="document")
        case _:
            return Other("input_file", complete=False, media="document")


def output(id: str, content: Any, error: bool, kind: str) -> dict[str, Any]:
    """The output of a call, whatever kind it is."""
    return _WRITERS.get(kind, _function_output)(id, content, error)


def _function_output(id: str, content: Any, _error: bool) -> dict[str, Any]:
    return {"type": FUNCTION_OUTPUT, "call_id": id, "output": content}


def _custom_output(id: str, content: Any, _error: bool) -> dict[str, Any]:
    return {"type": CALLS[CUSTOM], "call_id": id, "output": content}


def _shell_output(id: str, content: Any, error: bool) -> dict[str, Any]:
    streams = {"stdout": "", "stderr": content} if error else {"stdout": content, "stderr": ""}
    chunk = streams | {"outcome": {"type": "exit", "exit_code": int(error)}}
    return {"type": "shell_call_output", "call_id": id, "output": [chunk]}


def _local_shell_output(id: str, content: Any, _error: bool) -> dict[str, Any]:
    return {"type": "local_shell_call_output", "id": id, "output": content}


def _patch_output(id: str, content: Any, error: bool) -> dict[str, Any]:
    status = "failed" if error else "completed"
    return {"type": "apply_patch_call_output", "call_id": id, "status": status, "output": content}


_WRITERS: dict[str, Callable[[str, Any, bool], dict[str, Any]]] = {
    CUSTOM: _custom_output,
    "shell_call": _shell_output,
    "local_shell_call": _local_shell_output,
    "apply_patch_call": _patch_output,
}
# Not a computer's: that is a screenshot. A function's output was accepted for a search for tools.
KINDS = frozenset({"", "tool_search_call", *_WRITERS})
