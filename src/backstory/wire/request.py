"""The whole request: what `dump` makes of the messages, and the model, tools and parameters around it.

Each format is a row of writers; what a format cannot say is reported as a repair. Pure.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

from backstory.log.settings import Settings
from backstory.wire.turns import Repair

Tool = Mapping[str, Any]
Body = dict[str, Any]

NO_PARAMETERS = {"type": "object", "properties": {}}
# Anthropic refuses a request without max_tokens.
ANTHROPIC_MOST_TOKENS = 4096
# OpenAI's reasoning models refuse max_tokens; servers that speak its language know only that.
_COUNTS_REASONING = re.compile(r"(?:.*/)?(?:o[1-9]|gpt-[5-9])")


class Envelope(NamedTuple):
    """How one format says what is not a message."""

    model: str  # the key that the model's name stands under
    tools: Callable[[list[Body]], Body]  # the fields that carry tools
    tool: Callable[[Tool], Body]
    params: Mapping[str, str]  # canonical name -> path in the body
    choice: Callable[[str, str | None], Body]  # mode and name of a tool choice, as fields


def request_body(
    body: Body, settings: Settings, format: str, model: str | None
) -> tuple[Body, list[Repair]]:
    """A dumped body with everything around it, and what could not be said."""
    envelope = ENVELOPES[format]
    repairs: list[Repair] = []
    whole: Body = {}
    name = model or settings.model
    if name is not None:
        whole[envelope.model] = name
    whole |= body
    tools = list(_tools(settings.tools, format, repairs))
    if tools:
        _merge(whole, envelope.tools(tools))
    own = settings.params.get(format)
    if isinstance(own, Mapping):  # the format's own parameters, as they were given
        _merge(whole, deepcopy(dict(own)))  # others are set within them
    for path, value in _params(settings.params, format, name, repairs, has_tools=bool(tools)):
        _set(whole, path, value)
    if format == "anthropic":
        whole.setdefault("max_tokens", ANTHROPIC_MOST_TOKENS)
        _leave_room_to_think(whole, repairs)
    return whole, repairs


def _leave_room_to_think(body: Body, repairs: list[Repair]) -> None:
    """Anthropic refuses a request whose max_tokens is not larger than the budget for thinking."""
    budget = (
        body["thinking"].get("budget_tokens") if isinstance(body.get("thinking"), Mapping) else None
    )
    if isinstance(budget, int) and budget >= body["max_tokens"]:
        body["max_tokens"] += budget
        said = f"max_tokens is {body['max_tokens']}: the budget of {budget} for thinking is a part of it"
        repairs.append(Repair("parameter", None, said))


def _tools(tools: Sequence[Tool], format: str, repairs: list[Repair]) -> Iterator[Body]:
    for tool in tools:
        native = tool.get("native")
        if native is None:
            yield ENVELOPES[format].tool(tool)
        elif native.get("format") == format and isinstance(native.get("wire"), Mapping):
            yield dict(native["wire"])
        elif "parameters" in tool:
            yield ENVELOPES[format].tool(tool)
        else:
            said = f"the tool {tool['name']!r} is known to {native.get('format')!r} only and was left out"
            repairs.append(Repair("tools", None, said))


def _params(
    params: Mapping[str, Any],
    format: str,
    model: str | None,
    repairs: list[Repair],
    *,
    has_tools: bool,
) -> Iterator[tuple[str, Any]]:
    """Where each canonical parameter goes. What stands under a format's name is that format's own."""
    envelope = ENVELOPES[format]
    for name, value in params.items():
        if name in ENVELOPES:
            continue
        fields: Body = {}
        if name == "tool_choice":
            fields = envelope.choice(*_choice(value)) if has_tools else {}
        elif name in envelope.params:
            fields = {_path(envelope, name, model): _value(format, name, value)}
        if not fields and (has_tools or name != "tool_choice"):
            said = f"the format {format} cannot say {name} = {value!r:.60}: it was left out"
            repairs.append(Repair("parameter", None, said))
        yield from fields.items()


def _path(envelope: Envelope, name: str, model: str | None) -> str:
    path = envelope.params[name]
    if (
        path == "max_tokens"
        and envelope is ENVELOPES["openai"]
        and _COUNTS_REASONING.match(model or "")
    ):
        return "max_completion_tokens"
    return path


def _value(format: str, name: str, value: Any) -> Any:
    if name == "thinking" and format == "anthropic":
        return {"type": "enabled", "budget_tokens": value}
    # All but OpenAI want a list of stop sequences, even for one.
    return [value] if name == "stop" and isinstance(value, str) and format != "openai" else value


def _choice(value: Any) -> tuple[str, str | None]:
    """A canonical tool choice: "auto", "none", "required", or {"name": …} for one tool."""
    if value in ("auto", "none", "required"):
        return str(value), None
    if isinstance(value, Mapping) and isinstance(value.get("name"), str):
        return "tool", value["name"]
    return "", None


def _set(body: Body, path: str, value: Any) -> None:
    *outer, last = path.split(".")
    for key in outer:
        body = body.setdefault(key, {})
    body[last] = value


def _merge(body: Body, fields: Body) -> None:
    for key, value in fields.items():
        both = isinstance(value, dict) and isinstance(body.get(key), dict)
        body[key] = body[key] | value if both else value


def _described(tool: Tool, **fields: Any) -> Body:
    described = {"description": tool["description"]} if tool.get("description") else {}
    return {"name": tool["name"], **described, **fields}


def _schema(tool: Tool) -> Any:
    return tool.get("parameters", NO_PARAMETERS)


def _gemini_tools(tools: list[Body]) -> Body:
    functions = [tool for tool in tools if "name" in tool]
    others = [tool for tool in tools if "name" not in tool]
    return {"tools": [*([{"functionDeclarations": functions}] if functions else []), *others]}


def _chosen(path: str, choices: Mapping[str, Any], mode: str) -> Body:
    return {path: choices[mode]} if mode in choices else {}


_PLAIN: Mapping[str, Any] = {"auto": "auto", "none": "none", "required": "required"}


def _openai_choice(mode: str, name: str | None) -> Body:
    one = {"tool": {"type": "function", "function": {"name": name}}}
    return _chosen("tool_choice", {**_PLAIN, **one}, mode)


def _responses_choice(mode: str, name: str | None) -> Body:
    return _chosen("tool_choice", {**_PLAIN, "tool": {"type": "function", "name": name}}, mode)


def _anthropic_choice(mode: str, name: str | None) -> Body:
    kinds = {"auto": {"type": "auto"}, "none": {"type": "none"}, "required": {"type": "any"}}
    return _chosen("tool_choice", {**kinds, "tool": {"type": "tool", "name": name}}, mode)


def _gemini_choice(mode: str, name: str | None) -> Body:
    # ANY with a list of names is Gemini's way to force one function.
    modes = {"auto": {"mode": "AUTO"}, "none": {"mode": "NONE"}, "required": {"mode": "ANY"}}
    one = {"tool": {"mode": "ANY", "allowedFunctionNames": [name]}}
    return _chosen("toolConfig.functionCallingConfig", {**modes, **one}, mode)


def _bedrock_choice(mode: str, name: str | None) -> Body:
    # Converse has no way to say "none".
    choices: Mapping[str, Body] = {
        "auto": {"auto": {}},
        "required": {"any": {}},
        "tool": {"tool": {"name": name}},
    }
    return _chosen("toolConfig.toolChoice", choices, mode)


ENVELOPES: Mapping[str, Envelope] = {
    "openai": Envelope(
        model="model",
        tools=lambda tools: {"tools": tools},
        tool=lambda tool: {
            "type": "function",
            "function": _described(tool, parameters=_schema(tool)),
        },
        params={
            "max_tokens": "max_tokens",
            "temperature": "temperature",
            "top_p": "top_p",
            "stop": "stop",
            "effort": "reasoning_effort",
        },
        choice=_openai_choice,
    ),
    "openai-responses": Envelope(
        model="model",
        tools=lambda tools: {"tools": tools},
        tool=lambda tool: {"type": "function", **_described(tool, parameters=_schema(tool))},
        params={
            "max_tokens": "max_output_tokens",
            "temperature": "temperature",
            "top_p": "top_p",
            "effort": "reasoning.effort",
        },
        choice=_responses_choice,
    ),
    "anthropic": Envelope(
        model="model",
        tools=lambda tools: {"tools": tools},
        tool=lambda tool: _described(tool, input_schema=_schema(tool)),
        params={
            "max_tokens": "max_tokens",
            "temperature": "temperature",
            "top_p": "top_p",
            "stop": "stop_sequences",
            "effort": "output_config.effort",
            "thinking": "thinking",
        },
        choice=_anthropic_choice,
    ),
    "gemini": Envelope(
        model="model",
        tools=_gemini_tools,
        tool=lambda tool: _described(tool, parametersJsonSchema=_schema(tool)),
        params={
            "max_tokens": "generationConfig.maxOutputTokens",
            "temperature": "generationConfig.temperature",
            "top_p": "generationConfig.topP",
            "stop": "generationConfig.stopSequences",
            "effort": "generationConfig.thinkingConfig.thinkingLevel",
            "thinking": "generationConfig.thinkingConfig.thinkingBudget",
        },
        choice=_gemini_choice,
    ),
    "bedrock": Envelope(
        model="modelId",
        tools=lambda tools: {"toolConfig": {"tools": tools}},
        tool=lambda tool: {"toolSpec": _described(tool, inputSchema={"json": _schema(tool)})},
        params={
            "max_tokens": "inferenceConfig.maxTokens",
            "temperature": "inferenceConfig.temperature",
            "top_p": "inferenceConfig.topP",
            "stop": "inferenceConfig.stopSequences",
        },
        choice=_bedrock_choice,
    ),
}
