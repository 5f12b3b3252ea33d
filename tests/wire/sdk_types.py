"""Holds a dumped body against the real SDKs' own types, strictly. Judges structure, not sequence.

Two traps, both met here. The SDKs declare nested lists as Iterable, which pydantic validates only when
somebody iterates: so the result is walked to its leaves and compared with the input. And Anthropic's unions
also take its response models, which allow unknown fields: so a dictionary that came back as a model did not
fit the request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError


def check(body: Any, format: str) -> None:
    """Raise ValueError, with the path into the body, unless the SDK of the format takes every part of it."""
    required, optional = KEYS[format]
    if not isinstance(body, dict):
        raise ValueError(f"body: expected an object, got {type(body).__name__}")
    if missing := required - body.keys():
        raise ValueError(f"body: {sorted(missing)} missing")
    if unknown := body.keys() - required - optional:
        raise ValueError(f"body: {sorted(map(str, unknown))} unknown")
    CHECKS[format](body)


KEYS: dict[str, tuple[set[str], set[str]]] = {
    "openai": ({"messages"}, set()),
    "openai-responses": ({"input"}, {"instructions"}),
    "anthropic": ({"messages"}, {"system"}),
    "gemini": ({"contents"}, {"systemInstruction"}),
    "bedrock": ({"messages"}, {"system", "toolConfig"}),
}


def _openai(body: dict[str, Any]) -> None:
    for path, message in _elements(body, "messages"):
        _fits(_adapter("chat message"), message, path)


def _responses(body: dict[str, Any]) -> None:
    _fits(_adapter("text"), body.get("instructions", ""), "instructions")
    if isinstance(body["input"], str):
        return
    for path, item in _elements(body, "input"):
        _fits(_adapter("response item"), _as_if_stored(item), path)


def _anthropic(body: dict[str, Any]) -> None:
    _fits(_adapter("anthropic system"), body.get("system", ""), "system")
    for path, message in _elements(body, "messages"):
        _fits(_adapter("anthropic message"), message, path)


def _gemini(body: dict[str, Any]) -> None:
    if "systemInstruction" in body:
        _fits_model(body["systemInstruction"], "systemInstruction")
    for path, content in _elements(body, "contents"):
        _fits_model(content, path)


def _bedrock(body: dict[str, Any]) -> None:
    validator, shape = _converse()
    report = validator.validate({"modelId": "any", **body}, shape)
    if report.has_errors():
        raise ValueError(f"body: {report.generate_report()}")


CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "openai": _openai,
    "openai-responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "bedrock": _bedrock,
}


def _elements(body: dict[str, Any], key: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(body[key], list):
        raise ValueError(f"{key}: expected a list, got {type(body[key]).__name__}")
    for index, element in enumerate(body[key]):
        yield f"{key}[{index}]", element


@cache
def _adapter(name: str) -> TypeAdapter[Any]:
    """The SDK's request type by our name for it; built once, as the unions are large."""
    return TypeAdapter(_type(name), config=ConfigDict(extra="forbid", strict=True))


def _type(name: str) -> Any:
    match name:
        case "chat message":
            from openai.types.chat import ChatCompletionMessageParam

            return ChatCompletionMessageParam
        case "response item":
            from openai.types.responses import ResponseInputItemParam

            return ResponseInputItemParam
        case "anthropic message":
            from anthropic.types import AssistantMessageParam, UserMessageParam

            # The SDK's union has a system message too; a dump never sends one, since most models refuse it.
            return UserMessageParam | AssistantMessageParam
        case "anthropic system":
            from anthropic.types import TextBlockParam

            return str | list[TextBlockParam]
        case _:
            return str


@cache
def _content() -> TypeAdapter[Any]:
    from google.genai import types

    return TypeAdapter(types.Content)


@cache
def _converse() -> tuple[Any, Any]:
    """Botocore's validator and the shape of Converse, from the service model that it ships."""
    from botocore.loaders import Loader
    from botocore.model import ServiceModel
    from botocore.validate import ParamValidator

    service = ServiceModel(Loader().load_service_model("bedrock-runtime", "service-2"))
    return ParamValidator(), service.operation_model("Converse").input_shape


def converse_fields() -> set[str]:
    """Return the fields of a request to Converse."""
    return set(_converse()[1].members)


def _as_if_stored(item: Any) -> Any:
    """The item with the fields of a stored one.

    The SDK types what the service once returned, with its id. The service takes the same items without one,
    and must be sent none when nothing is stored there; so what it would fill in is filled in here.
    """
    if not isinstance(item, dict):
        return item
    if item.get("type") == "reasoning":
        return {"id": "rs_", **item}
    content = item.get("content")
    if item.get("role") == "assistant" and isinstance(content, list):
        parts = [_with_annotations(part) for part in content]
        return {"id": "msg_", "type": "message", "status": "completed", **item, "content": parts}
    return item


def _with_annotations(part: Any) -> Any:
    is_text = isinstance(part, dict) and part.get("type") == "output_text"
    return {"annotations": [], **part} if is_text else part


def _fits(adapter: TypeAdapter[Any], value: Any, path: str) -> None:
    try:
        _same(adapter.validate_python(value), value, path)
    except ValidationError as error:
        raise ValueError(_said(error, path)) from error


def _same(validated: Any, value: Any, path: str) -> None:
    """Walk what the validator gave back, which runs the lazy parts, and demand that nothing was changed."""
    if isinstance(validated, BaseModel):
        raise ValueError(f"{path}: fits only the SDK's response model {type(validated).__name__}")
    if isinstance(value, dict) and isinstance(validated, dict):
        if validated.keys() != value.keys():
            raise ValueError(
                f"{path}: {sorted(map(str, validated.keys() ^ value.keys()))} appeared or vanished"
            )
        for key, child in value.items():
            _same(validated[key], child, f"{path}.{key}")
    elif isinstance(value, list) and not isinstance(validated, str):
        _same_list(validated, value, path)
    elif type(validated) is not type(value) or validated != value:
        raise ValueError(f"{path}: {value!r} is not of the type (it was read as {validated!r})")


def _same_list(validated: Any, value: list[Any], path: str) -> None:
    iterator = iter(validated)
    for index, child in enumerate(value):
        try:
            element = next(iterator)
        except ValidationError as error:
            raise ValueError(_said(error, f"{path}[{index}]")) from error
        _same(element, child, f"{path}[{index}]")


def _fits_model(content: Any, path: str) -> None:
    """Gemini's types are models of JSON: read strictly, written again by their wire names, and compared."""
    try:
        # As JSON, because base64 is bytes only there. The models forbid unknown fields themselves.
        read = _content().validate_json(json.dumps(content), strict=True)
    except (ValidationError, TypeError) as error:
        raise ValueError(_said(error, path)) from error
    written = read.model_dump(mode="json", by_alias=True, exclude_unset=True)
    _same(_plain(written), _plain(content), path)


def _plain(value: Any, key: str = "") -> Any:
    """The same value with its base64 in one of the several spellings that mean the same bytes."""
    if isinstance(value, dict):
        return {name: _plain(child, name) for name, child in value.items()}
    if isinstance(value, list):
        return [_plain(child) for child in value]
    if key in ("data", "thoughtSignature") and isinstance(value, str):
        return value.replace("+", "-").replace("/", "_").rstrip("=")
    return value


def _said(error: Exception, path: str) -> str:
    """The complaint that was meant: of the member of the union whose role and type fit, the deepest one."""
    if not isinstance(error, ValidationError):
        return f"{path}: {error}"
    complaints = error.errors(include_url=False)
    others = {each["loc"][:1] for each in complaints if each["type"] == "literal_error"}
    meant = [each for each in complaints if each["loc"][:1] not in others] or complaints
    deepest = max(meant, key=lambda each: len(each["loc"]))
    return f"{path}: {'.'.join(map(str, deepest['loc']))}: {deepest['msg']}"
